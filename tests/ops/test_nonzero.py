"""Positions of non-zero elements, whose number depends on data."""

import torch
from torch.export import Dim

from .harness import Case, check, params

X = torch.tensor([[0.0, 1.5, float("nan")], [-0.0, 0.0, -2.0]])
EMPTY = torch.zeros(2, 0, 3)


def first_columns(x):
    """Sizes that depend on data in further arithmetic."""
    i, j = torch.nonzero(x, as_tuple=True)
    return x[i, j] * 2 + i, torch.cat([i, j]), i.shape[0] + j.numel()


CASES = [
    *[
        Case(f"nonzero {dtype}", torch.nonzero, (torch.tensor([[0, 1, 3], [2, 0, 0]]).to(dtype),))
        for dtype in (
            torch.bool,
            torch.uint8,
            torch.int64,
            torch.float16,
            torch.bfloat16,
            torch.float64,
            torch.complex64,
        )
    ],
    Case("nonzero nan", torch.nonzero, (X,), decomposed=True),
    Case("nonzero none", torch.nonzero, (torch.zeros(3, 2),)),
    Case("nonzero empty", torch.nonzero, (EMPTY,)),
    Case("nonzero 0-d", torch.nonzero, (torch.tensor(3.0),)),
    Case("nonzero 0-d zero", torch.nonzero, (torch.tensor(0.0),)),
    Case("nonzero 4-d", torch.nonzero, (torch.randn(2, 3, 2, 3).relu(),)),
    Case("nonzero not contiguous", lambda x: x.T.nonzero(), (X,), compiled=True),
    Case("nonzero as_tuple", lambda x: torch.nonzero(x, as_tuple=True), (X,)),
    Case("nonzero as_tuple 0-d", lambda x: torch.nonzero(x, as_tuple=True), (torch.tensor(True),)),
    Case("nonzero as_tuple empty", lambda x: torch.nonzero(x, as_tuple=True), (EMPTY,)),
    Case("argwhere", torch.argwhere, (X,)),
    Case("where", torch.where, (X > 0,)),
    Case("where 0-d", torch.where, (torch.tensor(2),)),
    Case("used further", first_columns, (X,)),
    Case("in a sum", lambda x: (x.nonzero() + 1).sum(0), (X,)),
    *[
        Case(f"nonzero_static {size}", lambda x, n=size: x.nonzero_static(size=n), (X,))
        for size in (0, 1, 3, 9)
    ],
    Case("nonzero_static fill", lambda x: x.nonzero_static(size=5, fill_value=-7), (X,)),
    Case("nonzero_static 4-d", lambda x: x.nonzero_static(size=9), (torch.randn(2, 3, 2, 3).relu(),)),
    Case("nonzero_static empty", lambda x: x.nonzero_static(size=2), (EMPTY,)),
    Case("nonzero_static 0-d", lambda x: x.nonzero_static(size=2), (torch.tensor(3.0),)),
    Case(
        "nonzero_static dynamic",
        lambda x: x.nonzero_static(size=x.shape[0]),
        (X,),
        dynamic=({0: Dim("a"), 1: Dim("b")},),
        also=((torch.randn(4, 5),), (torch.zeros(3, 2),)),
    ),
    Case(
        "nonzero dynamic",
        lambda x: (x.nonzero(), torch.where(x > 0)),
        (X,),
        dynamic=({0: Dim("a", min=0), 1: Dim("b")},),
        also=((torch.randn(4, 5),), (torch.zeros(1, 2),), (torch.zeros(0, 2),)),
    ),
]


@params(CASES)
def test_nonzero(case, tmp_path):
    check(case, tmp_path)
