"""Reading by index: take, gather, and PyTorch's and NumPy's indexing with tensors and masks.

MLX does not check indices, so each instruction here brings them into range on the device, without waiting for it.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from ..isa import Array, instruction
from ..lowering import as_array, lowers
from .axes import axis_of
from .compare import where
from .nonzero import flat_positions
from .shape import broadcast_arrays, broadcast_to, distinct_axes, product, reshape, transpose

MASKS = (mx.bool_, mx.uint8)


def in_range(indices: mx.array, size: int) -> mx.array:
    """Integer indices of an axis as int32, modulo its size: -1 is the last. None can leave the array."""
    if not mx.issubdtype(indices.dtype, mx.integer):
        raise ValueError(f"indices are integers, not {indices.dtype}")
    if size == 0 and indices.size:
        raise ValueError("an index into an axis of size 0")
    indices = indices.astype(mx.int32)
    return mx.remainder(indices, size) if size else indices


@instruction
def take(x: Array, indices: Array, axis: int) -> Array:
    """The elements of x at `indices` along an axis. The axis gives way to the axes of `indices`.

    An index i means element i modulo the size of the axis: -1 is the last, one out of range is some other element.
    """
    return mx.take(x, in_range(indices, x.shape[axis]), axis=axis)


@instruction
def take_along_axis(x: Array, indices: Array, axis: int) -> Array:
    """out[i, j, k] = x[i, indices[i, j, k], k] (for axis 1 of 3). Indices mean elements as in `take`.

    `indices` has the rank of x; on the other axes it may be smaller than x.
    """
    x = corner(x, indices, axis)
    if indices.size == 0:
        return mx.zeros(indices.shape, x.dtype)
    return mx.take_along_axis(x, in_range(indices, x.shape[axis]), axis=axis)


def corner(x: mx.array, indices: mx.array, axis: int) -> mx.array:
    """The part of x that `indices` can reach: as large as it on every axis but one."""
    if x.ndim != indices.ndim or not 0 <= axis < x.ndim:
        raise ValueError(f"indices of shape {indices.shape} along axis {axis} of the shape {x.shape}")
    sizes = [n if a == axis else m for a, (n, m) in enumerate(zip(x.shape, indices.shape, strict=True))]
    if any(m > n for m, n in zip(sizes, x.shape, strict=True)):
        raise ValueError(f"indices of shape {indices.shape} are larger than {x.shape} beside axis {axis}")
    return x[tuple(slice(n) for n in sizes)] if tuple(sizes) != x.shape else x


@instruction
def gather(x: Array, indices: list[Array], axes: list[int]) -> Array:
    """x at several index arrays at once, one for each of `axes`. Indices mean elements as in `take`.

    The index arrays broadcast together; the result has their axes first, then the other axes of x.
    """
    axes = distinct_axes(x, axes)
    if not axes:
        raise ValueError("a gather needs an axis")
    index = tuple(in_range(i, x.shape[a]) for i, a in zip(indices, axes, strict=True))
    rest = [a for a in range(x.ndim) if a not in axes]
    if x.size == 0:
        return mx.zeros(
            (*mx.broadcast_shapes(*(i.shape for i in index)), *(x.shape[a] for a in rest)), x.dtype
        )
    return mx.transpose(x, [*axes, *rest])[index]


def check_known(index: Any, size: Any, negative: bool = False) -> None:
    """PyTorch's error for an index that leaves its axis, where its elements are known at conversion."""
    low, high = index.recorder.bounds.get(index.number, (0, -1))
    if isinstance(size, int) and (low < (-size if negative else 0) or high >= size):
        raise IndexError(f"an index of {high if high >= size else low} for an axis of size {size}")


def resolve(x: Any, indices: Any) -> tuple[Any, list[Any], list[int]]:
    """PyTorch's index list as index arrays and their axes. A mask merges the axes of x that it covers into one."""
    shape: list[Any] = []
    arrays: list[Any] = []
    axes: list[int] = []
    axis = 0
    for index in indices:
        covered = 1
        if axis >= x.ndim and (index is None or index.ndim or index.dtype not in MASKS):
            raise IndexError(f"too many indices for a tensor of {x.ndim} dimensions")
        if index is not None:
            axes.append(len(shape))
            if index.dtype in MASKS:
                covered = index.ndim
                check_mask(x, index, axis)
                index = flat_positions(index)
            else:
                check_known(index, x.shape[axis], negative=True)
            arrays.append(index)
        shape.append(product(x.shape[axis : axis + covered]))
        axis += covered
    return reshape(x, [*shape, *x.shape[axis:]]), arrays, axes


def check_mask(x: Any, mask: Any, axis: int) -> None:
    """A mask has the sizes of the axes that it covers."""
    sizes = x.shape[axis : axis + mask.ndim]
    pairs = zip(sizes, mask.shape, strict=False)
    if len(sizes) < mask.ndim or any(type(m) is type(n) is int and m != n for m, n in pairs):
        raise IndexError(f"a mask of shape {mask.shape} for the axes {sizes}")


def is_run(axes: list[int]) -> bool:
    """Whether axes follow each other: then the result's axes of the index stand where they stood."""
    return axes == list(range(axes[0], axes[0] + len(axes)))


@lowers("aten.index.Tensor", "aten._unsafe_index.Tensor")
def index_(self, indices):
    x, arrays, axes = resolve(self, indices)
    if not axes:
        return self
    if len(axes) == 1:
        return take(x, arrays[0], axes[0])
    out = gather(x, arrays, axes)
    lead = axes[0] if is_run(axes) else 0
    rank = max(a.ndim for a in arrays)
    return transpose(out, [*range(rank, rank + lead), *range(rank), *range(rank + lead, out.ndim)])


@lowers("aten.masked_select")
def masked_select(self, mask):
    self, mask = broadcast_arrays([self, mask])
    return take(reshape(self, [-1]), flat_positions(mask), 0)


@lowers("aten.index_select")
def index_select(self, dim, index):
    if self.ndim == 0:
        return self
    axis = axis_of(self, dim)
    check_known(index, self.shape[axis])
    return take(self, reshape(index, [-1]), axis)


@lowers("aten.take")
def take_(self, index):
    check_known(index, self.size, negative=True)
    return take(reshape(self, [-1]), index, 0)


@lowers("aten.gather")
def gather_(self, dim, index, sparse_grad=False):
    if max(self.ndim, 1) != max(index.ndim, 1):  # PyTorch allows it for an empty index
        return take(reshape(self, [-1]), index, 0)
    x, axis = reshape(self, self.shape or [1]), axis_of(self, dim)
    check_known(index, x.shape[axis])
    return reshape(take_along_axis(x, reshape(index, index.shape or [1]), axis), index.shape)


@lowers("aten.take_along_dim")
def take_along_dim(self, indices, dim=None):
    if dim is None:
        return take(reshape(self, [-1]), reshape(indices, [-1]), 0)
    axis = axis_of(self, dim)
    shape = list(broadcast_shape(_without(self.shape, axis), _without(indices.shape, axis)))
    x = broadcast_to(self, [*shape[:axis], self.shape[axis], *shape[axis:]])
    return take_along_axis(
        x, broadcast_to(indices, [*shape[:axis], indices.shape[axis], *shape[axis:]]), axis
    )


def _without(shape: Any, axis: int) -> list[Any]:
    return [n for a, n in enumerate(shape) if a != axis]


def broadcast_shape(a: Any, b: Any) -> list[Any]:
    """The shape to which two shapes broadcast. Of two sizes the one that is not 1, a literal if there is one."""
    rank = max(len(a), len(b))
    pairs = zip([1] * (rank - len(a)) + list(a), [1] * (rank - len(b)) + list(b), strict=True)
    return [m if (type(n) is int and n == 1) or (type(m) is int and m != 1) else n for m, n in pairs]


def scalar_like(x: Any, value: Any) -> Any:
    """A number as a 0-d array of the dtype of x, towards zero among integers."""
    if isinstance(value, float) and mx.issubdtype(x.dtype, mx.integer):
        value = int(value)
    return as_array(bool(value) if x.dtype == mx.bool_ else value, x.dtype)


@lowers("aten._unsafe_masked_index")
def unsafe_masked_index(self, mask, indices, fill):
    return where(mask, index_(self, indices), scalar_like(self, fill))
