"""Powers and exponentials of matrices, and matrices of powers."""

from __future__ import annotations

from ..errors import refuse
from ..isa import cast
from ..lowering import HALVES, lowers
from .arithmetic import add, literal, maximum, multiply, power
from .compare import less, less_equal, where
from .create import eye, full
from .join import concatenate
from .linalg import decomposable
from .linear import matmul
from .reduce import max_, sum_
from .scan import cumprod
from .shape import broadcast_to, expand_dims, reshape
from .solve import inverse
from .unary import abs_, ceil, log2

SQUARINGS = 16
TERMS = 18


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
    if self.dtype in HALVES:
        raise refuse("PyTorch's own matrix_exp of half-precision matrices gives random numbers: use float32")
    decomposable(self)
    if 0 in self.shape:
        return self
    norm = max_(sum_(abs_(self), [self.ndim - 2], True), [self.ndim - 1], True)
    halvings = maximum(ceil(log2(maximum(norm, 1.0))), 0.0)
    x = multiply(self, cast(power(literal(0.5, norm.dtype), halvings), self.dtype))
    one = eye(self.shape[-1], self.shape[-1], 0, self.dtype)
    result = one
    for k in range(TERMS, 0, -1):
        result = add(one, multiply(matmul(x, result), literal(1.0 / k, x.dtype)))
    for k in range(SQUARINGS):
        result = where(less(literal(float(k), halvings.dtype), halvings), matmul(result, result), result)
    return where(less_equal(halvings, float(SQUARINGS)), result, literal(float("nan"), result.dtype))


@lowers("aten.linalg_vander")
def linalg_vander(x, N=None):
    """The powers 0 to N - 1 of each element, along a new last axis."""
    x = x if x.ndim else reshape(x, [1])
    count = x.shape[-1] if N is None else N
    powers = cumprod(broadcast_to(expand_dims(x, [-1]), [*x.shape, count - 1]), x.ndim)
    ones = full([*x.shape, 1], 1, powers.dtype)
    return concatenate([ones, powers], x.ndim)
