"""Distinct elements and rows."""

import math

import torch
from torch.export import Dim

from .harness import Case, check, params

torch.manual_seed(0)
NAN = math.nan
X = torch.randint(0, 5, (4, 6))
ROWS = torch.tensor([[3, 1, 2], [1, 2, 9], [3, 1, 2], [1, 2, 0], [3, 1, 2]])
RUNS = torch.tensor([1, 1, 2, 2, 2, 1, 3, 3])
S = Dim("s", min=2, max=4096)


def everything(function, **options):
    return lambda x: function(x, return_inverse=True, return_counts=True, **options)


CASES = [
    Case("unique", torch.unique, (X,), decomposed=True),
    Case("unique inverse", lambda x: torch.unique(x, return_inverse=True), (X,)),
    Case("unique counts", lambda x: torch.unique(x, return_counts=True), (X,)),
    Case("unique everything", everything(torch.unique), (X,)),
    Case("unique unsorted", lambda x: torch.unique(x, sorted=False).sort()[0], (X,)),
    Case("unique floats", everything(torch.unique), (X / 3,)),
    Case("unique NaN", everything(torch.unique), (torch.tensor([3, 1, NAN, 1, NAN]),)),
    Case("unique bool", everything(torch.unique), (X > 2,)),
    Case("unique uint8", everything(torch.unique), (X.byte(),)),
    Case("unique half", everything(torch.unique), (X.half(),)),
    Case("unique 0-d", everything(torch.unique), (X[0, 0],)),
    Case("unique of two", everything(torch.unique), (X[0, :2],)),
    Case("unique of nothing", everything(torch.unique), (X[0, :0],)),
    Case("unique used", lambda x: torch.unique(x) * 2 + 1, (X,)),
    Case("unique size used", lambda x: torch.zeros(torch.unique(x).shape[0]) + 1, (X,)),
    Case(
        "unique dynamic",
        everything(torch.unique),
        (RUNS,),
        dynamic=({0: S},),
        also=((torch.tensor([2, 2]),), (torch.randint(0, 900, (4096,)),), (torch.tensor([5, 1, 5]),)),
    ),
    Case("aten._unique", lambda x: torch.ops.aten._unique(x, True, True), (X,)),
    Case("unique rows", everything(torch.unique, dim=0), (ROWS,)),
    Case("unique columns", everything(torch.unique, dim=-1), (torch.tensor([[3, 1, 3], [1, 2, 1]]),)),
    Case("unique rows only", lambda x: torch.unique(x, dim=0), (ROWS,)),
    Case("unique slices", everything(torch.unique, dim=1), (torch.randint(0, 2, (2, 9, 2)),)),
    Case("unique rows of floats", everything(torch.unique, dim=0), (ROWS / 3 - 0.5,)),
    Case("unique rows of bool", everything(torch.unique, dim=0), (ROWS > 1,)),
    Case("unique rows of bfloat16", everything(torch.unique, dim=0), (ROWS.bfloat16(),)),
    Case("unique_consecutive", torch.unique_consecutive, (RUNS,), decomposed=True),
    Case("unique_consecutive everything", everything(torch.unique_consecutive), (RUNS,)),
    Case("unique_consecutive flattens", everything(torch.unique_consecutive), (X,)),
    Case(
        "unique_consecutive NaN", everything(torch.unique_consecutive), (torch.tensor([3, 3, NAN, NAN, 3]),)
    ),
    Case("unique_consecutive of nothing", everything(torch.unique_consecutive), (X[0, :0],)),
    Case("unique_consecutive rows", everything(torch.unique_consecutive, dim=0), (ROWS[[0, 2, 1, 1, 3, 4]],)),
    Case(
        "unique_consecutive columns", everything(torch.unique_consecutive, dim=1), (ROWS[:, [0, 0, 1, 2, 2]],)
    ),
    Case("unique_consecutive rows only", lambda x: torch.unique_consecutive(x, dim=0), (ROWS[[0, 2, 1]],)),
    Case(
        "unique_consecutive rows counts",
        lambda x: torch.unique_consecutive(x, return_counts=True, dim=0),
        (ROWS[[0, 2, 1]],),
    ),
    Case("unique rows counts", lambda x: torch.unique(x, return_counts=True, dim=0), (ROWS,)),
    Case(
        "unique rows dynamic",
        everything(torch.unique, dim=0),
        (ROWS,),
        dynamic=({0: S},),
        also=((ROWS[:2],), (torch.randint(0, 3, (4096, 3)),), (ROWS[[0, 0, 0]],)),
    ),
]


@params(CASES)
def test_unique(case, tmp_path):
    check(case, tmp_path)
