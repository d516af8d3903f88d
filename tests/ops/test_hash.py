"""hash_tensor: the exclusive or of all elements."""

import mlx.core as mx
import pytest
import torch

from mlxify.inputs import to_numpy
from mlxify.ops.hash import xor_sum

from .harness import Case, check, params
from .values import INF, NAN, each

X = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(1))
SMALL = torch.tensor([0.0, -0.0, 1e-45, -1e-45, 1.1e-38, 1.2e-38, 5e-39, INF, -INF, NAN, 3e38, 1.0])
DTYPES = (torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.int8, torch.uint8, torch.bool)

CASES = [
    Case("all", torch.hash_tensor, (X,), compiled=True),
    Case("axis", lambda x: torch.hash_tensor(x, dim=1), (X,)),
    Case("axes", lambda x: torch.hash_tensor(x, dim=(0, -1), keepdim=True), (X,)),
    Case("keepdim of all", lambda x: torch.hash_tensor(x, keepdim=True), (X,)),
    Case("0-d", torch.hash_tensor, (X[0, 0, 0],)),
    Case("no rows", lambda x: torch.hash_tensor(x, dim=1), (X[:0],)),
    Case("each bit pattern", lambda x: torch.hash_tensor(x[:, None], dim=1), (SMALL,)),
    Case("each half", lambda x: torch.hash_tensor(x[:, None], dim=1), (SMALL.half(),)),
    each("edges", torch.hash_tensor, DTYPES),
    *(Case(f"{d}", torch.hash_tensor, ((X * 9).to(d),)) for d in DTYPES),
]  # fmt: skip


@params(CASES)
def test_hash(case, tmp_path):
    check(case, tmp_path)


def test_floats_have_no_exclusive_or():
    with pytest.raises(ValueError, match="exclusive or"):
        xor_sum(mx.zeros(3), [0], False)


def test_a_hash_reaches_torch():
    hashes = to_numpy(mx.view(mx.array([1, -1], mx.int64), mx.uint64))
    assert torch.from_numpy(hashes).tolist() == [1, 2**64 - 1]
