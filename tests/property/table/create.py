"""Tensors out of nothing, fills, casts."""

from typing import Any

import torch
from hypothesis import strategies as st

from ..runner import Row
from ..strategies import (
    ALL,
    FLOATS,
    INTEGERS,
    REAL,
    SIGNED,
    elements,
    numbers,
    of_shape,
    shapes,
    some,
    tensors,
)

DTYPES = [torch.float32, torch.int64, torch.float16, torch.int32, torch.uint8, torch.bfloat16, torch.float64]


@st.composite
def converted(draw: st.DrawFn) -> Any:
    """(x, dtype): the values of x fit, for what does not is the platform's business."""
    source, target = draw(st.sampled_from(ALL)), draw(st.sampled_from(ALL))
    kind: Any = "any"
    if source.is_floating_point and target in INTEGERS:
        kind = elements(source, "positive" if target == torch.uint8 else "small")
    return (draw(of_shape(draw(shapes()), source, kind)), target), {}


@st.composite
def ranged(draw: st.DrawFn, whole: bool = True) -> Any:
    """(start, end, step) of arange."""
    number = (
        st.integers(-9, 9) if whole else st.one_of(st.integers(-9, 9), st.sampled_from([0.5, -2.25, 7.1]))
    )
    start, end = draw(number), draw(number)
    step = draw(st.sampled_from([1, 2, 3] if whole else [1, 0.5, 0.3, 2]))
    dtype = draw(
        st.sampled_from([None, torch.float32, torch.float16, torch.float64, torch.int32, torch.int64])
    )
    return (start, end, step if end >= start else -step), {} if dtype is None else {"dtype": dtype}


@st.composite
def made_like(draw: st.DrawFn) -> Any:
    """(x, value) of full_like."""
    x = draw(tensors(REAL))
    options = draw(some(dtype=DTYPES))
    dtype = options.get("dtype", x.dtype)
    if dtype == torch.bool:
        return (x, draw(st.booleans())), options
    if dtype.is_floating_point:
        return (x, draw(numbers("if"))), options
    return (x, draw(elements(dtype, "any"))), options


@st.composite
def full(draw: st.DrawFn) -> Any:
    dtype = draw(st.sampled_from(REAL))
    return (draw(shapes()), draw(elements(dtype))), {"dtype": dtype}


WITH = st.tuples(st.tuples(tensors(ALL)), some(dtype=DTYPES))
SIZED = st.tuples(st.tuples(shapes()), some(dtype=DTYPES))
SPACED = st.tuples(numbers("if", "small"), numbers("if", "small"), st.integers(0, 6))


def beside(function: Any) -> Any:
    """`function` without tensors, beside one: a graph needs an input."""
    return lambda x, args, options: (x, function(*args, **options))


def alone(strategy: Any) -> Any:
    return strategy.map(lambda a: ((torch.zeros(1), list(a[0]), a[1]), {}))


ROWS = [
    Row("to", lambda x, dtype: x.to(dtype), converted()),
    Row("to and back", lambda x, dtype: x.to(dtype).to(x.dtype), converted()),
    Row("type_as", lambda x, y: x.type_as(y), st.tuples(tensors(SIGNED, kind="small"), tensors(REAL)).map(lambda a: (a, {}))),
    Row("sum of a cast", lambda x: (x.to(torch.float32) + 0.5).to(x.dtype), st.tuples(st.tuples(tensors(SIGNED, kind="small")), some())),
    Row("arange", beside(torch.arange), alone(ranged())),
    Row("arange of floats", beside(torch.arange), alone(ranged(False)), tolerance=(1e-3, 1e-6)),  # PyTorch's own halves
    Row("linspace", beside(torch.linspace), alone(st.tuples(SPACED, some(dtype=[torch.float32, torch.float64])))),
    Row("logspace", beside(torch.logspace), alone(st.tuples(SPACED, some(base=[2.0, 10.0])))),
    Row("full", beside(torch.full), alone(full())),
    Row("zeros", beside(torch.zeros), alone(SIZED)),
    Row("ones", beside(torch.ones), alone(SIZED)),
    Row("eye", beside(torch.eye), alone(st.tuples(st.tuples(st.integers(0, 4), st.integers(0, 4)), some(dtype=DTYPES)))),
    Row("tril_indices", beside(torch.tril_indices), alone(st.tuples(st.tuples(*[st.integers(0, 4)] * 2, st.integers(-4, 4)), some()))),
    Row("full_like", torch.full_like, made_like()),
    Row("zeros_like", torch.zeros_like, WITH),
    Row("ones_like", torch.ones_like, WITH),
    Row("new_full", lambda x, s, v: x.new_full(s, v), st.tuples(tensors(FLOATS), shapes(), numbers("if")).map(lambda a: (a, {}))),
    Row("new_zeros", lambda x, s: x.new_zeros(s), st.tuples(tensors(ALL), shapes()).map(lambda a: (a, {}))),
    Row("clone", torch.clone, st.tuples(st.tuples(tensors(ALL)), some())),
    Row("complex", torch.complex, shapes().flatmap(lambda s: st.tuples(*[of_shape(s, torch.float32)] * 2)).map(lambda a: (a, {}))),
    Row("view_as_real", torch.view_as_real, st.tuples(st.tuples(tensors(ALL[-1:])), some())),
    Row("real and imaginary", lambda x: (x.real, x.imag, x.conj() + 0), st.tuples(st.tuples(tensors(ALL[-1:])), some())),
    Row("scalar_tensor", beside(torch.scalar_tensor), alone(st.tuples(st.tuples(numbers("bif")), some()))),
    Row("item", lambda x, y: y * x.reshape(-1)[0].item(), st.tuples(of_shape((1,), torch.float32, "small"), tensors(FLOATS, kind="small")).map(lambda a: (a, {}))),
    Row("size arithmetic", lambda x: x * x.shape[0] + x.numel() - x.dim() / 2, st.tuples(st.tuples(tensors(FLOATS, shapes(1, 3), "small")), some())),
]  # fmt: skip
