"""The gamma function's logarithm and its derivatives, and Hurwitz's zeta function."""

from __future__ import annotations

import math

import mlx.core as mx

from ..isa import Array, instruction
from ..lowering import lowers
from .arithmetic import add, divide, literal, multiply, subtract
from .compare import less, where
from .exponential import horner, wide_floats
from .unary import negative, sin


@instruction(chain=128)
def lgamma(x: Array) -> Array:
    """log |gamma(x)|; infinite at 0, the negative integers and both infinities. Floats."""
    z = wide_floats(x)
    a = mx.abs(z)
    right = lgamma_right(a)
    fraction = a - mx.floor(a)
    fraction = mx.minimum(fraction, 1 - fraction)
    t = mx.tan(math.pi / 2 * fraction)
    sine = 2 * t / (1 + t * t)
    left = math.log(math.pi) - mx.log(a) - mx.log(sine) - right
    left = mx.where(fraction == 0, math.inf, left)
    result = mx.where(z > 0, right, left)
    return mx.where(mx.isinf(z), math.inf, result).astype(x.dtype)


@instruction
def digamma(x: Array) -> Array:
    """The derivative of log gamma(x); -inf at 0, inf at -0.0, nan at the negative integers. Floats."""
    z = wide_floats(x)
    right = _digamma_right(mx.where(z < 0, 1 - z, z))
    fraction = z - mx.round(z)
    size = mx.abs(fraction)
    cotangent = mx.where(size < 0.25, 1 / mx.tan(math.pi * size), mx.tan(math.pi * (0.5 - size)))
    left = right - math.pi * mx.sign(fraction) * cotangent
    left = mx.where(fraction == 0, math.nan, left)
    result = mx.where(z < 0, left, right)
    return mx.where(z == 0, -1 / z, result).astype(x.dtype)


@instruction
def zeta(x: Array, q: Array) -> Array:
    """Hurwitz's zeta function, the sum of (q + k)**-x over k = 0, 1, 2, …, broadcast. Floats of one dtype.

    inf for x = 1 and for q = 0, -1, -2, …, -inf; nan for x < 1, for q = inf, and for other q < 0 unless x is an integer.
    """
    s, z = wide_floats(x), wide_floats(q)
    right = mx.power(z, -s) + _zeta_rest(s, z)
    right = mx.where((right == 0) & (s > _ZETA_LARGE) | mx.isposinf(z), math.nan, right)
    left = mx.where(s == mx.floor(s), _zeta_left(s, z), math.nan)
    result = mx.where(z < 0, left, right)
    result = mx.where((z <= 0) & (z == mx.floor(z)), math.inf, result)
    result = mx.where(s < 1, math.nan, result)
    return mx.where(s == 1, math.inf, result).astype(x.dtype)


def lgamma_right(x: mx.array) -> mx.array:
    """lgamma of x >= 0: from [2, 3) below 8, where no terms cancel, then from Stirling's series."""
    step = mx.where(x < 1, mx.log(x) + mx.log1p(x), mx.where(x < 2, mx.log1p(x - 1), 0))
    z, product = x, mx.ones_like(x)
    for _ in range(5):
        high = z >= 3
        z = mx.where(high, z - 1, z)
        product = mx.where(high, product * z, product)
    u = mx.clip(mx.where(z < 1, z, mx.where(z < 2, z - 1, z - 2)), 0, 1)
    near = u * horner(2 * u - 1, _LGAMMA) + mx.log(product) - step
    far = (x - 0.5) * mx.log(x) - x + (stirling(x) + math.log(2 * math.pi) / 2)
    return mx.where(x < 8, near, far)


def lgamma_above_1(x: mx.array) -> mx.array:
    """lgamma(1 + x) of 0 <= x < 2, relatively exact near 0."""
    u = mx.where(x < 1, x, x - 1)
    return u * horner(2 * u - 1, _LGAMMA) - mx.where(x < 1, mx.log1p(x), 0)


def stirling(x: mx.array) -> mx.array:
    """What lgamma(x) is above (x - 1/2) log(x) - x + log(2 pi) / 2, for x >= 8."""
    return horner(1 / (x * x), _STIRLING) / x


def _digamma_right(x: mx.array) -> mx.array:
    """digamma of x > 0: from the series above 10."""
    z, total = x, mx.zeros_like(x)
    for _ in range(10):
        low = z < 10
        total = mx.where(low, total + 1 / z, total)
        z = mx.where(low, z + 1, z)
    square = 1 / (z * z)
    return mx.log(z) - 0.5 / z - square * horner(square, _DIGAMMA) - total


def _zeta_left(s: mx.array, q: mx.array) -> mx.array:
    """zeta of q < 0 and a whole s: the terms below 0 are, in the other direction, the difference of two zetas."""
    above, below = q - mx.floor(q), mx.ceil(q) - q
    odd = s - 2 * mx.floor(s / 2) == 1
    rest = _zeta_rest(s, below) - _zeta_rest(s, -q)
    # The two terms next to 0, whose difference would cancel.
    first = mx.power(above, -s)
    difference = -first * mx.expm1(s * mx.log1p((above - below) / below))
    difference = mx.where(above == below, 0, difference)
    both = mx.where(odd, difference, first + mx.power(below, -s))
    return both + _zeta_rest(s, above) + mx.where(odd, -rest, rest)


def _zeta_rest(s: mx.array, q: mx.array) -> mx.array:
    """zeta(s, q + 1) of q > -1: nine terms, then the Euler-Maclaurin formula, as in Cephes' zeta."""
    total = mx.power(q + 1, -s)
    for k in range(2, 10):
        total = total + mx.power(q + k, -s)
    w = q + 9
    last = mx.power(w, -s)
    rest = mx.power(w, 1 - s) / (s - 1) - last / 2
    term = last * (s / w)
    for k, factor in enumerate(_ZETA):
        rest = rest + factor * term
        term = term * ((s + (2 * k + 1)) / w) * ((s + (2 * k + 2)) / w)
    return mx.where(mx.isinf(s), total, total + rest)


# Bernoulli numbers B(2n) over 2n (2n - 1), over 2n, and over (2n)!.
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
_ZETA = (
    1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000, 1 / 74724249600,
    -3617 / 10670622842880000, 43867 / 5109094217170944000, -174611 / 802857662698291200000,
    77683 / 14101100039391805440000, -236364091 / 1693824136731743669452800000,
)  # fmt: skip

# For larger x, PyTorch multiplies an infinite factor by the 0 of a sum that underflowed.
_ZETA_LARGE = 2.5e13

# lgamma(2 + u) / u for 0 <= u <= 1, in 2 u - 1.
_LGAMMA = (
    0.5693657409458384, 0.13379089969940486, -0.011201460674346141, 0.0013596251892747035,
    -0.0001934488933512554, 3.0034310267215106e-05, -4.9228007854159545e-06, 8.36720391597027e-07,
    -1.459116044908227e-07, 2.5929122879379216e-08, -4.674187951426845e-09, 8.523644567881144e-10,
    -1.5678619885679779e-10, 2.873161281437809e-11, -5.346025309842715e-12, 1.1817628925592215e-12,
    -2.246152744637142e-13,
)  # fmt: skip


@lowers("aten.lgamma", "aten.special_gammaln", promote="self", to="float", opmath=True)
def lgamma_(self):
    return lgamma(self)


@lowers("aten.digamma", "aten.special_digamma", "aten.special_psi", promote="self", to="float", opmath=True)
def digamma_(self):
    return digamma(self)


@lowers(
    "aten.special_zeta", "aten.special_zeta.other_scalar", "aten.special_zeta.self_scalar",
    promote=("self", "other"), to="float",
)  # fmt: skip
def zeta_(self, other):
    return zeta(self, other)


@lowers("aten.polygamma", "aten.special_polygamma", promote="self", to="float", opmath=True)
def polygamma(n, self):
    """The n-th derivative of digamma."""
    if n == 0:
        return digamma(self)
    if n == 1:
        return _trigamma(self)
    factorial = math.factorial(n) if n <= 170 else math.inf
    value = multiply(zeta(literal(n + 1.0, self.dtype), self), float(factorial))
    return value if n % 2 else negative(value)


def _trigamma(x):
    """As PyTorch computes it: reflected below 1/2, up by 6, then the asymptotic series of DLMF 5.15.8."""
    below = less(x, 0.5)
    sine = sin(multiply(x, math.pi))
    total = where(below, divide(-(math.pi**2), multiply(sine, sine)), literal(0.0, x.dtype))
    z = where(below, subtract(1.0, x), x)
    for _ in range(6):
        total = add(total, divide(1.0, multiply(z, z)))
        z = add(z, 1.0)
    square = divide(1.0, multiply(z, z))
    series = subtract(1 / 6, multiply(square, subtract(1 / 30, multiply(square, 1 / 42))))
    series = add(add(divide(1.0, multiply(z, 2.0)), 1.0), multiply(square, series))
    total = add(total, divide(series, z))
    return where(below, negative(total), total)


@lowers("aten.mvlgamma", "aten.special_multigammaln", promote="self", to="float", opmath=True)
def mvlgamma(self, p):
    total = lgamma(self)
    for j in range(1, p):
        total = add(total, lgamma(subtract(self, j / 2)))
    return add(total, p * (p - 1) / 4 * math.log(math.pi))
