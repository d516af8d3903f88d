"""Attention that a model spells out: softmax(queries @ keys.T * scale + mask) @ values.

Only what is computed in float32 or float64 is fused. In half precision PyTorch rounds the scores and the weights,
which a fused attention does not.
"""

from __future__ import annotations

import math
from typing import Any

import mlx.core as mx

from ..calls import CASTS, Call, first, seen_through
from ..isa import Array, cast
from ..lowering import as_array
from ..patterns import Pattern, either, fuses, narrowed, number, op, shared, widened, wild
from ..values import HostNumber
from .arithmetic import add, literal
from .attention import attention
from .bitwise import bitwise_or, logical_not
from .compare import equal, not_equal, where
from .join import repeat
from .reduce import any_, mean
from .shape import swapped

VIEWS = ("aten.view", "aten.reshape", "aten._unsafe_view")
VIEW_NAMES = ("aten.unsqueeze.default", "aten.expand.default", *(f"{name}.default" for name in VIEWS))
TRANSPOSES = ("aten.transpose.int", "aten.permute", "aten.mT", "aten.t", "aten.numpy_T")
WHERE = ("aten.where.self", "aten.where.ScalarOther", "aten.where.ScalarSelf", "aten.where.Scalar")
HIDDEN = {mx.float32: -1e9, mx.float64: -1e18}
"""A fill that hides a key. Scores as low are known to a whole number of tens at best, and their softmax not at all."""


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Call) and value.dtype is not None


def matmul(x: Pattern, y: Pattern) -> Pattern:
    """A product of matrices, also in PyTorch's decomposition: with the leading axes folded into one."""
    folded = op("aten.bmm", op(VIEWS, x, loose=True), op(VIEWS, y, loose=True))
    return op(("aten.matmul", "aten.bmm"), x, y) | op(VIEWS, folded, where=_unfolds, loose=True)


def _unfolds(call: Call) -> bool:
    """Whether a view gives a folded product the leading axes that its operands had."""
    product, _ = seen_through(first(call))
    if not isinstance(product, Call) or product.target != "aten.bmm.default":
        return False
    for name in ("self", "mat2"):
        view, _ = seen_through(product.arguments[name])
        source = first(view) if isinstance(view, Call) and view.target != "" else None
        if (
            not isinstance(source, Call)
            or source.shape[:-2] != call.shape[:-2]
            or source.shape[-2:] != view.shape[-2:]
        ):
            return False
    return call.shape[-2:] == product.shape[-2:]


def scaled(x: Pattern, name: str) -> Pattern:
    return x * wild(f"{name}_times", _is_factor) | x / wild(f"{name}_over", _is_factor) | x


def _is_factor(value: Any) -> bool:
    return type(value) in (int, float) and value != 0 and math.isfinite(value)


def transposed(x: Pattern) -> Pattern:
    """x with its last two axes exchanged."""
    return shared(op(TRANSPOSES, x, where=_swaps_last, loose=True))


def _swaps_last(call: Call) -> bool:
    rank, given = call.ndim, call.arguments
    if "dims" not in given and "dim0" not in given:  # .T is the other way round altogether
        return rank == 2 or call.target == "aten.mT.default"
    if rank < 2:
        return False
    if call.target == "aten.transpose.int":
        return {given["dim0"] % rank, given["dim1"] % rank} == {rank - 2, rank - 1}
    return [d % rank for d in given["dims"]] == [*range(rank - 2), rank - 1, rank - 2]


def repeated(x: Pattern) -> Pattern:
    """x with each of its heads (axis 1 of 4) repeated for a group of queries."""
    grouped = op("aten.expand", op("aten.unsqueeze", x, 2), loose=True)
    in_a_row = op("aten.repeat_interleave.self_int", x, loose=True, where=_repeats_heads)
    return shared(op(VIEWS, grouped, where=_joins_groups, loose=True) | in_a_row)


def _joins_groups(call: Call) -> bool:
    grouped, _ = seen_through(first(call))
    if not isinstance(grouped, Call) or grouped.ndim != 5 or call.ndim != 4:
        return False
    batch, heads, count, *rest = grouped.shape
    same = call.shape[0] == batch and call.shape[2:] == tuple(rest)
    return same and type(heads) is int and type(count) is int and call.shape[1] == heads * count


def _repeats_heads(call: Call) -> bool:
    return call.ndim == 4 and call.arguments["dim"] in (1, -3) and type(call.arguments["repeats"]) is int


def _tails(call: Call) -> tuple[str, ...]:
    """The last two axes of both operands and of the result, when the axes before are the same everywhere."""
    equation = call.arguments["equation"].replace(" ", "").replace("...", ".")
    operands, _, result = equation.partition("->")
    terms = (*operands.split(","), result)
    lead = terms[0][:-2]
    alike = len(terms) == 3 and all(len(t) == len(lead) + 2 and t.startswith(lead) for t in terms)
    return tuple(t[-2:] for t in terms) if alike and len(set("".join(terms))) == len(lead) + 3 else ()


def _gives_scores(call: Call) -> bool:
    q, k, scores = _tails(call) or ("01", "23", "45")
    return q[1] == k[1] and scores == q[0] + k[0]


def _weighs_values(call: Call) -> bool:
    weights, v, result = _tails(call) or ("01", "23", "45")
    return weights[1] == v[0] and result == weights[0] + v[1]


GROUPED_KEYS, GROUPED_VALUES = repeated(wild("keys")), repeated(wild("values"))
KEYS, VALUES = GROUPED_KEYS | wild("keys"), GROUPED_VALUES | wild("values")
QUERIES = scaled(wild("queries"), "queries")
KEYS_T = either(
    scaled(transposed(KEYS), "keys"),
    transposed(scaled(KEYS, "keys")),
    scaled(wild("keys_t", _is_tensor), "keys"),
)
SCORES = either(
    matmul(QUERIES, KEYS_T),
    op("aten.einsum", wild("equation"), [QUERIES, KEYS], where=_gives_scores),
    op("aten.baddbmm", wild("ignored"), QUERIES, KEYS_T, beta=0, alpha=number("alpha")),
).named("scores")

MASK = wild("mask", _is_tensor).named("mask_node")
HIDE, KEEP = wild("hide", _is_tensor).named("hide_node"), wild("keep", _is_tensor).named("keep_node")
FILL = number("fill")
SCALED = scaled(scaled(SCORES, "scores"), "then")
BASE = SCALED | scaled(op("aten.tanh", SCALED).named("cap"), "cap")
BIASED = BASE | BASE + MASK
MASKED = either(
    BIASED,
    (BASE + MASK) + wild("second_mask", _is_tensor),
    op(("aten.masked_fill.Scalar", "aten.masked_fill.Tensor"), BIASED, HIDE, FILL),
    op(WHERE, KEEP, BIASED, FILL),
    op(WHERE, HIDE, FILL, BIASED),
    (SCORES + MASK) * number("late"),
    (SCORES + MASK) / number("late"),
).named("masked")
SOFTMAX = op(
    ("aten.softmax.int", "aten._softmax", "aten.special_softmax"), widened(MASKED), wild("axis"), loose=True
)
SEEN = op("aten.any.dim", op("aten.logical_not", op("aten.eq.Scalar", wild("checked"), -math.inf)), -1, True)
ZERO = op("aten.full_like", wild("like"), 0, loose=True) | op("aten.zeros_like", wild("like"), loose=True)
SAFE = op("aten.where.self", op("aten.logical_not", SEEN), ZERO, SOFTMAX) | op(
    "aten._safe_softmax", MASKED, wild("axis")
)
WEIGHTS = (SOFTMAX | SAFE.named("safe")).named("weights")
ATTENTION = either(
    matmul(WEIGHTS | narrowed(WEIGHTS), VALUES),
    op(
        "aten.einsum", wild("equation_of_values"), [WEIGHTS | narrowed(WEIGHTS), VALUES], where=_weighs_values
    ),
)


def no_attention(
    queries, keys, keys_t, values, scores, masked, weights, axis, mask, fill, late, cap, checked, root
):  # fmt: skip
    if cap is not None:
        return "the scores pass through tanh (a soft cap), which MLX's attention does not know"
    if late is not None:
        return "the mask is added before the scores are scaled"
    if axis not in (-1, scores.ndim - 1):
        return f"the softmax is over axis {axis}, not over the keys"
    if scores.dtype not in HIDDEN:
        return "PyTorch rounds the scores to half precision before the softmax, a fused attention does not"
    if weights.dtype != scores.dtype or root.dtype != scores.dtype:
        return "the weights are rounded to half precision before they meet the values"
    operands = [x for x in (queries, keys or keys_t, values) if isinstance(x, Call)]
    if len(operands) < 3 or any(x.dtype is None or x.dtype != scores.dtype or x.ndim < 2 for x in operands):
        return "queries, keys and values are not matrices of one dtype"
    if (
        any(isinstance(n, str) for n in operands[1].shape[:-2])
        and operands[1].shape[:-2] != operands[2].shape[:-2]
    ):
        return "keys and values differ in a dynamic size"
    if masked.shape != scores.shape or masked.dtype != scores.dtype:
        return "the mask is larger than the scores, or of a wider dtype"
    if checked is not None and checked is not masked:
        return "weights are replaced by 0 where other scores are -inf"
    if fill is not None and mask is not None:
        return "the scores are filled after something was added to them"
    if fill is not None and not fill <= HIDDEN[scores.dtype]:
        return f"the scores that a mask hides are {fill:g}, which does not rule them out"
    return None


@fuses(ATTENTION, condition=no_attention, name="attention")
def attention_by_hand(
    queries, keys, keys_t, values, scores, mask, mask_node, second_mask, hide, hide_node, keep, keep_node, fill, safe,
    alpha, queries_times, queries_over, keys_times, keys_over, scores_times, scores_over, then_times, then_over,
):  # fmt: skip
    keys = swapped(keys_t, -1, -2) if keys is None else keys
    times = (alpha, queries_times, keys_times, scores_times, then_times)
    over = (queries_over, keys_over, scores_over, then_over)
    scale = math.prod(n for n in times if n is not None) / math.prod(n for n in over if n is not None)
    causal = _is_causal(hide_node or keep_node, hide_node is not None, scores.shape[-2:])
    seen = logical_not(hide) if hide is not None else as_array(keep, mx.bool_) if keep is not None else None
    added = [cast(m, queries.dtype) for m in (mask, second_mask) if m is not None]
    bias = add(*added) if len(added) > 1 else added[0] if added else None
    some = None if causal else seen if bias is None else bias
    result = attention(queries, keys, values, some, 0.0, causal, scale, True)
    if (
        some is None
        or (safe is not None and fill in (None, -math.inf))
        or (len(added) == 1 and _is_finite(mask_node))
    ):
        return result
    if seen is None:
        seen = not_equal(bias, -math.inf)
    blind = literal(math.nan, result.dtype) if fill in (None, -math.inf) else _average(values, result)
    return where(_sees_any(seen, values.shape[-2]), result, blind)


def _is_finite(mask: Call) -> bool:
    """Whether a mask chooses between two finite numbers."""
    chosen = list(mask.arguments.values())[1:] if mask.target in WHERE else [None]
    numbers = [seen_through(value)[0] for value in chosen]
    return all(type(n) in (int, float) and math.isfinite(n) for n in numbers)


def _sees_any(seen: Array, span: Any) -> Any:
    """Whether a query sees a key. Of no keys at all the result is 0 and stands."""
    some = any_(seen, [seen.ndim - 1], True)
    if isinstance(span, HostNumber):
        return bitwise_or(some, equal(as_array(span, mx.int64), literal(0, mx.int64)))
    return some if span else literal(True, mx.bool_)


def _average(values: Array, result: Array) -> Any:
    """The mean of the values of all keys, for each head of the result: equal scores have equal weights."""
    average = mean(values, [values.ndim - 2], True)
    if values.ndim < 3 or result.ndim < 3:
        return average
    own, wanted = values.shape[-3], result.shape[-3]
    grouped = isinstance(own, int) and isinstance(wanted, int) and own not in (1, wanted)
    return repeat(average, wanted // own, average.ndim - 3) if grouped else average


def _is_causal(mask: Any, hides: bool, shape: tuple[Any, ...]) -> bool:
    """Whether query i sees the keys 0 to i, for sure: tril(ones), triu(ones, 1) and what is made of them."""
    mask, _ = seen_through(mask)
    if not isinstance(mask, Call) or mask.ndim < 2 or mask.shape[-2:] != shape:
        return False
    source, other = first(mask), mask.arguments.get("other")
    if mask.target in ("aten.tril.default", "aten.triu.default"):
        wanted = ("aten.triu.default", 1) if hides else ("aten.tril.default", 0)
        return (mask.target, mask.arguments["diagonal"]) == wanted and _is_ones(source)
    if mask.target in ("aten.logical_not.default", "aten.bitwise_not.default"):
        return mask.dtype == mx.bool_ and _is_causal(source, not hides, shape)
    if mask.target in ("aten.eq.Scalar", "aten.ne.Scalar") and other in (0, 1):
        inverts = (mask.target == "aten.eq.Scalar") != (other == 1)
        return _is_causal(source, hides != inverts, shape)
    plain = mask.target in VIEW_NAMES or (mask.target in CASTS and mask.dtype == mx.bool_)
    return plain and _is_causal(source, hides, shape)


def _is_ones(value: Any) -> bool:
    value, _ = seen_through(value)
    if not isinstance(value, Call):
        return False
    filled = value.target == "aten.full.default" and value.arguments["fill_value"] == 1
    return filled or value.target in ("aten.ones.default", "aten.ones_like.default", "aten.new_ones.default")


def no_groups(keys, values):
    return None if keys.shape[:3] == values.shape[:3] else "keys and values have different heads"


GROUPED = op(
    "aten.scaled_dot_product_attention", wild("queries"), GROUPED_KEYS, GROUPED_VALUES, wild("attn_mask"),
    wild("dropout_p"), wild("is_causal"), scale=wild("scale"), loose=True,
)  # fmt: skip


@fuses(GROUPED, condition=no_groups)
def grouped_attention(queries, keys, values, attn_mask, dropout_p, is_causal, scale):
    """Attention takes keys and values for groups of queries as they are, unrepeated."""
    return attention(queries, keys, values, attn_mask, dropout_p, is_causal, scale, True)
