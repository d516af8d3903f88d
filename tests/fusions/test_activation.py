"""Activation functions that a model spells out."""

import math

import torch

from ..ops.harness import Case
from ..ops.test_linear import rand
from .harness import Hit, Miss, check_hit, check_miss, rows

HALF, BF16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
X = torch.cat(
    [rand(3, 20) * 4, torch.tensor([0.0, -0.0, 100.0, -100.0, math.inf, -math.inf, math.nan]).expand(3, 7)], 1
)
C = math.sqrt(2 / math.pi)


def inner(x, c=C, a=0.044715):
    return c * (x + a * x**3)


def gelu(name, fn, *args, fusion="gelu"):
    return Hit(Case(name, fn, args or (X,)), fusion)


GELU = [
    gelu("GPT-2", lambda x: 0.5 * x * (1.0 + torch.tanh(C * (x + 0.044715 * torch.pow(x, 3.0))))),
    gelu("cube by products", lambda x: 0.5 * x * (1 + torch.tanh(C * (x + 0.044715 * (x * x * x))))),
    gelu("0.7978845608", lambda x: 0.5 * x * (1.0 + torch.tanh(x * 0.7978845608 * (1.0 + 0.044715 * x * x)))),
    gelu("BLOOM", lambda x: x * 0.5 * (1.0 + torch.tanh(0.79788456 * x * (1 + 0.044715 * x * x)))),
    gelu("the cdf first", lambda x: x * (0.5 * (1.0 + torch.tanh(inner(x))))),
    gelu("halved last", lambda x: (x * (torch.tanh(inner(x)) + 1)) * 0.5),
    *(gelu(f"widened {d}", lambda x: (lambda y: 0.5 * y * (1 + torch.tanh(inner(y))))(x.float()).to(x.dtype), X.to(d)) for d in (HALF, BF16)),
    gelu("half in, float32 out", lambda x: (lambda y: 0.5 * y * (1 + torch.tanh(inner(y))))(x.float()), X.half()),
    gelu("float64", lambda x: 0.5 * x * (1 + torch.tanh(inner(x))), X.double()),
    Hit(Case("dynamic", lambda x: 0.5 * x * (1 + torch.tanh(inner(x))), (X,), dynamic=({0: torch.export.Dim("b")},), also=((X[:1],), (rand(9, 27),))), "gelu"),
    gelu("silu", lambda x: x * torch.sigmoid(x), fusion="silu"),
    gelu("silu gate", lambda x, y: x.sigmoid() * x * y, X, rand(3, 27), fusion="silu"),
    *(gelu(f"silu widened {d}", lambda x: (x.float() * x.float().sigmoid()).to(x.dtype), X.to(d), fusion="silu") for d in (HALF, BF16)),
]  # fmt: skip


def miss(name, reason, fn, *args, fusion="gelu", tolerance=None):
    return Miss(Case(name, fn, args or (X,), tolerance), fusion, reason)


# Several ops in half precision, each within a unit in the last place.
CHAIN = (4e-3, 2e-3)

MISSES = [
    miss("half", "half precision", lambda x: 0.5 * x * (1 + torch.tanh(inner(x))), X[:, :20].half(), tolerance=CHAIN),
    miss("another cubic", "constants", lambda x: 0.5 * x * (1 + torch.tanh(inner(x, a=0.04)))),
    miss("another root", "constants", lambda x: 0.5 * x * (1 + torch.tanh(inner(x, c=0.8)))),
    miss("another x", "", lambda x: 0.5 * (x + 1) * (1 + torch.tanh(inner(x)))),
    miss("the tanh is an output", "used elsewhere", lambda x: (lambda t: (0.5 * x * (1 + t), t))(torch.tanh(inner(x)))),
    miss("silu of half", "half precision", lambda x: x * torch.sigmoid(x), X[:, :20].half(), fusion="silu", tolerance=CHAIN),
    miss("a gate of another x", "", lambda x: x * torch.sigmoid(1.702 * x), fusion="silu"),
    miss("the sigmoid is an output", "used elsewhere", lambda x: (lambda s: (x * s, s))(x.sigmoid()), fusion="silu"),
]  # fmt: skip


@rows(GELU)
def test_activation(row, tmp_path):
    check_hit(row, tmp_path)


@rows(MISSES)
def test_no_activation(row, tmp_path):
    check_miss(row, tmp_path)
