"""What stands around a convolution and goes into its own arguments: padding with zeros before, a batch norm after."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from ..calls import Call
from ..patterns import Pattern, fuses, op, wild
from .arithmetic import add, multiply
from .conv import conv_, conv_padding, convolved
from .norm import scale_and_shift
from .patches import each
from .shape import reshape

CONVOLUTIONS = tuple(f"aten.conv{n}d.{form}" for n in (1, 2, 3) for form in ("default", "padding"))
X, PADS, FILL = wild("input"), wild("pads"), wild("fill")
PADDED = op("aten.pad", X, PADS, "constant", FILL) | op("aten.constant_pad_nd", X, PADS, FILL)


def convolution(x: Pattern) -> Pattern:
    settings = [wild(name) for name in ("weight", "bias", "stride", "padding", "dilation", "groups")]
    return op(CONVOLUTIONS, x, *settings).named("conv")


def no_padding(conv: Call, padding: Any, pads: Any, fill: Any) -> str | None:
    if fill not in (None, 0):
        return "the padding is not with zeros"
    if isinstance(padding, str):
        return f"the convolution's own padding is {padding!r}"
    if not all(type(n) is int for n in pads) or len(pads) > 2 * (conv.ndim - 2):
        return (
            "it pads by sizes known when the program runs, or not only the axes along which the kernel moves"
        )
    if min(pads, default=0) < 0 and any(n != 0 for n in each(padding, 1)):
        return "it cuts off elements that the convolution's own padding replaces by zeros"
    return None


def no_batch_norm(conv: Call, root: Call, eps: Any, padding: Any, pads: Any, fill: Any) -> str | None:
    if conv.dtype != mx.float32 or root.dtype != mx.float32:
        return "PyTorch rounds between a convolution and a norm that are not in float32"
    if type(eps) not in (int, float) or eps <= 0:
        return "eps is not a positive number"
    return None if pads is None else no_padding(conv, padding, pads, fill)


@fuses(convolution(PADDED), condition=no_padding)
def padded_convolution(input, weight, bias, stride, padding, dilation, groups, pads):
    count = weight.ndim - 2
    widths = [*pads, *[0] * (2 * count - len(pads))]
    own = each(padding, count)
    low, high = ([p + w for p, w in zip(own, widths[side::2][::-1], strict=True)] for side in (0, 1))
    return convolved(input, weight, bias, each(stride, count), low, high, each(dilation, count), groups)


def normed(x: Pattern) -> Pattern:
    """A batch norm that does not train, as it is exported and as PyTorch decomposes it."""
    statistics = [wild(name) for name in ("gamma", "beta", "mean", "variance")]
    momentum, eps = wild("momentum"), wild("eps")
    whole = op("aten.batch_norm", x, *statistics, False, momentum, eps, loose=True)
    decomposed = op("aten._native_batch_norm_legit_no_training", x, *statistics, momentum, eps)
    return whole | op("operator.getitem", decomposed, 0)


@fuses(normed(convolution(PADDED | X)), condition=no_batch_norm)
def convolution_and_batch_norm(
    input, weight, bias, stride, padding, dilation, groups, pads, gamma, beta, mean, variance, eps
):
    """The kernel times the norm's scale, and its shift as the bias. Computed once, when the program is loaded."""
    scale, shift = scale_and_shift(gamma, beta, mean, variance, eps)
    weight = multiply(weight, reshape(scale, [scale.shape[0], *[1] * (weight.ndim - 1)]))
    bias = shift if bias is None else add(multiply(bias, scale), shift)
    if pads is not None:
        return padded_convolution(input, weight, bias, stride, padding, dilation, groups, pads)
    run = conv_padding if isinstance(padding, str) else conv_
    return run(input, weight, bias, stride, padding, dilation, groups)
