"""Rows repeated as often as an array says."""

from __future__ import annotations

import mlx.core as mx

from ..isa import cast
from ..lowering import as_array, lowers
from .axes import axis_of
from .compare import equal, greater_equal
from .create import arange
from .index import take
from .join import repeat
from .reduce import all_, sum_
from .scalar import assert_scalar
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
    counted = sum_(repeats, [0], False)
    assert_scalar(all_(greater_equal(repeats, 0), [0], False), "repeats cannot be negative")
    if total is None:
        total = counted
    else:
        assert_scalar(equal(counted, as_array(total, mx.int64)), "repeats do not add up to output_size")
    return searchsorted(cumsum(repeats, 0), arange(0, total, 1, mx.int64), "right")
