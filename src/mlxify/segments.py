"""Segments: runs of instructions that MLX traces into one graph, cut where the host must look at a value.

A segment is traced once for each set of input shapes and host numbers, in each thread (MLX's streams and its cache
of traces are the thread's). Host numbers that it computes (sizes) follow from the same set, so they are remembered
beside the trace.
"""

from __future__ import annotations

import functools
import threading
import warnings
from enum import Enum
from typing import Any, NamedTuple

import mlx.core as mx

from .device import on_cpu, one_core
from .isa import INSTRUCTIONS
from .program import Instr, Ref, refs
from .steps import Runner, Step, build_steps
from .unfused import Arrays, traced, tracing_works

MAX_TRACES = 64
"""Traces that a segment keeps in a thread; the one unused for longest goes first."""
FEW = 8
"""Instructions that Python runs about as fast as MLX rebuilds their graph."""
MAX_CHAIN = 20_000
"""MLX operations in a row, at most, in a segment: mx.compile goes through them by recursion, and from 40,000 on the
usual stack of 8 MB overflows."""


class Mode(Enum):
    """How the instructions of a program run."""

    STEPS = "instruction by instruction"
    TRACED = "as graphs that MLX traced"
    FUSED = "through mx.compile"


def mode_of(compile: bool | None) -> Mode:
    """The mode that a user asks for, or the one that suits the device (None)."""
    if compile is None and on_cpu():
        return Mode.TRACED if tracing_works() else Mode.STEPS
    wanted = compile if compile is not None else compile_works()
    return Mode.FUSED if wanted else Mode.STEPS


@functools.cache
def compile_works() -> bool:
    """Whether mx.compile works here (on a CPU it needs g++). Says so once when it does not."""
    try:
        mx.eval(mx.compile(lambda x: mx.exp(x) * 2 + x)(mx.zeros((2,))))
        return True
    except RuntimeError as error:
        warnings.warn(f"mx.compile does not work here, programs run uncompiled: {error}", stacklevel=4)
        return False


class Places(NamedTuple):
    """The values of a method by number: how many, the constants among them, those that are host numbers."""

    size: int
    constants: dict[int, Any]
    numbers: set[int]


def plan(instrs: list[Instr], results: list[Any], places: Places, mode: Mode) -> list[Step]:
    """The steps of a method: segments, and between them the instructions that are not traced."""
    keep = {*places.constants, *refs(results)}
    if mode is Mode.STEPS:
        return build_steps(instrs, keep)
    steps: list[Step] = []
    later: set[int] = set(refs(results))
    for piece, traceable in reversed(_pieces(instrs)):
        if traceable and (mode is Mode.FUSED or len(piece) > FEW):
            steps.append(Segment(piece, later, places, mode))
        else:
            steps += build_steps(piece, keep | later)[::-1]
        later |= {n for i in piece for n in refs(i.args)}
    return steps[::-1]


def _pieces(instrs: list[Instr]) -> list[tuple[list[Instr], bool]]:
    """The instructions in pieces, and whether a piece can be traced."""
    pieces: list[tuple[list[Instr], bool]] = []
    chain = 0
    for instr in instrs:
        schema = INSTRUCTIONS[instr.op]
        traceable = not schema.sync and schema.chain > 0
        chain += schema.chain
        if not pieces or pieces[-1][1] != traceable or chain > MAX_CHAIN:
            pieces.append(([], traceable))
            chain = schema.chain
        pieces[-1][0].append(instr)
    return pieces


class Segment:
    """A step that runs instructions as one graph.

    Without fused kernels a graph is traced at the second use of the same shapes and numbers: that takes as long as two
    calls, and some programs see other shapes in every call.
    """

    def __init__(self, instrs: list[Instr], later: set[int], places: Places, mode: Mode) -> None:
        defined = {o for i in instrs for o in i.outputs}
        used = {n for i in instrs for n in refs(i.args)} - defined
        inner = {n: places.constants[n] for n in used & places.constants.keys()}
        used -= places.constants.keys()
        made = sorted(defined & later)
        self.arrays_in = sorted(used - places.numbers)
        self.numbers_in = sorted(used & places.numbers)
        self.drop = sorted(used - later)
        self.arrays_out = [n for n in made if n not in places.numbers]
        self.numbers_out = [n for n in made if n in places.numbers]
        results = [Ref(n) for n in [*self.arrays_out, *self.numbers_out]]
        steps = build_steps(instrs, {*inner, *results})
        self.run = Runner(places.size, inner, [*self.arrays_in, *self.numbers_in], results, steps)
        self.mode = mode
        self._local = _Traces()

    def __call__(self, slots: list[Any]) -> None:
        arrays = [slots[n] for n in self.arrays_in]
        numbers = [slots[n] for n in self.numbers_in]
        stream = repr(mx.default_stream(mx.default_device()))  # equal streams have different hashes
        key = (stream, *map(_shape, arrays), *map(_typed, numbers))
        traces = self._local.by_use
        seen = key in traces
        trace = traces.pop(key, None)
        if trace is not None:
            results = [*trace.call(arrays), *trace.host]
        elif seen or self.mode is Mode.FUSED:
            trace, results = self._first_use(arrays, numbers)
        else:
            results = self.run([*arrays, *numbers])
        traces[key] = trace
        if len(traces) > MAX_TRACES:
            del traces[next(iter(traces))]
        for number, value in zip([*self.arrays_out, *self.numbers_out], results, strict=True):
            slots[number] = value
        for number in self.drop:
            slots[number] = None

    def _first_use(self, arrays: list[mx.array], numbers: list[Any]) -> tuple[Trace, list[Any]]:
        """A new trace and its first results."""
        trace, steps = self._new_trace(numbers)
        try:
            # MLX refuses to trace a function of an array that is one of its constants as well, such as cond's result.
            return trace, [*trace.call(list(map(mx.stop_gradient, arrays))), *trace.host]
        except Exception as error:  # the call's own, which comes again, or one of MLX's for this graph
            results = [*steps.call(arrays), *steps.host]
            warnings.warn(
                f"mx.compile failed, a part of this program runs uncompiled: {error!r}", stacklevel=2
            )
            return steps, results

    def _new_trace(self, numbers: list[Any]) -> tuple[Trace, Trace]:
        """The instructions as MLX's graph, and one by one."""
        host: list[Any] = []
        count = len(self.arrays_out)

        def body(arrays: list[mx.array]) -> list[mx.array]:
            results = self.run([*arrays, *numbers])
            host[:] = results[count:]
            return results[:count]

        def whole(arrays: list[mx.array]) -> list[mx.array]:
            with one_core():  # several streams would cut the kernels
                return body(arrays)

        compiled = traced(body) if self.mode is Mode.TRACED else mx.compile(whole)
        return Trace(compiled, host), Trace(body, host)


class Trace(NamedTuple):
    """A function of the arrays, and the list of host numbers that it fills, compiled in its first call."""

    call: Arrays
    host: list[Any]


class _Traces(threading.local):
    """The traces of a thread, the one unused for longest first; None for what was seen once."""

    def __init__(self) -> None:
        self.by_use: dict[Any, Trace | None] = {}


def _shape(array: mx.array) -> tuple[int, ...]:
    return array.shape


def _typed(number: Any) -> tuple[type, Any]:
    return type(number), number
