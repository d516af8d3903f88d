"""Scaled dot-product attention."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from .harness import Case, check, params
from .test_linear import rand

HALF, BF16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
INF = float("inf")
aten = torch.ops.aten


def sdpa(**settings):
    return lambda q, k, v, *mask: F.scaled_dot_product_attention(q, k, v, *mask, **settings)


def qkv(*lead, length=3, span=5, width=8, out=None, heads=None, dtype=F32):
    """lead: batch axes and heads of the queries; heads: of keys and values."""
    others = lead if heads is None else (*lead[:-1], heads)
    return (
        rand(*lead, length, width, dtype=dtype),
        rand(*others, span, width, dtype=dtype) + 0.1,
        rand(*others, span, out or width, dtype=dtype) - 0.2,
    )


def mask(*shape):
    """Booleans, one row of which is all false."""
    seen = rand(*shape) > 0
    seen[..., 1, :] = False
    return seen


def added(*shape, dtype=F32):
    return rand(*shape, dtype=dtype).masked_fill(~mask(*shape), -INF)


def kept(result):
    """Whether each element is a whole number of fifths, doubled."""
    count = result * 2.5
    return ((count - count.round()).abs() < 0.01) & (count < 5.01)


def twice(result, value):
    return ((result - 2 * value).abs() < 1e-5) | (result == 0)


NAN_MASK = torch.zeros(3, 5)
NAN_MASK[0, 2] = float("nan")

# PyTorch's CPU kernel rounds the weights of a half softmax to half before it multiplies them by the values.
HALVES = {HALF: (2e-3, 5e-4), BF16: (1.6e-2, 4e-3)}
# Scores of several hundred are known to 2e-5 in float32, and so are their exponentials.
LARGE = (1e-4, 1e-4)

CASES = [
    *(Case(f"{d}", sdpa(), qkv(2, 4, dtype=d), tolerance=HALVES.get(d)) for d in (F32, HALF, BF16, F64)),
    Case("decomposed", sdpa(), qkv(2, 4), decomposed=True, compiled=True),
    *(Case(f"rank {len(lead) + 2}", sdpa(), qkv(*lead), decomposed=len(lead) > 1) for lead in ((), (4,), (2, 3, 4), (2, 1, 3, 4))),
    Case("scale", sdpa(scale=0.3), qkv(2, 4)),
    Case("another width of values", sdpa(), qkv(2, 4, out=6)),
    Case("odd widths", sdpa(), qkv(2, 4, width=7, out=5)),
    Case("width 1", sdpa(), qkv(2, 4, width=1)),
    Case("large scores", sdpa(scale=10.0), qkv(2, 4, width=64), tolerance=LARGE),
    # A half product of 64 terms as large as these would be off by 0.03 and the softmax by 3 %.
    Case("large scores, half", sdpa(scale=0.5), qkv(2, 4, width=64, dtype=HALF), tolerance=HALVES[HALF]),
    *(Case(f"causal {a}, {b}", sdpa(is_causal=True), qkv(2, 4, length=a, span=b), decomposed=True) for a, b in ((4, 4), (3, 5), (5, 3), (1, 5))),
    Case("causal half", sdpa(is_causal=True), qkv(2, 4, length=5, span=5, dtype=HALF), tolerance=HALVES[HALF]),
    *(Case(f"bool mask {s}", sdpa(), (*qkv(2, 4), mask(*s))) for s in ((3, 5), (2, 1, 3, 5), (2, 4, 3, 5), (4, 3, 5))),
    *(Case(f"float mask {s}", sdpa(), (*qkv(2, 4), added(*s))) for s in ((3, 5), (2, 1, 3, 5), (2, 4, 3, 5))),
    Case("mask of keys", sdpa(), (*qkv(2, 4), mask(2, 1, 2, 5)[:, :, :1])),
    Case("mask decomposed", sdpa(), (*qkv(2, 4), mask(2, 1, 3, 5)), decomposed=True, compiled=True),
    Case("mask and causal", sdpa(is_causal=True), (*qkv(2, 4), rand(3, 5))),
    Case("bool mask and causal", sdpa(is_causal=True), (*qkv(2, 4, length=5), rand(5, 5) > -1)),
    Case("rank 3 mask", sdpa(), (*qkv(4), mask(4, 3, 5))),
    Case("rank 2 mask", sdpa(), (*qkv(), mask(3, 5))),
    Case("rank 5 mask", sdpa(), (*qkv(2, 3, 4), mask(2, 1, 1, 3, 5))),
    Case("rank 5 mask of rank 4", sdpa(), (*qkv(2, 3, 4), mask(3, 1, 3, 5))),
    Case("rank 5 mask of rank 3", sdpa(), (*qkv(2, 3, 4), mask(4, 3, 5))),
    Case("half mask", sdpa(), (*qkv(2, 4, dtype=HALF), added(3, 5, dtype=HALF)), tolerance=HALVES[HALF]),
    Case("half, float32 mask", sdpa(), (*qkv(2, 4, dtype=HALF), added(3, 5)), tolerance=HALVES[HALF]),
    Case("half, bool mask", sdpa(), (*qkv(2, 4, dtype=BF16), mask(3, 5)), tolerance=HALVES[BF16]),
    Case("float64, float32 mask", sdpa(), (*qkv(2, 4, dtype=F64), added(3, 5))),
    Case("mask of the least float", sdpa(), (*qkv(2, 4), torch.where(mask(3, 5), 0.0, torch.finfo(F32).min))),
    Case("mask of the least half", sdpa(), (*qkv(2, 4, dtype=HALF), torch.where(mask(3, 5), 0.0, torch.finfo(F32).min).half()), tolerance=HALVES[HALF]),
    Case("nan in the mask", sdpa(), (*qkv(2, 4), NAN_MASK)),
    Case("everything masked", sdpa(), (*qkv(2, 4), torch.zeros(3, 5, dtype=torch.bool))),
    Case("grouped heads", sdpa(enable_gqa=True), qkv(2, 6, heads=2), decomposed=True),
    Case("grouped heads, mask", sdpa(enable_gqa=True), (*qkv(2, 6, heads=2), mask(2, 1, 3, 5))),
    Case("grouped heads, causal", sdpa(enable_gqa=True, is_causal=True), qkv(2, 6, heads=3)),
    Case("grouped heads, half", sdpa(enable_gqa=True), qkv(2, 6, heads=2, dtype=HALF), tolerance=HALVES[HALF]),
    Case("grouped heads, rank 5", sdpa(enable_gqa=True), qkv(2, 3, 4, heads=2)),
    Case("one head of keys", sdpa(), qkv(2, 4, heads=1)),
    Case("one head of queries", sdpa(), qkv(2, 1, heads=4)),
    Case("one batch of queries", sdpa(), (qkv(1, 4)[0], *qkv(2, 4)[1:])),
    Case("one batch of keys", sdpa(), (qkv(3, 4)[0], *qkv(1, 4)[1:])),
    Case("fewer axes of queries", sdpa(), (qkv(4)[0], *qkv(2, 4)[1:])),
    Case("no keys", sdpa(), (qkv(2, 4)[0], torch.zeros(2, 4, 0, 8), torch.zeros(2, 4, 0, 8))),
    Case("no queries", sdpa(), (torch.zeros(2, 4, 0, 8), *qkv(2, 4)[1:])),
    Case("width 0", sdpa(), (torch.zeros(2, 4, 3, 0), torch.zeros(2, 4, 5, 0), rand(2, 4, 5, 8))),
    # Keys that agree give equal weights, of which each is doubled or 0: the results are whole numbers of fifths, doubled.
    *(Case(f"dropout {shape} {heads}", lambda q, k, v, o=options: kept(sdpa(dropout_p=0.5, **o)(q, k * 0, v * 0 + 1)), qkv(*shape, heads=heads))
      for shape, heads, options in (((2, 4), 4, {}), ((), 4, {}), ((4,), 4, {}), ((2, 3, 4), 2, {"enable_gqa": True}), ((2, 4), 1, {}))),
    Case("dropout half", lambda q, k, v: kept(sdpa(dropout_p=0.5)(q, k * 0, v * 0 + 1).float()), qkv(2, 4, dtype=HALF)),
    Case("dropout of everything", sdpa(dropout_p=1.0), qkv(2, 4)),
    Case("dropout masked", lambda *x: sdpa(dropout_p=0.5)(*x) * 0, (*qkv(2, 4), torch.zeros(3, 5, dtype=torch.bool))),
    Case("dropout one key", lambda q, k, v, m: twice(sdpa(dropout_p=0.5)(q, k, v, m), v[..., 1:2, :]), (*qkv(2, 4), torch.arange(5).expand(3, 5) == 1)),
    Case("dropout causal", lambda q, k, v: twice(sdpa(dropout_p=0.5, is_causal=True)(q, k, v)[..., :1, :], v[..., :1, :]), qkv(2, 4)),
    Case("dropout mask", lambda q, k, v, m: aten._scaled_dot_product_attention_math(q, k, v, None, 0.25, False, m), (*qkv(2, 4), mask(2, 4, 3, 5))),
    Case("dropout of the math", lambda q, k, v: ((r := aten._scaled_dot_product_attention_math(q, k, v, None, 0.5))[1] @ v - r[0]) * 1e-3, qkv(2, 4)),
    Case("not contiguous", lambda x: F.scaled_dot_product_attention(*x.view(2, 5, 3, 4, 8).permute(2, 0, 3, 1, 4)), (rand(2, 5, 96),)),
]  # fmt: skip

B, L, S = Dim("b"), Dim("l"), Dim("s")
AXES = {0: B, 2: S}

DYNAMIC = [
    Case("dynamic", sdpa(), qkv(2, 4), dynamic=({0: B, 2: L}, AXES, AXES),
         also=(qkv(1, 4, length=1, span=9), qkv(5, 4, length=9, span=1)), decomposed=True),
    Case("dynamic causal", sdpa(is_causal=True), qkv(2, 4), dynamic=({0: B, 2: L}, AXES, AXES),
         also=(qkv(1, 4, length=6, span=6), qkv(5, 4, length=9, span=1))),
    Case("dynamic mask", sdpa(), (*qkv(2, 4), mask(2, 1, 3, 5)), dynamic=({0: B, 2: L}, AXES, AXES, {0: B, 2: L, 3: S}),
         also=((*qkv(1, 4, length=2, span=9), mask(1, 1, 2, 9)), (*qkv(5, 4, length=9, span=1), mask(5, 1, 9, 1)))),
    Case("dynamic rank 3", sdpa(), qkv(4), dynamic=({0: B, 1: L}, {0: B, 1: S}, {0: B, 1: S}),
         also=(qkv(1, length=1, span=9), qkv(5, length=9, span=1))),
    Case("dynamic rank 5", sdpa(), qkv(2, 3, 4), dynamic=({0: B, 3: L}, {0: B, 3: S}, {0: B, 3: S}),
         also=(qkv(1, 3, 4, length=1, span=9), qkv(5, 3, 4, length=9, span=1))),
    Case("dynamic grouped heads", sdpa(enable_gqa=True), qkv(2, 4, heads=2), dynamic=({0: B, 2: L}, AXES, AXES),
         also=(qkv(1, 4, heads=2, length=1, span=9), qkv(5, 4, heads=2, length=9, span=1))),
]  # fmt: skip

FORMS = [
    Case("flash for cpu", lambda *a: aten._scaled_dot_product_flash_attention_for_cpu(*a), qkv(2, 4)),
    Case("flash for cpu, causal", lambda *a: aten._scaled_dot_product_flash_attention_for_cpu(*a, 0.0, True), qkv(2, 4)),
    Case("flash for cpu, mask", lambda *a: aten._scaled_dot_product_flash_attention_for_cpu(*a[:3], attn_mask=a[3], scale=0.4), (*qkv(2, 4), added(3, 5))),
    Case("flash for cpu, half", lambda *a: aten._scaled_dot_product_flash_attention_for_cpu(*a)[0], qkv(2, 4, dtype=HALF)),
    Case("math", lambda *a: aten._scaled_dot_product_attention_math(*a), qkv(2, 4)),
    Case("math, mask", lambda *a: aten._scaled_dot_product_attention_math(*a), (*qkv(2, 4), mask(3, 5))),
    Case("math, float mask", lambda *a: aten._scaled_dot_product_attention_math(*a), (*qkv(2, 4), added(3, 5))),
    Case("math, causal and groups", lambda *a: aten._scaled_dot_product_attention_math(*a, is_causal=True, enable_gqa=True), qkv(2, 4, heads=2)),
]  # fmt: skip


class Heads(nn.Module):
    """nn.MultiheadAttention as models call it."""

    def __init__(self, attention, **settings):
        super().__init__()
        self.attention, self.settings = attention, settings

    def forward(self, q, k, v, **masks):
        return self.attention(q, k, v, **self.settings, **masks)


class SelfAttention(nn.Module):
    def __init__(self, causal=False, **settings):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.causal, self.settings = causal, settings

    def forward(self, x, padding=None):
        hidden = nn.Transformer.generate_square_subsequent_mask(x.shape[1]) if self.causal else None
        settings = {"is_causal": True, "attn_mask": hidden} if self.causal else {}
        return self.attention(x, x, x, key_padding_mask=padding, **settings, **self.settings)


X = rand(2, 5, 8)
PADDING = torch.tensor([[False, False, True, False, True], [False] * 5])

MULTIHEAD = [
    Case("self-attention", SelfAttention(), (X,), decomposed=True),
    Case("self-attention, no weights", SelfAttention(need_weights=False), (X,), decomposed=True),
    Case("self-attention, every head's weights", SelfAttention(average_attn_weights=False), (X,)),
    Case("self-attention, padding", SelfAttention(need_weights=False), (X, PADDING)),
    Case("self-attention, padding, weights", SelfAttention(), (X, PADDING)),
    Case("self-attention, causal", SelfAttention(causal=True, need_weights=False), (X,), decomposed=True),
    Case("self-attention, dynamic", SelfAttention(need_weights=False), (X,), dynamic=({0: B, 1: L}, None)[:1],
         also=((rand(1, 2, 8),), (rand(4, 9, 8),))),
    Case("cross-attention", Heads(nn.MultiheadAttention(8, 2, kdim=6, vdim=4)), (rand(3, 2, 8), rand(5, 2, 6), rand(5, 2, 4))),
    Case("bias_kv and zeros", Heads(nn.MultiheadAttention(8, 2, add_bias_kv=True, add_zero_attn=True, batch_first=True)), (X, X, X)),
    Case("encoder layer", nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (X,), decomposed=True),
    Case("encoder layer, gelu, norm first", nn.TransformerEncoderLayer(8, 2, 16, activation="gelu", norm_first=True), (X,)),
    Case("encoder", nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2), (X,)),
    Case("decoder layer", nn.TransformerDecoderLayer(8, 2, 16, batch_first=True), (X, rand(2, 3, 8))),
]  # fmt: skip


@params(CASES)
def test_attention(case, tmp_path):
    check(case, tmp_path)


@params(DYNAMIC)
def test_dynamic(case, tmp_path):
    check(case, tmp_path)


@params(FORMS)
def test_forms(case, tmp_path):
    check(case, tmp_path)


@params(MULTIHEAD)
def test_multihead(case, tmp_path):
    check(case, tmp_path)
