"""The commands, put together."""

from __future__ import annotations

import typer

from . import check, convert, inspect, ops, run

app = typer.Typer(
    name="mlxify",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="PyTorch models as MLX programs: convert, run, inspect, check.",
)
app.command("convert")(convert.convert)
app.command("run")(run.run)
app.command("inspect")(inspect.inspect)
app.command("check")(check.check)
app.command("ops")(ops.ops)
