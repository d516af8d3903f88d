"""Padding: with a constant, reflected, with the edge, and around the other end. Negative widths cut off."""

import mlx.core as mx
import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim

from mlxify.ops import pad

from .harness import Case, check, params
from .test_shape import DTYPES, EMPTY, INTS, SCALAR, X, dynamic
from .test_slicing import number, wide

aten = torch.ops.aten
IMAGE = torch.randn(2, 3, 4, 5)
VOLUME = torch.randn(1, 2, 3, 4, 5)
BIG = 2**62 + 1
SPATIAL = ({2: Dim("h", min=3, max=30), 3: Dim("w", min=3, max=30)},)
IMAGES = ((torch.randn(2, 3, 3, 3),), (torch.randn(2, 3, 30, 30),), (torch.randn(2, 3, 7, 5),))

CONSTANT = [
    Case("constant_pad_nd", lambda x: (aten.constant_pad_nd(x, [1, 2]), aten.constant_pad_nd(x, [0, 1, 2, 0, 1, 1], -3.5)), (X,), decomposed=True, compiled=True),
    Case("pad", lambda x: (F.pad(x, (1, 2)), F.pad(x, (0, 0, 1, 0), value=2.5), F.pad(x, (0, 0))), (X,), decomposed=True),
    Case("negative widths", lambda x: (F.pad(x, (-1, 2)), F.pad(x, (1, -2, -1, -1)), F.pad(x, (-2, -2))), (X,), decomposed=True),
    Case("negative, all", lambda x: F.pad(x, (-1, -1, 0, 0, 1, 0)), (X,)),
    Case("exact int64", lambda x: (aten.constant_pad_nd(x, [1, 1], BIG), aten.constant_pad_nd(x, [1, 1], -BIG)), (INTS,), decomposed=True),
    Case("int32 beyond float32", lambda x: F.pad(x, (1, 1), value=16777217), (INTS.int(),)),
    Case("fraction in ints", lambda x: (F.pad(x, (1, 0), value=2.7), F.pad(x, (1, 0), value=-2.7)), (INTS,)),
    Case("bool", lambda x: (F.pad(x, (1, 0), value=True), F.pad(x, (1, 0)), aten.constant_pad_nd(x, [2, 0], 1)), (X > 4,)),
    Case("infinities", lambda x: (F.pad(x, (1, 0), value=float("-inf")), F.pad(x.half(), (1, 0), value=float("nan"))), (X,)),
    Case("complex", lambda x: (aten.constant_pad_nd(x, [1, 2], 1 - 2j), aten.constant_pad_nd(x, [-1, 1], 3.5), aten.constant_pad_nd(x, [0, 1], 1j)), (X.to(torch.complex64) * 1j,)),
    Case("float64", lambda x: F.pad(x, (1, 0), value=0.1), (X.double(),)),
    Case("0-d and empty", lambda x, y: (F.pad(x, ()), F.pad(y, (1, 1, 2, 0)), F.pad(y, (-3, 0))), (SCALAR, EMPTY)),
    Case("of a transposed tensor", lambda x: F.pad(x.transpose(0, 2), (1, 1)), (X,)),
    dynamic("constant", lambda x: (F.pad(x, (1, 1, 0, 2)), F.pad(x, (0, 0, 0, x.shape[0])))),
    wide("to a multiple", lambda x: F.pad(x, (0, 40 - x.shape[1]))),
    wide("negative", lambda x: (F.pad(x, (-1, 1)), F.pad(x, (-(x.shape[1] // 2), 0)), F.pad(x, (0, 20 - x.shape[1])))),
    Case("width from data", lambda x, n: F.pad(x, (0, number(n, 1, 9))), (X, torch.tensor(2)), also=((X, torch.tensor(9)),)),
]  # fmt: skip

MODES = [
    *(
        Case(mode, lambda x, v, mode=mode: (F.pad(x[0], (2, 1), mode), F.pad(x, (1, 2, 0, 1), mode), F.pad(v, (1, 0, 0, 2, 1, 1), mode)), (IMAGE, VOLUME), decomposed=True)
        for mode in ("reflect", "replicate", "circular")
    ),
    *(
        Case(f"{mode} without batch", lambda x, mode=mode: (F.pad(x[0, 0], (3, 2), mode), F.pad(x[0], (1, 1, 2, 0), mode), F.pad(x, (1, 0, 1, 1, 0, 1), mode)), (IMAGE,))
        for mode in ("reflect", "replicate", "circular")
    ),
    *(
        Case(f"{mode} dynamic", lambda x, mode=mode: (F.pad(x, (2, 1, 1, 2), mode), F.pad(x[1], (0, 1), mode)), (IMAGE,), dynamic=SPATIAL, also=IMAGES)
        for mode in ("reflect", "replicate", "circular")
    ),
    *(
        Case(f"{mode} negative", lambda x, mode=mode: (F.pad(x[0], (-1, 2), mode), F.pad(x, (2, -2, -1, -1), mode)), (IMAGE,))
        for mode in ("reflect", "replicate", "circular")
    ),
    *(
        Case(f"{mode} {dtype}", lambda x, mode=mode: F.pad(x, (1, 2), mode), (X.to(dtype),))
        for mode in ("reflect", "replicate", "circular")
        for dtype in (torch.float16, torch.bfloat16, torch.int64, torch.uint8)
        if dtype.is_floating_point or mode == "circular" or (dtype == torch.int64 and mode == "reflect")
    ),
    Case("reflection 1-d", lambda x: aten.reflection_pad1d(x, [3, 1]), (X,), compiled=True),
    Case("reflection 2-d, 3-d", lambda x, v: (aten.reflection_pad2d(x, [1, 2, 3, 0]), aten.reflection_pad3d(v, [1, 2, 0, 1, 2, 2])), (IMAGE, VOLUME)),
    Case("replication 1-d", lambda x: aten.replication_pad1d(x, [3, 7]), (X,), compiled=True),
    Case("replication 2-d, 3-d", lambda x, v: (aten.replication_pad2d(x, [1, 2, 3, 9]), aten.replication_pad3d(v, [1, 2, 0, 1, 2, 2])), (IMAGE, VOLUME)),
    Case("circular around and around", lambda x: aten._pad_circular(x, [5, 5, 4, 0]), (IMAGE,), compiled=True),
    *(Case(f"enum {mode}", lambda x, mode=mode: aten._pad_enum(x, [1, 2], mode, 3.0 if mode == 3 else None), (X,)) for mode in range(4)),
]  # fmt: skip

TYPES = [Case(str(dtype), lambda x: F.pad(x, (1, 2)), (torch.ones(3, 4).to(dtype),)) for dtype in DTYPES]


@params(CONSTANT + MODES + TYPES)
def test_pad(case, tmp_path):
    check(case, tmp_path)


@pytest.mark.parametrize(
    ("low", "high", "mode"),
    [
        ([1], [1], "constant"),
        ([2**31, 0], [0, 0], "constant"),
        ([-3, 0], [2, 0], "constant"),
        ([-3, 0], [5, 0], "constant"),
        ([-1, 0], [-2, 0], "edge"),
        ([0, 3], [0, 0], "reflect"),
        ([0, 0], [0, 4], "wrap"),
        ([0, 2], [0, -2], "wrap"),
        ([2**40, 0], [0, 0], "edge"),
    ],
)
def test_hostile_widths_are_refused(low, high, mode):
    with pytest.raises(ValueError, match=r"width|possible"):
        mx.eval(pad.pad(mx.arange(6).reshape(2, 3), low, high, mode, 0))


def test_no_edge_of_an_empty_array():
    with pytest.raises(ValueError, match="width"):
        mx.eval(pad.pad(mx.zeros((0, 3)), [1, 0], [0, 0], "edge", 0))
