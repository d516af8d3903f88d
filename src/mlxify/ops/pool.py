"""Pooling in one to three dimensions, on arrays with their channels last."""

from __future__ import annotations

import functools
from collections.abc import Callable

import mlx.core as mx

from ..isa import Array, Int, instruction
from ..lowering import lowers
from .conv import channels_first, channels_last
from .create import full
from .patches import each, window_view
from .reduce import accumulator, mean
from .scatter import put_along_axis
from .shape import MAX_SIZE, check_sizes, expand_dims, product, reshape, squeeze

MAX_WINDOW = 65_536
"""Elements of a window."""
MAX_SLICES = 32
"""Window sizes up to which a pool combines shifted slices instead of reducing over a view of all windows."""


@instruction(chain=128)
def max_pool(
    x: Array, kernel: list[Int], stride: list[Int], padding: list[Int], dilation: list[Int], ceil_mode: bool
) -> Array:
    """The largest element of each window. x: (n, *spatial, c). NaN is larger than all others.

    Each spatial axis of size s gets (s + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1 windows, rounded
    down, or with ceil_mode up unless the last one would start in the padding at the end. What is outside x does not
    count; every window must reach into x.
    """
    counts = _counts(x, kernel, stride, padding, dilation, ceil_mode)
    if 0 in x.shape:
        return mx.zeros((x.shape[0], *counts, x.shape[-1]), x.dtype)
    for axis, values in enumerate(zip(counts, kernel, stride, padding, dilation, strict=True), 1):
        x = _combined(x, axis, *values, least(x.dtype), mx.maximum, mx.max)
    return x


@instruction(chain=512)
def argmax_pool(
    x: Array, kernel: list[Int], stride: list[Int], padding: list[Int], dilation: list[Int], ceil_mode: bool
) -> Array:
    """Where the elements that max_pool gives are: int64 positions in the spatial axes of x, in row-major order.

    Of equal elements the first counts, of NaNs the last.
    """
    counts = _counts(x, kernel, stride, padding, dilation, ceil_mode)
    if 0 in x.shape:
        return mx.zeros((x.shape[0], *counts, x.shape[-1]), mx.int64)
    tables = []
    for n, count, k, s, p, d in zip(x.shape[1:-1], counts, kernel, stride, padding, dilation, strict=True):
        places = _steps(count, s, -p, 0) + _steps(k, d, 0, 1)
        tables.append((places, (places >= 0) & (places < n)))
    return _positions(x, tables)


@instruction(chain=128)
def avg_pool(
    x: Array,
    kernel: list[Int],
    stride: list[Int],
    padding: list[Int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: Int | None,
) -> Array:
    """The mean of each window. x: (n, *spatial, c), windows as in `max_pool`.

    The sum is divided by `divisor` if that is given, else by the number of elements: of those in x, or with
    count_include_pad of those in x and its padding. Halves are added in float32; integers are divided towards zero.
    """
    counts = _counts(x, kernel, stride, padding, [1] * len(kernel), ceil_mode)
    if divisor is not None and not 0 < abs(divisor) <= MAX_SIZE:
        raise ValueError(f"the divisor is {divisor}")
    if 0 in x.shape:
        return mx.zeros((x.shape[0], *counts, x.shape[-1]), x.dtype)
    total = x.astype(accumulator(x.dtype))
    number = mx.array(1 if divisor is None else divisor, total.dtype)
    for axis, (n, count, k, s, p) in enumerate(
        zip(x.shape[1:-1], counts, kernel, stride, padding, strict=True), 1
    ):
        total = _combined(total, axis, count, k, s, p, 1, 0, mx.add, mx.sum)
        if divisor is None:
            number = number * _lengths(n, count, k, s, p, count_include_pad, x.ndim - 1 - axis).astype(
                total.dtype
            )
    return _quotient(total, number).astype(x.dtype)


@instruction(chain=128)
def adaptive_avg_pool(x: Array, sizes: list[Int]) -> Array:
    """The mean of `sizes` windows along each spatial axis. x: (n, *spatial, c).

    Window i of m along an axis of size n is from floor(i * n / m) up to ceil((i + 1) * n / m). Halves in float32.
    """
    if _is_empty(x, sizes):
        return mx.zeros((x.shape[0], *sizes, x.shape[-1]), x.dtype)
    total = x.astype(accumulator(x.dtype))
    for axis, size in enumerate(sizes, 1):
        places, inside = _adaptive_table(x.shape[axis], size)
        count = mx.reshape(inside.sum(1), (size, *(1 for _ in range(x.ndim - 1 - axis))))
        values = _taken(total, places, axis)
        values = mx.where(_beside(inside, axis, x.ndim), values, mx.zeros((), total.dtype))
        total = values.sum(axis + 1) / count.astype(total.dtype)
    return total.astype(x.dtype)


@instruction(chain=128)
def adaptive_max_pool(x: Array, sizes: list[Int]) -> Array:
    """The largest element of `sizes` windows along each spatial axis, windows as in `adaptive_avg_pool`."""
    if _is_empty(x, sizes):
        return mx.zeros((x.shape[0], *sizes, x.shape[-1]), x.dtype)
    for axis, size in enumerate(sizes, 1):
        places, inside = _adaptive_table(x.shape[axis], size)
        values = _taken(x, places, axis)
        x = mx.where(_beside(inside, axis, x.ndim), values, mx.array(least(x.dtype), x.dtype)).max(axis + 1)
    return x


@instruction(chain=512)
def adaptive_argmax_pool(x: Array, sizes: list[Int]) -> Array:
    """Where the elements that adaptive_max_pool gives are, as in `argmax_pool`."""
    if _is_empty(x, sizes):
        return mx.zeros((x.shape[0], *sizes, x.shape[-1]), mx.int64)
    return _positions(x, [_adaptive_table(n, size) for n, size in zip(x.shape[1:-1], sizes, strict=True)])


def _counts(
    x: mx.array,
    kernel: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    ceil_mode: bool,
) -> list[int]:
    """The number of windows along each spatial axis."""
    lists, counts = (kernel, stride, padding, dilation), []
    if any(len(values) != x.ndim - 2 for values in lists) or x.ndim < 3:
        raise ValueError(f"windows {lists} for an array of shape {list(x.shape)}")
    if min(map(min, (kernel, stride, dilation))) < 1 or min(padding) < 0 or max(map(max, lists)) > MAX_SIZE:
        raise ValueError(f"kernel {kernel}, stride {stride}, padding {padding}, dilation {dilation}")
    if product(kernel) > MAX_WINDOW:
        raise ValueError(f"a window of {kernel} has more than {MAX_WINDOW} elements")
    for n, k, s, p, d in zip(x.shape[1:-1], *lists, strict=True):
        span = d * (k - 1) + 1
        count = (n + 2 * p - span + (s - 1 if ceil_mode else 0)) // s + 1
        if ceil_mode and (count - 1) * s >= n + p:
            count -= 1
        if n and (count < 1 or p >= span):
            raise ValueError(f"a window of {span} elements for {n} and a padding of {p}")
        counts.append(max(count, 0))
        check_sizes([n + 2 * p + span + s])
    return check_sizes(counts)


def _combined(
    x: mx.array,
    axis: int,
    count: int,
    k: int,
    stride: int,
    padding: int,
    dilation: int,
    outside: int | float,
    join: Callable[..., mx.array],
    whole: Callable[..., mx.array],
) -> mx.array:
    """All windows along one axis, each reduced to one element. `outside` is what x is where there is nothing."""
    end = (count - 1) * stride + dilation * (k - 1) + 1
    high = max(end - x.shape[axis] - padding, 0)
    if padding or high:
        widths = [(padding, high) if a == axis else (0, 0) for a in range(x.ndim)]
        x = mx.pad(x, widths, constant_values=mx.array(outside, x.dtype))
    before = (slice(None),) * axis
    if k > MAX_SLICES:
        return whole(window_view(x[(*before, slice(end))], [axis], [k], [stride], [dilation]), -1)
    length = (count - 1) * stride + 1
    starts = range(0, k * dilation, dilation)
    return functools.reduce(join, (x[(*before, slice(a, a + length, stride))] for a in starts))


def _steps(count: int, step: int, start: int, axis: int) -> mx.array:
    """start, start + step, … as a row (axis 1) or column (axis 0) of int64."""
    ramp = mx.arange(count).astype(mx.int64) * step + start
    return mx.expand_dims(ramp, 1 - axis)


def _lengths(
    n: int, count: int, k: int, stride: int, padding: int, with_padding: bool, after: int
) -> mx.array:
    """How many elements there are in each window along an axis that has `after` axes behind it."""
    start = mx.arange(count).astype(mx.int64) * stride - padding
    end = mx.minimum(start + k, n + padding)
    length = end - start if with_padding else mx.minimum(end, n) - mx.maximum(start, 0)
    return mx.reshape(length, (count, *(1 for _ in range(after))))


def _quotient(x: mx.array, y: mx.array) -> mx.array:
    if mx.issubdtype(x.dtype, mx.inexact):
        return x / y
    sign = mx.sign(x) * mx.sign(y)
    return mx.floor_divide(mx.abs(x), mx.abs(y)) * sign


def _is_empty(x: mx.array, sizes: list[int]) -> bool:
    """Whether there is no window, after checking that each would have elements."""
    if x.ndim < 3 or len(sizes) != x.ndim - 2 or 0 in x.shape[1:-1]:
        raise ValueError(f"{sizes} windows for an array of shape {list(x.shape)}")
    return 0 in (*x.shape, *check_sizes(sizes))


def _adaptive_table(n: int, size: int) -> tuple[mx.array, mx.array]:
    """The places of each window's elements (size, length), and whether they belong to it."""
    length = n // size if n % size == 0 else n // size + 2
    index = mx.arange(size).astype(mx.int64)
    start, end = index * n // size, ((index + 1) * n + (size - 1)) // size
    places = mx.expand_dims(start, 1) + mx.arange(length).astype(mx.int64)
    return places, places < mx.expand_dims(end, 1)


def _taken(x: mx.array, places: mx.array, axis: int) -> mx.array:
    """x at a table of places along an axis, which becomes two; places outside give some element."""
    return mx.take(x, mx.clip(places, 0, x.shape[axis] - 1).astype(mx.int32), axis=axis)


def _beside(table: mx.array, axis: int, rank: int) -> mx.array:
    """A table for the axes `axis` and axis + 1 of an array of rank + 1 axes, to broadcast."""
    return mx.reshape(table, (*table.shape, *(1 for _ in range(rank - 1 - axis))))


def _positions(x: mx.array, tables: list[tuple[mx.array, mx.array]]) -> mx.array:
    """Row-major positions of the windows' largest elements, one axis after another, the last one first."""
    found = mx.zeros(x.shape, mx.int64)
    stride = 1
    for axis in range(x.ndim - 2, 0, -1):
        places, inside = tables[axis - 1]
        values, before = _taken(x, places, axis), _taken(found, places, axis)
        stride_here, stride = stride, stride * x.shape[axis]
        inside = _beside(inside, axis, x.ndim)
        values = mx.where(inside, values, mx.array(least(x.dtype), x.dtype))
        x = values.max(axis + 1)
        order = _beside(_steps(places.shape[1], 1, 0, 1), axis, x.ndim)
        first = mx.where(inside & (values == mx.expand_dims(x, axis + 1)), order, places.shape[1]).min(
            axis + 1
        )
        last_nan = mx.where(inside & mx.isnan(values), order, -1).max(axis + 1)
        chosen = mx.clip(mx.where(last_nan >= 0, last_nan, first), 0, places.shape[1] - 1)
        positions = before + _beside(places, axis, x.ndim) * stride_here
        chosen = mx.expand_dims(chosen, axis + 1).astype(mx.int32)
        found = mx.squeeze(mx.take_along_axis(positions, chosen, axis + 1), axis + 1)
    return found


def least(dtype: mx.Dtype) -> int | float:
    """What no element of a dtype is below."""
    return -float("inf") if mx.issubdtype(dtype, mx.floating) else mx.iinfo(dtype).min


def _pooled(x, rank, pool):
    """pool(channels last) in PyTorch's layout; an input without a batch is a batch of one."""
    batched = x.ndim == rank + 2
    y = pool(channels_last(x if batched else expand_dims(x, [0])))
    results = [channels_first(r) if batched else squeeze(channels_first(r), [0]) for r in y]
    return results[0] if len(results) == 1 else results


def _window(rank, kernel_size, stride, *others):
    """kernel, stride and further lists of `rank` numbers; no stride means the kernel."""
    kernel = each(kernel_size, rank)
    return kernel, each(stride, rank) if stride else kernel, *(each(v, rank) for v in others)


def _max_pool(rank, indices):
    def lowering(self, kernel_size, stride, padding, dilation, ceil_mode):
        window = _window(rank, kernel_size, stride, padding, dilation)
        pools = (max_pool, argmax_pool) if indices else (max_pool,)
        return _pooled(self, rank, lambda x: [pool(x, *window, ceil_mode) for pool in pools])

    return lowering


def _averaged(x, rank, kernel_size, stride, padding, *options):
    window = _window(rank, kernel_size, stride, padding)
    return _pooled(x, rank, lambda x: [avg_pool(x, *window, *options)])


def _avg_pool(rank):
    def lowering(self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
        return _averaged(
            self, rank, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
        )

    return lowering


@lowers("aten.avg_pool1d")
def avg_pool1d(self, kernel_size, stride, padding, ceil_mode, count_include_pad):
    return _averaged(self, 1, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


def _adaptive_avg_pool(rank):
    def lowering(self, output_size):
        sizes = _sizes(self, rank, output_size)
        if all(isinstance(n, int) and n == 1 for n in sizes):
            return mean(self, list(range(self.ndim - rank, self.ndim)), True)
        return _pooled(self, rank, lambda x: [adaptive_avg_pool(x, sizes)])

    return lowering


def _adaptive_max_pool(rank):
    def lowering(self, output_size):
        sizes = _sizes(self, rank, output_size)
        return _pooled(self, rank, lambda x: [adaptive_max_pool(x, sizes), adaptive_argmax_pool(x, sizes)])

    return lowering


def _sizes(x, rank, output_size):
    """-1 keeps a size."""
    sizes = each(output_size, rank)
    kept = x.shape[x.ndim - rank :]
    return [m if isinstance(n, int) and n == -1 else n for n, m in zip(sizes, kept, strict=True)]


for _rank in (1, 2, 3):
    lowers(f"aten.max_pool{_rank}d")(_max_pool(_rank, indices=False))
    lowers(f"aten.max_pool{_rank}d_with_indices")(_max_pool(_rank, indices=True))
    _avg_targets = (f"aten.adaptive_avg_pool{_rank}d", f"aten._adaptive_avg_pool{_rank}d")
    lowers(*_avg_targets[: 1 if _rank == 1 else 2])(_adaptive_avg_pool(_rank))
    lowers(f"aten.adaptive_max_pool{_rank}d")(_adaptive_max_pool(_rank))
    if _rank > 1:
        lowers(f"aten.avg_pool{_rank}d")(_avg_pool(_rank))


@lowers("aten.max_unpool2d", "aten.max_unpool3d")
def max_unpool(self, indices, output_size, stride=None, padding=None):
    """Zeros with the elements of self at the positions that max pooling found them at."""
    rank = len(output_size)
    lead, count = self.shape[: self.ndim - rank], product(self.shape[self.ndim - rank :])
    zeros = full([*lead, product(output_size)], 0, self.dtype)
    flat = put_along_axis(
        zeros, reshape(indices, [*lead, count]), reshape(self, [*lead, count]), len(lead), "none"
    )
    return reshape(flat, [*lead, *output_size])
