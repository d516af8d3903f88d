"""Running sums, products and extremes along an axis, and differences."""

from __future__ import annotations

import math
from collections.abc import Callable

import mlx.core as mx

from ..device import on_cpu
from ..isa import Array, cast, instruction
from ..lowering import as_array, lowers, result_type
from .arithmetic import logaddexp, subtract
from .axes import axis_of
from .bitwise import bitwise_or, bitwise_xor
from .compare import equal, not_equal, where
from .create import arange
from .join import concatenate
from .reduce import PIECE, accumulator
from .shape import reshape, slice_


@instruction
def cumsum(x: Array, axis: int) -> Array:
    """Running sums along an axis. Integers and bool give int64, which wraps; halves are added in float32."""
    return _running(mx.cumsum, x, axis)


@instruction
def cumprod(x: Array, axis: int) -> Array:
    """Running products along an axis. Integers and bool give int64, which wraps; halves are multiplied in float32."""
    return _running(mx.cumprod, x, axis)


def _running(op: Callable[..., mx.array], x: mx.array, axis: int) -> mx.array:
    wide = accumulator(x.dtype)
    result = wide if wide == mx.int64 else x.dtype
    if wide == mx.float32 and on_cpu() and x.shape[axis] > PIECE:
        wide = mx.float64  # one after another in float32 would lose digits, and stop at 2**24
    return op(x.astype(wide), axis=axis).astype(result)


@instruction
def cummax(x: Array, axis: int) -> Array:
    """The largest element so far along an axis; NaN from the first NaN on. Not for complex numbers."""
    return _extreme(mx.cummax, x, axis)


@instruction
def cummin(x: Array, axis: int) -> Array:
    """The smallest element so far along an axis; NaN from the first NaN on. Not for complex numbers."""
    return _extreme(mx.cummin, x, axis)


def _extreme(op: Callable[..., mx.array], x: mx.array, axis: int) -> mx.array:
    if not mx.issubdtype(x.dtype, mx.floating):
        return op(x, axis=axis)
    # A CPU takes a half NaN for 0 and GPUs may skip NaN, so NaN are looked for by themselves.
    wide = x.astype(accumulator(x.dtype))
    if not on_cpu():
        nan = mx.isnan(wide)
        wide = op(mx.where(nan, mx.zeros_like(wide), wide), axis=axis)
        wide = mx.where(mx.cummax(nan.astype(mx.int32), axis=axis) > 0, mx.array(math.nan, wide.dtype), wide)
        return wide.astype(x.dtype)
    return op(wide, axis=axis).astype(x.dtype)


@instruction(chain=256)
def logcumsumexp(x: Array, axis: int) -> Array:
    """log(cumsum(exp(x))) along an axis of floats, without overflow. Halves in float32."""
    if x.dtype == mx.float64:
        return _doubled(logaddexp, x, axis)  # MLX's has the precision of float32
    return mx.logcumsumexp(x.astype(accumulator(x.dtype)), axis=axis).astype(x.dtype)


def _doubled(op: Callable[..., mx.array], x: mx.array, axis: int) -> mx.array:
    """The scan of an associative op: each step joins runs of twice the length (Hillis and Steele 1986)."""
    x = mx.moveaxis(x, axis, 0)
    step = 1
    while step < x.shape[0]:
        x = mx.concatenate([x[:step], op(x[:-step], x[step:])])
        step *= 2
    return mx.moveaxis(x, 0, axis)


def along(function, x, dim):
    """The result(s) of a function of an array and an axis; a 0-d x has one axis of size 1."""
    if x.ndim:
        return function(x, axis_of(x, dim))
    results = function(reshape(x, [1]), axis_of(x, dim))
    return tuple(reshape(r, []) for r in results) if isinstance(results, tuple) else reshape(results, [])


@lowers("aten.cumsum")
def cumsum_(self, dim, dtype=None):
    return along(cumsum, self if dtype is None else cast(self, dtype), dim)


@lowers("aten.cumprod")
def cumprod_(self, dim, dtype=None):
    return along(cumprod, self if dtype is None else cast(self, dtype), dim)


@lowers("aten.logcumsumexp")
def logcumsumexp_(self, dim):
    return along(logcumsumexp, self, dim)


@lowers("aten.cummax")
def cummax_(self, dim):
    return _with_positions(cummax, self, dim)


@lowers("aten.cummin")
def cummin_(self, dim):
    return _with_positions(cummin, self, dim)


def _with_positions(op, x, dim):
    """Running extremes and where each was last met: the last of equal ones, the last NaN."""

    def positions(x, axis):
        extremes = op(x, axis)
        met = equal(x, extremes)
        if mx.issubdtype(x.dtype, mx.floating):
            met = bitwise_or(met, not_equal(x, x))
        return cummax(where(met, indices_along(x, axis), as_array(0, mx.int64)), axis)

    return along(op, x, dim), along(positions, x, dim)


def indices_along(x, axis):
    """0, 1, 2, … along an axis, to broadcast against x."""
    return reshape(arange(0, x.shape[axis], 1, mx.int64), [-1 if a == axis else 1 for a in range(x.ndim)])


@lowers("aten.diff")
def diff(self, n=1, dim=-1, prepend=None, append=None):
    axis = axis_of(self, dim)
    if n == 0:
        return self  # without what is put before and after it
    parts = [part for part in (prepend, self, append) if part is not None]
    x = concatenate([as_array(p, result_type(parts)) for p in parts], axis) if len(parts) > 1 else self
    difference = bitwise_xor if x.dtype == mx.bool_ else subtract
    for _ in range(n):
        x = difference(_from(x, 1, axis), _but_last(x, axis))
    return x


def _from(x, start, axis):
    return slice_(x, [start], [x.shape[axis]], [1], [axis])


def _but_last(x, axis):
    return slice_(x, [0], [-1], [1], [axis])
