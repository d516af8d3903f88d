"""Arithmetic of two operands: sums, products, quotients, remainders, powers, extremes."""

from __future__ import annotations

import mlx.core as mx

from ..isa import Array, instruction
from ..lowering import lowers


@instruction
def add(x: Array, y: Array) -> Array:
    """x + y, broadcast. Both of one dtype; integers wrap."""
    return mx.add(x, y)


@instruction
def subtract(x: Array, y: Array) -> Array:
    """x - y, broadcast. Both of one dtype; integers wrap."""
    return mx.subtract(x, y)


@instruction
def multiply(x: Array, y: Array) -> Array:
    """x * y, broadcast. Both of one dtype; integers wrap."""
    return mx.multiply(x, y)


@instruction
def divide(x: Array, y: Array) -> Array:
    """x / y, broadcast. Floats and complex numbers of one dtype."""
    return mx.divide(x, y)


@instruction
def floor_divide(x: Array, y: Array) -> Array:
    """Integer x // y rounded towards minus infinity; x // 0 is 0, the least integer // -1 wraps to itself."""
    safe = mx.where((y == 0) | (y == -1) if mx.issubdtype(y.dtype, mx.signedinteger) else y == 0, mx.ones_like(y), y)
    return mx.where(y == 0, mx.zeros_like(x), mx.where(safe != y, mx.negative(x), mx.floor_divide(x, safe)))


@instruction
def remainder(x: Array, y: Array) -> Array:
    """x - y * floor(x / y), with the sign of y. Integer x % 0 is x."""
    if mx.issubdtype(x.dtype, mx.integer):
        safe = mx.where((y == 0) | (y == -1) if mx.issubdtype(y.dtype, mx.signedinteger) else y == 0, mx.ones_like(y), y)
        return mx.where(y == 0, x, mx.remainder(x, safe))
    return mx.remainder(x, y)


@lowers("aten.add.Tensor", "aten.add.Scalar", promote=("self", "other"), opmath="scalar")
def add_(self, other, alpha=1):
    return add(self, other if alpha == 1 else multiply(other, alpha))


@lowers("aten.sub.Tensor", "aten.sub.Scalar", promote=("self", "other"), opmath="scalar")
def sub(self, other, alpha=1):
    return subtract(self, other if alpha == 1 else multiply(other, alpha))


@lowers("aten.mul.Tensor", "aten.mul.Scalar", promote=("self", "other"), opmath="scalar")
def mul(self, other):
    return multiply(self, other)


@lowers("aten.div.Tensor", "aten.div.Scalar", promote=("self", "other"), to="float", opmath="scalar")
def div(self, other):
    return divide(self, other)
