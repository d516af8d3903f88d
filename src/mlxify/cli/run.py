"""`mlxify run`"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

import mlx.core as mx
import numpy as np
import typer

from ..inputs import InputBinder, to_numpy
from ..program import DTYPE_NAMES, LinearDim, Method
from ..run import Program, load
from ..tree import named_leaves
from .inputs import HELP as INPUT_HELP
from .inputs import parse_inputs, random_array, save_arrays

EXAMPLE_SIZE = 8
"""The value of a dynamic size when random inputs are made and the range allows it."""


def run(
    program: Annotated[Path, typer.Argument(help="A program file.")],
    input: Annotated[list[str], typer.Option("--input", "-i", help=INPUT_HELP)] = [],  # noqa: B006
    method: Annotated[str | None, typer.Option(help="The method to call, when there are several.")] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Save the outputs: .npz, .npy, .safetensors.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of random inputs and of the program's random numbers.")] = 0,
    repeat: Annotated[int, typer.Option(min=1, help="Calls to time; the median is printed.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
) -> None:
    """Run a program. Inputs that are not given are random. PyTorch is not needed.

    Examples:

      mlxify run resnet.safetensors -i x=image.npy -o logits.npz

      mlxify run minilm.safetensors -i 'input_ids=int64\\[2,16]<30522' --repeat 10
    """
    loaded = load(program)
    loaded.seed(seed)
    name = method or loaded.default_method()
    if name not in loaded.graph.methods:
        raise typer.BadParameter(f"there is no method {name!r}; it has {', '.join(loaded.graph.methods)}")
    given = {item.name: item.value for item in parse_inputs(input, seed)}
    arguments = complete(loaded.graph.methods[name], given, seed)
    outputs, seconds = _time_calls(loaded, name, arguments, repeat)
    flat = dict(named_leaves(outputs))
    arrays = {key or "output": value for key, value in flat.items() if isinstance(value, mx.array)}
    if output is not None:
        save_arrays(output, arrays)
    if as_json:
        shapes = {key: [DTYPE_NAMES[a.dtype], list(a.shape)] for key, a in arrays.items()}
        print(json.dumps({"outputs": shapes, "median_seconds": seconds, "saved": output}))
        return
    for key, value in flat.items():
        print(f"{key or 'output'} = {_show(value)}")
    print(f"{seconds * 1e3:.2f} ms" + (f" (median of {repeat})" if repeat > 1 else ""))


def _time_calls(program: Program, name: str, arguments: dict[str, Any], repeat: int) -> tuple[Any, float]:
    seconds, outputs = [], None
    for _ in range(repeat):
        start = time.perf_counter()
        outputs = getattr(program, name)(**arguments)
        mx.eval([v for _, v in named_leaves(outputs) if isinstance(v, mx.array)])
        seconds.append(time.perf_counter() - start)
    return outputs, float(np.median(seconds))


def complete(method: Method, given: dict[str, Any], seed: int) -> dict[str, Any]:
    """Random values for the plain array inputs that are not given; equal symbols get equal sizes."""
    rng = np.random.default_rng(seed + 1)
    arguments = dict(given)
    trees = zip(method.parameters, InputBinder(method).trees, strict=True)
    leaves = {name: method.inputs[tree[1]] for name, tree in trees if tree[0] == "leaf"}
    sizes = {
        name: max(low, min(EXAMPLE_SIZE, high or EXAMPLE_SIZE))
        for name, (low, high) in method.symbols.items()
    }
    sizes |= {name: small for name, (small, _) in method.examples.items()}
    for name, value in given.items():
        if name in leaves and isinstance(value, mx.array):
            for dim, size in zip(leaves[name].spec.shape, value.shape, strict=False):
                linear = LinearDim.parse(dim) if isinstance(dim, str) else None
                if linear is not None and (solved := linear.solve(size)) is not None:
                    sizes[linear.symbol] = solved
    for name in method.parameters:
        if name not in arguments and name in leaves and leaves[name].spec.dtype is not None:
            spec = leaves[name].spec
            shape = tuple(d if isinstance(d, int) else _size(d, sizes) for d in spec.shape)
            arguments[name] = random_array(shape, DTYPE_NAMES[spec.dtype], rng)
        elif name not in arguments and name in leaves and leaves[name].spec.shape:
            arguments[name] = _size(str(leaves[name].spec.shape[0]), sizes)
    return arguments


def _size(dim: str, sizes: dict[str, int]) -> int:
    linear = LinearDim.parse(dim)
    assert linear is not None
    return linear.at(sizes[linear.symbol])


def _show(value: Any) -> str:
    if not isinstance(value, mx.array):
        return repr(value)
    array = to_numpy(value)
    text = np.array2string(array, threshold=64, edgeitems=3, precision=5)
    return f"{DTYPE_NAMES[value.dtype]}{list(value.shape)} {text}"
