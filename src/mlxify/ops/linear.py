"""Matrix products."""

from __future__ import annotations

import mlx.core as mx

from ..isa import Array, instruction
from ..lowering import lowers


@instruction
def linear(x: Array, weight: Array, bias: Array | None) -> Array:
    """x @ weight.T + bias. x: (..., k), weight: (n, k), bias: (n,) or None. Floats of one dtype."""
    weight = mx.swapaxes(weight, 0, 1)
    return x @ weight if bias is None else mx.addmm(bias, x, weight)


@lowers("aten.linear")
def linear_(input, weight, bias=None):
    return linear(input, weight, bias)
