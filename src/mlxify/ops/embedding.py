"""Embeddings: rows of a table by index, and sums, means and maxima of bags of rows."""

from __future__ import annotations

import math

import mlx.core as mx

from ..errors import refuse
from ..isa import cast
from ..lowering import HALVES, as_array, lowers
from .arithmetic import add, divide, maximum, multiply, subtract
from .bitwise import bitwise_or
from .compare import equal, greater, not_equal, where
from .create import full
from .index import check_known, take
from .scan import cumsum
from .scatter import scatter
from .shape import broadcast_to, expand_dims, reshape, slice_
from .vector_norm import vector_norm


@lowers("aten.embedding")
def embedding(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    """The ignored arguments shape the gradient."""
    check_known(indices, weight.shape[0])
    return take(weight, indices, 0)


@lowers("aten.embedding_renorm")
def embedding_renorm(self, indices, max_norm, norm_type=2.0):
    """Rows that are looked up and longer than max_norm are scaled to it, as torch.embedding_renorm_ does."""
    check_known(indices, self.shape[0])
    places = reshape(indices, [-1])
    rows = take(self, places, 0)
    norms = vector_norm(rows, norm_type, [1], True)
    shorter = cast(multiply(rows, divide(max_norm, add(norms, 1e-7))), self.dtype)
    return scatter(self, [places], where(greater(norms, max_norm), shorter, rows), [0], "none")


@lowers("aten.embedding_dense_backward")
def embedding_dense_backward(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq):
    if scale_grad_by_freq:
        raise refuse("scale_grad_by_freq=True is not supported")
    wanted = expand_dims(not_equal(indices, padding_idx), [-1])
    rows = where(wanted, grad_output, as_array(0, grad_output.dtype))
    return scatter(full([num_weights, rows.shape[-1]], 0, rows.dtype), [indices], rows, [0], "sum")


SUM, MEAN, MAX = range(3)


@lowers("aten.embedding_bag", "aten._embedding_bag", "aten._embedding_bag_forward_only")
def embedding_bag(
    weight,
    indices,
    offsets,
    scale_grad_by_freq=False,
    mode=SUM,
    sparse=False,
    per_sample_weights=None,
    include_last_offset=False,
    padding_idx=-1,
):
    """The bags alone: PyTorch's other three results serve the gradient."""
    check_known(indices, weight.shape[0])
    rows = take(weight, indices, 0)
    rows = cast(rows, mx.float32) if rows.dtype in HALVES else rows
    if per_sample_weights is not None:
        rows = multiply(rows, expand_dims(cast(per_sample_weights, rows.dtype), [-1]))
    bags, first, count = bags_of(indices, offsets, include_last_offset)
    nothing = as_array(-math.inf if mode == MAX else 0.0, rows.dtype)
    if mode == MAX:  # PyTorch compares with >, so a NaN counts only as the first of its bag
        rows = where(bitwise_or(equal(rows, rows), expand_dims(first, [-1])), rows, nothing)
    kept = not_equal(indices, padding_idx)
    rows = where(expand_dims(kept, [-1]), rows, nothing)
    empty = broadcast_to(nothing, [count, rows.shape[-1]])
    out = scatter(empty, [bags], rows, [0], "max" if mode == MAX else "sum")
    if mode != SUM:
        sizes = scatter(full([count], 0, rows.dtype), [bags], cast(kept, rows.dtype), [0], "sum")
        sizes = expand_dims(sizes, [-1])
        out = (
            divide(out, maximum(sizes, 1.0))
            if mode == MEAN
            else where(greater(sizes, 0.0), out, as_array(0.0, out.dtype))
        )
    return [out, None, None, None]


def bags_of(indices, offsets, include_last_offset):
    """Each index's bag, whether it is the first of that bag, and the number of bags."""
    count = offsets.shape[0] - int(include_last_offset)
    offsets = slice_(offsets, [0], [count], [1], [0])
    n = indices.shape[0]
    starts = scatter(full([n + 1], 0, mx.int64), [offsets], as_array(1, mx.int64), [0], "sum")
    starts = slice_(starts, [0], [n], [1], [0])
    return subtract(cumsum(starts, 0), 1), greater(starts, 0), count


@lowers("aten.embedding_bag.padding_idx")
def embedding_bag_padded(
    weight,
    indices,
    offsets,
    scale_grad_by_freq,
    mode,
    sparse,
    per_sample_weights,
    include_last_offset,
    padding_idx,
):
    row = -1 if padding_idx is None else padding_idx if padding_idx >= 0 else weight.shape[0] + padding_idx
    return embedding_bag(
        weight, indices, offsets, mode=mode, per_sample_weights=per_sample_weights,
        include_last_offset=include_last_offset, padding_idx=row,
    )  # fmt: skip
