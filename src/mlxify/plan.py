"""Choose how each node of an exported graph is lowered: as part of a fusion, or by itself.

From the outputs backwards: a node that something needs takes the largest fusion that ends with it, else its own
lowering. What a fusion takes in is lowered by itself only if something else needs it, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Graph, Node

from . import ops  # noqa: F401  (registers the fusions)
from .calls import Call
from .convert_torch import mlx_dtype
from .errors import Refusal
from .graph import effects, functional_name, is_last_use, is_mutable, needed_nodes, plain_op
from .patterns import FUSIONS, Match, fusions_of


@dataclass
class Plan:
    """fused: by the node that a fusion ends with; alone: nodes with a lowering of their own; misses: with reasons."""

    fused: dict[Node, Match] = field(default_factory=dict)
    alone: set[Node] = field(default_factory=set)
    misses: list[tuple[Match, str]] = field(default_factory=list)


Constants = Mapping[Node, tuple[torch.Tensor, bool]]
"""Tensors that a program holds and never writes to, by placeholder, and whether each is a literal of its code."""


def plan_graph(graph: Graph, constants: Constants) -> Plan:
    """How to lower everything that the graph's outputs and effects need."""
    return _Planner(graph, constants).run()


def constants_of(program: ExportedProgram) -> Constants:
    """The constants of an exported program."""
    signature, found = program.graph_signature, {}
    nodes = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}
    for spec in signature.input_specs:
        if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            tensor = program.state_dict.get(spec.target, program.constants.get(spec.target))
            if isinstance(tensor, torch.Tensor) and spec.target not in signature.buffers_to_mutate.values():
                found[nodes[spec.arg.name]] = tensor, spec.kind == InputKind.CONSTANT_TENSOR
    return found


class _Planner:
    def __init__(self, graph: Graph, constants: Constants) -> None:
        self.graph, self.constants = graph, constants
        self.calls: dict[Node, Call] = {}
        self.needed = needed_nodes(graph)
        self.decided: set[Node] = set()
        self.missed: list[list[tuple[Match, str]]] = []
        self.plan = Plan()

    def run(self) -> Plan:
        # What is still written to is a fresh tensor (see decompose.prepare): without other users it is no effect.
        wanted = {n for n in effects(self.graph) if not (is_mutable(n.target) and is_last_use(n))}
        for node in reversed(self.graph.nodes):
            if node in wanted:
                match = self._fusion(node)
                if match is None:
                    self.plan.alone.add(node)
                    wanted.update(node.all_input_nodes)
                else:
                    self.plan.fused[node] = match
                    wanted.update(leaf.node for leaf in match.leaves())
            self.decided.add(node)
        self.plan.misses = list(self._near_misses())
        return self.plan

    def _fusion(self, node: Node) -> Match | None:
        """The largest fusion that ends with a node; notes why others that nearly do are none."""
        if node.op != "call_function" or functional_name(node.target) not in FUSIONS:
            return None
        fits: list[Match] = []
        missed: list[tuple[Match, str]] = []
        for fusion in fusions_of(self.call(node)):
            for match in fusion.matches(self.call(node)):
                reason = match.refused() or self._used_elsewhere(match)
                if reason is None and not self._writes(match):
                    fits.append(match)
                    break
                if reason is not None:
                    missed.append((match, reason))
        if not fits and missed:
            self.missed.append(sorted(missed, key=lambda miss: -miss[0].size))
        return max(fits, key=lambda match: match.size, default=None)

    def _used_elsewhere(self, match: Match) -> str | None:
        inner = {call.node for call in match.found.inner}
        for call, free in match.found.inner.items():
            if free or call is match.root:
                continue
            for user in call.node.users:
                gone = user in self.decided and user not in self.plan.alone and user not in self.plan.fused
                if user in self.needed and user not in inner and not gone:
                    return f"the result of {call.target} inside it is used elsewhere, too"
        return None

    def _writes(self, match: Match) -> bool:
        """Whether something writes into a node of the match, whose value then depends on the time."""
        inner = {call.node for call in match.found.inner}
        nodes = {*inner, *(leaf.node for leaf in match.leaves())} - {match.root.node}
        return any(user not in inner and _writes_to(user, node) for node in nodes for user in node.users)

    def _near_misses(self) -> Iterator[tuple[Match, str]]:
        """The largest at each node that is not inside another, nor a larger form of one that matched."""
        taken = {own for match in self.plan.fused.values() for own in _own(match)}
        for misses in self.missed:
            apart = next((miss for miss in misses if taken.isdisjoint(_own(miss[0]))), None)
            if apart is not None:
                yield apart
            taken.update(own for match, _ in misses for own in _own(match))

    def call(self, node: Node) -> Call:
        """The one Call of a node."""
        found = self.calls.get(node)
        if found is None:
            found = self.calls[node] = self._new_call(node)
        return found

    def _new_call(self, node: Node) -> Call:
        value = node.meta.get("val")
        call = Call(node)
        if isinstance(value, torch.Tensor):
            call.dtype = _dtype(value.dtype)
            call.shape = tuple(n if isinstance(n, int) else str(n.node.expr) for n in value.shape)
        if node.op == "call_function" and (not is_mutable(node.target) or is_last_use(node)):
            call.target = functional_name(node.target)
            call.load = lambda: self._arguments(node)
        if node in self.constants:
            tensor, literal = self.constants[node]
            if literal and not tensor.ndim:
                call.constant = tensor.item()
            if not tensor.is_floating_point() and not tensor.is_complex() and tensor.numel():
                call.bounds = lambda: (int(tensor.min()), int(tensor.max()))
        return call

    def _arguments(self, node: Node) -> tuple[dict[str, Any], dict[str, Any]]:
        schema = getattr(plain_op(node.target), "_schema", None)
        args, kwargs = self._seen(node.args), self._seen(node.kwargs)
        if schema is None:
            return {**{str(i): arg for i, arg in enumerate(args)}, **kwargs}, {}
        names = [argument.name for argument in schema.arguments if not argument.is_out]
        defaults = {a.name: self._seen(a.default_value) for a in schema.arguments if not a.is_out}
        return {**defaults, **dict(zip(names, args, strict=False)), **kwargs}, defaults

    def _seen(self, value: Any) -> Any:
        if isinstance(value, Node):
            return self.call(value)
        if isinstance(value, (list, tuple)):
            return [self._seen(v) for v in value]
        if isinstance(value, dict):
            return {k: self._seen(v) for k, v in value.items()}
        if isinstance(value, torch.dtype):
            return _dtype(value)
        return value


def _own(match: Match) -> set[tuple[str, Call]]:
    """The nodes that are the match's alone, each with the fusion's name."""
    return {(match.fusion.name, call) for call, free in match.found.inner.items() if not free}


def _writes_to(user: Node, node: Node) -> bool:
    return user.op == "call_function" and bool(user.args) and user.args[0] is node and is_mutable(user.target)


def _dtype(dtype: torch.dtype) -> mx.Dtype:
    """complex64, which no fusion takes, stands for what MLX lacks: a call that meets it is refused when lowered."""
    try:
        return mlx_dtype(dtype, "a tensor")
    except Refusal:
        return mx.complex64
