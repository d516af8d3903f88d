"""Rows repeated as often as an array says."""

from __future__ import annotations

import mlx.core as mx

from ..isa import cast
from ..lowering import lowers
from .axes import axis_of
from .create import arange
from .index import take
from .join import repeat
from .reduce import sum_
from .scan import cumsum
from .shape import reshape
from .sort import searchsorted


@lowers("aten.repeat_interleave.self_Tensor")
def repeat_interleave(self, repeats, dim, output_size):
    if dim is None:
        self, dim = reshape(self, [self.size]), 0
    axis = axis_of(self, dim)
    if not repeats.ndim or (repeats.shape[0] == 1 and self.shape[axis] != 1):
        return repeat(self, reshape(repeats, []), axis)
    return take(self, _rows(repeats, output_size), axis)


@lowers("aten.repeat_interleave.Tensor")
def repeated_rows(repeats, output_size):
    return _rows(repeats, output_size)


def _rows(repeats, total):
    """0 repeats[0] times, then 1 repeats[1] times, … How many that are waits for the device, unless it is given."""
    repeats = cast(repeats, mx.int64)
    if total is None:
        total = sum_(repeats, [0], False)
    return searchsorted(cumsum(repeats, 0), arange(0, total, 1, mx.int64), "right")
