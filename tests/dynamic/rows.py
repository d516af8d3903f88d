"""Rows of dynamic tests: one program for a range of sizes, run at sizes other than the example's.

Each row is exported with a size `n` in a range, converted once, and run eagerly and reloaded (and compiled, where
marked) at the least size, at one between and at the greatest; a size beyond the range must be refused by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import Dim

import mlxify
from mlxify.run import Program
from tests.ops.harness import _Function, compare

Axes = tuple[dict[int, Any] | None, ...]


@dataclass
class Row:
    """One row. fn: what a model would write; args: its arguments at a size n.

    axes: for each argument its dynamic axes, {axis: function of the Dim n}; by default axis 0 of all.
    """

    name: str
    fn: Callable[..., Any]
    args: Callable[[int], tuple[Any, ...]]
    axes: Callable[[Any], Axes] | None = None
    low: int = 1
    auto: bool = False
    """Dim.AUTO in place of a named Dim: for ops whose conditions on sizes torch.export takes only from it."""
    high: int = 12
    example: int = 5
    between: int = 7
    tolerance: tuple[float, float] | None = None
    compiled: bool = False

    def sizes(self) -> tuple[int, ...]:
        assert self.example not in (self.low, self.between, self.high)
        return self.low, self.between, self.high


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def integers(high: int, *shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(high, shape, generator=torch.Generator().manual_seed(seed))


def export_row(row: Row) -> torch.export.ExportedProgram:
    args = row.args(row.example)
    n = Dim.AUTO(min=row.low, max=row.high) if row.auto else Dim("n", min=row.low, max=row.high)
    axes = row.axes(n) if row.axes else tuple({0: n} if isinstance(a, torch.Tensor) else None for a in args)
    module = as_module(row.fn)
    shapes = (axes,) if isinstance(module, _Function) else axes
    return torch.export.export(module, args, dynamic_shapes=shapes, strict=False)


def as_module(fn: Callable[..., Any]) -> torch.nn.Module:
    return (fn if isinstance(fn, torch.nn.Module) else _Function(fn)).eval()


def check_row(row: Row, tmp_path: Path) -> None:
    """Convert once; compare at every size, in every form; a size beyond the range is refused."""
    program = mlxify.convert(export_row(row))
    path = tmp_path / "row.safetensors"
    program.save(path)
    forms = {"eager": Program(program.graph, compile=False), "loaded": mlxify.load(path, compile=False)}
    if row.compiled:
        forms["compiled"] = Program(program.graph, compile=True)
    module = as_module(row.fn)
    for size in (*row.sizes(), row.example):
        args = row.args(size)
        with torch.no_grad():
            expected = module(*args)
        for form, candidate in forms.items():
            compare(candidate(*args), expected, row.tolerance, f"{form} at {size}")
    check_refused(row, program)


def check_refused(row: Row, program: Program) -> None:
    with pytest.raises(mlxify.InputError) as caught:
        program(*row.args(row.high + 1))
    message = str(caught.value)
    assert message.startswith("axis ") and " of the input '" in message and "at most " in message, message
