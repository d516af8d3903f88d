"""RMS and layer norms that a model spells out."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from ..calls import Call
from ..isa import cast
from ..lowering import HALVES
from ..patterns import Pattern, either, fuses, narrowed, op, widened, wild
from .norm import layer_norm, rms_norm

POWER = "aten.pow.Tensor_Scalar"
EPS, OUTSIDE, WEIGHT, BIAS = wild("eps"), wild("eps_outside"), widened(wild("weight")), widened(wild("bias"))


def mean_of(x: Pattern, axes: str) -> Pattern:
    """The mean over some axes, which stay with the size 1."""
    alone = op("aten.mean.dim", x, wild(axes))
    with_variance = op("aten.var_mean.correction", x, wild(axes), keepdim=True, loose=True)
    return either(
        op("aten.mean.dim", x, wild(axes), True),
        op("aten.unsqueeze", alone, loose=True, where=_adds_last),
        op("operator.getitem", with_variance, 1),
    )


def _adds_last(call: Call) -> bool:
    return call.arguments["dim"] in (-1, call.ndim - 1)


def square(x: Pattern) -> Pattern:
    return op(POWER, x, 2) | op("aten.square", x) | x * x


def normed(x: Pattern, variance: Pattern, *roots: Pattern) -> Pattern:
    """x over the root of its variance and eps, with a weight or without. roots: other forms of the root without eps."""
    inside = (variance + EPS).named("variance")
    root = op("aten.sqrt", inside) | op(POWER, inside, 0.5)
    bare = either(op("aten.sqrt", variance), op(POWER, variance, 0.5), *roots)
    outside = bare.named("variance") + OUTSIDE
    inverse = op("aten.rsqrt", inside) | op(POWER, inside, -0.5) | 1 / root
    plain = x * inverse | x / (root | outside)
    weighted = (x * WEIGHT).named("weighted")
    return plain | plain * WEIGHT | weighted * inverse | weighted / (root | outside)


def not_a_norm(
    parts: list[Any], axes: list[Any], eps: Any, variance: Call, vectors: dict[str, Any]
) -> str | None:
    """Why x over a root is no norm along the last axis; `parts` are all to be the same x."""
    x = parts[0]
    if not isinstance(x, Call) or any(part is not x for part in parts):
        return "what is divided is not that of which the mean is taken"
    others = [a for a in axes if a not in ([-1], [x.ndim - 1])]
    if not x.ndim or others:
        return f"the mean is over the axes {others[0] if others else []}, not over the last one"
    if type(eps) not in (int, float) or eps <= 0:
        return "eps is not a positive number"
    if variance.dtype not in (mx.float32, mx.float64):
        return "it is computed in half precision, where PyTorch rounds every step"
    for name, vector in vectors.items():
        if vector is not None and (not isinstance(vector, Call) or vector.shape != x.shape[-1:]):
            return f"the {name} does not have the shape ({x.shape[-1]},)"
        if vector is not None and vector.dtype not in (*HALVES, mx.float32, variance.dtype):
            return f"the {name} is not of the dtype in which the norm is computed"
    return None


OUTSIDE_ROOT = "eps is added to the root, not to what it is taken of"


def no_rms_norm(x, y, axes, eps, eps_outside, variance, weight, weighted):
    if eps_outside is not None:
        return OUTSIDE_ROOT
    if weighted is not None and weighted.dtype != variance.dtype:
        return "the weighted x is rounded to half precision"
    return not_a_norm([x, y], [axes], eps, variance, {"weight": weight})


RMS = normed(widened(wild("x")), mean_of(square(widened(wild("y"))), "axes"))


@fuses(RMS | narrowed(RMS), condition=no_rms_norm, name="rms_norm")
def rms_norm_by_hand(x, weight, eps, variance, result):
    return rms_norm(_computed(x, variance, result), weight, eps)


def _computed(x, variance, result):
    """x for an instruction that computes halves in float32 and rounds once: widened where PyTorch does more."""
    once = x.dtype == result.dtype and (x.dtype in HALVES or x.dtype == variance.dtype)
    return x if once and variance.dtype == mx.float32 else cast(x, variance.dtype)


def no_layer_norm(
    x, averaged, y, y_averaged, axes, variance_axes, y_axes, eps, eps_outside, variance, weight, weighted, bias,
    unbiased, correction,
):  # fmt: skip
    if eps_outside is not None:
        return OUTSIDE_ROOT
    if unbiased or correction:
        return "the variance is the unbiased one"
    if weighted is not None and weighted.dtype != variance.dtype:
        return "the weighted x is rounded to half precision"
    parts = [x, averaged, y, y if y_averaged is None else y_averaged]
    found_axes = [a for a in (axes, variance_axes, y_axes) if a is not None]
    return not_a_norm(parts, found_axes, eps, variance, {"weight": weight, "bias": bias})


def _centred(x: str, averaged: str, axes: str) -> Pattern:
    return widened(wild(x)) - mean_of(widened(wild(averaged)), axes)


CENTRED = _centred("y", "y_averaged", "y_axes")
OF = CENTRED | widened(wild("y")), wild("variance_axes")


def _spread(name: str) -> Pattern:
    """The variance or the standard deviation, as ops of their own."""
    correction = wild("correction")
    return either(
        op(f"aten.{name}.dim", *OF, wild("unbiased"), True),
        op(f"aten.{name}.correction", *OF, correction=correction, keepdim=True),
        op(
            "operator.getitem",
            op(f"aten.{name}_mean.correction", *OF, correction=correction, keepdim=True),
            0,
        ),
    )


VARIANCE = mean_of(square(CENTRED), "variance_axes") | _spread("var")
LAYER = normed(_centred("x", "averaged", "axes"), VARIANCE, _spread("std"))
AFFINE = LAYER | LAYER + BIAS


@fuses(AFFINE | narrowed(AFFINE), condition=no_layer_norm, name="layer_norm")
def layer_norm_by_hand(x, weight, bias, eps, variance, result):
    return layer_norm(_computed(x, variance, result), weight, bias, eps)
