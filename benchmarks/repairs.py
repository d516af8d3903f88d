"""What it costs to be right: instructions that do more than MLX's own function, beside it in one process.

    python benchmarks/repairs.py [--json repairs.json]

Each row: the largest error of both against float64, relative to the largest value, and the ratio of median times
(ours / MLX's), the two alternating.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

import mlxify.ops  # noqa: F401  (before its parts: they import each other)
from mlxify.ops import arithmetic, attention, exponential, index, norm, reduce, scan, softmax

ROUNDS = 15


def randn(*shape: int, dtype: Any = mx.float32) -> mx.array:
    return mx.random.normal(shape, key=mx.random.key(0)).astype(dtype)


def exact_softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def exact_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    return exact_softmax(q @ k.swapaxes(-1, -2) / 8) @ v


def exact_norm(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


HEADS = [randn(1, 12, 256, 64) for _ in range(3)]
INDICES = mx.random.randint(0, 30_000, (4096,), key=mx.random.key(1))

# name: (ours, MLX's, in float64, arguments)
ROWS: dict[str, tuple[Callable, Callable, Callable, list[mx.array]]] = {
    "exp": (exponential.exp, mx.exp, np.exp, [mx.clip(randn(1_000_000) * 20, -80, 88.5)]),
    "tanh": (exponential.tanh, mx.tanh, np.tanh, [randn(1_000_000)]),
    "sigmoid": (exponential.sigmoid, mx.sigmoid, lambda x: 1 / (1 + np.exp(-x)), [randn(1_000_000) * 5]),
    "sum of 1e6": (lambda x: reduce.sum_(x, [0], False), mx.sum, np.sum, [mx.full((1_000_000,), 0.1)]),
    "sum of rows of 768": (
        lambda x: reduce.sum_(x, [1], False), lambda x: mx.sum(x, 1), lambda x: x.sum(1), [randn(1024, 768)],
    ),
    "mean, float16": (
        lambda x: reduce.mean(x, [1], False), lambda x: mx.mean(x, 1), lambda x: x.mean(1),
        [mx.abs(randn(1024, 768, dtype=mx.float16)) * 100],
    ),
    "cumsum, float16": (
        lambda x: scan.cumsum(x, 1), lambda x: mx.cumsum(x, 1), lambda x: x.cumsum(1),
        [mx.full((64, 3000), 0.1, mx.float16)],
    ),
    "softmax of 768": (
        lambda x: softmax.softmax(x, -1), lambda x: mx.softmax(x, -1, precise=True), exact_softmax, [randn(1024, 768)],
    ),
    "layer_norm of 768": (
        lambda x: norm.layer_norm(x, None, None, 1e-5), lambda x: mx.fast.layer_norm(x, None, None, 1e-5), exact_norm,
        [randn(1024, 768)],
    ),
    "layer_norm far from 0": (
        lambda x: norm.layer_norm(x, None, None, 1e-5), lambda x: mx.fast.layer_norm(x, None, None, 1e-5), exact_norm,
        [randn(1024, 768) * 10 + 1e4],
    ),
    "attention, 12 heads of 256 x 64": (
        lambda q, k, v: attention.scaled_dot_product_attention(q, k, v, None, 0.125, "none"),
        lambda q, k, v: mx.fast.scaled_dot_product_attention(q, k, v, scale=0.125), exact_attention, HEADS,
    ),
    "floor_divide": (
        arithmetic.floor_divide, lambda a, b: mx.floor(a / b), np.floor_divide,
        [randn(1_000_000) * 100, mx.abs(randn(1_000_000)) + 1],
    ),
    "take, indices checked": (
        lambda t, i: index.take(t, i, 0), lambda t, i: mx.take(t, i, 0), lambda t, i: t[i.astype(int)],
        [randn(30_000, 384), INDICES],
    ),
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="also write the figures here")
    path = parser.parse_args().json
    rows = {name: measure(*row) for name, row in ROWS.items()}
    print("| function | error here | error of MLX's own | time / MLX's own |\n|---|---|---|---|")
    for name, (ours, theirs, ratio) in rows.items():
        print(f"| {name} | {ours:.1e} | {theirs:.1e} | {ratio:.2f} |")
    if path:
        path.write_text(json.dumps(rows, indent=1) + "\n")


def measure(
    ours: Callable, theirs: Callable, exact: Callable, args: list[mx.array]
) -> tuple[float, float, float]:
    """The errors of both, and the ratio of their median times."""
    mx.eval(args)
    wanted = exact(*[np.array(a.astype(mx.float32)).astype(np.float64) for a in args])
    errors = [error(f(*args), wanted) for f in (ours, theirs)]
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for function, seconds in zip((ours, theirs), times, strict=True):
            start = time.perf_counter()
            mx.eval(function(*args))
            seconds.append(time.perf_counter() - start)
    return errors[0], errors[1], statistics.median(times[0]) / statistics.median(times[1])


def error(result: mx.array, wanted: np.ndarray) -> float:
    """The largest difference relative to the largest value; infinite where only the result is."""
    got = np.array(result.astype(mx.float32)).astype(np.float64)
    return float(np.abs(got - wanted).max() / np.abs(wanted).max())


if __name__ == "__main__":
    main()
