"""Reductions: sums, products, means, extremes and their positions, any and all."""

import math

import torch
from torch.export import Dim

from .harness import Case, check, params

torch.manual_seed(0)
INF, NAN = math.inf, math.nan
X = torch.randn(2, 3, 4)
NANS = torch.tensor([[1.0, NAN, 3], [INF, 2, -INF], [NAN, NAN, NAN], [INF, INF, 0]])
INTS = torch.tensor([[3, -7, 0], [2, 5, 5]])
BIG = torch.tensor([[2**30, 2**30, 2**30, 2**30], [-(2**31), -1, 7, 2**31 - 1]], dtype=torch.int32)
HALF_DTYPES = (torch.float16, torch.bfloat16)
INT_DTYPES = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
S, T = Dim("s", min=1, max=4096), Dim("t", min=1, max=4096)
SUMS = {"sum": torch.sum, "mean": torch.mean, "nansum": torch.nansum}
OTHERS = {
    "amax": torch.amax,
    "amin": torch.amin,
    "any": torch.any,
    "all": torch.all,
    "logsumexp": torch.logsumexp,
}
DIMS = {**SUMS, **OTHERS}


def forms():
    """Every reduction over every kind of dims."""
    for name, f in DIMS.items():
        yield Case(f"{name} dim -1", lambda x, f=f: f(x, dim=-1), (X,), decomposed=True)
        yield Case(f"{name} dim 0 keepdim", lambda x, f=f: f(x, dim=0, keepdim=True), (X,), decomposed=True)
        yield Case(f"{name} dims", lambda x, f=f: f(x, dim=(0, -1)), (X,), decomposed=True)
        yield Case(
            f"{name} dims keepdim", lambda x, f=f: f(x, dim=(2, 1), keepdim=True), (X,), decomposed=True
        )
        yield Case(f"{name} 0-d", lambda x, f=f: (f(x, dim=0), f(x, dim=-1, keepdim=True)), (X[0, 0, 0],))
        yield Case(f"{name} non-contiguous", lambda x, f=f: f(x.transpose(0, 2), dim=1), (X,))
        yield Case(f"{name} nothing left", lambda x, f=f: f(x, dim=1), (torch.zeros(0, 3),))
        yield Case(f"{name} special values", lambda x, f=f: (f(x, dim=0), f(x, dim=1)), (NANS,))
        for dtype in HALF_DTYPES:
            yield Case(f"{name} {dtype}", lambda x, f=f: f(x, dim=1), (X.to(dtype),))
        yield Case(f"{name} float64", lambda x, f=f: f(x, dim=1), (X.double(),))
        yield Case(
            f"{name} dynamic",
            lambda x, f=f: (f(x, dim=-1), f(x, dim=0, keepdim=True), f(x, dim=(0, 1))),
            (torch.randn(4, 3),),
            dynamic=({0: S, 1: T},),
            also=((torch.randn(1, 1),), (torch.randn(4096, 2),), (torch.randn(17, 300),)),
        )
    for name, f in {
        **SUMS,
        "amax": torch.amax,
        "amin": torch.amin,
        "any": torch.any,
        "all": torch.all,
    }.items():
        yield Case(f"{name} everything", lambda x, f=f: f(x), (X,), decomposed=True)
        if name != "nansum":  # whose metadata torch.export gets wrong: it keeps all axes
            yield Case(f"{name} no dims", lambda x, f=f: f(x, dim=()), (X,), decomposed=True)
    for name in ("sum", "mean", "any", "all"):
        overload = getattr(
            getattr(torch.ops.aten, name), {"sum": "dim_IntList", "mean": "dim"}.get(name, "dims")
        )
        yield Case(f"{name} dim None keepdim", lambda x, f=overload: f(x, None, True), (X,), decomposed=True)
    for name in ("sum", "nansum", "any", "all"):
        f = DIMS[name]
        shapes = (0, 3), (3, 0), (0,)
        yield Case(f"{name} of nothing", lambda *xs, f=f: [f(x) for x in xs], tuple(map(torch.zeros, shapes)))
        yield Case(f"{name} of no rows", lambda x, f=f: (f(x, dim=0), f(x, dim=(0, 1))), (torch.zeros(0, 3),))


def dtypes():
    for dtype in INT_DTYPES:
        x = INTS.abs().to(dtype) if dtype in (torch.bool, torch.uint8) else INTS.to(dtype)
        for name in ("sum", "prod", "nansum", "any", "all", "amax", "amin", "max", "min"):
            f = getattr(torch, name)
            yield Case(f"{name} {dtype}", lambda x, f=f: f(x), (x,))
        for name in ("any", "all", "amax", "amin", "sum", "prod"):
            f = getattr(torch, name)
            yield Case(f"{name} rows {dtype}", lambda x, f=f: f(x, dim=1), (x,))
        yield Case(f"max dim {dtype}", lambda x: (*torch.max(x, 1), *torch.min(x, 0, keepdim=True)), (x,))
    yield Case("sum of uint8, subtracted", lambda x: x.sum(0) - x.sum(0) * 2, (INTS.abs().byte(),))
    yield Case("sum and prod of int32 in int64", lambda x: (x.sum(1), x.prod(1), x.sum(), x.prod()), (BIG,))
    yield Case("sum to int32 wraps", lambda x: x.sum(1, dtype=torch.int32), (BIG,))
    yield Case("prod to int32 wraps", lambda x: x.prod(1, dtype=torch.int32), (BIG,))
    yield Case("sum of floats as integers", lambda x: x.sum(0, dtype=torch.int64), (X * 3,))
    yield Case("sum of integers as floats", lambda x: x.sum(dtype=torch.float32), (BIG,))
    yield Case("sum as bool", lambda x: x.sum(0, dtype=torch.bool), (X,))
    yield Case(
        "sum of halves as float32",
        lambda x: x.sum(dtype=torch.float32),
        (torch.full((3, 40000), 3.0).half(),),
    )
    yield Case("prod as float64", lambda x: x.prod(1, dtype=torch.float64), (INTS,))
    yield Case("mean of integers as floats", lambda x: x.mean(1, dtype=torch.float32), (INTS,))
    yield Case("nansum as float64", lambda x: torch.nansum(x, 1, dtype=torch.float64), (NANS,))
    yield Case("sum of int64 beyond 2**53", lambda x: x.sum(), (torch.tensor([2**60 + 1, 2**60, -3]),))
    for name in ("sum", "mean", "prod"):
        f = getattr(torch, name)
        yield Case(
            f"{name} complex", lambda x, f=f: (f(x), f(x, dim=1)), (torch.randn(2, 3, dtype=torch.complex64),)
        )
    yield Case("any, all complex", lambda x: (x.any(0), x.all(0)), (torch.tensor([[1j, 0], [0, 0]]),))


def accuracy():
    """What adding float32 or halves one after another would get wrong."""
    tenth = torch.full((1_000_003,), 0.1)
    rows = torch.rand(3, 100_001)
    yield Case("a million tenths", lambda x: (x.sum(), x.mean()), (tenth,), compiled=True)
    yield Case("long rows", lambda x: (x.sum(1), x.mean(1), x.sum(), x.transpose(0, 1).sum(0)), (rows,))
    yield Case(
        "long columns", lambda x: (x.sum(0), x.mean((0, 1)), x.sum(0, keepdim=True)), (rows.T.contiguous(),)
    )
    yield Case(
        "long axes", lambda x: (x.sum((0, 1)), x.sum((1, 2), keepdim=True)), (torch.rand(300, 4, 600) + 1,)
    )
    yield Case("images", lambda x: x.mean((2, 3)), (torch.rand(2, 5, 56, 56),))
    yield Case("more ones than float32 can count", lambda x: x.sum(), (torch.ones(2**24 + 1000),))
    yield Case("complex", lambda x: x.sum(), (torch.full((100_000,), 0.1 + 0.3j, dtype=torch.complex64),))
    for dtype in HALF_DTYPES:
        x = torch.full((3, 3000), 1000.0, dtype=dtype)
        yield Case(f"means beyond half {dtype}", lambda x: (x.mean(), x.mean(1)), (x,))
        yield Case(
            f"small halves {dtype}", lambda x: (x.sum(), x.sum(0)), (torch.full((5000, 2), 0.1, dtype=dtype),)
        )
    yield Case("a half sum that overflows", lambda x: x.sum(), (torch.full((70000,), 1.0).half(),))


CASES = [
    *forms(),
    *dtypes(),
    *accuracy(),
    Case("mean of nothing", lambda x: (x.mean(), x.mean(0), x.mean(1)), (torch.zeros(0, 3),)),
    Case("mean of no columns", lambda x: (x.mean(), x.mean(0), x.mean(1)), (torch.zeros(3, 0),)),
    Case("prod of nothing", lambda x: (x.prod(), x.prod(0), x.prod(1)), (torch.zeros(0, 3),)),
    Case("prod of no columns", lambda x: (x.prod(), x.prod(0), x.prod(1)), (torch.zeros(3, 0),)),
    Case("all of no columns", lambda x: (x.all(), x.all(0), x.all(1), x.any(1)), (torch.zeros(3, 0),)),
    Case(
        "prod dim keepdim", lambda x: (x.prod(-1), x.prod(0, keepdim=True), x.prod()), (X,), decomposed=True
    ),
    # PyTorch rounds every product to half on a CPU; here it is rounded once.
    Case("prod half", lambda x: (x.prod(), x.prod(0)), (torch.rand(5, 4).half() + 0.5,), (4e-3, 1e-4)),
    Case("prod 0-d", lambda x: (x.prod(0), x.prod(-1, keepdim=True)), (X[0, 0, 0],)),
    Case("prod special values", lambda x: (x.prod(0), x.prod(1)), (NANS,)),
    Case("max, min everything", lambda x: (x.max(), x.min()), (X,), decomposed=True),
    Case("max, min NaN", lambda x: (x.max(), x.min(), *x.max(1), *x.min(1), *x.max(0), *x.min(0)), (NANS,)),
    Case("max, min dim", lambda x: (*x.max(-1), *x.min(0), *x.max(1, keepdim=True)), (X,), decomposed=True),
    Case(
        "max dim first of equal",
        lambda x: (*x.max(1), *x.min(1)),
        (torch.tensor([[1, 2, 2, 1], [0, 0, 0, 0]]),),
    ),
    Case("max dim of bool", lambda x: (*x.max(1), *x.min(1)), (X[0] > 0,)),
    Case("max dim 0-d", lambda x: (*x.max(0), *x.min(-1, keepdim=True)), (X[0, 0, 0],)),
    Case("max dim nothing left", lambda x: (*x.max(1), *x.min(1, keepdim=True)), (torch.zeros(0, 3),)),
    Case("max dim named results", lambda x: x.max(0), (X,)),
    Case("max dim half NaN", lambda x: (*x.max(1), *x.min(0)), (NANS.half(),)),
    Case("max dim bfloat16 NaN", lambda x: (*x.max(1), *x.min(0)), (NANS.bfloat16(),)),
    Case("max of two", lambda x: (torch.max(x, -x), torch.min(x, -x)), (X,)),
    Case("aminmax", lambda x: (*x.aminmax(), *x.aminmax(dim=-1), *x.aminmax(dim=0, keepdim=True)), (X,)),
    Case("aminmax NaN and 0-d", lambda x, y: (*x.aminmax(dim=1), *y.aminmax(dim=0)), (NANS, X[0, 0, 0])),
    Case("aminmax named results", lambda x: x.aminmax(), (X,), decomposed=True),
    Case(
        "argmax, argmin", lambda x: (x.argmax(), x.argmin(), x.argmax(-1), x.argmin(0)), (X,), decomposed=True
    ),
    Case(
        "argmax keepdim", lambda x: (x.argmax(1, keepdim=True), x.argmin(keepdim=True)), (X,), decomposed=True
    ),
    Case("argmax differences", lambda x: x.argmin(1) - x.argmax(1), (X,), compiled=True),
    Case("argmax compared with 0", lambda x: -x.argmax(1) < 0, (X,)),
    Case("argmax first of equal", lambda x: (x.argmax(1), x.argmin(1)), (torch.ones(3, 5),)),
    Case("argmax NaN", lambda x: (x.argmax(1), x.argmin(1), x.argmax(), x.argmin(0)), (NANS,)),
    Case("argmax half NaN", lambda x: (x.argmax(1), x.argmin(1)), (NANS.half(),)),
    Case("argmax integers", lambda x: (x.argmax(1), x.argmin()), (INTS,)),
    Case("argmax uint8", lambda x: (x.argmax(1), x.argmin()), (INTS.abs().byte(),)),
    Case(
        "argmax 0-d",
        lambda x: (x.argmax(0), x.argmin(-1, keepdim=True), x.argmax(keepdim=True)),
        (X[0, 0, 0],),
    ),
    Case("argmax nothing left", lambda x: x.argmax(1), (torch.zeros(0, 3),)),
    Case(
        "argmax dynamic",
        lambda x: (x.argmax(), x.argmax(0), x.argmin(1, keepdim=True), x.argmax(keepdim=True)),
        (torch.randn(4, 3),),
        dynamic=({0: S, 1: T},),
        also=((torch.randn(1, 1),), (torch.randn(4096, 2),), (torch.randn(7, 300),)),
    ),
    Case(
        "max dim dynamic",
        lambda x: (*x.max(0), *x.min(1), x.prod(0)),
        (torch.randn(4, 3),),
        dynamic=({0: S, 1: T},),
        also=((torch.randn(1, 1),), (torch.randn(4096, 2),), (torch.randn(7, 300),)),
    ),
    Case("any, all NaN and uint8", lambda x: (x.any(1), x.all(1)), (NANS,), decomposed=True),
    Case("any, all of uint8", lambda x: (x.any(), x.all(), x.any(0), x.all((0, 1))), (INTS.abs().byte(),)),
    Case("any no dims of uint8", lambda x: x.any(dim=()), (INTS.abs().byte(),)),
    Case("is all true", lambda x: (torch.ops.aten._is_all_true(x), torch.ops.aten._is_any_true(x)), (X > 0,)),
    Case(
        "count_nonzero", lambda x: (x.count_nonzero(), x.count_nonzero(0), x.count_nonzero((0, -1))), (NANS,)
    ),
    Case(
        "count_nonzero integers", lambda x: (torch.count_nonzero(x), torch.count_nonzero(x, dim=())), (INTS,)
    ),
    Case("count_nonzero bool 0-d", lambda x: torch.count_nonzero(x, 0), (torch.tensor(True),)),
    Case(
        "logsumexp complex", lambda x: torch.logsumexp(x, 1), (torch.randn(3, 4, dtype=torch.complex64) * 5,)
    ),
    Case("logsumexp of integers", lambda x: torch.logsumexp(x, 1), (INTS,)),
    Case("special_logsumexp", lambda x: torch.special.logsumexp(x, (0, 1), True), (X * 50,)),
    Case("logsumexp of nothing", lambda x: torch.logsumexp(x, 0), (torch.zeros(0, 3),)),
    Case("logsumexp of a vocabulary", lambda x: torch.logsumexp(x, 1), (torch.randn(2, 50257) * 3,)),
    Case("logsumexp offset 1e4", lambda x: torch.logsumexp(x + 1e4, 1), (X,), compiled=True),
    Case("nanmean", lambda x: (x.nanmean(), x.nanmean(1), x.nanmean((0, 1), keepdim=True)), (NANS[:2, :2],)),
    Case("nanmean half", lambda x: x.nanmean(1), (NANS.half(),)),
    Case("nanmean as float64", lambda x: x.nanmean(1, dtype=torch.float64), (NANS,)),
]


@params(CASES)
def test_reduce(case, tmp_path):
    check(case, tmp_path)
