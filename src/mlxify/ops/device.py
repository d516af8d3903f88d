"""Which device computes: instruction bodies choose by it what is right and fast there. Never part of a file."""

from __future__ import annotations

import mlx.core as mx


def on_cpu() -> bool:
    """Whether instructions run on MLX's CPU device now."""
    return mx.default_device().type == mx.cpu
