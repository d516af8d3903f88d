"""Matrix products with matrices chosen by index, plain and quantised."""

import mlx.core as mx
import numpy as np
import pytest
import torch
from torch.export import Dim

import mlxify.torch_ops  # noqa: F401  (registers the ops)
from mlxify.ops.quantized import dequantize, gather_qmm, pack_bits, quantized_matmul

from .harness import Case, check, params
from .test_linear import rand

HALF, BF16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
A, B = rand(4, 3, 8), rand(5, 8, 6)
RHS, LHS = torch.tensor([4, 0, 0, 2]), torch.tensor([1, 1, 3, 0])
GRID = torch.tensor([[4, 0, 1], [2, 2, 3]])


def mm(rhs=None, lhs=None, **settings):
    return lambda a, b: torch.ops.mlx.gather_mm(a, b, rhs, lhs, **settings)


GATHER = [
    *(Case(f"{d}", mm(RHS, LHS), (A.to(d), B.to(d))) for d in (F32, HALF, BF16, F64)),
    Case("right", mm(RHS), (A, B), decomposed=True),
    Case("left", mm(None, torch.tensor([1, 1, 3, 0, 2])), (A, B)),
    Case("neither", mm(), (A, rand(4, 8, 6))),
    Case("left batch broadcasts", mm(GRID), (A[:1], B)),
    Case("two axes of indices", mm(GRID, torch.tensor([[0], [3]])), (A, B)),
    Case("two axes of matrices", mm(GRID), (rand(2, 3, 3, 8), B)),
    Case("int32 indices", mm(RHS.int(), LHS.int()), (A, B)),
    Case("sorted", mm(torch.tensor([0, 0, 2, 4]), sorted_indices=True), (A, B)),
    Case("sorted by a tensor", lambda a, b, s: torch.ops.mlx.gather_mm(a, b, RHS, sorted_indices=s), (A, B, torch.tensor(False))),
    Case("more indices than matrices, half", mm(torch.tensor([4, 0, 0, 2, 1, 3, 2, 4]), LHS.repeat(2)), (A.half(), B.half())),
    Case("indices as inputs", lambda a, b, r: torch.ops.mlx.gather_mm(a, b, r), (A, B, RHS)),
    Case("no indices", mm(RHS[:0]), (A[:1], B)),
    Case("dynamic", lambda a, b, r: torch.ops.mlx.gather_mm(a, b, r), (A, B, RHS), dynamic=({0: Dim("n")}, None, {0: Dim("n")}),
         also=((rand(1, 3, 8), B, RHS[:1]), (rand(9, 3, 8), B, torch.arange(9) % 5))),
]  # fmt: skip

ENDS = torch.tensor([0, 3, 3, 7, 7])
ROWS = rand(9, 8)


def grouped(x, weight, ends):
    import transformers.integrations.moe  # noqa: F401  (registers the op)

    return torch.ops.transformers.grouped_mm_fallback(x, weight, ends)


GROUPED = [
    Case("grouped", grouped, (ROWS[:7], B, ENDS)),
    Case("grouped, rows beyond the end", grouped, (ROWS, B, ENDS.int())),
    Case("grouped half", grouped, (ROWS[:7].half(), B.half(), ENDS)),
    Case("grouped dynamic", grouped, (ROWS[:7], B, ENDS), dynamic=({0: Dim("n")}, None, None),
         also=((ROWS[:1], B, torch.tensor([0, 0, 0, 1, 1])), (ROWS, B, torch.tensor([2, 3, 4, 5, 9])))),
]  # fmt: skip


def quantised(bits, group=32, experts=3, rows=6, columns=64, dtype=F32, biases=True):
    generator = torch.Generator().manual_seed(bits)
    w = torch.randint(
        -(2 ** (bits - 1)), 2 ** (bits - 1), (experts, rows, columns), generator=generator, dtype=torch.int8
    )
    scales = (rand(experts, rows, columns // group).abs() / 2**bits + 0.01).to(dtype)
    return w, scales, rand(experts, rows, columns // group).to(dtype) if biases else None


def nibbles(w):
    return ((w[..., 0::2] + 8) | ((w[..., 1::2] + 8) << 4)).to(torch.uint8)


def qmm(bits, group=32, rhs=(2, 0, 1, 1), lhs=None, **settings):
    rhs = None if rhs is None else torch.tensor(rhs, dtype=torch.int64)
    return lambda x, w, s, b=None: torch.ops.mlx.gather_qmm(
        x, w, s, b, rhs, lhs, group_size=group, bits=bits, **settings
    )


X = rand(4, 2, 64)
SUM = (1e-5, 2e-5)  # of 64 products in another order
HALF_SUM = (2e-3, 5e-3)  # the terms are up to 30

QUANTISED = [
    *(Case(f"{bits} bits", qmm(bits), (X, *quantised(bits)), tolerance=SUM) for bits in (2, 3, 4, 5, 6, 8)),
    *(Case(f"{bits} bits, no biases", qmm(bits), (X, *quantised(bits, biases=False)[:2]), tolerance=SUM) for bits in (4, 8)),
    *(Case(f"groups of {g}", qmm(4, g), (rand(4, 2, 256), *quantised(4, g, columns=256)), tolerance=SUM) for g in (8, 16, 32, 64, 96, 128, 256) if 256 % g == 0),
    Case("groups of 96", qmm(4, 96), (rand(4, 2, 192), *quantised(4, 96, columns=192)), tolerance=SUM),
    Case("nibbles as an input", qmm(4), (X, nibbles(quantised(4)[0]), *quantised(4)[1:]), tolerance=SUM),
    Case("nibbles, groups of 8", qmm(4, 8), (X, nibbles(quantised(4)[0]), *quantised(4, 8)[1:]), tolerance=SUM),
    Case("not transposed", qmm(4, transpose=False), (rand(4, 2, 6), *quantised(4)), tolerance=SUM),
    Case("not transposed, groups of 16", qmm(4, 16, transpose=False), (rand(4, 2, 6), *quantised(4, 16)), tolerance=SUM),
    Case("left indices", qmm(8, lhs=torch.tensor([3, 3, 1, 0])), (X, *quantised(8)), tolerance=SUM),
    Case("only left indices", qmm(8, rhs=None, lhs=torch.tensor([3, 3, 1])), (X, *quantised(8)), tolerance=SUM),
    *(Case(f"{d}", qmm(4), (X.to(d), *quantised(4, dtype=d)), tolerance=t) for d, t in ((HALF, HALF_SUM), (BF16, (1.6e-2, 5e-2)), (F64, None))),
    Case("half, no biases", qmm(8), (X.half(), *quantised(8, dtype=HALF, biases=False)[:2]), tolerance=HALF_SUM),
    Case("half, float32 scales", qmm(8), (X.half(), *quantised(8)), tolerance=HALF_SUM),
    Case("sorted by a tensor", lambda x, w, s, f: torch.ops.mlx.gather_qmm(x, w, s, rhs_indices=torch.tensor([0, 0, 1, 2]), sorted_indices=f),
         (X, *quantised(4)[:2], torch.tensor(True)), tolerance=SUM),
    Case("no rows", qmm(4, rhs=()), (X[:0], *quantised(4))),
]  # fmt: skip


@params(GATHER)
def test_gather_mm(case, tmp_path):
    check(case, tmp_path)


@params(GROUPED)
def test_grouped_mm(case, tmp_path):
    check(case, tmp_path)


@params(QUANTISED)
def test_gather_qmm(case, tmp_path):
    check(case, tmp_path)


@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6, 8])
def test_packing_is_mlx_own(bits):
    w, scales, biases = mx.quantize(mx.random.normal((6, 64)), group_size=32, bits=bits)
    stream = np.unpackbits(np.array(w).view(np.uint8), axis=-1, bitorder="little").reshape(6, 64, bits)
    values = mx.array((stream << np.arange(bits)).sum(-1).astype(np.uint8))
    assert mx.array_equal(pack_bits(values, bits), w)
    dense = dequantize(w, scales, biases, 32, bits)
    x = mx.random.normal((2, 3, 64))
    for dtype, error in ((mx.float32, 1e-5), (mx.float16, 2e-2)):
        parts = x.astype(dtype), w, scales.astype(dtype), biases.astype(dtype)
        exact = (
            parts[0].astype(mx.float32)
            @ dequantize(*(v.astype(mx.float32) if v is not w else v for v in parts[1:]), 32, bits).T
        )
        assert mx.allclose(
            quantized_matmul(*parts, True, 32, bits).astype(mx.float32), exact, rtol=1e-3, atol=error
        )
    assert mx.allclose(x @ dense.T, quantized_matmul(x, w, scales, biases, True, 32, bits), atol=1e-4)


def test_hostile_arguments_are_refused():
    w, scales, biases = mx.quantize(mx.random.normal((3, 6, 64)), group_size=32, bits=4)
    x = mx.zeros((1, 2, 64))
    for rows, matrices in ((0, 6), (2, 0)):
        part = (v[0, :matrices] for v in (w, scales, biases))
        empty = quantized_matmul(mx.zeros((rows, 64)), *part, True, 32, 4)
        mx.eval(empty)
        assert empty.shape == (rows, matrices)
    index = mx.array([7])  # the last matrix but two, not the memory behind them
    assert gather_qmm(x, w, scales, biases, None, index, True, 32, 4, False).shape == (1, 2, 6)
    for arguments in (
        (x, w, scales[..., :1], biases[..., :1], 32, 4),
        (x, w, scales, biases, 64, 4),
        (x, w, scales, biases, 32, 7),
        (x, w.astype(mx.int32), scales, biases, 32, 4),
        (x[..., :32], w, scales, biases, 32, 4),
        (x, w[:, :5], scales, biases, 32, 4),
    ):
        with pytest.raises(ValueError):
            gather_qmm(*arguments[:4], None, index, True, *arguments[4:], False)
