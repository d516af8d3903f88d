"""Products of several matrices, Kronecker products."""

import torch

from .harness import Case, check, params
from .matrices import C
from .test_linear import rand

MATRICES = rand(3, 7), rand(7, 2), rand(2, 9), rand(9, 4)
DOT = torch.linalg.multi_dot

CASES = [
    *(Case(f"multi_dot of {n}", lambda *x: DOT(x), MATRICES[:n]) for n in (2, 3, 4)),
    Case("multi_dot of vectors", lambda *x: DOT(x), (rand(3), *MATRICES, rand(4))),
    Case("multi_dot of a vector first", lambda *x: DOT(x), (rand(3), *MATRICES)),
    Case("multi_dot of a vector last", lambda *x: DOT(x), (*MATRICES, rand(4))),
    Case("multi_dot of two vectors", lambda *x: DOT(x), (rand(4), rand(4, 1)[:, 0] + 1)),
    Case("multi_dot of integers", lambda *x: DOT(x), (rand(3, 4, dtype=torch.int64), rand(4, 2, dtype=torch.int64), rand(2, 5, dtype=torch.int64))),
    Case("multi_dot complex", lambda *x: DOT(x), (C[0], C[1], C[0])),
    Case("chain_matmul", torch.chain_matmul, MATRICES),
    *(Case(f"kron {tuple(x.shape)} {tuple(y.shape)}", torch.kron, (x, y)) for x, y in ((rand(2, 3), rand(4, 5)), (rand(3), rand(2, 2)), (rand(2, 1, 3), rand(4)), (rand(), rand(2, 3)), (rand(0, 3), rand(2, 2)))),
    Case("kron of integers and floats", torch.kron, (rand(2, 3, dtype=torch.int64), rand(2, 2).half())),
    Case("kron complex", torch.kron, (C[0], rand(2, 2))),
]  # fmt: skip


@params(CASES)
def test_products(case, tmp_path):
    check(case, tmp_path)
