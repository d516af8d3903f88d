"""Constants of branches and loop bodies: PyTorch 2.13's decompositions fail on a nested graph that holds a tensor."""

from __future__ import annotations

import copy

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from .errors import UnsupportedOpError
from .graph import needed_nodes, target_name
from .origin import unsupported_op

LIFT = "aten.lift_fresh_copy.default"


def numbers_in_branches(program: ExportedProgram) -> ExportedProgram:
    """The program with each constant number that a branch or body holds (`y[0] = 5`) as a call of aten.full.

    A constant with dimensions is refused: as a buffer of the model it would convert.
    """
    if not any(_lifted(module) for module in _nested(program.graph_module)):
        return program
    root = copy.deepcopy(program.graph_module)
    refused = []
    for module in _nested(root):
        for node in _lifted(module):
            constant = getattr(module, str(node.args[0].target))  # type: ignore[union-attr]
            if constant.ndim:
                text = "a constant tensor inside a branch or loop, in a model that PyTorch has to decompose, is not supported; make it a buffer of the model"
                refused.append(unsupported_op(node, text))
                continue
            node.target, node.args = torch.ops.aten.full.default, ([], constant.item())
            node.kwargs = {"dtype": constant.dtype}
        _drop_unused(module)
    if refused:
        raise UnsupportedOpError(refused)
    return program._update(root, program.graph_signature)


def _nested(root: GraphModule) -> list[GraphModule]:
    return [m for m in root.modules() if isinstance(m, GraphModule) and m is not root]


def _lifted(module: GraphModule) -> list[Node]:
    """The nodes that make a fresh copy of a tensor that the graph holds."""
    return [
        n
        for n in needed_nodes(module.graph)
        if n.op == "call_function" and target_name(n.target) == LIFT and _is_held(n.args[0])
    ]


def _drop_unused(module: GraphModule) -> None:
    """Drop the tensors that the graph no longer reads: PyTorch takes them for buffers of the model."""
    module.graph.eliminate_dead_code()
    used = {str(n.target) for n in module.graph.nodes if n.op == "get_attr"}
    for name in [*dict(module.named_buffers(recurse=False)), *vars(module)]:
        if isinstance(getattr(module, name, None), torch.Tensor) and name not in used:
            delattr(module, name)
    module.recompile()


def _is_held(source: object) -> bool:
    return isinstance(source, Node) and source.op == "get_attr"
