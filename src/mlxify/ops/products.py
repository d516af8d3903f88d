"""Products of more than two matrices, and of every element with every other."""

from __future__ import annotations

import functools
from typing import Any

from ..lowering import lowers
from .arithmetic import multiply
from .linear import matmul
from .shape import expand_dims, reshape, squeeze


@lowers("aten.linalg_multi_dot")
def multi_dot(tensors):
    """Multiplied in the order that takes the fewest multiplications. The first and the last may be vectors."""
    first, last = tensors[0], tensors[-1]
    matrices = list(tensors)
    if first.ndim == 1:
        matrices[0] = expand_dims(first, [0])
    if last.ndim == 1:
        matrices[-1] = expand_dims(last, [1])
    axes = [0] * (first.ndim == 1) + [1] * (last.ndim == 1)
    return squeeze(_product(matrices), axes)


@lowers("aten.chain_matmul")
def chain_matmul(matrices):
    return _product(matrices)


def _product(matrices: list[Any]) -> Any:
    sizes = [matrices[0].shape[0], *(m.shape[1] for m in matrices)]

    @functools.cache
    def best(i: int, j: int) -> tuple[int, int]:
        """The cost of the product of matrices i to j, and where its last multiplication is, after which matrix."""
        if i == j:
            return 0, i
        return min(
            (best(i, k)[0] + best(k + 1, j)[0] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
            for k in range(i, j)
        )

    def multiplied(i: int, j: int) -> Any:
        k = best(i, j)[1]
        return matrices[i] if i == j else matmul(multiplied(i, k), multiplied(k + 1, j))

    return multiplied(0, len(matrices) - 1)


@lowers("aten.kron", promote=("self", "other"))
def kron(self, other):
    rank = max(self.ndim, other.ndim)
    a, b = ([*[1] * (rank - x.ndim), *x.shape] for x in (self, other))
    left = reshape(self, [n for size in a for n in (size, 1)])
    right = reshape(other, [n for size in b for n in (1, size)])
    return reshape(multiply(left, right), [m * n for m, n in zip(a, b, strict=True)])
