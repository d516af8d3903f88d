"""Quantised matrices that a model dequantises before it multiplies by them or takes rows of them."""

import pytest
import torch
import torch.ao.quantization.fx._decomposed
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

import mlxify

from ..ops.harness import Case, compare
from ..ops.test_linear import rand
from .harness import Hit, Miss, check_hit, check_miss, rows

pytest.importorskip("torchao")
HALF, BF16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
I8, U8 = torch.int8, torch.uint8
ao, qd = torch.ops.torchao, torch.ops.quantized_decomposed
N, K = 24, 128
# PyTorch rounds every dequantised weight, so that sums of K products differ by a rounding of about their own size.
HALVES = {HALF: (1e-3, 3e-3), BF16: (8e-3, 3e-2)}


def integers(low, high, dtype=I8, shape=(N, K)):
    generator = torch.Generator().manual_seed(0)
    values = torch.randint(low, high + 1, shape, generator=generator, dtype=torch.int64)
    values.view(-1)[:2] = torch.tensor([low, high])  # so that the range is known to be the whole
    return values.to(dtype)


class Quantised(nn.Module):
    """`use(x, matrix)` of a matrix that `dequantise(q, scale, point)` gives. limits: of q; shape: of the scales.

    point, bias: dtypes; zero: zero points of 0.
    """

    def __init__(
        self, dequantise, use=F.linear, limits=(-8, 7), dtype=I8, shape=(N, K // 32), scale=F32, **vectors
    ):
        super().__init__()
        self.dequantise, self.use = dequantise, use
        point, bias = vectors.get("point"), vectors.get("bias")
        self.register_buffer("q", integers(*limits, dtype))
        self.register_buffer("scale", ((rand(*shape).abs() + 0.1) / (4 * limits[1] + 4)).to(scale))
        self.register_buffer("point", None if point is None else integers(*limits, point, shape))
        if "zero" in vectors:
            self.point = torch.zeros(shape, dtype=I8)
        self.register_buffer("bias", None if bias is None else rand(N).to(bias))

    def forward(self, x):
        matrix = self.dequantise(self.q, self.scale, self.point)
        return self.use(x, matrix) if self.bias is None else self.use(x, matrix, self.bias)


def groups(size=32, out=F32):
    return lambda q, s, z: ao.dequantize_affine(q, (1, size), s, z, q.dtype, output_dtype=out)


def channels(q, s, z):
    return qd.dequantize_per_channel(q, s, z, 0, -128, 127, I8)


def by_group(size, out=F32):
    return lambda q, s, z: qd.dequantize_per_channel_group(q, s, z, -8, 7, I8, size, out)


def whole(q, s, z):
    return qd.dequantize_per_tensor(q, 0.001, 3, -128, 127, I8)


X = rand(3, 5, K)


# Sums of 128 products in another order, of which some cancel.
SUMS = (1e-5, 1e-5)


def hit(
    name,
    module,
    x=X,
    tolerance=SUMS,
    fusion="quantized_linear",
    program=("quantized_matmul",),
    dynamic=None,
    also=(),
):
    gone = ("linear", "matmul") if fusion == "quantized_linear" else ()
    return Hit(Case(name, module, (x,), tolerance, dynamic, also), fusion, program, gone)


LINEAR = [
    hit("4 bits in groups", Quantised(groups())),
    hit("4 bits, bias", Quantised(groups(), bias=F32)),
    hit("4 bits, zero points of 0", Quantised(groups(), zero=True)),
    hit("4 bits, zero points", Quantised(groups(), point=I8)),
    *(hit(f"{b} bits", Quantised(groups(), limits=(-(1 << b - 1), (1 << b - 1) - 1), point=I8)) for b in (2, 3, 5, 6, 7, 8)),
    *(hit(f"{b} unsigned bits", Quantised(groups(), limits=(0, (1 << b) - 1), dtype=U8, point=torch.int32)) for b in (4, 8)),
    *(hit(f"groups of {g}", Quantised(groups(g), shape=(N, K // g))) for g in (64, 128)),
    hit("groups of 96", Quantised(groups(32), shape=(N, K // 32))),
    hit("rows of int8", Quantised(groups(K), limits=(-128, 127), shape=(N, 1), point=I8)),
    hit("rows, scales of one axis", Quantised(groups(K), limits=(-128, 127), shape=(N,))),
    *(hit(f"4 bits {d}", Quantised(groups(out=d), scale=d, bias=d, zero=True), X.to(d), HALVES[d]) for d in (HALF, BF16)),
    *(hit(f"zero points {d}", Quantised(groups(out=d), scale=d, point=I8), X.to(d), HALVES[d]) for d in (HALF, BF16)),
    hit("bfloat16, float32 scales", Quantised(groups(out=BF16), zero=True), X.bfloat16(), HALVES[BF16]),
    hit("a vector", Quantised(groups()), X[0, 0]),
    hit("no rows", Quantised(groups()), X[:0]),
    hit("dynamic", Quantised(groups(), bias=F32), dynamic=({0: Dim("b"), 1: Dim("t")},), also=((rand(1, 1, K),), (rand(4, 9, K),))),
    hit("matmul", Quantised(groups(), lambda x, w: x @ w.T)),
    hit("mm", Quantised(groups(), lambda x, w: torch.mm(x, w.t())), X[0]),
    hit("addmm", Quantised(groups(), lambda x, w, b: torch.addmm(b, x, w.t()), bias=F32), X[0]),
    hit("PT2E channels", Quantised(channels, limits=(-128, 127), shape=(N,), point=torch.int64)),
    hit("PT2E channels, no points", Quantised(channels, limits=(-128, 127), shape=(N,))),
    hit("PT2E tensor", Quantised(whole, limits=(-128, 127))),
    hit("PT2E groups", Quantised(by_group(32), point=torch.int32)),
    hit("PT2E groups of 64", Quantised(by_group(64), shape=(N, K // 64))),
    Hit(Case("twice", Quantised(groups(), lambda x, w: F.linear(x, w) + F.linear(x * 2, w)), (X,)), "quantized_linear", ("quantized_matmul",), ("linear",), 2),
    Hit(Case("also an output", Quantised(groups(), lambda x, w: (F.linear(x, w), w)), (X,)), "quantized_linear", ("quantized_matmul",)),
]  # fmt: skip

IDS = torch.tensor([[3, 0, 23], [7, 7, 1]])


def embed(ids, w):
    return F.embedding(ids, w)


EMBEDDING = [
    *(hit(f"embedding, {b} bits", Quantised(groups(), embed, limits=(-(1 << b - 1), (1 << b - 1) - 1), point=I8), IDS, fusion="quantized_embedding",
          program=("take",)) for b in (2, 4, 8)),
    *(hit(f"embedding {d}", Quantised(groups(out=d), embed, scale=d, point=I8), IDS, fusion="quantized_embedding", program=("take",)) for d in (HALF, BF16)),
    hit("embedding, uint8", Quantised(groups(), embed, limits=(0, 255), dtype=U8, point=torch.int32), IDS, fusion="quantized_embedding", program=()),
    hit("embedding, rows", Quantised(channels, embed, limits=(-128, 127), shape=(N,), point=torch.int64), IDS, fusion="quantized_embedding", program=()),
    hit("embedding, one scale", Quantised(whole, embed, limits=(-128, 127)), IDS, fusion="quantized_embedding", program=()),
    hit("embedding, no ids", Quantised(groups(), embed), IDS[:0], fusion="quantized_embedding", program=()),
    hit("embedding, dynamic", Quantised(groups(), embed), IDS, fusion="quantized_embedding", program=("dequantize",), dynamic=({0: Dim("b"), 1: Dim("t")},),
        also=((IDS[:1, :1],), (IDS.repeat(3, 2),))),
    hit("embedding and head", Quantised(groups(), lambda ids, w: F.linear(F.embedding(ids, w), w)), IDS, fusion="quantized_embedding", program=("quantized_matmul",)),
]  # fmt: skip


def miss(name, reason, module, x=X, tolerance=SUMS, fusion="quantized_linear"):
    return Miss(Case(name, module, (x,), tolerance), fusion, reason)


class Given(nn.Module):
    def forward(self, x, q, s):
        return F.linear(x, groups()(q, s, None))


MISSES = [
    Miss(Case("the matrix is an argument", Given(), (X, integers(-8, 7), rand(N, K // 32)), (1e-5, 1e-4)), "quantized_linear", "weights of the model"),
    miss("groups of 16", "multiple of 32", Quantised(groups(16), shape=(N, K // 16))),
    miss("blocks of rows", "multiple of 32", Quantised(lambda q, s, z: ao.dequantize_affine(q, (2, 32), s, z, I8), shape=(N // 2, K // 32))),
    miss("channels of the other axis", "multiple of 32", Quantised(lambda q, s, z: qd.dequantize_per_channel(q, s, z, 1, -128, 127, I8), shape=(K,))),
    miss("zero points that wrap", "may wrap", Quantised(channels, limits=(-128, 127), shape=(N,), point=I8)),
    miss("int16", "int8 or uint8", Quantised(groups(), limits=(-300, 300), dtype=torch.int16)),
    miss("not transposed", "", Quantised(groups(), lambda x, w: x @ w), rand(5, N)),
    miss("changed in between", "", Quantised(groups(), lambda x, w: F.linear(x, w + 1))),
    miss("rows of another axis", "multiple of 32", Quantised(lambda q, s, z: qd.dequantize_per_channel(q, s, z, 1, -128, 127, I8), embed, shape=(K,)), IDS, fusion="quantized_embedding"),
]  # fmt: skip


@rows(LINEAR)
def test_linear(row, tmp_path):
    check_hit(row, tmp_path)


@rows(EMBEDDING)
def test_embedding(row, tmp_path):
    check_hit(row, tmp_path)


@rows(MISSES)
def test_no_fusion(row, tmp_path):
    check_miss(row, tmp_path)


def configs():
    from torchao.quantization import (
        Int8DynamicActivationIntxWeightConfig,
        Int8WeightOnlyConfig,
        IntxWeightOnlyConfig,
    )
    from torchao.quantization.granularity import PerGroup

    return {
        "int8": Int8WeightOnlyConfig(),
        "int4": IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32)),
        "int8 and int4": Int8DynamicActivationIntxWeightConfig(
            weight_dtype=torch.int4, weight_granularity=PerGroup(32)
        ),
    }


@pytest.mark.parametrize("dtype", [F32, BF16])
@pytest.mark.parametrize("config", ["int8", "int4", "int8 and int4"])
def test_torchao_models(config, dtype):
    """As quantize_() leaves them: weights that are tensor subclasses."""
    from torchao.quantization import quantize_

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(K, 32), nn.ReLU(), nn.Linear(32, 5)).to(dtype).eval()
    quantize_(model, configs()[config])
    x = torch.randn(3, K, dtype=dtype)
    program = mlxify.convert(model, (x,))
    assert [i.op for i in program.graph.methods["forward"].instrs].count("quantized_matmul") == 2
    with torch.no_grad():
        compare(program(x), model(x), {F32: None, BF16: (1.6e-2, 1.6e-2)}[dtype])
