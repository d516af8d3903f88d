"""Sorting, the largest elements, and searching in what is sorted. NaN is larger than any number."""

from __future__ import annotations

from typing import Literal

import mlx.core as mx

from ..device import on_cpu
from ..errors import refuse
from ..isa import Array, Int, instruction
from ..lowering import lowers
from .index import take_along_axis
from .reduce import normal_axes
from .scan import along
from .shape import slice_at, squeeze

Side = Literal["left", "right"]


@instruction
def sort(x: Array, axis: int) -> Array:
    """x in ascending order along an axis, NaN last. Not for complex numbers."""
    return mx.sort(_sortable(x), axis=axis).astype(x.dtype)


@instruction
def argsort(x: Array, axis: int, descending: bool) -> Array:
    """The int64 indices that sort x along an axis: equal elements in the order of x, NaN as the largest."""
    return _order(x, axis, descending).astype(mx.int64)


def _sortable(x: mx.array) -> mx.array:
    if x.dtype == mx.complex64:
        raise ValueError("complex numbers have no order")
    return x.astype(mx.uint8) if x.dtype == mx.bool_ else x  # GPUs do not sort bools


def _order(x: mx.array, axis: int, descending: bool) -> mx.array:
    x = _sortable(x)
    if not descending:
        return mx.argsort(x, axis=axis)
    # From the end of the sorted reversal, so that equal elements keep their order.
    return mx.subtract(
        mx.array(x.shape[axis] - 1, mx.uint32), mx.flip(mx.argsort(mx.flip(x, axis), axis=axis), axis)
    )


@instruction
def topk(x: Array, k: Int, axis: int, largest: bool) -> tuple[Array, Array]:
    """The k largest elements along an axis in descending order (or the smallest, ascending), and their int64 indices.

    NaN is the largest. Which of equal elements are taken depends on the device.
    """
    (axis,), n = normal_axes(x, [axis]), x.shape[axis]
    if not 0 <= k <= n:
        raise ValueError(f"there are no {k} largest of {n} elements")
    if on_cpu() and n >= 64 and 0 < k <= n // 8 and x.size:  # GPUs partition by sorting
        keys = _sortable(x)
        found = mx.argpartition(keys, n - k if largest else k - 1, axis=axis)
        some = mx.sort(_cut(found, n - k, n, axis) if largest else _cut(found, 0, k, axis), axis=axis)
        order = _order(mx.take_along_axis(keys, some, axis=axis), axis, largest)
        indices = mx.take_along_axis(some, order, axis=axis)
    else:
        indices = _cut(_order(x, axis, largest), 0, k, axis)
    values = mx.take_along_axis(x, indices, axis=axis) if indices.size else mx.zeros(indices.shape, x.dtype)
    return values, indices.astype(mx.int64)


def _cut(x: mx.array, start: int, stop: int, axis: int) -> mx.array:
    return x[(slice(None),) * axis + (slice(start, stop),)]


@instruction(chain=512)
def searchsorted(sequence: Array, values: Array, side: Side) -> Array:
    """Where values belong in an ascending sequence: how many of its elements are < ("left") or <= ("right") them, int64.

    A 1-d sequence serves values of any shape. Otherwise both have the same axes before the last one, and each row of
    the sequence serves a row of values. NaN belongs at the end. Both of one dtype.
    """
    if sequence.ndim == 0 or sequence.dtype != values.dtype:
        raise ValueError("searchsorted needs a sequence and values of one dtype")
    n = sequence.shape[-1]
    if n == 0 or values.size == 0:
        return mx.zeros(values.shape, mx.int64)
    if sequence.ndim == 1:
        found = mx.searchsorted(sequence, values, side=side)
    elif sequence.shape[:-1] == values.shape[:-1]:
        found = _bisect(sequence, values, side)
    else:
        raise ValueError(f"a sequence of shape {sequence.shape} cannot serve values of shape {values.shape}")
    if mx.issubdtype(values.dtype, mx.floating):
        found = mx.where(mx.isnan(values), mx.array(n, mx.uint32), found)
    return found.astype(mx.int64)


def _bisect(sequence: mx.array, values: mx.array, side: str) -> mx.array:
    """searchsorted row by row."""
    n = sequence.shape[-1]
    low, high = mx.zeros(values.shape, mx.uint32), mx.full(values.shape, n, mx.uint32)
    for _ in range(n.bit_length()):
        middle = (low + high) // 2
        element = mx.take_along_axis(sequence, mx.minimum(middle, n - 1), axis=-1)
        after = (middle < high) & ((element <= values) if side == "right" else (element < values))
        low, high = mx.where(after, middle + 1, low), mx.where(after, high, middle)
    return low


def sorted_with_indices(x, axis, descending=False):
    order = argsort(x, axis, descending)
    return take_along_axis(x, order, axis), order


@lowers("aten.sort", "aten.sort.stable")
def sort_(self, dim=-1, descending=False, stable=False):
    return along(lambda x, axis: sorted_with_indices(x, axis, descending), self, dim)


@lowers("aten.argsort", "aten.argsort.stable")
def argsort_(self, dim=-1, descending=False, stable=False):
    return along(lambda x, axis: argsort(x, axis, descending), self, dim)


@lowers("aten.msort")
def msort(self):
    return along(sort, self, 0)


@lowers("aten.topk")
def topk_(self, k, dim=-1, largest=True, sorted=True):
    """`sorted=False` allows any order."""
    return along(lambda x, axis: topk(x, k, axis, largest), self, dim)


@lowers("aten.kthvalue")
def kthvalue(self, k, dim=-1, keepdim=False):
    def function(x, axis):
        values, order = sorted_with_indices(x, axis)
        found = slice_at(values, k - 1, 1, axis), slice_at(order, k - 1, 1, axis)
        return found if keepdim or self.ndim == 0 else tuple(squeeze(f, [axis]) for f in found)

    return along(function, self, dim)


@lowers("aten.searchsorted.Tensor", "aten.searchsorted.Scalar", promote=("sorted_sequence", "self"))
def searchsorted_(sorted_sequence, self, out_int32=False, right=False, side=None, sorter=None):
    if side not in (None, "left", "right") or (side == "left" and right):
        raise refuse(f"side={side!r} with right={right} means nothing")
    if sorter is not None:
        sorted_sequence = take_along_axis(sorted_sequence, sorter, sorter.ndim - 1)
    return searchsorted(sorted_sequence, self, "right" if right or side == "right" else "left")


@lowers("aten.bucketize.Tensor", "aten.bucketize.Scalar", promote=("self", "boundaries"))
def bucketize(self, boundaries, out_int32=False, right=False):
    return searchsorted(boundaries, self, "right" if right else "left")
