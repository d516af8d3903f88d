"""Special functions: gamma and Bessel functions, as polynomials to 1e-16 on their pieces."""

from __future__ import annotations

import math

import mlx.core as mx

from ..errors import refuse
from ..isa import Array, instruction
from ..lowering import lowers
from .arithmetic import add, divide, literal, multiply, subtract
from .compare import equal, where
from .unary import abs_, exp, horner, sin


@instruction
def lgamma(x: Array) -> Array:
    """log |gamma(x)|; infinite at 0, the negative integers and both infinities. Floats."""
    z = _wide(x)
    a = mx.abs(z)
    right = _lgamma_right(a)
    fraction = a - mx.floor(a)
    fraction = mx.minimum(fraction, 1 - fraction)
    t = mx.tan(math.pi / 2 * fraction)
    sine = 2 * t / (1 + t * t)
    left = math.log(math.pi) - mx.log(a * sine) - right
    left = mx.where(fraction == 0, math.inf, left)
    result = mx.where(z > 0, right, left)
    return mx.where(mx.isinf(z), math.inf, result).astype(x.dtype)


@instruction
def digamma(x: Array) -> Array:
    """The derivative of log gamma(x); -inf at 0, inf at -0.0, nan at the negative integers. Floats."""
    z = _wide(x)
    fraction = z - mx.trunc(z)
    right = _digamma_right(mx.where(z < 0, 1 - z, z))
    left = mx.where(fraction == 0, math.nan, right - math.pi / mx.tan(math.pi * fraction))
    result = mx.where(z < 0, left, right)
    return mx.where(z == 0, -1 / z, result).astype(x.dtype)


@instruction
def i0e(x: Array) -> Array:
    """exp(-|x|) I0(x), the scaled modified Bessel function of order 0. Floats."""
    z = mx.abs(_wide(x))
    return _bessel(z, horner(_near(z), _I0_NEAR), _I0_FAR).astype(x.dtype)


@instruction
def i1e(x: Array) -> Array:
    """exp(-|x|) I1(x), the scaled modified Bessel function of order 1. Floats."""
    z = mx.abs(_wide(x))
    near = mx.minimum(z, 8) * horner(_near(z), _I1_NEAR)
    return (mx.sign(x) * _bessel(z, near, _I1_FAR)).astype(x.dtype)


def _wide(x: mx.array) -> mx.array:
    """Half precision as float32."""
    return x.astype(mx.float32) if x.dtype.size == 2 else x


def _near(x: mx.array) -> mx.array:
    return mx.minimum(x, 8) / 4 - 1


def _bessel(x: mx.array, near: mx.array, far: tuple[float, ...]) -> mx.array:
    """`near` below 8, from there on a polynomial in 1 / x over sqrt(x)."""
    beyond = mx.maximum(x, 8)
    return mx.where(x > 8, horner(16 / beyond - 1, far) / mx.sqrt(beyond), near)


def _lgamma_right(x: mx.array) -> mx.array:
    """lgamma of x >= 0: from [2, 3) below 8, where no terms cancel, then from Stirling's series."""
    step = mx.where(x < 1, mx.log(x) + mx.log1p(x), mx.where(x < 2, mx.log1p(x - 1), 0))
    z, product = x, mx.ones_like(x)
    for _ in range(5):
        high = z >= 3
        z = mx.where(high, z - 1, z)
        product = mx.where(high, product * z, product)
    u = mx.clip(mx.where(z < 1, z, mx.where(z < 2, z - 1, z - 2)), 0, 1)
    near = u * horner(2 * u - 1, _LGAMMA) + mx.log(product) - step
    series = horner(1 / (x * x), _STIRLING) / x
    far = (x - 0.5) * mx.log(x) - x + (series + math.log(2 * math.pi) / 2)
    return mx.where(x < 8, near, far)


def _digamma_right(x: mx.array) -> mx.array:
    """digamma of x > 0: from the series above 10."""
    z, total = x, mx.zeros_like(x)
    for _ in range(10):
        low = z < 10
        total = mx.where(low, total + 1 / z, total)
        z = mx.where(low, z + 1, z)
    square = 1 / (z * z)
    return mx.log(z) - 0.5 / z - square * horner(square, _DIGAMMA) - total


# Bernoulli numbers B(2n) over 2n (2n - 1), and over 2n.
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)

# lgamma(2 + u) / u for 0 <= u <= 1, in 2 u - 1.
_LGAMMA = (
    0.5693657409458384, 0.13379089969940486, -0.011201460674346141, 0.0013596251892747035,
    -0.0001934488933512554, 3.0034310267215106e-05, -4.9228007854159545e-06, 8.36720391597027e-07,
    -1.459116044908227e-07, 2.5929122879379216e-08, -4.674187951426845e-09, 8.523644567881144e-10,
    -1.5678619885679779e-10, 2.873161281437809e-11, -5.346025309842715e-12, 1.1817628925592215e-12,
    -2.246152744637142e-13,
)  # fmt: skip

# exp(-x) I0(x) and exp(-x) I1(x) / x for x <= 8, in x / 4 - 1; times sqrt(x), in 16 / x - 1, above.
_I0_NEAR = (
    0.2070019212239867, -0.11300432688620549, 0.09451562853995103, -0.08904344136075962, 0.08734341617552313,
    -0.08496338091616305, 0.07927522590716347, -0.06954119561719381, 0.05677703201991695,
    -0.04298594945479612, 0.030177912022978357, -0.01968265469059234, 0.011960077907026221,
    -0.0067923998730731695, 0.003617126448897043, -0.001811886793937724, 0.0008563152748272306,
    -0.00038290209550065975, 0.00016240542162878106, -6.550861389620851e-05, 2.520232727107692e-05,
    -9.251680584432654e-06, 3.2293390826404927e-06, -1.0883393970072518e-06, 3.675842926555429e-07,
    -1.1384114641747256e-07, 2.6265363151970112e-08, -7.723094556846333e-09, 4.470516727511741e-09,
    -1.1852342482684723e-09,
)  # fmt: skip
_I0_FAR = (
    0.4021765094450081, 0.0033605519836678614, 0.0001362160743919305, 1.1143033790932038e-05,
    1.4838475658279249e-06, 2.9735985885673923e-07, 8.872219737904054e-08, 3.932584334552952e-08,
    2.1548377974791598e-08, 7.554691881248808e-09, -6.747657956107524e-09, -1.340891754008974e-08,
    -5.404771567579958e-09, 7.552583062123384e-09, 7.430464650325426e-09, -3.505966530879332e-09,
    -5.95356943826489e-09, 1.5200816953924232e-09, 3.6379546359011143e-09, -5.715843864202709e-10,
    -1.618980683624682e-09, 1.5279202694981569e-10, 4.577087631643623e-10, -2.0260604287413626e-11,
    -6.067631570603006e-11,
)  # fmt: skip
_I1_NEAR = (
    0.044687709875608835, -0.061124338029666284, 0.0680575999095116, -0.06848260620582691,
    0.06376740371340721, -0.055280039226991644, 0.04467457262125467, -0.03367135552108536,
    0.023686016957729535, -0.015571309243980052, 0.009583962150731578, -0.005534567847563678,
    0.0030057624197775295, -0.00153887456203039, 0.0007445123445061157, -0.0003411760289073331,
    0.0001484212433475852, -6.142360299099794e-05, 2.4233753149624307e-05, -9.136543922789093e-06,
    3.293899139003749e-06, -1.1327072698408053e-06, 3.759367306404118e-07, -1.2424759932738304e-07,
    3.802984785138283e-08, -8.984420960424589e-09, 2.603206542331157e-09, -1.41695079121077e-09,
    3.7284532079392345e-10,
)  # fmt: skip
_I1_FAR = (
    0.38939845902587233, -0.009749577193235737, -0.00021923576383388928, -1.5038547200567216e-05,
    -1.8349101326980946e-06, -3.483855761044295e-07, -1.0001288294864884e-07, -4.312917729178349e-08,
    -2.337392820814264e-08, -8.427766093735185e-09, 6.734464815301592e-09, 1.4034238782067183e-08,
    5.974437608040264e-09, -7.64239413436356e-09, -7.888351507862078e-09, 3.4262341490077958e-09,
    6.242741219786445e-09, -1.4387250533041013e-09, -3.794670896208339e-09, 5.295625441161261e-10,
    1.6848984479705146e-09, -1.4011625179770627e-10, -4.758818838703853e-10, 1.8515118828852956e-11,
    6.305965197150057e-11,
)  # fmt: skip


@lowers("aten.lgamma", "aten.special_gammaln", promote="self", to="float", opmath=True)
def lgamma_(self):
    return lgamma(self)


@lowers("aten.digamma", "aten.special_digamma", "aten.special_psi", promote="self", to="float", opmath=True)
def digamma_(self):
    return digamma(self)


@lowers("aten.polygamma", "aten.special_polygamma", promote="self", to="float", opmath=True)
def polygamma(n, self):
    if n != 0:
        raise refuse(f"polygamma of order {n} is not supported, only of order 0")
    return digamma(self)


@lowers("aten.mvlgamma", "aten.special_multigammaln", promote="self", to="float", opmath=True)
def mvlgamma(self, p):
    total = lgamma(self)
    for j in range(1, p):
        total = add(total, lgamma(subtract(self, j / 2)))
    return add(total, p * (p - 1) / 4 * math.log(math.pi))


@lowers("aten.special_i0e", promote="self", to="float", opmath=True)
def i0e_(self):
    return i0e(self)


@lowers("aten.special_i1e", promote="self", to="float", opmath=True)
def i1e_(self):
    return i1e(self)


@lowers(
    "aten.i0", "aten.special_i0", "aten.special_modified_bessel_i0", promote="self", to="float", opmath=True
)
def i0(self):
    return multiply(i0e(self), exp(abs_(self)))


@lowers("aten.special_i1", "aten.special_modified_bessel_i1", promote="self", to="float", opmath=True)
def i1(self):
    return multiply(i1e(self), exp(abs_(self)))


@lowers("aten.special_spherical_bessel_j0", promote="x", to="float")
def spherical_bessel_j0(x):
    return where(equal(x, 0.0), literal(1.0, x.dtype), divide(sin(x), x))
