"""Distances between all pairs of vectors."""

from __future__ import annotations

import mlx.core as mx

from ..lowering import lowers
from .arithmetic import add, maximum, multiply, subtract
from .compare import less
from .create import arange
from .index import take
from .linear import matmul
from .reduce import sum_
from .shape import expand_dims, reshape, slice_, swapped
from .sort import argsort
from .unary import sqrt
from .vector_norm import vector_norm

BY_MATMUL = 25
"""From more vectors than this on, PyTorch computes Euclidean distances from a matrix product."""


@lowers("aten.cdist", "aten._cdist_forward", promote=("x1", "x2"), opmath=True)
def cdist(x1, x2, p=2.0, compute_mode=None):
    many = any(isinstance(n, int) and n > BY_MATMUL for n in (x1.shape[-2], x2.shape[-2]))
    if p == 2 and (compute_mode == 1 or (many and compute_mode != 2)):
        return _euclidean(x1, x2)
    return _pairs(x1, x2, p)


@lowers("aten._euclidean_dist", promote=("x1", "x2"))
def _euclidean(x1, x2):
    """The root of |x1|**2 + |x2|**2 - 2 x1 x2, for much less memory than the differences need."""
    squares = add(sum_(multiply(x1, x1), [-1], True), swapped(sum_(multiply(x2, x2), [-1], True), -1, -2))
    return sqrt(maximum(subtract(squares, multiply(matmul(x1, swapped(x2, -1, -2)), 2.0)), 0.0))


def _pairs(x1, x2, p):
    return vector_norm(subtract(expand_dims(x1, [-2]), expand_dims(x2, [-3])), p, [-1])


@lowers("aten.pdist", "aten._pdist_forward")
def pdist(self, p=2.0):
    n = self.shape[0]
    numbers = arange(0, n, 1, mx.int64)
    above = reshape(less(expand_dims(numbers, [1]), numbers), [n * n])
    count = n * (n - 1) // 2
    places = slice_(argsort(above, 0, True), [0], [count], [1], [0])
    return take(reshape(_pairs(self, self, p), [n * n]), places, 0)
