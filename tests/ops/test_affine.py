"""torchao's affine quantisation."""

import pytest
import torch
from torch.export import Dim

from .harness import Case, check, params
from .test_linear import rand
from .test_quant import BF16, F32, HALF, I8, I32, I64, U8, Q

pytest.importorskip("torchao")
ao = torch.ops.torchao
W = torch.randint(-8, 8, (4, 64), generator=torch.Generator().manual_seed(0), dtype=I8)
BLOCKS = {
    "rows": (1, 64),
    "columns": (4, 1),
    "all": (4, 64),
    "groups": (1, 16),
    "tiles": (2, 16),
    "each": (1, 1),
}


def per_block(blocks, dtype=F32, seed=0):
    count = [n // b for n, b in zip(W.shape, blocks, strict=True)]
    return rand(*count).abs().to(dtype) + 0.01


TORCHAO = [
    *(Case(f"dequantize {name}", lambda w, s, z, b=b: ao.dequantize_affine(w, b, s, z, I8, -8, 7), (W, per_block(b), (per_block(b) * 5).int()))
      for name, b in BLOCKS.items()),
    Case("dequantize no points", lambda w, s: ao.dequantize_affine(w, (1, 16), s, None, I8), (W, per_block((1, 16)))),
    *(Case(f"dequantize scales {d}, result {o}", lambda w, s, z, o=o: ao.dequantize_affine(w, (1, 16), s, z, I8, None, None, o),
           (W, per_block((1, 16), d), torch.ones(4, 4, dtype=z))) for d, o, z in ((HALF, HALF, I8), (HALF, F32, I32), (BF16, BF16, BF16), (F32, HALF, I64))),
    Case("dequantize uint8", lambda w, s, z: ao.dequantize_affine(w, (1, 16), s, z, U8, 0, 15), ((W + 8).to(U8), per_block((1, 16)), torch.full((4, 4), 8, dtype=U8))),
    Case("dequantize rank 3", lambda w, s: ao.dequantize_affine(w, (1, 3, 2), s, None, I8), (Q[:, :3], rand(3, 1, 3).abs())),
    Case("dequantize and multiply", lambda x, w, s: torch.nn.functional.linear(x, ao.dequantize_affine(w, (1, 16), s, None, I8)), (rand(3, 64), W, per_block((1, 16)))),
    *(Case(f"quantize {name}", lambda x, s, z, b=b: ao.quantize_affine(x, b, s, z, I8, -8, 7), (rand(4, 64) * 3, per_block(b) + 0.3, (per_block(b) * 5).int()))
      for name, b in BLOCKS.items()),
    Case("quantize half", lambda x, s, z: ao.quantize_affine(x, (1, 64), s, z, I8), (rand(4, 64, dtype=HALF), per_block((1, 64), HALF), torch.zeros(4, 1, dtype=I32))),
    *(Case(f"choose {m} {k}", lambda x, m=m, k=k: ao.choose_qparams_affine(x, m, (1, 16), I8, -8, 7, 1e-6, F32, I32, k), (rand(4, 64),))
      for m in ("SYMMETRIC", "ASYMMETRIC", "SYMMETRIC_NO_CLIPPING_ERR") for k in (True, False)),
    Case("choose by default", lambda x: ao.choose_qparams_affine(x, "ASYMMETRIC", (1, 64), I8), (rand(4, 64, dtype=HALF),)),
    Case("choose for zeros", lambda x: ao.choose_qparams_affine(x, "ASYMMETRIC", (1, 64), I8, keepdim=True), (torch.zeros(4, 64),)),
    Case("a dynamic activation", lambda x: ao.quantize_affine(x, (1, x.shape[1]), *ao.choose_qparams_affine(x, "ASYMMETRIC", (1, x.shape[1]), I8, keepdim=True), I8),
         (rand(4, 64),), dynamic=({0: Dim("n"), 1: Dim("k")},), also=((rand(1, 9),), (rand(7, 3),))),
]  # fmt: skip


@params(TORCHAO)
def test_torchao(case, tmp_path):
    check(case, tmp_path)
