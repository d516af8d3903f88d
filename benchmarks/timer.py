"""What all benchmarks share: the timer, a row of the table, the machine, the command line.

Every figure is a ratio of medians (ours / theirs) whose sides alternate in one process. The rounds are repeated in
blocks; of the blocks' ratios the figure is the middle one, and the least and greatest show how much of it is noise.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

LEAST = 0.005
"""Seconds that a sample takes at least: quicker functions are called several times in one."""
MOST = 40.0
"""Seconds that the samples of a case take together, about: slow functions get fewer rounds."""
PAUSE = 0.02
"""Seconds before each sample: the threads of the side before it (OpenMP's, ONNX Runtime's) look out for more work for
some milliseconds, and would take a core from this one.
"""
PACKAGES = (
    "mlx", "mlx-cpu", "torch", "transformers", "mlx-lm", "onnxruntime", "numpy", "safetensors", "scipy-openblas32",
)  # fmt: skip


@dataclass
class Settings:
    """How often to measure. quick: a smoke run, whose figures mean nothing."""

    rounds: int = 5
    repeats: int = 3
    warmup: int = 2
    quick: bool = False


@dataclass
class Row:
    """One figure: the middle, least and greatest of the blocks' ratios. skipped: why there is none."""

    case: str
    ours: str = ""
    theirs: str = ""
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    our_value: float | None = None
    their_value: float | None = None
    unit: str = "ms"
    difference: float | None = None
    """The largest difference of the results, relative to the largest value."""
    skipped: str = ""
    failed: bool = False


@dataclass
class Times:
    """Seconds of each side, by block and round."""

    blocks: list[dict[str, list[float]]] = field(default_factory=list)

    def median(self, side: str) -> float:
        return statistics.median(t for block in self.blocks for t in block[side])

    def row(
        self,
        case: str,
        ours: str,
        theirs: str,
        *,
        scale: float = 1e3,
        unit: str = "ms",
        difference: float | None = None,
    ) -> Row:
        """The figure of two of the sides. scale: from seconds to the unit."""
        ratios = [statistics.median(b[ours]) / statistics.median(b[theirs]) for b in self.blocks]
        values = self.median(ours) * scale, self.median(theirs) * scale
        spread = statistics.median(ratios), min(ratios), max(ratios)
        return Row(case, ours, theirs, *spread, *values, unit, difference)


def alternate(sides: dict[str, Callable[[], Any]], settings: Settings) -> Times:
    """Time functions in turn, forwards and backwards. Each must return only when its work is done."""
    takes = [sum(seconds(function, 1) for function in sides.values()) for _ in range(settings.warmup)]
    rounds = max(
        1, min(settings.rounds, int(MOST / settings.repeats / takes[-1]) if takes else settings.rounds)
    )
    calls = 1 if settings.quick else max(1, round(LEAST / min(seconds(f, 1) for f in sides.values())))
    times = Times()
    for _ in range(settings.repeats):
        block: dict[str, list[float]] = {name: [] for name in sides}
        for n in range(rounds):
            for name in list(sides)[:: -1 if n % 2 else 1]:
                time.sleep(PAUSE)
                block[name].append(seconds(sides[name], calls))
        times.blocks.append(block)
    return times


def seconds(function: Callable[[], Any], calls: int) -> float:
    """Of one call, the mean of several."""
    start = time.perf_counter()
    for _ in range(calls):
        function()
    return (time.perf_counter() - start) / calls


def difference(ours: Any, theirs: Any, tolerance: float = 1e-3) -> float:
    """The largest difference relative to the largest value. Nothing is timed that computes something else."""
    import numpy as np

    a, b = (np.array(x).astype(np.float64) for x in (ours, theirs))
    found = float(np.abs(a - b).max() / np.abs(b).max()) if a.shape == b.shape else float("nan")
    if not found <= tolerance:
        raise AssertionError(f"the sides disagree: {a.shape}, {b.shape}, relative difference {found:.2g}")
    return found


class Load:
    """The part of the machine that other processes took between two looks (on Linux)."""

    def __init__(self) -> None:
        self.start = self._look()

    def others(self) -> float | None:
        if self.start is None:
            return None
        now = self._look() or self.start
        busy, own, total = (b - a for a, b in zip(self.start, now, strict=True))
        return round(max(busy - own, 0.0) / total, 3) if total else 0.0

    @staticmethod
    def _look() -> tuple[float, float, float] | None:
        """CPU seconds so far: of everybody, of this process and its children, and those that there were."""
        try:
            line = Path("/proc/stat").read_text().split("\n", 1)[0]
        except OSError:
            return None
        ticks = [int(n) / os.sysconf("SC_CLK_TCK") for n in line.split()[1:9]]
        own = os.times()
        idle = ticks[3] + ticks[4]
        return sum(ticks) - idle, own[0] + own[1] + own[2] + own[3], sum(ticks)


def machine() -> dict[str, Any]:
    """Where and with what this was measured."""
    import mlx.core as mx

    import mlxify

    versions = {"python": platform.python_version(), "mlxify": mlxify.__version__}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "platform": f"{platform.system()} {platform.machine()}",
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "device": str(mx.default_device()),
        "blas": mlxify.fast_blas()._asdict(),
        "versions": versions,
    }


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")


def threads() -> int:
    """The threads that MLX's BLAS uses; other libraries are given as many. OMP_NUM_THREADS changes it."""
    import mlxify

    return mlxify.fast_blas().threads or os.cpu_count() or 1


Group = Callable[[Settings], Iterable[Row]]


def main(doc: str, groups: dict[str, Group], quick: tuple[str, ...]) -> None:
    """Measure the groups of rows, print them and write them as JSON. quick: the groups of a quick run."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--only", action="append", help=f"one of: {', '.join(groups)}", choices=list(groups))
    parser.add_argument("--rounds", type=int, default=5, help="in a block, at least 3 for a figure")
    parser.add_argument("--repeats", type=int, default=3, help="blocks")
    parser.add_argument("--quick", action="store_true", help="a smoke run; its figures mean nothing")
    args = parser.parse_args()
    settings = Settings(1, 1, 1, True) if args.quick else Settings(args.rounds, args.repeats)
    names = args.only or (quick if args.quick else list(groups))
    load, before = Load(), os.getloadavg()
    rows = [row for name in names for row in measured(name, groups[name], settings)]
    result = {
        "benchmark": Path(sys.argv[0]).stem,
        "question": doc.split("\n", 1)[0],
        "settings": asdict(settings),
        "machine": machine(),
        "load": {"average before": before, "average after": os.getloadavg(), "others": load.others()},
        "rows": [asdict(row) for row in rows],
    }
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(result, indent=1) + "\n")
    if any(row.failed for row in rows):
        sys.exit(1)


def measured(name: str, group: Group, settings: Settings) -> Iterable[Row]:
    """The rows of a group, printed as they come. A missing package is a reason to skip, all else a failure."""
    try:
        for row in group(settings):
            print(line(row), flush=True)
            yield row
    except Exception as error:  # one case that fails must not cost the others; it is a row
        missing = isinstance(error, ModuleNotFoundError) and not (error.name or "").startswith("mlxify")
        if not missing:
            traceback.print_exc()
        reason = f"{type(error).__name__}: {error}".split("\n", 1)[0]
        row = Row(name, skipped=reason, failed=not missing)
        print(line(row), flush=True)
        yield row


HEADER = "| case | ours | against | ratio | least to greatest | ours | theirs | difference |\n|---|---|---|---|---|---|---|---|"


def line(row: Row) -> str:
    """A row of the Markdown table."""
    if row.ratio is None:
        return f"| {row.case} | | | — | | | | {'failed' if row.failed else 'skipped'}: {row.skipped} |"
    off = "" if row.difference is None else f"{row.difference:.0e}"
    return (
        f"| {row.case} | {row.ours} | {row.theirs} | **{row.ratio:.2f}** | {row.low:.2f} to {row.high:.2f} "
        f"| {row.our_value:.4g} {row.unit} | {row.their_value:.4g} {row.unit} | {off} |"
    )
