"""Rows of op tests: each is converted, run eagerly, saved, loaded and run again, and compared with PyTorch.

A row compares values, dtypes and shapes of every output with PyTorch eager on the CPU. The loaded program runs as a
graph that MLX traced, as on a CPU any program of more than a few instructions does. `also` runs the same program
on further inputs (with `dynamic` sizes); MLXIFY_TEST_COMPILE=1 runs every row under mx.compile as well, by default
only rows marked `compiled` do (mx.compile calls g++ on a CPU, about 0.4 s a kernel).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
import torch
from torch.utils import _pytree as pytree

import mlxify
from mlxify import segments
from mlxify.run import Program

segments.FEW = 0

# Relative and absolute tolerance by dtype: a few units in the last place of one operation's result.
TOLERANCES = {
    torch.float64: (1e-12, 1e-13),  # a few thousand units in the last place: series and sums in another order
    torch.float32: (1e-5, 1e-6),
    torch.complex64: (1e-5, 1e-6),
    torch.float16: (1e-3, 1e-4),  # one unit in the last place is 4.9e-4 to 9.8e-4
    torch.bfloat16: (8e-3, 1e-3),  # one unit in the last place is 3.9e-3 to 7.8e-3
}


pytree.register_pytree_node(
    mlxify.tree.Output,
    lambda output: (list(output.values()), (output.type_name, list(output))),
    lambda items, context: mlxify.tree.Output(context[0], zip(context[1], items, strict=True)),
)


@dataclass
class Case:
    """One row. fn: what a model would write; args: its example inputs.

    tolerance: (relative, absolute) where TOLERANCES does not hold, with the reason beside it.
    dynamic: for each argument a dict {axis: torch.export.Dim}, or None; also: further argument tuples to run.
    refused: a text that the UnsupportedOpError must contain, when the call is to be refused.
    """

    name: str
    fn: Callable[..., Any]
    args: tuple[Any, ...]
    tolerance: tuple[float, float] | None = None
    dynamic: tuple[Any, ...] | None = None
    also: tuple[tuple[Any, ...], ...] = ()
    refused: str = ""
    compiled: bool = False
    decomposed: bool = False
    """Also convert the core ATen form, after run_decompositions() with PyTorch's default table."""


class _Function(torch.nn.Module):
    def __init__(self, fn: Callable[..., Any]) -> None:
        super().__init__()
        self.fn = fn

    def forward(self, *args: Any) -> Any:
        return self.fn(*args)


@dataclass
class Outcome:
    case: Case
    programs: dict[str, Program] = field(default_factory=dict)


def params(cases: list[Case]) -> Any:
    """`@params(CASES) def test(case, tmp_path): check(case, tmp_path)`."""
    names = [case.name for case in cases]
    assert len(set(names)) == len(names), "two rows have one name"
    return pytest.mark.parametrize("case", cases, ids=names)


def check(case: Case, tmp_path: Path) -> None:
    """Run one row. See Case."""
    module = case.fn.eval() if isinstance(case.fn, torch.nn.Module) else _Function(case.fn).eval()
    if case.refused:
        with pytest.raises(mlxify.UnsupportedOpError, match=case.refused):
            mlxify.convert(module, case.args)
        return
    shapes = None
    if case.dynamic is not None:
        shapes = (tuple(case.dynamic),) if isinstance(module, _Function) else tuple(case.dynamic)
    exported = torch.export.export(module, case.args, dynamic_shapes=shapes, strict=False)
    check_program(case, module, mlxify.convert(exported), tmp_path)
    if case.decomposed:
        check_program(case, module, mlxify.convert(exported.run_decompositions()), tmp_path)


def check_program(case: Case, module: torch.nn.Module, program: Program, tmp_path: Path) -> None:
    path = tmp_path / "case.safetensors"
    program.save(path)
    programs = {"eager": Program(program.graph, compile=False), "loaded": mlxify.load(path)}
    if case.compiled or os.environ.get("MLXIFY_TEST_COMPILE") == "1":
        programs["compiled"] = Program(program.graph, compile=True)
    for args in (case.args, *case.also):
        copies = pytree.tree_map_only(torch.Tensor, torch.clone, args)
        with torch.no_grad():
            expected = module(*copies)
        programs["loaded"](*args)  # traced when it is called again
        programs["loaded"].reset()
        for form, candidate in programs.items():
            compare(candidate(*args), expected, case.tolerance, form)


def compare(actual: Any, expected: Any, tolerance: tuple[float, float] | None = None, form: str = "") -> None:
    """Assert that two pytrees agree in structure, shapes, dtypes and values."""
    wanted, _ = pytree.tree_flatten(expected)
    got, _ = pytree.tree_flatten(actual)
    assert len(got) == len(wanted), f"{form}: {len(got)} outputs, PyTorch has {len(wanted)}"
    for index, (a, e) in enumerate(zip(got, wanted, strict=True)):
        if isinstance(e, torch.Tensor):
            _compare_leaf(a, e, tolerance, f"{form} output {index}")
        elif isinstance(a, mx.array):
            assert a.item() == e, f"{form} output {index}: {a} != {e}"
        else:
            assert a == e and type(a) is type(e), f"{form} output {index}: {a!r} != {e!r}"


def _compare_leaf(a: Any, e: torch.Tensor, tolerance: tuple[float, float] | None, where: str) -> None:
    assert isinstance(a, mx.array), f"{where}: {type(a)}"
    assert tuple(a.shape) == tuple(e.shape), f"{where}: shape {a.shape}, PyTorch has {tuple(e.shape)}"
    name = str(a.dtype).removeprefix("mlx.core.").removesuffix("_")
    assert name == str(e.dtype).removeprefix("torch."), f"{where}: dtype {name}, PyTorch has {e.dtype}"
    x, y = to_numpy(a), tensor_numpy(e)
    if not e.dtype.is_floating_point and not e.dtype.is_complex:
        np.testing.assert_array_equal(x, y, err_msg=where)
        return
    rtol, atol = tolerance or TOLERANCES[e.dtype]
    np.testing.assert_allclose(x, y, rtol=rtol, atol=atol, equal_nan=True, err_msg=where)


def to_numpy(a: mx.array) -> np.ndarray:
    """Values for comparison: half precision as float32."""
    return np.array(a.astype(mx.float32) if a.dtype in (mx.bfloat16, mx.float16) else a)


def tensor_numpy(e: torch.Tensor) -> np.ndarray:
    e = e.detach().resolve_conj().resolve_neg()
    return (e.float() if e.dtype in (torch.bfloat16, torch.float16) else e).numpy()
