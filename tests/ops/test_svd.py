"""Singular values and what follows from them."""

import torch

from .harness import Case, check, params
from .matrices import A64, CLOSE, CS, CTALL, CWIDE, LA, TALL, WIDE, A, C, N, S, parts


def old_svd_product(x):
    u, s, v = torch.svd(x)
    return (u * s[..., None, :]) @ v.mH, s


CASES = [
    *(Case(f"pinv {tuple(x.shape)}", LA.pinv, (x,), tolerance=CLOSE) for x in (A, TALL, WIDE, A64.float() * torch.tensor([1, 1, 1, 0, 0]))),
    Case("pinv tolerances", lambda x: (LA.pinv(x, atol=0.5), LA.pinv(x, rtol=0.5), LA.pinv(x, atol=0.1, rtol=0.1), LA.pinv(x, 0.4)), (TALL,), tolerance=CLOSE),
    Case("pinv tolerances by matrix", lambda x, t: (LA.pinv(x, atol=t), LA.pinv(x, rtol=t)), (TALL, torch.tensor([0.1, 0.5])), tolerance=CLOSE),
    Case("pinv hermitian", lambda x: LA.pinv(x, hermitian=True), (S,), tolerance=CLOSE),
    Case("pinv empty", LA.pinv, (torch.zeros(2, 3, 0),)),
    Case("pinverse", torch.pinverse, (TALL,), tolerance=CLOSE),
    Case("matrix_rank", LA.matrix_rank, (torch.stack([A[0], A[0] * torch.tensor([1.0, 1, 0, 0, 1])]),)),
    *(Case(f"svd {tuple(x.shape)}", parts(lambda x: LA.svd(x, full_matrices=False)), (x,), tolerance=CLOSE) for x in (A, TALL, WIDE)),
    Case("svd full", lambda x: [v.abs() for v in LA.svd(x)[:2]], (WIDE,), tolerance=CLOSE),
    Case("svd old form", lambda x: torch.svd(x)[1], (TALL,), tolerance=CLOSE),
    Case("svdvals", LA.svdvals, (TALL,), tolerance=CLOSE, decomposed=True),
    Case("svdvals complex", LA.svdvals, (torch.complex(A[0], A[1]),), tolerance=CLOSE),
    Case("svd empty", lambda x: tuple(LA.svd(x)), (torch.zeros(0, 3),)),
    Case("nuclear norm", lambda x: LA.matrix_norm(x, "nuc"), (TALL,), tolerance=CLOSE),
    Case("spectral norm", lambda x: (LA.matrix_norm(x, 2), LA.matrix_norm(x, -2, keepdim=True)), (TALL,), tolerance=CLOSE),
    Case("norm 2 of a matrix", lambda x: LA.norm(x, 2), (TALL[0],), tolerance=CLOSE),
    *(Case(f"svd complex {tuple(x.shape)}", parts(lambda x: LA.svd(x, full_matrices=False)), (x,), tolerance=CLOSE) for x in (C, CTALL, CWIDE)),
    Case("svd old form parts", lambda x: old_svd_product(x), (CTALL,), tolerance=CLOSE),
    Case("svd old form, values only", lambda x: tuple(torch.svd(x, compute_uv=False)), (TALL,), tolerance=CLOSE),
    *(Case(f"pinv complex {tuple(x.shape)}", LA.pinv, (x,), tolerance=CLOSE) for x in (C, CTALL, CWIDE)),
    Case("pinv complex hermitian", lambda x: LA.pinv(x.tril() + 1j * torch.eye(N), hermitian=True), (CS,), tolerance=CLOSE),
    Case("matrix_rank complex", LA.matrix_rank, (torch.stack([C[0], C[0] * torch.tensor([1.0, 1, 0, 0, 1])]),)),
    Case("matrix_rank hermitian", lambda x: LA.matrix_rank(x.tril(), hermitian=True), (CS,)),
    Case("matrix_rank tolerances", lambda x, t: (LA.matrix_rank(x, atol=1.0), LA.matrix_rank(x, rtol=0.5), LA.matrix_rank(x, 2.0), LA.matrix_rank(x, t), LA.matrix_rank(x, atol=t)), (A, torch.tensor([0.5, 4]))),
    Case("matrix_rank empty", LA.matrix_rank, (torch.zeros(2, 3, 0),)),
    Case("norms complex", lambda x: (LA.matrix_norm(x, 2), LA.matrix_norm(x, "nuc"), LA.matrix_norm(x, 1), LA.matrix_norm(x)), (CTALL,), tolerance=CLOSE),
    Case("norms of nothing", lambda x: [LA.matrix_norm(x, p) for p in (2, "nuc", 1, float("inf"), "fro")], (torch.zeros(2, 0, 0),)),
    Case("norms of nothing, kept", lambda x: [LA.matrix_norm(x, p, keepdim=True) for p in (2, "nuc", 1, -1)], (torch.zeros(2, 0, 3),)),
]  # fmt: skip


@params(CASES)
def test_svd(case, tmp_path):
    check(case, tmp_path)
