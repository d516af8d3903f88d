"""What special functions are made of: polynomials; and the Airy function."""

from __future__ import annotations

import math

import mlx.core as mx

from ..isa import Array, instruction
from ..lowering import lowers
from .arithmetic import add, divide, literal, multiply, subtract
from .compare import greater, isinf, less, where
from .exponential import exp, horner
from .unary import abs_, cos, sin, sqrt

MAX_COEFFICIENTS = 128


@instruction(chain=512)
def polynomial(x: Array, coefficients: list[float]) -> Array:
    """c[0] + c[1] x + c[2] x**2 + …, from 2 to 128 coefficients. Floats and complex numbers."""
    if not 2 <= len(coefficients) <= MAX_COEFFICIENTS:
        raise ValueError(f"{len(coefficients)} coefficients, a polynomial here has 2 to {MAX_COEFFICIENTS}")
    if not mx.issubdtype(x.dtype, mx.inexact):
        raise ValueError("a polynomial takes floats or complex numbers")
    return horner(x, tuple(coefficients))


def on_interval(x, low, high, coefficients):
    """The polynomial in the variable that goes from -1 at `low` to 1 at `high`."""
    scale = 2 / (high - low)
    return polynomial(add(multiply(x, scale), -1 - low * scale), coefficients)


# Chebyshev expansions to 1e-16, as polynomials: Ai on -2.09 to 2.09 and -5 to -2.09, then what multiplies the leading
# terms of the asymptotic forms, for x above 2.09 and below -5. Left of -2.09 they are PyTorch's function, whose
# denominators lack the leading 1 of Cephes' airy: it is 3e-6 off at -2.09 and less further out.
_NEAR = (
    0.3550280538878172, -0.540932553926966, 1.0936438092788878e-16, 0.5401946513619189, -0.4115292709674658,
    5.125873449465899e-13, 0.1643871565442466, -0.08945205019288485, -1.5078679696781418e-12,
    0.020843672774028446, -0.009073746610610167, -2.951035678688205e-10, 0.0014415813637425922,
    -0.0005310068461714353, 1.2550161658526116e-10, 6.266774492881937e-05, -2.0199182441892717e-05,
    3.167741817473033e-09, 1.8700427621553213e-06, -5.423827091060018e-07, -2.8387280540608055e-10,
    4.27339339166666e-08, -1.0502235287192927e-08, -8.236452232091323e-10, 6.316776556940339e-10,
)  # fmt: skip
_LEFT = (
    -0.3587615282724528, -0.5844338026976842, 1.3462263801469159, 0.5468345664256736, -0.9919538135885942,
    0.0021416337931600992, 0.3042958771993811, -0.0731319289094496, -0.04066196027856361, 0.020641618145943626,
    0.0008881922991143525, -0.0025465854647687123, 0.0004313996078461431, 0.00014016025985006506,
    -6.085067306107517e-05, 1.316090207398385e-06, 3.6832168809939406e-06, -7.450676753779874e-07,
    -9.324242331882684e-08, 3.77424341179946e-08, -1.0559577662236681e-08, -3.618066246719917e-09,
    -8.37093605395974e-10, -1.1052623007344196e-09, -3.271693401023513e-10, 1.4334293698900442e-10,
    7.06556375805607e-11,
)  # fmt: skip
_RIGHT = (
    0.9846188076515926, -0.013851472479675487, 0.001277724615447656, -0.00019749872477672824,
    4.042266143740598e-05, -9.944800963617266e-06, 2.793750195085561e-06, -8.686823116771767e-07,
    2.928591996567893e-07, -1.0553323861678223e-07, 4.021577445642192e-08, -1.5977024487648633e-08,
    6.610993700125044e-09, -3.091546837166234e-09, 1.4593761952882785e-09, -2.654681868639182e-10,
    2.6300129695404494e-11, -4.632962531464595e-10, 3.033121095676958e-10, 1.6283476776665585e-10,
    -1.1544950782305341e-10, -6.568823764682911e-11, 4.066519344869129e-11,
)  # fmt: skip
_IN_PHASE = (
    0.9996702731603566, -0.0003254319872647139, 4.128666155448994e-06, -1.542112098716587e-07,
    1.0673417906866024e-08, -1.1119419668183328e-09, 1.552187529345313e-10, -2.7051225286229216e-11,
    5.601372667389595e-12, -1.2572932354473518e-12, 3.221445759638622e-13, -1.5092224279333834e-13,
    5.179829362237676e-14,
)  # fmt: skip
_OFF_PHASE = (
    0.06911133919899308, -0.00032478687437220987, 7.854002729783738e-06, -4.21573599248876e-07,
    3.722610141847933e-08, -4.635854164902155e-09, 7.43586229162571e-10, -1.445508367336259e-10,
    3.271857126227989e-11, -8.382156384126538e-12, 2.451777788085531e-12, -7.765926668503065e-13,
    1.7715302784924612e-13, -5.114995172259688e-14, 6.9485235251429e-14, -3.0588162623671307e-14,
)  # fmt: skip


@lowers("aten.special_airy_ai", promote="x", to="float")
def airy_ai(x):
    """Ai(x): polynomials near 0, and in 1 / zeta, zeta = 2/3 |x|**1.5, the forms of DLMF 9.7.5 and 9.7.9 further out.

    The cuts where it underflows, and nan for both infinities, are PyTorch's.
    """
    root = sqrt(abs_(x))
    zeta = divide(multiply(multiply(abs_(x), 2.0), root), 3.0)
    u, fourth = divide(1.0, zeta), sqrt(root)
    decays = multiply(on_interval(u, 0, 1.5 / 2.09**1.5, _RIGHT), 1 / math.sqrt(math.pi))
    decays = divide(decays, multiply(multiply(fourth, 2.0), exp(zeta)))
    angle, square = add(zeta, math.pi / 4), multiply(u, u)
    in_phase = multiply(sin(angle), on_interval(square, 0, 9 / 500, _IN_PHASE))
    off_phase = multiply(cos(angle), multiply(u, on_interval(square, 0, 9 / 500, _OFF_PHASE)))
    oscillates = multiply(divide(1 / math.sqrt(math.pi), fourth), subtract(in_phase, off_phase))
    near = where(less(x, -2.09), on_interval(x, -5, -2.09, _LEFT), on_interval(x, -2.09, 2.09, _NEAR))
    value = where(less(x, -5.0), oscillates, where(greater(x, 2.09), decays, near))
    value = where(greater(x, 103.892), literal(0.0, x.dtype), value)
    return where(isinf(x), literal(math.nan, x.dtype), value)
