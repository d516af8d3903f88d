"""One sample through export, conversion and both runtimes, and the verdict."""

from __future__ import annotations

import logging
import os
import tempfile
import warnings
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import torch
from torch.utils import _pytree as pytree

import mlxify

from ..run import Program
from .compare import compare, eager, plain
from .samples import SampleModule

# What is judged, best first, then what is not: a sample that PyTorch itself cannot run or export, or that is sparse.
PASSES = ("pass", "pass by error bound")
FAILURES = ("wrong", "error", "crash", "timeout")
JUDGED = (*PASSES, "unsupported", *FAILURES)
CATEGORIES = (*JUDGED, "not exportable", "not dense", "eager error")


@dataclass(frozen=True)
class Verdict:
    """What became of one sample."""

    category: str
    detail: str = ""
    deviation: float = 0.0  # see compare.Comparison


def quiet() -> None:
    """PyTorch's warnings and logs about odd samples are not ours."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)


def judge(key: str, module: SampleModule, tensors: tuple[torch.Tensor, ...], reload: bool = False) -> Verdict:
    """Export, convert, run and compare one sample; `reload` takes the program through a file."""
    shown = describe(module, tensors)
    try:
        expected = eager(module, tensors)
    except Exception as error:  # of any kind: here and below it is a verdict, which is counted
        return Verdict("eager error", f"{shown}: {first_line(error)}")
    if not all(_dense(leaf) for leaf in (*tensors, *pytree.tree_leaves(expected))):
        return Verdict("not dense", shown)
    try:
        exported = torch.export.export(module, tensors, strict=False)
    except Exception as error:
        return Verdict("not exportable", f"{shown}: {first_line(error)}")
    try:
        program = mlxify.convert(exported)
        actual = Program(_through_file(program) if reload else program.graph, compile=False)(*tensors)
        mx.eval([leaf for leaf in pytree.tree_leaves(plain(actual)) if isinstance(leaf, mx.array)])
    except mlxify.UnsupportedOpError as error:
        op = error.ops[0]
        return Verdict("unsupported", f"{op.target}: {op.reason}")
    except Exception as error:
        if (fault := _export_fault(exported, tensors)) is not None:
            return Verdict("not exportable", f"{shown}: {fault}")
        return Verdict("error", f"{shown}: {type(error).__name__}: {first_line(error)}")
    found = compare(key, module, tensors, actual, expected)
    if found.problem:
        return Verdict("wrong", f"{shown}: {found.problem}")
    return Verdict(PASSES[found.by == "error bound"], deviation=found.deviation)


def _export_fault(exported: Any, tensors: tuple[torch.Tensor, ...]) -> str | None:
    """Why the exported program does not run in PyTorch itself (its own run-time assertions), if it does not."""
    try:
        exported.module()(*tensors)
    except Exception as error:
        return f"the exported program fails in PyTorch, too: {first_line(error)}"
    return None


def _dense(leaf: Any) -> bool:
    return not isinstance(leaf, torch.Tensor) or (leaf.layout == torch.strided and not leaf.is_nested)


def _through_file(program: Program) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "p.safetensors")
        program.save(path)
        graph = mlxify.load(path).graph
        mx.eval(list(graph.weights.values()), list(graph.state.values()))
        return graph


def describe(module: SampleModule, tensors: tuple[torch.Tensor, ...]) -> str:
    """A sample in short: tensors as dtype[shape], all else as it is."""
    names = tuple(_Shown(f"{str(t.dtype).removeprefix('torch.')}{list(t.shape)}") for t in tensors)
    args, kwargs = module.arguments(names)
    return f"({', '.join([*map(str, args), *(f'{k}={v}' for k, v in kwargs.items())])})"[:300]


class _Shown(str):
    """Printed without quotes inside a list, too."""

    __repr__ = str.__str__


def first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0][:300] if text else type(error).__name__
