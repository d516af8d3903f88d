"""`mlx::rope`: rotary position embedding."""

from __future__ import annotations

import torch
from torch import Tensor

from mlxify.torch_ops.registry import (
    check_float,
    check_integer,
    compute_dtype,
    known,
    known_different,
    torch_op,
)


def _check(x: Tensor, dims: int, pos: int | Tensor, freqs: Tensor | None) -> None:
    check_float("rope", "x", x)
    if x.dim() != 4:
        raise ValueError(f"mlx::rope: x must be (B, H, T, D), got {x.dim()} dimensions")
    if dims <= 0 or dims % 2 or known(dims > x.shape[3]):
        raise ValueError(f"mlx::rope: dims must be even, positive and at most D = {x.shape[3]}, got {dims}")
    if isinstance(pos, Tensor):
        check_integer("rope", "pos", pos)
        if pos.dim() > 1 or (pos.dim() == 1 and known_different(pos.shape[0], x.shape[0])):
            raise ValueError(
                f"mlx::rope: pos must be a number, 0-D or (B,) = ({x.shape[0]},), got {tuple(pos.shape)}"
            )
    if freqs is not None:
        check_float("rope", "freqs", freqs)
        wanted = (x.shape[2], dims // 2)[-freqs.dim() :] if freqs.dim() in (1, 2) else None
        if wanted is None or any(known_different(a, b) for a, b in zip(freqs.shape, wanted, strict=True)):
            raise ValueError(
                f"mlx::rope: freqs must be (dims/2,) = ({dims // 2},) or (T, dims/2) = "
                f"({x.shape[2]}, {dims // 2}), got {tuple(freqs.shape)}"
            )


def _fake(
    x: Tensor,
    dims: int,
    pos: int | Tensor,
    traditional: bool = False,
    base: float = 500000.0,
    scale: float = 1.0,
    freqs: Tensor | None = None,
) -> Tensor:
    _check(x, dims, pos, freqs)
    return x.new_empty(x.shape)


@torch_op(
    "rope.tensor(Tensor x, int dims, Tensor pos, bool traditional=False, float base=500000.0, float scale=1.0, "
    "Tensor? freqs=None) -> Tensor",
    "rope(Tensor x, int dims, SymInt pos, bool traditional=False, float base=500000.0, float scale=1.0, "
    "Tensor? freqs=None) -> Tensor",
    fake=_fake,
)
def rope(
    x: Tensor,
    dims: int,
    pos: int | Tensor,
    traditional: bool = False,
    base: float = 500000.0,
    scale: float = 1.0,
    freqs: Tensor | None = None,
) -> Tensor:
    """Rotate the first `dims` features of x by its positions; the other features pass unchanged.

    x: (B, H, T, D), floating point. The result has x's shape and dtype.

    With p = pos + t for t in 0 … T-1 and i in 0 … dims/2 - 1::

        angle[t, i] = p * scale * base ** (-2 * i / dims)        freqs is None
        angle[t, i] = p * scale / freqs[i]                       freqs: (dims/2,), wavelengths
        angle[t, i] = freqs[t, i]                                freqs: (T, dims/2), ready angles

        y1 = x1 * cos(angle) - x2 * sin(angle)
        y2 = x1 * sin(angle) + x2 * cos(angle)

    x1, x2 are features i and i + dims/2, or the neighbours 2i and 2i + 1 when `traditional`.
    Ready angles make pos, base and scale irrelevant; wavelengths make base irrelevant.
    pos is an integer or (overload `rope.tensor`) an integer tensor, 0-D or (B,): one per sequence.
    Angles are float32 (float64 for a float64 x).
    """
    _check(x, dims, pos, freqs)
    dtype = compute_dtype(x)
    angles = _angles(x, dims, pos, base, scale, freqs)
    cos, sin = angles.cos(), angles.sin()
    turned = x[..., :dims].to(dtype)
    if traditional:
        x1, x2 = turned[..., 0::2], turned[..., 1::2]
    else:
        x1, x2 = turned[..., : dims // 2], turned[..., dims // 2 :]
    y1, y2 = x1 * cos - x2 * sin, x1 * sin + x2 * cos
    y = torch.stack([y1, y2], -1).flatten(-2) if traditional else torch.cat([y1, y2], -1)
    return torch.cat([y.to(x.dtype), x[..., dims:]], -1).contiguous()


def _angles(
    x: Tensor, dims: int, pos: int | Tensor, base: float, scale: float, freqs: Tensor | None
) -> Tensor:
    """(1 or B, 1, T, dims/2)."""
    dtype = compute_dtype(x)
    if freqs is not None and freqs.dim() == 2:
        return freqs.to(dtype)[None, None]
    if freqs is None:
        # The powers are rounded once, from float64.
        powers = torch.arange(0, dims, 2, dtype=torch.float64, device=x.device) / -dims
        rates = (base**powers).to(dtype)
    else:
        rates = 1.0 / freqs.to(dtype)
    start = torch.as_tensor(pos, dtype=torch.int64, device=x.device).reshape(-1, 1)
    positions = (start + torch.arange(x.shape[2], device=x.device)).to(dtype)
    return ((positions * scale)[:, :, None] * rates)[:, None]
