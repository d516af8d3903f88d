"""Systems of linear equations with triangular matrices."""

from __future__ import annotations

import mlx.core as mx

from ..isa import Array, instruction
from ..lowering import lowers
from .linalg import check_matrices, check_steps, decomposable, few_steps, transposed
from .linear import product
from .shape import broadcast_to


@instruction(chain=0)
def solve_triangular(a: Array, b: Array, upper: bool, unit: bool) -> Array:
    """x with a @ x = b, by substitution: a (..., n, n), of which only the upper or lower triangle is read, b (..., n, k).

    `unit`: the diagonal is not read, it counts as ones. A 0 on it gives infinities and nan. Batches broadcast. Both of
    one dtype: float32, float64 or complex64. n is at most 2048.
    """
    check_matrices(a, square=True)
    check_matrices(a, b)
    check_steps(a.shape[-1])
    if b.shape[-2] != a.shape[-1]:
        raise ValueError(f"{a.shape[-1]} unknowns and {b.shape[-2]} equations")
    with mx.stream(mx.cpu):
        lead = mx.broadcast_arrays(a[..., :0, :0], b[..., :0, :0])[0].shape[:-2]
        return substituted(a, mx.broadcast_to(b, (*lead, *b.shape[-2:])), upper, unit)


def substituted(a: mx.array, b: mx.array, upper: bool, unit: bool) -> mx.array:
    """x with a @ x = b, by halves, so that most of the work is matrix products."""
    n = a.shape[-1]
    if n <= 1 or b.size == 0:
        return b if unit or b.size == 0 else b / a
    half = n // 2
    first, second = (slice(half, n), slice(half)) if upper else (slice(half), slice(half, n))
    x = substituted(a[..., first, first], b[..., first, :], upper, unit)
    rest = b[..., second, :] - product(a[..., second, first], x)
    y = substituted(a[..., second, second], rest, upper, unit)
    return mx.concatenate([y, x] if upper else [x, y], axis=-2)


@lowers("aten.linalg_solve_triangular")
def linalg_solve_triangular(self, B, upper, left=True, unitriangular=False):
    decomposable(self, B)
    few_steps(self.shape[-1])
    if left:
        return solve_triangular(self, B, upper, unitriangular)
    return transposed(solve_triangular(transposed(self), transposed(B), not upper, unitriangular))


@lowers("aten.triangular_solve")
def triangular_solve(self, A, upper=True, transpose=False, unitriangular=False, result=None):
    a, upper = (transposed(A), not upper) if transpose else (A, upper)
    coefficients = broadcast_to(A, [*result[0].shape[:-2], *A.shape[-2:]])
    return [linalg_solve_triangular(a, self, upper, True, unitriangular), coefficients]
