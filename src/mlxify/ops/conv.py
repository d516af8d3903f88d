"""Convolutions and transposed convolutions in one to three dimensions, on arrays with their channels last."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import mlx.core as mx

from ..device import on_cpu
from ..isa import Array, Int, instruction
from ..lowering import HALVES, lowers
from .depthwise import depthwise_conv, is_depthwise
from .linear import product
from .patches import each, overlapped, padded, window_count, window_view
from .shape import MAX_SIZE, check_sizes, expand_dims, reshape, squeeze, transpose

MAX_DEPTH = 64
"""Planes of the kernel of a 3-D convolution with groups."""


@instruction(chain=640)
def conv(
    x: Array,
    weight: Array,
    bias: Array | None,
    stride: list[Int],
    low: list[Int],
    high: list[Int],
    dilation: list[Int],
    groups: Int,
) -> Array:
    """The cross-correlation of x with a kernel, plus a bias for each output channel.

    x: (n, *spatial, c), weight: (m, *kernel, c / groups), bias: (m,) or None, all of one dtype; one to three spatial
    axes. out[p] = sum over k of x[p * stride + k * dilation - low] * weight[k], where x is zero outside; `low` and
    `high` say how far outside windows reach at either end of each axis, negative ones cut elements off. Output
    channel j sees the input channels of its group, j * groups // m. Halves are added in float32, integers wrap.
    """
    kernel, axes = _check(x, weight, bias, groups, x.shape[-1], [stride, low, high, dilation])
    sizes = check_sizes([n + a + b for n, a, b in zip(x.shape[1:-1], low, high, strict=True)])
    counts = list(map(window_count, sizes, kernel, stride, dilation))
    if 0 in counts and 0 not in x.shape:
        raise ValueError(f"the kernel {kernel} is larger than the padded input {sizes}")
    if 0 in (*x.shape, *weight.shape, *counts):
        return _biased(mx.zeros((x.shape[0], *counts, weight.shape[0]), x.dtype), bias)
    dtype = x.dtype
    x, weight, bias = _widened(x, weight, bias)
    if not _plain(x):
        result = _by_windows(padded(x, low, high), weight, stride, dilation, groups)
    elif on_cpu() and groups == 1 == math.prod(kernel):
        result = _pointwise_conv(padded(x, low, high), weight, stride)
    elif on_cpu() and is_depthwise(weight.shape, groups):
        result = depthwise_conv(x, weight, counts, stride, low, high, dilation)
    elif groups > 1 and len(axes) == 3:
        result = _grouped_3d(padded(x, low, high), weight, counts, stride, dilation, groups)
    else:
        x = padded(x, _cut(low), _cut(high))
        padding = (_kept(low), _kept(high))
        result = mx.conv_general(x, weight, list(stride), padding, list(dilation), groups=groups)
    return _biased(result, bias).astype(dtype)


@instruction(chain=128)
def conv_transpose(
    x: Array,
    weight: Array,
    bias: Array | None,
    stride: list[Int],
    padding: list[Int],
    output_padding: list[Int],
    dilation: list[Int],
    groups: Int,
) -> Array:
    """The transpose of a convolution: every element of x adds a copy of the kernel to the result.

    x: (n, *spatial, c), weight: (m, *kernel, c / groups), bias: (m,) or None, all of one dtype; one to three spatial
    axes. out[i * stride + k * dilation - padding] += x[i] * weight[k]; each axis has the size
    (size - 1) * stride - 2 * padding + dilation * (kernel - 1) + output_padding + 1. Groups as in `conv`. Halves are
    added in float32, integers wrap.
    """
    kernel, axes = _check(x, weight, bias, groups, x.shape[-1], [stride, padding, output_padding, dilation])
    spans = [
        (n - 1) * s + d * (k - 1) + 1
        for n, s, d, k in zip(x.shape[1:-1], stride, dilation, kernel, strict=True)
    ]
    sizes = check_sizes([n + o - 2 * p for n, o, p in zip(spans, output_padding, padding, strict=True)])
    check_sizes(spans)
    if min(map(min, (kernel, stride, dilation)), default=1) < 1 or min(output_padding) < 0:
        raise ValueError("kernel, stride and dilation are at least 1, output padding is not negative")
    if 0 in (*x.shape, *weight.shape, *sizes):
        return _biased(mx.zeros((x.shape[0], *sizes, weight.shape[0]), x.dtype), bias)
    dtype = x.dtype
    x, weight, bias = _widened(x, weight, bias)
    if _plain(x) and not _adds_up(weight, kernel, stride, dilation, groups):
        low = [d * (k - 1) - p for d, k, p in zip(dilation, kernel, padding, strict=True)]
        high = [n + o for n, o in zip(low, output_padding, strict=True)]
        result = mx.conv_general(
            x,
            weight,
            1,
            (_kept(low), _kept(high)),
            list(dilation),
            input_dilation=list(stride),
            groups=groups,
            flip=True,
        )
        # MLX would cut before it spreads the elements of x.
        return _biased(padded(result, _cut(low), _cut(high)), bias).astype(dtype)
    result = _copies(x, weight, groups)
    for axis, s, d in zip(axes, stride, dilation, strict=True):
        result = overlapped(mx.moveaxis(result, len(axes) + 1, axis + 1), axis, s, d)
    result = padded(
        result, [-p for p in padding], [o - p for o, p in zip(output_padding, padding, strict=True)]
    )
    return _biased(result, bias).astype(dtype)


def _check(
    x: mx.array, weight: mx.array, bias: mx.array | None, groups: int, channels: int, lists: list[list[int]]
) -> tuple[list[int], list[int]]:
    """The kernel's sizes and the spatial axes, if everything fits together."""
    count = x.ndim - 2
    if not 1 <= count <= 3 or weight.ndim != x.ndim or any(len(v) != count for v in lists):
        raise ValueError(f"a convolution of shapes {list(x.shape)} and {list(weight.shape)} with {lists}")
    if any(abs(n) > MAX_SIZE for v in lists for n in v):
        raise ValueError(f"sizes of more than 32 bits among {lists}")
    if not 1 <= groups <= MAX_SIZE or weight.shape[0] % groups or weight.shape[-1] * groups != channels:
        raise ValueError(f"{groups} groups of shapes {list(x.shape)} and {list(weight.shape)}")
    if x.dtype != weight.dtype or x.dtype == mx.bool_:
        raise ValueError(f"a convolution of {x.dtype} and {weight.dtype}")
    if bias is not None and (bias.shape != weight.shape[:1] or bias.dtype != x.dtype):
        raise ValueError(
            f"a bias of {bias.dtype}{list(bias.shape)} for {weight.shape[0]} channels of {x.dtype}"
        )
    return list(weight.shape[1:-1]), list(range(1, count + 1))


def _widened(x: mx.array, weight: mx.array, bias: mx.array | None) -> tuple[Any, Any, Any]:
    """Halves as float32 on a CPU: MLX's own loops for them are slower, and so the bias is added before rounding."""
    if x.dtype not in HALVES or not on_cpu():
        return x, weight, bias
    return x.astype(mx.float32), weight.astype(mx.float32), None if bias is None else bias.astype(mx.float32)


def _cut(widths: list[int]) -> list[int]:
    return [min(n, 0) for n in widths]


def _kept(widths: list[int]) -> list[int]:
    return [max(n, 0) for n in widths]


def _plain(x: mx.array) -> bool:
    """Whether MLX convolves this dtype, without errors when it comes to computing."""
    return x.dtype in (mx.float32, *HALVES)


def _biased(x: mx.array, bias: mx.array | None) -> mx.array:
    return x if bias is None else x + bias


def _by_windows(
    x: mx.array, weight: mx.array, stride: list[int], dilation: list[int], groups: int
) -> mx.array:
    """A convolution as one matrix product over all windows, for dtypes that MLX does not convolve."""
    count, kernel = x.ndim - 2, weight.shape[1:-1]
    view = window_view(x, list(range(1, count + 1)), list(kernel), stride, dilation)
    view = mx.moveaxis(view, count + 1, -1)
    shape, inner = view.shape[: count + 1], math.prod(kernel)
    rows = mx.reshape(view, (-1, inner, groups, x.shape[-1] // groups))
    rows = mx.reshape(mx.transpose(rows, (2, 0, 1, 3)), (groups, -1, inner * (x.shape[-1] // groups)))
    columns = mx.swapaxes(mx.reshape(weight, (groups, weight.shape[0] // groups, -1)), 1, 2)
    return mx.reshape(mx.swapaxes(product(rows, columns), 0, 1), (*shape, weight.shape[0]))


def _pointwise_conv(x: mx.array, weight: mx.array, stride: list[int]) -> mx.array:
    """A kernel of one place as a matrix product: on a CPU MLX's convolution copies x and takes 1.2 to 4 times as long."""
    places = tuple(slice(None, None, step) for step in stride)
    return x[(slice(None), *places)] @ mx.reshape(weight, (weight.shape[0], -1)).T


def _grouped_3d(
    x: mx.array, weight: mx.array, counts: list[int], stride: list[int], dilation: list[int], groups: int
) -> mx.array:
    """A 3-D convolution with groups, which MLX lacks: a sum of 2-D ones over the kernel's depth."""
    if weight.shape[1] > MAX_DEPTH:
        raise ValueError(f"a kernel of {weight.shape[1]} planes in a convolution with groups")

    def plane(k: int) -> mx.array:
        start = k * dilation[0]
        planes = x[:, start : start + (counts[0] - 1) * stride[0] + 1 : stride[0]]
        planes, kernel = (v.astype(mx.float32) for v in (mx.flatten(planes, 0, 1), weight[:, k]))
        return mx.conv_general(planes, kernel, stride[1:], 0, dilation[1:], groups=groups)

    total = reduce(mx.add, map(plane, range(weight.shape[1])))
    return mx.unflatten(total, 0, (x.shape[0], counts[0])).astype(x.dtype)


def _adds_up(
    weight: mx.array, kernel: list[int], stride: list[int], dilation: list[int], groups: int
) -> bool:
    """Whether to form all copies of the kernel by one matrix product and add them up.

    That takes kernel / stride times the memory of the result, and saves MLX from convolving the zeros between the
    elements of x: on a CPU always, on a GPU in one dimension, where it makes a matrix of all windows first.
    """
    if len(kernel) == 3 and groups > 1:
        return True
    if max(dilation) > 1 or max(stride) == 1:
        return False
    apart = all(k <= s for k, s in zip(kernel, stride, strict=True))
    return on_cpu() or len(kernel) == 1 or apart


def _copies(x: mx.array, weight: mx.array, groups: int) -> mx.array:
    """x[i] * weight[k] for all i and k: (n, *spatial, *kernel, m)."""
    kernel, inner = weight.shape[1:-1], weight.shape[-1]
    columns = mx.reshape(weight, (groups, weight.shape[0] // groups, -1, inner))
    columns = mx.reshape(mx.transpose(columns, (0, 3, 2, 1)), (groups, inner, -1))
    if groups == 1:
        flat = product(mx.reshape(x, (-1, inner)), columns[0])
    else:
        rows = mx.reshape(x, (-1, groups, inner))
        if inner == 1:
            flat = mx.expand_dims(rows, 2) * mx.expand_dims(columns, 0)
        else:
            flat = mx.swapaxes(product(mx.swapaxes(rows, 0, 1), columns), 0, 1)
        flat = mx.swapaxes(mx.reshape(flat, (rows.shape[0], groups, math.prod(kernel), -1)), 1, 2)
    return mx.reshape(flat, (*x.shape[:-1], *kernel, weight.shape[0]))


def channels_last(x):
    """(n, c, …) to (n, …, c)."""
    return transpose(x, [0, *range(2, x.ndim), 1])


def channels_first(x):
    """(n, …, c) to (n, c, …)."""
    return transpose(x, [0, x.ndim - 1, *range(1, x.ndim - 1)])


def convolved(input, weight, bias, stride, low, high, dilation, groups):
    """A convolution of PyTorch's layout; an input without a batch is a batch of one."""
    batched = input.ndim == weight.ndim
    x = channels_last(input if batched else expand_dims(input, [0]))
    y = channels_first(conv(x, channels_last(weight), bias, stride, low, high, dilation, groups))
    return y if batched else squeeze(y, [0])


@lowers("aten.conv1d", "aten.conv2d", "aten.conv3d")
def conv_(input, weight, bias, stride, padding, dilation, groups):
    stride, padding, dilation = _each(weight, stride, padding, dilation)
    return convolved(input, weight, bias, stride, padding, padding, dilation, groups)


@lowers("aten.conv1d.padding", "aten.conv2d.padding", "aten.conv3d.padding")
def conv_padding(input, weight, bias, stride, padding, dilation, groups):
    stride, dilation, low, high = _each(weight, stride, dilation, 0, 0)
    if padding == "same":
        totals = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
        low = [n // 2 for n in totals]
        high = [n - a for n, a in zip(totals, low, strict=True)]
    return convolved(input, weight, bias, stride, low, high, dilation, groups)


@lowers("aten.conv_transpose1d", "aten.conv_transpose2d.input", "aten.conv_transpose3d.input")
def conv_transpose_(input, weight, bias, stride, padding, output_padding, groups, dilation):
    lists = _each(weight, stride, padding, output_padding, dilation)
    batched = input.ndim == weight.ndim
    x = channels_last(input if batched else expand_dims(input, [0]))
    y = channels_first(conv_transpose(x, _transposed_weight(weight, groups), bias, *lists, groups))
    return y if batched else squeeze(y, [0])


def _each(weight, *values):
    return [each(v, weight.ndim - 2) for v in values]


def _transposed_weight(weight, groups):
    """(c, m / groups, *kernel) to (m, *kernel, c / groups)."""
    rank = weight.ndim
    if isinstance(groups, int) and groups == 1:
        return transpose(weight, [1, *range(2, rank), 0])
    c, m, *kernel = weight.shape
    split = transpose(reshape(weight, [groups, c // groups, m, *kernel]), [0, 2, *range(3, rank + 1), 1])
    return reshape(split, [groups * m, *kernel, c // groups])


@lowers("aten.convolution", "aten.convolution_overrideable")
def convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    if transposed:
        return conv_transpose_(input, weight, bias, stride, padding, output_padding, groups, dilation)
    return conv_(input, weight, bias, stride, padding, dilation, groups)


@lowers("aten._convolution")
def convolution_with_switches(
    input, weight, bias, stride, padding, dilation, transposed, output_padding, groups,
    benchmark, deterministic, cudnn_enabled, allow_tf32,
):  # fmt: skip
    """The switches choose between implementations."""
    return convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)


@lowers("aten.conv_tbc")
def conv_tbc(self, weight, bias, pad):
    """Time first: x (t, n, c), weight (k, c, m)."""
    x, weight = transpose(self, [1, 0, 2]), transpose(weight, [2, 0, 1])
    return transpose(conv(x, weight, bias, [1], [pad], [pad], [1], 1), [1, 0, 2])
