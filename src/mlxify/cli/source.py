"""Where a model comes from: a .pt2 file, a factory function, or a Hugging Face model."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..errors import ConversionError, MissingExtraError
from ..inputs import to_numpy
from .inputs import InputValue

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

HELP = (
    "The model: a [green].pt2[/] file from torch.export.save, [green]package.module:factory[/] (a function or class "
    "that gives an nn.Module), or [green]hf:MODEL[/] (a Hugging Face id or local folder)."
)


@dataclass
class Source:
    """An exported model and the example inputs to run it with."""

    exported: ExportedProgram
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def load_source(text: str, inputs: list[InputValue], dtype: str | None = None) -> Source:
    """Load and export the model that `text` names. Raises typer.BadParameter, ConversionError."""
    try:
        import torch
    except ImportError as error:
        raise MissingExtraError('converting needs PyTorch: pip install "mlxify[torch]"') from error
    given = {item.name: _to_torch(item.value) for item in inputs}
    if text.startswith("hf:"):
        from .hf import load_hf

        model, examples, (shapes, fallback) = load_hf(text[3:], given)
        examples = _in_order(model, examples)
        try:
            return _export(model, examples, shapes, dtype)
        except ConversionError:
            return _export(model, examples, fallback, dtype)
    if text.endswith(".pt2"):
        return _from_exported(_load_pt2(text), given, dtype)
    if ":" not in text:
        raise typer.BadParameter(f"{text!r} is no model. {_plain(HELP)}")
    model = _call_factory(text)
    if isinstance(model, torch.export.ExportedProgram):
        return _from_exported(model, given, dtype)
    if not isinstance(model, torch.nn.Module):
        raise typer.BadParameter(f"{text} gives a {type(model).__name__}, not an nn.Module")
    if not given and len(inspect.signature(model.forward).parameters):
        raise typer.BadParameter("this model needs example inputs: --input NAME=float32[1,3,224,224]")
    return _export(model, _in_order(model, given), dynamic_shapes(inputs), dtype)


def dynamic_shapes(inputs: list[InputValue]) -> dict[str, Any] | None:
    """torch.export's dynamic_shapes from the sizes with names; equal names are one dimension."""
    from torch.export import Dim

    dims: dict[str, Any] = {}
    shapes: dict[str, Any] = {}
    for item in inputs:
        axes = {}
        for axis, (name, low, high) in item.dynamic.items():
            dims.setdefault(name, Dim(name, min=low, max=high))
            axes[axis] = dims[name]
        shapes[item.name] = axes or None
    return shapes if dims else None


def _in_order(model: torch.nn.Module, given: dict[str, Any]) -> dict[str, Any]:
    """The inputs in the order of the model's signature, which is the order of the program's arguments."""
    parameters = inspect.signature(model.forward).parameters
    if not any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        for name in given:
            if name not in parameters:
                raise typer.BadParameter(f"the model has no input {name!r}; it has {', '.join(parameters)}")
    return {name: given[name] for name in [*parameters, *given] if name in given}


def _export(model: torch.nn.Module, kwargs: dict[str, Any], shapes: Any, dtype: str | None) -> Source:
    from ..export import export_module

    args, kwargs = _split(model, kwargs)
    exported = export_module(model.eval(), args, kwargs, shapes, dtype)
    args, kwargs = exported.example_inputs or (args, kwargs)
    return Source(exported, tuple(args), dict(kwargs))


def _split(model: torch.nn.Module, named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The inputs with which the signature starts by position, so that the program takes both; the others by name."""
    rest, args = dict(named), []
    for parameter in inspect.signature(model.forward).parameters.values():
        if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD or parameter.name not in rest:
            break
        args.append(rest.pop(parameter.name))
    return tuple(args), rest


def _from_exported(exported: ExportedProgram, given: dict[str, Any], dtype: str | None) -> Source:
    from ..export import export_module

    exported = export_module(exported, dtype=dtype)
    return Source(exported, *_arguments_for(exported, given))


def _load_pt2(path: str) -> ExportedProgram:
    import torch

    from .. import torch_ops  # noqa: F401  (a file may use the custom ops)

    if not Path(path).exists():
        raise typer.BadParameter(f"there is no file {path!r}")
    try:
        return torch.export.load(path)
    except Exception as error:  # torch raises many kinds for a file that is none of its
        raise ConversionError(f"{path} is no program of torch.export.save: {error}") from error


def _arguments_for(
    exported: ExportedProgram, given: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The example inputs of an exported model, with those replaced that are given by name."""
    from ..export import parameter_names

    args, kwargs = exported.example_inputs or ((), {})
    names = parameter_names(exported)
    values = dict(zip(names, args, strict=False)) | dict(kwargs)
    for name, value in given.items():
        if name not in names:
            raise typer.BadParameter(f"the model has no input {name!r}; it has {', '.join(names)}")
        values[name] = value
    missing = [name for name in names if name not in values]
    if missing:
        raise typer.BadParameter(f"the model needs the input {missing[0]!r}: --input {missing[0]}=…")
    return tuple(values[n] for n in names[: len(names) - len(kwargs)]), {n: values[n] for n in kwargs}


def _call_factory(text: str) -> Any:
    module_name, _, name = text.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise typer.BadParameter(f"cannot import {module_name!r}: {error}") from error
    factory = getattr(module, name, None)
    if factory is None:
        raise typer.BadParameter(f"the module {module_name!r} has no {name!r}")
    is_model = (
        not inspect.isclass(factory) and not inspect.isfunction(factory) and hasattr(factory, "forward")
    )
    if is_model or not callable(factory):
        return factory
    try:
        return factory()
    except Exception as error:  # the user's own code
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{os.path.basename(frame.filename)}:{frame.lineno}"
        raise ConversionError(f"{text}() raised {type(error).__name__}: {error} ({where})") from error


def _to_torch(value: Any) -> Any:
    import mlx.core as mx
    import torch

    if not isinstance(value, mx.array):
        return value
    tensor = torch.from_numpy(to_numpy(value).copy())
    return tensor.to(torch.bfloat16) if value.dtype == mx.bfloat16 else tensor


def _plain(markup: str) -> str:
    return markup.replace("[green]", "").replace("[/]", "")
