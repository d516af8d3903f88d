"""`mlxify inspect`"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from ..program import DTYPE_NAMES, Input, Method
from ..run import Program, load


def inspect(
    program: Annotated[Path, typer.Argument(help="A program file.")],
    instructions: Annotated[
        bool, typer.Option(help="List every instruction with shapes and source lines.")
    ] = False,
    weights: Annotated[bool, typer.Option(help="List every weight with shape, dtype and bytes.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
) -> None:
    """Show what is in a program: methods, inputs, outputs, weights, instructions.

    Examples:

      mlxify inspect minilm.safetensors

      mlxify inspect minilm.safetensors --instructions | less
    """
    loaded = load(program)
    if as_json:
        print(json.dumps(_as_json(loaded, instructions)))
        return
    for method in loaded.graph.methods.values():
        inputs = ", ".join(f"{i.name}: {_spec(i)}" for i in method.inputs)
        outputs = ", ".join(str(method.specs.get(o, repr(o))) for o in method.outputs)
        print(f"{method.name}({inputs})\n  -> {outputs}")
        for name, (low, high) in method.symbols.items():
            print(f"  {name}: {low} to {'any size' if high is None else high}")
        for text in _conditions(method):
            print(f"  condition: {text}")
    print(loaded.summary())
    if weights:
        _print_weights(loaded)
    if instructions:
        print(loaded)


def _spec(item: Input) -> str:
    return (
        str(item.spec) if item.spec.dtype is not None else " ".join((item.number, *map(str, item.spec.shape)))
    )


def _conditions(method: Method) -> list[str]:
    """What a call must fulfil besides its inputs' shapes and dtypes."""
    return [str(i.args[1]) for i in method.instrs if i.op == "assert_number"]


def _print_weights(program: Program) -> None:
    table = Table("weight", "dtype", "shape", "bytes")
    for name, array in {**program.graph.weights, **program.graph.state}.items():
        table.add_row(name, DTYPE_NAMES[array.dtype], str(list(array.shape)), f"{array.nbytes:,}")
    Console().print(table)


def _as_json(program: Program, instructions: bool) -> dict[str, object]:
    summary = program.summary()
    methods = {
        m.name: {
            "inputs": {i.name: _spec(i) for i in m.inputs},
            "outputs": [str(m.specs.get(o, repr(o))) for o in m.outputs],
            "sizes": {name: list(span) for name, span in m.symbols.items()},
            "conditions": _conditions(m),
            "instructions": summary.methods[m.name],
            "state": list(m.state.values()),
        }
        for m in program.graph.methods.values()
    }
    arrays = {
        name: {"dtype": DTYPE_NAMES[a.dtype], "shape": list(a.shape), "bytes": a.nbytes}
        for name, a in program.graph.weights.items()
    }
    listing = {"text": str(program)} if instructions else {}
    return {"methods": methods, "weights": arrays, "counts": summary.instructions, **listing}
