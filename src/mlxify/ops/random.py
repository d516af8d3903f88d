"""Random numbers. Each instruction takes the key from which alone its numbers follow.

A program without keys of its own has one as state: each draw takes a fresh key from it (see Recorder.next_key). The
distributions are PyTorch's, the numbers are not.
"""

from __future__ import annotations

import math

import mlx.core as mx

from ..isa import Array, DType, Int, cast, instruction
from ..lowering import as_array, lowers
from ..record import active
from .arithmetic import add, divide, literal, maximum, minimum, multiply, remainder, subtract, widen
from .cast import view
from .compare import less
from .complex import complex_
from .exponential import exp
from .reduce import argmax, sum_
from .scan import cumsum
from .shape import broadcast_arrays, check_shape, expand_dims, reshape
from .sort import argsort, searchsorted, topk
from .unary import ceil, log, log1p, negative, tan

DIGITS = {mx.float32: 24, mx.float16: 11, mx.bfloat16: 8}
"""Binary digits of a uniform number: as many as fit, so that 1 is never reached."""
TINY = 2.0**-126


@instruction
def split_key(key: Array) -> tuple[Array, Array]:
    """Two independent keys from one. A key is uint32[2]."""
    first, second = mx.random.split(_checked(key), 2)
    return first, second


@instruction
def random_bits(key: Array, shape: list[Int]) -> Array:
    """uint32 whose bits are independent and even."""
    return _bits(_checked(key), shape)


@instruction
def random_uniform(key: Array, shape: list[Int], dtype: DType) -> Array:
    """Floats, evenly in [0, 1)."""
    if dtype == mx.float64:
        words = _bits(_checked(key), [*shape, 2]).astype(mx.uint64)
        whole = mx.bitwise_or(mx.left_shift(words[..., 0], mx.array(32, mx.uint64)), words[..., 1])
        return mx.right_shift(whole, mx.array(11, mx.uint64)).astype(dtype) * mx.array(2.0**-53, dtype)
    if dtype not in DIGITS:
        raise ValueError(f"uniform numbers of {dtype}")
    digits = DIGITS[dtype]
    whole = mx.right_shift(_bits(_checked(key), shape), mx.array(32 - digits, mx.uint32))
    return (whole.astype(mx.float32) * 2.0**-digits).astype(dtype)


@instruction
def random_normal(key: Array, shape: list[Int], dtype: DType) -> Array:
    """Floats of mean 0 and variance 1, drawn in float32."""
    if not mx.issubdtype(dtype, mx.floating):
        raise ValueError(f"normal numbers of {dtype}")
    return mx.random.normal(check_shape(shape), mx.float32, key=_checked(key)).astype(dtype)


def _checked(key: mx.array) -> mx.array:
    """The key itself. MLX reads two words of memory without looking whether they are there."""
    if key.dtype != mx.uint32 or key.shape != (2,):
        raise ValueError("a random key is an array of two uint32")
    return key


def _bits(key: mx.array, shape: list[int]) -> mx.array:
    count = math.prod(check_shape(shape))
    # New keys are random bits, two words each.
    return mx.reshape(mx.flatten(mx.random.split(key, (count + 1) // 2))[:count], shape)


def next_key():
    return active().next_key()


def uniform(shape, dtype):
    """Uniform numbers in [0, 1), with the program's key; both parts of complex ones."""
    if dtype == mx.complex64:
        return complex_(uniform(shape, mx.float32), uniform(shape, mx.float32))
    return random_uniform(next_key(), list(shape), dtype)


def normal(shape, dtype):
    """Normal numbers of mean 0 and variance 1, half of it in each part of a complex one."""
    if dtype == mx.complex64:
        parts = [multiply(normal(shape, mx.float32), math.sqrt(0.5)) for _ in range(2)]
        return complex_(*parts)
    return random_normal(next_key(), list(shape), dtype)


@lowers("aten.rand", "aten.rand.generator")
def rand(size, dtype, generator=None, *, result):
    return uniform(size, result.dtype)


@lowers("aten.rand_like", "aten.rand_like.generator")
def rand_like(self, dtype, generator=None, *, result):
    return uniform(self.shape, result.dtype)


@lowers("aten.randn", "aten.randn.generator")
def randn(size, dtype, generator=None, *, result):
    return normal(size, result.dtype)


@lowers("aten.randn_like", "aten.randn_like.generator")
def randn_like(self, dtype, generator=None, *, result):
    return normal(self.shape, result.dtype)


@lowers("aten.randint", "aten.randint.generator", "aten.randint.low", "aten.randint.low_generator")
def randint(high, size, low=0, dtype=None, generator=None, *, result):
    return _integers(size, low, high, result.dtype)


@lowers(
    "aten.randint_like",
    "aten.randint_like.generator",
    "aten.randint_like.low_dtype",
    "aten.randint_like.low_generator_dtype",
)
def randint_like(self, high, low=0, dtype=None, generator=None, *, result):
    return _integers(self.shape, low, high, result.dtype)


def _integers(shape, low, high, dtype):
    """Integers, evenly in [low, high)."""
    words = random_bits(next_key(), [*shape, 2])
    whole = reshape(view(words, mx.uint64), list(shape))
    span = cast(subtract(as_array(high, mx.int64), as_array(low, mx.int64)), mx.uint64)
    return cast(add(cast(remainder(whole, span), mx.int64), as_array(low, mx.int64)), dtype)


@lowers("aten.randperm", "aten.randperm.generator")
def randperm(n, dtype=None, generator=None):
    return argsort(random_bits(next_key(), [n]), 0, False)


@lowers("aten.bernoulli")
def bernoulli(self, generator=None):
    return _bernoulli(self.shape, self)


@lowers("aten.bernoulli.p", "aten.bernoulli.Tensor")
def bernoulli_p(self, p=0.5, generator=None):
    return _bernoulli(self.shape, p)


def _bernoulli(shape, p):
    wide = widen(as_array(p, mx.float32) if isinstance(p, float) else p)
    return less(uniform(shape, wide.dtype), wide)


@lowers(
    "aten.normal.Tensor_float",
    "aten.normal.float_Tensor",
    "aten.normal.Tensor_Tensor",
    "aten.normal.float_float",
    "aten.normal_functional",
)
def normal_(mean=0.0, std=1.0, self=None, size=None, dtype=None, generator=None, *, result):
    if size is None:
        size = broadcast_arrays([v for v in (self, mean, std) if hasattr(v, "ndim")])[0].shape
    mean, std = (literal(v, result.dtype) for v in (mean, std))
    return add(multiply(normal(size, result.dtype), std), mean)


@lowers("aten.uniform")
def uniform_(self, from_=0.0, to=1.0, generator=None):
    return add(multiply(uniform(self.shape, self.dtype), to - from_), from_)


@lowers("aten.exponential")
def exponential(self, lambd=1.0, generator=None):
    return divide(negative(log1p(negative(uniform(self.shape, self.dtype)))), lambd)


@lowers("aten.geometric")
def geometric(self, p, generator=None):
    u = uniform(self.shape, mx.float32)
    return maximum(ceil(divide(log1p(negative(u)), math.log1p(-p))), 1.0)


@lowers("aten.cauchy")
def cauchy(self, median=0.0, sigma=1.0, generator=None):
    u = uniform(self.shape, widen(self).dtype)
    return add(multiply(tan(multiply(subtract(u, 0.5), math.pi)), sigma), median)


@lowers("aten.log_normal")
def log_normal(self, mean=1.0, std=2.0, generator=None):
    return exp(add(multiply(normal(self.shape, widen(self).dtype), std), mean))


def gumbel(key, shape):
    """-log(-log(u)) in float32."""
    u = maximum(random_uniform(key, list(shape), mx.float32), TINY)
    return negative(log(negative(log(u))))


@lowers("aten.multinomial")
def multinomial(self, num_samples, replacement=False, generator=None):
    weights = widen(self)
    rows = weights if self.ndim == 2 else expand_dims(weights, [0])
    if replacement:
        drawn = _drawn_with_replacement(rows, num_samples)
    else:
        # The largest of log(w) + noise are a draw without replacement.
        noisy = add(cast(log(rows), mx.float32), gumbel(next_key(), rows.shape))
        _, drawn = topk(noisy, num_samples, 1, True)
    return drawn if self.ndim == 2 else reshape(drawn, [num_samples])


def _drawn_with_replacement(weights, count):
    u = multiply(uniform([weights.shape[0], count], weights.dtype), sum_(weights, [1], True))
    # Rounding must not take a draw beyond the last weight that is not 0: the first at which their count is full.
    last = argmax(cumsum(cast(weights, mx.bool_), 1), 1, True)
    return minimum(searchsorted(cumsum(weights, 1), u, "right"), last)
