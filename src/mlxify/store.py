"""Weights and state of all methods of a program: what they share is stored once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mlx.core as mx
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from .convert_torch import torch_array
from .errors import ConversionError
from .program import RANDOM_STATE, Method
from .trace import Tracer, written_tensors

TENSORS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


class Store:
    """Weights and state, filled method by method.

    Tensors of the same memory are one, whatever their names (tied weights; one module exported twice, or wrapped).
    Weights of one name that differ get the method's name in front. State of one name must be one tensor, since
    whether two methods share it makes their numbers.

    state_of: for each method its tensors that are state, which is what any method writes to.
    """

    def __init__(self, programs: Mapping[str, ExportedProgram]) -> None:
        self.weights: dict[str, mx.array] = {}
        self.state: dict[str, mx.array] = {}
        self._names: dict[Any, str] = {}
        """The stored name of each tensor, by its memory."""
        self._written: dict[str, Any] = {}
        """The place of each tensor that some method writes to, by its name."""
        self._spans: dict[Any, range] = {}
        tensors = {method: tensors_of(program) for method, program in programs.items()}
        for method, program in programs.items():
            for name in written_tensors(program):
                self._add_written(name, tensors[method][name])
        self.state_of = {
            method: {name for name, tensor in named.items() if tensor_place(name, tensor) in self._spans}
            for method, named in tensors.items()
        }
        for named in tensors.values():
            self._check_apart(named)

    def _add_written(self, name: str, tensor: torch.Tensor) -> None:
        place = tensor_place(name, tensor)
        if self._written.setdefault(name, place) != place:
            raise _two_of_one_name(name)
        self._spans[place] = _span(tensor)

    def _check_apart(self, tensors: dict[str, torch.Tensor]) -> None:
        """What is written to must not be seen under another name or shape, nor mean two tensors of one name."""
        for name, tensor in tensors.items():
            place = tensor_place(name, tensor)
            if self._written.get(name, place) != place:
                raise _two_of_one_name(name)
            if place not in self._spans and any(_overlap(tensor, span) for span in self._spans.values()):
                raise ConversionError(
                    f"{name!r} shares memory with a buffer that the model writes to, in another shape; make the "
                    "view in forward"
                )

    def add(self, method: Method, tracer: Tracer) -> None:
        """Take in what a method uses, and give its weights and state the names by which they are stored."""
        for number, name in list(method.weights.items()):
            if name.startswith("literal."):
                array = tracer.recorder.literals[int(name.split(".")[1])]
                stored = f"{method.name}.{name}"
                self.weights[stored] = array
                method.weights[number] = stored
            else:
                method.weights[number] = self._add_weight(method, name, tracer.weights[name])
        stored_names = {name: self._add_state(name, tensor) for name, tensor in tracer.state.items()}
        method.state = {number: stored_names.get(name, name) for number, name in method.state.items()}
        method.updates = {stored_names.get(name, name): number for name, number in method.updates.items()}
        if RANDOM_STATE in method.updates:
            self.state.setdefault(RANDOM_STATE, mx.random.key(0))

    def _add_weight(self, method: Method, name: str, tensor: torch.Tensor) -> str:
        place = tensor_place(name, tensor)
        known = self._names.get(place)
        if known is not None:
            return known
        array = torch_array(tensor)
        if name in self.weights and not _same(self.weights[name], array):
            name = f"{method.name}.{name}"
        self._names[place] = name
        self.weights[name] = array
        return name

    def _add_state(self, name: str, tensor: torch.Tensor) -> str:
        stored = self._names.setdefault(tensor_place(name, tensor), name)
        if stored not in self.state:
            self.state[stored] = torch_array(tensor)
        return stored


def tensors_of(program: ExportedProgram) -> dict[str, torch.Tensor]:
    """A program's parameters, buffers and constants, by name."""
    names = [str(spec.target) for spec in program.graph_signature.input_specs if spec.kind in TENSORS]
    return {n: program.state_dict[n] if n in program.state_dict else program.constants[n] for n in names}


def tensor_place(name: str, tensor: torch.Tensor) -> tuple[Any, ...]:
    """What tells a tensor from others: its memory and how it lies there."""
    if not _span(tensor):
        return (name,)
    return tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride()


def _span(tensor: torch.Tensor) -> range:
    """The bytes in which a tensor lies; none when it is empty or has no memory of its own."""
    if tensor.layout is not torch.strided or not tensor.numel() or not (start := tensor.data_ptr()):
        return range(0)
    last = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
    return range(start, start + (last + 1) * tensor.element_size())


def _overlap(tensor: torch.Tensor, other: range) -> bool:
    own = _span(tensor)
    return max(own.start, other.start) < min(own.stop, other.stop)


def _same(a: mx.array, b: mx.array) -> bool:
    """Whether two arrays are the same, bit for bit."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return bool(mx.array_equal(a.reshape(-1).view(mx.uint8), b.reshape(-1).view(mx.uint8)).item())


def _two_of_one_name(name: str) -> ConversionError:
    return ConversionError(
        f"two methods have different tensors of the name {name!r}, and one writes to it: export both methods from "
        "one module in this process if they share it, and rename one if they do not"
    )
