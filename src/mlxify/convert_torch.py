"""Tensors and dtypes of PyTorch as MLX's."""

from __future__ import annotations

import mlx.core as mx
import torch

from .errors import refuse
from .inputs import from_torch
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
    mlx_dtype(tensor.dtype, "a tensor")
    array = from_torch(tensor)
    assert array is not None, tensor.dtype
    return array
