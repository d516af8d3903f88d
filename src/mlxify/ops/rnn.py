"""Recurrent layers: LSTM, GRU and the plain RNN. An instruction runs one direction of one layer over all steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import mlx.core as mx

from ..errors import refuse
from ..isa import Array, instruction
from ..lowering import HALVES, lowers
from .arithmetic import add
from .dropout import dropout as dropped
from .exponential import exp_of
from .join import concatenate, stack
from .linear import product, product_sum
from .shape import expand_dims, slice_, squeeze, transpose

MAX_STEPS = 1 << 20
Step = Callable[..., tuple[mx.array, ...]]


def _zeros(x: mx.array, states: list[mx.array], weights: list[mx.array | None], gates: int) -> list[mx.array]:
    """Checks that the shapes and dtypes of a layer fit; zeros of its results' shapes: outputs and last states."""
    w_ih, w_hh, *rest = weights
    assert w_ih is not None and w_hh is not None
    hidden = w_hh.shape[0] // gates
    shapes = [(gates * hidden, x.shape[-1]), (gates * hidden, states[0].shape[-1])]
    fits = x.ndim == 3 and [w.shape for w in (w_ih, w_hh)] == shapes and 0 < hidden == states[-1].shape[-1]
    fits = fits and all(s.ndim == 2 and s.shape[0] == x.shape[1] for s in states)
    for array in (*states, *weights):
        fits = fits and (array is None or array.dtype == x.dtype)
    if not fits or not mx.issubdtype(x.dtype, mx.floating):
        raise ValueError("the input, states and weights of a recurrent layer do not fit each other")
    if any(v is not None and v.ndim == 1 and v.shape != (gates * hidden,) for v in rest):
        raise ValueError("the biases of a recurrent layer do not fit its weights")
    if x.shape[0] > MAX_STEPS:
        raise ValueError(f"{x.shape[0]} steps of a recurrent layer: more than {MAX_STEPS}")
    outputs = mx.zeros((*x.shape[:2], states[0].shape[-1]), x.dtype)
    return [outputs, *(mx.zeros(s.shape, x.dtype) for s in states)]


def _lstm_shapes(x, h, c, w_ih, w_hh, bias, w_hr, reverse):
    if (w_hr is None and h.shape != c.shape) or (
        w_hr is not None and w_hr.shape != (h.shape[-1], c.shape[-1])
    ):
        raise ValueError("the states of an LSTM do not fit its projection")
    return _zeros(x, [h, c], [w_ih, w_hh, bias, w_hr], 4)


@instruction(abstract=_lstm_shapes, chain=0)
def lstm(
    x: Array,
    h: Array,
    c: Array,
    w_ih: Array,
    w_hh: Array,
    bias: Array | None,
    w_hr: Array | None,
    reverse: bool,
) -> tuple[Array, Array, Array]:
    """One direction of an LSTM layer: its outputs (t, b, p), the last h and the last c.

    x: (t, b, n), h: (b, p), c: (b, k), w_ih: (4 * k, n), w_hh: (4 * k, p), bias: (4 * k,), w_hr: (p, k), or None when
    p is k. At each step, from the last to the first if `reverse`, with i, f, g, o = x[t] @ w_ih.T + h @ w_hh.T + bias

        c = sigmoid(f) * c + sigmoid(i) * tanh(g),  h = (sigmoid(o) * tanh(c)) @ w_hr.T

    Floats of one dtype; halves are computed in float32.
    """
    _lstm_shapes(x, h, c, w_ih, w_hh, bias, w_hr, reverse)
    size = c.shape[-1]

    def step(gates: mx.array, h: mx.array, c: mx.array, w_hh: mx.array, w_hr: mx.array | None) -> Any:
        gates = product_sum(gates, h, w_hh, 1.0, 1.0)
        i, f, _, o = mx.split(_sigmoid(gates), 4, axis=-1)
        c = f * c + i * mx.tanh(gates[:, 2 * size : 3 * size])
        h = o * mx.tanh(c)
        return (h if w_hr is None else product(h, w_hr)), c

    return _run(step, x, [h, c], w_ih, bias, [w_hh, w_hr], reverse)


def _gru_shapes(x, h, w_ih, w_hh, b_ih, b_hh, reverse):
    return _zeros(x, [h], [w_ih, w_hh, b_ih, b_hh], 3)


@instruction(abstract=_gru_shapes, chain=0)
def gru(
    x: Array, h: Array, w_ih: Array, w_hh: Array, b_ih: Array | None, b_hh: Array | None, reverse: bool
) -> tuple[Array, Array]:
    """One direction of a GRU layer: its outputs (t, b, k) and the last h.

    x: (t, b, n), h: (b, k), w_ih: (3 * k, n), w_hh: (3 * k, k), biases: (3 * k,). At each step, from the last to the
    first if `reverse`, with xr, xz, xn = x[t] @ w_ih.T + b_ih and hr, hz, hn = h @ w_hh.T + b_hh

        z = sigmoid(xz + hz),  n = tanh(xn + sigmoid(xr + hr) * hn),  h = (h - n) * z + n

    Floats of one dtype; halves are computed in float32.
    """
    _gru_shapes(x, h, w_ih, w_hh, b_ih, b_hh, reverse)
    size = h.shape[-1]

    def step(gates: mx.array, h: mx.array, w_hh: mx.array, b_hh: mx.array | None) -> Any:
        own = product(h, w_hh) if b_hh is None else product_sum(b_hh, h, w_hh, 1.0, 1.0)
        r, z = mx.split(_sigmoid(gates[:, : 2 * size] + own[:, : 2 * size]), 2, axis=-1)
        n = mx.tanh(gates[:, 2 * size :] + r * own[:, 2 * size :])
        return ((h - n) * z + n,)

    return _run(step, x, [h], w_ih, b_ih, [w_hh, b_hh], reverse)


def _rnn_shapes(x, h, w_ih, w_hh, bias, nonlinearity, reverse):
    return _zeros(x, [h], [w_ih, w_hh, bias], 1)


@instruction(abstract=_rnn_shapes, chain=0)
def rnn(
    x: Array,
    h: Array,
    w_ih: Array,
    w_hh: Array,
    bias: Array | None,
    nonlinearity: Literal["tanh", "relu"],
    reverse: bool,
) -> tuple[Array, Array]:
    """One direction of a plain recurrent layer: its outputs (t, b, k) and the last h.

    x: (t, b, n), h: (b, k), w_ih: (k, n), w_hh: (k, k), bias: (k,). At each step, from the last to the first if
    `reverse`, h = nonlinearity(x[t] @ w_ih.T + h @ w_hh.T + bias). Floats of one dtype; halves in float32.
    """
    _rnn_shapes(x, h, w_ih, w_hh, bias, nonlinearity, reverse)

    def step(gates: mx.array, h: mx.array, w_hh: mx.array) -> Any:
        total = product_sum(gates, h, w_hh, 1.0, 1.0)
        return (mx.tanh(total) if nonlinearity == "tanh" else mx.maximum(total, 0),)

    return _run(step, x, [h], w_ih, bias, [w_hh], reverse)


def _run(
    step: Step, x: Any, states: Any, w_ih: Any, bias: Any, weights: Any, reverse: bool,
) -> Any:  # fmt: skip
    """All steps: step(x[t] @ w_ih.T + bias, *states, *weights), matrices transposed, gives the next states."""
    dtype = x.dtype
    if dtype in HALVES:
        x, w_ih, bias = _wide(x), _wide(w_ih), _wide(bias)
        states, weights = [_wide(s) for s in states], [_wide(w) for w in weights]
    weights = [w.T if w is not None and w.ndim == 2 else w for w in weights]
    gates = product(x, w_ih.T) if bias is None else product_sum(bias, x, w_ih.T, 1.0, 1.0)
    outputs: Any = []
    for t in range(x.shape[0] - 1, -1, -1) if reverse else range(x.shape[0]):
        states = step(gates[t], *states, *weights)
        outputs.append(states[0])
    outputs = (
        mx.stack(outputs[::-1] if reverse else outputs)
        if outputs
        else mx.zeros((0, *states[0].shape), x.dtype)
    )
    return tuple(v.astype(dtype) for v in (outputs, *states))


def _wide(x: mx.array | None) -> mx.array | None:
    return x if x is None else x.astype(mx.float32)


def _sigmoid(x: mx.array) -> mx.array:
    return 1 / (1 + exp_of(-x)) if x.dtype == mx.float64 else mx.sigmoid(x)


@lowers("aten.lstm.input")
def lstm_(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    def layer(x, states, weights, reverse):
        w_ih, w_hh, bias, w_hr = _parameters(weights, has_biases)
        return lstm(x, *states, w_ih, w_hh, bias, w_hr, reverse)

    return _layers(layer, input, hx, params, num_layers, dropout, train, bidirectional, batch_first)


@lowers("aten.gru.input")
def gru_(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    def layer(x, states, weights, reverse):
        return gru(x, *states, *weights, *[None] * (4 - len(weights)), reverse)

    return _layers(layer, input, [hx], params, num_layers, dropout, train, bidirectional, batch_first)


def _plain(nonlinearity):
    def lowering(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
        def layer(x, states, weights, reverse):
            return rnn(x, *states, *_parameters(weights, has_biases)[:3], nonlinearity, reverse)

        return _layers(layer, input, [hx], params, num_layers, dropout, train, bidirectional, batch_first)

    return lowering


lowers("aten.rnn_tanh.input")(_plain("tanh"))
lowers("aten.rnn_relu.input")(_plain("relu"))


def _parameters(weights, has_biases):
    """w_ih, w_hh, the sum of the two biases, and a projection; each of the last two may be None."""
    w_ih, w_hh, *rest = weights
    assert w_ih is not None and w_hh is not None
    bias = add(*rest[:2]) if has_biases else None
    projection = rest[2:] if has_biases else rest
    return w_ih, w_hh, bias, projection[0] if projection else None


def _layers(layer, x, states, params, count, dropout, train, bidirectional, batch_first):
    """All layers and directions: the outputs of the last layer, then the last states of all."""
    x = transpose(x, [1, 0, 2]) if batch_first else x
    directions = 2 if bidirectional else 1
    each = len(params) // (count * directions)
    last = []
    for number in range(count):
        outputs = []
        for direction in range(directions):
            place = number * directions + direction
            initial = [squeeze(slice_(s, [place], [place + 1], [1], [0]), [0]) for s in states]
            output, *final = layer(x, initial, params[place * each : (place + 1) * each], direction == 1)
            outputs.append(output)
            last.append(final)
        x = outputs[0] if directions == 1 else concatenate(outputs, 2)
        x = x if number == count - 1 else dropped(x, dropout, train)
    x = transpose(x, [1, 0, 2]) if batch_first else x
    return [x, *(stack(list(states), 0) for states in zip(*last, strict=True))]


@lowers("aten.lstm.data", "aten.gru.data", "aten.rnn_tanh.data", "aten.rnn_relu.data")
def packed(data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional):
    raise refuse("packed sequences are not supported; pass padded ones and mask the result")


@lowers("aten.lstm_cell")
def lstm_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    _, h, c = lstm(expand_dims(input, [0]), *hx, w_ih, w_hh, _sum(b_ih, b_hh), None, False)
    return [h, c]


@lowers("aten.gru_cell")
def gru_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    return gru(expand_dims(input, [0]), hx, w_ih, w_hh, b_ih, b_hh, False)[1]


@lowers("aten.rnn_tanh_cell")
def rnn_tanh_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    return rnn(expand_dims(input, [0]), hx, w_ih, w_hh, _sum(b_ih, b_hh), "tanh", False)[1]


@lowers("aten.rnn_relu_cell")
def rnn_relu_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    return rnn(expand_dims(input, [0]), hx, w_ih, w_hh, _sum(b_ih, b_hh), "relu", False)[1]


def _sum(x, y):
    return y if x is None else x if y is None else add(x, y)
