"""Convolutions with one kernel for each channel on a CPU, where MLX's loop takes 1.5 to 5 times as long."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import reduce

import mlx.core as mx

from ..device import LARGEST, PART_OF_STEPS, on_streams, parts_of
from .patches import padded, window_view

MAX_TAPS = 64
"""Elements of a kernel, at most."""
FEW_PRODUCTS = 1 << 20
"""Products that are faster formed at once and added up, in two calls to MLX, than as a sum of shifted arrays."""


def is_depthwise(kernel: Sequence[int], groups: int) -> bool:
    """Whether `depthwise_conv` computes, on a CPU, the convolution with a kernel of this shape."""
    channels, *taps, each = kernel
    return 1 < groups == channels and each == 1 and math.prod(taps) <= MAX_TAPS


def depthwise_conv(
    x: mx.array,
    weight: mx.array,
    counts: list[int],
    stride: list[int],
    low: list[int],
    high: list[int],
    dilation: list[int],
) -> mx.array:
    """The instruction `conv` of x (n, *spatial, c) and a weight (c, *kernel, 1) without a bias: (n, *counts, c).

    In parts along the first spatial axis, which see the rows that their windows cover.
    """
    height, reach = x.shape[1], dilation[0] * (weight.shape[1] - 1) + 1
    size = x.shape[0] * math.prod(counts) * x.shape[-1]
    few = size * math.prod(weight.shape[1:-1]) <= FEW_PRODUCTS

    def rows(x: mx.array, start: int, stop: int) -> mx.array:
        first, last = start * stride[0] - low[0], (stop - 1) * stride[0] + reach - low[0]
        top, bottom = max(min(-first, last - first), 0), max(min(last - height, last - first), 0)
        covered = padded(x[:, max(first, 0) : max(last, 0)], [top, *low[1:]], [bottom, *high[1:]])
        if few:
            return _at_once(covered, weight, stride, dilation)
        return _shifted(covered, weight, [stop - start, *counts[1:]], stride, dilation)

    count = min(parts_of(size, PART_OF_STEPS, 2 * LARGEST), counts[0])
    ends = [counts[0] * i // count for i in range(count + 1)]
    return on_streams(rows, 1, [(x, start, stop) for start, stop in itertools.pairwise(ends)])


def _at_once(x: mx.array, weight: mx.array, stride: list[int], dilation: list[int]) -> mx.array:
    """All products of the windows' elements, added up."""
    kernel, axes = list(weight.shape[1:-1]), list(range(1, x.ndim - 1))
    view = mx.moveaxis(window_view(x, axes, kernel, stride, dilation), len(axes) + 1, -1)
    return mx.sum(view * mx.moveaxis(weight[..., 0], 0, -1), [axis + len(axes) for axis in axes])


def _shifted(
    x: mx.array, weight: mx.array, counts: Sequence[int], stride: list[int], dilation: list[int]
) -> mx.array:
    """The sum of x, shifted by each place of the kernel, times what lies there."""

    def tap(place: tuple[int, ...]) -> mx.array:
        starts = [k * d for k, d in zip(place, dilation, strict=True)]
        index = [slice(a, a + (n - 1) * s + 1, s) for a, n, s in zip(starts, counts, stride, strict=True)]
        return x[(slice(None), *index)] * weight[(slice(None), *place, 0)]

    return reduce(mx.add, map(tap, itertools.product(*map(range, weight.shape[1:-1]))))
