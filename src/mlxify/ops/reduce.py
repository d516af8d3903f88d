"""Reductions over axes: sums, products, means, extremes and their positions, any and all."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import mlx.core as mx

from ..device import on_cpu
from ..errors import refuse
from ..isa import Array, cast, instruction
from ..lowering import HALVES, lowers
from .arithmetic import divide, is_integral, literal
from .axes import axes_of, axis_of
from .compare import equal, where
from .exponential import exp_of
from .shape import reshape

PIECE = 256
"""Elements that MLX's CPU backend may add up one after another in float32."""


LONGEST_ROW = 1 << 16
"""Elements of a row that the BLAS may add up: in blocks of some hundreds, then the blocks."""


def normal_axes(x: mx.array, axes: list[int]) -> list[int]:
    """The axes as distinct non-negative numbers, ascending."""
    found = sorted({a + x.ndim if a < 0 else a for a in axes})
    if len(found) != len(axes) or (found and not 0 <= found[0] <= found[-1] < x.ndim):
        raise ValueError(f"the axes {axes} are not distinct axes of an array of {x.ndim}")
    return found


def count(x: mx.array, axes: list[int]) -> int:
    """How many elements are reduced to one."""
    return math.prod(x.shape[a] for a in axes)


def filled(x: mx.array, axes: list[int], keepdims: bool, value: float, dtype: mx.Dtype) -> mx.array:
    """The result of reducing an empty x: `value` in every place. MLX gets empty arrays of two axes wrong."""
    shape = [1 if a in axes else n for a, n in enumerate(x.shape) if keepdims or a not in axes]
    return mx.full(shape, value, dtype)


def total(x: mx.array, axes: list[int], keepdims: bool) -> mx.array:
    """The sum of floats or complex numbers, in their dtype, accurate on every device.

    On a CPU, MLX adds up float32 one after another (1e6 times 0.1 is 1 % off), so long axes are added in pieces, and
    then the pieces: that takes half the time as well. Rows are added up by the BLAS.
    """
    if x.size == 0:
        return filled(x, axes, keepdims, 0, x.dtype)
    if not on_cpu() or x.dtype not in (mx.float32, mx.complex64):
        return mx.sum(x, axis=axes, keepdims=keepdims)
    if axes == [x.ndim - 1] and _adds_rows(x):
        result = x @ _column(x.shape[-1], 1.0)
        return result if keepdims else mx.squeeze(result, -1)
    if count(x, axes) <= PIECE:
        return mx.sum(x, axis=axes, keepdims=keepdims)
    for axis in reversed(axes):
        while (n := x.shape[axis]) > PIECE:
            size = _piece(n)
            whole, rest = mx.split(x, [n - n % size], axis=axis) if n % size else (x, None)
            x = mx.sum(mx.unflatten(whole, axis, (n // size, size)), axis=axis + 1)
            if rest is not None:
                x = mx.concatenate([x, mx.sum(rest, axis=axis, keepdims=True)], axis=axis)
        x = mx.sum(x, axis=axis, keepdims=keepdims)
    return x


def row_means(x: mx.array) -> mx.array:
    """The means along the last axis, kept with size 1, for instruction bodies. Floats."""
    n = x.shape[-1]
    return x @ _column(n, 1 / n) if _adds_rows(x) else total(x, [x.ndim - 1], True) / max(n, 1)


def _adds_rows(x: mx.array) -> bool:
    return on_cpu() and x.dtype == mx.float32 and 0 < x.shape[-1] <= LONGEST_ROW


@lru_cache(64)
def _column(n: int, value: float) -> mx.array:
    """What a matrix is multiplied by to add up its rows."""
    column = mx.full((n, 1), value)
    mx.eval(column)
    return column


@lru_cache
def _piece(n: int) -> int:
    """The length of the pieces: the largest divisor up to half of PIECE, if there is a good one."""
    return next((k for k in range(PIECE // 2, 7, -1) if n % k == 0), PIECE // 4)


def accumulator(dtype: mx.Dtype) -> mx.Dtype:
    """The dtype in which sums and products are formed: int64 for integers and bool, float32 for halves."""
    if dtype in HALVES:
        return mx.float32
    return dtype if mx.issubdtype(dtype, mx.inexact) else mx.int64


@instruction
def sum_(x: Array, axes: list[int], keepdims: bool) -> Array:
    """The sum over axes; no axes leave x as it is. Of nothing 0.

    Integers and bool give int64, which wraps. Halves are added in float32 and rounded once.
    """
    axes, dtype = normal_axes(x, axes), accumulator(x.dtype)
    return total(x.astype(dtype), axes, keepdims).astype(x.dtype if x.dtype in HALVES else dtype)


@instruction
def prod(x: Array, axes: list[int], keepdims: bool) -> Array:
    """The product over axes. Of nothing 1.

    Integers and bool give int64, which wraps. Halves are multiplied in float32 and rounded once.
    """
    axes, dtype = normal_axes(x, axes), accumulator(x.dtype)
    result = x.dtype if x.dtype in HALVES else dtype
    if x.size == 0:
        return filled(x, axes, keepdims, 1, result)
    return mx.prod(x.astype(dtype), axis=axes, keepdims=keepdims).astype(result)


@instruction
def mean(x: Array, axes: list[int], keepdims: bool) -> Array:
    """The mean over axes of floats or complex numbers. Of nothing NaN. Halves are averaged in float32."""
    _needs_inexact("mean", x)
    axes = normal_axes(x, axes)
    wide = x.astype(accumulator(x.dtype))
    return (total(wide, axes, keepdims) / count(x, axes)).astype(x.dtype)


@instruction
def var(x: Array, axes: list[int], correction: float, keepdims: bool) -> Array:
    """sum(|x - mean(x)|**2) / max(n - correction, 0) over axes, for n elements. Halves in float32; complex gives float32."""
    _needs_inexact("var", x)
    if x.dtype == mx.complex64:
        return _variance(mx.real(x), axes, correction, keepdims) + _variance(
            mx.imag(x), axes, correction, keepdims
        )
    return _variance(x, axes, correction, keepdims)


def _variance(x: mx.array, axes: list[int], correction: float, keepdims: bool) -> mx.array:
    axes, wide = normal_axes(x, axes), x.astype(accumulator(x.dtype))
    n = count(x, axes)
    centred = wide - total(wide, axes, True) / n
    return (total(mx.square(centred), axes, keepdims) / max(n - correction, 0.0)).astype(x.dtype)


def _needs_inexact(name: str, x: mx.array) -> None:
    if not mx.issubdtype(x.dtype, mx.inexact):
        raise ValueError(f"{name} needs floats or complex numbers")


@instruction
def max_(x: Array, axes: list[int], keepdims: bool) -> Array:
    """The largest element over axes, of which there must be one. NaN if there is a NaN."""
    return _extreme(mx.max, x, axes, keepdims)


@instruction
def min_(x: Array, axes: list[int], keepdims: bool) -> Array:
    """The smallest element over axes, of which there must be one. NaN if there is a NaN."""
    return _extreme(mx.min, x, axes, keepdims)


def _extreme(op: Callable[..., mx.array], x: mx.array, axes: list[int], keepdims: bool) -> mx.array:
    axes = normal_axes(x, axes)
    if count(x, axes) == 0:
        raise ValueError("there is no largest or smallest element of nothing")
    return filled(x, axes, keepdims, 0, x.dtype) if x.size == 0 else op(x, axis=axes, keepdims=keepdims)


@instruction
def all_(x: Array, axes: list[int], keepdims: bool) -> Array:
    """Whether all elements over axes differ from 0 (NaN does). Of nothing true."""
    return _logical(mx.all, x, axes, keepdims, True)


@instruction
def any_(x: Array, axes: list[int], keepdims: bool) -> Array:
    """Whether any element over axes differs from 0 (NaN does). Of nothing false."""
    return _logical(mx.any, x, axes, keepdims, False)


def _logical(
    op: Callable[..., mx.array], x: mx.array, axes: list[int], keepdims: bool, empty: bool
) -> mx.array:
    axes = normal_axes(x, axes)
    if x.size == 0:
        return filled(x, axes, keepdims, empty, mx.bool_)
    return op(x if x.dtype == mx.bool_ else x != 0, axis=axes, keepdims=keepdims)


@instruction
def argmax(x: Array, axis: int, keepdims: bool) -> Array:
    """The int64 position of the first largest element along an axis; of the first NaN if there is one."""
    return _position(mx.argmax, x, axis, keepdims)


@instruction
def argmin(x: Array, axis: int, keepdims: bool) -> Array:
    """The int64 position of the first smallest element along an axis; of the first NaN if there is one."""
    return _position(mx.argmin, x, axis, keepdims)


def _position(op: Callable[..., mx.array], x: mx.array, axis: int, keepdims: bool) -> mx.array:
    axes = normal_axes(x, [axis])
    if count(x, axes) == 0:
        raise ValueError("there is no largest or smallest element of nothing")
    if x.size == 0:
        return filled(x, axes, keepdims, 0, mx.int64)
    if x.dtype == mx.bool_:
        x = x.astype(mx.uint8)
    index = op(x, axis=axis, keepdims=keepdims)
    if mx.issubdtype(x.dtype, mx.floating) and not on_cpu():  # the kernels of GPUs skip NaN
        nan = mx.isnan(x)
        first = mx.argmax(nan.astype(mx.uint8), axis=axis, keepdims=keepdims)
        index = mx.where(mx.any(nan, axis=axis, keepdims=keepdims), first, index)
    return index.astype(mx.int64)


@instruction(chain=128)
def logsumexp(x: Array, axes: list[int], keepdims: bool) -> Array:
    """log(sum(exp(x))) over axes, without overflow. Of nothing -inf. Floats, halves in float32, and complex numbers."""
    axes, wide = normal_axes(x, axes), x.astype(accumulator(x.dtype))
    if x.size == 0:
        return filled(x, axes, keepdims, -math.inf, x.dtype)
    if not axes:
        return x
    is_complex = x.dtype == mx.complex64
    if not on_cpu() and not is_complex:
        return mx.logsumexp(wide, axis=axes, keepdims=keepdims).astype(x.dtype)
    # As for softmax: half the time of MLX's own there, and accurate.
    largest = mx.max(mx.real(wide) if is_complex else wide, axis=axes, keepdims=True)
    shift = mx.where(mx.abs(largest) < math.inf, largest, mx.zeros_like(largest))
    result = mx.log(total(exp_of(wide - shift), axes, True)) + shift
    return (result if keepdims else mx.squeeze(result, axes)).astype(x.dtype)


@lowers("aten.sum", "aten.sum.dim_IntList")
def sum_dims(self, dim=None, keepdim=False, dtype=None):
    return sum_(self if dtype is None else cast(self, dtype), axes_of(self, dim), keepdim)


@lowers("aten.prod", "aten.prod.dim_int")
def prod_dim(self, dim=None, keepdim=False, dtype=None):
    return prod(self if dtype is None else cast(self, dtype), axes_of(self, dim), keepdim)


@lowers("aten.mean", "aten.mean.dim")
def mean_dims(self, dim=None, keepdim=False, dtype=None):
    return mean(self if dtype is None else cast(self, dtype), axes_of(self, dim), keepdim)


@lowers("aten.max", "aten.amax")
def amax(self, dim=(), keepdim=False):
    return max_(self, axes_of(self, dim), keepdim)


@lowers("aten.min", "aten.amin")
def amin(self, dim=(), keepdim=False):
    return min_(self, axes_of(self, dim), keepdim)


@lowers("aten.aminmax")
def aminmax(self, dim=None, keepdim=False):
    axes = axes_of(self, dim)
    return min_(self, axes, keepdim), max_(self, axes, keepdim)


@lowers("aten.max.dim")
def max_dim(self, dim, keepdim=False):
    return amax(self, dim, keepdim), argmax_(self, dim, keepdim)


@lowers("aten.min.dim")
def min_dim(self, dim, keepdim=False):
    return amin(self, dim, keepdim), argmin_(self, dim, keepdim)


@lowers("aten.argmax")
def argmax_(self, dim=None, keepdim=False):
    return _position_along(argmax, self, dim, keepdim)


@lowers("aten.argmin")
def argmin_(self, dim=None, keepdim=False):
    return _position_along(argmin, self, dim, keepdim)


def _position_along(op, x, dim, keepdim):
    if dim is None or x.ndim == 0:
        index = op(reshape(x, [-1]), 0, keepdim)
        return reshape(index, [1] * x.ndim) if keepdim else index
    return op(x, axis_of(x, dim), keepdim)


@lowers("aten.any", "aten.any.dim", "aten.any.dims")
def any_dims(self, dim=None, keepdim=False):
    return any_(self, _logical_axes(self, dim), keepdim)


@lowers("aten.all", "aten.all.dim", "aten.all.dims")
def all_dims(self, dim=None, keepdim=False):
    return all_(self, _logical_axes(self, dim), keepdim)


def _logical_axes(x, dim):
    """An empty list means no axes here, unlike in all other reductions."""
    return [] if isinstance(dim, (list, tuple)) and not dim else axes_of(x, dim)


@lowers("aten._is_all_true")
def is_all_true(self):
    return all_(self, axes_of(self, None), False)


@lowers("aten._is_any_true")
def is_any_true(self):
    return any_(self, axes_of(self, None), False)


@lowers("aten.count_nonzero", "aten.count_nonzero.dim_IntList")
def count_nonzero(self, dim=None):
    return sum_(cast(self, mx.bool_), axes_of(self, dim), False)


@lowers("aten.logsumexp", "aten.special_logsumexp", promote="self", to="float", opmath=True)
def logsumexp_(self, dim, keepdim=False):
    return logsumexp(self, axes_of(self, dim), keepdim)


@lowers("aten.nansum")
def nansum(self, dim=None, keepdim=False, dtype=None):
    if isinstance(dim, (list, tuple)) and not dim:
        raise refuse("torch.export gives its result a wrong shape for no axes: leave dim out")
    return sum_dims(_without_nan(self), dim, keepdim, dtype)


@lowers("aten.nanmean", opmath=True)
def nanmean(self, dim=None, keepdim=False, dtype=None):
    sums = nansum(self, dim, keepdim, dtype)
    return divide(sums, cast(sum_(equal(self, self), axes_of(self, dim), keepdim), sums.dtype))


def _without_nan(x):
    return x if is_integral(x.dtype) else where(equal(x, x), x, literal(0.0, x.dtype))
