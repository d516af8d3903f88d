"""The primitives that PyTorch's own decompositions are written in, where they are the ops of this package."""

from __future__ import annotations

from ..lowering import lowers
from .create import arange, filled
from .join import concatenate
from .shape import broadcast_to, expand_dims, flip, product, reshape, squeeze, transpose


@lowers("prims.iota")
def iota(length, start, step, dtype, requires_grad):
    return arange(start, start + length * step, step, dtype)


@lowers("prims.full")
def full(shape, fill_value, dtype, requires_grad):
    return filled(shape, fill_value, dtype)


@lowers("prims.full_like")
def full_like(a, fill_value, dtype, requires_grad):
    return filled(a.shape, fill_value, dtype)


@lowers("prims.empty", "prims.empty_strided")
def empty(shape, dtype, requires_grad, strides=None):
    return filled(shape, 0, dtype)


@lowers("prims.scalar_tensor")
def scalar_tensor(s, dtype, result):
    return filled([], s, result.dtype)


@lowers("prims.view_of")
def view_of(a):
    return a


@lowers("prims.reshape")
def reshape_(a, shape):
    return reshape(a, shape)


@lowers("prims.transpose")
def transpose_(a, permutation):
    return transpose(a, permutation)


@lowers("prims.squeeze")
def squeeze_(a, dimensions):
    return squeeze(a, dimensions)


@lowers("prims.rev")
def rev(a, dims):
    return flip(a, dims)


@lowers("prims.cat")
def cat(tensors, dim):
    return concatenate(tensors, dim)


@lowers("prims.broadcast_in_dim")
def broadcast_in_dim(a, shape, broadcast_dimensions):
    """Axis i of `a` becomes axis broadcast_dimensions[i]."""
    new = [axis for axis in range(len(shape)) if axis not in broadcast_dimensions]
    return broadcast_to(expand_dims(a, new), shape)


@lowers("prims.collapse", "prims.collapse_view")
def collapse(a, start, end):
    """The axes from `start` to `end`, both included, as one."""
    shape = a.shape
    return reshape(a, [*shape[:start], product(shape[start : end + 1]), *shape[end + 1 :]])


@lowers("prims.split_dim")
def split_dim(a, dim, outer_length):
    shape = a.shape
    return reshape(a, [*shape[:dim], outer_length, shape[dim] // outer_length, *shape[dim + 1 :]])
