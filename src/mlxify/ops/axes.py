"""Axis arguments as PyTorch means them: negative ones, 0-d tensors that have the axes 0 and -1, none for all."""

from __future__ import annotations

from typing import Any

from ..isa import Array


def axis_of(x: Array, dim: int) -> int:
    """The non-negative axis that `dim` means; 0 for a 0-d x. Raises IndexError when out of range."""
    rank = max(x.ndim, 1)
    if not -rank <= dim < rank:
        raise IndexError(f"dim {dim} is out of range for {x.ndim} axes")
    return dim % rank


def axes_of(x: Array, dims: Any) -> list[int]:
    """The axes of a reduction: None and an empty list mean all. For a 0-d x there are none."""
    if dims is None or (isinstance(dims, (list, tuple)) and not dims):
        return list(range(x.ndim))
    axes = [axis_of(x, d) for d in (dims if isinstance(dims, (list, tuple)) else [dims])]
    return axes if x.ndim else []
