"""The error function and its kin, the normal distribution among them."""

from __future__ import annotations

import math

import mlx.core as mx

from ..isa import Array, cast, instruction
from ..lowering import lowers
from .arithmetic import add, multiply, subtract, widen
from .compare import less, where
from .device import on_cpu
from .unary import abs_, exp, exp_of, horner, log, log1p, negative


@instruction
def erf(x: Array) -> Array:
    """The error function, relatively exact near 0. Floats."""
    if x.dtype == mx.float64:
        return _erf_float64(x)
    if not on_cpu():
        return mx.erf(x)
    # MLX's own on a CPU takes nine times as long, and is relatively wrong below 0.1.
    z = mx.clip(x.astype(mx.float32), -4, 4)
    y = z * z
    return mx.clip(z * horner(y, _ERF_ABOVE) / horner(y, _ERF_BELOW), -1, 1).astype(x.dtype)


@instruction
def erfcx(x: Array) -> Array:
    """exp(x**2) (1 - erf(x)), accurate for all x; infinite where it overflows. Floats."""
    z = x.astype(mx.float32) if x.dtype.size == 2 else x
    right = _erfcx_right(mx.abs(z))
    return mx.where(z < 0, 2 * exp_of(z * z) - right, right).astype(x.dtype)


@instruction
def erfinv(x: Array) -> Array:
    """The inverse of the error function: nan outside -1 to 1, infinite at its ends. Floats."""
    y = mx.erfinv(x)
    if x.dtype != mx.float64:
        return y
    for _ in range(2):  # MLX computes it in float32: two steps of Newton's method
        y = mx.where(mx.isinf(y), y, y - (_erf_float64(y) - x) * exp_of(y * y) * (math.sqrt(math.pi) / 2))
    return y


_ERF_ABOVE = (
    -1.60960333262415e-02, -2.95459980854025e-03, -7.34990630326855e-04, -5.69250639462346e-05,
    -2.10102402082508e-06, 2.77068142495902e-08, -2.72614225801306e-10,
)  # fmt: skip
_ERF_BELOW = (
    -1.42647390514189e-02, -7.37332916720468e-03, -1.68282697438203e-03, -2.13374055278905e-04,
    -1.45660718464996e-05,
)  # fmt: skip

# Taylor coefficients of erf(x) / x in x**2; the terms left out are below 1e-17 for |x| < 1.
_SERIES = tuple(2 / math.sqrt(math.pi) * (-1) ** n / (math.factorial(n) * (2 * n + 1)) for n in range(18))

# erfcx(x) / t in 2 t - 1, for t = 3 / (3 + x) and x >= 0: the Chebyshev expansion, to 1e-16, as a polynomial.
_ERFCX = (
    0.3580023023627799, 0.29446481772329447, 0.19674278570136933, 0.1034890873001944, 0.039842587095666314,
    0.008942411541350472, -0.00040413887394316183, -0.001011353998686046, -0.00018276991424949872,
    9.225927134071366e-05, 3.585392363681283e-05, -1.0132683861908937e-05, -5.823857407636006e-06,
    1.5830094253678585e-06, 9.225829640201406e-07, -3.3293900476369915e-07, -1.3722842699705352e-07,
    7.795122669713508e-08, 1.6652640553590825e-08, -1.7060807323373566e-08, -1.1893885619092368e-09,
    2.897924756345276e-09, 2.3183140775046786e-12, -2.703562432063331e-10,
)  # fmt: skip


def _erfcx_right(x: mx.array) -> mx.array:
    """erfcx of x >= 0, in float32 or float64."""
    t = 3 / (3 + x)
    return t * horner(2 * t - 1, _ERFCX)


def _erf_float64(x: mx.array) -> mx.array:
    near = mx.clip(x, -1, 1)
    far = mx.sign(x) * (1 - exp_of(-x * x) * _erfcx_right(mx.abs(x)))
    return mx.where(mx.abs(x) < 1, near * horner(near * near, _SERIES), far)


@lowers("aten.erf", "aten.special_erf", promote="self", to="float", opmath=True)
def erf_(self):
    return erf(self)


@lowers("aten.special_erfcx", promote="self", to="float", opmath=True)
def erfcx_(self):
    return erfcx(self)


@lowers("aten.erfc", "aten.special_erfc", promote="self", to="float", opmath=True)
def erfc(self):
    right = multiply(exp(negative(multiply(self, self))), erfcx(abs_(self)))
    return where(less(self, 0.0), subtract(2.0, right), right)


@lowers("aten.erfinv", "aten.special_erfinv", promote="self", to="float", opmath=True)
def erfinv_(self):
    return erfinv(self)


@lowers("aten.special_ndtr", promote="self", to="float")
def ndtr(self):
    """The share of a standard normal distribution below x, each step rounded to the tensor's dtype, as in PyTorch."""
    scaled = cast(multiply(widen(self), math.sqrt(0.5)), self.dtype)
    return multiply(add(erf(scaled), 1.0), 0.5)


@lowers("aten.special_log_ndtr", promote="self", to="float", opmath=True)
def log_ndtr(self):
    """log(ndtr(x)); below -1 from erfcx, which does not underflow."""
    z = multiply(self, math.sqrt(0.5))
    left = subtract(log(multiply(erfcx(negative(z)), 0.5)), multiply(z, z))
    return where(less(self, -1.0), left, log1p(multiply(erfc(z), -0.5)))
