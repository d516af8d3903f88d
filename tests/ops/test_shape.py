"""Shapes: reshape, permute, broadcast, add and drop axes."""

import mlx.core as mx
import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim

import mlxify
from mlxify.ops import shape as s

from .harness import Case, check, params

X = torch.arange(24.0).reshape(2, 3, 4)
INTS = torch.arange(24).reshape(2, 3, 4)
SCALAR = torch.tensor(5.0)
EMPTY = torch.zeros(0, 3)
IMAGE = torch.randn(2, 8, 4, 6)
COMPLEX = torch.randn(3, 2, dtype=torch.complex64)
DTYPES = (
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64,
)  # fmt: skip
A, B = Dim("a", min=1, max=9), Dim("b", min=1, max=9)
AB = ({0: A, 1: B},)
SIZES = ((torch.randn(5, 7, 4),), (torch.randn(1, 1, 4),), (torch.randn(9, 9, 4),))


def dynamic(name, fn, **options):
    """A row whose first two sizes change: run at the least, the largest and another size."""
    return Case(f"{name} dynamic", fn, (X,), dynamic=AB, also=SIZES, **options)


RESHAPE = [
    Case("view -1", lambda x: x.view(-1, 4), (X,), decomposed=True, compiled=True),
    Case("view scalar", lambda x: x.view(1, 1).view([]), (SCALAR,)),
    Case("view of permuted", lambda x: x.permute(2, 0, 1).reshape(4, 6), (X,), decomposed=True),
    Case("view empty", lambda x: (x.view(3, 0), x.view(-1, 3), x.reshape(0, 5, 0)), (EMPTY,)),
    dynamic("reshape", lambda x: x.reshape(x.shape[0] * x.shape[1], -1), decomposed=True),
    dynamic("reshape splits", lambda x: x.reshape(x.shape[0], x.shape[1], 2, 2).reshape(-1)),
    Case("unsafe_view", lambda x: torch.ops.aten._unsafe_view(x, [4, -1]), (INTS,)),
    Case("reshape_alias copy", lambda x: torch.ops.aten._reshape_alias_copy(x, [6, 4], [4, 1]), (X,)),
    Case("reshape_alias", lambda x: torch.ops.aten._reshape_alias(x, [6, 4], [4, 1]), (X,)),
    Case("view_as", lambda x, y: (x.view_as(y), x.reshape_as(y)), (X, torch.zeros(4, 6))),
    Case("ravel", lambda x, y: (x.ravel(), torch.ravel(y)), (X.transpose(0, 2), SCALAR)),
    dynamic("ravel", lambda x: x.ravel()),
    Case("flatten", lambda x: (x.flatten(), x.flatten(1), x.flatten(-3, -2), x.flatten(1, 1)), (X,)),
    Case("flatten 0-d", lambda x: (x.flatten(), x.flatten(-1, 0)), (SCALAR,)),
    Case("flatten empty", lambda x: (x.flatten(), x[:, :, None].flatten(1)), (EMPTY,)),
    dynamic("flatten", lambda x: (x.flatten(), x.flatten(1), x.flatten(0, 1))),
    Case(
        "unflatten",
        lambda x: (x.unflatten(2, (2, 2)), x.unflatten(-1, (2, -1, 1)), x.unflatten(0, (-1,))),
        (X,),
    ),
    Case("unflatten empty", lambda x: (x.unflatten(0, (0, 2)), x.unflatten(0, (-1, 2))), (EMPTY,)),
    dynamic("unflatten", lambda x: (x.unflatten(2, (-1, 2)), x[..., None].flatten(1).unflatten(1, (-1, 2)))),
]

AXES = [
    Case("transpose negative", lambda x: x.transpose(-1, 0), (X,), decomposed=True),
    Case("transpose 0-d", lambda x: (x.transpose(0, -1), x.t(), x.permute([])), (SCALAR,)),
    Case("permute negative", lambda x: x.permute(-1, 0, -2), (INTS,), decomposed=True),
    dynamic("permute", lambda x: x.permute(2, 1, 0).reshape(4, -1)),
    Case("t", lambda x, y: (x.t(), y.t()), (X[0], X[0, 0])),
    Case("numpy_T", lambda x: (x[0].T, x[0, 0].T), (X,)),
    Case("mT", lambda x: x.mT, (X,)),
    Case("mH", lambda x, y: (x.mH, y.mH, y.adjoint(), torch.ops.aten.matrix_H(y)), (X, COMPLEX)),
    Case("swap", lambda x: (x.swapaxes(0, -1), x.swapdims(1, 2)), (X,)),
    Case("movedim", lambda x: (x.movedim(0, -1), x.movedim(-1, 0), x.movedim(1, 1)), (X,)),
    Case("movedim 0-d", lambda x: x.movedim(0, -1), (SCALAR,)),
    Case("movedim lists", lambda x: (x.movedim((0, 2), (-1, 0)), x.moveaxis([-1, -2], [0, 1])), (X,)),
    Case("moveaxis", lambda x: x.moveaxis(2, 0), (X,)),
    Case("in place", lambda x: ((x + 1).transpose_(0, 2), (x[:1] + 1).squeeze_(0).unsqueeze_(1), (x[0] + 1).t_()), (X,)),
    Case("unsqueeze", lambda x: (x.unsqueeze(0), x.unsqueeze(-1), x.unsqueeze(3), x.unsqueeze(-4)), (X,)),
    Case("unsqueeze 0-d", lambda x: (x.unsqueeze(0), x.unsqueeze(-1)), (SCALAR,), decomposed=True),
    dynamic("unsqueeze", lambda x: x.transpose(0, 1).unsqueeze(1)),
    Case("squeeze", lambda x: (x[:1, :, :1].squeeze(), x.squeeze()), (X,), decomposed=True),
    Case("squeeze 0-d", lambda x: (x.squeeze(), x.squeeze(0), x.squeeze(-1), torch.squeeze(x, (0,))), (SCALAR,)),
    Case("squeeze dim", lambda x: (x[:, :1].squeeze(1), x[:, :1].squeeze(-2), x.squeeze(1)), (X,), decomposed=True),
    Case("squeeze dims", lambda x: (x[:1, :, :1].squeeze((0, -1)), x[:1].squeeze((0, 1))), (X,), decomposed=True),
    Case("squeeze no dims", lambda x: torch.ops.aten.squeeze.dims(x, []), (X[:1],)),
    Case("squeeze empty", lambda x: (x[None].squeeze(), x.squeeze(0)), (EMPTY,)),
    Case(
        "squeeze dynamic",
        lambda x: (x[None].squeeze(), x[:, :, :1].squeeze(), x.squeeze(0), x[:, :1].squeeze((0, 1))),
        (X,),
        dynamic=AB,
        also=SIZES[:1],
    ),
    Case(
        "at least",
        lambda x, y: tuple(f(v) for f in (torch.atleast_1d, torch.atleast_2d, torch.atleast_3d) for v in (y, x[0, 0], x[0], x)),
        (X, SCALAR),
    ),
    Case("at least lists", lambda x, y: (torch.atleast_1d(x, y), torch.atleast_2d(y, x), torch.atleast_3d(x[0], y)), (X, SCALAR)),
]  # fmt: skip

BROADCAST = [
    Case("expand", lambda x: (x.expand(5, 3, 4), x.expand(2, 7, -1, 4), x.expand(-1, -1)), (X[0, :, :1],)),
    Case("expand 0-d", lambda x: (x.expand(2, 3), x.expand([])), (SCALAR,)),
    Case(
        "expand empty",
        lambda x: (x[:, :1].expand(-1, 3), x[None].expand(0, 0, 3), x.expand(2, -1, -1)),
        (EMPTY,),
    ),
    Case("expand to nothing", lambda x: x.expand(0, 3), (X[0, :1, :3],)),
    dynamic(
        "expand",
        lambda x: (x[:, :, :1].expand(-1, -1, 5), x[:1].expand(x.shape[0], x.shape[1], 4)),
        decomposed=True,
    ),
    dynamic("expand of two ones", lambda x: x[:1, :1].expand(x.shape[1], x.shape[0], -1)),
    Case("expand_as", lambda x, y: x.expand_as(y), (X[0], X)),
    dynamic("expand_as", lambda x: x[:1].expand_as(x)),
    Case("broadcast_to", lambda x: torch.broadcast_to(x, (2, 3, 4)), (X[0],)),
    Case(
        "broadcast_tensors",
        lambda x, y, z: torch.broadcast_tensors(x, y, z),
        (X[:, :1], INTS[0, :, :1], SCALAR),
    ),
    dynamic("broadcast_tensors", lambda x: torch.broadcast_tensors(x[:, :1], x[:1], x[0, 0])),
]

SHUFFLES = [
    Case(
        "pixel_shuffle",
        lambda x: (F.pixel_shuffle(x, 2), F.pixel_shuffle(x[0], 2), F.pixel_shuffle(x, 1)),
        (IMAGE,),
    ),
    Case(
        "pixel_unshuffle",
        lambda x: (F.pixel_unshuffle(x, 2), F.pixel_unshuffle(x[None], 2)),
        (IMAGE,),
        compiled=True,
    ),
    Case("channel_shuffle", lambda x: (F.channel_shuffle(x, 2), F.native_channel_shuffle(x, 4)), (IMAGE,)),
    Case(
        "shuffles dynamic",
        lambda x: (F.pixel_shuffle(x, 2), F.pixel_unshuffle(x, 2), F.channel_shuffle(x, 2)),
        (IMAGE,),
        dynamic=({2: 2 * Dim("h", min=2, max=9), 3: 2 * Dim("w", min=2, max=9)},),
        also=((torch.randn(2, 8, 4, 4),), (torch.randn(2, 8, 18, 18),), (torch.randn(2, 8, 6, 12),)),
    ),
]

TYPES = [
    Case(
        str(dtype),
        lambda x: (x.t().reshape(2, 6)[:, None].expand(2, 2, 6), x.flip(0)[1:, ::2]),
        (torch.ones(3, 4).to(dtype),),
    )
    for dtype in DTYPES
]


@params(RESHAPE + AXES + BROADCAST + SHUFFLES + TYPES)
def test_shape(case, tmp_path):
    check(case, tmp_path)


def test_a_size_that_is_1_only_at_run_time_is_not_squeezed():
    """As in the exported graph, whose later ops count on the axis."""
    exported = torch.export.export(
        torch.nn.Sequential(Squeeze()), (X,), dynamic_shapes=(AB[0],), strict=False
    )
    assert mlxify.convert(exported)(X[:1, :1]).shape == (1, 1, 4)


class Squeeze(torch.nn.Module):
    def forward(self, x):
        return x.squeeze()


ARRAY = mx.arange(6).reshape(2, 3)


@pytest.mark.parametrize(
    "call",
    [
        lambda: s.reshape(ARRAY, [-2, -3]),
        lambda: s.reshape(ARRAY, [-1, -1]),
        lambda: s.reshape(ARRAY, [-1, 0]),
        lambda: s.reshape(ARRAY, [2**40, 1]),
        lambda: s.broadcast_to(ARRAY, [-1, 2, 3]),
        lambda: s.broadcast_to(ARRAY, [3]),
        lambda: s.broadcast_to(ARRAY, [2**40, 2, 3]),
        lambda: s.reshape(mx.zeros((0,)), [2**22, 2**21, 2**21]),  # 2**64 elements are none to MLX
        lambda: s.broadcast_to(ARRAY, [2**30, 2**30, 2, 3]),
        lambda: s.transpose(ARRAY, [0, 0]),
        lambda: s.transpose(ARRAY, [0]),
        lambda: s.transpose(ARRAY, [0, 2**40]),
        lambda: s.expand_dims(ARRAY, [0, -4]),
        lambda: s.expand_dims(ARRAY, [2**40]),
        lambda: s.squeeze(ARRAY, [0]),
        lambda: s.squeeze(ARRAY, [2**40]),
        lambda: s.flip(ARRAY, [2]),
        lambda: s.slice_(ARRAY, [0], [1], [0], [0]),
        lambda: s.slice_(ARRAY, [0], [1], [1], [0, 1]),
        lambda: s.slice_(ARRAY, [0, 0], [1, 1], [1, 1], [0, 0]),
        lambda: s.slice_at(ARRAY, 1, 2, 0),
        lambda: s.slice_at(ARRAY, mx.array(0), 3, 0),
        lambda: s.slice_at(ARRAY, mx.array(0), -1, 0),
        lambda: s.slice_at(ARRAY, mx.array([0, 1]), 1, 0),
        lambda: s.slice_at(ARRAY, mx.array(0.5), 1, 0),
    ],
)
def test_hostile_arguments_are_refused(call):
    """What a file may ask for and MLX does not check, or ends the process over."""
    with pytest.raises((ValueError, IndexError, TypeError, OverflowError)):
        mx.eval(call())


@pytest.mark.parametrize(
    ("start", "first"), [(-1, 2), (-3, 0), (-9, 0), (1, 1), (7, 2), (2**40, 2), (-(2**62), 0)]
)
def test_an_array_as_start_stays_inside(start, first):
    assert s.slice_at(ARRAY, mx.array(start), 1, 1).tolist() == [[first], [first + 3]]
