"""Diagonals and triangles of matrices."""

import math

import mlx.core as mx
import pytest
import torch

from mlxify.ops import diagonal

from .harness import Case, check, params
from .test_create import new
from .test_shape import COMPLEX, DTYPES, EMPTY, INTS, X, dynamic
from .test_slicing import number

ROW = torch.randn(3)
BAD = torch.tensor([[math.nan, math.inf, 1.0], [-math.inf, math.nan, 2.0], [math.inf, 3.0, math.nan]])

TRIANGLES = [
    Case(
        "tril",
        lambda x: (x.tril(), x.tril(1), x.tril(-1), x.tril(9), x.tril(-9)),
        (X,),
        decomposed=True,
        compiled=True,
    ),
    Case(
        "triu",
        lambda x: (x.triu(), x.triu(1), x.triu(-1), x.triu(9), x.triu(-9)),
        (X,),
        decomposed=True,
        compiled=True,
    ),
    Case("triangles of nan and infinity", lambda x: (x.tril(), x.triu(1), x.tril(-1)), (BAD,)),
    Case("triangles of nothing", lambda x: (x.tril(), x.triu(1), x.t().tril(-1)), (EMPTY,)),
    Case(
        "causal mask",
        lambda x: torch.triu(torch.full((4, 4), float("-inf")), diagonal=1) + x,
        (torch.zeros(1),),
    ),
    Case(
        "bool mask",
        lambda x: torch.ones(4, 4, dtype=torch.bool).tril() & x,
        (torch.ones(4, dtype=torch.bool),),
    ),
    dynamic(
        "triangles", lambda x: (x.tril(), x.triu(-1), x.tril(x.shape[1] - x.shape[0]), x.triu(x.shape[0] - 2))
    ),
    Case(
        "tril by data",
        lambda x, k: x.tril(number(k, -5, 5)),
        (X, torch.tensor(-1)),
        also=((X, torch.tensor(2)),),
    ),
    new(
        "tril_indices",
        lambda: (torch.tril_indices(3, 4), torch.tril_indices(4, 3, 1), torch.tril_indices(3, 3, -1)),
    ),
    new(
        "triu_indices",
        lambda: (torch.triu_indices(3, 4), torch.triu_indices(4, 3, 1), torch.triu_indices(3, 3, -9)),
    ),
    new(
        "triangle indices, dtype",
        lambda: (torch.triu_indices(3, 4, dtype=torch.int32), torch.tril_indices(0, 3)),
    ),
]

DIAGONALS = [
    Case("diagonal", lambda x: (x.diagonal(), x.diagonal(1), x.diagonal(-1, 1, 2), x.diagonal(0, -1, 0)), (X,), decomposed=True, compiled=True),
    Case("diagonal out of reach", lambda x, e: (x.diagonal(7), x.diagonal(-7), e.diagonal()), (X, EMPTY)),
    Case("linalg.diagonal", lambda x: (torch.linalg.diagonal(x), torch.linalg.diagonal(x, offset=1, dim1=0, dim2=1)), (X,)),
    dynamic("diagonal", lambda x: (x.diagonal(), x.diagonal(1), x.diagonal(-1, 2, 0))),
    Case("trace", lambda x: (x[0].trace(), x[1, :, :2].trace(), x[0].t().trace()), (X,), decomposed=True),
    Case("trace of ints", lambda x: (x.trace(), x.int().trace()), (torch.full((3, 3), 100, dtype=torch.int8),)),
    Case("trace of nothing", lambda x: x.trace(), (EMPTY,)),
    Case("diag_embed", lambda x: (x.diag_embed(), x.diag_embed(1), x.diag_embed(-2), x.diag_embed(1, 0, 2), x.diag_embed(-1, 1, 0)), (X,), decomposed=True, compiled=True),
    Case("diag_embed of nan and infinity", lambda x: x.diag_embed(1), (BAD,)),
    Case("diag_embed empty", lambda x: (x.diag_embed(), x.t().diag_embed(1)), (EMPTY,)),
    dynamic("diag_embed", lambda x: (x.transpose(1, 2).diag_embed(), x[..., 0].diag_embed(2), x[..., 0].diag_embed(-1, 0, 1))),
    Case("diag", lambda x, r: (x[0].diag(), x[0].diag(1), x[0].diag(-2), r.diag(), r.diag(2), r.diag(-1)), (X, ROW), decomposed=True),
    Case("diagflat", lambda x, r: (torch.diagflat(x[0]), torch.diagflat(r, 1), torch.diagflat(x[0, 0, 0])), (X, ROW)),
    Case("complex", lambda x: (x.diagonal(), x.diag_embed(1), x.tril(), x.trace()), (COMPLEX,)),
    Case("exact int64", lambda x: (x.diag_embed(), x[None].tril()[0].diag(1)), (INTS[0, 0] + 2**62,)),
]  # fmt: skip

TYPES = [
    Case(
        str(dtype),
        lambda x: (x.tril(), x.triu(1), x.diagonal(), x[0].diag_embed(1)),
        (torch.ones(3, 4).to(dtype),),
    )
    for dtype in DTYPES
]


@params(TRIANGLES + DIAGONALS + TYPES)
def test_diagonal(case, tmp_path):
    check(case, tmp_path)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: diagonal.diagonal(x, 0, 0, 0),
        lambda x: diagonal.diagonal(x, 0, 0, 2**40),
        lambda x: diagonal.tril(x[0], 0),
        lambda x: diagonal.triu(x[0], 0),
    ],
)
def test_hostile_arguments_are_refused(call):
    with pytest.raises((ValueError, IndexError)):
        mx.eval(call(mx.arange(6).reshape(2, 3)))


def test_far_diagonals():
    x = mx.ones((2, 3))
    assert diagonal.diagonal(x, 2**62, 0, 1).shape == diagonal.diagonal(x, -(2**62), 0, 1).shape == (0,)
    assert diagonal.tril(x, 2**62).sum().item() == diagonal.triu(x, -(2**62)).sum().item() == 6
