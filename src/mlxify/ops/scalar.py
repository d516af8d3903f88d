"""Numbers on the host: sizes and what is computed from them, and numbers read from arrays."""

from __future__ import annotations

import math
import operator
from typing import Any, Literal

import mlx.core as mx

from ..errors import InputError
from ..isa import MAX_TEXT, Array, Int, Number, Text, cast, instruction
from ..lowering import as_array, lowers
from ..record import UNBACKED, active, example
from ..values import HostNumber, Value
from .arithmetic import add, floor_divide, maximum, minimum, multiply, remainder, subtract
from .bitwise import bitwise_invert
from .compare import equal, greater, greater_equal, less, less_equal, not_equal, where
from .shape import reshape
from .unary import abs_, negative

Binary = Literal[
    "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "power", "minimum", "maximum",
    "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "and", "or",
]  # fmt: skip
Unary = Literal["negative", "not", "floor", "ceil", "trunc", "round", "sqrt", "int", "float", "abs", "log2"]
MAX_BITS = 63

_BINARY: dict[str, Any] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv,
    "floor_divide": operator.floordiv, "remainder": operator.mod, "minimum": min, "maximum": max,
    "equal": operator.eq, "not_equal": operator.ne, "less": operator.lt, "less_equal": operator.le,
    "greater": operator.gt, "greater_equal": operator.ge,
    "and": lambda a, b: a and b if isinstance(a, bool) else a & b,
    "or": lambda a, b: a or b if isinstance(a, bool) else a | b,
}  # fmt: skip
_UNARY: dict[str, Any] = {
    "negative": operator.neg, "not": operator.not_, "floor": math.floor, "ceil": math.ceil, "trunc": math.trunc,
    "round": round, "sqrt": math.sqrt, "int": int, "float": float, "abs": abs, "log2": math.log2,
}  # fmt: skip


@instruction
def size(x: Array, axis: int) -> Int:
    """The size of x along an axis."""
    return x.shape[axis]


@instruction
def number_binary(function: Binary, a: Number, b: Number) -> Number:
    """Python arithmetic on two host numbers: floor division and remainder floor, true division gives a float."""
    if function == "power":
        if isinstance(a, int) and isinstance(b, int) and (b < 0 or a.bit_length() * b > MAX_BITS + 1):
            return float(a) ** b
        result: Any = a**b
        return result
    result = _BINARY[function](a, b)
    if type(result) is int and result.bit_length() > MAX_BITS:
        raise OverflowError(f"{function}({a}, {b}) does not fit 64 bits")
    return result


@instruction
def number_unary(function: Unary, a: Number) -> Number:
    """A function of one host number. `round` is half to even."""
    return _UNARY[function](a)


@instruction
def number_select(condition: Number, a: Number, b: Number) -> Number:
    """a if condition else b."""
    return a if condition else b


def _example_number(x: mx.array) -> Number:
    if x.dtype == mx.bool_:
        return True
    value = UNBACKED[example()]
    return value if mx.issubdtype(x.dtype, mx.integer) else float(value)


@instruction(sync=True, abstract=_example_number)
def to_number(x: Array) -> Number:
    """The only element of x as a host number. Waits for x to be computed."""
    number: Any = x.item()
    return number


# Not on examples: a size in them that depends on data stands for none that occurs.
@instruction(effect=True, abstract=lambda condition, message: None)
def assert_number(condition: Number, message: Text) -> None:
    """Stop the call with `message` when the condition does not hold."""
    if not condition:
        raise InputError(message)


_BINARY_TARGETS: dict[str, Binary] = {
    "operator.add": "add", "operator.sub": "subtract", "operator.mul": "multiply", "operator.mod": "remainder",
    "operator.floordiv": "floor_divide", "operator.truediv": "divide", "operator.pow": "power",
    "operator.eq": "equal", "operator.ne": "not_equal", "operator.lt": "less", "operator.le": "less_equal",
    "operator.gt": "greater", "operator.ge": "greater_equal", "operator.and_": "and", "operator.or_": "or",
    "torch.sym_max": "maximum", "torch.sym_min": "minimum",
}  # fmt: skip
_UNARY_TARGETS: dict[str, Unary] = {
    "operator.neg": "negative", "operator.not_": "not", "torch.sym_not": "not", "math.floor": "floor",
    "math.ceil": "ceil", "math.trunc": "trunc", "builtins.round": "round", "builtins.abs": "abs",
    "torch._sym_sqrt": "sqrt", "torch._sym_log2": "log2", "torch.sym_int": "int", "torch.sym_float": "float",
    "math.sqrt": "sqrt",
}  # fmt: skip

# An integer read from an array stays a 0-d array, so that arithmetic on it needs no wait for the device. Not so for
# a true division, which Python computes in double precision.
_ON_ARRAYS: dict[str, Any] = {
    "add": add, "subtract": subtract, "multiply": multiply, "remainder": remainder,
    "floor_divide": floor_divide, "minimum": minimum, "maximum": maximum, "equal": equal, "not_equal": not_equal,
    "less": less, "less_equal": less_equal, "greater": greater, "greater_equal": greater_equal,
}  # fmt: skip


def _lower_binary(function: Binary) -> Any:
    def lowering(a: Any, b: Any) -> Any:
        if isinstance(a, Value) or isinstance(b, Value):
            if function in _ON_ARRAYS and _is_integer(a) and _is_integer(b):
                return _ON_ARRAYS[function](as_array(a, mx.int64), as_array(b, mx.int64))
            a, b = as_number(a), as_number(b)
        return number_binary(function, a, b)

    return lowering


def _is_integer(x: Any) -> bool:
    if isinstance(x, Value):
        return mx.issubdtype(x.dtype, mx.integer)
    return type(x.hints[0] if isinstance(x, HostNumber) else x) is int


def as_number(x: Any) -> Any:
    """A literal or host number; an array's only element is read, which waits for it."""
    return to_number(x) if isinstance(x, Value) else x


def _lower_unary(function: Unary) -> Any:
    def lowering(a: Any) -> Any:
        if isinstance(a, Value) and function == "not" and a.dtype == mx.bool_:
            return bitwise_invert(a)
        if isinstance(a, Value) and function in ("negative", "abs", "int") and _is_integer(a):
            whole = cast(a, mx.int64)
            return whole if function == "int" else negative(whole) if function == "negative" else abs_(whole)
        return number_unary(function, as_number(a))

    return lowering


for _target, _function in _BINARY_TARGETS.items():
    lowers(_target)(_lower_binary(_function))
for _target, _unary in _UNARY_TARGETS.items():
    lowers(_target)(_lower_unary(_unary))


@lowers("torch.sym_ite")
def sym_ite(condition, a, b):
    if isinstance(condition, Value) and _is_integer(a) and _is_integer(b):
        return where(cast(condition, mx.bool_), as_array(a, mx.int64), as_array(b, mx.int64))
    return number_select(as_number(condition), as_number(a), as_number(b))


@lowers("aten.sym_size.int")
def sym_size(self, dim):
    return self.shape[dim]


@lowers("aten.sym_numel")
def sym_numel(self):
    return self.size


@lowers("aten.item", "aten._local_scalar_dense")
def item(self):
    return reshape(self, [])


@lowers("aten._assert_scalar")
def assert_scalar(self, assert_msg):
    recorder = active()
    if isinstance(self, Value) and not recorder.in_block:
        recorder.checks.append((cast(reshape(self, []), mx.bool_), assert_msg[:MAX_TEXT]))
    else:
        assert_number(as_number(self), assert_msg[:MAX_TEXT])


@lowers("aten._assert_async.msg")
def assert_async(self, assert_msg):
    assert_scalar(self, assert_msg)
