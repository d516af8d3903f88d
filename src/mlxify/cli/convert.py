"""`mlxify convert`"""

from __future__ import annotations

import json
import time
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from .inputs import HELP as INPUT_HELP
from .inputs import parse_inputs
from .source import HELP as SOURCE_HELP
from .source import load_source


class Dtype(str, Enum):
    """What `--dtype` takes."""

    float32 = "float32"
    float16 = "float16"
    bfloat16 = "bfloat16"


def convert(
    model: Annotated[str, typer.Argument(help=SOURCE_HELP)],
    output: Annotated[Path, typer.Option("--output", "-o", help="The program file to write (.safetensors).")],
    input: Annotated[list[str], typer.Option("--input", "-i", help=INPUT_HELP)] = [],  # noqa: B006
    dtype: Annotated[Dtype | None, typer.Option(help="Convert the floating-point weights first.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of random example inputs.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
) -> None:
    """Convert a PyTorch model into an MLX program, one file.

    Examples:

      mlxify convert model.pt2 -o model.safetensors

      mlxify convert torchvision.models:resnet18 -i 'x=float32\\[batch=2,3,224,224]' -o resnet.safetensors

      mlxify convert hf:sentence-transformers/all-MiniLM-L6-v2 -o minilm.safetensors
    """
    from ..export import convert as convert_exported

    if not output.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {str(output.parent)!r} to write into")
    console = Console(stderr=True)
    start = time.perf_counter()
    with console.status("exporting the model (torch.export)"):
        source = load_source(model, parse_inputs(input, seed), dtype.value if dtype else None)
    exported = time.perf_counter()
    with console.status("lowering to MLX"):
        program = convert_exported(source.exported)
    lowered = time.perf_counter()
    with console.status(f"writing {output}"):
        program.save(output)
    summary = program.summary()
    report = {
        "output": str(output),
        "bytes": output.stat().st_size,
        "weights": summary.weights,
        "weight_bytes": summary.weight_bytes,
        "instructions": sum(summary.methods.values()),
        "export_seconds": round(exported - start, 3),
        "lower_seconds": round(lowered - exported, 3),
        "save_seconds": round(time.perf_counter() - lowered, 3),
    }
    if as_json:
        print(json.dumps(report))
    else:
        print(
            f"{output}: {_bytes(output.stat().st_size)}, {report['instructions']} instructions; exported in "
            f"{report['export_seconds']:.1f} s, lowered in {report['lower_seconds']:.2f} s"
        )


def _bytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 100_000 else f"{count:,} bytes"
