"""Singular values: norms, ranks, condition numbers and pseudo-inverses."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from ..errors import refuse
from ..isa import Array, cast, instruction
from ..lowering import lowers
from .arithmetic import add, divide, literal, maximum, multiply
from .axes import axis_of
from .compare import greater, where
from .create import full
from .diagonal import diagonal, embedded, tril
from .linalg import adjoint, check_matrices, columns, decomposable, largest, real_dtype, real_part
from .linear import matmul
from .reduce import min_, sum_
from .shape import expand_dims, moved

EPS = {mx.float32: 2.0**-23, mx.float64: 2.0**-52}


@instruction(fails=True)
def svd(x: Array) -> tuple[Array, Array, Array]:
    """U (..., m, m), the singular values (..., k), descending, and V.H (..., n, n) of matrices (..., m, n).

    k = min(m, n), and U[:, :k] * values @ V.H[:k] is x. float32, float64 or complex64. Fails if x is not finite.
    """
    check_matrices(x)
    with mx.stream(mx.cpu):
        u, s, vh = mx.linalg.svd(x)
        return u, s, vh


@lowers("aten._linalg_svd")
def svd_parts(A, full_matrices=False, compute_uv=True, driver=None):
    decomposable(A)
    u, s, vh = svd(A)
    if not compute_uv:
        return [full([0], 0, A.dtype), s, full([0], 0, A.dtype)]
    if not full_matrices:
        u, vh = columns(u, s.shape[-1], u.ndim - 1), columns(vh, s.shape[-1], vh.ndim - 2)
    return [u, s, vh]


@lowers("aten.linalg_svd")
def linalg_svd(A, full_matrices=True, driver=None):
    return svd_parts(A, full_matrices)


@lowers("aten.svd")
def old_svd(self, some=True, compute_uv=True):
    u, s, vh = svd_parts(self, not some)
    if not compute_uv:
        rows, width = self.shape[-2:]
        return [
            full([*self.shape[:-2], rows, rows], 0, self.dtype),
            s,
            full([*self.shape[:-2], width, width], 0, self.dtype),
        ]
    return [u, s, adjoint(vh)]


@lowers("aten.linalg_svdvals")
def svdvals(A, driver=None):
    return svd_parts(A)[1]


def singular_norm(x: Any, order: Any, dim: Any, keepdim: bool) -> Any:
    """The sum ("nuc"), the largest (2) or the smallest (-2) of the singular values of the matrices in two axes."""
    axes = sorted(axis_of(x, d) for d in dim)
    values = svdvals(moved(x, list(dim), [-2, -1]))
    last = values.ndim - 1
    if order == 2:
        result = largest(values, last)
    else:
        result = (sum_ if order == "nuc" else min_)(values, [last], False)
    return expand_dims(result, axes) if keepdim else result


@lowers("aten.linalg_matrix_rank.atol_rtol_tensor", "aten.linalg_matrix_rank.atol_rtol_float")
def matrix_rank(self=None, atol=None, rtol=None, hermitian=False, input=None):
    x = self if input is None else input
    decomposable(x)
    s, limit = _values_and_limit(x, atol, rtol, hermitian)
    return sum_(cast(greater(s, limit), mx.int64), [s.ndim - 1], False)


@lowers("aten.linalg_matrix_rank", "aten.linalg_matrix_rank.tol_tensor")
def matrix_rank_tol(self=None, tol=None, hermitian=False, input=None):
    return matrix_rank(self, tol, 0.0, hermitian, input)


def _values_and_limit(x: Any, atol: Any, rtol: Any, hermitian: bool) -> tuple[Any, Any]:
    """Singular values, and the limit up to which they count as 0."""
    s = svdvals(_hermitian(x) if hermitian else x)
    return s, _limit(x, s, atol, rtol)


def _hermitian(x: Any) -> Any:
    """The Hermitian matrix of a lower triangle, of whose diagonal the real part counts."""
    lower = tril(x, -1)
    diagonals = real_part(diagonal(x, 0, x.ndim - 2, x.ndim - 1))
    return add(add(lower, adjoint(lower)), cast(embedded(diagonals, 0), x.dtype))


def _limit(x: Any, s: Any, atol: Any, rtol: Any) -> Any:
    limit = multiply(
        expand_dims(largest(s, s.ndim - 1), [-1]), _per_matrix(_relative(x, atol, rtol), s.dtype)
    )
    return limit if atol is None else maximum(limit, _per_matrix(atol, s.dtype))


@lowers("aten.linalg_pinv.atol_rtol_tensor", "aten.linalg_pinv.atol_rtol_float")
def pinv(self, atol=None, rtol=None, hermitian=False):
    decomposable(self)
    if 0 in self.shape[-2:]:
        return adjoint(self)
    u, s, vh = svd_parts(_hermitian(self) if hermitian else self)
    kept = greater(s, _limit(self, s, atol, rtol))
    inverse = where(kept, divide(1.0, where(kept, s, literal(1.0, s.dtype))), literal(0.0, s.dtype))
    return matmul(multiply(adjoint(vh), expand_dims(cast(inverse, self.dtype), [-2])), adjoint(u))


def _relative(x, atol, rtol):
    """rtol, or its default: none beside an atol above 0."""
    if rtol is not None:
        return rtol
    sizes = x.shape[-2:]
    if not all(isinstance(n, int) for n in sizes):
        raise refuse("the rank or the pseudo-inverse of matrices of a dynamic size needs rtol")
    default = max(sizes) * EPS[real_dtype(x.dtype)]
    if atol is None or isinstance(atol, (int, float)):
        return 0.0 if atol else default
    return where(greater(atol, 0.0), literal(0.0, atol.dtype), literal(default, atol.dtype))


def _per_matrix(value, dtype):
    """A tolerance, a number or one for each matrix, to go with (..., k)."""
    return (
        literal(float(value), dtype)
        if isinstance(value, (int, float))
        else expand_dims(cast(value, dtype), [-1])
    )


@lowers("aten.linalg_pinv", "aten.linalg_pinv.rcond_tensor")
def pinv_rcond(self, rcond, hermitian=False):
    return pinv(self, 0.0, rcond, hermitian)


@lowers("aten.pinverse")
def pinverse(self, rcond=1e-15):
    return pinv(self, 0.0, rcond)
