"""Dropout: nothing in inference, random zeros in training."""

from __future__ import annotations

import math

import mlx.core as mx

from ..isa import cast
from ..lowering import lowers
from .arithmetic import add, literal, multiply, widen
from .compare import less, where
from .create import full
from .random import uniform

# SELU's limit for large negative inputs, which alpha dropout puts in place of an element.
ALPHA = -1.7580993408473766


@lowers("aten.dropout")
def dropout(input, p, train):
    return _dropped(input, p, input.shape) if train and p > 0 else input


@lowers("aten.native_dropout")
def native_dropout(input, p, train):
    if train is False or p == 0:
        return [input, full(input.shape, True, mx.bool_)]
    kept = _kept(input.shape, p)
    return [_scaled(input, kept, p), kept]


@lowers("aten.feature_dropout")
def feature_dropout(input, p, train):
    return _dropped(input, p, _features(input)) if train and p > 0 else input


@lowers("aten.alpha_dropout")
def alpha_dropout(input, p, train):
    return _alpha_dropped(input, p, input.shape) if train and p > 0 else input


@lowers("aten.feature_alpha_dropout")
def feature_alpha_dropout(input, p, train):
    return _alpha_dropped(input, p, _features(input)) if train and p > 0 else input


def _features(x):
    """One element for each channel of each batch."""
    return [*x.shape[:2], *[1] * (x.ndim - 2)]


def _kept(shape, p):
    return less(uniform(shape, mx.float32), 1.0 - p)


def _dropped(x, p, shape):
    return _scaled(x, _kept(shape, p), p)


def _scaled(x, kept, p):
    """x / (1 - p) where it is kept, elsewhere 0."""
    wide = widen(x)
    zero = literal(0.0, wide.dtype)
    return zero_like(x) if p == 1 else cast(where(kept, multiply(wide, 1 / (1 - p)), zero), x.dtype)


def zero_like(x):
    return full(x.shape, 0, x.dtype)


def _alpha_dropped(x, p, shape):
    """a * (x where it is kept, elsewhere ALPHA) + b, with the mean and variance of x."""
    if p == 1:
        return zero_like(x)
    wide = widen(x)
    a = 1 / math.sqrt((ALPHA * ALPHA * p + 1) * (1 - p))
    mixed = where(_kept(shape, p), wide, literal(ALPHA, wide.dtype))
    return cast(add(multiply(mixed, a), -a * ALPHA * p), x.dtype)
