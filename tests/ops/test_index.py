"""Reading by index."""

import mlx.core as mx
import numpy as np
import pytest
import torch
from torch.export import Dim

import mlxify
from mlxify.isa import INSTRUCTIONS

from .harness import Case, check, params

A = torch.ops.aten
X = torch.arange(24.0).reshape(2, 3, 4)
Y = torch.arange(16.0).reshape(4, 4)
NAN = float("nan")
DTYPES = (
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64,
)  # fmt: skip
IX = torch.tensor([1, 0, -1])
J = torch.tensor([[2, 0, -4], [1, 3, 0]])
M = torch.tensor([[True, False, True], [False, True, True]])


def index(*indices):
    return lambda x, *given: A.index(x, [given[i] if isinstance(i, int) else None for i in indices])


INDEX = [
    *[Case(f"index {dtype}", lambda x, i: x[:, i], (X.to(dtype), IX)) for dtype in DTYPES],
    *[
        Case(f"index by {dtype}", lambda x, i: x[i], (Y, torch.tensor([1, 3, 0], dtype=dtype)))
        for dtype in (torch.int32, torch.int64)
    ],
    Case("index negative int32", lambda x, i: x[i], (Y, torch.tensor([-1, -4], dtype=torch.int32))),
    Case("index 2-d", lambda x, j: x[:, :, j], (X, J), decomposed=True),
    Case("index of the same rank", lambda x, i: x[i], (Y, torch.tensor([[0, 1], [3, -1]]))),
    Case("index of the same rank and shape", lambda x, i: x[i], (Y, torch.zeros(4, 4, dtype=torch.int64))),
    Case("index 0-d", index(0), (X, torch.tensor(-1))),
    Case("index 0-d at 1", index(None, 0), (X, torch.tensor(2))),
    Case("index empty", index(None, 0), (X, torch.zeros(0, dtype=torch.int64))),
    Case("index empty 2-d", index(0), (X, torch.zeros(2, 0, dtype=torch.int64))),
    Case("index of an empty axis", index(None, 0), (X[:, :0], torch.zeros(0, 2, dtype=torch.int64))),
    Case("index beside an empty axis", index(None, None, 0), (X[:, :0], torch.tensor([3, 1]))),
    Case("two beside an empty axis", index(0, None, 0), (X[:, :0], torch.tensor([1, 0]))),
    Case(
        "x[i, j]", lambda x, i, j: x[i, j], (X, torch.tensor([0, 1]), torch.tensor([2, -1])), decomposed=True
    ),
    Case(
        "x[:, i, j]",
        lambda x, i, j: x[:, i, j],
        (X, torch.tensor([0, -1]), torch.tensor([3, 1])),
        decomposed=True,
    ),
    Case("x[i, :, j]", lambda x, i, j: x[i, :, j], (X, torch.tensor([0, 1]), torch.tensor([3, 1]))),
    Case(
        "x[:, i, :, j]", lambda x, i, j: x[:, i, :, j], (X.reshape(2, 3, 2, 2), IX, torch.tensor([1, 1, 0]))
    ),
    Case(
        "x[:, :, i, j]", lambda x, i, j: x[:, :, i, j], (X.reshape(2, 2, 2, 3), torch.tensor([[1], [0]]), IX)
    ),
    Case("outer", lambda x, i, j: x[i[:, None], j], (Y, IX, torch.tensor([3, 2]))),
    Case("outer in the middle", lambda x, i, j: x[:, i[:, None], j], (X, IX, torch.tensor([3, 2]))),
    Case("0-d with 1-d", index(None, 0, 1), (X, torch.tensor(1), IX)),
    Case("two 0-d", index(0, None, 1), (X, torch.tensor(1), torch.tensor(-3))),
    Case("two empty", index(0, 1), (X, torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.int64))),
    Case("three", lambda x, i, j, k: x[i, j, k], (X, IX % 2, IX, IX)),
    Case(
        "mixed index dtypes",
        lambda x, i, j: x[i, j],
        (X, torch.tensor([0, 1], dtype=torch.int32), torch.tensor([2, 0])),
    ),
    Case("list", lambda x: x[:, [2, 0]], (X,)),
    Case("lists", lambda x: x[[0, 1], [2, 0]], (X,)),
    Case("new axis", lambda x, i: x[:, None, i], (X, IX)),
    Case("slice and index", lambda x, i: x[1:, i, ::2], (X, IX), compiled=True),
    Case("not contiguous", lambda x, i: x.transpose(0, 2)[i, :, i % 2], (X, torch.tensor([2, 0]))),
    Case("unsafe_index", lambda x, i: A._unsafe_index(x, [None, i, i]), (X, IX)),
    Case(
        "unsafe_masked_index",
        lambda x, m, i: A._unsafe_masked_index(x, m, [i, i], 2.5),
        (Y, torch.tensor([True, False, False]), torch.tensor([0, 7, -9])),
    ),
    Case(
        "index dynamic",
        lambda x, i, j: (x[i], x[:, i, j], x[i, :, j], x[:, i % 2, :]),
        (X, torch.tensor([0, 1, -1]), torch.tensor([[1], [2]])),
        dynamic=({0: Dim("a", min=2), 2: Dim("c", min=3)}, {0: Dim("n")}, {0: Dim("m")}),
        also=(
            (torch.randn(5, 3, 7), torch.tensor([0, 1]), torch.tensor([[2]])),
            (torch.randn(2, 3, 3), torch.tensor([1] * 9), torch.tensor([[0], [1], [2], [0]])),
            (torch.randn(3, 3, 4), torch.zeros(0, dtype=torch.int64), torch.tensor([[0], [1]])),
        ),
    ),
]

MASKS = [
    Case("mask rows", lambda x, m: x[m], (X, torch.tensor([False, True])), decomposed=True),
    Case("mask of two axes", lambda x, m: x[m], (X, M)),
    Case("mask of the last axes", lambda x, m: x[:, m], (torch.randn(4, 2, 3), M)),
    Case("mask of the middle axes", lambda x, m: x[:, m], (torch.randn(4, 2, 3, 2), M), compiled=True),
    Case("mask of all", lambda x: x[x > 11.5], (X,)),
    Case("mask of nothing", lambda x: x[x > 99], (X,)),
    Case("mask bfloat16", lambda x, m: x[m], (X.bfloat16(), M)),
    Case("mask of an empty tensor", lambda x, m: x[m], (X[:, :0], torch.ones(2, 0, dtype=torch.bool))),
    Case("mask then sum", lambda x: x[x > 3].sum() + x[x > 3].shape[0], (X,)),
    Case(
        "mask dynamic",
        lambda x, m: (x[m], x[:, m.any(0)]),
        (X, M),
        dynamic=({0: Dim("a"), 1: Dim("b")}, {0: Dim("a"), 1: Dim("b")}),
        also=(
            (torch.randn(5, 7, 4), torch.rand(5, 7) > 0.5),
            (torch.randn(3, 2, 4), torch.zeros(3, 2, dtype=torch.bool)),
        ),
    ),
    Case("masked_select", torch.masked_select, (X, X > 4), decomposed=True),
    Case("masked_select broadcast", torch.masked_select, (X, torch.tensor([True, False, True, True]))),
    Case("masked_select 0-d", torch.masked_select, (torch.tensor(2), torch.tensor(True))),
]

SELECT = [
    Case("index_select", lambda x, i: x.index_select(1, i), (X, IX.abs()), decomposed=True),
    Case("index_select int32", lambda x, i: x.index_select(-1, i), (X, IX.abs().int())),
    Case("index_select 0-d index", lambda x, i: x.index_select(1, i), (X, torch.tensor(2))),
    Case("index_select 0-d both", lambda x, i: x.index_select(0, i), (torch.tensor(5), torch.tensor(0))),
    Case("index_select 0-d self", lambda x, i: x.index_select(-1, i), (torch.tensor(5.0), torch.tensor([0]))),
    Case("index_select empty", lambda x, i: x.index_select(0, i), (X, torch.zeros(0, dtype=torch.int64))),
    Case("index_select bool", lambda x, i: x.index_select(0, i), (X > 3, torch.tensor([1]))),
    Case(
        "index_select dynamic",
        lambda x, i: x.index_select(-2, i),
        (X, IX.abs()),
        dynamic=({1: Dim("b", min=2)}, {0: Dim("n")}),
        also=((torch.randn(2, 9, 4), torch.tensor([8])), (torch.randn(2, 2, 4), torch.tensor([0, 1] * 5))),
    ),
    Case("take", torch.take, (X, J), decomposed=True),
    Case("take 0-d", torch.take, (torch.tensor(5), torch.tensor([[0, -1]]))),
    Case("take 0-d index", torch.take, (X, torch.tensor(-1))),
    Case("take not contiguous", lambda x, i: x.transpose(0, 2).take(i), (X, J)),
    Case("take empty", torch.take, (X, torch.zeros(2, 0, dtype=torch.int64))),
    Case(
        "gather",
        lambda x, i: x.gather(1, i),
        (Y, torch.tensor([[0, 3], [1, 1], [2, 0], [3, 3]])),
        decomposed=True,
    ),
    Case("gather with a small index", lambda x, i: x.gather(2, i), (X, torch.tensor([[[3, 0, 1, 2, 2]]]))),
    Case(
        "gather size 1 elsewhere", lambda x, i: x.gather(0, i), (Y, torch.tensor([[1], [0], [3], [3], [2]]))
    ),
    Case("gather dim -3", lambda x, i: x.gather(-3, i, sparse_grad=True), (X, torch.tensor([[[1, 0]]]))),
    Case("gather int32 index", lambda x, i: x.gather(0, i), (Y, torch.tensor([[1]], dtype=torch.int32))),
    Case("gather 0-d both", lambda x, i: x.gather(0, i), (torch.tensor(5), torch.tensor(0))),
    Case("gather 0-d self", lambda x, i: x.gather(-1, i), (torch.tensor(5), torch.tensor([0]))),
    Case("gather 0-d index", lambda x, i: x.gather(0, i), (Y[1], torch.tensor(2))),
    Case("gather empty", lambda x, i: x.gather(0, i), (Y, torch.zeros(0, 2, dtype=torch.int64))),
    Case("gather empty of another rank", lambda x, i: x.gather(0, i), (Y, torch.zeros(0, dtype=torch.int64))),
    *[
        Case(f"gather {dtype}", lambda x, i: x.gather(1, i), (Y.to(dtype), torch.tensor([[2], [0]])))
        for dtype in DTYPES
    ],
    Case(
        "gather dynamic",
        lambda x, i: x.gather(1, i),
        (X, torch.tensor([[[2, 0], [0, 0], [1, 2], [2, 2]], [[1, 1], [0, 2], [0, 1], [2, 1]]])),
        dynamic=({0: Dim("a")}, {0: Dim("a"), 1: Dim("n")}),
        also=(
            (torch.randn(5, 3, 4), torch.randint(3, (5, 6, 2))),
            (torch.randn(3, 3, 4), torch.randint(3, (3, 2, 2))),
        ),
    ),
    Case("take_along_dim", lambda x, i: torch.take_along_dim(x, i, 1), (Y, Y.argsort(1, descending=True))),
    Case("take_along_dim broadcast", lambda x, i: torch.take_along_dim(x, i, 0), (Y, torch.tensor([[3]]))),
    Case("take_along_dim broadcast self", lambda x, i: torch.take_along_dim(x, i, -1), (Y[:1], J % 4)),
    Case("take_along_dim flat", lambda x, i: torch.take_along_dim(x, i), (Y, torch.tensor([[3], [15]]))),
    Case(
        "take_along_dim dynamic",
        lambda x, i: torch.take_along_dim(x, i, 1),
        (torch.randn(3, 4), torch.tensor([[1, 0]])),
        dynamic=({}, {1: Dim("n")}),  # PyTorch makes the sizes of the first constants
        also=(
            (torch.randn(3, 4), torch.tensor([[1, 0, 0, 1]])),
            (torch.randn(3, 4), torch.tensor([[3, 2, 0]])),
        ),
    ),
]

ISIN = [
    Case(
        "isin", torch.isin, (torch.arange(6).reshape(2, 3), torch.tensor([[4, 0], [9, 4]])), decomposed=True
    ),
    Case("isin invert", lambda x, y: torch.isin(x, y, invert=True), (torch.arange(6), torch.tensor([4, 0]))),
    Case("isin assume_unique", lambda x, y: torch.isin(x, y, assume_unique=True), (torch.arange(6), IX)),
    Case("isin nan", torch.isin, (torch.tensor([NAN, 1.0]), torch.tensor([NAN, 1.0]))),
    Case("isin nothing", torch.isin, (torch.arange(3), torch.zeros(0, dtype=torch.int64))),
    Case("isin mixed", torch.isin, (torch.arange(3), torch.tensor([0.5, 2.0]))),
    Case("isin number", lambda x: (torch.isin(x, 2), torch.isin(x, 2, invert=True)), (torch.arange(3),)),
    Case("isin fraction", lambda x: torch.isin(x, 1.5), (torch.arange(3),)),
    Case("number isin", lambda x: (torch.isin(2, x), torch.isin(7, x, invert=True)), (torch.arange(3),)),
    Case("isin many", torch.isin, (torch.arange(50), torch.arange(0, 3000, 7)), compiled=True),
    Case("isin many floats", torch.isin, (torch.tensor([NAN, 1.0, -0.0, 9e9]), torch.arange(3000.0))),
    Case(
        "isin dynamic",
        torch.isin,
        (torch.arange(6), torch.tensor([4, 0])),
        dynamic=({0: Dim("n")}, {0: Dim("m")}),
        also=((torch.arange(3), torch.arange(9)), (torch.arange(2000), torch.arange(0, 3000, 7))),
    ),
]


@params([*INDEX, *MASKS, *SELECT, *ISIN])
def test_index(case, tmp_path):
    check(case, tmp_path)


# An index known at conversion: PyTorch's error, with the user's line.
KNOWN = {
    "index": lambda x: x[[0, 4]],
    "negative index": lambda x: x[:, [0, -5]],
    "gather": lambda x: x.gather(0, torch.tensor([[-1]])),
    "index_select": lambda x: x.index_select(1, torch.tensor([4])),
    "take": lambda x: x.take(torch.tensor([16])),
    "embedding": lambda x: torch.nn.functional.embedding(torch.tensor([1, 4]), x),
    "scatter": lambda x: x.scatter(0, torch.tensor([[5]]), 1.0),
    "index_add": lambda x: x.index_add(0, torch.tensor([4]), x[:1]),
    "index_put": lambda x: x.index_put((torch.tensor([4]),), x[0]),
    "index_fill": lambda x: x.index_fill(0, torch.tensor([-5]), 1.0),
    "put": lambda x: x.put(torch.tensor([16]), x[0, :1]),
}


@pytest.mark.parametrize("name", KNOWN)
def test_known_index_out_of_range(name):
    module = torch.nn.Module()
    module.forward = KNOWN[name]
    with pytest.raises(mlxify.ConversionError, match=r"an index of -?\d+ for an axis of size"):
        mlxify.convert(module, (Y,))


EXTREME = np.array([0, -1, 4, -5, 5, -6, 2**31 - 1, -(2**31), 2**31, 2**32 + 1, 2**63 - 1, -(2**63)])


@pytest.mark.parametrize("dtype", ["int64", "int32", "int8", "uint8", "uint16", "uint32", "uint64"])
def test_indices_are_modulo_the_size(dtype):
    """No index leaves the array: those of 32 bits count modulo the size, longer ones give some element."""
    given = EXTREME.astype(dtype)
    x = np.random.randn(5, 5).astype(np.float32)
    places = given.astype(np.int32) % 5
    take, gather, along = (INSTRUCTIONS[n].fn for n in ("take", "gather", "take_along_axis"))
    np.testing.assert_array_equal(take(mx.array(x), mx.array(given), 1), x[:, places])
    np.testing.assert_array_equal(gather(mx.array(x), [mx.array(given)] * 2, [0, 1]), x[places, places])
    np.testing.assert_array_equal(
        along(mx.array(x), mx.array(np.tile(given, (5, 1))), 1),
        np.take_along_axis(x, np.tile(places, (5, 1)), 1),
    )


X5 = mx.zeros((5, 5))
WRONG = [
    ("take", (mx.zeros((0, 3)), mx.array([0]), 0)),
    ("take", (X5, mx.array([0.0]), 0)),
    ("take", (X5, mx.array([True]), 0)),
    ("take", (X5, mx.array([0]), 2)),
    ("gather", (X5, [], [])),
    ("gather", (X5, [mx.array([0])], [2])),
    ("gather", (X5, [mx.array([0])] * 2, [1, 1])),
    ("gather", (X5, [mx.array([0])], [0, 1])),
    ("gather", (X5, [mx.array([0, 1]), mx.array([0, 1, 2])], [0, 1])),
    ("gather", (mx.zeros((0, 3)), [mx.array([0])] * 2, [0, 1])),
    ("take_along_axis", (X5, mx.array([0]), 0)),
    ("take_along_axis", (X5, mx.zeros((6, 1), mx.int32), 1)),
    ("take_along_axis", (X5, mx.zeros((5, 1), mx.int32), 2)),
    ("take_along_axis", (mx.zeros((5, 0)), mx.zeros((5, 1), mx.int32), 1)),
]


@pytest.mark.parametrize("name, arguments", WRONG)
def test_wrong_arguments(name, arguments):
    with pytest.raises((ValueError, IndexError)):
        mx.eval(INSTRUCTIONS[name].fn(*arguments))
