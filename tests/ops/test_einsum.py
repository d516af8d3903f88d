"""Contractions of labelled axes."""

import torch
from torch.export import Dim

from .harness import Case, check, params
from .test_linear import COMPLEX, big, rand

HALF = torch.float16


def einsum(equation):
    return lambda *xs: torch.einsum(equation, *xs)


FORMS = [
    ("ij,jk->ik", (3, 4), (4, 5)), ("ij,kj", (3, 4), (5, 4)), ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)),
    ("bqhd,bkhd->bhqk", (2, 4, 3, 5), (2, 6, 3, 5)), ("i,j->ij", (3,), (4,)), ("i,i->", (3,), (3,)),
    ("i,i", (3,), (3,)), ("ij->ji", (3, 4)), ("ij->", (3, 4)), ("ij->i", (3, 4)), ("ba", (3, 4)),
    ("ii->i", (3, 3)), ("ii->", (3, 3)), ("ii", (3, 3)), ("bii->bi", (2, 3, 3)), ("iijj->ij", (2, 2, 3, 3)),
    ("iji->j", (3, 2, 3)), ("iii->i", (3, 3, 3)), ("ii,ij->j", (3, 3), (3, 2)), ("...ij,...jk->...ik", (2, 3, 4), (4, 5)),
    ("...ij,...jk", (2, 1, 3, 4), (5, 4, 2)), ("i...,...->i...", (3, 2), (2,)), ("i...->...", (3, 2, 4)),
    ("...,...->...", (3, 1), (4,)), ("bij,bjk->bik", (1, 3, 4), (5, 4, 2)), ("ij,jk->ik", (3, 1), (4, 5)),
    ("ab,bc,cd->ad", (3, 4), (4, 5), (5, 2)), ("ab,b,bc->c", (3, 4), (4,), (4, 5)), ("a,b,c->cab", (2,), (3,), (4,)),
    ("bn,anm,bm->ba", (2, 3), (4, 3, 5), (2, 5)), ("nctkv,kvw->nctw", (2, 3, 4, 2, 5), (2, 5, 6)),
    ("abcd,cdab->", (2, 3, 2, 3), (2, 3, 2, 3)), ("aB,Bc", (2, 3), (3, 4)), ("ij,ij->ij", (3, 4), (3, 4)),
    ("ijk,jk->i", (2, 3, 4), (3, 4)), (" i j , j k -> i k ", (3, 4), (4, 5)), ("ik,jk->", (3, 4), (5, 4)),
    ("ij,jk->ik", (3, 0), (0, 5)), ("ij,jk->ik", (0, 4), (4, 5)), (",i->i", (), (3,)), (",->", (), ()),
]  # fmt: skip

EINSUM = [
    *(Case(f"{i} {form}", einsum(form), tuple(rand(*s) for s in shapes)) for i, (form, *shapes) in enumerate(FORMS)),
    Case("int64", einsum("bij,bjk->bik"), (big(2, 3, 4), big(2, 4, 5))),
    Case("int8 sum", einsum("ij->j"), (torch.full((3, 4), 100, dtype=torch.int8),)),
    Case("int outer", einsum("i,j->ij"), (big(3), big(4))),
    Case("half", einsum("bhqd,bhkd->bhqk"), (rand(2, 3, 4, 16, dtype=HALF), rand(2, 3, 4, 16, dtype=HALF))),
    Case("complex", einsum("ij,kj->ik"), (COMPLEX, COMPLEX)),
    Case("decomposed", einsum("bhqd,bhkd->bhqk"), (rand(2, 3, 4, 5), rand(2, 3, 6, 5)), decomposed=True, compiled=True),
    Case(
        "dynamic",
        einsum("bqhd,bkhd->bhqk"),
        (rand(2, 4, 3, 5), rand(2, 6, 3, 5)),
        dynamic=({0: Dim("b"), 1: Dim("q")}, {0: Dim("b"), 1: Dim("k")}),
        also=((rand(1, 1, 3, 5), rand(1, 9, 3, 5)), (rand(3, 7, 3, 5), rand(3, 1, 3, 5))),
    ),
    Case(
        "dynamic merged",
        einsum("btij,tjik->bk"),
        (rand(2, 4, 3, 5), rand(4, 5, 3, 6)),
        dynamic=({0: Dim("b"), 1: Dim("t")}, {0: Dim("t"), 3: Dim("k")}),
        also=((rand(1, 1, 3, 5), rand(1, 5, 3, 9)), (rand(3, 7, 3, 5), rand(7, 5, 3, 1))),
    ),
    Case(
        "dynamic diagonal",
        einsum("bii->bi"),
        (rand(2, 4, 4),),
        dynamic=({0: Dim("b"), 1: Dim("n"), 2: Dim("n")},),
        also=((rand(1, 1, 1),), (rand(3, 7, 7),)),
    ),
]  # fmt: skip

OTHERS = [
    Case("tensordot 1", lambda x, y: torch.tensordot(x, y, 1), (rand(2, 3, 4), rand(4, 5)), decomposed=True),
    Case("tensordot 2", lambda x, y: torch.tensordot(x, y, 2), (rand(2, 3, 4), rand(3, 4, 5))),
    Case("tensordot 0", lambda x, y: torch.tensordot(x, y, 0), (rand(2, 3), rand(4))),
    Case(
        "tensordot axes",
        lambda x, y: torch.tensordot(x, y, ([0, -1], [1, 0])),
        (rand(2, 3, 4), rand(4, 2, 5)),
    ),
    Case("tensordot size 1", lambda x, y: torch.tensordot(x, y, ([1], [0])), (rand(2, 1), rand(3, 5))),
    Case("tensordot int", lambda x, y: torch.tensordot(x, y, 2), (big(2, 3, 4), big(3, 4, 5))),
    Case("chain_matmul", torch.chain_matmul, (rand(3, 4), rand(4, 5), rand(5, 2))),
    Case("multi_dot", lambda *xs: torch.linalg.multi_dot(xs), (rand(4), rand(4, 5), rand(5, 2), rand(2))),
    Case("kron", torch.kron, (rand(2, 3), rand(4, 2))),
    Case(
        "bilinear",
        torch.nn.functional.bilinear,
        (rand(6, 3), rand(6, 4), rand(5, 3, 4), rand(5)),
        decomposed=True,
    ),
    Case("bilinear ranks", torch.nn.functional.bilinear, (rand(2, 6, 3), rand(2, 6, 4), rand(5, 3, 4))),
    Case("bilinear 1-d", torch.nn.functional.bilinear, (rand(3), rand(4), rand(5, 3, 4), rand(5))),
]


@params(EINSUM)
def test_einsum(case, tmp_path):
    check(case, tmp_path)


@params(OTHERS)
def test_contractions(case, tmp_path):
    check(case, tmp_path)
