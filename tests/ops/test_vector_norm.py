"""Norms of vectors and matrices."""

import math

import torch
from torch.export import Dim
from torch.nn import functional as F

from .harness import Case, check, params

torch.manual_seed(0)
INF, NAN = math.inf, math.nan
X = torch.randn(3, 4)
BLOCK = torch.randn(2, 3, 4)
SPECIAL = torch.tensor([[1.0, NAN, 3], [INF, 2, -INF], [0, 0, 0], [0, 1e-30, -5]])
ORDERS = (0, 1, 2, 3, 0.5, -1, -2.5, INF, -INF)
S, T = Dim("s", min=1, max=4096), Dim("t", min=1, max=4096)
vector_norm, matrix_norm = torch.linalg.vector_norm, torch.linalg.matrix_norm


def vectors():
    for order in ORDERS:
        yield Case(f"vector_norm {order}", lambda x, p=order: vector_norm(x, p), (X,), decomposed=True)
        yield Case(
            f"vector_norm {order} dims",
            lambda x, p=order: (vector_norm(x, p, -1), vector_norm(x, p, (0, 2), keepdim=True)),
            (BLOCK,),
            decomposed=True,
        )
        yield Case(f"vector_norm {order} special values", lambda x, p=order: vector_norm(x, p, 1), (SPECIAL,))
        yield Case(f"vector_norm {order} 0-d", lambda x, p=order: vector_norm(x, p, 0), (X[0, 0],))
        yield Case(f"vector_norm {order} half", lambda x, p=order: vector_norm(x, p, 1), (X.half(),))
        yield Case(f"vector_norm {order} bfloat16", lambda x, p=order: vector_norm(x, p, 1), (X.bfloat16(),))
        yield Case(f"vector_norm {order} float64", lambda x, p=order: vector_norm(x, p, 1), (X.double(),))
        yield Case(
            f"vector_norm {order} complex",
            lambda x, p=order: vector_norm(x, p, 1),
            (torch.complex(X, X + 1),),
        )
        yield Case(f"dist {order}", lambda x, y, p=order: torch.dist(x, y, p), (X, X[0]))
        if order >= 0 and order != INF:
            yield Case(
                f"vector_norm {order} of nothing",
                lambda x, p=order: vector_norm(x, p, 0),
                (torch.zeros(0, 3),),
            )


CASES = [
    *vectors(),
    Case("vector_norm no dims", lambda x: (vector_norm(x, dim=()), vector_norm(x, keepdim=True)), (X,)),
    Case("vector_norm beyond half", lambda x: vector_norm(x), (torch.full((1000,), 300.0).half(),)),
    Case(
        "vector_norm to float32",
        lambda x: vector_norm(x, dtype=torch.float32),
        (torch.full((9,), 6e4).half(),),
    ),
    Case("vector_norm to float64", lambda x: vector_norm(x, 3, 1, dtype=torch.float64), (X,)),
    # PyTorch's own result is 3.6e-4 off here, this one 1e-7.
    Case("vector_norm of many", lambda x: vector_norm(x), (torch.full((1_000_003,), 0.1),), (5e-4, 0)),
    Case("normalize", lambda x: F.normalize(x, dim=1), (BLOCK,), compiled=True, decomposed=True),
    Case(
        "vector_norm dynamic",
        lambda x: (
            vector_norm(x, 2, 1),
            vector_norm(x, 1, 0, True),
            vector_norm(x, INF),
            vector_norm(x, 3, 0),
        ),
        (torch.randn(4, 3),),
        dynamic=({0: S, 1: T},),
        also=((torch.randn(1, 1),), (torch.randn(4096, 2),), (torch.randn(17, 300),)),
    ),
    Case("norm", lambda x: (x.norm(), x.norm(1), x.norm(dim=1), x.norm(2, 0, True)), (X,), decomposed=True),
    Case("norm fro", lambda x: (torch.norm(x, "fro"), torch.norm(x, "fro", (0, 1), True)), (X,)),
    Case("norm dtype", lambda x: torch.norm(x, 3, 1, dtype=torch.float64), (X,)),
    Case(
        "aten.norm",
        lambda x: (torch.ops.aten.norm.Scalar(x, 3), torch.ops.aten.norm.ScalarOpt_dim(x, None, [1])),
        (X,),
    ),
    Case(
        "aten.norm dtype",
        lambda x: torch.ops.aten.norm.ScalarOpt_dtype(x, 1, dtype=torch.float32),
        (X.half(),),
    ),
    Case("frobenius_norm", lambda x: torch.ops.aten.frobenius_norm.dim(x, [0, 1], True), (X,)),
    Case("linalg.norm", lambda x: (torch.linalg.norm(x), torch.linalg.norm(x, keepdim=True)), (BLOCK,)),
    Case(
        "linalg.norm vectors",
        lambda x: (torch.linalg.norm(x, 3, 1), torch.linalg.norm(x[0, 0], INF)),
        (BLOCK,),
    ),
    Case("linalg.norm matrix", lambda x: (torch.linalg.norm(x, 1), torch.linalg.norm(x, "fro")), (X,)),
    Case(
        "linalg.norm dims",
        lambda x: (torch.linalg.norm(x, dim=(2, 0)), torch.linalg.norm(x, -INF, (2, 0))),
        (BLOCK,),
    ),
    Case(
        "matrix_norm",
        lambda x: [matrix_norm(x, p) for p in ("fro", 1, -1, INF, -INF)],
        (BLOCK,),
        decomposed=True,
    ),
    Case("matrix_norm keepdim", lambda x: [matrix_norm(x, p, keepdim=True) for p in (1, -INF)], (BLOCK,)),
    Case(
        "matrix_norm dims",
        lambda x: [matrix_norm(x, p, (d, e)) for p in (1, INF) for d, e in ((0, 2), (1, 0))],
        (BLOCK,),
    ),
    Case("matrix_norm dtype", lambda x: matrix_norm(x, 1, dtype=torch.float64), (BLOCK,)),
    Case("matrix_norm NaN", lambda x: (matrix_norm(x, 1), matrix_norm(x, -INF)), (SPECIAL,)),
    Case("matrix_norm nuclear", lambda x: matrix_norm(x, "nuc"), (X,)),
    Case("matrix_norm spectral", lambda x: matrix_norm(x, 2), (X,)),
    Case("renorm", lambda x: torch.renorm(x, 2, 0, 1.5), (X,)),
    Case("norm_except_dim", lambda x: torch.norm_except_dim(x, 2, 1), (BLOCK,)),
]


@params(CASES)
def test_vector_norm(case, tmp_path):
    check(case, tmp_path)
