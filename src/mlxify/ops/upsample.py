"""Resizing: nearest, linear and cubic interpolation, along one to three axes of arrays with their channels last."""

from __future__ import annotations

from functools import lru_cache, reduce
from typing import Any, Literal

import mlx.core as mx
import numpy as np

from ..isa import Array, Int, Number, instruction
from ..lowering import HALVES, lowers
from .conv import channels_first, channels_last
from .scalar import number_binary, number_unary
from .shape import check_sizes

Mode = Literal["nearest", "nearest_exact", "linear", "cubic", "lanczos"]
CACHED_SIZE = 1 << 16
SMALL_IMAGE = 128
MAX_TABLE = 1 << 28
MAX_TAPS = 8
"""Weights of one output element up to which arrays are added one by one, rather than reduced together."""
_CUBIC, _SMOOTH_CUBIC = -0.75, -0.5


def _like(
    x: mx.array, sizes: list[int], scales: list[Any], mode: str, align_corners: bool, antialias: bool
) -> mx.array:
    """Zeros in the shape of the result, after checking the arguments."""
    rank = x.ndim - 2
    if not 1 <= rank <= 3 or len(sizes) != rank or len(scales) != rank or 0 in x.shape[1:-1]:
        raise ValueError(f"sizes {sizes} and scales {scales} for an array of shape {list(x.shape)}")
    if not all(s is None or 2.0**-31 <= s < 2.0**31 for s in scales):
        raise ValueError(f"the scales are {scales}")
    if x.dtype != mx.uint8 and not mx.issubdtype(x.dtype, mx.floating):
        raise ValueError(f"an array of {x.dtype} cannot be resized")
    if x.dtype == mx.uint8 and rank != 2 and not mode.startswith("nearest"):
        raise ValueError("uint8 can be interpolated along two axes only")
    if mode == "lanczos" and not antialias:
        raise ValueError("lanczos needs antialias")
    return mx.zeros((x.shape[0], *check_sizes(sizes), x.shape[-1]), x.dtype)


@instruction(abstract=_like, chain=128)
def interpolate(
    x: Array, sizes: list[Int], scales: list[Number | None], mode: Mode, align_corners: bool, antialias: bool
) -> Array:
    """x: (n, *spatial, c) with each spatial axis resized to sizes[i].

    Element i of the result is at r * i (nearest), r * (i + 0.5) (nearest_exact), r * (i + 0.5) - 0.5 (the others) or,
    with align_corners, (n - 1) / (m - 1) * i of x, for an axis of n elements that gets m; r is 1 / scale, or n / m
    where the scale is None. The two nearest modes round down, linear weighs 2 neighbours, cubic 4 (a = -0.75);
    positions outside mean the edge. antialias widens the filter by r when that is above 1 (cubic has a = -0.5 then,
    lanczos 3 lobes) and leaves out what is outside. In float32 (float64 for float64), halves with weights of half
    precision; uint8 with 16-bit weights, rounded after each axis, the last one first.

    Two axes of at most 128 elements together are as PyTorch has them: nearest doubles an axis that gets twice its
    size, and keeps one that keeps it, whatever the scale is; linear weighs halves in float32.
    """
    result = _like(x, sizes, scales, mode, align_corners, antialias)
    if result.size == 0:
        return result
    dtype = x.dtype
    small = len(sizes) == 2 and sum(sizes) <= SMALL_IMAGE
    half = dtype if dtype in HALVES and not (small and mode == "linear") else None
    for axis in range(len(sizes), 0, -1):
        n, m, scale = x.shape[axis], sizes[axis - 1], scales[axis - 1]
        if mode == "nearest" and small and m in (n, 2 * n):
            scale = None
        if mode in ("nearest", "nearest_exact"):
            x = _nearest(x, axis, m, scale, mode == "nearest_exact")
        elif n != m or not (mode == "linear" or antialias or dtype == mx.uint8):
            x = x.astype(mx.float32) if dtype in HALVES else x
            x = _filtered(x, axis, m, scale, mode, align_corners, antialias, half)
    return x.astype(dtype)


def _nearest(x: mx.array, axis: int, m: int, scale: float | None, exact: bool) -> mx.array:
    n = x.shape[axis]
    if m % n == 0 and (scale is None or scale * n == m):
        if m == n:
            return x
        wide = mx.expand_dims(x, axis + 1)
        wide = mx.broadcast_to(wide, (*x.shape[: axis + 1], m // n, *x.shape[axis + 1 :]))
        return mx.flatten(wide, axis, axis + 1)
    return mx.take(x, _table(_nearest_places, n, m, scale, exact), axis=axis)


def _filtered(
    x: mx.array,
    axis: int,
    m: int,
    scale: float | None,
    mode: str,
    align_corners: bool,
    antialias: bool,
    half: mx.Dtype | None,
) -> mx.array:
    n = x.shape[axis]
    doubled = m in (2 * n, 4 * n) and (scale is None or scale * n == m)
    if mode == "linear" and doubled and not (align_corners or antialias or x.dtype == mx.uint8):
        return _doubled(x, axis, m // n)
    kind = np.float64 if x.dtype in (mx.float64, mx.uint8) else np.float32
    if x.dtype == mx.uint8:
        return _fixed_point(x, axis, *_table(_whole_taps, n, m, scale, mode, align_corners, antialias, kind))
    taps = _taps if half is None else _half_taps if half == mx.float16 else _bfloat_taps
    places, weights = _table(taps, n, m, scale, mode, align_corners, antialias, kind)
    return _weighted(x, axis, places, weights)


def _weighted(x: mx.array, axis: int, places: mx.array, weights: mx.array) -> mx.array:
    """sum of weights[:, k] * x[places[:, k]] along an axis."""
    count, taps = weights.shape
    behind = tuple(1 for _ in range(x.ndim - 1 - axis))
    if taps > MAX_TAPS:
        values = mx.take(x, places, axis=axis) * mx.reshape(weights, (count, taps, *behind))
        return values.sum(axis + 1)
    shares = [mx.reshape(weights[:, k], (count, *behind)) for k in range(taps)]
    return reduce(mx.add, (mx.take(x, places[:, k], axis=axis) * share for k, share in enumerate(shares)))


def _doubled(x: mx.array, axis: int, times: int) -> mx.array:
    """Linear interpolation to 2 or 4 times the size: each of so many phases weighs x and x moved by one."""

    def part(piece: slice) -> mx.array:
        return x[(slice(None),) * axis + (piece,)]

    n = x.shape[axis]
    # PyTorch adds 0 times the second element to the first one, which matters when that is infinite.
    first = part(slice(0, 1)) + part(slice(min(n - 1, 1), min(n - 1, 1) + 1)) * mx.zeros((), x.dtype)
    before = mx.concatenate([first, part(slice(0, n - 1))], axis)
    after = mx.concatenate([part(slice(1, n)), part(slice(n - 1, n))], axis)
    phases = []
    for p in range(times):
        place = (p + 0.5) / times - 0.5
        left, right, weight = (before, x, place + 1) if place < 0 else (x, after, place)
        phases.append(left * mx.array(1 - weight, x.dtype) + right * mx.array(weight, x.dtype))
    return mx.flatten(mx.stack(phases, axis + 1), axis, axis + 1)


def _fixed_point(x: mx.array, axis: int, places: mx.array, weights: mx.array, bits: int) -> mx.array:
    """uint8 as PyTorch computes it: integer weights of at most 15 bits."""
    total = _weighted(x.astype(mx.int32), axis, places, weights) + (1 << (bits - 1))
    return mx.clip(mx.right_shift(total, bits), 0, 255).astype(mx.uint8)


def _table(build: Any, n: int, m: int, *options: Any) -> Any:
    return (_cached if max(n, m) <= CACHED_SIZE else _built)(build, n, m, *options)


def _built(build: Any, *options: Any) -> Any:
    with mx.stream(mx.cpu):
        result = build(*options)
        return tuple(map(_exact, result)) if isinstance(result, tuple) else _exact(result)


def _exact(values: Any) -> Any:
    if isinstance(values, int):
        return values
    return mx.array(values, mx.float64) if values.dtype == np.float64 else mx.array(values)


_cached = lru_cache(256)(_built)


def _ratio(n: int, m: int, scale: float | None, kind: Any = np.float32) -> Any:
    """Elements of the input for one of the output."""
    return kind(1.0 / scale) if scale is not None else kind(n) / kind(m)


def _nearest_places(n: int, m: int, scale: float | None, exact: bool) -> np.ndarray:
    index = np.arange(m, dtype=np.float32)
    places = np.floor((index + np.float32(0.5) if exact else index) * _ratio(n, m, scale))
    return np.clip(places, 0, n - 1).astype(np.int32)


def _taps(
    n: int, m: int, scale: float | None, mode: str, align_corners: bool, antialias: bool, kind: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Where the elements that make up each output element are, and their weights: (m, taps) each."""
    step = _ratio(n, m, scale, kind)
    if align_corners:
        step = kind(n - 1) / kind(m - 1) if m > 1 else kind(0)
    index = np.arange(m, dtype=kind)
    if antialias:
        return _smooth_taps(n, step, index + kind(0.5), mode)
    # A multiplication and subtraction rounded once, as PyTorch's compilers make it.
    wide = step.astype(np.float64) * (index + kind(0 if align_corners else 0.5))
    source = (wide if align_corners else wide - 0.5).astype(kind)
    if mode == "linear":
        source = np.maximum(source, kind(0))
        low = np.minimum(source.astype(np.int64), n - 1)
        right = np.clip(source - low.astype(kind), kind(0), kind(1))
        places, weights = (
            np.stack([low, np.minimum(low + 1, n - 1)], 1),
            np.stack([kind(1) - right, right], 1),
        )
    else:
        low = np.floor(source)
        t = np.clip(source - low, kind(0), kind(1))
        places = np.clip(low.astype(np.int64)[:, None] + np.arange(-1, 3), 0, n - 1)
        weights = np.stack([_cubic(d, kind(_CUBIC)) for d in (t + 1, t, 1 - t, 2 - t)], 1)
    return places.astype(np.int32), weights.astype(kind)


def _half_taps(*options: Any) -> tuple[np.ndarray, np.ndarray]:
    return _rounded_taps(lambda w: w.astype(np.float16).astype(np.float32), *options)


def _bfloat_taps(*options: Any) -> tuple[np.ndarray, np.ndarray]:
    def rounded(weights: np.ndarray) -> np.ndarray:
        bits = weights.view(np.uint32)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)

    return _rounded_taps(rounded, *options)


def _rounded_taps(rounded: Any, *options: Any) -> tuple[np.ndarray, np.ndarray]:
    """Weights of half precision. Of two that add up to one, the first is what the second leaves."""
    places, weights = _taps(*options)
    weights = rounded(np.ascontiguousarray(weights))
    if weights.shape[1] == 2:
        weights[:, 0] = rounded(1 - weights[:, 1])
    return places, weights


def _whole_taps(n: int, *options: Any) -> tuple[np.ndarray, np.ndarray, int]:
    """Integer weights and the number of their bits behind the point. Places beyond the edge count for the edge."""
    places, weights = _taps(n, *options)
    low = places.min(1, keepdims=True)
    joined = np.zeros_like(weights)
    np.add.at(joined, (np.arange(len(places))[:, None], places - low), weights)
    bits = 0
    while bits < 22 and int(0.5 + joined.max() * (1 << (bits + 1))) < (1 << 15):
        bits += 1
    scaled = joined * (1 << bits)
    whole = np.trunc(np.where(scaled < 0, scaled - 0.5, scaled + 0.5)).astype(np.int32)
    return np.minimum(low + np.arange(places.shape[1]), n - 1).astype(np.int32), whole, bits


def _smooth_taps(n: int, step: Any, center: np.ndarray, mode: str) -> tuple[np.ndarray, np.ndarray]:
    kind = step.dtype.type
    reach = {"linear": 1, "cubic": 2, "lanczos": 3}[mode]
    center = step * center
    support = kind(reach) * step if step >= 1 else kind(reach)
    low = np.maximum((center - support + kind(0.5)).astype(np.int64), 0)
    high = np.minimum((center + support + kind(0.5)).astype(np.int64), n)
    taps = max(int((high - low).max()), 1)
    if taps * len(center) > MAX_TABLE:
        raise ValueError(f"{len(center)} elements are each a mean of {taps}")
    offsets = np.arange(taps)
    places = low[:, None] + offsets
    distance = (places.astype(kind) - center[:, None] + kind(0.5)) * (
        kind(1) / step if step >= 1 else kind(1)
    )
    weights = np.where(places < high[:, None], _FILTERS[mode](distance), kind(0)).astype(kind)
    total = weights.sum(1, keepdims=True)
    weights = np.divide(weights, total, out=weights, where=total != 0)
    return np.minimum(places, n - 1).astype(np.int32), weights


def _cubic(distance: np.ndarray, a: Any) -> np.ndarray:
    d = np.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


_FILTERS: dict[str, Any] = {
    "linear": lambda d: np.maximum(1 - np.abs(d), 0),
    "cubic": lambda d: _cubic(d, d.dtype.type(_SMOOTH_CUBIC)),
    "lanczos": lambda d: np.where(np.abs(d) < 3, np.sinc(d) * np.sinc(d / 3), 0),
}


def _resized(x, sizes, scales, mode, align_corners=False, antialias=False):
    return channels_first(interpolate(channels_last(x), sizes, scales, mode, align_corners, antialias))


def _output_sizes(x, output_size, scale_factors):
    """PyTorch's sizes from the scales: size * scale in float64, rounded down."""
    if output_size is not None:
        return list(output_size)
    sizes = []
    for n, scale in zip(x.shape[2:], scale_factors, strict=True):
        product = number_binary("multiply", n, scale)
        sizes.append(number_unary("floor", product))
    return sizes


def _with_lists(x, output_size, scale_factors, *options):
    scales = [None] * (x.ndim - 2) if scale_factors is None else list(scale_factors)
    return _resized(x, _output_sizes(x, output_size, scale_factors), scales, *options)


def _with_scales(x, output_size, scales, *options):
    """`scales` for one axis, or for depth, height and width, of which x has the last ones."""
    own = scales[:1] if x.ndim == 3 else scales[-(x.ndim - 2) :]
    return _resized(x, list(output_size), own, *options)


def _register_nearest(mode, *names):
    def with_lists(input, output_size, scale_factors):
        return _with_lists(input, output_size, scale_factors, mode)

    def with_scales(self, output_size, scales=None, scales_d=None, scales_h=None, scales_w=None):
        return _with_scales(self, output_size, [scales, scales_d, scales_h, scales_w], mode)

    lowers(*(f"aten.{name}.vec" for name in names))(with_lists)
    lowers(*(f"aten.{name}" for name in names))(with_scales)


def _register(mode, *names, antialias=False):
    def with_lists(input, output_size, scale_factors, align_corners):
        return _with_lists(input, output_size, scale_factors, mode, align_corners, antialias)

    def with_scales(self, output_size, align_corners, scales_h=None, scales_w=None):
        return _with_scales(self, output_size, [scales_h, scales_w], mode, align_corners, antialias)

    def with_any_scales(
        self, output_size, align_corners, scales=None, scales_d=None, scales_h=None, scales_w=None
    ):
        return _with_scales(
            self, output_size, [scales, scales_d, scales_h, scales_w], mode, align_corners, antialias
        )

    lowers(*(f"aten.{name}.vec" for name in names))(with_lists)
    lowers(*(f"aten.{name}" for name in names))(with_scales if len(names) == 1 else with_any_scales)


_register_nearest("nearest", *(f"upsample_nearest{rank}d" for rank in (1, 2, 3)))
_register_nearest("nearest_exact", *(f"_upsample_nearest_exact{rank}d" for rank in (1, 2, 3)))
_register("linear", "upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d")
_register("cubic", "upsample_bicubic2d")
_register("linear", "_upsample_bilinear2d_aa", antialias=True)
_register("cubic", "_upsample_bicubic2d_aa", antialias=True)
_register("lanczos", "_upsample_lanczos2d_aa", antialias=True)
