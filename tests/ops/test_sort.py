"""Sorting, the largest elements, and searching in what is sorted."""

import math

import torch
from torch.export import Dim

from .harness import Case, check, params

torch.manual_seed(0)
INF, NAN = math.inf, math.nan
X = torch.randn(2, 5, 4)
ROW = X[0, :, 0].contiguous()
TIES = torch.randint(0, 4, (3, 40))
SPECIAL = torch.tensor([[0.0, -0.0, NAN, -INF, 1, INF, NAN, 1], [-0.0, 0.0, 2, NAN, -1, -1, INF, INF]])
HALF_DTYPES = (torch.float16, torch.bfloat16)
DTYPES = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, *HALF_DTYPES, torch.float64)
S, T = Dim("s", min=4, max=4096), Dim("t", min=4, max=4096)
SHAPES = ((torch.randn(4, 4),), (torch.randn(4096, 5),), (torch.randn(17, 300),))


def sorts():
    for descending in (False, True):
        name = "descending" if descending else "ascending"
        for dim in (-1, 0, 1):
            yield Case(
                f"sort {name} dim {dim}", lambda x, d=dim, r=descending: x.sort(d, r), (X,), decomposed=True
            )
            yield Case(
                f"argsort {name} dim {dim}",
                lambda x, d=dim, r=descending: x.argsort(d, r),
                (X,),
                decomposed=True,
            )
        yield Case(
            f"sort {name} stable",
            lambda x, r=descending: x.sort(stable=True, dim=1, descending=r),
            (TIES,),
            decomposed=True,
        )
        yield Case(
            f"argsort {name} stable",
            lambda x, r=descending: torch.argsort(x, stable=True, dim=1, descending=r),
            (TIES,),
            decomposed=True,
            compiled=True,
        )
        yield Case(
            f"sort {name} axis 0 stable",
            lambda x, r=descending: x.T.sort(dim=0, descending=r, stable=True),
            (TIES,),
        )
        yield Case(
            f"sort {name} special values",
            lambda x, r=descending: x.sort(dim=1, descending=r, stable=True),
            (SPECIAL,),
        )
        yield Case(
            f"order of zeros {name}",
            lambda x, r=descending: 1 / x.sort(dim=1, descending=r, stable=True)[0],
            (SPECIAL,),
        )
        yield Case(f"sort {name} 0-d", lambda x, r=descending: (*x.sort(0, r), x.argsort(-1, r)), (ROW[0],))
        yield Case(
            f"sort {name} bool", lambda x, r=descending: x.sort(dim=1, descending=r, stable=True), (TIES > 1,)
        )
        yield Case(
            f"sort {name} empty", lambda x, r=descending: (*x.sort(0, r), *x.sort(1, r)), (torch.zeros(0, 3),)
        )
        yield Case(
            f"sort {name} empty axis",
            lambda x, r=descending: (*x.sort(0, r), *x.sort(1, r)),
            (torch.zeros(3, 0),),
        )
        for dtype in DTYPES:
            yield Case(
                f"sort {name} {dtype}",
                lambda x, r=descending: x.sort(dim=1, descending=r, stable=True),
                (TIES.to(dtype),),
            )
        for dtype in HALF_DTYPES:
            yield Case(
                f"sort {name} special values {dtype}",
                lambda x, r=descending: x.sort(dim=1, descending=r, stable=True),
                (SPECIAL.to(dtype),),
            )
        yield Case(
            f"sort {name} dynamic",
            lambda x, r=descending: (*x.sort(0, r), *x.sort(-1, r)),
            (torch.randn(6, 5),),
            dynamic=({0: S, 1: T},),
            also=SHAPES,
        )
        for dtype in (torch.uint8, torch.int64):
            edges = torch.tensor([0, torch.iinfo(dtype).max, torch.iinfo(dtype).min, 5], dtype=dtype)
            yield Case(
                f"sort {name} extremes {dtype}",
                lambda x, r=descending: x.sort(dim=0, descending=r, stable=True),
                (edges,),
            )


def topks():
    for largest in (True, False):
        name = "largest" if largest else "smallest"
        for dim in (-1, 0, 1):
            yield Case(
                f"topk {name} dim {dim}", lambda x, d=dim, m=largest: x.topk(2, d, m), (X,), decomposed=True
            )
        yield Case(
            f"topk {name} of many",
            lambda x, m=largest: x.topk(50, 1, m),
            (torch.randn(3, 5000),),
            compiled=True,
        )
        yield Case(
            f"topk {name} of a long axis 0", lambda x, m=largest: x.topk(7, 0, m), (torch.randn(500, 3),)
        )
        yield Case(
            f"topk {name} values of equal", lambda x, m=largest: x.topk(30, 1, m)[0], (TIES.repeat(1, 20),)
        )
        yield Case(f"topk {name} everything", lambda x, m=largest: x.topk(5, 1, m), (X,))
        yield Case(f"topk {name} nothing", lambda x, m=largest: x.topk(0, 1, m), (X,))
        yield Case(f"topk {name} 0-d", lambda x, m=largest: (*x.topk(1, 0, m), *x.topk(1, -1, m)), (ROW[0],))
        nans = torch.randn(2, 400)
        nans[0, 17], nans[0, 5], nans[1, 399] = NAN, INF, -INF
        yield Case(f"topk {name} NaN", lambda x, m=largest: x.topk(4, 1, m), (nans,))
        yield Case(f"topk {name} NaN of few", lambda x, m=largest: x.topk(4, 1, m), (nans[:, :20],))
        for dtype in DTYPES:
            x = torch.stack([torch.randperm(100), torch.randperm(100)]).to(dtype)
            yield Case(f"topk {name} {dtype}", lambda x, m=largest: x.topk(3, 1, m), (x,))
        yield Case(
            f"topk {name} dynamic",
            lambda x, m=largest: (*x.topk(3, 0, m), *x.topk(4, -1, m)),
            (torch.randn(6, 5),),
            dynamic=({0: S, 1: T},),
            also=SHAPES,
        )
        yield Case(
            f"topk {name} dynamic k",
            lambda x, m=largest: x.topk(x.shape[0] - 1, 0, m),
            (torch.randn(6, 2),),
            dynamic=({0: S},),
            also=((torch.randn(4, 2),), (torch.randn(4096, 2),), (torch.randn(17, 2),)),
        )


def searches():
    edges = torch.tensor([1.0, 3, 3, 7])
    values = torch.tensor([[3.0, 0, 7], [9, 4, 1]])
    for right in (False, True):
        side = "right" if right else "left"
        yield Case(
            f"searchsorted {side}", lambda e, v, r=right: torch.searchsorted(e, v, right=r), (edges, values)
        )
        yield Case(
            f"searchsorted side {side}",
            lambda e, v, s=side: torch.searchsorted(e, v, side=s),
            (edges, values),
        )
        yield Case(
            f"bucketize {side}",
            lambda e, v, r=right: torch.bucketize(v, e, right=r),
            (edges, values),
            decomposed=True,
        )
        yield Case(
            f"searchsorted rows {side}",
            lambda e, v, r=right: torch.searchsorted(e, v, right=r),
            (torch.randn(2, 3, 37).sort().values, torch.randn(2, 3, 11)),
        )
        yield Case(
            f"searchsorted rows NaN {side}",
            lambda e, v, r=right: torch.searchsorted(e, v, right=r),
            (
                torch.tensor([[1, 2, 2, INF], [-INF, -1, 0, 1]]),
                torch.tensor([[NAN, 2, INF], [NAN, -INF, -0.0]]),
            ),
        )
        yield Case(
            f"searchsorted NaN {side}",
            lambda e, v, r=right: torch.searchsorted(e, v, right=r),
            (edges, SPECIAL),
        )
        yield Case(
            f"searchsorted int32 result {side}",
            lambda e, v, r=right: torch.searchsorted(e, v, out_int32=True, right=r),
            (edges, values),
        )
        for dtype in DTYPES:
            yield Case(
                f"searchsorted {side} {dtype}",
                lambda e, v, r=right: torch.searchsorted(e, v, right=r),
                (edges.to(dtype), values.to(dtype)),
            )
        yield Case(
            f"searchsorted dynamic {side}",
            lambda e, v, r=right: (torch.searchsorted(e, v, right=r), torch.searchsorted(e[0], v, right=r)),
            (torch.randn(4, 6).sort().values, torch.randn(4, 5)),
            dynamic=({0: S, 1: T}, {0: S, 1: Dim("u", min=4, max=4096)}),
            also=tuple(
                (torch.randn(r, n).sort().values, torch.randn(r, m))
                for r, n, m in ((4, 4, 4), (4096, 4, 5), (5, 4096, 17))
            ),
        )
    sorter = torch.tensor([[1, 0, 3, 2], [0, 1, 2, 3]])
    shuffled = torch.tensor([[3.0, 1, 9, 4], [1, 2, 3, 4]])
    yield Case(
        "searchsorted sorter", lambda e, v, s: torch.searchsorted(e, v, sorter=s), (shuffled, values, sorter)
    )
    yield Case(
        "searchsorted sorter 1-d",
        lambda e, v, s: torch.searchsorted(e, v, sorter=s),
        (shuffled[0], values, sorter[0]),
    )
    yield Case(
        "searchsorted number", lambda e: (torch.searchsorted(e, 3), torch.searchsorted(e, 3.5)), (edges,)
    )
    yield Case("searchsorted fraction in integers", lambda e: torch.searchsorted(e, 3.5), (edges.long(),))
    yield Case(
        "bucketize integers by floats", lambda e, v: torch.bucketize(v, e), (edges + 0.5, values.long())
    )
    yield Case(
        "bucketize floats by integers", lambda e, v: torch.bucketize(v, e), (edges.long(), values + 0.5)
    )
    yield Case("bucketize number", lambda e: torch.bucketize(3, e, out_int32=True, right=True), (edges,))
    yield Case("searchsorted 0-d values", lambda e, v: torch.searchsorted(e, v), (edges, values[0, 0]))
    yield Case("searchsorted nothing", lambda e, v: torch.searchsorted(e, v), (edges[:0], values))
    yield Case("searchsorted no values", lambda e, v: torch.searchsorted(e, v), (edges, values[:0]))
    yield Case("searchsorted non-contiguous", lambda e, v: torch.searchsorted(e, v.T), (edges[::2], values))


def topk_of_item(x, n):
    k = n.item()
    torch._check(k >= 0)
    torch._check(k <= x.shape[0])
    return x.topk(k, 0)


CASES = [
    *sorts(),
    Case(
        "topk of an item",
        topk_of_item,
        (torch.randn(7, 3), torch.tensor(4)),
        also=((torch.randn(7, 3), torch.tensor(6)),),
    ),
    *topks(),
    *searches(),
    Case("msort", lambda x, y: (x.msort(), y.msort()), (X, SPECIAL), decomposed=True),
    Case("msort 0-d and bool", lambda x, y: (x.msort(), y.msort()), (ROW[0], TIES > 2)),
    Case("sort named results", lambda x: x.sort(), (X,)),
    Case("topk unsorted", lambda x: x.topk(3, sorted=False)[0].sort()[0], (X,)),
    Case("argsort differences", lambda x: x.argsort(1) - x.argsort(1).argsort(1), (X,), compiled=True),
    Case("kthvalue", lambda x: (*x.kthvalue(2), *x.kthvalue(1, 0), *x.kthvalue(5, 1, keepdim=True)), (X,)),
    Case(
        "kthvalue NaN",
        lambda x: (*x.kthvalue(2, 1), *x.kthvalue(5, 1)),
        (torch.tensor([[3, NAN, 1, INF, -INF]]),),
    ),
    Case("kthvalue 0-d", lambda x: (*x.kthvalue(1), *x.kthvalue(1, 0, keepdim=True)), (ROW[0],)),
    Case(
        "kthvalue integers",
        lambda x: x.kthvalue(3, 1),
        (torch.stack([torch.randperm(9), torch.randperm(9)]),),
    ),
    Case(
        "kthvalue dynamic",
        lambda x: (*x.kthvalue(3, 0), *x.kthvalue(4, -1)),
        (torch.randn(6, 5),),
        dynamic=({0: S, 1: T},),
        also=SHAPES,
    ),
]


@params(CASES)
def test_sort(case, tmp_path):
    check(case, tmp_path)
