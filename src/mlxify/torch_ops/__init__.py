"""Six torch ops for what MLX does well and ATen has no word for.

Importing this package registers them under ``torch.ops.mlx`` (importing it again changes nothing)::

    import mlxify.torch_ops
    y = torch.ops.mlx.rope(x, 64, pos)

| op | meaning |
|---|---|
| `mlx::rope` | rotary position embedding of (B, H, T, D) |
| `mlx::gather_mm` | matrix products with matrices chosen by index (mixture of experts) |
| `mlx::gather_qmm` | the same with quantized matrices |
| `mlx::sample` | logits to token ids: temperature, top-k, top-p |
| `mlx::kv_cache_update` | write keys or values into a cache, linear or ring |
| `mlx::custom_sdpa` | attention over the filled part of a whole cache |

The eager implementation of each is the reference of what the op means: float32, float16, bfloat16 (and
float64) on any device PyTorch has; half types are computed in float32 and rounded once. The ops are for
inference: no derivatives are registered. This package needs torch and nothing else.
"""

from mlxify.torch_ops.cache import custom_sdpa, kv_cache_update
from mlxify.torch_ops.gather import gather_mm, gather_qmm
from mlxify.torch_ops.rope import rope
from mlxify.torch_ops.sample import sample

__all__ = ["custom_sdpa", "gather_mm", "gather_qmm", "kv_cache_update", "rope", "sample"]
