"""The larger, the smaller, and limits on both sides."""

from __future__ import annotations

from typing import Any

from ..lowering import as_array, lowers, result_type
from .arithmetic import literal, maximum, minimum
from .compare import isnan, where


@lowers("aten.maximum", "aten.max.other", promote=("self", "other"))
def maximum_(self, other):
    return maximum(self, other)


@lowers("aten.minimum", "aten.min.other", promote=("self", "other"))
def minimum_(self, other):
    return minimum(self, other)


@lowers("aten.fmax", promote=("self", "other"))
def fmax(self, other):
    return maximum(*_without_nan(self, other))


@lowers("aten.fmin", promote=("self", "other"))
def fmin(self, other):
    return minimum(*_without_nan(self, other))


def _without_nan(x: Any, y: Any) -> tuple[Any, Any]:
    """Both, a nan replaced by the other."""
    return where(isnan(x), y, x), where(isnan(y), x, y)


@lowers("aten.clamp", "aten.clamp.Tensor", "aten.clip", "aten.clip.Tensor")
def clamp(self, min=None, max=None):
    common = result_type([v for v in (self, min, max) if v is not None])
    return _limited(as_array(self, common), min, max)


@lowers("aten.clamp_min", "aten.clamp_min.Tensor")
def clamp_min(self, min):
    return clamp(self, min=min)


@lowers("aten.clamp_max", "aten.clamp_max.Tensor")
def clamp_max(self, max):
    return clamp(self, max=max)


@lowers("aten.hardtanh")
def hardtanh(self, min_val=-1, max_val=1):
    return _limited(self, min_val, max_val)


def _limited(x: Any, low: Any, high: Any) -> Any:
    """`high` wins where `low` exceeds it; a nan limit gives nan."""
    if low is not None:
        x = maximum(x, literal(low, x.dtype))
    if high is not None:
        x = minimum(x, literal(high, x.dtype))
    return x
