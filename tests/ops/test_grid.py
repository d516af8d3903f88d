"""grid_sample and affine_grid."""

import itertools

import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from .harness import Case, check, params
from .values import HALVES, INF, NAN

torch.manual_seed(0)
X = {2: torch.randn(2, 3, 5, 6), 3: torch.randn(2, 3, 4, 5, 6)}
# Well outside too, and at the edges and the middles between elements exactly.
GRID = {2: torch.randn(2, 7, 4, 2) * 1.5, 3: torch.randn(2, 3, 4, 5, 3) * 1.5}
EDGES = torch.tensor([-3.0, -1.2, -1.0, -0.8, -0.5, 0.0, 0.2, 0.5, 1.0, 1.1, 2.9])
EDGE_GRID = torch.stack(torch.meshgrid(EDGES, EDGES, indexing="xy"), -1)[None]
# Weights have float32 errors of 1e-7 times the size, and up to 16 of them cancel.
SUM = (1e-4, 1e-5)


def sample(modes, **options):
    """All modes with all paddings and alignments."""

    def run(x, grid):
        return [
            F.grid_sample(x, grid, mode=m, padding_mode=p, align_corners=a, **options)
            for m, p, a in itertools.product(modes, ("zeros", "border", "reflection"), (False, True))
        ]

    return run


MODES = {2: ("bilinear", "nearest", "bicubic"), 3: ("bilinear", "nearest")}

CASES = [
    *(Case(f"grid_sample {r}d", sample(MODES[r]), (X[r], GRID[r]), tolerance=SUM, decomposed=True) for r in (2, 3)),
    Case("edges", sample(("bilinear", "bicubic")), (X[2][:1], EDGE_GRID), tolerance=SUM),
    Case("one element", sample(MODES[2]), (X[2][:1, :, :1, :1], EDGE_GRID), tolerance=SUM),
    Case("far away", sample(MODES[2]), (X[2][:1], torch.tensor([[[[1e9, 0], [0, -1e9], [1e5, 2e5]]]])), tolerance=(1e-2, 1e-2)),
    Case(
        "infinite image",
        sample(("bilinear", "nearest")),
        (torch.tensor([[[[1, INF, 2], [NAN, 3, 4], [5, 6, -INF]]]]), GRID[2][:1]),
    ),
    Case("no place", sample(("bilinear",)), (X[2][:1], torch.tensor([[[[NAN, 0], [0.5, NAN], [0, 0.25]]]]))),
    Case("float64", sample(MODES[2]), (X[2].double(), GRID[2].double()), tolerance=(1e-6, 1e-7)),
    *(
        Case(f"{str(d)[6:]}", sample(MODES[2]), (X[2].to(d), GRID[2].to(d)), tolerance=(t, t))
        for d, t in zip(HALVES, (4e-3, 3e-2), strict=True)  # PyTorch interpolates halves in half precision
    ),
    Case("empty grid", lambda x, g: F.grid_sample(x, g[:, :0], align_corners=False), (X[2], GRID[2])),
    Case("strided", lambda x, g: F.grid_sample(x.transpose(2, 3), g.flip(1), align_corners=True), (X[2], GRID[2]), tolerance=SUM),
    *(
        Case(
            f"affine_grid {r}d",
            lambda theta, r=r: [F.affine_grid(theta, s, align_corners=a) for s in (X[r].shape, X[r][..., :1].shape) for a in (False, True)],
            (torch.randn(2, r, r + 1),),
        )
        for r in (2, 3)
    ),
]  # fmt: skip


class Warp(nn.Module):
    """Two fixed maps and a computed one (F.affine_grid itself fixes sizes while it is exported)."""

    def forward(self, x, grid):
        mixed = grid * 0.5 + 0.1
        return F.grid_sample(x, grid, align_corners=False), F.grid_sample(x, mixed, "nearest", "border", True)


N, H, W = Dim("n", min=1, max=8), Dim("h", min=2, max=64), Dim("w", min=2, max=64)
DYNAMIC = [
    Case(
        "dynamic",
        Warp(),
        (X[2], GRID[2]),
        tolerance=(1e-3, 1e-4),  # places have errors of 1e-7 times a size of 64
        dynamic=({0: N, 2: H, 3: W}, {0: N, 1: Dim("a", min=2, max=64)}),
        also=(
            (torch.randn(1, 3, 2, 2), torch.randn(1, 2, 4, 2)),
            (torch.randn(8, 3, 64, 3), torch.randn(8, 64, 4, 2)),
            (torch.randn(3, 3, 7, 64), torch.randn(3, 9, 4, 2)),
        ),
        compiled=True,
    ),
]


@params([*CASES, *DYNAMIC])
def test_grid(case, tmp_path):
    check(case, tmp_path)
