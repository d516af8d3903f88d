"""The regularised incomplete gamma functions."""

import mlx.core as mx
import mpmath
import pytest
import torch

from mlxify.ops.igamma import igamma, igammac

from .harness import Case, check, params

INF, NAN = torch.inf, torch.nan
EDGES = torch.tensor(
    [0.0, -0.0, 1e-3, 0.5, 1.0, 1.5, 2.0, 20.0, 50.0, 200.0, 300.0, 1e6, INF, -INF, -1.0, NAN]
)
PAIRS = (EDGES[:, None], EDGES[None])
FUNCTIONS = {
    "igamma": torch.igamma, "igammac": torch.igammac, "gammainc": torch.special.gammainc,
    "gammaincc": torch.special.gammaincc,
}  # fmt: skip
CASES = [
    *(Case(name, fn, PAIRS) for name, fn in FUNCTIONS.items()),
    # PyTorch's own error in float64 is 2e-9: it takes pi as a float32.
    *(Case(f"{name} float64", fn, tuple(x.double() for x in PAIRS), tolerance=(1e-8, 1e-9)) for name, fn in FUNCTIONS.items()),
    *(Case(f"{n} float16", FUNCTIONS[n], tuple(x.half() for x in PAIRS)) for n in ("igamma", "igammac")),
    *(Case(f"{n} bfloat16", FUNCTIONS[n], tuple(x.bfloat16() for x in PAIRS)) for n in ("igamma", "igammac")),
    Case("igamma of two types", torch.igamma, (torch.tensor([0.5, 3.0]), torch.tensor([0.5, 3.0]).double())),
    Case("igammac of nothing", torch.igammac, (torch.ones(0, 1), torch.ones(3))),
]  # fmt: skip


@params(CASES)
def test_igamma(case, tmp_path):
    check(case, tmp_path)


def _exact(a, x):
    with mpmath.workdps(30):
        lower = mpmath.gammainc(a, 0, x, regularized=True)
        return float(lower), float(mpmath.gammainc(a, x, regularized=True) if x > a else 1 - lower)


@pytest.mark.parametrize(("dtype", "tolerance"), [(mx.float32, 3e-6), (mx.float64, 2e-13)])
@pytest.mark.parametrize("a", [1e-5, 0.02, 0.7, 1.0, 3.3, 7.9, 8.1, 40.0, 199.0, 201.0, 3000.0])
def test_both_are_relatively_exact(a, dtype, tolerance):
    """Where PyTorch's are not: small a, large a, and both tails."""
    for ratio in (0.01, 0.3, 0.8, 0.99, 1.0, 1.02, 1.3, 3.0):
        a_, x_ = (mx.array(v, dtype=dtype) for v in (a, a * ratio))
        lower, upper = _exact(a_.item(), x_.item())
        for got, wanted in ((igamma(a_, x_), lower), (igammac(a_, x_), upper)):
            smallest = 1e-37 if dtype == mx.float32 else 1e-300
            if wanted > smallest:
                assert got.item() == pytest.approx(wanted, rel=tolerance), (a, ratio)
