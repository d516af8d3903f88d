"""LU factorisation and determinants."""

import torch

from .harness import Case, check, params
from .matrices import A64, CB, CLOSE, CLOSE64, CTALL, CWIDE, EMPTY, LA, TALL, WIDE, A, B, C, N, S
from .test_linear import rand

CASES = [
    *(Case(f"det {x.dtype} {tuple(x.shape)}", torch.det, (x,), tolerance=t) for x, t in ((A, CLOSE), (A64, CLOSE64), (rand(3, 4, 4), CLOSE), (EMPTY, None))),
    Case("det singular", torch.det, (torch.zeros(2, 2),)),
    Case("slogdet", lambda x: tuple(torch.slogdet(x)), (torch.cat([A, -A, rand(2, N, N)]),), tolerance=CLOSE),
    Case("slogdet singular", lambda x: tuple(LA.slogdet(x)), (torch.zeros(2, 2),)),
    Case("logdet", torch.logdet, (S,), tolerance=CLOSE, decomposed=True),
    Case("_linalg_det", lambda x: torch.ops.aten._linalg_det(x)[0], (A,), tolerance=CLOSE),
    Case("lu", lambda x: tuple(LA.lu(x)), (rand(2, 7, 7),), tolerance=CLOSE),
    Case("lu tall", lambda x: tuple(LA.lu(x)), (TALL,), tolerance=CLOSE),
    Case("lu wide", lambda x: tuple(LA.lu(x)), (WIDE,), tolerance=CLOSE),
    Case("lu_factor", lambda x: tuple(LA.lu_factor(x)), (rand(2, 7, 7),), tolerance=CLOSE),
    Case("lu_factor_ex", lambda x: tuple(LA.lu_factor_ex(x)), (torch.stack([A[0], torch.diag(torch.tensor([1.0, 2, 0, 4, 0]))]),), tolerance=CLOSE),
    *(Case(f"lu_factor complex {tuple(x.shape)}", lambda x: tuple(LA.lu_factor(x)), (x,), tolerance=CLOSE) for x in (C, CTALL, CWIDE, CTALL[:, :, :1], CWIDE[:, :1])),
    Case("lu_factor complex pivots", lambda x: LA.lu_factor(x)[1], (torch.tensor([[2, 2], [1.5 - 1.2j, 3]]),)),
    Case("lu complex", lambda x: tuple(LA.lu(x)), (CWIDE,), tolerance=CLOSE),
    Case("lu complex empty", lambda x: tuple(LA.lu(x)), (torch.zeros(2, 3, 0) + 0j,)),
    Case("lu without pivoting", lambda x: LA.lu_factor_ex(x, pivot=False)[0], (A,), refused="pivot"),
    *(Case(f"lu_unpack {x.dtype} {tuple(x.shape)}", lambda x: torch.lu_unpack(*LA.lu_factor(x)), (x,), tolerance=CLOSE) for x in (A, TALL, WIDE, CTALL, EMPTY)),
    Case("lu_unpack pivots only", lambda x: torch.lu_unpack(*LA.lu_factor(x), unpack_data=False), (A,)),
    Case("lu_unpack data only", lambda x: torch.lu_unpack(*LA.lu_factor(x), unpack_pivots=False), (A,), tolerance=CLOSE),
    Case("lu_unpack given pivots", torch.lu_unpack, (A, torch.tensor([[3, 5, 3, 4, 5], [1, 2, 3, 5, 5]], dtype=torch.int32)), tolerance=CLOSE),
    *(Case(f"lu_solve {left} {adjoint} {b.dtype}", lambda lu, p, b, left=left, adjoint=adjoint: LA.lu_solve(lu, p, b, left=left, adjoint=adjoint),
           (*LA.lu_factor(a), b if left else b.mT), tolerance=CLOSE) for left in (True, False) for adjoint in (True, False) for a, b in ((A, B), (C, CB))),
    Case("lu_solve broadcast", LA.lu_solve, (*LA.lu_factor(A), rand(3, 1, N, 2)), tolerance=CLOSE),
    Case("lu_solve one right side", LA.lu_solve, (*LA.lu_factor(A), rand(N, 2)), tolerance=CLOSE),
    Case("lu_solve old form", torch.lu_solve, (B, *LA.lu_factor(A)), tolerance=CLOSE),
    Case("det complex", torch.det, (C,), tolerance=CLOSE),
    Case("slogdet complex", lambda x: tuple(LA.slogdet(x)), (C,), tolerance=CLOSE),
    Case("logdet complex", torch.logdet, (C,), tolerance=CLOSE),
    Case("logdet negative", torch.logdet, (torch.stack([torch.eye(3), -torch.eye(3), torch.zeros(3, 3)]),)),
    Case("_linalg_slogdet", lambda x: torch.ops.aten._linalg_slogdet(x)[:2], (A,), tolerance=CLOSE),
]  # fmt: skip


@params(CASES)
def test_lu(case, tmp_path):
    check(case, tmp_path)
