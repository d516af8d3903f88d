"""Putting arrays together and taking them apart: concatenate, stack, split, repeat, roll, grids."""

from __future__ import annotations

import itertools

import mlx.core as mx

from ..isa import Array, Int, instruction
from ..lowering import lowers
from ..record import active
from ..values import Value
from .axes import axis_of
from .create import full
from .scalar import as_number, assert_number, number_binary, to_number
from .shape import (
    MAX_SIZE,
    at_least,
    broadcast_arrays,
    check_shape,
    check_sizes,
    distinct_axes,
    expand_dims,
    product,
    reshape,
    slice_,
    squeeze,
)


@instruction
def concatenate(arrays: list[Array], axis: int) -> Array:
    """The arrays, of one dtype, one after another along an existing axis."""
    if not arrays:
        raise ValueError("nothing to concatenate")
    (axis,) = distinct_axes(arrays[0], [axis])
    return mx.concatenate(arrays, axis)


@instruction
def stack(arrays: list[Array], axis: int) -> Array:
    """The arrays, of one shape and dtype, side by side along a new axis."""
    return mx.stack(arrays, axis)


@instruction
def split(x: Array, sizes: list[Int], axis: int) -> list[Array]:
    """x in consecutive parts of the given sizes along an axis; together they are x."""
    (axis,) = distinct_axes(x, [axis])
    if sum(check_sizes(sizes)) != x.shape[axis]:
        raise ValueError(f"the sizes {sizes} do not add up to {x.shape[axis]}")
    return list(mx.split(x, list(itertools.accumulate(sizes[:-1])), axis)) if sizes else []


@instruction(noop=lambda x, reps: all(type(n) is int and n == 1 for n in reps) and len(reps) <= x.ndim)
def tile(x: Array, reps: list[Int]) -> Array:
    """x as a whole, reps[i] times along axis i. The shorter of reps and x's shape gets leading ones."""
    reps = [1] * (x.ndim - len(reps)) + check_sizes(reps)
    shape = [1] * (len(reps) - x.ndim) + list(x.shape)
    check_shape([n * r for n, r in zip(shape, reps, strict=True)])
    return mx.tile(x, reps)


@instruction
def repeat(x: Array, repeats: Int, axis: int) -> Array:
    """Every element of x `repeats` times in a row along an axis."""
    (axis,) = distinct_axes(x, [axis])
    check_shape([*x.shape[:axis], x.shape[axis] * repeats, *x.shape[axis + 1 :]])
    return mx.repeat(x, repeats, axis)


@instruction
def roll(x: Array, shifts: list[Int], axes: list[int]) -> Array:
    """x with its elements moved by `shifts` along `axes`; what leaves at one end comes in at the other."""
    if len(shifts) != len(axes):
        raise ValueError("shifts and axes differ in length")
    axes = [axis_of(x, axis) for axis in axes]
    if not axes:
        return x
    # MLX ends the process over a shift of more than 32 bits.
    short = [n % max(x.shape[axis], 1) for n, axis in zip(shifts, axes, strict=True)]
    return mx.roll(x, short, axes)  # type: ignore[arg-type]  # the stubs know only one axis


@lowers("aten.cat", "aten.concat", "aten.concatenate", promote="tensors")
def cat(tensors, dim):
    """Empty tensors of one axis fit anywhere, as they always have in PyTorch."""
    rest = [x for x in tensors if x.ndim != 1 or not isinstance(x.shape[0], int) or x.shape[0] != 0]
    arrays = rest or tensors[:1]
    return arrays[0] if len(arrays) == 1 else concatenate(arrays, axis_of(arrays[0], dim))


@lowers("aten.stack", "aten._stack", promote="tensors")
def stack_(tensors, dim):
    return stack(tensors, dim)


@lowers("aten.hstack", promote="tensors")
def hstack(tensors):
    arrays = [at_least(x, 1) for x in tensors]
    return concatenate(arrays, min(arrays[0].ndim - 1, 1))


@lowers("aten.vstack", "aten.row_stack", promote="tensors")
def vstack(tensors):
    return concatenate([at_least(x, 2) for x in tensors], 0)


@lowers("aten.dstack", promote="tensors")
def dstack(tensors):
    return concatenate([at_least(x, 3) for x in tensors], 2)


@lowers("aten.column_stack", promote="tensors")
def column_stack(tensors):
    return concatenate([reshape(x, [x.size, 1]) if x.ndim < 2 else x for x in tensors], 1)


@lowers("aten.block_diag", promote="tensors")
def block_diag(tensors):
    blocks = [at_least(x, 2) for x in tensors]
    columns = [x.shape[1] for x in blocks]
    rows = []
    for i, x in enumerate(blocks):
        before, after = sum(columns[:i]), sum(columns[i + 1 :])
        sides = [full([x.shape[0], n], 0, x.dtype) for n in (before, after)]
        rows.append(concatenate([sides[0], x, sides[1]], 1))
    return concatenate(rows, 0)


@lowers("aten._chunk_cat", promote="tensors")
def chunk_cat(tensors, dim, num_chunks):
    """Each tensor's chunks, padded with zeros to one size and laid flat, beside those of the others."""
    dim = axis_of(tensors[0], dim)
    chunks = []
    for x in tensors:
        lead, n, rest = x.shape[:dim], x.shape[dim], x.shape[dim + 1 :]
        size = (n + (num_chunks - 1)) // num_chunks
        padding = full([*lead, size * num_chunks - n, *rest], 0, x.dtype)
        padded = concatenate([x, padding], dim)
        chunks.append(reshape(padded, [*lead, num_chunks, size * product(rest)]))
    return concatenate(chunks, dim + 1)


@lowers("aten.split.Tensor", "aten.unsafe_split.Tensor")
def split_tensor(self, split_size, dim, result):
    return _split_evenly(self, split_size, dim, len(result))


@lowers("aten.chunk", "aten.unsafe_chunk")
def chunk(self, chunks, dim, result):
    size = (self.shape[axis_of(self, dim)] + (chunks - 1)) // chunks
    return _split_evenly(self, size, dim, len(result))


def _split_evenly(x, size, dim, count):
    """`count` parts of `size` elements, the last one shorter."""
    axis = axis_of(x, dim)
    rest = x.shape[axis] - size * (count - 1)
    return split(x, [size] * (count - 1) + [rest], axis)


@lowers("aten.split.sizes")
def split_sizes(self, split_size, dim):
    return split_with_sizes(self, split_size, dim)


@lowers("aten.split_with_sizes", "aten.unsafe_split_with_sizes")
def split_with_sizes(self, split_sizes, dim):
    axis = axis_of(self, dim)
    if any(isinstance(n, Value) for n in split_sizes):
        return _split_by_data(self, [as_number(n) for n in split_sizes], axis)
    return split(self, split_sizes, axis)


def _split_by_data(x, sizes, axis):
    """Parts of sizes that depend on data. As slices: the examples of such sizes do not add up to an axis."""
    ends = list(itertools.accumulate(sizes))
    for size in sizes:
        assert_number(number_binary("greater_equal", size, 0), "a size to split by is negative")
    assert_number(number_binary("equal", ends[-1], x.shape[axis]), "sizes to split by do not add up")
    return [slice_(x, [a], [b], [1], [axis]) for a, b in itertools.pairwise([0, *ends])]


@lowers("aten.tensor_split.sections")
def tensor_split_sections(self, sections, dim, result):
    return _split_in_sections(self, dim, len(result))


@lowers("aten.tensor_split.indices")
def tensor_split_indices(self, indices, dim):
    return _split_at(self, indices, dim)


@lowers("aten.tensor_split.tensor_indices_or_sections")
def tensor_split_at(self, tensor_indices_or_sections, dim):
    """A vector of indices, read while the program runs if it is no constant; torch.export knows no 0-d one of sections."""
    vector = tensor_indices_or_sections
    indices = active().vectors.get(vector.number)
    if indices is None:
        indices = [to_number(index) for index in split(vector, [1] * vector.shape[0], 0)]
    return _split_at(self, indices, dim)


def _split_in_sections(x, dim, count):
    """`count` parts, the first ones longer by one element when they cannot all be equal."""
    axis = axis_of(x, dim)
    n = x.shape[axis]
    return split(x, [(n + (count - 1 - i)) // count for i in range(count)], axis)


def _split_at(x, indices, dim):
    """Parts as Python slices between `indices`, which may be negative, too large or out of order."""
    axis = axis_of(x, dim)
    bounds = [0, *indices, MAX_SIZE]
    return [slice_(x, [a], [b], [1], [axis]) for a, b in itertools.pairwise(bounds)]


@lowers("aten.hsplit.int")
def hsplit(self, sections):
    return _split_in_sections(self, min(self.ndim - 1, 1), sections)


@lowers("aten.hsplit.array")
def hsplit_at(self, indices):
    return _split_at(self, indices, min(self.ndim - 1, 1))


@lowers("aten.vsplit.int")
def vsplit(self, sections):
    return _split_in_sections(self, 0, sections)


@lowers("aten.vsplit.array")
def vsplit_at(self, indices):
    return _split_at(self, indices, 0)


@lowers("aten.dsplit.int")
def dsplit(self, sections):
    return _split_in_sections(self, 2, sections)


@lowers("aten.dsplit.array")
def dsplit_at(self, indices):
    return _split_at(self, indices, 2)


@lowers("aten.unbind.int")
def unbind(self, dim, result):
    axis = axis_of(self, dim)
    return [squeeze(x, [axis]) for x in split(self, [1] * len(result), axis)]


@lowers("aten.repeat")
def repeat_(self, repeats):
    return tile(self, repeats)


@lowers("aten.tile")
def tile_(self, dims):
    return tile(self, dims)


@lowers("aten.repeat_interleave.self_int")
def repeat_interleave(self, repeats, dim, output_size):
    if dim is None:
        self, dim = reshape(self, [self.size]), 0
    return repeat(self if self.ndim else reshape(self, [1]), repeats, axis_of(self, dim))


@lowers("aten.roll")
def roll_(self, shifts, dims):
    shifts = list(shifts) if isinstance(shifts, (list, tuple)) else [shifts]
    if dims:
        return roll(self, shifts, [axis_of(self, dim) for dim in dims]) if self.ndim else self
    shape = self.shape
    return reshape(roll(reshape(self, [self.size]), shifts, [0]), shape)


@lowers("aten.meshgrid")
def meshgrid(tensors):
    return _grid(tensors)


@lowers("aten.meshgrid.indexing")
def meshgrid_indexing(tensors, indexing):
    if indexing == "ij" or len(tensors) < 2:
        return _grid(tensors)
    first, second, *rest = tensors
    second, first, *rest = _grid([second, first, *rest])
    return [first, second, *rest]


def _grid(tensors):
    """Each vector along an axis of its own, repeated along the others."""
    count = len(tensors)
    return broadcast_arrays(
        [
            expand_dims(reshape(x, [x.size]), [a for a in range(count) if a != i])
            for i, x in enumerate(tensors)
        ]
    )


@lowers("aten.cartesian_prod")
def cartesian_prod(tensors):
    if len(tensors) == 1:
        return tensors[0]
    rows = stack(list(_grid(tensors)), -1)
    return reshape(rows, [product(rows.shape[:-1]), len(tensors)])
