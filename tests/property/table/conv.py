"""Convolutions, pools, resizing, sampling, patches: every argument."""

import math
from typing import Any

import torch
from hypothesis import strategies as st
from torch.nn import functional as F

from ..runner import Row
from ..strategies import FLOATS, SINGLE, of_shape, shapes, some, tensors

HALF = (torch.float32, torch.float16)


@st.composite
def each(draw: st.DrawFn, count: int, low: int, high: int) -> Any:
    """One number for all axes, or one for each."""
    if draw(st.booleans()):
        return draw(st.integers(low, high))
    return [draw(st.integers(low, high)) for _ in range(count)]


def spread(value: Any, count: int) -> list[int]:
    return [value] * count if isinstance(value, int) else list(value)


@st.composite
def convolved(draw: st.DrawFn, rank: int, transposed: bool = False) -> Any:
    """(x, weight, bias, stride, padding, …, groups, dilation); batched or not, kernels up to the padded size."""
    groups = draw(st.sampled_from([1, 1, 2, 3]))
    inner, outer = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    kernel = [draw(st.integers(1, 3)) for _ in range(rank)]
    dilation = draw(each(rank, 1, 2))
    padding = draw(each(rank, 0, 2))
    reach = [d * (k - 1) + 1 for d, k in zip(spread(dilation, rank), kernel, strict=True)]
    sizes = [draw(st.integers(1, 5)) for _ in range(rank)]
    if not transposed:
        sizes = [max(n, r - 2 * p) for n, r, p in zip(sizes, reach, spread(padding, rank), strict=True)]
    batch = [] if draw(st.integers(0, 3)) == 0 else [draw(st.integers(0, 2))]
    dtype = draw(st.sampled_from(HALF if rank < 3 else SINGLE))
    x = draw(of_shape([*batch, groups * inner, *sizes], dtype, "small"))
    first, second = (groups * inner, outer) if transposed else (groups * outer, inner)
    weight = draw(of_shape([first, second, *kernel], dtype, "small"))
    bias = draw(of_shape([groups * outer], dtype, "small")) if draw(st.booleans()) else None
    stride = draw(each(rank, 1, 3))
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    if transposed:
        most = [max(s, d) - 1 for s, d in zip(spread(stride, rank), spread(dilation, rank), strict=True)]
        options["output_padding"] = [draw(st.integers(0, m)) for m in most]
    return (x, weight, bias), options


@st.composite
def same_convolved(draw: st.DrawFn) -> Any:
    """A convolution whose padding is a word."""
    x = draw(of_shape([1, 2, draw(st.integers(3, 6)), draw(st.integers(3, 6))], torch.float32, "small"))
    kernel = [draw(st.integers(1, 3)), draw(st.integers(1, 3))]
    weight = draw(of_shape([2, 2, *kernel], torch.float32, "small"))
    return (x, weight), {
        "padding": draw(st.sampled_from(["same", "valid"])),
        "dilation": draw(st.integers(1, 2)),
    }


@st.composite
def pooled(draw: st.DrawFn, rank: int, average: bool = False, kind: str = "small") -> Any:
    """(x, kernel, stride, padding, …) of a pool."""
    kernel = draw(each(rank, 1, 3))
    wide = spread(kernel, rank)
    padding = [draw(st.integers(0, k // 2)) for k in wide]
    dilation = [1] * rank if average else [draw(st.integers(1, 2)) for _ in range(rank)]
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, wide, strict=True)]
    # at least the dilation: where a window holds nothing but padding, PyTorch's indices lie outside
    sizes = [
        max(draw(st.integers(1, 6)), r - 2 * p, d) for r, p, d in zip(reach, padding, dilation, strict=True)
    ]
    batch = [] if draw(st.integers(0, 3)) == 0 else [draw(st.integers(1, 2))]
    dtypes = SINGLE if average and rank == 3 else HALF
    x = draw(of_shape([*batch, draw(st.integers(1, 2)), *sizes], draw(st.sampled_from(dtypes)), kind))
    options = draw(some(stride=each(rank, 1, 3), ceil_mode=st.booleans()))
    options["padding"] = padding
    if average:
        options |= draw(
            some(count_include_pad=st.booleans(), **({"divisor_override": [1, 3]} if rank > 1 else {}))
        )
    else:
        options["dilation"] = dilation
    return (x, kernel), options


@st.composite
def adapted(draw: st.DrawFn, rank: int) -> Any:
    x = draw(
        tensors(
            HALF, st.integers(1, 2).flatmap(lambda n: st.tuples(*[st.integers(1, 5)] * (rank + n))), "small"
        )
    )
    if draw(st.booleans()):
        return (x, draw(st.integers(1, 4))), {}
    size = st.integers(1, 4) if rank == 1 else st.one_of(st.none(), st.integers(1, 4))
    return (x, [draw(size) for _ in range(rank)]), {}


@st.composite
def resized(draw: st.DrawFn) -> Any:
    """Every mode of interpolate, by size or by factor."""
    mode, rank = draw(
        st.sampled_from(
            [("nearest", 1), ("nearest", 2), ("nearest", 3), ("nearest-exact", 1), ("nearest-exact", 2),
             ("linear", 1), ("bilinear", 2), ("trilinear", 3), ("bicubic", 2), ("area", 2)]
        )
    )  # fmt: skip
    shape = [
        draw(st.integers(1, 2)),
        draw(st.integers(1, 2)),
        *(draw(st.integers(1, 5)) for _ in range(rank)),
    ]
    x = draw(of_shape(shape, draw(st.sampled_from((torch.float32, torch.float64))), "small"))
    options: dict[str, Any] = {"mode": mode}
    if draw(st.booleans()):
        options["size"] = [draw(st.integers(1, 7)) for _ in range(rank)]
    else:
        options["scale_factor"] = [draw(st.sampled_from([0.5, 1.0, 1.5, 2.0, 2.3])) for _ in range(rank)]
        if mode != "area":
            options |= draw(some(recompute_scale_factor=st.booleans()))
    if "linear" in mode or mode == "bicubic":
        options |= draw(some(align_corners=st.booleans()))
    if mode in ("bilinear", "bicubic"):
        options |= draw(some(antialias=st.booleans()))
    return (x,), options


@st.composite
def sampled(draw: st.DrawFn) -> Any:
    """(x, grid) of grid_sample. The grid's numbers lie between the steps where rounding decides."""
    n, c, h, w = draw(st.tuples(*[st.integers(1, 3)] * 4))
    x = draw(of_shape([n, c, h, w], torch.float32, "small"))
    place = st.integers(-16, 16).map(lambda i: i / 11 + 0.003)
    grid = draw(of_shape([n, draw(st.integers(1, 2)), draw(st.integers(1, 3)), 2], torch.float32, place))
    options = some(mode=["bilinear", "nearest", "bicubic"], padding_mode=["zeros", "border", "reflection"])
    return (x, grid), {"align_corners": draw(st.booleans()), **draw(options)}


@st.composite
def unfolded(draw: st.DrawFn) -> Any:
    """(x, kernel, …) of F.unfold."""
    kernel, dilation, padding = draw(each(2, 1, 2)), draw(st.integers(1, 2)), draw(st.integers(0, 1))
    sizes = [draw(st.integers(3, 5)), draw(st.integers(3, 5))]
    batch = [draw(st.integers(1, 2))] if draw(st.booleans()) else []
    x = draw(of_shape([*batch, draw(st.integers(1, 2)), *sizes], draw(st.sampled_from(FLOATS)), "small"))
    return (x, kernel), {"dilation": dilation, "padding": padding, "stride": draw(each(2, 1, 2))}


@st.composite
def folded(draw: st.DrawFn) -> Any:
    """(patches, size, kernel) of F.fold."""
    kernel, stride = draw(each(2, 1, 2)), draw(st.integers(1, 2))
    size = [draw(st.integers(2, 4)), draw(st.integers(2, 4))]
    wide = spread(kernel, 2)
    places = math.prod((n - k) // stride + 1 for n, k in zip(size, wide, strict=True))
    x = draw(of_shape([draw(st.integers(1, 2)), 2 * math.prod(wide), places], torch.float32, "small"))
    return (x, size, kernel), {"stride": stride}


RANKS = (1, 2, 3)

ROWS = [
    *[Row(f"conv{n}d", getattr(F, f"conv{n}d"), convolved(n)) for n in RANKS],
    *[Row(f"conv_transpose{n}d", getattr(F, f"conv_transpose{n}d"), convolved(n, True)) for n in RANKS],
    Row("conv2d by a word", F.conv2d, same_convolved()),
    *[Row(f"avg_pool{n}d", getattr(F, f"avg_pool{n}d"), pooled(n, True)) for n in RANKS],
    *[Row(f"max_pool{n}d", getattr(F, f"max_pool{n}d"), pooled(n, kind="special")) for n in RANKS],
    *[Row(f"max_pool{n}d indices", getattr(F, f"max_pool{n}d_with_indices"), pooled(n)) for n in RANKS],
    Row("lp_pool2d", lambda x, k, **o: F.lp_pool2d(x, 2, k), pooled(2)),
    *[Row(f"adaptive_avg_pool{n}d", getattr(F, f"adaptive_avg_pool{n}d"), adapted(n)) for n in RANKS],
    *[Row(f"adaptive_max_pool{n}d", getattr(F, f"adaptive_max_pool{n}d"), adapted(n)) for n in RANKS],
    Row("interpolate", F.interpolate, resized()),
    Row("grid_sample", F.grid_sample, sampled(), tolerance=(1e-4, 1e-4)),  # cubic weights of rounded places
    Row("affine_grid", lambda t, s, **k: F.affine_grid(t, s, **k), st.tuples(st.tuples(of_shape((2, 2, 3), torch.float32, "small"), shapes(2, 2, smallest=1).map(lambda s: [2, 1, *s])), some(align_corners=st.booleans()))),
    Row("unfold", F.unfold, unfolded()),
    Row("fold", F.fold, folded()),
]  # fmt: skip
