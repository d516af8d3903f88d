"""Putting arrays together and taking them apart: concatenate, stack, split, repeat, roll, grids."""

import mlx.core as mx
import pytest
import torch

from mlxify.ops import join

from .harness import Case, check, params
from .test_shape import DTYPES, EMPTY, INTS, SCALAR, X, dynamic
from .test_slicing import wide

aten = torch.ops.aten
ROW = torch.randn(5)
HALF = torch.randn(2, 3, 4).half()
I8 = torch.arange(-12, 12, dtype=torch.int8).reshape(2, 3, 4)
U8 = torch.arange(24, dtype=torch.uint8).reshape(2, 3, 4)

CAT = [
    Case("cat", lambda x: (torch.cat((x, x + 1)), torch.cat([x, x], -1), torch.cat([x], 1)), (X,), decomposed=True, compiled=True),
    Case("cat aliases", lambda x: (torch.concat((x, x), 1), torch.concatenate((x, x), -3)), (X,)),
    Case("cat mixed", lambda x, i, h: (torch.cat((x, i)), torch.cat((h, i), 1), torch.cat((h, x))), (X, INTS, HALF)),
    Case("cat small ints", lambda a, b: (torch.cat((a, b)), torch.cat((a, a > 3)), torch.cat((b > 3, b > 4))), (I8, U8)),
    Case("cat bfloat16 and float16", lambda h: torch.cat((h, h.bfloat16())), (HALF,)),
    Case("cat int64 beyond 2**53", lambda x: torch.cat((x, x + 1)), (torch.tensor([2**53 + 1, -(2**62) - 1]),)),
    Case("cat legacy empty", lambda e, x: (torch.cat((e, x)), torch.cat((x, e), 2), torch.cat((e, e))), (torch.zeros(0), X), decomposed=True),
    Case("cat legacy empty promotes", lambda e, x: torch.cat((e, x)), (torch.zeros(0), INTS)),
    Case("cat empty", lambda e: (torch.cat((e, e), 1), torch.cat((e, torch.ones(2, 3)))), (EMPTY,)),
    dynamic("cat", lambda x: (torch.cat((x, x[:, :1]), 1), torch.cat((x, x), 0)), decomposed=True),
    Case("stack", lambda x: (torch.stack((x, x)), torch.stack([x, x + 1], -1), torch.stack([x], 2)), (X,), decomposed=True),
    Case("stack mixed", lambda x, i: (torch.stack((x[0], i[0]), 1), aten._stack([i, x])), (HALF, INTS)),
    Case("stack 0-d", lambda x: (torch.stack((x, x)), torch.stack((x, x), -1)), (SCALAR,)),
    dynamic("stack", lambda x: torch.stack((x, x * 2), 1).flatten(1, 2)),
    Case("hstack", lambda x, r, s: (torch.hstack((x, x)), torch.hstack((r, s, r)), torch.hstack((s, s))), (X, ROW, SCALAR)),
    Case("vstack", lambda x, r, s: (torch.vstack((x, x)), torch.vstack((r, r)), torch.row_stack((s, s))), (X, ROW, SCALAR)),
    Case("dstack", lambda x, r, s: (torch.dstack((x, x)), torch.dstack((r, r)), torch.dstack((s, s)), torch.dstack((x[0], x[0]))), (X, ROW, SCALAR)),
    Case("column_stack", lambda x, r, s: (torch.column_stack((x, x)), torch.column_stack((r, r)), torch.column_stack((s, s))), (X, ROW, SCALAR)),
    Case("column_stack mixed", lambda r: torch.column_stack((r, torch.arange(10).reshape(5, 2))), (ROW,)),
    Case("block_diag", lambda x, r, s: (torch.block_diag(x[0], r, s, x[1]), torch.block_diag(r), torch.block_diag(s.int(), r > 0)), (X, ROW, SCALAR)),
    Case("block_diag empty", lambda e, x: torch.block_diag(x[0], e, x[0]), (EMPTY, X)),
    dynamic("block_diag", lambda x: torch.block_diag(x[0], x[:, 0])),
]  # fmt: skip

SPLIT = [
    Case("split", lambda x: (x.split(2, 1), x.split(4, -1), x.split(9), x.split(1)), (X,), decomposed=True, compiled=True),
    Case("split empty", lambda x: (x.split(0), x.split(3), x.split(2, 1)), (EMPTY,)),
    Case("split sizes", lambda x: (x.split([1, 2], 1), x.split([0, 3, 1, 0], -1), x.split([2])), (X,), decomposed=True),
    Case("split_with_sizes", lambda x: (x.split_with_sizes([1, 1]), x.split_with_sizes([4], 2)), (X,), decomposed=True),
    Case("unsafe_split", lambda x: (torch.unsafe_split(x, 2, 1), torch.unsafe_split_with_sizes(x, [3, 1], 2)), (X,)),
    Case("split_copy", lambda x: (aten.split_copy(x, 2, 1), aten.split_with_sizes_copy(x, [3, 1], 2)), (X,)),
    Case("one part of many", lambda x: x.split(1, -1)[2] + x.chunk(4, -1)[0], (X,)),
    Case("chunk", lambda x: (x.chunk(2, 1), x.chunk(3, -1), x.chunk(7, 2), x.chunk(1)), (X,), decomposed=True),
    Case("unsafe_chunk", lambda x: torch.unsafe_chunk(x, 2, 1), (X,)),
    Case("tensor_split", lambda x: (x.tensor_split(2, 1), x.tensor_split(3, -1), x.tensor_split(6, 2)), (X,)),
    Case("tensor_split at", lambda x: (x.tensor_split([1, 3], 2), x.tensor_split([-1], 1), x.tensor_split([2, 1, 9], 2)), (X,)),
    Case("hsplit", lambda x, r: (x.hsplit(3), x.hsplit([1, 2]), r.hsplit(5), r.hsplit([2])), (X, ROW)),
    Case("vsplit, dsplit", lambda x: (x.vsplit(2), x.vsplit([1]), x.dsplit(2), x.dsplit([1, 3])), (X,)),
    Case("unbind", lambda x: (x.unbind(), x.unbind(-1), x[:, :1].unbind(1)), (X,), decomposed=True),
    dynamic("split", lambda x: (x.split(3, 2), x.split([1, 3], -1), x.chunk(2, 2), x.unbind(2))),
    wide("chunk", lambda x: x.chunk(2, 1)),
    wide("split in two", lambda x: x.split(x.shape[1] // 2, 1)),
    Case("tensor_split at a tensor", lambda x, i: x.tensor_split(i, 2), (X, torch.tensor([1, 3])),
         also=((X, torch.tensor([-1, 9])), (X, torch.tensor([2, 1])))),
    Case("tensor_split at a constant", lambda x: [part * 2 for part in x.tensor_split(torch.tensor([-2]), 2)], (X,)),
    Case("_chunk_cat", lambda x, i: (aten._chunk_cat([x, x], 1, 2), aten._chunk_cat([x, x[:, :1], x[:, :, 1:]], -2, 2), aten._chunk_cat([x[0, 0], x[0, 0, :1]], 0, 3)), (X, INTS)),
    Case("_chunk_cat half", lambda x: aten._chunk_cat([x, x[:1]], 0, 2), (HALF,)),
    wide("split sizes", lambda x: (x.split([2, x.shape[1] - 2], 1), x.tensor_split(2, 1), x.tensor_split([2, -2], 1))),
]  # fmt: skip

REPEAT = [
    Case("repeat", lambda x: (x.repeat(2, 1, 3), x.repeat(2, 1, 1, 2), x.repeat(1, 1, 1)), (X,), decomposed=True, compiled=True),
    Case("repeat 0-d and 0 times", lambda x, y: (x.repeat(3), x.repeat(2, 2), y.repeat(0, 1, 2), y.repeat(2, 0, 1, 1)), (SCALAR, X)),
    Case("repeat empty", lambda x: x.repeat(2, 2), (EMPTY,)),
    Case("tile", lambda x: (x.tile(2), x.tile(2, 1, 1, 2), x.tile(1, 3)), (X,)),
    dynamic("repeat", lambda x: (x.repeat(1, 2, 1), x[:1].repeat(x.shape[0], 1, 1), x.tile(2))),
    Case("repeat_interleave", lambda x: (x.repeat_interleave(2), x.repeat_interleave(3, 1), x.repeat_interleave(2, -1)), (X,), decomposed=True),
    Case("repeat_interleave transposed", lambda x: x.transpose(0, 2).repeat_interleave(2), (X,)),
    Case("repeat_interleave 0-d, none and empty", lambda x, y, z: (x.repeat_interleave(2), y.repeat_interleave(0, 1), z.repeat_interleave(2, 0)), (SCALAR, X, EMPTY)),
    Case("repeat_interleave output_size", lambda x: x.repeat_interleave(2, 0, output_size=4), (X,)),
    dynamic("repeat_interleave", lambda x: (x.repeat_interleave(2, 0), x.repeat_interleave(2))),
    Case(
        "repeat_interleave by data", lambda x, n: (x.repeat_interleave(n, 1), x.repeat_interleave(n, 1, output_size=6)),
        (X, torch.tensor([2, 0, 4])), also=((X, torch.tensor([1, 4, 1])),),
    ),
    Case("repeat_interleave flat by data", lambda x, n: x.repeat_interleave(n), (X[0, 0], torch.tensor([2, 0, 4, 1]))),
    Case("repeat_interleave by one number", lambda x, n: x.repeat_interleave(n, 0, output_size=6), (X, torch.tensor([3]))),
    Case("repeat_interleave Tensor", lambda n: (torch.repeat_interleave(n), torch.repeat_interleave(n, output_size=5)), (torch.tensor([0, 2, 3, 0]),)),
    Case("repeat_interleave Tensor int32", lambda n: torch.repeat_interleave(n), (torch.tensor([1, 2], dtype=torch.int32),)),
]  # fmt: skip

ROLL = [
    Case("roll", lambda x: (x.roll(1, 0), x.roll(-1, -1), x.roll(5, 1), x.roll(0, 0)), (X,), decomposed=True, compiled=True),
    Case("roll several", lambda x: (x.roll((1, -2), (0, 2)), x.roll((1, 1), (1, 1)), x.roll((-7, 9), (2, -2))), (X,), decomposed=True),
    Case("roll flat", lambda x: (x.roll(5), x.roll(-1), x.transpose(0, 2).roll(100)), (X,), decomposed=True),
    Case("roll far", lambda x: x.roll(2**40 + 1, 1), (X,)),
    Case("roll 0-d and empty", lambda x, y: (x.roll(3), y.roll(2, 0), y.roll(2, 1), y.roll(1)), (SCALAR, EMPTY)),
    dynamic("roll", lambda x: (x.roll(1, 0), x.roll((-2, 3), (1, 0)), x.roll(3), x.roll(x.shape[0] // 2 * 0 + 1, 1))),
    wide("roll by half", lambda x: x.roll(x.shape[1] // 2, 1)),
]  # fmt: skip

GRIDS = [
    Case("meshgrid", lambda a, b: (aten.meshgrid([a, b]), torch.meshgrid(a, b, indexing="ij")), (ROW, ROW[:2])),
    Case("meshgrid xy", lambda a, b: (torch.meshgrid(a, b, indexing="xy"), torch.meshgrid(a, indexing="xy")), (ROW, ROW[:2])),
    Case("meshgrid 3", lambda a, b, s: (torch.meshgrid(a, b, a, indexing="xy"), torch.meshgrid(s, b, indexing="ij")), (ROW, ROW[:2], SCALAR)),
    dynamic("meshgrid", lambda x: torch.meshgrid(x[:, 0, 0], x[0, :, 0], indexing="xy")),
    Case("cartesian_prod", lambda a, b: (torch.cartesian_prod(a, b, a), torch.cartesian_prod(a)), (ROW, ROW[:2])),
    Case("kron", lambda x, r: (torch.kron(x[0], x[1]), torch.kron(r, x)), (X, ROW)),
    Case("vander", lambda r: (torch.vander(r), torch.linalg.vander(r, N=3)), (ROW,)),
    Case("pad_sequence", lambda a, b: torch.nn.utils.rnn.pad_sequence([a, b], True, 7.0), (ROW, ROW[:2])),
]  # fmt: skip

TYPES = [
    Case(str(dtype), lambda x: (torch.cat((x, x)), torch.stack((x, x)), x.split(1), x.repeat(2, 1), x.repeat_interleave(2), x.roll(1)), (torch.ones(3, 4).to(dtype),))
    for dtype in DTYPES
]  # fmt: skip


@params(CAT + SPLIT + REPEAT + ROLL + GRIDS + TYPES)
def test_join(case, tmp_path):
    check(case, tmp_path)


ARRAY = mx.arange(6).reshape(2, 3)


@pytest.mark.parametrize(
    "call",
    [
        lambda: join.concatenate([], 0),
        lambda: join.concatenate([ARRAY], 2**40),
        lambda: join.concatenate([mx.zeros((2**31 - 1,), mx.bool_)] * 2, 0),
        lambda: join.split(ARRAY, [1, 1], 1),
        lambda: join.split(ARRAY, [4, -1], 1),
        lambda: join.split(ARRAY, [3], 2),
        lambda: join.tile(ARRAY, [2**33, 1]),
        lambda: join.tile(ARRAY, [2**30, 2**30, 2**30]),
        lambda: join.tile(ARRAY, [-1]),
        lambda: join.repeat(ARRAY, -1, 0),
        lambda: join.repeat(ARRAY, 2**40, 0),
        lambda: join.roll(ARRAY, [1], [0, 1]),
        lambda: join.roll(ARRAY, [1], [2**40]),
    ],
)
def test_hostile_arguments_are_refused(call):
    """What a file may ask for and MLX does not check, or ends the process over."""
    with pytest.raises((ValueError, IndexError, TypeError, OverflowError)):
        mx.eval(call())
