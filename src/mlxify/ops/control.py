"""Control flow: instructions that hold blocks. Only the branch that is taken is computed."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from ..isa import Array, Number, instruction
from ..lowering import as_array, lowers
from ..program import Block
from ..record import UNBACKED, active, example
from ..values import HostNumber, Value


def _same(a: list[mx.array], b: list[mx.array], what: str) -> list[mx.array]:
    if len(a) != len(b) or any(x.shape != y.shape or x.dtype != y.dtype for x, y in zip(a, b, strict=True)):
        raise ValueError(f"{what} give results of different shapes or dtypes")
    return a


def _cond_abstract(predicate: Any, true_block: Any, false_block: Any) -> list[mx.array]:
    """The branches' results; a size in which they differ is one that depends on data."""
    a, b = true_block(), false_block()
    if [(x.ndim, x.dtype) for x in a] != [(y.ndim, y.dtype) for y in b]:
        raise ValueError("the two branches give results of different ranks or dtypes")
    unknown = UNBACKED[example()]
    shapes = [
        [m if m == n else unknown for m, n in zip(x.shape, y.shape, strict=True)]
        for x, y in zip(a, b, strict=True)
    ]
    return [mx.zeros(shape, x.dtype) for shape, x in zip(shapes, a, strict=True)]


@instruction(sync=True, abstract=_cond_abstract)
def cond(predicate: Number | Array, true_block: Block, false_block: Block) -> list[Array]:
    """The results of true_block() if the predicate (one bool) holds, else of false_block()."""
    chosen = bool(predicate.item()) if isinstance(predicate, mx.array) else predicate
    return (true_block if chosen else false_block)()  # type: ignore[operator]


def _while_abstract(condition: Any, body: Any, carried: list[mx.array]) -> list[mx.array]:
    (going,) = condition()
    if going.size != 1:
        raise ValueError("the condition of a loop is one bool")
    return _same(list(carried), body(), "a loop's start and its body")


@instruction(sync=True, abstract=_while_abstract)
def while_loop(condition: Block, body: Block, carried: list[Array]) -> list[Array]:
    """carried = body(*carried) as long as condition(*carried), one bool, holds."""
    while condition(*carried)[0].item():  # type: ignore[operator]
        carried = body(*carried)  # type: ignore[operator]
        mx.eval(carried)
    return carried


def _scan_abstract(body: Any, carried: list[mx.array], xs: list[mx.array], reverse: bool) -> list[mx.array]:
    results = body()
    length = xs[0].shape[0]
    _same(list(carried), results[: len(carried)], "a scan's start and its body")
    return [*carried, *(mx.zeros((length, *y.shape), y.dtype) for y in results[len(carried) :])]


@instruction(sync=True, abstract=_scan_abstract)
def scan(body: Block, carried: list[Array], xs: list[Array], reverse: bool) -> list[Array]:
    """For each i along axis 0 of all xs: (*carried, *ys[i]) = body(*carried, *(x[i] for x in xs)).

    Results: the last carried, then the stacked ys. With reverse, i goes from the last to the first.
    """
    length, count = xs[0].shape[0], len(carried)
    rows: list[Any] = [None] * length
    for i in reversed(range(length)) if reverse else range(length):
        results = body(*carried, *(x[i] for x in xs))  # type: ignore[operator]
        carried, rows[i] = results[:count], results[count:]
    if length == 0:
        return [*carried, *_no_rows(body, carried, xs)]
    return [*carried, *(mx.stack(list(column)) for column in zip(*rows, strict=True))]


def _no_rows(body: Any, carried: list[mx.array], xs: list[mx.array]) -> list[mx.array]:
    """The empty ys of a scan over nothing, shaped by a run on (lazy) zeros."""
    shapes = body(*carried, *(mx.zeros(x.shape[1:], x.dtype) for x in xs))[len(carried) :]
    return [mx.zeros((0, *y.shape), y.dtype) for y in shapes]


@instruction
def first(x: Array) -> Array:
    """x[0]: what a block sees of an array that is scanned along axis 0. Zeros when there is no row."""
    return x[0] if x.shape[0] else mx.zeros(x.shape[1:], x.dtype)


@lowers("higher_order.cond")
def cond_(pred, true_fn, false_fn, operands):
    recorder = active()
    true_block = recorder.block(lambda: _arrays(true_fn(*operands)), [])
    false_block = recorder.block(lambda: _arrays(false_fn(*operands)), [])
    return cond(pred, true_block, false_block)


@lowers("higher_order.while_loop")
def while_loop_(cond_fn, body_fn, carried_inputs, additional_inputs=()):
    recorder, carried = active(), _arrays(carried_inputs)
    condition = recorder.block(lambda *c: _arrays(cond_fn(*c, *additional_inputs)), carried)
    body = recorder.block(lambda *c: _arrays(body_fn(*c, *additional_inputs)), carried)
    return while_loop(condition, body, carried)


@lowers("higher_order.scan")
def scan_(combine_fn, init, xs, additional_inputs=()):
    return _record_scan(lambda *v: combine_fn(*v, *additional_inputs), _arrays(init), xs)


@lowers("higher_order.map_impl")
def map_impl(f, xs, pos_args=()):
    return _record_scan(lambda *v: f(*v, *pos_args), [], xs)


@lowers("higher_order.associative_scan")
def associative_scan(combine_fn, xs, additional_inputs=()):
    def step(*values):
        """Each result is both the next state and a row."""
        results = _arrays(combine_fn(*values, *additional_inputs))
        return [*results, *results]

    from .join import concatenate
    from .shape import expand_dims, slice_

    count = len(xs)
    starts = [first(x) for x in xs]
    rest = [slice_(x, [1], [x.shape[0]], [1], [0]) for x in xs]
    rows = _record_scan(step, starts, rest)[count:]
    return [concatenate([expand_dims(s, [0]), r], 0) for s, r in zip(starts, rows, strict=True)]


def _record_scan(body: Any, carried: list[Any], xs: Any) -> Any:
    recorder = active()
    like = [*carried, *(first(x) for x in xs)]
    return scan(recorder.block(lambda *v: _arrays(body(*v)), like), carried, list(xs), False)


def _arrays(values: Any) -> list[Any]:
    """A block's values as arrays: a host number is an int64, bool or float32 array there."""
    return [v if isinstance(v, Value) else as_array(v, _number_dtype(v)) for v in values]


def _number_dtype(value: Any) -> mx.Dtype:
    sample = value.hints[0] if isinstance(value, HostNumber) else value
    return mx.bool_ if isinstance(sample, bool) else mx.int64 if isinstance(sample, int) else mx.float32
