"""Quantised tensors."""

import torch
import torch.ao.quantization.fx._decomposed
from torch.export import Dim

from .harness import Case, check, params
from .test_linear import rand

HALF, BF16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
I8, U8, I32, I64 = torch.int8, torch.uint8, torch.int32, torch.int64
qd, aten = torch.ops.quantized_decomposed, torch.ops.aten
X = rand(3, 4, 5) * 10
EDGE = torch.tensor([0.25, 0.75, 1.25, -0.25, 300.0, -300.0, float("inf"), -float("inf")])
Q = torch.randint(-128, 128, (3, 4, 6), generator=torch.Generator().manual_seed(0), dtype=I8)
SCALES, POINTS = rand(4).abs() + 0.1, torch.tensor([3, 0, -7, 100])

# As float64, since choose_qparams_per_token gives float32 although its metadata says otherwise.
PT2E = [
    *(Case(f"quantize_per_tensor {d}", lambda x: qd.quantize_per_tensor(x, 0.1, 3, -128, 127, I8), (X.to(d),)) for d in (F32, HALF, BF16)),
    Case("quantize_per_tensor edges", lambda x: qd.quantize_per_tensor(x, 0.5, 3, -128, 127, I8), (EDGE,), compiled=True),
    Case("quantize_per_tensor uint8", lambda x: qd.quantize_per_tensor(x, 0.1, 128, 0, 255, U8), (X,)),
    Case("quantize_per_tensor 4 bits", lambda x: qd.quantize_per_tensor(x, 0.7, 0, -8, 7, I8), (X,)),
    Case("quantize_per_tensor int32", lambda x: qd.quantize_per_tensor(x, 0.001, 0, -(2**31), 2**31 - 1, I32), (X,)),
    Case("quantize_per_tensor.tensor", lambda x, s, z: qd.quantize_per_tensor.tensor(x, s, z, -128, 127, I8), (X, torch.tensor(0.1), torch.tensor(3))),
    Case("quantize_per_tensor.tensor2", lambda x, s, z: qd.quantize_per_tensor.tensor2(x, s, z, torch.tensor(-10), torch.tensor(127), I8),
         (X, torch.tensor([0.1]), torch.tensor([3]))),
    *(Case(f"dequantize_per_tensor {d}", lambda x, d=d: qd.dequantize_per_tensor(x, 0.1, 3, -128, 127, I8, out_dtype=d), (Q,)) for d in (None, HALF, BF16)),
    Case("dequantize_per_tensor uint8", lambda x: qd.dequantize_per_tensor(x, 0.1, 128, 0, 255, U8), (Q.view(U8),)),
    Case("dequantize_per_tensor.tensor", lambda x, s, z: qd.dequantize_per_tensor.tensor(x, s, z, -128, 127, I8), (Q, torch.tensor(0.1), torch.tensor(3))),
    Case("dequantize_per_tensor.tensor2", lambda x, s, z: qd.dequantize_per_tensor.tensor2(x, s, z, torch.tensor(-10), torch.tensor(127), I8),
         (Q, torch.tensor(0.1), torch.tensor(3))),
    *(Case(f"quantize_per_channel {a} {d}", lambda x, s, z, a=a: qd.quantize_per_channel(x, s, z, a, -128, 127, I8),
           (X.transpose(1, a).to(d), SCALES, POINTS)) for a, d in ((0, F32), (1, F32), (2, F32), (-1, HALF))),
    *(Case(f"dequantize_per_channel {z is not None} {d}", lambda x, s, z=None, d=d: qd.dequantize_per_channel(x, s, z, 1, -128, 127, I8, out_dtype=d),
           (Q, SCALES) if z is None else (Q, SCALES, z)) for z, d in ((POINTS, None), (None, None), (POINTS.int(), HALF))),
    Case("choose_qparams", lambda x: qd.choose_qparams.tensor(x, -128, 127, 1e-5, I8), (X,)),
    Case("choose_qparams positive", lambda x: qd.choose_qparams.tensor(x, 0, 255, 1e-5, U8), (X.abs() + 1,)),
    Case("choose_qparams zeros", lambda x: qd.choose_qparams.tensor(x, -128, 127, 1e-5, I8), (torch.zeros(3),)),
    *(Case(f"choose_qparams_symmetric {d}", lambda x, d=d: qd.choose_qparams_symmetric.tensor(x, -127, 127, 1e-5, d), (X,)) for d in (I8, U8)),
    *(Case(f"choose_qparams_per_token {d}", lambda x: [v.double() for v in qd.choose_qparams_per_token(x, I8)], (X.to(d),)) for d in (F32, HALF)),
    Case("choose_qparams_per_token_asymmetric", lambda x: qd.choose_qparams_per_token_asymmetric(x, I8), (X,)),
    Case("quantize_per_token", lambda x, s, z: qd.quantize_per_token(x, s, z, -128, 127, I8), (X, rand(3, 4, 1).abs() + 0.1, torch.ones(3, 4, 1, dtype=I64) * 3)),
    Case("quantize_per_token float64", lambda x, s, z: qd.quantize_per_token(x, s, z, -128, 127, I8), (X, rand(3, 4, 1, dtype=F64).abs() + 0.1, torch.ones(3, 4, 1, dtype=I64))),
    Case("dequantize_per_token", lambda x, s, z: qd.dequantize_per_token(x, s, z, -128, 127, I8, F32), (Q, rand(3, 4, 1).abs(), torch.ones(3, 4, 1, dtype=I64) * 100)),
    Case("dynamic quantisation", lambda x: qd.dequantize_per_token(qd.quantize_per_token(x, *qd.choose_qparams_per_token_asymmetric(x, I8), -128, 127, I8),
         *qd.choose_qparams_per_token_asymmetric(x, I8), -128, 127, I8, F32), (X,), dynamic=({0: Dim("b")},), also=((rand(1, 4, 5),), (rand(7, 4, 5),))),
    Case("quantize_per_channel_group", lambda x, s, z: qd.quantize_per_channel_group(x, s, z, -8, 7, I8, 2), (X[0, :, :4], rand(4, 2).abs() + 0.5, torch.ones(4, 2, dtype=I32))),
    *(Case(f"dequantize_per_channel_group {d} {n}", lambda x, s, z=None, d=d: qd.dequantize_per_channel_group(x, s, z, -128, 127, I8, 2, d),
           (Q[0], rand(4, 3).abs(), torch.ones(4, 3, dtype=I32))[:n]) for d, n in ((F32, 3), (F32, 2), (HALF, 3))),
    Case("convert_element_type", lambda x: qd.convert_element_type.no_fuse(x, HALF), (X,)),
]  # fmt: skip

NAN = torch.cat([EDGE, torch.tensor([float("nan"), 1.0])])

FAKE = [
    *(Case(f"per_tensor {d}", lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -128, 127), (X.to(d),)) for d in (F32, HALF, BF16, F64)),
    Case("per_tensor edges", lambda x: torch.fake_quantize_per_tensor_affine(x, 0.5, 3, -128, 127), (NAN,)),
    Case("per_tensor tensors", lambda x, s, z: torch.fake_quantize_per_tensor_affine(x, s, z, 0, 255), (X, torch.tensor(0.1), torch.tensor(3, dtype=I32))),
    Case("per_tensor mask", lambda x: aten.fake_quantize_per_tensor_affine_cachemask(x, 0.5, 3, -8, 7), (NAN,)),
    *(Case(f"per_tensor switch {e}", lambda x, s, z, e: aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(x, s, z, e, -8, 7),
           (X, torch.tensor([0.1]), torch.tensor([3], dtype=I32), torch.tensor([e]))) for e in (0, 1)),
    *(Case(f"per_channel {d}", lambda x, s, z: torch.fake_quantize_per_channel_affine(x, s, z, 1, -128, 127), (X.to(d), SCALES, POINTS.int())) for d in (F32, HALF)),
    Case("per_channel float points", lambda x, s, z: torch.fake_quantize_per_channel_affine(x, s, z, 1, -128, 127), (X, SCALES, rand(4))),
    Case("per_channel mask", lambda x, s, z: aten.fake_quantize_per_channel_affine_cachemask(x, s, z, 1, -8, 7), (X, SCALES, torch.zeros(4, dtype=I32))),
]  # fmt: skip


@params(PT2E)
def test_quantized_decomposed(case, tmp_path):
    check(case, tmp_path)


@params(FAKE)
def test_fake_quantize(case, tmp_path):
    check(case, tmp_path)
