"""New arrays: filled, ranges, identity matrices, one-hot codes."""

import math

import mlx.core as mx
import pytest
import torch
from torch.export import Dim

from mlxify.ops import create

from .harness import Case, check, params
from .test_shape import INTS, SCALAR, X, dynamic
from .test_slicing import number, wide

aten = torch.ops.aten
BIG = 2**62 + 1
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
ZERO = torch.zeros(1)
# Every value must be PyTorch's own: models floor and compare what these ops give.
SAME = (0.0, 0.0)
# PyTorch rounds every 8th or 16th element (a vector of this machine) and counts on from it; ours are exact.
VECTOR = (2e-7, 0.0)
HALF_VECTOR = (2e-3, 1e-2)
BFLOAT_VECTOR = (1.6e-2, 1e-1)


def new(name, fn, *args, **options):
    """A row without arguments that matter: what it makes is added to nothing."""
    return Case(name, lambda x, *rest: fn(*rest), (ZERO, *args), **options)


FULL = [
    new("full", lambda: (torch.full((2, 3), 1.5), torch.full((), 7), torch.full([2], True), torch.full((2,), 3)), decomposed=True, compiled=True),
    new("full inferred", lambda: (torch.full((2,), True) & torch.full((2,), False), torch.full((3,), 7) // torch.full((3,), 2)), decomposed=True),
    new("full exact", lambda: tuple(torch.full((2,), v) for v in (BIG, -BIG, 2**63 - 1, -(2**63), 16777217, 2**31 + 7)), decomposed=True),
    new("full dtypes", lambda: tuple(torch.full((2,), 3, dtype=d) for d in (*WHOLE, *FLOATS, torch.bool, torch.complex64))),
    new("full fractions", lambda: tuple(torch.full((2,), 2.7, dtype=d) for d in (*WHOLE, *FLOATS, torch.bool))),
    new("full negative", lambda: tuple(torch.full((2,), -2.7, dtype=d) for d in (torch.int8, torch.int64, torch.float16))),
    new("full not finite", lambda: (torch.full((2,), math.inf), torch.full((2,), math.nan), torch.full((2,), -math.inf, dtype=torch.float16))),
    new("full uint64", lambda: tuple(torch.full((2,), v, dtype=torch.uint64) for v in (-1, 5, 2**63, 2**64 - 1))),
    new("full complex", lambda: (torch.full((2,), 1 + 2j), torch.full((), 1j, dtype=torch.complex64))),
    new("full empty", lambda: (torch.full((0, 3), 1), torch.zeros(0), torch.ones(2, 0), torch.empty(0, 0).sum())),
    dynamic("full", lambda x: (torch.full((x.shape[0], 2), 5), torch.full((2,), x.shape[1]), x.new_full((x.shape[1],), 2.5)), decomposed=True),
    Case("full of a size from data", lambda x, n: torch.full((number(n, 0, 9),), 2.0), (ZERO, torch.tensor(3)), also=((ZERO, torch.tensor(0)),)),
    Case("full of a value from data", lambda x, n: (torch.full((2,), n.item()), x.new_full((3,), n.item())), (ZERO, torch.tensor(3)), also=((ZERO, torch.tensor(-BIG)),)),
    new("zeros, ones", lambda: (torch.zeros(2, 3), torch.ones(2), torch.zeros((), dtype=torch.int8), torch.ones(2, dtype=torch.bool)), decomposed=True),
    new("zeros, ones dtypes", lambda: tuple(f(2, dtype=d) for f in (torch.zeros, torch.ones) for d in (*WHOLE, *FLOATS, torch.complex64))),
    dynamic("zeros, ones", lambda x: (torch.zeros(x.shape[0], x.shape[1] + 1), torch.ones(x.shape[1] * 2))),
    Case("like", lambda x, i: (torch.zeros_like(x), torch.ones_like(i), torch.full_like(i, BIG), torch.full_like(x, 2)), (X.half(), INTS), decomposed=True),
    Case("like, inferred", lambda x: (torch.full_like(x, 2.7), torch.full_like(x.argmax(-1), -1), torch.ones_like(x > 1)), (INTS,)),
    Case("like, dtype", lambda x: (torch.zeros_like(x, dtype=torch.int64), torch.ones_like(x, dtype=torch.bool), torch.full_like(x, 1.5, dtype=torch.bfloat16)), (X,)),
    Case("like 0-d", lambda x: (torch.zeros_like(x), torch.full_like(x, 3)), (SCALAR,)),
    dynamic("like", lambda x: (torch.zeros_like(x), torch.ones_like(x[0]), torch.full_like(x, 2.0, dtype=torch.int32))),
    Case("new", lambda x: (x.new_zeros(2), x.new_ones(1, 2), x.new_full((2,), 7), x.new_ones(2, dtype=torch.bool)), (INTS.int(),), decomposed=True),
    dynamic("new", lambda x: (x.new_zeros(x.shape[0]), x.new_ones(x.shape[1], 2, dtype=torch.int64))),
    Case("empty", lambda x: tuple(
        e.shape[0] + e.zero_() for e in (
            torch.empty(2, 3), torch.empty_like(x), x.new_empty(2), torch.empty_strided((2, 3), (1, 2)), x.new_empty_strided((2,), (4,)),
            torch.empty_permuted((2, 3), (1, 0)), torch.empty(2, dtype=torch.int64),
        )), (X,)),
    Case("empty is overwritten", lambda x: torch.empty_like(x).copy_(x), (X,)),
    new("scalar_tensor", lambda: (torch.scalar_tensor(2), torch.scalar_tensor(2.5))),
    new("scalar_tensor dtypes", lambda: (torch.scalar_tensor(16777217, dtype=torch.int64), torch.scalar_tensor(BIG, dtype=torch.int64), torch.scalar_tensor(2, dtype=torch.bool), torch.scalar_tensor(0.1, dtype=torch.float16))),
    Case("where with a scalar_tensor", lambda x: torch.where(x > 3, x, 0.0), (X,), decomposed=True),
]  # fmt: skip

ARANGE = [
    new("arange", lambda: (torch.arange(5), torch.arange(2, 7), torch.arange(2, 11, 3), torch.arange(0)), tolerance=SAME, decomposed=True, compiled=True),
    new("arange negative", lambda: (torch.arange(5, 0, -1), torch.arange(5, 0, -2), torch.arange(-3, 3, 2), torch.arange(3, 3)), decomposed=True),
    new("arange fractions", lambda: (torch.arange(3.5), torch.arange(0.5, 4), torch.arange(0, 1, 0.25), torch.arange(1, 0, -0.3)), tolerance=SAME, decomposed=True),
    new("arange without accumulation", lambda: (torch.arange(0, 1000, 0.1), torch.arange(7, 13, 0.001), torch.arange(1e6, 1e6 + 9, 0.7)), tolerance=VECTOR),
    new("arange small and large", lambda: (torch.arange(0, 1e-20, 1e-22), torch.arange(1e29, 1e30, 3e28), torch.arange(0, 1, 1 / 3), torch.arange(0, 3.4e38, 1e38)), tolerance=VECTOR),
    new("arange half", lambda: tuple(torch.arange(3000, dtype=d) for d in (torch.float16, torch.bfloat16)), tolerance=SAME),
    new("arange half fractions", lambda: torch.arange(-20, 20, 0.3, dtype=torch.float16), tolerance=HALF_VECTOR),
    new("arange bfloat16 fractions", lambda: torch.arange(-20, 20, 0.3, dtype=torch.bfloat16), tolerance=BFLOAT_VECTOR),
    new("arange float64", lambda: (torch.arange(0, 1, 0.1, dtype=torch.float64), torch.arange(2**53 - 4, 2**53, dtype=torch.float64)), tolerance=SAME),
    new("arange float32 of ints", lambda: (torch.arange(20000000, 20000010, dtype=torch.float32), torch.arange(3, dtype=torch.float32)), tolerance=SAME),
    new("arange int64 beyond 2**53", lambda: (torch.arange(2**53, 2**53 + 5), torch.arange(BIG, BIG + 9, 3), torch.arange(-BIG, -BIG - 9, -2))),
    new("arange int64 beyond 32 bits", lambda: (torch.arange(2**31, 2**31 + 3), torch.arange(2**40, 2**42, 2**40))),
    new("arange dtypes", lambda: tuple(torch.arange(1, 9, 2, dtype=d) for d in (*WHOLE, *FLOATS)), tolerance=SAME),
    new("arange wraps", lambda: (torch.arange(300, dtype=torch.uint8), torch.arange(120, 140, dtype=torch.int8))),
    new("arange ints of fractions", lambda: tuple(torch.arange(0.5, 4, dtype=d) for d in (torch.int32, torch.int64, torch.uint8))),
    dynamic("arange", lambda x: (torch.arange(x.shape[0]), torch.arange(x.shape[0], x.shape[0] + x.shape[1]), torch.arange(0, x.shape[1], dtype=torch.float32)), decomposed=True, compiled=True),
    dynamic("arange of sizes", lambda x: (torch.arange(x.shape[0] * 2, -1, -2), torch.arange(1, x.shape[1] + 1) / x.shape[0], torch.arange(x.shape[0], dtype=torch.float16))),
    wide("arange steps", lambda x: (torch.arange(0, x.shape[1], 4), torch.arange(x.shape[1] - 1, -1, -1), torch.arange(0, x.shape[1] / 2, 0.5))),
    Case("arange from data", lambda x, n: torch.arange(number(n, 0, 9)), (ZERO, torch.tensor(3)), also=((ZERO, torch.tensor(0)), (ZERO, torch.tensor(9)))),
    new("range", lambda: (torch.range(0, 4), torch.range(1, 2, 0.25), torch.range(5, 1, -2), torch.range(0, 4, dtype=torch.int64)), tolerance=SAME),
]  # fmt: skip

MATRICES = [
    new("eye", lambda: (torch.eye(3), torch.eye(2, 4), torch.eye(4, 2), torch.eye(0), torch.eye(3, 0)), decomposed=True),
    new("eye dtypes", lambda: tuple(torch.eye(3, dtype=d) for d in (*WHOLE, *FLOATS, torch.bool, torch.complex64))),
    dynamic("eye", lambda x: (torch.eye(x.shape[0]), torch.eye(x.shape[0], x.shape[1], dtype=torch.int64)), compiled=True),
    Case("one_hot", lambda x: (torch.nn.functional.one_hot(x, 5), torch.nn.functional.one_hot(x[0], 7)), (torch.tensor([[0, 4], [2, 2]]),), compiled=True),
    Case("one_hot 0-d", lambda x: torch.nn.functional.one_hot(x, 3), (torch.tensor(1),)),
    Case("one_hot dynamic", lambda x: torch.nn.functional.one_hot(x, 9), (torch.arange(4),), dynamic=({0: Dim("n")},), also=((torch.tensor([8]),),)),
]  # fmt: skip


@params(FULL + ARANGE + MATRICES)
def test_create(case, tmp_path):
    check(case, tmp_path)


@pytest.mark.parametrize(
    "call",
    [
        lambda: create.full([-1], 0, mx.float32),
        lambda: create.full([2**40], 0, mx.float32),
        lambda: create.full([1], math.nan, mx.int32),
        lambda: create.arange(0, 2**40, 1, mx.int64),
        lambda: create.arange(0, 5, 0, mx.int64),
        lambda: create.arange(0.0, math.inf, 1.0, mx.float32),
        lambda: create.arange(math.nan, 1.0, 1.0, mx.float32),
        lambda: create.arange(0, 1e300, 1e-300, mx.float32),
        lambda: create.eye(-1, 2, 0, mx.float32),
    ],
)
def test_hostile_arguments_are_refused(call):
    with pytest.raises((ValueError, OverflowError, ZeroDivisionError)):
        mx.eval(call())
