"""Windows that overlap: cutting images into patches (im2col) and adding patches up (col2im)."""

from __future__ import annotations

from functools import reduce

import mlx.core as mx

from ..isa import Array, Int, instruction
from ..lowering import HALVES, lowers
from .pad import pad
from .shape import MAX_SIZE, check_sizes, expand_dims, product, reshape, squeeze, transpose
from .slicing import as_strided, laid_over

MAX_OVERLAP = 4096
"""Windows that may share one element."""


@instruction(chain=0)
def overlap_add(x: Array, axis: int, stride: Int, dilation: Int) -> Array:
    """Windows added up where they overlap: out[i * stride + j * dilation] += x[i, j] for i along `axis`.

    The last axis of x holds the elements of each window and goes away. The size of `axis` becomes
    (n - 1) * stride + (k - 1) * dilation + 1. Halves are added in float32 and rounded once.
    """
    axis = axis + x.ndim if axis < 0 else axis
    if not 0 <= axis < x.ndim - 1:
        raise ValueError(
            f"windows along axis {axis} of {x.ndim} axes, the last of which holds their elements"
        )
    return overlapped(mx.moveaxis(x, -1, axis + 1), axis, stride, dilation)


def overlapped(x: mx.array, axis: int, stride: int, dilation: int) -> mx.array:
    """Windows along `axis`, their elements along the next one, added up: see overlap_add."""
    if stride < 1 or dilation < 1 or 0 in x.shape[axis : axis + 2]:
        raise ValueError(f"windows of shape {list(x.shape)} with stride {stride} and dilation {dilation}")
    dtype = x.dtype
    x = spread(x.astype(mx.float32) if dtype in HALVES else x, axis + 1, dilation)
    lead, (count, k), rest = x.shape[:axis], x.shape[axis : axis + 2], x.shape[axis + 2 :]
    length = (count - 1) * stride + k
    check_sizes([length])
    stride = min(stride, length)
    blocks = -(-k // stride)
    if blocks > MAX_OVERLAP:
        raise ValueError(
            f"windows of {k} elements with stride {stride} overlap more than {MAX_OVERLAP} times"
        )
    x = _widened(x, axis + 1, 0, blocks * stride - k)
    x = mx.reshape(x, (*lead, count, blocks, stride, *rest))
    before = (slice(None),) * (axis + 1)
    total = reduce(mx.add, (_widened(x[(*before, j)], axis, j, blocks - 1 - j) for j in range(blocks)))
    flat = mx.reshape(total, (*lead, (count + blocks - 1) * stride, *rest))
    return flat[(slice(None),) * axis + (slice(length),)].astype(dtype)


def spread(x: mx.array, axis: int, step: int) -> mx.array:
    """x with step - 1 zeros between its elements along an axis."""
    n = x.shape[axis]
    if step == 1 or n < 2:
        return x
    check_sizes([n * step])
    apart = _widened(mx.expand_dims(x, axis + 1), axis + 1, 0, step - 1)
    return mx.flatten(apart, axis, axis + 1)[(slice(None),) * axis + (slice((n - 1) * step + 1),)]


def _widened(x: mx.array, axis: int, low: int, high: int) -> mx.array:
    widths = [(low, high) if a == axis else (0, 0) for a in range(x.ndim)]
    return mx.pad(x, widths) if low or high else x


def window_view(
    x: mx.array, axes: list[int], kernel: list[int], stride: list[int], dilation: list[int]
) -> mx.array:
    """All windows that fit along `axes`, their elements along new last axes. A view of x in row-major order."""
    shape, strides = list(x.shape), [product(x.shape[a + 1 :]) for a in range(x.ndim)]
    inner = [strides[a] * d for a, d in zip(axes, dilation, strict=True)]
    for a, k, s, d in zip(axes, kernel, stride, dilation, strict=True):
        shape[a] = window_count(x.shape[a], k, s, d)
        strides[a] *= s
    if 0 in shape or x.size == 0:
        return mx.zeros([*shape, *kernel], x.dtype)
    return laid_over(x, [*shape, *kernel], [*strides, *inner])


def padded(x: mx.array, low: list[int], high: list[int]) -> mx.array:
    """x with zeros around its spatial axes; negative widths cut."""
    if not any(low) and not any(high):
        return x  # MLX copies an array that it pads by nothing
    index = [slice(max(-a, 0), n - max(-b, 0)) for n, a, b in zip(x.shape[1:-1], low, high, strict=True)]
    widths = [(max(a, 0), max(b, 0)) for a, b in zip(low, high, strict=True)]
    return mx.pad(x[(slice(None), *index)], [(0, 0), *widths, (0, 0)])


def window_count(n: int, k: int, stride: int, dilation: int) -> int:
    """How many windows of k elements fit into n."""
    if k < 1 or stride < 1 or dilation < 1 or not 0 <= n <= MAX_SIZE:
        raise ValueError(f"windows of {k} elements of {n} with stride {stride} and dilation {dilation}")
    return max((n - dilation * (k - 1) - 1) // stride + 1, 0)


@lowers("aten.im2col")
def im2col(self, kernel_size, dilation, padding, stride):
    """(n, c, h, w) to (n, c * kh * kw, windows)."""
    x = self if self.ndim == 4 else expand_dims(self, [0])
    (kh, kw), (dh, dw), (ph, pw), (sh, sw) = (pair(a) for a in (kernel_size, dilation, padding, stride))
    x = pad(x, [0, 0, ph, pw], [0, 0, ph, pw], "constant", 0)
    n, c, h, w = x.shape
    rows, columns = (h - dh * (kh - 1) - 1) // sh + 1, (w - dw * (kw - 1) - 1) // sw + 1
    strides = [c * h * w, h * w, w * dh, dw, w * sh, sw]
    patches = as_strided(x, [n, c, kh, kw, rows, columns], strides, 0)
    result = reshape(patches, [n, c * (kh * kw), rows * columns])
    return result if self.ndim == 4 else squeeze(result, [0])


@lowers("aten.col2im")
def col2im(self, output_size, kernel_size, dilation, padding, stride):
    """(n, c * kh * kw, windows) to (n, c, h, w)."""
    x = self if self.ndim == 3 else expand_dims(self, [0])
    sizes, kernel, dilation, padding, stride = (
        pair(a) for a in (output_size, kernel_size, dilation, padding, stride)
    )
    spans = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    rows, columns = (
        (n + 2 * p - span) // s + 1 for n, p, span, s in zip(sizes, padding, spans, stride, strict=True)
    )
    channels = x.shape[1] // (kernel[0] * kernel[1])
    x = reshape(x, [x.shape[0], channels, *kernel, rows, columns])
    x = transpose(x, [0, 1, 4, 5, 2, 3])
    x = overlap_add(x, 3, stride[1], dilation[1])
    x = overlap_add(x, 2, stride[0], dilation[0])
    high = [n + p - size for n, p, size in zip(sizes, padding, x.shape[2:], strict=True)]
    result = pad(x, [0, 0, *(-p for p in padding)], [0, 0, *high], "constant", 0)
    return result if self.ndim == 3 else squeeze(result, [0])


def pair(value):
    """PyTorch's int[2]: one number stands for both."""
    return each(value, 2)


def each(value, count):
    """PyTorch's int[n]: one number, or a list of one, stands for all."""
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    return values * count if len(values) == 1 else values
