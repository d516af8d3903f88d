"""Gamma, Dirichlet, Poisson and binomial numbers: their distributions against exact probabilities."""

import math

import mlx.core as mx
import numpy as np
import pytest
import torch

import mlxify
from mlxify.ops.variates import random_binomial, random_log_gamma, random_poisson

from .harness import Case, _Function, check, params
from .test_linear import rand

N = 100_000
X = rand(4, 5).abs()


def key(value):
    return mx.random.key(round(1000 * value))


def chi_square(observed, expected):
    """How many standard deviations the sum of squared deviations is above its mean; bins of few are put together."""
    groups, total = [[0.0, 0.0]], N
    for o, e in zip(observed, expected, strict=True):
        groups[-1][0] += o
        groups[-1][1] += e * total
        if groups[-1][1] > 20:
            groups.append([0.0, 0.0])
    groups[-2][0] += groups[-1][0]
    groups[-2][1] += groups.pop()[1]
    o, e = np.array(groups).T
    return (((o - e) ** 2 / e).sum() - len(e) + 1) / math.sqrt(2 * len(e))


def counted(draws, low, high):
    """How often each whole number from low to high is drawn; the ends stand for all beyond them."""
    whole = np.clip(np.array(draws.astype(mx.float32)), low, high)
    assert (whole == np.floor(whole)).all()
    return np.bincount((whole - low).astype(int), minlength=high - low + 1)


@pytest.mark.parametrize("alpha", (0.01, 0.3, 1.0, 2.5, 30.0, 1e4))
def test_gamma(alpha):
    log = np.array(random_log_gamma(key(alpha), mx.full((N,), alpha)), np.float64)
    # The distribution function of the logarithm at 60 places between its quantiles.
    places = np.quantile(log, np.linspace(0, 1, 62)[1:-1])
    cdf = torch.special.gammainc(
        torch.tensor(alpha, dtype=torch.float64), torch.tensor(np.exp(places))
    ).numpy()
    far = np.linspace(0, 1, 62)[1:-1]
    assert np.abs(cdf - far).max() < 2 / math.sqrt(N)


@pytest.mark.parametrize("rate", (0.0, 0.1, 3.0, 9.9, 10.0, 25.0, 400.0, 1e5))
def test_poisson(rate):
    draws = random_poisson(key(rate), mx.full((N,), rate))
    spread = 5 * math.sqrt(rate) + 5
    low, high = max(0, math.floor(rate - spread)), math.ceil(rate + spread)
    exact = [
        math.exp(k * math.log(rate) - rate - math.lgamma(k + 1)) if rate else float(k == 0)
        for k in range(low, high + 1)
    ]
    assert chi_square(counted(draws, low, high), exact) < 5


@pytest.mark.parametrize(
    ("n", "p"),
    (
        (5, 0.3),
        (5, 0.8),
        (19, 0.5),
        (20, 0.5),
        (40, 0.9),
        (1000, 0.001),
        (1000, 0.37),
        (100_000, 0.6),
        (1, 0.5),
    ),
)
def test_binomial(n, p):
    draws = random_binomial(key(n * p), mx.full((N,), float(n)), mx.full((N,), p))
    spread = 5 * math.sqrt(n * p * (1 - p)) + 5
    low, high = max(0, math.floor(n * p - spread)), min(n, math.ceil(n * p + spread))

    def probability(k):
        ways = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
        return math.exp(ways + k * math.log(p) + (n - k) * math.log1p(-p))

    assert chi_square(counted(draws, low, high), [probability(k) for k in range(low, high + 1)]) < 5


def test_edges():
    inf, nan = math.inf, math.nan
    gamma = random_log_gamma(key(1), mx.array([0.0, nan, -1.0, inf, 1e30])).tolist()
    assert (
        gamma[0] == -inf
        and math.isnan(gamma[1])
        and gamma[3] == inf
        and abs(gamma[4] - math.log(1e30)) < 1e-4
    )
    poisson = random_poisson(key(1), mx.array([0.0, -1.0, nan, 1e30])).tolist()
    assert (
        poisson[0] == 0
        and math.isnan(poisson[1])
        and math.isnan(poisson[2])
        and poisson[3] == np.float32(1e30)
    )
    n, p = [5.0, 0.0, 5.0, -2.0, nan, 5.0, 5.0], [0.0, 0.5, 1.0, 0.5, 0.5, nan, 1.5]
    binomial = random_binomial(key(1), mx.array(n), mx.array(p)).tolist()
    assert (
        binomial[:4] == [0, 0, 5, 0]
        and math.isnan(binomial[4])
        and math.isnan(binomial[5])
        and binomial[6] == 5
    )


def test_hostile_arguments_are_refused():
    x = mx.ones((3,))
    for call in (
        lambda: random_log_gamma(mx.zeros((3,), mx.uint32), x),
        lambda: random_poisson(key(1), mx.zeros((3,), mx.int32)),
        lambda: random_binomial(key(1), x, mx.ones((2,))),
    ):
        with pytest.raises(ValueError):
            call()


CASES = [
    *(Case(f"gamma {d}", lambda x: torch._standard_gamma(x + 1) > 0, (X.to(d),)) for d in (torch.float32, torch.float64)),
    Case("gamma of 0", torch._standard_gamma, (X * 0,)),
    Case("dirichlet", lambda x: torch._sample_dirichlet(x).sum(-1), (X,)),
    Case("dirichlet of little", lambda x: torch._sample_dirichlet(x * 1e-4).sum(-1), (X,), tolerance=(1e-4, 1e-4)),
    Case("poisson", lambda x: (y := torch.poisson(x * 9)) == y.floor(), (X,)),
    Case("poisson of 0", torch.poisson, (X * 0,)),
    Case("poisson half", lambda x: torch.poisson(x * 0), (X.half(),)),
    Case("binomial", lambda n, p: (y := torch.binomial(n, p)) == y.floor(), ((X * 9).floor(), X.sigmoid())),
    Case("binomial certain", torch.binomial, ((X * 9).floor(), torch.tensor([0.0, 1.0, 0.0, 1.0, 1.0]).expand(4, 5))),
    Case("distributions", lambda x: tuple(d.sample() >= 0 for d in (
        torch.distributions.Gamma(x, x, validate_args=False), torch.distributions.Poisson(x, validate_args=False),
        torch.distributions.Binomial(7, x.sigmoid(), validate_args=False), torch.distributions.Beta(x, x, validate_args=False))), (X,)),
]  # fmt: skip


@params(CASES)
def test_variates(case, tmp_path):
    check(case, tmp_path)


def test_a_rate_is_not_negative():
    program = mlxify.convert(_Function(torch.poisson).eval(), (X,))
    with pytest.raises(mlxify.InputError, match="negative"):
        program(-X)
