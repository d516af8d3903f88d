"""MLX's own function files (.mlxfn), which C++ and Swift apps call: fixed shapes, one trace for each example."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from .bound import unroll
from .device import one_core
from .errors import InputError, MlxifyError, ProgramError
from .files import replaced
from .inputs import InputBinder, describe, to_numpy
from .isa import INSTRUCTIONS
from .program import Graph, Method, Ref
from .tree import named_leaves, unflatten

FORMAT = "mlxify-mlxfn"
VERSION = 1
UNROLLED = {"scan"}
"""Instructions that end a compiled segment but look at no value: a trace holds every turn of theirs."""
SHOWN = 5


def export(graph: Graph, name: str, path: str | os.PathLike[str], examples: Sequence[Any]) -> None:
    """Write one method of a program as an MLX function file. See Program.export_mlxfn."""
    method = graph.methods[name]
    _refuse(method)
    if not examples:
        raise InputError(
            "export_mlxfn takes one example of the arguments, or several: a tuple or a dict each"
        )
    function = _Function(graph, method)
    calls = [function.bind(example) for example in examples]
    _refuse_twins([[v for v in call if isinstance(v, mx.array)] for call in calls])
    with replaced(path, ".mlxfn") as temporary:
        try:
            with mx.exporter(temporary, function, metadata=json.dumps(function.describe())) as exporter:
                for call in calls:
                    exporter(*function.arrays(call))
            _check(mx.import_function(temporary), function, calls)
        except MlxifyError:
            raise
        except (RuntimeError, ValueError) as error:
            raise ProgramError(f"MLX could not write the method {name!r} as a function: {error}") from error


def _check(imported: Any, function: _Function, calls: list[list[Any]]) -> None:
    """Call what was written with the examples: MLX writes constants with gaps in memory wrongly, without an error."""
    for number, call in enumerate(calls, 1):
        arrays = function.arrays(call)
        for got, wanted in zip(imported(*arrays), function(*arrays), strict=True):
            if got.dtype != wanted.dtype or got.shape != wanted.shape or not _close(got, wanted):
                raise ProgramError(
                    f"MLX wrote another function than {function.method.name!r}: its results for example {number} differ"
                )


def _close(got: mx.array, wanted: mx.array) -> bool:
    """Equal, but for the rounding of fused operations that MLX takes apart."""
    a, b = to_numpy(got), to_numpy(wanted)
    finite = np.abs(b[np.isfinite(b)])
    inexact = finite.size and mx.issubdtype(wanted.dtype, mx.inexact)
    share = 5e-2 if wanted.dtype.size == 2 else 1e-3
    room = share * float(finite.max()) if inexact else 0.0
    return bool(np.allclose(a, b, rtol=0.0, atol=room, equal_nan=True))


class _Function:
    """A method as MLX's exporter traces it: arrays in, arrays out, the state last on both sides.

    Its signature has no place for Python numbers, so those of the example are part of its trace.
    """

    def __init__(self, graph: Graph, method: Method) -> None:
        self.method = method
        self.binder = InputBinder(method)
        self.state_names = list(dict.fromkeys([*method.state.values(), *method.updates]))
        self.state = {name: graph.state[name] for name in self.state_names}
        self.runner, _ = unroll(graph, method)
        # MLX writes a constant's memory as it lies and reads it in row-major order: a transposed weight came out wrong.
        self.runner.slots = [mx.contiguous(v) if isinstance(v, mx.array) else v for v in self.runner.slots]
        mx.eval([v for v in self.runner.slots if isinstance(v, mx.array)])
        self.values: list[Any] = []

    def bind(self, example: Any) -> list[Any]:
        """The input values of one example, a tuple of arguments or a dict of them."""
        if isinstance(example, dict):
            return self.binder.bind((), example)
        if isinstance(example, (tuple, list)):
            return self.binder.bind(tuple(example), {})
        raise InputError(f"each example is a tuple of arguments, or a dict; got {describe(example)}")

    def arrays(self, values: list[Any]) -> list[mx.array]:
        """What to trace with: the arrays among the values, and the initial state."""
        self.values = values
        return [v for v in values if isinstance(v, mx.array)] + list(self.state.values())

    def __call__(self, *arrays: mx.array) -> list[mx.array]:
        given = iter(arrays)
        inputs = [next(given) if isinstance(v, mx.array) else v for v in self.values]
        state = dict(zip(self.state_names, given, strict=True))
        with one_core():
            results = self.runner([*inputs, *(state[name] for name in self.method.state.values())])
        count = len(self.method.outputs)
        state |= zip(self.method.updates, results[count:], strict=False)
        return [*map(_as_array, results[:count]), *state.values()]

    def describe(self) -> dict[str, Any]:
        """What the file says about itself: names, in the order of its arguments and results."""
        outputs = unflatten(self.method.output_tree, [Ref(i) for i in range(len(self.method.outputs))])
        paths = {leaf: path or "output" for path, leaf in named_leaves(outputs) if isinstance(leaf, Ref)}
        return {
            "format": FORMAT,
            "version": VERSION,
            "method": self.method.name,
            "inputs": [i.name for i in self.method.inputs if i.spec.dtype is not None],
            "outputs": [paths[Ref(i)] for i in range(len(paths))],
            "state": self.state_names,
        }


def _as_array(value: Any) -> mx.array:
    """A number among the results: int64, float32 or bool."""
    if isinstance(value, mx.array):
        return value
    return mx.array(value, dtype=mx.int64 if type(value) is int else None)


def _refuse(method: Method) -> None:
    """Raise ProgramError when the method looks at values: a trace would keep what the example's were."""
    found = [f"a condition on data: {message}" for _, message in method.checks]
    for instr in method.all_instrs():
        if INSTRUCTIONS[instr.op].sync and instr.op not in UNROLLED:
            known = 0 <= instr.source < len(method.sources)
            source = str(method.sources[instr.source]) if known else ""
            found.append(f"{instr.op} looks at values" + (f" ({source})" if source else ""))
    if found:
        more = [f"… and {len(found) - SHOWN} more"] if len(found) > SHOWN else []
        raise ProgramError(
            f"the method {method.name!r} cannot be an MLX function file, which takes no decision by values:\n  "
            + "\n  ".join([*found[:SHOWN], *more])
        )


def _refuse_twins(calls: list[list[mx.array]]) -> None:
    """MLX picks a trace by shapes and dtypes."""
    seen: dict[Any, int] = {}
    for number, arrays in enumerate(calls, 1):
        other = seen.setdefault(tuple((a.shape, a.dtype) for a in arrays), number)
        if other != number:
            raise InputError(
                f"the examples {other} and {number} have the same shapes; the file has one trace for each"
            )
