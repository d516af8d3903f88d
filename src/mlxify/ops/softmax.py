"""Softmax and its logarithm."""

from __future__ import annotations

import math
from functools import partial

import mlx.core as mx

from ..device import PART_OF_STEPS, on_cpu, over_cores
from ..errors import refuse
from ..isa import Array, cast, instruction
from ..lowering import lowers
from .arithmetic import literal, subtract, widen
from .compare import equal, where
from .exponential import exp_of_negative, wide_floats
from .reduce import all_, logsumexp, max_, normal_axes, total
from .scan import along
from .shape import reshape


@instruction(chain=512)
def softmax(x: Array, axis: int) -> Array:
    """exp(x) / sum(exp(x)) along an axis of floats. Halves in float32, rounded once.

    Where x is all -inf, or has a +inf or NaN, the result is NaN.
    """
    if not mx.issubdtype(x.dtype, mx.floating):
        raise ValueError("softmax needs floats")
    if x.size == 0:
        return x
    if not on_cpu():
        return mx.softmax(x, axis=axis, precise=True)
    (axis,) = normal_axes(x, [axis])
    return over_cores(partial(_softmax, axis=axis - x.ndim), x, x.ndim - axis, PART_OF_STEPS)


def _softmax(x: mx.array, axis: int) -> mx.array:
    """On a CPU, where MLX's own takes twice the time and adds up long rows less accurately (see total)."""
    wide = wide_floats(x)
    y = exp_of_negative(wide - mx.max(wide, axis=axis, keepdims=True))
    return (y / total(y, normal_axes(x, [axis]), True)).astype(x.dtype)


@lowers("aten.softmax.int", "aten.special_softmax", "aten._softmax")
def softmax_(self, dim, dtype=None, half_to_float=False):
    return along(softmax, _input(self, dtype, half_to_float), dim)


@lowers("aten.log_softmax.int", "aten.special_log_softmax", "aten._log_softmax")
def log_softmax(self, dim, dtype=None, half_to_float=False):
    return along(_log_softmax, widen(_input(self, dtype, half_to_float)), dim)


@lowers("aten._safe_softmax")
def safe_softmax(self, dim, dtype=None):
    return along(_safe_softmax, _input(self, dtype, False), dim)


@lowers("aten._masked_softmax")
def masked_softmax(self, mask, dim=None, mask_type=None):
    """mask is true where an element does not count."""
    if mask_type not in (0, 1, 2, None):
        raise refuse(f"the mask type {mask_type} does not exist")
    if mask_type == 0 and self.ndim == 4:  # (length, length), for every batch and head
        mask = reshape(mask, [1, 1, *mask.shape])
    elif mask_type == 1 and self.ndim == 4:  # (batch, length), for every head and query
        mask = reshape(mask, [mask.shape[0], 1, 1, mask.shape[1]])
    masked = where(cast(mask, mx.bool_), literal(-math.inf, self.dtype), self)
    return along(softmax, masked, -1 if dim is None else dim)


def _input(x, dtype, half_to_float):
    if dtype is None:
        dtype = mx.float32 if half_to_float or not mx.issubdtype(x.dtype, mx.inexact) else x.dtype
    return x if x.dtype == dtype else cast(x, dtype)


def _log_softmax(x, axis):
    if x.shape[axis] == 0:  # for a dynamic size this is false
        return x
    shifted = subtract(x, max_(x, [axis], True))
    return subtract(shifted, logsumexp(shifted, [axis], True))


def _safe_softmax(x, axis):
    nothing = all_(equal(x, -math.inf), [axis], True)
    return where(nothing, literal(0.0, x.dtype), softmax(x, axis))
