"""Activation functions over edge values, by dtype."""

import pytest
import torch
import torch.nn.functional as F

from .harness import Case, check, params

VALUES = [0.0, -0.0, 1e-8, -1e-4, 0.3, -0.5, 1.0, -1.0, 2.5, -3.0, 3.0, 6.0, 7.5, -20.0, 25.0, 80.0, -95.0]
EDGES = [float("inf"), float("-inf"), float("nan")]

FUNCTIONS = {
    "relu": F.relu,
    "relu6": F.relu6,
    "gelu": F.gelu,
    "gelu tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "mish": F.mish,
    "elu": lambda x: F.elu(x, 0.7),
    "selu": F.selu,
    "celu": lambda x: F.celu(x, 1.3),
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "rrelu": F.rrelu,
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "hardshrink": lambda x: F.hardshrink(x, 0.4),
    "softshrink": lambda x: F.softshrink(x, 0.4),
    "tanhshrink": F.tanhshrink,
    "threshold": lambda x: F.threshold(x, 0.25, -7.0),
    "softplus": F.softplus,
    "softplus beta": lambda x: F.softplus(x, 2, 10),
    "logsigmoid": F.logsigmoid,
    "softsign": F.softsign,
    "sigmoid": torch.sigmoid,
    "erf": torch.erf,
}
# gelu(inf) is nan in PyTorch's vectorised kernel and inf in its scalar one; infinities times 0 likewise differ.
NO_INFINITY = ("gelu", "gelu tanh", "silu", "mish", "hardswish", "softsign", "tanhshrink")
# Sums of rounded float32 steps that cancel near 0 in PyTorch and here: absolute, by the size of the terms.
LOOSE = {"tanhshrink": (1e-4, 2e-3)}


def rows() -> list[Case]:
    found = []
    for name, fn in FUNCTIONS.items():
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            values = VALUES if name in NO_INFINITY else VALUES + EDGES
            x = torch.tensor(values, dtype=dtype)
            tolerance = LOOSE.get(name) if dtype != torch.bfloat16 else None
            found.append(
                Case(f"{name} {dtype}", fn, (x,), tolerance=tolerance, decomposed=dtype == torch.float32)
            )
    return found


# More elements than MLX's own functions are used for on a CPU, out to where exponentials end.
MANY = torch.cat(
    [torch.linspace(-100, 100, 8001), torch.linspace(-1, 1, 1001), torch.tensor([1e-30, -1e30, 3e38])]
)
X = torch.linspace(-3, 3, 24).reshape(2, 3, 4)
CASES = [
    *rows(),
    *[
        Case(f"{name} many", FUNCTIONS[name], (MANY,))
        for name in ("gelu", "gelu tanh", "silu", "sigmoid", "erf")
    ],
    Case("sigmoid many edges", torch.sigmoid, (torch.tensor(EDGES).repeat(3000),)),
    Case("relu int", F.relu, (torch.tensor([-3, 0, 4]),)),
    Case("glu", lambda x: F.glu(x, 2), (X,)),
    Case("glu negative dim", lambda x: F.glu(x, -1), (X,), compiled=True),
    Case("glu half", lambda x: F.glu(x), (X.half(),)),
    Case("prelu one", F.prelu, (X, torch.tensor([0.25]))),
    Case("prelu 0-d", F.prelu, (torch.tensor(-2.0), torch.tensor([0.25]))),
    Case("prelu kernel broadcasts", torch.ops.aten._prelu_kernel, (X, X[0] * 0.5)),
    Case("prelu channels", F.prelu, (X, torch.tensor([0.25, 0.5, -1.0]))),
    Case("gelu compiled", F.gelu, (X,), compiled=True),
    Case("dropout eval", lambda x: F.dropout(x, 0.5, training=False), (X,)),
    Case("0-d", F.silu, (torch.tensor(1.5),)),
    Case("empty", F.gelu, (torch.zeros(0, 3),)),
    Case("in place", lambda x: F.relu_(x + 1) * 2, (X,)),
]


@params(CASES)
def test_activation(case, tmp_path):
    check(case, tmp_path)


@pytest.mark.parametrize("exponent", range(-30, 0, 5))
def test_small_erf_is_relatively_exact(exponent, tmp_path):
    x = torch.tensor([10.0**exponent])
    check(Case("erf", torch.erf, (x,), tolerance=(1e-6, 0.0)), tmp_path)
