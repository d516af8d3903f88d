"""The six mlx:: torch ops: eager numbers against plain loops, torch's own op checks, and torch.export."""

import math
import os
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
import torch
from torch.export import Dim

import mlxify.torch_ops  # noqa: F401  (registers the ops)

mlx = torch.ops.mlx
FLOATS = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
HALVES = [torch.float16, torch.bfloat16]


def rand(*shape, dtype=torch.float32, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def check(got, want, dtype):
    """Exact dtype and shape; half types within one rounding of the float64 formula."""
    assert got.dtype == dtype and got.is_contiguous()
    want = torch.as_tensor(want)
    assert got.shape == want.shape
    tolerance = {torch.float64: 1e-5, torch.float32: 1e-5, torch.float16: 1e-3, torch.bfloat16: 8e-3}[dtype]
    torch.testing.assert_close(got.double(), want.double(), rtol=tolerance, atol=tolerance)


# rope


def rope_loops(x, dims, pos, traditional=False, base=500000.0, scale=1.0, freqs=None):
    x = x.double()
    out = x.clone()
    half = dims // 2
    for b, h, t in np.ndindex(*x.shape[:3]):
        start = pos if isinstance(pos, int) else int(pos.reshape(-1)[b if pos.dim() else 0])
        for i in range(half):
            if freqs is None:
                angle = (start + t) * scale * base ** (-2 * i / dims)
            elif freqs.dim() == 1:
                angle = (start + t) * scale / float(freqs[i])
            else:
                angle = float(freqs[t, i])
            j, k = (2 * i, 2 * i + 1) if traditional else (i, i + half)
            x1, x2 = float(x[b, h, t, j]), float(x[b, h, t, k])
            out[b, h, t, j] = x1 * math.cos(angle) - x2 * math.sin(angle)
            out[b, h, t, k] = x1 * math.sin(angle) + x2 * math.cos(angle)
    return out


ROPE = {
    "plain": dict(dims=8, pos=0),
    "later": dict(dims=8, pos=37),
    "partial": dict(dims=4, pos=3),
    "traditional": dict(dims=8, pos=5, traditional=True),
    "traditional partial": dict(dims=6, pos=5, traditional=True, base=100.0),
    "base and scale": dict(dims=8, pos=9, base=10000.0, scale=0.25),
    "wavelengths": dict(dims=8, pos=4, scale=0.5, freqs=torch.tensor([1.0, 2.0, 7.0, 30.0])),
    "angles": dict(dims=8, pos=4, scale=0.5, freqs=rand(3, 4)),
    "0-D pos": dict(dims=8, pos=torch.tensor(11)),
    "0-D int32 pos": dict(dims=8, pos=torch.tensor(11, dtype=torch.int32)),
    "pos of each row": dict(dims=8, pos=torch.tensor([2, 19])),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("case", ROPE.values(), ids=ROPE)
def test_rope(case, dtype):
    x = rand(2, 3, 3, 8, dtype=dtype)
    check(mlx.rope(x, **case), rope_loops(x, **case), dtype)


def test_rope_takes_the_tensor_overload_for_tensors_only():
    x = torch.ones(1, 1, 1, 4)
    for pos, overload in ((3, "default"), (torch.tensor(3), "tensor")):
        graph = torch.fx.experimental.proxy_tensor.make_fx(lambda x, p: mlx.rope(x, 4, p))(x, pos).graph
        assert any(str(n.target) == f"mlx.rope.{overload}" for n in graph.nodes)


# gather_mm, gather_qmm


def gather_loops(a, b, rhs=None, lhs=None):
    a, b = a.double(), b.double()
    left = np.arange(math.prod(a.shape[:-2])).reshape(a.shape[:-2]) if lhs is None else lhs.numpy()
    right = np.arange(len(b)) if rhs is None else rhs.numpy()
    left, right = np.broadcast_arrays(left, right)
    rows = a.reshape(-1, *a.shape[-2:])
    out = torch.zeros(*left.shape, a.shape[-2], b.shape[-1], dtype=torch.float64)
    for at in np.ndindex(*left.shape):
        out[at] = rows[int(left[at])] @ b[int(right[at])]
    return out


GATHER = {
    "identity": ((4, 2, 6), None, None),
    "one matrix, all experts": ((2, 6), None, None),
    "rhs": ((3, 2, 6), [2, 0, 2], None),
    "rhs broadcasts": ((3, 1, 1, 6), [[1, 0], [3, 3], [0, 2]], None),
    "lhs": ((3, 2, 6), None, [2, 2, 0, 1]),
    "both": ((3, 2, 6), [3, 1], [0, 2]),
    "both broadcast": ((3, 2, 6), [3, 1], [[0], [2], [1]]),
    "0-D": ((3, 2, 6), 1, 2),
    "two batch axes": ((2, 2, 1, 6), [0, 1, 1, 3, 2], [3, 2, 1, 0, 3]),
    "empty": ((3, 2, 6), np.zeros((0,), dtype=int), 0),
}
GATHER = {
    k: (shape, *(None if i is None else torch.as_tensor(i) for i in index))
    for k, (shape, *index) in GATHER.items()
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(("shape", "rhs", "lhs"), GATHER.values(), ids=GATHER)
def test_gather_mm(shape, rhs, lhs, dtype):
    a, b = rand(*shape, dtype=dtype), rand(4, 6, 5, dtype=dtype, seed=1)
    check(mlx.gather_mm(a, b, rhs, lhs), gather_loops(a, b, rhs, lhs), dtype)


@pytest.mark.parametrize("promise", [False, True, torch.tensor(0), torch.tensor(1)], ids=repr)
def test_sorted_indices_change_nothing_and_never_become_a_bool(promise):
    a, b, rhs = rand(3, 2, 6), rand(4, 6, 5), torch.tensor([0, 0, 3])
    q = torch.randint(-8, 8, (4, 5, 32), dtype=torch.int8)
    x, scales = rand(3, 2, 32), rand(4, 5, 1)
    mm, qmm = mlx.gather_mm(a, b, rhs), mlx.gather_qmm(x, q, scales, None, rhs)

    def calls(a, b, rhs, x, q, scales, promise):
        return (
            mlx.gather_mm(a, b, rhs, None, promise),
            mlx.gather_mm(a, b, rhs_indices=rhs, sorted_indices=promise),
            mlx.gather_qmm(x, q, scales, None, rhs, None, True, 32, 4, "affine", promise),
            mlx.gather_qmm(x, q, scales, rhs_indices=rhs, sorted_indices=promise),
        )

    args = (a, b, rhs, x, q, scales, promise)
    for got, want in zip(calls(*args), (mm, mm, qmm, qmm), strict=True):
        assert torch.equal(got, want)
    # A fake tensor has no bool: this fails if a Tensor reaches the bool overload.
    torch.fx.experimental.proxy_tensor.make_fx(calls, tracing_mode="fake")(*args)


def test_gather_keeps_float32_between_half_factors():
    a, b = (
        torch.full((1, 1, 4096), 1.0, dtype=torch.float16),
        torch.full((1, 4096, 1), 1.0, dtype=torch.float16),
    )
    b[0, ::2] += 2**-10
    want = torch.tensor(4096 + 2.0).half()
    assert mlx.gather_mm(a, b).item() == want.item()


def dequantize_loops(w, scales, biases, group_size):
    if w.dtype == torch.uint8:
        values = torch.zeros(*w.shape[:-1], w.shape[-1] * 2)
        for at in np.ndindex(*w.shape):
            values[(*at[:-1], 2 * at[-1])] = int(w[at]) % 16 - 8
            values[(*at[:-1], 2 * at[-1] + 1)] = int(w[at]) // 16 - 8
    else:
        values = w
    out = torch.zeros(values.shape, dtype=torch.float64)
    for e, o, k in np.ndindex(*values.shape):
        bias = 0.0 if biases is None else float(biases[e, o, k // group_size])
        out[e, o, k] = float(values[e, o, k]) * float(scales[e, o, k // group_size]) + bias
    return out


QUANTIZED = {
    "4 bits": dict(bits=4, group_size=32),
    "8 bits": dict(bits=8, group_size=32),
    "3 bits": dict(bits=3, group_size=16),
    "packed": dict(bits=4, group_size=16, packed=True),
    "no biases": dict(bits=4, group_size=32, biased=False),
    "not transposed": dict(bits=4, group_size=32, transpose=False),
    "packed, not transposed": dict(bits=4, group_size=16, packed=True, transpose=False),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("case", QUANTIZED.values(), ids=QUANTIZED)
def test_gather_qmm(case, dtype):
    case = {"packed": False, "biased": True, "transpose": True} | case
    bits, group = case["bits"], case["group_size"]
    generator = torch.Generator().manual_seed(0)
    if case["packed"]:
        w = torch.randint(0, 256, (4, 6, 16), generator=generator, dtype=torch.uint8)
    else:
        w = torch.randint(-(1 << bits - 1), 1 << bits - 1, (4, 6, 32), generator=generator, dtype=torch.int8)
    scales = rand(4, 6, 32 // group, dtype=dtype, seed=1) * 0.1
    biases = rand(4, 6, 32 // group, dtype=dtype, seed=2) if case["biased"] else None
    matrices = dequantize_loops(w, scales, biases, group)
    matrices = matrices.transpose(1, 2) if case["transpose"] else matrices
    x = rand(3, 2, matrices.shape[1], dtype=dtype, seed=3) * 0.1
    for rhs, lhs in ((torch.tensor([2, 0, 2]), None), (torch.tensor([[3], [1]]), torch.tensor([0, 2]))):
        got = mlx.gather_qmm(
            x, w, scales, biases, rhs, lhs, transpose=case["transpose"], group_size=group, bits=bits
        )
        check(got, gather_loops(x, matrices, rhs, lhs), dtype)


# sample


def allowed_loops(row, temperature, top_p, top_k):
    """The ids that may be drawn, by the definition."""
    heated = [float(v) / temperature for v in row]
    order = sorted(range(len(heated)), key=lambda i: (-heated[i], i))
    kept = order[:top_k] if top_k > 0 else order
    total = sum(math.exp(heated[i] - heated[order[0]]) for i in kept)
    allowed, mass = [], 0.0
    for i in kept:
        if allowed and top_p < 1 and mass >= top_p:
            break
        allowed.append(i)
        mass += math.exp(heated[i] - heated[order[0]]) / total
    return allowed, {i: math.exp(heated[i]) for i in allowed}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("temperature", "top_p", "top_k"),
    [
        (1.0, 1.0, 0),
        (0.5, 0.9, 0),
        (2.0, 0.6, 0),
        (1.0, 1.0, 3),
        (0.8, 0.7, 4),
        (1.0, 0.0, 0),
        (1.5, 0.5, 1),
        (1.0, 0.9, 99),
    ],
)
def test_sample_draws_what_is_allowed_as_often_as_it_should(temperature, top_p, top_k, dtype):
    row, draws = rand(12, dtype=dtype), 4000
    tokens = mlx.sample(
        row.expand(draws, -1),
        torch.tensor(temperature),
        torch.tensor(top_p),
        torch.tensor(7),
        torch.tensor(top_k),
    )
    assert tokens.dtype == torch.int64 and tokens.shape == (draws,)
    allowed, weight = allowed_loops(row, temperature, top_p, top_k)
    counts = Counter(tokens.tolist())
    assert set(counts) <= set(allowed)
    for token in allowed:
        share = weight[token] / sum(weight.values())
        assert abs(counts[token] / draws - share) < 5 * math.sqrt(share * (1 - share) / draws) + 1e-3


def test_sample_without_heat_is_argmax():
    logits = rand(5, 40)
    logits[0, 3] = logits[0, 17] = 9.0
    for heat in (0.0, -1.0):
        got = mlx.sample(logits, torch.tensor(heat), torch.tensor(0.9))
        assert got.tolist() == [max(range(40), key=lambda i, row=row: float(row[i])) for row in logits]
    assert got[0] == 3


def test_sample_seeds_and_rows():
    logits = rand(3, 200)
    one, p = torch.tensor(1.0), torch.tensor(1.0)
    same = [mlx.sample(logits, one, p, torch.tensor(5)).tolist() for _ in range(2)]
    assert same[0] == same[1]
    assert mlx.sample(logits, one, p, torch.tensor(6)).tolist() != same[0]
    torch.manual_seed(0)
    assert mlx.sample(logits, one, p).tolist() != mlx.sample(logits, one, p).tolist()
    # Each row its own parameters; the seed fixes the noise of a token whatever the filters.
    heat, top_k = torch.tensor([1.0, 0.0, 1.0]), torch.tensor([0, 0, 1])
    mixed = mlx.sample(logits, heat, torch.ones(3), torch.tensor(5), top_k)
    assert mixed.tolist() == [same[0][0], int(logits[1].argmax()), int(logits[2].argmax())]


def test_sample_survives_extremes():
    logits = torch.tensor([[1e4, float("-inf"), -1e4, 9999.0]])
    for heat in (1e-30, 1e-3, 0.5):
        assert mlx.sample(logits, torch.tensor(heat), torch.tensor(0.99), torch.tensor(1)).item() in (0, 3)
    assert mlx.sample(torch.zeros(2, 1), torch.tensor(1.0), torch.tensor(0.5)).tolist() == [0, 0]


# kv_cache_update


def update_loops(cache, new, start, ring):
    out = cache.clone()
    for i in range(new.shape[2]):
        out[:, :, (start + i) % ring if ring else start + i] = new[:, :, i]
    return out


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(
    ("start", "length", "ring"),
    [
        (0, 3, 0),
        (5, 3, 0),
        (7, 1, 0),
        (8, 0, 0),
        (0, 8, 0),
        (2, 3, 6),
        (5, 3, 6),
        (23, 4, 6),
        (3, 8, 8),
        (4, 9, 6),
        (-1, 2, 6),
    ],
)
def test_kv_cache_update(start, length, ring, dtype):
    cache, new = rand(2, 3, 8, 4, dtype=dtype), rand(2, 3, length, 4, dtype=dtype, seed=1)
    want = update_loops(cache, new, start, ring)
    got = mlx.kv_cache_update(cache, new, start, ring)
    assert torch.equal(got, want) and torch.equal(cache, want)
    assert got.data_ptr() != cache.data_ptr()


def test_kv_cache_update_converts_to_the_cache():
    for ring in (0, 4):
        cache = torch.zeros(1, 1, 4, 1, dtype=torch.float16)
        assert mlx.kv_cache_update(cache, torch.full((1, 1, 2, 1), 1 / 3), 1, ring).dtype == torch.float16
        assert cache[0, 0, :, 0].tolist() == [0, torch.tensor(1 / 3).half(), torch.tensor(1 / 3).half(), 0]


@pytest.mark.parametrize(("start", "length"), [(-1, 1), (8, 1), (6, 3), (-3, 2)])
def test_kv_cache_update_out_of_range_writes_nothing(start, length):
    cache = rand(1, 1, 8, 2)
    before = cache.clone()
    with pytest.raises(IndexError, match="kv_cache_update"):
        mlx.kv_cache_update(cache, torch.ones(1, 1, length, 2), start)
    assert torch.equal(cache, before)


# custom_sdpa


def sdpa_loops(query, key, value, start, attn_mask=None, is_causal=False, scale=None):
    heads, length, width = query.shape[1:]
    stop = start + length
    scale = width**-0.5 if scale is None else scale
    out = torch.zeros(*query.shape[:3], value.shape[3], dtype=torch.float64)
    mask = None if attn_mask is None else attn_mask.expand(query.shape[0], heads, length, stop)
    for b, h, i in np.ndindex(*query.shape[:3]):
        of = h // (heads // key.shape[1])
        weights = {}
        for j in range(start + i + 1 if is_causal else stop):
            score = float(query[b, h, i].double() @ key[b, of, j].double()) * scale
            if mask is not None and mask.dtype == torch.bool:
                score = score if mask[b, h, i, j] else -math.inf
            elif mask is not None:
                score += float(mask[b, h, i, j])
            weights[j] = math.exp(score)
        total = sum(weights.values())
        for j, weight in weights.items():
            out[b, h, i] += (weight / total if total else 0.0) * value[b, of, j].double()
    return out


SDPA = {
    "all": dict(start=3),
    "prefill": dict(start=0, is_causal=True),
    "later chunk": dict(start=4, is_causal=True),
    "to the end": dict(start=6, is_causal=True),
    "scale": dict(start=2, is_causal=True, scale=0.7),
    "bool mask": dict(start=2, attn_mask=rand(3, 5) > 0),
    "bool mask of heads": dict(start=2, attn_mask=rand(2, 4, 3, 5) > -0.5),
    "added mask": dict(start=2, attn_mask=rand(2, 1, 3, 5)),
    "row sees nothing": dict(
        start=2, attn_mask=torch.tensor([[False] * 5, [True] * 5, [True] + [False] * 4])
    ),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize("case", SDPA.values(), ids=SDPA)
def test_custom_sdpa(case, kv_heads, dtype):
    query, key, value = (
        rand(2, h, n, 8, dtype=dtype, seed=i)
        for i, (h, n) in enumerate([(4, 3), (kv_heads, 9), (kv_heads, 9)])
    )
    start, *_ = case.values()
    options = {k: v for k, v in case.items() if k != "start"}
    check(mlx.custom_sdpa(query, key, value, start, **options), sdpa_loops(query, key, value, **case), dtype)


# what is refused

X, Q, S = torch.ones(1, 1, 2, 8), torch.ones(4, 3, 32, dtype=torch.int8), torch.ones(4, 3, 1)
A, B, X32, ROWS, ONE = (
    torch.ones(2, 3),
    torch.ones(4, 3, 1),
    torch.ones(2, 32),
    torch.ones(2, 5),
    torch.tensor(1.0),
)
X2 = X.repeat(1, 2, 1, 1)

REFUSED = {
    "rope: odd dims": (ValueError, "dims", lambda: mlx.rope(X, 3, 0)),
    "rope: dims beyond D": (ValueError, "dims", lambda: mlx.rope(X, 10, 0)),
    "rope: rank": (ValueError, "x must be", lambda: mlx.rope(X[0], 8, 0)),
    "rope: freqs": (ValueError, "freqs", lambda: mlx.rope(X, 8, 0, freqs=torch.ones(3))),
    "rope: float pos": (TypeError, "pos", lambda: mlx.rope(X, 8, torch.tensor(0.5))),
    "rope: pos of other rows": (ValueError, "pos", lambda: mlx.rope(X, 8, torch.tensor([1, 2]))),
    "rope: integers": (TypeError, "x must be", lambda: mlx.rope(X.int(), 8, 0)),
    "gather_mm: dtypes": (TypeError, "one dtype", lambda: mlx.gather_mm(X, X.half())),
    "gather_mm: shapes": (ValueError, "fit", lambda: mlx.gather_mm(A, ROWS[None])),
    "gather_mm: index too large": (IndexError, "rhs_indices", lambda: mlx.gather_mm(A, B, torch.tensor([4]))),
    "gather_mm: index negative": (IndexError, "lhs_indices", lambda: mlx.gather_mm(A, B, None, torch.tensor([-1]))),
    "gather_mm: float index": (TypeError, "rhs_indices", lambda: mlx.gather_mm(A, B, torch.ones(1))),
    "gather_qmm: mode": (NotImplementedError, "mode", lambda: mlx.gather_qmm(X32, Q, S, mode="mxfp4")),
    "gather_qmm: bits": (ValueError, "bits", lambda: mlx.gather_qmm(X32, Q, S, bits=7)),
    "gather_qmm: group": (ValueError, "group_size", lambda: mlx.gather_qmm(X32, Q, S, group_size=16)),
    "gather_qmm: values": (ValueError, "bits", lambda: mlx.gather_qmm(X32, Q * 9, S)),
    "gather_qmm: packed bits": (TypeError, "uint8", lambda: mlx.gather_qmm(X32, Q.byte(), S, bits=8)),
    "gather_qmm: columns": (ValueError, "columns", lambda: mlx.gather_qmm(X32, Q, S, transpose=False)),
    "sample: rank": (ValueError, "logits", lambda: mlx.sample(S, ONE, ONE)),
    "sample: no tokens": (ValueError, "logits", lambda: mlx.sample(torch.ones(2, 0), ONE, ONE)),
    "sample: rows": (ValueError, "top_p", lambda: mlx.sample(ROWS, ONE, torch.ones(3))),
    "sample: float seed": (TypeError, "seed", lambda: mlx.sample(ROWS, ONE, ONE, ONE)),
    "sample: float top_k": (TypeError, "top_k", lambda: mlx.sample(ROWS, ONE, ONE, None, ONE)),
    "update: heads": (ValueError, "axis 2", lambda: mlx.kv_cache_update(torch.ones(1, 2, 8, 8), X, 0)),
    "update: ring beyond the cache": (ValueError, "ring_size", lambda: mlx.kv_cache_update(X.clone(), X, 0, 3)),
    "sdpa: dropout": (NotImplementedError, "dropout_p", lambda: mlx.custom_sdpa(X, X, X, 0, None, 0.1)),
    "sdpa: causal and mask": (ValueError, "exclude", lambda: mlx.custom_sdpa(X, X, X, 0, ONE, 0.0, True)),
    "sdpa: beyond the cache": (IndexError, "positions", lambda: mlx.custom_sdpa(X, X, X, 1)),
    "sdpa: before the cache": (IndexError, "positions", lambda: mlx.custom_sdpa(X, X, X, -1)),
    "sdpa: heads": (ValueError, "multiple", lambda: mlx.custom_sdpa(X, X2, X2, 0)),
    "sdpa: dtypes": (TypeError, "dtype", lambda: mlx.custom_sdpa(X, X.half(), X, 0)),
}  # fmt: skip


@pytest.mark.parametrize(("error", "words", "call"), REFUSED.values(), ids=REFUSED)
def test_refused(error, words, call):
    with pytest.raises(error, match=f"mlx::.*{words}"):
        call()


# torch's own checks, and torch.export

OPCHECK = {
    "rope": (mlx.rope.default, (rand(2, 1, 3, 8), 4, 2), {}),
    "rope channels last": (mlx.rope.default, (rand(2, 2, 3, 8).to(memory_format=torch.channels_last), 8, 2), {}),
    "rope traditional": (mlx.rope.default, (rand(2, 1, 3, 8), 8, 2, True), {"freqs": rand(3, 4)}),
    "rope.tensor": (mlx.rope.tensor, (rand(2, 1, 3, 8), 8, torch.tensor([2, 5])), {}),
    "gather_mm": (mlx.gather_mm.default, (rand(3, 2, 6), rand(4, 6, 5), torch.tensor([3, 1])), {"lhs_indices": torch.tensor([[0], [2]])}),
    "gather_mm.tensor": (mlx.gather_mm.tensor, (rand(4, 2, 6), rand(4, 6, 5), None, None, torch.tensor(1)), {}),
    "gather_mm.tensor_kw": (mlx.gather_mm.tensor_kw, (rand(4, 2, 6), rand(4, 6, 5)), {"sorted_indices": torch.tensor(1)}),
    "gather_qmm": (mlx.gather_qmm.default, (rand(4, 2, 32), Q, S, S), {}),
    "gather_qmm packed": (mlx.gather_qmm.default, (rand(4, 2, 3), Q.byte(), rand(4, 3, 2)), {"transpose": False}),
    "gather_qmm.tensor": (mlx.gather_qmm.tensor, (rand(4, 2, 32), Q, S, S, None, None, True, 32, 4, "affine", torch.tensor(1)), {}),
    "gather_qmm.tensor_kw": (mlx.gather_qmm.tensor_kw, (rand(4, 2, 32), Q, S), {"sorted_indices": torch.tensor(0)}),
    "sample": (mlx.sample.default, (rand(2, 9), torch.tensor(0.7), torch.tensor(0.9), torch.tensor(3), torch.tensor(4)), {}),
    "sample greedy": (mlx.sample.default, (rand(2, 9), torch.tensor(0.0), torch.tensor(0.9)), {}),
    "kv_cache_update": (mlx.kv_cache_update.default, (rand(1, 2, 8, 4), rand(1, 2, 3, 4), 2), {}),
    "kv_cache_update ring": (mlx.kv_cache_update.default, (rand(1, 2, 8, 4), rand(1, 2, 3, 4), 7, 8), {}),
    "custom_sdpa": (mlx.custom_sdpa.default, (rand(1, 4, 3, 8), rand(1, 2, 9, 8), rand(1, 2, 9, 8), 2), {"is_causal": True}),
}  # fmt: skip


@pytest.mark.parametrize(("op", "args", "kwargs"), OPCHECK.values(), ids=OPCHECK)
def test_opcheck(op, args, kwargs):
    torch.library.opcheck(op, args, kwargs)


class Call(torch.nn.Module):
    """One op as a module; `length` names what is dynamic: (argument, axis)."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.register_buffer("cache", torch.zeros(1, 2, 16, 8))

    def forward(self, *args):
        return self.function(self, *args)


def update_at(self, new, pos):
    return mlx.kv_cache_update(self.cache, new, pos.item()) + self.cache


EXPORT = {
    "rope": (lambda self, x: mlx.rope(x, 8, 3), lambda n: (rand(1, 2, n, 8),), {0: 2}, "rope.default"),
    "rope at a size": (lambda self, x: mlx.rope(x, 8, x.shape[2] + 1), lambda n: (rand(1, 2, n, 8),), {0: 2}, "rope.default"),
    "rope at an item": (lambda self, x, p: mlx.rope(x, 8, p.item()), lambda n: (rand(1, 2, n, 8), torch.tensor(5)), {0: 2}, "rope.default"),
    "rope at a tensor": (lambda self, x, p: mlx.rope(x, 8, p), lambda n: (rand(1, 2, n, 8), torch.tensor(5)), {0: 2}, "rope.tensor"),
    "gather_mm": (
        lambda self, a, i: mlx.gather_mm(a, self.cache[0], i),
        lambda n: (rand(n, 1, 16), torch.arange(n) % 2), {0: 0, 1: 0}, "gather_mm.default",
    ),
    "gather_qmm": (
        lambda self, x, i: mlx.gather_qmm(x, Q, S, None, i, sorted_indices=(i[0] > 0).int()),
        lambda n: (rand(n, 1, 32), torch.arange(n) % 2), {0: 0, 1: 0}, "gather_qmm.tensor_kw",
    ),
    "sample": (
        lambda self, x, t, s: mlx.sample(x, t, torch.tensor(0.9), s),
        lambda n: (rand(n, 20), torch.tensor(0.8), torch.tensor(4)), {0: 0}, "sample.default",
    ),
    "kv_cache_update": (update_at, lambda n: (rand(1, 2, n, 8), torch.tensor(5)), {0: 2}, "kv_cache_update.default"),
    "custom_sdpa": (
        lambda self, q, p: mlx.custom_sdpa(q, self.cache, self.cache + 1, p.item(), is_causal=True),
        lambda n: (rand(1, 4, n, 8), torch.tensor(5)), {0: 2}, "custom_sdpa.default",
    ),
}  # fmt: skip


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize(("function", "inputs", "axes", "target"), EXPORT.values(), ids=EXPORT)
def test_export(function, inputs, axes, target, dynamic):
    length = Dim("length", min=1, max=8)
    shapes = tuple({axes[i]: length} if i in axes else None for i in range(len(inputs(4))))
    program = torch.export.export(Call(function), inputs(4), dynamic_shapes=(shapes,) if dynamic else None)
    assert f"mlx.{target}" in {str(node.target) for node in program.graph.nodes}
    decomposed = program.run_decompositions({})
    for n in (1, 4, 8) if dynamic else (4,):
        want = Call(function)(*inputs(n))
        for exported in (program, decomposed):
            torch.testing.assert_close(exported.module()(*inputs(n)), want)


def test_export_keeps_the_mutation():
    program = torch.export.export(Call(update_at), (rand(1, 2, 4, 8), torch.tensor(5))).run_decompositions({})
    assert list(program.graph_signature.buffers_to_mutate.values()) == ["cache"]
    module = program.module()
    module(rand(1, 2, 4, 8), torch.tensor(5))
    assert (
        torch.equal(module.cache[:, :, 5:9], rand(1, 2, 4, 8)) and module.cache[:, :, :5].count_nonzero() == 0
    )


# registration


def fresh(code):
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-W", "default", "-c", code]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True)


def test_registering_twice_is_harmless_and_needs_no_mlx():
    code = (
        "import gc, importlib, sys, torch, mlxify.torch_ops\n"
        "names = [m for m in sys.modules if m.startswith('mlxify.torch_ops')]\n"
        "for name in names: importlib.reload(sys.modules[name])\n"
        "for name in names: del sys.modules[name]\n"
        "import mlxify.torch_ops; gc.collect()\n"
        "assert torch.ops.mlx.rope(torch.ones(1, 1, 1, 4), 4, 0).tolist() == [[[[1.0] * 4]]]\n"
        "torch.library.opcheck(torch.ops.mlx.rope.default, (torch.ones(1, 1, 1, 4), 4, 0))\n"
        "assert 'mlx' not in sys.modules and 'mlx.core' not in sys.modules"
    )
    assert "registered by another" not in fresh(code).stderr


def test_somebody_elses_op_is_left_alone_with_a_warning():
    code = (
        "import torch\n"
        "library = torch.library.Library('mlx', 'DEF')\n"
        "library.define('sample(Tensor logits) -> Tensor')\n"
        "import mlxify.torch_ops\n"
        "assert len(torch.ops.mlx.sample.default._schema.arguments) == 1\n"
    )
    assert "mlx::sample was registered by another package" in fresh(code).stderr
