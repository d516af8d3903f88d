"""All benchmarks in one report: report.md, report.json and ratios.png.

    make bench        or        python benchmarks/run.py [--out build/bench] [--quick] [--only BENCHMARK]

Each benchmark is a process of its own; one after the other, since they would disturb each other.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from timer import HEADER, Row, line

FOLDER = Path(__file__).resolve().parent
BENCHMARKS = ("handwritten", "pytorch", "overhead", "conversion", "levers")
BOUND = 1.05
"""The ratio that hand-written code may be ahead by, drawn as a line."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=FOLDER.parent / "build" / "bench", help="a folder")
    parser.add_argument("--only", action="append", choices=BENCHMARKS)
    parser.add_argument("--quick", action="store_true", help="a smoke run; its figures mean nothing")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    failed, results = [], []
    for name in args.only or BENCHMARKS:
        print(f"\n» {name}", flush=True)
        path = args.out / f"{name}.json"
        path.unlink(missing_ok=True)
        options = ["--quick"] if args.quick else []
        command = [sys.executable, "-W", "ignore", str(FOLDER / f"{name}.py"), "--json", str(path), *options]
        if subprocess.run(command).returncode:
            failed.append(name)
        if path.exists():
            results.append(json.loads(path.read_text()))
    (args.out / "report.json").write_text(json.dumps(results, indent=1) + "\n")
    picture = plot(results, args.out / "ratios.png")
    (args.out / "report.md").write_text(markdown(results, args.quick, picture))
    print(f"\n» {args.out / 'report.md'}")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def rows_of(result: dict[str, Any]) -> list[Row]:
    return [Row(**row) for row in result["rows"]]


def markdown(results: list[dict[str, Any]], quick: bool, picture: bool) -> str:
    """The report: what was measured where, then a table for each question."""
    parts = ["# Benchmarks", ""]
    if quick:
        parts += ["**A smoke run: these figures mean nothing.**", ""]
    parts += [
        "Each ratio is one of medians, ours / theirs: below 1 mlxify is faster (or smaller). The two sides alternate "
        "in one process; of the ratios of blocks of rounds it is the middle one, beside the least and the greatest.",
        "",
    ]
    parts += ["![Ratios](ratios.png)", ""] if picture else []
    for result in results:
        settings, load = result["settings"], result["load"]
        parts += [f"## {result['benchmark']}: {result['question']}", "", about(result["machine"]), ""]
        others = "unknown" if load["others"] is None else f"{load['others']:.0%}"
        averages = ", ".join(f"{load[key][0]:.1f}" for key in ("average before", "average after"))
        parts += [
            f"{settings['repeats']} blocks of {settings['rounds']} rounds. Other processes took {others} of the "
            f"machine; load average before and after: {averages}.",
            "",
        ]
        parts += [HEADER, *(line(row) for row in rows_of(result)), ""]
    return "\n".join(parts)


def about(machine: dict[str, Any]) -> str:
    blas, versions = machine["blas"], machine["versions"]
    named = ", ".join(f"{name} {number}" for name, number in versions.items())
    return (
        f"{machine['processor'] or machine['platform']}, {machine['cores']} cores; MLX on {machine['device']}, "
        f"{blas['name']}, threads: {blas['threads']}. {named}."
    )


def plot(results: list[dict[str, Any]], path: Path) -> bool:
    """A bar for each ratio, with its spread, on a logarithmic axis. False without matplotlib."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        print("no plot: matplotlib is not installed (benchmarks/requirements.txt)")
        return False
    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels = [(r["benchmark"], [row for row in rows_of(r) if row.ratio is not None]) for r in results]
    panels = [(name, rows) for name, rows in panels if rows]
    if not panels:
        return False
    heights = [len(rows) + 1.5 for _, rows in panels]
    figure, axes = pyplot.subplots(
        len(panels), 1, figsize=(11, 0.26 * sum(heights) + 1), squeeze=False, height_ratios=heights
    )
    for axis, (name, rows) in zip(axes[:, 0], panels, strict=True):
        rows = rows[::-1]
        labels = [f"{row.case}: {row.ours} / {row.theirs}" for row in rows]
        ratios = [row.ratio or 1.0 for row in rows]
        spread = [
            [max(r - (row.low or r), 0.0) for r, row in zip(ratios, rows, strict=True)],
            [max((row.high or r) - r, 0.0) for r, row in zip(ratios, rows, strict=True)],
        ]
        colours = ["#2a7f62" if ratio <= BOUND else "#c0552d" for ratio in ratios]
        places = range(len(rows))
        axis.barh(places, [r - 1 for r in ratios], left=1, xerr=spread, color=colours, ecolor="#555555")
        axis.set_yticks(places, labels, fontsize=7)
        axis.set_xscale("log")
        axis.axvline(1, color="black", linewidth=0.8)
        axis.axvline(BOUND, color="grey", linewidth=0.8, linestyle=":")
        axis.set_title(f"{name}: ours / theirs, {BOUND} dotted", fontsize=9, loc="left")
        axis.tick_params(axis="x", which="both", labelsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    return True


if __name__ == "__main__":
    main()
