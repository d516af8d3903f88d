"""Bessel functions of orders 0 and 1, as polynomials to 1e-16 on their pieces."""

from __future__ import annotations

import math

import mlx.core as mx

from ..isa import Array, instruction
from ..lowering import lowers
from .arithmetic import add, divide, literal, multiply, subtract
from .compare import equal, isinf, less, less_equal, where
from .exponential import exp, horner, wide_floats
from .special import on_interval
from .unary import abs_, cos, log, negative, sin, sqrt


@instruction(chain=128)
def i0e(x: Array) -> Array:
    """exp(-|x|) I0(x), the scaled modified Bessel function of order 0. Floats."""
    z = mx.abs(wide_floats(x))
    return _modified(z, horner(_near(z), _I0_NEAR), _I0_FAR).astype(x.dtype)


@instruction(chain=128)
def i1e(x: Array) -> Array:
    """exp(-|x|) I1(x), the scaled modified Bessel function of order 1. Floats."""
    z = mx.abs(wide_floats(x))
    near = mx.minimum(z, 8) * horner(_near(z), _I1_NEAR)
    return (mx.sign(x) * _modified(z, near, _I1_FAR)).astype(x.dtype)


def _near(x: mx.array) -> mx.array:
    return mx.minimum(x, 8) / 4 - 1


def _modified(x: mx.array, near: mx.array, far: tuple[float, ...]) -> mx.array:
    """`near` below 8, from there on a polynomial in 1 / x over sqrt(x)."""
    beyond = mx.maximum(x, 8)
    return mx.where(x > 8, horner(16 / beyond - 1, far) / mx.sqrt(beyond), near)


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

# All that follows for J and Y is fitted to PyTorch's functions, whose rational forms lack the leading 1 of the
# denominators of Cephes' j0, j1, y0 and y1: off by up to 1e-8 below x = 5, by 9e-7 just above and less further out.
# For x <= 5, in x**2: J0 and J1 / x without their first two zeros (whose squares are in _ZEROS), and
# Y0 - 2/pi log(x) J0 and (Y1 - 2/pi (log(x) J1 - 1/x)) / x.
_J0_NEAR = (
    0.0031873556312721914, -0.0019210870374212197, 0.0004876827367669105, -7.12170216142598e-05,
    6.854982510254732e-06, -4.70617478438991e-07, 2.4285899801128878e-08, -9.80024757967223e-10,
    3.14867543430089e-11, -6.58456620005764e-13, 8.21916892970087e-15, -1.0350402963786245e-14,
    3.440660369550994e-15, -5.608669879551718e-16,
)  # fmt: skip
_J1_NEAR = (
    0.0004323698734498479, -0.00020932672186228983, 4.421868895917127e-05, -5.5154929593329334e-06,
    4.6259937156840116e-07, -2.8110739207573704e-08, 1.3003882440168177e-09, -4.749517137300343e-11,
    1.3860681075674001e-12, -2.8399586979559995e-14, 9.806528742422306e-16, -4.470808134191926e-16,
    9.657513884658186e-17,
)  # fmt: skip
_Y0_NEAR = (
    0.4837248578888647, -0.4326558218182762, -0.470576364523217, 0.3885164002024392, -0.11151682284836295,
    0.01763534325641639, -0.0018028110691018452, 0.00012994615525399649, -6.985283468905675e-06,
    2.9146511721640143e-07, -9.743523942482453e-09, 2.6480858717242506e-10, -4.476156346137215e-12,
    -3.004121765298108e-13, 5.767657003282408e-14,
)  # fmt: skip
_Y1_NEAR = (
    0.13974939035256123, 0.09108650852678457, -0.16312020307193154, 0.06634695453634763, -0.013433432661535242,
    0.0016688036950454025, -0.0001414183950241566, 8.732905611615599e-06, -4.114367904620504e-07,
    1.5306674016606433e-08, -4.53039969253143e-10, 9.358309617391631e-12, -4.231117783207279e-13,
    1.9332868184580422e-13, -4.0828392189924827e-14,
)  # fmt: skip
_ZEROS = {0: (5.783185962946785, 30.471262343662087), 1: (14.681970642123893, 49.21845632169460)}

# For x > 5, in 25 / x**2: P and Q x / 5 of DLMF 10.17.3, where J is sqrt(2 / (pi x)) (P cos - Q sin) of
# x - order pi / 2 - pi / 4, and Y the same with P sin + Q cos.
_P0 = (
    0.9986347659091991, -0.0013274931272004456, 3.4917305812594294e-05, -2.4599633205972735e-06,
    2.975900544482567e-07, -5.086432540755076e-08, 1.1058783121462027e-08, -2.8705666021146476e-09,
    8.537849992141613e-10, -2.850250184118487e-10, 1.0422900510545533e-10, -3.5774543147038244e-11,
    1.3111618345938058e-11, -1.3148863125728392e-11, 7.722015273708543e-12, 3.1071146308907844e-12,
    -2.4440817832604074e-12, -2.157692462956291e-12, 1.3351581583593892e-12,
)  # fmt: skip
_Q0 = (
    -0.02472304183725295, 0.00026259715200125766, -1.3142617241271128e-05, 8.625697809539012e-07,
    -2.8095591904905e-07, 7.06196859177292e-08, -7.98138014599133e-09, -2.143412011331759e-09,
    1.6017204074188084e-09, -4.706062442703346e-10, -2.6551521639843617e-11, 1.5659258742460256e-10,
    -1.4173986606464386e-10, 4.707120828492915e-11, -5.772354164574575e-12, 1.215020684444276e-10,
    -1.1235587968452747e-10, -1.5875344995765245e-10, 1.5754705391958714e-10, 1.904960960045954e-10,
    -1.732027505552234e-10, -1.4427317052615006e-10, 1.2462480500899994e-10, 6.423831807583328e-11,
    -5.280630839073427e-11, -1.3826191240451829e-11, 1.0827167758014575e-11,
)  # fmt: skip
_P1 = (
    1.0022906462560661, 0.002241463213917245, -4.5782806531311406e-05, 2.978621104066627e-06,
    -3.466718649185973e-07, 5.7916681652654294e-08, -1.2403210483529406e-08, 3.1849816130246697e-09,
    -9.396323764977293e-10, 3.116025403230674e-10, -1.1331958449592482e-10, 3.888895148378121e-11,
    -1.4265375765383678e-11, 1.3996867282689439e-11, -8.16656726930138e-12, -3.238897614580065e-12,
    2.5427946448108534e-12, 2.2795151404558075e-12, -1.404824786554177e-12,
)  # fmt: skip
_Q1 = (
    0.07460959683038483, -0.00037241610144946513, 1.68533359600644e-05, -5.854339436147398e-07,
    4.4195308820742083e-07, -1.1382319805979758e-07, 5.413433327940788e-09, 8.13821748549186e-09,
    -4.421128596208083e-09, 1.26028943543679e-09, 1.6610111060831248e-11, -3.1658841719404127e-10,
    1.9936730798791474e-10, -9.749211641125939e-11, 2.876435417850544e-10, -2.5028304255474415e-10,
    -3.220321252144712e-10, 3.29948110637304e-10, 4.3272003338937417e-10, -3.9450073428168535e-10,
    -3.4533009807173277e-10, 2.99592061527593e-10, 1.621080200571495e-10, -1.3339500134532382e-10,
    -3.680994567756606e-11, 2.8818041339586987e-11,
)  # fmt: skip

# For x <= 2, in x**2: K0 + log(x / 2) I0 and x (K1 - log(x / 2) I1). For x > 2, in 1 / x: sqrt(x) exp(x) K.
_K0_NEAR = (
    -0.30362077291575545, 0.3404973210133806, 0.07177701034240509, 0.005053392643196092, 0.0001828055582791554,
    4.054506619949891e-06, 6.093361894172114e-08, 6.623013272794453e-10, 5.452564662772586e-12,
    3.518631515854722e-14,
)  # fmt: skip
_K1_NEAR = (
    0.8850882877295894, -0.3322409552403131, -0.2438385288677433, -0.02785423521977184, -0.001383168846618116,
    -3.891869064371633e-05, -7.081133691517408e-07, -9.032127501740678e-09, -8.533634168575142e-11,
    -6.214271617329577e-13,
)  # fmt: skip
_K0_FAR = (
    1.2185953385133905, -0.03107146182488952, 0.0030328918102753206, -0.0004797690567662314,
    9.95605474202942e-05, -2.4735204561466906e-05, 7.002245645755651e-06, -2.191177788015528e-06,
    7.427801232190096e-07, -2.6890662472901614e-07, 1.02954317593912e-07, -4.133923052104385e-08,
    1.7047535884249698e-08, -7.286380907337665e-09, 3.808399859919043e-09, -1.9309444875845705e-09,
    4.757544705776374e-11, 1.7887095838476482e-10, 8.133913205464114e-10, -5.541051446065683e-10,
    -3.119936129682105e-10, 2.213758097591008e-10, 1.0926983537268735e-10, -6.910453875670571e-11,
)  # fmt: skip
_K1_FAR = (
    1.363151890371342, 0.10334973775386523, -0.005566729880074588, 0.0007357241549081501,
    -0.00013959021956272223, 3.284386555825453e-05, -8.961207387750025e-06, 2.730041433569803e-06,
    -9.067087633371393e-07, 3.2298119177151824e-07, -1.2203186351938403e-07, 4.8461952200091865e-08,
    -1.9817577141591116e-08, 8.40938756536177e-09, -4.331939985658629e-09, 2.1757782025837176e-09,
    -8.336227195991456e-11, -1.7982138496175016e-10, -8.908596710923906e-10, 6.042482293782838e-10,
    3.3867804167808003e-10, -2.399376595899464e-10, -1.1931668393112158e-10, 7.52479548635394e-11,
)  # fmt: skip


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


@lowers("aten.special_modified_bessel_k0", promote="self", to="float")
def k0(self):
    near, far = _k0(self)
    return where(less_equal(self, 2.0), near, multiply(far, exp(negative(self))))


@lowers("aten.special_scaled_modified_bessel_k0", promote="x", to="float")
def scaled_k0(x):
    near, far = _k0(x)
    return where(less_equal(x, 2.0), multiply(near, exp(x)), far)


@lowers("aten.special_modified_bessel_k1", promote="self", to="float")
def k1(self):
    near, far = _k1(self)
    return where(less_equal(self, 2.0), near, multiply(far, exp(negative(self))))


@lowers("aten.special_scaled_modified_bessel_k1", promote="x", to="float")
def scaled_k1(x):
    near, far = _k1(x)
    return where(less_equal(x, 2.0), multiply(near, exp(x)), far)


def _k0(x):
    """K0(x) of 0 <= x <= 2, and exp(x) K0(x) above; nan below 0."""
    near = on_interval(multiply(x, x), 0, 4, _K0_NEAR)
    near = subtract(near, multiply(log(multiply(x, 0.5)), i0(x)))
    return near, divide(on_interval(divide(2.0, x), 0, 1, _K0_FAR), sqrt(x))


def _k1(x):
    """K1(x) of 0 <= x <= 2, and exp(x) K1(x) above; nan below 0."""
    near = divide(on_interval(multiply(x, x), 0, 4, _K1_NEAR), x)
    near = add(near, multiply(log(multiply(x, 0.5)), i1(x)))
    near = where(equal(x, 0.0), literal(math.inf, x.dtype), near)
    return near, divide(on_interval(divide(2.0, x), 0, 1, _K1_FAR), sqrt(x))


@lowers("aten.special_bessel_j0", promote="self", to="float")
def j0(self):
    x = abs_(self)
    near = _near_zeros(x, 0, _J0_NEAR)
    p, q, phase = _oscillating(x, 0, _P0, _Q0)
    return where(less_equal(x, 5.0), near, subtract(multiply(p, cos(phase)), multiply(q, sin(phase))))


@lowers("aten.special_bessel_j1", promote="self", to="float")
def j1(self):
    x = abs_(self)
    near = multiply(_near_zeros(x, 1, _J1_NEAR), x)
    p, q, phase = _oscillating(x, 1, _P1, _Q1)
    far = subtract(multiply(p, cos(phase)), multiply(q, sin(phase)))
    value = where(less_equal(x, 5.0), near, far)
    return where(less(self, 0.0), negative(value), value)


@lowers("aten.special_bessel_y0", promote="self", to="float")
def y0(self):
    """-inf at 0, nan below."""
    smooth = on_interval(multiply(self, self), 0, 25, _Y0_NEAR)
    j = _near_zeros(self, 0, _J0_NEAR)
    near = add(smooth, multiply(multiply(log(self), 2 / math.pi), j))
    p, q, phase = _oscillating(self, 0, _P0, _Q0)
    return where(less_equal(self, 5.0), near, add(multiply(p, sin(phase)), multiply(q, cos(phase))))


@lowers("aten.special_bessel_y1", promote="self", to="float")
def y1(self):
    """-inf at 0, nan below."""
    smooth = multiply(on_interval(multiply(self, self), 0, 25, _Y1_NEAR), self)
    j = multiply(_near_zeros(self, 1, _J1_NEAR), self)
    near = add(smooth, multiply(subtract(multiply(j, log(self)), divide(1.0, self)), 2 / math.pi))
    near = where(equal(self, 0.0), literal(-math.inf, self.dtype), near)
    p, q, phase = _oscillating(self, 1, _P1, _Q1)
    return where(less_equal(self, 5.0), near, add(multiply(p, sin(phase)), multiply(q, cos(phase))))


def _near_zeros(x, order, coefficients):
    square = multiply(x, x)
    a, b = _ZEROS[order]
    zeros = multiply(subtract(square, a), subtract(square, b))
    return multiply(zeros, on_interval(square, 0, 25, coefficients))


def _oscillating(x, order, p, q):
    """P and Q, both times sqrt(2 / (pi x)), and the phase: rounded as PyTorch's, or large x would not agree."""
    square = divide(25.0, multiply(x, x))
    scale = divide(math.sqrt(2 / math.pi), sqrt(x))
    p = multiply(on_interval(square, 0, 1, p), scale)
    q = multiply(multiply(on_interval(square, 0, 1, q), divide(5.0, x)), scale)
    return p, q, subtract(x, math.pi / 4 + order * math.pi / 2)


@lowers("aten.special_spherical_bessel_j0", promote="x", to="float")
def spherical_j0(x):
    value = where(equal(x, 0.0), literal(1.0, x.dtype), divide(sin(x), x))
    return where(isinf(x), literal(0.0, x.dtype), value)
