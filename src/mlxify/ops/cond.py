"""Condition numbers of matrices."""

from __future__ import annotations

import math

from ..lowering import lowers
from .arithmetic import divide, literal, multiply
from .bitwise import bitwise_or
from .compare import greater, isnan, where
from .create import full
from .linalg import real_dtype
from .reduce import max_, min_, sum_
from .solve import inv_ex
from .svd import svdvals
from .vector_norm import matrix_norm


@lowers("aten.linalg_cond", "aten.linalg_cond.p_str")
def linalg_cond(self, p=None):
    """The norm of a matrix times that of its inverse."""
    if 0 in self.shape:
        return full(self.shape[:-2], 0, real_dtype(self.dtype))
    if p == "nuc":
        values = svdvals(self)
        last = [values.ndim - 1]
        return multiply(sum_(values, last, False), sum_(divide(1.0, values), last, False))
    if p is None or p in (2, -2):
        values = svdvals(self)
        last = [values.ndim - 1]
        most, least = max_(values, last, False), min_(values, last, False)
        return divide(least, most) if p == -2 else divide(most, least)
    inverse, info = inv_ex(self)
    number = multiply(matrix_norm(self, p), matrix_norm(inverse, p))
    singular = bitwise_or(greater(info, 0), isnan(number))
    return where(singular, literal(math.inf, number.dtype), number)
