"""Reductions of consecutive segments of an axis."""

from __future__ import annotations

import math

import mlx.core as mx

from ..errors import refuse
from ..isa import cast
from ..lowering import lowers
from .arithmetic import divide, literal, subtract, widen
from .bitwise import bitwise_and
from .compare import equal, greater, greater_equal, where
from .create import arange, full
from .join import concatenate
from .reduce import all_, sum_
from .scalar import assert_scalar
from .scan import cumsum
from .scatter import scatter
from .shape import broadcast_to, product, reshape, slice_
from .sort import searchsorted

REDUCTIONS = {"sum": "sum", "mean": "sum", "prod": "prod", "max": "max", "min": "min"}
INITIAL = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}


@lowers("aten.segment_reduce")
def segment_reduce(data, reduce, result, lengths=None, offsets=None, axis=0, unsafe=False, initial=None):
    """`offsets` are where the segments begin, and where the last one ends; they are the running sums of `lengths`."""
    if lengths is not None:
        lengths = cast(lengths, mx.int64)
        _check_lengths(lengths, None if unsafe or offsets is not None else data.shape[lengths.ndim - 1])
    if offsets is None:
        zeros = full([*lengths.shape[:-1], 1], 0, mx.int64)
        offsets = concatenate([zeros, cumsum(lengths, lengths.ndim - 1)], lengths.ndim - 1)
    offsets = cast(offsets, mx.int64)
    last = offsets.ndim - 1
    if result.shape[last] not in (None, offsets.shape[last] - 1):
        raise refuse("torch.export derives another shape from offsets and a negative axis")
    starts, ends = (slice_(offsets, [a], [b], [1], [last]) for a, b in ((0, -1), (1, offsets.shape[last])))
    _check_lengths(subtract(ends, starts), None)
    start = INITIAL[reduce] if initial is None else initial
    reduced = _reduced(widen(data), offsets, REDUCTIONS[reduce], start)
    if reduce != "mean":
        return reduced
    counts = reshape(subtract(ends, starts), [*starts.shape, *[1] * (reduced.ndim - starts.ndim)])
    mean = divide(reduced, cast(counts, reduced.dtype))
    # Of an empty segment it is the initial value, if there is one.
    return mean if initial is None else where(greater(counts, 0), mean, reduced)


def _check_lengths(lengths, total):
    message = "segment_reduce needs lengths that are not negative and add up to the size of the axis"
    fits = greater_equal(lengths, 0)
    if total is not None:
        fits = bitwise_and(fits, equal(sum_(lengths, [lengths.ndim - 1], True), literal(total, mx.int64)))
    assert_scalar(all_(fits, list(range(lengths.ndim)), False), message)


def _reduced(x, offsets, reduce, initial):
    """x with the axis that is the last one of `offsets` reduced segment by segment, each beginning with `initial`."""
    axis = offsets.ndim - 1
    lead, n, rest = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    segments = offsets.shape[axis] - 1
    rows = product(lead)
    places = broadcast_to(arange(0, n, 1, mx.int64), [rows, n])
    # Elements before the first segment and after the last one go to one more, -1 or the last, which is dropped.
    segment = subtract(searchsorted(reshape(offsets, [rows, segments + 1]), places, "right"), 1)
    row = reshape(arange(0, rows, 1, mx.int64), [rows, 1])
    base = full([rows, segments + 1, *rest], float(initial), x.dtype)
    result = scatter(base, [row, segment], reshape(x, [rows, n, *rest]), [0, 1], reduce)
    return reshape(slice_(result, [0], [-1], [1], [1]), [*lead, segments, *rest])
