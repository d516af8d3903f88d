"""Functions of one operand over edge values, by dtype."""

import math

import pytest
import torch
from torch.export import Dim

from .harness import Case, check, params
from .values import FEW, FLOATS, INF, INTEGERS, NAN, REAL, each

# Where MLX's own functions go wrong: overflow, underflow, small arguments, halves, signed zeros.
WIDE = [
    0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 1e-30, 1e-10, -1e-7, 1e-5, -1e-3, 0.1, -0.3, 0.9999999, 3.3, -3.3,
    7.9, -8.0, 11.5, -11.5, 20.0, -20.0, 60.0, -72.0, 87.0, -87.0, 88.5, -88.5, 95.0, -95.0, 3e4, -3e4, INF, -INF, NAN,
]  # fmt: skip
HALVES_AND_FLOATS = [torch.tensor(WIDE, dtype=d) for d in (torch.float16, torch.bfloat16, torch.float32)]
INTS = [torch.tensor([0, 1, 2, 5], dtype=d) for d in (torch.bool, torch.uint8, torch.int8, torch.int64)]

FLOAT_FUNCTIONS = [
    "exp",
    "expm1",
    "exp2",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "sigmoid",
    "deg2rad",
    "rad2deg",
    "sinc",
]
ROUNDING = ["ceil", "floor", "trunc", "fix", "round"]


def every(fn):
    return lambda xs: [fn(x) for x in xs]


def float_rows():
    for name in FLOAT_FUNCTIONS:
        fn = getattr(torch, name)
        yield Case(f"{name} floats", every(fn), (HALVES_AND_FLOATS,), decomposed=True)
        yield Case(f"{name} integers", every(fn), (INTS,))


D = torch.tensor([*WIDE, 700.0, -700.0, 1e6, 1e-300], dtype=torch.float64)
C = torch.tensor([0, 1, -1, 1j, -1j, 0.3 - 2j, -1.5 + 0.25j], dtype=torch.complex64)
COMPLEX = [
    "abs",
    "neg",
    "sgn",
    "exp",
    "log",
    "sqrt",
    "square",
    "sin",
    "cos",
    "tan",
    "sinh",
    "tanh",
    "asin",
    "atan",
    "sigmoid",
    "angle",
]
EXACT = (1e-13, 0.0)


def double_rows():
    for name in ["exp", "sigmoid", "sin", "cos", "tanh", "log", "expm1", "sqrt"]:
        yield Case(f"{name} float64", getattr(torch, name), (D,), tolerance=EXACT)


CASES = [
    *float_rows(),
    *double_rows(),
    *(Case(f"{n} complex", getattr(torch, n), (C,)) for n in COMPLEX),
    # At 89 PyTorch's vectorised kernel overflows, MLX and PyTorch's scalar kernel do not.
    *(each(n, getattr(torch, n), FLOATS) for n in ("sinh", "cosh")),
    *(each(n, getattr(torch, n), (*INTEGERS, *FLOATS)) for n in ("abs", "absolute", "neg", "positive", *ROUNDING)),
    *(each(n, getattr(torch, n), REAL) for n in ("sign", "sgn", "square", "signbit", "isreal")),
    each("frac", torch.frac, FLOATS),
    each("angle", torch.angle, FEW),
    each("nan_to_num", torch.nan_to_num, REAL),
    each("nan_to_num values", lambda x: torch.nan_to_num(x, 1.5, 7.0, -8.0), FLOATS),
    Case("neg of argmax", lambda x: -x.argmax(), (torch.tensor([0.0, 2.0]),)),
    Case("abs of argmax difference", lambda x, y: (x.argmax() - y.argmax()).abs(), (torch.eye(3)[0], torch.eye(3)[2])),
    Case("logit", every(torch.logit), ([torch.tensor([0.1, 0.5, 0.52, 0.9, 0.0, 1.0, -1.0, 2.0, NAN], dtype=d) for d in FLOATS],)),
    Case("logit eps", lambda x: torch.logit(x, 0.05), (torch.tensor([0.0, 0.01, 0.3, 1.0, 2.0, NAN]),)),
    *(
        Case(f"round to {n}", lambda x, n=n: torch.round(x, decimals=n), (torch.tensor([2.675, -0.125, 1234.567, 0.05, INF, NAN]),))
        for n in (0, 2, -2)
    ),
    Case("round half to 2", lambda x: torch.round(x, decimals=2), (torch.tensor([2.675, 100.126], dtype=torch.float16),)),
    Case("exp 0-d", torch.exp, (torch.tensor(1.5),)),
    Case("exp empty", torch.exp, (torch.zeros(0, 3),)),
    Case("exp transposed", lambda x: x.t().exp(), (torch.randn(2, 3),)),
    Case("exp compiled", lambda x: torch.exp(x) + torch.tanh(x) + torch.sigmoid(x), (torch.randn(5),), compiled=True),
    Case("in place", lambda x: (x + 1).exp_().neg_().sigmoid_(), (torch.randn(3),)),
    Case(
        "dynamic",
        lambda x: torch.exp(-x).sqrt(),
        (torch.rand(3, 4),),
        dynamic=({0: Dim("n", min=1, max=9)},),
        also=((torch.rand(1, 4),), (torch.rand(9, 4),), (torch.rand(5, 4),)),
    ),
    Case("expm1 complex", torch.expm1, (C,)),
    Case("expm1 complex near 0", torch.expm1, (C * 1e-6,)),
]  # fmt: skip


@params(CASES)
def test_unary(case, tmp_path):
    check(case, tmp_path)


@pytest.mark.parametrize("x", [-80.0, -30.0, -5.0, -1e-3, 1e-3, 5.0, 30.0, 80.0, 88.7])
def test_exp_is_relatively_exact(x, tmp_path):
    values = torch.tensor([x, math.nextafter(x, 100)])
    check(Case("exp", torch.exp, (values,), tolerance=(5e-7, 0.0)), tmp_path)
