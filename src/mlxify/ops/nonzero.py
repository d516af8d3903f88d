"""Positions of non-zero elements: how many there are depends on data, so the program waits for the device."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np

from ..isa import Array, cast, instruction
from ..lowering import as_array, lowers
from ..record import UNBACKED, example
from .join import stack
from .shape import broadcast_to, reshape


def _example_positions(x: mx.array) -> list[mx.array]:
    return [mx.zeros((UNBACKED[example()],), mx.int64) for _ in range(x.ndim)]


@instruction(sync=True, abstract=_example_positions)
def nonzero(x: Array) -> list[Array]:
    """Where x is not 0 (NaN is not), in row-major order: for each axis of x the indices, int64. Waits for x."""
    return [mx.array(indices) for indices in np.nonzero(np.array(x != 0))] if x.ndim else []


def positions(x: Any) -> tuple[Any, ...]:
    """`nonzero`, its size known as one that depends on data unless x is empty."""
    if type(x.size) is int and x.size == 0:
        return (cast(reshape(x, [0]), mx.int64),) * x.ndim
    found = nonzero(x)
    for indices in found:
        indices.dynamic.add(0)
    return found


def flat_positions(x: Any) -> Any:
    """The positions of the non-zero elements of x in row-major order, as one array."""
    return positions(reshape(x, [-1]))[0]


@lowers("aten.nonzero", "aten.argwhere")
def nonzero_(self):
    if self.ndim == 0:
        return broadcast_to(as_array(0, mx.int64), [flat_positions(self).shape[0], 0])
    return stack(list(positions(self)), -1)


@lowers("aten.nonzero_numpy")
def nonzero_numpy(self):
    return list(positions(reshape(self, [1]) if self.ndim == 0 else self))


@lowers("aten.where")
def where_nonzero(condition):
    return nonzero_numpy(condition)
