"""segment_reduce: reductions of consecutive segments."""

import pytest
import torch
from torch.export import Dim

import mlxify

from .harness import Case, _Function, check, params
from .test_linear import rand
from .values import INF, NAN

X, Y = rand(7, 3), rand(2, 5, 3)
LENGTHS, ROWS = torch.tensor([2, 0, 4, 1]), torch.tensor([[1, 4, 0], [0, 0, 5]])
OFFSETS, ROW_OFFSETS = torch.tensor([1, 3, 3, 5]), torch.tensor([[0, 1, 5], [0, 0, 3]])
REDUCTIONS = ("sum", "mean", "max", "min", "prod")
ODD = torch.tensor([1.0, NAN, 3.0, INF, -INF, 2.0, -0.0])
# PyTorch rounds after each addition.
ROUNDED = {torch.float16: (2e-3, 1e-3), torch.bfloat16: (1.6e-2, 8e-3)}


def segments(reduce, axis=0, name="lengths", **options):
    return lambda x, at: torch.segment_reduce(x, reduce, **{name: at}, axis=axis, **options)


CASES = [
    *(Case(f"{r} lengths", segments(r), (X, LENGTHS)) for r in REDUCTIONS),
    *(Case(f"{r} initial", segments(r, initial=2), (X, LENGTHS)) for r in REDUCTIONS),
    *(Case(f"{r} rows", segments(r, 1), (Y, ROWS)) for r in REDUCTIONS),
    *(Case(f"{r} offsets", segments(r, name="offsets"), (X, OFFSETS)) for r in REDUCTIONS),
    *(Case(f"{r} row offsets", segments(r, 1, "offsets"), (Y, ROW_OFFSETS)) for r in REDUCTIONS),
    Case("offsets of another shape", segments("sum", -2, "offsets"), (Y, ROW_OFFSETS), refused="derives another shape"),
    *(Case(f"{r} NaN and infinities", segments(r), (ODD, LENGTHS)) for r in REDUCTIONS),
    *(Case(f"{r} {d}", segments(r), (X.to(d), LENGTHS), tolerance=ROUNDED.get(d))
      for r in ("sum", "mean") for d in (torch.float16, torch.bfloat16, torch.float64)),
    Case("int32 lengths", segments("sum"), (X, LENGTHS.int())),
    Case("unsafe", segments("sum", unsafe=True), (X, torch.tensor([2, 1]))),
    Case("nothing", segments("max"), (X[:0], LENGTHS * 0)),
    Case("both", lambda x, a, b: torch.segment_reduce(x, "sum", lengths=a, offsets=b), (X, LENGTHS, torch.tensor([0, 3, 4, 4, 7]))),
    Case("dynamic", lambda x, a: torch.segment_reduce(x, "mean", lengths=a, unsafe=True), (X, LENGTHS),
         dynamic=({0: Dim("n")}, {0: Dim("s")}), also=((rand(4, 3), torch.tensor([1, 0, 2])),)),
]  # fmt: skip


@params(CASES)
def test_segments(case, tmp_path):
    check(case, tmp_path)


@pytest.mark.parametrize("lengths", ([2, 0, 4, 2], [2, -1, 5, 1]))
def test_lengths_must_fit(lengths):
    program = mlxify.convert(_Function(segments("sum")).eval(), (X, LENGTHS))
    with pytest.raises(mlxify.InputError, match="lengths"):
        program(X, torch.tensor(lengths))
