"""Casts, bit casts and ops that change where or how a tensor is stored, but none of its values.

Memory formats, devices and strides mean nothing here: a program's values have shapes and dtypes only. The framework
casts every result to PyTorch's dtype, so most lowerings just return their argument.
"""

from __future__ import annotations

import mlx.core as mx

from ..isa import Array, DType, constant, instruction
from ..lowering import lowers
from ..record import HostNumber, Value
from .shape import broadcast_to, reshape


@instruction
def view(x: Array, dtype: DType) -> Array:
    """The bytes of x, in row-major order, as another dtype; the last axis grows or shrinks with the size of an element.

    Bytes other than 0 are true. A 0-d array keeps the size of its element.
    """
    if dtype == mx.bool_ and x.dtype != mx.bool_:
        return mx.view(x, mx.uint8) != 0
    return mx.view(x, dtype)


@lowers(
    "aten.clone", "aten.contiguous", "aten.alias", "aten.detach", "aten.lift", "aten.lift_fresh",
    "aten.lift_fresh_copy", "aten.cpu", "aten.data", "aten.to.prim_other", "prims.device_put:a",
)  # fmt: skip
def same(self):
    return self
