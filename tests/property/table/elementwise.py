"""Functions of one, two and three operands, comparisons, bits, limits, choices."""

from typing import Any

import torch
from hypothesis import strategies as st
from torch.nn import functional as F

from ..runner import Row
from ..strategies import (
    ALL,
    FLOATS,
    INEXACT,
    INTEGERS,
    NUMBERS,
    REAL,
    Strategy,
    broadcastable,
    maybe,
    numbers,
    of_shape,
    some,
    tensors,
)

A, S = torch.ops.aten, torch.special
SMALL = (torch.float16, torch.bfloat16, torch.float32)


def unary(dtypes: Any = REAL, kind: str = "any", **options: Any) -> Strategy:
    """(x), with optional keyword arguments."""
    return st.tuples(st.tuples(tensors(dtypes, kind=kind)), some(**options))


@st.composite
def binary(
    draw: st.DrawFn,
    dtypes: Any = REAL,
    kind: str = "any",
    other: str = "bif",
    same: bool = False,
    **options: Any,
) -> Any:
    """(x, y): tensors that broadcast, of any two dtypes, or one of them a Python number of a kind in `other`."""
    shapes = draw(broadcastable(2))
    x = draw(tensors(dtypes, st.just(shapes[0]), kind))
    if other and draw(st.integers(0, 2)) == 0:
        return (x, draw(numbers(other, kind))), draw(some(**options))
    y = draw(tensors((x.dtype,) if same else dtypes, st.just(shapes[1]), kind))
    return (x, y), draw(some(**options))


@st.composite
def operands(draw: st.DrawFn, count: int, dtypes: Any = REAL, kind: str = "any", **options: Any) -> Any:
    """`count` tensors that broadcast."""
    return tuple(draw(tensors(dtypes, st.just(shape), kind)) for shape in draw(broadcastable(count))), draw(
        some(**options)
    )


@st.composite
def divisible(draw: st.DrawFn, **options: Any) -> Any:
    """(x, y) without what crashes PyTorch: integers divided by 0, and the least one by -1."""
    (x, y), given = draw(binary(NUMBERS, **options))
    if not x.is_floating_point():
        x = torch.where(x == torch.iinfo(x.dtype).min, x + 1, x) if x.dtype != torch.uint8 else x
    if isinstance(y, torch.Tensor) and not y.is_floating_point():
        y = torch.where(y == 0, 3, y).to(y.dtype)
    return (x, y), given


@st.composite
def limited(draw: st.DrawFn, dtypes: Any = REAL) -> Any:
    """x and two limits, either of them None, numbers or tensors."""
    shapes = draw(broadcastable(3))
    x = draw(tensors(dtypes, st.just(shapes[0])))
    if draw(st.booleans()):
        low, high = draw(maybe(numbers("if"))), draw(maybe(numbers("if")))
    else:
        low, high = (draw(maybe(tensors(dtypes, st.just(shape)))) for shape in shapes[1:])
    return (x, low, high), {}


@st.composite
def chosen(draw: st.DrawFn) -> Any:
    """(condition, x, y), the latter two tensors or numbers."""
    shapes = draw(broadcastable(3))
    pair = [draw(tensors(ALL, st.just(shape))) for shape in shapes[1:]]
    pick = draw(st.integers(0, 5))
    if pick < 2:
        pair[pick] = draw(numbers())
    return (draw(of_shape(shapes[0], torch.bool)), *pair), {}


@st.composite
def filled(draw: st.DrawFn) -> Any:
    shape, other = draw(broadcastable(2))
    x = draw(tensors(ALL, st.just(shape)))
    value = draw(numbers("b" if x.dtype == torch.bool else "i" if x.dtype in INTEGERS else "if"))
    return (x, draw(of_shape(other, torch.bool)), value), {}


REALS = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "ceil",
    "cos",
    "cosh",
    "deg2rad",
    "digamma",
    "erf",
    "erfc",
    "erfinv",
    "exp",
    "exp2",
    "expm1",
    "fix",
    "floor",
    "i0",
    "isfinite",
    "isinf",
    "isnan",
    "isneginf",
    "isposinf",
    "lgamma",
    "log",
    "log10",
    "log1p",
    "log2",
    "logical_not",
    "logit",
    "nan_to_num",
    "rad2deg",
    "reciprocal",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "signbit",
    "sin",
    "sinc",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "trunc",
]
FLOAT_ONLY = [
    "celu",
    "elu",
    "hardsigmoid",
    "hardswish",
    "leaky_relu",
    "logsigmoid",
    "mish",
    "relu6",
    "selu",
    "silu",
    "softplus",
    "softshrink",
    "hardshrink",
    "tanhshrink",
    "softsign",
]
COMPLEX = [
    "abs",
    "angle",
    "conj_physical",
    "cos",
    "exp",
    "neg",
    "reciprocal",
    "sgn",
    "sigmoid",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "tanh",
]

UNARY = [
    *[Row(name, getattr(torch, name), unary()) for name in REALS],
    *[Row(f"{name} complex", getattr(torch, name), unary((torch.complex64,))) for name in COMPLEX],
    *[Row(name, getattr(F, name), unary(FLOATS)) for name in FLOAT_ONLY],
    Row("relu", torch.relu, unary(NUMBERS)),
    Row("neg", torch.neg, unary(NUMBERS)),
    Row("positive", torch.positive, unary(NUMBERS)),
    Row("frac", torch.frac, unary(FLOATS)),
    Row("angle", torch.angle, unary()),
    Row("bitwise_not", torch.bitwise_not, unary((torch.bool, *INTEGERS))),
    Row("round decimals", torch.round, unary(FLOATS, "small", decimals=[-1, 0, 1, 2])),
    Row("gelu", F.gelu, unary(FLOATS, approximate=["none", "tanh"])),
    Row("elu alpha", F.elu, unary(FLOATS, alpha=[0.5, 2.0])),
    Row("celu alpha", F.celu, unary(FLOATS, alpha=[0.5, 2.0])),
    Row("leaky_relu slope", F.leaky_relu, unary(FLOATS, negative_slope=[0.5, -0.5, 0.0])),
    Row("softplus arguments", F.softplus, unary(FLOATS, beta=[0.5, 2.0], threshold=[1.0, 20.0])),
    Row("hardtanh", F.hardtanh, unary(NUMBERS, min_val=[-2, 0], max_val=[1, 3])),
    Row("threshold", F.threshold, unary(NUMBERS).map(lambda a: ((*a[0], 1, 7), {}))),
    Row("hardshrink lambd", F.hardshrink, unary(FLOATS, lambd=[0.0, 1.5])),
    Row("softshrink lambd", F.softshrink, unary(FLOATS, lambd=[0.0, 1.5])),
    Row("logit eps", torch.logit, unary(FLOATS, "unit", eps=[0.1, 0.25])),
    Row("nan_to_num arguments", torch.nan_to_num, unary(FLOATS, nan=[0.5], posinf=[7.0], neginf=[-7.0])),
    *[
        Row(f"special {name}", getattr(S, name), unary(kind="small"))
        for name in ("erfcx", "i0e", "i1", "i1e", "log_ndtr", "ndtr")
    ],
    Row("polygamma", lambda x: torch.polygamma(0, x), unary(FLOATS, "positive")),
    Row("mvlgamma", lambda x: torch.mvlgamma(x + 2, 2), unary(FLOATS, "positive")),
]  # fmt: skip

SUMS = [
    Row("add", torch.add, binary(alpha=[1])),
    Row("add alpha", torch.add, binary(NUMBERS, other="i", alpha=[2, -1])),
    Row("sub", torch.sub, binary(NUMBERS, other="if")),
    Row("sub alpha", torch.sub, binary(FLOATS, alpha=[0.5, -2])),
    Row("rsub", torch.rsub, binary(NUMBERS, other="if")),
    Row("number minus x", lambda x, y: y - x, binary(NUMBERS, other="if")),
    Row("mul", torch.mul, binary()),
    Row("add complex", torch.add, binary(INEXACT[2:], "small", other="f"), refused="MLX does not have"),
    Row("mul complex", torch.mul, binary((torch.float32, torch.complex64), "small")),
    Row("div complex", torch.div, binary((torch.float32, torch.complex64), "small")),
    Row("div", torch.div, binary()),
    Row("number over x", lambda x, y: y / x, binary(NUMBERS)),
    Row("div floor", torch.div, divisible(other="", rounding_mode=st.just("floor"))),
    Row("div trunc", torch.div, divisible(other="", rounding_mode=st.just("trunc"))),
    Row("floor_divide", torch.floor_divide, divisible(other="f")),
    Row("remainder", torch.remainder, divisible(other="f")),
    Row("fmod", torch.fmod, divisible(other="f")),
    Row("pow", torch.pow, binary(kind="small", other="if")),
    Row("pow any", torch.pow, binary(FLOATS)),
    Row("number to the x", lambda x, y: y**x, binary(FLOATS, "small", other="if")),
    Row("float_power", torch.float_power, binary(kind="small")),
    Row("atan2", torch.atan2, binary(other="")),
    Row("hypot", torch.hypot, binary(FLOATS, other="")),
    Row("copysign", torch.copysign, binary()),
    Row("nextafter", torch.nextafter, binary(FLOATS[2:], other="", same=True)),
    Row("heaviside", torch.heaviside, binary(other="", same=True)),
    Row("logaddexp", torch.logaddexp, binary(FLOATS, other="", same=True)),
    Row("logaddexp2", torch.logaddexp2, binary(FLOATS, other="", same=True)),
    Row("xlogy", torch.xlogy, binary()),
    Row("xlog1py", S.xlog1py, binary()),
    Row("gcd", torch.gcd, binary(INTEGERS, "small", other="")),
    Row("lcm", torch.lcm, binary(INTEGERS, "small", other="")),
    Row("maximum", torch.maximum, binary(other="")),
    Row("minimum", torch.minimum, binary(other="")),
    Row("fmax", torch.fmax, binary(other="")),
    Row("fmin", torch.fmin, binary(other="")),
    Row("square of difference", F.mse_loss, operands(2, SMALL, "small", reduction=["none"])),
    Row("prelu", lambda x: F.prelu(x, x.flatten()[:1] * 0.5), unary(FLOATS)),
]

LOGIC = [
    *[Row(name, getattr(torch, name), binary()) for name in ("eq", "ne", "lt", "le", "gt", "ge")],
    Row("eq complex", torch.eq, binary(ALL)),
    *[
        Row(name, getattr(torch, name), binary(ALL, other=""))
        for name in ("logical_and", "logical_or", "logical_xor")
    ],
    *[
        Row(name, getattr(torch, name), binary((torch.bool, *INTEGERS), other="bi"))
        for name in ("bitwise_and", "bitwise_or", "bitwise_xor")
    ],
    *[
        Row(name, getattr(torch, name), binary(INTEGERS, other="i"))
        for name in ("bitwise_left_shift", "bitwise_right_shift")
    ],
    Row("isclose", torch.isclose, binary(other="", same=True, rtol=[0.5], atol=[0.25], equal_nan=[True, False])),
]  # fmt: skip

OTHERS = [
    Row("clamp", torch.clamp, limited(NUMBERS)),
    Row("clamp_min", torch.clamp_min, binary(NUMBERS, other="if")),
    Row("clamp_max", torch.clamp_max, binary(NUMBERS, other="if")),
    Row("where", torch.where, chosen()),
    Row("masked_fill", torch.masked_fill, filled()),
    Row("lerp", torch.lerp, operands(3, FLOATS[2:], "small")),
    Row("lerp number", lambda x, y: torch.lerp(x, y, 0.25), operands(2, FLOATS[2:3], "small")),
    Row("addcmul", torch.addcmul, operands(3, NUMBERS, "small", value=[1, 2, -3])),
    Row("addcdiv", torch.addcdiv, operands(3, FLOATS, "positive", value=[1, 0.5, -3])),
    Row("nan_to_num of sums", lambda x, y: torch.nan_to_num(x + y), operands(2, FLOATS)),
]

ROWS = [*UNARY, *SUMS, *LOGIC, *OTHERS]
