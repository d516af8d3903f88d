"""The values of `--input`: files, or shapes to fill with random numbers.

name=float32[1,3,224,224]        random: floats normal, integers 0 or 1, bool
name=int64[batch=2,seq=16]<30522 dynamic sizes with their example values; integers below 30522
name=int64[seq=16:2-512]         a dynamic size with its range
name=array.npy, name=arrays.npz:key, name=arrays.safetensors:key, name=3, name=0.5, name=true
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import typer

from ..program import DTYPES

HELP = (
    "An input, NAME=VALUE: a file (.npy, .npz:key, .safetensors:key), a number, or DTYPE\\[SIZES] for random values. "
    "A size written as [green]batch=2[/] or [green]seq=16:2-512[/] is dynamic. May be repeated."
)
_SPEC = re.compile(r"(?P<dtype>[a-z]+\d*)\[(?P<sizes>[^\]]*)\](?:<(?P<below>\d+))?")
_SIZE = re.compile(r"(?:(?P<name>[A-Za-z_]\w*)=)?(?P<size>\d+)(?::(?P<low>\d+)-(?P<high>\d*))?")


@dataclass
class InputValue:
    """A parsed input: its array or number, and its dynamic axes as (name, low, high)."""

    name: str
    value: Any
    dynamic: dict[int, tuple[str, int | None, int | None]] = field(default_factory=dict)


def parse_inputs(texts: list[str], seed: int) -> list[InputValue]:
    """All `--input` options. Raises typer.BadParameter."""
    rng = np.random.default_rng(seed)
    parsed = [parse_input(text, rng) for text in texts]
    names = [item.name for item in parsed]
    for name in names:
        if names.count(name) > 1:
            raise typer.BadParameter(f"the input {name!r} is given twice")
    return parsed


def parse_input(text: str, rng: np.random.Generator) -> InputValue:
    name, _, value = text.partition("=")
    if not name or not value:
        raise typer.BadParameter(f"{text!r} should be NAME=VALUE, for example x=float32[1,3,224,224]")
    found = _SPEC.fullmatch(value)
    if found:
        return _random_input(name, found, rng)
    if value in ("true", "false"):
        return InputValue(name, value == "true")
    for kind in (int, float):
        try:
            return InputValue(name, kind(value))
        except ValueError:
            continue
    return InputValue(name, read_array(value))


def _random_input(name: str, found: re.Match[str], rng: np.random.Generator) -> InputValue:
    if found["dtype"] not in DTYPES:
        raise typer.BadParameter(
            f"{name}: {found['dtype']!r} is no dtype; known are {', '.join(sorted(DTYPES))}"
        )
    shape, dynamic = [], {}
    for axis, text in enumerate(filter(None, (part.strip() for part in found["sizes"].split(",")))):
        size = _SIZE.fullmatch(text)
        if size is None:
            raise typer.BadParameter(f"{name}: {text!r} is no size; write 16, seq=16 or seq=16:2-512")
        shape.append(int(size["size"]))
        if size["name"]:
            low, high = size["low"], size["high"]
            dynamic[axis] = (size["name"], int(low) if low else None, int(high) if high else None)
    below = int(found["below"]) if found["below"] else None
    return InputValue(name, random_array(tuple(shape), found["dtype"], rng, below), dynamic)


def random_array(
    shape: tuple[int, ...], dtype: str, rng: np.random.Generator, below: int | None = None
) -> mx.array:
    """Normal floats; integers from 0 up to (not including) `below`, or 2."""
    kind = DTYPES[dtype]
    if kind == mx.bool_:
        return mx.array(rng.integers(0, 2, shape).astype(np.bool_))
    if mx.issubdtype(kind, mx.integer):
        return mx.array(rng.integers(0, below or 2, shape)).astype(kind)
    return mx.array(rng.standard_normal(shape, dtype=np.float32)).astype(kind)


def read_array(text: str) -> mx.array:
    """An array from a file; `path:key` picks one of an .npz or .safetensors."""
    path, _, key = text.partition(":")
    if not Path(path).exists():
        raise typer.BadParameter(f"{path!r} is neither a file nor a number nor DTYPE[SIZES]")
    if path.endswith(".npy"):
        array = np.load(path, allow_pickle=False)
        return mx.array(array, dtype=mx.float64) if array.dtype == np.float64 else mx.array(array)
    if not path.endswith((".npz", ".safetensors")):
        raise typer.BadParameter(f"{path!r}: inputs are .npy, .npz or .safetensors files")
    arrays: Any = mx.load(path)
    if not key and len(arrays) == 1:
        return next(iter(arrays.values()))
    if key not in arrays:
        raise typer.BadParameter(f"{path}: pick one array with {path}:KEY; it has {', '.join(arrays)}")
    return arrays[key]


def save_arrays(path: str, arrays: dict[str, mx.array]) -> None:
    """Write outputs to an .npz, .npy (one array) or .safetensors file."""
    if path.endswith(".npz"):
        mx.savez(path, **arrays)
    elif path.endswith(".safetensors"):
        mx.save_safetensors(path, arrays)
    elif path.endswith(".npy") and len(arrays) == 1:
        mx.save(path, next(iter(arrays.values())))
    else:
        raise typer.BadParameter(f"{path!r}: write .npz, .safetensors, or .npy for a single output")
