"""One property test: draw calls of an op, export them, convert, run, and compare with PyTorch eager."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from torch.utils import _pytree as pytree

import mlxify

from ..ops import harness
from .strategies import LAYOUTS, Strategy, layouts

COMMON: dict[str, Any] = {
    "deadline": None,
    "database": None,
    "suppress_health_check": list(HealthCheck),
    "print_blob": False,
}
settings.register_profile("ci", settings(max_examples=3, derandomize=True, phases=[Phase.generate], **COMMON))
settings.register_profile("thorough", settings(max_examples=60, **COMMON))
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "ci")
settings.load_profile(PROFILE)

CALLS = 3
"""Calls in one exported graph: exporting costs more than all the rest."""
COMPARED = 0.5
"""The share of drawn calls that must have been compared."""


@dataclass(frozen=True)
class Row:
    """One op of a family's table.

    args: draws (positional arguments, keyword arguments); their tensors are the program's inputs.
    tolerance: (relative, absolute), where the harness's do not hold, with the reason beside it.
    refused: the text of refusals that are right.
    layouts: whether inputs may be non-contiguous (no: an expanded index would repeat itself).
    """

    name: str
    fn: Callable[..., Any]
    args: Strategy = field(default_factory=st.nothing)
    tolerance: tuple[float, float] | None = None
    refused: str | None = None
    layouts: bool = True
    compared: float = COMPARED


@dataclass(frozen=True)
class Call:
    """One call. Its tensors come as bases; each view is taken outside the graph, or inside."""

    row: Row
    spec: Any
    leaves: list[Any]
    views: dict[int, str]
    inside: bool = False

    def inputs(self) -> list[torch.Tensor]:
        """The tensors that the graph takes."""
        found = []
        for place, layout in self.views.items():
            base = self.leaves[place]
            found.append(base if self.inside else LAYOUTS[layout][1](base))
        return found

    def __call__(self, inputs: list[torch.Tensor]) -> Any:
        leaves = list(self.leaves)
        for (place, layout), tensor in zip(self.views.items(), inputs, strict=True):
            leaves[place] = LAYOUTS[layout][1](tensor) if self.inside else tensor
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return self.row.fn(*args, **kwargs)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))

    def __repr__(self) -> str:
        leaves = [_Text(_show(leaf, self.views.get(i))) for i, leaf in enumerate(self.leaves)]
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        words = [*map(str, args), *(f"{k}={v}" for k, v in kwargs.items())]
        return f"{self.row.name}({', '.join(words)}{' [views in the graph]' if self.inside else ''})"


def make_call(row: Row, *args: Any, **kwargs: Any) -> Call:
    """A call of given arguments."""
    leaves, spec = pytree.tree_flatten((args, kwargs))
    return Call(row, spec, leaves, {i: "plain" for i, v in enumerate(leaves) if isinstance(v, torch.Tensor)})


class _Text(str):
    __repr__ = str.__str__


def _show(leaf: Any, layout: str | None) -> str:
    if not isinstance(leaf, torch.Tensor):
        return repr(leaf)
    tensor = LAYOUTS[layout or "plain"][1](leaf)
    text = f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}{tensor.tolist()}"
    return text if layout in (None, "plain") else f"{text}:{layout}"


@st.composite
def calls(draw: st.DrawFn, row: Row) -> Call:
    """One call of a row, its tensors laid out somehow."""
    args, kwargs = draw(row.args)
    call = make_call(row, *args, **kwargs)
    for place in call.views if row.layouts else ():
        call.views[place] = draw(layouts(call.leaves[place]))
        call.leaves[place] = LAYOUTS[call.views[place]][0](call.leaves[place])
    plain = all(v == "plain" for v in call.views.values())
    return call if plain else replace(call, inside=draw(st.booleans()))


class _Graph(torch.nn.Module):
    """Several calls as one model."""

    def __init__(self, calls: list[Call]) -> None:
        super().__init__()
        self.calls = calls

    def forward(self, inputs: list[list[torch.Tensor]]) -> Any:
        return [pytree.tree_leaves(call(x)) for call, x in zip(self.calls, inputs, strict=True)]


@dataclass
class Tally:
    """What became of the calls of one row."""

    drawn: int = 0
    compared: int = 0
    reasons: dict[str, int] = field(default_factory=dict)

    def skip(self, reason: str) -> None:
        self.reasons[reason] = self.reasons.get(reason, 0) + 1

    def check(self, least: float) -> None:
        """Fail when most of what was drawn could not be compared."""
        share = self.compared / max(self.drawn, 1)
        assert share >= least, f"only {self.compared} of {self.drawn} calls were compared: {self.reasons}"


def run(row: Row, tmp_path: Path) -> None:
    """The property of one row: every call converts and gives what PyTorch gives."""
    tally = Tally()

    @seed(zlib.crc32(row.name.encode()))
    @given(st.lists(calls(row), min_size=CALLS, max_size=CALLS))
    def holds(drawn: list[Call]) -> None:
        compare([call for call in drawn if takes(call, tally)], tmp_path, tally)

    holds()
    tally.check(row.compared)


def takes(call: Call, tally: Tally) -> bool:
    """Whether PyTorch itself takes the call."""
    tally.drawn += 1
    try:
        with torch.no_grad():
            call([t.clone() for t in call.inputs()])
    except Exception as error:  # PyTorch refuses the call: counted, and too many fail the test
        tally.skip(f"eager: {_line(error)}")
        return False
    return True


def compare(drawn: list[Call], tmp_path: Path, tally: Tally) -> None:
    """All calls in one graph; halves of them when that fails, so that the message is about one call."""
    if not drawn:
        return
    try:
        _convert_and_compare(drawn, tmp_path)
        tally.compared += len(drawn)
    except Exception as error:  # looked at again in halves, and raised for a single call
        if len(drawn) > 1:
            before, half = tally.compared, len(drawn) // 2
            compare(drawn[:half], tmp_path, tally)
            compare(drawn[half:], tmp_path, tally)
            if tally.compared == before + len(drawn):
                raise  # together only
            return
        reason = _excuse(drawn[0].row, error)
        if not reason:
            raise AssertionError(f"{drawn[0]}\n{type(error).__name__}: {error}") from error
        tally.skip(reason)


class NotExportable(Exception):
    """torch.export refuses what PyTorch runs."""


def _convert_and_compare(drawn: list[Call], tmp_path: Path) -> None:
    inputs = [call.inputs() for call in drawn]
    graph = _Graph(drawn).eval()
    try:
        exported = torch.export.export(graph, (inputs,), strict=False)
    except Exception as error:  # torch.export raises many kinds
        raise NotExportable(_line(error)) from error
    row = drawn[0].row
    case = harness.Case(row.name, graph, (inputs,), tolerance=row.tolerance)
    harness.check_program(case, graph, mlxify.convert(exported), tmp_path)


def _excuse(row: Row, error: Exception) -> str:
    """Why a call need not be compared, or ""."""
    if isinstance(error, NotExportable):
        return f"torch.export: {error}"
    if isinstance(error, mlxify.UnsupportedOpError) and row.refused is not None:
        reasons = [op.reason for op in error.ops]
        return f"refused: {reasons[0]}" if all(row.refused in reason for reason in reasons) else ""
    return ""


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0][:120]}"
