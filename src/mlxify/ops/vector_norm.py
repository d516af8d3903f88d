"""Norms of vectors, and those of matrices that need no singular values."""

from __future__ import annotations

import math

import mlx.core as mx

from ..errors import refuse
from ..isa import cast
from ..lowering import lowers
from .arithmetic import multiply, power, subtract, widen
from .axes import axes_of, axis_of
from .linalg import largest
from .reduce import max_, min_, sum_
from .shape import expand_dims, squeeze
from .svd import singular_norm
from .unary import abs_, sqrt


@lowers("aten.linalg_vector_norm")
def vector_norm(self, ord=2, dim=None, keepdim=False, dtype=None):
    x = widen(self if dtype is None else cast(self, dtype))
    return _vector_norm(x, ord, axes_of(x, dim), keepdim)


def _vector_norm(x, order, axes, keepdims):
    """Of a float or complex x, half precision widened."""
    order = float(order)
    if order == 0:
        return cast(sum_(cast(x, mx.bool_), axes, keepdims), _real(x.dtype))
    if order == 2 and x.dtype != mx.complex64:
        return sqrt(sum_(multiply(x, x), axes, keepdims))
    size = abs_(x)
    if math.isinf(order):
        return (max_ if order > 0 else min_)(size, axes, keepdims)
    if order == 1:
        return sum_(size, axes, keepdims)
    return power(sum_(power(size, order), axes, keepdims), 1 / order)


def _real(dtype):
    return mx.float32 if dtype == mx.complex64 else dtype


@lowers(
    "aten.norm.Scalar",
    "aten.norm.ScalarOpt_dim",
    "aten.norm.ScalarOpt_dim_dtype",
    "aten.norm.ScalarOpt_dtype",
)
def norm(self, p=2, dim=None, keepdim=False, dtype=None):
    return vector_norm(self, 2 if p is None else p, dim, keepdim, dtype)


@lowers("aten.frobenius_norm.dim")
def frobenius_norm(self, dim, keepdim=False):
    return vector_norm(self, 2, dim, keepdim)


@lowers("aten.dist", promote=("self", "other"), to="float", opmath=True)
def dist(self, other, p=2):
    difference = subtract(self, other)
    return _vector_norm(difference, p, axes_of(difference, None), False)


@lowers("aten.linalg_norm", "aten.linalg_norm.ord_str")
def linalg_norm(self, ord=None, dim=None, keepdim=False, dtype=None):
    if ord is None or (dim is None and self.ndim == 1) or (dim is not None and len(dim) == 1):
        return vector_norm(self, 2 if ord is None else ord, dim, keepdim, dtype)
    return matrix_norm(self, ord, list(range(self.ndim)) if dim is None else dim, keepdim, dtype)


@lowers("aten.linalg_matrix_norm", "aten.linalg_matrix_norm.str_ord")
def matrix_norm(self, ord="fro", dim=(-2, -1), keepdim=False, dtype=None):
    if ord == "fro":
        return vector_norm(self, 2, dim, keepdim, dtype)
    if ord == "nuc" or abs(ord) == 2:
        return singular_norm(self if dtype is None else cast(self, dtype), ord, dim, keepdim)
    if abs(ord) not in (1, math.inf):
        raise refuse(f"there is no norm {ord} of a matrix")
    x = widen(self if dtype is None else cast(self, dtype))
    rows, columns = (axis_of(x, d) for d in dim)
    if abs(ord) != 1:
        rows, columns = columns, rows
    sums = sum_(abs_(x), [rows], True)
    result = largest(sums, columns) if ord > 0 else min_(sums, [columns], False)
    return expand_dims(result, [columns]) if keepdim else squeeze(result, [rows - (columns < rows)])
