"""Shapes: reshape, permute, broadcast, add and drop axes, slice and flip. Sizes may be known only at run time."""

from __future__ import annotations

import math
from typing import Any

import mlx.core as mx

from ..errors import refuse
from ..isa import Array, Int, instruction
from ..lowering import lowers
from ..once import once_a_call
from .axes import axis_of

MAX_SIZE = 2**31 - 1
MAX_ELEMENTS = 2**40


def same_sizes(a: Any, b: Any) -> bool:
    """Whether two shapes are the same for sure: equal literals, or one and the same dynamic size."""
    pairs = zip(a, b, strict=False)
    return len(a) == len(b) and all(m is n or (type(m) is type(n) is int and m == n) for m, n in pairs)


def _keeps_sizes(x: Any, shape: Any) -> bool:
    """Whether `shape` is that of x for sure, where -1 stands for x's own size."""
    own = [m if type(n) is int and n == -1 else n for m, n in zip(x.shape, shape, strict=False)]
    return x.ndim == len(shape) and same_sizes(x.shape, own)


def check_sizes(shape: list[int]) -> list[int]:
    """`shape`, after refusing what MLX does not check: negative sizes and sizes of more than 32 bits."""
    for n in shape:
        if not 0 <= n <= MAX_SIZE:
            raise ValueError(f"a size of {n} is not possible")
    return list(shape)


def check_shape(shape: list[int]) -> list[int]:
    """`shape`, if an array of it can exist: MLX counts elements modulo 2**64."""
    if math.prod(check_sizes(shape)) > MAX_ELEMENTS:
        raise ValueError(f"an array of shape {list(shape)} is too large")
    return list(shape)


def distinct_axes(x: mx.array, axes: list[int]) -> list[int]:
    """The non-negative axes of x that `axes` means, after refusing repeats."""
    found = [axis_of(x, axis) for axis in axes]
    if len(set(found)) < len(found) or (found and not x.ndim):
        raise ValueError(f"the axes {axes} do not fit an array of {x.ndim} axes")
    return found


@instruction(noop=lambda x, shape: shape.count(-1) <= 1 and _keeps_sizes(x, shape))
def reshape(x: Array, shape: list[Int]) -> Array:
    """x in row-major order with a new shape; one size may be -1."""
    if -1 in shape:
        known = 1
        for n in shape:
            known *= n if n != -1 else 1
        if known == 0:
            raise ValueError("the size -1 is ambiguous in a shape with a zero")
        shape = [x.size // known if n == -1 else n for n in shape]
    return mx.reshape(x, check_shape(shape))


@instruction(noop=lambda x, axes: list(axes) == list(range(x.ndim)))
def transpose(x: Array, axes: list[int]) -> Array:
    """x with its axes permuted: axis i of the result is axis axes[i] of x."""
    return mx.transpose(x, distinct_axes(x, axes))


@instruction(noop=lambda x, shape: _keeps_sizes(x, shape))
def broadcast_to(x: Array, shape: list[Int]) -> Array:
    """x repeated along new leading axes and along axes of size 1. A size of -1 keeps that of x."""
    lead = len(shape) - x.ndim
    if lead < 0 or -1 in shape[:lead]:
        raise ValueError(f"an array of shape {list(x.shape)} cannot become {shape}")
    sizes = [x.shape[axis - lead] if n == -1 else n for axis, n in enumerate(shape)]
    return mx.broadcast_to(x, check_shape(sizes))


@instruction
def broadcast_arrays(arrays: list[Array]) -> list[Array]:
    """Every array broadcast to the shape that all of them have together."""
    return list(mx.broadcast_arrays(*arrays))


@instruction(noop=lambda x, axes: not axes)
def expand_dims(x: Array, axes: list[int]) -> Array:
    """x with new axes of size 1; `axes` are their positions in the result."""
    rank = x.ndim + len(axes)
    if not all(-rank <= axis < rank for axis in axes):
        raise ValueError(f"the axes {axes} do not fit an array of {rank} axes")
    return mx.expand_dims(x, list(axes))


@instruction(noop=lambda x, axes: not axes)
def squeeze(x: Array, axes: list[int]) -> Array:
    """x without the given axes, all of size 1."""
    return mx.squeeze(x, distinct_axes(x, axes))


@instruction
def slice_(x: Array, start: list[Int], stop: list[Int], step: list[Int], axes: list[int]) -> Array:
    """x[start:stop:step] along each of `axes`.

    As in Python, negative bounds count from the end and bounds beyond an end mean that end. Steps are at least 1.
    """
    if not len(start) == len(stop) == len(step) == len(axes):
        raise ValueError("start, stop, step and axes differ in length")
    index = [slice(None)] * x.ndim
    for axis, first, last, stride in zip(distinct_axes(x, axes), start, stop, step, strict=True):
        if stride < 1:
            raise ValueError(f"a step of {stride} is not possible")
        index[axis] = slice(*slice(first, last, min(stride, MAX_SIZE)).indices(x.shape[axis]))
    return x[tuple(index)]


@instruction
def slice_at(x: Array, start: Int | Array, length: Int, axis: int) -> Array:
    """`length` elements of x from `start` on along an axis; a negative start counts from the end.

    The elements must all exist. An integer array (of one element) as the start is moved to the nearest possible one.
    """
    (axis,) = distinct_axes(x, [axis])
    last = x.shape[axis] - length
    if not 0 <= length <= x.shape[axis]:
        raise ValueError(f"{length} elements from an axis of {x.shape[axis]}")
    if not isinstance(start, mx.array):
        first = start + x.shape[axis] if start < 0 else start
        if not 0 <= first <= last:
            raise ValueError(f"{length} elements from {start} on are not in an axis of {x.shape[axis]}")
        return x[(slice(None),) * axis + (slice(first, first + length),)]
    sizes = list(x.shape)
    sizes[axis] = length
    return mx.slice(x, start_in_range(start, x.shape[axis], last), [axis], sizes)


@once_a_call
def start_in_range(start: mx.array, size: int, last: int) -> mx.array:
    """A start on the device as int64[1], brought into range there since MLX does not check it."""
    if not mx.issubdtype(start.dtype, mx.integer):
        raise ValueError("the start is not an integer")
    index = mx.reshape(start, [1]).astype(mx.int64)
    return mx.clip(mx.where(index < 0, index + size, index), 0, last)


@instruction(noop=lambda x, axes: not axes)
def flip(x: Array, axes: list[int]) -> Array:
    """x with the order of its elements reversed along `axes`."""
    index = [slice(None)] * x.ndim
    for axis in distinct_axes(x, axes):
        index[axis] = slice(None, None, -1)
    return x[tuple(index)]


def product(sizes: Any) -> Any:
    """The product of sizes, some of which may be dynamic."""
    total: Any = 1
    for n in sizes:
        total = n * total
    return total


def swapped(x: Any, a: int, b: int) -> Any:
    """x with two axes exchanged."""
    axes = list(range(x.ndim))
    if axes:
        axes[a], axes[b] = axes[b], axes[a]
    return transpose(x, axes)


def moved(x: Any, source: list[int], destination: list[int]) -> Any:
    """x with the axes `source` at the positions `destination`, the others in their order."""
    places = {axis_of(x, d): axis_of(x, s) for s, d in zip(source, destination, strict=True)}
    others = iter([axis for axis in range(x.ndim) if axis not in places.values()])
    return transpose(x, [places[i] if i in places else next(others) for i in range(x.ndim)])


def at_least(x: Any, rank: int) -> Any:
    """x with axes of size 1 up to `rank`, placed as numpy.atleast_1d, 2d and 3d place them."""
    missing = max(rank - x.ndim, 0)
    if rank == 3 and x.ndim == 2:
        return expand_dims(x, [2])
    if rank == 3 and x.ndim == 1:
        return expand_dims(x, [0, 2])
    return expand_dims(x, list(range(missing)))


@lowers("aten.view", "aten._unsafe_view")
def view(self, size):
    return reshape(self, size)


@lowers("aten._reshape_alias")
def reshape_alias(self, size, stride):
    return reshape(self, size)


@lowers("aten.reshape")
def reshape_(self, shape):
    return reshape(self, shape)


@lowers("aten.view_as", "aten.reshape_as")
def reshape_as(self, other):
    return reshape(self, other.shape)


@lowers("aten.ravel")
def ravel(self):
    return reshape(self, [self.size])


@lowers("aten.flatten.using_ints")
def flatten(self, start_dim, end_dim):
    first, last = axis_of(self, start_dim), axis_of(self, end_dim) + 1
    shape = self.shape
    return reshape(self, [*shape[:first], product(shape[first:last]), *shape[last:]])


@lowers("aten.unflatten.int")
def unflatten(self, dim, sizes):
    axis = axis_of(self, dim)
    shape = self.shape
    if -1 in sizes:
        open_ = sizes.index(-1)
        rest = product(sizes[:open_]) * product(sizes[open_ + 1 :])
        sizes = [*sizes[:open_], shape[axis] // rest, *sizes[open_ + 1 :]]
    return reshape(self, [*shape[:axis], *sizes, *shape[axis + 1 :]])


@lowers("aten.expand")
def expand(self, size, implicit):
    return broadcast_to(self, size)


@lowers("aten.broadcast_to")
def broadcast_to_(self, size):
    return broadcast_to(self, size)


@lowers("aten.expand_as")
def expand_as(self, other):
    return broadcast_to(self, other.shape)


@lowers("aten.broadcast_tensors")
def broadcast_tensors(tensors):
    return broadcast_arrays(tensors)


@lowers("aten.permute")
def permute(self, dims):
    return transpose(self, [axis_of(self, dim) for dim in dims])


@lowers("aten.transpose.int")
def transpose_(self, dim0, dim1):
    return swapped(self, dim0, dim1)


@lowers("aten.swapdims")
def swapdims(self, dim0, dim1):
    return swapped(self, dim0, dim1)


@lowers("aten.swapaxes")
def swapaxes(self, axis0, axis1):
    return swapped(self, axis0, axis1)


@lowers("aten.t")
def t(self):
    return self if self.ndim < 2 else swapped(self, 0, 1)


@lowers("aten.mT")
def mt(self):
    return swapped(self, -2, -1)


@lowers("aten.numpy_T")
def numpy_t(self):
    return transpose(self, list(range(self.ndim))[::-1])


@lowers("aten.movedim.int", "aten.moveaxis.int")
def movedim(self, source, destination):
    return moved(self, [source], [destination])


@lowers("aten.movedim.intlist", "aten.moveaxis.intlist")
def movedims(self, source, destination):
    return moved(self, source, destination)


@lowers("aten.unsqueeze")
def unsqueeze(self, dim):
    return expand_dims(self, [dim])


@lowers("aten.squeeze")
def squeeze_all(self):
    """A size that is 1 only when the program runs keeps its axis, as in the exported graph."""
    return squeeze(self, _ones(self, range(self.ndim)))


@lowers("aten.squeeze.dim", "aten.squeeze.dims")
def squeeze_dims(self, dim):
    return squeeze(self, _ones(self, [dim] if isinstance(dim, int) else dim))


def _ones(x, dims):
    """The axes among `dims` whose size is 1 at conversion."""
    axes = [axis_of(x, dim) for dim in dims] if x.ndim else []
    return [axis for axis in axes if isinstance(x.shape[axis], int) and x.shape[axis] == 1]


@lowers("aten.atleast_1d")
def atleast_1d(self):
    return at_least(self, 1)


@lowers("aten.atleast_2d")
def atleast_2d(self):
    return at_least(self, 2)


@lowers("aten.atleast_3d")
def atleast_3d(self):
    return at_least(self, 3)


@lowers("aten.atleast_1d.Sequence")
def atleast_1d_each(tensors):
    return [at_least(x, 1) for x in tensors]


@lowers("aten.atleast_2d.Sequence")
def atleast_2d_each(tensors):
    return [at_least(x, 2) for x in tensors]


@lowers("aten.atleast_3d.Sequence")
def atleast_3d_each(tensors):
    return [at_least(x, 3) for x in tensors]


@lowers("aten.pixel_shuffle")
def pixel_shuffle(self, upscale_factor):
    """(…, c r r, h, w) to (…, c, h r, w r)."""
    r = upscale_factor
    *batch, channels, height, width = self.shape
    n = len(batch)
    blocks = reshape(self, [*batch, channels // (r * r), r, r, height, width])
    blocks = transpose(blocks, [*range(n + 1), n + 3, n + 1, n + 4, n + 2])
    return reshape(blocks, [*batch, channels // (r * r), height * r, width * r])


@lowers("aten.pixel_unshuffle")
def pixel_unshuffle(self, downscale_factor):
    """(…, c, h r, w r) to (…, c r r, h, w)."""
    if 0 in self.shape:
        raise refuse("PyTorch leaves empty tensors as they are, and torch.export does not")
    r = downscale_factor
    *batch, channels, height, width = self.shape
    n = len(batch)
    blocks = reshape(self, [*batch, channels, height // r, r, width // r, r])
    blocks = transpose(blocks, [*range(n + 1), n + 2, n + 4, n + 1, n + 3])
    return reshape(blocks, [*batch, channels * (r * r), height // r, width // r])


@lowers("aten.channel_shuffle", "aten.native_channel_shuffle")
def channel_shuffle(self, groups):
    batch, channels, *rest = self.shape
    blocks = reshape(self, [batch, groups, channels // groups, *rest])
    return reshape(swapped(blocks, 1, 2), [batch, channels, *rest])
