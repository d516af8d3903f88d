"""Scaled dot-product attention and the ops that PyTorch has for it."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Literal

import mlx.core as mx

from ..device import PART, in_parts, on_cpu, parts_of
from ..errors import refuse
from ..isa import Array, cast, instruction
from ..lowering import HALVES, lowers
from ..once import once_a_call
from .arithmetic import add, literal, multiply, widen
from .compare import equal, greater_equal, where
from .create import arange
from .dropout import dropout
from .exponential import FEW, exp_of_negative
from .join import repeat
from .linear import matmul
from .reduce import logsumexp, total
from .shape import broadcast_to, expand_dims, product, reshape, squeeze, swapped
from .softmax import safe_softmax

ONE_THREAD = 1 << 18
"""Multiplications up to which OpenBLAS computes a matrix product in one thread (GEMM_MULTITHREAD_THRESHOLD)."""
MANY = 1 << 21
"""Scores of a part of attention with large products."""
LARGE_PARTS = 4
Causal = Literal["none", "top_left", "bottom_right"]


@instruction(chain=1024)
def scaled_dot_product_attention(
    queries: Array, keys: Array, values: Array, mask: Array | None, scale: float, causal: Causal
) -> Array:
    """softmax(queries @ keys.T * scale + mask) @ values, for each head.

    queries: (b, h, l, d), keys: (b, g, s, d), values: (b, g, s, e) of one float dtype; h is a multiple of g, and head
    i of the queries uses head i // (h / g) of the others. The result is (b, h, l, e), computed in at least float32 on
    a CPU. mask broadcasts to (b, h, l, s): true where a query sees a key, or floats to add. causal: query i sees the
    keys 0 … i ("top_left"), or 0 … i + s - l ("bottom_right"). The result of a query that sees nothing is 0.
    """
    _check_attention(queries, keys, values, mask)
    dtype = queries.dtype
    if dtype in HALVES and (on_cpu() or (mask is not None and mask.dtype == mx.float32)):
        queries, keys, values = (x.astype(mx.float32) for x in (queries, keys, values))
    length, span = queries.shape[2], keys.shape[2]
    if queries.shape[3] == 0:
        queries, keys = (mx.zeros((*x.shape[:3], 1), x.dtype) for x in (queries, keys))
    if 0 in (*queries.shape, span, values.shape[3]):
        return mx.zeros((*queries.shape[:3], values.shape[3]), dtype)
    offset = 0 if causal == "top_left" else span - length
    if causal != "none" and (mask is not None or on_cpu() or offset != span - length or offset < 0):
        mask, causal = _with_causal(mask, length, span, offset), "none"
    few = dtype == mx.float32 and length * span * queries.shape[0] * queries.shape[1] <= FEW
    if on_cpu() and not few:
        scaled = queries * mx.array(scale, queries.dtype)
        if mask is not None and mask.dtype == mx.bool_:
            mask = _added(mask, queries.dtype)
        return _attend_in_parts(scaled, keys, values, mask).astype(dtype)
    attend: Any = partial(mx.fast.scaled_dot_product_attention, queries, keys, values, scale=scale)
    if causal != "none":  # MLX's own is the one at the bottom right; each query sees something
        return attend(mask="causal").astype(dtype)
    if mask is None:
        return attend().astype(dtype)
    result = attend(mask=mask if mask.dtype == mx.bool_ else mask.astype(queries.dtype))
    return mx.where(_sees_something(mask), result, mx.zeros((), result.dtype)).astype(dtype)


@once_a_call
def _sees_something(mask: mx.array) -> mx.array:
    """Which queries see a key: (…, l, 1)."""
    return mx.any(mask if mask.dtype == mx.bool_ else mask != -math.inf, axis=-1, keepdims=True)


def _attend_in_parts(q: mx.array, k: mx.array, v: mx.array, mask: mx.array | None) -> mx.array:
    """In parts along the batch or the heads. Large products have the BLAS's threads, for which several streams would
    wait: there the parts, one after another, save memory.
    """
    batch, heads, length, width = q.shape
    span, groups = k.shape[2], k.shape[1]
    large = heads // groups * length * span * max(width, v.shape[3]) > ONE_THREAD
    scores, cores = batch * heads * length * span, 1 if large else None
    # A few, since each part's exponentials are cut into rounds themselves, and chains of operations are bounded.
    count = min(LARGE_PARTS, parts_of(scores, PART, MANY, cores)) if large else parts_of(scores, PART)
    return in_parts(_attend, 0 if batch >= min(count, groups) else 1, count, q, k, v, mask, cores=cores)


def _attend(q: mx.array, k: mx.array, v: mx.array, mask: mx.array | None) -> mx.array:
    """Attention on a CPU, where MLX's own is these same steps with a softmax that is less exact and, of more than a
    few elements, slower. q is scaled, mask is added; heads that share keys and values are one matrix.
    """
    batch, heads, length, width = q.shape
    grouped = (batch, k.shape[1], heads // k.shape[1] * length)
    scores = mx.reshape(q, (*grouped, width)) @ mx.swapaxes(k, -1, -2)
    if mask is not None:
        scores = mx.reshape(mx.reshape(scores, (batch, heads, length, -1)) + mask, scores.shape)
    # A query that sees nothing has scores of -inf: its weights are then 0, and their sum may be anything but 0.
    greatest = mx.maximum(mx.max(scores, axis=-1, keepdims=True), mx.finfo(scores.dtype).min)
    weights = exp_of_negative(scores - greatest)
    result = (weights @ v) / mx.maximum(total(weights, [3], True), mx.finfo(scores.dtype).smallest_normal)
    return mx.reshape(result, (batch, heads, length, v.shape[3]))


@once_a_call
def _added(mask: mx.array, dtype: mx.Dtype) -> mx.array:
    """A mask of booleans as numbers to add to the scores."""
    return mx.where(mask, mx.array(0, dtype), mx.array(-math.inf, dtype))


def _check_attention(q: mx.array, k: mx.array, v: mx.array, mask: mx.array | None) -> None:
    if not q.dtype == k.dtype == v.dtype or not mx.issubdtype(q.dtype, mx.floating):
        raise ValueError("attention needs queries, keys and values of one float dtype")
    if not q.ndim == k.ndim == v.ndim == 4 or k.shape[:3] != v.shape[:3]:
        raise ValueError(f"attention of the shapes {q.shape}, {k.shape} and {v.shape}")
    if q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3] or k.shape[1] == 0 or q.shape[1] % k.shape[1]:
        raise ValueError(f"attention of the shapes {q.shape}, {k.shape} and {v.shape}")
    if mask is not None:
        shape = (*q.shape[:3], k.shape[2])
        floats = mx.issubdtype(mask.dtype, mx.floating) and mask.dtype in (q.dtype, mx.float32)
        if mask.dtype != mx.bool_ and not floats:
            raise ValueError(f"a mask of {mask.dtype} for queries of {q.dtype}")
        if mask.ndim != 4 or any(n not in (1, m) for n, m in zip(mask.shape, shape, strict=True)):
            raise ValueError(f"a mask of the shape {mask.shape} for {shape}")


@once_a_call
def _with_causal(mask: mx.array | None, length: int, span: int, offset: int) -> mx.array:
    """The mask, also hiding from query i the keys after i + offset."""
    past = mx.arange(span) <= mx.expand_dims(mx.arange(length) + offset, 1)
    if mask is None:
        return mx.expand_dims(past, (0, 1))
    return mask & past if mask.dtype == mx.bool_ else mx.where(past, mask, mx.array(-math.inf, mask.dtype))


@lowers("aten.scaled_dot_product_attention")
def attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False
):
    scale = default_scale(query, scale)
    rank = max(query.ndim, key.ndim, value.ndim)
    query, key, value = (expand_dims(x, list(range(3 - x.ndim))) for x in (query, key, value))
    if dropout_p > 0:
        weights = dropout(_weights(query, key, value, attn_mask, is_causal, scale), dropout_p, True)
        result = _weighted(weights, value)
        return squeeze(result, [0]) if rank < 3 else result
    lead = _common([x.shape[:-3] for x in (query, key, value)])
    query, key, value = _with_heads(query, key, value)
    arrays = [_one_batch(x, lead) for x in (query, key, value)]
    mask = None if attn_mask is None else _mask(attn_mask, lead)
    result = scaled_dot_product_attention(*arrays, mask, scale, "top_left" if is_causal else "none")
    if rank < 4:
        return squeeze(result, list(range(4 - rank)))
    return reshape(result, [*lead, *result.shape[1:]]) if rank > 4 else result


def check_dropout(dropout_p):
    if dropout_p != 0:
        raise refuse(f"this attention with dropout_p={dropout_p}: only 0 is supported")


def _weights(query, key, value, mask, is_causal, scale):
    """softmax(query @ key.T * scale + mask) for each head, in at least float32."""
    if mask is not None and mask.dtype == mx.bool_:
        mask = where(mask, literal(0.0, mx.float32), literal(-math.inf, mx.float32))
    query, key, _ = _with_heads(query, key, value)
    return safe_softmax(_scores(query, key, mask, is_causal, scale), -1)


def _weighted(weights, value):
    """weights @ value; several heads of weights may share one of value."""
    repeats = weights.shape[-3] // value.shape[-3]
    value = value if _is_one(repeats) else repeat(value, repeats, value.ndim - 3)
    return matmul(weights, cast(value, weights.dtype))


def default_scale(query, scale):
    """The scale, or 1 / sqrt(d)."""
    if scale is not None:
        return float(scale)
    width = query.shape[-1]
    if not isinstance(width, int):
        raise refuse("attention over vectors of a dynamic size needs an explicit scale")
    return max(width, 1) ** -0.5


def _common(shapes):
    """The shape to which all broadcast: a size that is not known to be 1 wins."""
    sizes = [1] * max(map(len, shapes))
    for shape in shapes:
        for axis, n in enumerate(shape, len(sizes) - len(shape)):
            sizes[axis] = n if isinstance(sizes[axis], int) and sizes[axis] == 1 else sizes[axis]
    return sizes


def _with_heads(query, key, value):
    """The three with numbers of heads that the instruction takes: one for key and value, a divisor of query's."""
    heads = [x.shape[-3] for x in (query, key, value)]
    if not all(isinstance(n, int) for n in heads) or (heads[1] == heads[2] and heads[0] >= heads[1]):
        return query, key, value
    most = max(heads)
    return tuple(repeat(x, most // n, x.ndim - 3) for x, n in zip((query, key, value), heads, strict=True))


def _one_batch(x, lead):
    """x of shape (..., h, l, d) as (b, h, l, d)."""
    own = x.shape[:-3]
    if len(own) != len(lead) or any(_is_one(n) and not _is_one(m) for n, m in zip(own, lead, strict=True)):
        x = broadcast_to(x, [*lead, *x.shape[-3:]])
    return x if len(lead) == 1 else reshape(x, [product(lead), *x.shape[-3:]])


def _is_one(n):
    return isinstance(n, int) and n == 1


def _mask(mask, lead):
    """A mask with four axes that broadcasts to (b, h, l, s)."""
    if mask.ndim > 3 and len(lead) > 1:
        return _one_batch(mask, lead)
    return expand_dims(mask, list(range(4 - mask.ndim)))


@lowers("aten._scaled_dot_product_flash_attention_for_cpu")
def flash_attention_for_cpu(query, key, value, dropout_p=0.0, is_causal=False, attn_mask=None, scale=None):
    check_dropout(dropout_p)
    result = attention(query, key, value, attn_mask, dropout_p, is_causal, scale)
    scores = _scores(query, key, attn_mask, is_causal, default_scale(query, scale))
    sums = logsumexp(scores, [-1], False)
    return [result, where(equal(sums, -math.inf), literal(0.0, sums.dtype), sums)]


@lowers("aten._scaled_dot_product_attention_math")
def attention_math(
    query,
    key,
    value,
    attn_mask=None,
    dropout_p=0.0,
    is_causal=False,
    dropout_mask=None,
    scale=None,
    enable_gqa=False,
):
    if attn_mask is not None:  # this op adds a mask of booleans, too
        attn_mask = cast(attn_mask, query.dtype)
    weights = _weights(query, key, value, attn_mask, is_causal, default_scale(query, scale))
    if dropout_p == 0:
        return [attention(query, key, value, attn_mask, 0.0, is_causal, scale, enable_gqa), weights]
    if dropout_mask is None:
        weights = dropout(weights, dropout_p, True)
        return [_weighted(weights, value), weights]
    weights = where(cast(dropout_mask, mx.bool_), weights, literal(0.0, weights.dtype))
    return [_weighted(multiply(weights, 1 / (1 - dropout_p)), value), weights]


def _scores(query, key, mask, is_causal, scale):
    """query @ key.T * scale + mask, in at least float32."""
    query, key = widen(query), widen(key)
    repeats = query.shape[-3] // key.shape[-3]
    key = key if _is_one(repeats) else repeat(key, repeats, key.ndim - 3)
    scores = multiply(matmul(query, swapped(key, -1, -2)), scale)
    if mask is not None:
        scores = add(scores, cast(mask, scores.dtype))
    if is_causal:
        length, span = scores.shape[-2:]
        rows = expand_dims(arange(0, length, 1, mx.int64), [1])
        scores = where(
            greater_equal(rows, arange(0, span, 1, mx.int64)), scores, literal(-math.inf, scores.dtype)
        )
    return scores


@lowers("aten._scaled_dot_product_efficient_attention")
def efficient_attention(
    query, key, value, attn_bias, compute_log_sumexp, dropout_p=0.0, is_causal=False, scale=None
):
    return [attention(query, key, value, attn_bias, dropout_p, is_causal, scale), None, None, None]


@lowers("aten._scaled_dot_product_flash_attention")
def flash_attention(query, key, value, dropout_p=0.0, is_causal=False, return_debug_mask=False, scale=None):
    return [attention(query, key, value, None, dropout_p, is_causal, scale), *[None] * 8]


@lowers("aten._scaled_dot_product_cudnn_attention")
def cudnn_attention(
    query,
    key,
    value,
    attn_bias,
    compute_log_sumexp,
    dropout_p=0.0,
    is_causal=False,
    return_debug_mask=False,
    scale=None,
):
    return [attention(query, key, value, attn_bias, dropout_p, is_causal, scale), *[None] * 8]
