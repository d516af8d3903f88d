"""`mlxify check`"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from . import FAILED
from .inputs import HELP as INPUT_HELP
from .inputs import parse_inputs
from .source import HELP as SOURCE_HELP
from .source import load_source

SHOWN = 20
PLACES = 5


def check(
    model: Annotated[str, typer.Argument(help=SOURCE_HELP)],
    program: Annotated[
        Path | None, typer.Option(help="A program file to check; converted afresh when left out.")
    ] = None,
    input: Annotated[list[str], typer.Option("--input", "-i", help=INPUT_HELP)] = [],  # noqa: B006
    layers: Annotated[bool, typer.Option(help="Compare at the end of every module, worst first.")] = False,
    tolerance: Annotated[
        float | None, typer.Option(help="Allowed relative difference; by default by dtype.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of random inputs.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
) -> None:
    """Run PyTorch and MLX side by side and compare their results. Exit code 1 when they differ.
    Also says which parts of the model were fused into one instruction each, and why others that look like it were not.

    Examples:

      mlxify check model.pt2 --layers

      mlxify check hf:./my-model --program my-model.safetensors
    """
    from ..check import check as compare
    from ..check import check_layers
    from ..run import load
    from ..support import fusion_uses

    console = Console(stderr=True)
    with console.status("exporting the model (torch.export)"):
        source = load_source(model, parse_inputs(input, seed))
    with console.status("running PyTorch and MLX"):
        loaded = load(program) if program else None
        rows = compare(source.exported, source.args, source.kwargs, program=loaded, tolerance=tolerance)
        worst = check_layers(source.exported, source.args, source.kwargs, tolerance) if layers else []
        fusions = fusion_uses(source.exported)
    good = all(row.ok for row in rows)
    if as_json:
        report: dict[str, list] = {"outputs": rows, "layers": worst, "fusions": fusions}
        lists = {name: [row.as_json() for row in found] for name, found in report.items()}
        print(json.dumps({"ok": good, **lists}))
    else:
        _print("output", rows)
        if layers:
            _print("module, worst first", worst[:SHOWN])
        _print_fusions(fusions)
        print("PyTorch and MLX agree" if good else "PyTorch and MLX DIFFER")
    raise typer.Exit(0 if good else FAILED)


def _print(title: str, rows: list) -> None:
    table = Table(title, "shape", "max abs", "max rel", "allowed", "")
    for row in rows:
        mark = "ok" if row.ok else "[red]differs[/]"
        table.add_row(
            row.name, row.spec, f"{row.max_abs:.3g}", f"{row.max_rel:.3g}", f"{row.tolerance:.0e}", mark
        )
    Console().print(table)


def _print_fusions(uses: list) -> None:
    if not uses:
        return
    table = Table("fusion", "calls", "where", "not fused because")
    for use in uses:
        places = [f"{place} ({count})" for place, count in use.places.items()]
        if len(places) > PLACES:
            places[PLACES:] = [f"… and {len(places) - PLACES} more places"]
        table.add_row(use.fusion, str(use.count), "\n".join(places), use.reason)
    Console().print(table)
