"""Entries of PyTorch's op_db and their samples, as modules that can be exported."""

from __future__ import annotations

import contextlib
import fnmatch
import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from ..errors import MissingExtraError

# Every entry is judged in the dtypes that models compute with, core entries in the others as well.
COMMON_DTYPES = ("float32", "int64")
OTHER_DTYPES = ("int32", "bool", "float16", "bfloat16", "uint8", "complex64")
DTYPES = (*COMMON_DTYPES, *OTHER_DTYPES)
SEED = 0
# Writes its running statistics although its schema does not say so.
SILENTLY_MUTABLE = torch.ops.aten.native_batch_norm.default


@dataclass(frozen=True)
class Entry:
    """One OpInfo variant with one dtype. `key` names it: "add", "std.unbiased", …"""

    key: str
    dtype: str


class SampleModule(torch.nn.Module):
    """Calls an operator; its inputs are the sample's tensors, all else is closed over.

    An operator that writes into a tensor it is given gets a copy: a program never writes into its caller's arrays.
    """

    def __init__(self, op: Any, spec: Any, leaves: list[Any], copies: bool = False) -> None:
        super().__init__()
        self.op, self.spec, self.copies = op, spec, copies
        self.others = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self.places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def arguments(self, tensors: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword arguments of the operator with these tensors."""
        leaves = list(self.others)
        for place, tensor in zip(self.places, tensors, strict=True):
            leaves[place] = tensor
        first, args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return (first, *args), kwargs

    def forward(self, *tensors: torch.Tensor) -> Any:
        args, kwargs = self.arguments(tuple(t.clone() for t in tensors) if self.copies else tensors)
        return self.op(*args, **kwargs)

    def with_others(self, others: list[Any]) -> SampleModule:
        """The same call with other values for what is no tensor."""
        other = SampleModule(self.op, self.spec, others, self.copies)
        other.places = self.places
        return other


@functools.cache
def op_infos() -> dict[str, Any]:
    """All entries of op_db by name and variant."""
    try:
        from torch.testing._internal.common_methods_invocations import op_db
    except ImportError as error:
        raise MissingExtraError('the conformance run needs expecttest: pip install "mlxify[dev]"') from error
    return {f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name: op for op in op_db}


def entries(only: list[str], dtypes: list[str] | None, core: bool) -> list[Entry]:
    """The entries to run: those whose key matches a pattern of `only`, for each dtype PyTorch's CPU supports.

    Without `dtypes`: COMMON_DTYPES, and OTHER_DTYPES for core entries.
    """
    found = []
    for key, op in op_infos().items():
        if only and not any(fnmatch.fnmatchcase(key, pattern) for pattern in only):
            continue
        if core and not is_core(key):
            continue
        chosen = dtypes or (DTYPES if is_core(key) else COMMON_DTYPES)
        supported = op.supported_dtypes("cpu")
        found += [Entry(key, dtype) for dtype in chosen if getattr(torch, dtype) in supported]
    return found


class _Dispatched(TorchDispatchMode):
    """Collects the ops that a call dispatches."""

    def __init__(self) -> None:
        super().__init__()
        self.ops: set[Any] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.ops.add(func)
        return func(*args, **(kwargs or {}))


@functools.cache
def is_core(key: str) -> bool:
    """Whether an entry is core ATen: an overload of its op is tagged so, or its first sample dispatches tagged ops only.

    conv2d, layer_norm, hstack and the like are no core ops themselves, but reach core ops and nothing else.
    """
    op = op_infos()[key]
    if any(_tagged(name) for name in (op.aten_name, op.name.split(".")[-1])):
        return True
    supported = op.supported_dtypes("cpu")
    dtype = next((d for d in DTYPES if getattr(torch, d) in supported), None)
    if dtype is None:
        return False
    try:
        module, tensors = next(samples(Entry(key, dtype), 1))
        with _Dispatched() as dispatched, torch.no_grad():
            module(*tensors)
    except Exception:  # no samples, or none that runs: no core op is known to be behind it
        return False
    return bool(dispatched.ops) and all(torch.Tag.core in op.tags for op in dispatched.ops)


def _tagged(name: str) -> bool:
    packet = getattr(torch.ops.aten, name, None)
    return packet is not None and any(
        torch.Tag.core in getattr(packet, overload).tags for overload in packet.overloads()
    )


def samples(entry: Entry, limit: int | None) -> Iterator[tuple[SampleModule, tuple[torch.Tensor, ...]]]:
    """The entry's samples, seeded, each as a module and its tensor inputs."""
    op = op_infos()[entry.key]
    torch.manual_seed(SEED)
    found = op.sample_inputs("cpu", getattr(torch, entry.dtype), requires_grad=False)
    for sample in itertools.islice(found, limit):
        leaves, spec = pytree.tree_flatten((sample.input, tuple(sample.args), dict(sample.kwargs)))
        tensors = tuple(leaf for leaf in leaves if isinstance(leaf, torch.Tensor))
        module = SampleModule(op.op, spec, leaves).eval()
        module.copies = _writes(module, tensors)
        yield module, tensors


def _writes(module: SampleModule, tensors: tuple[torch.Tensor, ...]) -> bool:
    """Whether the operator writes into a tensor it is given: by schema, by effect, or as a known liar."""
    copies = tuple(t.clone() if t.layout == torch.strided else t for t in tensors)
    before = [t.clone() for t in copies if t.layout == torch.strided]
    with _Dispatched() as dispatched, contextlib.suppress(Exception), torch.no_grad():
        module(*copies)
    after = [t for t in copies if t.layout == torch.strided]
    changed = not all(same(a, b) for a, b in zip(before, after, strict=True))
    mutable = any(op._schema.is_mutable or op is SILENTLY_MUTABLE for op in dispatched.ops)
    return changed or mutable


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Equal shapes and values, NaN equal to NaN."""
    return a.shape == b.shape and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))
