"""Embeddings and bags of them."""

import torch
from torch.export import Dim
from torch.nn import functional as F

from .harness import Case, check, params

A = torch.ops.aten
W = torch.randn(7, 4)
IX = torch.tensor([3, 0, 6, 6, 2, 3])
OFFSETS = torch.tensor([0, 2, 2, 5])
NAN = float("nan")
MODES = ("sum", "mean", "max")
HALVES = (torch.float16, torch.bfloat16)


def bag(**options):
    return lambda i, w, *rest: F.embedding_bag(i, w, *rest, **options)


def bags_op(op, *arguments):
    return lambda w, i, o: op(w, i, o, *arguments)[0]


class Bag(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = torch.nn.EmbeddingBag(7, 4, padding_idx=3, mode="max")

    def forward(self, i, o):
        return self.bag(i, o)


CASES = [
    *[
        Case(f"embedding {dtype}", lambda i, w: F.embedding(i, w), (IX.reshape(2, 3), W.to(dtype)))
        for dtype in (torch.float32, torch.float64, *HALVES, torch.int8)
    ],
    Case("embedding module", torch.nn.Embedding(7, 4, padding_idx=2), (IX,), decomposed=True, compiled=True),
    Case("embedding int32", F.embedding, (IX.int(), W)),
    Case("embedding 0-d", F.embedding, (torch.tensor(3), W)),
    Case("embedding empty", F.embedding, (torch.zeros(2, 0, dtype=torch.int64), W)),
    Case(
        "embedding padding", lambda i, w: F.embedding(i, w, padding_idx=-1, scale_grad_by_freq=True), (IX, W)
    ),
    Case("embedding sparse", lambda i, w: F.embedding(i, w, sparse=True), (IX, W)),
    Case("embedding max_norm", lambda i, w: (F.embedding(i, (w := w.clone()), max_norm=1.0), w), (IX, W)),
    Case(
        "embedding max_norm, 1-norm",
        lambda i, w: F.embedding(i, w.clone(), max_norm=0.5, norm_type=1.0),
        (IX, W),
    ),
    Case(
        "embedding dynamic",
        F.embedding,
        (IX.reshape(2, 3), W),
        dynamic=({0: Dim("a", min=0), 1: Dim("b")}, None),
        also=((torch.zeros(5, 2, dtype=torch.int64), W), (torch.zeros(0, 4, dtype=torch.int64), W)),
    ),
    Case(
        "embedding backward",
        lambda g, i: A.embedding_dense_backward(g, i, 7, 3, False),
        (torch.randn(2, 3, 4), IX.reshape(2, 3)),
    ),
    Case(
        "embedding backward without padding",
        lambda g, i: A.embedding_dense_backward(g, i, 7, -1, False),
        (torch.randn(6, 4), IX),
    ),
    Case(
        "embedding backward by frequency",
        lambda g, i: A.embedding_dense_backward(g, i, 7, -1, True),
        (torch.randn(6, 4), IX),
        refused="scale_grad_by_freq",
    ),
    *[Case(f"bag {mode}", bag(mode=mode), (IX, W, OFFSETS), decomposed=True) for mode in MODES],
    *[
        Case(f"bag {mode} {dtype}", bag(mode=mode), (IX, W.to(dtype), OFFSETS))
        for mode in MODES
        for dtype in HALVES
    ],
    *[Case(f"bag {mode} 2-d", bag(mode=mode), (IX.reshape(2, 3), W)) for mode in MODES],
    *[Case(f"bag {mode} padding", bag(mode=mode, padding_idx=3), (IX, W, OFFSETS)) for mode in MODES],
    *[
        Case(f"bag {mode} negative padding", bag(mode=mode, padding_idx=-1), (IX, W, OFFSETS))
        for mode in MODES
    ],
    *[
        Case(
            f"bag {mode} last offset",
            bag(mode=mode, include_last_offset=True),
            (IX, W, torch.tensor([0, 2, 2, 6])),
        )
        for mode in MODES
    ],
    *[Case(f"bag {mode} of nothing", bag(mode=mode), (IX[:0], W, torch.tensor([0, 0]))) for mode in MODES],
    *[
        Case(f"bag {mode} empty at the end", bag(mode=mode), (IX, W, torch.tensor([0, 0, 6, 6])))
        for mode in MODES
    ],
    Case(
        "bag max nan",
        bag(mode="max"),
        (
            torch.tensor([0, 1, 2, 2, 0]),
            torch.tensor([[1.0, NAN], [NAN, 2.0], [3.0, 1.0]]),
            torch.tensor([0, 3, 3]),
        ),
    ),
    Case("bag int32", bag(), (IX.int(), W, OFFSETS.int())),
    Case("bag float64", bag(), (IX, W.double(), OFFSETS)),
    Case(
        "bag weighted",
        lambda i, w, o, s: F.embedding_bag(i, w, o, per_sample_weights=s, mode="sum"),
        (IX, W, OFFSETS, torch.randn(6)),
    ),
    Case(
        "bag weighted half 2-d",
        lambda i, w, s: F.embedding_bag(i, w, per_sample_weights=s, mode="sum"),
        (IX.reshape(2, 3), W.half(), torch.randn(2, 3).half()),
    ),
    Case(
        "bag of many halves", bag(mode="sum"), (torch.zeros(4000, dtype=torch.int64), W.bfloat16(), OFFSETS)
    ),
    Case("bag module", Bag(), (IX, OFFSETS), compiled=True),
    Case("bag op", bags_op(A.embedding_bag, False, 1), (W, IX, OFFSETS)),
    Case(
        "where bags lie",
        lambda w, i, o: A._embedding_bag(w, i, o)[1],
        (W, IX, OFFSETS),
        refused="result 1 is",
    ),
    Case("bag op padding", bags_op(A._embedding_bag, False, 2, False, None, False, 6), (W, IX, OFFSETS)),
    Case("bag op forward", bags_op(A._embedding_bag_forward_only, False, 0), (W, IX, OFFSETS)),
    Case(
        "bag dynamic",
        bag(mode="mean"),
        (IX, W, OFFSETS),
        dynamic=({0: Dim("n")}, None, {0: Dim("b")}),
        also=((IX[:2], W, torch.tensor([0, 1])), (IX.repeat(9), W, torch.arange(0, 50, 5))),
    ),
]


@params(CASES)
def test_embedding(case, tmp_path):
    check(case, tmp_path)
