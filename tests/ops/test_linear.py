"""Matrix products."""

import torch
import torch.nn.functional as F
from torch.export import Dim

from .harness import Case, check, params


def rand(*shape, dtype=torch.float32):
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(
            shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64
        ).to(dtype)
    return torch.randint(-50, 50, shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype)


def big(*shape):
    """int64 values whose products wrap."""
    return torch.randint(-(2**62), 2**62, shape, generator=torch.Generator().manual_seed(1))


FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
INTS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
COMPLEX = torch.complex(rand(3, 4), rand(3, 4) + 1)
HALF = torch.float16
B, T = Dim("b"), Dim("t")

LINEAR = [
    *(
        Case(f"linear {d}", F.linear, (rand(2, 3, 8, dtype=d), rand(5, 8, dtype=d), rand(5, dtype=d)))
        for d in FLOATS
    ),
    *(
        Case(f"linear {d}", F.linear, (rand(2, 8, dtype=d), rand(5, 8, dtype=d), rand(5, dtype=d)))
        for d in INTS
    ),
    Case("linear no bias", F.linear, (rand(4, 8), rand(5, 8)), compiled=True, decomposed=True),
    Case("linear 1-d x", F.linear, (rand(8), rand(5, 8), rand(5))),
    Case("linear 1-d x no bias", F.linear, (rand(8), rand(5, 8))),
    Case("linear 1-d weight", F.linear, (rand(2, 8), rand(8))),
    Case("linear 0-d bias", F.linear, (rand(2, 8), rand(5, 8), torch.tensor(2.0))),
    Case("linear 2-d bias", F.linear, (rand(2, 8), rand(5, 8), rand(2, 5))),
    Case("linear complex", F.linear, (COMPLEX, COMPLEX, COMPLEX[:, 0])),
    Case("linear no inputs", F.linear, (torch.zeros(2, 0), torch.zeros(3, 0), rand(3))),
    Case("linear no rows", F.linear, (torch.zeros(0, 8), rand(3, 8), rand(3))),
    Case("linear nothing at all", F.linear, (torch.zeros(2, 0, 0), torch.zeros(3, 0), rand(3))),
    Case(
        "linear half rounds once",
        F.linear,
        (rand(4, 4096, dtype=HALF), rand(3, 4096, dtype=HALF), rand(3, dtype=HALF)),
    ),
    Case(
        "linear dynamic",
        torch.nn.Linear(8, 5),
        (rand(2, 3, 8),),
        dynamic=({0: B, 1: T},),
        also=((rand(1, 7, 8),), (rand(4, 1, 8),), (rand(0, 3, 8),)),
        decomposed=True,
    ),
]

SHAPES = [
    ((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 5)), ((3, 4), (4, 5)), ((2, 3, 4), (4,)), ((4,), (2, 4, 5)),
    ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)), ((2, 3, 4), (2, 4, 5)), ((2, 1, 3, 4), (5, 4, 2)),
    ((3, 0), (0, 4)), ((0, 4), (4, 3)), ((2, 0, 4), (4, 3)), ((0,), (0,)),
]  # fmt: skip

MATMUL = [
    *(Case(f"matmul {a} {b}", torch.matmul, (rand(*a), rand(*b)), decomposed=True) for a, b in SHAPES),
    *(Case(f"int matmul {a} {b}", torch.matmul, (big(*a), big(*b))) for a, b in SHAPES),
    *(
        Case(f"matmul {d}", torch.matmul, (rand(2, 3, 4, dtype=d), rand(4, 5, dtype=d)))
        for d in (*FLOATS, *INTS)
    ),
    Case(
        "int8 wraps",
        torch.matmul,
        (torch.full((2, 300), 127, dtype=torch.int8), torch.full((300, 2), 127, dtype=torch.int8)),
    ),
    Case(
        "uint8 wraps",
        torch.matmul,
        (torch.full((2, 300), 255, dtype=torch.uint8), torch.full((300, 2), 255, dtype=torch.uint8)),
    ),
    Case(
        "int64 extremes",
        torch.matmul,
        (torch.tensor([[-(2**63), 2**63 - 1]]), torch.tensor([[-1], [2**63 - 1]])),
    ),
    Case("matmul complex", lambda x: x @ x.mT, (COMPLEX,)),
    Case("matmul not contiguous", lambda x, y: x.mT @ y[:, ::2], (rand(4, 3), rand(4, 6))),
    Case("matmul nan", torch.matmul, (torch.tensor([[1.0, float("nan")], [2.0, float("inf")]]), rand(2, 2))),
    Case(
        "matmul dynamic",
        lambda x, y: x @ y.transpose(-1, -2),
        (rand(2, 3, 4), rand(2, 5, 4)),
        dynamic=({0: B, 1: Dim("m")}, {0: B, 1: Dim("n")}),
        also=((rand(1, 1, 4), rand(1, 9, 4)), (rand(3, 7, 4), rand(3, 1, 4)), (rand(3, 0, 4), rand(3, 2, 4))),
        compiled=True,
        decomposed=True,
    ),
    *(Case(f"mm {d}", torch.mm, (rand(3, 4, dtype=d), rand(4, 5, dtype=d))) for d in (HALF, torch.int32)),
    *(
        Case(f"bmm {d}", torch.bmm, (rand(2, 3, 4, dtype=d), rand(2, 4, 5, dtype=d)))
        for d in (HALF, torch.int64)
    ),
    Case("_int_mm", torch._int_mm, (rand(32, 8, dtype=torch.int8), rand(8, 16, dtype=torch.int8))),
    *(Case(f"mv {d}", torch.mv, (rand(3, 4, dtype=d), rand(4, dtype=d))) for d in (HALF, torch.int64)),
    *(Case(f"dot {d}", torch.dot, (rand(9, dtype=d), rand(9, dtype=d))) for d in (*FLOATS, *INTS)),
    Case("vdot", torch.vdot, (rand(9), rand(9))),
    Case("vdot complex", torch.vdot, (COMPLEX[0], COMPLEX[1])),
    Case("vecdot", torch.linalg.vecdot, (rand(3, 4), rand(3, 4))),
    Case("inner", torch.inner, (rand(2, 3, 4), rand(5, 4)), decomposed=True),
    Case("inner 1-d", torch.inner, (rand(4), rand(4))),
    Case("inner n-d", torch.inner, (rand(2, 3, 4), rand(5, 2, 4))),
    Case("inner 1-d n-d", torch.inner, (rand(4), rand(5, 2, 4))),
    Case("inner 0-d", torch.inner, (torch.tensor(2.0), rand(3))),
    Case("inner of nothing", torch.inner, (rand(2, 3, 0), rand(4, 0))),
    *(
        Case(f"outer {d}", torch.outer, (rand(3, dtype=d), rand(4, dtype=d)))
        for d in (HALF, torch.int64, torch.uint8)
    ),
    Case("outer bool", torch.outer, (torch.tensor([True, False]), torch.tensor([True, True]))),
    Case("outer promotes", torch.outer, (rand(3, dtype=torch.int32), rand(4))),
    Case("ger", torch.ger, (rand(3), rand(4)), decomposed=True),
]

NAN = torch.full((3, 5), float("nan"))
FACTORS = {"beta": 0.5, "alpha": 2.5}

ADDMM = [
    *(
        Case(f"addmm {d}", lambda c, x, y: torch.addmm(c, x, y, **FACTORS),
             (rand(3, 5, dtype=d), rand(3, 4, dtype=d), rand(4, 5, dtype=d)))
        for d in FLOATS
    ),
    Case("addmm int", lambda c, x, y: torch.addmm(c, x, y, beta=3, alpha=-2), (big(3, 5), big(3, 4), big(4, 5))),
    Case("addmm double factor", lambda c, x, y: torch.addmm(c, x, y, beta=0.1, alpha=1 / 3),
         (rand(3, 5, dtype=torch.float64), rand(3, 4, dtype=torch.float64), rand(4, 5, dtype=torch.float64))),
    Case("addmm row", torch.addmm, (rand(5), rand(3, 4), rand(4, 5)), decomposed=True),
    Case("addmm 0-d", torch.addmm, (torch.tensor(2.0), rand(3, 4), rand(4, 5))),
    Case("addmm column", torch.addmm, (rand(3, 1), rand(3, 4), rand(4, 5))),
    Case("addmm beta 0 ignores nan", lambda c, x, y: torch.addmm(c, x, y, beta=0), (NAN, rand(3, 4), rand(4, 5))),
    Case("addmm beta 0 alpha half", lambda c, x, y: torch.addmm(c, x, y, beta=0, alpha=0.3),
         (rand(3, 5, dtype=HALF), rand(3, 4, dtype=HALF), rand(4, 5, dtype=HALF))),
    Case("addmm alpha 0", lambda c, x, y: torch.addmm(c, x, y, alpha=0), (rand(3, 5), rand(3, 4), rand(4, 5))),
    Case("addmm empty sum", torch.addmm, (rand(3, 5), torch.zeros(3, 0), torch.zeros(0, 5))),
    Case("addmm complex", lambda c, x, y: torch.addmm(c, x, y, beta=2, alpha=0.5), (COMPLEX[:, :3], COMPLEX, COMPLEX.mT)),
    Case("addmm out of place of in-place", lambda c, x, y: c.clone().addmm_(x, y), (rand(3, 5), rand(3, 4), rand(4, 5))),
    *(
        Case(f"baddbmm {d}", lambda c, x, y: torch.baddbmm(c, x, y, **FACTORS),
             (rand(2, 3, 5, dtype=d), rand(2, 3, 4, dtype=d), rand(2, 4, 5, dtype=d)), decomposed=True)
        for d in (torch.float32, HALF)
    ),
    Case("baddbmm broadcast", torch.baddbmm, (rand(1, 1, 5), rand(2, 3, 4), rand(2, 4, 5))),
    Case("baddbmm beta 0", lambda c, x, y: torch.baddbmm(c, x, y, beta=0, alpha=0.125), (NAN[None].expand(2, 3, 5), rand(2, 3, 4), rand(2, 4, 5))),
    Case("baddbmm int", lambda c, x, y: torch.baddbmm(c, x, y, beta=2), (big(2, 3, 5), big(2, 3, 4), big(2, 4, 5))),
    Case("addbmm", lambda c, x, y: torch.addbmm(c, x, y, **FACTORS), (rand(3, 5), rand(2, 3, 4), rand(2, 4, 5))),
    Case("addbmm int", torch.addbmm, (big(3, 5), big(2, 3, 4), big(2, 4, 5))),
    Case("addmv", lambda c, x, y: torch.addmv(c, x, y, **FACTORS), (rand(3), rand(3, 4), rand(4))),
    Case("addmv half", lambda c, x, y: torch.addmv(c, x, y, **FACTORS), (rand(3, dtype=HALF), rand(3, 4, dtype=HALF), rand(4, dtype=HALF))),
    Case("addmv beta 0", lambda c, x, y: torch.addmv(c, x, y, beta=0), (NAN[:, 0], rand(3, 4), rand(4))),
    Case("addr", lambda c, x, y: torch.addr(c, x, y, **FACTORS), (rand(3, 4), rand(3), rand(4)), decomposed=True),
    Case("addr half", lambda c, x, y: torch.addr(c, x, y, **FACTORS), (rand(3, 4, dtype=HALF), rand(3, dtype=HALF), rand(4, dtype=HALF))),
    Case("addr int", lambda c, x, y: torch.addr(c, x, y, beta=2, alpha=3), (big(3, 4), big(3), big(4))),
    Case("addr beta 0", lambda c, x, y: torch.addr(c, x, y, beta=0), (NAN[:, :4], rand(3), rand(4))),
    Case(
        "addmm dynamic",
        lambda c, x, y: torch.addmm(c, x, y, beta=0.5),
        (rand(5), rand(3, 4), rand(4, 5)),
        dynamic=(None, {0: B}, None),
        also=((rand(5), rand(1, 4), rand(4, 5)), (rand(5), rand(9, 4), rand(4, 5)), (rand(5), rand(0, 4), rand(4, 5))),
    ),
]  # fmt: skip


CROSS = [
    *(
        Case(
            f"cross {d}",
            lambda x, y: torch.linalg.cross(x, y),
            (rand(4, 3, dtype=d), rand(4, 3, dtype=d) + 1),
        )
        for d in (*FLOATS, *INTS)
    ),
    Case("cross first axis of 3", torch.cross, (rand(2, 3, 3), rand(2, 3, 3) + 1)),
    Case("cross dim", lambda x, y: torch.cross(x, y, dim=0), (rand(3, 4), rand(3, 4) + 1), decomposed=True),
    Case("linalg.cross broadcast", torch.linalg.cross, (rand(5, 1, 3), rand(1, 4, 3)), decomposed=True),
    Case("linalg.cross dim", lambda x, y: torch.linalg.cross(x, y, dim=-2), (rand(3, 4), rand(3, 4) + 1)),
    Case("cross complex", torch.linalg.cross, (COMPLEX[:, :3], COMPLEX[:, 1:])),
]


@params(CROSS)
def test_cross(case, tmp_path):
    check(case, tmp_path)


@params(LINEAR)
def test_linear(case, tmp_path):
    check(case, tmp_path)


@params(MATMUL)
def test_matmul(case, tmp_path):
    check(case, tmp_path)


@params(ADDMM)
def test_addmm(case, tmp_path):
    check(case, tmp_path)
