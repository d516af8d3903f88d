"""Attention that a model spells out."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim

import mlxify

from ..ops.harness import Case, compare
from ..ops.test_attention import INF, NAN_MASK, added, mask, qkv
from ..ops.test_linear import rand
from .harness import Hit, Miss, check_hit, check_miss, exported, rows

HALF, BF16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
B, L, S = Dim("b"), Dim("l"), Dim("s")
AXES = {0: B, 2: S}
LEAST = torch.finfo(F32).min
ROOT = math.sqrt(8)


def scores(q, k):
    return q @ k.transpose(-2, -1) / ROOT


def attend(q, k, v, change=lambda s: s, **settings):
    return F.softmax(change(scores(q, k)), dim=-1, **settings) @ v


def filled(m, fill):
    """m is true where a query sees a key."""
    return lambda s: s.masked_fill(m == 0, fill)


def repeat_kv(x, n):
    b, g, s, d = x.shape
    return x[:, :, None, :, :].expand(b, g, n, s, d).reshape(b, g * n, s, d)


def eager(q, k, v, m=None, groups=1, scaling=8**-0.5):
    """transformers' eager_attention_forward."""
    k, v = repeat_kv(k, groups), repeat_kv(v, groups)
    weights = torch.matmul(q, k.transpose(2, 3)) * scaling
    if m is not None:
        weights = weights + m
    weights = F.softmax(weights, dim=-1, dtype=F32).to(q.dtype)
    return torch.matmul(F.dropout(weights, p=0.1, training=False), v).transpose(1, 2).contiguous()


def tril(length, span, **settings):
    return torch.tril(torch.ones(length, span, **settings))


def causal(s):
    return s.masked_fill(tril(*s.shape[-2:]) == 0, -INF)


GONE = ("softmax", "matmul")


def hit(
    name,
    fn,
    args,
    program=("scaled_dot_product_attention",),
    gone=GONE,
    tolerance=None,
    dynamic=None,
    also=(),
):
    return Hit(Case(name, fn, args, tolerance, dynamic, also), "attention", program, gone)


SEES_ALL = mask(3, 5) | True
HITS = [
    hit("plain", attend, qkv(2, 4)),
    hit("float64", attend, qkv(2, 4, dtype=F64)),
    hit("eager", eager, qkv(2, 4)),
    hit("eager, additive mask", eager, (*qkv(2, 4), torch.where(mask(2, 1, 3, 5), 0.0, LEAST))),
    hit("eager, groups", lambda q, k, v: eager(q, k, v, None, 2), qkv(2, 4, heads=2), gone=(*GONE, "broadcast_to", "repeat")),
    hit("eager, groups and mask", lambda q, k, v, m: eager(q, k, v, m, 2), (*qkv(2, 4, heads=2), torch.where(mask(2, 1, 3, 5), 0.0, LEAST))),
    hit("repeat_interleave", lambda q, k, v: attend(q, k.repeat_interleave(3, 1), v.repeat_interleave(3, dim=1)), qkv(2, 6, heads=2), gone=(*GONE, "repeat")),
    hit("only the keys are repeated", lambda q, k, v: attend(q, repeat_kv(k, 2), v), (*qkv(2, 4, heads=2)[:2], qkv(2, 4)[2])),
    hit("tiled heads", lambda q, k, v: attend(q, k.repeat(1, 2, 1, 1), v.repeat(1, 2, 1, 1)), qkv(2, 4, heads=2)),
    hit("another width of values", attend, qkv(2, 4, out=6)),
    *(hit(f"rank {len(lead) + 2}", attend, qkv(*lead)) for lead in ((), (4,), (2, 3, 4))),
    hit("bmm", lambda q, k, v: torch.bmm(F.softmax(torch.bmm(q, k.mT) * 0.3, -1), v), qkv(4)),
    hit("baddbmm", lambda q, k, v: torch.bmm(torch.baddbmm(torch.empty(4, 3, 5), q, k.mT, beta=0, alpha=0.3).softmax(-1), v), qkv(4)),
    hit("einsum", lambda q, k, v: torch.einsum("bhij,bhjd->bhid", (torch.einsum("b h i d, b h j d -> b h i j", q, k) * 0.3).softmax(-1), v), qkv(2, 4), gone=("softmax",)),
    hit("einsum with an ellipsis", lambda q, k, v: torch.einsum("...qd,...kd->...qk", q, k).softmax(-1) @ v, qkv(2, 4)),
    hit("permuted keys", lambda q, k, v: (q @ k.permute(0, 1, 3, 2)).softmax(-1) @ v, qkv(2, 4)),
    hit("transposed keys are given", lambda q, k, v: (q @ k).softmax(-1) @ v, (qkv(2, 4)[0], qkv(2, 4)[1].mT, qkv(2, 4)[2])),
    hit("keys from (b, s, h, d)", lambda q, k, v: (q @ k.permute(0, 2, 3, 1)).softmax(-1) @ v, (qkv(2, 4)[0], qkv(2, 4)[1].transpose(1, 2), qkv(2, 4)[2])),
    hit("scaled queries", lambda q, k, v: ((q * 0.3) @ k.mT).softmax(-1) @ v, qkv(2, 4)),
    hit("divided queries", lambda q, k, v: ((q / ROOT) @ k.mT).softmax(-1) @ v, qkv(2, 4)),
    hit("both scaled", lambda q, k, v: ((q * 0.6) @ (k * 0.6).mT).softmax(-1) @ v, qkv(2, 4)),
    hit("scaled thrice", lambda q, k, v: ((q * 0.6) @ (k.mT / 2) * 1.5).softmax(-1) @ v, qkv(2, 4)),
    hit("scaled by a 0-d constant", lambda q, k, v: (q @ k.mT / torch.full([], ROOT)).softmax(-1) @ v, qkv(2, 4)),
    hit("scaled by a constant tensor", lambda q, k, v: (q @ k.mT * torch.tensor(0.25)).softmax(-1) @ v, qkv(2, 4)),
    hit("scaled, and scaled again", lambda q, k, v: (q @ k.mT / ROOT / 2).softmax(-1) @ v, qkv(2, 4)),
    hit("not scaled", lambda q, k, v: (q @ k.mT).softmax(-1) @ v, qkv(2, 4)),
    hit("float mask, -inf", lambda q, k, v, m: attend(q, k, v, lambda s: s + m), (*qkv(2, 4), added(2, 1, 3, 5))),
    hit("float mask of keys", lambda q, k, v, m: attend(q, k, v, lambda s: m + s), (*qkv(2, 4), added(2, 1, 2, 5)[:, :, :1])),
    hit("float mask, everything hidden", lambda q, k, v, m: attend(q, k, v, lambda s: s + m), (*qkv(2, 4), torch.full((3, 5), -INF))),
    hit("float mask with nan", lambda q, k, v, m: attend(q, k, v, lambda s: s + m), (*qkv(2, 4), NAN_MASK)),
    hit("a bias and a mask", lambda q, k, v, a, m: attend(q, k, v, lambda s: s + a + m), (*qkv(2, 4), rand(4, 3, 5), added(2, 1, 3, 5))),
    hit("half mask", lambda q, k, v, m: attend(q, k, v, lambda s: s + m), (*qkv(2, 4), added(3, 5).half())),
    hit("BERT's mask", lambda q, k, v, m: attend(q, k, v, lambda s: s + (1.0 - m[:, None, None, :]) * LEAST), (*qkv(2, 4), mask(2, 5).float())),
    *(hit(f"masked_fill with {fill:g}", lambda q, k, v, m, fill=fill: attend(q, k, v, filled(m, fill)), (*qkv(2, 4), mask(2, 1, 3, 5)))
      for fill in (-INF, LEAST, -1e9, -1e30)),
    *(hit(f"where {fill:g}", lambda q, k, v, m, fill=fill: attend(q, k, v, lambda s: torch.where(m, s, fill)), (*qkv(2, 4), mask(3, 5))) for fill in (-INF, LEAST)),
    hit("where the other way", lambda q, k, v, m: attend(q, k, v, lambda s: torch.where(~m, torch.tensor(-INF), s)), (*qkv(2, 4), mask(3, 5))),
    hit("masked_fill of a tensor", lambda q, k, v, m: attend(q, k, v, lambda s: s.masked_fill(~m, torch.tensor(LEAST))), (*qkv(2, 4), mask(3, 5))),
    hit("masked_fill, groups", lambda q, k, v, m: attend(q, repeat_kv(k, 2), repeat_kv(v, 2), filled(m, LEAST)), (*qkv(2, 4, heads=2), mask(2, 1, 3, 5))),
    hit("masked_fill, nothing hidden", lambda q, k, v, m: attend(q, k, v, filled(m, -INF)), (*qkv(2, 4), SEES_ALL)),
    hit("masked_fill, everything hidden", lambda q, k, v, m: attend(q, k, v, filled(m, -1e9)), (*qkv(2, 4, out=6), ~SEES_ALL)),
    hit("hidden keys of nan", lambda q, k, v, m: attend(q, k, v, filled(m, -INF)),
        (qkv(2, 4)[0], torch.where(torch.arange(5)[:, None] < 4, qkv(2, 4)[1], math.nan), qkv(2, 4)[2], torch.arange(5).expand(3, 5) < 4)),
    hit("filled in place", lambda q, k, v, m: attend(q, k, v, lambda s: s.masked_fill_(~m, -INF)), (*qkv(2, 4), mask(3, 5))),
    hit("scaled in place", lambda q, k, v: (q @ k.mT).div_(ROOT).softmax(-1) @ v, qkv(2, 4)),
    *(hit(f"causal {a}, {b}", lambda q, k, v: attend(q, k, v, causal), qkv(2, 4, length=a, span=b), gone=(*GONE, "where", "tril")) for a, b in ((5, 5), (3, 5), (5, 3))),
    hit("causal by triu", lambda q, k, v: attend(q, k, v, lambda s: s.masked_fill(torch.triu(torch.ones(3, 5, dtype=torch.bool), 1), LEAST)), qkv(2, 4), gone=(*GONE, "where", "triu")),
    hit("causal by where", lambda q, k, v: attend(q, k, v, lambda s: torch.where(tril(3, 5, dtype=torch.bool)[None, None], s, -INF)), qkv(2, 4), gone=(*GONE, "where")),
    hit("causal by not", lambda q, k, v: attend(q, k, v, lambda s: s.masked_fill(~tril(3, 5).bool(), -1e9)), qkv(2, 4), gone=(*GONE, "where")),
    hit("causal by a mask to add", lambda q, k, v: attend(q, k, v, lambda s: s + torch.triu(torch.full((3, 5), -INF), 1)), qkv(2, 4)),
    hit("a triangle that is another", lambda q, k, v: attend(q, k, v, lambda s: s.masked_fill(torch.tril(torch.ones(3, 5), 1) == 0, -INF)), qkv(2, 4), gone=()),
    hit("the upper triangle", lambda q, k, v: attend(q, k, v, lambda s: s.masked_fill(tril(3, 5) == 1, -INF)), qkv(2, 4), gone=()),
    hit("the softmax of half, all in float32", lambda q, k, v: ((q.float() @ k.float().mT * 0.3).softmax(-1) @ v.float()).half(), qkv(2, 4, dtype=HALF)),
    hit("bfloat16, all in float32", lambda q, k, v: ((q.float() @ k.float().mT * 0.3).softmax(-1) @ v.float()).to(q.dtype), qkv(2, 4, dtype=BF16)),
    hit("no keys", attend, (qkv(2, 4)[0], torch.zeros(2, 4, 0, 8), torch.zeros(2, 4, 0, 8))),
    hit("no keys, hidden", lambda q, k, v, m: attend(q, k, v, filled(m, -INF)), (qkv(2, 4)[0], torch.zeros(2, 4, 0, 8), torch.zeros(2, 4, 0, 8), mask(3, 5)[:, :0])),
    hit("another batch of keys", attend, (qkv(3, 4)[0], *qkv(1, 4)[1:])),
    hit("one head of keys", attend, (qkv(2, 4)[0], *qkv(2, 1)[1:])),
]  # fmt: skip

# The batch sizes at which another converter's fused attention failed on a GPU.
BATCHES = tuple((*qkv(b, 4), added(b, 1, 3, 5)) for b in (1, 9, 10, 16, 33))
DYNAMIC = [
    hit("dynamic", attend, qkv(2, 4), dynamic=({0: B, 2: L}, AXES, AXES), also=(qkv(1, 4, length=1, span=9), qkv(5, 4, length=9, span=1))),
    hit("dynamic batch", lambda q, k, v, m: attend(q, k, v, lambda s: s + m), BATCHES[1], dynamic=({0: B}, {0: B}, {0: B}, {0: B}), also=BATCHES),
    hit("dynamic groups and mask", lambda q, k, v, m: eager(q, k, v, m, 2), (*qkv(2, 4, heads=2), rand(2, 1, 3, 5)),
        dynamic=({0: B, 2: L}, AXES, AXES, {0: B, 2: L, 3: S}), also=((*qkv(1, 4, heads=2, length=2, span=9), rand(1, 1, 2, 9)),)),
    hit("dynamic fill", lambda q, k, v, m: attend(q, k, v, filled(m, LEAST)), (*qkv(2, 4), mask(2, 1, 3, 5)),
        dynamic=({0: B, 2: L}, AXES, AXES, {0: B, 2: L, 3: S}), also=((*qkv(1, 4, length=2, span=9), mask(1, 1, 2, 9)),)),
    hit("dynamic fill of -inf", lambda q, k, v, m: attend(q, k, v, filled(m, -INF)), (*qkv(2, 4), mask(2, 1, 3, 5)),
        dynamic=({0: B, 2: L}, AXES, AXES, {0: B, 2: L, 3: S}), also=((*qkv(1, 4, length=2, span=9), mask(1, 1, 2, 9)),
        (qkv(2, 4)[0], torch.zeros(2, 4, 0, 8), torch.zeros(2, 4, 0, 8), mask(2, 1, 3, 5)[..., :0]))),
    hit("dynamic causal", lambda q, k, v: attend(q, k, v, causal), qkv(2, 4), dynamic=({0: B, 2: L}, AXES, AXES),
        also=(qkv(1, 4, length=6, span=6), qkv(3, 4, length=9, span=4)), gone=(*GONE, "where", "tril")),
]  # fmt: skip

# Chains in half precision, each op within a unit in the last place; the softmax grows with the scores.
CHAIN = {HALF: (4e-3, 2e-3), BF16: (3e-2, 1.6e-2)}
ROUNDED = "rounds the scores"


def miss(name, reason, fn, args, tolerance=None):
    return Miss(Case(name, fn, args, tolerance), "attention", reason)


MISSES = [
    *(miss(f"eager {d}", ROUNDED, eager, qkv(2, 4, dtype=d), CHAIN[d]) for d in (HALF, BF16)),
    miss("half scores, softmax of float32", ROUNDED, lambda q, k, v: (scores(q, k).float().softmax(-1) @ v.float()), qkv(2, 4, dtype=HALF), CHAIN[HALF]),
    miss("half weights", "weights are rounded", lambda q, k, v: (q.float() @ k.float().mT).softmax(-1).half() @ v, qkv(2, 4, dtype=HALF), CHAIN[HALF]),
    miss("half weights, float32 again", "", lambda q, k, v: (q @ k.mT).softmax(-1).half().float() @ v, qkv(2, 4)),
    miss("soft cap", "soft cap", lambda q, k, v: attend(q, k, v, lambda s: torch.tanh(s / 5.0) * 5.0), qkv(2, 4)),
    miss("soft cap and mask", "soft cap", lambda q, k, v, m: attend(q, k, v, lambda s: torch.tanh(s / 5.0) * 5.0 + m), (*qkv(2, 4), added(3, 5))),
    miss("softmax over the queries", "over axis -2", lambda q, k, v: F.softmax(scores(q, k), -2) @ v, qkv(2, 4)),
    miss("softmax over the heads", "over axis 1", lambda q, k, v: F.softmax(scores(q, k), 1) @ v, qkv(2, 4)),
    miss("the mask before the scale", "before the scores are scaled", lambda q, k, v, m: ((q @ k.mT + m) / ROOT).softmax(-1) @ v, (*qkv(2, 4), rand(3, 5) - 1)),
    miss("the weights are an output", "used elsewhere", lambda q, k, v: (lambda w: (w @ v, w))(scores(q, k).softmax(-1)), qkv(2, 4)),
    miss("the scores are an output", "used elsewhere", lambda q, k, v: (lambda s: (s.softmax(-1) @ v, s))(scores(q, k)), qkv(2, 4)),
    miss("the weights twice", "used elsewhere", lambda q, k, v: (lambda w: (w @ v) + (w @ (v * 2)))(scores(q, k).softmax(-1)), qkv(2, 4)),
    miss("a fill of -1e4", "does not rule them out", lambda q, k, v, m: attend(q, k, v, filled(m, -1e4)), (*qkv(2, 4), mask(3, 5))),
    miss("a fill of 0", "does not rule them out", lambda q, k, v, m: attend(q, k, v, filled(m, 0.0)), (*qkv(2, 4), mask(3, 5))),
    miss("a bias and a fill", "filled after something", lambda q, k, v, a, m: attend(q, k, v, lambda s: (s + a).masked_fill(~m, -INF)), (*qkv(2, 4), rand(4, 3, 5), SEES_ALL)),
    miss("a mask larger than the scores", "larger than the scores", lambda q, k, v, m: attend(q, k, v, lambda s: s + m), (*qkv(1, 4), rand(2, 1, 3, 5))),
    miss("a float64 mask", "weights are rounded", lambda q, k, v, m: (scores(q, k) + m).softmax(-1) @ v.double(), (*qkv(2, 4), rand(3, 5).double()), (1e-6, 1e-7)),  # scores of float32
    miss("log_softmax", "", lambda q, k, v: F.log_softmax(scores(q, k), -1) @ v, qkv(2, 4)),
    miss("weights that are changed", "", lambda q, k, v: (scores(q, k).softmax(-1) + 1e-3) @ v, qkv(2, 4)),
    miss("no product of q and k", "", lambda s, v: s.softmax(-1) @ v, (rand(2, 4, 3, 5), qkv(2, 4)[2])),
    miss("the values first", "", lambda q, k, v: v.mT @ scores(q, k).mT.softmax(-1), qkv(2, 4)),
    miss("a scale by head", "", lambda q, k, v, s: (q @ k.mT * s).softmax(-1) @ v, (*qkv(2, 4), rand(4, 1, 1))),
    miss("einsum into another order", "", lambda q, k, v: torch.einsum("bhij,bhjd->bihd", (q @ k.mT).softmax(-1), v), qkv(2, 4)),
    miss("einsum over the queries", "", lambda q, k, v: torch.einsum("bhij,bhid->bhjd", (q @ k.mT).softmax(-1), v), (*qkv(2, 4)[:2], qkv(2, 4)[0])),
]  # fmt: skip


def sdpa(q, k, v, *args, groups=2, **settings):
    return F.scaled_dot_product_attention(q, repeat_kv(k, groups), repeat_kv(v, groups), *args, **settings)


def groups(name, fn, args, tolerance=None, dynamic=None, also=()):
    gone = ("broadcast_to", "repeat")
    return Hit(
        Case(name, fn, args, tolerance, dynamic, also),
        "grouped_attention",
        ("scaled_dot_product_attention",),
        gone,
    )


# PyTorch's CPU kernel rounds the weights of a half softmax to half before it multiplies them by the values.
HALVES = {HALF: (2e-3, 5e-4), BF16: (1.6e-2, 4e-3)}
GROUPS = [
    groups("groups", sdpa, qkv(2, 4, heads=2)),
    *(groups(f"groups {d}", sdpa, qkv(2, 4, heads=2, dtype=d), HALVES[d]) for d in (HALF, BF16)),
    groups("groups, mask", sdpa, (*qkv(2, 4, heads=2), mask(2, 1, 3, 5))),
    groups("groups, mask by head", sdpa, (*qkv(2, 4, heads=2), mask(2, 4, 3, 5))),
    groups("groups, causal, scale", lambda q, k, v: sdpa(q, k, v, is_causal=True, scale=0.3), qkv(2, 4, heads=2)),
    groups("groups, repeat_interleave", lambda q, k, v: F.scaled_dot_product_attention(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)), qkv(2, 4, heads=2)),
    groups("groups, dynamic", sdpa, qkv(2, 4, heads=2), dynamic=({0: B, 2: L}, AXES, AXES), also=(qkv(3, 4, heads=2, length=1, span=9),)),
]  # fmt: skip


@rows(HITS)
def test_attention(row, tmp_path):
    check_hit(row, tmp_path)


@rows(DYNAMIC)
def test_dynamic(row, tmp_path):
    check_hit(row, tmp_path)


@rows(GROUPS)
def test_groups(row, tmp_path):
    check_hit(row, tmp_path)


@rows(MISSES)
def test_no_attention(row, tmp_path):
    check_miss(row, tmp_path)


def test_dropout_in_training_is_not_dropped():
    class Training(torch.nn.Module):
        def forward(self, q, k, v):
            return F.dropout(scores(q, k).softmax(-1), 0.5, training=True) @ v

    q, k, v = qkv(2, 4)
    program = mlxify.convert(torch.export.export(Training(), (q, k, v)))
    assert "softmax" in [i.op for i in program.graph.methods["forward"].instrs]


DECOMPOSED = {
    "plain": (F.scaled_dot_product_attention, qkv(2, 4)),
    "bool mask": (F.scaled_dot_product_attention, (*qkv(2, 4), mask(3, 5))),
    "float mask": (F.scaled_dot_product_attention, (*qkv(2, 4), added(2, 1, 3, 5))),
    "half": (F.scaled_dot_product_attention, qkv(2, 4, dtype=HALF)),
    "causal": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), qkv(2, 4)),
    "groups": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True), qkv(2, 4, heads=2)),
    "eager": (eager, qkv(2, 4)),
    "eager, mask": (eager, (*qkv(2, 4), torch.where(mask(2, 1, 3, 5), 0.0, LEAST))),
}


@pytest.mark.parametrize("fn, args", DECOMPOSED.values(), ids=DECOMPOSED)
def test_decomposed(fn, args):
    """PyTorch's own decomposition into core ATen, as edge dialects have it."""
    program = mlxify.convert(exported(Case("", fn, args)).run_decompositions())
    found = [i.op for i in program.graph.methods["forward"].instrs]
    assert "scaled_dot_product_attention" in found and "softmax" not in found, found
    compare(program(*args), fn(*args), (2e-3, 5e-4) if args[0].dtype == HALF else None)
