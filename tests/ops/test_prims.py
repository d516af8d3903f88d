"""PyTorch's primitives."""

import torch

from .harness import Case, check, params
from .test_create import new
from .test_shape import X, dynamic

prims = torch.ops.prims
OPTIONS = {"dtype": torch.int64, "device": torch.device("cpu"), "requires_grad": False}

CASES = [
    new(
        "iota",
        lambda: (prims.iota(4, start=3, step=-2, **OPTIONS), prims.iota(0, start=3, step=1, **OPTIONS)),
    ),
    dynamic("iota", lambda x: prims.iota(x.shape[0], start=1, step=3, **OPTIONS)),
    new(
        "full",
        lambda: (
            prims.full([2, 3], 2**62 + 1, **OPTIONS),
            prims.scalar_tensor(2.5, dtype=torch.float32, device=OPTIONS["device"]),
        ),
    ),
    Case("full_like", lambda x: prims.full_like(x, 7, **OPTIONS), (X,)),
    new(
        "empty",
        lambda: prims.empty([2], **OPTIONS).zero_() + prims.empty_strided([2], [1], **OPTIONS).zero_(),
    ),
    Case(
        "views",
        lambda x: (prims.view_of(x) + 1, prims.transpose(x, [2, 0, 1]), prims.squeeze(x[:1], [0])),
        (X,),
    ),
    Case("reshape", lambda x: (prims.reshape(x, [4, 6]), prims.rev(x, [0, 2]), prims.cat([x, x], 1)), (X,)),
    Case(
        "collapse",
        lambda x: (prims.collapse_view(x, 0, 1), prims.collapse(x, 1, 2), prims.split_dim(x, 2, 2)),
        (X,),
    ),
    dynamic("collapse", lambda x: (prims.collapse_view(x, 0, 1), prims.split_dim(x, 2, 2))),
    Case("broadcast_in_dim", lambda x: prims.broadcast_in_dim(x[0], [2, 3, 5, 4], [1, 3]), (X,)),
]


@params(CASES)
def test_prims(case, tmp_path):
    check(case, tmp_path)
