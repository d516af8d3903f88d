"""Systems of linear equations, inverses and functions of matrices."""

from __future__ import annotations

import mlx.core as mx

from ..errors import refuse
from ..isa import cast
from ..lowering import lowers
from .arithmetic import add, divide, literal, maximum, multiply, power, subtract
from .compare import greater, less, less_equal, where
from .create import eye
from .diagonal import tril, triu
from .linalg import assert_none, columns, inv, lu_factor, lu_info, real_floats, svd
from .linear import matmul
from .reduce import max_, sum_
from .shape import broadcast_to, expand_dims, product, reshape, slice_, squeeze, swapped
from .unary import abs_, ceil, log2

EPS = {mx.float32: 2.0**-23, mx.float64: 2.0**-52}
SQUARINGS = 16
REFLECTIONS = 256
TERMS = 18


@lowers("aten.inverse", "aten.linalg_inv")
def inverse(self=None, A=None):
    result, info = inv_ex(self if A is None else A)
    assert_none(info, "linalg.inv: the matrix is singular")
    return result


@lowers("aten.linalg_inv_ex")
def inv_ex(A, check_errors=False):
    real_floats(A)
    return [inv(A), lu_info(lu_factor(A)[0])]


def solved(a, b):
    """x with a @ x = b, for a batch of square a; NaN where a is singular."""
    inverse = inv(a)
    x = matmul(inverse, b)
    return add(x, matmul(inverse, subtract(b, matmul(a, x))))  # corrected once


@lowers("aten.linalg_solve")
def linalg_solve(A, B, left=True):
    result, _, _, info = solve_ex(A, B, left)
    assert_none(info, "linalg.solve: the matrix is singular")
    return result


@lowers("aten.linalg_solve_ex")
def linalg_solve_ex(A, B, left=True, check_errors=False):
    result, _, _, info = solve_ex(A, B, left)
    return [result, info]


@lowers("aten._linalg_solve_ex")
def solve_ex(A, B, left=True, check_errors=False):
    real_floats(A, B)
    info = lu_info(lu_factor(A)[0])
    vectors = B.ndim == 1 or (B.ndim == A.ndim - 1 and _same_shape(B, A))
    b = expand_dims(B, [-1]) if vectors else B
    result = solved(A, b) if left else swapped(solved(swapped(A, -1, -2), swapped(b, -1, -2)), -1, -2)
    return [squeeze(result, [result.ndim - 1]) if vectors else result, None, None, info]


def _same_shape(b, a):
    """Whether b's shape is that of a without its last axis."""
    return all(h.shape == g.shape[:-1] for h, g in zip(b.hints, a.hints, strict=True))


@lowers("aten.linalg_solve_triangular")
def solve_triangular(self, B, upper, left=True, unitriangular=False):
    real_floats(self, B)
    if not left:
        result = solve_triangular(swapped(self, -1, -2), swapped(B, -1, -2), not upper, True, unitriangular)
        return swapped(result, -1, -2)
    a = triu(self, 0) if upper else tril(self, 0)
    if unitriangular:
        strict = triu(self, 1) if upper else tril(self, -1)
        a = add(strict, eye(self.shape[-1], self.shape[-1], 0, self.dtype))
    return solved(a, B)


@lowers("aten.triangular_solve")
def triangular_solve(self, A, upper=True, transpose=False, unitriangular=False):
    a, upper = (swapped(A, -1, -2), not upper) if transpose else (A, upper)
    return [solve_triangular(a, self, upper, True, unitriangular), A]


@lowers("aten.cholesky_solve")
def cholesky_solve(self, input2, upper=False):
    real_floats(self, input2)
    half = triu(input2, 0) if upper else tril(input2, 0)
    first, second = (swapped(half, -1, -2), half) if upper else (half, swapped(half, -1, -2))
    return solved(second, solved(first, self))


@lowers("aten.cholesky_inverse")
def cholesky_inverse(self, upper=False):
    real_floats(self)
    root = inv(triu(self, 0) if upper else tril(self, 0))
    return matmul(root, swapped(root, -1, -2)) if upper else matmul(swapped(root, -1, -2), root)


@lowers("aten.linalg_pinv.atol_rtol_tensor", "aten.linalg_pinv.atol_rtol_float")
def pinv(self, atol=None, rtol=None, hermitian=False):
    real_floats(self)
    if hermitian:
        lower = tril(self, -1)
        self = add(tril(self, 0), swapped(lower, -1, -2))
    u, s, vh = svd(self)
    if 0 in self.shape[-2:]:
        return swapped(self, -1, -2)
    limit = multiply(max_(s, [s.ndim - 1], True), _per_matrix(_relative(self, atol, rtol), s.dtype))
    if atol is not None:
        limit = maximum(limit, _per_matrix(atol, s.dtype))
    kept = greater(s, limit)
    inverse = where(kept, divide(1.0, where(kept, s, literal(1.0, s.dtype))), literal(0.0, s.dtype))
    v = swapped(columns(vh, s.shape[-1], vh.ndim - 2), -1, -2)
    return matmul(
        multiply(v, expand_dims(inverse, [-2])), swapped(columns(u, s.shape[-1], u.ndim - 1), -1, -2)
    )


def _relative(x, atol, rtol):
    """rtol, or its default: none beside an atol above 0."""
    if rtol is not None:
        return rtol
    sizes = x.shape[-2:]
    if not all(isinstance(n, int) for n in sizes):
        raise refuse("linalg.pinv of matrices of a dynamic size needs rtol")
    default = max(sizes) * EPS[x.dtype]
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


@lowers("aten.linalg_householder_product")
def householder_product(input, tau):
    """The first columns of the product of the reflections 1 - tau[i] * v[i] @ v[i].T."""
    real_floats(input, tau)
    count = tau.shape[-1]
    if not isinstance(count, int) or count > REFLECTIONS:
        raise refuse(f"householder_product of more than {REFLECTIONS} or a dynamic number of reflections")
    one = eye(*input.shape[-2:], 0, input.dtype)
    v, result = add(tril(input, -1), one), broadcast_to(one, input.shape)
    for i in reversed(range(count)):
        column = slice_(v, [i], [i + 1], [1], [v.ndim - 1])
        scale = expand_dims(slice_(tau, [i], [i + 1], [1], [tau.ndim - 1]), [-1])
        result = subtract(result, matmul(multiply(column, scale), matmul(swapped(column, -1, -2), result)))
    return result


@lowers("aten.linalg_tensorinv")
def tensorinv(self, ind=2):
    shape = self.shape
    square = reshape(self, [product(shape[:ind]), product(shape[ind:])])
    return reshape(inverse(square), [*shape[ind:], *shape[:ind]])


@lowers("aten.linalg_matrix_power", "aten.matrix_power")
def matrix_power(self, n):
    if n == 0:
        one = eye(self.shape[-1], self.shape[-1], 0, self.dtype)
        return broadcast_to(one, self.shape)
    base, n = (inverse(self), -n) if n < 0 else (self, n)
    result = None
    while n:
        if n % 2:
            result = base if result is None else matmul(result, base)
        n //= 2
        base = matmul(base, base) if n else base
    return result


@lowers("aten.linalg_matrix_exp", "aten.matrix_exp")
def matrix_exp(self):
    """The series of x / 2**k, of norm at most 1, squared k times."""
    real_floats(self)
    if 0 in self.shape:
        return self
    norm = max_(sum_(abs_(self), [self.ndim - 2], True), [self.ndim - 1], True)
    halvings = maximum(ceil(log2(maximum(norm, 1.0))), 0.0)
    x = multiply(self, power(literal(0.5, norm.dtype), halvings))
    one = eye(self.shape[-1], self.shape[-1], 0, self.dtype)
    result = one
    for k in range(TERMS, 0, -1):
        result = add(one, multiply(matmul(x, result), 1.0 / k))
    for k in range(SQUARINGS):
        result = where(less(literal(float(k), halvings.dtype), halvings), matmul(result, result), result)
    return where(less_equal(halvings, float(SQUARINGS)), result, literal(float("nan"), result.dtype))
