"""Hashes of tensors: the exclusive or of the bits of their elements."""

from __future__ import annotations

import mlx.core as mx

from ..errors import refuse
from ..isa import Array, cast, instruction
from ..lowering import HALVES, lowers
from .arithmetic import add, literal
from .axes import axes_of
from .bitwise import bitwise_and, bitwise_or, left_shift
from .cast import view
from .compare import equal, less, where
from .reduce import filled, normal_axes

MANTISSA = 2**23
"""The bits of a float32 hold its exponent in multiples of this."""


@instruction(chain=128)
def xor_sum(x: Array, axes: list[int], keepdims: bool) -> Array:
    """The exclusive or of all elements over axes. Of nothing 0. Integers or bools."""
    if mx.issubdtype(x.dtype, mx.inexact):
        raise ValueError(f"exclusive or of {x.dtype}")
    axes = normal_axes(x, axes)
    if x.size == 0:
        return filled(x, axes, keepdims, 0, x.dtype)
    for axis in axes:
        while (n := x.shape[axis]) > 1:
            first, second, *rest = mx.split(x, [n // 2, n // 2 * 2], axis)
            x = mx.concatenate([mx.bitwise_xor(first, second), *rest], axis)
    return x if keepdims else mx.squeeze(x, axes)


@lowers("aten.hash_tensor")
def hash_tensor(self, dim=(), keepdim=False):
    return xor_sum(_words(self), axes_of(self, dim), keepdim)


def _words(x):
    """The elements as 64 bits: those of integers as int64, those of floats as float64."""
    if x.dtype == mx.complex64:
        raise refuse("PyTorch has no hash of complex numbers")
    if not mx.issubdtype(x.dtype, mx.floating):
        return x if x.dtype == mx.uint64 else view(cast(x, mx.int64), mx.uint64)
    if x.dtype == mx.float64:
        return view(x, mx.uint64)
    return _float64_bits(cast(x, mx.float32) if x.dtype in HALVES else x)


def _float64_bits(x):
    """The bits of float32 as float64, in integers, since GPUs have no float64."""
    bits = cast(view(x, mx.uint32), mx.uint64)
    size, sign = (bitwise_and(bits, _word(mask)) for mask in (2**31 - 1, 2**31))
    # A subnormal number is a whole multiple of 2**-149, which as a float32 of its own is normal.
    scaled = cast(view(cast(cast(size, mx.int32), mx.float32), mx.int32), mx.uint64)
    subnormal = less(size, _word(MANTISSA))
    exponent = where(subnormal, _word(1023 - 127 - 149), _word(1023 - 127))
    exponent = where(less(size, _word(255 * MANTISSA)), exponent, _word(2047 - 255))
    wide = left_shift(add(where(subnormal, scaled, size), left_shift(exponent, _word(23))), _word(29))
    zero = _word(0)
    return bitwise_or(where(equal(size, zero), zero, wide), left_shift(sign, _word(32)))


def _word(value):
    return literal(value, mx.uint64)
