"""The Airy function, special functions that PyTorch decomposes, and polynomials."""

import mlx.core as mx
import pytest
import torch

from mlxify.ops.special import polynomial

from .harness import Case, check, params

S = torch.special
INF, NAN = torch.inf, torch.nan
UNIT = torch.tensor([0.0, 0.2, 1.0, 3.0, -1.0, INF, NAN])
AIRY = torch.tensor(
    [0.0, -0.0, 1e-20, 0.3, -0.3, 1.0, -1.0, 2.0899, 2.09, 2.0901, -2.0899, -2.09, -2.0901, -2.338107, -4.9999, -5.0,
     -5.0001, 3.7, 8.32, 12.0, 25.0, 27.0, 103.8, 104.0, -30.0, -200.0, -1e4, 1e10, INF, -INF, NAN]
)  # fmt: skip
FUNCTIONS = {
    "entr": (S.entr, UNIT), "airy_ai": (S.airy_ai, AIRY),
    "xlog1py": (lambda x: S.xlog1py(x, x.flip(0)), UNIT), "xlogy": (lambda x: torch.xlogy(x, x.flip(0)), UNIT),
    "exp2": (S.exp2, UNIT), "expit": (S.expit, UNIT), "expm1": (S.expm1, UNIT), "log1p": (S.log1p, UNIT),
    "logit": (S.logit, UNIT), "sinc": (S.sinc, UNIT), "round": (S.round, UNIT),
    "log_softmax": (lambda x: S.log_softmax(x, 0), torch.tensor([1.0, 2.0])),
}  # fmt: skip
# PyTorch has it for float32 and wider only.
NO_HALVES = ("airy_ai",)
CASES = [
    *(Case(name, fn, (x,)) for name, (fn, x) in FUNCTIONS.items()),
    *(Case(f"{n} float64", fn, (x.double(),)) for n, (fn, x) in FUNCTIONS.items()),
    *(Case(f"{n} float16", fn, (x.half(),)) for n, (fn, x) in FUNCTIONS.items() if n not in NO_HALVES),
    Case("airy_ai integers", lambda x: [S.airy_ai(x.to(t)) for t in (torch.bool, torch.int64)], (torch.tensor([0, 1, 3]),)),
    Case("airy_ai of nothing", S.airy_ai, (torch.ones(0, 2),)),
]  # fmt: skip


@params(CASES)
def test_special(case, tmp_path):
    check(case, tmp_path)


def test_polynomial():
    x = mx.array([0.0, 1.0, -2.0])
    assert polynomial(x, (1.0, 2.0, 3.0)).tolist() == [1.0, 6.0, 9.0]
    assert polynomial(x, (1.0, 2.0)).tolist() == [1.0, 3.0, -3.0]


@pytest.mark.parametrize("coefficients", [(), (1.0,), (1.0,) * 129])
def test_polynomial_of_no_size(coefficients):
    with pytest.raises(ValueError, match="coefficients"):
        polynomial(mx.array(1.0), coefficients)


def test_polynomial_of_integers():
    with pytest.raises(ValueError, match="floats"):
        polynomial(mx.array(1), (1.0, 2.0))
