"""Where a node comes from in the user's code, and what to tell about it."""

from __future__ import annotations

import os
import re
from typing import Any

import torch
from torch.fx import Node

from . import lowering
from .errors import UnsupportedOp
from .graph import functional_name, target_name
from .program import Source

ORIGIN = "mlxify_origin"
"""The key of a node's meta under which the call that it was decomposed from is kept (see decompose)."""


def own_call(node: Node) -> Node:
    """The model's own call behind a node without a lowering, when that has none either."""
    origin = node.meta.get(ORIGIN)
    if origin is None or lowering.find(functional_name(node.target)) is not None:
        return node
    return origin if lowering.find(functional_name(origin.target)) is None else node


def unsupported_op(node: Node, reason: str) -> UnsupportedOp:
    """What to tell about a call that cannot be lowered."""
    if reason == "no lowering":
        node = own_call(node)
    source = node_source(node)
    name = target_name(node.target)
    return UnsupportedOp(
        target=name,
        reason=reason,
        arguments=", ".join(
            [_describe(a) for a in node.args] + [f"{k}={_describe(v)}" for k, v in node.kwargs.items()]
        ),
        source=f"{source.line}: {source.code}" if source.code else source.line,
        module=source.module,
        hint=hint_for(name, reason),
    )


def hint_for(name: str, reason: str) -> str:
    """What a user can do about an unsupported op."""
    if reason == "no lowering":
        namespace, op = name.split(".")[:2]
        return f'write one in a few lines: @mlxify.lowers("{namespace}::{op}"), see docs/adding-an-op.md'
    if "float64" in reason:
        return 'convert(..., dtype="float32")'
    return ""


_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in [^\n]*\n\s*(?P<code>[^\n]*)')
_NO_MODULE = "_empty_nn_module_stack_from_metadata_hook"
"""What PyTorch's decompositions put where they know of no module."""
_TORCH = os.path.dirname(torch.__file__)


def node_source(node: Node) -> Source:
    """The user's own line and module path behind a node."""
    stack = node.meta.get("nn_module_stack") or {}
    paths = [path for path, _ in stack.values() if path != _NO_MODULE]
    module = paths[-1] if paths else ""
    module = re.sub(r"^L?\['self'\]\.?|^L__self__\.?", "", module)
    frames = list(_FRAME.finditer(node.meta.get("stack_trace") or ""))
    frames = [f for f in frames if not f["file"].startswith((_TORCH, "<eval_with_key>"))] or frames
    if not frames:
        return Source(module=module)
    frame = frames[-1]
    return Source(f"{short_path(frame['file'])}:{frame['line']}", frame["code"].strip()[:200], module)


def short_path(path: str) -> str:
    """A path that says enough and no more: from the package on, or relative to the working folder."""
    for marker in ("site-packages/", "dist-packages/"):
        if marker in path:
            return path.split(marker)[-1]
    relative = os.path.relpath(path)
    return os.path.basename(path) if relative.startswith("..") else relative


def _describe(arg: Any) -> str:
    if isinstance(arg, Node):
        return _describe(arg.meta.get("val"))
    if isinstance(arg, torch.Tensor):
        return f"{str(arg.dtype).removeprefix('torch.')}[{', '.join(map(str, arg.shape))}]"
    if isinstance(arg, (tuple, list)):
        return f"[{', '.join(map(_describe, arg))}]"
    return str(arg)
