"""What each choice for a CPU gains by itself: without it, and with it, in turn.

    python benchmarks/levers.py [--json out.json] [--quick]

"theirs" is the same instruction without the choice. Freed memory is a setting of the whole process, so its two sides
are processes of their own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import mlx.core as mx
from timer import Row, Settings, alternate, difference, main

import mlxify
from mlxify import device
from mlxify.blas import fast_blas
from mlxify.heap import SWITCH, keep_freed_memory
from mlxify.ops import activation, attention, conv, depthwise, exponential, linear, norm, softmax

WITH, WITHOUT = "with", "without"

KEPT = """
import time, mlx.core as mx, mlxify
from mlxify.heap import keep_freed_memory
keep_freed_memory()
x = mx.ones((16 << 20,))
times = []
for _ in range(12):
    start = time.perf_counter()
    mx.eval(x * x + 1)
    times.append(time.perf_counter() - start)
print(sorted(times)[len(times) // 2])
"""


def compare(
    case: str, settings: Settings, ours: Callable[[], mx.array], theirs: Callable[[], mx.array]
) -> Row:
    def computed(function: Callable[[], mx.array]) -> Callable[[], Any]:
        return lambda: mx.eval(function())

    apart = difference(ours(), theirs())
    times = alternate({WITH: computed(ours), WITHOUT: computed(theirs)}, settings)
    return times.row(case, WITH, WITHOUT, difference=apart)


def whole(function: Callable[[], mx.array]) -> Callable[[], mx.array]:
    """The function without parts on streams of their own."""

    def call() -> mx.array:
        with device.one_core():
            return function()

    return call


def streams(settings: Settings) -> Iterator[Row]:
    calls: dict[str, Callable[[mx.array], mx.array]] = {
        "GELU": lambda x: activation.gelu(x, "none"), "SiLU": activation.silu, "softmax": lambda x: softmax.softmax(x, -1)
    }  # fmt: skip
    x = mx.random.normal((8, 64, 1536))
    for name, function in calls.items():
        call = partial(function, x)
        yield compare(f"several streams: {name} of 8 x 64 x 1536", settings, call, whole(call))
    heads, mask = mx.random.normal((8, 12, 64, 32)), mx.ones((8, 1, 64, 64), mx.bool_)
    attend = partial(attention.scaled_dot_product_attention, heads, heads, heads, mask, 0.18, "none")
    yield compare("several streams: attention of 8 x 12 heads of 64 x 32", settings, attend, whole(attend))
    many = mx.random.normal((32, 64, 1536))
    gelu = partial(activation.gelu, approximate="none")
    yield compare(
        "parts that fit the cache: GELU of 32 x 64 x 1536, beside one for each core",
        settings,
        lambda: gelu(many),
        lambda: device.in_parts(gelu, 0, fast_blas().threads or 1, many),
    )
    scores = -10 * mx.abs(x)
    yield compare(
        "exp up to 0 by steps, 8 x 64 x 1536, beside a power",
        settings,
        lambda: exponential.exp_of_negative(scores),
        lambda: exponential.exp_of(scores),
    )


def products(settings: Settings) -> Iterator[Row]:
    x, bias = mx.random.normal((512, 384)), mx.zeros((1536,))
    weight = mx.random.normal((1536, 384))
    yield compare(
        "bias after the product: 512 x 384 x 1536",
        settings,
        lambda: linear.linear(x, weight, bias),
        lambda: mx.addmm(bias, x, weight.T),
    )
    for n, k in ((1536, 576), (49152, 576)):
        row, weights = (
            mx.random.normal((1, k)),
            [mx.random.normal((n, k)) for _ in range(max(1, (16 << 20) // n // k))],
        )
        by_columns = [mx.contiguous(w.T).T for w in weights]
        mx.eval(weights, by_columns)
        yield compare(
            f"weights by columns: 1 x {k} x {n}",
            settings,
            lambda row=row, ws=by_columns: mx.concatenate([linear.linear(row, w, None) for w in ws]),
            lambda row=row, ws=weights: mx.concatenate([linear.linear(row, w, None) for w in ws]),
        )


def rows(settings: Settings) -> Iterator[Row]:
    x, weight, bias = mx.random.normal((8, 64, 384)), mx.ones((384,)), mx.zeros((384,))
    yield compare(
        "rows by the BLAS: layer norm of 8 x 64 x 384, beside mx.fast.layer_norm",
        settings,
        lambda: norm.layer_norm(x, weight, bias, 1e-5),
        lambda: mx.fast.layer_norm(x, weight, bias, 1e-5),
    )
    heads, mask = mx.random.normal((8, 12, 64, 32)), mx.ones((8, 1, 64, 64), mx.bool_)
    yield compare(
        "attention of 8 x 12 heads of 64 x 32 with a mask, beside mx.fast's",
        settings,
        lambda: attention.scaled_dot_product_attention(heads, heads, heads, mask, 0.18, "none"),
        lambda: mx.fast.scaled_dot_product_attention(heads, heads, heads, scale=0.18, mask=mask),
    )


def convolutions(settings: Settings) -> Iterator[Row]:
    wide, kernel = mx.random.normal((1, 56, 56, 64)), mx.random.normal((256, 1, 1, 64))
    ones, zeros = [1, 1], [0, 0]
    yield compare(
        "a kernel of one place as a product: 56 x 56 x 64 to 256",
        settings,
        lambda: conv.conv(wide, kernel, None, ones, zeros, zeros, ones, 1),
        lambda: mx.conv2d(wide, kernel),
    )
    deep, first = mx.random.normal((1, 7, 7, 512)), mx.random.normal((512, 512, 3, 3))
    strided = first.transpose(0, 2, 3, 1)
    row_major = mx.contiguous(strided)
    mx.eval(strided, row_major)
    yield compare(
        "a kernel row-major in memory: 7 x 7 x 512, 3 x 3",
        settings,
        lambda: conv.conv(deep, row_major, None, ones, ones, ones, ones, 1),
        lambda: conv.conv(deep, strided, None, ones, ones, ones, ones, 1),
    )


def depthwise_convolutions(settings: Settings) -> Iterator[Row]:
    def convolution(
        x: mx.array, kernel: mx.array, at_once: int = depthwise.FEW_PRODUCTS
    ) -> Callable[[], mx.array]:
        ones = [1, 1]

        def call() -> mx.array:
            depthwise.FEW_PRODUCTS = at_once
            return depthwise.depthwise_conv(x, kernel, list(x.shape[1:3]), ones, ones, ones, ones)

        return call

    def arrays(size: int, channels: int) -> tuple[mx.array, mx.array, mx.array]:
        """A picture, and a kernel with its channels first in memory and last."""
        x, first = mx.random.normal((1, size, size, channels)), mx.random.normal((channels, 3, 3, 1))
        last = mx.moveaxis(mx.contiguous(mx.moveaxis(first, 0, -1)), -1, 0)
        mx.eval(x, first, last)
        return x, first, last

    x, first, last = arrays(56, 144)
    call, case = convolution(x, last), "depthwise, 56 x 56 x 144, 3 x 3"
    yield compare(f"channels last in the kernel: {case}", settings, call, convolution(x, first))
    yield compare(f"several streams: {case}", settings, call, whole(call))
    x, first, last = arrays(7, 960)
    case = "products at once: depthwise, 7 x 7 x 960, 3 x 3"
    yield compare(case, settings, convolution(x, last), convolution(x, last, at_once=0))


def graphs(settings: Settings) -> Iterator[Row]:
    """A decoder's tokens, where the arrays are small and what Python does for each call shows."""
    import tempfile

    from handwritten import Ours, generate
    from torch_models import NEW, PROMPT, export_decoder, load_decoder, prompt, with_cache

    model = load_decoder("Llama, tiny")
    ids, new = mx.array(prompt(model.config.vocab_size).numpy()), 8 if settings.quick else NEW
    with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
        mlxify.convert(export_decoder(with_cache(model))).save(file.name)
        sides = {WITH: Ours(mlxify.load(file.name)), WITHOUT: Ours(mlxify.load(file.name, compile=False))}
    first = mx.array([[7]])
    apart = difference(*(side.prefill(ids) for side in sides.values()))
    calls = {label: (lambda s=side: generate(s, first, PROMPT, new)) for label, side in sides.items()}
    case = "graphs that MLX rebuilds: tiny Llama, 64 tokens"
    yield alternate(calls, settings).row(
        case, WITH, WITHOUT, scale=1e3 / new, unit="ms a token", difference=apart
    )


def memory(settings: Settings) -> Iterator[Row]:
    def child(switch: str) -> float:
        command = [sys.executable, "-c", KEPT]
        run = subprocess.run(
            command, env={**os.environ, SWITCH: switch}, capture_output=True, text=True, check=True
        )
        return float(run.stdout)

    pairs = [(child("on"), child("off")) for _ in range(1 if settings.quick else 5)]
    ratios = sorted(a / b for a, b in pairs)
    ours, theirs = (sorted(side)[len(side) // 2] * 1e3 for side in zip(*pairs, strict=True))
    yield Row(
        "freed memory kept: x * x + 1 of 64 MB",
        WITH,
        WITHOUT,
        ratios[len(ratios) // 2],
        ratios[0],
        ratios[-1],
        ours,
        theirs,
    )


if __name__ == "__main__":
    mx.set_default_device(mx.cpu)
    keep_freed_memory()
    groups = (streams, products, convolutions, depthwise_convolutions, rows, graphs, memory)
    main(__doc__ or "", {f.__name__: f for f in groups}, quick=("products",))
