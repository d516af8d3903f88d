"""Weights as the products of a CPU read them fastest."""

from __future__ import annotations

from collections.abc import Iterator

import mlx.core as mx

from .blas import fast_blas
from .ops.device import on_cpu
from .program import Graph

LEAST = 1 << 14
"""Elements of a linear layer's weight that is worth the work."""
CONVOLUTIONS = ("conv", "conv_transpose")
"""Instructions whose second argument is a kernel, row-major in memory."""


def turn_weights(graph: Graph) -> None:
    """On a CPU, lay weights out in memory as the instructions that use them read them, once.

    With a fast BLAS those of linear layers go column by column: a product of few rows then takes between half and four
    fifths of the time. Those of convolutions have their channels last, lest each call copies them. Values, shapes and
    files stay the same. The largest come first, each in place of the old one: of weights that are still to be read
    from a file, only one is in memory twice.
    """
    if graph.turned or not on_cpu():
        return
    graph.turned = True
    orders = dict(_orders(graph))
    for name in sorted(orders, key=lambda name: -graph.weights[name].size):
        order = orders[name]
        laid_out = mx.contiguous(mx.transpose(graph.weights[name], order))
        mx.eval(laid_out)
        graph.weights[name] = mx.transpose(laid_out, [order.index(axis) for axis in range(len(order))])
        mx.eval(graph.weights[name])


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
                yield transposed[used]
