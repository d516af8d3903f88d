"""im2col, col2im and windows along an axis."""

import itertools

import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from .harness import Case, check, params
from .values import HALVES

torch.manual_seed(0)
X = torch.randn(2, 3, 9, 8)
OPTIONS = [
    {"kernel_size": k, "stride": s, "padding": p, "dilation": d}
    for k, s, p, d in itertools.product([2, (3, 2)], [1, (2, 3)], [0, (1, 2)], [1, (2, 1)])
]


def unfolds(x):
    return [F.unfold(x, **o) for o in OPTIONS]


def folds(x):
    """What fold makes of the columns of every unfold: each element times the number of windows that hold it."""
    return [F.fold(F.unfold(x, **o) * 0.5, x.shape[2:], **o) for o in OPTIONS]


CASES = [
    Case("unfold", unfolds, (X,), decomposed=True),
    Case("fold", folds, (X,), decomposed=True),
    Case("fold overlapping often", lambda x: F.fold(x, (1, 12), (1, 9)), (torch.randn(2, 27, 4),)),
    Case("fold gaps", lambda x: F.fold(x, (7, 8), 2, stride=3), (torch.randn(2, 12, 6),)),
    Case("fold dilated gaps", lambda x: F.fold(x, (7, 8), 2, stride=4, dilation=3), (torch.randn(2, 12, 2),)),
    Case("unbatched", lambda x: (F.unfold(x[0], 3), F.fold(F.unfold(x[0], 3), (9, 8), 3)), (X,)),
    *(Case(f"unfold {str(d)[6:]}", unfolds, (X.to(d),)) for d in (*HALVES, torch.float64, torch.bool)),
    # PyTorch adds halves up in half precision.
    *(Case(f"fold {str(d)[6:]}", folds, (X.to(d),), tolerance=(1e-2, t)) for d, t in zip(HALVES, (5e-3, 5e-2), strict=True)),
    Case("fold float64", folds, (X.double(),)),
    Case("empty batch", lambda x: F.unfold(x[:0], 3), (X,)),
    Case("tensor unfold", lambda x: (x.unfold(3, 3, 2), x.unfold(-2, 4, 1), x[0, 0, 0].unfold(0, 2, 2)), (X,)),
    Case("strided input", lambda x: F.unfold(x.transpose(2, 3)[:, :, ::2], 2), (X,)),
]  # fmt: skip


class Patches(nn.Module):
    """Patches of an image, changed, and put together again."""

    def forward(self, x):
        patches = F.unfold(x, (2, 2), stride=2)
        return patches, F.fold(patches * 2, x.shape[2:], (2, 2), stride=2)


DYNAMIC = [
    Case(
        "dynamic",
        Patches(),
        (torch.randn(2, 3, 8, 6),),
        dynamic=(
            {0: Dim("n", min=1, max=8), 2: 2 * Dim("h", min=2, max=32), 3: 2 * Dim("w", min=2, max=32)},
        ),
        also=((torch.randn(1, 3, 4, 4),), (torch.randn(8, 3, 64, 10),), (torch.randn(3, 3, 12, 64),)),
        compiled=True,
    ),
]


@params([*CASES, *DYNAMIC])
def test_patches(case, tmp_path):
    check(case, tmp_path)
