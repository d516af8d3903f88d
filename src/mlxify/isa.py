"""Instructions: one typed function each. Called while recording it records; called on arrays it runs.

The signature is the schema (validation of files, decoding, printing, reference pages), the body is the execution,
the docstring is the reference page and the name is the name on the wire.
"""

from __future__ import annotations

import inspect
import math
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

import mlx.core as mx

from . import record
from .errors import ProgramError
from .program import DTYPE_NAMES, Block, Ref

Array = mx.array
DType = mx.Dtype
Int = Annotated[int, "host"]
"""A size, start or offset: a literal, or a host integer known when the program runs."""
Number = Annotated[int | float | bool, "host"]
"""A host number: a literal, or known when the program runs."""
Text = Annotated[str, "text"]
"""Free text, shown to people only (the message of an assertion)."""

INT64 = range(-(2**63), 2**63)
MAX_TEXT = 4096
MAX_LIST = 65_536


@dataclass(frozen=True)
class Kind:
    """What a parameter takes. `base`: array, host_int, number, int, float, bool, dtype, choice, text, block."""

    base: str
    optional: bool = False
    many: bool = False
    item_optional: bool = False
    or_array: bool = False
    choices: tuple[str, ...] = ()

    def check(self, value: Any) -> None:
        """Raise ProgramError unless `value` (decoded: Refs, literals, lists) is of this kind."""
        if value is None and self.optional:
            return
        if not self.many:
            self._check_item(value)
            return
        if not isinstance(value, tuple) or len(value) > MAX_LIST:
            raise ProgramError(f"expected a list of {self.base}, got {_show(value)}")
        for item in value:
            if not (item is None and self.item_optional):
                self._check_item(item)

    def _check_item(self, value: Any) -> None:
        if not _CHECKS[self.base](value, self.choices) and not (self.or_array and type(value) is Ref):
            wanted = f"one of {', '.join(self.choices)}" if self.choices else self.base
            raise ProgramError(f"expected {wanted}, got {_show(value)}")


def _is_int(value: Any, _: Any) -> bool:
    return type(value) is int and value in INT64


def _is_number(value: Any, _: Any) -> bool:
    return type(value) is Ref or type(value) is bool or type(value) is float or _is_int(value, _)


_CHECKS: dict[str, Callable[[Any, tuple[str, ...]], bool]] = {
    "array": lambda v, _: type(v) is Ref,
    "host_int": lambda v, _: type(v) is Ref or _is_int(v, _),
    "number": _is_number,
    "int": _is_int,
    "float": lambda v, _: type(v) is float or _is_int(v, _),
    "bool": lambda v, _: type(v) is bool,
    "dtype": lambda v, _: isinstance(v, mx.Dtype),
    "choice": lambda v, choices: isinstance(v, str) and v in choices,
    "text": lambda v, _: isinstance(v, str) and len(v) <= MAX_TEXT,
    "block": lambda v, _: isinstance(v, Block),
}


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _kind(annotation: Any) -> Kind:
    """The kind an annotation spells."""
    origin = typing.get_origin(annotation)
    if annotation is mx.array:
        return Kind("array")
    if origin is Annotated:
        mark = annotation.__metadata__[0]
        if mark == "text":
            return Kind("text")
        return Kind("host_int" if typing.get_args(annotation)[0] is int else "number")
    if annotation is mx.Dtype:
        return Kind("dtype")
    if annotation in (int, float, bool):
        return Kind(annotation.__name__)
    if annotation is Block:
        return Kind("block")
    if origin is Literal:
        return Kind("choice", choices=typing.get_args(annotation))
    if origin is list:
        item = _kind(typing.get_args(annotation)[0])
        return Kind(
            item.base, many=True, item_optional=item.optional, or_array=item.or_array, choices=item.choices
        )
    if origin in (typing.Union, types.UnionType):
        return _union_kind(typing.get_args(annotation))
    raise TypeError(f"an instruction cannot have a parameter of the type {annotation}")


def _union_kind(options: tuple[Any, ...]) -> Kind:
    rest = [o for o in options if o is not type(None)]
    or_array = mx.array in rest and len(rest) > 1
    if or_array:
        rest.remove(mx.array)
    if len(rest) != 1:
        raise TypeError(f"an instruction cannot have a parameter of the type {options}")
    kind = _kind(rest[0])
    fields = {**kind.__dict__, "or_array": or_array, "optional": len(options) > len(rest) + or_array}
    return Kind(**fields)


_RETURNS = {mx.array: "array", list[mx.array]: "arrays", type(None): "nothing"}


@dataclass(frozen=True)
class Instruction:
    """The schema of one instruction, read from its function. `returns`: array, arrays, number or nothing.

    From `abstract` on: what the function does not say, the options of `instruction`.
    """

    name: str
    fn: Callable[..., Any]
    parameters: tuple[str, ...]
    kinds: tuple[Kind, ...]
    defaults: tuple[Any, ...]
    returns: str
    doc: str
    abstract: Callable[..., Any]
    noop: Callable[..., bool] | None = None
    effect: bool = False
    sync: bool = False
    elementwise: bool = False
    chain: int = 64
    fails: bool = False

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """All arguments in order, defaults filled in."""
        if len(args) == len(self.parameters) and not kwargs:
            return args
        bound = list(self.defaults)
        bound[: len(args)] = args
        for name, value in kwargs.items():
            bound[self.parameters.index(name)] = value
        if len(args) > len(self.parameters) or any(b is inspect.Parameter.empty for b in bound):
            raise TypeError(f"{self.name}: wrong arguments {args} {kwargs}")
        return tuple(bound)


INSTRUCTIONS: dict[str, Instruction] = {}


def instruction(fn: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Declare an instruction. See the module's text. The options, with their defaults, are fields of Instruction.

    abstract: what to run instead of the body on lazy example arrays, for a body that must look at values.
    noop: for these arguments the result is the first of them, and nothing is recorded.
    effect: the instruction is kept although nobody uses its result (an assertion).
    sync: the body looks at the values of arrays on the host, so a compiled segment ends before it.
    elementwise: an element of the result depends on the elements at its place alone, of arrays that broadcast.
    chain: the MLX operations of which each takes the result of the last, at most; 0 when it grows with the arrays.
    fails: MLX may find out while it computes that it cannot (a decomposition), so a call that changes the state waits.
    """
    if fn is None:
        return partial(instruction, **options)
    hints = typing.get_type_hints(fn, include_extras=True)
    result = hints.pop("return")
    signature = inspect.signature(fn)
    schema = Instruction(
        name=fn.__name__.rstrip("_"),
        fn=fn,
        parameters=tuple(signature.parameters),
        kinds=tuple(_kind(hints[name]) for name in signature.parameters),
        defaults=tuple(p.default for p in signature.parameters.values()),
        returns=_RETURNS.get(result) or ("arrays" if typing.get_origin(result) is tuple else "number"),
        doc=inspect.getdoc(fn) or "",
        **{"abstract": fn, **options},
    )
    if schema.name in INSTRUCTIONS:
        raise TypeError(f"the instruction {schema.name} is declared twice")
    INSTRUCTIONS[schema.name] = schema

    def call(*args: Any, **kwargs: Any) -> Any:
        recorder = record.current()
        if recorder is None:
            return fn(*args, **kwargs)
        return recorder.record(schema, schema.bind(args, kwargs))

    call.__name__, call.__doc__, call.schema = fn.__name__, fn.__doc__, schema  # type: ignore[attr-defined]
    return call


@instruction
def constant(value: Number, dtype: DType) -> Array:
    """A 0-d array of the literal `value`, exact for every dtype."""
    return scalar_array(value, dtype)


@instruction
def complex_constant(real: float, imag: float) -> Array:
    """A 0-d complex64 array."""
    return mx.array(complex(real, imag), dtype=mx.complex64)


@instruction
def number_array(value: Number, dtype: DType) -> Array:
    """A 0-d array of a number known when the program runs."""
    return scalar_array(value, dtype)


@instruction(noop=lambda x, dtype: x.dtype == dtype, elementwise=True)
def cast(x: Array, dtype: DType) -> Array:
    """x as `dtype`: to nearest even between floats, towards zero to integers, non-zero is true for bool."""
    if dtype == mx.bool_ and x.dtype != mx.bool_:
        return x != 0
    return x.astype(dtype)


def scalar_array(value: int | float | bool, dtype: mx.Dtype) -> mx.array:
    """A 0-d array. Integers wrap to the dtype as PyTorch's casts do; integers never go through floats."""
    if dtype == mx.bool_:
        return mx.array(bool(value))
    if mx.issubdtype(dtype, mx.integer):
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{value} has no {DTYPE_NAMES[dtype]} value")
        bits = dtype.size * 8
        whole = int(value) & ((1 << bits) - 1)
        upper = whole >> (bits - 1)
        if upper and mx.issubdtype(dtype, mx.signedinteger):
            whole -= 1 << bits
        if upper and dtype == mx.uint64:  # MLX takes no Python number that large
            return mx.view(mx.array(whole - (1 << bits), dtype=mx.int64), dtype)
        return mx.array(whole, dtype=dtype)
    return mx.array(value, dtype=dtype)
