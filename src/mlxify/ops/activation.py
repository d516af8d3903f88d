"""Activation functions. Half precision is computed in float32 and rounded once, as PyTorch does."""

from __future__ import annotations

import math

from ..errors import refuse
from ..lowering import lowers
from .arithmetic import add, divide, literal, maximum, minimum, multiply, subtract, widen
from .axes import axis_of
from .compare import greater, less, less_equal, where
from .erf import erf
from .join import split
from .shape import reshape
from .unary import abs_, exp, expm1, log1p, negative, sigmoid, tanh


@lowers("aten.relu")
def relu(self):
    return maximum(self, 0)


@lowers("aten.relu6")
def relu6(self):
    return minimum(maximum(self, 0), 6)


@lowers("aten.sigmoid_backward", promote=("grad_output", "output"))
def sigmoid_backward(grad_output, output):
    return multiply(grad_output, multiply(output, subtract(1.0, output)))


@lowers("aten.gelu", promote="self", opmath=True)
def gelu(self, approximate="none"):
    """0.5 x (1 + erf(x / sqrt 2)), or Hendrycks and Gimpel's tanh form, https://arxiv.org/abs/1606.08415."""
    if approximate == "tanh":
        cube = multiply(multiply(self, self), self)
        inner = multiply(add(self, multiply(cube, 0.044715)), math.sqrt(2 / math.pi))
        return multiply(multiply(self, 0.5), add(tanh(inner), 1.0))
    if approximate != "none":
        raise refuse(f"the approximation {approximate!r} is unknown")
    return multiply(multiply(self, 0.5), add(erf(multiply(self, math.sqrt(0.5))), 1.0))


@lowers("aten.silu", promote="self", opmath=True)
def silu(self):
    return multiply(self, sigmoid(self))


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


@lowers("aten.rrelu", promote="self", opmath=True)
def rrelu(self, lower=0.125, upper=0.3333333333333333, training=False):
    if training:
        raise refuse("rrelu in training form draws random slopes; call model.eval()")
    return leaky_relu(self, (lower + upper) / 2)


@lowers("aten.rrelu_with_noise_functional")
def rrelu_with_noise_functional(self, noise, lower=0.125, upper=0.3333333333333333, training=False):
    return [rrelu(widen(self), lower, upper, training), noise]


@lowers("aten._prelu_kernel", "aten.prelu", promote=("self", "weight"), opmath=True)
def prelu(self, weight):
    if weight.ndim == 1 and self.ndim != 1:
        weight = reshape(weight, ([1, -1] + [1] * (self.ndim - 2)) if self.ndim else [])
    return where(greater(self, 0.0), self, multiply(self, weight))


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
