"""linspace and logspace, from literals, sizes and tensors."""

import math

import mlx.core as mx
import pytest
import torch

from mlxify.ops import spaces

from .harness import Case, check, params
from .test_create import SAME, new
from .test_shape import SCALAR, dynamic

N, C64 = torch.tensor(3), torch.complex64

SPACES = [
    new("linspace", lambda: (torch.linspace(0, 1, 11), torch.linspace(0, 12, 13), torch.linspace(3, -5, 9)), tolerance=SAME, compiled=True),
    new("linspace fractions", lambda: (torch.linspace(-1, 1, 8), torch.linspace(0.1, 0.7, 100), torch.linspace(-1, 1, 1001))),
    new("linspace short", lambda: (torch.linspace(3, 5, 1), torch.linspace(3, 5, 0), torch.linspace(3, 5, 2), torch.linspace(2, 2, 4)), tolerance=SAME),
    new("linspace half", lambda: tuple(torch.linspace(-1, 1, 33, dtype=d) for d in (torch.float16, torch.bfloat16)), tolerance=SAME),
    new("linspace float64", lambda: torch.linspace(-1, 1, 33, dtype=torch.float64), tolerance=SAME),
    new("linspace ints", lambda: (torch.linspace(0, 10, 4, dtype=torch.int64), torch.linspace(0, 49, 50, dtype=torch.int32), torch.linspace(-5.7, 5.2, 9, dtype=torch.int8))),
    dynamic("linspace", lambda x: (torch.linspace(0, x.shape[0] - 1, 7), torch.linspace(x.shape[1], x.shape[0], 5))),
    Case("linspace of tensors", lambda a, i: (torch.linspace(a, 2, 5), torch.linspace(0, a, 5), torch.linspace(a, i, 4)), (SCALAR, N),
         also=((SCALAR + 1, N * 3),)),
    Case("linspace of tensors, dtypes", lambda a, i: tuple(torch.linspace(a, i, 4, dtype=d) for d in (torch.int64, torch.uint8, torch.half, torch.float64)), (SCALAR.abs(), N)),
    Case("linspace of a bool", lambda b: torch.linspace(b, 5, 4), (torch.tensor(True),)),
    new("linspace beyond 2**53", lambda: torch.linspace(2**53 + 1, 2**53 + 9, 3, dtype=torch.int64)),
    new("linspace complex", lambda: (torch.linspace(1 + 2j, 5, 4), torch.linspace(1, -2j, 9), torch.linspace(1j, 1, 1), torch.linspace(0, 1j, 0))),
    new("linspace real, as complex", lambda: torch.linspace(-1, 1, 5, dtype=torch.complex64)),
    Case("linspace of complex tensors", lambda z, a: (torch.linspace(z, 5, 4, dtype=C64), torch.linspace(a, z, 4, dtype=C64)), (torch.tensor(1 + 2j), SCALAR)),
    Case("linspace of complex tensors without a dtype", lambda z: torch.linspace(z, 5, 4), (torch.tensor(1 + 2j),), refused="pass dtype="),
    new("logspace", lambda: (torch.logspace(0, 3, 4), torch.logspace(-2, 2, 9, base=2), torch.logspace(1, 1, 1), torch.logspace(0, 2, 0))),
    new("logspace dtypes", lambda: (torch.logspace(0, 2, 5, dtype=torch.float16), torch.logspace(0, 2, 5, dtype=torch.bfloat16), torch.logspace(0, 3, 4, dtype=torch.int64))),
    new("logspace half bounds", lambda: tuple(torch.logspace(0.1, 1.7, 7, dtype=d) for d in (torch.float16, torch.bfloat16, torch.float64))),
    new("logspace of one", lambda: (torch.logspace(1.7, 3, 1, dtype=torch.int64), torch.logspace(1.7, 3, 3, dtype=torch.int64))),
    new("logspace negative base", lambda: torch.logspace(1, 2, 4, base=-2.0)),
    new("logspace complex", lambda: (torch.logspace(0.1 + 2j, 1, 4), torch.logspace(0, 1, 4, base=-2.0, dtype=torch.complex64), torch.logspace(1j, 1, 1))),
    new("logspace complex of 0", lambda: torch.logspace(1, 2, 4, base=0.0, dtype=torch.complex64)),
    Case("logspace of tensors", lambda a, i: (torch.logspace(a, 2, 5), torch.logspace(0, a, 5, base=2.0), torch.logspace(a, i, 3), torch.logspace(a, i, 3, dtype=torch.int32)), (SCALAR, N)),
    Case("logspace of complex tensors", lambda z: torch.logspace(z, 1, 3, base=3.0, dtype=C64), (torch.tensor(0.5 + 2j),)),
]  # fmt: skip


@params(SPACES)
def test_spaces(case, tmp_path):
    check(case, tmp_path)


@pytest.mark.parametrize(
    "call",
    [
        lambda: spaces.linspace(0, 1, -1, mx.float32),
        lambda: spaces.linspace(0, 1, 2**40, mx.float32),
        lambda: spaces.linspace(0, math.inf, 3, mx.int32),
        lambda: spaces.linspace(0, 300, 3, mx.uint8),
        lambda: spaces.logspace(0, 1, -1, 2.0, mx.float32),
        lambda: spaces.logspace(math.nan, 1, 3, 2.0, mx.int64),
    ],
)
def test_hostile_arguments_are_refused(call):
    with pytest.raises((ValueError, OverflowError)):
        mx.eval(call())
