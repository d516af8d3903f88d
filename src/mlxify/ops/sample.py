"""From logits to token ids."""

from __future__ import annotations

import math

import mlx.core as mx

from ..isa import cast
from ..lowering import lowers
from .arithmetic import add, divide, literal, subtract
from .bitwise import bitwise_and, right_shift
from .compare import greater, greater_equal, less, less_equal, where
from .create import arange
from .index import take_along_axis
from .join import stack
from .random import gumbel, next_key
from .reduce import argmax, max_
from .scan import cumsum
from .shape import reshape
from .softmax import softmax
from .sort import argsort

WORD = 2**32 - 1


@lowers("mlx::sample")
def sample(logits, temperature, top_p, seed=None, top_k=None):
    greedy = argmax(logits, 1, False)
    heat = reshape(cast(temperature, mx.float32), [-1, 1])
    cold = less_equal(heat, 0.0)
    wide = cast(logits, mx.float32)
    # Against the largest logit, so that a small temperature cannot overflow.
    scaled = divide(subtract(wide, max_(wide, [1], True)), where(cold, literal(1.0, mx.float32), heat))
    order = argsort(scaled, 1, True)
    ranked = _keep(take_along_axis(scaled, order, 1), reshape(cast(top_p, mx.float32), [-1, 1]), top_k)
    # The noise belongs to the token, not to its rank.
    noise = gumbel(next_key() if seed is None else _key(seed), logits.shape)
    best = argmax(add(ranked, take_along_axis(noise, order, 1)), 1, True)
    drawn = reshape(take_along_axis(order, best, 1), [logits.shape[0]])
    return where(reshape(cold, [-1]), greedy, drawn)


def _keep(ranked, top_p, top_k):
    """-inf for what top_k and then top_p drop. ranked: (rows, tokens), descending."""
    rank = arange(0, ranked.shape[1], 1, mx.int64)
    dropped = literal(-math.inf, mx.float32)
    if top_k is not None:
        count = reshape(cast(top_k, mx.int64), [-1, 1])
        ranked = where(bitwise_and(greater(count, 0), greater_equal(rank, count)), dropped, ranked)
    probability = softmax(ranked, 1)
    before = subtract(cumsum(probability, 1), probability)
    enough = bitwise_and(less(top_p, 1.0), greater_equal(before, top_p))
    return where(bitwise_and(greater(rank, 0), enough), dropped, ranked)


def _key(seed):
    """The random key of a seed, as mlx.random.key makes it: its two halves."""
    seed = reshape(cast(seed, mx.int64), [])
    halves = stack([right_shift(seed, literal(32, mx.int64)), bitwise_and(seed, literal(WORD, mx.int64))], 0)
    return cast(halves, mx.uint32)
