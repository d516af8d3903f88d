"""What the property tests draw: tensors with the values where implementations differ, shapes, axes, numbers.

Everything that a test draws is made of these. A tensor's elements are of a *kind*:

    any       all values of the dtype: NaN, infinities, -0.0, the largest and the least
    finite    those without NaN and infinities
    small     multiples of 1/4 up to 4, integers up to 4: their sums and products are exact in any order
    special   small, with NaN, infinities and -0.0 among them
    positive  small and above 0
    unit      multiples of 1/8 from 0 to 1
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from hypothesis import strategies as st
from hypothesis.extra.numpy import mutually_broadcastable_shapes

from ..ops.values import FLOATS, HALVES, INTEGERS, REAL, edges

Strategy = st.SearchStrategy[Any]
Shape = tuple[int, ...]

INDEX = (torch.int64, torch.int32)
SINGLE = (torch.float32,)
SIGNED = tuple(d for d in INTEGERS if d != torch.uint8)
NUMBERS = (*INTEGERS, *FLOATS)
ALL = (*REAL, torch.complex64)
INEXACT = (*FLOATS, torch.complex64)


def shapes(least: int = 0, most: int = 3, side: int = 3, smallest: int = 0) -> Strategy:
    """Shapes of `least` to `most` axes; the sizes 0 and 1 are among them."""
    return st.lists(st.integers(smallest, side), min_size=least, max_size=most).map(tuple)


def broadcastable(count: int, most: int = 3) -> Strategy:
    """`count` shapes that broadcast with each other."""
    found = mutually_broadcastable_shapes(num_shapes=count, min_dims=0, max_dims=most, min_side=0, max_side=3)
    return found.map(lambda result: list(result.input_shapes))


def elements(dtype: torch.dtype, kind: str = "any") -> Strategy:
    """One element of a tensor, as a Python number."""
    if dtype == torch.bool:
        return st.just(True) if kind == "positive" else st.booleans()
    if dtype.is_complex:
        part = elements(torch.float32, "small" if kind in ("any", "finite") else kind)
        return st.builds(complex, part, part)
    if not dtype.is_floating_point:
        return _integers(dtype, kind)
    if kind in ("small", "special", "positive", "unit"):
        low, high = {"positive": (1, 16), "unit": (0, 8)}.get(kind, (-16, 16))
        found = st.integers(low, high).map(lambda n: n / (8 if kind == "unit" else 4))
        odd = st.sampled_from([math.nan, math.inf, -math.inf, -0.0])
        return st.one_of(found, found, odd) if kind == "special" else found
    info = torch.finfo(dtype)
    limits = [info.max, info.min, info.tiny, -info.tiny, info.eps]
    values = [v for v in [*edges(dtype).tolist(), *limits] if kind == "any" or math.isfinite(v)]
    width: Any = {torch.float16: 16, torch.float64: 64}.get(dtype, 32)
    drawn = st.floats(info.min, info.max, width=width)
    return st.one_of(st.sampled_from(values), drawn, st.floats(-10, 10, width=16))


def _integers(dtype: torch.dtype, kind: str) -> Strategy:
    info = torch.iinfo(dtype)
    if kind in ("any", "finite"):
        return st.one_of(st.sampled_from(edges(dtype).tolist()), st.integers(info.min, info.max))
    low = {"positive": 1, "unit": 0}.get(kind, max(info.min, -4))
    return st.integers(low, 1 if kind == "unit" else 4)


def of_shape(shape: Sequence[int], dtype: torch.dtype, kind: str | Strategy = "any") -> Strategy:
    """Tensors of this shape and dtype; `kind` may be a strategy for the elements."""
    count = math.prod(shape)
    each = elements(dtype, kind) if isinstance(kind, str) else kind
    wide = torch.float64 if dtype.is_floating_point else dtype  # else numbers near the limits are refused
    values = st.lists(each, min_size=count, max_size=count)
    return values.map(lambda v: torch.tensor(v, dtype=wide).to(dtype).reshape(tuple(shape)))


@st.composite
def tensors(
    draw: st.DrawFn, dtypes: Iterable[torch.dtype] = REAL, shape: Strategy | None = None, kind: Any = "any"
) -> torch.Tensor:
    """Tensors of any of these dtypes and shapes."""
    dtype = draw(st.sampled_from(tuple(dtypes)))
    return draw(of_shape(draw(shapes() if shape is None else shape), dtype, kind))


def integers_below(limit: int, negative: bool = False) -> Strategy:
    """An index of an axis of this size; -limit to -1 too if `negative`."""
    return st.integers(-limit if negative else 0, limit - 1)


def axis(rank: int) -> Strategy:
    """An axis of a tensor of this rank, counted from either end; 0 and -1 of a 0-d tensor."""
    return st.integers(-max(rank, 1), max(rank, 1) - 1)


@st.composite
def axes(draw: st.DrawFn, rank: int, least: int = 0) -> list[int]:
    """Some axes, none twice, in any order, counted from either end."""
    chosen = draw(st.permutations(range(max(rank, 1))))[: draw(st.integers(least, max(rank, 1)))]
    return [a - max(rank, 1) if draw(st.booleans()) else a for a in chosen]


def numbers(kinds: str = "bif", kind: str = "any") -> Strategy:
    """Python numbers: bools, ints, floats."""
    special = [0.1, -0.0, 1e-3, 2.5, *([math.inf, -math.inf, math.nan, 1e6] if kind == "any" else [])]
    found = {
        "b": st.booleans(),
        "i": st.integers(-7, 7),
        "f": st.one_of(st.integers(-16, 16).map(lambda n: n / 4), st.sampled_from(special)),
    }
    return st.one_of([found[k] for k in kinds])


def maybe(strategy: Strategy) -> Strategy:
    return st.one_of(st.none(), strategy)


def some(**options: Any) -> Strategy:
    """Keyword arguments, each there or left out. A value that is no strategy is one of a list."""
    given = {k: v if isinstance(v, st.SearchStrategy) else st.sampled_from(v) for k, v in options.items()}
    return st.fixed_dictionaries({}, optional=given)


# How a tensor lies in memory: name -> (a contiguous base with the elements, the view that gives the tensor back).
Layout = tuple[Callable[[torch.Tensor], torch.Tensor], Callable[[torch.Tensor], torch.Tensor]]
LAYOUTS: dict[str, Layout] = {
    "plain": (lambda t: t, lambda b: b),
    "transposed": (lambda t: t.transpose(0, -1).contiguous(), lambda b: b.transpose(0, -1)),
    "strided": (lambda t: t.repeat_interleave(2, -1), lambda b: b[..., ::2]),
    "offset": (lambda t: torch.cat([t[:1], t]), lambda b: b[1:] if b.shape[0] else b),
    "reversed": (lambda t: t.flip(0), lambda b: b.flip(0)),
    "channels_last": (lambda t: t.movedim(1, -1).contiguous(), lambda b: b.movedim(-1, 1)),
    "expanded": (lambda t: t[:1].contiguous(), lambda b: b.expand(3, *b.shape[1:])),
}
"""`expanded` alone changes the values: three times the first row."""


def layouts(tensor: torch.Tensor) -> Strategy:
    """The names of layouts that this tensor can have."""
    return st.sampled_from([name for name in LAYOUTS if fits(name, tensor)])


def fits(layout: str, tensor: torch.Tensor) -> bool:
    """Whether this tensor can have a layout."""
    if layout == "expanded":
        return tensor.dim() > 0 and tensor.shape[0] == 3
    return layout == "plain" or tensor.dim() >= (3 if layout == "channels_last" else 1)


__all__ = [
    "ALL",
    "FLOATS",
    "HALVES",
    "INDEX",
    "INEXACT",
    "INTEGERS",
    "LAYOUTS",
    "NUMBERS",
    "REAL",
    "SIGNED",
    "SINGLE",
    "axes",
    "axis",
    "broadcastable",
    "elements",
    "fits",
    "integers_below",
    "layouts",
    "maybe",
    "numbers",
    "of_shape",
    "shapes",
    "some",
    "tensors",
]
