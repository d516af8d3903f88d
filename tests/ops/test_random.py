"""Random numbers: shapes, dtypes and limits as PyTorch's, distributions by their moments, reproducible by seed."""

import math

import mlx.core as mx
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

import mlxify
import mlxify.torch_ops
from mlxify.ops.random import random_bits, random_normal, random_uniform, split_key

from .harness import Case, _Function, check, params, to_numpy
from .test_linear import rand

HALF, BF16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
X = rand(4, 5)


def inside(x, low, high):
    """What every correct draw has in common: shape, dtype, and its limits."""
    return x * 0, ((x >= low) & (x < high)).all()


def between(y, x):
    """Whether y is x above 0 and x times 0.25 to 0.5 below, not always the same."""
    slope = torch.where(x < 0, y / x, 0.3).float()
    return torch.where(x > 0, y == x, True) & (slope >= 0.249) & (slope <= 0.501), slope.min() < slope.max()


def noisy(x, op):
    noise = torch.zeros_like(x)
    y = op(x.clone(), noise, 0.25, 0.5, True)
    return between(y, x), (y - x * noise).abs() < 1e-6, torch.where(x > 0, noise, 1)


LIMITS = [
    *(Case(f"rand {d}", lambda x, d=d: inside(torch.rand(3, 4, dtype=d), 0, 1), (X,)) for d in (F32, HALF, BF16, F64)),
    *(Case(f"randn {d}", lambda x, d=d: inside(torch.randn(3, 4, dtype=d), -9, 9), (X,)) for d in (F32, HALF, BF16, F64)),
    Case("rand no elements", lambda x: torch.rand(0, 4), (X,)),
    Case("rand one element", lambda x: inside(torch.rand(()), 0, 1), (X,)),
    Case("rand_like", lambda x: inside(torch.rand_like(x), 0, 1), (X.half(),)),
    Case("rand_like dtype", lambda x: inside(torch.rand_like(x, dtype=F32), 0, 1), (X.long(),)),
    Case("randn_like", lambda x: inside(torch.randn_like(x), -9, 9), (X,), compiled=True, decomposed=True),
    Case("randint", lambda x: inside(torch.randint(7, (3, 4)), 0, 7), (X,)),
    Case("randint low", lambda x: inside(torch.randint(-3, 3, (50,), dtype=torch.int8), -3, 3), (X,)),
    Case("randint wide", lambda x: inside(torch.randint(-(2**62), 2**62, (50,)), -(2**62), 2**62), (X,)),
    Case("randint float", lambda x: inside(torch.randint(5, (50,), dtype=F32), 0, 5), (X,)),
    Case("randint_like", lambda x: inside(torch.randint_like(x, 3), 0, 3), (X,)),
    Case("randint_like low", lambda x: inside(torch.randint_like(x, 3, 9), 3, 9), (X.long(),)),
    Case("randperm", lambda x: torch.randperm(100).sort()[0], (X,)),
    Case("randperm int32", lambda x: torch.randperm(9, dtype=torch.int32).sort()[0], (X,)),
    Case("randperm 0", lambda x: torch.randperm(0), (X,)),
    Case("bernoulli 0 and 1", torch.bernoulli, (torch.tensor([[0.0, 1.0], [1.0, 0.0]]),)),
    Case("bernoulli p", lambda x: (x.bernoulli(0.0), x.bernoulli(1.0)), (X,)),
    Case("bernoulli half", lambda x: inside(torch.bernoulli(torch.full_like(x, 0.5)), 0, 2), (X.half(),)),
    Case("normal tensors", lambda m, s: torch.normal(m, s * 0), (X, X.abs()), decomposed=True),
    Case("normal mean", lambda m: torch.normal(m, 0.0), (X,)),
    Case("normal std", lambda s: inside(torch.normal(3.0, s * 0), 3, 3.1), (X.abs(),)),
    Case("normal size", lambda x: inside(torch.normal(3.0, 0.01, (3, 4)), 2, 4), (X,)),
    Case("uniform_", lambda x: inside(torch.empty_like(x).uniform_(2, 3), 2, 3.001), (X,)),
    Case("normal_", lambda x: inside(torch.empty_like(x).normal_(3, 0.01), 2, 4), (X,)),
    Case("bernoulli_", lambda x: torch.empty_like(x).bernoulli_(1.0), (X,)),
    Case("exponential_", lambda x: inside(torch.empty_like(x).exponential_(2.0), 0, 99), (X,)),
    Case("geometric_", lambda x: inside(torch.empty_like(x).geometric_(0.5), 1, 99), (X,)),
    Case("log_normal_", lambda x: inside(torch.empty_like(x).log_normal_(0.0, 0.1), 0, 9), (X,)),
    Case("cauchy_", lambda x: torch.empty_like(x).cauchy_().isfinite().all(), (X,)),
    Case("multinomial certain", lambda w: torch.multinomial(w, 2, True), (torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 3.0]]),)),
    Case("multinomial all", lambda w: torch.multinomial(w, 3).sort()[0], (torch.tensor([[0.1, 1.0, 5.0], [1.0, 2.0, 3.0]]),)),
    Case("multinomial 1-d", lambda w: torch.multinomial(w, 1), (torch.tensor([0.0, 0.0, 2.0, 0.0]),)),
    Case("multinomial half", lambda w: torch.multinomial(w, 1), (torch.tensor([0.0, 0.0, 2.0, 0.0]).half(),)),
    Case("dynamic", lambda x: inside(torch.rand(x.shape[0], 3) + torch.randn_like(x)[:, :3] * 0, 0, 1), (X,),
         dynamic=({0: Dim("n")},), also=((rand(1, 5),), (rand(9, 5),))),
    Case("dynamic permutation", lambda x: torch.randperm(x.shape[0]).sort()[0], (X,), dynamic=({0: Dim("n")},), also=((rand(1, 5),), (rand(9, 5),))),
]  # fmt: skip

RRELU = [
    *(Case(f"rrelu training {d}", lambda x: between(F.rrelu(x, 0.25, 0.5, training=True), x), (X.to(d),)) for d in (F32, F64)),
    Case("rrelu inplace", lambda x: between(F.rrelu(x + 0, 0.25, 0.5, training=True, inplace=True), x), (X,)),
    Case("rrelu of odd numbers", lambda x: F.rrelu(x, 0.5, 0.5, training=True), (torch.tensor([0.0, math.inf, -math.inf, math.nan]),)),
    Case("rrelu with noise", lambda x: noisy(x, torch.ops.aten.rrelu_with_noise), (X,)),
    Case("rrelu with noise in place", lambda x: noisy(x + 0, torch.ops.aten.rrelu_with_noise_), (X,)),
]  # fmt: skip

DROPOUT = [
    Case("inference", lambda x: F.dropout(x, 0.5, False), (X,), decomposed=True),
    Case("everything", lambda x: F.dropout(x, 1.0, True), (X,)),
    Case("nothing", lambda x: F.dropout(x, 0.0, True), (X,)),
    Case("native inference", lambda x: torch.ops.aten.native_dropout(x, 0.5, False), (X,)),
    *(Case(f"{f.__name__} inference", lambda x, f=f: f(x[:, :, None], 0.5, False), (X,))
      for f in (F.dropout1d, F.dropout2d, F.alpha_dropout, F.feature_alpha_dropout)),
    Case("alpha everything", lambda x: F.alpha_dropout(x, 1.0, True), (X,)),
    # What is kept is doubled, what is not is 0.
    Case("training", lambda x: ((d := F.dropout(x, 0.5, True)) == 2 * x) | (d == 0), (X,)),
    Case("training half", lambda x: ((d := F.dropout(x, 0.5, True)) == 2 * x) | (d == 0), (X.half(),)),
    Case("native training", lambda x: (d := torch.ops.aten.native_dropout(x, 0.5, True))[0] - x * d[1] * 2, (X,)),
    Case("features go together", lambda x: (d := F.dropout2d(x, 0.5, True)).amax((2, 3)) - d.amin((2, 3)), (torch.ones(3, 8, 4, 4),)),
]  # fmt: skip


@params(LIMITS)
def test_limits(case, tmp_path):
    check(case, tmp_path)


@params(RRELU)
def test_rrelu(case, tmp_path):
    check(case, tmp_path)


@params(DROPOUT)
def test_dropout(case, tmp_path):
    check(case, tmp_path)


def draw(fn, *args):
    """One call of the converted function, as float64."""
    program = mlxify.convert(_Function(fn).eval(), args or (torch.zeros(1),))
    return to_numpy(program(*(args or (torch.zeros(1),)))).astype(np.float64)


N = 40_000
MOMENTS = {
    "rand": (lambda x: torch.rand(N), 1 / 2, 1 / 12),
    "rand half": (lambda x: torch.rand(N, dtype=HALF), 1 / 2, 1 / 12),
    "rand float64": (lambda x: torch.rand(N, dtype=F64), 1 / 2, 1 / 12),
    "randn": (lambda x: torch.randn(N), 0, 1),
    "randint": (lambda x: torch.randint(10, (N,)), 4.5, 8.25),
    "bernoulli": (lambda x: torch.bernoulli(torch.full((N,), 0.3)), 0.3, 0.21),
    "normal": (lambda x: torch.normal(2.0, 3.0, (N,)), 2, 9),
    "exponential": (lambda x: torch.empty(N).exponential_(2.0), 1 / 2, 1 / 4),
    "geometric": (lambda x: torch.empty(N).geometric_(0.25), 4, 12),
    "log_normal": (lambda x: torch.empty(N).log_normal_(0.0, 0.5), math.exp(1 / 8), (math.exp(1 / 4) - 1) * math.exp(1 / 4)),
    "dropout": (lambda x: F.dropout(torch.ones(N), 0.25, True), 1, 1 / 3),
    "alpha_dropout": (lambda x: F.alpha_dropout(torch.randn(N), 0.25, True), 0, 1),
    "multinomial": (lambda x: torch.multinomial(torch.tensor([1.0, 0.0, 2.0, 1.0]), N, True), 1.75, 1.1875),
    "multinomial, one of each": (lambda x: torch.multinomial(torch.tensor([[1.0, 0.0, 2.0, 1.0]]).expand(N, 4), 1), 1.75, 1.1875),
}  # fmt: skip


@pytest.mark.parametrize("name", MOMENTS)
def test_moments(name):
    fn, mean, variance = MOMENTS[name]
    x = draw(fn)
    # Six standard errors; that of the variance for tails as long as an exponential's.
    assert abs(x.mean() - mean) < 6 * math.sqrt(variance / N)
    assert abs(x.var() - variance) < 6 * variance * math.sqrt(12 / N)


def test_draws_differ_and_follow_the_seed(tmp_path):
    program = mlxify.convert(
        _Function(lambda x: (x + torch.rand(8), torch.rand(8))).eval(), (torch.zeros(8),)
    )
    x = torch.zeros(8)
    first, other = (np.array(v) for v in program(x))
    assert not np.array_equal(first, other)
    second = np.array(program(x)[0])
    assert not np.array_equal(first, second)
    program.save(tmp_path / "random.safetensors")
    again = mlxify.load(tmp_path / "random.safetensors")
    assert np.array_equal(again(x)[0], first)
    again.seed(7)
    seeded = np.array(again(x)[0])
    again.seed(7)
    assert np.array_equal(again(x)[0], seeded) and not np.array_equal(seeded, first)


def test_instructions():
    key = mx.random.key(3)
    one, two = split_key(key)
    assert not mx.array_equal(one, two)
    bits = np.array(random_bits(key, [10_001]))
    assert bits.dtype == np.uint32 and abs(np.unpackbits(bits.view(np.uint8)).mean() - 0.5) < 0.01
    for dtype in (mx.float32, mx.float16, mx.bfloat16, mx.float64):
        u = random_uniform(key, [100_000], dtype)
        assert u.dtype == dtype and mx.min(u).item() >= 0 and mx.max(u).item() < 1
    for bad in (mx.zeros((3,), mx.uint32), mx.zeros((2,), mx.int32), mx.zeros((1,), mx.uint32)):
        for instruction, arguments in (
            (split_key, ()),
            (random_bits, ([2],)),
            (random_normal, ([2], mx.float32)),
        ):
            with pytest.raises(ValueError):
                instruction(bad, *arguments)


LOGITS = torch.tensor([[1.0, 3.0, 2.0, 2.5], [0.0, -1.0, 5.0, 4.9]])


def sample(seed=None, top_k=None):
    """A program of mlx::sample and a function that calls it."""

    class Sample(nn.Module):
        def forward(self, logits, heat, top_p, *rest):
            seeded = rest[0] if seed is not None else None
            return torch.ops.mlx.sample(logits, heat, top_p, seeded, rest[-1] if top_k is not None else None)

    extra = [torch.tensor(v) for v in (seed, top_k) if v is not None]
    program = mlxify.convert(Sample(), (LOGITS, torch.tensor(1.0), torch.tensor(1.0), *extra))

    def call(logits, heat=1.0, top_p=1.0, *rest):
        result = program(logits, torch.tensor(heat), torch.tensor(top_p), *(torch.tensor(r) for r in rest))
        assert result.dtype == mx.int64
        return result.tolist()

    return call


def test_sample_greedy():
    assert sample()(LOGITS, 0.0) == [1, 2]
    assert sample()(LOGITS, -1.0) == [1, 2]
    assert sample()(torch.tensor([[2.0, 2.0, 1.0, 0.0]] * 2), 0.0) == [0, 0]
    assert sample()(LOGITS, 1e-30) == [1, 2]


def test_sample_by_seed():
    call = sample(seed=1)
    many = torch.zeros(2, 4)
    draws = [call(many, 1.0, 1.0, seed) for seed in range(20)]
    assert draws == [call(many, 1.0, 1.0, seed) for seed in range(20)]
    assert len({tuple(d) for d in draws}) > 5
    assert call(many, 1.0, 1.0, 2**40 + 1) == call(many, 1.0, 1.0, 2**40 + 1)


def frequencies(call, *arguments):
    """How often each token is drawn for the first row, over 200 calls of both rows alike."""
    counts = np.zeros(4)
    for _ in range(200):
        for token in call(LOGITS[:1].expand(2, 4), *arguments):
            counts[token] += 1
    return counts / counts.sum()


def test_sample_limits():
    exact = LOGITS[0].softmax(0).numpy()
    assert np.abs(frequencies(sample()) - exact).max() < 0.1
    assert frequencies(sample(), 1.0, 0.5)[[0, 2]].max() == 0  # 0.48 and 0.29 reach a half
    assert frequencies(sample(), 1.0, 0.3)[1] == 1
    assert frequencies(sample(), 1.0, 0.0)[1] == 1
    assert frequencies(sample(top_k=2), 1.0, 1.0, 2)[[0, 2]].max() == 0
    assert frequencies(sample(top_k=2), 1.0, 1.0, 0).min() > 0
    assert frequencies(sample(seed=1, top_k=2), 1.0, 1.0, 5, 1)[1] == 1


def test_sample_parameters_by_row():
    class Sample(nn.Module):
        def forward(self, logits, heat, top_p, top_k):
            return torch.ops.mlx.sample(logits, heat, top_p, None, top_k)

    args = LOGITS.half(), torch.tensor([0.0, 1.0]), torch.tensor([1.0]), torch.tensor([1, 2])
    program = mlxify.convert(Sample(), args)
    for _ in range(20):
        first, second = program(*args).tolist()
        assert first == 1 and second in (2, 3)
