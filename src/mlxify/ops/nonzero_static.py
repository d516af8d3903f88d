"""Positions of a given number of non-zero elements: nothing depends on data but values, so nothing waits."""

from __future__ import annotations

import mlx.core as mx

from ..isa import cast
from ..lowering import as_array, lowers
from .arithmetic import floor_divide, remainder, subtract
from .bitwise import bitwise_and
from .compare import greater_equal, less, where
from .create import arange, full
from .join import stack
from .scan import cumsum
from .scatter import scatter
from .shape import product, reshape, slice_


@lowers("aten.nonzero_static")
def nonzero_static(self, size, fill_value=-1):
    if self.ndim == 0:
        return full([size, 0], 0, mx.int64)
    wanted = cast(reshape(self, [-1]), mx.bool_)
    rank = subtract(cumsum(wanted, 0), 1)
    # Whatever is not among the first `size` goes to a place of its own at the end.
    rank = where(bitwise_and(wanted, less(rank, size)), rank, as_array(size, mx.int64))
    found = scatter(full([size + 1], -1, mx.int64), [rank], arange(0, self.size, 1, mx.int64), [0], "none")
    found = slice_(found, [0], [size], [1], [0])
    columns = [
        remainder(floor_divide(found, product(self.shape[axis + 1 :])), n)
        for axis, n in enumerate(self.shape)
    ]
    there = greater_equal(found, 0)
    return stack([where(there, c, as_array(fill_value, mx.int64)) for c in columns], -1)
