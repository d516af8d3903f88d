"""Random numbers of the gamma, Dirichlet, Poisson and binomial distributions.

By rejection with a fixed number of tries, so that no step waits for the device: at most one draw in 10**12 uses them
up, and gets a number near the mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import mlx.core as mx

from ..isa import Array, instruction
from ..lowering import lowers
from .arithmetic import literal, maximum, minimum, widen
from .compare import greater_equal
from .exponential import exp, exp_of, wide_floats
from .random import next_key, random_normal, random_uniform
from .reduce import all_
from .scalar import assert_scalar
from .shape import broadcast_arrays
from .softmax import softmax

GAMMA_TRIES = 12
"""Each succeeds with a probability of 95 % and more."""
TRIES = 24
"""Each succeeds with a probability of 70 % and more."""
FEW = 10.0
"""A mean below which a distribution is summed up from 0."""
STEPS = 40
"""Terms of such a sum: those left out are below 1e-10."""
RESOLUTION = 2.0**-26


@instruction(chain=128)
def random_log_gamma(key: Array, alpha: Array) -> Array:
    """Logarithms of gamma-distributed numbers of scale 1, one for each shape parameter; -inf for 0. Floats.

    Marsaglia and Tsang's method, https://doi.org/10.1145/358407.358414.
    """
    a = wide_floats(alpha)
    keys = _keys(key, 2 * GAMMA_TRIES + 1)
    d = mx.where(a < 1, a + 1, a) - 1 / 3
    c = 1 / mx.sqrt(9 * d)
    growth, found = mx.zeros_like(a), mx.zeros(a.shape, mx.bool_)
    for i in range(GAMMA_TRIES):
        x = random_normal(keys[2 * i], a.shape, a.dtype)
        z = mx.maximum(c * x, -1)
        log_z = mx.log1p(z)
        # The number is d (1 + z)**3; what follows is its density over that of x.
        ratio = x * x / 2 + d * (3 * (log_z - z) - z * z * (3 + z))
        accepted = (z > -1) & (mx.log(_positive(keys[2 * i + 1], a)) < ratio)
        growth = mx.where(accepted & ~found, 3 * log_z, growth)
        found = found | accepted
    boost = mx.where(a < 1, mx.log(_positive(keys[-1], a)) / a, mx.zeros_like(a))
    result = mx.log(d) + growth + boost
    return mx.where(a == 0, -math.inf, result).astype(alpha.dtype)


@instruction(chain=128)
def random_poisson(key: Array, rate: Array) -> Array:
    """Poisson-distributed whole numbers as floats, one for each mean. nan for negative ones. Floats.

    Small means by inversion, others by Hörmann's PTRS, https://doi.org/10.1016/0167-6687(93)90997-4.
    """
    mean = wide_floats(rate)
    keys = _keys(key, 2 * TRIES + 1)
    low = mx.clip(mean, 0, FEW)
    few = _inverted(_positive(keys[-1], mean), exp_of(-low), low, lambda k: low / k)
    m = mx.maximum(mean, FEW)
    b = 0.931 + 2.53 * mx.sqrt(m)
    a = -0.059 + 0.02483 * b
    scale, limit = 1.1239 + 1.1328 / (b - 3.4), 0.9277 - 3.6224 / (b - 2)

    def log_density(k: mx.array) -> mx.array:
        size = mx.maximum(k, 1)
        ratio = (m - size) / size
        near = size * (mx.log1p(ratio) - ratio) - mx.log(2 * math.pi * size) / 2 - _stirling(size)
        return mx.where(k > 0, near, -m) - mx.log(scale)

    many = _transformed(keys, a, b, m + 0.43, limit, mx.floor(m), log_density)
    return _chosen(rate, mean >= 0, mean < FEW, few, many)


@instruction(chain=128)
def random_binomial(key: Array, count: Array, prob: Array) -> Array:
    """How many of `count` tries succeed, each with the probability `prob`, as floats. Floats of one shape and dtype.

    Small means by inversion, others by Hörmann's BTRS, https://doi.org/10.1080/00949659308811496.
    """
    if count.shape != prob.shape or count.dtype != prob.dtype:
        raise ValueError("a binomial distribution needs counts and probabilities of one shape and dtype")
    n, p = mx.maximum(mx.floor(wide_floats(count)), 0), mx.clip(wide_floats(prob), 0, 1)
    keys = _keys(key, 2 * TRIES + 1)
    q = mx.minimum(p, 1 - p)
    odds = q / (1 - q)
    low = mx.minimum(n, mx.maximum(FEW / mx.maximum(q, 1e-30), 1))
    start = exp_of(low * mx.log1p(-q))
    few = _inverted(_positive(keys[-1], n), start, n * q, lambda k: mx.maximum(low - k + 1, 0) / k * odds)
    enough = n * q >= FEW
    n2, q2 = mx.where(enough, n, 4 * FEW), mx.where(enough, q, 0.5)
    many = _many_binomial(keys, n2, q2)
    fewer = mx.where(enough, many, few)
    result = mx.where(p > 0.5, n - fewer, fewer)
    return mx.where((count == count) & (prob == prob), result, math.nan).astype(count.dtype)


def _many_binomial(keys: mx.array, n: mx.array, q: mx.array) -> mx.array:
    """BTRS of n tries with a probability q of at most 1/2, for n * q of at least FEW."""
    deviation = mx.sqrt(n * q * (1 - q))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * q
    alpha, odds = (2.83 + 5.1 / b) * deviation, q / (1 - q)
    mode = mx.floor((n + 1) * q)
    at_mode = (mode + 0.5) * mx.log((mode + 1) / (odds * (n - mode + 1))) + _tail(mode) + _tail(n - mode)

    def log_density(k: mx.array) -> mx.array:
        size = mx.minimum(mx.maximum(k, 0), n)
        above, rest = (n + 1) * mx.log1p((size - mode) / (n - size + 1)), _tail(size) + _tail(n - size)
        value = (
            at_mode + above + (size + 0.5) * mx.log(odds * (n - size + 1) / (size + 1)) - rest - mx.log(alpha)
        )
        return mx.where(k <= n, value, -math.inf)

    return _transformed(keys, a, b, n * q + 0.5, 0.92 - 4.2 / b, mode, log_density)


def _keys(key: mx.array, count: int) -> mx.array:
    if key.dtype != mx.uint32 or key.shape != (2,):
        raise ValueError("a random key is an array of two uint32")
    return mx.random.split(key, count)


def _positive(key: mx.array, like: mx.array) -> mx.array:
    """Uniform numbers in (0, 1]."""
    return 1 - random_uniform(key, like.shape, like.dtype)


def _inverted(u: mx.array, start: mx.array, mean: mx.array, factor: Callable[[int], mx.array]) -> mx.array:
    """The first k at which the running sum of probabilities reaches u. Each is factor(k) times the one before it."""
    density = total = start
    count = mx.zeros_like(u)
    for k in range(1, STEPS):
        # Rounding must not let it go on where nothing is left to add.
        count = count + ((u > total) & ((density > RESOLUTION) | (k < mean))).astype(u.dtype)
        density = density * factor(k)
        total = total + density
    return count


def _transformed(
    keys: mx.array,
    a: mx.array,
    b: mx.array,
    centre: mx.array,
    limit: mx.array,
    fallback: mx.array,
    log_density: Callable[[mx.array], mx.array],
) -> mx.array:
    """Hörmann's transformed rejection with a squeeze: whole numbers of at least 0 with a given density."""
    result, found = fallback, mx.zeros(b.shape, mx.bool_)
    for i in range(TRIES):
        u = _positive(keys[2 * i], b) - 0.5
        v = _positive(keys[2 * i + 1], b)
        us = 0.5 - mx.abs(u)
        k = mx.floor((2 * a / us + b) * u + centre)
        inside = (k >= 0) & (us > 0)
        near = (us >= 0.07) & (v <= limit)
        exact = mx.log(v / (a / (us * us) + b)) <= log_density(k)
        accepted = inside & (near | exact)
        result = mx.where(accepted & ~found, k, result)
        found = found | accepted
    return result


def _stirling(k: mx.array) -> mx.array:
    """What log(k!) is above (k + 1/2) log(k) - k + log(2 pi) / 2, for k >= 1."""
    return (1 / 12 - (1 / 360 - 1 / (1260 * k * k)) / (k * k)) / k


def _tail(k: mx.array) -> mx.array:
    """What log(k!) is above (k + 1/2) log(k + 1) - (k + 1) + log(2 pi) / 2, for k >= 0."""
    return _stirling(k + 1)


def _chosen(like: mx.array, valid: mx.array, small: mx.array, few: mx.array, many: mx.array) -> mx.array:
    return mx.where(valid, mx.where(small, few, many), math.nan).astype(like.dtype)


@lowers("aten._standard_gamma")
def standard_gamma(self, generator=None):
    drawn = exp(random_log_gamma(next_key(), widen(self)))
    return maximum(drawn, literal(mx.finfo(self.dtype).smallest_normal, drawn.dtype))


@lowers("aten._sample_dirichlet")
def sample_dirichlet(self, generator=None):
    shares = softmax(random_log_gamma(next_key(), widen(self)), self.ndim - 1)
    info = mx.finfo(self.dtype)
    return minimum(maximum(shares, info.smallest_normal), 1 - info.eps / 2)


@lowers("aten.poisson")
def poisson(self, generator=None):
    valid = all_(greater_equal(self, 0), list(range(self.ndim)), False)
    assert_scalar(valid, "a Poisson distribution needs rates that are not negative")
    return random_poisson(next_key(), widen(self))


@lowers("aten.binomial")
def binomial(count, prob, generator=None):
    return random_binomial(next_key(), *broadcast_arrays([widen(count), widen(prob)]))
