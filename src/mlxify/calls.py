"""The nodes of an exported graph as patterns and conditions see them, free of torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import mlx.core as mx

from .isa import scalar_array
from .lowering import IGNORED

CASTS = (
    "aten.to.dtype", "aten.to.dtype_layout", "aten.to.device", "aten.to.other", "aten.to.prim_dtype",
    "aten.to.prim_Device", "aten._to_copy.default", "aten.type_as.default", "prims.convert_element_type.default",
    "dim_order_ops._to_dim_order_copy.default",
)  # fmt: skip
COPIES = (
    "aten.alias.default", "aten.clone.default", "aten.contiguous.default", "aten.detach.default",
    "aten.lift_fresh.default", "aten.lift_fresh_copy.default", "dim_order_ops._clone_dim_order.default",
    "aten.expand.default", "aten.view.default", "aten.reshape.default", "aten._unsafe_view.default",
)  # fmt: skip
"""Ops that return their first argument when neither shape nor dtype change."""

TIMES = ("aten.mul.Tensor", "aten.mul.Scalar", "aten.multiply.Tensor", "aten.multiply.Scalar")
OVER = ("aten.div.Tensor", "aten.div.Scalar", "aten.divide.Tensor", "aten.true_divide.Tensor")
PLUS = ("aten.add.Tensor", "aten.add.Scalar")
MINUS = ("aten.sub.Tensor", "aten.sub.Scalar", "aten.subtract.Tensor")


@dataclass(eq=False)
class Call:
    """One node of the exported graph. There is one object for each node, so `is` compares nodes.

    shape: dynamic sizes are texts, equal when the sizes are. dtype is None unless the node is a tensor.
    constant: the value of a 0-d constant of the model. load: see `arguments`.
    bounds: the least and greatest element, where they are known at conversion.
    """

    node: Any
    target: str = ""
    dtype: mx.Dtype | None = None
    shape: tuple[Any, ...] = ()
    constant: int | float | bool | None = None
    load: Callable[[], tuple[dict[str, Any], dict[str, Any]]] = lambda: ({}, {})
    bounds: Callable[[], tuple[int, int] | None] = lambda: None

    @cached_property
    def arguments(self) -> dict[str, Any]:
        """All arguments by schema name, in its order; nodes among them as Calls."""
        return self._loaded[0]

    @cached_property
    def _loaded(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return self.load()

    @cached_property
    def through(self) -> tuple[Any, tuple[Call, ...]]:
        """What the call is apart from calls that change nothing, and these. A known 0-d tensor is a number."""
        number = _number(self)
        if number is not None:
            return number, ()
        if not _is_identity(self):
            return self, ()
        value, passed = seen_through(first(self))
        return value, (self, *passed)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def left_out(self, name: str) -> bool:
        """Whether an argument has its default."""
        value, default = self.arguments[name], self._loaded[1].get(name)
        return name in IGNORED or value is None or (type(value) is type(default) and bool(value == default))


def first(call: Call) -> Any:
    """The first argument of a call."""
    return next(iter(call.arguments.values()), None)


def seen_through(value: Any) -> tuple[Any, tuple[Call, ...]]:
    """See Call.through; other values are what they are."""
    return value.through if isinstance(value, Call) else (value, ())


def _is_identity(call: Call) -> bool:
    source = first(call)
    if not isinstance(source, Call) or source.dtype is None or call.dtype is None:
        return False
    if source.dtype != call.dtype or source.shape != call.shape:
        return False
    if call.target in TIMES or call.target in OVER:
        other = call.arguments["other"]
        return type(other) in (int, float) and other == 1
    if call.target == "aten.dropout.default":
        return not call.arguments["train"] or call.arguments["p"] == 0
    if call.target == "aten.slice.Tensor":
        return call.arguments["step"] == 1
    return call.target in CASTS or call.target in COPIES


_FILLED = {
    "aten.scalar_tensor.default": "s",
    "aten.full.default": "fill_value",
    "aten.zeros.default": 0.0,
    "aten.ones.default": 1.0,
}


def _number(call: Call) -> Any:
    """The value of a 0-d tensor that is known, as it is after rounding to its dtype; None for other calls."""
    if call.constant is not None:
        return call.constant
    if call.target not in _FILLED or call.shape or call.dtype is None:
        return None
    filled = _FILLED[call.target]
    value: Any = call.arguments[filled] if isinstance(filled, str) else filled
    if type(value) not in (int, float, bool):
        return None
    return scalar_array(value, call.dtype).item()
