"""Values at the edges of each dtype, and rows that put an op through all pairs of them."""

from collections.abc import Callable, Iterable
from typing import Any

import torch

from .harness import Case

INF, NAN = float("inf"), float("nan")
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
HALVES = (torch.float16, torch.bfloat16)
FLOATS = (*HALVES, torch.float32, torch.float64)
REAL = (torch.bool, *INTEGERS, *FLOATS)
FEW = (torch.bool, torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.float32)


def edges(dtype: torch.dtype, *, zero: bool = True, least: bool = True) -> torch.Tensor:
    """Values where implementations differ. zero, least: whether 0 and the least integer are among them."""
    if dtype == torch.bool:
        values: list[Any] = [True, False]
    elif dtype.is_floating_point:
        values = [
            0.0,
            -0.0,
            1,
            -1,
            0.1,
            -0.1,
            0.5,
            -0.5,
            2,
            2.5,
            -7.5,
            6,
            1e-3,
            300,
            1e4,
            -3e4,
            INF,
            -INF,
            NAN,
            1 / 3,
        ]
    else:
        info = torch.iinfo(dtype)
        values = (
            [info.min] * least
            + [n for n in (-7, -3, -2, -1, 0, 1, 2, 3, 7, 100) if n > info.min]
            + [info.max]
        )
    return torch.tensor([v for v in values if zero or v != 0], dtype=dtype)


def grid(
    name: str,
    fn: Callable[..., Any],
    first: Iterable[torch.dtype] = REAL,
    second: Iterable[torch.dtype] | None = None,
    *,
    same: bool = False,
    skip: Callable[[torch.dtype, torch.dtype], bool] = lambda a, b: False,
    zero: bool = True,
    least: bool = True,
    **options: Any,
) -> Case:
    """One row: fn of all pairs of edges of all pairs of dtypes (or of each with itself).

    zero, least: as for `edges`, for the second operand; skip: pairs of dtypes that PyTorch refuses.
    """
    first = tuple(first)
    second = first if second is None else tuple(second)
    xs = [edges(d)[:, None] for d in first]
    ys = [edges(d, zero=zero, least=least)[None] for d in second]

    def run(xs: Any, ys: Any) -> Any:
        wanted = [
            (x, y) for x in xs for y in ys if not skip(x.dtype, y.dtype) and (x.dtype == y.dtype or not same)
        ]
        return [fn(x, y) for x, y in wanted]

    return Case(name, run, (xs, ys), **options)


def each(name: str, fn: Callable[..., Any], dtypes: Iterable[torch.dtype] = REAL, **options: Any) -> Case:
    """One row: fn of the edges of each dtype."""
    return Case(name, lambda xs: [fn(x) for x in xs], ([edges(d) for d in dtypes],), **options)
