"""Where the time of a call goes: by kind of instruction, by module and by line of the user's code."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import mlx.core as mx

from .bound import unroll
from .inputs import InputBinder
from .program import Instr, Source, format_bytes, refs
from .session import State
from .steps import Runner
from .tree import named_leaves

if TYPE_CHECKING:
    from .run import Program

WARM_UP = 2
"""Rounds that are not counted: kernels are compiled and memory is fetched in the first."""
SHOWN = 15
"""Rows of each table that the text shows; `as_dict` has them all."""


@dataclass(frozen=True)
class Timing:
    """One instruction: its median time, and the bytes of the arrays that it takes and makes."""

    op: str
    result: str
    source: Source
    seconds: float
    bytes_read: int
    bytes_written: int


@dataclass(frozen=True)
class Group:
    """Instructions with something in common, added up."""

    name: str
    count: int
    seconds: float
    bytes_read: int
    bytes_written: int


@dataclass(frozen=True)
class Profile:
    """The times of one method's instructions, in their order. `print` shows it as tables.

    call_seconds: a call as it runs by itself (compiled where the program is), the median as everywhere.
    wait_seconds: what one evaluation costs when there is next to nothing to compute. It is in every instruction's
    time, which is why the instructions add up to more than a call.
    """

    method: str
    device: str
    rounds: int
    call_seconds: float
    wait_seconds: float
    instructions: tuple[Timing, ...]

    @property
    def seconds(self) -> float:
        """All instructions, one after the other."""
        return sum(t.seconds for t in self.instructions)

    def by_instruction(self) -> list[Group]:
        """By the instruction's name, slowest first."""
        return self._groups(lambda t: t.op)

    def by_module(self, depth: int | None = None) -> list[Group]:
        """By the path of the innermost module, or its first `depth` parts, slowest first."""
        return self._groups(lambda t: ".".join(t.source.module.split(".")[:depth]) or "(model)")

    def by_line(self) -> list[Group]:
        """By the line of the user's code, slowest first."""
        return self._groups(lambda t: ": ".join(filter(None, (t.source.line, t.source.code))) or "(unknown)")

    def _groups(self, key: Callable[[Timing], str]) -> list[Group]:
        members: dict[str, list[Timing]] = {}
        for timing in self.instructions:
            members.setdefault(key(timing), []).append(timing)
        groups = [
            Group(
                name,
                len(timings),
                sum(t.seconds for t in timings),
                sum(t.bytes_read for t in timings),
                sum(t.bytes_written for t in timings),
            )
            for name, timings in members.items()
        ]
        return sorted(groups, key=lambda group: -group.seconds)

    def as_dict(self) -> dict[str, Any]:
        """Everything, as JSON can hold it: the instructions in order, and the three tables."""
        return {
            "method": self.method,
            "device": self.device,
            "rounds": self.rounds,
            "call_seconds": self.call_seconds,
            "wait_seconds": self.wait_seconds,
            "seconds": self.seconds,
            "instructions": [{**asdict(t), "source": asdict(t.source)} for t in self.instructions],
            "by_instruction": [asdict(g) for g in self.by_instruction()],
            "by_module": [asdict(g) for g in self.by_module()],
            "by_line": [asdict(g) for g in self.by_line()],
        }

    def __str__(self) -> str:
        head = (
            f"{self.method} on {self.device}: {_time(self.call_seconds)} a call; its {len(self.instructions)} "
            f"instructions one by one {_time(self.seconds)}, {_time(self.wait_seconds)} of each for waiting "
            f"(medians of {self.rounds} rounds)"
        )
        tables = [
            ("instruction", self.by_instruction()),
            ("module", self.by_module()),
            ("line", self.by_line()),
        ]
        return "\n\n".join([head, *(self._table(title, groups) for title, groups in tables if groups)])

    def _table(self, title: str, groups: list[Group]) -> str:
        lines = [f"{'time':>9} {'share':>6} {'count':>6} {'read':>9} {'written':>9}  {title}"]
        for g in groups[:SHOWN]:
            share = g.seconds / self.seconds if self.seconds else 0.0
            lines.append(
                f"{_time(g.seconds):>9} {share:>6.1%} {g.count:>6} {format_bytes(g.bytes_read):>9} "
                f"{format_bytes(g.bytes_written):>9}  {g.name}"
            )
        if len(groups) > SHOWN:
            rest = sum(g.seconds for g in groups[SHOWN:])
            lines.append(f"{_time(rest):>9}  in {len(groups) - SHOWN} more")
        return "\n".join(lines)


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:,.2f} ms" if seconds >= 1e-4 else f"{seconds * 1e6:.1f} µs"


def profile(
    program: Program, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], state: State, rounds: int
) -> Profile:
    """Time the method `name` on copies of the state. See Program.profile."""
    if rounds < 1:
        raise ValueError(f"profile takes at least one round, got {rounds}")
    method = program.graph.methods[name]
    inputs = InputBinder(method).bind(args, kwargs)
    mx.eval([value for value in inputs if isinstance(value, mx.array)])
    with state.arrays() as arrays:
        held = dict(arrays)
    runner, instrs = unroll(program.graph, method)
    names = list(method.state.values())
    times: list[list[float]] = [[] for _ in instrs]
    sizes: list[tuple[int, int]] = []
    for number in range(WARM_UP + rounds):
        seconds, sizes = _run(runner, instrs, _slots(runner, inputs, [held[n] for n in names]))
        if number >= WARM_UP:
            for column, value in zip(times, seconds, strict=True):
                column.append(value)
    timings = [
        Timing(
            op=instr.op,
            result=", ".join(str(method.specs[o]) for o in instr.outputs if o in method.specs),
            source=method.sources[instr.source] if 0 <= instr.source < len(method.sources) else Source(),
            seconds=statistics.median(column),
            bytes_read=read,
            bytes_written=written,
        )
        for instr, column, (read, written) in zip(instrs, times, sizes, strict=True)
    ]
    return Profile(
        method=name,
        device=mx.default_device().type.name,
        rounds=rounds,
        call_seconds=_call_seconds(lambda s: program.bound_method(name)(args, kwargs, s), held, rounds),
        wait_seconds=_wait_seconds(),
        instructions=tuple(timings),
    )


def _slots(runner: Runner, inputs: list[Any], state: list[mx.array]) -> list[Any]:
    """The values before the first step. Only they hold the copies of the state, so that it is updated in place."""
    slots = runner.slots.copy()
    for number, value in zip(runner.targets, inputs, strict=False):
        slots[number] = value
    targets = runner.targets[len(inputs) :]
    for number, array in zip(targets, state, strict=True):
        slots[number] = _copy(array)
    mx.eval([slots[number] for number in targets])
    return slots


def _copy(array: mx.array) -> mx.array:
    return mx.where(True, array, array)


def _run(runner: Runner, instrs: list[Instr], slots: list[Any]) -> tuple[list[float], list[tuple[int, int]]]:
    """Seconds, and the bytes read and written, of each instruction."""
    seconds, sizes = [], []
    for step, instr in zip(runner.steps, instrs, strict=True):
        read = _bytes(slots, set(refs(instr.args)))
        start = time.perf_counter()
        step(slots)
        mx.eval([slots[o] for o in instr.outputs if isinstance(slots[o], mx.array)])
        seconds.append(time.perf_counter() - start)
        sizes.append((read, _bytes(slots, instr.outputs)))
    return seconds, sizes


def _bytes(slots: list[Any], numbers: Any) -> int:
    return sum(slots[n].nbytes for n in numbers if isinstance(slots[n], mx.array))


def _call_seconds(call: Callable[[State], Any], held: dict[str, mx.array], rounds: int) -> float:
    seconds = []
    for _ in range(WARM_UP + rounds):
        copies = {name: _copy(array) for name, array in held.items()}
        mx.eval(copies)
        state = State(copies)
        copies.clear()  # the session alone holds its arrays, as after its first call
        start = time.perf_counter()
        mx.eval([leaf for _, leaf in named_leaves(call(state)) if isinstance(leaf, mx.array)])
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[WARM_UP:])


def _wait_seconds() -> float:
    seconds = []
    for _ in range(20):
        start = time.perf_counter()
        mx.eval(mx.zeros((1,)) + 1)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)
