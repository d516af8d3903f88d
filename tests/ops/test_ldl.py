"""LDL factorisation: the pivots are LAPACK's."""

import torch

from .harness import Case, check, params
from .matrices import CLOSE, CLOSE64, EMPTY, F64, LA, A, C, N, S
from .test_linear import rand

INDEFINITE = A + A.mT - 6 * torch.eye(N)
HOLLOW = INDEFINITE - torch.diag_embed(INDEFINITE.diagonal(dim1=-2, dim2=-1))
SYMMETRIC, HERMITIAN = C + C.mT - 6 * torch.eye(N), C + C.mH - 6 * torch.eye(N)
LARGE = rand(12, 12) + rand(12, 12).mT
B = rand(2, N, 3)


def factors(x, hermitian=False):
    return LA.ldl_factor_ex(x, hermitian=hermitian)


CASES = [
    *(Case(f"ldl_factor_ex {name}", lambda x: tuple(factors(x)), (x,), tolerance=CLOSE)
      for name, x in (("definite", S), ("indefinite", INDEFINITE), ("hollow", HOLLOW), ("large", LARGE), ("complex", SYMMETRIC))),
    *(Case(f"ldl_factor_ex hermitian {name}", lambda x: tuple(factors(x, True)), (x,), tolerance=CLOSE)
      for name, x in (("real", HOLLOW), ("complex", HERMITIAN), ("hollow", HERMITIAN * (1 - torch.eye(N))))),
    Case("ldl_factor_ex reads one triangle", lambda x: tuple(factors(x.tril())), (INDEFINITE,), tolerance=CLOSE),
    Case("ldl_factor_ex float64", lambda x: tuple(factors(x)), (LARGE.to(F64),), tolerance=CLOSE64),
    Case("ldl_factor_ex info", lambda x: factors(x).info, (torch.stack([torch.eye(3), torch.zeros(3, 3), torch.diag(torch.tensor([1.0, 0, 2]))]),)),
    Case("ldl_factor_ex empty", lambda x: tuple(factors(x)), (EMPTY,)),
    Case("ldl_factor", lambda x: tuple(LA.ldl_factor(x)), (INDEFINITE,), tolerance=CLOSE, decomposed=True),
    *(Case(f"ldl_solve {name} {h}", lambda ld, p, b, h=h: LA.ldl_solve(ld, p, b, hermitian=h), (*factors(x, h)[:2], B.to(x.dtype)), tolerance=CLOSE)
      for name, x, h in (("indefinite", INDEFINITE, False), ("hollow", HOLLOW, False), ("complex", SYMMETRIC, False), ("complex", HERMITIAN, True))),
    Case("ldl_solve broadcast", LA.ldl_solve, (*factors(HOLLOW)[:2], rand(N, 2)), tolerance=CLOSE),
    Case("ldl_solve empty", LA.ldl_solve, (*factors(EMPTY)[:2], torch.zeros(3, 0, 2))),
]  # fmt: skip


@params(CASES)
def test_ldl(case, tmp_path):
    check(case, tmp_path)
