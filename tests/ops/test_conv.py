"""Convolutions and transposed convolutions."""

import itertools

import mlx.core as mx
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from mlxify.ops.conv import conv

from .harness import Case, check, params

torch.manual_seed(0)
HALVES = (torch.float16, torch.bfloat16)
# Sums of dozens of products in another order: float32 errors of 1e-5 where terms cancel.
SUM = (1e-4, 1e-5)
# Halves are rounded once, PyTorch rounds before it adds the bias in some of its kernels.
# Its transposed convolutions of halves add up in halves: errors up to 1e-2 in float16, and eight times that in
# bfloat16, which has three bits less.
HALF = {torch.float16: (2e-3, 5e-3), torch.bfloat16: (1.6e-2, 1.6e-2)}
CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
SIZES = {1: (11,), 2: (9, 7), 3: (6, 5, 4)}


def data(rank, *, n=2, c=4, m=6, k=3, groups=1, transposed=False, dtype=torch.float32, size=None):
    """Input, weight and bias."""
    kernel = (k,) * rank if isinstance(k, int) else k
    shape = (c, m // groups, *kernel) if transposed else (m, c // groups, *kernel)
    x, weight, bias = torch.randn(n, c, *(size or SIZES[rank])), torch.randn(shape), torch.randn(m)
    if not dtype.is_floating_point and not dtype.is_complex:
        return tuple((t * 5).to(dtype) for t in (x, weight, bias))
    return tuple(t.to(dtype) for t in (x, weight, bias))


def case(name, fn, args, tolerance=SUM, **options):
    return Case(name, fn, args, tolerance=tolerance, **options)


def conv_case(rank, name, transposed=False, dtype=torch.float32, c=4, m=6, k=3, groups=1, **options):
    """One row of the plain op with keyword arguments."""
    fn = (TRANSPOSED if transposed else CONV)[rank]
    args = data(rank, c=c, m=m, k=k, groups=groups, transposed=transposed, dtype=dtype)
    tolerance = HALF.get(dtype, SUM)
    if transposed and dtype == torch.bfloat16:
        tolerance = (1.6e-2, 8e-2)
    return case(
        name,
        lambda x, w, b: fn(x, w, b, groups=groups, **options),
        args,
        tolerance,
        decomposed=not dtype.is_complex,
    )


OPTIONS = [
    {},
    {"stride": 2},
    {"padding": 1, "dilation": 2},
    {"stride": 2, "padding": 2, "dilation": 2, "groups": 2},
    {"groups": 2, "padding": 1},
]
TRANSPOSED_OPTIONS = [
    *OPTIONS,
    {"stride": 2, "output_padding": 1},
    {"stride": 3, "padding": 1, "output_padding": 2, "groups": 2},
    {"stride": 3, "padding": 2, "output_padding": 2, "dilation": 3, "groups": 2},
    {"k": 2, "stride": 2},
    {"k": 2, "stride": 4, "padding": 1},
    {"k": 5, "stride": 2, "padding": 4},
]


def label(options):
    return " ".join(f"{k}={v}" for k, v in options.items())


CASES = [
    *(conv_case(r, f"conv{r}d {label(o)}", **o) for r in (1, 2, 3) for o in OPTIONS),
    *(
        conv_case(r, f"conv_transpose{r}d {label(o)}", transposed=True, **o)
        for r in (1, 2, 3)
        for o in TRANSPOSED_OPTIONS
    ),
    *(
        conv_case(2, f"{'transposed ' * t}{str(d)[6:]} groups={g}", transposed=t, dtype=d, groups=g, padding=1, stride=2)
        for t, d, g in itertools.product((False, True), (*HALVES, torch.float64, torch.complex64, torch.int64), (1, 2))
    ),
    *(
        conv_case(r, f"conv{r}d {str(d)[6:]}", dtype=d, groups=2, padding=1, stride=2)
        for r in (1, 3)
        for d in (torch.uint8, torch.int8, torch.int32, torch.int64, torch.float64, torch.float16)
    ),
    conv_case(3, "transposed, cut and dilated", True, k=(4, 3, 1), stride=2, padding=1, output_padding=1, dilation=(2, 3, 2)),
    conv_case(3, "conv_transpose3d int64", transposed=True, dtype=torch.int64, stride=2, dilation=2),
    # Depthwise: as many groups as channels, and with several kernels a channel.
    *(conv_case(r, f"depthwise {r}d", c=4, m=4, groups=4, stride=2, padding=1) for r in (1, 2, 3)),
    *(conv_case(r, f"depthwise multiplier {r}d", c=4, m=8, groups=4, padding=1, dilation=2) for r in (1, 2, 3)),
    *(
        conv_case(r, f"depthwise transposed {r}d", True, c=4, m=4, groups=4, stride=2, padding=1, output_padding=1)
        for r in (1, 2, 3)
    ),
    conv_case(2, "depthwise half", dtype=torch.float16, c=4, m=4, groups=4, padding=1),
    conv_case(2, "depthwise large kernel", c=4, m=4, groups=4, k=9, padding=4),
    conv_case(2, "kernel 1x1", k=1),
    conv_case(2, "asymmetric arguments", k=(2, 3), stride=(2, 1), padding=(0, 2), dilation=(1, 2)),
    conv_case(3, "asymmetric arguments 3d", k=(1, 3, 2), stride=(1, 2, 1), padding=(0, 2, 1)),
    conv_case(2, "padding valid", padding="valid", stride=2),
    *(conv_case(r, f"padding same even kernel {r}d", k=4, padding="same", dilation=3) for r in (1, 2, 3)),
    case("one-element lists", lambda x, w: F.conv2d(x, w, None, [2], [1], [1]), data(2)[:2], decomposed=True),
    case("no bias", lambda x, w: F.conv1d(x, w), data(1)[:2]),
    *(
        case(f"unbatched {r}d", lambda x, w, b, f=CONV[r]: f(x[0], w, b), data(r), decomposed=True)
        for r in (1, 2, 3)
    ),
    *(
        case(f"unbatched transposed {r}d", lambda x, w, b, f=TRANSPOSED[r]: f(x[0], w, b), data(r, transposed=True))
        for r in (1, 2, 3)
    ),
    case("strided input", lambda x, w: F.conv2d(x[:, :, ::2].transpose(2, 3), w), data(2, size=(9, 6))[:2]),
    case("empty batch", lambda x, w, b: F.conv2d(x[:0], w, b), data(2)),
    case("empty batch transposed", lambda x, w, b: F.conv_transpose2d(x[:0], w, b), data(2, transposed=True)),
    case("computed weight", lambda x, w: F.conv1d(x, w / w.norm(dim=(1, 2), keepdim=True)), data(1)[:2]),
    case(
        "_convolution",
        lambda x, w, b: torch._convolution(x, w, b, [2], [1], [1], False, [0], 1, False, False, False, False),
        data(1),
    ),
    case("conv_tbc", lambda x, w, b: torch.conv_tbc(x, w, b, 1), (torch.randn(7, 2, 4), torch.randn(3, 4, 5), torch.randn(5))),
]  # fmt: skip


class Shared(nn.Module):
    """One weight serves a convolution and a transposed one."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4, 3))

    def forward(self, x):
        return F.conv1d(x, self.weight), F.conv_transpose1d(x, self.weight)


class Frames(nn.Module):
    """The synthesis half of a short-time transform: a kernel of 4 hops, in one dimension."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.ConvTranspose1d(3, 2, 1024, stride=256, bias=False)

    def forward(self, x):
        return self.up(x)


DYNAMIC = [
    case("shared weight", Shared(), (torch.randn(2, 4, 9),)),
    case("large stride transposed", Frames(), (torch.randn(1, 3, 40),), compiled=True),
    case(
        "mobile block",
        nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1),
            nn.Conv2d(8, 8, 3, padding=1, groups=8),
            nn.Conv2d(8, 4, 1),
        ),
        (torch.randn(2, 3, 12, 10),),
        dynamic=({0: Dim("n", min=1, max=64), 2: Dim("h", min=5, max=256), 3: Dim("w", min=5, max=256)},),
        also=((torch.randn(1, 3, 5, 5),), (torch.randn(3, 3, 31, 18),), (torch.randn(64, 3, 5, 7),)),
        compiled=True,
    ),
    *(
        case(
            f"dynamic transposed {name}",
            module,
            (torch.randn(2, 4, 8),),
            dynamic=({0: Dim("n", min=1, max=64), 2: Dim("t", min=1, max=4096)},),
            also=((torch.randn(1, 4, 1),), (torch.randn(3, 4, 33),), (torch.randn(1, 4, 4096),)),
        )
        for name, module in [
            ("overlap", nn.ConvTranspose1d(4, 6, 7, stride=3, padding=2, output_padding=1, groups=2)),
            ("depthwise", nn.ConvTranspose1d(4, 4, 3, stride=2, padding=1, output_padding=1, groups=4)),
            ("dilated", nn.ConvTranspose1d(4, 6, 3, stride=2, dilation=2)),
        ]
    ),
    case(
        "dynamic 3d groups",
        nn.Conv3d(4, 4, 3, padding=1, groups=2),
        (torch.randn(1, 4, 5, 6, 7),),
        dynamic=({2: Dim("d", min=2, max=64), 3: Dim("h", min=2, max=64)},),
        also=((torch.randn(1, 4, 2, 2, 7),), (torch.randn(1, 4, 9, 64, 7),)),
    ),
    case(
        "dynamic same",
        nn.Conv1d(4, 4, 4, padding="same", dilation=2),
        (torch.randn(1, 4, 9),),
        dynamic=({2: Dim("t", min=2, max=512)},),
        also=((torch.randn(1, 4, 2),), (torch.randn(1, 4, 512),)),
    ),
]


@params(CASES)
def test_conv(case, tmp_path):
    check(case, tmp_path)


@params(DYNAMIC)
def test_conv_modules(case, tmp_path):
    check(case, tmp_path)


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_padding_modes(mode, tmp_path):
    module = nn.Conv2d(3, 4, 3, padding=(1, 2), padding_mode=mode)
    check(case(mode, module, (torch.randn(2, 3, 6, 5),)), tmp_path)


@pytest.mark.parametrize("groups, rank", [(1, 1), (1, 2), (2, 2), (4, 2), (2, 3)])
def test_negative_padding(groups, rank):
    """The instruction cuts: PyTorch has no negative padding."""
    x, weight, _ = data(rank, c=4, m=4, groups=groups)
    first, last = [1, -1, 0][:rank], [-2, 2, -1][:rank]
    widths = [n for a, b in zip(reversed(first), reversed(last), strict=True) for n in (a, b)]
    expected = CONV[rank](F.pad(x, widths), weight, groups=groups)
    axes = [0, *range(2, rank + 2), 1]
    arrays = [mx.array(t.permute(axes).contiguous().numpy()) for t in (x, weight)]
    actual = conv(*arrays, None, [1] * rank, first, last, [1] * rank, groups)
    torch.testing.assert_close(
        torch.tensor(actual.tolist()), expected.permute(0, *axes[1:]), rtol=1e-4, atol=1e-5
    )
