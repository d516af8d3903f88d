"""Resizing by interpolation."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from .harness import Case, check, params
from .values import HALVES, INF, NAN

torch.manual_seed(0)
SIZES = {1: (7,), 2: (5, 6), 3: (3, 4, 5)}
LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}
# Exact index rules: sizes that grow and shrink, scales whose product is no whole number, and that differ from n / m.
TARGETS = [
    {"size": 4},
    {"size": 13},
    {"scale_factor": 2},
    {"scale_factor": 4.0},
    {"scale_factor": 3.0},
    {"scale_factor": 2.5},
    {"scale_factor": 1.3},
    {"scale_factor": 0.5},
    {"scale_factor": 0.7},
    {"scale_factor": 1.3, "recompute_scale_factor": True},
]


def image(rank, dtype=torch.float32, channels=3):
    x = torch.randn(2, channels, *SIZES[rank])
    return (x.abs() * 80).clamp(0, 255).to(dtype) if dtype == torch.uint8 else x.to(dtype)


# Cubic weights have float32 errors of 1e-7 and cancel.
CUBIC = {torch.float32: (1e-5, 1e-5)}


def every(name, rank, mode, x=None, targets=TARGETS, **options):
    """One row: all targets in one mode."""
    dtype = torch.float32 if x is None else x.dtype
    return Case(
        name,
        lambda x: [F.interpolate(x, mode=mode, **t, **options) for t in targets],
        (image(rank) if x is None else x,),
        tolerance=CUBIC.get(dtype) if mode == "bicubic" else None,
    )


def large():
    """Height plus width above 128, where PyTorch's index rule for odd scales is another one."""
    return torch.arange(3 * 65 * 64.0).reshape(1, 3, 65, 64)


CASES = [
    *(every(f"{mode} {r}d", r, mode) for r in (1, 2, 3) for mode in ("nearest", "nearest-exact")),
    *(every(f"linear {r}d corners={c}", r, LINEAR[r], align_corners=c) for r in (1, 2, 3) for c in (False, True)),
    *(every(f"bicubic corners={c}", 2, "bicubic", align_corners=c) for c in (False, True)),
    *(
        every(f"{mode} antialias corners={c}", 2, mode, align_corners=c, antialias=True)
        for mode in ("bilinear", "bicubic")
        for c in (False, True)
    ),
    every("lanczos", 2, "lanczos", antialias=True),
    *(every(f"area {r}d", r, "area", targets=TARGETS[:3]) for r in (1, 2, 3)),
    *(
        every(f"uint8 {mode} channels={c} antialias={a}", 2, mode, image(2, torch.uint8, c), antialias=a)
        for c in (3, 5)
        for mode, a in [("nearest", False), ("bilinear", False), ("bicubic", False), ("bilinear", True), ("bicubic", True)]
    ),
    every("uint8 nearest 1d", 1, "nearest", image(1, torch.uint8)),
    *(
        every(f"{str(d)[6:]} {mode}", 2, mode, image(2, d))
        for d in (*HALVES, torch.float64)
        for mode in ("nearest", "bilinear", "bicubic")
    ),
    *(
        every(f"{str(d)[6:]} linear {r}d corners={c}", r, LINEAR[r], x.to(d), align_corners=c)
        for d in HALVES
        for c in (False, True)
        for r, x in ((1, image(1)), (2, torch.randn(1, 2, 50, 40)), (3, image(3)))
    ),
    every("float64 antialias", 2, "bicubic", image(2, torch.float64), antialias=True),
    every("nearest odd scales, large", 2, "nearest", large(), [{"scale_factor": (s, t)} for s, t in [(1.01, 2.02), (2.01, 1.0)]]),
    every("nearest odd scales, small", 2, "nearest", large()[:, :, :5, :4], [{"scale_factor": s} for s in (1.1, 2.2)]),
    every("nearest odd scales 1d", 1, "nearest", large()[0, :, :5], [{"scale_factor": s} for s in (1.1, 2.2)]),
    every("different axes", 2, "bilinear", None, [{"size": (7, 4)}, {"scale_factor": (2, 0.5)}, {"size": (5, 9)}]),
    every("nearest size", 2, "nearest", None, [{"size": (7, 4)}, {"scale_factor": (2, 1.5)}]),
    every("shrunk far", 2, "bilinear", torch.randn(1, 2, 70, 50), [{"size": (3, 2)}], antialias=True),
    every("one element", 2, "bilinear", image(2)[:, :, :1, :1], [{"size": (3, 4)}, {"scale_factor": 2}]),
    every("one element bicubic", 2, "bicubic", image(2)[:, :, :1, :2], [{"size": (3, 4)}, {"size": (1, 1)}], align_corners=True),
    every("infinities", 2, "bilinear", torch.tensor([[[[1, INF, 2, NAN, 3, 4], [0, 1, 2, 3, -INF, 5]]]]), TARGETS[:5]),
    Case("empty batch", lambda x: F.interpolate(x[:0], scale_factor=2, mode="bilinear"), (image(2),)),
    Case("strided input", lambda x: F.interpolate(x.transpose(2, 3)[:, :, ::2], scale_factor=2), (image(2),), decomposed=True),
    Case("decomposed", lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (image(2),), decomposed=True),
    Case(
        "default overloads",
        lambda x: (
            torch.ops.aten.upsample_nearest2d(x, [9, 12]),
            torch.ops.aten.upsample_nearest2d(x, [10, 12], 2.0, 2.0),
            torch.ops.aten.upsample_bilinear2d(x, [9, 12], True, None, 2.0),
            torch.ops.aten.upsample_bicubic2d(x, [9, 12], False),
            torch.ops.aten._upsample_bilinear2d_aa(x, [3, 4], False, 0.6, 0.7),
            torch.ops.aten._upsample_nearest_exact2d(x, [9, 4]),
        ),
        (image(2),),
    ),
]  # fmt: skip

HW = {2: Dim("h", min=2, max=64), 3: Dim("w", min=2, max=64)}


class Resizes(nn.Module):
    def __init__(self, **options) -> None:
        super().__init__()
        self.options = options

    def forward(self, x):
        return F.interpolate(x, **self.options)


class Like(nn.Module):
    """A feature map brought to the size of another one, as in a feature pyramid."""

    def forward(self, x, y):
        return y + F.interpolate(x, size=y.shape[2:], mode="bilinear", align_corners=True)


DYNAMIC = [
    *(
        Case(
            f"dynamic {name}",
            Resizes(**options),
            (torch.randn(2, 3, 6, 5),),
            dynamic=({0: Dim("n", min=1, max=8), **HW},),
            also=((torch.randn(1, 3, 2, 2),), (torch.randn(8, 3, 7, 64),), (torch.randn(3, 3, 64, 9),)),
            compiled=compiled,
            tolerance=CUBIC[torch.float32] if "bicubic" in name else None,
        )
        for name, options, compiled in [
            ("nearest", {"scale_factor": 2.0}, True),
            ("nearest fraction", {"scale_factor": 1.5}, False),
            ("bilinear", {"scale_factor": 2.0, "mode": "bilinear"}, True),
            ("bilinear fraction", {"scale_factor": 1.5, "mode": "bilinear"}, False),
            ("bicubic to a size", {"size": (7, 9), "mode": "bicubic"}, False),
            ("antialias to a size", {"size": (7, 9), "mode": "bilinear", "antialias": True}, False),
        ]
    ),
    Case(
        "dynamic size of another",
        Like(),
        (torch.randn(1, 3, 4, 5), torch.randn(1, 3, 9, 11)),
        dynamic=({2: Dim("a", min=2, max=64)}, {2: Dim("h", min=2, max=64), 3: Dim("w", min=2, max=64)}),
        also=(
            (torch.randn(1, 3, 2, 5), torch.randn(1, 3, 64, 2)),
            (torch.randn(1, 3, 64, 5), torch.randn(1, 3, 2, 64)),
        ),
    ),
]


@params(CASES)
def test_upsample(case, tmp_path):
    check(case, tmp_path)


@params(DYNAMIC)
def test_dynamic(case, tmp_path):
    check(case, tmp_path)


@pytest.mark.parametrize("channels, groups", [(4, 4), (8, 4), (4, 1)])
def test_unet_block(channels, groups, tmp_path):
    """Conv, GroupNorm, SiLU and nearest upsampling, three times, at odd sizes too."""
    block = lambda: [
        nn.Conv2d(channels, channels, 3, padding=1),
        nn.GroupNorm(groups, channels),
        nn.SiLU(),
        nn.Upsample(scale_factor=2, mode="nearest"),
    ]
    module = nn.Sequential(*block(), *block(), *block(), nn.Conv2d(channels, 3, 3, padding=1))
    case = Case(
        "unet",
        module,
        (torch.randn(2, channels, 6, 8),),
        tolerance=(1e-4, 1e-5),  # four convolutions and three norms, each a sum of dozens of terms
        dynamic=({0: Dim("n", min=1, max=8), **HW},),
        also=((torch.randn(1, channels, 5, 7),), (torch.randn(3, channels, 2, 11),)),
    )
    check(case, tmp_path)
