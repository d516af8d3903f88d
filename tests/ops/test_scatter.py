"""Writing by index."""

import mlx.core as mx
import numpy as np
import pytest
import torch
from torch.export import Dim

from mlxify.isa import INSTRUCTIONS

from .harness import Case, check, params

A = torch.ops.aten
NAN, INF = float("nan"), float("inf")
HALVES = (torch.float16, torch.bfloat16)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
DTYPES = (torch.bool, *INTEGERS, *HALVES, torch.float32, torch.float64, torch.complex64)
REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")

X = torch.arange(24.0).reshape(2, 3, 4)
Y = torch.arange(20.0).reshape(4, 5)
IX = torch.tensor(
    [[0, 2, 1, 2], [3, 0, 0, 2]]
)  # of Y, along axis 0; 2 and 0 come twice in one column or other
S = torch.tensor([[0.5, -1.0, 2.0, 3.0, 9.0], [4.0, -5.0, 0.25, 7.0, 9.0], [9.0, 9.0, 9.0, 9.0, 9.0]])
T = torch.tensor([0, 0, 1, 1, 2, 2])
V = torch.tensor([NAN, 5.0, 1.0, 7.0, 3.0, NAN])
BASE = torch.tensor([1.0, NAN, 2.0, -INF])


def scatter(dim, **options):
    return lambda x, i, s: x.scatter(dim, i, s, **options)


def scatter_reduce(dim, reduce, include_self=True):
    return lambda x, i, s: x.scatter_reduce(dim, i, s, reduce, include_self=include_self)


def index_reduce(dim, reduce, include_self=True):
    return lambda x, i, s: x.index_reduce(dim, i, s, reduce, include_self=include_self)


SCATTER = [
    *[Case(f"scatter {dtype}", scatter(0), (Y.to(dtype), IX, S.to(dtype))) for dtype in DTYPES],
    Case("scatter dim -1", scatter(-1), (Y, IX, S), decomposed=True, compiled=True),
    Case("scatter size 1 elsewhere", scatter(0), (Y, torch.tensor([[3], [1]]), S)),
    Case("scatter full size", scatter(1), (Y, torch.tensor([[4, 0]] * 4), torch.randn(4, 3))),
    Case("scatter int32 index", scatter(0), (Y, IX.int(), S)),
    Case("scatter 0-d", scatter(0), (torch.tensor(1.0), torch.tensor(0), torch.tensor(5.0))),
    Case("scatter 0-d self", scatter(-1), (torch.tensor(1.0), torch.tensor([0]), torch.tensor([5.0]))),
    Case("scatter 0-d index", scatter(0), (Y[0], torch.tensor(3), torch.tensor(5.0))),
    Case("scatter empty", scatter(0), (Y, torch.zeros(0, 2, dtype=torch.int64), S)),
    Case("scatter empty of another rank", scatter(0), (Y, torch.zeros(0, dtype=torch.int64), S)),
    Case("scatter into nothing", scatter(0), (Y[:, :0], torch.zeros(2, 0, dtype=torch.int64), S[:2, :0])),
    Case("scatter not contiguous", lambda x, i, s: x.T.scatter(1, i, s.T), (Y, torch.tensor([[0, 3]] * 5), S)),
    Case("scatter last wins", scatter(0), (torch.zeros(3), torch.tensor([1, 1, 0, 1]), torch.arange(1.0, 5.0))),
    Case("scatter twice", lambda x, i, s: x.scatter(0, i, s) + x, (Y, IX, S)),
    Case(
        "scatter dynamic",
        scatter(1),
        (Y, IX[:, :3], S),
        dynamic=({0: Dim("a", min=4), 1: Dim("b", min=4)}, {1: Dim("n", max=3)}, None),
        also=((torch.randn(9, 4), IX[:, :2], S), (torch.randn(4, 7), torch.tensor([[6, 5, 4]] * 2), S)),
    ),
    *[
        Case(f"scatter value {dtype}", lambda x, i: x.scatter(0, i, 3), (Y.to(dtype), IX), decomposed=dtype == torch.int8)
        for dtype in DTYPES
    ],
    Case("scatter fraction among integers", lambda x, i: x.scatter(0, i, -2.7), (Y.long(), IX)),
    Case("scatter a large integer", lambda x, i: x.scatter(0, i, 2**53 + 1), (Y.long(), IX)),
    Case("scatter value 0-d", lambda x, i: x.scatter(0, i, 2.5), (torch.tensor(1.0), torch.tensor(0))),
    *[
        Case(f"scatter {reduce} {dtype}", scatter(0, reduce=reduce), (Y.to(dtype), IX, S.to(dtype)))
        for reduce in ("add", "multiply")
        for dtype in (torch.bool, torch.int8, torch.int64, *HALVES, torch.float32)
    ],
    *[
        Case(f"scatter value {reduce}", lambda x, i, r=reduce: x.scatter(0, i, 2.5, reduce=r), (Y, IX))
        for reduce in ("add", "multiply")
    ],
    *[
        Case(f"scatter_add {dtype}", lambda x, i, s: x.scatter_add(0, i, s), (Y.to(dtype), IX, S.to(dtype)))
        for dtype in DTYPES
    ],
    Case("scatter_add size 1 elsewhere", lambda x, i, s: x.scatter_add(0, i, s), (Y, torch.tensor([[3], [3]]), S), compiled=True),
    Case("scatter_add dim 1", lambda x, i, s: x.scatter_add(1, i, s), (Y, IX, S), decomposed=True),
    Case("scatter_add 3-d", lambda x, i, s: x.scatter_add(-2, i, s), (X, torch.tensor([[[2, 0], [2, 1]]]), torch.randn(2, 3, 3))),
    Case("scatter_add 0-d", lambda x, i, s: x.scatter_add(0, i, s), (torch.tensor(1.0), torch.tensor(0), torch.tensor(5.0))),
    Case("scatter_add expanded", lambda x, i, s: x.scatter_add(0, i[:, None].expand_as(s), s), (Y, torch.tensor([3, 3, 0]), S)),
    *[
        Case(
            f"scatter_add many {dtype}",  # PyTorch adds up in float32
            lambda x, i, s: x.scatter_add(0, i, s),
            (torch.zeros(2, dtype=dtype), torch.zeros(3000, dtype=torch.int64), torch.full((3000,), 0.1, dtype=dtype)),
        )
        for dtype in HALVES
    ],
    Case(
        "scatter_add dynamic",
        lambda x, i, s: x.scatter_add(0, i, s),
        (torch.zeros(4, 5), IX[:, :3], S),
        dynamic=({0: Dim("a", min=4)}, {0: Dim("n", max=3), 1: Dim("m", max=3)}, None),
        also=((torch.zeros(9, 5), torch.tensor([[1, 1, 8]] * 3), S), (torch.zeros(4, 5), IX[:, :2], S)),
    ),
]  # fmt: skip

REDUCE = [
    *[
        Case(
            f"scatter_reduce {reduce} {dtype} {'with' if own else 'without'} self",
            scatter_reduce(0, reduce, own),
            (Y.to(dtype) - 3, IX, S.to(dtype)),
            decomposed=dtype == torch.float32,
        )
        for reduce in REDUCTIONS
        for dtype in (torch.int8, torch.int32, torch.int64, *HALVES, torch.float32, torch.float64)
        for own in (True, False)
    ],
    *[
        Case(f"scatter_reduce {reduce} nan {own}", scatter_reduce(0, reduce, own), (BASE, T, V))
        for reduce in REDUCTIONS
        for own in (True, False)
    ],
    *[
        Case(
            f"scatter_reduce {reduce} nan {dtype}",
            scatter_reduce(0, reduce),
            (BASE.to(dtype), T, V.to(dtype)),
        )
        for reduce in ("amax", "amin")
        for dtype in (*HALVES, torch.float64)
    ],
    *[
        Case(
            f"scatter_reduce {reduce} of signs {own}",
            scatter_reduce(0, reduce, own),
            (torch.tensor([-0.5, INF, -INF]), T, torch.tensor([-3.0, -1e-40, -INF, INF, 1e38, -1e-38])),
        )
        for reduce in ("amax", "amin")
        for own in (True, False)
    ],
    Case("scatter_reduce amax bool", scatter_reduce(0, "amax"), (Y > 6, IX, S > 1)),
    Case("scatter_reduce amin bool", scatter_reduce(0, "amin", False), (Y > 6, IX, S > 1)),
    Case("scatter_reduce mean rounds down", scatter_reduce(0, "mean"), (torch.tensor([-8, 8, 3]), T, T - 2)),
    Case(
        "scatter_reduce 0-d",
        scatter_reduce(0, "mean"),
        (torch.tensor(1.0), torch.tensor(0), torch.tensor(4.0)),
    ),
    Case(
        "scatter_reduce empty", scatter_reduce(0, "amax", False), (Y, torch.zeros(0, 3, dtype=torch.int64), S)
    ),
    Case("scatter_reduce dim 1", scatter_reduce(1, "amax"), (Y, IX, S), compiled=True),
    *[
        Case(
            f"scatter_reduce {reduce} dynamic",
            scatter_reduce(0, reduce, False),
            (BASE, T, V),
            dynamic=({0: Dim("a", min=3)}, {0: Dim("n")}, {0: Dim("n")}),
            also=(
                (torch.randn(9), torch.tensor([8, 8, 0]), torch.randn(3)),
                (torch.randn(3), T % 2, torch.randn(6)),
            ),
        )
        for reduce in ("mean", "amin")
    ],
    *[
        Case(
            f"index_reduce {reduce} {dtype} {own}",
            index_reduce(1, reduce, own),
            (X.to(dtype) - 5, torch.tensor([0, 2, 0]), (X - 9).to(dtype)),
        )
        for reduce in REDUCTIONS[1:]
        for dtype in (torch.int32, torch.int64, torch.float16, torch.float32)
        for own in (True, False)
    ],
    *[
        Case(f"index_reduce {reduce} nan {own}", index_reduce(0, reduce, own), (BASE, T, V))
        for reduce in REDUCTIONS[1:]
        for own in (True, False)
    ],
]

ROWS = torch.tensor([2, 0])
INDEX = [
    *[
        Case(f"index_add {dtype}", lambda x, i, s: x.index_add(1, i, s), (X.to(dtype), torch.tensor([2, 0, 2]), (X + 1).to(dtype)))
        for dtype in DTYPES
    ],
    *[
        Case(f"index_add alpha {dtype}", lambda x, i, s: x.index_add(1, i, s, alpha=3), (X.to(dtype), ROWS, X[:, 1:].to(dtype)))
        for dtype in (torch.int64, torch.float16, torch.float32)
    ],
    Case("index_add alpha -0.5", lambda x, i, s: x.index_add(-1, i, s, alpha=-0.5), (X, ROWS, X[:, :, 1:3]), decomposed=True),
    Case("index_add 0-d index", lambda x, i, s: x.index_add(1, i, s), (X, torch.tensor(2), X[:, :1])),
    Case("index_add 0-d", lambda x, i, s: x.index_add(0, i, s), (X[0, 0, 1], torch.tensor(0), X[0, 0, 2])),
    Case("index_add int32 index", lambda x, i, s: x.index_add(0, i, s), (X, torch.tensor([1, 1]).int(), X)),
    *[
        Case(
            f"index_add many {rank}-d {dtype}",  # PyTorch rounds each sum of a vector, and of nothing else
            lambda x, i, s: x.index_add(0, i, s),
            (torch.zeros(2, *rest, dtype=dtype), torch.zeros(3000, dtype=torch.int64), torch.full((3000, *rest), 0.1, dtype=dtype)),
        )
        for dtype in HALVES
        for rank, rest in ((1, ()), (2, (3,)))
    ],
    *[
        Case(f"index_copy {dtype}", lambda x, i, s: x.index_copy(1, i, s), (X.to(dtype), ROWS, X[:, 1:].to(dtype)))
        for dtype in DTYPES
    ],
    Case("index_copy last wins", lambda x, i, s: x.index_copy(0, i, s), (X, torch.tensor([1, 1]), X + 100)),
    Case("index_copy one row", lambda x, i, s: x.index_copy(1, i, s), (X, torch.tensor([2]), X[:, :1] + 100), decomposed=True, compiled=True),
    Case("index_copy 0-d index", lambda x, i, s: x.index_copy(0, i, s), (X, torch.tensor(1), X[:1] + 100)),
    Case("index_copy 0-d", lambda x, i, s: x.index_copy(0, i, s), (X[0, 0, 1], torch.tensor([0]), X[0, 0, 3:])),
    Case("index_copy 0-d source", lambda x, i, s: x.index_copy(0, i, s), (X[0, 0], torch.tensor(2), X[1, 1, 1])),
    *[Case(f"index_fill {dtype}", lambda x, i: x.index_fill(1, i, 3), (X.to(dtype), torch.tensor([-1, 0]))) for dtype in DTYPES],
    Case("index_fill fraction among integers", lambda x, i: x.index_fill(-1, i, 2.7), (X.long(), ROWS)),
    Case("index_fill tensor", lambda x, i, v: x.index_fill(0, i, v), (X, torch.tensor(1), torch.tensor(-INF))),
    Case("index_fill tensor of another dtype", lambda x, i, v: x.index_fill(0, i, v), (X, torch.tensor([1]), torch.tensor(4))),
    Case("index_fill 0-d", lambda x, i: x.index_fill(0, i, 2.5), (X[0, 0, 1], torch.tensor(0))),
    Case("index_fill empty", lambda x, i: x.index_fill(0, i, 2.5), (X, ROWS[:0]), decomposed=True),
    Case(
        "index ops dynamic",
        lambda x, i, s: (x.index_add(0, i, s), x.index_copy(0, i, s), x.index_fill(0, i, 7)),
        (Y, torch.tensor([3, 0]), Y[1:3] + 100),
        dynamic=({0: Dim("a", min=4)}, {0: Dim("n")}, {0: Dim("n")}),
        also=((torch.randn(9, 5), torch.tensor([8, 1, 0]), S), (torch.randn(4, 5), torch.arange(4), Y + 1)),
    ),
    Case("put", torch.Tensor.put, (Y, IX, S[:2, :4])),
    Case("put negative", torch.Tensor.put, (Y, torch.tensor([-1, 0]), torch.tensor([7.0, 8.0])), decomposed=True),
    Case("put accumulate", lambda x, i, s: x.put(i, s, accumulate=True), (Y, IX, S[:2, :4])),
    Case("put many halves", lambda x, i, s: x.put(i, s, accumulate=True), (Y.half(), IX.repeat(200, 1), S[:2, :4].repeat(200, 1).half())),
    Case("put 0-d", torch.Tensor.put, (Y[0, 0], torch.tensor([0]), torch.tensor([7.0]))),
]  # fmt: skip


def put(*indices, op=A.index_put, **options):
    return lambda x, v, *given: op(x, [given[i] if i is not None else None for i in indices], v, **options)


def assign(x, m, v):
    x = x.clone()
    x[m] = v
    return x


J = torch.tensor([0, 2, 2])
M2 = torch.tensor([[True, False, True], [False, True, True]])
PUT = [
    *[Case(f"index_put {dtype}", put(0), (Y.to(dtype), (Y[:3] + 50).to(dtype), J)) for dtype in DTYPES],
    *[
        Case(f"index_put accumulate {dtype}", put(0, accumulate=True), (Y.to(dtype), (Y[:3] + 50).to(dtype), J))
        for dtype in DTYPES
    ],
    *[
        Case(
            f"index_put many {dtype}",  # PyTorch rounds after each addition
            put(0, accumulate=True),
            (torch.zeros(2, dtype=dtype), torch.full((3000,), 0.1, dtype=dtype), torch.zeros(3000, dtype=torch.int64)),
        )
        for dtype in HALVES
    ],
    Case("index_put number", put(0), (Y, torch.tensor(7.0), J), decomposed=True),
    Case("index_put one row", put(0), (Y, torch.arange(5.0), torch.tensor([-2]))),
    Case("index_put negative", put(0), (Y, Y[:2] + 50, torch.tensor([-1, -4]))),
    Case("index_put broadcast rows", put(0), (Y, torch.arange(5.0) + 50, J)),
    Case("index_put broadcast columns", put(0), (Y, torch.tensor([[50.0], [60.0], [70.0]]), J)),
    Case("index_put 2-d index", put(0), (Y, torch.randn(2, 2, 5), torch.tensor([[0, 1], [3, 1]]))),
    Case("index_put 0-d index", put(0), (Y, torch.randn(5), torch.tensor(-1))),
    Case("index_put 0-d at 1", put(None, 0), (Y, torch.randn(4), torch.tensor(2))),
    Case("index_put at 1", put(None, 0), (X, torch.randn(2, 2, 4), torch.tensor([2, 0])), decomposed=True),
    Case("index_put at 1 broadcast", put(None, 0), (X, torch.randn(2, 1), torch.tensor([2, 0]))),
    Case("index_put at 1 broadcast lead", put(None, 0), (X, torch.randn(1, 2, 4), torch.tensor([2, 0]))),
    Case("index_put at 2", put(None, None, 0), (X, torch.randn(2, 3, 2), torch.tensor([3, 0])), compiled=True),
    Case("index_put at 2 accumulate", put(None, None, 0, accumulate=True), (X, torch.randn(3, 2), torch.tensor([3, 3]))),
    Case("index_put one at 2", put(None, None, 0), (X, torch.randn(2, 3, 1), torch.tensor([-1]))),
    Case("index_put one at 2 broadcast", put(None, None, 0), (X, torch.tensor([[5.0]]), torch.tensor([3]))),
    Case("index_put two", put(0, 1), (Y, torch.randn(3), J, torch.tensor([4, 1, 1]))),
    Case("index_put two accumulate", put(0, 1, accumulate=True), (Y, torch.randn(3), J, torch.tensor([4, 1, 1]))),
    Case("index_put outer", put(0, 1), (Y, torch.randn(3, 2), J[:, None], torch.tensor([4, 1]))),
    Case("index_put two in the middle", put(None, 0, 1), (X, torch.randn(2, 3), J, torch.tensor([3, 0, 1]))),
    Case("index_put two in the middle of 4", put(None, 0, 1), (torch.zeros(2, 3, 4, 2), torch.randn(2, 3, 2), J, torch.tensor([3, 0, 1]))),
    Case("index_put outer in the middle", put(None, 0, 1), (X, torch.randn(2, 3, 2), J[:, None], torch.tensor([3, 0]))),
    Case("index_put two apart", put(0, None, 1), (X, torch.randn(2, 3), torch.tensor([1, 0]), torch.tensor([3, 0]))),
    Case("index_put two apart after one", put(None, 0, None, 1), (torch.zeros(2, 3, 2, 4), torch.randn(3, 2, 2), J, torch.tensor([3, 0, 1]))),
    Case("index_put empty", put(0), (Y, torch.zeros(0, 5), J[:0])),
    Case("index_put empty number", put(0), (Y, torch.tensor(1.0), J[:0])),
    Case("index_put into nothing", put(0), (Y[:, :0], torch.tensor(1.0), J)),
    Case("index_put int32", put(0), (Y, torch.tensor(1.0), J.int())),
    Case("index_put list", lambda x: assign(x, [0, 2], 7.0), (Y,)),
    Case("index_put slices", lambda x, i, v: assign(x, (slice(1, None), i), v), (Y, J, torch.randn(3, 3))),
    Case("index_put last wins", put(0), (torch.zeros(3), torch.arange(1.0, 5.0), torch.tensor([1, 1, 0, 1]))),
    Case("unsafe_index_put", put(0, op=A._unsafe_index_put), (Y, torch.randn(3, 5), J)),
    Case("index_put_impl", put(0, op=A._index_put_impl, accumulate=True, unsafe=True), (Y, torch.randn(3, 5), J)),
    Case("unsafe_masked_index_put", lambda x, m, i, v: A._unsafe_masked_index_put_accumulate(x, m, [i, i], v), (Y, torch.tensor([True, False, True]), torch.tensor([1, 9, 1]), torch.tensor([3.0, NAN, 4.0]))),
    Case(
        "index_put dynamic",
        lambda x, v, i: (A.index_put(x, [i], v), A.index_put(x, [None, i], v[0, 0]), A.index_put(x, [i], v, True)),
        (Y, torch.randn(3, 5), torch.tensor([0, 2, 2])),
        dynamic=({0: Dim("a", min=4)}, {0: Dim("n")}, {0: Dim("n")}),
        also=((torch.randn(9, 5), torch.randn(2, 5), torch.tensor([0, 4])), (torch.randn(4, 5), torch.randn(7, 5), torch.tensor([0, 1, 2, 3, 0, 1, -1]))),
    ),
    Case("index_put in the middle dynamic", put(None, 0), (X, torch.randn(2, 3, 4), J), dynamic=({0: Dim("a"), 2: Dim("b")}, {0: Dim("a"), 1: Dim("n"), 2: Dim("b")}, {0: Dim("n")}),
         also=((torch.randn(3, 3, 2), torch.randn(3, 5, 2), torch.tensor([0, 1, 2, 1, 0])), (torch.randn(9, 3, 7), torch.randn(9, 2, 7), J[:2]))),
    Case("mask number", assign, (X, X > 5, -1.0), decomposed=True, compiled=True),
    Case("mask number among integers", assign, (X.long(), X > 5, 2**53 + 1)),
    Case("mask rows", put(0), (X, torch.tensor(7.0), torch.tensor([False, True]))),
    Case("mask rows by a row", put(0), (X, torch.randn(3, 4), torch.tensor([False, True]))),
    Case("mask rows by one row", put(0), (X, torch.randn(1, 3, 4), torch.tensor([True, True]))),
    Case("mask of two axes", put(0), (X, torch.arange(4.0), M2)),
    Case("mask of two axes, a column", put(0), (X, torch.arange(4.0)[:, None], M2)),
    Case("mask of two axes, values", put(0), (X, torch.randn(4, 4), M2)),
    Case("mask of the last axes", put(None, 0), (torch.zeros(4, 2, 3), torch.randn(4, 4), M2)),
    Case("mask of the last axes, a column", put(None, 0), (torch.zeros(4, 2, 3), torch.randn(4, 1), M2)),
    Case("mask of the middle axes", put(None, 0), (torch.zeros(4, 2, 3, 2), torch.randn(4, 4, 2), M2)),
    Case("mask of the middle axes, a row", put(None, 0), (torch.zeros(4, 2, 3, 2), torch.randn(4, 1, 2), M2)),
    Case("mask accumulate", put(0, accumulate=True), (X, torch.tensor(7.0), X > 5)),
    Case("mask accumulate bool", put(0, accumulate=True), (X > 9, torch.tensor(True), X > 5)),
    Case("mask accumulate values", put(0, accumulate=True), (X, torch.randn(4, 4), M2)),
    Case("mask 0-d true", put(0), (X, torch.tensor(7.0), torch.tensor(True))),
    Case("mask and index", put(0, 1), (X, torch.randn(2, 4), torch.tensor([True, True]), torch.tensor([2, 0])), refused="a mask beside"),
    Case("mask of nothing", assign, (X, X > 99, -1.0)),
    Case("mask by what it selects", lambda x, y, m: assign(x, m, y[m] * 2), (X, X + 50, X > 5)),
    Case("mask by nothing", lambda x, y, m: assign(x, m, y[m] * 2), (X, X + 50, X > 99)),
    Case("mask by positions", lambda x, m: assign(x, m, m.nonzero()[:, 0].float()), (X, X > 5)),
    Case(
        "mask dynamic",
        lambda x, m: (assign(x, m, 1.0), assign(x, m, x[m] + 1)),
        (X, M2),
        dynamic=({0: Dim("a"), 1: Dim("b")}, {0: Dim("a"), 1: Dim("b")}),
        also=((torch.randn(5, 7, 4), torch.rand(5, 7) > 0.5), (torch.randn(3, 2, 4), torch.zeros(3, 2, dtype=torch.bool))),
    ),
    Case("masked_scatter", torch.masked_scatter, (X, X > 5, torch.randn(30)), decomposed=True, compiled=True),
    *[
        Case(f"masked_scatter {dtype}", torch.masked_scatter, (X.to(dtype), X > 5, (X + 60).to(dtype)))
        for dtype in DTYPES
    ],
    Case("masked_scatter broadcast mask", torch.masked_scatter, (X, M2[..., None], torch.randn(4, 4))),
    Case("masked_scatter broadcast self", torch.masked_scatter, (X[:, :, :1], X > 5, torch.randn(30))),
    Case("masked_scatter nothing", torch.masked_scatter, (X, X > 99, torch.randn(0))),
    Case("masked_scatter 0-d", torch.masked_scatter, (torch.tensor(1.0), torch.tensor(True), torch.tensor([5.0, 6.0]))),
    Case(
        "masked_scatter dynamic",
        lambda x, m, s: x.masked_scatter(m[..., None].expand_as(x), s),
        (X, M2, torch.randn(4, 4)),
        dynamic=({0: Dim("a"), 1: Dim("b")}, {0: Dim("a"), 1: Dim("b")}, {0: Dim("n", min=0)}),
        also=((torch.randn(3, 7, 4), torch.rand(3, 7) > 0.5, torch.randn(21, 4)), (torch.randn(3, 2, 4), torch.zeros(3, 2, dtype=torch.bool), torch.randn(0, 4))),
    ),
]  # fmt: skip


def cache_update(cache, new, position):
    """A key-value cache with the position read from an array."""
    start = position.item()
    torch._check(start >= 0)
    torch._check(start <= 3)
    return torch.slice_scatter(cache, new, 1, start, start + 1)


SLICES = [
    Case("slice_scatter", lambda x, s: x.slice_scatter(s), (X, X + 50)),
    Case("slice_scatter start", lambda x, s: x.slice_scatter(s, 1, 1), (X, X[:, 1:] + 50), decomposed=True),
    Case("slice_scatter end", lambda x, s: x.slice_scatter(s, 1, None, 2), (X, X[:, 1:] + 50), compiled=True),
    Case("slice_scatter negative", lambda x, s: x.slice_scatter(s, -1, -3, -1), (X, X[:, :, 1:3] + 50)),
    Case("slice_scatter beyond", lambda x, s: x.slice_scatter(s, 2, -99, 2**63 - 1), (X, X + 50)),
    Case("slice_scatter step", lambda x, s: x.slice_scatter(s, 2, 0, 99, 2), (X, X[:, :, 1:3] + 50)),
    Case("slice_scatter step 3", lambda x, s: x.slice_scatter(s, 2, -3, None, 3), (X, X[:, :, :1] + 50)),
    Case("slice_scatter nothing", lambda x, s: x.slice_scatter(s, 1, 3, 2), (X, X[:, :0])),
    *[Case(f"slice_scatter {dtype}", lambda x, s: x.slice_scatter(s, 0, 1), (X.to(dtype), X[:1].to(dtype) * 2)) for dtype in DTYPES],
    Case(
        "slice_scatter dynamic",
        lambda x, s: x.slice_scatter(s, 1, -s.shape[1], x.shape[1]),
        (X, X[:, 1:] + 50),
        dynamic=({1: Dim("b", min=2, max=20)}, {1: Dim("n", min=1, max=2)}),
        also=((torch.randn(2, 20, 4), X[:, 1:]), (torch.randn(2, 2, 4), X[:, 2:])),
    ),
    Case("slice_scatter at an array", cache_update, (Y, torch.randn(4, 1), torch.tensor(3)), also=((Y, torch.randn(4, 1), torch.tensor(0)),), compiled=True),
    Case("select_scatter", lambda x, s: x.select_scatter(s, 1, 2), (X, torch.randn(2, 4)), decomposed=True),
    Case("select_scatter negative", lambda x, s: x.select_scatter(s, -1, -4), (X, torch.randn(2, 3))),
    Case("select_scatter to 0-d", lambda x, s: x.select_scatter(s, 0, 1), (X[0, 0], torch.tensor(5.0))),
    Case("select_scatter int", lambda x, s: x.select_scatter(s, 0, 1), (X.long(), X[0].long() + 50)),
    Case("as_strided_scatter", lambda x, s: (x.as_strided_scatter(s, (2, 2), (6, 1)), x.as_strided_scatter(s, (2, 2), (1, 4), 3)), (X, S[:2, :2])),
    Case("as_strided_scatter to 0-d", lambda x, s: x.as_strided_scatter(s, (), (), 5), (X, torch.tensor(99))),
    Case("as_strided_scatter nothing", lambda x, s: x.as_strided_scatter(s, (0, 3), (3, 1)), (X, torch.zeros(0, 3))),
    Case("as_strided_scatter transposed", lambda x, s: (x.transpose(0, 2) + 1).as_strided_scatter(s, (2, 2), (6, 1), 1), (X, S[:2, :2])),
    Case("as_strided_scatter of a view", lambda x, s: x[1].as_strided_scatter(s, (2, 2), (4, 1), 0), (X, S[:2, :2]), refused="beyond the tensor"),
    Case("as_strided_scatter of a dense view", lambda x, s: (x + 1)[1].as_strided_scatter(s, (2, 2), (4, 1)), (X, S[:2, :2])),
    Case("diagonal_scatter", lambda x, s: x.diagonal_scatter(s), (Y, torch.randn(4)), decomposed=True),
    Case("diagonal_scatter above", lambda x, s: x.diagonal_scatter(s, 2), (Y, torch.randn(3))),
    Case("diagonal_scatter below", lambda x, s: x.diagonal_scatter(s, -1), (Y, torch.randn(3))),
    Case("diagonal_scatter outside", lambda x, s: x.diagonal_scatter(s, 5), (Y, torch.randn(0))),
    Case("diagonal_scatter batched", lambda x, s: x.diagonal_scatter(s, 1, -2, -1), (X, torch.randn(2, 3))),
    Case("diagonal_scatter swapped", lambda x, s: x.diagonal_scatter(s, -1, 2, 0), (X, torch.randn(3, 2))),
    Case("assign a slice", lambda x, v: assign(x, (slice(None), slice(1, 3)), v), (X, torch.randn(2, 1, 4))),
    Case("assign a step", lambda x: assign(x, (Ellipsis, slice(None, None, 2)), 7.0), (X,)),
]  # fmt: skip


@params([*SCATTER, *REDUCE, *INDEX, *PUT, *SLICES])
def test_scatter(case, tmp_path):
    check(case, tmp_path)


EXTREME = np.array([0, -1, 4, -5, 5, -6, 2**31 - 1, -(2**31), 2**31, 2**32 + 1, 2**63 - 1, -(2**63)])


@pytest.mark.parametrize("dtype", ["int64", "int32", "int8", "uint32"])
@pytest.mark.parametrize("reduce", ["none", "sum", "prod", "max", "min"])
def test_indices_are_modulo_the_size(dtype, reduce):
    """No index leaves the array."""
    given = EXTREME.astype(dtype)
    x = np.ones((5, 5), np.float32)
    updates = np.random.randn(len(given), 5).astype(np.float32)
    places = given.astype(np.int32) % 5
    expected = x.copy()
    ufunc = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}.get(reduce)
    if ufunc:
        ufunc.at(expected, places, updates)
    else:
        for place, update in zip(places, updates, strict=True):
            expected[place] = update
    scatter, put = INSTRUCTIONS["scatter"].fn, INSTRUCTIONS["put_along_axis"].fn
    np.testing.assert_allclose(
        scatter(mx.array(x), [mx.array(given)], mx.array(updates), [0], reduce), expected, 1e-5
    )
    columns = mx.array(np.repeat(given[:, None], 5, 1))
    np.testing.assert_allclose(put(mx.array(x), columns, mx.array(updates), 0, reduce), expected, 1e-5)


@pytest.mark.parametrize(
    "start, first", [(0, 0), (2, 2), (9, 3), (-1, 3), (-4, 1), (-9, 0), (2**31 - 1, 3), (-(2**31), 0)]
)
@pytest.mark.parametrize("dtype", [None, "int64", "int32"])
def test_slice_update_stays_inside(start, first, dtype):
    """A start counts from the end when negative, then moves to where the update fits; array or number alike."""
    start = start if dtype is None else mx.array(np.array([start], dtype))
    x, update = mx.zeros((2, 5)), mx.ones((2, 2))
    expected = np.zeros((2, 5), np.float32)
    expected[:, first : first + 2] = 1
    np.testing.assert_array_equal(INSTRUCTIONS["slice_update"].fn(x, update, [start], [1]), expected)
    assert not x.any()


def test_slice_update_at_several_axes():
    x, update = mx.zeros((2, 4, 5)), mx.ones((1, 2, 5))
    out = INSTRUCTIONS["slice_update"].fn(x, update, [mx.array(1), 2], [0, 1])
    assert out.sum() == 10 and out[1, 2:].sum() == 10
    out = INSTRUCTIONS["slice_update"].fn(mx.zeros((6, 7)), mx.ones((2, 3)), [1, 0], [0, 1], [3, 2])
    np.testing.assert_array_equal(np.argwhere(np.array(out)), [[i, j] for i in (1, 4) for j in (0, 2, 4)])


X5, ONE = mx.zeros((5, 5)), mx.array([0])
WRONG = [
    ("scatter", (X5, [], X5, [], "sum")),
    ("scatter", (X5, [ONE], mx.ones((2, 5)), [0], "sum")),
    ("scatter", (X5, [ONE], mx.ones((1, 5), mx.int32), [0], "none")),
    ("scatter", (X5, [ONE, ONE], mx.ones((1, 5)), [0], "none")),
    ("scatter", (X5, [ONE, ONE], mx.ones((1,)), [0, 0], "none")),
    ("scatter", (X5, [ONE], mx.ones((1, 5)), [3], "none")),
    ("scatter", (mx.zeros((0, 5)), [ONE], mx.ones((1, 5)), [0], "none")),
    ("scatter", (X5, [mx.array([1.0])], mx.ones((1, 5)), [0], "none")),
    ("put_along_axis", (X5, ONE, X5, 0, "sum")),
    ("put_along_axis", (X5, mx.zeros((6, 6), mx.int32), mx.ones((6, 6)), 0, "sum")),
    ("put_along_axis", (X5, mx.zeros((5, 5), mx.int32), mx.ones((4, 5)), 0, "none")),
    ("put_along_axis", (X5, mx.zeros((5, 5), mx.int32), mx.ones((5,)), 0, "none")),
    ("put_along_axis", (mx.zeros((0, 5)), mx.zeros((1, 5), mx.int32), mx.ones((1, 5)), 0, "none")),
    ("slice_update", (X5, mx.ones((5, 6)), [0], [1])),
    ("slice_update", (X5, mx.ones((4, 5)), [0], [1])),
    ("slice_update", (X5, mx.ones((5,)), [0], [1])),
    ("slice_update", (X5, mx.ones((5, 2)), [0], [2])),
    ("slice_update", (X5, mx.ones((5, 2)), [0, 0], [1, 1])),
    ("slice_update", (X5, mx.ones((5, 2)), [0, 0], [1])),
    ("slice_update", (X5, mx.ones((5, 2)), [mx.array([0, 1])], [1])),
    ("slice_update", (X5, mx.ones((5, 2)), [mx.array(0.0)], [1])),
    ("slice_update", (X5, mx.ones((5, 2)), [mx.array(0)], [1], [2])),
    ("slice_update", (X5, mx.ones((5, 2)), [0], [1], [0])),
    ("slice_update", (X5, mx.ones((5, 2)), [0], [1], [-1])),
    ("slice_update", (X5, mx.ones((5, 2)), [0], [1], [5])),
    ("slice_update", (X5, mx.ones((5, 2), mx.int32), [0], [1])),
    ("masked_scatter", (X5, mx.ones((5, 5)), X5)),
    ("masked_scatter", (X5, mx.ones((6, 5), mx.bool_), X5)),
    ("masked_scatter", (X5, mx.ones((5, 5), mx.bool_), ONE)),
]  # fmt: skip


@pytest.mark.parametrize("name, arguments", WRONG)
def test_wrong_arguments(name, arguments):
    schema = INSTRUCTIONS[name]
    with pytest.raises((ValueError, IndexError)):
        mx.eval(schema.fn(*schema.bind(arguments, {})))


def test_few_source_elements_begin_again():
    out = INSTRUCTIONS["masked_scatter"].fn(mx.zeros((5,)), mx.ones((5,), mx.bool_), mx.array([1.0, 2.0]))
    assert out.tolist() == [1, 2, 1, 2, 1]


@pytest.mark.parametrize("name", ["slice_update", "scatter", "slice_update by number"])
def test_cache_is_written_in_place(name):
    """Nobody else holds the old cache, so its memory is used again: no copy of it for one new row."""
    cache, row = mx.zeros((8, 4096, 64)), mx.ones((8, 1, 64))
    mx.eval(cache, row)
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    for step in range(3):
        if name == "scatter":
            cache = INSTRUCTIONS[name].fn(cache, [mx.array([step])], row.swapaxes(0, 1), [1], "none")
        else:
            start = step if name.endswith("number") else mx.array(step)
            cache = INSTRUCTIONS["slice_update"].fn(cache, row, [start], [1])
        mx.eval(cache)
    assert cache[:, :3].sum() == 3 * 8 * 64 and cache.sum() == 3 * 8 * 64
    assert mx.get_peak_memory() - before < cache.nbytes // 2
