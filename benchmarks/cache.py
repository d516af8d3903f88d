"""Whether a cache in a program's state is written to in place: one step beside a copy of the whole cache.

    python benchmarks/cache.py [--megabytes 64] [--steps 50]

One row for each way in which a model may write one position into a cache of keys: the median time of a step, the most
memory that MLX held during the steps beyond the cache itself, and for comparison the time of a copy of the cache.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import mlx.core as mx
import torch

import mlxify
from mlxify.run import Program

HEADS, WIDTH = 8, 128


class Cache(torch.nn.Module):
    """Writes one position, and reads little, so that the write is what is measured."""

    def __init__(self, write: Callable[..., Any], room: int) -> None:
        super().__init__()
        self.write = write
        self.register_buffer("keys", torch.zeros(1, HEADS, room, WIDTH))

    def forward(self, new: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        self.write(self.keys, new, position)
        return self.keys[:, :, :1] * 2


def by_slice(keys: torch.Tensor, new: torch.Tensor, position: torch.Tensor) -> None:
    start = position.item()
    torch._check(start >= 0)
    torch._check(start + 1 <= keys.shape[2])
    keys[:, :, start : start + 1] = new


def by_index_put(keys: torch.Tensor, new: torch.Tensor, position: torch.Tensor) -> None:
    keys[:, :, position] = new


def by_index_copy(keys: torch.Tensor, new: torch.Tensor, position: torch.Tensor) -> None:
    keys.index_copy_(2, position, new)


def by_scatter(keys: torch.Tensor, new: torch.Tensor, position: torch.Tensor) -> None:
    keys.scatter_(2, position.reshape(1, 1, 1, 1).expand_as(new), new)


WRITES = {"slice": by_slice, "index_put": by_index_put, "index_copy": by_index_copy, "scatter": by_scatter}


def milliseconds(step: Callable[[int], Any], steps: int) -> float:
    """The median of the steps, after three to warm up."""
    times = []
    for n in range(steps + 3):
        start = time.perf_counter()
        mx.eval(step(n))
        times.append(time.perf_counter() - start)
    return statistics.median(times[3:]) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--megabytes", type=int, default=64)
    parser.add_argument("--steps", type=int, default=50)
    args = parser.parse_args()
    room = args.megabytes * 1_000_000 // (HEADS * WIDTH * 4)
    new = mx.ones((1, HEADS, 1, WIDTH))
    for name, write in WRITES.items():
        model = Cache(write, room)
        graph = mlxify.convert(model, (torch.ones(1, HEADS, 1, WIDTH), torch.tensor([0]))).graph
        for form in (False, True):
            program = Program(graph, compile=form)
            positions = [mx.array([n], mx.int64) for n in range(args.steps + 3)]
            program(new, positions[0])  # the first call copies the initial state
            held = mx.get_active_memory()
            mx.reset_peak_memory()
            median = milliseconds(lambda n, p=program, at=positions: p(new, at[n]), args.steps)  # type: ignore[misc]
            grown = (mx.get_peak_memory() - held) / 1e6
            print(
                f"{name:10} {'compiled' if form else 'eager':8} {median:8.3f} ms a step, {grown:8.2f} MB more at most"
            )
    cache = mx.ones((1, HEADS, room, WIDTH))
    mx.eval(cache)
    print(f"a copy of the cache {milliseconds(lambda n: cache + n, args.steps):8.3f} ms")


if __name__ == "__main__":
    main()
