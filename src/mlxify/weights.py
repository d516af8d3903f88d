"""Weights as the products of a CPU read them fastest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import mlx.core as mx
import numpy as np

from .blas import fast_blas
from .device import on_cpu
from .ops.depthwise import is_depthwise
from .program import Graph, Instr, Ref

LEAST = 1 << 14
"""Elements of a linear layer's weight that is worth the work."""
LARGE, TILE = 1 << 22, 256
"""Elements of a matrix that is transposed tile by tile; rows and columns of a tile."""
CONVOLUTIONS = ("conv", "conv_transpose")
"""Instructions whose second argument is a kernel."""


def turn_weights(graph: Graph) -> None:
    """On a CPU, lay weights out in memory as the instructions that use them read them, once.

    With a fast BLAS those of linear layers go column by column: a product of few rows then takes between half and four
    fifths of the time. Those of convolutions go as `kernel_order` says. Values, shapes and files stay the same. The
    largest come first, each in place of the old one: of weights that are still to be read from a file, only one is in
    memory twice.
    """
    if graph.turned or not on_cpu():
        return
    graph.turned = True
    orders = dict(_orders(graph))
    for name in sorted(orders, key=lambda name: -graph.weights[name].size):
        graph.weights[name] = laid_out(graph.weights[name], orders[name])
        mx.eval(graph.weights[name])


def kernel_order(instr: Instr, shape: Sequence[int]) -> list[int]:
    """The axes of a convolution's kernel as they lie in memory, lest each call copies it: row-major, of a depthwise one
    on a CPU the channels last.
    """
    axes, groups = list(range(len(shape))), instr.args[7]
    known = instr.op == "conv" and not isinstance(groups, Ref)
    return [*axes[1:], 0] if known and on_cpu() and is_depthwise(shape, groups) else axes


def laid_out(x: mx.array, order: list[int]) -> mx.array:
    """x, in memory with its axes in this order."""
    return mx.transpose(_reordered(x, order), [order.index(axis) for axis in range(len(order))])


def _reordered(x: mx.array, order: list[int]) -> mx.array:
    """x with its axes in another order, row-major."""
    if x.ndim != 2 or x.size < LARGE:
        result = mx.contiguous(mx.transpose(x, order))
        mx.eval(result)
        return result
    # In tiles that fit a processor's cache, by several threads: three to four times as fast as MLX.
    result = mx.contiguous(mx.zeros(x.shape[::-1], x.dtype))
    mx.eval(x, result)
    source, target = np.array(x, copy=False), np.array(result, copy=False)

    def band(i: int) -> None:
        for j in range(0, x.shape[1], TILE):
            target[j : j + TILE, i : i + TILE] = source[i : i + TILE, j : j + TILE].T

    with ThreadPoolExecutor(fast_blas().threads or 1) as threads:
        list(threads.map(band, range(0, x.shape[0], TILE)))
    return result


def _orders(graph: Graph) -> Iterator[tuple[str, list[int]]]:
    """Weights, and their axes in the order in which they should lie in memory."""
    for method in graph.methods.values():
        transposed: dict[int, tuple[str, list[int]]] = {}
        for instr in method.all_instrs():
            used = int(instr.args[1]) if instr.op in ("linear", *CONVOLUTIONS) else None
            if instr.op == "transpose" and int(instr.args[0]) in method.weights:
                transposed[instr.outputs[0]] = (method.weights[int(instr.args[0])], list(instr.args[1]))
            elif instr.op == "linear" and used in method.weights and fast_blas().fast:
                weight = graph.weights[method.weights[used]]
                if weight.dtype == mx.float32 and weight.size >= LEAST:  # others are cast first
                    yield method.weights[used], [1, 0]
            elif used in transposed:
                name, axes = transposed[used]
                if instr.op in CONVOLUTIONS:
                    shape = [graph.weights[name].shape[axis] for axis in axes]
                    axes = [axes[axis] for axis in kernel_order(instr, shape)]
                yield name, axes
