"""Eigenvalues."""

import torch

from .harness import Case, check, params
from .matrices import A64, CLOSE, CLOSE64, CS, EMPTY, LA, A, C, N, S
from .test_linear import rand


def rebuilt(x, uplo="L"):
    values, vectors = LA.eigh(x, uplo)
    return values, vectors @ torch.diag_embed(values).to(x.dtype) @ vectors.mH


def eigen_error(x, same):
    values, vectors = LA.eig(x)
    return (same @ vectors - vectors * values[:, None, :]).abs()


CASES = [
    Case("eigh", rebuilt, (S,), tolerance=CLOSE),
    Case("eigh empty", lambda x: tuple(LA.eigh(x)), (EMPTY,)),
    Case("eigvals empty", LA.eigvals, (EMPTY,)),
    Case("eigh upper", lambda x: rebuilt(x.triu(), "U"), (S,), tolerance=CLOSE),
    Case("eigh float64", rebuilt, (A64 @ A64.mT,), tolerance=CLOSE64),
    Case("eigvalsh", LA.eigvalsh, (S,), tolerance=CLOSE, decomposed=True),
    Case("eigvalsh complex", LA.eigvalsh, (torch.complex(S[0], torch.zeros(N, N)),), tolerance=CLOSE),
    Case("eigvals", lambda x: LA.eigvals(x).abs().sort()[0], (rand(2, N, N),), tolerance=CLOSE),
    Case("eig", eigen_error, (A, A.to(torch.complex64)), tolerance=(0, 1e-4)),
    Case("eig float64", LA.eigvals, (A64,), refused="complex128"),
    Case("eig complex", eigen_error, (C, C), tolerance=(0, 1e-4)),
    Case("eigvals complex", lambda x: LA.eigvals(x).abs().sort()[0], (C,), tolerance=CLOSE),
    Case("eigh complex", lambda x: rebuilt(x), (CS,), tolerance=CLOSE),
    Case("eigh complex upper", lambda x: rebuilt(x.triu(), "U"), (CS,), tolerance=CLOSE),
]  # fmt: skip


@params(CASES)
def test_eigen(case, tmp_path):
    check(case, tmp_path)
