"""Running sums, products and extremes along an axis, and differences."""

import math

import torch
from torch.export import Dim

from .harness import Case, check, params

torch.manual_seed(0)
INF, NAN = math.inf, math.nan
X = torch.randn(2, 3, 4)
SPECIAL = torch.tensor([[1, 1, NAN, 3, NAN, 2], [INF, -INF, 1, INF, 0, -0.0], [-INF, -INF, 1, 2, INF, 1]])
INTS = torch.tensor([[3, -7, 0, 3], [2, 5, 5, 1]])
HALF_DTYPES = (torch.float16, torch.bfloat16)
INT_DTYPES = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
S, T = Dim("s", min=1, max=4096), Dim("t", min=1, max=4096)
SHAPES = ((torch.randn(1, 1),), (torch.randn(4096, 2) / 64,), (torch.randn(17, 300) / 8,))
SUMS = {"cumsum": torch.cumsum, "cumprod": torch.cumprod}
ALL = {**SUMS, "cummax": torch.cummax, "cummin": torch.cummin, "logcumsumexp": torch.logcumsumexp}


def flat(*results):
    """The results of all calls, one after another."""
    return [leaf for result in results for leaf in (result if isinstance(result, tuple) else [result])]


def scans():
    for name, f in ALL.items():
        for dim in (-1, 0, 1):
            yield Case(f"{name} dim {dim}", lambda x, f=f, d=dim: f(x, d), (X,), decomposed=True)
        yield Case(f"{name} 0-d", lambda x, f=f: flat(f(x, 0), f(x, -1)), (X[0, 0, 0],))
        yield Case(f"{name} special values", lambda x, f=f: f(x, 1), (SPECIAL,))
        yield Case(f"{name} empty", lambda x, f=f: flat(f(x, 0), f(x, 1)), (torch.zeros(0, 3),))
        yield Case(f"{name} empty axis", lambda x, f=f: flat(f(x, 0), f(x, 1)), (torch.zeros(3, 0),))
        yield Case(f"{name} non-contiguous", lambda x, f=f: f(x.transpose(0, 2), 1), (X,))
        # MLX's logcumsumexp has float32's precision for a float64.
        tolerance = (1e-7, 1e-7) if f is torch.logcumsumexp else None
        yield Case(f"{name} float64", lambda x, f=f: f(x, 1), (X.double(),), tolerance)
        for dtype in HALF_DTYPES:
            yield Case(f"{name} special values {dtype}", lambda x, f=f: f(x, 1), (SPECIAL.to(dtype),))
        yield Case(
            f"{name} dynamic",
            lambda x, f=f: flat(f(x, 0), f(x, -1)),
            (torch.randn(4, 3),),
            dynamic=({0: S, 1: T},),
            also=SHAPES,
        )
    for name in ("cummax", "cummin", "cumsum", "cumprod"):
        for dtype in INT_DTYPES:
            x = INTS.abs().to(dtype) if dtype in (torch.bool, torch.uint8) else INTS.to(dtype)
            yield Case(f"{name} {dtype}", lambda x, f=ALL[name]: f(x, 1), (x,))


def sums():
    for dtype in HALF_DTYPES:
        yield Case(f"cumsum {dtype}", lambda x: x.cumsum(1), (X.to(dtype),))
        yield Case(
            f"cumsum of many {dtype}", lambda x: x.cumsum(0), (torch.full((5000, 2), 0.1, dtype=dtype),)
        )
        # PyTorch rounds each running product to half on a CPU; here it is rounded once.
        close = (2e-3, 1e-4) if dtype == torch.float16 else (2e-2, 1e-3)
        yield Case(f"cumprod {dtype}", lambda x: x.cumprod(1), (X.to(dtype),), close)
    small = torch.tensor([100, 100, 100], dtype=torch.int8)
    yield Case("cumsum int8 beyond int8", lambda x: (x.cumsum(0), x.cumprod(0)), (small,))
    yield Case(
        "cumsum int8 in int8",
        lambda x: (x.cumsum(0, dtype=torch.int8), x.cumprod(0, dtype=torch.int8)),
        (small,),
    )
    yield Case(
        "cumsum of floats as int64",
        lambda x: x.cumsum(0, dtype=torch.int64),
        (torch.tensor([0.7, 0.7, 0.7]),),
    )
    yield Case("cumsum of halves as float32", lambda x: x.cumsum(1, dtype=torch.float32), (X.half(),))
    yield Case("cumsum of integers as half", lambda x: x.cumsum(1, dtype=torch.float16), (INTS,))
    yield Case("cumsum of bool as float64", lambda x: x.cumsum(1, dtype=torch.float64), (INTS > 0,))
    yield Case("cumprod as float64", lambda x: x.cumprod(1, dtype=torch.float64), (INTS,))
    yield Case("cumsum beyond 2**24", lambda x: x.cumsum(0)[-3:], (torch.ones(2**24 + 1000),))
    yield Case(
        "cumsum of a million tenths",
        lambda x: x.cumsum(0)[::1000],
        (torch.full((1_000_003,), 0.1),),
        compiled=True,
    )
    yield Case("cumsum of long columns", lambda x: x.cumsum(0), (torch.rand(10_000, 3),))
    yield Case("cumsum of a mask", lambda x: (x.cumsum(1) - 1) * x, ((INTS > 1).long(),), compiled=True)
    yield Case(
        "cumsum complex", lambda x: (x.cumsum(1), x.cumprod(1)), (torch.randn(2, 3, dtype=torch.complex64),)
    )
    # PyTorch adds one logarithm after another in float32 as well; neither rounds the same way.
    yield Case("logcumsumexp of many", lambda x: x.logcumsumexp(0), (torch.randn(3000, 2),), (2e-5, 1e-5))
    for dtype in HALF_DTYPES:
        # PyTorch rounds each running value to half; here it is rounded once.
        yield Case(f"logcumsumexp {dtype}", lambda x: x.logcumsumexp(1), (X.to(dtype),), (1e-2, 1e-2))


CASES = [
    *scans(),
    *sums(),
    Case(
        "cummax of equal elements",
        lambda x: (*x.cummax(1), *x.cummin(1)),
        (torch.tensor([[1, 1, 0, 1, 2, 2, 0, 0]]),),
    ),
    Case("cummax named results", lambda x: x.cummax(0), (X,), compiled=True),
    Case("diff", lambda x: (x.diff(), x.diff(dim=0), x.diff(n=2, dim=1)), (X,), decomposed=True),
    Case("diff 0 ignores the rest", lambda x: x.diff(n=0, prepend=x, append=x), (X,)),
    Case("diff 0 and too many times", lambda x: (x.diff(n=0), x.diff(n=5), x.diff(n=4)), (X,)),
    Case("diff bool", lambda x: x.diff(dim=1), (X > 0,)),
    Case("diff uint8 wraps", lambda x: x.diff(), (torch.tensor([5, 3, 200], dtype=torch.uint8),)),
    Case(
        "diff prepend, append",
        lambda x, y: (x.diff(prepend=y), x.diff(append=y), x.diff(1, -1, y, y)),
        (X, X[..., :1]),
    ),
    Case("diff prepend promotes", lambda x, y: x.diff(prepend=y), (INTS, torch.randn(2, 1))),
    Case("diff half", lambda x: x.diff(), (X.half(),)),
    Case("diff of one element", lambda x: x.diff(), (X[0, 0, :1],)),
    Case(
        "diff dynamic",
        lambda x: (x.diff(dim=0), x.diff(n=2)),
        (torch.randn(5, 6),),
        dynamic=({0: Dim("r", min=3, max=64), 1: Dim("c", min=4, max=64)},),
        also=((torch.randn(3, 4),), (torch.randn(64, 64),), (torch.randn(5, 17),)),
    ),
    Case(
        "trapezoid",
        lambda x, y: (torch.trapezoid(x), torch.trapezoid(x, dx=0.5, dim=0), torch.trapz(x, y)),
        (X, X**2),
    ),
    Case("trapezoid integers", lambda x: (torch.trapezoid(x), torch.trapezoid(x, dx=2)), (INTS,)),
    Case(
        "cumulative_trapezoid",
        lambda x, y: (torch.cumulative_trapezoid(x), torch.cumulative_trapezoid(x, y, dim=0)),
        (X, X**2),
    ),
]


@params(CASES)
def test_scan(case, tmp_path):
    check(case, tmp_path)
