"""Instructions as closures over slots: what can be decoded once is decoded here, once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .isa import INSTRUCTIONS
from .once import OneCall
from .program import Block, Instr, Ref, refs

Step = Callable[[list[Any]], None]


class Runner:
    """Runs steps over slots: a function from the values of `targets` to those of `results`."""

    def __init__(
        self, size: int, constants: dict[int, Any], targets: list[int], results: list[Any], steps: list[Step]
    ) -> None:
        self.targets, self.results, self.steps = targets, results, steps
        self.slots: list[Any] = [constants.get(number) for number in range(size)]

    def __call__(self, values: list[Any]) -> list[Any]:
        slots = self.slots.copy()
        for number, value in zip(self.targets, values, strict=True):
            slots[number] = value
        with OneCall():
            for step in self.steps:
                step(slots)
        return [slots[r] if type(r) is Ref else r for r in self.results]


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
    call = _caller(INSTRUCTIONS[instr.op].fn, instr.args)
    outputs = instr.outputs

    def single(slots: list[Any]) -> None:
        slots[outputs[0]] = call(slots)
        for number in drop:
            slots[number] = None

    def several(slots: list[Any]) -> None:
        for number, value in zip(outputs, call(slots) or (), strict=True):
            slots[number] = value
        for number in drop:
            slots[number] = None

    many = INSTRUCTIONS[instr.op].returns in ("arrays", "nothing")
    return several if many else single


def _caller(fn: Callable[..., Any], args: tuple[Any, ...]) -> Callable[[list[Any]], Any]:
    """A function from slots to an instruction's result. Most take up to three values and then literals."""
    count = next((i for i, a in enumerate(args) if type(a) is not Ref), len(args))
    if not 1 <= count <= 3 or any(map(_refers, args[count:])):
        arguments = _argument_builder(args)
        return lambda slots: fn(*arguments(slots))
    numbers, rest = [int(a) for a in args[:count]], [_literal(a) for a in args[count:]]
    first, second, third = (numbers * 3)[:3]
    if count == 1:
        return lambda slots: fn(slots[first], *rest)
    if count == 2:
        return lambda slots: fn(slots[first], slots[second], *rest)
    return lambda slots: fn(slots[first], slots[second], slots[third], *rest)


def _argument_builder(args: tuple[Any, ...]) -> Callable[[list[Any]], list[Any]]:
    """A function from slots to an instruction's arguments; what has no reference in it is decoded once."""
    template: list[Any] = [None if _refers(a) else _literal(a) for a in args]
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


def _literal(arg: Any) -> Any:
    return list(arg) if isinstance(arg, tuple) else arg


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
