"""Comparisons, choices by conditions, logic."""

import torch
from torch.export import Dim

from .harness import Case, check, params
from .values import FEW, FLOATS, HALVES, INF, NAN, REAL, each, edges, grid

X = torch.tensor([[1.5, -2.25, 0.0], [3.0, -0.5, 7.0]])
Y = torch.tensor([[2.0, -2.25, -1.5], [-3.0, 4.0, NAN]])
M = X > 0
H = torch.linspace(-3, 3, 64).half()
I = torch.tensor([-7, -2, 0, 3, 100])  # noqa: E741
U8 = torch.tensor([0, 1, 44, 255], dtype=torch.uint8)
SPECIAL = torch.tensor([0.0, -0.0, INF, -INF, NAN, 1.0])
C = torch.tensor([1 + 2j, 0j, complex(INF, 1), complex(NAN, INF), complex(1, NAN), complex(1, -INF)])


def compare_all(x, y):
    return x == y, x != y, x < y, x <= y, x > y, x >= y


def number_row(name, values, dtypes=FEW):
    return each(name, lambda x: [compare_all(x, v) for v in values], dtypes)


COMPARISONS = [
    grid("eq", torch.eq),
    grid("lt", torch.lt),
    grid("ge", torch.ge),
    grid("all comparisons", compare_all, FEW),
    number_row("whole numbers", (0, 1, 2, -1, 100, True)),
    number_row("fractions", (0.5, 1.5, -0.5, 0.1, -0.1)),
    number_row("infinite numbers", (INF, -INF, NAN)),
    number_row("numbers that wrap", (300, -1, 255), (torch.uint8, torch.int8)),
    # PyTorch rounds the number to half precision: 0.1 equals half(0.1).
    number_row("half with 0.1", (0.1, 1 / 3, 1e6, 2049), HALVES),
    Case("half with 0-d f32", lambda h, z: (*compare_all(h, z), *compare_all(z, h)), (edges(torch.float16), torch.tensor(0.1))),
    Case("int with 0-d fraction", compare_all, (I, torch.tensor(0.5))),
    Case("int8 with 0-d int64", compare_all, (edges(torch.int8), torch.tensor(300))),
    Case("int64 beyond float64", lambda i: (i == 2**53 + 1, i > 2**53, i < 2**63 - 1), (torch.tensor([2**53 + 1, 2**53, 2**62]),)),
    Case("int64 with float32", lambda i, x: (i == x, i == 16777216.0), (torch.tensor([2**24 + 1, 3]), torch.tensor([2.0**24, 3.0]))),
    Case("aliases", lambda x, y: (torch.not_equal(x, y), torch.greater(x, y), torch.greater_equal(x, 1), torch.less(x, 0), torch.less_equal(x, y)), (X, Y)),
    Case("core form", compare_all, (X, Y), decomposed=True, compiled=True),
    Case("complex", lambda c: (c == c.roll(1), c != c, c == 1 + 2j, c != 0), (C,)),
    Case("broadcast and empty", lambda x, y: (x[:, None] < y, x[:, :0] == y[:, :0]), (X, Y)),
    Case("in place", lambda x, y: (x * 1).lt_(y), (X, Y)),
]  # fmt: skip

CLASSES = [
    each("isnan", torch.isnan, decomposed=True),
    each("isinf", torch.isinf, decomposed=True),
    each("isfinite", torch.isfinite, decomposed=True),
    each("isposinf", torch.isposinf),
    each("isneginf", torch.isneginf),
    Case("complex classes", lambda c: (torch.isnan(c), torch.isinf(c), torch.isfinite(c)), (C,)),
    grid("isclose", torch.isclose, (torch.uint8, torch.int64, *FLOATS), same=True),
    Case("isclose arguments", lambda x, y: (torch.isclose(x, y, rtol=0.5), torch.isclose(x, y, atol=1.0, equal_nan=True),
         torch.isclose(x, y, rtol=0, atol=0)), (X, Y), decomposed=True),
    Case("isclose half", lambda h: (torch.isclose(h, h * 1.001, rtol=1e-3), torch.isclose(h, h + 0.01, atol=1e-2)), (H,)),
    Case("isclose int", lambda i: (torch.isclose(i, i + 1, rtol=0.5), torch.isclose(i, i + 1)), (I,)),
    Case("isclose complex", lambda c: torch.isclose(c, c.roll(1), equal_nan=True), (C[:3],)),
    Case("_is_all_true", lambda b: (torch.ops.aten._is_all_true(b), torch.ops.aten._is_any_true(b)), (M,)),
]  # fmt: skip

LOGIC = [
    grid("logical_and", torch.logical_and, FEW),
    grid("logical_or", torch.logical_or, FEW),
    grid("logical_xor", torch.logical_xor, FEW),
    each("logical_not", torch.logical_not, decomposed=True),
    Case("complex logic", lambda c: (torch.logical_and(c, c.roll(1)), torch.logical_not(c)), (C,)),
    Case(
        "logic core form",
        lambda x, b: (torch.logical_xor(x, b), torch.logical_and(x, b)),
        (X, M),
        decomposed=True,
    ),
]

CHOICES = [
    grid("where", lambda x, y: torch.where(x == y, x, y), REAL),
    each("where numbers", lambda x: [f(v) for v in (0, 1, True, 0.5, -1e9, INF) for f in (
        lambda v: torch.where(x > 0, x, v), lambda v: torch.where(x > 0, v, x))], (torch.bool, torch.int64, torch.float16, torch.float32)),
    Case("where two numbers", lambda m: (torch.where(m, 1, 0), torch.where(m, 1.0, 0), torch.where(m, True, 2), torch.where(m, INF, -INF)), (M,), decomposed=True),
    Case("where 0-d", lambda m, h, i, z: (torch.where(m, h, z), torch.where(m, z, i), torch.where(m[0, 0], h, i)), (M, H[:3], I[:3], torch.tensor(-1e9))),
    Case("where 0-d all", lambda m, x, i: torch.where(m, x, i), (M[0, 0], X[0, 0], I[0])),
    Case("where half far away", lambda h: (torch.where(h > 1, h, -1e9), torch.where(h > 1, h, torch.finfo(torch.float16).min)), (H,)),
    Case("where broadcast", lambda m, x, y: torch.where(m[:, None], x, y[:1]), (M, X, Y), compiled=True),
    Case("where complex", lambda c: (torch.where(torch.isnan(c), 0, c), torch.where(torch.isnan(c), c, 1j)), (C,)),
    Case("where int64 exact", lambda i: torch.where(i > 0, i, 2**53 + 1), (I,)),
    Case("masked_fill", lambda x, m: (x.masked_fill(m, 0.5), x.masked_fill(m, -INF), x.masked_fill(m, torch.tensor(2))), (X, M), decomposed=True),
    each("masked_fill types", lambda x: (x.masked_fill(x > 0, 1), x.masked_fill(x > 0, True), x.masked_fill(x > 0, 1.5))),
    Case("masked_fill broadcasts", lambda x, m: (x[:1].masked_fill(m, 9), x.masked_fill(m[:, :1], 9), x[0, 0].masked_fill(m, 1.0)), (X, M)),
    Case("masked_fill half", lambda h: (h.masked_fill(h > 1, -INF), h.masked_fill(h > 1, 0.1), h.masked_fill(h > 1, torch.tensor(0.1))), (H,)),
    Case("masked_fill in place", lambda x, m: (x + 0).masked_fill_(m, 0).masked_fill_(~m, torch.tensor(1.0)), (X, M)),
    Case("masked_fill uint8", lambda u: u.masked_fill(u > 1, -1), (U8,)),
    Case("masked_fill complex", lambda c: (c.masked_fill(torch.isnan(c), 2), c.masked_fill(torch.isnan(c), 1 - 1j)), (C,)),
    Case("masked_fill int64 exact", lambda i: i.masked_fill(i > 0, 2**62 + 1), (I,)),
    Case("masked_fill half overflow refused", lambda h: h.masked_fill(h > 1, -1e9), (H,), refused="does not fit"),
    Case("masked_fill int8 overflow refused", lambda i: i.masked_fill(i > 1, 300), (edges(torch.int8),), refused="does not fit"),
]  # fmt: skip

N = Dim("n", min=1, max=64)
SIZES = tuple((torch.randn(n, 3) * 4,) for n in (1, 5, 64))
DYNAMIC = [
    Case("compare with a size", lambda x: compare_all(x, x.shape[0]), (X,), dynamic=({0: N},), also=SIZES),
    Case("choose a size", lambda x: (torch.where(x > 0, x, x.shape[0]), torch.where(x > 0, x.shape[0], x), x.masked_fill(x > 0, x.shape[0]),
         torch.where(x > 0, x.shape[0], 0)), (X,), dynamic=({0: N},), also=SIZES),
    Case("causal mask", lambda x: torch.arange(x.shape[0])[:, None] >= torch.arange(x.shape[0]), (X,), dynamic=({0: N},), also=SIZES),
]  # fmt: skip


@params([*COMPARISONS, *CLASSES, *LOGIC, *CHOICES, *DYNAMIC])
def test_compare(case, tmp_path):
    check(case, tmp_path)
