"""Views and rearrangements: reshape, transpose, expand, slice, split, concatenate, pad."""

from __future__ import annotations

import mlx.core as mx

from ..isa import Array, Int, instruction
from ..lowering import lowers


@instruction
def reshape(x: Array, shape: list[Int]) -> Array:
    """x in row-major order with a new shape; one size may be -1."""
    if -1 in shape and x.size == 0:
        known = 1
        for n in shape:
            known *= n if n != -1 else 1
        if known == 0:
            raise ValueError("the size -1 is ambiguous in a shape with a zero")
        shape = [x.size // known if n == -1 else n for n in shape]
    return mx.reshape(x, shape)


@instruction
def transpose(x: Array, axes: list[int]) -> Array:
    """x with its axes permuted."""
    return mx.transpose(x, axes)


@lowers("aten.view", "aten._unsafe_view")
def view(self, size):
    return reshape(self, size)


@lowers("aten.reshape")
def reshape_(self, shape):
    return reshape(self, shape)


@lowers("aten.permute")
def permute(self, dims):
    return transpose(self, dims)


@lowers("aten.transpose.int")
def transpose_(self, dim0, dim1):
    axes = list(range(self.ndim))
    if axes:
        axes[dim0], axes[dim1] = axes[dim1], axes[dim0]
    return transpose(self, axes)
