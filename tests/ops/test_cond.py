"""Condition numbers."""

import torch

from .harness import Case, check, params
from .matrices import CLOSE, EMPTY, LA, A, C

CASES = [
    Case("cond", LA.cond, (A,), tolerance=CLOSE),
    *(Case(f"cond {p}", lambda x, p=p: LA.cond(x, p), (A,), tolerance=CLOSE) for p in (2, -2, 1, -1, float("inf"), -float("inf"), "fro", "nuc")),
    *(Case(f"cond complex {p}", lambda x, p=p: LA.cond(x, p), (C,), tolerance=CLOSE) for p in (None, 1, "fro")),
    Case("cond singular", lambda x: [LA.cond(x, p) for p in (1, "fro", "nuc")], (torch.stack([torch.zeros(3, 3), torch.diag(torch.tensor([1.0, 2, 0]))]),)),
    Case("cond empty", LA.cond, (EMPTY,)),
]  # fmt: skip


@params(CASES)
def test_cond(case, tmp_path):
    check(case, tmp_path)
