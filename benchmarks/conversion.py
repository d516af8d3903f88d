"""How long does conversion take beyond torch.export, and what do conversion and loading cost for large files?

    python benchmarks/conversion.py [--json out.json] [--only NAME] [--quick]

Memory is the highest resident size (VmHWM) of a process of its own beyond what it had after its imports, against the
size of the file. Loading takes place in processes of their own, too, in turn with `mx.load` of the same file, which
reads the arrays and nothing else.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from timer import Row, Settings, Times, alternate, main

MB = 1_000_000

CHILD = """
import json, sys, time

def peak():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))

def run(prepare, work):
    prepared = prepare()
    before, start = peak(), time.perf_counter()
    work(prepared)
    print(json.dumps({"seconds": time.perf_counter() - start, "peak": peak() - before}))
"""
# A small program first: the parts of mlxify are imported on first use.
LOAD = """
import mlx.core as mx, mlxify
run(lambda: mlxify.load(sys.argv[2]), lambda _: mlxify.load(sys.argv[1]))
"""
READ = """
import mlx.core as mx, mlxify
run(lambda: mlxify.load(sys.argv[2]), lambda _: mx.eval(mx.load(sys.argv[1])))
"""
RUN = """
import mlx.core as mx, mlxify
run(lambda: mx.eval(mlxify.load(sys.argv[2])(mx.zeros((1,)))), lambda _: mx.eval(mlxify.load(sys.argv[1])(mx.zeros((1, 1024)))))
"""
CONVERT = """
import torch, mlxify
mlxify.convert
layers = [torch.nn.Linear(1024, 1024) for _ in range(int(sys.argv[2]))]
run(
    lambda: torch.export.export(torch.nn.Sequential(*layers), (torch.zeros(1, 1024),)),
    lambda exported: mlxify.convert(exported).save(sys.argv[1]),
)
"""


def child(code: str, *args: Any) -> dict[str, float]:
    """The seconds and the peak of a process of its own."""
    command = [sys.executable, "-c", CHILD + code, *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


def against_size(case: str, what: str, peaks: list[float], size: float) -> Row:
    """A peak as a multiple of a file's size."""
    ratios = sorted(peak / size for peak in peaks)
    middle = ratios[len(ratios) // 2]
    return Row(case, what, "file size", middle, ratios[0], ratios[-1], middle * size / MB, size / MB, "MB")


def file(megabytes: int) -> Callable[[Settings], Iterator[Row]]:
    """Rows of a program of linear layers, of about this size."""

    def measure(settings: Settings) -> Iterator[Row]:
        if not Path("/proc/self/status").exists():
            yield Row(f"{megabytes:,} MB", skipped="peaks are read from /proc")
            return
        import torch

        import mlxify

        rounds = 1 if settings.quick else 3
        with tempfile.TemporaryDirectory() as folder:
            path, small = Path(folder) / "program.safetensors", Path(folder) / "small.safetensors"
            mlxify.convert(torch.nn.ReLU(), (torch.zeros(1),)).save(small)
            layers = max(1, round(megabytes * MB / 4 / (1024 * 1025)))
            converted = [child(CONVERT, path, layers) for _ in range(rounds)]
            size = path.stat().st_size
            kinds = {"load": LOAD, "mx.load": READ, "load and run": RUN}
            found: dict[str, list[dict[str, float]]] = {name: [] for name in kinds}
            for _ in range(rounds):
                for name, code in kinds.items():
                    found[name].append(child(code, path, small))
        case = f"{megabytes:,} MB"
        times = Times([{k: [run["seconds"]] for k, run in zip(found, runs, strict=True)} for runs in zip(*found.values(), strict=True)])  # fmt: skip
        yield times.row(f"loading {case}", "load", "mx.load")
        for name in kinds:
            yield against_size(f"memory, {case}", name, [run["peak"] for run in found[name]], size)
        yield against_size(f"memory, {case}", "convert and save", [run["peak"] for run in converted], size)

    return measure


def against_export(case: str, export: Callable[[], Any], settings: Settings) -> Iterator[Row]:
    """Conversion of what torch.export gives, against the export."""
    import mlxify

    exported = export()
    few = Settings(min(settings.rounds, 2), settings.repeats, 1, settings.quick)
    times = alternate({"convert": lambda: mlxify.convert(exported), "torch.export": export}, few)
    yield times.row(case, "convert", "torch.export")


def minilm(settings: Settings) -> Iterator[Row]:
    from torch_models import load_minilm, minilm

    model, _ = load_minilm()
    yield from against_export("MiniLM", lambda: minilm.export(model), settings)


def mobilenet(settings: Settings) -> Iterator[Row]:
    from torch_models import load_mobilenet
    from torch_models import mobilenet as module

    model = load_mobilenet()
    yield from against_export("MobileNetV2", lambda: module.export(model), settings)


def decoder(settings: Settings) -> Iterator[Row]:
    from torch_models import export_decoder, load_decoder, with_cache

    module = with_cache(load_decoder("Llama, 135M"))
    yield from against_export(
        "Llama, 135M, prompt and steps", lambda: export_decoder(module), Settings(1, 2, 1)
    )


GROUPS = {
    "minilm": minilm,
    "mobilenet": mobilenet,
    "decoder": decoder,
    "10mb": file(10),
    "100mb": file(100),
    "1gb": file(1000),
}

if __name__ == "__main__":
    main(__doc__ or "", GROUPS, quick=("mobilenet", "10mb"))
