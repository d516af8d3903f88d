"""RMS and layer norms that a model spells out."""

import pytest
import torch
from torch import nn
from torch.export import Dim

import mlxify

from ..ops.harness import Case
from ..ops.test_linear import rand
from .harness import Hit, Miss, check_hit, check_miss, rows

HALF, BF16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
EPS = 1e-5
B, T = Dim("b"), Dim("t")
X, W, BIAS = rand(2, 5, 16), rand(16) + 1, rand(16)


class LlamaRMSNorm(nn.Module):
    """As in transformers: the normed vector is rounded before it meets the weight."""

    def __init__(self, size=16, dtype=F32, weight=None):
        super().__init__()
        self.weight = nn.Parameter((rand(size) + 1).to(weight or dtype))

    def forward(self, x):
        dtype = x.dtype
        x = x.to(torch.float32)
        variance = x.pow(2).mean(-1, keepdim=True)
        return self.weight * (x * torch.rsqrt(variance + EPS)).to(dtype)


class GemmaRMSNorm(nn.Module):
    def __init__(self, size=16, dtype=F32):
        super().__init__()
        self.weight = nn.Parameter(rand(size).to(dtype))

    def forward(self, x):
        wide = x.float()
        normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + EPS)
        return (normed * (1.0 + self.weight.float())).type_as(x)


def mean2(x, dim=-1):
    return x.pow(2).mean(dim, keepdim=True)


def rms(name, fn, *args, dynamic=None, also=(), program=("rms_norm",), gone=("mean", "rsqrt", "divide")):
    return Hit(Case(name, fn, args or (X, W), dynamic=dynamic, also=also), "rms_norm", program, gone)


RMS_HITS = [
    *(rms(f"Llama {d}", LlamaRMSNorm(dtype=d), (X * 3).to(d)) for d in (F32, HALF, BF16)),
    rms("Llama half, float32 weight", LlamaRMSNorm(weight=F32), X.half()),
    rms("Llama dynamic", LlamaRMSNorm(), X, dynamic=({0: B, 1: T},), also=((rand(1, 1, 16),), (rand(4, 7, 16),), (rand(0, 2, 16),))),
    rms("Llama dynamic, half", LlamaRMSNorm(dtype=HALF), X.half(), dynamic=({0: B, 1: T},), also=((rand(4, 7, 16).half(),),)),
    *(rms(f"Gemma {d}", GemmaRMSNorm(dtype=d), X.to(d)) for d in (F32, HALF, BF16)),
    rms("x / sqrt", lambda x, w: x / torch.sqrt(mean2(x) + EPS) * w),
    rms("x * (1 / sqrt)", lambda x, w: w * (x * (1 / torch.sqrt(mean2(x) + EPS)))),
    rms("x * (1.0 / sqrt)", lambda x, w: x * (1.0 / (mean2(x) + EPS).sqrt()) * w),
    rms("x ** 2", lambda x, w: x * torch.rsqrt((x**2).mean(-1, keepdim=True) + EPS) * w),
    rms("x * x", lambda x, w: x * torch.rsqrt((x * x).mean(dim=2, keepdim=True) + EPS) * w),
    rms("square, eps first", lambda x, w: x * torch.rsqrt(EPS + torch.mean(torch.square(x), -1, True)) * w),
    rms("power of -0.5", lambda x, w: x * torch.pow(mean2(x) + EPS, -0.5) * w),
    rms("power of 0.5", lambda x, w: x / (mean2(x) + EPS) ** 0.5 * w),
    rms("unsqueeze", lambda x, w: x * torch.rsqrt(x.pow(2).mean(-1).unsqueeze(-1) + EPS) * w),
    rms("no weight", lambda x: x * torch.rsqrt(mean2(x) + EPS), X),
    rms("no weight, half", lambda x: (x.float() * torch.rsqrt(mean2(x.float()) + EPS)).to(x.dtype), X.half()),
    rms("the weight first", lambda x, w: (w * x) * torch.rsqrt(mean2(x) + EPS)),
    rms("the weight first, divided", lambda x, w: w * x / torch.sqrt(mean2(x) + EPS)),
    rms("half in, float32 out", lambda x, w: x.float() * torch.rsqrt(mean2(x.float()) + EPS) * w, X.half(), W),
    rms("half multiplied by float32", lambda x, w: x * torch.rsqrt(mean2(x.float()) + EPS) * w, X.half(), W),
    rms("float32 in, half out", lambda x, w: (x * torch.rsqrt(mean2(x) + EPS) * w).half()),
    rms("float16 in, bfloat16 out", lambda x, w: (x.float() * torch.rsqrt(mean2(x.float()) + EPS) * w).bfloat16(), X.half(), W),
    rms("computed in float64", lambda x, w: (x.double() * torch.rsqrt(mean2(x.double()) + EPS)).float() * w),
    rms("float64", lambda x, w: x * torch.rsqrt(mean2(x) + EPS) * w, X.double(), W.double()),
    rms("large half", lambda x: (x.float() * torch.rsqrt(mean2(x.float()) + EPS)).half(), X.half() * 6000),
    rms("copies between", lambda x, w: (x.contiguous() * torch.rsqrt(mean2(x.clone()) + EPS).detach()).contiguous() * w),
    rms("in place", lambda x, w: (x * torch.rsqrt(mean2(x) + EPS)).mul_(w)),
    rms("a gate follows", lambda x, g: x * torch.rsqrt(mean2(x) + EPS) * g, X, rand(2, 5, 16)),
    rms("the float32 vector is used again", lambda x, w: (lambda y: (y * torch.rsqrt(mean2(y) + EPS) * w, y + 1))(x.float()), X.half(), W),
    rms("eps of 1e-2", lambda x, w: x * torch.rsqrt(mean2(x) + 1e-2) * w),
    Hit(Case("twice", nn.Sequential(LlamaRMSNorm(), LlamaRMSNorm()), (X,)), "rms_norm", count=2),
]  # fmt: skip

DIVIDED, AXIS, HALFWAY = "is not that of which the mean", "not over the last one", "in half precision"


def miss(name, reason, fn, *args, fusion="rms_norm", tolerance=None):
    return Miss(Case(name, fn, args or (X, W), tolerance), fusion, reason)


# Several ops in half precision, each within a unit in the last place.
CHAIN, CHAIN_BF16 = (3e-3, 1e-3), (2.4e-2, 8e-3)


RMS_MISSES = [
    miss("another vector is divided", DIVIDED, lambda x, w: (x + 1) * torch.rsqrt(mean2(x) + EPS) * w),
    miss("the mean of a product", "", lambda x, w: x * torch.rsqrt((x * w).pow(1).mean(-1, keepdim=True).abs() + EPS)),
    miss("the mean over axis 1", AXIS, lambda x: x * torch.rsqrt(mean2(x, 1) + EPS), X),
    miss("the mean over two axes", AXIS, lambda x: x * torch.rsqrt(x.pow(2).mean((-1, -2), keepdim=True) + EPS), X),
    miss("a sum", "", lambda x: x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) + EPS), X),
    miss("the third power", "", lambda x: x * torch.rsqrt(x.pow(4).mean(-1, keepdim=True) + EPS), X),
    miss("eps outside the root", "eps is added to the root", lambda x, w: x / (torch.sqrt(mean2(x)) + EPS) * w),
    miss("eps is a tensor", "eps is not", lambda x, e: x * torch.rsqrt(mean2(x) + e), X, torch.tensor(EPS)),
    miss("eps is negative", "eps is not", lambda x: x * torch.rsqrt(mean2(x) + -1e-3), X),
    miss("no eps", "", lambda x: x * torch.rsqrt(mean2(x)), X),
    miss("half all the way", HALFWAY, lambda x, w: x * torch.rsqrt(mean2(x) + EPS) * w, X.half(), W.half(), tolerance=CHAIN),
    miss("squares in half", HALFWAY, lambda x: x * torch.rsqrt(mean2(x) + EPS), X.bfloat16(), tolerance=CHAIN_BF16),
    miss("the root in half", "", lambda x: x * torch.rsqrt(mean2(x.float()) + EPS).to(x.dtype), X.half(), tolerance=CHAIN),
    miss("the mean is used elsewhere", "used elsewhere", lambda x: (lambda m: (x * torch.rsqrt(m + EPS), m))(mean2(x)), X),
    miss("integers between", DIVIDED, lambda x: x * torch.rsqrt(mean2(x.to(torch.int32).to(torch.float32)) + EPS), X * 4),
    miss("x is written to", DIVIDED, lambda x: (lambda y: (lambda m: y.add_(1.0) * torch.rsqrt(m + EPS))(mean2(y)))(x * 2), X),
    miss("the division is inverted", "", lambda x: torch.sqrt(mean2(x) + EPS) / x, X),
    miss("two eps", "", lambda x: x * torch.rsqrt(mean2(x) * 2 + EPS), X),
    miss("alpha", "", lambda x: x * torch.rsqrt(torch.add(mean2(x), torch.tensor(1.0), alpha=EPS)), X),
]  # fmt: skip


def var(x, dim=-1, **settings):
    return x.var(dim, keepdim=True, **{"unbiased": False, **settings})


def centred(x, dim=-1):
    return x - x.mean(dim, keepdim=True)


def layer(name, fn, *args, dynamic=None, also=(), gone=("mean", "var", "rsqrt", "sqrt", "subtract")):
    case = Case(name, fn, args or (X, W, BIAS), dynamic=dynamic, also=also)
    return Hit(case, "layer_norm", ("layer_norm",), gone)


class ByHand(nn.Module):
    """The first layer norm of many a repository, computed as in mixed precision."""

    def __init__(self, dtype=F32):
        super().__init__()
        self.weight, self.bias = nn.Parameter(W.to(dtype)), nn.Parameter(BIAS.to(dtype))

    def forward(self, x):
        wide = x.float()
        mean = wide.mean(-1, keepdim=True)
        variance = (wide - mean).pow(2).mean(-1, keepdim=True)
        return (self.weight * ((wide - mean) / torch.sqrt(variance + EPS)) + self.bias).to(x.dtype)


LAYER_HITS = [
    *(layer(f"by hand {d}", ByHand(d), (X + 2).to(d)) for d in (F32, HALF, BF16)),
    layer("dynamic", ByHand(), X, dynamic=({0: B, 1: T},), also=((rand(1, 1, 16),), (rand(4, 7, 16),))),
    layer("dynamic, half", ByHand(HALF), X.half(), dynamic=({0: B, 1: T},), also=((rand(4, 7, 16).half(),),)),
    layer("var", lambda x, w, b: centred(x) / torch.sqrt(var(x) + EPS) * w + b),
    layer("var correction", lambda x, w, b: centred(x) * torch.rsqrt(torch.var(x, -1, correction=0, keepdim=True) + EPS) * w + b),
    layer("var of the centred", lambda x, w, b: b + w * (centred(x) * torch.rsqrt(var(centred(x)) + EPS))),
    layer("var_mean", lambda x, w, b: (lambda v, m: (x - m) * torch.rsqrt(v + EPS) * w + b)(*torch.var_mean(x, -1, correction=0, keepdim=True))),
    layer("the weight first", lambda x, w, b: w * centred(x) / torch.sqrt(var(x) + EPS) + b),
    layer("no bias", lambda x, w: centred(x) / torch.sqrt(var(x) + EPS) * w, X, W),
    layer("no weight", lambda x, b: centred(x) / torch.sqrt(var(x) + EPS) + b, X, BIAS),
    layer("neither", lambda x: centred(x) / torch.sqrt(var(x) + EPS), X),
    layer("power of 0.5", lambda x: centred(x) / (var(x) + EPS) ** 0.5, X),
    layer("a residual follows", lambda x, w: centred(x) / torch.sqrt(var(x) + EPS) * w + x, X, W),
    layer("half in, float32 out", lambda x, w, b: centred(x.float()) / torch.sqrt(var(x.float()) + EPS) * w + b, X.half(), W, BIAS),
    layer("float64", lambda x, w, b: centred(x) / torch.sqrt(var(x) + EPS) * w + b, X.double(), W.double(), BIAS.double()),
]  # fmt: skip

LAYER_MISSES = [
    miss("unbiased", "unbiased", lambda x: centred(x) / torch.sqrt(var(x, unbiased=True) + EPS), X, fusion="layer_norm"),
    miss("std and eps outside", "eps is added to the root", lambda x, w, b: w * centred(x) / (x.std(-1, keepdim=True) + EPS) + b, X, W, BIAS, fusion="layer_norm"),
    miss("over the channels", AXIS, lambda x, w, b: w[:, None] * (centred(x, 1) / torch.sqrt(var(x, 1) + EPS)) + b[:, None], X.mT, W, BIAS, fusion="layer_norm"),
    miss("another mean", DIVIDED, lambda x: (x - (x + 1).mean(-1, keepdim=True)) / torch.sqrt(var(x) + EPS), X, fusion="layer_norm"),
    miss("another variance", DIVIDED, lambda x: centred(x) / torch.sqrt(var(x * 2) + EPS), X, fusion="layer_norm"),
    miss("half all the way in", HALFWAY, lambda x: centred(x) / torch.sqrt(var(x) + EPS), X.half(), fusion="layer_norm", tolerance=CHAIN),
    miss("a mean over another axis", AXIS, lambda x: centred(x, 1) / torch.sqrt(var(x) + EPS), X, fusion="layer_norm"),
    miss("the centred is an output", "used elsewhere", lambda x: (lambda c: (c / torch.sqrt(var(c) + EPS), c))(centred(x)), X, fusion="layer_norm"),
]  # fmt: skip


@rows(RMS_HITS)
def test_rms_norm(row, tmp_path):
    check_hit(row, tmp_path)


@rows(RMS_MISSES)
def test_no_rms_norm(row, tmp_path):
    check_miss(row, tmp_path)


@rows(LAYER_HITS)
def test_layer_norm(row, tmp_path):
    check_hit(row, tmp_path)


@rows(LAYER_MISSES)
def test_no_layer_norm(row, tmp_path):
    check_miss(row, tmp_path)


@pytest.mark.parametrize("dtype", [F32, HALF])
def test_decomposed_rms_norm(dtype):
    exported = torch.export.export(nn.RMSNorm(16, eps=EPS).to(dtype), (X.to(dtype),)).run_decompositions()
    found = [instr.op for instr in mlxify.convert(exported).graph.methods["forward"].instrs]
    assert found == ["rms_norm"]
