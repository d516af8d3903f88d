"""Padding: with a constant, reflected, with the edge, and around the other end. Negative widths cut off."""

from __future__ import annotations

from typing import Literal

import mlx.core as mx

from ..errors import refuse
from ..isa import Array, Int, Number, instruction, scalar_array
from ..lowering import lowers
from .complex import complex_, imag, real
from .shape import check_shape

Mode = Literal["constant", "reflect", "edge", "wrap"]
_MODES: tuple[Mode, ...] = ("reflect", "edge", "wrap", "constant")
_NAMES: dict[str, Mode] = {
    "constant": "constant",
    "reflect": "reflect",
    "replicate": "edge",
    "circular": "wrap",
}


@instruction(noop=lambda x, low, high, mode, value: all(type(n) is int and n == 0 for n in (*low, *high)))
def pad(x: Array, low: list[Int], high: list[Int], mode: Mode, value: Number) -> Array:
    """x with low[i] elements before and high[i] after it along axis i; a negative width cuts elements off.

    constant: `value`, as x's dtype. reflect: mirrored at the outermost element, which is not repeated; widths are
    below x's size. edge: the outermost element. wrap: from the other end of what is left after cutting; widths up
    to its size.
    """
    if not len(low) == len(high) == x.ndim:
        raise ValueError(f"{len(low)} and {len(high)} widths for {x.ndim} axes")
    check_shape([max(0, n + a + b) for n, a, b in zip(x.shape, low, high, strict=True)])
    if any(a + b < -n or min(a, b) < -n for n, a, b in zip(x.shape, low, high, strict=True)):
        raise ValueError(f"the widths {low} and {high} cut off more than there is of {list(x.shape)}")
    if mode == "constant":
        kept = x[tuple(_rest(n, a, b) for n, a, b in zip(x.shape, low, high, strict=True))]
        widths = [(max(a, 0), max(b, 0)) for a, b in zip(low, high, strict=True)]
        return mx.pad(kept, widths, constant_values=scalar_array(value, x.dtype)) if x.ndim else kept
    for axis, (a, b) in enumerate(zip(low, high, strict=True)):
        if a or b:
            x = _extended(x, axis, a, b, mode)
    return x


def _rest(n: int, low: int, high: int) -> slice:
    """What negative widths leave of an axis."""
    return slice(max(-low, 0), n - max(-high, 0))


def _extended(x: mx.array, axis: int, low: int, high: int, mode: str) -> mx.array:
    """x with parts of itself before and after it along one axis."""

    def part(piece: slice) -> mx.array:
        return x[(slice(None),) * axis + (piece,)]

    n = x.shape[axis]
    kept = part(_rest(n, low, high))
    size = kept.shape[axis] if mode == "wrap" else n
    limit = {"reflect": n - 1, "wrap": size, "edge": max(low, high) if n else 0}[mode]
    if max(low, high) > limit:
        raise ValueError(f"{mode} widths of {low} and {high} for a size of {size}")
    if mode == "wrap":
        x, low_part, high_part = kept, slice(size - low, size), slice(0, high)
    elif mode == "reflect":
        low_part, high_part = slice(low, 0, -1), slice(n - 2, n - 2 - high if n - 2 >= high else None, -1)
    else:
        low_part, high_part = slice(0, 1), slice(n - 1, n)
    parts = [kept]
    for width, piece, at in ((low, low_part, 0), (high, high_part, 1)):
        if width > 0:
            shape = [*x.shape[:axis], width, *x.shape[axis + 1 :]]
            parts.insert(at * len(parts), mx.broadcast_to(part(piece), shape))
    return mx.concatenate(parts, axis)


def _padded(x, widths, mode, value=0):
    """`widths` as PyTorch has them: before and after the last axis, then the one before it, and so on."""
    if len(widths) % 2 or len(widths) > 2 * x.ndim:
        raise refuse(f"{len(widths)} padding widths for {x.ndim} axes")
    rest = [0] * (x.ndim - len(widths) // 2)
    low, high = [*rest, *widths[-2::-2]], [*rest, *widths[::-2]]
    if isinstance(value, complex):
        parts = (real(x), value.real), (imag(x), value.imag)
        return complex_(*(pad(part, low, high, mode, number) for part, number in parts))
    return pad(x, low, high, mode, value)


@lowers("aten.constant_pad_nd")
def constant_pad_nd(self, pad, value):
    return _padded(self, pad, "constant", value)


@lowers("aten.pad")
def pad_(self, pad, mode, value):
    return _padded(self, pad, _NAMES[mode], 0 if value is None else value)


@lowers("aten._pad_enum")
def pad_enum(self, pad, mode, value):
    return _padded(self, pad, _MODES[mode], 0 if value is None else value)


@lowers("aten._pad_circular")
def pad_circular(self, pad):
    return _padded(self, pad, "wrap")


@lowers("aten.reflection_pad1d", "aten.reflection_pad2d", "aten.reflection_pad3d")
def reflection_pad(self, padding):
    return _padded(self, padding, "reflect")


@lowers("aten.replication_pad1d", "aten.replication_pad2d", "aten.replication_pad3d")
def replication_pad(self, padding):
    return _padded(self, padding, "edge")
