"""The error function and its kin, the normal distribution among them."""

from __future__ import annotations

import math
from typing import Any

import mlx.core as mx

from ..device import PART_OF_STEPS, on_cpu, over_cores
from ..isa import Array, cast, instruction
from ..lowering import lowers
from .arithmetic import add, divide, literal, multiply, subtract, widen
from .compare import equal, greater, less, where
from .exponential import exp, exp_of, horner
from .special import on_interval
from .unary import abs_, log, log1p, negative, sqrt


@instruction(elementwise=True, chain=256)
def erf(x: Array) -> Array:
    """The error function, relatively exact near 0. Floats."""
    return erf_of(x)


def erf_of(x: mx.array) -> mx.array:
    """erf for instruction bodies."""
    if x.dtype == mx.float64:
        return _erf_float64(x)
    return over_cores(_erf, x, part=PART_OF_STEPS) if on_cpu() else mx.erf(x)


def _erf(x: mx.array) -> mx.array:
    """erf on a CPU, where MLX's own takes nine times as long, and is relatively wrong below 0.1."""
    z = mx.clip(x.astype(mx.float32), -4, 4)
    y = z * z
    return mx.clip(z * horner(y, _ERF_ABOVE) / horner(y, _ERF_BELOW), -1, 1).astype(x.dtype)


def normal_share(x: mx.array) -> mx.array:
    """The share of a standard normal distribution below float32 x, on a CPU: to 2e-7, and 0 or 1 from 5.44 on."""
    z = mx.clip(x, -_SHARE_END, _SHARE_END)
    y = z * z
    return z * horner(y, _SHARE_ABOVE) / horner(y, _SHARE_BELOW) + 0.5


@instruction(elementwise=True, chain=128)
def erfcx(x: Array) -> Array:
    """exp(x**2) (1 - erf(x)), accurate for all x; infinite where it overflows. Floats."""
    z = x.astype(mx.float32) if x.dtype.size == 2 else x
    right = erfcx_right(mx.abs(z))
    return mx.where(z < 0, 2 * exp_of(z * z) - right, right).astype(x.dtype)


@instruction(elementwise=True, chain=128)
def erfinv(x: Array) -> Array:
    """The inverse of the error function: nan outside -1 to 1, infinite at its ends. Floats."""
    if x.dtype != mx.float64:
        return mx.erfinv(x)
    # MLX computes it in float32.
    p = (1 - mx.abs(x)) / 2
    tail = mx.where(p == 0, math.inf, _tail_quantile(p)) * mx.sign(x)
    return mx.where(p > _EDGE, _middle_quantile(x / 2), tail) / math.sqrt(2)


_ERF_ABOVE = (
    -1.60960333262415e-02, -2.95459980854025e-03, -7.34990630326855e-04, -5.69250639462346e-05,
    -2.10102402082508e-06, 2.77068142495902e-08, -2.72614225801306e-10,
)  # fmt: skip
_ERF_BELOW = (
    -1.42647390514189e-02, -7.37332916720468e-03, -1.68282697438203e-03, -2.13374055278905e-04,
    -1.45660718464996e-05,
)  # fmt: skip

# (share - 1/2) / z in z**2, as a rational function: least squares, reweighted until the error is even. Of the ends
# that give exactly 0 and 1 in float32 the one with the least error.
_SHARE_END = 5.44
_SHARE_ABOVE = (
    330043.0625, 27763.36328125, 3856.01318359375, 137.38162231445312, 5.257833480834961, 0.01913384348154068
)  # fmt: skip
_SHARE_BELOW = (827295.375, 207474.46875, 23563.28125, 1546.0498046875, 60.288936614990234, 1.0)

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


def erfcx_right(x: mx.array) -> mx.array:
    """erfcx of x >= 0, in float32 or float64."""
    t = 3 / (3 + x)
    return t * horner(2 * t - 1, _ERFCX)


def _erf_float64(x: mx.array) -> mx.array:
    near = mx.clip(x, -1, 1)
    far = mx.sign(x) * (1 - exp_of(-x * x) * erfcx_right(mx.abs(x)))
    return mx.where(mx.abs(x) < 1, near * horner(near * near, _SERIES), far)


# The normal distribution's quantile of p over p - 1/2, in its square, for |p - 1/2| <= 1/2 - _EDGE; then, with
# z = sqrt(-2 log p), z (quantile + z) - log(z) in 1 / z, for z <= 8 and up to 39, that of the least float64.
_EDGE = math.exp(-2)
_MIDDLE = (
    2.7124557350853684, 0.2443893335585415, 0.04773626551466121, 0.011619476519745821, 0.0031411312214033767,
    0.0009028807591260923, 0.0002701732554250683, 8.317275412332013e-05, 2.615048584043852e-05,
    8.356999416358146e-06, 2.7054469831325474e-06, 8.851305404612856e-07, 2.922260428025656e-07,
    9.717447742330907e-08, 3.233499188668561e-08, 1.0859995444204927e-08, 3.884630514351909e-09,
    1.3327497419909955e-09, 2.947483273376138e-10, 9.44430778977926e-11, 9.945529171006777e-11,
    3.5390641830611475e-11,
)  # fmt: skip
_TAIL = (
    1.0334667518700493, 0.07281247936996559, -0.0024406346167507053, -0.00017135217902496642,
    0.0002519562068443882, -0.00016373687752483672, 8.603131279862869e-05, -4.04827286348641e-05,
    1.805922384736669e-05, -7.94524623701543e-06, 3.5401253556707336e-06, -1.6188769043962248e-06,
    7.620789939836661e-07, -3.705232095076557e-07, 1.831143645465183e-07, -8.418899926609615e-08,
    4.054408545585575e-08, -3.366851106677333e-08, 1.977953899562884e-08, 6.612240331380557e-09,
    -5.800489664817171e-09, -1.169687346675549e-08, 7.575067226286233e-09, 4.371218076779888e-09,
    -2.8200978996821033e-09, -1.2854087364083778e-09, 7.668509271181951e-10,
)  # fmt: skip
_FAR_TAIL = (
    0.9398183165300777, 0.018315531111859972, 0.0012121825811218883, -0.0005133045431441379,
    0.00016986599895814483, -5.846589907125009e-05, 2.2066759869841378e-05, -9.074681724098666e-06,
    3.986998287078745e-06, -1.8422427943274658e-06, 8.85852968300144e-07, -4.3976671345329097e-07,
    2.225400648674005e-07, -1.1512299104752073e-07, 6.609738637054307e-08, -3.747691112693121e-08,
    8.038973407873168e-09, -9.487149462680347e-10, 2.195599964095591e-08, -1.6864524060707817e-08,
    -1.635503674185032e-08, 1.3300334030866452e-08, 1.3891909792106815e-08, -1.0297281936984016e-08,
    -5.710983474489212e-09, 4.094758538019073e-09, 1.3375071474137321e-09, -9.018238013334264e-10,
)  # fmt: skip


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


@lowers("aten.special_ndtri", promote="self", to="float")
def ndtri(self):
    """The quantile of the normal distribution, from the nearer end of 0 to 1, on the pieces of Cephes' ndtri."""
    upper = greater(self, 1 - _EDGE)
    p = where(upper, subtract(1.0, self), self)
    tail = where(equal(p, 0.0), literal(math.inf, p.dtype), _tail_quantile(p))
    return where(greater(p, _EDGE), _middle_quantile(subtract(p, 0.5)), where(upper, tail, negative(tail)))


def _middle_quantile(d: Any) -> Any:
    """The quantile of d + 1/2."""
    return multiply(d, on_interval(multiply(d, d), 0, (0.5 - _EDGE) ** 2, _MIDDLE))


def _tail_quantile(p: Any) -> Any:
    """The quantile of 1 - p for p <= _EDGE; nan for p < 0."""
    z = sqrt(multiply(log(p), -2.0))
    u = divide(1.0, z)
    rest = where(less(z, 8.0), on_interval(u, 1 / 8, 1 / 2, _TAIL), on_interval(u, 1 / 39, 1 / 8, _FAR_TAIL))
    return subtract(subtract(z, multiply(log(z), u)), multiply(rest, u))
