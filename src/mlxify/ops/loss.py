"""Losses whose decomposition in PyTorch differs from its eager kernel. The others are decomposed as they are."""

from __future__ import annotations

from ..errors import refuse
from ..isa import cast
from ..lowering import lowers
from .arithmetic import divide, literal, multiply, widen
from .compare import not_equal, where
from .exponential import exp
from .index import take, take_along_axis
from .linear import linear
from .reduce import mean, sum_
from .shape import expand_dims, squeeze
from .softmax import log_softmax
from .unary import log1p, negative

NONE, MEAN = 0, 1


@lowers("aten.soft_margin_loss", promote=("self", "target"))
def soft_margin_loss(self, target, reduction=MEAN):
    """log(1 + exp(-target * self)), each step rounded to the tensor's dtype; exp may overflow, as in PyTorch."""
    each = log1p(exp(negative(multiply(self, target))))
    if reduction == NONE:
        return each
    axes = list(range(each.ndim))
    return mean(each, axes, False) if reduction == MEAN else sum_(each, axes, False)


@lowers("torch_nn::_linear_cross_entropy_batch_chunked_no_reduction")
def linear_cross_entropy_of_each(
    input,
    linear_weight,
    target,
    linear_bias,
    weight,
    ignore_index,
    batch_chunk_size,
    acc_policy,
    acc_dtype,
):
    """PyTorch computes it in chunks, so as not to hold all logits at once, and adds up in the dtype acc_dtype."""
    return _weighted_losses(input, linear_weight, target, linear_bias, weight, ignore_index)[0]


@lowers("torch_nn::_linear_cross_entropy_batch_chunked")
def linear_cross_entropy(
    input,
    linear_weight,
    target,
    linear_bias,
    weight,
    reduction,
    ignore_index,
    label_smoothing,
    batch_chunk_size,
    acc_policy,
    acc_dtype,
    allow_retain_graph,
    compute_input_grad,
    compute_linear_weight_grad,
    compute_linear_bias_grad,
):
    """The gradients beside the loss are for a backward pass, of which there is none."""
    if label_smoothing > 0:
        raise refuse("linear_cross_entropy with label smoothing: PyTorch raises")
    losses, weights = _weighted_losses(input, linear_weight, target, linear_bias, weight, ignore_index)
    total = sum_(losses, [0], False)
    loss = divide(total, sum_(weights, [0], False)) if reduction == "mean" else total
    return [loss, None, None, None]


def _weighted_losses(x, matrix, target, bias, weight, ignored):
    """The cross entropy of each row of linear(x) times the weight of its class, and the weights: 0 where it is ignored."""
    x = widen(x)
    logits = linear(x, cast(matrix, x.dtype), None if bias is None else cast(bias, x.dtype))
    counts = not_equal(target, ignored)
    place = where(counts, target, literal(0, target.dtype))
    scores = squeeze(take_along_axis(log_softmax(logits, 1), expand_dims(place, [1]), 1), [1])
    zero, one = literal(0.0, x.dtype), literal(1.0, x.dtype)
    weights = where(counts, one if weight is None else take(cast(weight, x.dtype), place, 0), zero)
    return where(counts, negative(multiply(scores, weights)), zero), weights
