"""Rotary position embedding."""

from __future__ import annotations

import math
from functools import lru_cache

import mlx.core as mx
import numpy as np

from ..isa import Array, Int, instruction
from ..lowering import HALVES, lowers
from .device import on_cpu

MAX_DIMS = 1 << 16


@instruction
def rope(
    x: Array,
    dims: int,
    traditional: bool,
    base: float,
    scale: float,
    offset: Int | Array,
    freqs: Array | None,
) -> Array:
    """Rotate the first `dims` features of x by angles that grow with the position.

    x: floats (b, ..., t, d), offset: the position of the first of the t, one or (b,), freqs: (dims / 2,) or
    (t, dims / 2). With p = offset + t and i in 0 … dims / 2 - 1 the angles are p * scale * base ** (-2 * i / dims),
    or p * scale / freqs[i], or freqs[t, i]. With c and s their cosines and sines

        y1 = x1 * c - x2 * s,  y2 = x1 * s + x2 * c

    where x1, x2 are the features i and i + dims / 2, or 2 * i and 2 * i + 1 when `traditional`. Angles are float32,
    float64 for a float64 x.
    """
    _check(x, dims, offset, freqs)
    if x.size == 0:
        return x
    ready = freqs is not None and freqs.ndim == 2
    if x.dtype in HALVES and not on_cpu() and not ready:
        # The kernel computes powers and sines with fewer digits, which half precision does not show.
        waves = 1 / _rates(dims, base, mx.float32) if freqs is None else freqs.astype(mx.float32)
        offset = offset.astype(mx.int32) if isinstance(offset, mx.array) else offset
        return mx.fast.rope(
            x, dims, traditional=traditional, base=None, scale=scale, offset=offset, freqs=waves
        )
    dtype = mx.float64 if x.dtype == mx.float64 else mx.float32
    angles = (
        freqs.astype(dtype)
        if ready and freqs is not None
        else _angles(x, dims, base, scale, offset, freqs, dtype)
    )
    return _rotate(x, dims, traditional, *_circle(angles))


def _check(x: mx.array, dims: int, offset: int | mx.array, freqs: mx.array | None) -> None:
    if not mx.issubdtype(x.dtype, mx.floating) or x.ndim < 3:
        raise ValueError("rope needs floats of the shape (b, ..., t, d)")
    if dims <= 0 or dims % 2 or dims > min(x.shape[-1], MAX_DIMS):
        raise ValueError(f"rope cannot rotate {dims} of {x.shape[-1]} features")
    if isinstance(offset, mx.array) and (
        not mx.issubdtype(offset.dtype, mx.integer) or offset.shape not in ((), (1,), (x.shape[0],))
    ):
        raise ValueError(f"an offset of {offset.dtype}{list(offset.shape)} for a batch of {x.shape[0]}")
    if freqs is not None and (
        not mx.issubdtype(freqs.dtype, mx.floating)
        or freqs.shape not in ((dims // 2,), (x.shape[-2], dims // 2))
    ):
        raise ValueError(f"freqs of {freqs.dtype}{list(freqs.shape)} for x of the shape {x.shape}")


@lru_cache
def _rates(dims: int, base: float, dtype: mx.Dtype) -> mx.array:
    """base ** (-2 * i / dims), rounded once."""
    if not 0 < base < math.inf:
        raise ValueError(f"rope with the base {base}")
    powers = np.float64(base) ** (np.arange(0, dims, 2, dtype=np.float64) / -dims)
    return mx.array(powers if dtype == mx.float64 else powers.astype(np.float32), dtype=dtype)


def _angles(
    x: mx.array,
    dims: int,
    base: float,
    scale: float,
    offset: int | mx.array,
    freqs: mx.array | None,
    dtype: mx.Dtype,
) -> mx.array:
    """(t, dims / 2), or (b, 1, …, t, dims / 2) for an offset by batch."""
    rates = _rates(dims, base, dtype) if freqs is None else 1 / freqs.astype(dtype)
    positions = mx.arange(x.shape[-2], dtype=mx.int64)
    if isinstance(offset, mx.array) and offset.size > 1:
        offset = mx.reshape(offset, (-1, *[1] * (x.ndim - 2)))
    start = offset.astype(mx.int64) if isinstance(offset, mx.array) else mx.array(offset, mx.int64)
    scaled = (positions + start).astype(dtype) * mx.array(scale, dtype)
    return mx.expand_dims(scaled, -1) * rates


def _circle(angles: mx.array) -> tuple[mx.array, mx.array]:
    """The cosines and sines."""
    if angles.dtype != mx.float64:
        return mx.cos(angles), mx.sin(angles)
    t = mx.tan(angles / 2)  # MLX has these two in float32 only, but the tangent in float64
    return (1 - t * t) / (1 + t * t), 2 * t / (1 + t * t)


def _rotate(x: mx.array, dims: int, traditional: bool, cos: mx.array, sin: mx.array) -> mx.array:
    turned = x[..., :dims].astype(cos.dtype)
    if traditional:
        x1, x2 = turned[..., 0::2], turned[..., 1::2]
    else:
        x1, x2 = mx.split(turned, 2, axis=-1)
    y1, y2 = x1 * cos - x2 * sin, x1 * sin + x2 * cos
    y = mx.flatten(mx.stack([y1, y2], axis=-1), -2) if traditional else mx.concatenate([y1, y2], axis=-1)
    y = y.astype(x.dtype)
    return y if dims == x.shape[-1] else mx.concatenate([y, x[..., dims:]], axis=-1)


@lowers("mlx::rope", "mlx::rope.tensor")
def rope_(x, dims, pos, traditional=False, base=500000.0, scale=1.0, freqs=None):
    return rope(x, dims, traditional, float(base), float(scale), pos, freqs)
