"""Caches of keys and values: writing new ones, attending to those that are there."""

from __future__ import annotations

import mlx.core as mx

from ..errors import refuse
from ..isa import cast
from ..lowering import as_array, lowers
from ..values import Value
from .arithmetic import add, remainder
from .attention import check_dropout, default_scale, scaled_dot_product_attention
from .bitwise import bitwise_and
from .compare import greater_equal, less_equal
from .create import arange
from .scalar import as_number, assert_scalar, number_binary
from .scatter import scatter
from .shape import expand_dims, reshape, slice_, transpose
from .update import slice_update


@lowers("mlx::kv_cache_update")
def kv_cache_update(cache, new_values, start_pos, ring_size=0):
    new = cast(new_values, cache.dtype)
    if ring_size == 0:
        _check_room("kv_cache_update", start_pos, new.shape[2], cache.shape[2])
        cache = slice_update(cache, new, [start_pos], [2])
    else:
        cache = _update_ring(cache, new, start_pos, ring_size)
    return [cache, cache]


def _update_ring(cache, new, start_pos, ring_size):
    length = new.shape[2]
    if isinstance(length, int) and length == 1:
        return slice_update(cache, new, [_modulo(start_pos, ring_size)], [2])
    # Of more values than the ring holds the last ones stay.
    skipped = number_binary("maximum", length - ring_size, 0)
    start = as_array(start_pos, mx.int64)
    positions = remainder(add(arange(skipped, length, 1, mx.int64), reshape(start, [])), ring_size)
    kept = slice_(new, [skipped], [length], [1], [2])
    return scatter(cache, [positions], transpose(kept, [2, 0, 1, 3]), [2], "none")


def _modulo(position, size):
    return (
        remainder(position, size)
        if isinstance(position, Value)
        else number_binary("remainder", position, size)
    )


def _check_room(op, start, length, room):
    """Positions start … start + length must lie within the cache, or the call fails."""
    message = f"mlx::{op}: the positions are not within the cache"
    if isinstance(start, Value):
        first = cast(reshape(start, []), mx.int64)
        end = add(first, as_array(length, mx.int64))
        inside = bitwise_and(greater_equal(first, 0), less_equal(end, as_array(room, mx.int64)))
        assert_scalar(inside, message)
    elif all(isinstance(n, int) for n in (start, length, room)):
        if start < 0 or start + length > room:
            raise refuse(f"the positions {start} to {start + length} are not within the cache's {room}")
    else:
        assert_scalar(number_binary("greater_equal", start, 0), message)
        assert_scalar(number_binary("less_equal", start + length, room), message)


@lowers("mlx::custom_sdpa")
def custom_sdpa(query, key, value, start_pos, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None):
    check_dropout(dropout_p)
    length, room = query.shape[2], key.shape[2]
    _check_room("custom_sdpa", start_pos, length, room)
    causal = "bottom_right" if is_causal else "none"
    if isinstance(start_pos, Value) and attn_mask is None:
        # The whole cache and a mask, so that a position on the device is not waited for.
        attn_mask, causal = _seen(start_pos, length, room, is_causal), "none"
    else:
        stop = as_number(start_pos) + length
        key, value = (slice_(x, [0], [stop], [1], [2]) for x in (key, value))
    if attn_mask is not None:
        attn_mask = expand_dims(attn_mask, list(range(4 - attn_mask.ndim)))
    return scaled_dot_product_attention(query, key, value, attn_mask, default_scale(query, scale), causal)


def _seen(start, length, room, is_causal):
    """(length, room), or one row for all queries: whether a query sees a position of the cache."""
    start = cast(reshape(start, []), mx.int64)
    rows = arange(0, length, 1, mx.int64) if is_causal else as_array(length - 1, mx.int64)
    last = reshape(add(rows, start), [-1, 1])
    return less_equal(arange(0, room, 1, mx.int64), last)
