"""Sampling images at computed places: grid_sample and affine_grid."""

from __future__ import annotations

import itertools
from functools import reduce
from typing import Literal

import mlx.core as mx

from ..isa import Array, instruction
from ..lowering import lowers
from .arithmetic import multiply
from .conv import channels_first, channels_last
from .create import full
from .join import stack
from .linear import matmul
from .shape import broadcast_to, expand_dims, product, reshape, transpose
from .spaces import linspace

Mode = Literal["linear", "nearest", "cubic"]
Padding = Literal["zeros", "border", "reflection"]
Taps = list[tuple[mx.array, mx.array, mx.array]]
_CUBIC = -0.75


@instruction
def grid_sample(x: Array, grid: Array, mode: Mode, padding: Padding, align_corners: bool) -> Array:
    """x at the places in grid. x: (n, *spatial, c), grid: (n, *places, d) for d = 2 or 3 spatial axes.

    The last axis of grid has the coordinates along the last spatial axis first; -1 and 1 are the middle of the first
    and last element with align_corners, else their outer edges. Outside x there are zeros, its edge or its
    reflection. nearest rounds half to even, linear weighs 2 neighbours an axis, cubic (2-d only) 4 with a = -0.75.
    All in the dtype of x, places too: half precision decides which elements are near.
    """
    rank = x.ndim - 2
    if rank not in (2, 3) or grid.ndim != x.ndim or grid.shape[-1] != rank or grid.shape[0] != x.shape[0]:
        raise ValueError(f"a grid of shape {list(grid.shape)} for an array of shape {list(x.shape)}")
    if x.dtype != grid.dtype or not mx.issubdtype(x.dtype, mx.floating) or (mode == "cubic" and rank != 2):
        raise ValueError(f"{mode} samples of {x.dtype} at {grid.dtype} along {rank} axes")
    dtype, sizes = x.dtype, x.shape[1:-1]
    if 0 in sizes:
        raise ValueError("there is nothing to sample")
    if 0 in (x.size, grid.size):
        return mx.zeros((*grid.shape[:-1], x.shape[-1]), dtype)
    taps = [
        _TAPS[mode](_scaled(grid[..., rank - 1 - axis], n, align_corners), n, padding, align_corners)
        for axis, n in enumerate(sizes)
    ]
    rows = mx.reshape(x, (-1, x.shape[-1]))
    batch = mx.reshape(mx.arange(x.shape[0]).astype(mx.int64), (-1, *(1 for _ in range(rank))))

    def values(corner: Taps) -> mx.array:
        index, inside = batch, mx.array(True)
        for n, (place, exists, _) in zip(sizes, corner, strict=True):
            index, inside = index * n + place, inside & exists
        return mx.where(mx.expand_dims(inside, -1), mx.take(rows, index, axis=0), mx.zeros((), dtype))

    def weighed(x: mx.array, shares: list[mx.array]) -> mx.array:
        return x * mx.expand_dims(reduce(mx.multiply, shares), -1)

    # In PyTorch's order, which counts in half precision.
    if mode == "cubic":
        lines = [reduce(mx.add, (weighed(values([y, x]), [x[2]]) for x in taps[1])) for y in taps[0]]
        return reduce(mx.add, (weighed(line, [y[2]]) for line, y in zip(lines, taps[0], strict=True)))
    corners = [list(corner) for corner in itertools.product(*taps)]
    return reduce(mx.add, (weighed(values(c), [share for _, _, share in reversed(c)]) for c in corners))


def _scaled(coordinate: mx.array, n: int, align_corners: bool) -> mx.array:
    """From -1 … 1 to elements."""
    return (coordinate + 1) / 2 * (n - 1) if align_corners else ((coordinate + 1) * n - 1) / 2


def _moved_inside(place: mx.array, n: int, padding: Padding, align_corners: bool) -> mx.array:
    """A place as the padding has it. NaN is the first element of what has no zeros around it."""
    if padding == "zeros":
        return place
    if padding == "reflection":
        low, span = (0.0, n - 1) if align_corners else (-0.5, n)
        if span == 0:
            return mx.zeros_like(place)
        away = mx.abs(place - low)
        rest, flips = mx.remainder(away, span), mx.floor(away / span)
        place = mx.where(mx.remainder(flips, 2) == 0, rest + low, span - rest + low)
    return mx.clip(mx.where(mx.isnan(place), mx.zeros_like(place), place), 0, n - 1)


def _tap(place: mx.array, n: int, share: mx.array) -> tuple[mx.array, mx.array, mx.array]:
    """A whole place as an index that is in range, whether the element exists, and its weight."""
    exists = (place >= 0) & (place <= n - 1)
    return mx.where(exists, place, mx.zeros_like(place)).astype(mx.int64), exists, share


def _nearest(place: mx.array, n: int, padding: Padding, align_corners: bool) -> Taps:
    place = mx.round(_moved_inside(place, n, padding, align_corners))
    return [_tap(place, n, mx.ones((), place.dtype))]


def _linear(place: mx.array, n: int, padding: Padding, align_corners: bool) -> Taps:
    place = _moved_inside(place, n, padding, align_corners)
    low = mx.floor(place)
    return [_tap(low, n, low + 1 - place), _tap(low + 1, n, place - low)]


def _cubic(place: mx.array, n: int, padding: Padding, align_corners: bool) -> Taps:
    low = mx.floor(place)
    t = place - low
    near = [((_CUBIC + 2) * d - (_CUBIC + 3)) * d * d + 1 for d in (t, 1 - t)]
    far = [((_CUBIC * d - 5 * _CUBIC) * d + 8 * _CUBIC) * d - 4 * _CUBIC for d in (t + 1, 2 - t)]
    shares = (far[0], *near, far[1])
    places = [_moved_inside(low + k, n, padding, align_corners) for k in (-1, 0, 1, 2)]
    return [_tap(mx.floor(p), n, share) for p, share in zip(places, shares, strict=True)]


_TAPS = {"linear": _linear, "nearest": _nearest, "cubic": _cubic}
_MODES: tuple[Mode, ...] = ("linear", "nearest", "cubic")
_PADDINGS: tuple[Padding, ...] = ("zeros", "border", "reflection")


@lowers(
    "aten.grid_sampler", "aten.grid_sampler_2d", "aten.grid_sampler_3d", "aten._grid_sampler_2d_cpu_fallback"
)
def grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners):
    mode, padding = _MODES[interpolation_mode], _PADDINGS[padding_mode]
    return channels_first(grid_sample(channels_last(input), grid, mode, padding, align_corners))


@lowers("aten.affine_grid_generator")
def affine_grid_generator(theta, size, align_corners):
    """The places of all elements of an image of `size` (n, c, …), each mapped by theta."""
    sizes = list(size[2:])
    columns = []
    for axis in reversed(range(len(sizes))):
        n = sizes[axis]
        line = linspace(-1, 1, n, theta.dtype) if n != 1 else full([1], 0, theta.dtype)
        if not align_corners:
            line = multiply(line, (n - 1) / n)
        others = [a for a in range(len(sizes)) if a != axis]
        columns.append(broadcast_to(expand_dims(line, others), sizes))
    columns.append(full(sizes, 1, theta.dtype))
    places = reshape(stack(columns, -1), [product(sizes), len(columns)])
    return reshape(matmul(places, transpose(theta, [0, 2, 1])), [size[0], *sizes, len(sizes)])
