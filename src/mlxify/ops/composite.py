"""Functions of two or three operands composed of arithmetic, comparisons and functions of one operand."""

from __future__ import annotations

import math
from typing import Any

import mlx.core as mx

from ..errors import refuse
from ..isa import cast
from ..lowering import as_array, lowers, result_type
from ..values import Value
from .arithmetic import (
    add,
    arctan2,
    divide,
    floor_divide,
    fmod,
    gcd,
    is_integral,
    literal,
    logaddexp,
    maximum,
    minimum,
    multiply,
    power,
    subtract,
    whole_operands,
    widen,
)
from .bitwise import bitwise_and, bitwise_invert, bitwise_or, right_shift
from .cast import view
from .compare import equal, greater, isfinite, isinf, isnan, less, less_equal, where
from .unary import abs_, log, log1p, negative, rsqrt, signbit, sqrt, trunc


@lowers("aten.div.Tensor_mode", "aten.div.Scalar_mode", "aten.divide.Tensor_mode", "aten.divide.Scalar_mode")
def div_mode(self, other, rounding_mode):
    x, y = whole_operands(self, other)
    if rounding_mode == "floor":
        return floor_divide(x, y)
    if rounding_mode is None:
        return divide(*(cast(v, mx.float32) if is_integral(v.dtype) else v for v in (x, y)))
    if is_integral(x.dtype):
        return floor_divide(subtract(x, fmod(x, y)), y)
    return trunc(divide(x, y))


@lowers("aten.addcmul", promote=("self", "tensor1", "tensor2"), opmath=True)
def addcmul(self, tensor1, tensor2, value=1):
    return add(self, multiply(_times(tensor1, value), tensor2))


@lowers("aten.addcdiv", promote=("self", "tensor1", "tensor2"), opmath=True)
def addcdiv(self, tensor1, tensor2, value=1):
    return add(self, divide(_times(tensor1, value), tensor2))


def _times(x: Any, value: Any) -> Any:
    return x if type(value) in (int, float) and value == 1 else multiply(x, literal(value, x.dtype))


@lowers("aten.lerp.Scalar", "aten.lerp.Tensor", promote=("self", "end"))
def lerp(self, end, weight):
    """From the nearer end, so that the weights 0 and 1 give the ends exactly."""
    dtype = self.dtype
    self, end = widen(self), widen(end)
    # A tensor of weights is rounded to the tensors' dtype; a number keeps its precision.
    w = widen(as_array(weight, dtype)) if isinstance(weight, Value) else as_array(weight, self.dtype)
    difference = subtract(end, self)
    from_start = add(self, multiply(w, difference))
    if isinstance(weight, (int, float)) and abs(weight) < 0.5:
        return from_start
    from_end = subtract(end, multiply(difference, subtract(1.0, w)))
    if isinstance(weight, (int, float)):
        return from_end
    return where(less(abs_(w), 0.5), from_start, from_end)


@lowers("aten.pow.Tensor_Tensor", "aten.pow.Scalar", promote=("self", "exponent"), opmath=True)
def pow_(self, exponent):
    return power(self, exponent)


@lowers("aten.pow.Tensor_Scalar")
def pow_scalar(self, exponent):
    """Some exponents have functions of their own, whose special values differ: (-inf) ** 0.5 is nan."""
    common = result_type([self, exponent])
    x = as_array(self, common)
    if isinstance(exponent, (int, float)):
        if is_integral(common) and exponent < 0:
            raise refuse("an integer to a negative power: PyTorch raises")
        if exponent == 0:
            return cast(equal(isnan(x), isnan(x)), common)
        if exponent in _PRODUCTS:
            return _PRODUCTS[exponent](x if common == mx.bfloat16 else widen(x))
        if exponent in _ROOTS and common != mx.float16 and not is_integral(common):
            return _ROOTS[exponent](widen(x))
    return power(widen(x), widen(as_array(exponent, common)))


# PyTorch rounds every product of bfloat16, and a product of float16 once.
_PRODUCTS: dict[Any, Any] = {
    1: lambda x: x,
    2: lambda x: multiply(x, x),
    3: lambda x: multiply(multiply(x, x), x),
    -2: lambda x: divide(1.0, multiply(x, x)),
}
_ROOTS: dict[Any, Any] = {0.5: sqrt, -0.5: rsqrt, -1: lambda x: divide(1.0, x)}


@lowers("aten.float_power.Tensor_Tensor", "aten.float_power.Scalar")
def float_power(self, exponent, result):
    return power(as_array(self, result.dtype), as_array(exponent, result.dtype))


@lowers("aten.float_power.Tensor_Scalar")
def float_power_scalar(self, exponent, result):
    return pow_scalar(as_array(self, result.dtype), exponent)


@lowers("aten.atan2", "aten.arctan2", promote=("self", "other"), to="float", opmath=True)
def atan2(self, other):
    return arctan2(self, other)


@lowers("aten.hypot", promote=("self", "other"), opmath=True)
def hypot(self, other):
    """Scaled by the larger, so that no square overflows or vanishes."""
    x, y = abs_(self), abs_(other)
    large = maximum(x, y)
    ratio = divide(minimum(x, y), large)
    length = multiply(large, sqrt(add(1.0, multiply(ratio, ratio))))
    length = where(equal(large, 0.0), large, length)
    infinite = bitwise_or(isinf(x), isinf(y))
    return where(infinite, as_array(math.inf, x.dtype), length)


@lowers("aten.logaddexp", promote=("self", "other"), opmath=True)
def logaddexp_(self, other):
    return logaddexp(self, other)


@lowers("aten.logaddexp2", promote=("self", "other"), opmath=True)
def logaddexp2(self, other):
    ln2 = math.log(2)
    return divide(logaddexp(multiply(self, ln2), multiply(other, ln2)), ln2)


_XLOGY = ("Tensor", "Scalar_Other", "Scalar_Self")
_SPECIAL = ("default", "other_scalar", "self_scalar")


@lowers(
    *(f"aten.xlogy.{o}" for o in _XLOGY),
    *(f"aten.special_xlogy.{o}" for o in _SPECIAL),
    promote=("self", "other"),
    to="float",
)
def xlogy(self, other):
    return _zero_wins(self, other, _rounded_log(log, other))


@lowers(*(f"aten.special_xlog1py.{o}" for o in _SPECIAL), promote=("self", "other"), to="float")
def xlog1py(self, other):
    return _zero_wins(self, other, _rounded_log(log1p, other))


def _rounded_log(function: Any, x: Any) -> Any:
    return as_array(function(widen(x)), x.dtype)


def _zero_wins(x: Any, y: Any, factor: Any) -> Any:
    """x * factor, and 0 for x = 0 unless y is nan."""
    zero = equal(x, 0.0)
    return where(bitwise_and(zero, equal(y, y)), as_array(0.0, x.dtype), multiply(x, factor))


@lowers("aten.copysign.Tensor", "aten.copysign.Scalar", promote=("self", "other"), to="float")
def copysign(self, other):
    size = abs_(self)
    return where(signbit(other), negative(size), size)


@lowers("aten.heaviside", promote=("self", "values"))
def heaviside(self, values):
    zero = literal(0, self.dtype)
    return where(equal(self, zero), values, cast(greater(self, zero), self.dtype))


@lowers("aten.nextafter", promote=("self", "other"))
def nextafter(self, other):
    """The bits of floats, read as integers, are in the order of their sizes."""
    dtype, bits = self.dtype, {2: mx.int16, 4: mx.int32, 8: mx.int64}[self.dtype.size]
    one, least = as_array(1, bits), as_array(-(1 << (8 * bits.size - 1)), bits)
    grows = equal(less(self, other), less(0.0, self))
    stepped = view(add(view(self, bits), where(grows, one, negative(one))), dtype)
    smallest = view(where(less(other, 0.0), add(least, one), one), dtype)
    result = where(equal(self, other), other, where(equal(self, 0.0), smallest, stepped))
    ordered = bitwise_and(equal(self, self), equal(other, other))
    return where(ordered, result, add(self, other))


@lowers("aten.frexp.Tensor")
def frexp(self):
    """Mantissas in [0.5, 1) and exponents, of 0, infinities and nan themselves and 0. In integers, from the bits."""
    x = widen(self)
    dtype, digits, bias = (mx.int64, 52, 1022) if x.dtype == mx.float64 else (mx.int32, 23, 126)
    unit, least = as_array(digits, dtype), as_array(-(1 << (8 * dtype.size - 1)), dtype)
    bits = view(x, dtype)
    size = bitwise_and(bits, bitwise_invert(least))
    # A subnormal number is a whole multiple of 2 ** -(bias + digits), which as a float of its own is normal.
    subnormal = less(right_shift(size, unit), 1)
    size = where(subnormal, view(cast(size, x.dtype), dtype), size)
    exponent = subtract(
        right_shift(size, unit),
        where(subnormal, as_array(2 * bias + digits, dtype), as_array(bias, dtype)),
    )
    fraction = bitwise_and(size, as_array((1 << digits) - 1, dtype))
    mantissa = view(
        bitwise_or(bitwise_or(bitwise_and(bits, least), as_array(bias << digits, dtype)), fraction), x.dtype
    )
    plain = bitwise_or(equal(x, 0.0), bitwise_invert(isfinite(x)))
    return where(plain, x, mantissa), where(plain, as_array(0, dtype), exponent)


@lowers("aten.gcd", promote=("self", "other"))
def gcd_(self, other):
    return gcd(self, other)


@lowers("aten.lcm", promote=("self", "other"))
def lcm(self, other):
    product = multiply(abs_(floor_divide(self, gcd(self, other))), abs_(other))
    # PyTorch takes the absolute value of what overflowed, but multiplies small integers as 32-bit ones.
    return product if product.dtype.size < 4 else abs_(product)


@lowers("aten.isclose")
def isclose(self, other, rtol=1e-5, atol=1e-8, equal_nan=False):
    """|self - other| <= atol + |rtol * other|, each step rounded to the tensors' dtype."""
    close = equal(self, other)
    if equal_nan:
        close = bitwise_or(close, bitwise_and(isnan(self), isnan(other)))
    if rtol == 0 and atol == 0:
        return close
    dtype = mx.float32 if is_integral(self.dtype) else self.dtype
    self, other = as_array(self, dtype), as_array(other, dtype)
    error = abs_(subtract(self, other))
    scaled = abs_(as_array(multiply(widen(other), rtol), dtype))
    allowed = add(scaled, as_array(atol, scaled.dtype))
    return bitwise_or(close, bitwise_and(isfinite(error), less_equal(error, allowed)))
