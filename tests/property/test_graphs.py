"""Random graphs of 5 to 30 ops, in all forms in which a program runs."""

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, seed, settings

import mlxify
from mlxify.run import Program

from ..ops import harness
from .graphs import DTYPES, OPS, Graph, graphs
from .runner import PROFILE

ROUNDED = (1e-4, 1e-5)  # of float32 after up to 30 ops
EXAMPLES = {"ci": 6, "thorough": 300}[PROFILE]


@pytest.mark.parametrize("number", range(2))
def test_graphs(number: int, tmp_path: Path) -> None:
    """PyTorch eager, against the program as it was recorded, uncompiled, saved and loaded, and compiled."""

    @seed(number)
    @settings(max_examples=EXAMPLES // 2)
    @given(graphs())
    def holds(graph: Graph) -> None:
        run(graph, tmp_path)

    holds()


def run(graph: Graph, tmp_path: Path) -> None:
    inputs = tuple(graph.inputs)
    with torch.no_grad():
        wanted = graph(*[t.clone() for t in inputs])
    recorded = mlxify.convert(torch.export.export(graph.eval(), inputs, strict=False))
    path = tmp_path / "graph.safetensors"
    recorded.save(path)
    forms = {
        "recorded": recorded,
        "uncompiled": Program(recorded.graph, compile=False),
        "loaded": mlxify.load(path, compile=False),
        "compiled": Program(recorded.graph, compile=True),
    }
    for form, program in forms.items():
        compare(program(*inputs), wanted, form)


def compare(results: Any, wanted: list[torch.Tensor], form: str) -> None:
    for index, (result, tensor) in enumerate(zip(results, wanted, strict=True)):
        tolerance = ROUNDED if tensor.dtype == torch.float32 else None
        harness.compare([result], [tensor], tolerance, f"{form} {index}:")


def test_graphs_are_long_and_of_all_ops() -> None:
    """What is drawn is worth its name."""
    lengths, names, dtypes = [], set(), set()

    @seed(0)
    @settings(max_examples=60)
    @given(graphs())
    def draw(graph: Graph) -> None:
        lengths.append(len(graph.steps))
        names.update(step.op.name for step in graph.steps)
        dtypes.update(t.dtype for t in graph.inputs)

    draw()
    assert sum(length >= 5 for length in lengths) >= 0.9 * len(lengths)
    assert max(lengths) >= 25
    assert len(names) >= 0.9 * len(OPS), {op.name for op in OPS} - names
    assert dtypes == set(DTYPES)
