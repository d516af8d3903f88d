"""LU factorisation, and what follows from it: determinants and systems of linear equations."""

from __future__ import annotations

import math
from typing import Any

import mlx.core as mx

from ..errors import refuse
from ..isa import Array, Int, cast, instruction
from ..lowering import lowers
from .arithmetic import add, literal, multiply, remainder, subtract
from .bitwise import bitwise_and
from .compare import equal, greater_equal, less_equal, not_equal, where
from .create import arange, eye, full
from .diagonal import diagonal, tril, triu
from .index import broadcast_shape, take_along_axis
from .linalg import (
    adjoint,
    assert_none,
    check_matrices,
    check_steps,
    columns,
    decomposable,
    few_steps,
    first_bad,
)
from .linear import product
from .reduce import all_, prod, sum_
from .scalar import assert_scalar
from .shape import broadcast_to, expand_dims
from .sort import argsort
from .triangular import solve_triangular, substituted
from .unary import abs_, log, sign


@instruction(chain=0, fails=True)
def lu_factor(x: Array) -> tuple[Array, Array, Array]:
    """L and U of matrices (..., m, n) in one (the ones on L's diagonal left out), the pivots, the permutation.

    Row i was exchanged with row pivots[i], one after another, for each i below min(m, n); in the end row i of L @ U is
    row permutation[i] of x. Both int32. A 0 on the diagonal of U means that x is singular. float32, float64, or
    complex64 with min(m, n) at most 2048; of complex numbers the pivot has the largest |real| + |imag|.
    """
    check_matrices(x)
    batch, rows, steps = x.shape[:-2], x.shape[-2], min(x.shape[-2:])
    if x.size == 0:
        order = mx.broadcast_to(mx.arange(rows, dtype=mx.int32), (*batch, rows))
        return x, mx.zeros((*batch, steps), mx.int32), order
    with mx.stream(mx.cpu):
        if x.dtype == mx.complex64:
            check_steps(steps)
            return _complex_lu(x)
        lu, pivots = mx.linalg.lu_factor(x)
        permutation = mx.argsort(mx.linalg.lu(x)[0], axis=-1)
        return lu, pivots.astype(mx.int32), permutation.astype(mx.int32)


def _complex_lu(x: mx.array) -> tuple[mx.array, mx.array, mx.array]:
    """As lu_factor, by halves of the columns, so that most of the work is matrix products."""
    rows, width = x.shape[-2:]
    if rows == 1:
        zero = mx.zeros((*x.shape[:-2], 1), mx.int32)
        return x, zero, zero
    if width == 1:
        return _pivoted(x)
    half = min(rows, width) // 2
    left, pivots, order = _complex_lu(x[..., :half])
    right = rows_in_order(x[..., half:], order)
    top = substituted(left[..., :half, :], right[..., :half, :], False, True)
    rest, later, below = _complex_lu(right[..., half:, :] - product(left[..., half:, :], top))
    first = mx.concatenate([left[..., :half, :], rows_in_order(left[..., half:, :], below)], -2)
    second = mx.concatenate([top, rest], -2)
    order = mx.concatenate([order[..., :half], mx.take_along_axis(order[..., half:], below, -1)], -1)
    return mx.concatenate([first, second], -1), mx.concatenate([pivots, later + half], -1), order


def _pivoted(x: mx.array) -> tuple[mx.array, mx.array, mx.array]:
    """A column (..., m, 1), its largest element exchanged with the first, by which the rest is divided."""
    size = mx.abs(mx.real(x)) + mx.abs(mx.imag(x))
    pivot = mx.argmax(mx.squeeze(size, -1), -1, keepdims=True).astype(mx.int32)
    rows = mx.arange(x.shape[-2], dtype=mx.int32)
    order = mx.where(rows == 0, pivot, mx.where(rows == pivot, mx.array(0, mx.int32), rows))
    x = rows_in_order(x, order)
    first = x[..., :1, :]
    rest = x[..., 1:, :] / mx.where(first == 0, mx.ones_like(first), first)
    return mx.concatenate([first, rest], -2), pivot, order


def rows_in_order(x: mx.array, order: mx.array) -> mx.array:
    """Row order[i] of x as row i."""
    return mx.take_along_axis(x, mx.broadcast_to(mx.expand_dims(order, -1), x.shape), -2)


@instruction(chain=0)
def order_of_pivots(pivots: Array, rows: Int) -> Array:
    """Where each of `rows` rows comes from after row i was exchanged with row pivots[i], for one i after another.

    pivots: int32 (..., k), k at most 2048 and `rows`; the result int32 (..., rows). A pivot out of range means
    nothing.
    """
    if pivots.dtype != mx.int32 or not pivots.ndim:
        raise ValueError("pivots are vectors of int32")
    check_steps(pivots.shape[-1])
    if pivots.shape[-1] > rows:
        raise ValueError(f"{pivots.shape[-1]} pivots for {rows} rows")
    places = mx.arange(rows, dtype=mx.int32)
    order = mx.broadcast_to(places, (*pivots.shape[:-1], rows))
    for i in range(pivots.shape[-1]):
        pivot, mine = pivots[..., i : i + 1], order[..., i : i + 1]
        other = mx.sum(mx.where(places == pivot, order, mx.array(0, mx.int32)), -1, keepdims=True)
        order = mx.where(places == i, other, mx.where(places == pivot, mine, order))
    return order


def lu_info(lu: Any) -> Any:
    return first_bad(not_equal(diagonal(lu, 0, lu.ndim - 2, lu.ndim - 1), literal(0.0, lu.dtype)))


def factored(x: Any) -> Any:
    """lu_factor, unless it is refused."""
    decomposable(x)
    if x.dtype == mx.complex64:
        few_steps(*x.shape[-2:])
    return lu_factor(x)


@lowers("aten.linalg_lu_factor")
def linalg_lu_factor(A):
    lu, pivots, info = linalg_lu_factor_ex(A)
    assert_none(info, "linalg.lu_factor: U is singular")
    return [lu, pivots]


@lowers("aten.linalg_lu_factor_ex")
def linalg_lu_factor_ex(A, check_errors=False):
    lu, pivots, _ = factored(A)
    info = lu_info(lu)
    if check_errors:
        assert_none(info, "linalg.lu_factor_ex: U is singular")
    return [lu, add(pivots, 1), info]


@lowers("aten._lu_with_info")
def lu_with_info(self, check_errors=True):
    return linalg_lu_factor_ex(self, check_errors)


@lowers("aten.linalg_lu")
def linalg_lu(A):
    lu, _, permutation = factored(A)
    return [permutation_matrix(permutation, A.dtype), *_triangles(lu)]


def permutation_matrix(permutation: Any, dtype: Any) -> Any:
    """P (..., m, m), with which row permutation[i] of P @ y is row i of y."""
    rows = expand_dims(arange(0, permutation.shape[-1], 1, mx.int32), [1])
    return cast(equal(expand_dims(permutation, [-2]), rows), dtype)


def _triangles(lu: Any) -> list[Any]:
    """L and U of what lu_factor gives."""
    rows, width = lu.shape[-2:]
    if not isinstance(rows, int) or not isinstance(width, int):
        raise refuse("L and U of matrices of a dynamic size are not supported")
    size = min(rows, width)
    lower = add(tril(columns(lu, size, lu.ndim - 1), -1), eye(rows, size, 0, lu.dtype))
    return [lower, triu(columns(lu, size, lu.ndim - 2), 0)]


@lowers("aten.lu_unpack")
def lu_unpack(LU_data, LU_pivots, unpack_data=True, unpack_pivots=True):
    nothing = full([0], 0, LU_data.dtype)
    order = _order(LU_pivots, LU_data.shape[-2], "lu_unpack") if unpack_pivots else None
    p = nothing if order is None else permutation_matrix(order, LU_data.dtype)
    return [p, *(_triangles(LU_data) if unpack_data else (nothing, nothing))]


def _order(pivots: Any, rows: Any, name: str) -> Any:
    """The permutation of PyTorch's pivots, which count from 1."""
    few_steps(pivots.shape[-1])
    valid = all_(
        bitwise_and(greater_equal(pivots, 1), less_equal(pivots, rows)), list(range(pivots.ndim)), False
    )
    assert_scalar(valid, f"{name}: pivots must be between 1 and the number of rows")
    return order_of_pivots(subtract(pivots, 1), rows)


@lowers("aten.linalg_lu_solve")
def linalg_lu_solve(LU, pivots, B, left=True, adjoint=False):
    decomposable(LU, B)
    few_steps(LU.shape[-1])
    return lu_solved(LU, _order(pivots, LU.shape[-1], "linalg.lu_solve"), B, left, adjoint)


@lowers("aten.lu_solve")
def lu_solve(self, LU_data, LU_pivots):
    return linalg_lu_solve(LU_data, LU_pivots, self)


def lu_solved(lu: Any, order: Any, b: Any, left: bool = True, adjoined: bool = False) -> Any:
    """x with A @ x = b (x @ A = b from the right), for A or its adjoint, as L, U and permutation."""
    if not left:
        return adjoint(lu_solved(lu, order, adjoint(b), True, not adjoined))
    if not adjoined:
        y = solve_triangular(lu, _permuted(b, order), False, True)
        return solve_triangular(lu, y, True, False)
    y = solve_triangular(adjoint(lu), b, False, False)
    y = solve_triangular(adjoint(lu), y, True, True)
    return _permuted(y, argsort(order, order.ndim - 1, False))


def _permuted(b: Any, order: Any) -> Any:
    """Row order[i] of b as row i."""
    shape = [*broadcast_shape(b.shape[:-2], order.shape[:-1]), *b.shape[-2:]]
    indices = broadcast_to(expand_dims(order, [-1]), shape)
    return take_along_axis(broadcast_to(b, shape), indices, len(shape) - 2)


@lowers("aten.det", "aten.linalg_det")
def det(self=None, A=None):
    return linalg_det(self if A is None else A)[0]


@lowers("aten._linalg_det")
def linalg_det(A):
    lu, pivots, _ = factored(A)
    diagonals = diagonal(lu, 0, lu.ndim - 2, lu.ndim - 1)
    value = multiply(prod(diagonals, [diagonals.ndim - 1], False), _sign(pivots, A.dtype))
    return [value, lu, add(pivots, 1)]


def _sign(pivots: Any, dtype: Any) -> Any:
    """-1 for an odd number of exchanges, else 1."""
    moved = not_equal(pivots, arange(0, pivots.shape[-1], 1, mx.int32))
    odd = remainder(sum_(cast(moved, mx.int32), [pivots.ndim - 1], False), 2)
    return cast(subtract(1, multiply(odd, 2)), dtype)


@lowers("aten.slogdet", "aten.linalg_slogdet")
def slogdet(self=None, A=None):
    return linalg_slogdet(self if A is None else A)[:2]


@lowers("aten._linalg_slogdet")
def linalg_slogdet(A):
    lu, pivots, _ = factored(A)
    diagonals = diagonal(lu, 0, lu.ndim - 2, lu.ndim - 1)
    last = [diagonals.ndim - 1]
    signs = multiply(prod(sign(diagonals), last, False), _sign(pivots, A.dtype))
    return [signs, sum_(log(abs_(diagonals)), last, False), lu, add(pivots, 1)]


@lowers("aten.logdet")
def logdet(self):
    signs, size = slogdet(self)
    if self.dtype == mx.complex64:
        return add(log(signs), cast(size, mx.complex64))
    return where(equal(signs, -1.0), literal(math.nan, size.dtype), size)
