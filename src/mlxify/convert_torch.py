"""Tensors and dtypes of PyTorch as MLX's."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import torch

from .errors import refuse
from .program import DTYPES

_DTYPES = {getattr(torch, name): dtype for name, dtype in DTYPES.items()}


def mlx_dtype(dtype: torch.dtype, what: str) -> mx.Dtype:
    """MLX's dtype of the same name. Raises Refusal when there is none, naming `what`."""
    found = _DTYPES.get(dtype)
    if found is None:
        raise refuse(f"{what} has the dtype {str(dtype).removeprefix('torch.')}, which MLX does not have")
    return found


def torch_array(tensor: torch.Tensor) -> mx.array:
    """A dense tensor's values as an MLX array (a copy). Raises Refusal for sparse and quantized ones."""
    if tensor.layout is not torch.strided:
        raise refuse(
            f"a {str(tensor.layout).removeprefix('torch.')} tensor has no MLX form; call .to_dense() first"
        )
    if tensor.is_quantized:
        raise refuse("a legacy quantized tensor has no MLX form; call .dequantize() or use torchao first")
    dtype = mlx_dtype(tensor.dtype, "a tensor")
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    if tensor.dtype == torch.bfloat16:
        return mx.array(tensor.view(torch.int16).numpy()).view(mx.bfloat16)
    if tensor.dtype == torch.float64:
        return mx.array(np.asarray(tensor.numpy()), dtype=dtype)
    return mx.array(tensor.numpy(), dtype=dtype)
