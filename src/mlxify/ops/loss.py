"""Losses whose decomposition in PyTorch differs from its eager kernel. The others are decomposed as they are."""

from __future__ import annotations

from ..lowering import lowers
from .arithmetic import multiply
from .reduce import mean, sum_
from .unary import exp, log1p, negative

NONE, MEAN = 0, 1


@lowers("aten.soft_margin_loss", promote=("self", "target"))
def soft_margin_loss(self, target, reduction=MEAN):
    """log(1 + exp(-target * self)), each step rounded to the tensor's dtype; exp may overflow, as in PyTorch."""
    each = log1p(exp(negative(multiply(self, target))))
    if reduction == NONE:
        return each
    axes = list(range(each.ndim))
    return mean(each, axes, False) if reduction == MEAN else sum_(each, axes, False)
