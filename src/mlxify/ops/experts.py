"""Matrix products with matrices chosen by index, as in mixtures of experts."""

from __future__ import annotations

import math

import mlx.core as mx

from ..device import on_cpu
from ..errors import refuse
from ..isa import Array, cast, instruction
from ..lowering import as_array, lowers
from .arithmetic import add, minimum
from .compare import less, where
from .create import arange
from .index import in_range
from .linear import matmul, product
from .shape import expand_dims, squeeze
from .sort import searchsorted


@instruction
def gather_mm(
    x: Array, y: Array, lhs_indices: Array | None, rhs_indices: Array | None, sorted_indices: bool
) -> Array:
    """x[lhs_indices] @ y[rhs_indices], without copying the matrices. x: (..., m, k), y: (..., k, n), floats of one dtype.

    Indices count the matrices along all axes before the last two, flattened, modulo their number; None means each
    matrix in turn. The two broadcast together to the first axes of the result. Half precision adds up in float32.
    sorted_indices promises that rhs_indices ascend.
    """
    if x.dtype != y.dtype or not mx.issubdtype(x.dtype, mx.floating) or min(x.ndim, y.ndim) < 2:
        raise ValueError("gather_mm needs matrices of floats of one dtype")
    if x.shape[-1] != y.shape[-2]:
        raise ValueError(f"gather_mm of the shapes {x.shape} and {y.shape}")
    lhs, rhs = matrix_numbers(lhs_indices, x.shape[:-2]), matrix_numbers(rhs_indices, y.shape[:-2])
    shape = (*mx.broadcast_shapes(lhs.shape, rhs.shape), x.shape[-2], y.shape[-1])
    if 0 in (*shape, x.shape[-1]):
        return mx.zeros(shape, x.dtype)
    if on_cpu() and x.dtype != mx.float32:  # there MLX multiplies float32 only
        return _gathered(x, y, lhs, rhs)
    return mx.gather_mm(x, y, lhs, rhs, sorted_indices=sorted_indices)


def matrix_numbers(indices: mx.array | None, batch: tuple[int, ...]) -> mx.array:
    """Indices of matrices, in range; those of all matrices in turn for None."""
    count = math.prod(batch)
    if indices is None:
        return mx.reshape(mx.arange(count, dtype=mx.uint32), batch)
    return in_range(indices, count).astype(mx.uint32)


def _gathered(x: mx.array, y: mx.array, lhs: mx.array, rhs: mx.array) -> mx.array:
    """The product of copies of the chosen matrices; or of all, converted, when fewer than are chosen."""
    x, y = (mx.reshape(v, (-1, *v.shape[-2:])) for v in (x, y))
    if x.dtype != mx.float64 and rhs.size > y.shape[0]:
        return mx.gather_mm(x.astype(mx.float32), y.astype(mx.float32), lhs, rhs).astype(x.dtype)
    return product(mx.take(x, lhs, axis=0), mx.take(y, rhs, axis=0))


@lowers("mlx::gather_mm", "mlx::gather_mm.tensor", "mlx::gather_mm.tensor_kw")
def gather_mm_(a, b, rhs_indices=None, lhs_indices=None, sorted_indices=False):
    return gather_mm(a, b, lhs_indices, rhs_indices, sorted_indices is True)


@lowers("transformers::grouped_mm_fallback")
def grouped_mm_fallback(input, weight, offs):
    return _grouped(input, weight, offs)


@lowers("aten._grouped_mm")
def grouped_mm(self, mat2, offs=None, bias=None, out_dtype=None):
    if offs is None and self.ndim == mat2.ndim == 3:
        result = matmul(self, mat2)
    elif offs is not None and (self.ndim, mat2.ndim) == (2, 3):
        result = _grouped(self, mat2, offs)
    else:
        raise refuse(f"a grouped product of {self.ndim} and {mat2.ndim} axes is not supported")
    return result if bias is None else add(result, bias)


def _grouped(x, weight, ends):
    """Row i of x times the first matrix g for which i < ends[g]; rows beyond the last group give 0."""
    rows = arange(0, x.shape[0], 1, mx.int64)
    group = searchsorted(cast(ends, mx.int64), rows, "right")
    count = as_array(weight.shape[0], mx.int64)
    chosen = minimum(group, as_array(weight.shape[0] - 1, mx.int64))
    result = squeeze(gather_mm(expand_dims(x, [1]), weight, None, chosen, True), [1])
    return where(expand_dims(less(group, count), [1]), result, as_array(0.0, result.dtype))
