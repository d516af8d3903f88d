"""The registry of lowerings and the policy that every lowering gets for free.

A lowering is a small function named after its ATen op. The framework binds its arguments by the op's schema, refuses
what it leaves out, promotes operands by PyTorch's rules, widens half precision where PyTorch computes in float32,
and casts the result to PyTorch's dtype.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import mlx.core as mx

from .errors import refuse
from .isa import cast, number_array
from .program import DTYPE_NAMES
from .record import active
from .values import HostNumber, Value

HALVES = (mx.float16, mx.bfloat16)

VIEWS = [
    "_conj",
    "_reshape_alias",
    "alias",
    "as_strided",
    "detach",
    "diagonal",
    "expand",
    "permute",
    "select",
    "slice",
    "split",
    "split_with_sizes",
    "squeeze",
    "t",
    "transpose",
    "unbind",
    "unsqueeze",
    "view",
    "unfold",
    "view_as_real",
    "view_as_complex",
]
"""Ops whose `_copy` form means the same here, since a program's values are never written to."""

PYTHON_NAMESPACES = ("operator.", "math.", "builtins.", "torch.", "higher_order.")
"""Targets without overloads: functions on sizes, and control flow."""

TRACED = ("operator.getitem", "higher_order.auto_functionalized_v2", "higher_order.with_effects")
"""Targets that the tracer itself handles: one of several results, a custom op that writes, an op with an effect."""

IGNORED = ("device", "pin_memory", "memory_format", "non_blocking")
"""Arguments that say where or how a tensor is stored, not what its values are."""

Promotion = Literal["same", "float", "long"]


@dataclass(frozen=True)
class Lowering:
    """One registered lowering. `parameters`: the ATen arguments it takes, and their names in the function."""

    target: str
    fn: Callable[..., Any]
    parameters: dict[str, str]
    promote: tuple[str, ...]
    to: Promotion
    opmath: bool | Literal["scalar"]
    wants_result: bool


@dataclass(frozen=True)
class Result:
    """What PyTorch says a result is: for lowerings that declare a parameter `result`."""

    dtype: mx.Dtype
    shape: tuple[Any, ...]
    storage: tuple[tuple[Any, ...], Any] = ((), None)
    """Strides and storage offset of the op's first argument in PyTorch, None where dynamic (for as_strided)."""


LOWERINGS: dict[str, Lowering] = {}


def lowers(
    *targets: str,
    promote: str | tuple[str, ...] = (),
    to: Promotion = "same",
    opmath: bool | Literal["scalar"] = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function as the lowering of ATen (or custom) ops.

    targets: "aten.add.Tensor", "aten.silu" (its default overload) or "mylib::op" / "mylib::op.overload".
    promote: the arguments that take part in type promotion; they arrive as arrays of the common dtype. A list of
        tensors takes part element by element.
    to: "float" when integers are computed in float32 (exp, mean), "long" when they are computed in int64.
    opmath: True when PyTorch computes float16 and bfloat16 in float32 and rounds once (anything of more than one
        step); "scalar" when the last operand, if it is a scalar, keeps float32 precision (mul, div).

    The function's parameters have the names of the op's schema (a Python keyword gets a trailing underscore). An
    argument that it does not declare is refused unless it has its default. A parameter `result` receives PyTorch's
    shape(s) and dtype(s) of the result.
    """
    if isinstance(promote, str):
        promote = (promote,)

    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        names = {name.rstrip("_"): name for name in inspect.signature(fn).parameters}
        wants_result = names.pop("result", None) is not None
        for name in targets:
            target = canonical(name)
            if target in LOWERINGS:
                raise ValueError(f"{target} is lowered twice")
            LOWERINGS[target] = Lowering(target, fn, names, promote, to, opmath, wants_result)
        return fn

    return register


def canonical(name: str) -> str:
    """A target's full name: "aten.silu" -> "aten.silu.default", "mylib::op" -> "mylib.op.default"."""
    name = name.replace("::", ".")
    return name if name.count(".") >= 2 or name.startswith(PYTHON_NAMESPACES) else f"{name}.default"


def find(target: str) -> Lowering | None:
    """The lowering of a target; `_copy` forms of views are their views."""
    found = LOWERINGS.get(target)
    if found is None and "_copy." in target:
        name, overload = target.split("_copy.", 1)
        if name.removeprefix("aten.") in VIEWS:
            found = LOWERINGS.get(f"{name}.{overload}")
    return found


def supported_ops() -> frozenset[str]:
    """The names of all ops that convert, as in "aten.add.Tensor", `_copy` forms included."""
    names = {*LOWERINGS, *TRACED}
    for target in LOWERINGS:
        namespace, name, *overload = target.split(".")
        if namespace == "aten" and name in VIEWS:
            names.add(".".join([namespace, f"{name}_copy", *overload]))
    return frozenset(names)


def apply(lowering: Lowering, arguments: dict[str, Any], defaults: dict[str, Any], result: Any) -> Any:
    """Call a lowering on all of an op's arguments (by schema name), under the framework's policy.

    Raises Refusal when the lowering does not take an argument that differs from its default.
    """
    given = dict(arguments)
    for name, value in arguments.items():
        if name not in lowering.parameters:
            _check_left_out(name, value, defaults.get(name))
            del given[name]
    if lowering.promote:
        promote(lowering, given)
    elif lowering.opmath:
        given = {name: _widen(value) for name, value in given.items()}
    call = {lowering.parameters[name]: value for name, value in given.items()}
    if lowering.wants_result:
        call["result"] = result
    return lowering.fn(**call)


def _check_left_out(name: str, value: Any, default: Any) -> None:
    if name in IGNORED or value is None or (type(value) is type(default) and value == default):
        return
    if name == "layout" and str(value) == "torch.strided":
        return
    raise refuse(f"the argument {name}={value!r} is not supported")


def promote(lowering: Lowering, given: dict[str, Any]) -> None:
    """Replace the operands that take part in promotion by arrays of the dtype in which PyTorch computes."""
    operands = [v for name in lowering.promote for v in _items(given[name]) if v is not None]
    common = result_type(operands)
    if lowering.to != "same" and not mx.issubdtype(common, mx.inexact):
        common = mx.float32 if lowering.to == "float" else mx.int64
    last = lowering.promote[-1]
    half = common in HALVES
    scalar = half and lowering.opmath == "scalar" and not _exact(given[last], common)
    compute = mx.float32 if scalar or (half and lowering.opmath is True) else common
    for name in lowering.promote:
        value = given[name]
        # All operands are rounded to the common dtype first, but not the scalar that keeps its precision.
        rounded = compute if scalar and name == last else common
        if isinstance(value, (list, tuple)):
            given[name] = [as_array(as_array(v, rounded), compute) for v in value]
        elif value is not None:
            given[name] = as_array(as_array(value, rounded), compute)


def _items(value: Any) -> Iterator[Any]:
    yield from value if isinstance(value, (list, tuple)) else (value,)


def as_array(value: Any, dtype: mx.Dtype) -> Any:
    """A tensor, literal or host number as an array of `dtype`."""
    if isinstance(value, (Value, mx.array)):
        return value if value.dtype == dtype else cast(value, dtype)
    if isinstance(value, HostNumber):
        return number_array(value, dtype)
    if isinstance(value, bool) and dtype != mx.bool_:
        value = int(value)
    if isinstance(value, int) and mx.issubdtype(dtype, mx.inexact):
        value = float(value)
    return active().scalar(complex(value) if dtype == mx.complex64 else value, dtype)


def _widen(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_widen(v) for v in value)
    return cast(value, mx.float32) if isinstance(value, Value) and value.dtype in HALVES else value


def _exact(value: Any, dtype: mx.Dtype) -> bool:
    """Whether `value` is no scalar, or loses nothing as `dtype` (half)."""
    if isinstance(value, Value):
        return value.dtype == dtype or value.ndim > 0
    return isinstance(value, (int, float)) and mx.array(value, dtype=dtype).item() == float(value)


def result_type(operands: list[Any]) -> mx.Dtype:
    """PyTorch's result type: tensors with dimensions, then 0-d tensors, then numbers, each only by category.

    https://docs.pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc
    """
    dimensional: mx.Dtype | None = None
    zero_dim: mx.Dtype | None = None
    number: mx.Dtype | None = None
    for operand in operands:
        if isinstance(operand, (Value, mx.array)):
            if operand.ndim:
                dimensional = _wider(dimensional, operand.dtype)
            else:
                zero_dim = _wider(zero_dim, operand.dtype)
        else:
            number = _wider(number, number_dtype(operand))
    result = _combine(_combine(dimensional, zero_dim), number)
    assert result is not None, "promotion needs an operand"
    return result


def number_dtype(value: Any) -> mx.Dtype:
    """The dtype PyTorch gives a Python (or host) number by itself."""
    if isinstance(value, HostNumber):
        value = value.hints[0]
    for kind, dtype in ((bool, mx.bool_), (int, mx.int64), (float, mx.float32), (complex, mx.complex64)):
        if isinstance(value, kind):
            return dtype
    raise TypeError(f"{value!r} is not a number")


def _wider(a: mx.Dtype | None, b: mx.Dtype) -> mx.Dtype:
    if a is None or a == b:
        return b
    if mx.float64 in (a, b) and mx.complex64 in (a, b):
        raise refuse("the result would be complex128, which MLX does not have")
    return mx.result_type(mx.zeros((), a), mx.zeros((), b))


def _combine(higher: mx.Dtype | None, lower: mx.Dtype | None) -> mx.Dtype | None:
    """`lower` counts only when its category (bool < integer < float < complex) is above that of `higher`."""
    if higher is None or lower is None:
        return higher or lower
    if _category(lower) <= _category(higher):
        return higher
    if lower == mx.complex64 and higher != mx.float32 and mx.issubdtype(higher, mx.floating):
        raise refuse(f"{DTYPE_NAMES[higher]} with a complex number gives a dtype that MLX does not have")
    return lower


def _category(dtype: mx.Dtype) -> int:
    if dtype == mx.bool_:
        return 0
    if mx.issubdtype(dtype, mx.integer):
        return 1
    return 2 if mx.issubdtype(dtype, mx.floating) else 3
