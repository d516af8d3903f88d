"""Channels stay last: transposes sink below what does not care about the order of axes, until they meet and cancel.

PyTorch's convolutions have their channels at axis 1, MLX's at the end. Each lowering of a convolution therefore ends
with a transpose that the next one undoes. What comes between (norms, activations, sums, pools, padding) is recorded
on the array before the transpose, and transposed after. So a chain of convolutions keeps one order in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .isa import Instruction
    from .record import Recorder
    from .values import Value

Order = tuple[int, ...]
REDUCTIONS = ("sum", "mean", "max", "min", "prod", "var", "all", "any", "logsumexp")


def sunk(recorder: Recorder, schema: Instruction, args: tuple[Any, ...]) -> Any:
    """The result of a call, recorded before the transpose(s) of its arguments; None when it stays where it is."""
    rule = _elementwise if schema.elementwise else RULES.get(schema.name)
    return rule(recorder, schema, args) if rule is not None else None


def _call(recorder: Recorder, name: str, *args: Any) -> Any:
    from .isa import INSTRUCTIONS

    return recorder.record(INSTRUCTIONS[name], args)


def _transposed(recorder: Recorder, x: Any) -> tuple[Value, Order] | None:
    """What x is the transpose of, and its axes."""
    found = recorder.transposed.get(getattr(x, "number", -1))
    if found is not None:
        source, order = found
        source.dynamic.update(order[axis] for axis in x.dynamic)
    return found


def _source(recorder: Recorder, x: Any) -> tuple[Value, Order] | None:
    """The same, if it moves the last axis: other transposes leave rows whole and cost little."""
    found = _transposed(recorder, x)
    return found if found is not None and found[1][-1] != len(found[1]) - 1 else None


def _inverse(order: Order) -> list[int]:
    return sorted(range(len(order)), key=order.__getitem__)


def _turned(recorder: Recorder, x: Value, order: Order) -> Any:
    """The array whose transpose by `order` is x, after new leading axes for those that x lacks."""
    if not x.ndim:
        return x
    x = _call(recorder, "expand_dims", x, list(range(len(order) - x.ndim)))
    return _call(recorder, "transpose", x, _inverse(order))


def _elementwise(recorder: Recorder, schema: Instruction, args: tuple[Any, ...]) -> Any:
    arrays = {i: a for i, a in enumerate(args) if hasattr(a, "ndim") and hasattr(a, "number")}
    rank = max((a.ndim for a in arrays.values()), default=0)
    sources = [_source(recorder, a) for a in arrays.values() if a.ndim == rank]
    order = next((s[1] for s in sources if s is not None), None)
    if order is None:
        return None
    moved = [_turned(recorder, arrays[i], order) if i in arrays else a for i, a in enumerate(args)]
    return _call(recorder, "transpose", recorder.record_plainly(schema, tuple(moved)), list(order))


def _transpose(recorder: Recorder, schema: Instruction, args: tuple[Any, ...]) -> Any:
    """A transpose of a transpose is one."""
    x, axes = args
    found = _transposed(recorder, x)
    if found is None:
        return None
    source, order = found
    return _call(recorder, "transpose", source, [order[a] for a in axes])


def _reduction(recorder: Recorder, schema: Instruction, args: tuple[Any, ...]) -> Any:
    x, axes, *rest, keepdims = args
    found = _source(recorder, x)
    if found is None:
        return None
    source, order = found
    chosen = [a % len(order) for a in axes]
    result = recorder.record_plainly(schema, (source, [order[a] for a in chosen], *rest, keepdims))
    if keepdims:
        return _call(recorder, "transpose", result, list(order))
    left = [a for i, a in enumerate(order) if i not in chosen]
    return _call(recorder, "transpose", result, _ranks(left))


def _ranks(axes: Sequence[int]) -> list[int]:
    return [sorted(axes).index(a) for a in axes]


def _pad(recorder: Recorder, schema: Instruction, args: tuple[Any, ...]) -> Any:
    x, low, high, *rest = args
    found = _source(recorder, x)
    if found is None:
        return None
    source, order = found
    widths = [[w[a] for a in _inverse(order)] for w in (low, high)]
    return _call(
        recorder, "transpose", recorder.record_plainly(schema, (source, *widths, *rest)), list(order)
    )


def _slice(recorder: Recorder, schema: Instruction, args: tuple[Any, ...]) -> Any:
    x, *bounds, axes = args
    found = _source(recorder, x)
    if found is None:
        return None
    source, order = found
    result = recorder.record_plainly(schema, (source, *bounds, [order[a] for a in axes]))
    return _call(recorder, "transpose", result, list(order))


def _concatenate(recorder: Recorder, schema: Instruction, args: tuple[Any, ...]) -> Any:
    arrays, axis = args
    sources = [_source(recorder, a) for a in arrays]
    found = [s for s in sources if s is not None]
    if not found or len(found) < len(sources) or len({order for _, order in found}) > 1:
        return None
    order = found[0][1]
    result = recorder.record_plainly(schema, ([source for source, _ in found], order[axis]))
    return _call(recorder, "transpose", result, list(order))


RULES: dict[str, Callable[[Recorder, Instruction, tuple[Any, ...]], Any]] = {
    **dict.fromkeys(REDUCTIONS, _reduction),
    "transpose": _transpose,
    "pad": _pad,
    "slice": _slice,
    "concatenate": _concatenate,
}
