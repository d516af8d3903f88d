"""Distances between all pairs of vectors."""

import torch
from torch.export import Dim

from .harness import Case, check, params
from .test_linear import rand

F64 = torch.float64
ORDERS = (0.0, 0.5, 1.0, 2.0, 3.0, float("inf"))

CASES = [
    *(Case(f"cdist {p}", lambda x, y, p=p: torch.cdist(x, y, p), (rand(4, 3), rand(5, 3))) for p in ORDERS),
    *(Case(f"cdist {p} decomposed", lambda x, y, p=p: torch.cdist(x, y, p), (rand(2, 4, 3), rand(2, 5, 3)), decomposed=True) for p in (1.0, 2.0)),
    Case("cdist float64", torch.cdist, (rand(4, 3, dtype=F64), rand(5, 3, dtype=F64))),
    Case("cdist batches broadcast", torch.cdist, (rand(3, 1, 4, 3), rand(2, 5, 3))),
    Case("cdist equal vectors", lambda x: torch.cdist(x, x), (rand(4, 3),)),
    Case("cdist many", torch.cdist, (rand(30, 8), rand(40, 8) + 1), decomposed=True),
    Case("cdist many, no product", lambda x: torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist"), (rand(30, 8),)),
    Case("cdist product", lambda x, y: torch.cdist(x, y, compute_mode="use_mm_for_euclid_dist"), (rand(3, 8), rand(4, 8) + 1)),
    Case("cdist no vectors", torch.cdist, (rand(0, 3), rand(5, 3))),
    Case("cdist no features", torch.cdist, (torch.zeros(4, 0), torch.zeros(5, 0))),
    Case("cdist dynamic", torch.cdist, (rand(2, 4, 3), rand(2, 5, 3)), dynamic=({0: Dim("b"), 1: Dim("p", max=25)}, {0: Dim("b"), 1: Dim("r", max=25)}),
         also=((rand(1, 2, 3), rand(1, 25, 3)), (rand(3, 25, 3), rand(3, 2, 3)))),
    *(Case(f"pdist {p}", lambda x, p=p: torch.pdist(x, p), (rand(5, 3),), decomposed=True) for p in ORDERS),
    Case("pdist one vector", torch.pdist, (rand(1, 3),)),
    Case("pairwise_distance", torch.nn.functional.pairwise_distance, (rand(5, 3), rand(5, 3)), decomposed=True),
    Case("cosine_similarity", torch.nn.functional.cosine_similarity, (rand(5, 3), rand(5, 3)), decomposed=True),
]  # fmt: skip


@params(CASES)
def test_distance(case, tmp_path):
    check(case, tmp_path)
