"""Numbers and sizes that depend on data: offsets stay on the device, only shapes wait for it."""

import math

import mlx.core as mx
import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

import mlxify
from mlxify.isa import INSTRUCTIONS
from mlxify.run import Program
from mlxify.segments import Segment
from tests.ops.harness import Case, _Function, check, compare, params

from .rows import integers, randn

X = randn(8, 4)
N = Dim("n", min=2, max=30)
T = torch.tensor


def start(x, i, k=3):
    """Checks as torch.export asks for them."""
    i = i.item()
    torch._check(i >= 0)
    torch._check(i <= x.shape[0] - k)
    return i


def narrow(x, i):
    return x.narrow(0, start(x, i), 3)


def select(x, i):
    return x.select(0, start(x, i, 1)) * 2


def window(x, i):
    i = start(x, i)
    return x[i : i + 3]


def two_windows(x, i):
    """Two numbers from one tensor, and arithmetic on them."""
    a, b = i.tolist()
    for n in (a, b):
        torch._check(n >= 0)
        torch._check(n + 4 <= x.shape[0])
    return x.narrow(0, a, 2) + x.narrow(0, b + 2, 2) * (a * 2 - b // 3)


def write(x, i):
    i = start(x, i)
    y = x.clone()
    y[i : i + 3] = 7.0
    return y


def arithmetic(x, i):
    i = i.item()
    return x * i + (i // 3) - i % 5, x + (i > 3), x * max(i, 4), x * -i


def rope(x, i):
    """Rotary angles at a position on the device."""
    angles = torch.outer(torch.arange(8) + i, 1.0 / 100 ** (torch.arange(2) / 2))
    cos, sin = angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)
    return x * cos + torch.cat([-x[:, 2:], x[:, :2]], 1) * sin


# Only an offset depends on data: not one step waits for the device.
OFFSETS = [
    Case("item", lambda x, i: x + i.item(), (X, T(5)), also=((X, T(-3)), (X, T(2**40)))),
    Case("item of a float", lambda x, i: x * i.item(), (X, T(0.5)), also=((X, T(-3.25)), (X, T(float("nan"))), (X, T(float("inf"))))),
    Case("item of a bool", lambda x, i: x * i.item(), (X, T(True)), also=((X, T(False)),)),
    Case("item of int32", lambda x, i: x * i.item(), (X, T(3, dtype=torch.int32)), also=((X, T(-7, dtype=torch.int32)),)),
    Case("an integer tensor plus an item", lambda x, i: x + i.item(), (integers(9, 4), T(5)), also=((integers(9, 4), T(-3)),)),
    Case("arithmetic", arithmetic, (X, T(5)), also=((X, T(0)), (X, T(13)), (X, T(-4)))),
    Case("narrow", narrow, (X, T(2)), also=((X, T(0)), (X, T(5))), compiled=True),
    Case("a window", window, (X, T(2)), also=((X, T(0)), (X, T(5)))),
    Case("two windows", two_windows, (X, T([1, 3])), also=((X, T([4, 0])), (X, T([0, 4])))),
    Case("select", select, (X, T(2)), also=((X, T(0)), (X, T(7)))),
    Case("index by a 0-d tensor", lambda x, i: x[i], (X, T(2)), also=((X, T(0)), (X, T(-1)), (X, T(7)))),
    Case("index_select", lambda x, i: x.index_select(0, i), (X, T([2, 2, 0])), also=((X, T([7, 0, 1])),)),
    Case("a window written", write, (X, T(2)), also=((X, T(0)), (X, T(5)))),
    Case("index_copy", lambda x, i: x.index_copy(0, i, torch.zeros(1, 4)), (X, T([2])), also=((X, T([0])), (X, T([7])))),
    Case("a rotary offset", rope, (X, T(3)), also=((X, T(0)), (X, T(100))), tolerance=(1e-5, 1e-5)),
    Case("roll by gathering", lambda x, i: x[(torch.arange(8) + i) % 8], (X, T(3)), also=((X, T(-3)), (X, T(19)))),
    Case("a causal mask at a position", lambda x, i: torch.where(torch.arange(4) <= i.item(), x, -torch.inf), (X, T(1)), also=((X, T(0)), (X, T(9)))),
    Case("full", lambda i: torch.full((3,), i.item()), (T(5),), also=((T(-1),),)),
    Case("the number itself", lambda x, i: (x, i.item() + 1), (X, T(5)), also=((X, T(-1)),)),
]  # fmt: skip


def sized(fn, low=0):
    """A model over a length that depends on data."""

    def forward(x, k):
        n = k.item()
        torch._check(n >= low)
        torch._check(n <= x.shape[0])
        return fn(x, n)

    return forward


def unique_counts(x):
    return torch.unique(x, return_inverse=True, return_counts=True)


def boxes_above(scores, boxes):
    """The last step of a detector: what scores high, with its box and class."""
    best, kind = scores.max(1)
    keep = best > 0.5
    return boxes[keep], kind[keep], best[keep].sort(descending=True).values


def ragged_mean(x, lengths):
    """Means of runs of rows, by repeat_interleave and scatter."""
    which = torch.repeat_interleave(torch.arange(lengths.shape[0]), lengths, output_size=x.shape[0])
    total = torch.zeros(lengths.shape[0], x.shape[1]).index_add(0, which, x)
    return total / lengths.clamp(min=1)[:, None]


def tokens_of_expert(x, router):
    """Rows of one expert, worked on and put back."""
    (rows,) = torch.where(router.argmax(1) == 1)
    return x.index_add(0, rows, x[rows].tanh() * 2)


Z = T([[0.0, 1, 0], [2, 0, 3]])
NOTHING = torch.zeros(2, 3)
SHAPES = [
    Case("a true division, in double precision", lambda x, i: x * math.floor(i.item() / 2), (T([1]), T([2**24 + 3])), also=((T([1]), T([2**40 + 5])),)),
    Case("nonzero", lambda x: x.nonzero(), (Z,), also=((NOTHING,), (Z + 1,), (T([[float("nan"), 0, -0.0], [0, 0, 0]]),)), compiled=True),
    Case("nonzero as a tuple", lambda x: x.nonzero(as_tuple=True), (Z,), also=((NOTHING,),)),
    Case("argwhere, added to", lambda x: torch.argwhere(x > 0) * 2 + 1, (Z,), also=((NOTHING,),)),
    Case("how many", lambda x: x.nonzero().shape[0] * x, (Z,), also=((NOTHING,),)),
    Case("masked_select", lambda x: x.masked_select(x > 0), (X,), also=((X.abs(),), (-X.abs(),)), compiled=True),
    Case("masked_select, summed", lambda x: x.masked_select(x > 0).sum(), (X,), also=((-X.abs(),),)),
    Case("a mask", lambda x: x[x > 0], (X,), also=((X.abs(),), (-X.abs(),))),
    Case("a mask of rows", lambda x: x[x[:, 0] > 0], (X,), also=((X.abs(),), (-X.abs(),))),
    Case("a mask of columns", lambda x: x[:, x[0] > 0], (X,), also=((X.abs(),), (-X.abs(),))),
    Case("a mask beside a slice", lambda x: x[x[:, 0] > 0, 1:3], (X,), also=((-X.abs(),),)),
    Case("a mask, then a product", lambda x, w: x[x[:, 0] > 0] @ w, (X, randn(4, 2)), also=((X.abs(), randn(4, 2)), (-X.abs(), randn(4, 2)))),
    Case("a mask, then a norm", lambda x: F.layer_norm(x[x[:, 0] > 0], (4,)).softmax(0), (X,), also=((X.abs(),),)),
    Case("two masks joined", lambda x: torch.cat([x[x > 1], x[x < -1]]), (X,), also=((X * 9,), (X * 0,))),
    Case("a mask written", lambda x: torch.where(x > 0, 0.0, x).masked_fill(x < -1, 9), (X,), also=((X * 9,),)),
    Case("repeats", lambda x, r: x.repeat_interleave(r, 0), (X[:3], T([2, 0, 3])), also=((X[:3], T([0, 0, 0])), (X[:3], T([1, 5, 1]))), compiled=True),
    Case("repeats along dim 1", lambda x, r: x.repeat_interleave(r, 1), (X, T([1, 0, 2, 1])), also=((X, T([0, 0, 0, 3])),)),
    Case("repeats of known length", lambda x, r: x.repeat_interleave(r, 0, output_size=5), (X[:3], T([2, 0, 3])), also=((X[:3], T([5, 0, 0])),)),
    Case("rows repeated", lambda r: torch.repeat_interleave(r), (T([2, 0, 3]),), also=((T([0, 1, 0]),),)),
    Case("unique", torch.unique, (T([3, 1, 3, 2, 1]),), also=((T([5, 5, 5, 5, 5]),),)),
    Case("unique with counts", unique_counts, (T([3, 1, 3, 2, 1]),), also=((T([5, 5, 5, 5, 5]),),)),
    Case("unique consecutive", lambda x: torch.unique_consecutive(x, return_counts=True), (T([3, 3, 1, 3, 3]),), also=((T([5, 5, 5, 5, 5]),),)),
    Case("arange", lambda k: torch.arange(k.item()), (T(5),), also=((T(0),), (T(1),))),
    Case("zeros", sized(lambda x, n: torch.zeros(n, 2) + 1), (X, T(5)), also=((X, T(0)), (X, T(8)))),
    Case("the first", sized(lambda x, n: x[:n] * 2), (X, T(5)), also=((X, T(0)), (X, T(8)))),
    Case("the last", sized(lambda x, n: x[n:].sum(0)), (X, T(5)), also=((X, T(0)), (X, T(8)))),
    Case("narrow by a length", sized(lambda x, n: x.narrow(0, 0, n).cumsum(0)), (X, T(5)), also=((X, T(0)), (X, T(8)))),
    Case("expand", sized(lambda x, n: x[0].expand(n, 4)), (X, T(5)), also=((X, T(0)), (X, T(8)))),
    Case("narrow by a length that may be small", sized(lambda x, n: x.narrow(0, 0, n) + 1), (X[:2], T(2)), also=((X[:2], T(0)), (X[:2], T(1)))),
    Case("split", lambda x, s: [p * 2 for p in x.split(checked(s.tolist(), x))], (X, T([2, 3, 3])), also=((X, T([8, 0, 0])), (X, T([1, 1, 6])))),
    Case("view", sized(lambda x, n: x[:n].view(n, 2, 2).transpose(1, 2).reshape(n, 4)), (X, T(5)), also=((X, T(0)), (X, T(8)))),
    Case("one hot, counted", lambda x: torch.bincount(x, minlength=9), (T([1, 4, 1]),), also=((T([8, 0, 8]),),)),
    Case("a detector's end", boxes_above, (torch.rand(8, 5), torch.rand(8, 4)), also=((torch.zeros(8, 5), torch.rand(8, 4)), (torch.ones(8, 5), torch.rand(8, 4)))),
    Case("means of runs", ragged_mean, (X, T([2, 0, 5, 1])), also=((X, T([0, 0, 0, 8])),)),
    Case("rows of an expert", tokens_of_expert, (X, randn(8, 3)), also=((X, randn(8, 3, seed=5)), (X, torch.eye(3)[[0] * 8]))),
    Case("a dynamic size and a mask", lambda x: x[x[:, 0] > 0].sum(0) / x.shape[0], (X,), dynamic=({0: N},), also=((randn(2, 4),), (randn(30, 4),))),
    Case("nonzero in a dynamic size", lambda x: x.nonzero(), (X,), dynamic=({0: N},), also=((torch.zeros(2, 4),), (randn(30, 4),))),
]  # fmt: skip


def checked(sizes, x):
    for n in sizes:
        torch._check(n >= 0)
        torch._check(n <= x.shape[0])
    torch._check(sum(sizes) == x.shape[0])
    return sizes


def syncs(program):
    return [i.op for m in program.graph.methods.values() for i in m.all_instrs() if INSTRUCTIONS[i.op].sync]


@params(OFFSETS)
def test_offset(case, tmp_path):
    check(case, tmp_path)
    assert not syncs(mlxify.load(tmp_path / "case.safetensors"))


@params(SHAPES)
def test_shape(case, tmp_path):
    check(case, tmp_path)


# Model, an example, and a call in which PyTorch raises an error.
WRONG = {
    "a start": (narrow, (X, T(2)), (X, T(6))),
    "an index": (select, (X, T(2)), (X, T(8))),
    "a length": (sized(lambda x, n: x[:n] * 2), (X, T(5)), (X, T(9))),
    "a length to narrow to": (lambda x, k: x.narrow(0, 0, k.item()), (X[:2], T(2)), (X[:2], T(3))),
    "parts": (lambda x, s: x.split(s.tolist()), (X, T([4, 4])), (X, T([4, 5]))),
    "a negative repeat": (lambda x, r: x.repeat_interleave(r, 0), (X[:2], T([2, 1])), (X[:2], T([2, -1]))),
    "an output size": (lambda x, r: x.repeat_interleave(r, 0, output_size=3), (X[:2], T([2, 1])), (X[:2], T([2, 2]))),
    "a negative length": (lambda k: torch.arange(k.item()), (T(5),), (T(-1),)),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_data_that_do_not_fit(name):
    fn, example, call = WRONG[name]
    program = mlxify.convert(_Function(fn), example)
    program(*example)
    with pytest.raises(mlxify.InputError):
        program(*call)


class Decoder(nn.Module):
    """One step of a decoder: attention over a cache that is written at a position given as a tensor."""

    def __init__(self, room: int, dim: int = 16, heads: int = 2, how: str = "index_copy") -> None:
        super().__init__()
        torch.manual_seed(0)
        self.room, self.heads, self.how = room, heads, how
        self.embed, self.qkv, self.out = nn.Embedding(11, dim), nn.Linear(dim, 3 * dim), nn.Linear(dim, 11)
        self.register_buffer("keys", torch.zeros(1, heads, room, dim // heads))
        self.register_buffer("values", torch.zeros(1, heads, room, dim // heads))

    def rotate(self, x, position):
        half = x.shape[-1] // 2
        angle = position * 100.0 ** (-torch.arange(half) / half)
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)

    def store(self, cache, new, position):
        if self.how == "index_copy":
            cache.index_copy_(2, position.reshape(1), new)
        elif self.how == "index_put":
            cache[:, :, position.reshape(1)] = new
        else:
            i = position.item()
            torch._check(i >= 0)
            torch._check(i < self.room)
            cache.narrow(2, i, 1).copy_(new)

    def forward(self, token, position):
        x = self.embed(token)[None, None]
        q, k, v = self.qkv(x).view(1, 1, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        self.store(self.keys, self.rotate(k, position), position)
        self.store(self.values, v, position)
        seen = torch.arange(self.room) <= position
        y = F.scaled_dot_product_attention(
            self.rotate(q, position), self.keys, self.values, seen[None, None, None]
        )
        return self.out(y.transpose(1, 2).reshape(1, -1) + x[0])


@pytest.mark.parametrize("how", ["index_copy", "index_put", "narrow"])
def test_a_decode_loop_traces_once(how, monkeypatch):
    traces = []
    trace = Segment._new_trace
    monkeypatch.setattr(
        Segment, "_new_trace", lambda self, numbers: traces.append(numbers) or trace(self, numbers)
    )
    model = Decoder(200, how=how).eval()
    graph = mlxify.convert(model, (T(3), T(0))).graph
    program = Program(graph, compile=True)
    assert not syncs(program)
    token = T(3)
    for position in range(200):
        with torch.no_grad():
            expected = model(token, T(position))
        compare(
            program(token, T(position)), expected, (1e-4, 1e-5), f"step {position}"
        )  # 200 steps feed each other
        token = expected.argmax().reshape(())
    assert len(traces) == 1
    compare(program.state["keys"], model.keys, (1e-4, 1e-5))


def test_only_a_new_length_traces_again(monkeypatch):
    traces = []
    trace = Segment._new_trace
    monkeypatch.setattr(
        Segment, "_new_trace", lambda self, numbers: traces.append(numbers) or trace(self, numbers)
    )
    program = Program(mlxify.convert(_Function(lambda x: x[x > 0] * 2), (X,)).graph, compile=True)
    for x in (X, X * 2, -X, -X * 2, X * 3):
        program(mx.array(x.numpy()))
    lengths = {int((x > 0).sum()) for x in (X, -X)}
    assert len(traces) == 1 + len(lengths)  # the mask, then the product, once for each length
