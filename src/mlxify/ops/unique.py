"""Distinct elements and rows. How many there are depends on the data, so the program waits for the device."""

from __future__ import annotations

import mlx.core as mx
import numpy as np

from ..errors import refuse
from ..isa import Array, instruction
from ..lowering import HALVES, lowers
from .arithmetic import subtract
from .axes import axis_of
from .bitwise import bitwise_or
from .compare import equal, not_equal
from .create import full
from .index import take
from .join import concatenate, roll
from .nonzero import flat_positions
from .reduce import any_
from .scan import cumsum, indices_along
from .scatter import put_along_axis
from .shape import product, reshape, slice_, transpose
from .sort import argsort


@instruction(sync=True, abstract=lambda x: mx.zeros((x.shape[0],), mx.int64))
def argsort_rows(x: Array) -> Array:
    """The int64 indices that sort the rows of a matrix, by the first column, then by the second … Waits for x."""
    if x.ndim != 2:
        raise ValueError("argsort_rows needs a matrix")
    rows = np.array(x.astype(mx.float32) if x.dtype in HALVES else x)
    order = np.lexsort(rows.T[::-1]) if rows.size else np.arange(len(rows))
    return mx.array(order, mx.int64)


@lowers("aten._unique2", "aten._unique")
def unique(self, sorted=True, return_inverse=False, return_counts=False, result=()):
    """Always sorted."""
    flat = reshape(self, [-1])
    order = argsort(flat, 0, False)
    values, inverse, counts = _distinct(take(flat, order, 0), 0, order)
    return _wanted([values, reshape(inverse, self.shape), counts], result)


@lowers("aten.unique_consecutive")
def unique_consecutive(self, return_inverse=False, return_counts=False, dim=None, result=()):
    if dim is not None and dim < 0:
        raise refuse(
            "torch.export gives its result a wrong shape for a negative dim: count it from the front"
        )
    if dim is not None:
        return _wanted(_distinct(self, axis_of(self, dim)), result)
    values, inverse, counts = _distinct(reshape(self, [-1]), 0)
    return _wanted([values, reshape(inverse, self.shape), counts], result)


@lowers("aten.unique_dim")
def unique_dim(self, dim, sorted=True, return_inverse=False, return_counts=False, result=()):
    """Always sorted."""
    axis = axis_of(self, dim)
    others = [a for a in range(self.ndim) if a != axis]
    rows = reshape(
        transpose(self, [axis, *others]), [self.shape[axis], product([self.shape[a] for a in others])]
    )
    order = argsort_rows(rows)
    return _wanted(_distinct(take(self, order, axis), axis, order), result)


def _distinct(x, axis, order=None):
    """The first of each run of equal slices of x along an axis, the run of each slice, and the runs' lengths.

    order: where the slices stood, which says to what places the runs' numbers belong.
    """
    index, others = indices_along(x, axis), [a for a in range(x.ndim) if a != axis]
    begins = bitwise_or(
        equal(reshape(index, [-1]), 0), any_(not_equal(x, roll(x, [1], [axis])), others, False)
    )
    starts = flat_positions(begins)
    runs = subtract(cumsum(begins, 0), 1)
    if order is not None:
        runs = put_along_axis(runs, order, runs, 0, "none")
    length = full([1], x.shape[axis], mx.int64)
    ends = concatenate([slice_(starts, [1], [starts.shape[0]], [1], [0]), length], 0)
    return take(x, starts, axis), runs, subtract(ends, starts)


def _wanted(found, result):
    """PyTorch gives an empty tensor for what was not asked for, but not always."""
    nothing = full([0], 0, mx.int64)
    return [nothing if r.shape == (0,) else f for f, r in zip(found, result, strict=False)]
