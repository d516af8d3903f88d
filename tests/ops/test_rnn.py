"""Recurrent layers."""

import time

import mlx.core as mx
import pytest
import torch
from torch import nn
from torch.export import Dim

from mlxify.ops.rnn import gru, lstm, rnn

from .harness import Case, check, params
from .test_linear import rand

HALF, F32, F64 = torch.float16, torch.float32, torch.float64
KINDS = {
    "LSTM": nn.LSTM,
    "GRU": nn.GRU,
    "tanh": nn.RNN,
    "relu": lambda *a, **k: nn.RNN(*a, nonlinearity="relu", **k),
}
X = rand(5, 2, 4)


def layer(kind, *sizes, dtype=F32, **settings):
    torch.manual_seed(0)
    return KINDS[kind](*(sizes or (4, 6)), **settings).to(dtype)


def states(kind, count, batch=2, size=6, projection=None):
    h = rand(count, batch, projection or size)
    return (h, rand(count, batch, size) + 0.1) if kind == "LSTM" else h


CASES = [
    *(Case(kind, layer(kind), (X,), decomposed=True) for kind in KINDS),
    *(Case(f"{kind} batch first", layer(kind, batch_first=True), (X,)) for kind in KINDS),
    *(Case(f"{kind} no biases", layer(kind, bias=False), (X,)) for kind in KINDS),
    *(Case(f"{kind} layers, directions, states", layer(kind, 4, 6, 2, bidirectional=True), (X, states(kind, 4)), decomposed=True) for kind in KINDS),
    # PyTorch rounds the states to half after each operation of each step, the instructions at the end.
    *(Case(f"{kind} half", layer(kind, dtype=HALF), (X.half(),), tolerance=(3e-3, 1e-3)) for kind in KINDS),
    *(Case(f"{name} float64", lambda x, h, *w, name=name: getattr(torch.ops.aten, name).input(x, h, w, False, 1, 0.0, False, False, False),
           (X.double(), rand(1, 2, 3, dtype=F64), rand(3 * n, 4, dtype=F64), rand(3 * n, 3, dtype=F64))) for name, n in (("gru", 3), ("rnn_tanh", 1))),
    Case("LSTM projection", layer("LSTM", 4, 6, 2, proj_size=3, bidirectional=True), (X, states("LSTM", 4, projection=3))),
    Case("LSTM projection, no biases", layer("LSTM", proj_size=3, bias=False), (X,)),
    Case("LSTM one step", layer("LSTM"), (X[:1],), compiled=True),
    Case("LSTM unbatched", layer("LSTM"), (X[:, 0],)),
    Case("GRU unbatched, states", layer("GRU", 4, 6, 2), (X[:, 0], states("GRU", 2)[:, 0])),
    Case("LSTM dropout in inference", layer("LSTM", 4, 6, 2, dropout=0.5), (X,)),
    Case("LSTM large gates", lambda x, *w: torch.ops.aten.lstm.input(x * 1000, [x[:1, :, :3] * 0] * 2, w, False, 1, 0.0, False, False, False),
         (X, rand(12, 4), rand(12, 3))),
    *(Case(f"{kind} dynamic batch", layer(kind, 4, 6, 2, batch_first=True), (X,), dynamic=({0: Dim("b")},),
           also=((rand(1, 2, 4),), (rand(9, 2, 4),))) for kind in KINDS),
]  # fmt: skip

CELLS = [
    Case("LSTMCell", nn.LSTMCell(4, 6), (X[0],), decomposed=True),
    Case("LSTMCell states", nn.LSTMCell(4, 6, bias=False), (X[0], (rand(2, 6), rand(2, 6) + 0.1))),
    Case("LSTMCell unbatched", nn.LSTMCell(4, 6), (X[0, 0],)),
    Case("LSTMCell half", nn.LSTMCell(4, 6).half(), (X[0].half(),)),
    Case("GRUCell", nn.GRUCell(4, 6), (X[0], rand(2, 6)), decomposed=True),
    Case("GRUCell no biases", nn.GRUCell(4, 6, bias=False), (X[0],)),
    Case("RNNCell", nn.RNNCell(4, 6), (X[0], rand(2, 6)), decomposed=True),
    Case("RNNCell relu", nn.RNNCell(4, 6, nonlinearity="relu"), (X[0], rand(2, 6))),
    Case("LSTMCell dynamic", nn.LSTMCell(4, 6), (X[0],), dynamic=({0: Dim("b")},), also=((rand(1, 4),), (rand(9, 4),))),
]  # fmt: skip


@params(CASES)
def test_layers(case, tmp_path):
    check(case, tmp_path)


@params(CELLS)
def test_cells(case, tmp_path):
    check(case, tmp_path)


def test_many_steps():
    """A graph of 200,000 operations is built and let go of without recursion."""
    start = time.perf_counter()
    ys, h, c = lstm(
        mx.ones((20_000, 1, 2)),
        mx.zeros((1, 3)),
        mx.zeros((1, 3)),
        mx.ones((12, 2)),
        mx.ones((12, 3)),
        None,
        None,
        True,
    )
    mx.eval(ys, h, c)
    assert mx.allclose(ys[0], h) and time.perf_counter() - start < 60


def test_hostile_shapes_are_refused():
    x, h, c = mx.zeros((5, 2, 4)), mx.zeros((2, 6)), mx.zeros((2, 6))
    w_ih, w_hh, bias = mx.zeros((24, 4)), mx.zeros((24, 6)), mx.zeros((24,))
    for bad in (
        (x, h, c, w_ih[:20], w_hh, bias, None),
        (x, h[:1], c, w_ih, w_hh, bias, None),
        (x, h, c[:, :5], w_ih, w_hh, bias, None),
        (x, h, c, w_ih, w_hh[:, :5], bias, None),
        (x, h, c, w_ih, w_hh, bias[:1], None),
        (x, h, c, w_ih, w_hh, bias, mx.zeros((3, 6))),
        (x[0], h, c, w_ih, w_hh, bias, None),
        (x.astype(mx.float16), h, c, w_ih, w_hh, bias, None),
        (mx.broadcast_to(x[:1], (2**30, 2, 4)), h, c, w_ih, w_hh, bias, None),
    ):
        with pytest.raises(ValueError):
            lstm(*bad, False)
    with pytest.raises(ValueError):
        gru(x, h, w_ih, w_hh, bias, bias, False)
    with pytest.raises(ValueError):
        rnn(x, h, w_ih[:6], w_hh[:6], bias[:5], "tanh", False)
