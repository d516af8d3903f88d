"""New arrays: filled, ranges, identity matrices, one-hot codes."""

from __future__ import annotations

import math

import mlx.core as mx
import numpy as np

from ..isa import Array, DType, Int, Number, cast, complex_constant, instruction, scalar_array
from ..lowering import HALVES, lowers
from ..record import active
from ..values import Value
from .compare import equal
from .reduce import max_
from .scalar import to_number
from .shape import MAX_SIZE, broadcast_to, check_shape, check_sizes, expand_dims, reshape

EXACT_FLOAT32 = 2**24
EXACT_FLOAT64 = 2**53


@instruction
def full(shape: list[Int], value: Number, dtype: DType) -> Array:
    """An array with `value` everywhere, exact for every dtype; integers wrap, non-zero is true for bool."""
    return mx.full(check_shape(shape), scalar_array(value, dtype))


@instruction
def arange(start: Number, stop: Number, step: Number, dtype: DType) -> Array:
    """start, start + step, start + 2 step, … up to but without stop: ceil((stop - start) / step) elements.

    Element i is start + i * step, computed without accumulation: in float32 for half precision, with the error of
    float64 for float32, in wrapping int64 for integers. Integers take start and step truncated, int64 stop as well.
    """
    if dtype == mx.int64:
        start, stop, step = int(start), int(stop), int(step)
        count = -(-(stop - start) // step)
    else:
        count = math.ceil((float(stop) - float(start)) / float(step))
    (count,) = check_sizes([max(0, count)])
    if mx.issubdtype(dtype, mx.integer):
        return _whole_ramp(int(start), int(step), count, dtype)
    whole = isinstance(start, int) and isinstance(step, int)
    reach = max(abs(start), abs(start + count * step), abs(step))
    if whole and reach <= EXACT_FLOAT32:
        return mx.arange(start, start + count * step, step, mx.float32).astype(dtype)
    if dtype in HALVES:
        ramp = mx.arange(count).astype(mx.float32)
        return (mx.array(start, mx.float32) + mx.array(step, mx.float32) * ramp).astype(dtype)
    if dtype == mx.float32 and reach < 2.0**127:
        return _fixed_point_ramp(start, step, count, reach)
    return mx.array(start, dtype) + mx.array(step, dtype) * mx.arange(count).astype(dtype)


def _whole_ramp(start: int, step: int, count: int, dtype: mx.Dtype) -> mx.array:
    limit = {mx.int64: EXACT_FLOAT64, mx.int32: MAX_SIZE}.get(dtype, 0)
    if max(abs(start), abs(start + count * step)) <= limit:
        return mx.arange(start, start + count * step, step, dtype)
    ramp = mx.arange(count).astype(mx.int64)
    return (scalar_array(start, mx.int64) + scalar_array(step, mx.int64) * ramp).astype(dtype)


def _fixed_point_ramp(start: float, step: float, count: int, reach: float) -> mx.array:
    """A float32 ramp with the precision of float64, which GPUs lack.

    start and step become 64-bit multiples of a power of two; `reach` is the largest magnitude.
    """
    shift = 61 - math.frexp(max(reach, 2.0**-60))[1]
    first, increment = (round(math.ldexp(n, shift)) for n in (start, step))
    ramp = mx.array(first, mx.int64) + mx.array(increment, mx.int64) * mx.arange(count).astype(mx.int64)
    return ramp.astype(mx.float32) * mx.array(math.ldexp(1.0, -shift), mx.float32)


@instruction
def eye(n: Int, m: Int, k: Int, dtype: DType) -> Array:
    """An n by m matrix with ones where column - row is k, and zeros elsewhere."""
    check_shape([n, m])
    k = max(-MAX_SIZE, min(k, MAX_SIZE))
    rows, columns = mx.arange(n).astype(mx.int64), mx.arange(m).astype(mx.int64)
    return (mx.expand_dims(rows, 1) + k == columns).astype(dtype)


def filled(shape, value, dtype):
    """A literal, a host number or a 0-d array in every place of a new array."""
    if isinstance(value, complex):
        value = complex_constant(value.real, value.imag)
    if dtype == mx.uint64 and type(value) is int and value >= 1 << 63:
        value -= 1 << 64  # the same, in the range of a file's integers
    if isinstance(value, Value):
        return broadcast_to(cast(reshape(value, []), dtype), shape)
    return full(shape, value, dtype)


@lowers("aten.full")
def full_(size, fill_value, dtype, result):
    return filled(size, fill_value, result.dtype)


@lowers("aten.full_like")
def full_like(self, fill_value, dtype, result):
    return filled(self.shape, fill_value, result.dtype)


@lowers("aten.new_full")
def new_full(self, size, fill_value, dtype, result):
    return filled(size, fill_value, result.dtype)


@lowers("aten.zeros", "aten.empty.memory_format", "aten._efficientzerotensor")
def zeros(size, dtype, result):
    """What PyTorch leaves undefined is zero."""
    return filled(size, 0, result.dtype)


@lowers("aten.zeros_like", "aten.empty_like")
def zeros_like(self, dtype, result):
    return filled(self.shape, 0, result.dtype)


@lowers("aten.new_zeros", "aten.new_empty")
def new_zeros(self, size, dtype, result):
    return filled(size, 0, result.dtype)


@lowers("aten.empty_permuted")
def empty_permuted(size, physical_layout, dtype, result):
    return filled(size, 0, result.dtype)


@lowers("aten.empty_strided")
def empty_strided(size, stride, dtype, result):
    return filled(size, 0, result.dtype)


@lowers("aten.new_empty_strided")
def new_empty_strided(self, size, stride, dtype, result):
    return filled(size, 0, result.dtype)


@lowers("aten.ones")
def ones(size, dtype, result):
    return filled(size, 1, result.dtype)


@lowers("aten.ones_like")
def ones_like(self, dtype, result):
    return filled(self.shape, 1, result.dtype)


@lowers("aten.new_ones")
def new_ones(self, size, dtype, result):
    return filled(size, 1, result.dtype)


@lowers("aten.scalar_tensor")
def scalar_tensor(s, dtype, result):
    return filled([], s, result.dtype)


@lowers("aten.arange", "aten.arange.start", "aten.arange.start_step")
def arange_(end, dtype, result, start=0, step=1):
    return arange(start, end, step, result.dtype)


@lowers("aten.range", "aten.range.step")
def range_(start, end, dtype, result, step=1):
    """`end` is included. Stopping half a step behind the last element leaves no doubt about their number."""
    (count,) = result.shape
    stop = start + (count if result.dtype == mx.int64 else count - 0.5) * step
    return arange(start, stop, step, result.dtype)


def literal(values, dtype):
    """A table computed at conversion, as a weight of the program."""
    wide = mx.int64 if values.dtype == np.int64 else mx.float64
    with mx.stream(mx.cpu):
        return active().literal(mx.array(values, wide).astype(dtype))


@lowers("aten.eye")
def eye_(n, dtype, result):
    return eye(n, n, 0, result.dtype)


@lowers("aten.eye.m")
def eye_m(n, m, dtype, result):
    return eye(n, m, 0, result.dtype)


@lowers("aten.one_hot")
def one_hot(self, num_classes):
    """Without a number of classes it is the largest class + 1, which waits for the device."""
    if num_classes == -1:
        num_classes = to_number(max_(self, list(range(self.ndim)), False)) + 1
    return cast(equal(expand_dims(self, [-1]), arange(0, num_classes, 1, self.dtype)), mx.int64)
