"""A PyTorch model's weights as MLX arrays."""

from __future__ import annotations

from typing import Any

import mlx.core as mx


def arrays(model: Any, prefix: str = "") -> dict[str, mx.array]:
    """The tensors of a torch module by name, with the prefix cut off. Kernels of convolutions are laid out as in MLX."""
    found = {}
    for name, tensor in model.state_dict().items():
        if name.startswith(prefix) and "num_batches_tracked" not in name:
            array = mx.array(tensor.detach().numpy())
            found[name.removeprefix(prefix)] = array.transpose(0, 2, 3, 1) if array.ndim == 4 else array
    mx.eval(found)
    return found
