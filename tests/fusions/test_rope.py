"""Rotary position embedding that a model spells out."""

import torch
from torch.export import Dim

from ..ops.harness import Case
from ..ops.test_linear import rand
from .harness import Hit, Miss, check_hit, check_miss, rows

HALF, BF16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
B, T = Dim("b"), Dim("t")
RATES = 10000.0 ** (-torch.arange(0, 8, 2) / 8)
X, Y = rand(2, 3, 5, 8), rand(2, 1, 5, 8)


def rotate_half(x):
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


def rotate_every_two(x):
    return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)


def angles(length, dtype=F32):
    """(1, t, d / 2), as transformers computes them."""
    position = torch.arange(length)[None]
    return (RATES[None, :, None].to(dtype) @ position[:, None, :].to(dtype)).transpose(1, 2)


def llama(q, k=None):
    """transformers' LlamaRotaryEmbedding and apply_rotary_pos_emb."""
    freqs = angles(q.shape[2])
    emb = torch.cat((freqs, freqs), dim=-1)
    cos, sin = (emb.cos() * 1.0).to(q.dtype).unsqueeze(1), (emb.sin() * 1.0).to(q.dtype).unsqueeze(1)
    turned = q * cos + rotate_half(q) * sin
    return turned if k is None else (turned, k * cos + rotate_half(k) * sin)


def gpt_oss(x):
    freqs = angles(x.shape[2])
    cos, sin = freqs.cos().unsqueeze(1), freqs.sin().unsqueeze(1)
    first, second = torch.chunk(x, 2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def interleaved(x):
    freqs = angles(x.shape[2])
    cos, sin = (f.repeat_interleave(2, dim=-1) for f in (freqs.cos(), freqs.sin()))
    return x * cos + rotate_every_two(x) * sin


def pairs(x):
    freqs = angles(x.shape[2])[0]
    x1, x2 = x[..., 0::2], x[..., 1::2]
    return torch.stack(
        [x1 * freqs.cos() - x2 * freqs.sin(), x1 * freqs.sin() + x2 * freqs.cos()], -1
    ).flatten(-2)


def partly(x):
    return torch.cat([llama_of(x[..., :8]), x[..., 8:]], -1)


def llama_of(x, change=lambda a: a, wide=lambda x: x):
    freqs = angles(x.shape[2])
    freqs = change(freqs)
    emb = torch.cat((freqs, freqs), dim=-1)
    return wide(x) * emb.cos() + rotate_half(wide(x)) * emb.sin()


def hit(name, fn, *args, count=1, dynamic=None, also=(), gone=("negative",)):
    return Hit(Case(name, fn, args or (X,), dynamic=dynamic, also=also), "rope", ("rope",), gone, count)


HITS = [
    hit("Llama", llama),
    hit("Llama, queries and keys", llama, X, Y, count=2, gone=("negative", "cos", "sin", "concatenate")),
    hit("Llama, dynamic", llama, dynamic=({0: B, 2: T},), also=((rand(1, 3, 1, 8),), (rand(4, 3, 9, 8),))),
    hit("gpt-oss", gpt_oss),
    hit("gpt-oss, dynamic", gpt_oss, dynamic=({0: B, 2: T},), also=((rand(1, 3, 1, 8),), (rand(4, 3, 9, 8),))),
    hit("interleaved", interleaved),
    hit("interleaved, dynamic", interleaved, dynamic=({0: B, 2: T},), also=((rand(1, 3, 1, 8),), (rand(4, 3, 9, 8),))),
    hit("pairs", pairs),
    hit("some features", partly, rand(2, 3, 5, 12)),
    hit("the sum the other way", lambda x: (lambda e: e.sin() * rotate_half(x) + e.cos() * x)(torch.cat([angles(5)[0]] * 2, -1))),
    hit("rank 3", lambda x: (lambda e: x * e.cos() + rotate_half(x) * e.sin())(torch.cat([angles(5)[0]] * 2, -1)), X[0]),
    hit("far positions", lambda x: llama_of(x, lambda a: a * 3e3)),
    *(hit(f"widened {d}", lambda x: llama_of(x, wide=lambda y: y.float()).to(x.dtype), X.to(d)) for d in (HALF, BF16)),
    hit("half times float32", llama_of, X.half()),
    hit("float64", lambda x: (lambda e: x * e.cos() + rotate_half(x) * e.sin())(torch.cat([angles(5, F64)] * 2, -1)), X.double()),
]  # fmt: skip


def miss(name, reason, fn, *args, tolerance=None):
    return Miss(Case(name, fn, args or (X,), tolerance), "rope", reason)


# Sums of two rounded products of rounded factors.
CHAIN = {HALF: (4e-3, 2e-3), BF16: (3e-2, 2e-2)}
ELSEWHERE = "on the axis before the last alone"
DATA = "not just those of angles"

MISSES = [
    *(miss(f"Llama {d}", "half precision", llama, X.to(d), tolerance=CHAIN[d]) for d in (HALF, BF16)),
    miss("tables", DATA, lambda x, c, s: x * c + rotate_half(x) * s, X, rand(5, 8), rand(5, 8)),
    miss("scaled", DATA, lambda x: (lambda e: x * (e.cos() * 1.2) + rotate_half(x) * (e.sin() * 1.2))(torch.cat([angles(5)[0]] * 2, -1))),
    miss("positions by sequence", ELSEWHERE, lambda x, a: (lambda e: x * e.cos() + rotate_half(x) * e.sin())(torch.cat((a, a), -1).unsqueeze(1)), X, rand(2, 5, 4)),
    miss("positions along another axis", ELSEWHERE, lambda x: (lambda e: x * e.cos() + rotate_half(x) * e.sin())(torch.cat([angles(3)[0]] * 2, -1)[:, None]), X),
    miss("other angles for the sines", DATA, lambda x: (lambda e: x * e.cos() + rotate_half(x) * (e * 2).sin())(torch.cat([angles(5)[0]] * 2, -1))),
    miss("an angle for each feature", "one angle for each pair", lambda x, a: x * a.cos() + rotate_half(x) * a.sin(), X, rand(5, 8)),
    miss("a minus", "", lambda x: (lambda e: x * e.cos() - rotate_half(x) * e.sin())(torch.cat([angles(5)[0]] * 2, -1))),
    miss("turned the other way", "", lambda x: (lambda e: x * e.cos() + torch.cat((x[..., 4:], -x[..., :4]), -1) * e.sin())(torch.cat([angles(5)[0]] * 2, -1))),
    miss("another vector is turned", "", lambda x: (lambda e: x * e.cos() + rotate_half(x + 1) * e.sin())(torch.cat([angles(5)[0]] * 2, -1))),
    miss("unequal halves", "", lambda x: (lambda e: x * e.cos() + torch.cat((-x[..., 3:], x[..., :3]), -1) * e.sin())(torch.cat([angles(5)[0]] * 2, -1))),
    miss("halves with interleaved angles", "one angle for each pair", lambda x: (lambda e: x * e.cos() + rotate_half(x) * e.sin())(angles(5)[0].repeat_interleave(2, -1))),
    miss("the turned are an output", "used elsewhere", lambda x: (lambda e, r: (x * e.cos() + r * e.sin(), r))(torch.cat([angles(5)[0]] * 2, -1), rotate_half(x))),
    miss("rank 2", "not a rotation of", lambda x: (lambda e: x * e.cos() + rotate_half(x) * e.sin())(torch.cat([angles(5)[0]] * 2, -1)), X[0, 0]),
]  # fmt: skip


@rows(HITS)
def test_rope(row, tmp_path):
    check_hit(row, tmp_path)


@rows(MISSES)
def test_no_rope(row, tmp_path):
    check_miss(row, tmp_path)
