"""Systems of linear equations and inverses."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from ..isa import Array, instruction
from ..lowering import lowers
from .axes import axis_of
from .linalg import (
    any_in_last,
    assert_none,
    check_matrices,
    check_steps,
    decomposable,
    few_steps,
    identity_where,
    nan_where,
)
from .lu import lu_factor, lu_info, lu_solved, rows_in_order
from .shape import expand_dims, moved, product, reshape, squeeze
from .triangular import substituted


@instruction(chain=0, fails=True)
def inv(x: Array) -> Array:
    """The inverses of square matrices, (..., n, n). What has none gives NaN, or infinities if it is complex.

    float32, float64, or complex64 with n at most 2048.
    """
    check_matrices(x, square=True)
    if x.size == 0:
        return x
    with mx.stream(mx.cpu):
        if x.dtype == mx.complex64:
            check_steps(x.shape[-1])
            return _complex_inverse(x)
        singular = any_in_last(mx.diagonal(mx.linalg.lu_factor(x)[0], axis1=-2, axis2=-1) == 0)
        # MLX raises for a singular matrix, and does not say for which.
        return nan_where(singular, mx.linalg.inv(identity_where(singular, x)))


def _complex_inverse(x: mx.array) -> mx.array:
    lu, _, order = lu_factor(x)
    one = mx.broadcast_to(mx.eye(x.shape[-1], dtype=x.dtype), x.shape)
    return substituted(lu, substituted(lu, rows_in_order(one, order), False, True), True, False)


@lowers("aten.inverse", "aten.linalg_inv")
def inverse(self=None, A=None):
    result, info = inv_ex(self if A is None else A)
    assert_none(info, "linalg.inv: the matrix is singular")
    return result


@lowers("aten.linalg_inv_ex")
def inv_ex(A, check_errors=False):
    decomposable(A)
    if A.dtype == mx.complex64:
        few_steps(A.shape[-1])
    info = lu_info(lu_factor(A)[0])
    if check_errors:
        assert_none(info, "linalg.inv_ex: the matrix is singular")
    return [inv(A), info]


@lowers("aten.linalg_solve")
def linalg_solve(A, B, left=True):
    result, info = _solved(A, B, left)
    assert_none(info, "linalg.solve: the matrix is singular")
    return result


@lowers("aten.linalg_solve_ex")
def linalg_solve_ex(A, B, left=True, check_errors=False):
    result, info = _solved(A, B, left)
    if check_errors:
        assert_none(info, "linalg.solve_ex: the matrix is singular")
    return [result, info]


@lowers("aten._linalg_solve_ex")
def solve_ex(A, B, left=True, check_errors=False):
    result, info = linalg_solve_ex(A, B, left, check_errors)
    return [result, None, None, info]


def _solved(a: Any, b: Any, left: bool) -> tuple[Any, Any]:
    """x with a @ x = b, or x @ a = b, and where a is singular."""
    decomposable(a, b)
    few_steps(a.shape[-1])
    vectors = b.ndim == 1 or (b.ndim == a.ndim - 1 and _same_shape(b, a))
    lu, _, order = lu_factor(a)
    result = lu_solved(lu, order, expand_dims(b, [-1]) if vectors else b, left)
    return squeeze(result, [result.ndim - 1]) if vectors else result, lu_info(lu)


def _same_shape(b, a):
    """Whether b's shape is that of a without its last axis."""
    return all(h.shape == g.shape[:-1] for h, g in zip(b.hints, a.hints, strict=True))


@lowers("aten.linalg_tensorinv")
def tensorinv(self, ind=2):
    shape = self.shape
    square = reshape(self, [product(shape[:ind]), product(shape[ind:])])
    return reshape(inverse(square), [*shape[ind:], *shape[:ind]])


@lowers("aten.linalg_tensorsolve")
def tensorsolve(self, other, dims=None):
    """x, of the axes of self that are left when those of `other`, the first ones, are taken away."""
    if dims:
        axes = [axis_of(self, d) for d in dims]
        self = moved(self, axes, list(range(self.ndim - len(axes), self.ndim)))
    unknowns = self.shape[other.ndim :]
    square = reshape(self, [other.size, product(unknowns)])
    return reshape(linalg_solve(square, reshape(other, [other.size])), unknowns)
