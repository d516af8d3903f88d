"""Systems of equations with triangular matrices."""

import torch
from torch.export import Dim

from .harness import Case, check, params
from .matrices import A64, CB, CLOSE, CLOSE64, EMPTY, F64, LA, A, B, C, N
from .test_linear import rand

CASES = [
    *(Case(f"solve_triangular {u} {n}", lambda a, b, u=u, n=n: LA.solve_triangular(a, b, upper=u, unitriangular=n), (A, B), tolerance=CLOSE)
      for u in (True, False) for n in (True, False)),
    Case("solve_triangular from the right", lambda a, b: LA.solve_triangular(a, b, upper=True, left=False), (A, B.mT), tolerance=CLOSE),
    Case("triangular_solve", lambda b, a: torch.triangular_solve(b, a, transpose=True)[0], (B, A), tolerance=CLOSE),
    *(Case(f"solve_triangular complex {u} {n}", lambda a, b, u=u, n=n: LA.solve_triangular(a, b, upper=u, unitriangular=n), (C, CB), tolerance=CLOSE)
      for u in (True, False) for n in (True, False)),
    Case("solve_triangular complex from the right", lambda a, b: LA.solve_triangular(a, b, upper=False, left=False), (C, CB.mT), tolerance=CLOSE),
    Case("solve_triangular singular", lambda a, b: LA.solve_triangular(a, b, upper=True), (torch.tensor([[1.0, 2], [0, 0]]), torch.tensor([[1.0, 0], [1, 0]]))),
    Case("solve_triangular broadcast", lambda a, b: LA.solve_triangular(a, b, upper=True), (A, rand(3, 1, N, 2)), tolerance=CLOSE),
    Case("solve_triangular float64", lambda a, b: LA.solve_triangular(a, b, upper=True), (A64, rand(N, 2, dtype=F64)), tolerance=CLOSE64),
    Case("solve_triangular empty", lambda a, b: LA.solve_triangular(a, b, upper=True), (EMPTY, torch.zeros(3, 0, 2))),
    # A random triangle of this size has a condition of 1e6 or so; substitution is accurate all the same.
    Case("solve_triangular unit lower", lambda a, b: LA.solve_triangular(a, b, upper=False, unitriangular=True), (rand(40, 40) / 4, rand(40, 2)), tolerance=CLOSE),
    *(Case(f"triangular_solve {u} {t}", lambda b, a, u=u, t=t: tuple(torch.triangular_solve(b, a, upper=u, transpose=t)), (CB, C), tolerance=CLOSE)
      for u in (True, False) for t in (True, False)),
    Case("triangular_solve broadcast", lambda b, a: tuple(torch.triangular_solve(b, a)), (B, A[0]), tolerance=CLOSE),
    Case("solve_triangular dynamic", lambda a, b: LA.solve_triangular(a, b, upper=True), (A, B), tolerance=CLOSE, dynamic=({0: Dim("b"), 1: Dim("n"), 2: Dim("n")}, {0: Dim("b"), 1: Dim("n"), 2: Dim("k")}),
         also=((A[:1], B[:1, :, :1]), (A[:, :2, :2], B[:, :2]))),
]  # fmt: skip


@params(CASES)
def test_triangular(case, tmp_path):
    check(case, tmp_path)
