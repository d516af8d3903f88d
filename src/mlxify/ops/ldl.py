"""LDL factorisation of symmetric and Hermitian matrices that need not be positive definite (Bunch and Kaufman)."""

from __future__ import annotations

import math

import mlx.core as mx

from ..isa import Array, instruction
from ..lowering import lowers
from .bitwise import bitwise_or
from .compare import less, not_equal
from .diagonal import diagonal
from .index import broadcast_shape
from .linalg import assert_none, check_matrices, check_steps, decomposable, few_steps, first_bad, real_part
from .linear import product
from .lu import rows_in_order
from .shape import broadcast_to
from .triangular import substituted

ALPHA = (1 + math.sqrt(17)) / 8
"""A pivot is good if it is at least this share of the largest element beside it."""


@instruction(chain=0)
def ldl_factor(x: Array, hermitian: bool) -> tuple[Array, Array]:
    """D and the lower L of symmetric (or Hermitian) matrices (..., n, n) in one, and the pivots, as LAPACK has them.

    D consists of blocks of one or two rows. A pivot p > 0, of one row k, says that row and column k were exchanged with
    p - 1 before this step; two equal ones p < 0, of rows k and k + 1, that k + 1 was with -p - 1. Only the lower
    triangle is read. n is at most 2048. float32, float64 or complex64.
    """
    check_matrices(x, square=True)
    check_steps(x.shape[-1])
    n = x.shape[-1]
    if x.size == 0:
        return x, mx.zeros(x.shape[:-1], mx.int32)
    with mx.stream(mx.cpu):
        lower = mx.tril(x, -1)
        diagonals = mx.diagonal(x, 0, -2, -1)
        if hermitian and x.dtype == mx.complex64:
            diagonals = mx.real(diagonals).astype(x.dtype)
        flipped = _turned(lower, hermitian)
        rest = lower + flipped + mx.expand_dims(diagonals, -1) * mx.eye(n, dtype=x.dtype)
        columns, pivots = [], []
        second = mx.zeros((*x.shape[:-2], 1, 1), mx.bool_)
        waiting = (rest[..., :1], mx.zeros(second.shape, mx.int32))
        for k in range(n):
            column, following, pivot, reduced, double = _step(rest, k, hermitian)
            columns.append(mx.where(second, waiting[0], column))
            pivots.append(mx.where(second, waiting[1], pivot))
            rest = mx.where(second, rest, reduced)
            waiting, second = (following, pivot), double & ~second
        return mx.tril(mx.concatenate(columns, -1)), mx.squeeze(mx.concatenate(pivots, -1), -2)


def _turned(x: mx.array, hermitian: bool) -> mx.array:
    """The transpose, or the adjoint."""
    x = mx.swapaxes(x, -1, -2)
    return mx.conjugate(x) if hermitian and x.dtype == mx.complex64 else x


def _size(x: mx.array) -> mx.array:
    return mx.abs(mx.real(x)) + mx.abs(mx.imag(x)) if x.dtype == mx.complex64 else mx.abs(x)


def _step(a: mx.array, k: int, hermitian: bool) -> tuple[mx.array, mx.array, mx.array, mx.array, mx.array]:
    """Columns k and k + 1 of the factor (the second only of a block of two), the pivot, what is left, if it is two."""
    n = a.shape[-1]
    rows = mx.expand_dims(mx.arange(n, dtype=mx.int32), -1)
    kp, double = _choice(a, k, rows)
    kk = mx.where(double, mx.array(k + 1, mx.int32), mx.array(k, mx.int32))
    order = mx.where(rows == kk, kp, mx.where(rows == kp, kk, rows))[..., 0]
    a = rows_in_order(mx.swapaxes(rows_in_order(a, order), -1, -2), order)
    a = mx.swapaxes(a, -1, -2)
    after = min(k + 1, n - 1)  # of the last row a block of two does not begin
    first, second = (mx.where(rows >= k, a[..., i : i + 1], mx.zeros_like(a[..., :1])) for i in (k, after))
    one = mx.array(1, a.dtype)
    d, e, f = (
        a[..., k : k + 1, k : k + 1],
        a[..., after : after + 1, k : k + 1],
        a[..., after : after + 1, after : after + 1],
    )
    single = first / mx.where(d == 0, one, d)
    # The inverse of the block [[d, e.H], [e, f]], all divided by e.
    e = mx.where(double, e, one)
    turned = _turned(e, hermitian)
    scale = one / ((d / turned) * (f / e) - one)
    left = (first * (f / e) - second) * scale / turned
    right = (second * (d / turned) - first) * scale / e
    inside = mx.where(double, rows > k + 1, rows > k)
    zero = mx.zeros_like(first)
    w = mx.concatenate(
        [mx.where(inside, mx.where(double, left, single), zero), mx.where(inside & double, right, zero)], -1
    )
    both = mx.concatenate([mx.where(inside, first, zero), mx.where(inside, second, zero)], -1)
    reduced = a - product(both, _turned(w, hermitian))
    if hermitian and a.dtype == mx.complex64:
        reduced = mx.where(mx.eye(n, dtype=mx.bool_), mx.real(reduced).astype(a.dtype), reduced)
    column = mx.where(inside, w[..., :1], first)
    following = mx.where(inside, w[..., 1:], second)
    pivot = mx.where(double, -(kp + 1), kp + 1)
    return column, following, pivot, reduced, double


def _choice(a: mx.array, k: int, rows: mx.array) -> tuple[mx.array, mx.array]:
    """Which row and column becomes the next, and whether the block has two of them."""
    none = mx.array(0, mx.abs(a[..., :0]).dtype)
    size = _size(a[..., k : k + 1])
    mine = size[..., k : k + 1, :]
    beside = mx.where(rows > k, size, none)
    largest = mx.max(beside, -2, keepdims=True)
    place = mx.where(
        largest > 0, mx.argmax(beside, -2, keepdims=True).astype(mx.int32), mx.array(k, mx.int32)
    )
    other = _size(mx.take_along_axis(a, mx.broadcast_to(place, (*a.shape[:-1], 1)), -1))
    in_row = mx.max(mx.where((rows >= k) & (rows != place), other, none), -2, keepdims=True)
    its_own = mx.take_along_axis(other, place, -2)
    stays = (mine >= ALPHA * largest) | (mine >= ALPHA * largest * (largest / in_row)) | mx.isnan(mine)
    single = its_own >= ALPHA * in_row
    return mx.where(stays, mx.array(k, mx.int32), place), ~stays & ~single


@instruction(chain=0)
def ldl_solve(ld: Array, pivots: Array, b: Array, hermitian: bool) -> Array:
    """x with A @ x = b, where `ldl_factor` gave ld (..., n, n) and pivots of A. b: (..., n, k), of the same batch."""
    check_matrices(ld, square=True)
    check_matrices(ld, b)
    n = ld.shape[-1]
    check_steps(n)
    if pivots.dtype != mx.int32 or pivots.shape != ld.shape[:-1] or b.shape[:-1] != ld.shape[:-1]:
        raise ValueError(f"factors of shape {ld.shape}, pivots of {pivots.shape}, right sides of {b.shape}")
    if b.size == 0:
        return b
    with mx.stream(mx.cpu):
        lower, order, first = _standard(ld, pivots)
        y = substituted(lower, rows_in_order(b, order), False, True)
        y = _block_solved(ld, first, y, hermitian)
        y = substituted(_turned(lower, hermitian), y, True, True)
        return rows_in_order(y, mx.argsort(order, -1).astype(mx.int32))


def _standard(ld: mx.array, pivots: mx.array) -> tuple[mx.array, mx.array, mx.array]:
    """L, all of its rows exchanged, their order, and (..., n) whether a block of two begins at each row."""
    n = ld.shape[-1]
    places = mx.arange(n, dtype=mx.int32)
    order = mx.broadcast_to(places, pivots.shape)
    first = mx.zeros((*pivots.shape[:-1], 1), mx.bool_)
    firsts = []
    for k in range(n):
        pivot = pivots[..., k : k + 1]
        second = first & (pivot < 0)
        first = (pivot < 0) & ~second
        firsts.append(first)
        me = mx.array(k, mx.int32)
        other = mx.where(first, me, mx.clip(mx.abs(pivot) - 1, 0, n - 1))
        exchange = mx.where(places == k, other, mx.where(places == other, me, places))
        earlier = mx.expand_dims(places < k - second.astype(mx.int32), -2)
        ld = mx.where(earlier, rows_in_order(ld, exchange), ld)
        order = mx.take_along_axis(order, exchange, -1)
    first = mx.concatenate(firsts, -1)
    inside = mx.expand_dims(first, -2) & mx.eye(n, k=-1, dtype=mx.bool_)  # of D, not L
    return mx.where(inside, mx.zeros_like(ld), mx.tril(ld, -1)), order, first


def _block_solved(ld: mx.array, first: mx.array, b: mx.array, hermitian: bool) -> mx.array:
    """D @ x = b."""
    first = mx.expand_dims(first, -1)
    second = mx.roll(first, 1, -2)
    one = mx.array(1, ld.dtype)
    d = mx.expand_dims(mx.diagonal(ld, 0, -2, -1), -1)
    e = mx.concatenate([mx.expand_dims(mx.diagonal(ld, -1, -2, -1), -1), mx.ones_like(d[..., :1, :])], -2)
    e = mx.where(first, e, one)
    turned = mx.conjugate(e) if hermitian and ld.dtype == mx.complex64 else e

    def after(x: mx.array) -> mx.array:
        return mx.roll(x, -1, -2)

    above, below = d / turned, after(d) / e
    upper, under = b / turned, after(b) / e
    scale = one / (above * below - one)
    x, y = (below * upper - under) * scale, (above * under - upper) * scale
    return mx.where(first, x, mx.where(second, mx.roll(y, 1, -2), b / d))


@lowers("aten.linalg_ldl_factor_ex")
def linalg_ldl_factor_ex(self, hermitian=False, check_errors=False):
    decomposable(self)
    few_steps(self.shape[-1])
    ld, pivots = ldl_factor(self, hermitian)
    diagonals = real_part(diagonal(ld, 0, ld.ndim - 2, ld.ndim - 1))
    info = first_bad(bitwise_or(not_equal(diagonals, 0.0), less(pivots, 0)))
    if check_errors:
        assert_none(info, "linalg.ldl_factor_ex: the matrix is singular")
    return [ld, pivots, info]


@lowers("aten.linalg_ldl_factor")
def linalg_ldl_factor(self, hermitian=False):
    ld, pivots, info = linalg_ldl_factor_ex(self, hermitian)
    assert_none(info, "linalg.ldl_factor: the matrix is singular")
    return [ld, pivots]


@lowers("aten.linalg_ldl_solve")
def linalg_ldl_solve(LD, pivots, B, hermitian=False):
    decomposable(LD, B)
    few_steps(LD.shape[-1])
    batch = broadcast_shape(LD.shape[:-2], B.shape[:-2])
    arrays = [broadcast_to(x, [*batch, *x.shape[-2:]]) for x in (LD, B)]
    return ldl_solve(arrays[0], broadcast_to(pivots, [*batch, LD.shape[-1]]), arrays[1], hermitian)
