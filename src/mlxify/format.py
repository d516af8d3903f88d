"""A program as one safetensors file: the tensors are weights and state, the metadata holds the program as JSON.

Metadata keys: "format" = "mlxify", "version" = an integer, "program" = JSON. See docs/format.md for the layout.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import mlx.core as mx

from . import ops  # noqa: F401  (registers the instructions)
from .errors import ProgramError
from .files import read_arrays, write_whole
from .isa import INSTRUCTIONS, MAX_TEXT, Kind
from .program import DTYPE_NAMES, DTYPES, Block, Graph, Input, Instr, LinearDim, Method, Ref, Source, Spec
from .tree import MAX_LEAVES, check_tree, encode_tree
from .verify import verify

FORMAT = "mlxify"
VERSION = 1
STATE_PREFIX = "state:"
NUMBER = "number:"
NON_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
MAX_INT_DIGITS = 20


def save(graph: Graph, path: str | os.PathLike[str]) -> None:
    """Write a program to `path`: complete or not at all (temporary file in the same folder, flushed, renamed)."""
    metadata = {
        "format": FORMAT,
        "version": str(VERSION),
        "program": json.dumps(encode(graph), allow_nan=False),
    }
    arrays = dict(graph.weights) | {STATE_PREFIX + name: array for name, array in graph.state.items()}
    if not arrays:
        arrays = {"empty": mx.zeros((0,))}
    write_whole(path, arrays, metadata)


def load(path: str | os.PathLike[str], methods: list[str] | None = None) -> Graph:
    """Read and verify a program. Weights are read when a Program is made of it.

    Raises ProgramError when the file is damaged, foreign or hostile, FileNotFoundError when it is not there.
    """
    path = Path(path)
    arrays, metadata = read_arrays(path)
    if metadata.get("format") != FORMAT:
        raise ProgramError(f"{path.name} is a safetensors file, but not an mlxify program")
    version = metadata.get("version", "")
    if version not in {str(v) for v in range(1, VERSION + 1)}:
        raise ProgramError(
            f"{path.name} has format version {version[:20]!r}; this mlxify reads up to {VERSION}"
        )
    try:
        data = json.loads(metadata.get("program", ""), parse_constant=_no_constant, parse_int=_parse_int)
    except (ValueError, RecursionError) as error:
        raise ProgramError(f"{path.name}: the program is not valid JSON: {error}") from None
    state = {n.removeprefix(STATE_PREFIX): a for n, a in arrays.items() if n.startswith(STATE_PREFIX)}
    weights = {n: a for n, a in arrays.items() if not n.startswith(STATE_PREFIX)}
    graph = decode(data, weights, state)
    if methods is not None:
        unknown = [name for name in methods if name not in graph.methods]
        if unknown:
            raise ProgramError(f"{path.name} has no method {unknown[0]!r}; it has {', '.join(graph.methods)}")
        graph.methods = {name: graph.methods[name] for name in methods}
        kept = {name for m in graph.methods.values() for name in (*m.state.values(), *m.updates)}
        graph.state = {name: array for name, array in graph.state.items() if name in kept}
    used = {name for m in graph.methods.values() for name in m.weights.values()}
    graph.weights = {name: array for name, array in graph.weights.items() if name in used}
    verify(graph)
    return graph


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def _parse_int(text: str) -> int:
    if len(text) > MAX_INT_DIGITS:
        raise ValueError("a number has too many digits")
    return int(text)


def encode(graph: Graph) -> dict[str, Any]:
    """The program as JSON-able data."""
    return {"methods": [_encode_method(m) for m in graph.methods.values()]}


def _encode_method(m: Method) -> dict[str, Any]:
    return {
        "name": m.name,
        "parameters": m.parameters,
        "symbols": {
            name: [*span, *m.examples[name]] if name in m.examples else list(span)
            for name, span in m.symbols.items()
        },
        "inputs": [
            [
                i.name,
                DTYPE_NAMES[i.spec.dtype] if i.spec.dtype is not None else NUMBER + i.number,
                list(i.spec.shape),
            ]
            for i in m.inputs
        ],
        "weights": list(m.weights.values()),
        "state": list(m.state.values()),
        "input_tree": encode_tree(m.input_tree),
        "output_tree": encode_tree(m.output_tree),
        "instructions": [_encode_instr(i) for i in m.instrs],
        "outputs": [_encode_arg(o) for o in m.outputs],
        "updates": m.updates,
        "checks": [[_encode_arg(ref), message] for ref, message in m.checks],
        "sources": [[s.line, s.code, s.module] for s in m.sources],
    }


def _encode_instr(instr: Instr) -> list[Any]:
    return [instr.op, [_encode_arg(a) for a in instr.args], list(instr.outputs), instr.source]


def _encode_arg(arg: Any) -> Any:
    """References are "%number", dtypes are "dtype:name", non-finite floats are "float:name"; text is "text:…"."""
    if isinstance(arg, Ref):
        return f"%{int(arg)}"
    if isinstance(arg, tuple):
        return [_encode_arg(a) for a in arg]
    if isinstance(arg, mx.Dtype):
        return f"dtype:{DTYPE_NAMES[arg]}"
    if isinstance(arg, float) and not math.isfinite(arg):
        return f"float:{arg}"
    if isinstance(arg, str):
        return f"text:{arg}"
    if isinstance(arg, Block):
        instrs = [_encode_instr(i) for i in arg.instrs]
        return {
            "inputs": list(arg.inputs),
            "like": [_encode_arg(v) for v in arg.like],
            "instructions": instrs,
            "outputs": [_encode_arg(o) for o in arg.outputs],
        }
    return arg


def decode(data: Any, weights: dict[str, mx.array], state: dict[str, mx.array]) -> Graph:
    """A program from JSON data that is not trusted: types are checked here, meaning in `verify`."""
    listed = _get(_typed(data, dict, "the program"), "methods", list)
    methods: dict[str, Method] = {}
    for item in listed:
        method = _decode_method(_typed(item, dict, "a method"))
        if method.name in methods:
            raise ProgramError(f"the method {method.name!r} is there twice")
        methods[method.name] = method
    return Graph(methods, weights, state)


def _typed(value: Any, kind: type, what: str) -> Any:
    if type(value) is not kind:
        raise ProgramError(f"{what} should be a {kind.__name__}, and is a {type(value).__name__}")
    return value


def _get(data: dict[str, Any], key: str, kind: type) -> Any:
    if key not in data:
        raise ProgramError(f"{key!r} is missing")
    return _typed(data[key], kind, f"{key!r}")


def _strings(data: dict[str, Any], key: str) -> list[str]:
    return [_typed(item, str, f"an item of {key!r}") for item in _get(data, key, list)]


def _decode_method(data: dict[str, Any]) -> Method:
    name = _get(data, "name", str)
    m = Method(name, _strings(data, "parameters"), ("const", None), ("const", None))
    for key, value in _get(data, "symbols", dict).items():
        _decode_symbol(m, key, value)
    m.inputs = [_decode_input(item, number) for number, item in enumerate(_get(data, "inputs", list))]
    number = len(m.inputs)
    for key, target in (("weights", m.weights), ("state", m.state)):
        for tensor in _strings(data, key):
            target[number] = tensor
            number += 1
    m.instrs = [_decode_instr(item, 0) for item in _get(data, "instructions", list)]
    m.outputs = [_decode_output(item) for item in _get(data, "outputs", list)]
    m.updates = {k: _typed(v, int, "an update") for k, v in _get(data, "updates", dict).items()}
    m.checks = [_decode_check(item) for item in _get(data, "checks", list)]
    m.sources = [_decode_source(item) for item in _get(data, "sources", list)]
    leaves = min(MAX_LEAVES, max(len(m.inputs), len(m.outputs)))
    m.input_tree = check_tree(data.get("input_tree"), leaves)
    m.output_tree = check_tree(data.get("output_tree"), leaves)
    return m


def _decode_symbol(m: Method, name: str, value: Any) -> None:
    """[least, most or null], and two values in between where examples are given."""
    count = 4 if type(value) is list and len(value) == 4 else 2
    low, high, *examples = _list_of(value, count, "the range of a size")
    dim = LinearDim.parse(name)
    valid = (
        type(low) is int
        and 0 <= low < 2**31
        and (high is None or (type(high) is int and low <= high < 2**31))
    )
    if not valid or dim is None or dim != LinearDim(1, name, 0):
        raise ProgramError(f"the size {name[:80]!r} has no valid range")
    m.symbols[name] = low, high
    if examples:
        top = 2**31 - 1 if high is None else high
        if not all(type(n) is int and low <= n <= top for n in examples):
            raise ProgramError(f"the examples of the size {name[:80]!r} are not in its range")
        m.examples[name] = examples[0], examples[1]


def _decode_input(value: Any, number: int) -> Input:
    name, dtype, shape = _list_of(value, 3, "an input")
    _typed(name, str, "an input's name")
    _typed(dtype, str, "an input's dtype")
    if dtype.startswith(NUMBER):
        kind = dtype.removeprefix(NUMBER)
        sized = kind == "int" and type(shape) is list and len(shape) == 1 and type(shape[0]) is str
        if kind not in ("int", "float", "bool") or not (shape == [] or sized):
            raise ProgramError(f"the input {name[:60]!r} is no host number: {dtype[:60]!r}")
        return Input(name, Spec(tuple(shape), None), number, kind)
    if dtype not in DTYPES:
        raise ProgramError(f"the input {name[:60]!r} has the unknown dtype {dtype[:60]!r}")
    dims = tuple(
        _typed(d, str, "a size") if isinstance(d, str) else _typed(d, int, "a size")
        for d in _typed(shape, list, "a shape")
    )
    return Input(name, Spec(dims, DTYPES[dtype]), number)


def _list_of(value: Any, count: int, what: str) -> list[Any]:
    if type(value) is not list or len(value) != count:
        raise ProgramError(f"{what} should be a list of {count}")
    return value


def _decode_check(value: Any) -> tuple[Ref, str]:
    ref, message = _list_of(value, 2, "a check")
    decoded = _decode_output(ref)
    if not isinstance(decoded, Ref):
        raise ProgramError("a check should refer to a value")
    return decoded, _typed(message, str, "a check's message")[:MAX_TEXT]


def _decode_source(value: Any) -> Source:
    return Source(*(_typed(part, str, "a source") for part in _list_of(value, 3, "a source")))


def _decode_instr(value: Any, depth: int) -> Instr:
    if depth > 32:
        raise ProgramError("blocks are nested too deeply")
    op, args, outputs, source = _list_of(value, 4, "an instruction")
    schema = INSTRUCTIONS.get(_typed(op, str, "an instruction's name"))
    if schema is None:
        raise ProgramError(f"there is no instruction {op[:80]!r}")
    _list_of(args, len(schema.kinds), f"the arguments of {op}")
    numbers = tuple(
        _typed(o, int, "a result's number") for o in _typed(outputs, list, "an instruction's results")
    )
    decoded = tuple(_decode_arg(a, kind, depth) for a, kind in zip(args, schema.kinds, strict=True))
    return Instr(op, decoded, numbers, _typed(source, int, "a source's number"))


def _decode_arg(arg: Any, kind: Kind, depth: int) -> Any:
    if type(arg) is list:
        if not kind.many:
            raise ProgramError("a list where one value is expected")
        return tuple(_decode_item(item, kind, depth) for item in arg)
    return _decode_item(arg, kind, depth)


def _decode_item(arg: Any, kind: Kind, depth: int) -> Any:
    if type(arg) is str:
        return _decode_text(arg)
    if type(arg) is dict and kind.base == "block":
        return _decode_block(arg, depth)
    if arg is None or type(arg) in (int, float, bool):
        return float(arg) if type(arg) is int and kind.base == "float" else arg
    raise ProgramError(f"an argument of the kind {type(arg).__name__}")


def _decode_text(text: str) -> Any:
    if text.startswith("%"):
        digits = text[1:]
        if digits.isascii() and digits.isdigit() and len(digits) < 10:
            return Ref(digits)
    kind, _, rest = text.partition(":")
    if kind == "dtype" and rest in DTYPES:
        return DTYPES[rest]
    if kind == "float" and rest in NON_FINITE:
        return NON_FINITE[rest]
    if kind == "text":
        return rest
    raise ProgramError(f"the argument {text[:80]!r} is malformed")


def _decode_output(arg: Any) -> Any:
    if type(arg) is str:
        return _decode_text(arg)
    if arg is None or type(arg) in (int, float, bool):
        return arg
    raise ProgramError(f"an output of the kind {type(arg).__name__}")


def _decode_block(data: dict[str, Any], depth: int) -> Block:
    inputs = tuple(_typed(i, int, "a block's input") for i in _get(data, "inputs", list))
    like = tuple(_decode_output(v) for v in _get(data, "like", list))
    if not all(isinstance(v, Ref) for v in like):
        raise ProgramError("a block's examples should be references")
    instrs = [_decode_instr(i, depth + 1) for i in _get(data, "instructions", list)]
    outputs = tuple(_decode_output(o) for o in _get(data, "outputs", list))
    return Block(inputs, like, instrs, outputs)
