"""Passes over a recorded method: drop what nobody uses, number values densely, name dynamic sizes."""

from __future__ import annotations

from typing import Any

from .isa import INSTRUCTIONS
from .program import Block, Dim, Input, Instr, Method, Ref, Spec, refs
from .record import Recorder
from .values import HostNumber, Value


def finish(method: Method, recorder: Recorder, watched: list[Any]) -> tuple[Method, list[Any]]:
    """The recorded method without dead code, its values numbered in order of definition, with specs.

    `watched` are values to keep besides the outputs; returned as references.
    """
    method.outputs = [_reference(o) for o in method.outputs]
    watched = [_reference(w) for w in watched]
    for number, _ in recorder.literals.items():
        method.weights[number] = f"literal.{number}"
    method.checks = [(Ref(value.number), message) for value, message in recorder.checks]
    checked = [ref for ref, _ in method.checks]
    live = set(refs([*method.outputs, *watched, *checked])) | set(method.updates.values())
    method.instrs = _live(method.instrs, live)
    method.weights = {n: name for n, name in method.weights.items() if n in live}
    renumber = _Renumber(method, recorder)
    return renumber.run(), [renumber.use(w) for w in watched]


def _reference(value: Any) -> Any:
    return Ref(value.number) if isinstance(value, (Value, HostNumber)) else value


def _live(instrs: list[Instr], live: set[int]) -> list[Instr]:
    """The instructions that `live` needs, which grows by what they use."""
    kept = []
    for instr in reversed(instrs):
        if INSTRUCTIONS[instr.op].effect or not live.isdisjoint(instr.outputs):
            for arg in instr.args:
                if isinstance(arg, Block):
                    inner = set(refs(arg.outputs))
                    arg.instrs = _live(arg.instrs, inner)
            live.update(refs(instr.args))
            kept.append(instr)
    return kept[::-1]


class _Renumber:
    def __init__(self, method: Method, recorder: Recorder) -> None:
        self.method, self.recorder = method, recorder
        self.numbers: dict[int, int] = {}
        self.names = _size_names(method.inputs, recorder)

    def run(self) -> Method:
        m = self.method
        m.inputs = [Input(i.name, i.spec, self._define(i.value), i.number) for i in m.inputs]
        m.weights = {self._define(n): name for n, name in m.weights.items()}
        m.state = {self._define(n): name for n, name in m.state.items()}
        m.instrs = [self._instr(i) for i in m.instrs]
        m.updates = {name: self.numbers[n] for name, n in m.updates.items()}
        m.outputs = [self.use(o) for o in m.outputs]
        m.checks = [(self.use(ref), message) for ref, message in m.checks]
        return m

    def _define(self, number: int) -> int:
        new = self.numbers[number] = len(self.numbers)
        self.method.specs[new] = self._spec(self.recorder.values[number])
        return new

    def _instr(self, instr: Instr) -> Instr:
        args = tuple(self.use(a) for a in instr.args)
        return Instr(instr.op, args, tuple(self._define(o) for o in instr.outputs), instr.source)

    def use(self, arg: Any) -> Any:
        if isinstance(arg, Ref):
            return Ref(self.numbers[arg])
        if isinstance(arg, tuple):
            return tuple(self.use(a) for a in arg)
        if isinstance(arg, Block):
            like = tuple(self.use(v) for v in arg.like)
            inputs = tuple(self._define(i) for i in arg.inputs)
            instrs = [self._instr(i) for i in arg.instrs]
            return Block(inputs, like, instrs, tuple(self.use(o) for o in arg.outputs))
        return arg

    def _spec(self, value: Any) -> Spec:
        if isinstance(value, HostNumber):
            return Spec((), None)
        return spec_of(value, self.names)


def _size_names(inputs: list[Input], recorder: Recorder) -> dict[tuple[int, ...], str]:
    """Names of the inputs' dynamic sizes, by their values in the examples."""
    names: dict[tuple[int, ...], str] = {}
    for item in inputs:
        value = recorder.values[item.value]
        for axis, dim in enumerate(item.spec.shape):
            if isinstance(dim, str):
                sizes: list[Any] = [h.shape[axis] if isinstance(value, Value) else h for h in value.hints]
                names.setdefault(tuple(sizes), dim)
    return names


def spec_of(value: Value, names: dict[tuple[int, ...], str]) -> Spec:
    """Shape and dtype of a value, for people to read: an unnamed dynamic size is "?"."""
    dims: list[Dim] = []
    for axis in range(value.ndim):
        sizes = tuple(h.shape[axis] for h in value.hints)
        fixed = len(set(sizes)) == 1 and axis not in value.dynamic
        dims.append(sizes[0] if fixed else names.get(sizes, "?"))
    return Spec(tuple(dims), value.dtype)
