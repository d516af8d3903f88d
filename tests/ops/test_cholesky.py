"""Cholesky factorisation."""

import torch

from .harness import Case, check, params
from .matrices import A64, CB, CLOSE, CLOSE64, CS, EMPTY, LA, B, N, S

CASES = [
    *(Case(f"cholesky_solve {u}", lambda b, s, u=u: torch.cholesky_solve(b, s, u), (B, torch.linalg.cholesky(S, upper=u)), tolerance=CLOSE) for u in (True, False)),
    *(Case(f"cholesky_inverse {u}", lambda s, u=u: torch.cholesky_inverse(s, u), (torch.linalg.cholesky(S, upper=u),), tolerance=CLOSE) for u in (True, False)),
    Case("cholesky", LA.cholesky, (S,), tolerance=CLOSE),
    Case("cholesky upper", lambda x: LA.cholesky(x, upper=True), (S,), tolerance=CLOSE),
    Case("cholesky reads one triangle", lambda x: (LA.cholesky(x.tril()), LA.cholesky(x.triu(), upper=True)), (S,), tolerance=CLOSE),
    Case("cholesky float64", torch.cholesky, (A64 @ A64.mT,), tolerance=CLOSE64),
    Case("cholesky empty", LA.cholesky, (EMPTY,)),
    Case("cholesky_ex info", lambda x: LA.cholesky_ex(x).info, (torch.stack([S[0], -S[0], S[0] - 30 * torch.diag(torch.tensor([0.0, 0, 1, 0, 0])), S[0] * float("nan")]),)),
    *(Case(f"cholesky complex {u}", lambda x, u=u: LA.cholesky(x, upper=u), (CS,), tolerance=CLOSE) for u in (True, False)),
    # What is not read, the other triangle and the imaginary diagonal, is something else.
    *(Case(f"cholesky complex triangle {u}", lambda x, u=u: LA.cholesky((x.triu() if u else x.tril()) + 1j * torch.eye(N), upper=u), (CS,), tolerance=CLOSE) for u in (True, False)),
    Case("cholesky complex empty", LA.cholesky, (EMPTY + 0j,)),
    Case("cholesky_ex complex info", lambda x: LA.cholesky_ex(x).info, (torch.stack([CS[0], -CS[0], CS[0] - 60 * torch.diag(torch.tensor([0.0, 0, 1, 0, 0])), CS[0] * float("nan")]),)),
    *(Case(f"cholesky_solve complex {u}", lambda b, s, u=u: torch.cholesky_solve(b, s, u), (CB, LA.cholesky(CS, upper=u)), tolerance=CLOSE) for u in (True, False)),
    *(Case(f"cholesky_inverse complex {u}", lambda s, u=u: torch.cholesky_inverse(s, u), (LA.cholesky(CS, upper=u),), tolerance=CLOSE) for u in (True, False)),
]  # fmt: skip


@params(CASES)
def test_cholesky(case, tmp_path):
    check(case, tmp_path)
