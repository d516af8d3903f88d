"""A method ready to run: its weights bound, its arguments decoded, what depends on weights alone computed once."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx

from .errors import InputError
from .inputs import InputBinder
from .isa import INSTRUCTIONS
from .program import Graph, Instr, Method, Ref, refs
from .segments import Mode, Places, plan
from .session import State
from .steps import Runner, build_steps
from .tree import unflatten
from .weights import CONVOLUTIONS, kernel_order, laid_out, turn_weights

FOLD_LIMIT = 1 << 20
"""Bytes by which a value computed once at load may exceed the weights that it replaces."""


class BoundMethod:
    """A method with its weights bound and its arguments decoded."""

    def __init__(self, graph: Graph, method: Method, mode: Mode, extra: Sequence[Any] = ()) -> None:
        self.method = method
        self.inputs = InputBinder(method)
        self.state_names = list(method.state.values())
        self.update_names = list(method.updates)
        folded, rest = _split(method, set(method.weights))
        self._prologue: tuple[Graph, list[Instr]] | None = (graph, folded)
        self._rest = rest
        self._targets = [i.value for i in method.inputs] + list(method.state)
        self._results = [*method.outputs, *(Ref(n) for n in method.updates.values()), *extra]
        self._results += [ref for ref, _ in method.checks]
        self._mode = mode
        self._waits = any(INSTRUCTIONS[i.op].fails for i in method.all_instrs())
        self._call: Callable[[list[Any]], list[Any]] | None = None
        self._lock = threading.Lock()

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any], state: State) -> Any:
        """Run on a state. A call that raises while it is bound, built or checked changes nothing."""
        values = self.inputs.bind(args, kwargs)

        def run(arrays: dict[str, mx.array]) -> list[Any]:
            results = self._run(values, arrays)
            self._check(results)
            return results

        if self.update_names:
            results = state.step(run, self.update_names, self._new_state, self._waits)
        elif self.state_names:
            with state.arrays() as arrays:
                results = run(arrays)
        else:
            results = run({})
        return unflatten(self.method.output_tree, results[: len(self.method.outputs)])

    def _new_state(self, results: list[Any]) -> list[mx.array]:
        count = len(self.method.outputs)
        return results[count : count + len(self.update_names)]

    def _check(self, results: list[Any]) -> None:
        """Raise for the first of the program's conditions on data that does not hold. Waits for the device."""
        if not self.method.checks:
            return
        held = results[len(results) - len(self.method.checks) :]
        mx.eval(held)
        for (_, message), holds in zip(self.method.checks, held, strict=True):
            if not holds.item():
                raise InputError(f"a condition of the model does not hold: {message}")

    def inner_values(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], state: State, count: int
    ) -> list[Any]:
        """The `count` values asked for as `extra`. Leaves the state as it is."""
        with state.arrays() as arrays:
            results = self._run(self.inputs.bind(args, kwargs), arrays)
        end = len(results) - len(self.method.checks)
        return results[end - count : end]

    def _run(self, values: list[Any], state: dict[str, mx.array]) -> list[Any]:
        """All results, flat: the outputs, the new state, what else was asked for, the checks."""
        if self._call is None:
            with self._lock:
                if self._call is None:
                    self._call = self._bind()
        return self._call(values + [state[name] for name in self.state_names])

    def _bind(self) -> Runner:
        """Compute what depends on weights alone, and build the steps of the rest."""
        assert self._prologue is not None
        graph, folded = self._prologue
        turn_weights(graph)
        fixed: dict[int, Any] = {n: graph.weights[name] for n, name in self.method.weights.items()}
        size = len(self.method.specs)  # the verifier gives every value a spec
        slots: list[Any] = [fixed.get(number) for number in range(size)]
        used = {n for i in self._rest for n in refs(i.args)} | set(refs(self._results))
        for step in build_steps(folded, used):
            step(slots)
        constants = {n: slots[n] for n in {*fixed, *(o for i in folded for o in i.outputs)} & used}
        for instr in self._rest:
            kernel = int(instr.args[1]) if instr.op in CONVOLUTIONS else None
            if kernel in constants:
                constants[kernel] = laid_out(constants[kernel], kernel_order(instr, constants[kernel].shape))
        mx.eval([v for v in constants.values() if isinstance(v, mx.array)])
        self._prologue = None
        numbers = {n for n, spec in self.method.specs.items() if spec.dtype is None}
        steps = plan(self._rest, self._results, Places(size, constants, numbers), self._mode)
        return Runner(size, constants, self._targets, self._results, steps)


def unroll(graph: Graph, method: Method) -> tuple[Runner, list[Instr]]:
    """An uncompiled method from inputs and state to outputs and new state, all flat; the instruction of each step."""
    bound = BoundMethod(graph, method, Mode.STEPS)
    return bound._bind(), bound._rest


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
