"""Decompositions of matrices, which MLX has on the CPU only: there each of these instructions runs."""

from __future__ import annotations

from typing import Any, Literal

import mlx.core as mx

from ..errors import refuse
from ..isa import Array, cast, instruction
from ..lowering import lowers
from .arithmetic import add, literal, multiply, remainder, subtract
from .axes import axis_of
from .bitwise import bitwise_invert
from .compare import equal, greater, not_equal, where
from .create import arange, eye, full
from .diagonal import diagonal, tril, triu
from .join import concatenate
from .reduce import all_, any_, argmax, max_, min_, prod, sum_
from .scalar import assert_scalar
from .shape import expand_dims, moved, slice_
from .unary import abs_, log, sign

NAN = float("nan")


@instruction
def inv(x: Array) -> Array:
    """The inverses of square matrices, (..., n, n); NaN for one that has none. float32 or float64."""
    _check(x, square=True)
    if x.size == 0:
        return x
    with mx.stream(mx.cpu):
        singular = _any(mx.diagonal(mx.linalg.lu_factor(x)[0], axis1=-2, axis2=-1) == 0)
        # MLX raises for a singular matrix, and does not say for which.
        return _nan_where(singular, mx.linalg.inv(_identity_where(singular, x)))


@instruction
def lu_factor(x: Array) -> tuple[Array, Array, Array]:
    """L and U of matrices (..., m, n) in one (the ones on L's diagonal left out), the pivots, the permutation.

    Row i was exchanged with row pivots[i], one after another, for each i below min(m, n); in the end row i of L @ U is
    row permutation[i] of x. Both int32. A 0 on the diagonal of U means that x is singular. float32 or float64.
    """
    _check(x)
    batch, rows, steps = x.shape[:-2], x.shape[-2], min(x.shape[-2:])
    if x.size == 0:
        order = mx.broadcast_to(mx.arange(rows, dtype=mx.int32), (*batch, rows))
        return x, mx.zeros((*batch, steps), mx.int32), order
    with mx.stream(mx.cpu):
        lu, pivots = mx.linalg.lu_factor(x)
        permutation = mx.argsort(mx.linalg.lu(x)[0], axis=-1)
        return lu, pivots.astype(mx.int32), permutation.astype(mx.int32)


@instruction
def cholesky(x: Array, upper: bool) -> Array:
    """L with L @ L.T = x, or L.T if `upper`, of symmetric matrices, of which only this triangle is read.

    If x is not positive definite, the first element on the diagonal that is not above 0 says at which step it failed,
    and what comes after means nothing. float32 or float64.
    """
    _check(x, square=True)
    with mx.stream(mx.cpu):
        return mx.linalg.cholesky(x, upper=upper)


@instruction
def qr(x: Array) -> tuple[Array, Array]:
    """Q (..., m, k) with orthonormal columns and R (..., k, n), upper triangular, k = min(m, n): Q @ R = x.

    float32 or float64.
    """
    _check(x)
    with mx.stream(mx.cpu):
        q, r = mx.linalg.qr(x)
        return q, r


@instruction
def svd(x: Array) -> tuple[Array, Array, Array]:
    """U (..., m, m), the singular values (..., k), descending, and V.H (..., n, n) of matrices (..., m, n).

    k = min(m, n), and U[:, :k] * values @ V.H[:k] is x. float32, float64 or complex64. Fails if x is not finite.
    """
    _check(x, complex_too=True)
    with mx.stream(mx.cpu):
        u, s, vh = mx.linalg.svd(x)
        return u, s, vh


@instruction
def eigh(x: Array, uplo: Literal["L", "U"]) -> tuple[Array, Array]:
    """Eigenvalues (..., n), ascending, and eigenvectors (..., n, n), in columns, of symmetric or Hermitian matrices.

    Only the lower or the upper triangle is read. NaN for a matrix that is not finite. float32, float64 or complex64.
    """
    _check(x, square=True, complex_too=True)
    if x.size == 0:
        return mx.zeros(x.shape[:-1], mx.float32 if x.dtype == mx.complex64 else x.dtype), x
    with mx.stream(mx.cpu):
        bad = _not_finite(mx.tril(x) if uplo == "L" else mx.triu(x))
        values, vectors = mx.linalg.eigh(_identity_where(bad, x), UPLO=uplo)
        return _nan_where(bad[..., 0], values), _nan_where(bad, vectors)


@instruction
def eig(x: Array) -> tuple[Array, Array]:
    """Eigenvalues (..., n) and eigenvectors (..., n, n), in columns, of square matrices, as complex64.

    NaN for a matrix that is not finite. float32 or complex64.
    """
    _check(x, square=True, complex_too=True)
    if x.dtype == mx.float64:
        raise ValueError("eigenvalues of a float64 matrix are complex128, which MLX does not have")
    if x.size == 0:
        return mx.zeros(x.shape[:-1], mx.complex64), x.astype(mx.complex64)
    with mx.stream(mx.cpu):
        bad = _not_finite(x)
        values, vectors = mx.linalg.eig(_identity_where(bad, x))
        return _nan_where(bad[..., 0], values), _nan_where(bad, vectors)


def _check(x: mx.array, square: bool = False, complex_too: bool = False) -> None:
    if x.dtype not in (mx.float32, mx.float64) and not (complex_too and x.dtype == mx.complex64):
        raise ValueError(f"this needs float32 or float64, not {x.dtype}")
    if x.ndim < 2 or (square and x.shape[-1] != x.shape[-2]):
        raise ValueError(f"this needs {'square ' if square else ''}matrices, not the shape {x.shape}")


def _any(x: mx.array) -> mx.array:
    """(..., 1, 1): whether any of the last axis is true."""
    return mx.expand_dims(mx.any(x, axis=-1, keepdims=True), -1)


def _not_finite(x: mx.array) -> mx.array:
    finite = mx.isfinite(mx.real(x)) & mx.isfinite(mx.imag(x)) if x.dtype == mx.complex64 else mx.isfinite(x)
    return _any(mx.flatten(~finite, -2))


def _identity_where(bad: mx.array, x: mx.array) -> mx.array:
    return mx.where(bad, mx.eye(x.shape[-1], dtype=x.dtype), x)


def _nan_where(bad: mx.array, x: mx.array) -> mx.array:
    real = mx.float32 if x.dtype == mx.complex64 else x.dtype
    # Added, since mx.compile on a CPU cannot write a complex NaN.
    return x + mx.where(bad, mx.array(NAN, real), mx.array(0, real))


def real_floats(*arrays: Any) -> None:
    """Refuse dtypes that MLX's decompositions do not take."""
    for x in arrays:
        if x.dtype not in (mx.float32, mx.float64):
            raise refuse(
                f"this decomposition of {str(x.dtype).removeprefix('mlx.core.')} matrices is not supported"
            )


def columns(x: Any, count: Any, axis: int) -> Any:
    """The first `count` slices along an axis."""
    return slice_(x, [0], [count], [1], [axis])


def first_bad(ok: Any) -> Any:
    """The number, from 1, of the first false element along the last axis; 0 if there is none. int32."""
    if isinstance(ok.shape[-1], int) and ok.shape[-1] == 0:
        return full(ok.shape[:-1], 0, mx.int32)
    bad = bitwise_invert(ok)
    place = add(argmax(cast(bad, mx.int32), ok.ndim - 1, False), 1)
    return cast(where(any_(bad, [ok.ndim - 1], False), place, literal(0, place.dtype)), mx.int32)


def assert_none(info: Any, message: str) -> None:
    """The call fails with `message` unless all of info is 0."""
    assert_scalar(all_(equal(info, 0), list(range(info.ndim)), False), message)


def lu_info(lu: Any) -> Any:
    return first_bad(not_equal(diagonal(lu, 0, lu.ndim - 2, lu.ndim - 1), 0.0))


@lowers("aten.linalg_lu_factor")
def linalg_lu_factor(A, pivot=True):
    lu, pivots, info = linalg_lu_factor_ex(A, pivot)
    assert_none(info, "linalg.lu_factor: U is singular")
    return [lu, pivots]


@lowers("aten.linalg_lu_factor_ex")
def linalg_lu_factor_ex(A, pivot=True, check_errors=False):
    real_floats(A)
    lu, pivots, _ = lu_factor(A)
    return [lu, add(pivots, 1), lu_info(lu)]


@lowers("aten.linalg_lu")
def linalg_lu(A, pivot=True):
    real_floats(A)
    lu, _, permutation = lu_factor(A)
    rows, width = A.shape[-2:]
    if not isinstance(rows, int) or not isinstance(width, int):
        raise refuse("linalg.lu of matrices of a dynamic size is not supported")
    size = min(rows, width)
    p = equal(expand_dims(permutation, [-2]), expand_dims(arange(0, rows, 1, mx.int32), [1]))
    lower = add(tril(columns(lu, size, lu.ndim - 1), -1), eye(rows, size, 0, lu.dtype))
    return [cast(p, A.dtype), lower, triu(columns(lu, size, lu.ndim - 2), 0)]


@lowers("aten.det", "aten.linalg_det")
def det(self=None, A=None):
    return linalg_det(self if A is None else A)[0]


@lowers("aten._linalg_det")
def linalg_det(A):
    real_floats(A)
    lu, pivots, _ = lu_factor(A)
    diagonals = diagonal(lu, 0, lu.ndim - 2, lu.ndim - 1)
    return [
        multiply(prod(diagonals, [diagonals.ndim - 1], False), _sign(pivots, A.dtype)),
        lu,
        add(pivots, 1),
    ]


def _sign(pivots, dtype):
    """-1 for an odd number of exchanges, else 1."""
    moved = not_equal(pivots, arange(0, pivots.shape[-1], 1, mx.int32))
    odd = remainder(sum_(cast(moved, mx.int32), [pivots.ndim - 1], False), 2)
    return cast(subtract(1, multiply(odd, 2)), dtype)


@lowers("aten.slogdet", "aten.linalg_slogdet")
def slogdet(self=None, A=None):
    return linalg_slogdet(self if A is None else A)[:2]


@lowers("aten._linalg_slogdet")
def linalg_slogdet(A):
    real_floats(A)
    lu, pivots, _ = lu_factor(A)
    diagonals = diagonal(lu, 0, lu.ndim - 2, lu.ndim - 1)
    last = [diagonals.ndim - 1]
    signs = multiply(prod(sign(diagonals), last, False), _sign(pivots, A.dtype))
    return [signs, sum_(log(abs_(diagonals)), last, False), None, None]


@lowers("aten.cholesky", "aten.linalg_cholesky")
def cholesky_(self, upper=False):
    result, info = cholesky_ex(self, upper)
    assert_none(info, "linalg.cholesky: the matrix is not positive definite")
    return result


@lowers("aten.linalg_cholesky_ex")
def cholesky_ex(self, upper=False, check_errors=False):
    real_floats(self)
    result = cholesky(self, upper)
    diagonals = diagonal(result, 0, result.ndim - 2, result.ndim - 1)
    return [result, first_bad(greater(diagonals, 0.0))]


@lowers("aten.linalg_qr")
def linalg_qr(A, mode="reduced"):
    real_floats(A)
    rows, width = A.shape[-2:]
    if mode == "complete" and isinstance(rows, int) and isinstance(width, int) and rows > width:
        # More columns, of zeros, need no more reflections, and complete the basis.
        padding = full([*A.shape[:-1], rows - width], 0, A.dtype)
        q, r = qr(concatenate([A, padding], A.ndim - 1))
        return [q, columns(r, width, r.ndim - 1)]
    if mode == "complete" and not (isinstance(rows, int) and isinstance(width, int)):
        raise refuse("linalg.qr of matrices of a dynamic size in the mode 'complete' is not supported")
    q, r = qr(A)
    return [full([0], 0, A.dtype) if mode == "r" else q, r]


@lowers("aten._linalg_svd")
def linalg_svd(A, full_matrices=False, compute_uv=True, driver=None):
    if A.dtype != mx.complex64:
        real_floats(A)
    u, s, vh = svd(A)
    if not compute_uv:
        return [full([0], 0, A.dtype), s, full([0], 0, A.dtype)]
    if not full_matrices:
        u, vh = columns(u, s.shape[-1], u.ndim - 1), columns(vh, s.shape[-1], vh.ndim - 2)
    return [u, s, vh]


@lowers("aten.linalg_svdvals")
def svdvals(A, driver=None):
    return linalg_svd(A)[1]


def singular_norm(x: Any, order: Any, dim: Any, keepdim: bool) -> Any:
    """The sum ("nuc"), the largest (2) or the smallest (-2) of the singular values of the matrices in two axes."""
    axes = sorted(axis_of(x, d) for d in dim)
    values = svdvals(moved(x, list(dim), [-2, -1]))
    reduce = {"nuc": sum_, 2: max_, -2: min_}[order]
    result = reduce(values, [values.ndim - 1], False)
    return expand_dims(result, axes) if keepdim else result


@lowers("aten.linalg_eigh", "aten._linalg_eigh")
def linalg_eigh(self=None, UPLO="L", A=None, compute_v=True):
    x = self if A is None else A
    if x.dtype != mx.complex64:
        real_floats(x)
    values, vectors = eigh(x, UPLO.upper())
    assert_scalar(_all_finite(values), "linalg.eigh: the matrix has elements that are not finite")
    return [values, vectors if compute_v else full([0], 0, x.dtype)]


@lowers("aten.linalg_eigvalsh")
def eigvalsh(self, UPLO="L"):
    return linalg_eigh(self, UPLO)[0]


@lowers("aten.linalg_eig")
def linalg_eig(self):
    if self.dtype not in (mx.float32, mx.complex64):
        raise refuse("eigenvalues of float64 matrices are complex128, which MLX does not have")
    values, vectors = eig(self)
    assert_scalar(_all_finite(abs_(values)), "linalg.eig: the matrix has elements that are not finite")
    return [values, vectors]


@lowers("aten.linalg_eigvals", "aten._linalg_eigvals")
def eigvals(self):
    return linalg_eig(self)[0]


def _all_finite(x):
    return all_(equal(subtract(x, x), 0.0), list(range(x.ndim)), False)
