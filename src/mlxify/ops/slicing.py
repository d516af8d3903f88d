"""Parts of arrays: slices, rows, windows, strided views, reversed and rotated."""

from __future__ import annotations

import mlx.core as mx

from ..errors import refuse
from ..isa import Array, Int, instruction
from ..lowering import lowers
from ..values import Value
from .axes import axis_of
from .scalar import as_number, assert_number, number_binary
from .shape import (
    check_shape,
    flip,
    product,
    reshape,
    same_sizes,
    slice_,
    slice_at,
    squeeze,
    swapped,
    transpose,
)

END = 2**63 - 1
"""A stop that is the end of every axis."""


@instruction
def as_strided(x: Array, shape: list[Int], strides: list[Int], offset: Int) -> Array:
    """The elements offset + sum(i * strides) of x in row-major order, for all indices i below `shape`.

    Elements may repeat; all of them must exist.
    """
    if len(shape) != len(strides):
        raise ValueError("shape and strides differ in length")
    if 0 in check_shape(shape):
        return mx.zeros(shape, x.dtype)
    if not _inside(x.size, shape, strides, offset):
        raise ValueError(
            f"shape {shape}, strides {strides} and offset {offset} leave an array of {x.size} elements"
        )
    return laid_over(x, shape, strides, offset)


def laid_over(x: mx.array, shape: list[int], strides: list[int], offset: int = 0) -> mx.array:
    """A view of x in row-major order, checked before."""
    # MLX takes row-major memory for granted. It wants 32 bits of a step, which along an axis of one may be anything.
    steps = [s if n > 1 else 0 for n, s in zip(shape, strides, strict=True)]
    return mx.as_strided(mx.contiguous(x), shape, steps, offset)


def _inside(count: int, shape: list[int], strides: list[int], offset: int) -> bool:
    """Whether a strided view stays inside an array of `count` elements."""
    steps = [(n - 1) * stride for n, stride in zip(shape, strides, strict=True)]
    low, high = offset + sum(s for s in steps if s < 0), offset + sum(s for s in steps if s > 0)
    return 0 <= low <= high < count


@lowers("aten.slice.Tensor")
def slice_tensor(self, dim, start, end, step, result):
    axis = axis_of(self, dim)
    size, length = self.shape[axis], result.shape[axis]
    if isinstance(start, Value) and isinstance(length, int) and isinstance(step, int) and step == 1:
        return slice_at(self, start, length, axis)
    start, end = (0 if start is None else start), (END if end is None else end)
    if isinstance(size, int) and isinstance(start, int) and isinstance(end, int):
        start, end, _ = slice(start, end).indices(size)
    whole = isinstance(start, int) and start == 0 and end in (size, END)
    if whole and isinstance(step, int) and step == 1:
        return self
    return slice_(self, [start], [end], [step], [axis])


@lowers("aten.select.int")
def select(self, dim, index):
    axis = axis_of(self, dim)
    size = self.shape[axis]
    if isinstance(index, int) and isinstance(size, int) and index < 0:
        index += size
    return squeeze(slice_at(self, index, 1, axis), [axis])


@lowers("aten.narrow", "aten.narrow_copy", "aten.narrow.Tensor")
def narrow(self, dim, start, length):
    axis = axis_of(self, dim)
    if not isinstance(length, Value):
        return slice_at(self, start, length, axis)
    # As a slice: the example of a length that depends on data may be more than there is.
    start, length, size = as_number(start), as_number(length), self.shape[axis]
    inside = [number_binary("greater_equal", n, 0) for n in (start, length)]
    inside.append(number_binary("less_equal", start + length, size))
    for condition in inside:
        assert_number(condition, "narrow: the start or the length is not within the axis")
    return slice_(self, [start], [start + length], [1], [axis])


@lowers("aten.flip")
def flip_(self, dims):
    return flip(self, [axis_of(self, dim) for dim in dims] if self.ndim else [])


@lowers("aten.fliplr")
def fliplr(self):
    return flip(self, [1])


@lowers("aten.flipud")
def flipud(self):
    return flip(self, [0])


@lowers("aten.rot90")
def rot90(self, k, dims):
    first, second = (axis_of(self, dim) for dim in dims)
    turns = k % 4
    if turns == 0:
        return self
    if turns == 2:
        return flip(self, [first, second])
    return swapped(flip(self, [second if turns == 1 else first]), first, second)


@lowers("aten.unfold", "aten.unfold_copy")
def unfold(self, dimension, size, step):
    """All windows of `size` elements, `step` apart, along a new last axis."""
    if not self.ndim:
        return reshape(self, [1]) if size else slice_(reshape(self, [1]), [0], [0], [1], [0])
    axis = axis_of(self, dimension)
    shape = self.shape
    strides = [product(shape[i + 1 :]) for i in range(self.ndim)]
    windows = (shape[axis] - size) // step + 1
    shape = [*shape[:axis], windows, *shape[axis + 1 :], size]
    stride = strides[axis]
    strides[axis] = stride * step
    return as_strided(self, shape, [*strides, stride], 0)


@lowers("aten.as_strided")
def as_strided_(self, size, stride, storage_offset, result):
    if 0 in size:
        return as_strided(self, size, stride, 0)
    order, start = storage_place(self, size, stride, storage_offset, result)
    return as_strided(transpose(self, order), size, stride, start)


def storage_place(x, size, stride, storage_offset, result):
    """The order of the axes in which x is dense in PyTorch's storage, and where in that the strided view begins.

    PyTorch's strides refer to storage: they can be followed when x is all there is of it.
    """
    strides, offset = result.storage
    if (
        None in strides
        or offset is None
        or not all(isinstance(n, int) for n in (*x.shape, *size, *stride, storage_offset or 0))
    ):
        raise refuse("as_strided needs sizes and strides that are known at conversion")
    order = sorted(range(x.ndim), key=lambda axis: -strides[axis])
    sizes = [x.shape[axis] for axis in order]
    dense = all(
        n == 1 or strides[a] == product(sizes[i + 1 :])
        for i, (a, n) in enumerate(zip(order, sizes, strict=True))
    )
    start = 0 if storage_offset is None else storage_offset - offset
    if not (dense and _inside(x.size, size, stride, start)):
        raise refuse("as_strided reaches into the storage of a tensor beyond the tensor itself")
    return order, start


@lowers("aten.resize")
def resize(self, size, memory_format=None, *, result):
    """The first elements in storage, as a tensor of the new size. PyTorch leaves further ones undefined."""
    if str(memory_format) not in ("None", "torch.contiguous_format"):
        raise refuse(f"resize with {memory_format} is not supported")
    if same_sizes(self.shape, size):
        return self
    return as_strided_(self, size, [product(size[i + 1 :]) for i in range(len(size))], None, result)


@lowers("aten.resize_as")
def resize_as(self, the_template, memory_format=None, *, result):
    return resize(self, list(the_template.shape), memory_format, result=result)
