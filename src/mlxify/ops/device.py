"""Which device computes, and on how many cores: instruction bodies choose by it. Never part of a file."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import mlx.core as mx

from ..blas import fast_blas

PART = 1 << 16
"""Elements of a part that is worth a core of its own, of functions that take many steps for each."""
MAX_CORES = 8

_local = threading.local()
_forked = False


def on_cpu() -> bool:
    """Whether instructions run on MLX's CPU device now."""
    return mx.default_device().type == mx.cpu


def over_cores(function: Callable[[mx.array], mx.array], x: mx.array, keep: int = 0) -> mx.array:
    """function(x), on a CPU in parts if x is large: one of MLX's streams is one thread there.

    `function` gives an array of x's shape, and treats the places along all axes but the last `keep` apart.
    """
    axis, count = _cut(x, keep) if on_cpu() else (0, 1)
    if count == 1:
        return function(x)
    parts = mx.split(x, [x.shape[axis] * i // count for i in range(1, count)], axis)
    with one_core():
        results = [function(parts[0])]
        for stream, part in zip(_streams(count - 1), parts[1:], strict=True):
            with mx.stream(stream):
                results.append(function(part))
    return mx.concatenate(results, axis)


@contextmanager
def one_core() -> Iterator[None]:
    """Nothing is computed in parts in this block: it is one itself, or what MLX will compile or export."""
    before = getattr(_local, "whole", False)
    _local.whole = True
    try:
        yield
    finally:
        _local.whole = before


def _cut(x: mx.array, keep: int) -> tuple[int, int]:
    """Along which axis to cut an array, and in how many parts."""
    count = min(x.size // PART, 1 if getattr(_local, "whole", False) else _cores())
    sizes = x.shape[: x.ndim - keep]
    if count < 2 or not sizes:
        return 0, 1
    axis = next((i for i, n in enumerate(sizes) if n % count == 0 or n >= 4 * count), sizes.index(max(sizes)))
    return axis, max(1, min(count, sizes[axis]))


def _cores() -> int:
    """As many as the BLAS uses, which follows the process's limits and the usual settings."""
    return 1 if _forked else min(fast_blas().threads or 1, MAX_CORES)


@cache
def _streams(count: int) -> list[Any]:
    return [mx.new_thread_local_stream(mx.cpu) for _ in range(count)]


def _after_fork() -> None:
    global _forked
    _forked = True  # a child has none of the threads behind the streams


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
