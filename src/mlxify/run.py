"""Programs at work: bind a method's weights once, decode its arguments once, then call it."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx

from .errors import InputError, ProgramError
from .inputs import InputBinder
from .isa import INSTRUCTIONS
from .program import RANDOM_STATE, Graph, Instr, Method, Ref, Summary, format_method, refs
from .segments import compile_works, plan
from .steps import Runner, build_steps
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
        return self._method(self.default_method())(args, kwargs, self._state)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_") or name not in self.graph.methods:
            raise AttributeError(f"this program has no method {name!r}; it has {', '.join(self.graph.methods)}")
        bound = self._method(name)
        return lambda *args, **kwargs: bound(args, kwargs, self._state)

    def default_method(self) -> str:
        """The method that a call of the program itself runs: `forward`, or the only one."""
        names = list(self.graph.methods)
        if "forward" in names or len(names) == 1:
            return "forward" if "forward" in names else names[0]
        raise InputError(f"this program has several methods; call one by name: {', '.join(names)}")

    def _method(self, name: str) -> BoundMethod:
        if name not in self._bound:
            self._bound[name] = BoundMethod(self.graph, self.graph.methods[name], self.compile)
        return self._bound[name]

    def seed(self, seed: int) -> None:
        """Start the program's random numbers anew. Without a seed they start from 0 whenever it is loaded."""
        if RANDOM_STATE in self._state:
            self._state[RANDOM_STATE] = mx.random.key(seed)

    def watch(self, args: tuple[Any, ...], kwargs: dict[str, Any], values: list[Any]) -> list[Any]:
        """Run `forward` and return some of its inner values, by reference (see mlxify.check)."""
        bound = BoundMethod(self.graph, self.graph.methods[self.default_method()], False, extra=values)
        results = bound.run(args, kwargs, dict(self._state))
        return results[len(results) - len(values) :]

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
    return mx.default_device() != mx.Device(mx.cpu) and compile_works()


def load(
    path: str | os.PathLike[str], *, methods: list[str] | None = None, compile: bool | None = None
) -> Program:
    """Load a program file. It is verified first: a damaged or hostile file raises ProgramError."""
    from .format import load as load_graph

    return Program(load_graph(path, methods), compile=compile)


class BoundMethod:
    """A method with its weights bound and its arguments decoded."""

    def __init__(self, graph: Graph, method: Method, compile: bool, extra: Sequence[Any] = ()) -> None:
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
        self._results = [*method.outputs, *(Ref(n) for n in method.updates.values()), *extra]
        self._compile = compile
        self._call: Callable[[list[Any]], list[Any]] | None = None

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any], state: dict[str, mx.array]) -> Any:
        results = self.run(args, kwargs, state)
        count = len(self.method.outputs)
        state.update(zip(self.update_names, results[count:], strict=True))
        return unflatten(self.method.output_tree, results[:count])

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any], state: dict[str, mx.array]) -> list[Any]:
        """All results, flat: the outputs, the new state, what else was asked for. Leaves `state` as it is."""
        values: list[Any] = self.inputs.bind(args, kwargs)
        if self._call is None:
            self._call = self._bind()
        return self._call(values + [state[name] for name in self.state_names])

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
        numbers = {n for n, spec in self.method.specs.items() if spec.dtype is None}
        steps = plan(self._rest, set(constants), self._results, numbers, self.size, constants) if self._compile else None
        return Runner(self.size, constants, self._targets, self._rest, self._results, steps)


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
