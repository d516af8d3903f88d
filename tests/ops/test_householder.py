"""QR factorisation and reflections."""

import torch

from .harness import Case, check, params
from .matrices import A64, CLOSE, CLOSE64, CTALL, CWIDE, LA, TALL, WIDE, A, C, parts
from .test_linear import rand

CASES = [
    *(Case(f"householder_product {tuple(x.shape)} {k}", LA.householder_product, (x, rand(*x.shape[:-2], k)), tolerance=CLOSE)
      for x, k in ((A, 5), (TALL, 4), (TALL[0], 2), (TALL, 0))),
    *(Case(f"qr {tuple(x.shape)}", lambda x: tuple(LA.qr(x)), (x,), tolerance=CLOSE) for x in (A, TALL, WIDE)),
    *(Case(f"qr complete {tuple(x.shape)}", lambda x: tuple(LA.qr(x, "complete")), (x,), tolerance=CLOSE) for x in (A, TALL, WIDE)),
    Case("qr r", lambda x: tuple(LA.qr(x, "r")), (TALL,), tolerance=CLOSE),
    Case("qr float64", lambda x: tuple(LA.qr(x)), (A64,), tolerance=CLOSE64),
    Case("qr empty", lambda x: tuple(LA.qr(x)), (torch.zeros(3, 0),)),
    Case("orthogonal", lambda x: torch.qr(x)[0], (A,), tolerance=CLOSE),
    *(Case(f"qr complex {m} {tuple(x.shape)}", lambda x, m=m: tuple(LA.qr(x, m)), (x,), tolerance=CLOSE) for x in (C, CTALL, CWIDE) for m in ("reduced", "complete", "r")),
    Case("qr complex of dependent columns", parts(LA.qr), (torch.cat([CTALL[..., :2], CTALL[..., :2], CTALL[..., :1] * 0], -1),), tolerance=(1e-4, 1e-4)),
    Case("qr complex empty", lambda x: tuple(LA.qr(x)), (torch.zeros(2, 3, 0) + 0j,)),
    Case("qr complex large and small", lambda x: LA.qr(x)[1] / x.real.abs().max(), (torch.stack([C[0] * 1e25, C[0] * 1e-25])[0],), tolerance=CLOSE),
    Case("qr old form", lambda x: tuple(torch.qr(x, some=False)), (TALL,), tolerance=CLOSE),
    *(Case(f"geqrf {x.dtype} {tuple(x.shape)}", lambda x: tuple(torch.geqrf(x)), (x,), tolerance=CLOSE) for x in (A, TALL, WIDE, A64, C, CTALL, CWIDE)),
    Case("geqrf of zeros", lambda x: tuple(torch.geqrf(x)), (torch.zeros(3, 2),)),
    Case("geqrf empty", lambda x: tuple(torch.geqrf(x)), (torch.zeros(2, 3, 0),)),
    Case("orgqr", lambda x: torch.orgqr(*torch.geqrf(x)), (CTALL,), tolerance=CLOSE),
    Case("householder_product complex", LA.householder_product, (CTALL, CTALL[:, 0, :3]), tolerance=CLOSE),
    *(Case(f"ormqr {left} {t} {x.dtype}", lambda x, c, left=left, t=t: torch.ormqr(*torch.geqrf(x), c, left=left, transpose=t), (x, c if left else c.mT), tolerance=CLOSE)
      for left in (True, False) for t in (True, False) for x, c in ((TALL, rand(2, 6, 3)), (CTALL, CTALL[..., :3] * 1j))),
]  # fmt: skip


@params(CASES)
def test_householder(case, tmp_path):
    check(case, tmp_path)
