"""Control flow: cond and while_loop as models use them, nested and over weights; what is not taken is not computed."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch._higher_order_ops import while_loop
from torch.export import Dim

import mlxify
from mlxify.isa import INSTRUCTIONS
from mlxify.run import Program
from tests.ops.harness import Case, _Function, check, compare, params

from .rows import randn

X, Y = randn(4, 3), randn(4, 3, seed=1)
UP, DOWN = torch.ones(4, 3), -torch.ones(4, 3)
YES, NO = torch.tensor(True), torch.tensor(False)
N = Dim("n", min=1, max=30)


def if_positive(x, true_fn, false_fn, *operands):
    return torch.cond(x.sum() > 0, true_fn, false_fn, operands)


class Gate(nn.Module):
    """A cond whose branches use parameters, by closure."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.up, self.down, self.scale = nn.Linear(3, 5), nn.Linear(3, 5), nn.Parameter(torch.randn(5))

    def forward(self, x):
        return torch.cond(
            x.sum() > 0, lambda x: self.up(x) * self.scale, lambda x: torch.tanh(self.down(x)), (x,)
        )


class NestedGate(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.a, self.b, self.c = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x):
        def outer(x):
            h = self.a(x)
            return torch.cond(h.mean() > x.mean(), lambda h: self.b(h) + h, lambda h: self.c(h), (h,))

        return torch.cond(
            x.sum() > 0, outer, lambda x: torch.cond(x[0, 0] < -0.5, lambda x: x * 2, self.c, (x,)), (x,)
        )


def pytrees(x, y):
    def yes(d):
        return {"sum": d["x"] + d["y"], "pair": (d["x"] * 2, [d["y"].argmax(1)])}

    def no(d):
        return {"sum": d["x"] - d["y"], "pair": (d["y"] * 2, [d["x"].argmin(1)])}

    return torch.cond((x > y).any(), yes, no, ({"x": x, "y": y},))


def by_shape(x):
    return torch.cond(x.shape[0] > 4, lambda x: x.cos(), lambda x: x.sin(), (x,))


def by_shape_and_data(x):
    return torch.cond(
        (x.sum() > 0) & (x.shape[0] > 4), lambda x: x * x.shape[0], lambda x: x - x.shape[0], (x,)
    )


def of_sizes(x):
    """Branches that use the size as a number, a captured tensor and a constant."""
    table = torch.arange(30.0)
    return torch.cond(x.mean() > 0, lambda x: x + table[: x.shape[0]], lambda x: x.flip(0) - x.shape[0], (x,))


def scaled_and_written(x):
    y = x * torch.tensor([1.0, 2, 3])
    y[0] = 5
    return y


def written(x):
    def yes(x):
        y = x.clone()
        y[0] = 5
        y[:, 1] += 1
        return y

    return torch.cond(x.sum() > 0, yes, lambda x: x * 2, (x,))


CONDS = [
    Case("one result", lambda x: if_positive(x, lambda x: x + 1, lambda x: x - 1, x), (UP,), also=((DOWN,), (X,)), compiled=True),
    Case("a bool as the predicate", lambda p, x: torch.cond(p, lambda x: x.sin(), lambda x: x.cos(), (x,)), (YES, X), also=((NO, X),)),
    Case("a predicate of one element", lambda p, x: torch.cond(p, lambda x: x.sin(), lambda x: x.cos(), (x,)), (YES.reshape(1), X), also=((NO.reshape(1), X),)),
    Case("a pytree of results", pytrees, (X, Y), also=((X - 9, Y), (X + 9, Y)), compiled=True),
    Case("a list of results", lambda x: if_positive(x, lambda x: (x + 1, x.sum()), lambda x: (x * 0.5, x.mean()), x), (UP,), also=((DOWN,),)),
    Case("an operand as the result", lambda x: if_positive(x, lambda a, b: (b.clone(), a.clone()), lambda a, b: (a.clone(), b.clone()), x, x * 2), (UP,), also=((DOWN,),)),
    Case("a constant as the result", lambda x: if_positive(x, lambda x: torch.ones(2), lambda x: torch.zeros(2), x), (UP,), also=((DOWN,),)),
    Case("integers and bools", lambda x: if_positive(x, lambda x: (x > 0, x.argsort(1)), lambda x: (x < 0, x.to(torch.int64)), x), (UP,), also=((DOWN,),)),
    Case("half precision", lambda x: if_positive(x, lambda x: x.exp(), lambda x: x.softmax(1), x), (UP.half(),), also=((DOWN.half(),),)),
    Case("no operands", lambda x: torch.cond(x.sum() > 0, lambda: x * 2, lambda: x * 3, ()), (UP,), also=((DOWN,),)),
    Case("a closure over values", lambda x, y: torch.cond(x.sum() > 0, lambda x: x * y, lambda x: x - y.sum(), (x,)), (UP, Y), also=((DOWN, Y),)),
    Case("parameters", Gate(), (UP,), also=((DOWN,), (X,)), compiled=True),
    Case("nested", NestedGate(), (UP,), also=((DOWN,), (X,), (-X,), (DOWN * 0.1,)), compiled=True),
    Case("one after another", lambda x: if_positive(if_positive(x, lambda x: x - 3, lambda x: x + 3, x), lambda x: x * 2, lambda x: x * 3, x), (UP,), also=((DOWN,),)),
    Case("by the shape", by_shape, (randn(5),), dynamic=({0: N},), also=((randn(4),), (randn(30),), (randn(1),))),
    Case("by the shape and data", by_shape_and_data, (torch.ones(5),), dynamic=({0: Dim("n", min=5, max=30)},), also=((torch.ones(7),), (torch.ones(30),), (-torch.ones(9),)), compiled=True),
    Case("of sizes", of_sizes, (randn(5),), dynamic=({0: N},), also=((torch.ones(4),), (-torch.ones(30),), (torch.ones(1),))),
    Case("results of dynamic size", lambda x: if_positive(x, lambda x: x.repeat(2), lambda x: torch.cat([x, x + 1]), x), (randn(5),), dynamic=({0: N},), also=((torch.ones(4),), (-torch.ones(30),))),
    Case("the same branches twice", lambda x: [if_positive(v, lambda v: v.exp(), lambda v: v.abs(), v) for v in (x, x * 1)], (X,), also=((-UP,),)),
    Case("results of two sizes", lambda x: if_positive(x, lambda x: x[:2] * 1, lambda x: x[:3] * 1, x).sum(0), (UP,), also=((DOWN,),), compiled=True),
    Case("as many rows or twice", lambda x: if_positive(x, lambda x: x + 0, lambda x: torch.cat([x, x]), x) * 2, (torch.ones(5),), dynamic=({0: N},), also=((torch.ones(9),), (-torch.ones(9),))),
    Case("numbers", lambda x: x + torch.cond(x.sum() > 0, lambda x: 3, lambda x: 4, (x,)), (UP,), also=((DOWN,),)),
    Case("a number as a size", lambda x: torch.zeros(torch.cond(x.sum() > 0, lambda x: 3, lambda x: 4, (x,))) + 1, (UP,), also=((DOWN,),)),
    Case("an item in a branch", lambda x, i: torch.cond(x.sum() > 0, lambda x, i: x + i.item(), lambda x, i: x - 1, (x, i)), (UP, torch.tensor(4)), also=((DOWN, torch.tensor(4)),)),
    Case("an item as the predicate", lambda x, i: torch.cond(i.item() > 3, lambda x: x + 1, lambda x: x - 1, (x,)), (UP, torch.tensor(4)), also=((UP, torch.tensor(2)),)),
    Case("nonzero in a branch", lambda x: if_positive(x, lambda x: x.nonzero().sum(), lambda x: x.argmax(), x), (UP,), also=((DOWN,),)),
    Case("an index that only one branch allows", lambda x, i: torch.cond(x.sum() > 0, lambda x, i: x[i], lambda x, i: x * 2, (x, i)), (UP, torch.tensor([0, 1, 2, 3])), also=((DOWN, torch.tensor([9, 9, 9, 9])),)),
    Case("a number written", written, (UP,), also=((DOWN,),)),
    Case("constants", lambda x: if_positive(x, lambda x: x * torch.tensor([1.0, 2, 3]) + torch.tensor(2), lambda x: x * 2, x), (UP,), also=((DOWN,),)),
    Case("constants and writes", lambda x: if_positive(x, scaled_and_written, lambda x: x * 2, x), (UP,), refused="a constant tensor inside a branch or loop"),
    Case("dropout in training form", lambda x: if_positive(x, lambda x: nn.functional.dropout(x, 0.5, True), lambda x: x * 2, x), (UP,), refused="random numbers inside a branch or loop"),
    Case("an unused result", lambda x: if_positive(x, lambda x: (x + 1, x + 2), lambda x: (x - 1, x - 2), x)[1], (UP,), also=((DOWN,),)),
]  # fmt: skip


class Recurrence(nn.Module):
    """h = tanh(W h) until its norm is small or the count is out."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.step = nn.Linear(3, 3)

    def forward(self, h, limit):
        def going(i, h):
            return (i < limit) & (h.norm() > 0.3)

        return while_loop(going, lambda i, h: (i + 1, torch.tanh(self.step(h)) * 0.9), (torch.tensor(0), h))


def nested_loops(x):
    """Sums of powers: an inner loop whose count is the outer counter."""

    def outer(i, total):
        _, power = while_loop(
            lambda j, p: j < i, lambda j, p: (j + 1, p * x), (torch.tensor(0), torch.ones_like(x))
        )
        return i + 1, total + power

    return while_loop(lambda i, t: i < 5, outer, (torch.tensor(0), torch.zeros_like(x)))


def loop_with_cond(n, x):
    """Collatz, and a tensor that each kind of step changes in its own way."""

    def body(n, steps, x):
        n, x = torch.cond(n % 2 == 0, lambda n, x: (n // 2, x + 1), lambda n, x: (3 * n + 1, x * 0.5), (n, x))
        return n, steps + 1, x

    return while_loop(lambda n, s, x: n != 1, body, (n, torch.tensor(0), x))


def cond_with_loop(x):
    def loop(x):
        return while_loop(lambda x: x.abs().max() > 1, lambda x: (x / 2,), (x,))[0]

    return torch.cond(x.sum() > 0, loop, lambda x: x * 1.5, (x,))


def greedy(logits):
    """Writes into a buffer at the counter, as a decoding loop does."""

    def body(i, out):
        row = logits.index_select(0, i.reshape(1))
        return i + 1, out.index_copy(0, i.reshape(1), row.argmax(1) + out.sum())

    return while_loop(lambda i, out: i < 6, body, (torch.tensor(0), torch.zeros(6, dtype=torch.int64)))[1]


COUNT = torch.tensor(0)
LOOPS = [
    Case("a counter", lambda x: while_loop(lambda i, x: i < 4, lambda i, x: (i + 1, x * 2), (torch.tensor(0), x)), (X,), compiled=True),
    Case("an int as the counter", lambda x: while_loop(lambda i, x: i < 4, lambda i, x: (i + 1, x + i), (0, x))[1], (X,)),
    Case("no round", lambda x: while_loop(lambda x: x.sum() > 100, lambda x: (x + 1,), (x,)), (X,)),
    Case("on data", lambda x: while_loop(lambda x: x.sum() < 100, lambda x: (x + 1,), (x,)), (X,), also=((X * 90,),)),
    Case("several tensors", lambda x: while_loop(lambda i, a, b: i < 7, lambda i, a, b: (i + 1, b * 1, a + b), (torch.tensor(0), x, x + 1)), (X,)),
    Case("swapped", lambda x, y: while_loop(lambda i, a, b: i > 0, lambda i, a, b: (i - 1, b.clone(), a.clone()), (torch.tensor(3), x, y)), (X, Y)),
    Case("a limit from outside", lambda n, x: while_loop(lambda i, x: i < n, lambda i, x: (i + 1, x.cos()), (torch.tensor(0), x)), (torch.tensor(3), X), also=((torch.tensor(0), X), (torch.tensor(9), X))),
    Case("a closure over a tensor", lambda x, y: while_loop(lambda x: x.sum() < y.abs().sum() * 9, lambda x: (x + y.abs(),), (x,)), (X, Y)),
    Case("parameters", Recurrence(), (randn(3, seed=9), torch.tensor(6)), also=((randn(3, seed=8), torch.tensor(1)), (randn(3, seed=8) * 0.001, torch.tensor(5))), compiled=True),
    Case("nested", nested_loops, (X,)),
    Case("cond inside", loop_with_cond, (torch.tensor(6), X), also=((torch.tensor(27), X), (torch.tensor(1), X))),
    Case("inside cond", cond_with_loop, (UP * 9,), also=((DOWN,),)),
    Case("a buffer filled", greedy, (randn(6, 5),)),
    Case("dynamic sizes", lambda x: while_loop(lambda i, x: i < x.shape[0], lambda i, x: (i + 1, x.roll(1) + i), (torch.tensor(0), x)), (randn(5),), dynamic=({0: N},), also=((randn(1),), (randn(9),))),
    Case("half precision", lambda x: while_loop(lambda i, x: i < 9, lambda i, x: (i + 1, x * 1.01), (torch.tensor(0), x)), (X.bfloat16(),)),
]  # fmt: skip


@params(CONDS)
def test_cond(case, tmp_path):
    check(case, tmp_path)


@params(LOOPS)
def test_while_loop(case, tmp_path):
    check(case, tmp_path)


class EarlyExit(nn.Module):
    """A classifier of two halves: the second only runs where the first is not sure."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(7)
        self.first, self.head = nn.Sequential(nn.Linear(8, 16), nn.GELU()), nn.Linear(16, 4)
        self.second = nn.Sequential(
            *(nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16), nn.GELU()) for _ in range(6))
        )
        self.last = nn.Linear(16, 4)

    def forward(self, x):
        h = self.first(x)
        early = self.head(h)
        sure = early.softmax(-1).amax(-1).min() > 0.5
        return torch.cond(
            sure, lambda h, early: early * 1, lambda h, early: self.last(self.second(h)), (h, early)
        )


def counted(monkeypatch):
    """The instructions that programs bound from now on run, by name, in order."""
    ran = []

    def counting(name, fn):
        return lambda *args: (ran.append(name), fn(*args))[1]

    for name, schema in list(INSTRUCTIONS.items()):
        monkeypatch.setitem(INSTRUCTIONS, name, replace(schema, fn=counting(name, schema.fn)))
    return ran


@pytest.mark.parametrize("compiled", [False, True])
def test_the_skipped_half_of_an_early_exit_is_not_run(compiled, monkeypatch):
    model = EarlyExit().eval()
    graph = mlxify.convert(model, (randn(1, 8),)).graph
    program = Program(graph, compile=compiled)
    sure, unsure = randn(1, 8, seed=3) * 30, randn(1, 8, seed=3) * 0.01
    with torch.no_grad():
        expected = [model(x) for x in (sure, unsure)]
    compare([program(sure), program(unsure)], expected)
    ran = counted(monkeypatch)
    program = Program(graph, compile=compiled)
    counts = []
    for x, wanted in zip((sure, unsure, sure), (*expected, expected[0]), strict=True):
        ran.clear()
        compare(program(x), wanted)
        counts.append(ran.count("layer_norm"))
    assert counts == [0, 6, 0]


def test_a_branch_not_taken_cannot_fail():
    """Its check of data holds only where it is taken."""

    def model(x, i):
        def pick(x, i):
            k = i.item()
            torch._check(k >= 0)
            torch._check(k < 4)
            return x.select(0, k) * 1

        return torch.cond(x.sum() > 0, pick, lambda x, i: x.sum(0), (x, i))

    program = mlxify.convert(_Function(model), (UP, torch.tensor(3)))
    compare(program(UP, torch.tensor(2)), UP[2])
    compare(program(DOWN, torch.tensor(99)), DOWN.sum(0))
    with pytest.raises(mlxify.InputError):
        program(UP, torch.tensor(99))


class Decoder(nn.Module):
    """Greedy decoding with an LSTM cell until the end token, at most 12 tokens, in one program."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(11)
        self.embed, self.cell, self.out = nn.Embedding(7, 6), nn.LSTMCell(6, 10), nn.Linear(10, 7)

    def forward(self, token, h, c):
        def going(i, token, h, c, found):
            return (i < 12) & (token != 0).all()

        def step(i, token, h, c, found):
            h, c = self.cell(self.embed(token), (h, c))
            token = self.out(h).argmax(-1)
            return i + 1, token, h, c, found.index_copy(0, i.reshape(1), token)

        start = (torch.tensor(0), token, h, c, torch.zeros(12, dtype=torch.int64))
        return while_loop(going, step, start)


def test_an_lstm_that_decodes(tmp_path):
    state = [(randn(1, 10, seed=s) * 3, randn(1, 10, seed=s + 1) * 3) for s in (1, 5, 7, 9)]
    calls = [(torch.tensor([t]), *state[t - 1]) for t in (1, 2, 3, 4)]
    check(Case("decode", Decoder(), calls[0], also=tuple(calls[1:]), compiled=True), tmp_path)
