"""What a program is: typed values, instructions over them, methods, weights and state; and how it prints."""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx

from .tree import Tree

DTYPES: dict[str, mx.Dtype] = {
    name: getattr(mx, name)
    for name in [
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "int8",
        "int16",
        "int32",
        "int64",
        "float16",
        "bfloat16",
        "float32",
        "float64",
        "complex64",
    ]
} | {"bool": mx.bool_}
DTYPE_NAMES: dict[mx.Dtype, str] = {dtype: name for name, dtype in DTYPES.items()}

RANDOM_STATE = "random.key"
"""The state that random instructions draw their keys from: uint32[2]."""

RESERVED = frozenset(
    [
        "bound_method",
        "compile",
        "default_method",
        "export_mlxfn",
        "graph",
        "load_state",
        "method_name",
        "profile",
        "reset",
        "save",
        "save_state",
        "seed",
        "session",
        "state",
        "summary",
        "watch",
    ]
)
"""Names of mlxify.Program that no method may have."""

Dim = int | str
"""A size: a literal, or a symbol such as "batch", "2*seq" or "2*seq+1"."""

_DIM = re.compile(r"(?:(?P<scale>[1-9]\d{0,8})\*)?(?P<name>[A-Za-z_]\w{0,63})(?P<offset>[+-]\d{1,9})?")


@dataclass(frozen=True)
class LinearDim:
    """A symbolic size, scale * symbol + offset."""

    scale: int
    symbol: str
    offset: int

    @staticmethod
    @functools.lru_cache(1024)
    def parse(text: str) -> LinearDim | None:
        """The size that `text` spells, or None when it spells none."""
        found = _DIM.fullmatch(text)
        if found is None:
            return None
        return LinearDim(int(found["scale"] or 1), found["name"], int(found["offset"] or 0))

    def at(self, value: int) -> int:
        return self.scale * value + self.offset

    def solve(self, size: int) -> int | None:
        """The symbol's value at which this dimension has `size`, or None when there is none."""
        value, rest = divmod(size - self.offset, self.scale)
        return None if rest else value


class Ref(int):
    """A reference to a value of the program, by its number; prints as %number."""

    def __repr__(self) -> str:
        return f"%{int(self)}"


@dataclass(frozen=True)
class Spec:
    """Shape and dtype of an array; dtype None means a host number (an input's one dimension is then its value)."""

    shape: tuple[Dim, ...]
    dtype: mx.Dtype | None

    def __str__(self) -> str:
        if self.dtype is None:
            return f"number {self.shape[0]}" if self.shape else "number"
        return f"{DTYPE_NAMES[self.dtype]}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class Source:
    """Where an instruction comes from: the user's line, its text, and the module path."""

    line: str = ""
    code: str = ""
    module: str = ""

    def __str__(self) -> str:
        place = " ".join(part for part in (self.line, f"in {self.module}" if self.module else "") if part)
        return f"{place}: {self.code}" if self.code else place


@dataclass(slots=True)
class Instr:
    """One call of an instruction: positional arguments (literals, Refs, lists of them, Blocks), result numbers."""

    op: str
    args: tuple[Any, ...]
    outputs: tuple[int, ...]
    source: int = -1


@dataclass
class Block:
    """A nested piece of program (a branch or a loop body). It sees the values of the method around it.

    Its inputs have the shapes and dtypes of the values `like`.
    """

    inputs: tuple[int, ...]
    like: tuple[Ref, ...]
    instrs: list[Instr]
    outputs: tuple[Any, ...]


@dataclass
class Input:
    """A leaf of a method's arguments. `spec.dtype` None means a host number of the kind `number`."""

    name: str
    spec: Spec
    value: int
    number: str = ""


@dataclass
class Method:
    """One entry point: its inputs, the values it binds, its instructions and its outputs."""

    name: str
    parameters: list[str]
    input_tree: Tree
    output_tree: Tree
    inputs: list[Input] = field(default_factory=list)
    weights: dict[int, str] = field(default_factory=dict)
    state: dict[int, str] = field(default_factory=dict)
    updates: dict[str, int] = field(default_factory=dict)
    instrs: list[Instr] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)
    checks: list[tuple[Ref, str]] = field(default_factory=list)
    """Conditions on data (one bool each) that hold unless the call is wrong, with what to say then."""
    symbols: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    examples: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Two values of each dynamic size by which to check the program, where conditions tie sizes to each other."""
    sources: list[Source] = field(default_factory=list)
    specs: dict[int, Spec] = field(default_factory=dict)

    def all_instrs(self) -> Iterator[Instr]:
        """Every instruction, those of nested blocks included."""
        yield from _walk(self.instrs)


def _walk(instrs: list[Instr]) -> Iterator[Instr]:
    for instr in instrs:
        yield instr
        for arg in instr.args:
            if isinstance(arg, Block):
                yield from _walk(arg.instrs)


def refs(args: Any) -> Iterator[int]:
    """The numbers of all values that (nested) arguments refer to, those used inside Blocks included."""
    if isinstance(args, Ref):
        yield int(args)
    elif isinstance(args, (tuple, list)):
        for arg in args:
            yield from refs(arg)
    elif isinstance(args, Block):
        yield from refs(args.like)
        for instr in args.instrs:
            yield from refs(instr.args)
        yield from refs(args.outputs)


@dataclass
class Graph:
    """The whole of a program as data: methods, weights and initial state. `mlxify.Program` runs it."""

    methods: dict[str, Method]
    weights: dict[str, mx.array]
    state: dict[str, mx.array] = field(default_factory=dict)
    turned: bool = False
    """Whether weights lie in memory as this device's products read them fastest (see weights.py)."""

    def summary(self) -> Summary:
        counts = Counter(instr.op for method in self.methods.values() for instr in method.all_instrs())
        return Summary(
            weights=len(self.weights),
            weight_bytes=sum(array.nbytes for array in self.weights.values()),
            state=len(self.state),
            state_bytes=sum(array.nbytes for array in self.state.values()),
            instructions=dict(counts.most_common()),
            methods={name: len(list(m.all_instrs())) for name, m in self.methods.items()},
        )


@dataclass(frozen=True)
class Summary:
    """Sizes and counts of a program. Bytes are bytes, not MB."""

    weights: int
    weight_bytes: int
    state: int
    state_bytes: int
    instructions: dict[str, int]
    methods: dict[str, int]

    def __str__(self) -> str:
        lines = [f"{self.weights} weights, {format_bytes(self.weight_bytes)}"]
        if self.state:
            lines.append(f"{self.state} state arrays, {format_bytes(self.state_bytes)}")
        lines += [f"method {name}: {count} instructions" for name, count in self.methods.items()]
        width = max(map(len, self.instructions), default=0)
        lines += [f"  {op:<{width}}  {count:>5}" for op, count in self.instructions.items()]
        return "\n".join(lines)


def format_bytes(count: int) -> str:
    """A size for people: bytes, kB, MB or GB (powers of 1000)."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count} bytes"


def format_method(method: Method) -> str:
    """A method as text, one instruction a line, with shapes and the user's source line."""
    head = ", ".join(f"{i.name} %{i.value}: {i.spec}" for i in method.inputs)
    lines = [f"{method.name}({head}):"]
    lines += [f"  %{value} = weight {name!r}" for value, name in method.weights.items()]
    lines += [f"  %{value} = state {name!r}" for value, name in method.state.items()]
    lines += _format_instrs(method, method.instrs, "  ")
    lines += [f"  check {ref!r}: {message}" for ref, message in method.checks]
    lines += [f"  state {name!r} = %{value}" for name, value in method.updates.items()]
    lines.append(f"  return {', '.join(map(format_argument, method.outputs))}")
    return "\n".join(lines)


def _format_instrs(method: Method, instrs: list[Instr], indent: str) -> list[str]:
    lines, last = [], -1
    for instr in instrs:
        if instr.source != last and 0 <= instr.source < len(method.sources):
            lines.append(f"{indent}# {method.sources[instr.source]}")
            last = instr.source
        outs = ", ".join(f"%{o}: {method.specs[o]}" if o in method.specs else f"%{o}" for o in instr.outputs)
        args = ", ".join(format_argument(a) for a in instr.args)
        lines.append(f"{indent}{outs + ' = ' if outs else ''}{instr.op}({args})")
        for arg in instr.args:
            if isinstance(arg, Block):
                lines.append(f"{indent}  block({', '.join(f'%{i}' for i in arg.inputs)}):")
                lines += _format_instrs(method, arg.instrs, indent + "    ")
                lines.append(f"{indent}    yield {', '.join(map(format_argument, arg.outputs))}")
    return lines


def format_argument(arg: Any) -> str:
    if isinstance(arg, mx.Dtype):
        return DTYPE_NAMES[arg]
    if isinstance(arg, Block):
        return "block"
    if isinstance(arg, (tuple, list)):
        return f"[{', '.join(map(format_argument, arg))}]"
    if isinstance(arg, float) and math.isfinite(arg):
        short = float(f"{arg:.9g}")
        return repr(short if abs(short - arg) <= 1e-9 * abs(arg) else arg)
    return repr(arg)
