"""Variances, medians, modes and counts."""

from __future__ import annotations

import mlx.core as mx

from ..isa import cast
from ..lowering import as_array, lowers
from .arithmetic import add, divide, floor_divide, literal, maximum, multiply, subtract
from .axes import axes_of
from .bitwise import bitwise_and, bitwise_or
from .compare import equal, greater, greater_equal, less_equal, not_equal, where
from .create import full
from .index import take_along_axis
from .join import concatenate, roll
from .reduce import argmax, max_, mean, min_, sum_, var
from .scalar import assert_number, number_binary, to_number
from .scan import along, cummax, indices_along
from .scatter import scatter
from .shape import reshape, slice_, squeeze
from .sort import sorted_with_indices
from .unary import sqrt


@lowers("aten.var", "aten.var.dim", "aten.var.correction", opmath=True)
def var_(self, dim=None, unbiased=True, correction=None, keepdim=False):
    if correction is None:
        correction = 1 if unbiased else 0
    return var(self, axes_of(self, dim), correction, keepdim)


@lowers("aten.std", "aten.std.dim", "aten.std.correction", opmath=True)
def std(self, dim=None, unbiased=True, correction=None, keepdim=False):
    return sqrt(var_(self, dim, unbiased, correction, keepdim))


@lowers("aten.var_mean", "aten.var_mean.dim", "aten.var_mean.correction", opmath=True)
def var_mean(self, dim=None, unbiased=True, correction=None, keepdim=False):
    return var_(self, dim, unbiased, correction, keepdim), mean(self, axes_of(self, dim), keepdim)


@lowers("aten.std_mean", "aten.std_mean.dim", "aten.std_mean.correction", opmath=True)
def std_mean(self, dim=None, unbiased=True, correction=None, keepdim=False):
    return std(self, dim, unbiased, correction, keepdim), mean(self, axes_of(self, dim), keepdim)


@lowers("aten.median")
def median(self):
    return _of_all(_median, self)


@lowers("aten.nanmedian")
def nanmedian(self):
    return _of_all(_nanmedian, self)


@lowers("aten.median.dim")
def median_dim(self, dim, keepdim=False):
    return _along_dim(_median, self, dim, keepdim)


@lowers("aten.nanmedian.dim")
def nanmedian_dim(self, dim, keepdim=False):
    return _along_dim(_nanmedian, self, dim, keepdim)


@lowers("aten.mode")
def mode(self, dim=-1, keepdim=False):
    return _along_dim(_mode, self, dim, keepdim)


def _of_all(choice, x):
    x = reshape(x, [-1])
    if x.shape[0] == 0:
        return full([], float("nan"), x.dtype)
    return reshape(_chosen(choice, x, 0)[0], [])


def _along_dim(choice, x, dim, keepdim):
    """The chosen element of each row and its index."""
    found = along(lambda x, axis: _chosen(choice, x, axis), x, dim)
    if keepdim or x.ndim == 0:
        return found
    return tuple(squeeze(f, [dim % x.ndim]) for f in found)


def _chosen(choice, x, axis):
    """The elements at the positions in their sorted rows that choice gives, and their indices."""
    values, order = sorted_with_indices(x, axis)
    position = choice(values, axis)
    return take_along_axis(values, position, axis), take_along_axis(order, position, axis)


def _median(x, axis):
    """The first NaN, which comes after the numbers, or the lower median."""
    n, nans = _lengths(x, axis)
    return where(greater(nans, 0), subtract(n, nans), floor_divide(subtract(n, 1), literal(2, mx.int64)))


def _nanmedian(x, axis):
    n, nans = _lengths(x, axis)
    return floor_divide(maximum(subtract(subtract(n, nans), 1), 0), literal(2, mx.int64))


def _lengths(x, axis):
    """The length of the rows, and the number of NaN in each."""
    return as_array(x.shape[axis], mx.int64), sum_(not_equal(x, x), [axis], True)


def _mode(x, axis):
    """The last of the longest run of equal elements, the first one of several."""
    index = indices_along(x, axis)
    starts = cummax(where(_begins(x, axis), index, literal(0, mx.int64)), axis)
    return argmax(subtract(index, starts), axis, True)


def _begins(x, axis):
    """Whether an element differs from the one before it along an axis; the first one does."""
    return bitwise_or(equal(indices_along(x, axis), 0), not_equal(x, roll(x, [1], [axis])))


@lowers("aten.histc", opmath=True)
def histc(self, bins=100, min=0, max=0):
    """bins of equal width, the last one with its upper edge. Outside elements and NaN are not counted."""
    x = reshape(self, [-1])
    low, high = _range(x, min, max)
    width = subtract(high, low)
    place = cast(divide(multiply(subtract(x, low), float(bins)), width), mx.int64)
    place = where(equal(place, bins), literal(bins - 1, mx.int64), place)
    inside = bitwise_and(greater_equal(x, low), less_equal(x, high))
    place = where(inside, place, literal(bins, mx.int64))
    counts = slice_(_tally(place, bins + 1, literal(1, mx.int32)), [0], [bins], [1], [0])
    return add(cast(counts, x.dtype), subtract(width, width))  # NaN when the range is not finite


def _range(x, low, high):
    if low != high or x.shape[0] == 0:
        return literal(low if low != high else -1, x.dtype), literal(high if low != high else 1, x.dtype)
    low, high = min_(x, [0], False), max_(x, [0], False)
    same = equal(low, high)
    return where(same, subtract(low, 1.0), low), where(same, add(high, 1.0), high)


def _tally(places, size, weights):
    """The sum of the weights for each place from 0 to size - 1."""
    return scatter(full([size], 0, weights.dtype), [places], weights, [0], "sum")


@lowers("aten.bincount")
def bincount(self, weights=None, minlength=0):
    """How many there are depends on the data: the program waits for the largest element."""
    zero = full([1], 0, self.dtype)
    least = min_(concatenate([self, zero], 0), [0], False)
    assert_number(number_binary("greater_equal", to_number(least), 0), "bincount needs non-negative integers")
    x = cast(self, mx.int64)
    size = to_number(max_(concatenate([add(x, 1), full([1], 0, mx.int64)], 0), [0], False))
    if weights is None:
        weights = literal(1, mx.int32)
    elif weights.dtype != mx.float32:
        weights = cast(weights, mx.float64)
    return _tally(x, number_binary("maximum", size, minlength), weights)
