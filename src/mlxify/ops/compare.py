"""Comparisons, and choices that follow from them."""

from __future__ import annotations

import mlx.core as mx

from ..isa import Array, instruction
from ..lowering import as_array, lowers
from .arithmetic import is_integral, literal, with_scalar
from .bitwise import bitwise_invert, bitwise_or


@instruction(elementwise=True)
def equal(x: Array, y: Array) -> Array:
    """x == y, broadcast, as bool; nan equals nothing. Both of one dtype."""
    return mx.equal(x, y)


@instruction(elementwise=True)
def not_equal(x: Array, y: Array) -> Array:
    """x != y, broadcast, as bool; nan differs from everything, itself too. Both of one dtype."""
    return mx.not_equal(x, y)


@instruction(elementwise=True)
def less(x: Array, y: Array) -> Array:
    """x < y, broadcast, as bool; false for nan. Both of one dtype, not complex."""
    return mx.less(x, y)


@instruction(elementwise=True)
def less_equal(x: Array, y: Array) -> Array:
    """x <= y, broadcast, as bool; false for nan. Both of one dtype, not complex."""
    return mx.less_equal(x, y)


@instruction(elementwise=True)
def greater(x: Array, y: Array) -> Array:
    """x > y, broadcast, as bool; false for nan. Both of one dtype, not complex."""
    return mx.greater(x, y)


@instruction(elementwise=True)
def greater_equal(x: Array, y: Array) -> Array:
    """x >= y, broadcast, as bool; false for nan. Both of one dtype, not complex."""
    return mx.greater_equal(x, y)


@instruction(elementwise=True)
def isinf(x: Array) -> Array:
    """Whether x is plus or minus infinity, as bool; for complex numbers, whether one of its parts is."""
    return mx.isinf(x)


@instruction(elementwise=True)
def where(condition: Array, x: Array, y: Array) -> Array:
    """x where condition (bool) holds, elsewhere y, broadcast. x and y of one dtype."""
    return mx.where(condition, x, y)


@lowers(*with_scalar("eq"), promote=("self", "other"))
def eq(self, other):
    return equal(self, other)


@lowers(*with_scalar("ne", "not_equal"), promote=("self", "other"))
def ne(self, other):
    return not_equal(self, other)


@lowers(*with_scalar("lt", "less"), promote=("self", "other"))
def lt(self, other):
    return less(self, other)


@lowers(*with_scalar("le", "less_equal"), promote=("self", "other"))
def le(self, other):
    return less_equal(self, other)


@lowers(*with_scalar("gt", "greater"), promote=("self", "other"))
def gt(self, other):
    return greater(self, other)


@lowers(*with_scalar("ge", "greater_equal"), promote=("self", "other"))
def ge(self, other):
    return greater_equal(self, other)


@lowers("aten.isnan")
def isnan(self):
    return not_equal(self, self)


@lowers("aten.isinf")
def isinf_(self):
    return isinf(self)


@lowers("aten.isfinite")
def isfinite(self):
    return bitwise_invert(bitwise_or(isinf(self), not_equal(self, self)))


@lowers("aten.isposinf")
def isposinf(self):
    return less(self, self) if is_integral(self.dtype) else equal(self, float("inf"))


@lowers("aten.isneginf")
def isneginf(self):
    return less(self, self) if is_integral(self.dtype) else equal(self, float("-inf"))


@lowers(
    "aten.where.self",
    "aten.where.ScalarOther",
    "aten.where.ScalarSelf",
    "aten.where.Scalar",
    promote=("self", "other"),
)
def where_(condition, self, other):
    return where(as_array(condition, mx.bool_), self, other)


@lowers("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def masked_fill(self, mask, value):
    return where(mask, literal(value, self.dtype), self)
