"""Rotary position embedding."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import mlx.core as mx
import numpy as np

from ..calls import Call, first, seen_through
from ..device import on_cpu
from ..isa import Array, Int, cast, instruction
from ..lowering import HALVES, lowers
from ..once import once_a_call
from ..patterns import Pattern, fuses, narrowed, op, shared, widened, wild
from .shape import reshape

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
    angles = freqs if freqs is not None and freqs.ndim == 2 else None
    if x.dtype in HALVES and not on_cpu() and angles is None:
        # The kernel computes powers and sines with fewer digits, which half precision does not show.
        waves = 1 / _rates(dims, base, mx.float32) if freqs is None else freqs.astype(mx.float32)
        offset = offset.astype(mx.int32) if isinstance(offset, mx.array) else offset
        return mx.fast.rope(
            x, dims, traditional=traditional, base=None, scale=scale, offset=offset, freqs=waves
        )
    dtype = mx.float64 if x.dtype == mx.float64 else mx.float32
    if angles is not None:
        circle = _circle(angles, dtype, traditional)
    else:
        circle = _turns(x.ndim, x.shape[-2], dims, traditional, base, scale, offset, freqs, dtype)
    return _rotate(x, dims, traditional, *circle)


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


@once_a_call
def _turns(
    rank: int,
    length: int,
    dims: int,
    traditional: bool,
    base: float,
    scale: float,
    offset: int | mx.array,
    freqs: mx.array | None,
    dtype: mx.Dtype,
) -> tuple[mx.array, mx.array]:
    """_circle of positions: (t, dims), or (b, 1, …, t, dims) of the given rank for an offset by batch."""
    rates = _rates(dims, base, dtype) if freqs is None else 1 / freqs.astype(dtype)
    positions = mx.arange(length, dtype=mx.int64)
    if isinstance(offset, mx.array) and offset.size > 1:
        offset = mx.reshape(offset, (-1, *[1] * (rank - 2)))
    start = offset.astype(mx.int64) if isinstance(offset, mx.array) else mx.array(offset, mx.int64)
    scaled = (positions + start).astype(dtype) * mx.array(scale, dtype)
    return _circle(mx.expand_dims(scaled, -1) * rates, dtype, traditional)


@once_a_call
def _circle(angles: mx.array, dtype: mx.Dtype, traditional: bool) -> tuple[mx.array, mx.array]:
    """What a feature counts, the cosine of its pair's angle, and what the pair's other one does: -sine or sine."""
    angles = angles.astype(dtype)
    if dtype != mx.float64:
        cos, sin = mx.cos(angles), mx.sin(angles)
    else:
        t = mx.tan(angles / 2)  # MLX has these two in float32 only, but the tangent in float64
        cos, sin = (1 - t * t) / (1 + t * t), 2 * t / (1 + t * t)
    return _pairs(cos, cos, traditional), _pairs(-sin, sin, traditional)


def _pairs(first: mx.array, second: mx.array, traditional: bool) -> mx.array:
    """The values of the first and the second feature of each pair, in the order of features."""
    if traditional:
        return mx.flatten(mx.stack([first, second], axis=-1), -2)
    return mx.concatenate([first, second], axis=-1)


def _rotate(x: mx.array, dims: int, traditional: bool, own: mx.array, others: mx.array) -> mx.array:
    turned = x[..., :dims].astype(own.dtype)
    if traditional:
        swapped = mx.flatten(mx.unflatten(turned, -1, (-1, 2))[..., ::-1], -2)
    else:
        swapped = mx.roll(turned, dims // 2, -1)
    y = (turned * own + swapped * others).astype(x.dtype)
    return y if dims == x.shape[-1] else mx.concatenate([y, x[..., dims:]], axis=-1)


@lowers("mlx::rope", "mlx::rope.tensor")
def rope_(x, dims, pos, traditional=False, base=500000.0, scale=1.0, freqs=None):
    return rope(x, dims, traditional, float(base), float(scale), pos, freqs)


# What a model spells out: pairs (x1, x2) of features, halves of the last axis or neighbours (step 2), and ready angles

VIEWS = ("aten.view", "aten.reshape", "aten.flatten.using_ints")
ANGLES = wild("angles")


def _takes(part: int, step: int) -> Callable[[Call], bool]:
    """Whether a call takes x1 (0) or x2 (1) of all pairs, by a slice or as a piece of a split."""

    def check(call: Call) -> bool:
        source, _ = seen_through(first(call))
        if call.target == "operator.getitem" and isinstance(source, Call):
            source, _ = seen_through(first(source))
        if not isinstance(source, Call) or not source.ndim or type(source.shape[-1]) is not int:
            return False
        half = source.shape[-1] // 2
        if source.shape[-1] % 2 or call.shape != (*source.shape[:-1], half):
            return False
        if call.target == "operator.getitem":
            return step == 1 and call.arguments["1"] == part
        start = (call.arguments["start"] or 0) % source.shape[-1]
        return call.arguments["step"] == step and start == (part * half if step == 1 else part)

    return check


def _part(part: int, step: int) -> Pattern:
    x = widened(wild("x"))
    pieces = op(("aten.chunk", "aten.split.Tensor", "aten.split_with_sizes"), x, loose=True)
    piece = op("operator.getitem", pieces, where=_takes(part, step), loose=True)
    return shared(op("aten.slice.Tensor", x, where=_takes(part, step), loose=True) | piece)


def _joined(x1: Pattern, x2: Pattern, step: int) -> Pattern:
    if step == 1:
        return op("aten.cat", [x1, x2], -1)
    return op(VIEWS, op("aten.stack", [x1, x2], -1), where=_joins_last, loose=True)


def _joins_last(call: Call) -> bool:
    pairs, _ = seen_through(first(call))
    return isinstance(pairs, Call) and call.shape[:-1] == pairs.shape[:-2]


def _doubled(x: Pattern, step: int) -> Pattern:
    repeated = op("aten.repeat_interleave.self_int", x, 2, -1)
    return _joined(x, x, step) if step == 1 else _joined(x, x, step) | repeated


def _of_angles(function: str, name: str, step: int) -> Pattern:
    """The cosines or sines of angles, one for each feature or one for each pair, with leading axes added."""
    values = op(function, ANGLES | _doubled(ANGLES, step)) | _doubled(op(function, ANGLES), step)
    values = values | narrowed(values)
    for _ in range(2):
        values = values | op("aten.unsqueeze", values, loose=True)
    return (shared(values) | wild(f"{name}_data")).named(name)


def _rotation(step: int) -> Pattern:
    cos, sin = _of_angles("aten.cos", "cos", step), _of_angles("aten.sin", "sin", step)
    x1, x2 = _part(0, step), _part(1, step)
    minus = op("aten.neg", x2) | x2 * -1
    whole = widened(wild("x")) * cos + _joined(minus, x1, step).named("turned") * sin
    rotation = whole | _joined(x1 * cos - x2 * sin, x2 * cos + x1 * sin, step)
    return rotation | narrowed(rotation)


def no_rope(x, angles, cos, sin, cos_data, sin_data, turned):
    if not all(isinstance(v, Call) and v.dtype is not None for v in (x, cos, sin)):
        return "its cosines and sines are numbers"
    if cos.dtype in HALVES or x.dtype not in (*HALVES, cos.dtype):
        return "it is computed in half precision, where PyTorch rounds every step"
    if cos_data is not None or sin_data is not None:
        return "its cosines and sines are not just those of angles that the model computes"
    if x.ndim < 3 or sin.shape != cos.shape or sin.dtype != cos.dtype:
        return "it is not a rotation of (b, ..., t, d)"
    length, width = x.shape[-2:]
    each = width if turned is not None else width // 2
    if any(n != 1 for n in cos.shape[:-2]) or cos.shape[-2:] != (length, each) or cos.ndim > x.ndim:
        return "the angles do not depend on the axis before the last alone"
    if angles.shape[-2:] != (length, width // 2) or any(n != 1 for n in angles.shape[:-2]):
        return "there is not one angle for each pair of features"
    return None


def _by_hand(x: Any, angles: Any, cos: Call, result: Any, traditional: bool) -> Any:
    x = x if x.dtype == result.dtype else cast(x, cos.dtype)
    return rope(x, x.shape[-1], traditional, 1.0, 1.0, 0, reshape(angles, angles.shape[-2:]))


@fuses(_rotation(1), condition=no_rope, name="rope")
def rope_by_hand(x, angles, cos, result):
    return _by_hand(x, angles, cos, result, False)


@fuses(_rotation(2), condition=no_rope, name="rope")
def interleaved_rope_by_hand(x, angles, cos, result):
    return _by_hand(x, angles, cos, result, True)
