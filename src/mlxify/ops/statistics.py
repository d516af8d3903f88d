"""Variances, medians and modes."""

from __future__ import annotations

import mlx.core as mx

from ..lowering import as_array, lowers
from .arithmetic import floor_divide, literal, maximum, subtract
from .axes import axes_of
from .bitwise import bitwise_or
from .compare import equal, greater, not_equal, where
from .create import full
from .index import take_along_axis
from .join import roll
from .reduce import argmax, mean, sum_, var
from .scan import along, cummax, indices_along
from .shape import reshape, squeeze
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
