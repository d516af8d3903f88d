"""Rows of fusion tests: what a model spells out, what its program consists of, and numbers compared with PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

import mlxify
from mlxify.support import fusion_uses

from ..ops.harness import Case, _Function, check_program


@dataclass
class Hit:
    """A case that is fused. fusion: its name, as often as `count`; program: instructions that do the work.

    gone: instructions that must not be left.
    """

    case: Case
    fusion: str
    program: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    count: int = 1


@dataclass
class Miss:
    """A case that looks like one and is none. reason: a part of what `mlxify check` says, "" when it says nothing."""

    case: Case
    fusion: str
    reason: str = ""


def rows(table: list[Any]) -> Any:
    """`@rows(HITS) def test(row, tmp_path): …`"""
    names = [row.case.name for row in table]
    assert len(set(names)) == len(names), "two rows have one name"
    return pytest.mark.parametrize("row", table, ids=names)


def module_of(case: Case) -> torch.nn.Module:
    return case.fn.eval() if isinstance(case.fn, torch.nn.Module) else _Function(case.fn).eval()


def exported(case: Case) -> torch.export.ExportedProgram:
    module, shapes = module_of(case), None
    if case.dynamic is not None:
        shapes = (tuple(case.dynamic),) if isinstance(module, _Function) else tuple(case.dynamic)
    return torch.export.export(module, case.args, dynamic_shapes=shapes, strict=False)


def check_hit(row: Hit, tmp_path: Path) -> None:
    export = exported(row.case)
    uses = fusion_uses(export)
    assert {u.fusion: u.count for u in uses if not u.reason}.get(row.fusion) == row.count, uses
    program = mlxify.convert(export)
    found = [instr.op for instr in program.graph.methods["forward"].all_instrs()]
    for name in row.program:
        assert name in found, f"{name} is not among {found}"
    for name in row.gone:
        assert name not in found, f"{name} is left among {found}"
    check_program(row.case, module_of(row.case), program, tmp_path)


def check_miss(row: Miss, tmp_path: Path) -> None:
    export = exported(row.case)
    uses = [use for use in fusion_uses(export) if use.fusion == row.fusion]
    assert all(use.reason for use in uses), uses
    if row.reason:
        assert any(row.reason in use.reason for use in uses), uses
    else:
        assert not uses
    check_program(row.case, module_of(row.case), mlxify.convert(export), tmp_path)
