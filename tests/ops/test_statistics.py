"""Variances, medians, modes and quantiles."""

import math

import torch
from torch.export import Dim

from .harness import Case, check, params

torch.manual_seed(0)
INF, NAN = math.inf, math.nan
X = torch.randn(2, 5, 4)
NANS = torch.tensor([[3, NAN, 1, NAN, 2], [NAN, NAN, NAN, NAN, NAN], [2, INF, 1, -INF, 0]])
PERMUTED = torch.stack([torch.randperm(8), torch.randperm(8)])
HALF_DTYPES = (torch.float16, torch.bfloat16)
S, T = Dim("s", min=2, max=4096), Dim("t", min=2, max=4096)
SHAPES = ((torch.randn(2, 2),), (torch.randn(4096, 3),), (torch.randn(17, 300),))
MOMENTS = {"var": torch.var, "std": torch.std, "var_mean": torch.var_mean, "std_mean": torch.std_mean}


def moments():
    for name, f in MOMENTS.items():
        yield Case(f"{name} everything", lambda x, f=f: f(x), (X,), decomposed=True)
        yield Case(f"{name} biased", lambda x, f=f: f(x, unbiased=False), (X,))
        yield Case(f"{name} dim", lambda x, f=f: f(x, -1), (X,), decomposed=True)
        yield Case(f"{name} positional", lambda x, f=f: f(x, (0, 2), False, True), (X,))
        for correction in (0, 1, 2, 0.5, 5, 7):
            yield Case(
                f"{name} correction {correction}",
                lambda x, f=f, c=correction: f(x, dim=1, correction=c, keepdim=True),
                (X,),
                decomposed=True,
            )
        yield Case(f"{name} no dims", lambda x, f=f: f(x, dim=()), (X,))
        yield Case(f"{name} special values", lambda x, f=f: f(x, 1), (NANS,))
        yield Case(f"{name} 0-d", lambda x, f=f: f(x, dim=0, correction=0), (X[0, 0, 0],))
        yield Case(f"{name} of one", lambda x, f=f: f(x, dim=0), (X[:1],))
        yield Case(f"{name} of nothing", lambda x, f=f: f(x, dim=0), (torch.zeros(0, 3),))
        yield Case(f"{name} nothing left", lambda x, f=f: f(x, dim=1), (torch.zeros(0, 3),))
        yield Case(f"{name} float64", lambda x, f=f: f(x, 1), (X.double(),))
        yield Case(f"{name} complex", lambda x, f=f: f(x), (torch.randn(3, 4, dtype=torch.complex64),))
        for dtype in HALF_DTYPES:
            yield Case(f"{name} {dtype}", lambda x, f=f: f(x, 1), (X.to(dtype),))
            yield Case(
                f"{name} large {dtype}", lambda x, f=f: f(x), (torch.randn(5000).mul(200).add(300).to(dtype),)
            )
        yield Case(f"{name} offset", lambda x, f=f: f(x, 1), (torch.randn(2, 30_000) + 1000,))
        yield Case(
            f"{name} dynamic",
            lambda x, f=f: (f(x, 0), f(x, 1, keepdim=True)),
            (torch.randn(4, 3),),
            dynamic=({0: S, 1: T},),
            also=SHAPES,
        )


def flat(*results):
    """The results of all calls, one after another."""
    return [leaf for result in results for leaf in (result if isinstance(result, tuple) else [result])]


def medians():
    for name, f in {"median": torch.median, "nanmedian": torch.nanmedian}.items():
        yield Case(f"{name} everything", lambda x, f=f: f(x), (X,))
        yield Case(f"{name} dims", lambda x, f=f: flat(f(x, -1), f(x, 0), f(x, 1, keepdim=True)), (X,))
        yield Case(f"{name} NaN", lambda x, f=f: flat(f(x), f(x, 1)[0], f(x[::2], 1)), (NANS,))
        yield Case(f"{name} 0-d", lambda x, f=f: flat(f(x), f(x, 0), f(x, -1, keepdim=True)), (X[0, 0, 0],))
        yield Case(f"{name} of nothing", lambda x, f=f: f(x), (torch.zeros(0),))
        yield Case(f"{name} named results", lambda x, f=f: f(x, 1), (X,))
        for dtype in (torch.uint8, torch.int32, torch.int64, *HALF_DTYPES, torch.float64):
            yield Case(f"{name} {dtype}", lambda x, f=f: flat(f(x), f(x, 1)), (PERMUTED.to(dtype),))
        yield Case(
            f"{name} dynamic",
            lambda x, f=f: flat(f(x), f(x, 0), f(x, -1)),
            (torch.randn(4, 3),),
            dynamic=({0: S, 1: T},),
            also=(*SHAPES[:2], (torch.where(torch.rand(17, 300) < 0.1, NAN, torch.randn(17, 300)),)),
        )


def quantiles():
    q = torch.tensor([0.0, 0.3, 0.5, 1.0])
    for name, f in {"quantile": torch.quantile, "nanquantile": torch.nanquantile}.items():
        for how in ("linear", "lower", "higher", "midpoint", "nearest"):
            yield Case(f"{name} {how}", lambda x, q, f=f, h=how: f(x, q, dim=1, interpolation=h), (X, q))
            yield Case(
                f"{name} {how} NaN", lambda x, q, f=f, h=how: f(x, q, dim=1, interpolation=h), (NANS, q)
            )
        yield Case(f"{name} number", lambda x, f=f: (f(x, 0.25), f(x, 0.6, dim=0, keepdim=True)), (X,))
        yield Case(f"{name} float64", lambda x, q, f=f: f(x, q), (X.double(), q.double()))
        yield Case(
            f"{name} dynamic",
            lambda x, f=f: f(x, 0.4, dim=0),
            (torch.randn(4, 3),),
            dynamic=({0: S},),
            also=((torch.randn(2, 3),), (torch.randn(4096, 3),), (torch.randn(17, 3),)),
        )


CASES = [
    *moments(),
    *medians(),
    *quantiles(),
    Case(
        "mode",
        lambda x: flat(x.mode(), x.mode(0), x.mode(1, keepdim=True)),
        (torch.randint(0, 3, (4, 9, 5)),),
    ),
    Case(
        "mode of floats",
        lambda x: x.mode(),
        (torch.tensor([[2.0, 1, 1, 2, 3, 2, 1], [0, 5, 5, 5, 0, 0, 7]]),),
    ),
    Case("mode NaN", lambda x: x.mode(), (torch.tensor([NAN, NAN, NAN, 2, 2]),)),
    Case("mode of all different", lambda x: x.mode(1), (PERMUTED,)),
    Case("mode 0-d and bool", lambda x, y: flat(x.mode(0), y.mode(-1)), (X[0, 0, 0], PERMUTED > 5)),
    Case("mode half", lambda x: x.mode(), (torch.randint(0, 3, (4, 9)).half(),)),
    Case(
        "mode dynamic",
        lambda x: flat(x.mode(0), x.mode(-1)),
        (torch.randint(0, 2, (4, 3)),),
        dynamic=({0: S, 1: T},),
        also=(
            (torch.tensor([[1, 0], [0, 0]]),),
            (torch.randint(0, 2, (7, 12)),),
            (torch.randint(0, 3, (12, 2)),),
        ),
    ),
]


@params(CASES)
def test_statistics(case, tmp_path):
    check(case, tmp_path)
