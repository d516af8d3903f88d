"""Parts of arrays: slices, rows, windows, strided views, reversed and rotated."""

import mlx.core as mx
import pytest
import torch
from torch.export import Dim

from mlxify.ops import slicing

from .harness import Case, check, params
from .test_shape import DTYPES, EMPTY, SCALAR, X, dynamic

LAST = 2**63 - 1
aten = torch.ops.aten
LONG = torch.randn(2, 12)
# PyTorch exports n // 2 of a size n only when it knows n to be even.
WIDE = ({1: 2 * Dim("n", min=3, max=20)},)
MORE = ((torch.randn(2, 6),), (torch.randn(2, 40),), (torch.randn(2, 14),))


def wide(name, fn, **options):
    """A row whose second size changes."""
    return Case(f"{name} dynamic", fn, (LONG,), dynamic=WIDE, also=MORE, **options)


def number(index, low, high):
    """A number that depends on data."""
    n = index.item()
    torch._check(n >= low)
    torch._check(n <= high)
    return n


SLICES = [
    Case("defaults", lambda x: (aten.slice(x), aten.slice(x, 1), aten.slice(x, -1, 1)), (X,)),
    Case("all None", lambda x: aten.slice(x, 2, None, None), (X,)),
    Case("bounds", lambda x: (x[1:], x[:, :2], x[..., 1:3], x[:, 1:1]), (X,), decomposed=True, compiled=True),
    Case("negative", lambda x: (x[:, -2:], x[..., :-1], x[..., -3:-1], x[:, -1:1]), (X,), decomposed=True),
    Case(
        "out of range", lambda x: (x[:, 5:], x[:, -9:], x[:, :9], x[:, :-9], x[:, 2:1]), (X,), decomposed=True
    ),
    Case("int64 max", lambda x: (aten.slice(x, 1, 0, LAST), aten.slice(x, 2, 1, LAST, 2)), (X,)),
    Case(
        "step",
        lambda x: (x[..., ::2], x[..., 1::2], x[..., ::3], x[:, ::7], x[..., -3::2]),
        (X,),
        decomposed=True,
    ),
    Case("empty", lambda x: (x[:, 1:], x[0:], x[5:], x[:, ::2]), (EMPTY,)),
    Case("of a transposed tensor", lambda x: x.transpose(0, 2)[1:3, ::2], (X,)),
    wide(
        "start",
        lambda x: (x[:, 2:], x[:, -3:], x[:, x.shape[1] - 4 :], x[:, x.shape[1] // 2 :]),
        decomposed=True,
    ),
    wide("stop", lambda x: (x[:, :-1], x[:, :3], x[:, : x.shape[1] // 2], x[:, : x.shape[1]])),
    wide("step", lambda x: (x[:, ::2], x[:, 1::3], x[:, -5::2])),
    wide("halves", lambda x: torch.cat((-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]), -1)),
    dynamic("outer", lambda x: (x[:1], x[:, :1], x[-1:])),
]

ROWS = [
    Case(
        "select", lambda x: (x[0], x[1, 2], x[..., 3], x.select(1, 1)), (X,), decomposed=True, compiled=True
    ),
    Case("select negative", lambda x: (x[-1], x[..., -4], x.select(-2, -1)), (X,), decomposed=True),
    wide("select", lambda x: (x[:, 0], x[:, -1], x[:, x.shape[1] // 2], x[:, x.shape[1] - 1])),
    Case(
        "narrow", lambda x: (x.narrow(1, 1, 2), x.narrow(-1, -3, 2), x.narrow(0, 2, 0)), (X,), decomposed=True
    ),
    Case("narrow_copy", lambda x: torch.narrow_copy(x, 2, -2, 2), (X,)),
    wide("narrow", lambda x: (x.narrow(1, 2, x.shape[1] - 3), x.narrow(1, x.shape[1] - 3, 2))),
    Case(
        "slice at a number from data",
        lambda x, i: (lambda n: x[:, n : n + 2])(number(i, 0, 2)),
        (X[0], torch.tensor(1)),
        also=((X[1], torch.tensor(0)), (X[1], torch.tensor(2))),
    ),
    Case(
        "select at a number from data",
        lambda x, i: (lambda n: (x[:, n], x[:, n + 1]))(number(i, 0, 2)),
        (X[0], torch.tensor([1])),
        also=((X[1], torch.tensor([2])),),
    ),
    Case(
        "select at a negative number from data",
        lambda x, i: x[number(i, -3, -1)],
        (X[0], torch.tensor(-1)),
        also=((X[1], torch.tensor(-3)),),
    ),
    Case(
        "slice of a length not known to be right",
        lambda x, i: (lambda n: x[:, n : n + 2])(i.item()),
        (X[0], torch.tensor(1)),
        also=((X[1], torch.tensor(3)), (X[1], torch.tensor(-3))),
    ),
    Case("narrow at a number from data", lambda x, i: x.narrow(1, i.item(), 2), (X[0], torch.tensor(1))),
    Case(
        "slice up to a number from data",
        lambda x, i: (lambda n: (x[:n], x[n:]))(number(i, 0, 3)),
        (X[0], torch.tensor(1)),
        also=((X[1], torch.tensor(0)), (X[1], torch.tensor(3))),
    ),
]

TURNED = [
    Case("flip", lambda x: (x.flip(0), x.flip(-1, 1), x.flip([])), (X,), decomposed=True, compiled=True),
    Case(
        "flip 0-d and empty", lambda x, y: (x.flip(0), x.flip(-1), x.flip([]), y.flip(0, 1)), (SCALAR, EMPTY)
    ),
    Case("fliplr, flipud", lambda x: (x.fliplr(), x.flipud(), x[0, 0].flipud()), (X,)),
    dynamic("flip", lambda x: x.flip(0, 1)),
    *(
        Case(f"rot90 {k}", lambda x, k=k: (x.rot90(k), x.rot90(k, (2, 1))), (X,))
        for k in (-1, 0, 1, 2, 3, 4, 6)
    ),
    dynamic("rot90", lambda x: (x.rot90(1), x.rot90(2, (1, 2)), x.rot90(3, (-1, 0)))),
]

WINDOWS = [
    Case("unfold", lambda x: (x.unfold(1, 2, 1), x.unfold(2, 3, 2), x.unfold(-1, 4, 9), x.unfold(0, 1, 1)), (X,), decomposed=True),
    Case("unfold transposed", lambda x: x.transpose(0, 2).unfold(0, 2, 2).unfold(1, 2, 1), (X,)),
    Case("unfold 0-d", lambda x: (x.unfold(0, 1, 1), x.unfold(-1, 0, 1)), (SCALAR,)),
    Case("unfold nothing", lambda x: (x.unfold(0, 0, 1), torch.ops.aten.unfold_copy(x, 1, 2, 1)), (X[0],)),
    wide("unfold", lambda x: (x.unfold(1, 4, 2), x.unfold(1, 1, 5), x.unfold(0, 2, 1), x.t().unfold(0, 3, 3))),
    Case("as_strided", lambda x: (x.as_strided((2, 2), (1, 2)), x.as_strided((3,), (0,), 4), x.as_strided((), (), 5)), (X,)),
    Case("as_strided overlapping", lambda x: (x * 2).as_strided((3, 4), (3, 1), 2), (X,)),
    Case("as_strided empty", lambda x: (x.as_strided((0, 3), (3, 1)), x.as_strided((2, 0), (5, 5), 1)), (X,)),
    Case("as_strided of a transposed tensor", lambda x: (x.transpose(0, 2) + 1).as_strided((3, 5), (5, 1), 1), (X,)),
    Case("as_strided of a view", lambda x: (x + 1)[1].as_strided((2, 2), (4, 1)), (X,)),
    Case("as_strided outside of a view", lambda x: (x + 1)[1].as_strided((2, 2), (4, 1), 0), (X,), refused="as_strided"),
    Case("resize_", lambda x: ((x + 1).resize_(2, 3), (x * 2).resize_(x.shape), (x + 3).resize_(0, 4), (x + 4).resize_([])), (X,)),
    Case("resize_ of a transposed tensor", lambda x: ((x + 1).transpose(0, 2).resize_(2, 5), (x.transpose(0, 2) + 1).resize_(2, 5)), (X,)),
    Case("resize_ to its size", lambda x: ((x.transpose(0, 2) + 1).resize_(4, 3, 2), (x.transpose(0, 2) + 1).resize_(2, 5)), (X,)),
    Case("resize_ of a view to its size", lambda x: (x + 1).transpose(0, 1).resize_(3, 2, 4), (X,), refused="resize_ to the size"),
    Case("resize_ used on", lambda x: (x + 1).resize_(2, 3) * 2, (X,)),
    Case("resize_as_", lambda x: (x + 1).resize_as_(x[:1, :2]), (X,)),
    Case("resize_ to more", lambda x: (x + 1).resize_(99), (X,), refused="beyond the tensor"),
    Case("resize_ channels last", lambda x: (x + 1).resize_((1, 2, 2, 2), memory_format=torch.channels_last), (X,), refused="channels_last"),
]  # fmt: skip

TYPES = [
    Case(str(dtype), lambda x: (x[1:, -1], x.unfold(0, 2, 1), x.rot90()), (torch.ones(3, 4).to(dtype),))
    for dtype in DTYPES
]


@params(SLICES + ROWS + TURNED + WINDOWS + TYPES)
def test_slicing(case, tmp_path):
    check(case, tmp_path)


@pytest.mark.parametrize(
    ("shape", "strides", "offset"),
    [
        ([2], [100], 0),
        ([2], [-1], 0),
        ([7], [1], 0),
        ([1], [0], 6),
        ([2, 2], [3], 0),
        ([-1], [1], 0),
        ([2], [2**40], 0),
    ],
)
def test_as_strided_stays_inside(shape, strides, offset):
    with pytest.raises(ValueError, match=r"leave|possible|length"):
        slicing.as_strided(mx.arange(6), shape, strides, offset)
