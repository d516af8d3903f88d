"""Caches of keys and values."""

import pytest
import torch
from torch import nn
from torch.export import Dim

import mlxify
import mlxify.torch_ops

from .harness import Case, check, compare, params
from .test_linear import rand

HALF = torch.float16
CACHE, NEW = rand(2, 3, 8, 4), rand(2, 3, 2, 4)
Q, K, V = rand(2, 6, 2, 4), rand(2, 3, 8, 4), rand(2, 3, 8, 5)
ops = torch.ops.mlx
T = Dim("t")


def update(cache, new, pos, ring=0):
    """Both results: what the op returns and the cache that it wrote into."""
    cache = cache.clone()
    return ops.kv_cache_update(cache, new, pos, ring), cache


def at(pos):
    return torch.tensor(pos)


UPDATES = [
    *(Case(f"at {p}", lambda c, n, p=p: update(c, n, p), (CACHE, NEW)) for p in (0, 3, 6)),
    Case("half cache", lambda c, n: update(c, n, 1), (CACHE.half(), NEW)),
    Case("nothing new", lambda c, n: update(c, n, 1), (CACHE, NEW[:, :, :0])),
    *(Case(f"ring {r} at {p}", lambda c, n, p=p, r=r: update(c, n, p, r), (CACHE, NEW)) for p, r in ((0, 8), (7, 8), (13, 6), (100, 5))),
    Case("ring, one value", lambda c, n: update(c, n[:, :, :1], 13, 5), (CACHE, NEW)),
    Case("ring, more than it holds", lambda c, n: update(c, n, 3, 5), (CACHE, rand(2, 3, 12, 4))),
    Case("read from the device", lambda c, n, p: update(c, n, p.item()), (CACHE, NEW, at(3)), also=((CACHE, NEW, at(0)), (CACHE, NEW, at(6)))),
    Case("ring, read from the device", lambda c, n, p: update(c, n, p.item(), 5), (CACHE, NEW, at(3)),
         also=((CACHE, NEW, at(4)), (CACHE, NEW, at(1004)))),
    Case("ring, one value, from the device", lambda c, n, p: update(c, n[:, :, :1], p.item(), 5), (CACHE, NEW, at(3)), also=((CACHE, NEW, at(14)),)),
    Case("dynamic ring", lambda c, n: update(c, n, 3, 5), (CACHE, NEW), dynamic=(None, {2: T}), also=((CACHE, rand(2, 3, 1, 4)), (CACHE, rand(2, 3, 9, 4)))),
    Case("from a size", lambda c, n, past: update(c, n, past.shape[0]), (CACHE, NEW, torch.zeros(3)), dynamic=(None, None, {0: T}),
         also=((CACHE, NEW, torch.zeros(1)), (CACHE, NEW, torch.zeros(6)))),
    Case("beyond the end", lambda c, n: update(c, n, 7), (CACHE, NEW), refused="not within the cache"),
]  # fmt: skip


def sdpa(pos=None, **settings):
    if pos is None:
        return lambda q, k, v, p, *mask: ops.custom_sdpa(q, k, v, p.item(), *mask, **settings)
    return lambda q, k, v, *mask: ops.custom_sdpa(q, k, v, pos, *mask, **settings)


SDPA = [
    *(Case(f"at {p}", sdpa(p), (Q, K, V)) for p in (0, 3, 6)),
    *(Case(f"causal at {p}", sdpa(p, is_causal=True), (Q, K, V), decomposed=True) for p in (0, 3, 6)),
    # PyTorch's CPU kernel rounds the weights of a half softmax to half.
    Case("half", sdpa(3, is_causal=True), (Q.half(), K.half(), V.half()), tolerance=(2e-3, 5e-4)),
    Case("scale", sdpa(3, scale=0.1), (Q, K, V)),
    Case("bool mask", sdpa(3), (Q, K, V, rand(2, 5) > 0)),
    Case("float mask", sdpa(3), (Q, K, V, rand(2, 1, 2, 5))),
    Case("read from the device", sdpa(), (Q, K, V, at(3)), also=((Q, K, V, at(0)), (Q, K, V, at(6)))),
    Case("read from the device, causal", sdpa(is_causal=True), (Q, K, V, at(3)), also=((Q, K, V, at(0)), (Q, K, V, at(6)))),
    Case("dynamic", sdpa(3, is_causal=True), (Q, K, V), dynamic=({2: T}, None, None), also=((Q[:, :, :1], K, V), (rand(2, 6, 5, 4), K, V))),
    Case("beyond the end", sdpa(7), (Q, K, V), refused="not within the cache"),
]  # fmt: skip


@params(UPDATES)
def test_update(case, tmp_path):
    check(case, tmp_path)


@params(SDPA)
def test_custom_sdpa(case, tmp_path):
    check(case, tmp_path)


class Decoder(nn.Module):
    """One step of attention with a cache in a buffer, as generated text needs it."""

    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(1, 2, 8, 4))

    def forward(self, x, position):
        position = position.item()
        torch._check(position >= 0)
        keys = ops.kv_cache_update(self.keys, x, position)
        return ops.custom_sdpa(x, keys, keys, position, is_causal=True)


def test_state_is_kept_and_positions_are_checked():
    module = Decoder()
    program = mlxify.convert(module, (rand(1, 2, 1, 4), at(0)))
    for position in range(8):
        x = rand(1, 2, 1, 4) + position
        compare(program(x, at(position)), module(x, at(position)))
    for position in (8, -1):
        with pytest.raises(Exception, match=r"not within the cache|Runtime assertion"):
            program(x, at(position))
    compare(program(x, at(7)), module(x, at(7)))
