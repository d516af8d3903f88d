"""Softmax and its logarithm."""

import math

import torch
from torch.export import Dim
from torch.nn import functional as F

from .harness import Case, check, params

torch.manual_seed(0)
INF, NAN = math.inf, math.nan
X = torch.randn(2, 3, 5) * 4
ROWS = torch.tensor(
    [[1.0, INF, 2], [-INF, -INF, -INF], [-INF, 1, 2], [NAN, 1, 2], [INF, -INF, INF], [3e38, -3e38, 0]]
)
HALF = torch.zeros(2, 8192)
# More elements than MLX's own exponential is used for on a CPU: down to where exponentials end, and beyond.
MANY = torch.cat([torch.linspace(-120, 0, 8190), torch.tensor([-INF, -3e38])]).repeat(2, 1)
S = Dim("s", min=1, max=4096)


# PyTorch rounds the sum of the exponentials of a half row to half before its logarithm; here it stays float32.
HALF_LOG = {torch.float16: (1e-3, 5e-4), torch.bfloat16: (8e-3, 4e-3)}


def softmax_rows():
    for name, function in (("softmax", torch.softmax), ("log_softmax", torch.log_softmax)):
        for dim in (-1, 0, 1):
            yield Case(f"{name} dim {dim}", lambda x, f=function, d=dim: f(x, d), (X,), decomposed=True)
        yield Case(f"{name} special rows", lambda x, f=function: f(x, -1), (ROWS,), decomposed=True)
        yield Case(f"{name} many", lambda x, f=function: f(x, -1), (MANY,))
        yield Case(f"{name} many special rows", lambda x, f=function: f(x, -1), (ROWS.repeat(3000, 1),))
        for dtype in (torch.float16, torch.bfloat16, torch.float64):
            close = HALF_LOG.get(dtype) if name == "log_softmax" else None
            yield Case(
                f"{name} {dtype}", lambda x, f=function: f(x, -1), (X.to(dtype),), close, decomposed=True
            )
            yield Case(f"{name} rows {dtype}", lambda x, f=function: f(x, -1), (ROWS.to(dtype),), close)
        for dtype in (torch.float16, torch.bfloat16):
            yield Case(f"{name} 8192 equal logits {dtype}", lambda x, f=function: f(x, -1), (HALF.to(dtype),))
        yield Case(
            f"{name} half to float",
            lambda x, f=function: f(x, -1, dtype=torch.float32),
            (X.half(),),
            decomposed=True,
        )
        yield Case(
            f"{name} dtype of integers", lambda x, f=function: f(x, 0, dtype=torch.float32), (X.int(),)
        )
        yield Case(f"{name} dtype half", lambda x, f=function: f(x, 0, dtype=torch.float16), (X,))
        yield Case(f"{name} 0-d", lambda x, f=function: (f(x, 0), f(x, -1)), (X[0, 0, 0],), decomposed=True)
        yield Case(f"{name} empty", lambda x, f=function: (f(x, 0), f(x, 1)), (torch.zeros(0, 3),))
        yield Case(f"{name} empty axis", lambda x, f=function: (f(x, 0), f(x, 1)), (torch.zeros(3, 0),))
        yield Case(f"{name} non-contiguous", lambda x, f=function: f(x.transpose(0, 2), 1), (X,))
        yield Case(f"{name} offset 1e4", lambda x, f=function: f(x + 1e4, -1), (X,), compiled=True)
        yield Case(
            f"{name} dynamic",
            lambda x, f=function: (f(x, 0), f(x, -1)),
            (torch.randn(4, 3),),
            dynamic=({0: S},),
            also=((torch.randn(1, 3),), (torch.randn(4096, 3),), (torch.randn(17, 3),)),
            decomposed=True,
        )
        yield Case(f"{name} of a vocabulary", lambda x, f=function: f(x, -1), (torch.randn(2, 50257) * 3,))
        # PyTorch's own log_softmax along axis 0 is 3e-5 off here, this one 2e-6.
        close = (2e-5, 4e-5) if name == "log_softmax" else (4e-5, 1e-6)
        yield Case(
            f"{name} of a long axis 0", lambda x, f=function: f(x, 0), (torch.randn(30000, 2) * 3,), close
        )


CASES = [
    *softmax_rows(),
    Case("special_softmax", lambda x: torch.special.softmax(x, 1), (X,)),
    Case("special_log_softmax", lambda x: torch.special.log_softmax(x, 1, dtype=torch.float64), (X,)),
    Case("softmin", lambda x: F.softmin(x, 1), (X,)),
    Case("softmax half to float on the wire", lambda x: torch.ops.aten._softmax(x, -1, False), (X.half(),)),
    Case("safe softmax", lambda x: torch.ops.aten._safe_softmax(x, -1), (ROWS,)),
    Case("safe softmax 0-d", lambda x: torch.ops.aten._safe_softmax(x, -1), (ROWS[1, 1],)),
    Case("safe softmax half", lambda x: torch.ops.aten._safe_softmax(x, 0, torch.float32), (ROWS.half(),)),
    Case(
        "masked softmax, one mask for each element",
        lambda x, m: torch.ops.aten._masked_softmax(x, m, -1, 2),
        (X, X > 2),
    ),
    Case(
        "masked softmax, a mask of queries and keys",
        lambda x, m: torch.ops.aten._masked_softmax(x, m, 3, 0),
        (torch.randn(2, 3, 5, 5), torch.triu(torch.ones(5, 5), 1).bool()),
    ),
    Case(
        "masked softmax, a mask of keys",
        lambda x, m: torch.ops.aten._masked_softmax(x, m, 3, 1),
        (torch.randn(2, 3, 5, 5), torch.tensor([[False] * 3 + [True] * 2, [True] * 5])),
    ),
]


@params(CASES)
def test_softmax(case, tmp_path):
    check(case, tmp_path)
