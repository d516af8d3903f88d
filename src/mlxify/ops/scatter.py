"""Writing by index: scatter and put_along_axis, and PyTorch's scatter and index_* ops along one axis.

Values are never written to: each op gives a new array, and MLX reuses the old one's memory if nobody else holds it.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

import mlx.core as mx

from ..isa import Array, cast, instruction
from ..lowering import as_array, lowers
from .arithmetic import divide, floor_divide, maximum
from .axes import axis_of
from .index import check_known, corner, in_range, scalar_like
from .shape import broadcast_arrays, broadcast_to, distinct_axes, reshape

Reduce = Literal["none", "sum", "prod", "max", "min"]


@instruction
def scatter(x: Array, indices: list[Array], updates: Array, axes: list[int], reduce: Reduce) -> Array:
    """x after updating it at several index arrays at once, one for each of `axes`: the inverse of `gather`.

    `updates` broadcasts to the shape that `gather` would give: the axes of the index arrays (which broadcast
    together), then the other axes of x. `reduce` says how an update joins what is there; NaN wins in max and min. Of
    several updates of one element "none" keeps the last on a CPU and any of them on a GPU. Indices mean elements
    modulo the size of their axis.
    """
    axes = distinct_axes(x, axes)
    if not axes:
        raise ValueError("a scatter needs an axis")
    index = [in_range(i, x.shape[a]) for i, a in zip(indices, axes, strict=True)]
    shape = mx.broadcast_shapes(*(i.shape for i in index))
    rest = [a for a in range(x.ndim) if a not in axes]
    updates = mx.broadcast_to(_like(x, updates), (*shape, *(x.shape[a] for a in rest)))
    if updates.size == 0:
        return x
    # MLX updates whole rows: axes before the last indexed one get an index of their own.
    lead = [a for a in rest if a < max(axes)]
    places: dict[int, mx.array] = {
        a: mx.reshape(i, (*i.shape, *(1 for _ in lead))) for i, a in zip(index, axes, strict=True)
    }
    for place, a in enumerate(lead):
        places[a] = mx.reshape(mx.arange(x.shape[a]), [-1 if i == place else 1 for i in range(len(lead))])
    return _update(x, tuple(places[a] for a in sorted(places)), updates, reduce)


@instruction
def put_along_axis(x: Array, indices: Array, updates: Array, axis: int, reduce: Reduce) -> Array:
    """x after updating x[i, indices[i, j, k], k] with updates[i, j, k] (for axis 1 of 3), as in `scatter`.

    `indices` has the rank of x; on the other axes it may be smaller than x. `updates` has this rank too and is at
    least as large as `indices` on each axis, or it is 0-d.
    """
    part = corner(x, indices, axis)
    updates = _like(x, updates)
    if updates.ndim:
        if updates.ndim != indices.ndim or any(
            n > m for n, m in zip(indices.shape, updates.shape, strict=True)
        ):
            raise ValueError(f"updates of shape {updates.shape} for indices of shape {indices.shape}")
        updates = updates[tuple(slice(n) for n in indices.shape)]
    if indices.size == 0:
        return x
    updates = mx.broadcast_to(updates, indices.shape)
    indices = in_range(indices, x.shape[axis])
    if reduce == "none" and part.shape == x.shape:
        with _stream_for(x):
            return mx.put_along_axis(x, indices, updates, axis)
    dtype = mx.int32 if x.size < 2**31 else mx.int64
    flat, stride = mx.zeros((), dtype), 1
    for a in reversed(range(x.ndim)):
        own = [-1 if b == a else 1 for b in range(x.ndim)]
        place = indices if a == axis else mx.reshape(mx.arange(indices.shape[a]), own)
        flat = flat + place.astype(dtype) * stride
        stride *= x.shape[a]
    return _update(x.reshape(-1), (flat.reshape(-1),), updates.reshape(-1), reduce).reshape(x.shape)


def _like(x: mx.array, updates: mx.array) -> mx.array:
    if updates.dtype != x.dtype:
        raise ValueError(f"updates of {updates.dtype} for an array of {x.dtype}")
    return updates


def _stream_for(x: mx.array) -> AbstractContextManager[Any]:
    """Metal does not scatter elements of 8 bytes, the CPU beside it (with the same memory) does."""
    on_metal = mx.metal.is_available() and mx.default_device() == mx.Device(mx.gpu)
    return mx.stream(mx.cpu) if on_metal and x.dtype.size == 8 else nullcontext()


def _update(x: mx.array, index: tuple[mx.array, ...], updates: mx.array, reduce: Reduce) -> mx.array:
    with _stream_for(x):
        if reduce == "none":
            new = x.astype(x.dtype)  # another name of the same array, since item assignment rebinds it
            new[index] = updates
            return new
        if reduce == "sum":
            return x.at[index].add(updates)
        if reduce == "prod":
            return x.at[index].multiply(updates)
        if mx.issubdtype(x.dtype, mx.floating):
            joined = _extreme(_ordered(x, reduce), index, _ordered(updates, reduce), reduce)
            return _from_ordered(joined).astype(x.dtype)
        return _extreme(x, index, updates, reduce)


def _extreme(x: mx.array, index: tuple[mx.array, ...], updates: mx.array, reduce: Reduce) -> mx.array:
    return x.at[index].maximum(updates) if reduce == "max" else x.at[index].minimum(updates)


def _ordered(x: mx.array, reduce: Reduce) -> mx.array:
    """Floats as integers of the same order, NaN beyond all others: MLX's scatters compare with <, so NaN would lose."""
    x = x if x.dtype == mx.float64 else x.astype(mx.float32)
    integer, top = (mx.int64, 2**63 - 1) if x.dtype == mx.float64 else (mx.int32, 2**31 - 1)
    bits = mx.view(x, integer)
    keys = mx.where(bits < 0, bits ^ mx.array(top, integer), bits)
    return mx.where(mx.isnan(x), mx.array(top if reduce == "max" else -top - 1, integer), keys)


def _from_ordered(keys: mx.array) -> mx.array:
    """The inverse; both ends of the integers are NaNs."""
    top = mx.array(2**31 - 1 if keys.dtype == mx.int32 else 2**63 - 1, keys.dtype)
    return mx.view(mx.where(keys < 0, keys ^ top, keys), mx.float32 if keys.dtype == mx.int32 else mx.float64)


def identity(x: Any, reduce: str) -> Any:
    """What leaves every number as it is under a reduction, in the dtype of x."""
    if reduce in ("sum", "mean", "prod"):
        return scalar_like(x, int(reduce == "prod"))
    lowest = reduce == "max"
    if mx.issubdtype(x.dtype, mx.inexact):
        return as_array(-math.inf if lowest else math.inf, x.dtype)
    if x.dtype == mx.bool_:
        return as_array(not lowest, x.dtype)
    limits = mx.iinfo(x.dtype)
    return as_array(limits.min if lowest else limits.max, x.dtype)


REDUCTIONS = {"add": "sum", "multiply": "prod", "amax": "max", "amin": "min"}


def reduce_into(self, source, reduce, include_self, write):
    """The common part of scatter_reduce and index_reduce. `write(x, updates, reduce)` is one scatter."""
    reduce = REDUCTIONS.get(reduce, reduce)
    base = self if include_self else write(self, identity(self, reduce), "none")
    if reduce != "mean":
        return write(base, source, reduce)
    one = scalar_like(self, 1)
    counts = write(broadcast_to(one if include_self else identity(self, "sum"), self.shape), one, "sum")
    total = write(base, source, "sum")
    counts = maximum(counts, one)
    return divide(total, counts) if mx.issubdtype(self.dtype, mx.inexact) else floor_divide(total, counts)


def put(self, dim, index, src, reduce):
    """`put_along_axis` for all that PyTorch takes: 0-d operands, and an empty index of any rank."""
    if max(self.ndim, 1) != max(index.ndim, 1):
        return self
    x, axis = reshape(self, self.shape or [1]), axis_of(self, dim)
    check_known(index, x.shape[axis])
    return reshape(put_along_axis(x, reshape(index, index.shape or [1]), src, axis, reduce), self.shape)


@lowers("aten.scatter.src")
def scatter_src(self, dim, index, src):
    return put(self, dim, index, src, "none")


@lowers("aten.scatter.value")
def scatter_value(self, dim, index, value):
    return put(self, dim, index, scalar_like(self, value), "none")


@lowers("aten.scatter.reduce", opmath=True)
def scatter_with(self, dim, index, src, reduce):
    return put(self, dim, index, src, REDUCTIONS[reduce])


@lowers("aten.scatter.value_reduce", opmath=True)
def scatter_value_with(self, dim, index, value, reduce):
    return put(self, dim, index, scalar_like(self, value), REDUCTIONS[reduce])


@lowers("aten.scatter_add", opmath=True)
def scatter_add(self, dim, index, src):
    return put(self, dim, index, src, "sum")


@lowers("aten.scatter_reduce.two", opmath=True)
def scatter_reduce(self, dim, index, src, reduce, include_self=True):
    def write(x, updates, reduce):
        return put(x, dim, index, updates, reduce)

    return reduce_into(self, src, reduce, include_self, write)


@instruction
def masked_scatter(x: Array, mask: Array, source: Array) -> Array:
    """x, with the elements at which `mask` (bool) is true replaced by those of `source`, in row-major order.

    mask broadcasts to x; source has x's dtype and any shape. Should it have too few elements, it begins again.
    """
    if mask.dtype != mx.bool_:
        raise ValueError(f"a mask is bool, not {mask.dtype}")
    mask, source = mx.broadcast_to(mask, x.shape), mx.reshape(_like(x, source), [-1])
    if source.size == 0 or x.size == 0:
        return x
    places = mx.cumsum(mx.reshape(mask, [-1]).astype(mx.int32), 0) - 1
    values = mx.take(source, in_range(places, source.size), 0)
    return mx.where(mask, mx.reshape(values, x.shape), x)


@lowers("aten.masked_scatter")
def masked_scatter_(self, mask, source):
    self, mask = broadcast_arrays([self, cast(mask, mx.bool_)])
    return masked_scatter(self, mask, source)
