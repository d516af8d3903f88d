"""Max, average and adaptive pooling."""

import itertools

import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from .harness import Case, check, params
from .values import HALVES, INF, NAN

torch.manual_seed(0)
SIZES = {1: (11,), 2: (9, 10), 3: (6, 7, 5)}
MAX = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
AVG = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
ADAPTIVE_AVG = {1: F.adaptive_avg_pool1d, 2: F.adaptive_avg_pool2d, 3: F.adaptive_avg_pool3d}
ADAPTIVE_MAX = {1: F.adaptive_max_pool1d, 2: F.adaptive_max_pool2d, 3: F.adaptive_max_pool3d}


def data(rank, dtype=torch.float32, ties=False):
    x = torch.randn(2, 3, *SIZES[rank])
    if ties or not dtype.is_floating_point:
        x = (x * 3).round()
    return x.abs().to(dtype) if dtype == torch.uint8 else x.to(dtype)


def special():
    """Windows with NaNs, infinities and nothing but -inf."""
    x = (torch.randn(2, 3, 9, 10) * 3).round()
    x[0, 0, 2, 3] = x[0, 0, 3, 2] = x[0, 0, 4, 8] = NAN
    x[0, 1, :4, :4] = -INF
    x[1, 1, 5, 5] = INF
    return x


def sweep(name, options, fn, args, **more):
    """One row that runs fn with every combination of options that PyTorch accepts."""
    found = []
    for values in itertools.product(*options.values()):
        chosen = dict(zip(options, values, strict=True))
        try:
            fn(*args, **chosen)
            found.append(chosen)
        except RuntimeError:
            pass
    assert found
    return Case(name, lambda *a: [fn(*a, **chosen) for chosen in found], args, **more)


WINDOWS = {
    "kernel_size": [2, 3],
    "stride": [None, 1, 3],
    "padding": [0, 1],
    "dilation": [1, 2],
    "ceil_mode": [False, True],
}
MEANS = {
    "kernel_size": [2, 5],
    "stride": [None, 1, 3],
    "padding": [0, 1],
    "ceil_mode": [False, True],
    "count_include_pad": [False, True],
}


def avg(rank):
    return sweep(f"avg_pool{rank}d", MEANS, AVG[rank], (data(rank),))


CASES = [
    *(sweep(f"max_pool{r}d", WINDOWS, MAX[r], (data(r),)) for r in (1, 2, 3)),
    *(
        sweep(
            f"max_pool{r}d with indices",
            {**WINDOWS, "return_indices": [True], "kernel_size": [2, 3]},
            MAX[r],
            (data(r, ties=True),),
        )
        for r in (1, 2, 3)
    ),
    *(avg(r) for r in (1, 2, 3)),
    sweep("avg_pool divisor", {**MEANS, "divisor_override": [3, -2]}, F.avg_pool2d, (data(2),)),
    sweep(
        "avg_pool 7 4 3",
        {"kernel_size": [7], "stride": [4], "padding": [3], "ceil_mode": [False, True], "count_include_pad": [False, True]},
        F.avg_pool2d,
        (torch.randn(1, 2, 14, 23),),
    ),
    sweep("avg_pool int64", MEANS, F.avg_pool2d, (data(2, torch.int64),)),
    Case("different axes", lambda x: F.max_pool2d(x, (3, 2), (2, 1), (1, 0), (1, 3)), (data(2),), decomposed=True),
    Case("different axes mean", lambda x: F.avg_pool3d(x, (3, 2, 1), (2, 1, 2), (1, 0, 0)), (data(3),)),
    Case("max NaN and ties", lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), (special(),), decomposed=True),
    Case("max unpadded NaN", lambda x: F.max_pool2d(x, (2, 3), return_indices=True), (special(),)),
    Case("adaptive NaN and ties", lambda x: F.adaptive_max_pool2d(x, (4, 3), True), (special(),)),
    Case("mean NaN and infinities", lambda x: (F.avg_pool2d(x, 3, 2, 1), F.adaptive_avg_pool2d(x, (4, 3))), (special(),)),
    *(
        Case(
            f"max {str(d)[6:]}",
            lambda x: (F.max_pool2d(x, 3, 2, 1), F.max_pool2d(x, 2, return_indices=True)),
            (data(2, d),),
        )
        for d in (torch.uint8, torch.int8, torch.int32, torch.int64, *HALVES, torch.float64)
    ),
    *(
        Case(
            f"mean {str(d)[6:]}",
            lambda x: (F.avg_pool2d(x, 3, 2, 1), F.adaptive_avg_pool2d(x, (4, 3)), F.adaptive_avg_pool2d(x, 1)),
            (data(2, d),),
        )
        for d in (*HALVES, torch.float64)
    ),
    Case("half mean of large values", lambda x: F.avg_pool2d(x, 4), (torch.full((1, 1, 8, 8), 3e4).half(),)),
    Case("large window", lambda x: (F.avg_pool1d(x, 100, 7), F.max_pool1d(x, 70, 3, 35)), (torch.randn(1, 2, 211),)),
    *(
        Case(f"unbatched {r}d", lambda x, r=r: (MAX[r](x[0], 2), AVG[r](x[0], 3, 2, 1), ADAPTIVE_AVG[r](x[0], 3)), (data(r),))
        for r in (1, 2, 3)
    ),
    Case("one-element list", lambda x: (F.max_pool2d(x, [3], [2], [1]), F.avg_pool2d(x, [2])), (data(2),)),
    Case("no stride", lambda x: torch.ops.aten.max_pool2d(x, [2, 3], []), (data(2),)),
    Case("empty batch", lambda x: (F.max_pool2d(x[:0], 2), F.avg_pool2d(x[:0], 2), F.adaptive_avg_pool2d(x[:0], 3)), (data(2),)),
    Case("strided input", lambda x: F.max_pool2d(x.transpose(1, 3)[:, ::2], 2), (data(2),)),
    *(
        Case(
            f"adaptive {r}d",
            lambda x, r=r: [f(x, n) for f in (ADAPTIVE_AVG[r], ADAPTIVE_MAX[r]) for n in (1, 2, 4, 5, 13)],
            (data(r),),
            decomposed=r == 2,
        )
        for r in (1, 2, 3)
    ),
    *(
        Case(f"adaptive indices {r}d", lambda x, r=r: [ADAPTIVE_MAX[r](x, n, True) for n in (1, 2, 4, 13)], (data(r, ties=True),))
        for r in (1, 2, 3)
    ),
    Case("adaptive None", lambda x: (F.adaptive_avg_pool2d(x, (None, 3)), F.adaptive_max_pool2d(x, (2, None))), (data(2),)),
    Case("adaptive halves", lambda x: F.adaptive_max_pool2d(x, (4, 3), True), (data(2, torch.bfloat16),)),
    Case("lp_pool", lambda x: (F.lp_pool2d(x, 2, 3, 2), F.lp_pool1d(x[0], 3, 2)), (data(2).abs(),)),
    Case(
        "max_unpool",
        lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2, output_size=x.shape[2:]),
        (data(2),),
    ),
    Case(
        "max_unpool 3d unbatched",
        lambda x: F.max_unpool3d(*F.max_pool3d(x[0], 2, return_indices=True), 2, output_size=(6, 7, 5)),
        (data(3),),
    ),
]  # fmt: skip


class Pools(nn.Module):
    """Every kind of pool, one after another and beside each other."""

    def forward(self, x):
        y = F.max_pool2d(x, 3, 2, 1)
        return (
            F.avg_pool2d(y, 2, 1, 1, count_include_pad=False),
            F.max_pool2d(x, 3, 2, 1, return_indices=True),
            F.adaptive_avg_pool2d(x, 1),
            F.adaptive_avg_pool2d(x, (3, 2)),
            F.adaptive_max_pool2d(x, (2, 3), return_indices=True),
        )


DYNAMIC = [
    Case(
        "dynamic",
        Pools(),
        (torch.randn(2, 3, 16, 21),),
        dynamic=({0: Dim("n", min=1, max=32), 2: Dim("h", min=4, max=128), 3: Dim("w", min=4, max=128)},),
        also=((torch.randn(1, 3, 4, 4),), (torch.randn(3, 3, 17, 50),), (torch.randn(32, 3, 5, 128),)),
        compiled=True,
    ),
    Case(
        "dynamic 1d",
        nn.Sequential(nn.AvgPool1d(5, 2, 2, count_include_pad=False), nn.AdaptiveAvgPool1d(4)),
        (torch.randn(2, 3, 16),),
        dynamic=({0: Dim("n", min=1, max=32), 2: Dim("t", min=4, max=4096)},),
        also=((torch.randn(1, 3, 4),), (torch.randn(5, 3, 777),), (torch.randn(32, 3, 4096),)),
    ),
]


@params(CASES)
def test_pool(case, tmp_path):
    check(case, tmp_path)


@params(DYNAMIC)
def test_dynamic(case, tmp_path):
    check(case, tmp_path)
