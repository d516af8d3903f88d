"""Views and rearrangements."""

import torch
from torch.export import Dim

from .harness import Case, check, params

X = torch.arange(24.0).reshape(2, 3, 4)

CASES = [
    Case("view -1", lambda x: x.view(-1, 4), (X,), decomposed=True),
    Case("transpose negative", lambda x: x.transpose(-1, 0), (X,), decomposed=True),
    Case("transpose 0-d", lambda x: x.transpose(0, -1), (X[0, 0, 0],)),
    Case(
        "reshape dynamic",
        lambda x: x.reshape(x.shape[0] * x.shape[1], -1),
        (X,),
        dynamic=({0: Dim("a"), 1: Dim("b")},),
        also=((torch.randn(5, 7, 4),), (torch.randn(1, 2, 4),)),
    ),
]


@params(CASES)
def test_shape(case, tmp_path):
    check(case, tmp_path)
