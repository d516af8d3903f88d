"""Writing slices and whole rows: slice_update, and PyTorch's index_put, index_* and *_scatter ops of that kind."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from ..errors import refuse
from ..isa import Array, Int, cast, instruction
from ..lowering import HALVES, as_array, lowers
from ..values import Value
from .arithmetic import add, maximum, multiply
from .axes import axis_of
from .compare import where
from .create import arange
from .index import MASKS, check_known, check_mask, is_run, resolve, scalar_like
from .scalar import as_number
from .scatter import masked_scatter, reduce_into, scatter
from .shape import broadcast_to, distinct_axes, expand_dims, moved, reshape, start_in_range, transpose
from .slicing import storage_place


@instruction
def slice_update(
    x: Array, update: Array, starts: list[Int | Array], axes: list[int], steps: list[int] | None = None
) -> Array:
    """x with `update` written over the slice that begins at starts[i] along axes[i] and is as large as `update`.

    `update` has x's dtype and rank, and x's size on other axes. A negative start counts from the end; then a start is
    moved to the nearest one at which the slice fits. A start may be an integer array of one element, which stays on
    the device. steps: the distances of the elements written, 1 by default, and only 1 beside an array.
    """
    axes = distinct_axes(x, axes)
    steps = [1] * len(axes) if steps is None else steps
    check_update(x, update, axes, steps)
    if update.size == 0:
        return x
    last = [x.shape[a] - (update.shape[a] - 1) * s - 1 for a, s in zip(axes, steps, strict=True)]
    firsts = [_first(s, x.shape[a], e) for s, a, e in zip(starts, axes, last, strict=True)]
    if all(isinstance(first, int) for first in firsts):
        new = x.astype(x.dtype)  # another name of the same array, since item assignment rebinds it
        index = [slice(None)] * x.ndim
        for axis, first, end, step in zip(axes, firsts, last, steps, strict=True):
            index[axis] = slice(first, first + x.shape[axis] - end, step)
        new[tuple(index)] = update
        return new
    if any(step != 1 for step in steps):
        raise ValueError("a step beside a start that is an array")
    return mx.slice_update(x, update, _vector(firsts), axes)


def _vector(firsts: list[int | mx.array]) -> mx.array:
    parts = [mx.array([first], mx.int64) if isinstance(first, int) else first for first in firsts]
    return parts[0] if len(parts) == 1 else mx.concatenate(parts)


def check_update(x: mx.array, update: mx.array, axes: list[int], steps: list[int]) -> None:
    """Refuse an update that x cannot hold."""
    fits = update.ndim == x.ndim and update.dtype == x.dtype
    for a, (n, m) in enumerate(zip(x.shape, update.shape, strict=False)):
        step = steps[axes.index(a)] if a in axes else 1
        fits = fits and step >= 1 and ((m == 0 or (m - 1) * step < n) if a in axes else m == n)
    if not fits:
        raise ValueError(f"an update of {update.dtype}{list(update.shape)} for {x.dtype}{list(x.shape)}")


def _first(start: int | mx.array, size: int, last: int) -> int | mx.array:
    """A start in range: MLX would write outside of the array."""
    if isinstance(start, mx.array):
        return start_in_range(start, size, last)
    return min(max(start + size if start < 0 else start, 0), last)


@lowers("aten.slice_scatter")
def slice_scatter(self, src, dim=0, start=None, end=None, step=1):
    step = as_number(step)
    start = 0 if start is None else start if step == 1 else as_number(start)
    return slice_update(
        self, cast(src, self.dtype), [start], [axis_of(self, dim)], None if step == 1 else [step]
    )


@lowers("aten.select_scatter")
def select_scatter(self, src, dim, index):
    axis = axis_of(self, dim)
    return slice_update(self, expand_dims(cast(src, self.dtype), [axis]), [index], [axis])


@lowers("aten.as_strided_scatter")
def as_strided_scatter(self, src, size, stride, storage_offset, result):
    if 0 in size:
        return self
    order, start = storage_place(self, size, stride, storage_offset, result)
    places = as_array(start, mx.int64)
    for axis, (n, step) in enumerate(zip(size, stride, strict=True)):
        steps = multiply(arange(0, n, 1, mx.int64), step)
        places = add(places, expand_dims(steps, list(range(1, len(size) - axis))))
    stored = transpose(self, order)
    src = reshape(cast(src, self.dtype), [-1])
    flat = scatter(reshape(stored, [-1]), [reshape(places, [-1])], src, [0], "none")
    return transpose(reshape(flat, stored.shape), [order.index(axis) for axis in range(self.ndim)])


@lowers("aten.diagonal_scatter")
def diagonal_scatter(self, src, offset=0, dim1=0, dim2=1):
    axes = [axis_of(self, dim1), axis_of(self, dim2)]
    steps = arange(0, src.shape[-1], 1, mx.int64)
    indices = [add(steps, max(-offset, 0)), add(steps, max(offset, 0))]
    return scatter(self, indices, moved(cast(src, self.dtype), [-1], [0]), axes, "none")


@lowers("aten.index_put", "aten._index_put_impl", "aten._unsafe_index_put")
def index_put(self, indices, values, accumulate=False, unsafe=False):
    masks = [i for i in indices if i is not None and i.dtype in MASKS]
    values = cast(values, self.dtype)
    if not masks:
        return _put_at(self, indices, values, accumulate)
    if len([i for i in indices if i is not None]) > 1:
        raise refuse("a mask beside other indices is not supported")
    return _put_masked(self, masks[0], indices.index(masks[0]), values, accumulate)


def _put_masked(x: Any, mask: Any, axis: int, values: Any, accumulate: bool) -> Any:
    """Values written where a mask of some axes, from `axis` on, is true: their positions are not needed for it."""
    check_mask(x, mask, axis)
    rest = x.ndim - axis - mask.ndim
    count = values.ndim - rest - 1
    every = expand_dims(cast(mask, mx.bool_), list(range(mask.ndim, mask.ndim + rest)))
    if count >= 0 and not (type(values.shape[count]) is int and values.shape[count] == 1):
        shape = [*x.shape[:axis], values.shape[count], *x.shape[x.ndim - rest :]]
        update = masked_scatter(x, broadcast_to(every, x.shape), broadcast_to(values, shape))
    elif count >= 0:  # one value for all
        update = reshape(values, [*values.shape[:count], *[1] * mask.ndim, *values.shape[count + 1 :]])
    else:
        update = values
    if accumulate:
        update = maximum(x, update) if x.dtype == mx.bool_ else add(x, update)
    return where(every, update, x)


def _put_at(x: Any, indices: Any, values: Any, accumulate: bool) -> Any:
    merged, arrays, axes = resolve(x, indices)
    if not axes:
        return add(x, values) if accumulate else where(True, values, x)
    lead = axes[0] if is_run(axes) else 0
    rank = max(a.ndim for a in arrays)
    full = rank + merged.ndim - len(axes)
    if lead and values.ndim > full - rank - lead:
        values = expand_dims(values, list(range(full - values.ndim)))
        values = transpose(values, [*range(lead, lead + rank), *range(lead), *range(lead + rank, full)])
    return reshape(scatter(merged, arrays, values, axes, "sum" if accumulate else "none"), x.shape)


@lowers("aten.put")
def put_(self, index, source, accumulate=False):
    check_known(index, self.size, negative=True)
    reduce = "sum" if accumulate else "none"
    out = scatter(reshape(self, [-1]), [reshape(index, [-1])], reshape(source, [-1]), [0], reduce)
    return reshape(out, self.shape)


@lowers("aten.index_copy")
def index_copy(self, dim, index, source):
    return write_rows(self, dim, index, source, "none")


@lowers("aten.index_fill.int_Scalar", "aten.index_fill.int_Tensor")
def index_fill(self, dim, index, value):
    value = cast(value, self.dtype) if isinstance(value, Value) else scalar_like(self, value)
    return write_rows(self, dim, index, value, "none", negative=True)


@lowers("aten.index_add")
def index_add(self, dim, index, source, alpha=1):
    if alpha != 1:
        source = multiply(source, scalar_like(self, alpha))
    elif (
        self.dtype in HALVES and self.ndim > 1
    ):  # as PyTorch does, which otherwise rounds after each addition
        self, source = cast(self, mx.float32), cast(source, mx.float32)
    return write_rows(self, dim, index, source, "sum")


@lowers("aten.index_reduce")
def index_reduce(self, dim, index, source, reduce, include_self=True):
    def write(x, updates, reduce):
        return write_rows(x, dim, index, updates, reduce)

    return reduce_into(self, source, reduce, include_self, write)


def write_rows(x: Any, dim: int, index: Any, source: Any, reduce: str, negative: bool = False) -> Any:
    """x with the slices of `source` along an axis (or one number) written at `index`, a vector or one integer."""
    axis = axis_of(x, dim)
    rows = reshape(x, x.shape or [1])
    check_known(index, rows.shape[axis], negative)
    index = reshape(index, [-1])
    if source.ndim:
        if reduce == "none" and type(index.size) is int and index.size == 1:
            return reshape(slice_update(rows, source, [index], [axis]), x.shape)
        source = moved(source, [axis], [0])
    return reshape(scatter(rows, [index], source, [axis], reduce), x.shape)
