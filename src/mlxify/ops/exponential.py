"""Exponentials: exp, expm1, tanh, sigmoid, and how a CPU computes them."""

from __future__ import annotations

import math
from typing import Any

import mlx.core as mx

from ..device import PART_OF_STEPS, on_cpu, over_cores
from ..isa import Array, instruction

FEW = 1 << 13
"""Elements up to which, on a CPU, one call costs less than the steps of a more exact function."""
_TANH_ABOVE = (
    4.89352455891786e-03, 6.37261928875436e-04, 1.48572235717979e-05, 5.12229709037114e-08,
    -8.60467152213735e-11, 2.00018790482477e-13, -2.76076847742355e-16,
)  # fmt: skip
_TANH_BELOW = (4.89352518554385e-03, 2.26843463243900e-03, 1.18534705686654e-04, 1.19825839466702e-06)
_E32 = 2.71828174591064453125
"""e as a float32, and what log(e) - log(_E32) is."""
_E32_REST = 3.0365417e-8
_LN2 = (0.693145751953125, 1.4286067653e-6)
"""log(2) in two parts: a multiple of the first, of 16 bits, by up to 255 is exact in float32."""
_TO_BITS = 1.5 * 2**23 + 127
"""Added to a small float32 this leaves its nearest whole number, as a float's biased exponent, in the lowest bits."""
_LEAST, _MOST = -88.0, 89.0
"""Where the exponent's bits of 2**k are all 0 and all 1, for k the nearest whole number to x / log(2)."""
_EXP = (1.0, 1.0, 0.4999999343211, 0.1666652039896, 0.0416683907873, 0.0083687451163, 0.0013814539991)
"""exp(x) for |x| <= log(2) / 2 by powers of x, to 3e-9 of the value (least squares, reweighted)."""


@instruction(elementwise=True)
def exp(x: Array) -> Array:
    """e to the power x. Floats and complex numbers."""
    return exp_of(x)


@instruction(elementwise=True)
def expm1(x: Array) -> Array:
    """exp(x) - 1, exact near 0. Floats."""
    return over_cores(mx.expm1, x)


@instruction(elementwise=True, chain=256)
def tanh(x: Array) -> Array:
    """sinh(x) / cosh(x). Floats and complex numbers."""
    return tanh_of(x)


def _tanh(x: mx.array) -> mx.array:
    """Six times as fast as MLX's on a CPU: an odd rational function, which is 1 in float32 from 7.9 on."""
    z = mx.clip(x.astype(mx.float32), -7.90531110763549805, 7.90531110763549805)
    y = z * z
    return (z * horner(y, _TANH_ABOVE) / horner(y, _TANH_BELOW)).astype(x.dtype)


@instruction(elementwise=True, chain=256)
def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)). Floats and complex numbers."""
    if x.dtype == mx.complex64 or (on_cpu() and x.dtype == mx.float64):
        return 1 / (1 + exp_of(-x))
    if not on_cpu() or (x.dtype == mx.float32 and x.size <= FEW):
        return mx.sigmoid(x)
    return over_cores(_sigmoid, x, part=PART_OF_STEPS)


def _sigmoid(x: mx.array) -> mx.array:
    return (1 / (1 + exp_or_ends(-x.astype(mx.float32)))).astype(x.dtype)


def tanh_of(x: mx.array) -> mx.array:
    """tanh for instruction bodies."""
    if x.dtype in (mx.float64, mx.complex64) or not on_cpu():
        return mx.tanh(x)
    return over_cores(_tanh, x, part=PART_OF_STEPS)


def horner(x: Any, coefficients: tuple[float, ...]) -> Any:
    """c[0] + c[1] x + c[2] x**2 + … of an mx.array."""
    total = (x if coefficients[-1] == 1 else x * coefficients[-1]) + coefficients[-2]
    for c in coefficients[-3::-1]:
        total = total * x + c
    return total


def exp_of(x: mx.array) -> mx.array:
    """exp for instruction bodies.

    MLX's own on a CPU is inf above 88.0, 0 below -87.7 and has float32's precision for a float64; a power of e has
    none of these faults and takes half the time.
    """
    if not mx.issubdtype(x.dtype, mx.floating) or not on_cpu():
        return mx.exp(x)
    return over_cores(_exp, x)


def _exp(x: mx.array) -> mx.array:
    if x.dtype == mx.float64:
        return mx.power(mx.array(math.e, mx.float64), x)
    z = x.astype(mx.float32)
    y = mx.power(_E32, z)
    return (y + y * (mx.maximum(z, -110) * _E32_REST)).astype(x.dtype)


def wide_floats(x: mx.array) -> mx.array:
    """Halves as float32, in which functions of them are computed; other floats as they are, and nothing else."""
    if not mx.issubdtype(x.dtype, mx.floating):
        raise ValueError(f"this function takes floats, not {x.dtype}")
    return x.astype(mx.float32) if x.dtype.size == 2 else x


def exp_of_negative(x: mx.array) -> mx.array:
    """exp of float32 or float64 up to 0, as softmax needs it.

    MLX's own is off by up to 4e-6 of the value there, and 0 below -87.7: of a few elements it takes a fifth of the time.
    """
    if x.dtype != mx.float32:
        return exp_of(x)
    return mx.exp(x) if x.size <= FEW else over_cores(_negative_exp, x, part=PART_OF_STEPS)


def _negative_exp(x: mx.array) -> mx.array:
    return _exp_within(mx.maximum(x, _LEAST))


def exp_or_ends(x: mx.array) -> mx.array:
    """exp of float32 on a CPU, but 0 below -87.7 and inf above 88.4."""
    return _exp_within(mx.clip(x, _LEAST, _MOST))


def _exp_within(x: mx.array) -> mx.array:
    """exp(x) = 2**k exp(x - k log(2)) for float32 from _LEAST, where it is 0, to _MOST, where it is inf.

    To 1e-7 of the value, in about two thirds of the time of a power. The way is that of Cody and Waite, Software Manual
    for the Elementary Functions, 1980, with 2**k put together as a float's bits.
    """
    shifted = x * math.log2(math.e) + _TO_BITS
    k = shifted - _TO_BITS
    rest = x - k * _LN2[0] - k * _LN2[1]
    power = mx.view(mx.left_shift(mx.view(shifted, mx.int32), 23), mx.float32)
    return horner(rest, _EXP) * power
