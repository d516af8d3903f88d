"""MLX on a CPU with its wheel's own BLAS and with the one that mlxify leads it to, each in a process of its own.

    python benchmarks/blas.py [--json blas.json]

Median milliseconds. With the environment variable OMP_NUM_THREADS=1, on one core.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlxify  # before MLX or after, it makes no difference

SECONDS = 1.0
"""Each row is repeated for about so long, three times at least."""


def rows() -> dict[str, Callable[[], Any]]:
    import mlx.core as mx

    def randn(*shape: int) -> mx.array:
        return mx.random.normal(shape, key=mx.random.key(0))

    a, x, w = randn(1024, 1024), randn(1, 56, 56, 64), randn(64, 3, 3, 64)
    tokens, weight, c = randn(64, 384), randn(384, 384), (randn(512, 512) + 1j).astype(mx.complex64)
    random = randn(200, 200)
    square = random @ random.T + 200 * mx.eye(200)
    mx.eval(a, x, w, tokens, weight, c, square)

    def layers() -> mx.array:
        y = tokens
        for _ in range(20):
            y = mx.tanh(y @ weight)
        return y

    return {
        "matmul 1024 x 1024": lambda: a @ a,
        "matmul 512 x 512, complex": lambda: c @ c,
        "conv2d 3x3, 64 channels, 56 x 56": lambda: mx.conv2d(x, w, padding=1),
        "20 layers of 64 x 384 x 384 and tanh": layers,
        "inverse of 200 x 200": lambda: mx.linalg.inv(square, stream=mx.cpu),
        "QR of 200 x 200": lambda: mx.linalg.qr(square, stream=mx.cpu),
        "SVD of 200 x 200": lambda: mx.linalg.svd(square, stream=mx.cpu),
    }


def measure() -> dict[str, float]:
    import mlx.core as mx

    mx.set_default_device(mx.cpu)
    figures = {}
    for name, function in rows().items():
        mx.eval(function())
        times: list[float] = []
        while len(times) < 3 or sum(times) < SECONDS:
            start = time.perf_counter()
            mx.eval(function())
            times.append(time.perf_counter() - start)
        figures[name] = statistics.median(times) * 1e3
    return figures


def in_a_process(switch: str) -> dict[str, Any]:
    environment = {**os.environ, "MLXIFY_BLAS": switch}
    command = [sys.executable, __file__, "--one"]
    return json.loads(subprocess.run(command, env=environment, capture_output=True, check=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps({"blas": mlxify.fast_blas(), "rows": measure()}))
        return
    own, ours = in_a_process("off"), in_a_process("auto")
    name, threads = ours["blas"][1:3]
    print(f"| ms | MLX's own | {name}, threads: {threads} | times faster |\n|---|---|---|---|")
    for row, before in own["rows"].items():
        after = ours["rows"][row]
        print(f"| {row} | {before:.1f} | {after:.2f} | {before / after:.0f} |")
    if arguments.json:
        arguments.json.write_text(json.dumps({"own": own, "ours": ours}, indent=1) + "\n")


if __name__ == "__main__":
    main()
