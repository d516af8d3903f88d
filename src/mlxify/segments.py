"""Segments: runs of instructions that go through mx.compile, cut where the host must look at a value.

A segment is traced once for each set of input shapes and host numbers. Host numbers that it computes (sizes) follow
from the same set, so they are remembered beside the trace.
"""

from __future__ import annotations

import functools
import threading
import warnings
from collections import OrderedDict
from typing import Any

import mlx.core as mx

from .isa import INSTRUCTIONS
from .ops.device import one_core
from .program import Instr, Ref, refs
from .steps import Runner, Step, build_steps

MAX_TRACES = 64
"""Traces a segment keeps; the one unused for longest goes first."""


@functools.cache
def compile_works() -> bool:
    """Whether mx.compile works here (on a CPU it needs g++). Says so once when it does not."""
    try:
        mx.eval(mx.compile(lambda x: mx.exp(x) * 2 + x)(mx.zeros((2,))))
        return True
    except RuntimeError as error:
        warnings.warn(f"mx.compile does not work here, programs run uncompiled: {error}", stacklevel=3)
        return False


def plan(
    instrs: list[Instr], results: list[Any], numbers: set[int], size: int, constants: dict[int, Any]
) -> list[Step]:
    """The steps of a method: compiled segments, and between them the instructions that wait for values."""
    pieces: list[list[Instr]] = [[]]
    for instr in instrs:
        if INSTRUCTIONS[instr.op].sync:
            pieces += [[instr], []]
        else:
            pieces[-1].append(instr)
    pieces = [piece for piece in pieces if piece]
    steps: list[Step] = []
    later: set[int] = set(refs(results))
    for piece in reversed(pieces):
        if INSTRUCTIONS[piece[0].op].sync:
            steps += build_steps(piece, {n for i in piece for n in (*refs(i.args), *i.outputs)})
        else:
            steps.append(Segment(piece, later, numbers, size, constants))
        later |= {n for i in piece for n in refs(i.args)}
    return steps[::-1]


class Segment:
    """A step that runs instructions through mx.compile."""

    def __init__(
        self,
        instrs: list[Instr],
        later: set[int],
        numbers: set[int],
        size: int,
        constants: dict[int, Any],
    ) -> None:
        defined = {o for i in instrs for o in i.outputs}
        used = {n for i in instrs for n in refs(i.args)} - defined
        inner = {n: constants[n] for n in used & constants.keys()}
        used -= constants.keys()
        made = sorted(defined & later)
        self.arrays_in = sorted(used - numbers)
        self.numbers_in = sorted(used & numbers)
        self.arrays_out = [n for n in made if n not in numbers]
        self.numbers_out = [n for n in made if n in numbers]
        results = [Ref(n) for n in [*self.arrays_out, *self.numbers_out]]
        steps = build_steps(instrs, {*inner, *results})
        self.run = Runner(size, inner, [*self.arrays_in, *self.numbers_in], results, steps)
        self.traces: OrderedDict[Any, tuple[Any, list[Any]]] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, slots: list[Any]) -> None:
        arrays = [slots[n] for n in self.arrays_in]
        numbers = [slots[n] for n in self.numbers_in]
        key = (tuple(a.shape for a in arrays), tuple((type(n), n) for n in numbers))
        with self._lock:  # two sessions in two threads have their traces in common
            trace = self.traces.get(key)
            if trace is None:
                trace = self.traces[key] = self._trace(numbers)
                if len(self.traces) > MAX_TRACES:
                    self.traces.popitem(last=False)
            else:
                self.traces.move_to_end(key)
            compiled, host = trace
            results = [*compiled(arrays), *host]
        for number, value in zip([*self.arrays_out, *self.numbers_out], results, strict=True):
            slots[number] = value

    def _trace(self, numbers: list[Any]) -> tuple[Any, list[Any]]:
        """A compiled function of the arrays, and the list of host numbers that its first call fills."""
        host: list[Any] = []
        count = len(self.arrays_out)

        def body(arrays: list[mx.array]) -> list[mx.array]:
            with one_core():
                results = self.run([*arrays, *numbers])
            host[:] = results[count:]
            return results[:count]

        return mx.compile(body), host
