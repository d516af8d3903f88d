"""Bits of integers and bools: and, or, exclusive or, not, shifts; the logical operations are these on bools."""

from __future__ import annotations

import mlx.core as mx

from ..isa import Array, instruction
from ..lowering import as_array, lowers
from .arithmetic import with_scalar


@instruction(elementwise=True)
def bitwise_and(x: Array, y: Array) -> Array:
    """x & y, broadcast. Integers or bools of one dtype."""
    return mx.bitwise_and(x, y)


@instruction(elementwise=True)
def bitwise_or(x: Array, y: Array) -> Array:
    """x | y, broadcast. Integers or bools of one dtype."""
    return mx.bitwise_or(x, y)


@instruction(elementwise=True)
def bitwise_xor(x: Array, y: Array) -> Array:
    """x ^ y, broadcast. Integers or bools of one dtype."""
    return mx.bitwise_xor(x, y)


@instruction(elementwise=True)
def bitwise_invert(x: Array) -> Array:
    """All bits flipped; not x for bools."""
    return mx.logical_not(x) if x.dtype == mx.bool_ else mx.bitwise_invert(x)


@instruction(elementwise=True)
def left_shift(x: Array, y: Array) -> Array:
    """x << y, broadcast; 0 where y is negative or not less than the number of bits. Integers of one dtype."""
    in_range = _in_range(x, y)
    shifted = mx.left_shift(x, mx.where(in_range, y, 0))
    return mx.where(in_range, shifted, 0)


@instruction(elementwise=True)
def right_shift(x: Array, y: Array) -> Array:
    """x >> y, keeping the sign, broadcast. Integers of one dtype.

    Where y is negative or not less than the number of bits: -1 for a negative x, otherwise 0.
    """
    in_range = _in_range(x, y)
    shifted = mx.right_shift(x, mx.where(in_range, y, 0))
    return mx.where(in_range, shifted, mx.negative((x < 0).astype(x.dtype)))


def _in_range(x: mx.array, y: mx.array) -> mx.array:
    if not mx.issubdtype(x.dtype, mx.integer) or x.dtype != y.dtype:
        raise ValueError("shifts take integers of one dtype")
    return (y >= 0) & (y < x.dtype.size * 8)


@lowers(*with_scalar("bitwise_and", "__and__"), "aten.bitwise_and.Scalar_Tensor", promote=("self", "other"))
def bitwise_and_(self, other):
    return bitwise_and(self, other)


@lowers(*with_scalar("bitwise_or", "__or__"), "aten.bitwise_or.Scalar_Tensor", promote=("self", "other"))
def bitwise_or_(self, other):
    return bitwise_or(self, other)


@lowers(*with_scalar("bitwise_xor", "__xor__"), "aten.bitwise_xor.Scalar_Tensor", promote=("self", "other"))
def bitwise_xor_(self, other):
    return bitwise_xor(self, other)


@lowers("aten.bitwise_not")
def bitwise_not(self):
    return bitwise_invert(self)


@lowers(
    *with_scalar("__lshift__"),
    "aten.bitwise_left_shift.Tensor",
    "aten.bitwise_left_shift.Tensor_Scalar",
    "aten.bitwise_left_shift.Scalar_Tensor",
    promote=("self", "other"),
)
def bitwise_left_shift(self, other):
    return left_shift(self, other)


@lowers(
    *with_scalar("__rshift__"),
    "aten.bitwise_right_shift.Tensor",
    "aten.bitwise_right_shift.Tensor_Scalar",
    "aten.bitwise_right_shift.Scalar_Tensor",
    promote=("self", "other"),
)
def bitwise_right_shift(self, other):
    return right_shift(self, other)


@lowers("aten.logical_and")
def logical_and(self, other):
    return bitwise_and(as_array(self, mx.bool_), as_array(other, mx.bool_))


@lowers("aten.logical_or")
def logical_or(self, other):
    return bitwise_or(as_array(self, mx.bool_), as_array(other, mx.bool_))


@lowers("aten.logical_xor")
def logical_xor(self, other):
    return bitwise_xor(as_array(self, mx.bool_), as_array(other, mx.bool_))


@lowers("aten.logical_not")
def logical_not(self):
    return bitwise_invert(as_array(self, mx.bool_))
