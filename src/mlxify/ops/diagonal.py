"""Diagonals and triangles of matrices."""

from __future__ import annotations

import mlx.core as mx
import numpy as np

from ..isa import Array, Int, cast, constant, instruction
from ..lowering import lowers
from .axes import axis_of
from .compare import where
from .create import eye, literal
from .pad import pad
from .reduce import sum_
from .shape import distinct_axes, expand_dims, moved, reshape


@instruction
def diagonal(x: Array, offset: int, axis1: int, axis2: int) -> Array:
    """The elements whose index along axis2 is that along axis1 + offset, along a new last axis instead of the two."""
    axis1, axis2 = distinct_axes(x, [axis1, axis2])
    return mx.diagonal(x, max(-x.shape[axis1], min(offset, x.shape[axis2])), axis1, axis2)


@instruction
def tril(x: Array, k: Int) -> Array:
    """The matrices of x with zeros where column - row is above k."""
    return mx.tril(x, _in_reach(x, k))


@instruction
def triu(x: Array, k: Int) -> Array:
    """The matrices of x with zeros where column - row is below k."""
    return mx.triu(x, _in_reach(x, k))


def _in_reach(x: mx.array, k: int) -> int:
    if x.ndim < 2:
        raise ValueError("a triangle needs two axes")
    return max(-x.shape[-2] - 1, min(k, x.shape[-1] + 1))


@lowers("aten.tril")
def tril_(self, diagonal):
    return tril(self, diagonal)


@lowers("aten.triu")
def triu_(self, diagonal):
    return triu(self, diagonal)


@lowers("aten.tril_indices")
def tril_indices(row, col, offset, dtype, result):
    return literal(np.stack(np.tril_indices(row, offset, col)), result.dtype)


@lowers("aten.triu_indices")
def triu_indices(row, col, offset, dtype, result):
    return literal(np.stack(np.triu_indices(row, offset, col)), result.dtype)


@lowers("aten.diagonal")
def diagonal_(self, offset, dim1, dim2):
    return diagonal(self, offset, axis_of(self, dim1), axis_of(self, dim2))


@lowers("aten.linalg_diagonal")
def linalg_diagonal(A, offset, dim1, dim2):
    return diagonal(A, offset, axis_of(A, dim1), axis_of(A, dim2))


@lowers("aten.trace")
def trace(self, result):
    return sum_(cast(diagonal(self, 0, 0, 1), result.dtype), [0], False)


@lowers("aten.diag_embed")
def diag_embed(self, offset, dim1, dim2):
    return moved(embedded(self, offset), [-2, -1], [dim1, dim2])


@lowers("aten.diag")
def diag(self, diagonal):
    return embedded(self, diagonal) if self.ndim == 1 else diagonal_(self, diagonal, 0, 1)


@lowers("aten.diagflat")
def diagflat(self, offset):
    return embedded(reshape(self, [self.size]), offset)


def embedded(x, offset):
    """The vectors along the last axis of x on diagonals of square matrices."""
    size = x.shape[-1] + abs(offset)
    if offset:
        rest = [0] * (x.ndim - 1)
        x = pad(x, [*rest, 0], [*rest, abs(offset)], "constant", 0)
    # Above the main diagonal an element has its row's number in the vector, below it its column's.
    lines = expand_dims(x, [-1 if offset >= 0 else -2])
    return where(eye(size, size, offset, mx.bool_), lines, constant(0, x.dtype))
