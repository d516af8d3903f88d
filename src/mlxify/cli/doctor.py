"""`mlxify doctor`"""

from __future__ import annotations

import json
import os
import platform
import time
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from .. import __version__, _need_mlx
from ..blas import Blas, fast_blas
from ..errors import MissingExtraError
from . import FAILED

EXTRAS = {
    "cpu": ("mlx-cpu", "scipy-openblas32"),
    "cuda": ("mlx-cuda-13",),
    "cli": ("typer", "rich"),
    "torch": ("torch",),
    "llm": ("transformers", "mlx-lm"),
}
"""The packages that each extra of mlxify brings."""
SIZE, RUNS = 512, 5
"""Of the matrix product that is timed."""


@dataclass
class Mlx:
    """What MLX says of itself, or why it cannot be imported."""

    version: str | None
    device: str | None
    error: str | None
    blas: Blas | None
    gflops: float | None
    programs: str | None = None
    """How programs run by default."""


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
) -> None:
    """Look at this installation: versions, MLX's device, its BLAS and how fast that is, extras; and what to do.

    Examples:

      mlxify doctor

      mlxify doctor --json
    """
    mlx = look_at_mlx()
    packages = {extra: {name: installed(name) for name in names} for extra, names in EXTRAS.items()}
    advice = [text for text in (mlx.error, blas_advice(mlx)) if text]
    if as_json:
        print(json.dumps({**here(), "mlx": mlx_as_json(mlx), "extras": packages, "advice": advice}))
    else:
        print_report(mlx, packages, advice)
    raise typer.Exit(FAILED if mlx.error else 0)


def here() -> dict[str, Any]:
    return {
        "mlxify": __version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
    }


def look_at_mlx() -> Mlx:
    try:
        _need_mlx()
    except MissingExtraError as error:
        return Mlx(installed("mlx"), None, str(error), None, None)
    import mlx.core as mx

    from ..segments import mode_of

    device = mx.default_device().type.name
    return Mlx(installed("mlx"), device, None, fast_blas(), matmul_gflops(), mode_of(None).value)


def matmul_gflops() -> float:
    """Thousand millions of operations per second of a float32 product on the CPU, the best of a few."""
    import mlx.core as mx

    a = mx.random.normal((SIZE, SIZE), stream=mx.cpu)
    mx.eval(a)
    seconds = []
    for _ in range(1 + RUNS):
        start = time.perf_counter()
        mx.eval(mx.matmul(a, a, stream=mx.cpu))
        seconds.append(time.perf_counter() - start)
    return round(2 * SIZE**3 / min(seconds) / 1e9, 1)


def blas_advice(mlx: Mlx) -> str | None:
    """Why the BLAS is slow and what helps, where the CPU is what MLX computes on."""
    if mlx.blas is None or mlx.blas.fast or mlx.device != "cpu":
        return None
    return f"the BLAS is slow: {mlx.blas.reason}"


def installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def mlx_as_json(mlx: Mlx) -> dict[str, Any]:
    blas = {**mlx.blas._asdict(), "gflops": mlx.gflops} if mlx.blas else None
    return {
        "version": mlx.version,
        "device": mlx.device,
        "error": mlx.error,
        "programs": mlx.programs,
        "blas": blas,
    }


def print_report(mlx: Mlx, packages: dict[str, dict[str, str | None]], advice: list[str]) -> None:
    system = here()
    rows = [
        ("mlxify", system["mlxify"]),
        ("Python", f"{system['python']}, {system['platform']}, {system['cores']} cores"),
        ("MLX", f"{mlx.version}, device {mlx.device}" if mlx.device else "does not work here"),
    ]
    if mlx.programs:
        rows.append(("programs run", mlx.programs))
    if mlx.blas:
        threads = f", threads: {mlx.blas.threads}" if mlx.blas.threads else ""
        rows.append(("BLAS on the CPU", f"{mlx.blas.name}, {mlx.gflops} GFLOP/s{threads}"))
        if mlx.blas.reason:
            rows.append(("", mlx.blas.reason))
    for extra, names in packages.items():
        have = ", ".join(f"{name} {found}" for name, found in names.items() if found)
        lack = ", ".join(name for name, found in names.items() if not found)
        rows.append((f"extra {extra}", "; ".join(filter(None, (have, lack and f"without {lack}")))))
    table = Table.grid("", "", padding=(0, 2))
    for row in rows:
        table.add_row(*(text.replace("[", "\\[") for text in row))
    console = Console()
    console.print(table)
    for text in advice or ["All is well."]:
        console.print(f"\n{text}", markup=False)


alone = typer.Typer(name="mlxify", add_completion=False, pretty_exceptions_enable=False)
"""The command line where MLX cannot be imported, which is what the other commands do."""
alone.command("doctor")(doctor)


@alone.callback()
def _several_commands() -> None:
    """MLX does not work here; only `doctor` does."""
