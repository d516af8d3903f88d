"""Eigenvalues and eigenvectors."""

from __future__ import annotations

from typing import Literal

import mlx.core as mx

from ..errors import refuse
from ..isa import Array, instruction
from ..lowering import lowers
from .create import full
from .linalg import (
    assert_finite,
    check_matrices,
    decomposable,
    identity_where,
    nan_where,
    not_finite,
    real_dtype,
)
from .unary import abs_


@instruction(fails=True)
def eigh(x: Array, uplo: Literal["L", "U"]) -> tuple[Array, Array]:
    """Eigenvalues (..., n), ascending, and eigenvectors (..., n, n), in columns, of symmetric or Hermitian matrices.

    Only the lower or the upper triangle is read. NaN for a matrix that is not finite. float32, float64 or complex64.
    """
    check_matrices(x, square=True)
    if x.size == 0:
        return mx.zeros(x.shape[:-1], real_dtype(x.dtype)), x
    with mx.stream(mx.cpu):
        bad = not_finite(mx.tril(x) if uplo == "L" else mx.triu(x))
        values, vectors = mx.linalg.eigh(identity_where(bad, x), UPLO=uplo)
        return nan_where(bad[..., 0], values), nan_where(bad, vectors)


@instruction(fails=True)
def eig(x: Array) -> tuple[Array, Array]:
    """Eigenvalues (..., n) and eigenvectors (..., n, n), in columns, of square matrices, as complex64.

    NaN for a matrix that is not finite. float32 or complex64.
    """
    check_matrices(x, square=True)
    if x.dtype == mx.float64:
        raise ValueError("eigenvalues of a float64 matrix are complex128, which MLX does not have")
    if x.size == 0:
        return mx.zeros(x.shape[:-1], mx.complex64), x.astype(mx.complex64)
    with mx.stream(mx.cpu):
        bad = not_finite(x)
        x = identity_where(bad, x)
        values, vectors = mx.linalg.eig(x)
        if x.dtype == mx.complex64:
            vectors = _right_eigenvectors(x, values, vectors)
        return nan_where(bad[..., 0], values), nan_where(bad, vectors)


def _right_eigenvectors(x: mx.array, values: mx.array, vectors: mx.array) -> mx.array:
    """Of each vector and its conjugate the one that fits: MLX 0.32 gives the conjugates for complex matrices."""
    choices = (vectors, mx.conjugate(vectors))
    errors = [mx.sum(mx.abs(x @ v - v * mx.expand_dims(values, -2)), -2, keepdims=True) for v in choices]
    return mx.where(errors[0] <= errors[1], *choices)


@lowers("aten.linalg_eigh", "aten._linalg_eigh")
def linalg_eigh(self=None, UPLO="L", A=None, compute_v=True):
    x = self if A is None else A
    decomposable(x)
    values, vectors = eigh(x, UPLO.upper())
    assert_finite(values, "linalg.eigh: the matrix has elements that are not finite")
    return [values, vectors if compute_v else full([0], 0, x.dtype)]


@lowers("aten.linalg_eigvalsh")
def eigvalsh(self, UPLO="L"):
    return linalg_eigh(self, UPLO)[0]


@lowers("aten.linalg_eig")
def linalg_eig(self):
    if self.dtype not in (mx.float32, mx.complex64):
        raise refuse("eigenvalues of float64 matrices are complex128, which MLX does not have")
    values, vectors = eig(self)
    assert_finite(abs_(values), "linalg.eig: the matrix has elements that are not finite")
    return [values, vectors]


@lowers("aten.linalg_eigvals", "aten._linalg_eigvals")
def eigvals(self):
    return linalg_eig(self)[0]
