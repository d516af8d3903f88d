"""Nodes of an exported graph: what they are called, and which of them matter."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

# Checks of what the exporter knew anyway (dtypes, devices), and ranges that torch derived, not the user.
SKIPPED = (
    "aten._assert_tensor_metadata",
    "aten.sym_constrain_range",
    "aten.sym_constrain_range_for_size",
    "torch._check",
)

# In-place ops whose functional form has another overload name.
RENAMED = {
    "aten.transpose_.default": "aten.transpose.int",
    "aten.pow_.Tensor": "aten.pow.Tensor_Tensor",
    "aten.float_power_.Tensor": "aten.float_power.Tensor_Tensor",
    "aten.floor_divide_.Tensor": "aten.floor_divide.default",
    "aten.bernoulli_.float": "aten.bernoulli.p",
}


def plain_op(target: Any) -> Any:
    """The ATen op behind an op of ExecuTorch's edge dialect (known by name: executorch need not be installed)."""
    return target._op if type(target).__name__ == "EdgeOpOverload" else target


def target_name(target: Any) -> str:
    """A node's target as supported_ops() writes it."""
    target = plain_op(target)
    if isinstance(target, torch._ops.OpOverload):
        return f"{target.namespace}.{target._schema.name.split('::')[1]}.{target._overloadname}"
    if isinstance(target, torch._ops.HigherOrderOperator):
        return f"higher_order.{target.name()}"
    if isinstance(target, str):
        return target
    module = (getattr(target, "__module__", None) or "builtins").replace("_operator", "operator")
    if module.startswith("torch"):
        module = "torch"
    return f"{module}.{target.__name__}"


def is_mutable(target: Any) -> bool:
    """Whether an op writes into one of its arguments."""
    op = plain_op(target)
    return isinstance(op, torch._ops.OpOverload) and op._schema.is_mutable


def functional_name(target: Any) -> str:
    """The functional form of an in-place or out= op's name."""
    name = target_name(target)
    if name in RENAMED:
        return RENAMED[name]
    if is_mutable(target):
        namespace, op, overload = name.split(".")
        if op.endswith("_") and not op.endswith("__"):
            return f"{namespace}.{op[:-1]}.{overload}"
        if op.startswith("__i") and op.endswith("__"):
            return f"{namespace}.__{op[3:]}.{overload}"
        if has_out(target):
            return _without_out(plain_op(target)) or name
    return name


def has_out(target: Any) -> bool:
    """Whether an op writes its results into tensors that it is given as out=."""
    op = plain_op(target)
    return isinstance(op, torch._ops.OpOverload) and any(a.is_out for a in op._schema.arguments)


def _without_out(op: Any) -> str | None:
    """The overload of the same op that takes the other arguments."""
    wanted = [(a.name, str(a.type)) for a in op._schema.arguments if not a.is_out]
    packet = op.overloadpacket
    for overload in (getattr(packet, name) for name in packet.overloads()):
        if [(a.name, str(a.type)) for a in overload._schema.arguments] == wanted:
            return target_name(overload)
    return None


def needed_nodes(graph: torch.fx.Graph) -> set[Node]:
    """The nodes that an output, a mutation or an assertion depends on."""
    needed: set[Node] = set()
    stack = effects(graph)
    while stack:
        node = stack.pop()
        if node not in needed:
            needed.add(node)
            stack.extend(node.all_input_nodes)
    return needed


def effects(graph: torch.fx.Graph) -> list[Node]:
    """The outputs, the mutations and the assertions."""
    return [n for n in graph.nodes if n.op == "output" or _has_effect(n)]


def is_last_use(node: Node) -> bool:
    """Whether an in-place op is the only user of what it writes to, as good as its functional form if that is fresh."""
    target = node.args[0] if node.args else None
    return isinstance(target, Node) and target.op == "call_function" and list(target.users) == [node]


def _has_effect(node: Node) -> bool:
    if node.op != "call_function":
        return False
    name = target_name(node.target)
    if name.startswith(SKIPPED) or (name.startswith("aten._assert_scalar") and _about_storage(node)):
        return False
    return name.startswith(("aten._assert", "aten._linalg_check_errors")) or is_mutable(node.target)


def _about_storage(node: Node) -> bool:
    """Whether a number depends on how PyTorch stores a tensor: slices at data-dependent places assert about it."""
    if target_name(node.target).startswith(("aten.sym_storage_offset", "aten.sym_stride")):
        return True
    numbers = [n for n in node.all_input_nodes if not isinstance(n.meta.get("val"), torch.Tensor)]
    return any(_about_storage(n) for n in numbers if n.op == "call_function")
