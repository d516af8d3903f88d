"""The commands, put together."""

from __future__ import annotations

import typer

from . import check, convert, doctor, inspect, ops, profile, run

app = typer.Typer(
    name="mlxify",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="PyTorch models as MLX programs: convert, run, profile, inspect, check.",
    epilog="Exit codes: 0 fine, 1 a check failed, 2 wrong usage or unusable input, 3 unsupported operations. "
    "Example: mlxify convert model.pt2 -o model.safetensors",
)
app.command("convert")(convert.convert)
app.command("run")(run.run)
app.command("profile")(profile.profile)
app.command("inspect")(inspect.inspect)
app.command("check")(check.check)
app.command("ops")(ops.ops)
app.command("doctor")(doctor.doctor)
