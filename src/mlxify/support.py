"""Which calls of an exported model convert, and why the others do not."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from torch.export import ExportedProgram
from torch.fx import GraphModule

from . import ops  # noqa: F401  (registers the lowerings)
from .decompose import prepare
from .errors import UnsupportedOpError
from .graph import SKIPPED, functional_name, target_name
from .origin import own_call
from .trace import Tracer


@dataclass(frozen=True)
class OpSupport:
    """One target of a model's graph: how often it is called, whether all calls convert, and if not why."""

    target: str
    calls: int
    supported: bool
    reason: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def op_support(exported: ExportedProgram) -> list[OpSupport]:
    """The ops of a model after the decompositions that it needs, unsupported ones first. Writes no program.

    Branches and loop bodies count too.
    """
    prepared = prepare(exported)
    graphs = [m.graph for m in prepared.graph_module.modules() if isinstance(m, GraphModule)]
    calls = {own_call(n): None for graph in graphs for n in graph.nodes if n.op == "call_function"}
    called = [n.target for n in calls]
    counts = Counter(target_name(t) for t in called if not functional_name(t).startswith(SKIPPED))
    reasons: dict[str, str] = {}
    try:
        Tracer(prepared, "forward", {}).run()
    except UnsupportedOpError as error:
        for op in error.ops:
            reasons.setdefault(op.target, op.reason)
    rows = [OpSupport(name, n, name not in reasons, reasons.get(name, "")) for name, n in counts.items()]
    return sorted(rows, key=lambda row: (row.supported, row.target))
