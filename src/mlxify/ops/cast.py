"""Casts, bit casts and ops that change where or how a tensor is stored, but none of its values.

Memory formats, devices and strides mean nothing here: a program's values have shapes and dtypes only. The framework
casts every result to PyTorch's dtype, so most lowerings just return their argument.
"""

from __future__ import annotations

import mlx.core as mx

from ..isa import Array, DType, cast, constant, instruction
from ..lowering import as_array, lowers
from ..record import active
from ..values import HostNumber, Value
from .shape import broadcast_to


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
    "aten.lift_fresh_copy", "prims.clone",
)  # fmt: skip
def same(self):
    return self


@lowers("aten._to_copy")
def to_copy(self, dtype=None):
    return self if dtype is None else cast(self, dtype)


@lowers("aten.to.dtype", "aten.to.dtype_layout", "aten.to.device", "aten.to.prim_dtype")
def to_dtype(self, dtype=None, copy=False):
    return self if dtype is None else cast(self, dtype)


@lowers("aten.to.prim_Device")
def to_device(self, dtype=None, copy=False, *, result):
    return cast(self, result.dtype)


@lowers("aten.to.other")
def to_other(self, other, copy=False):
    return cast(self, other.dtype)


@lowers("aten.type_as")
def type_as(self, other):
    return cast(self, other.dtype)


@lowers("prims.convert_element_type")
def convert_element_type(a, dtype):
    return cast(a, dtype)


@lowers("prims.device_put")
def device_put(a):
    return a


@lowers("dim_order_ops._to_dim_order_copy", "dim_order_ops._clone_dim_order")
def to_dim_order_copy(self, dim_order=None, dtype=None):
    return self if dtype is None else cast(self, dtype)


@lowers("aten.copy")
def copy(self, src):
    return broadcast_to(cast(src, self.dtype), self.shape)


@lowers("aten.fill.Scalar", "aten.fill.Tensor")
def fill(self, value):
    if isinstance(value, (Value, HostNumber)):
        return broadcast_to(as_array(value, self.dtype), self.shape)
    return broadcast_to(literal_of(value, self.dtype), self.shape)


@lowers("aten.zero")
def zero(self):
    return broadcast_to(constant(0, self.dtype), self.shape)


def literal_of(value, dtype):
    """A literal as PyTorch's fill casts it: 2.7 among integers is 2."""
    if isinstance(value, complex):
        return active().scalar(value, dtype)
    return constant(value, dtype)


@lowers("aten.view.dtype")
def view_dtype(self, dtype):
    return view(self, dtype)
