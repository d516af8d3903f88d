"""`mlxify ops`"""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from . import UNSUPPORTED
from .inputs import HELP as INPUT_HELP
from .inputs import parse_inputs
from .source import HELP as SOURCE_HELP
from .source import load_source


def ops(
    model: Annotated[str | None, typer.Argument(help=SOURCE_HELP)] = None,
    input: Annotated[list[str], typer.Option("--input", "-i", help=INPUT_HELP)] = [],  # noqa: B006
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
) -> None:
    """Which operations a model uses, and which of them convert. Without a model: all that convert.

    Examples:

      mlxify ops model.pt2

      mlxify ops | grep conv
    """
    import mlxify

    if model is None:
        names = sorted(mlxify.supported_ops())
        print(json.dumps(names) if as_json else "\n".join(names))
        return
    from ..support import op_support

    source = load_source(model, parse_inputs(input, 0))
    rows = op_support(source.exported)
    missing = [row for row in rows if not row.supported]
    if as_json:
        print(json.dumps({"supported": not missing, "ops": [row.as_json() for row in rows]}))
    else:
        table = Table("operation", "calls", "supported", "why not")
        for row in rows:
            table.add_row(row.target, str(row.calls), "yes" if row.supported else "[red]no[/]", row.reason)
        Console().print(table)
    raise typer.Exit(UNSUPPORTED if missing else 0)
