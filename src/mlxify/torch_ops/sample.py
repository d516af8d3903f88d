"""`mlx::sample`: from logits to token ids."""

from __future__ import annotations

import torch
from torch import Tensor

from mlxify.torch_ops.registry import check_float, check_integer, known, known_different, torch_op


def _check(
    logits: Tensor, temperature: Tensor, top_p: Tensor, seed: Tensor | None, top_k: Tensor | None
) -> None:
    check_float("sample", "logits", logits)
    if logits.dim() != 2 or known(logits.shape[1] == 0):
        raise ValueError(f"mlx::sample: logits must be (B, V) with V > 0, got {tuple(logits.shape)}")
    check_float("sample", "temperature", temperature)
    check_float("sample", "top_p", top_p)
    for name, x in (("temperature", temperature), ("top_p", top_p), ("top_k", top_k)):
        if x is None or x.dim() == 0:
            continue
        if x.dim() > 1 or (known_different(x.shape[0], 1) and known_different(x.shape[0], logits.shape[0])):
            raise ValueError(f"mlx::sample: {name} must be 0-D, (1,) or (B,), got {tuple(x.shape)}")
    if top_k is not None:
        check_integer("sample", "top_k", top_k)
    if seed is not None:
        check_integer("sample", "seed", seed)
        if known_different(seed.numel(), 1):
            raise ValueError(f"mlx::sample: seed must hold one integer, got {tuple(seed.shape)}")


def _fake(
    logits: Tensor,
    temperature: Tensor,
    top_p: Tensor,
    seed: Tensor | None = None,
    top_k: Tensor | None = None,
) -> Tensor:
    _check(logits, temperature, top_p, seed, top_k)
    return logits.new_empty(logits.shape[0], dtype=torch.int64)


@torch_op(
    "sample(Tensor logits, Tensor temperature, Tensor top_p, Tensor? seed=None, Tensor? top_k=None) -> Tensor",
    fake=_fake,
    tags=(torch.Tag.nondeterministic_seeded,),
)
def sample(
    logits: Tensor,
    temperature: Tensor,
    top_p: Tensor,
    seed: Tensor | None = None,
    top_k: Tensor | None = None,
) -> Tensor:
    """Draw one token of each row. logits: (B, V), the result: (B,) int64.

    temperature, top_p: floating point, top_k: integer; each 0-D, (1,) or (B,). seed: one integer.

    - temperature <= 0: argmax(logits), exactly (the first of equals).
    - otherwise, in float32: divide by temperature; keep the top_k largest (top_k <= 0 keeps all, None too);
      of these keep the fewest, largest first, whose probability reaches top_p (the largest is always kept,
      top_p >= 1 keeps all); then argmax(logits / temperature - log(-log(u))), u uniform in (0, 1).

    Among equal logits the lower id counts as the larger. With a seed the result depends on the arguments
    alone; without, on torch's global generator.
    """
    _check(logits, temperature, top_p, seed, top_k)
    greedy = logits.argmax(-1)
    heat = temperature.to(torch.float32).reshape(-1, 1)
    if bool((heat <= 0).all()):
        return greedy
    # Against the largest logit, so that a small temperature cannot overflow.
    wide = logits.to(torch.float32)
    scaled = (wide - wide.amax(-1, keepdim=True)) / torch.where(heat <= 0, 1.0, heat)
    order = scaled.argsort(dim=-1, descending=True, stable=True)
    ranked = _keep(scaled.gather(-1, order), top_p.to(torch.float32).reshape(-1, 1), top_k)
    # The noise belongs to the token, not to its rank.
    noisy = ranked + _gumbel(logits, seed).gather(-1, order)
    drawn = order.gather(-1, noisy.argmax(-1, keepdim=True)).squeeze(-1)
    return torch.where(heat.squeeze(-1) <= 0, greedy, drawn)


def _keep(ranked: Tensor, top_p: Tensor, top_k: Tensor | None) -> Tensor:
    """-inf for what top_k and then top_p drop. ranked: (B, V) descending."""
    rank = torch.arange(ranked.shape[-1], device=ranked.device)
    if top_k is not None:
        count = top_k.reshape(-1, 1)
        ranked = ranked.masked_fill((count > 0) & (rank >= count), float("-inf"))
    probability = ranked.softmax(-1)
    before = probability.cumsum(-1) - probability
    return ranked.masked_fill((rank > 0) & (top_p < 1) & (before >= top_p), float("-inf"))


def _gumbel(logits: Tensor, seed: Tensor | None) -> Tensor:
    generator = None
    if seed is not None:
        generator = torch.Generator(logits.device)
        generator.manual_seed(int(seed))
    u = torch.rand(logits.shape, generator=generator, device=logits.device, dtype=torch.float32)
    return -torch.log(-torch.log(u.clamp_min(torch.finfo(torch.float32).tiny)))
