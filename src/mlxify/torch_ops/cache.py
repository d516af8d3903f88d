"""`mlx::kv_cache_update` and `mlx::custom_sdpa`: attention with a cache of keys and values."""

from __future__ import annotations

import torch
import torch.nn.functional as nnf
from torch import Tensor

from mlxify.torch_ops.registry import check_float, compute_dtype, known, known_different, torch_op


def _check_update(cache: Tensor, new_values: Tensor, ring_size: int) -> None:
    if cache.dim() != 4 or new_values.dim() != 4:
        raise ValueError(
            "mlx::kv_cache_update: cache must be (B, H, S_max, D) and new_values (B, H, S, D), "
            f"got {tuple(cache.shape)} and {tuple(new_values.shape)}"
        )
    if any(known_different(cache.shape[axis], new_values.shape[axis]) for axis in (0, 1, 3)):
        raise ValueError(
            "mlx::kv_cache_update: cache and new_values must agree but for axis 2, "
            f"got {tuple(cache.shape)} and {tuple(new_values.shape)}"
        )
    if ring_size < 0 or known(ring_size > cache.shape[2]):
        raise ValueError(
            f"mlx::kv_cache_update: ring_size={ring_size} is not within S_max = {cache.shape[2]}"
        )


def _fake_update(cache: Tensor, new_values: Tensor, start_pos: int, ring_size: int = 0) -> Tensor:
    _check_update(cache, new_values, ring_size)
    return cache.new_empty(cache.shape)


@torch_op(
    "kv_cache_update(Tensor(a!) cache, Tensor new_values, SymInt start_pos, int ring_size=0) -> Tensor",
    fake=_fake_update,
)
def kv_cache_update(cache: Tensor, new_values: Tensor, start_pos: int, ring_size: int = 0) -> Tensor:
    """Write new_values into cache, in place, from position start_pos on; return a copy of the new cache.

    cache: (B, H, S_max, D), new_values: (B, H, S, D), converted to cache's dtype::

        cache[:, :, start_pos + i] = new_values[:, :, i]                     ring_size == 0
        cache[:, :, (start_pos + i) % ring_size] = new_values[:, :, i]       ring_size > 0, in order of i

    A ring uses the first ring_size positions; of more than ring_size new values the last ones stay.
    A linear write that does not lie within [0, S_max) raises IndexError and writes nothing.
    The result is a copy since an op may not return what it mutates; use it or the cache, they are equal.
    """
    _check_update(cache, new_values, ring_size)
    length, room = new_values.shape[2], cache.shape[2]
    if ring_size == 0:
        if start_pos < 0 or start_pos + length > room:
            raise IndexError(
                f"mlx::kv_cache_update: positions {start_pos} to {start_pos + length} are not within "
                f"the cache's {room} (ring_size > 0 wraps)"
            )
        cache[:, :, start_pos : start_pos + length] = new_values
    else:
        skipped = max(length - ring_size, 0)
        positions = torch.arange(start_pos + skipped, start_pos + length, device=cache.device) % ring_size
        cache.index_copy_(2, positions, new_values[:, :, skipped:].to(cache.dtype))
    return cache.clone(memory_format=torch.contiguous_format)


def _check_sdpa(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, dropout_p: float, is_causal: bool
) -> None:
    if dropout_p != 0:
        raise NotImplementedError(f"mlx::custom_sdpa: dropout_p={dropout_p} is not supported, only 0.0")
    if is_causal and attn_mask is not None:
        raise ValueError("mlx::custom_sdpa: attn_mask and is_causal=True exclude each other")
    shapes = f"{tuple(query.shape)}, {tuple(key.shape)}, {tuple(value.shape)}"
    for name, x in (("query", query), ("key", key), ("value", value)):
        check_float("custom_sdpa", name, x)
        if x.dtype != query.dtype:
            raise TypeError(f"mlx::custom_sdpa: {name} must have query's dtype {query.dtype}, not {x.dtype}")
        if x.dim() != 4:
            raise ValueError(f"mlx::custom_sdpa: query, key and value must be (B, H, S, D), got {shapes}")
    if (
        any(known_different(key.shape[axis], value.shape[axis]) for axis in (0, 1, 2))
        or known_different(query.shape[0], key.shape[0])
        or known_different(query.shape[3], key.shape[3])
        or known_different(query.shape[1] % key.shape[1], 0)
    ):
        raise ValueError(
            "mlx::custom_sdpa: query (B, Hq, T, D), key and value (B, Hkv, S_max, D), Hq a multiple of Hkv; "
            f"got {shapes}"
        )
    if attn_mask is not None and attn_mask.dtype not in (torch.bool, torch.float32, query.dtype):
        raise TypeError(
            f"mlx::custom_sdpa: attn_mask must be bool, float32 or {query.dtype}, not {attn_mask.dtype}"
        )


def _fake_sdpa(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    start_pos: int,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    _check_sdpa(query, key, value, attn_mask, dropout_p, is_causal)
    return query.new_empty(*query.shape[:3], value.shape[3])


@torch_op(
    "custom_sdpa(Tensor query, Tensor key, Tensor value, SymInt start_pos, Tensor? attn_mask=None, "
    "float dropout_p=0.0, bool is_causal=False, float? scale=None) -> Tensor",
    fake=_fake_sdpa,
)
def custom_sdpa(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    start_pos: int,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """Attention of T new queries over the filled part of the whole caches.

    query: (B, Hq, T, D); key, value: the caches, (B, Hkv, S_max, D), Hq a multiple of Hkv (query head h uses
    cache head h // (Hq / Hkv)); one floating-point dtype. The result: (B, Hq, T, D), query's dtype. With
    S = start_pos + T::

        softmax(query @ key[:, :, :S].T * scale + mask) @ value[:, :, :S]

    is_causal: query i sees positions 0 … start_pos + i. attn_mask: broadcastable to (B, Hq, T, S), bool (True
    is seen) or added; it excludes is_causal. scale is D ** -0.5 if None. A query that sees nothing gives 0.
    Positions beyond S_max raise IndexError; dropout_p other than 0 is refused.
    """
    _check_sdpa(query, key, value, attn_mask, dropout_p, is_causal)
    length, stop = query.shape[2], start_pos + query.shape[2]
    if start_pos < 0 or stop > key.shape[2]:
        raise IndexError(
            f"mlx::custom_sdpa: positions {start_pos} to {stop} are not within the cache's {key.shape[2]}"
        )
    dtype = compute_dtype(query)
    if is_causal:
        attn_mask = torch.ones(length, stop, dtype=torch.bool, device=query.device).tril(start_pos)
    elif attn_mask is not None and attn_mask.dtype != torch.bool:
        attn_mask = attn_mask.to(dtype)
    out = nnf.scaled_dot_product_attention(
        query.to(dtype),
        key[:, :, :stop].to(dtype),
        value[:, :, :stop].to(dtype),
        attn_mask=attn_mask,
        scale=scale,
        enable_gqa=True,
    )
    return out.to(query.dtype).contiguous()
