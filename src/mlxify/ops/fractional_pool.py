"""Fractional max pooling: windows whose places follow from random samples, one for each spatial axis."""

from __future__ import annotations

import mlx.core as mx

from ..isa import cast
from ..lowering import as_array, lowers
from .arithmetic import add, divide, multiply, subtract
from .compare import not_equal, where
from .create import arange
from .index import take_along_axis
from .patches import each
from .reduce import argmax, max_
from .shape import broadcast_to, expand_dims, flip, product, reshape, slice_, squeeze
from .unary import trunc


def _fractional_max_pool(rank):
    def lowering(self, kernel_size, output_size, random_samples):
        batched = self.ndim == rank + 2
        x = self if batched else expand_dims(self, [0])
        kernel, sizes = each(kernel_size, rank), each(output_size, rank)
        # Of two spatial axes the last one has the first sample, of three the first one.
        samples = random_samples if rank == 3 else flip(random_samples, [2])
        results = _pooled(x, kernel, sizes, samples)
        return results if batched else [squeeze(r, [0]) for r in results]

    return lowering


def _pooled(x, kernel, sizes, samples):
    """The largest element of each window, and its position in the row-major order of the spatial axes."""
    (n, c), spatial, rank = x.shape[:2], x.shape[2:], len(kernel)
    places = as_array(0, mx.int64)
    for axis in range(rank):
        sample = squeeze(slice_(samples, [axis], [axis + 1], [1], [2]), [2])
        steps = add(
            expand_dims(_starts(sample, spatial[axis], sizes[axis], kernel[axis]), [3]),
            arange(0, kernel[axis], 1, mx.int64),
        )
        # (n, c, size, kernel) to (n, c, *sizes, *kernel)
        others = [2 + a for a in range(rank) if a != axis]
        others += [2 + rank + a for a in range(rank) if a != axis]
        places = add(multiply(places, spatial[axis]), expand_dims(steps, others))
    window = product(kernel)
    places = broadcast_to(places, [n, c, *sizes, *kernel])
    places = reshape(places, [n, c, product(sizes), window])
    flat = take_along_axis(
        reshape(x, [n, c, product(spatial)]), reshape(places, [n, c, product(sizes) * window]), 2
    )
    values = reshape(flat, places.shape)
    index = expand_dims(_last_nan_or_first(values, window), [3])
    shape = [n, c, *sizes]
    return [reshape(take_along_axis(v, index, 3), shape) for v in (values, places)]


def _starts(sample, size, count, kernel):
    """Where the windows along an axis begin, (n, c, count), in the arithmetic of the samples' dtype as in PyTorch."""
    dtype, last = sample.dtype, size - kernel
    sample = expand_dims(sample, [2])
    end = broadcast_to(as_array(last, mx.int64), [*sample.shape[:2], 1])
    if count == 1:
        return end
    alpha = divide(as_array(last, dtype), as_array(count - 1, dtype))
    index = arange(0, count, 1, dtype)
    first = cast(trunc(multiply(sample, alpha)), mx.int64)
    starts = subtract(cast(trunc(multiply(add(index, sample), alpha)), mx.int64), first)
    return where(not_equal(arange(0, count, 1, mx.int64), count - 1), starts, end)


def _last_nan_or_first(values, window):
    """The index of the largest of each window: of NaNs the last one, of other equal elements the first one."""
    largest = max_(values, [3], False)
    last = subtract(as_array(window - 1, mx.int64), argmax(flip(values, [3]), 3, False))
    return where(not_equal(largest, largest), last, argmax(values, 3, False))


for _rank in (2, 3):
    lowers(f"aten.fractional_max_pool{_rank}d")(_fractional_max_pool(_rank))
