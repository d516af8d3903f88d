"""Rotary position embedding."""

import torch
from torch.export import Dim

import mlxify.torch_ops  # noqa: F401  (registers the ops)

from .harness import Case, check, params
from .test_linear import rand

HALF, BF16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
X = rand(2, 3, 5, 8)
B, T = Dim("b"), Dim("t")


def rope(*args, **settings):
    return lambda x, *rest: torch.ops.mlx.rope(x, *args, *rest, **settings)


def at(pos):
    return torch.tensor(pos)


WAVES = torch.tensor([1.0, 7.5, 60.0, 500.0])

CASES = [
    *(Case(f"{d}", rope(8, 3), (X.to(d),)) for d in (F32, HALF, BF16, F64)),
    Case("position 0", rope(8, 0), (X,), decomposed=True, compiled=True),
    Case("traditional", rope(8, 3, traditional=True), (X,)),
    Case("some features", rope(4, 3), (X,)),
    Case("some features, traditional", rope(6, 3, True), (X,)),
    Case("base and scale", rope(8, 3, base=10000.0, scale=0.25), (X,)),
    *(Case(f"position 1e5 {d}", rope(8, 100_000, base=10000.0), (X.to(d),)) for d in (F32, HALF, F64)),
    Case("position 1e5, traditional, scale", rope(8, 99_999, True, 10000.0, 0.7), (X,)),
    Case("a negative position", rope(8, -3), (X,)),
    Case("given wavelengths", lambda x, f: torch.ops.mlx.rope(x, 8, 1000, freqs=f, scale=0.5), (X, WAVES)),
    Case("given wavelengths, traditional", lambda x, f: torch.ops.mlx.rope(x, 8, 7, True, freqs=f), (X, WAVES)),
    Case("half wavelengths", lambda x, f: torch.ops.mlx.rope(x, 8, 7, freqs=f), (X, WAVES.half())),
    Case("ready angles", lambda x, f: torch.ops.mlx.rope(x, 8, 3, freqs=f), (X, rand(5, 4))),
    Case("ready angles, half, some features", lambda x, f: torch.ops.mlx.rope(x, 4, 3, True, freqs=f), (X.half(), rand(5, 2))),
    Case("a position on the device", rope(8), (X, at(7))),
    Case("a position of one element", rope(8), (X[:1], at([7]))),
    Case("positions by sequence", rope(8), (X, at([7, 100_000])), decomposed=True),
    Case("positions by sequence, int32, half", rope(8), (X.half(), at([7, 3]).int())),
    Case("no positions", rope(8, 3), (torch.zeros(2, 3, 0, 8),)),
    Case("dynamic", rope(8, 3), (X,), dynamic=({0: B, 2: T},), also=((rand(1, 3, 1, 8),), (rand(4, 3, 9, 8),))),
    Case("dynamic, positions by sequence", rope(8), (X, at([7, 3])), dynamic=({0: B, 2: T}, {0: B}),
         also=((rand(1, 3, 1, 8), at([5])), (rand(4, 3, 9, 8), at([0, 1, 2, 3])))),
    Case("a position from a size", lambda x, past: torch.ops.mlx.rope(x, 8, past.shape[1]), (X, torch.zeros(1, 4)),
         dynamic=(None, {1: T}), also=((X, torch.zeros(1, 1)), (X, torch.zeros(1, 900)))),
    Case("a position read from the device", lambda x, p: torch.ops.mlx.rope(x, 8, p.item()), (X, at(7)), also=((X, at(0)), (X, at(4000)))),
]  # fmt: skip


@params(CASES)
def test_rope(case, tmp_path):
    check(case, tmp_path)
