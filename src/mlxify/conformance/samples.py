"""Entries of PyTorch's op_db and their samples, as modules that can be exported."""

from __future__ import annotations

import fnmatch
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ..errors import MissingExtraError

DTYPES = ("float32", "int64", "int32", "bool", "float16", "bfloat16", "uint8", "complex64")
DEFAULT_DTYPES = ("float32", "int64")
SEED = 0


@dataclass(frozen=True)
class Entry:
    """One OpInfo variant with one dtype. `key` names it: "add", "std.unbiased", …"""

    key: str
    dtype: str


class SampleModule(torch.nn.Module):
    """Calls an operator; its inputs are the sample's tensors, all else is closed over."""

    def __init__(self, op: Any, spec: Any, leaves: list[Any]) -> None:
        super().__init__()
        self.op, self.spec = op, spec
        self.others = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self.places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def forward(self, *tensors: torch.Tensor) -> Any:
        leaves = list(self.others)
        for place, tensor in zip(self.places, tensors, strict=True):
            leaves[place] = tensor
        first, args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return self.op(first, *args, **kwargs)


def op_infos() -> dict[str, Any]:
    """All entries of op_db by name and variant."""
    try:
        from torch.testing._internal.common_methods_invocations import op_db
    except ImportError as error:
        raise MissingExtraError('the conformance run needs expecttest: pip install "mlxify[dev]"') from error
    return {f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name: op for op in op_db}


def entries(only: list[str], dtypes: list[str], core: bool) -> list[Entry]:
    """The entries to run: those whose key matches a pattern of `only`, for each dtype PyTorch's CPU supports."""
    found = []
    for key, op in op_infos().items():
        if only and not any(fnmatch.fnmatchcase(key, pattern) for pattern in only):
            continue
        if core and not is_core(op):
            continue
        supported = op.supported_dtypes("cpu")
        found += [Entry(key, dtype) for dtype in dtypes if getattr(torch, dtype) in supported]
    return found


def is_core(op: Any) -> bool:
    """Whether an entry's ATen op, or what PyTorch's own decomposition of it names first, is tagged core.

    An entry counts when any overload of `torch.ops.aten.<its aten_name>` carries torch.Tag.core, or when that op is
    composite or decomposed by default and an overload of its functional name without leading underscore does.
    """
    names = {op.aten_name, op.name.split(".")[-1], f"_{op.aten_name}", f"{op.aten_name}_with_indices"}
    for name in names:
        packet = getattr(torch.ops.aten, name, None)
        if packet is not None and any(
            torch.Tag.core in getattr(packet, overload).tags for overload in packet.overloads()
        ):
            return True
    return False


def samples(entry: Entry, limit: int | None) -> Iterator[tuple[SampleModule, tuple[torch.Tensor, ...]]]:
    """The entry's samples, seeded, each as a module and its tensor inputs."""
    op = op_infos()[entry.key]
    torch.manual_seed(SEED)
    found = op.sample_inputs("cpu", getattr(torch, entry.dtype), requires_grad=False)
    for sample in itertools.islice(found, limit):
        leaves, spec = pytree.tree_flatten((sample.input, tuple(sample.args), dict(sample.kwargs)))
        module = SampleModule(op.op, spec, leaves).eval()
        yield module, tuple(leaf for leaf in leaves if isinstance(leaf, torch.Tensor))
