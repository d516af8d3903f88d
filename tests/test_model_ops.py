"""Every op found in the graphs of 380 real architectures (after torch.export, and after decomposition) converts."""

import builtins
import functools
import math
import operator
from pathlib import Path
from typing import Any

import pytest
import torch

from mlxify import lowering, supported_ops
from mlxify.decompose import decomposes
from mlxify.graph import SKIPPED, functional_name

TARGETS = (Path(__file__).parent / "data" / "model_ops.txt").read_text().split()
# Not lowered but dissolved while a graph is read: picking a result, and a region that only sets autocast.
DISSOLVED = ("operator.getitem", "higher_order.wrap_with_autocast")


MODULES = {"operator": operator, "math": math, "builtins": builtins, "torch": torch}


def op_of(target: str) -> Any:
    """The op or Python function a target names."""
    namespace, *rest = target.split(".")
    return functools.reduce(getattr, rest, MODULES.get(namespace) or getattr(torch.ops, namespace))


@pytest.mark.parametrize("target", [t for t in TARGETS if t not in DISSOLVED])
def test_converts(target: str) -> None:
    if target in supported_ops():
        return
    op = op_of(target)
    functional = functional_name(op)
    assert (
        functional.startswith(SKIPPED)
        or lowering.find(functional) is not None  # an in-place op by its functional form
        or decomposes(op)
    )


def test_the_list_is_whole() -> None:
    assert len(TARGETS) > 300 and len(set(TARGETS)) == len(TARGETS)
