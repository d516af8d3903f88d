"""Which device computes, and on how many cores: instruction bodies choose by it. Never part of a file."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any

import mlx.core as mx

from .blas import fast_blas

PART = 1 << 16
"""Elements of a part that is worth a core of its own, of functions that the C library computes one by one."""
PART_OF_STEPS = 1 << 17
"""The same for functions that are some twenty steps of MLX."""
LARGEST = 3 << 17
"""Elements of a part beyond which each of many steps waits for memory."""
ROUNDS = 8
"""Parts on one core, at most: each waits for the last, which adds to the chains that MLX traces by recursion."""
MAX_CORES = 8

_local = threading.local()
_forked = False


def on_cpu() -> bool:
    """Whether instructions run on MLX's CPU device now."""
    return mx.default_device().type == mx.cpu


def over_cores(
    function: Callable[[mx.array], mx.array], x: mx.array, keep: int = 0, part: int = PART
) -> mx.array:
    """function(x), on a CPU in parts of at least `part` elements if x is large.

    `function` gives an array of x's shape, and treats the places along all axes but the last `keep` apart.
    """
    sizes = x.shape[: x.ndim - keep]
    count = parts_of(x.size, part)
    if count == 1 or not sizes:
        return function(x)
    axis = next((i for i, n in enumerate(sizes) if n % count == 0 or n >= 4 * count), sizes.index(max(sizes)))
    return in_parts(function, axis, count, x)


def parts_of(elements: int, part: int, largest: int = LARGEST, cores: int | None = None) -> int:
    """In how many parts to compute so many elements here, each of at least `part` and, if possible, at most `largest`."""
    if not on_cpu() or getattr(_local, "whole", False):
        return 1
    cores = max(1, min(elements // part, cores or _cores()))
    return cores * max(1, min(ROUNDS, -(-elements // (cores * largest))))


def in_parts(
    function: Callable[..., mx.array],
    axis: int,
    count: int,
    first: mx.array,
    *others: mx.array | None,
    cores: int | None = None,
) -> mx.array:
    """function(first, *others) in parts along an axis, as `on_streams` computes them.

    What has size 1 along the axis, or is None, is seen whole by all parts. Sizes are multiples of the least.
    """
    arrays = (first, *others)
    size = min((n for x in arrays if x is not None and (n := x.shape[axis]) > 1), default=1)
    count = min(count, size)
    ends = [size * i // count for i in range(1, count)]
    cut = [[x] * count if x is None or x.shape[axis] == 1 else _split(x, ends, size, axis) for x in arrays]
    return on_streams(function, axis, list(zip(*cut, strict=True)), cores)


def on_streams(
    function: Callable[..., mx.array], axis: int, parts: list[tuple[Any, ...]], cores: int | None = None
) -> mx.array:
    """The results of function(*part), joined along an axis. On a CPU a stream is a thread, for one of the cores.

    The parts of a core are computed one after another, so that their arrays stay in its cache. With `cores` 1, `function`
    itself may use several. The first argument of each part is an array.
    """
    if len(parts) == 1:
        return function(*parts[0])
    count = min(len(parts), cores or _cores())
    streams = [mx.default_stream(mx.default_device()), *_streams(count - 1)]
    results: list[mx.array] = []
    with nullcontext() if cores == 1 else one_core():
        for i, (start, *rest) in enumerate(parts):
            with mx.stream(streams[i % count]):
                ready = start if i < count else mx.depends([start], [results[i - count]])[0]
                results.append(function(ready, *rest))
    return mx.concatenate(results, axis)


def _split(x: mx.array, ends: list[int], size: int, axis: int) -> list[mx.array]:
    each = x.shape[axis] // size
    return list(mx.split(x, [end * each for end in ends], axis))


@contextmanager
def one_core() -> Iterator[None]:
    """Nothing is computed in parts in this block: it is one itself, or what MLX will compile or export."""
    before = getattr(_local, "whole", False)
    _local.whole = True
    try:
        yield
    finally:
        _local.whole = before


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
