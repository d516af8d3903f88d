"""map, scan and associative_scan as models use them, nested and over weights."""

import torch
from torch import nn
from torch._higher_order_ops import associative_scan, scan
from torch._higher_order_ops import map as hop_map
from torch._higher_order_ops.associative_scan import associative_scan_op
from torch.export import Dim

from tests.ops.harness import Case, check, params

from .rows import randn

X = randn(4, 3)
ROWS = randn(6, 3, seed=2)
N = Dim("n", min=1, max=30)


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
    Case("rows", lambda x: hop_map(lambda r: r.cumsum(0) / r.norm(), x), (ROWS,), compiled=True),
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
    Case("sum", generic(torch.add), (ROWS,), compiled=True),
    Case("product, reverse", generic(torch.mul, reverse=True), (ROWS,)),
    Case("maximum along another dim", generic(torch.maximum, dim=1), (ROWS,)),
    Case("along the last dim, reverse", generic(torch.add, dim=-1, reverse=True), (ROWS,)),
    Case("one row", generic(torch.add), (ROWS[:1],)),
    Case("two rows", generic(torch.add), (ROWS[:2],)),
    Case("not commutative", generic(lambda a, b: b), (ROWS,)),
    Case("matrices", generic(lambda a, b: b @ a), (randn(7, 2, 2),), tolerance=(1e-4, 1e-5)),  # 7 products in another order
    Case("a pytree", lambda x: associative_scan(lambda a, b: {"s": a["s"] + b["s"], "m": torch.maximum(a["m"], b["m"])}, {"s": x, "m": x * 2}, 0, combine_mode="generic"), (ROWS,)),
    Case("the op itself", lambda x, y: associative_scan_op(lambda a, b, y: (a + b * y,), (x,), (y,))[0], (X, torch.ones(3))),
    Case("a recurrence", linear_recurrence, (torch.rand(9, 3), randn(9, 3))),
    Case("a model", Ssm(), (randn(9, 3),), compiled=True),
    Case("integers", generic(torch.add), (torch.arange(8).reshape(4, 2),)),
]  # fmt: skip


@params(MAPS)
def test_map(case, tmp_path):
    check(case, tmp_path)


@params(SCANS)
def test_scan(case, tmp_path):
    check(case, tmp_path)


@params(ASSOCIATIVE)
def test_associative_scan(case, tmp_path):
    check(case, tmp_path)
