"""Systems of linear equations and inverses."""

import torch
from torch.export import Dim

from .harness import Case, check, params
from .matrices import A64, CB, CLOSE, CLOSE64, EMPTY, F64, LA, A, B, C, N
from .test_linear import rand

CASES = [
    *(Case(f"inv {x.dtype} {tuple(x.shape)}", LA.inv, (x,), tolerance=t) for x, t in ((A, CLOSE), (A64, CLOSE64), (A[0], CLOSE), (EMPTY, None))),
    Case("inv not diagonally dominant", LA.inv, (rand(2, 6, 6),), tolerance=CLOSE),
    Case("inverse", torch.inverse, (A,), tolerance=CLOSE, compiled=True),
    Case("inv_ex", lambda x: tuple(LA.inv_ex(x)), (A,), tolerance=CLOSE, decomposed=True),
    Case("inv_ex info", lambda x: LA.inv_ex(x).info, (torch.stack([A[0], torch.zeros(N, N), A[1] * torch.eye(N)]),)),
    Case("solve", LA.solve, (A, B), tolerance=CLOSE),
    Case("solve float64", LA.solve, (A64, rand(N, 3, dtype=F64)), tolerance=CLOSE64),
    Case("solve vector", LA.solve, (A[0], B[0, :, 0]), tolerance=CLOSE),
    Case("solve vectors", LA.solve, (A, B[:, :, 0]), tolerance=CLOSE),
    Case("solve broadcast", LA.solve, (A[0], B), tolerance=CLOSE),
    Case("solve from the right", lambda a, b: LA.solve(a, b, left=False), (A, B.mT), tolerance=CLOSE),
    Case("solve_ex", lambda a, b: tuple(LA.solve_ex(a, b)), (A, B), tolerance=CLOSE),
    Case("tensorinv", lambda x: LA.tensorinv(x.reshape(2, 3, 6)), (rand(6, 6),), tolerance=CLOSE),
    Case("solve dynamic", LA.solve, (A, B), tolerance=CLOSE, dynamic=({0: Dim("b")}, {0: Dim("b"), 2: Dim("k")}),
         also=((A[:1], B[:1, :, :1]), (A.repeat(2, 1, 1), rand(4, N, 9)))),
    Case("half", lambda x: LA.inv(x.float()).half(), (A.half(),), tolerance=(2e-3, 1e-3)),
    Case("inv complex", lambda x: (LA.inv(x), LA.inv_ex(x[0]).info), (C,), tolerance=CLOSE),
    Case("inv complex empty", LA.inv, (EMPTY + 0j,)),
    Case("inv_ex complex info", lambda x: LA.inv_ex(x).info, (torch.stack([C[0], C[0] * 0, torch.ones(N, N) * 1j]),)),
    Case("inv_ex with errors", lambda x: LA.inv_ex(x, check_errors=True)[0], (A,), tolerance=CLOSE),
    Case("solve complex", lambda a, b: (LA.solve(a, b), LA.solve(a, b.mT, left=False)), (C, CB), tolerance=CLOSE),
    Case("solve complex vector", LA.solve, (C[0], CB[0, :, 0]), tolerance=CLOSE),
    Case("solve nearly singular", lambda a, b: a @ LA.solve(a, b), (A * torch.tensor([1, 1, 1, 1, 1e-5]), B), tolerance=CLOSE),
    Case("tensorsolve", LA.tensorsolve, (rand(2, 3, 6), rand(2, 3)), tolerance=CLOSE),
    Case("tensorsolve dims", lambda a, b: LA.tensorsolve(a, b, dims=(0,)), (rand(6, 2, 3), rand(2, 3)), tolerance=CLOSE),
]  # fmt: skip


@params(CASES)
def test_solve(case, tmp_path):
    check(case, tmp_path)
