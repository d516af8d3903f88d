"""The exceptions of mlxify: what happened, where in the user's code, what to do."""

from __future__ import annotations

from typing import NamedTuple


class MlxifyError(Exception):
    """Base of every error that mlxify raises on purpose."""


class ProgramError(MlxifyError, ValueError):
    """A program or program file is damaged, foreign, hostile or inconsistent."""


class InputError(MlxifyError, ValueError):
    """A call passed an argument that the program does not take."""


class ConversionError(MlxifyError, ValueError):
    """A model could not be exported or converted."""


class MissingExtraError(MlxifyError, ImportError):
    """An optional dependency is missing; the message names the extra to install."""


class Refusal(MlxifyError):
    """Raised inside a lowering: this use of the op is not supported. Collected, then reported together."""


class UnsupportedOp(NamedTuple):
    """One call in the model's graph that cannot be lowered."""

    target: str
    reason: str
    arguments: str = ""
    source: str = ""
    module: str = ""
    hint: str = ""

    def __str__(self) -> str:
        lines = [f"{self.target}({self.arguments}): {self.reason}"]
        if self.module:
            lines.append(f"    in module  {self.module}")
        if self.source:
            lines.append(f"    at         {self.source}")
        if self.hint:
            lines.append(f"    hint       {self.hint}")
        return "\n".join(lines)


class UnsupportedOpError(MlxifyError, NotImplementedError):
    """Everything in the model that cannot be lowered, in one error. `ops` is the list."""

    def __init__(self, ops: list[UnsupportedOp]) -> None:
        self.ops = ops
        count = f"{len(ops)} call{'s' if len(ops) != 1 else ''}"
        super().__init__(f"cannot convert this model: {count} not supported\n\n" + "\n\n".join(_grouped(ops)))


SHOWN = 5
"""Calls of one op and reason that an error's text shows; `ops` has them all."""


def _grouped(ops: list[UnsupportedOp]) -> list[str]:
    shown: dict[tuple[str, str], list[UnsupportedOp]] = {}
    for op in ops:
        shown.setdefault((op.target, op.reason), []).append(op)
    texts = []
    for (target, _), calls in shown.items():
        texts += [str(op) for op in calls[:SHOWN]]
        if len(calls) > SHOWN:
            texts.append(f"{target}: … and {len(calls) - SHOWN} more calls")
    return texts


def refuse(reason: str) -> Refusal:
    """The exception a lowering raises for a use it does not support: `raise refuse("…")`."""
    return Refusal(reason)
