"""Arithmetic of two operands: sums, products, quotients, remainders, and their combinations."""

from __future__ import annotations

import math
from typing import Any

import mlx.core as mx

from ..errors import refuse
from ..isa import Array, cast, instruction
from ..lowering import HALVES, as_array, lowers, result_type
from ..values import HostNumber, Value


@instruction(elementwise=True)
def add(x: Array, y: Array) -> Array:
    """x + y, broadcast. Both of one dtype; integers wrap, bools give x or y."""
    return mx.add(x, y)


@instruction(elementwise=True)
def subtract(x: Array, y: Array) -> Array:
    """x - y, broadcast. Both of one dtype; integers wrap."""
    return mx.subtract(x, y)


@instruction(elementwise=True)
def multiply(x: Array, y: Array) -> Array:
    """x * y, broadcast. Both of one dtype; integers wrap, bools give x and y."""
    return mx.multiply(x, y)


@instruction(elementwise=True)
def divide(x: Array, y: Array) -> Array:
    """x / y, broadcast. Floats and complex numbers of one dtype."""
    return mx.divide(x, y)


@instruction(elementwise=True)
def floor_divide(x: Array, y: Array) -> Array:
    """x / y rounded towards minus infinity, broadcast. Both of one dtype, integers or floats.

    Integers: x // 0 is 0, and the least integer // -1 wraps to itself. Floats: from the exact remainder, as Python's
    // (1.0 // 0.1 is 9), except that x // 0 is x / 0 and inf // y is nan.
    """
    _check_no_bools(x, y)
    if mx.issubdtype(x.dtype, mx.inexact):
        return _floor_divide_floats(x, y)
    safe = _safe_divisor(y)
    quotient = mx.floor_divide(x, safe)
    if mx.issubdtype(y.dtype, mx.signedinteger):
        # Not every backend and version of MLX floors: one that truncated leaves a rest of the other sign.
        rest = x - quotient * safe
        quotient = quotient - ((rest != 0) & ((rest < 0) != (safe < 0))).astype(x.dtype)
        quotient = mx.where(y == -1, mx.negative(x), quotient)
    return mx.where(y == 0, mx.zeros_like(x), quotient)


@instruction(elementwise=True)
def remainder(x: Array, y: Array) -> Array:
    """x - y * floor(x / y), exact, with the sign of y, broadcast. Both of one dtype. Integer x % 0 is x."""
    _check_no_bools(x, y)
    if mx.issubdtype(x.dtype, mx.inexact):
        return mx.remainder(x, y)
    return mx.where(y == 0, x, mx.remainder(x, _safe_divisor(y)))


@instruction(elementwise=True)
def fmod(x: Array, y: Array) -> Array:
    """x - y * trunc(x / y), exact, with the sign of x, broadcast. Both of one dtype. Integer fmod(x, 0) is x."""
    _check_no_bools(x, y)
    if mx.issubdtype(x.dtype, mx.inexact):
        return _fmod_floats(x, y)
    floored = mx.remainder(x, _safe_divisor(y))
    if mx.issubdtype(y.dtype, mx.signedinteger):
        floored = mx.where((floored != 0) & ((x < 0) != (y < 0)), floored - y, floored)
    return mx.where(y == 0, x, floored)


@instruction(elementwise=True)
def power(x: Array, y: Array) -> Array:
    """x to the power y, broadcast. Both of one dtype; integers wrap.

    A negative integer power is 0, except that 1 gives 1 and -1 gives 1 or -1.
    """
    _check_no_bools(x, y)
    if not mx.issubdtype(y.dtype, mx.signedinteger):
        return mx.power(x, y)
    zero, one = mx.zeros_like(x), mx.ones_like(x)
    odd = mx.bitwise_and(y, one) != 0
    inverse = mx.where(x == 1, one, mx.where(x == -1, mx.where(odd, -one, one), zero))
    return mx.where(y < 0, inverse, mx.power(x, mx.maximum(y, 0)))


@instruction(elementwise=True)
def maximum(x: Array, y: Array) -> Array:
    """The larger of x and y, broadcast; nan if either is nan. Both of one dtype."""
    return mx.maximum(x, y)


@instruction(elementwise=True)
def minimum(x: Array, y: Array) -> Array:
    """The smaller of x and y, broadcast; nan if either is nan. Both of one dtype."""
    return mx.minimum(x, y)


@instruction(elementwise=True)
def arctan2(x: Array, y: Array) -> Array:
    """The angle of the point (y, x), in (-pi, pi], broadcast. Floats of one dtype."""
    return mx.arctan2(x, y)


@instruction(elementwise=True)
def logaddexp(x: Array, y: Array) -> Array:
    """log(exp(x) + exp(y)) without overflow, broadcast. Floats of one dtype."""
    if x.dtype != mx.float64:
        return mx.logaddexp(x, y)
    # MLX's has the precision of float32; a power of e has float64's.
    tail = mx.log1p(mx.power(mx.array(math.e, mx.float64), -mx.abs(x - y)))
    return mx.where(x == y, x + math.log(2), mx.maximum(x, y) + tail)


@instruction(elementwise=True, chain=512)
def gcd(x: Array, y: Array) -> Array:
    """The greatest common divisor of |x| and |y|, broadcast; gcd(0, 0) is 0. Integers of one dtype."""
    if not mx.issubdtype(x.dtype, mx.integer) or x.dtype != y.dtype:
        raise ValueError("gcd takes integers of one dtype")
    unsigned = {1: mx.uint8, 2: mx.uint16, 4: mx.uint32, 8: mx.uint64}[x.dtype.size]
    a, b = mx.broadcast_arrays(mx.abs(x).astype(unsigned), mx.abs(y).astype(unsigned))
    # Euclid's worst case is two neighbouring Fibonacci numbers: fewer than 1.5 steps a bit.
    for _ in range(x.dtype.size * 12):
        a, b = mx.where(b == 0, a, b), mx.where(b == 0, b, mx.remainder(a, mx.maximum(b, 1)))
    return a.astype(x.dtype)


def _check_no_bools(x: mx.array, y: mx.array) -> None:
    if mx.bool_ in (x.dtype, y.dtype):
        raise ValueError("bools are not numbers here")


def _safe_divisor(y: mx.array) -> mx.array:
    """y without the integer divisors that end the process on a CPU: 0, and -1 (under the least integer)."""
    bad = y == 0
    if mx.issubdtype(y.dtype, mx.signedinteger):
        bad = bad | (y == -1)
    return mx.where(bad, mx.ones_like(y), y)


def _fmod_floats(x: mx.array, y: mx.array) -> mx.array:
    rest = mx.remainder(mx.abs(x), mx.abs(y))
    return mx.where(rest == 0, x * 0, mx.where(x < 0, -rest, rest))


def _floor_divide_floats(x: mx.array, y: mx.array) -> mx.array:
    """CPython's float_floor_div, as PyTorch has it."""
    rest = _fmod_floats(x, y)
    quotient = (x - rest) / y
    quotient = mx.where((rest != 0) & ((y < 0) != (rest < 0)), quotient - 1, quotient)
    floor = mx.floor(quotient)
    floor = mx.where(quotient - floor > 0.5, floor + 1, floor)
    plain = x / y
    return mx.where(y == 0, plain, mx.where(quotient == 0, plain * 0, floor))


def with_scalar(*names: str) -> list[str]:
    """The overloads of ops that take a tensor or a number as their second operand."""
    return [f"aten.{name}.{overload}" for name in names for overload in ("Tensor", "Scalar")]


def widen(x: Any) -> Any:
    """Half precision as float32, in which PyTorch computes before it rounds once."""
    return cast(x, mx.float32) if x.dtype in HALVES else x


def is_integral(dtype: mx.Dtype) -> bool:
    return not mx.issubdtype(dtype, mx.inexact)


def literal(value: Any, dtype: mx.Dtype) -> Any:
    """A number or tensor as an array of exactly `dtype`, whatever its category. Refuses an overflow, as PyTorch does."""
    if isinstance(value, (Value, HostNumber, complex)):
        return as_array(value, dtype)
    if dtype == mx.bool_:
        return as_array(bool(value), dtype)
    if not mx.issubdtype(dtype, mx.inexact):
        value = int(value)
        info = mx.iinfo(dtype)
        low = -info.max if info.min == 0 else info.min
        fits = low <= value <= info.max
    else:
        fits = dtype == mx.complex64 or not abs(value) > mx.finfo(dtype).max or abs(value) == float("inf")
    if not fits:
        raise refuse(f"{value} does not fit the dtype {str(dtype).removeprefix('mlx.core.')}: PyTorch raises")
    return as_array(value, dtype)


def _scaled(x: Any, y: Any, alpha: Any) -> tuple[Any, Any]:
    """x and alpha * y, in the precision in which they are then added: PyTorch rounds half precision once."""
    if type(alpha) in (bool, int, float) and alpha == 1:
        return x, y
    factor = literal(alpha, y.dtype)
    return widen(x), multiply(widen(y), widen(factor))


@lowers(*with_scalar("add"), promote=("self", "other"))
def add_(self, other, alpha=1):
    return add(*_scaled(self, other, alpha))


@lowers(*with_scalar("sub", "subtract"), promote=("self", "other"))
def sub(self, other, alpha=1):
    return subtract(*_scaled(self, other, alpha))


@lowers(*with_scalar("rsub"), promote=("self", "other"))
def rsub(self, other, alpha=1):
    return subtract(*_scaled(other, self, alpha))


@lowers(*with_scalar("mul", "multiply"), promote=("self", "other"), opmath="scalar")
def mul(self, other):
    return multiply(self, other)


@lowers(*with_scalar("div", "divide", "true_divide"), promote=("self", "other"), to="float", opmath="scalar")
def div(self, other):
    return divide(self, other)


def whole_type(self: Any, other: Any) -> mx.Dtype:
    """The dtype of a rounded quotient or a remainder. Refuses a literal integer divisor of 0."""
    common = result_type([self, other])
    if type(other) in (int, bool) and other == 0 and is_integral(common):
        raise refuse("integer division by zero: PyTorch raises ZeroDivisionError")
    return common


def whole_operands(self: Any, other: Any) -> tuple[Any, Any]:
    """Dividend and divisor of a quotient that is rounded to a whole number.

    PyTorch rounds each step to half precision, unless the divisor is a scalar: then it computes in float32.
    """
    common = whole_type(self, other)
    x = as_array(self, common)
    if common in HALVES and getattr(other, "ndim", 0) == 0:
        return widen(x), as_array(other, mx.float32)
    return x, as_array(other, common)


@lowers("aten.floor_divide", "aten.floor_divide.Scalar")
def floor_divide_(self, other):
    return floor_divide(*whole_operands(self, other))


@lowers(*with_scalar("remainder"), "aten.remainder.Scalar_Tensor")
def remainder_(self, other):
    common = whole_type(self, other)
    return remainder(as_array(self, common), as_array(other, common))


@lowers(*with_scalar("fmod"))
def fmod_(self, other):
    common = whole_type(self, other)
    return fmod(as_array(self, common), as_array(other, common))
