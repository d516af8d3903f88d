"""Counts of values by bins: histc, bincount, and histograms of one and more dimensions."""

from __future__ import annotations

import math

import mlx.core as mx

from ..errors import refuse
from ..isa import cast
from ..lowering import as_array, lowers
from .arithmetic import add, divide, literal, minimum, multiply, subtract
from .bitwise import bitwise_and
from .compare import equal, greater_equal, isfinite, less, less_equal, where
from .create import arange, full
from .join import concatenate
from .reduce import max_, min_, sum_
from .scalar import assert_number, assert_scalar, number_binary, to_number
from .scatter import scatter
from .shape import expand_dims, product, reshape, slice_, squeeze
from .sort import searchsorted


@lowers("aten.histc", opmath=True)
def histc(self, bins=100, min=0, max=0):
    """bins of equal width, the last one with its upper edge. Outside elements and NaN are not counted."""
    x = reshape(self, [-1])
    low, high = _range(x, min, max)
    width = subtract(high, low)
    place = cast(divide(multiply(subtract(x, low), float(bins)), width), mx.int64)
    place = where(equal(place, bins), literal(bins - 1, mx.int64), place)
    inside = bitwise_and(greater_equal(x, low), less_equal(x, high))
    counts = _tally_inside(place, inside, bins, None)
    return add(cast(counts, x.dtype), subtract(width, width))  # NaN when the range is not finite


def _range(x, low, high):
    if low != high or x.shape[0] == 0:
        return literal(low if low != high else -1, x.dtype), literal(high if low != high else 1, x.dtype)
    low, high = min_(x, [0], False), max_(x, [0], False)
    same = equal(low, high)
    return where(same, subtract(low, 1.0), low), where(same, add(high, 1.0), high)


def _tally_inside(places, inside, size, weights):
    """The sum of the weights, or the number, of those inside for each place from 0 to size - 1."""
    places = where(inside, places, literal(size, mx.int64))
    return slice_(_tally(places, size + 1, weights), [0], [size], [1], [0])


def _tally(places, size, weights):
    """The sum of the weights for each place from 0 to size - 1, or how often each occurs."""
    if weights is None:
        weights = literal(1, mx.int32)
    return scatter(full([size], 0, weights.dtype), [places], weights, [0], "sum")


@lowers("aten.bincount")
def bincount(self, weights=None, minlength=0):
    """How many there are depends on the data: the program waits for the largest element."""
    zero = full([1], 0, self.dtype)
    least = min_(concatenate([self, zero], 0), [0], False)
    assert_number(number_binary("greater_equal", to_number(least), 0), "bincount needs non-negative integers")
    x = cast(self, mx.int64)
    size = to_number(max_(concatenate([add(x, 1), full([1], 0, mx.int64)], 0), [0], False))
    if weights is not None and weights.dtype != mx.float32:
        weights = cast(weights, mx.float64)
    return _tally(x, number_binary("maximum", size, minlength), weights)


@lowers("aten.histogram.bins_tensor")
def histogram(self, bins, weight=None, density=False):
    return _histogram(reshape(self, [-1, 1]), [bins], weight, density), bins


@lowers("aten.histogram.bin_ct")
def histogram_of_count(self, bins=100, range=None, weight=None, density=False):
    x = reshape(self, [-1, 1])
    edges = _edges(x, [bins], range)
    return _histogram(x, edges, weight, density), edges[0]


@lowers("aten.histogramdd", "aten.histogramdd.int_bins")
def histogramdd(self, bins, range=None, weight=None, density=False):
    edges = bin_edges(self, bins, range)
    return _histogram(_points(self), edges, weight, density), edges


@lowers("aten._histogramdd_bin_edges")
def bin_edges(self, bins, range=None, weight=None, density=False):
    x = _points(self)
    return _edges(x, [bins] * x.shape[1] if isinstance(bins, int) else bins, range)


@lowers("aten._histogramdd_from_bin_cts")
def histogramdd_from_counts(self, bins, range=None, weight=None, density=False):
    return histogramdd(self, bins, range, weight, density)[0]


@lowers("aten.histogramdd.TensorList_bins")
def histogramdd_between(self, bins, range=None, weight=None, density=False):
    """The edges say it all: PyTorch takes no notice of a range."""
    return histogramdd_from_edges(self, bins, weight, density), bins


@lowers("aten._histogramdd_from_bin_tensors")
def histogramdd_from_edges(self, bins, weight=None, density=False):
    return _histogram(_points(self), bins, weight, density)


def _points(x):
    """One point a row."""
    return reshape(x, [product(x.shape[:-1]), x.shape[-1]])


def _edges(x, counts, limits):
    """The edges of bins of equal width, for each column of x: within the limits, or from the least to the largest."""
    bounds = [_bounds(x, axis, limits) for axis in range(len(counts))]
    return [_between(low, high, count + 1) for (low, high), count in zip(bounds, counts, strict=True)]


def _bounds(x, axis, limits):
    low, high = as_array(0.0, x.dtype), as_array(1.0, x.dtype)
    if limits is not None:
        low, high = limits[2 * axis : 2 * axis + 2]
        if not (math.isfinite(low) and math.isfinite(high) and low <= high):
            raise refuse(f"a histogram from {low} to {high}: PyTorch raises")
        low, high = as_array(low, x.dtype), as_array(high, x.dtype)
    elif not (isinstance(x.shape[0], int) and x.shape[0] == 0):
        column = slice_(x, [axis], [axis + 1], [1], [1])
        low, high = min_(column, [0, 1], False), max_(column, [0, 1], False)
        assert_scalar(
            bitwise_and(isfinite(low), isfinite(high)), "a histogram needs a range of finite numbers"
        )
    same = equal(low, high)
    return where(same, subtract(low, 0.5), low), where(same, add(high, 0.5), high)


def _between(low, high, count):
    """What linspace gives, of bounds that are arrays."""
    step = divide(subtract(high, low), as_array(count - 1, low.dtype))
    index = arange(0, count, 1, low.dtype)
    down = subtract(high, multiply(step, subtract(as_array(count - 1, low.dtype), index)))
    return where(less(arange(0, count, 1, mx.int64), count // 2), add(low, multiply(step, index)), down)


def _histogram(x, edges, weight, density):
    """How many rows of x, or the sum of their weights, are in each of the bins between the edges of every column."""
    counts = [e.shape[0] - 1 for e in edges]
    place, inside = literal(0, mx.int64), literal(True, mx.bool_)
    for axis, (edge, count) in enumerate(zip(edges, counts, strict=True)):
        column = squeeze(slice_(x, [axis], [axis + 1], [1], [1]), [1])
        first, last = (slice_(edge, [a], [b], [1], [0]) for a, b in ((0, 1), (count, count + 1)))
        within = bitwise_and(greater_equal(column, first), less_equal(column, last))
        inside = bitwise_and(inside, within)
        # Each bin has its lower edge, the last one the upper edge as well.
        found = minimum(subtract(searchsorted(edge, column, "right"), 1), count - 1)
        place = add(multiply(place, count), found)
    weights = None if weight is None else reshape(weight, [-1])
    hist = cast(reshape(_tally_inside(place, inside, product(counts), weights), counts), x.dtype)
    if not density:
        return hist
    hist = divide(hist, sum_(hist, list(range(len(counts))), False))
    for axis, edge in enumerate(edges):
        widths = subtract(
            *(slice_(edge, [a], [b], [1], [0]) for a, b in ((1, counts[axis] + 1), (0, counts[axis])))
        )
        hist = divide(hist, expand_dims(widths, list(range(1, len(counts) - axis))))
    return hist
