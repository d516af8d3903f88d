"""Casts, bit casts, copies and fills."""

import pytest
import torch
from torch.export import Dim

from .harness import Case, check, params
from .values import FEW, INTEGERS, REAL

X = torch.tensor([[0.0, -0.0, 1.5, -2.5], [127.9, -1e-3, 3.0, 255.0]])
F16, F64, I64 = torch.float16, torch.float64, torch.int64
C = torch.tensor([1 + 2j, -0.5j])


def to_all(x):
    return [x.to(dtype) for dtype in REAL]


def methods(x):
    return x.float(), x.double(), x.half(), x.bfloat16(), x.int(), x.long(), x.short(), x.char(), x.bool()


def fills(xs):
    return [x.fill_(v) for x in [x.clone() for x in xs] for v in (0, 2, 2.7, True)]


DYNAMIC = {"dynamic": ({0: Dim("n", min=1, max=7)},), "also": tuple((torch.rand(n, 4),) for n in (1, 7, 4))}
CASES = [
    *(Case(f"to from {d}", to_all, (torch.tensor([0, 1, 2, 100, 127], dtype=d),), decomposed=True) for d in REAL),
    *(Case(f"to from negative {d}", to_all, (torch.tensor([-1, -100], dtype=d),)) for d in INTEGERS[1:]),
    Case("wraps", lambda x: (x.to(torch.int8), x.to(torch.uint8)), (torch.tensor([255, 256, 2**40 + 3, -(2**62)]),)),
    Case("to even", lambda x: (x.half(), x.bfloat16()), (torch.tensor([1.00048828125, 2049.0, 1.00390625, 65519.9, 65520.0]),)),
    Case("to int and back stays", lambda x: x.to(torch.int32).to(torch.float32), (X,)),
    Case("through half", lambda x: x.half().float(), (torch.tensor([0.1, 1e5, 1e-8]),)),
    Case("methods", methods, (X[:1],)),
    Case("nan is true", lambda x: x.bool(), (torch.tensor([torch.nan, 0.0, -0.0, 1e-45]),)),
    Case("complex to real and back", lambda x: (x.real.to(torch.complex64), x.to(torch.complex64)), (C,)),
    Case("type_as", lambda x, y: x.type_as(y), (X, torch.tensor([1]))),
    Case("to other", lambda x, y: x.to(y), (X, torch.tensor([1]))),
    Case("to device", lambda x: x.to("cpu", F16), (X,)),
    Case("to dtype copy", lambda x: x.to(F16, copy=True), (X,)),
    Case("channels last", lambda x: x.to(memory_format=torch.channels_last).contiguous() + 1, (torch.randn(1, 2, 3, 4),)),
    Case("clone format", lambda x: x.clone(memory_format=torch.channels_last) + 1, (torch.randn(1, 2, 3, 4),)),
    Case("same values", lambda x: (x.clone(), x.contiguous(), x.detach(), x.cpu(), x.t().contiguous()), (X,)),
    Case("constant", lambda x: x + torch.tensor([1.0, 2.0, 3.0, 4.0]), (X,)),
    Case("convert_element_type", lambda x: torch.ops.prims.convert_element_type(x, I64), (X,)),
    Case("copy casts and broadcasts", lambda x, y: (x + 0).copy_(y) * 2, (torch.zeros(2, 4, dtype=torch.int32), X[0])),
    Case("copy functional", lambda x, y: torch.ops.aten.copy(x, y), (torch.zeros(2, 4, dtype=F16), X[0, 2])),
    Case("copy dynamic", lambda x: torch.zeros_like(x).copy_(x[:1]), (X,), **DYNAMIC),
    Case("fill", fills, ([torch.zeros(2, 3, dtype=d) for d in FEW],)),
    Case("fill tensor", lambda x, y: x.clone().fill_(y), (torch.zeros(3, dtype=torch.int32), torch.tensor(2.7))),
    Case("fill exact", lambda x: x.clone().fill_(2**53 + 1), (torch.zeros(2, dtype=I64),)),
    Case("fill complex", lambda x: x.clone().fill_(1 - 2j), (C,)),
    Case("fill dynamic", lambda x: (x * 1).fill_(3), (X,), **DYNAMIC),
    Case("zero", lambda xs: [x.clone().zero_() for x in xs], ([torch.ones(2, dtype=d) for d in FEW],)),
    Case("view as int32", lambda x: x.view(torch.int32), (X,)),
    Case("view narrower", lambda x: (x.view(torch.int16), x.view(torch.uint8)), (X,)),
    Case("view wider", lambda x: (x.view(F64), x.view(I64)), (X,)),
    Case("view half", lambda x: (x.view(torch.int16), x.view(torch.bfloat16)), (X.half(),)),
    Case("view bool", lambda x: x.view(torch.uint8), (X > 0,)),
    Case("view transposed", lambda x: x.t().view(torch.int32), (X,)),
    Case("view expanded", lambda x: x.expand(3, 4).view(torch.int32), (X[:1],)),
    Case("view 0-d", lambda x: x.view(torch.int32), (X[0, 2].clone(),)),
    Case("view empty", lambda x: x.view(torch.int16), (torch.zeros(0, 4),)),
    Case("view dynamic", lambda x: x.view(torch.int16), (X,), **DYNAMIC),
    Case("conj copy", torch.ops.aten._conj_copy, (C,)),
    Case("view complex", lambda x: torch.view_as_complex(torch.view_as_real(x) * 2).conj(), (C,)),
    Case("sparse", lambda x: x.to_sparse().to_dense(), (X,), refused="sparse"),
]  # fmt: skip


@params(CASES)
def test_cast(case, tmp_path):
    check(case, tmp_path)


@pytest.fixture
def dim_order_ops():
    """The two ops of the edge dialect, as ExecuTorch declares them."""
    if hasattr(torch.ops.dim_order_ops, "_clone_dim_order"):
        yield torch.ops.dim_order_ops
        return
    library = torch.library.Library("dim_order_ops", "DEF")
    library.define(
        "_clone_dim_order(Tensor self, *, bool non_blocking=False, int[]? dim_order=None) -> Tensor"
    )
    library.define(
        "_to_dim_order_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
        "bool? pin_memory=None, bool non_blocking=False, int[]? dim_order=None) -> Tensor"
    )
    key = "CompositeExplicitAutograd"
    library.impl("_clone_dim_order", lambda x, non_blocking=False, dim_order=None: x.clone(), key)
    library.impl("_to_dim_order_copy", lambda x, *, dtype=None, **_: x.to(dtype or x.dtype, copy=True), key)
    yield torch.ops.dim_order_ops
    library._destroy()


# Contiguous and channels last: the orders that executorch, when it is there, maps to a memory format.
@pytest.mark.parametrize("order", [None, [0, 1, 2, 3], [0, 2, 3, 1]])
def test_dim_order(order, dim_order_ops, tmp_path):
    ops = dim_order_ops

    def model(x):
        clone = ops._clone_dim_order(x, dim_order=order)
        return clone, ops._to_dim_order_copy(x, dtype=torch.int32, dim_order=order), ops._to_dim_order_copy(x)

    check(Case("dim order", model, (torch.randn(2, 3, 4, 5),)), tmp_path)
