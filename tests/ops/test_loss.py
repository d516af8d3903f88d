"""Losses: most go through PyTorch's decompositions."""

import torch
import torch.nn.functional as F
from torch import nn

from .harness import Case, check, params

torch.manual_seed(0)
X, Y = torch.randn(4, 5), torch.randn(4, 5)
P, SIGN = torch.rand(4, 5), torch.randn(4, 5).sign()
CLASS, WEIGHT = torch.tensor([0, 4, -100, 2]), torch.rand(5)
IMAGE, LABELS = torch.randn(2, 3, 4, 4), torch.randint(0, 3, (2, 4, 4))
MATRIX, BIAS = torch.randn(6, 5), torch.randn(6)


def chunked(*args, **options):
    return F.linear_cross_entropy(*args, **options, options=nn.LinearCrossEntropyOptions(batch_chunk_size=3))


CASES = [
    Case(f"{name} {reduction}", lambda x, y, fn=fn, r=reduction: fn(x, y, reduction=r), args)
    for reduction in ("none", "mean", "sum")
    for name, fn, args in (
        ("mse", F.mse_loss, (X, Y)),
        ("l1", F.l1_loss, (X, Y)),
        ("smooth_l1", F.smooth_l1_loss, (X, Y)),
        ("huber", F.huber_loss, (X, Y)),
        ("bce", F.binary_cross_entropy, (P, P.flip(0))),
        ("bce logits", F.binary_cross_entropy_with_logits, (X * 30, P)),
        ("nll", F.nll_loss, (X, CLASS)),
        ("cross entropy", F.cross_entropy, (X, CLASS)),
        ("kl_div", F.kl_div, (X, P)),
        ("poisson", F.poisson_nll_loss, (X, P)),
        ("soft margin", F.soft_margin_loss, (X, SIGN)),
        ("hinge", F.hinge_embedding_loss, (X, SIGN)),
        ("multilabel soft margin", F.multilabel_soft_margin_loss, (X, P.round())),
        ("multi margin", F.multi_margin_loss, (X, CLASS.clamp(min=0))),
        ("soft margin half", F.soft_margin_loss, (X.half() * 20, SIGN.half())),
        ("mse half", F.mse_loss, (X.half(), Y.half())),
    )
] + [
    Case("bce zero and one", F.binary_cross_entropy, (torch.tensor([0.0, 1.0]), torch.tensor([1.0, 0.0]))),
    Case("bce weights", lambda x, y, w: F.binary_cross_entropy_with_logits(x, y, w, pos_weight=w), (X, P, WEIGHT)),
    Case("smooth_l1 beta 0", lambda x, y: F.smooth_l1_loss(x, y, beta=0.0), (X, Y)),
    Case("huber delta", lambda x, y: F.huber_loss(x, y, delta=0.3), (X, Y)),
    Case("nll weights", lambda x, y, w: F.nll_loss(x, y, w), (X, CLASS, WEIGHT)),
    Case("nll ignore", lambda x, y: F.nll_loss(x, y, ignore_index=2), (X, CLASS.clamp(min=0))),
    Case("nll all ignored", F.nll_loss, (X, torch.full((4,), -100))),
    Case("nll 2d", lambda x, y: F.nll_loss(x.log_softmax(1), y), (IMAGE, LABELS), decomposed=True),
    Case("cross entropy 2d", F.cross_entropy, (IMAGE, LABELS), decomposed=True),
    Case("cross entropy options", lambda x, y, w: F.cross_entropy(x, y, w, label_smoothing=0.1), (X, CLASS, WEIGHT)),
    Case("cross entropy probabilities", F.cross_entropy, (X, P)),
    Case("cross entropy half", F.cross_entropy, (X.half(), CLASS)),
    *(Case(f"linear cross entropy {r}", lambda x, m, y, b, w, r=r: chunked(x, m, y, linear_bias=b, weight=w, reduction=r), (X, MATRIX, CLASS, BIAS, torch.rand(6)))
      for r in ("none", "mean", "sum")),
    Case("linear cross entropy without bias", lambda x, m, y: chunked(x, m, y, ignore_index=2), (X, MATRIX, CLASS.clamp(min=0))),
    Case("linear cross entropy half", lambda x, m, y: (chunked(x, m, y), chunked(x, m, y, reduction="none")), (X.half(), MATRIX.half(), CLASS), tolerance=(2e-3, 1e-3)),
    Case("linear cross entropy all ignored", lambda x, m, y: (chunked(x, m, y), chunked(x, m, y, reduction="sum")), (X, MATRIX, CLASS * 0 - 100)),
    Case("linear cross entropy of one", lambda x, m, y: chunked(x, m, y), (X[0], MATRIX, CLASS[1])),
    Case("kl_div log target", lambda x, y: F.kl_div(x, y, reduction="batchmean", log_target=True), (X, Y)),
    Case("cosine similarity", lambda x, y: F.cosine_similarity(x, y, dim=-1), (X, Y)),
    Case("cosine similarity zero", lambda x, y: F.cosine_similarity(x, y, dim=0), (X * 0, Y)),
    Case("cosine embedding", F.cosine_embedding_loss, (X, Y, SIGN[:, 0])),
    Case("margin ranking", lambda x, y, s: F.margin_ranking_loss(x, y, s, margin=0.1), (X, Y, SIGN)),
    Case("triplet", F.triplet_margin_loss, (X, Y, P)),
    Case("poisson full", lambda x, y: F.poisson_nll_loss(x, y * 5, full=True), (X, P)),
]  # fmt: skip


@params(CASES)
def test_loss(case, tmp_path):
    check(case, tmp_path)
