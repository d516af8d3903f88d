"""Reading and writing at indices, sorting and searching, lookups."""

import math
from typing import Any

import torch
from hypothesis import strategies as st
from torch.nn import functional as F

from ..runner import Row
from ..strategies import (
    ALL,
    FLOATS,
    INDEX,
    NUMBERS,
    REAL,
    SINGLE,
    axis,
    broadcastable,
    integers_below,
    maybe,
    numbers,
    of_shape,
    shapes,
    some,
    tensors,
)
from .reduce import along

FILLED = shapes(1, 3, smallest=1)


@st.composite
def places(
    draw: st.DrawFn, size: int, shape: Any = None, negative: bool = False, distinct: bool = False
) -> Any:
    """Indices of an axis of this size; `distinct`: a vector in which none is twice."""
    dtype = draw(st.sampled_from(INDEX if negative else INDEX[:1]))
    if distinct:
        found = draw(st.permutations(range(size)))[: draw(st.integers(0, size))]
        signed = [i - size if negative and draw(st.booleans()) else i for i in found]
        return torch.tensor(signed, dtype=dtype)
    return draw(
        of_shape(draw(shapes(0, 2) if shape is None else shape), dtype, integers_below(size, negative))
    )


@st.composite
def key(draw: st.DrawFn, x: torch.Tensor) -> list[Any]:
    """What x can be indexed with: tensors that broadcast, bool masks, None, slices."""
    shared = draw(broadcastable(x.dim(), 2))
    found: list[Any] = []
    at = 0
    masked = False
    while at < x.dim():
        kind = draw(st.integers(0, 4))
        if kind < 2:
            found.append(draw(places(x.shape[at], st.just(shared[at]), negative=True)))
        elif kind == 2 and not masked:
            masked = True
            found.append(draw(of_shape((x.shape[at],), torch.bool)))
        elif kind == 3:
            found.append(slice(draw(maybe(st.integers(-3, 3))), None, draw(st.sampled_from([None, 2]))))
        else:
            found.append(slice(None))
        at += 1
    return [found]


@st.composite
def read(draw: st.DrawFn) -> Any:
    """(x, key) without bool masks, whose results' sizes depend on data."""
    x = draw(tensors(ALL, FILLED))
    (found,) = draw(key(x))
    return (
        x,
        [slice(None) if isinstance(k, torch.Tensor) and k.dtype == torch.bool else k for k in found],
    ), {}


@st.composite
def written(draw: st.DrawFn) -> Any:
    """(x, key, values, accumulate) of index_put; the first two axes by distinct pairs of indices."""
    x = draw(tensors(NUMBERS, shapes(1, 3, smallest=1), "small"))
    accumulate = draw(st.booleans()) and x.dtype in SINGLE
    count = draw(st.integers(1, min(x.dim(), 2)))
    if accumulate:
        (shape,) = draw(broadcastable(1, 2))
        keys = [draw(places(x.shape[i], st.just(shape), negative=True)) for i in range(count)]
    else:
        pairs = torch.cartesian_prod(*[torch.arange(n) for n in x.shape[:count]]).reshape(-1, count)
        rows = draw(st.permutations(range(len(pairs))))[: draw(st.integers(0, len(pairs)))]
        keys = list(pairs[list(rows)].unbind(1))
    target = x[tuple(keys)].shape
    value = draw(
        of_shape(
            target if draw(st.booleans()) else target[len(target) - draw(st.integers(0, len(target))) :],
            x.dtype,
            "small",
        )
    )
    return (x, keys, value, accumulate), {}


@st.composite
def masked(draw: st.DrawFn) -> Any:
    """(x, mask, value) for x[mask] = value; the mask has some of the first axes of x."""
    x = draw(tensors(ALL, shapes(1, 3), "special"))
    mask = draw(of_shape(x.shape[: draw(st.integers(1, x.dim()))], torch.bool))
    return (x, mask, draw(st.booleans() if x.dtype == torch.bool else numbers("i"))), {}


@st.composite
def taken(draw: st.DrawFn, dtypes: Any = ALL) -> Any:
    """(x, dim, index) of gather: the index may be smaller than x on other axes."""
    x = draw(tensors(dtypes, FILLED))
    at = draw(axis(x.dim()))
    shape = [draw(st.integers(0, n)) for n in x.shape]
    shape[at] = draw(st.integers(0, 4))
    return (x, at, draw(places(x.shape[at], st.just(tuple(shape))))), {}


@st.composite
def scattered(draw: st.DrawFn, dtypes: Any = NUMBERS, distinct: bool = True, kind: str = "small") -> Any:
    """(x, dim, index, source); distinct: no place is written twice."""
    x = draw(tensors(dtypes, FILLED, kind))
    at = draw(axis(x.dim())) % x.dim()
    shape = [draw(st.integers(0, n)) for n in x.shape]
    if distinct:
        shape[at] = min(shape[at], x.shape[at])
        lines = math.prod(shape) // max(shape[at], 1)
        index = torch.tensor([draw(st.permutations(range(x.shape[at])))[: shape[at]] for _ in range(lines)])
        rest = [n for i, n in enumerate(shape) if i != at]
        index = index.long().reshape([*rest, shape[at]]).movedim(-1, at).contiguous()
    else:
        index = draw(places(x.shape[at], st.just(tuple(shape))))
    source = draw(of_shape([n + draw(st.integers(0, 1)) for n in shape], x.dtype, kind))
    return (x, at - x.dim() if draw(st.booleans()) else at, index, source), {}


@st.composite
def reduced(draw: st.DrawFn) -> Any:
    args, _ = draw(scattered((torch.float32, torch.int64), distinct=False))
    reduce = draw(st.sampled_from(["sum", "prod", "amax", "amin", "mean"]))
    return (*args, reduce), {"include_self": draw(st.booleans())}


@st.composite
def rows(
    draw: st.DrawFn, dtypes: Any = ALL, distinct: bool = False, source: bool = False, smallest: int = 1
) -> Any:
    """(x, dim, index[, source]) of index_select and its relatives."""
    x = draw(tensors(dtypes, shapes(1, 3, smallest=smallest), "small"))
    at = draw(axis(x.dim()))
    index = draw(places(x.shape[at], shapes(1, 1, 4), distinct=distinct))
    if not source:
        return (x, at, index), {}
    shape = list(x.shape)
    shape[at] = len(index)
    return (x, at, index, draw(of_shape(shape, x.dtype, "small"))), {}


@st.composite
def embedded(draw: st.DrawFn) -> Any:
    weight = draw(tensors(FLOATS, st.tuples(st.integers(1, 4), st.integers(0, 3))))
    return (draw(places(weight.shape[0])), weight), draw(some(padding_idx=[0, -1]))


@st.composite
def bags(draw: st.DrawFn) -> Any:
    """(index, weight, offsets, …) of embedding_bag; some bags are empty."""
    weight = draw(tensors(SINGLE, st.tuples(st.integers(1, 4), st.integers(1, 3)), "small"))
    index = draw(places(weight.shape[0], shapes(1, 1, 5, 1)))
    offsets = [0, *sorted(draw(st.lists(st.integers(0, len(index)), max_size=3)))]
    options = draw(some(mode=["sum", "mean"], padding_idx=[0], include_last_offset=[False]))
    return (index, weight, torch.tensor(offsets)), options


@st.composite
def searched(draw: st.DrawFn) -> Any:
    """(sorted, values) with equal leading axes."""
    front = draw(shapes(0, 1))
    table = draw(tensors(NUMBERS, st.integers(0, 4).map(lambda n: (*front, n)), "small")).sort(-1)[0]
    values = draw(of_shape((*front, draw(st.integers(0, 3))), table.dtype, "small"))
    return (table, values), draw(some(right=st.booleans(), out_int32=st.booleans()))


@st.composite
def largest(draw: st.DrawFn) -> Any:
    """(x, k, dim) of topk."""
    x = draw(tensors(NUMBERS, shapes(0, 3)))
    at = draw(axis(x.dim()))
    k = st.integers(0, x.shape[at]) if x.dim() else st.just(1)  # nothing of a 0-d tensor is garbage
    return (x, draw(k), at), draw(some(largest=st.booleans()))


def values_at(function: Any) -> Any:
    """The values, and what lies at the indices: ties may come in another order."""

    def call(x: Any, *args: Any, **options: Any) -> Any:
        at = args[-1]
        values, indices = function(x, *args, **options)
        return values, indices * 0, torch.gather(x, at, indices)

    return call


READS = [
    Row("index", lambda x, k: x[tuple(k)], read()),
    Row("gather", torch.gather, taken()),
    Row("take", torch.take, st.tuples(tensors(ALL, FILLED)).flatmap(lambda a: places(a[0].numel(), negative=True).map(lambda i: ((*a, i.long()), {})))),
    Row("take_along_dim", torch.take_along_dim, taken().map(lambda a: ((a[0][0], a[0][2], a[0][1]), {}))),
    Row("index_select", torch.index_select, rows()),
    Row("masked_select", torch.masked_select, masked().map(lambda a: ((*a[0][:1], a[0][0] != 0), {}))),
    Row("bool mask", lambda x, m, v: x[m], masked(), layouts=False),
    Row("nonzero", torch.nonzero, st.tuples(st.tuples(tensors(ALL)), some())),
    Row("embedding", F.embedding, embedded()),
    Row("embedding_bag", F.embedding_bag, bags(), layouts=False),
    Row("one_hot", lambda i: F.one_hot(i, 4), st.tuples(st.tuples(places(4)), some())),
]  # fmt: skip

WRITES = [
    Row("index_put", lambda x, *a: torch.index_put(x, tuple(a[0]), *a[1:]), written(), layouts=False),
    Row("write by a mask", lambda x, m, v: torch.index_put(x, (m,), torch.tensor(v, dtype=x.dtype)), masked()),
    Row("scatter", torch.scatter, scattered(), layouts=False),
    Row("scatter number", lambda x, d, i, s: torch.scatter(x, d, i, 3), scattered(distinct=False)),
    Row("scatter_add", torch.scatter_add, scattered(distinct=False)),
    Row("scatter_reduce", lambda x, d, i, s, r, **k: torch.scatter_reduce(x, d, i, s, r, **k), reduced()),
    Row("scatter_reduce special", lambda x, d, i, s: torch.scatter_reduce(x, d, i, s, "amax"), scattered(SINGLE, False, "special")),
    Row("index_add", torch.index_add, rows(NUMBERS, source=True)),
    Row("index_copy", torch.index_copy, rows(ALL, True, True), layouts=False),
    Row("index_fill", lambda x, d, i: torch.index_fill(x, d, i, 1), rows(ALL)),
    Row("masked_scatter", lambda x, m, s: torch.masked_scatter(x, m, s), st.tuples(tensors(SINGLE, st.just((2, 3))), of_shape((2, 3), torch.bool), of_shape((7,), torch.float32)).map(lambda a: (a, {}))),
    Row("index_reduce", lambda x, d, i, s: torch.index_reduce(x, d, i, s, "amax"), rows(SINGLE, source=True)),
]  # fmt: skip

SORTS = [
    Row("sort", lambda x, d, **k: torch.sort(x, dim=d, stable=True, **k), along(descending=st.booleans())),
    Row("sort unstable", values_at(torch.sort), along(NUMBERS)),
    Row("argsort", torch.argsort, along(NUMBERS, descending=st.booleans()).map(lambda a: (a[0][:1], {"dim": a[0][1], "stable": True, **a[1]}))),
    Row("topk", values_at(torch.topk), largest()),
    Row("kthvalue", lambda x, d: torch.kthvalue(x, 1, d)[0], along(NUMBERS, smallest=1)),
    Row("msort", torch.msort, st.tuples(st.tuples(tensors(REAL, shapes(1, 3))), some())),
    Row("searchsorted", torch.searchsorted, searched()),
    Row("bucketize", lambda t, v, **k: torch.bucketize(v, t.flatten().sort()[0], **k), searched()),
    Row("unique", lambda x: torch.unique(x, return_inverse=True, return_counts=True), st.tuples(st.tuples(tensors(NUMBERS, kind="small")), some())),
    Row("unique_consecutive", torch.unique_consecutive, st.tuples(st.tuples(tensors(NUMBERS, kind="small")), some())),
    Row("isin", torch.isin, st.tuples(tensors(NUMBERS, kind="small"), tensors(NUMBERS, kind="small")).map(lambda a: (a, {}))),
    Row("histc", lambda x: torch.histc(x, 4, -2, 2), st.tuples(st.tuples(tensors(FLOATS, shapes(1, 2), "small")), some())),
]  # fmt: skip

ROWS = [*READS, *WRITES, *SORTS]
