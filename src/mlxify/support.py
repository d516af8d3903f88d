"""Which calls of an exported model convert, which are fused, and why the others are not."""

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
from .origin import node_source, own_call
from .patterns import Match
from .plan import constants_of, plan_graph
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
        Tracer(prepared, "forward").run()
    except UnsupportedOpError as error:
        for op in error.ops:
            reasons.setdefault(op.target, op.reason)
    rows = [OpSupport(name, n, name not in reasons, reasons.get(name, "")) for name, n in counts.items()]
    return sorted(rows, key=lambda row: (row.supported, row.target))


@dataclass(frozen=True)
class FusionUse:
    """A fusion at work; or, with a reason, where it nearly was. places: how often, by place in the user's code."""

    fusion: str
    reason: str
    places: dict[str, int]

    @property
    def count(self) -> int:
        return sum(self.places.values())

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "count": self.count}


def fusion_uses(exported: ExportedProgram) -> list[FusionUse]:
    """What conversion fuses, the most frequent first, then what it nearly does. Writes no program."""
    prepared = prepare(exported)
    constants = constants_of(prepared)
    found: dict[tuple[str, str], Counter[str]] = {}
    for module in prepared.graph_module.modules():
        if isinstance(module, GraphModule):
            plan = plan_graph(module.graph, constants)
            for match, reason in [*((m, "") for m in plan.fused.values()), *plan.misses]:
                found.setdefault((match.fusion.name, reason), Counter())[_place(match)] += 1
    uses = [FusionUse(name, reason, dict(places)) for (name, reason), places in found.items()]
    return sorted(uses, key=lambda use: (bool(use.reason), -use.count))


def _place(match: Match) -> str:
    source = node_source(match.root.node)
    return f"{source.line}: {source.code}" if source.code else source.line
