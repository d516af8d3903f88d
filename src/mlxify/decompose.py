"""Bring an exported graph into the form that is lowered: functional, and only decomposed where it must be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._export.verifier import SpecViolationError
from torch.export import ExportedProgram, default_decompositions
from torch.fx import Node

from . import lowering
from .branches import numbers_in_branches
from .errors import ConversionError, UnsupportedOpError
from .graph import functional_name, has_out, is_mutable, needed_nodes, plain_op, target_name
from .origin import ORIGIN, unsupported_op

# Composite ops that never return their input or a view of it, whatever their arguments.
FRESH = (
    "linear",
    "conv1d",
    "conv2d",
    "conv3d",
    "batch_norm",
    "layer_norm",
    "matmul",
    "group_norm",
    "embedding",
)
# A part of a tensor subclass (torchao's quantised weights): decomposing makes each part a weight of its own.
SUBCLASSED = "export.access_subclass_inner_tensor.default"
RESIZES = ("aten.resize_.", "aten.resize_as_.")
BATCH_NORM = torch.ops.aten.batch_norm.default
INSTANCE_NORM = torch.ops.aten.instance_norm.default


def prepare(program: ExportedProgram) -> ExportedProgram:
    """Functional, without vmap, lowerable as far as PyTorch's own decompositions reach; other ops stay as they are."""
    nodes = [n for n in _nodes(program.graph_module) if n.op == "call_function"]
    mutating = [n for n in nodes if is_mutable(n.target)]
    missing = [n for n in nodes if lowering.find(functional_name(n.target)) is None]
    table = decompositions() if any(decomposes(n.target) for n in missing) else {}
    vmapped = any(target_name(n.target) == "torch._add_batch_dim" for n in missing)
    updating = [n for graph in _graphs(program.graph_module) for n in graph.nodes if updates_statistics(n)]
    if any(n.target is INSTANCE_NORM for n in updating):
        table[INSTANCE_NORM] = default_decompositions()[INSTANCE_NORM]
    subclassed = any(target_name(n.target) == SUBCLASSED for n in missing)
    if table or vmapped or updating or subclassed or not all(is_simple_mutation(n) for n in mutating):
        _refuse_reordering(mutating)
        decomposed = _functional(numbers_in_branches(program), table)
        _remember_origins(decomposed, {n.name: n for n in nodes})
        return decomposed
    return program


def _functional(program: ExportedProgram, table: dict[Any, Callable[..., Any]]) -> ExportedProgram:
    """PyTorch's run_decompositions, which fails for some models that write to their buffers."""
    try:
        return program.run_decompositions(table)
    except (AssertionError, SpecViolationError) as error:
        raise ConversionError(
            f"PyTorch cannot rewrite this model without in-place operations: {type(error).__name__}: {error}\n\n"
            "What to try: register a buffer that the model writes to under one name only, and do not write one and "
            "the same value to two buffers (write value.clone() to the second)."
        ) from error


def _refuse_reordering(mutating: list[Node]) -> None:
    """Refuse a resize_ to the same size, which PyTorch's functional form takes for one that changes strides."""
    found = []
    for node in mutating:
        if not target_name(node.target).startswith(RESIZES):
            continue
        target: Any = node.args[0]
        value = target.meta["val"]
        if not value.is_contiguous() and tuple(value.shape) == tuple(node.meta["val"].shape):
            found.append(unsupported_op(node, "resize_ to the size that a transposed tensor has"))
    if found:
        raise UnsupportedOpError(found)


def updates_statistics(node: Node) -> bool:
    """Whether a norm in training form moves its running statistics, which its schema does not say.

    Functionalisation replaces batch_norm then, and instance_norm where it is decomposed.
    """
    if node.target not in (BATCH_NORM, INSTANCE_NORM):
        return False
    bound = dict(
        zip(("input", "weight", "bias", "running_mean", "running_var", "training"), node.args, strict=False)
    )
    bound |= node.kwargs
    return bound["running_mean"] is not None and bool(bound.get("training", bound.get("use_input_stats")))


def _remember_origins(decomposed: ExportedProgram, originals: dict[str, Node]) -> None:
    """Note on each node which of the model's own calls it came from, for error messages."""
    for node in _nodes(decomposed.graph_module):
        sources = list(node.meta.get("from_node") or [])
        while sources:
            source = sources.pop()
            if source.name in originals:
                node.meta[ORIGIN] = originals[source.name]
                break
            sources.extend(source.from_node or [])


def _nodes(module: torch.fx.GraphModule) -> list[Node]:
    return [n for graph in _graphs(module) for n in needed_nodes(graph)]


def _graphs(module: torch.fx.GraphModule) -> list[torch.fx.Graph]:
    return [m.graph for m in module.modules() if isinstance(m, torch.fx.GraphModule)]


def decompositions() -> dict[Any, Callable[..., Any]]:
    """PyTorch's decompositions of the ops that have no lowering here."""
    tables = (torch._decomp.global_decomposition_table["post_autograd"], default_decompositions())
    return {op: fn for table in tables for op, fn in table.items() if lowering.find(target_name(op)) is None}


def decomposes(op: Any) -> bool:
    """Whether PyTorch can say an op by others."""
    if not isinstance(op, torch._ops.OpOverload):
        return False
    known = op in torch._decomp.global_decomposition_table["post_autograd"] or op in default_decompositions()
    return known or _is_composite(op)


def _is_composite(op: Any) -> bool:
    return op._can_decompose() if isinstance(op, torch._ops.OpOverload) else False


def is_simple_mutation(node: Node) -> bool:
    """Whether an in-place op may be lowered as its functional form, later uses of its target meaning the result.

    It may when its target is a fresh tensor of which no other name exists.
    """
    if has_out(node.target):
        return _writes_fresh(node)
    target = node.args[0] if node.args else None
    if not isinstance(target, Node) or target.op != "call_function":
        return False
    if not _returns_target(node.target):
        return False
    if target is not node and is_mutable(target.target):
        fresh = is_simple_mutation(target)
    else:
        fresh = _returns_fresh(target.target)
    return fresh and all(user is node or _keeps_no_name(user) for user in target.users)


def _keeps_no_name(user: Node) -> bool:
    """Whether a use of a tensor gives it no second name."""
    return user.op == "output" or _returns_fresh(user.target)


def _writes_fresh(node: Node) -> bool:
    """Whether an op with out= writes into fresh tensors without another name, and its functional form is lowered.

    PyTorch's own decompositions lose what some ops write (linalg.matrix_rank).
    """
    outs = [node.kwargs.get(a.name) for a in plain_op(node.target)._schema.arguments if a.is_out]
    fresh = (
        isinstance(o, Node)
        and o.op == "call_function"
        and _returns_fresh(o.target)
        and all(user is node or _keeps_no_name(user) for user in o.users)
        for o in outs
    )
    return all(fresh) and lowering.find(functional_name(node.target)) is not None


def _returns_target(op: Any) -> bool:
    """Whether an in-place op's only result is its first argument, written to (not so for a custom op)."""
    schema = op._schema
    writes = [a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    return writes == [schema.arguments[0].name] and [r.alias_info is not None for r in schema.returns] == [
        True
    ]


def _returns_fresh(op: Any) -> bool:
    """Whether an op's results share no memory with its arguments."""
    if not isinstance(op, torch._ops.OpOverload):
        return False
    aliases = any(r.alias_info is not None for r in op._schema.returns)
    name = op._schema.name.removeprefix("aten::")
    return not aliases and (name in FRESH or not _is_composite(op))
