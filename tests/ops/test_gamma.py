"""The gamma function's logarithm and its derivatives, and Hurwitz's zeta function."""

import pytest
import torch

from .harness import Case, check, params

S = torch.special
INF, NAN = torch.inf, torch.nan
X = torch.tensor(
    [0.0, -0.0, 1e-20, -1e-30, -1e-6, 0.3, 0.499, 0.5, 0.999, 1.0, 1.5, 2.0, 2.001, 3.0, 5.5, 8.0, 9.7, 10.0, 40.0, 1e4,
     1e20, -1.0, -3.0, -0.5, -2.5, -7.3, -11.995, -40.25, -1000.25, INF, -INF, NAN]
)  # fmt: skip
NEAR_POLES = torch.tensor([-11.9954395, -3.9997580, -1.9971807, -30.9974957, -32.7666168, -2.4999998])
ORDERS = (1, 2, 3, 4, 5, 9)
FUNCTIONS = {
    "lgamma": torch.lgamma, "gammaln": S.gammaln, "digamma": torch.digamma, "psi": S.psi,
    "polygamma 0": lambda x: torch.polygamma(0, x), "special polygamma": lambda x: S.polygamma(2, x),
    **{f"polygamma {n}": lambda x, n=n: torch.polygamma(n, x) for n in ORDERS},
    "multigammaln": lambda x: S.multigammaln(x.abs() + 3, 3), "mvlgamma 1": lambda x: torch.mvlgamma(x.abs() + 0.5, 1),
    "mvlgamma 5": lambda x: torch.mvlgamma(x.abs() + 2.5, 5),
}  # fmt: skip
# n! overflows in float32, and in both. (Of -0.5 and -2.5 PyTorch's sum of 1e12 - 1e12 + 1e-8 is its rounding error.)
LARGE_ORDERS = {n: (lambda x, n=n: torch.polygamma(n, x)) for n in (40, 180)}
HALVES = ("lgamma", "digamma", "mvlgamma 5")
WHOLE = ("lgamma", "digamma", "polygamma 0", "polygamma 1", "polygamma 2", "polygamma 3")
INTEGERS = (torch.bool, torch.uint8, torch.int32, torch.int64)

ZETA_X = torch.tensor(
    [-2.0, 0.5, 1.0, 1.0001, 1.5, 2.0, 3.0, 4.0, 7.0, 8.5, 30.0, 100.0, 1e4, 1e20, INF, -INF, NAN]
)
ZETA_Q = torch.tensor(
    [0.0, -0.0, 1e-10, -1e-10, 0.3, 1.0, 2.0, 9.5, 1e3, 1e8, -0.5, -0.49, -1.0, -1.3, -6.5, -6.51, -300.25, INF, -INF, NAN]
)  # fmt: skip
PAIRS = (ZETA_X[:, None], ZETA_Q[None])

CASES = [
    *(Case(name, fn, (X,)) for name, fn in FUNCTIONS.items()),
    *(Case(f"{name} float64", fn, (X.double(),)) for name, fn in FUNCTIONS.items()),
    *(Case(f"polygamma {n}", fn, (X[X * 2 % 2 != 1],)) for n, fn in LARGE_ORDERS.items()),
    *(Case(f"polygamma {n} float64", fn, (X[X * 2 % 2 != 1].double(),)) for n, fn in LARGE_ORDERS.items()),
    *(Case(str(t), lambda x: [FUNCTIONS[name](x) for name in HALVES], (X.to(t),)) for t in (torch.float16, torch.bfloat16)),
    *(Case(str(t), lambda x: [FUNCTIONS[name](x) for name in WHOLE], (torch.tensor([1, 2, 5, 0]).to(t),)) for t in INTEGERS),
    Case("digamma near its poles", torch.digamma, (NEAR_POLES,)),
    Case("polygamma 2 near its zeros", lambda x: torch.polygamma(2, x), (torch.tensor([-7.4998150, -6.50036, -10.50079]),)),
    Case("polygamma bfloat16", lambda x: [torch.polygamma(n, x) for n in (1, 2)], (X.bfloat16(),)),
    Case("zeta", S.zeta, PAIRS),
    Case("zeta float64", S.zeta, (PAIRS[0].double(), PAIRS[1].double()), tolerance=(1e-12, 1e-14)),
    Case("zeta other scalar", lambda x: S.zeta(x, 2.5), (ZETA_X,)),
    Case("zeta self scalar", lambda q: S.zeta(3.0, q), (ZETA_Q,)),
    Case("zeta of integers", S.zeta, (torch.tensor([1, 2, 3, -1]), torch.tensor([[1], [5], [0], [-3]]))),
    Case("zeta of two types", S.zeta, (torch.tensor([2, 4]), torch.tensor([0.5, 7.0]))),
    Case("zeta of nothing", S.zeta, (torch.ones(0, 1), torch.ones(3))),
    Case("compiled", lambda x: torch.lgamma(x), (X[4:9],), compiled=True),
]  # fmt: skip


@params(CASES)
def test_gamma(case, tmp_path):
    check(case, tmp_path)


@pytest.mark.parametrize("n", ORDERS)
def test_polygamma_of_many(n, tmp_path):
    torch.manual_seed(n)
    x = (torch.rand(500, dtype=torch.float64) * 24 - 12).requires_grad_(False)
    check(Case("many", lambda x: torch.polygamma(n, x), (x,), tolerance=(1e-9, 1e-9)), tmp_path)
