"""`mlxify profile`"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ..profile import profile as measure
from ..run import load
from ..session import State
from .inputs import HELP as INPUT_HELP
from .inputs import parse_inputs
from .run import complete


def profile(
    program: Annotated[Path, typer.Argument(help="A program file.")],
    input: Annotated[list[str], typer.Option("--input", "-i", help=INPUT_HELP)] = [],  # noqa: B006
    method: Annotated[str | None, typer.Option(help="The method to call, when there are several.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds to time, after two that warm up.")] = 5,
    seed: Annotated[int, typer.Option(help="Seed of random inputs and of the program's random numbers.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
) -> None:
    """Where the time of a call goes: by instruction, by module, by line of the model. Inputs as for run.

    Examples:

      mlxify profile resnet.safetensors -i 'image=float32\\[1,3,224,224]'

      mlxify profile minilm.safetensors -i 'input_ids=int64\\[2,16]<30522' --json
    """
    loaded = load(program)
    loaded.seed(seed)
    name = loaded.method_name(method)
    given = {item.name: item.value for item in parse_inputs(input, seed)}
    arguments = complete(loaded.graph.methods[name], given, seed)
    result = measure(loaded, name, (), arguments, State(loaded.state), rounds)
    print(json.dumps(result.as_dict()) if as_json else result)
