"""The regularised incomplete gamma functions."""

from __future__ import annotations

import math

import mlx.core as mx

from ..isa import Array, instruction
from ..lowering import lowers
from .erf import erfcx_right
from .exponential import exp_of, horner, wide_floats
from .gamma import lgamma_above_1, lgamma_right, stirling

LARGE = 200
"""From this a on Temme's expansion holds for all x."""


@instruction(chain=512)
def igamma(a: Array, x: Array) -> Array:
    """P(a, x), the integral of t**(a - 1) exp(-t) from 0 to x over gamma(a), broadcast. Floats of one dtype.

    0 for x = 0 or infinite a, 1 for a = 0 or infinite x; nan where a or x is negative or both are 0 or infinite.
    """
    lower, _ = _incomplete(wide_floats(a), wide_floats(x))
    return _with_limits(lower, a, x, 0.0)


@instruction(chain=512)
def igammac(a: Array, x: Array) -> Array:
    """Q(a, x) = 1 - P(a, x), exact where it is small, broadcast; see igamma. Floats of one dtype."""
    _, upper = _incomplete(wide_floats(a), wide_floats(x))
    return _with_limits(upper, a, x, 1.0)


def _with_limits(value: mx.array, a: mx.array, x: mx.array, at_0: float) -> mx.array:
    """`value`, or what it is at the ends; `at_0` for x = 0."""
    result = mx.where(mx.isinf(x), 1 - at_0, value)
    result = mx.where(mx.isinf(a), mx.where(mx.isinf(x), math.nan, at_0), result)
    result = mx.where(x == 0, at_0, result)
    result = mx.where(a == 0, mx.where(x > 0, 1 - at_0, math.nan), result)
    return mx.where((x < 0) | (a < 0), math.nan, result).astype(x.dtype)


def _incomplete(a: mx.array, x: mx.array) -> tuple[mx.array, mx.array]:
    """P and Q of finite a > 0 and x > 0. Each piece gives the smaller of the two, and 1 minus it the other.

    The pieces are those of PyTorch and SciPy (igam), with a fixed number of terms that suffices for the dtype.
    """
    double = x.dtype == mx.float64
    density = _density(a, x)
    lower = density * _series(a, x, 130 if double else 90)
    upper = density * a * _continued_fraction(a, x, 66 if double else 36)
    near_0 = (x <= 1.5) & (a <= mx.where(x <= 0.5, -0.4 / mx.log(x), x / 1.1))
    upper = mx.where(near_0, _upper_near_0(a, x, 22 if double else 13), upper)
    tail = _temme(a, x, 6 if double else 3)
    below = mx.where(a < LARGE, (x < a) | (x <= 1.5), x < a) & ~near_0
    lower, upper = mx.where(a < LARGE, lower, tail), mx.where(a < LARGE, upper, tail)
    return mx.where(below, lower, 1 - upper), mx.where(below, 1 - lower, upper)


def _excess(a: mx.array, x: mx.array) -> mx.array:
    """x / a - 1 - log(x / a), relatively exact near x = a: from log1p(m) = 2 artanh(s), s = m / (2 + m)."""
    m = (x - a) / a
    s = m / (2 + m)
    square = s * s
    near = s * (m - 2 * square * horner(square, _ARTANH))
    return mx.where(mx.abs(m) < 0.5, near, m - mx.log(x / a))


def _density(a: mx.array, x: mx.array) -> mx.array:
    """x**a exp(-x) / gamma(a + 1), by Stirling's formula from 8 on."""
    small = exp_of(a * mx.log(x) - x - lgamma_right(a + 1))
    large = exp_of(-a * _excess(a, x) - stirling(a)) / mx.sqrt(2 * math.pi * a)
    return mx.where(a < 8, small, large)


def _series(a: mx.array, x: mx.array, terms: int) -> mx.array:
    """P over the density for x <= a: DLMF 8.11.4."""
    total = mx.ones_like(a + x)
    for n in range(terms, 0, -1):
        total = 1 + total * (x / (a + n))
    return total


def _continued_fraction(a: mx.array, x: mx.array, terms: int) -> mx.array:
    """Q over the density and a for x >= a, x >= 1.5: DLMF 8.9.2."""
    y = x - a
    value = y + (2 * terms + 1)
    for n in range(terms, 0, -1):
        value = y + (2 * n - 1) - n * (n - a) / value
    return 1 / value


def _upper_near_0(a: mx.array, x: mx.array, terms: int) -> mx.array:
    """Q of x <= 1.5 and small a, where 1 - P would cancel: DLMF 8.7.3."""
    power = a * mx.log(x) - lgamma_above_1(mx.minimum(a, 1.5))
    total = mx.zeros_like(a + x)
    for n in range(terms, 0, -1):
        total = x * (total + (-1) ** n / math.factorial(n) / (a + n))
    return -mx.expm1(power) - a * exp_of(power) * total


def _temme(a: mx.array, x: mx.array, terms: int) -> mx.array:
    """P for x < a, else Q, of large a: Temme's uniform expansion, DLMF 8.12.3 and 8.12.4."""
    half = mx.maximum(_excess(a, x), 0)
    eta = mx.minimum(mx.sqrt(2 * half), _ETA)
    t = mx.where(x < a, -eta, eta) / _ETA
    total = mx.zeros_like(t)
    for coefficients in reversed(_TEMME[:terms]):
        total = total / a + horner(t, coefficients)
    exponent = a * half
    correction = total / mx.sqrt(2 * math.pi * a)
    right = erfcx_right(mx.sqrt(exponent)) / 2
    return exp_of(-exponent) * mx.where(x < a, right - correction, right + correction)


_ARTANH = tuple(1 / (2 * n + 3) for n in range(16))

# The coefficients c0(eta), c1(eta), … of Temme's expansion for |eta| <= _ETA, in eta / _ETA, each as exact as
# LARGE needs: exp(-a eta**2 / 2) is 0 beyond. From their Taylor series, DLMF 8.12.12.
_ETA = 2.75
_TEMME = (
    (
        -0.3333333333333333, 0.2291666666666669, -0.11203703703704862, 0.024070457175874617, 0.020173335539211825,
        -0.02811395966621827, 0.016951205498817328, -0.0025993780835297233, -0.006064370920114013,
        0.007462774662087729, -0.004369843836186462, 0.0004562729678125917, 0.0019198076935727653,
        -0.0022541024664067023, 0.0012928839184219894, -9.997751189965245e-05, -0.0006178869452584222,
        0.0007193018722163115, -0.0004281198382345267, 1.8234149144773705e-05, 0.0002644101514054569,
        -0.00022465302352832467, 1.1934163910065745e-05, -1.1910678455488572e-05, 0.00011876985592118037,
        6.382605954420778e-05, -0.0002627667862709016, 4.550509832569008e-05, 0.0002067864508752929,
        -8.808490750950621e-05, -8.63560505258636e-05, 5.1197594730411794e-05, 1.9526638406742044e-05,
        -1.4290071590870658e-05, -1.9083633045554847e-06, 1.6446588603992354e-06,
    ),
    (
        -0.0018518518518521707, -0.009548611111173064, 0.020006613756805243, -0.020593613350323604,
        0.011767779044625342, -6.320645854574738e-05, -0.007827803420661738, 0.009097946965175081,
        -0.005272932042762606, 4.15731197462873e-05, 0.0034103718208643528, -0.0039109989863071485,
        0.0022340052973094087, -2.2019554243045275e-05, -0.001417451219734589, 0.0016763343292275563,
        -0.0009595748314048892, -0.00017752310993782608, 0.0007158124062155829, -0.0002404640388221129,
        4.735075074735076e-05, -0.0006893282306577314, 0.00032863616066616206, 0.0010788145704126537,
        -0.0008650108164163723, -0.0006589019841955919, 0.0007511995249900461, 0.0002037405532868831,
        -0.00034026694224935735, -2.841037174005902e-05, 8.271130109650275e-05, 7.41740388075612e-07,
        -8.636827201517878e-06,
    ),
    (
        0.004133597883139443, -0.007373649690607368, 0.005835262528393597, 4.178886206951529e-05,
        -0.006140455053832354, 0.008323614027552773, -0.005518787048134651, 4.0575620634828405e-05,
        0.004483958554352358, -0.005663966164811482, 0.003567517595098009, -2.9405027484124308e-05,
        -0.002821662769736384, 0.003289246491454246, -0.0012704806968750024, -0.0003196778654771875,
        -0.0002653329256821914, -0.0007646017295287551, 0.0037870439312013204, -0.0016750610727257601,
        -0.003935068325018373, 0.003030788255095363, 0.0018921891425411946, -0.00199769804430733,
        -0.0004552305251941725, 0.0006417193883114574, 4.3433337985618926e-05, -8.48443066475141e-05,
    ),
    (
        0.0006494341463239864, 0.0006310499371151501, -0.003548243034243755, 0.005567598398979905,
        -0.0043247988384746685, -3.3495667133070395e-05, 0.00479468945260873, -0.006802749262998633,
        0.004647915708480605, 0.0003724410696772098, -0.0041994643612534525, 0.003902520146999337,
        -0.00335694807833345, 0.00444579310109374, 0.0017769746753144358, -0.011642540494146088,
        0.005395952932944035, 0.00890601395320726, -0.00669742401579468, -0.003151164347754104, 0.00308557215530939,
        0.00044348821099265284, -0.0005366848936242833,
    ),
    (
        -0.0008618823872807881, 0.002156698903474571, -0.002262805972833653, -5.928821715869806e-05,
        0.0038306281831959475, -0.005831799211536536, 0.004541720898041943, -0.0025894809734676454,
        -0.0032990832764727383, 0.016520376389423365, -0.01321596130123663, -0.014982288056722368,
        0.020193328376319417, 0.005096213545461949, -0.011093855364922264, -0.0004691424571751184,
        0.0022424559827616346,
    ),
    (
        -0.00033950295155578327, -0.00013526093664976334, 0.0021698727757845236, -0.0052123003392570205,
        0.004093488585706987, 0.005239910041304155, -0.010182782228635922, 0.0015726312567946187,
        0.004906423621493491, -0.0022280727885172305,
    ),
)  # fmt: skip


@lowers("aten.igamma", "aten.special_gammainc", promote=("self", "other"), to="float", opmath=True)
def igamma_(self, other):
    return igamma(self, other)


@lowers("aten.igammac", "aten.special_gammaincc", promote=("self", "other"), to="float", opmath=True)
def igammac_(self, other):
    return igammac(self, other)
