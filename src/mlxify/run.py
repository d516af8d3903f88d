"""Programs at work: bind a method's weights once, decode its arguments once, then call it."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

import mlx.core as mx

from .errors import InputError, ProgramError
from .inputs import InputBinder
from .isa import INSTRUCTIONS
from .program import Block, Graph, Instr, Method, Ref, Summary, format_method, refs
from .tree import unflatten

FOLD_LIMIT = 1 << 20
"""Bytes by which a value computed once at load may exceed the weights that it replaces."""


class Program:
    """A compiled model: call it, save it, look at it.

    compile: run through mx.compile (True), instruction by instruction (False), or as suits the device (None).
    """

    def __init__(self, graph: Graph, *, compile: bool | None = None) -> None:
        self.graph = graph
        self.compile = _default_compile() if compile is None else compile
        self._state = dict(graph.state)
        self._bound: dict[str, BoundMethod] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the method `forward` (or the only one): arguments as for the model, results as mx.array."""
        return self._method(self._default_name())(args, kwargs, self._state)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_") or name not in self.graph.methods:
            raise AttributeError(f"this program has no method {name!r}; it has {', '.join(self.graph.methods)}")
        bound = self._method(name)
        return lambda *args, **kwargs: bound(args, kwargs, self._state)

    def _default_name(self) -> str:
        names = list(self.graph.methods)
        if "forward" in names or len(names) == 1:
            return "forward" if "forward" in names else names[0]
        raise InputError(f"this program has several methods; call one by name: {', '.join(names)}")

    def _method(self, name: str) -> BoundMethod:
        if name not in self._bound:
            self._bound[name] = BoundMethod(self.graph, self.graph.methods[name], self.compile)
        return self._bound[name]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the program to one safetensors file, complete or not at all."""
        from .format import save

        save(self.graph, path)

    def summary(self) -> Summary:
        """Weights, bytes and instruction counts."""
        return self.graph.summary()

    def __str__(self) -> str:
        return "\n\n".join(format_method(m) for m in self.graph.methods.values())

    def __repr__(self) -> str:
        s = self.summary()
        return f"<mlxify.Program {', '.join(s.methods)}: {sum(s.methods.values())} instructions, {s.weight_bytes:,} bytes>"


def _default_compile() -> bool:
    return mx.default_device() != mx.Device(mx.cpu)


def load(
    path: str | os.PathLike[str], *, methods: list[str] | None = None, compile: bool | None = None
) -> Program:
    """Load a program file. It is verified first: a damaged or hostile file raises ProgramError."""
    from .format import load as load_graph

    return Program(load_graph(path, methods), compile=compile)


class BoundMethod:
    """A method with its weights bound and its arguments decoded."""

    def __init__(self, graph: Graph, method: Method, compile: bool) -> None:
        self.method = method
        self.inputs = InputBinder(method)
        self.state_names = list(method.state.values())
        self.update_names = list(method.updates)
        self.size = 1 + max([len(method.specs) - 1, *(n for i in method.all_instrs() for n in i.outputs)], default=0)
        fixed: dict[int, Any] = {n: graph.weights[name] for n, name in method.weights.items()}
        folded, rest = _split(method, set(fixed))
        self._prologue: tuple[dict[int, Any], list[Instr]] | None = (fixed, folded)
        self._rest = rest
        self._targets = [i.value for i in method.inputs] + list(method.state)
        self._results = [*method.outputs, *(Ref(n) for n in method.updates.values())]
        sync = any(INSTRUCTIONS[i.op].sync for i in method.all_instrs())
        self._compile = compile and not sync
        self._call: Callable[[list[Any]], list[Any]] | None = None

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any], state: dict[str, mx.array]) -> Any:
        values: list[Any] = self.inputs.bind(args, kwargs)
        if self._call is None:
            self._call = self._bind()
        results = self._call(values + [state[name] for name in self.state_names])
        count = len(self.method.outputs)
        state.update(zip(self.update_names, results[count:], strict=True))
        return unflatten(self.method.output_tree, results[:count])

    def _bind(self) -> Callable[[list[Any]], list[Any]]:
        """Compute what depends on weights alone, and build the steps of the rest."""
        assert self._prologue is not None
        fixed, folded = self._prologue
        slots: list[Any] = [None] * self.size
        for number, value in fixed.items():
            slots[number] = value
        used = {n for i in self._rest for n in refs(i.args)} | set(refs(self._results))
        for step in build_steps(folded, used):
            step(slots)
        constants = {n: slots[n] for n in {*fixed, *(o for i in folded for o in i.outputs)} & used}
        mx.eval([v for v in constants.values() if isinstance(v, mx.array)])
        self._prologue = None
        run = _Runner(self.size, constants, self._targets, self._rest, self._results)
        return mx.compile(run) if self._compile else run


class _Runner:
    """Runs steps over slots. A plain function of its inputs, so that mx.compile can trace it."""

    def __init__(
        self, size: int, constants: dict[int, Any], targets: list[int], instrs: list[Instr], results: list[Any]
    ) -> None:
        self.size, self.constants, self.targets, self.results = size, constants, targets, results
        self.steps = build_steps(instrs, {*constants, *refs(results)})

    def __call__(self, values: list[Any]) -> list[Any]:
        slots: list[Any] = [None] * self.size
        for number, value in self.constants.items():
            slots[number] = value
        for number, value in zip(self.targets, values, strict=True):
            slots[number] = value
        for step in self.steps:
            step(slots)
        return [slots[r] if type(r) is Ref else r for r in self.results]


Step = Callable[[list[Any]], None]


def build_steps(instrs: list[Instr], keep: set[int]) -> list[Step]:
    """One closure an instruction; values outside `keep` are let go of after their last use."""
    last: dict[int, int] = {}
    for index, instr in enumerate(instrs):
        for number in (*refs(instr.args), *instr.outputs):
            last[number] = index
    drop: dict[int, list[int]] = {}
    for number, index in last.items():
        if number not in keep:
            drop.setdefault(index, []).append(number)
    return [_step(instr, tuple(drop.get(index, ()))) for index, instr in enumerate(instrs)]


def _step(instr: Instr, drop: tuple[int, ...]) -> Step:
    fn = INSTRUCTIONS[instr.op].fn
    arguments = _argument_builder(instr.args)
    outputs = instr.outputs

    def single(slots: list[Any]) -> None:
        slots[outputs[0]] = fn(*arguments(slots))
        for number in drop:
            slots[number] = None

    def several(slots: list[Any]) -> None:
        for number, value in zip(outputs, fn(*arguments(slots)) or (), strict=True):
            slots[number] = value
        for number in drop:
            slots[number] = None

    many = INSTRUCTIONS[instr.op].returns in ("arrays", "nothing")
    return several if many else single


def _argument_builder(args: tuple[Any, ...]) -> Callable[[list[Any]], list[Any]]:
    """A function from slots to an instruction's arguments; what has no reference in it is decoded once."""
    template: list[Any] = [None if _refers(a) else (list(a) if isinstance(a, tuple) else a) for a in args]
    direct = [(i, int(a)) for i, a in enumerate(args) if type(a) is Ref]
    nested = [(i, _decoder(a)) for i, a in enumerate(args) if _refers(a) and type(a) is not Ref]

    def build(slots: list[Any]) -> list[Any]:
        values = template.copy()
        for position, number in direct:
            values[position] = slots[number]
        for position, decode in nested:
            values[position] = decode(slots)
        return values

    return build


def _refers(arg: Any) -> bool:
    return isinstance(arg, (Ref, Block)) or (isinstance(arg, tuple) and any(map(_refers, arg)))


def _decoder(arg: Any) -> Callable[[list[Any]], Any]:
    if isinstance(arg, Block):
        return _block_decoder(arg)
    return lambda slots: [slots[item] if type(item) is Ref else item for item in arg]


def _block_decoder(block: Block) -> Callable[[list[Any]], Callable[..., list[Any]]]:
    inner = {*block.inputs, *(o for i in block.instrs for o in i.outputs)}
    outer = {n for n in refs(block)} - inner
    steps = build_steps(block.instrs, outer | set(refs(block.outputs)))

    def decode(slots: list[Any]) -> Callable[..., list[Any]]:
        def call(*values: Any) -> list[Any]:
            frame = slots.copy()
            for number, value in zip(block.inputs, values, strict=True):
                frame[number] = value
            for step in steps:
                step(frame)
            return [frame[o] if type(o) is Ref else o for o in block.outputs]

        return call

    return decode


def _split(method: Method, fixed: set[int]) -> tuple[list[Instr], list[Instr]]:
    """The instructions that depend on weights alone and do not grow them, and the others."""
    known, folded, rest = set(fixed), [], []
    for instr in method.instrs:
        schema = INSTRUCTIONS[instr.op]
        used = set(refs(instr.args))
        if not schema.effect and not schema.sync and used <= known and _fits(method, instr, used):
            folded.append(instr)
            known.update(instr.outputs)
        else:
            rest.append(instr)
    return folded, rest


def _fits(method: Method, instr: Instr, used: set[int]) -> bool:
    return _bytes(method, instr.outputs) <= _bytes(method, used) + FOLD_LIMIT


def _bytes(method: Method, numbers: Any) -> int:
    total = 0
    for number in numbers:
        spec = method.specs[number]
        if spec.dtype is not None:
            total += spec.dtype.size * math.prod(n if isinstance(n, int) else 1 for n in spec.shape)
    return total
