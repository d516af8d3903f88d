"""The recorder: runs every instruction on lazy example arrays as it is recorded, so shapes and dtypes are MLX's own.

A method with dynamic sizes is followed with two examples at once. A size on which both agree is a literal; one on
which they differ is a value that the program computes (`size`). Nothing is evaluated: MLX arrays are lazy.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import mlx.core as mx

from . import layout
from .device import one_core
from .errors import MlxifyError, ProgramError
from .program import DTYPE_NAMES, Block, Instr, Ref, refs
from .values import HostNumber, Value

if TYPE_CHECKING:
    from .isa import Instruction, Kind

UNBACKED = (3, 5)
"""Example values of a host integer that depends on data, by example."""
# Far apart, and prime, so that two sizes agree on both examples only when they are the same size.
_SMALL = (2, 3, 5, 7, 11, 13, 17, 19)
_LARGE = (1009, 1013, 1019, 1021, 1031, 1033, 1039, 1049)
HOISTED = ("constant", "complex_constant")
MAX_RANK = 32
MAX_BYTES = 1 << 40
MAX_RESULTS = 65_536

_local = threading.local()


def example_sizes(index: int, low: int, high: int | None) -> tuple[int, int]:
    """The two example values of the `index`-th dynamic size of a method, in its range."""
    top = 2**31 - 1 if high is None else high
    small = min(top, max(low, _SMALL[index % len(_SMALL)]))
    large = min(top, max(low, _LARGE[index % len(_LARGE)]))
    return (low if small == large else small), large


def current() -> Recorder | None:
    """The recorder at work in this thread, if any."""
    return getattr(_local, "recorder", None)


def active() -> Recorder:
    """The recorder at work in this thread: for lowerings, which run only while recording."""
    recorder = current()
    assert recorder is not None, "lowerings run while recording"
    return recorder


def example() -> int:
    """Which example is being followed: for `abstract` rules of instructions that look at values."""
    return getattr(_local, "example", 0)


@contextmanager
def recording(recorder: Recorder | None) -> Iterator[None]:
    before = current()
    _local.recorder = recorder
    try:
        yield
    finally:
        _local.recorder = before


class Recorder:
    """Builds the instructions of one method, without recording the same call twice."""

    def __init__(self, examples: int = 1) -> None:
        self.examples = examples
        self.instrs: list[Instr] = []
        self.source = -1
        self.values: list[Value | HostNumber] = []
        self.literals: dict[int, mx.array] = {}
        self.bounds: dict[int, tuple[int, int]] = {}  # least and greatest element of known integer tables
        self.vectors: dict[int, list[int]] = {}  # all elements of short ones
        self.key_state: Value | None = None
        self.key: Value | None = None
        self.checks: list[tuple[Value, str]] = []
        self.transposed: dict[int, tuple[Value, tuple[int, ...]]] = {}  # by result: of what, and its axes
        self._seen: list[dict[Any, Any]] = [{}]
        self._method = self.instrs

    def new_value(self, hints: tuple[Any, ...]) -> Any:
        """A fresh value; its kind (array or host number) is that of its examples."""
        number = len(self.values)
        value = Value(self, number, hints) if isinstance(hints[0], mx.array) else HostNumber(number, hints)
        self.values.append(value)
        return value

    def record(self, schema: Instruction, args: tuple[Any, ...]) -> Any:
        """Append a call and return its result(s). Called by instructions while recording."""
        if schema.returns == "number" and not any(isinstance(a, (Value, HostNumber)) for a in args):
            return schema.fn(*args)
        if schema.noop is not None and isinstance(args[0], Value) and schema.noop(*args):
            return args[0]
        sunk = layout.sunk(self, schema, args)
        return self.record_plainly(schema, args) if sunk is None else sunk

    def record_plainly(self, schema: Instruction, args: tuple[Any, ...]) -> Any:
        """The same, as it is written."""
        coerced = tuple(self._coerce(k, a, args) for k, a in zip(schema.kinds, args, strict=True))
        key = (schema.name, _freeze(coerced))
        for scope in self._seen:
            if key in scope and not schema.effect:
                return scope[key]
        for name, kind, arg in zip(schema.parameters, schema.kinds, coerced, strict=True):
            try:
                kind.check(arg)
            except ProgramError as error:
                raise ProgramError(f"{schema.name}: {name}: {error}") from None
        if schema.name in HOISTED:
            return self._hoist(schema, coerced, key)
        result = self.append(schema, coerced)
        self._seen[-1][key] = result
        if schema.name == "transpose" and isinstance(args[0], Value):
            self.transposed[result.number] = args[0], tuple(args[1])
        return result

    def _hoist(self, schema: Instruction, args: tuple[Any, ...], key: Any) -> Any:
        """Record a constant outside all blocks, where it is computed once."""
        inner, self.instrs = self.instrs, self._method
        try:
            result = self._seen[0][key] = self.append(schema, args)
        finally:
            self.instrs = inner
        return result

    def append(self, schema: Instruction, args: tuple[Any, ...]) -> Any:
        """Run a checked call on the examples, append it, wrap its results."""
        runs = [self._run_example(schema, args, i) for i in range(self.examples)]
        if schema.returns == "nothing":
            self.instrs.append(Instr(schema.name, args, (), self.source))
            return None
        many = schema.returns == "arrays"
        columns = list(zip(*runs, strict=True)) if many else [tuple(runs)]
        if many and any(len(run) != len(columns) for run in runs):
            raise ProgramError(f"{schema.name}: the number of results depends on a dynamic size")
        results = [self.new_value(column) for column in columns]
        if self.examples > 1 and any(self._hides(number) for number in refs(args)):
            for result in results:
                if isinstance(result, Value):
                    result.dynamic.update(range(result.ndim))
        self.instrs.append(Instr(schema.name, args, tuple(r.number for r in results), self.source))
        return tuple(results) if many else results[0]

    def _hides(self, number: int) -> bool:
        """Whether the examples of a dynamic size happen to agree, so that they do not show where it goes."""
        value = self.values[number]
        if isinstance(value, HostNumber):
            return type(value.hints[0]) is int and len(set(value.hints)) == 1
        return any(len({hint.shape[axis] for hint in value.hints}) == 1 for axis in value.dynamic)

    def _run_example(self, schema: Instruction, args: tuple[Any, ...], index: int) -> Any:
        concrete = self.at_example(args, index)
        _local.example = index
        with recording(None), one_core():  # examples are large, and in parts they would be large graphs
            try:
                result = schema.abstract(*concrete)
            except MlxifyError:
                raise
            except (
                ValueError,
                TypeError,
                IndexError,
                RuntimeError,
                OverflowError,
                ZeroDivisionError,
            ) as error:
                shown = ", ".join(_describe(c) for c in concrete)
                raise ProgramError(f"{schema.name}({shown}): {error}") from error
        for array in result if isinstance(result, (tuple, list)) else (result,):
            check_limits(schema.name, array)
        return result

    def at_example(self, arg: Any, index: int) -> Any:
        """Arguments with every reference replaced by its value in example `index`."""
        if isinstance(arg, Ref):
            return self.values[arg].hints[index]
        if isinstance(arg, tuple):
            return tuple(self.at_example(a, index) for a in arg)
        if isinstance(arg, Block):
            return _BlockAtExample(self, arg, index)
        return arg

    def _coerce(self, kind: Kind, arg: Any, args: tuple[Any, ...]) -> Any:
        if isinstance(arg, (list, tuple)):
            return tuple(self._coerce(kind, item, args) for item in arg)
        if isinstance(arg, HostNumber) and kind.base == "array":
            from .isa import number_array

            return Ref(number_array(arg, _sibling_dtype(args)).number)
        if isinstance(arg, Value):
            if kind.base in ("host_int", "number") and not kind.or_array:
                from .ops.scalar import to_number

                arg = to_number(arg)
            return Ref(arg.number)
        if isinstance(arg, HostNumber):
            return Ref(arg.number)
        if isinstance(arg, mx.array):
            return Ref(self.literal(arg).number)
        if kind.base == "array" and isinstance(arg, (int, float, complex)):
            return Ref(self.scalar(arg, _sibling_dtype(args)).number)
        if kind.base == "float" and type(arg) is int:
            return float(arg)
        return arg

    def scalar(self, value: int | float | complex, dtype: mx.Dtype) -> Value:
        """A literal as a 0-d constant of `dtype`; its category must fit (no 0.5 among integers)."""
        from .isa import complex_constant, constant

        if isinstance(value, complex):
            if dtype != mx.complex64:
                raise TypeError(f"the complex number {value} meets an array of {DTYPE_NAMES[dtype]}")
            return complex_constant(float(value.real), float(value.imag))
        whole = mx.issubdtype(dtype, mx.integer) or dtype == mx.bool_
        if (whole and isinstance(value, float)) or (dtype == mx.bool_ and not isinstance(value, bool)):
            raise TypeError(f"the number {value!r} meets an array of {DTYPE_NAMES[dtype]}: promote first")
        return constant(value, dtype)

    def literal(self, array: mx.array) -> Value:
        """A concrete array as a weight of the program (tables computed at conversion)."""
        for number, other in self.literals.items():
            if other is array:
                return self.values[number]  # type: ignore[return-value]
        value = self.new_value((mx.zeros(array.shape, array.dtype),) * self.examples)
        self.literals[value.number] = array
        return value

    def next_key(self) -> Value:
        """A fresh random key. The program's key is state, uint32[2]: each use replaces it."""
        from .errors import refuse
        from .ops.random import split_key

        if self.in_block:
            raise refuse("random numbers inside a branch or loop are not supported")
        if self.key is None:
            self.key = self.key_state = self.new_value((mx.zeros((2,), mx.uint32),) * self.examples)
        self.key, key = split_key(self.key)
        return key

    @property
    def in_block(self) -> bool:
        return len(self._seen) > 1

    def block(self, build: Callable[..., Any], inputs: list[Any]) -> Block:
        """Record a nested block: `build(*values)` returns its outputs. `inputs` are values to take shapes from."""
        outer, self.instrs = self.instrs, []
        self._seen.append({})
        try:
            values = [self.new_value(v.hints) for v in inputs]
            for value, given in zip(values, inputs, strict=True):
                if isinstance(value, Value):
                    value.dynamic = set(given.dynamic)
            outputs = build(*values)
            refs = tuple(Ref(o.number) for o in outputs)
            like = tuple(Ref(v.number) for v in inputs)
            return Block(tuple(v.number for v in values), like, self.instrs, refs)
        finally:
            self._seen.pop()
            self.instrs = outer


class _BlockAtExample:
    """A block inside an abstract run: calling it gives the examples of its outputs."""

    def __init__(self, recorder: Recorder, block: Block, index: int) -> None:
        self._results = [recorder.at_example(o, index) for o in block.outputs]
        self.arity = len(block.inputs)

    def __call__(self, *_: Any) -> list[Any]:
        return self._results


def check_limits(op: str, array: Any) -> None:
    """Refuse results no real model has, before anything could allocate them."""
    if not isinstance(array, mx.array):
        return
    count = array.dtype.size
    for n in array.shape:
        count *= n
    if array.ndim > MAX_RANK or count > MAX_BYTES:
        raise ProgramError(f"{op}: a result of shape {list(array.shape)} exceeds the limits of a program")


def _sibling_dtype(args: tuple[Any, ...]) -> mx.Dtype:
    for arg in args:
        for item in arg if isinstance(arg, (list, tuple)) else (arg,):
            if isinstance(item, (Value, mx.array)):
                return item.dtype
    raise TypeError("a number needs an array beside it to take its dtype from")


def _freeze(arg: Any) -> Any:
    """A hashable key in which 1, 1.0, True, 0.0 and -0.0 all differ."""
    if isinstance(arg, tuple):
        return tuple(map(_freeze, arg))
    if isinstance(arg, float):
        return ("float", repr(arg))
    if isinstance(arg, Block):
        return id(arg)
    return (type(arg).__name__, arg)


def _describe(arg: Any) -> str:
    if isinstance(arg, mx.array):
        return f"{DTYPE_NAMES[arg.dtype]}{list(arg.shape)}"
    if isinstance(arg, tuple):
        return f"[{', '.join(map(_describe, arg))}]"
    return DTYPE_NAMES.get(arg, repr(arg)) if isinstance(arg, mx.Dtype) else str(arg)[:60]
