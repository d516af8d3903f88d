"""Matrix products: linear layers, matmul and its relatives. Contractions by labels are in einsum.py."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from ..device import on_cpu
from ..isa import Array, cast, instruction
from ..lowering import HALVES, lowers
from .arithmetic import add, literal, multiply, subtract
from .axes import axes_of, axis_of
from .complex import conj
from .join import roll
from .reduce import sum_
from .shape import product as count
from .shape import reshape, transpose

LIMB_SUMS = 1 << 21
"""The number of products of two 16-bit limbs that float64 adds up exactly."""


@instruction
def linear(x: Array, weight: Array, bias: Array | None) -> Array:
    """x @ weight.T + bias, rounded once. x: (..., k), weight: (n, k), bias: (n,) or None, all of one dtype."""
    if weight.ndim != 2 or x.ndim == 0:
        raise ValueError("linear needs x of shape (..., k) and a weight of shape (n, k)")
    weight = mx.swapaxes(weight, 0, 1)
    return product(x, weight) if bias is None else product_sum(bias, x, weight, 1.0, 1.0)


@instruction
def matmul(x: Array, y: Array) -> Array:
    """The matrix product of the last two axes, the others broadcast. Both of one dtype, any but bool.

    A 1-d x is a row and a 1-d y a column, an axis that the result drops. Half precision adds up in float32 and
    rounds once, integers wrap.
    """
    return product(x, y)


@instruction
def addmm(c: Array, x: Array, y: Array, alpha: float, beta: float) -> Array:
    """beta * c + alpha * (x @ y), rounded once. Floats of one dtype; c broadcasts, and is not read if beta is 0."""
    return product_sum(c, x, y, alpha, beta)


def product(x: mx.array, y: mx.array) -> mx.array:
    """x @ y, for any dtype but bool."""
    if x.dtype != y.dtype or x.dtype == mx.bool_ or 0 in (x.ndim, y.ndim):
        raise ValueError("matmul needs two arrays of one dtype, not bool, with at least one axis each")
    if mx.issubdtype(x.dtype, mx.integer):
        return _integer_product(x, y)
    if x.dtype in HALVES and on_cpu():  # MLX's own loop for halves is far slower than the BLAS
        return (x.astype(mx.float32) @ y.astype(mx.float32)).astype(x.dtype)
    return x @ y


def product_sum(c: mx.array, x: mx.array, y: mx.array, alpha: float, beta: float) -> mx.array:
    """beta * c + alpha * (x @ y)."""
    dtype = x.dtype
    if not c.dtype == dtype == y.dtype or not mx.issubdtype(dtype, mx.inexact):
        raise ValueError("addmm needs three arrays of one dtype, floats or complex numbers")
    if dtype in HALVES and on_cpu():
        c, x, y = (v.astype(mx.float32) for v in (c, x, y))
        return product_sum(c, x, y, alpha, beta).astype(dtype)
    # mx.addmm cannot flatten an empty x; on a CPU it copies c first, which takes longer than adding it.
    if not on_cpu() and dtype in (mx.float32, *HALVES) and min(x.ndim, y.ndim) >= 2 and x.size and beta != 0:
        return mx.addmm(c, x, y, alpha=alpha, beta=beta)
    result = product(x, y)
    c = mx.broadcast_to(c, result.shape)
    # mx.addmm keeps the factors in float32, so float64 is done here.
    result = result if alpha == 1 else result * mx.array(alpha, dtype=dtype)
    if beta == 0:
        return result
    return result + (c if beta == 1 else c * mx.array(beta, dtype=dtype))


def _integer_product(x: mx.array, y: mx.array) -> mx.array:
    """x @ y of integers, modulo 2**bits. MLX multiplies matrices of floats only.

    The numbers are cut into limbs so small that float64, which the CPU alone has, adds their products exactly.
    """
    bits = x.dtype.size * 8
    width = 16 if x.shape[-1] <= LIMB_SUMS else 8
    with mx.stream(mx.cpu):
        left, right = _limbs(x, bits, width), _limbs(y, bits, width)
        total: Any = None
        for i, a in enumerate(left):
            for j, b in enumerate(right[: len(right) - i]):
                term = mx.left_shift((a @ b).astype(mx.int64), mx.array(width * (i + j), dtype=mx.int64))
                total = term if total is None else total + term
        return total.astype(x.dtype)


def _limbs(x: mx.array, bits: int, width: int) -> list[mx.array]:
    """x modulo 2**bits = sum of limb[i] * 2**(width * i), each limb in [0, 2**width)."""
    wide, mask = x.astype(mx.int64), mx.array((1 << min(width, bits)) - 1, dtype=mx.int64)
    shifts = [mx.array(start, dtype=mx.int64) for start in range(0, bits, width)]
    return [mx.bitwise_and(mx.right_shift(wide, shift), mask).astype(mx.float64) for shift in shifts]


@lowers("aten.linear")
def linear_(input, weight, bias=None):
    if weight.ndim == 2 and mx.issubdtype(input.dtype, mx.floating) and (bias is None or bias.ndim == 1):
        return linear(input, weight, bias)
    result = matmul(input, transpose(weight, [1, 0]) if weight.ndim == 2 else weight)
    return result if bias is None else add(result, bias)


@lowers("aten.matmul", "aten.linalg_matmul")
def matmul_(self, other):
    return matmul(self, other)


@lowers("aten.mm")
def mm(self, mat2):
    return matmul(self, mat2)


@lowers("aten.bmm")
def bmm(self, mat2):
    return matmul(self, mat2)


@lowers("aten._int_mm")
def int_mm(self, mat2):
    return matmul(cast(self, mx.int32), cast(mat2, mx.int32))


@lowers("aten.mv")
def mv(self, vec):
    return matmul(self, vec)


@lowers("aten.dot")
def dot(self, tensor):
    return matmul(self, tensor)


@lowers("aten.vdot")
def vdot(self, other):
    return matmul(conj(self), other)


@lowers("aten.linalg_vecdot", promote=("x", "y"))
def vecdot(x, y, dim=-1):
    if x.ndim == y.ndim == 1:
        return vdot(x, y)
    products = multiply(conj(x), y)
    return sum_(products, axes_of(products, [dim]), False)


@lowers("aten.inner", promote=("self", "other"))
def inner(self, other):
    if not self.ndim or not other.ndim:
        return multiply(self, other)
    if other.ndim == 1:
        return matmul(self, other)
    columns = transpose(reshape(other, [count(other.shape[:-1]), other.shape[-1]]), [1, 0])
    return reshape(matmul(self, columns), [*self.shape[:-1], *other.shape[:-1]])


@lowers("aten.outer", "aten.ger", promote=("self", "vec2"))
def outer(self, vec2):
    return multiply(reshape(self, [self.shape[0], 1]), vec2)


@lowers("aten.addmm")
def addmm_(self, mat1, mat2, beta=1, alpha=1):
    return scaled_sum(self, mat1, mat2, beta, alpha)


@lowers("aten.addmv")
def addmv(self, mat, vec, beta=1, alpha=1):
    return scaled_sum(self, mat, vec, beta, alpha)


@lowers("aten.baddbmm")
def baddbmm(self, batch1, batch2, beta=1, alpha=1):
    return scaled_sum(self, batch1, batch2, beta, alpha)


@lowers("aten.addbmm")
def addbmm(self, batch1, batch2, beta=1, alpha=1):
    batch, rows, inner = batch1.shape
    left = reshape(transpose(batch1, [1, 0, 2]), [rows, batch * inner])
    return scaled_sum(self, left, reshape(batch2, [batch * inner, batch2.shape[2]]), beta, alpha)


@lowers("aten.addr", promote=("self", "vec1", "vec2"))
def addr(self, vec1, vec2, beta=1, alpha=1):
    # PyTorch rounds half precision after each of these steps.
    result = outer(_times(vec1, alpha), vec2)
    return result if beta == 0 else add(_times(self, beta), result)


def scaled_sum(self, x, y, beta, alpha):
    """beta * self + alpha * (x @ y) in PyTorch's terms: self is ignored when beta is 0."""
    if mx.issubdtype(x.dtype, mx.floating):
        return addmm(self, x, y, float(alpha), float(beta))
    result = _times(matmul(x, y), alpha)
    return result if beta == 0 else add(_times(self, beta), result)


def _times(x, factor):
    return (
        x if factor == 1 else multiply(x, literal(factor, x.dtype))
    )  # a fraction times integers is truncated


@lowers("aten.linalg_cross", promote=("self", "other"))
def linalg_cross(self, other, dim=-1):
    return _cross(self, other, axis_of(self, dim))


@lowers("aten.cross", promote=("self", "other"))
def cross(self, other, dim=None):
    return _cross(self, other, list(self.shape).index(3) if dim is None else axis_of(self, dim))


def _cross(x, y, axis):
    def after(v, steps):
        return roll(v, [-steps], [axis])

    return subtract(multiply(after(x, 1), after(y, 2)), multiply(after(x, 2), after(y, 1)))
