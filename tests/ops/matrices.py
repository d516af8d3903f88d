"""Matrices for the tests of decompositions."""

import torch

from .test_linear import rand

F64 = torch.float64
LA = torch.linalg
N = 5
A, A64 = rand(2, N, N) + 3 * torch.eye(N), rand(N, N, dtype=F64) + 3 * torch.eye(N)
TALL, WIDE = rand(2, 6, 4), rand(2, 4, 6)
S = A @ A.mT
B = rand(2, N, 3)
EMPTY = torch.zeros(3, 0, 0)
C = torch.complex(A, rand(2, N, N, 1)[..., 0])
CTALL, CWIDE = torch.complex(TALL, rand(2, 6, 4, 1)[..., 0]), torch.complex(WIDE, rand(2, 4, 6, 1)[..., 0])
CS = C @ C.mH
CB = torch.complex(B, rand(2, N, 3, 1)[..., 0])
# The inverse of a matrix of condition c is known to about c units in the last place; here c is below 100.
CLOSE = (1e-4, 1e-5)
CLOSE64 = (1e-10, 1e-12)


def parts(decompose, *names):
    """The results of a decomposition put together again, since their signs are a matter of taste."""

    def whole(x):
        a, *rest = decompose(x)
        product = a
        for b in rest:
            product = product @ (torch.diag_embed(b).to(x.dtype) if b.ndim == x.ndim - 1 else b)
        return product, a.mH @ a

    return whole
