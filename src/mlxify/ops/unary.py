"""Functions of one operand: signs, rounding, exponentials, logarithms, roots, trigonometry."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mlx.core as mx

from ..device import over_cores
from ..errors import refuse
from ..isa import Array, instruction
from ..lowering import lowers
from .arithmetic import divide, is_integral, literal, maximum, minimum, multiply, power, subtract
from .cast import view
from .compare import equal, less, not_equal, where
from .exponential import exp, sigmoid, tanh


@instruction(elementwise=True)
def negative(x: Array) -> Array:
    """-x. Integers wrap. Not for bools."""
    return mx.negative(x)


@instruction(elementwise=True)
def abs_(x: Array) -> Array:
    """|x|; a float32 for a complex number. The least integer gives itself."""
    return mx.abs(x)


@instruction(elementwise=True)
def sign(x: Array) -> Array:
    """-1, 0 or 1; 0 for nan. For a complex number x / |x|, and 0 for 0."""
    return mx.sign(x)


@instruction(elementwise=True)
def floor(x: Array) -> Array:
    """The largest integer that is not above x. Integers are themselves."""
    return mx.floor(x)


@instruction(elementwise=True)
def ceil(x: Array) -> Array:
    """The smallest integer that is not below x. Integers are themselves."""
    return mx.ceil(x)


@instruction(elementwise=True)
def trunc(x: Array) -> Array:
    """x without its fraction. Integers are themselves."""
    return mx.trunc(x)


@instruction(elementwise=True)
def round_(x: Array) -> Array:
    """The nearest integer, halves to the even one. Integers are themselves."""
    return mx.round(x)


@instruction(elementwise=True)
def log(x: Array) -> Array:
    """The natural logarithm; nan below 0. Floats and complex numbers."""
    return over_cores(mx.log, x)


@instruction(elementwise=True)
def log2(x: Array) -> Array:
    """The logarithm to the base 2; nan below 0. Floats and complex numbers."""
    return over_cores(mx.log2, x)


@instruction(elementwise=True)
def log10(x: Array) -> Array:
    """The logarithm to the base 10; nan below 0. Floats and complex numbers."""
    return over_cores(mx.log10, x)


@instruction(elementwise=True)
def log1p(x: Array) -> Array:
    """log(1 + x), exact near 0. Floats and complex numbers."""
    return over_cores(mx.log1p, x)


@instruction(elementwise=True)
def sqrt(x: Array) -> Array:
    """The square root; nan below 0. Floats and complex numbers."""
    return mx.sqrt(x)


@instruction(elementwise=True)
def rsqrt(x: Array) -> Array:
    """1 / sqrt(x). Floats and complex numbers."""
    return mx.rsqrt(x)


@instruction(elementwise=True)
def sin(x: Array) -> Array:
    """The sine. Floats and complex numbers."""
    if x.dtype == mx.float64:  # MLX computes it in float32; its tangent is exact.
        t = mx.tan(x / 2)
        return 2 * t / (1 + t * t)
    return over_cores(mx.sin, x)


@instruction(elementwise=True)
def cos(x: Array) -> Array:
    """The cosine. Floats and complex numbers."""
    if x.dtype == mx.float64:
        t = mx.tan(x / 2)
        return (1 - t * t) / (1 + t * t)
    return over_cores(mx.cos, x)


@instruction(elementwise=True)
def tan(x: Array) -> Array:
    """The tangent. Floats and complex numbers."""
    return over_cores(mx.tan, x)


@instruction(elementwise=True)
def arcsin(x: Array) -> Array:
    """The inverse sine; nan outside -1 to 1. Floats and complex numbers."""
    return over_cores(mx.arcsin, x)


@instruction(elementwise=True)
def arccos(x: Array) -> Array:
    """The inverse cosine; nan outside -1 to 1. Floats and complex numbers."""
    return over_cores(mx.arccos, x)


@instruction(elementwise=True)
def arctan(x: Array) -> Array:
    """The inverse tangent. Floats and complex numbers."""
    return over_cores(mx.arctan, x)


@instruction(elementwise=True)
def sinh(x: Array) -> Array:
    """(exp(x) - exp(-x)) / 2. Floats and complex numbers."""
    return over_cores(mx.sinh, x)


@instruction(elementwise=True)
def cosh(x: Array) -> Array:
    """(exp(x) + exp(-x)) / 2. Floats and complex numbers."""
    return over_cores(mx.cosh, x)


@instruction(elementwise=True)
def arcsinh(x: Array) -> Array:
    """The inverse of sinh. Floats and complex numbers."""
    return over_cores(mx.arcsinh, x)


@instruction(elementwise=True)
def arccosh(x: Array) -> Array:
    """The inverse of cosh; nan below 1. Floats and complex numbers."""
    return over_cores(mx.arccosh, x)


@instruction(elementwise=True)
def arctanh(x: Array) -> Array:
    """The inverse of tanh; nan outside -1 to 1. Floats and complex numbers."""
    return over_cores(mx.arctanh, x)


def _unary(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def lowering(self: Any) -> Any:
        return function(self)

    return lowering


# Integers are computed in float32, half precision in float32 and rounded once.
_FLOAT_FUNCTIONS = {
    "exp": exp, "log": log, "log2": log2, "log10": log10, "log1p": log1p, "sqrt": sqrt,
    "rsqrt": rsqrt, "sin": sin, "cos": cos, "tan": tan, "asin": arcsin, "acos": arccos, "atan": arctan,
    "sinh": sinh, "cosh": cosh, "tanh": tanh, "asinh": arcsinh, "acosh": arccosh, "atanh": arctanh,
    "arcsin": arcsin, "arccos": arccos, "arctan": arctan, "arcsinh": arcsinh, "arccosh": arccosh,
    "arctanh": arctanh, "sigmoid": sigmoid, "special_expit": sigmoid, "special_log1p": log1p,
}  # fmt: skip
for _name, _function in _FLOAT_FUNCTIONS.items():
    lowers(f"aten.{_name}", promote="self", to="float", opmath=True)(_unary(_function))

_ANY_FUNCTIONS = {
    "neg": negative, "negative": negative, "abs": abs_, "absolute": abs_, "sign": sign, "sgn": sign, "ceil": ceil,
    "floor": floor, "trunc": trunc, "fix": trunc, "round": round_,
}  # fmt: skip
for _name, _function in _ANY_FUNCTIONS.items():
    lowers(f"aten.{_name}")(_unary(_function))


@lowers("aten.positive")
def positive(self):
    return self


@lowers("aten.frac")
def frac(self):
    return subtract(self, trunc(self))


@lowers("aten.round.decimals")
def round_decimals(self, decimals):
    """Rounds after scaling, each step in the tensor's own precision."""
    if is_integral(self.dtype):
        return self
    if decimals == 0:
        return round_(self)
    scale = float(10 ** abs(decimals))
    if decimals > 0:
        return divide(round_(multiply(self, scale)), scale)
    return multiply(round_(divide(self, scale)), scale)


@lowers("aten.exp2", "aten.special_exp2", promote="self", to="float", opmath=True)
def exp2(self):
    return power(2.0, self)


@lowers("aten.square")
def square(self):
    return multiply(self, self)


@lowers("aten.reciprocal", promote="self", to="float", opmath=True)
def reciprocal(self):
    return divide(1.0, self)


@lowers("aten.deg2rad", promote="self", to="float", opmath=True)
def deg2rad(self):
    return multiply(self, math.pi / 180)


@lowers("aten.rad2deg", promote="self", to="float", opmath=True)
def rad2deg(self):
    return multiply(self, 180 / math.pi)


@lowers("aten.logit", "aten.special_logit", promote="self", to="float")
def logit(self, eps=None):
    """log(x / (1 - x)); the quotient is rounded to half precision before its logarithm."""
    if eps is not None:
        self = maximum(minimum(self, 1 - eps), eps)
    return log(divide(self, subtract(1.0, self)))


@lowers("aten.sinc", "aten.special_sinc", promote="self", to="float", opmath=True)
def sinc(self):
    x = multiply(self, math.pi)
    return where(equal(self, 0.0), literal(1.0, self.dtype), divide(sin(x), x))


@lowers("aten.signbit")
def signbit(self):
    if is_integral(self.dtype):
        return less(self, 0) if self.dtype != mx.bool_ else not_equal(self, self)
    bits = {2: mx.int16, 4: mx.int32, 8: mx.int64}[self.dtype.size]
    return less(view(self, bits), 0)


@lowers("aten.nan_to_num")
def nan_to_num(self, nan=None, posinf=None, neginf=None):
    if is_integral(self.dtype):
        return self
    if self.dtype == mx.complex64:
        raise refuse("nan_to_num of complex numbers is not supported")
    inf, largest = math.inf, mx.finfo(self.dtype).max
    result = where(not_equal(self, self), literal(nan or 0.0, self.dtype), self)
    result = where(equal(self, inf), literal(largest if posinf is None else posinf, self.dtype), result)
    return where(equal(self, -inf), literal(-largest if neginf is None else neginf, self.dtype), result)
