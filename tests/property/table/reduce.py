"""Reductions and scans over axes, with keepdim and dtype; statistics."""

from typing import Any

import torch
from hypothesis import strategies as st

from ..runner import Row
from ..strategies import (
    ALL,
    FLOATS,
    NUMBERS,
    REAL,
    SINGLE,
    Strategy,
    axes,
    axis,
    numbers,
    of_shape,
    shapes,
    some,
    tensors,
)

WIDER = [torch.float32, torch.float64, torch.int64, torch.float16]


def whole(dtypes: Any = REAL, kind: str = "any", smallest: int = 0, **options: Any) -> Strategy:
    """(x): everything is reduced."""
    return st.tuples(st.tuples(tensors(dtypes, shapes(smallest=smallest), kind)), some(**options))


@st.composite
def along(
    draw: st.DrawFn, dtypes: Any = REAL, kind: str = "any", smallest: int = 0, rank: int = 0, **options: Any
) -> Any:
    """(x, dim)."""
    x = draw(tensors(dtypes, shapes(rank, smallest=smallest), kind))
    return (x, draw(axis(x.dim()))), draw(some(**options))


def named(arguments: Any) -> Any:
    """(x, dim) as (x, dim=dim)."""
    (x, dim), options = arguments
    return (x,), {"dim": dim, **options}


@st.composite
def over(
    draw: st.DrawFn, dtypes: Any = REAL, kind: str = "any", least: int = 0, smallest: int = 0, **options: Any
) -> Any:
    """(x, dims): some axes, from either end, in any order."""
    x = draw(tensors(dtypes, shapes(smallest=smallest), kind))
    return (x, draw(axes(x.dim(), least))), draw(some(**options))


@st.composite
def normed(draw: st.DrawFn) -> Any:
    """(x, ord, dim) of a vector norm."""
    x = draw(tensors(FLOATS, shapes(smallest=1), "small"))
    order = draw(st.sampled_from([0, 1, 2, 3, -1, 0.5, float("inf"), -float("inf")]))
    return (x, order, draw(st.one_of(st.none(), axes(x.dim(), 1)))), draw(some(keepdim=st.booleans()))


KEEP: dict[str, Any] = {"keepdim": st.booleans()}

ROWS = [
    Row("sum", torch.sum, over(kind="special", dtype=WIDER, **KEEP)),
    Row("sum integers", torch.sum, over(NUMBERS[:5], **KEEP)),
    Row("sum everything", torch.sum, whole(kind="special", dtype=WIDER)),
    Row("sum complex", torch.sum, over(ALL[-1:], "small", **KEEP)),
    Row("nansum", torch.nansum, over(kind="special", least=1, **KEEP)),
    Row("mean", torch.mean, over(FLOATS, "special", **KEEP)),
    Row("mean to dtype", torch.mean, over(kind="small", **KEEP).map(lambda a: (a[0], {**a[1], "dtype": torch.float32}))),
    Row("nanmean", torch.nanmean, over(FLOATS, "special", least=1, **KEEP)),
    Row("prod", torch.prod, along(kind="special", dtype=WIDER[:3], **KEEP)),
    Row("prod everything", torch.prod, whole(kind="small", dtype=WIDER[:3])),
    Row("amax", torch.amax, over(smallest=1, **KEEP)),
    Row("amin", torch.amin, over(smallest=1, **KEEP)),
    Row("aminmax", torch.aminmax, along(smallest=1, **KEEP).map(named)),
    Row("max", torch.max, whole(smallest=1)),
    Row("min", torch.min, whole(smallest=1)),
    Row("max dim", torch.max, along(smallest=1, **KEEP)),
    Row("min dim", torch.min, along(smallest=1, **KEEP)),
    Row("argmax", torch.argmax, along(NUMBERS, smallest=1, **KEEP)),
    Row("argmin", torch.argmin, along(NUMBERS, smallest=1, **KEEP)),
    Row("argmax everything", torch.argmax, whole(NUMBERS, smallest=1)),
    Row("all", torch.all, over(ALL, **KEEP)),
    Row("any", torch.any, over(ALL, **KEEP)),
    Row("all everything", torch.all, whole(ALL)),
    Row("count_nonzero", torch.count_nonzero, over(ALL)),
    Row("logsumexp", torch.logsumexp, over(FLOATS, least=1, **KEEP)),
    Row("var", torch.var, over(FLOATS, "small", correction=[0, 1, 2, 0.5], **KEEP)),
    Row("std", torch.std, over(FLOATS, "small", correction=[0, 1, 2], **KEEP)),
    Row("var_mean", torch.var_mean, over(FLOATS, "small", correction=[0, 1], **KEEP)),
    Row("std_mean", torch.std_mean, over(FLOATS, "small", **KEEP)),
    Row("var everything", torch.var, whole(FLOATS, "small", unbiased=st.booleans())),
    Row("median", lambda x, d, **k: torch.median(x, d, **k)[0], along(NUMBERS, smallest=1, **KEEP)),
    Row("nanmedian", lambda x, d, **k: torch.nanmedian(x, d, **k)[0], along(NUMBERS, smallest=1, **KEEP)),
    Row("median everything", torch.median, whole(NUMBERS, smallest=1)),
    Row("mode", lambda x, d, **k: torch.mode(x, d, **k)[0], along(NUMBERS, "small", smallest=1, **KEEP)),
    Row("vector_norm", torch.linalg.vector_norm, normed()),
    Row("norm", torch.norm, over(SINGLE, "small", least=1, p=[1, 2, 3], **KEEP).map(named)),
    Row("cumsum", torch.cumsum, along(kind="special", dtype=WIDER[:3])),
    Row("cumprod", torch.cumprod, along(kind="special", dtype=WIDER[:3])),
    Row("cummax", torch.cummax, along(smallest=1)),
    Row("cummin", torch.cummin, along(smallest=1)),
    Row("logcumsumexp", torch.logcumsumexp, along(FLOATS, "special")),
    Row("diff", torch.diff, along(NUMBERS, "special", rank=1, n=[1, 2]).map(named)),
    Row("trace", torch.trace, st.tuples(st.tuples(tensors(NUMBERS, shapes(2, 2), "small")), some())),
    Row("bincount", torch.bincount, st.tuples(st.tuples(st.integers(0, 5).flatmap(lambda n: of_shape((n,), torch.int64, "unit"))), some(minlength=[0, 4])), compared=0.0),
    Row("dist", torch.dist, st.tuples(st.tuples(tensors(SINGLE, kind="small"), numbers("f", "small")).map(lambda a: (a[0], a[0] * 0.5 - 1)), some(p=[0, 1, 2, float("inf")]))),
]  # fmt: skip
