"""Cholesky factorisation of symmetric and Hermitian matrices, and systems of equations by it."""

from __future__ import annotations

import mlx.core as mx

from ..isa import Array, instruction
from ..lowering import lowers
from .compare import greater, not_equal
from .create import eye
from .diagonal import diagonal
from .linalg import (
    adjoint,
    assert_none,
    check_matrices,
    decomposable,
    few_steps,
    first_bad,
    real_part,
)
from .linear import matmul
from .triangular import solve_triangular


@instruction(fails=True)
def cholesky(x: Array, upper: bool) -> Array:
    """L with L @ L.H = x, or L.H if `upper`, of Hermitian matrices, of which only this triangle is read.

    If x is not positive definite, the first element on the diagonal that is not above 0 says at which step it failed,
    and what comes after means nothing. float32, float64 or complex64.
    """
    check_matrices(x, square=True)
    with mx.stream(mx.cpu):
        return _complex_cholesky(x, upper) if x.dtype == mx.complex64 else mx.linalg.cholesky(x, upper=upper)


def _complex_cholesky(x: mx.array, upper: bool) -> mx.array:
    """By way of a real matrix twice as large, with the block [[a, -b], [b, a]] for each element a + b * i.

    Its factor is unique and consists of such blocks, too, with b = 0 on the diagonal.
    """
    n = x.shape[-1]
    a = mx.real(x)
    b = mx.where(mx.eye(n, dtype=mx.bool_), mx.array(0.0), mx.imag(x))
    blocks = mx.stack([mx.stack([a, -b], -1), mx.stack([b, a], -1)], -3)  # (..., n, 2, n, 2)
    factor = mx.linalg.cholesky(mx.reshape(blocks, (*x.shape[:-2], 2 * n, 2 * n)), upper=upper)
    real, imag = factor[..., ::2, ::2], factor[..., 1::2, ::2]
    # Of the two elements on a block's diagonal, either may be the first that is not above 0.
    both = mx.minimum(real, factor[..., 1::2, 1::2])
    real = mx.where((both > 0) | ~mx.eye(n, dtype=mx.bool_), real, both)
    return mx.squeeze(mx.view(mx.stack([real, imag], -1), mx.complex64), -1)


@lowers("aten.cholesky", "aten.linalg_cholesky")
def cholesky_(self, upper=False):
    result, info = cholesky_ex(self, upper)
    assert_none(info, "linalg.cholesky: the matrix is not positive definite")
    return result


@lowers("aten.linalg_cholesky_ex")
def cholesky_ex(self, upper=False, check_errors=False):
    decomposable(self)
    result = cholesky(self, upper)
    info = first_bad(greater(real_part(diagonal(result, 0, result.ndim - 2, result.ndim - 1)), 0.0))
    if check_errors:
        assert_none(info, "linalg.cholesky_ex: the matrix is not positive definite")
    return [result, info]


@lowers("aten.cholesky_solve")
def cholesky_solve(self, input2, upper=False):
    return _solve(input2, self, upper)


@lowers("aten._cholesky_solve_helper")
def cholesky_solve_helper(self, A, upper):
    return _solve(A, self, upper)


def _solve(factor, b, upper):
    """x with L @ L.H @ x = b."""
    decomposable(factor, b)
    few_steps(factor.shape[-1])
    lower, higher = (adjoint(factor), factor) if upper else (factor, adjoint(factor))
    return solve_triangular(higher, solve_triangular(lower, b, False, False), True, False)


@lowers("aten.cholesky_inverse")
def cholesky_inverse(self, upper=False):
    decomposable(self)
    few_steps(self.shape[-1])
    regular = not_equal(diagonal(self, 0, self.ndim - 2, self.ndim - 1), 0.0)
    assert_none(first_bad(regular), "cholesky_inverse: a diagonal element is zero")
    one = eye(self.shape[-1], self.shape[-1], 0, self.dtype)
    root = solve_triangular(adjoint(self) if upper else self, one, False, False)
    return matmul(adjoint(root), root)
