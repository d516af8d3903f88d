"""Control flow: cond, while_loop, map, scan and associative_scan as models use them, nested and over weights."""

import torch
from torch import nn
from torch._higher_order_ops import associative_scan, scan, while_loop
from torch._higher_order_ops import map as hop_map
from torch.export import Dim

from tests.ops.harness import Case, check, params

from .rows import randn

X, Y = randn(4, 3), randn(4, 3, seed=1)
UP, DOWN = torch.ones(4, 3), -torch.ones(4, 3)
YES, NO = torch.tensor(True), torch.tensor(False)
ROWS = randn(6, 3, seed=2)
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
    table, n = torch.arange(30.0), x.shape[0]
    return torch.cond(
        x.mean() > 0, lambda x: x + table[:n], lambda x: x.flip(0) - torch.full((n,), 2.0), (x,)
    )


CONDS = [
    Case("one result", lambda x: if_positive(x, lambda x: x + 1, lambda x: x - 1, x), (UP,), also=((DOWN,), (X,)), compiled=True, decomposed=True),
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
    Case("parameters", Gate(), (UP,), also=((DOWN,), (X,)), compiled=True, decomposed=True),
    Case("nested", NestedGate(), (UP,), also=((DOWN,), (X,), (-X,), (DOWN * 0.1,)), compiled=True),
    Case("one after another", lambda x: if_positive(if_positive(x, lambda x: x - 3, lambda x: x + 3, x), lambda x: x * 2, lambda x: x * 3, x), (UP,), also=((DOWN,),)),
    Case("by the shape", by_shape, (randn(5),), dynamic=({0: N},), also=((randn(4),), (randn(30),), (randn(1),))),
    Case("by the shape and data", by_shape_and_data, (torch.ones(5),), dynamic=({0: Dim("n", min=5, max=30)},), also=((torch.ones(7),), (torch.ones(30),), (-torch.ones(9),)), compiled=True),
    Case("of sizes", of_sizes, (randn(5),), dynamic=({0: N},), also=((torch.ones(4),), (-torch.ones(30),), (torch.ones(1),))),
    Case("results of dynamic size", lambda x: if_positive(x, lambda x: x.repeat(2), lambda x: torch.cat([x, x + 1]), x), (randn(5),), dynamic=({0: N},), also=((torch.ones(4),), (-torch.ones(30),))),
    Case("the same branches twice", lambda x: [if_positive(v, lambda v: v.exp(), lambda v: v.abs(), v) for v in (x, x * 1)], (X,), also=((-UP,),)),
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
    Case("a counter", lambda x: while_loop(lambda i, x: i < 4, lambda i, x: (i + 1, x * 2), (torch.tensor(0), x)), (X,), compiled=True, decomposed=True),
    Case("an int as the counter", lambda x: while_loop(lambda i, x: i < 4, lambda i, x: (i + 1, x + i), (0, x))[1], (X,)),
    Case("no round", lambda x: while_loop(lambda x: x.sum() > 100, lambda x: (x + 1,), (x,)), (X,)),
    Case("on data", lambda x: while_loop(lambda x: x.sum() < 100, lambda x: (x + 1,), (x,)), (X,), also=((X * 90,),)),
    Case("several tensors", lambda x: while_loop(lambda i, a, b: i < 7, lambda i, a, b: (i + 1, b * 1, a + b), (torch.tensor(0), x, x + 1)), (X,)),
    Case("swapped", lambda x, y: while_loop(lambda i, a, b: i > 0, lambda i, a, b: (i - 1, b.clone(), a.clone()), (torch.tensor(3), x, y)), (X, Y)),
    Case("a limit from outside", lambda n, x: while_loop(lambda i, x: i < n, lambda i, x: (i + 1, x.cos()), (torch.tensor(0), x)), (torch.tensor(3), X), also=((torch.tensor(0), X), (torch.tensor(9), X))),
    Case("a closure over a tensor", lambda x, y: while_loop(lambda x: x.sum() < y.abs().sum() * 9, lambda x: (x + y.abs(),), (x,)), (X, Y)),
    Case("parameters", Recurrence(), (randn(3, seed=9), torch.tensor(6)), also=((randn(3, seed=8), torch.tensor(1)), (randn(3, seed=8) * 0.001, torch.tensor(5))), compiled=True),
    Case("nested", nested_loops, (X,)),
    Case("cond inside", loop_with_cond, (torch.tensor(6), X), also=((torch.tensor(27), X), (torch.tensor(1), X)), decomposed=True),
    Case("inside cond", cond_with_loop, (UP * 9,), also=((DOWN,),)),
    Case("a buffer filled", greedy, (randn(6, 5),)),
    Case("dynamic sizes", lambda x: while_loop(lambda i, x: i < x.shape[0], lambda i, x: (i + 1, x.roll(1) + i), (torch.tensor(0), x)), (randn(5),), dynamic=({0: N},), also=((randn(1),), (randn(9),))),
    Case("half precision", lambda x: while_loop(lambda i, x: i < 9, lambda i, x: (i + 1, x * 1.01), (torch.tensor(0), x)), (X.bfloat16(),)),
]  # fmt: skip


class Mapped(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(4)
        self.layer = nn.Sequential(nn.Linear(3, 8), nn.GELU(), nn.Linear(8, 2))

    def forward(self, xs, bias):
        return hop_map(lambda x, b: self.layer(x) + b, xs, bias)


def map_tree(x, y):
    return hop_map(
        lambda d: {"sum": d["x"] + d["y"], "out": (d["x"].outer(d["y"]), d["y"].max())}, {"x": x, "y": y}
    )


MAPS = [
    Case("rows", lambda x: hop_map(lambda r: r.cumsum(0) / r.norm(), x), (ROWS,), compiled=True, decomposed=True),
    Case("one row", lambda x: hop_map(lambda r: r * 2, x), (ROWS[:1],)),
    Case("scalars", lambda x: hop_map(lambda r: r * 2 + 1, x), (ROWS[:, 0].contiguous(),)),
    Case("a shared tensor", lambda x, y: hop_map(lambda r, y: y @ r, x, y), (ROWS, X)),
    Case("a closure", lambda x, y: hop_map(lambda r: y @ r, x), (ROWS, X)),
    Case("parameters", Mapped(), (ROWS, randn(2)), compiled=True),
    Case("pytrees", map_tree, (ROWS, ROWS + 1)),
    Case("several results", lambda x: hop_map(lambda r: (r.sum(), r.argmax(), r > 0), x), (ROWS,)),
    Case("a cond inside", lambda x: hop_map(lambda r: torch.cond(r.sum() > 0, lambda r: r + 1, lambda r: r - 1, (r,)), x), (ROWS,)),
    Case("nested", lambda x: hop_map(lambda r: hop_map(lambda e: e.exp() + 1, r), x), (ROWS,)),
    Case("a dynamic count", lambda x: hop_map(lambda r: r.softmax(0), x), (ROWS,), dynamic=({0: N},), also=((ROWS[:1],), (randn(30, 3),))),
    Case("a dynamic row", lambda x: hop_map(lambda r: r - r.shape[0], x), (ROWS,), dynamic=({1: N},), also=((ROWS[:, :1],), (randn(6, 30),))),
]  # fmt: skip


class RNN(nn.Module):
    """An LSTM over the rows, spelled out with a cell."""

    def __init__(self, **options):
        super().__init__()
        torch.manual_seed(5)
        self.cell, self.out, self.options = nn.LSTMCell(3, 4), nn.Linear(4, 2), options

    def forward(self, xs, h, c):
        def step(state, x):
            h, c = self.cell(x, state)
            return (h, c), self.out(h)

        return scan(step, (h, c), xs, **self.options)


def running(carry, x):
    return carry * 0.5 + x, carry - x


def tree_scan(init, xs):
    def step(c, x):
        return {"n": c["n"] + 1, "s": c["s"] + x["a"]}, {"d": x["a"] - x["b"], "n": c["n"].clone()}

    return scan(step, {"n": torch.tensor(0), "s": init}, {"a": xs, "b": xs * xs})


SCANS = [
    Case("carried and rows", lambda c, x: scan(running, c, x), (ROWS[0].clone(), ROWS), compiled=True),
    Case("reverse", lambda c, x: scan(running, c, x, reverse=True), (ROWS[0].clone(), ROWS), compiled=True),
    Case("another dim", lambda c, x: scan(running, c, x, dim=1), (ROWS[:, 0].clone(), ROWS)),
    Case("another dim, reverse", lambda c, x: scan(running, c, x, dim=-1, reverse=True), (ROWS[:, 0].clone(), ROWS)),
    Case("one row", lambda c, x: scan(running, c, x), (ROWS[0].clone(), ROWS[:1])),
    Case("pytrees", tree_scan, (ROWS[0].clone(), ROWS)),
    Case("several xs", lambda c, x, y: scan(lambda c, v: (c + v[0] @ v[1], c.clone()), c, (x, y)), (torch.tensor(0.0), ROWS, ROWS + 1)),
    Case("parameters", RNN(), (randn(6, 2, 3), torch.zeros(2, 4), torch.zeros(2, 4)), compiled=True),
    Case("parameters, reverse, batch first", RNN(dim=1, reverse=True), (randn(2, 6, 3), torch.zeros(2, 4), torch.zeros(2, 4))),
    Case("a closure", lambda c, x, w: scan(lambda c, r: (torch.tanh(w @ c + r), c.clone()), c, x), (ROWS[0].clone(), ROWS, randn(3, 3))),
    Case("a cond inside", lambda c, x: scan(lambda c, r: (torch.cond(r.sum() > 0, lambda c, r: c + r, lambda c, r: c - r, (c, r)), r * 2), c, x), (ROWS[0].clone(), ROWS)),
    Case("inside cond", lambda c, x: torch.cond(x.sum() > 0, lambda c, x: scan(running, c, x)[1], lambda c, x: x + c, (c, x)), (ROWS[0].clone(), ROWS), also=((ROWS[0].clone(), ROWS.abs()), (ROWS[0].clone(), -ROWS.abs()))),
    Case("nested", lambda c, x: scan(lambda c, r: (c + r, scan(lambda a, e: (a + e, a * e), c.sum(), r)[1]), c, x), (ROWS[0].clone(), ROWS)),
    Case("a dynamic length", lambda c, x: scan(running, c, x), (ROWS[0].clone(), ROWS), dynamic=(None, {0: N}), also=((ROWS[0].clone(), ROWS[:1]), (ROWS[0].clone(), randn(30, 3)))),
    Case("integers", lambda c, x: scan(lambda c, r: ((c * 31 + r) % 1000, c.clone()), c, x), (torch.tensor(7), torch.arange(9))),
]  # fmt: skip


def linear_recurrence(a, b):
    """h[i] = a[i] h[i-1] + b[i], as state space models have it."""
    return associative_scan(lambda p, q: (q[0] * p[0], q[0] * p[1] + q[1]), (a, b), 0, combine_mode="generic")


class Ssm(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(6)
        self.decay, self.inp, self.out = nn.Parameter(torch.rand(3)), nn.Linear(3, 3), nn.Linear(3, 2)

    def forward(self, x):
        gate = torch.sigmoid(self.decay).expand_as(x)
        _, h = associative_scan(
            lambda p, q: (q[0] * p[0], q[0] * p[1] + q[1]), (gate, self.inp(x)), 0, combine_mode="generic"
        )
        return self.out(h)


def generic(fn, **options):
    return lambda x: associative_scan(
        fn, x, options.get("dim", 0), reverse=options.get("reverse", False), combine_mode="generic"
    )


ASSOCIATIVE = [
    Case("sum", generic(torch.add), (ROWS,), compiled=True, decomposed=True),
    Case("product, reverse", generic(torch.mul, reverse=True), (ROWS,)),
    Case("maximum along another dim", generic(torch.maximum, dim=1), (ROWS,)),
    Case("along the last dim, reverse", generic(torch.add, dim=-1, reverse=True), (ROWS,)),
    Case("one row", generic(torch.add), (ROWS[:1],)),
    Case("two rows", generic(torch.add), (ROWS[:2],)),
    Case("not commutative", generic(lambda a, b: b), (ROWS,)),
    Case("matrices", generic(lambda a, b: b @ a), (randn(7, 2, 2),), tolerance=(1e-4, 1e-5)),  # 7 products in another order
    Case("a pytree", lambda x: associative_scan(lambda a, b: {"s": a["s"] + b["s"], "m": torch.maximum(a["m"], b["m"])}, {"s": x, "m": x * 2}, 0, combine_mode="generic"), (ROWS,)),
    Case("a recurrence", linear_recurrence, (torch.rand(9, 3), randn(9, 3))),
    Case("a model", Ssm(), (randn(9, 3),), compiled=True),
    Case("integers", generic(torch.add), (torch.arange(8).reshape(4, 2),)),
]  # fmt: skip


@params(CONDS)
def test_cond(case, tmp_path):
    check(case, tmp_path)


@params(LOOPS)
def test_while_loop(case, tmp_path):
    check(case, tmp_path)


@params(MAPS)
def test_map(case, tmp_path):
    check(case, tmp_path)


@params(SCANS)
def test_scan(case, tmp_path):
    check(case, tmp_path)


@params(ASSOCIATIVE)
def test_associative_scan(case, tmp_path):
    check(case, tmp_path)
