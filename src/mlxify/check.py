"""PyTorch and MLX side by side: how far a program's results are from the model's, by output and by module."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import mlx.core as mx
import numpy as np
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Interpreter, Node
from torch.utils import _pytree as pytree

from .convert_torch import torch_array
from .decompose import prepare
from .errors import ProgramError
from .export import convert, record_methods
from .inputs import to_numpy
from .origin import node_source
from .run import Program
from .tree import named_leaves

# Largest difference, relative to the largest value of the output: rounding that grows over a deep network stays
# below, a wrong operation does not.
TOLERANCES = {"float64": 1e-6, "float32": 1e-4, "complex64": 1e-4, "float16": 2e-2, "bfloat16": 1e-1}


@dataclass(frozen=True)
class Difference:
    """One output or module. max_rel is relative to the largest finite magnitude of PyTorch's values."""

    name: str
    spec: str
    max_abs: float
    max_rel: float
    tolerance: float

    @property
    def ok(self) -> bool:
        return self.max_rel <= self.tolerance

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "ok": self.ok}


def check(
    exported: ExportedProgram,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    program: Program | None = None,
    tolerance: float | None = None,
) -> list[Difference]:
    """Run the exported model in PyTorch and the program (converted here when not given) on the same inputs."""
    program = program or convert(exported)
    with torch.no_grad():
        expected = exported.module()(*args, **(kwargs or {}))
    actual = program(*args, **(kwargs or {}))
    wanted, _ = pytree.tree_flatten_with_path(expected)
    got = [leaf for _, leaf in named_leaves(actual)]
    if len(got) != len(wanted):
        raise ProgramError(
            f"the program is of another model: it has {len(got)} outputs, the model {len(wanted)}"
        )
    return [
        difference(pytree.keystr(path) or "output", mine, leaf, tolerance)
        for (path, leaf), mine in zip(wanted, got, strict=True)
        if isinstance(leaf, torch.Tensor)
    ]


def check_layers(
    exported: ExportedProgram,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    tolerance: float | None = None,
) -> list[Difference]:
    """The difference at the end of every module, worst first. Errors add up along the network."""
    prepared = prepare(exported)
    watched = module_ends(prepared)
    graph, outputs = record_methods({"forward": prepared}, watch=list(watched.values()))
    recorder = _Watcher(prepared, set(watched.values()))
    recorder.run_on(args, kwargs or {})
    program = Program(graph, compile=False)
    values = program.watch(args, kwargs or {}, outputs)
    rows = [
        difference(name or "(model)", mine, recorder.seen[node], tolerance)
        for (name, node), mine in zip(watched.items(), values, strict=True)
        if isinstance(mine, mx.array) and isinstance(recorder.seen.get(node), torch.Tensor)
    ]
    return sorted(rows, key=lambda row: -row.max_rel / row.tolerance if row.tolerance else -row.max_rel)


def module_ends(exported: ExportedProgram) -> dict[str, Node]:
    """The last node of every module, in the order of the graph."""
    ends: dict[str, Node] = {}
    for node in exported.graph.nodes:
        if node.op == "call_function" and isinstance(node.meta.get("val"), torch.Tensor):
            name = node_source(node).module
            ends.pop(name, None)
            ends[name] = node
    return ends


class _Watcher(Interpreter):
    """Runs an exported graph in PyTorch and keeps the values of some nodes."""

    def __init__(self, exported: ExportedProgram, nodes: set[Node]) -> None:
        super().__init__(exported.graph_module)
        self.exported, self.nodes = exported, nodes
        self.seen: dict[Node, Any] = {}

    def run_node(self, n: Node) -> Any:
        value = super().run_node(n)
        if n in self.nodes:
            self.seen[n] = value.clone() if isinstance(value, torch.Tensor) else value
        return value

    def run_on(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        leaves = iter(pytree.tree_flatten((args, kwargs))[0])
        tensors = {**self.exported.constants, **self.exported.state_dict}
        inputs = [
            next(leaves) if spec.kind == InputKind.USER_INPUT else tensors[spec.target].detach().clone()
            for spec in self.exported.graph_signature.input_specs
        ]
        with torch.no_grad():
            self.run(*inputs)


def difference(name: str, actual: Any, expected: torch.Tensor, tolerance: float | None = None) -> Difference:
    """Compare one array with PyTorch's. Another shape or dtype, or NaN elsewhere, is an infinite difference."""
    kind = str(expected.dtype).removeprefix("torch.")
    spec = f"{kind}[{', '.join(map(str, expected.shape))}]"
    allowed = TOLERANCES.get(kind, 0.0) if tolerance is None else tolerance
    wanted = torch_array(expected)
    if not isinstance(actual, mx.array) or actual.shape != wanted.shape or actual.dtype != wanted.dtype:
        return Difference(name, spec, float("inf"), float("inf"), allowed)
    wide = np.complex128 if wanted.dtype == mx.complex64 else np.float64
    a, b = (to_numpy(x).astype(wide) for x in (actual, wanted))
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        gap = np.where(same, 0.0, np.abs(a - b))
    gap = np.where(np.isnan(gap), np.inf, gap)
    finite = np.abs(b[np.isfinite(b)])
    scale = float(finite.max()) if finite.size else 0.0
    worst = float(gap.max()) if gap.size else 0.0
    return Difference(name, spec, worst, worst / scale if scale else worst, allowed)
