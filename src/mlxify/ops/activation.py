"""Activation functions. Half precision is computed in float32 and rounded once, as PyTorch does."""

from __future__ import annotations

import math
from functools import partial
from typing import Literal

import mlx.core as mx

from ..device import PART_OF_STEPS, on_cpu, over_cores
from ..errors import refuse
from ..isa import Array, cast, instruction
from ..lowering import lowers
from ..patterns import fuses, narrowed, number, op, widened, wild
from .arithmetic import add, divide, literal, maximum, minimum, multiply, subtract, widen
from .axes import axis_of
from .compare import greater, less, less_equal, where
from .erf import erf_of, normal_share
from .exponential import FEW, exp, exp_of, exp_or_ends, expm1, sigmoid, tanh, tanh_of, wide_floats
from .join import split
from .random import uniform
from .shape import reshape
from .unary import abs_, log1p, negative


@lowers("aten.relu")
def relu(self):
    return maximum(self, 0)


@lowers("aten.relu6")
def relu6(self):
    return minimum(maximum(self, 0), 6)


@lowers("aten.sigmoid_backward", promote=("grad_output", "output"))
def sigmoid_backward(grad_output, output):
    return multiply(grad_output, multiply(output, subtract(1.0, output)))


@instruction(elementwise=True, chain=768)
def gelu(x: Array, approximate: Literal["none", "tanh"]) -> Array:
    """x / 2 (1 + erf(x / sqrt(2))), or with tanh(sqrt(2 / pi) (x + 0.044715 x**3)) for erf.

    Floats; halves in float32, rounded once. Hendrycks and Gimpel, https://arxiv.org/abs/1606.08415.
    """
    return over_cores(partial(_gelu, approximate=approximate), x, part=PART_OF_STEPS)


def _gelu(x: mx.array, approximate: str) -> mx.array:
    wide = wide_floats(x)
    if approximate == "tanh":
        curve = tanh_of((wide + wide * wide * wide * 0.044715) * math.sqrt(2 / math.pi))
    elif on_cpu() and wide.dtype == mx.float32:
        return (wide * normal_share(wide)).astype(x.dtype)
    else:
        curve = erf_of(wide * math.sqrt(0.5))
    return (wide * 0.5 * (curve + 1)).astype(x.dtype)


@instruction(elementwise=True, chain=256)
def silu(x: Array) -> Array:
    """x / (1 + exp(-x)). Floats and complex numbers; halves in float32, rounded once."""
    return over_cores(_silu, x, part=PART_OF_STEPS)


def _silu(x: mx.array) -> mx.array:
    wide = x if x.dtype == mx.complex64 else wide_floats(x)
    if on_cpu() and wide.dtype != mx.float32:
        return (wide / (1 + exp_of(-wide))).astype(x.dtype)
    if on_cpu() and wide.size > FEW:
        return (wide / (1 + exp_or_ends(-wide))).astype(x.dtype)
    return (wide * mx.sigmoid(wide)).astype(x.dtype)


@lowers("aten.gelu", promote="self")
def gelu_(self, approximate="none"):
    if approximate not in ("none", "tanh"):
        raise refuse(f"the approximation {approximate!r} is unknown")
    return gelu(self, approximate)


@lowers("aten.silu", promote="self")
def silu_(self):
    return silu(self)


@lowers("aten.mish", promote="self", opmath=True)
def mish(self):
    return multiply(self, tanh(softplus_of(self)))


@lowers("aten.elu", promote="self", opmath=True)
def elu(self, alpha=1, scale=1, input_scale=1):
    below = multiply(expm1(multiply(self, float(input_scale))), float(alpha * scale))
    return where(greater(self, 0.0), multiply(self, float(scale)), below)


SELU_ALPHA, SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


@lowers("aten.selu", promote="self", opmath=True)
def selu(self):
    return elu(self, SELU_ALPHA, SELU_SCALE)


@lowers("aten.celu", promote="self", opmath=True)
def celu(self, alpha=1.0):
    return elu(self, float(alpha), 1, 1 / float(alpha))


@lowers("aten.leaky_relu", promote="self", opmath=True)
def leaky_relu(self, negative_slope=0.01):
    below = multiply(self, float(negative_slope))
    if 0 < negative_slope <= 1:
        return maximum(self, below)  # on a CPU many times as fast as a choice
    return where(greater(self, 0.0), self, below)


@lowers("aten.rrelu")
def rrelu(self, lower=0.125, upper=0.3333333333333333, training=False, generator=None):
    return _randomized(self, lower, upper)[0] if training else leaky_relu(widen(self), (lower + upper) / 2)


@lowers("aten.rrelu_with_noise_functional")
def rrelu_with_noise_functional(
    self, noise, lower=0.125, upper=0.3333333333333333, training=False, generator=None
):
    return _randomized(self, lower, upper) if training else [rrelu(self, lower, upper), noise]


def _randomized(x, lower, upper):
    """x with a random slope for every element that is not above 0, and the slopes; elsewhere they are 1."""
    wide = widen(x)
    slopes = add(multiply(uniform(x.shape, wide.dtype), float(upper - lower)), float(lower))
    noise = where(less_equal(wide, 0.0), slopes, literal(1.0, wide.dtype))
    return [multiply(wide, noise), noise]


@lowers("aten._prelu_kernel", promote=("self", "weight"), opmath=True)
def prelu_kernel(self, weight):
    return where(greater(self, 0.0), self, multiply(self, weight))


@lowers("aten.prelu", promote=("self", "weight"), opmath=True)
def prelu(self, weight):
    if weight.ndim == 1 and self.ndim != 1:
        weight = reshape(weight, ([1, weight.shape[0]] + [1] * (self.ndim - 2)) if self.ndim else [])
    return prelu_kernel(self, weight)


@lowers("aten.hardsigmoid", promote="self", opmath=True)
def hardsigmoid(self):
    return divide(minimum(maximum(add(self, 3.0), 0.0), 6.0), 6.0)


@lowers("aten.hardswish", promote="self", opmath=True)
def hardswish(self):
    return divide(multiply(self, minimum(maximum(add(self, 3.0), 0.0), 6.0)), 6.0)


@lowers("aten.hardshrink", promote="self", opmath=True)
def hardshrink(self, lambd=0.5):
    # NaN is in neither part and stays; what is inside becomes 0.
    return where(less_equal(abs_(self), float(lambd)), multiply(self, 0.0), self)


@lowers("aten.softshrink", promote="self", opmath=True)
def softshrink(self, lambd=0.5):
    high, low = subtract(self, float(lambd)), add(self, float(lambd))
    return where(
        greater(self, float(lambd)), high, where(less(self, float(-lambd)), low, multiply(self, 0.0))
    )


@lowers("aten.threshold")
def threshold(self, threshold, value):
    # x <= threshold, so that NaN stays.
    return where(less_equal(self, literal(threshold, self.dtype)), literal(value, self.dtype), self)


def softplus_of(x):
    """log(1 + exp(x)) without overflow."""
    return add(maximum(x, 0.0), log1p(exp(negative(abs_(x)))))


@lowers("aten.softplus", promote="self", opmath=True)
def softplus(self, beta=1, threshold=20):
    scaled = multiply(self, float(beta))
    return where(greater(scaled, float(threshold)), self, divide(softplus_of(scaled), float(beta)))


@lowers("aten.log_sigmoid", promote="self", opmath=True)
def log_sigmoid(self):
    return subtract(minimum(self, 0.0), log1p(exp(negative(abs_(self)))))


@lowers("aten.log_sigmoid_forward", promote="self", opmath=True)
def log_sigmoid_forward(self):
    return [log_sigmoid(self), exp(negative(abs_(self)))]


@lowers("aten.glu", promote="self", opmath=True)
def glu(self, dim=-1):
    axis = axis_of(self, dim)
    half = self.shape[axis] // 2
    a, b = split(self, [half, half], axis)
    return multiply(a, sigmoid(b))


# What a model spells out, in float32: PyTorch rounds every step in half precision


def no_gelu(cubic, factor, tanh):
    if tanh.dtype not in (mx.float32, mx.float64):
        return "it is computed in half precision, where PyTorch rounds every step"
    if abs(cubic - 0.044715) > 1e-9 or abs(factor - math.sqrt(2 / math.pi)) > 1e-7:
        return "its constants are not 0.044715 and sqrt(2 / pi)"
    return None


X, CUBIC, FACTOR = widened(wild("x")), number("cubic"), number("factor")
CUBE = op("aten.pow.Tensor_Scalar", X, 3) | (X * X) * X | op("aten.pow.Tensor_Scalar", X, 2) * X
SQUARE = op("aten.pow.Tensor_Scalar", X, 2) * CUBIC | (X * X) * CUBIC | (X * CUBIC) * X
INNER = (X + CUBE * CUBIC) * FACTOR | (X * FACTOR) * (SQUARE + 1) | X * ((SQUARE + 1) * FACTOR)
RAISED = op("aten.tanh", INNER).named("tanh") + 1
GELU = (X * 0.5) * RAISED | X * (RAISED * 0.5) | (X * RAISED) * 0.5


@fuses(GELU | narrowed(GELU), condition=no_gelu, name="gelu")
def gelu_by_hand(x, tanh):
    return gelu(cast(x, tanh.dtype), "tanh")


def no_silu(sigmoid):
    if sigmoid.dtype not in (mx.float32, mx.float64):
        return "it is computed in half precision, where PyTorch rounds every step"
    return None


SILU = X * op("aten.sigmoid", X).named("sigmoid")


@fuses(SILU | narrowed(SILU), condition=no_silu, name="silu")
def silu_by_hand(x, sigmoid):
    return silu(cast(x, sigmoid.dtype))
