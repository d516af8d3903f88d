"""Orthogonal polynomials: degrees as literals and tensors, edges, overflow."""

import pytest
import torch

from .harness import Case, check, params

S = torch.special
INF, NAN = torch.inf, torch.nan
CHEBYSHEV = tuple(f"{shifted}chebyshev_polynomial_{kind}" for shifted in ("", "shifted_") for kind in "tuvw")
OTHERS = ("hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p")
X = torch.tensor(
    [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 0.3, 0.9, -0.99, 1e-9, -1e-9, 1 - 6e-8, -1 + 6e-8, 1.001, 1.5, -2.0, 3.0, -30.0,
     1e10, 1e30, -1e30, INF, -INF]
)  # fmt: skip
# Above 6 or 8 the Chebyshev polynomials go by the angle; from some degree on the recurrence overflows, then is nan.
N = torch.tensor(
    [-3.0, -1.0, -0.5, 0.0, 0.7, 1.0, 2.0, 3.0, 5.0, 6.0, 7.0, 8.0, 9.0, 20.0, 33.0, INF, -INF, NAN]
)
FEW = torch.tensor([0, 1, 2, 5, 9, -1])
# PyTorch returns what it never set for u, v, w, laguerre and legendre of nan from degree 2 on.
OF_NAN = torch.tensor([NAN]), torch.tensor([-1.0, 0.0, 1.0])


INTEGERS = (torch.bool, torch.uint8, torch.int32, torch.int64)


def _row(name):
    fn = getattr(S, name)

    def literals(x, n, few):
        of_n = [fn(x, degree) for degree in (-1, 0, 1, 2, 5, 7, 9, 2.7)]
        of_x = [fn(value, n) for value in (0.3, 2, -1.5, 1, -1, 0)]
        return of_n, of_x, [fn(few.to(t), 3) for t in INTEGERS], fn(few, few[:, None] + 1.5), fn(few, n[:3])

    return [
        Case(name, fn, (X[:, None], N[None])),
        # float32 has too few digits for terms of 1e30 that cancel; in float64 every order of roundings agrees.
        Case(f"{name} float64", fn, (X[:, None].double(), N[None].double()), tolerance=(1e-10, 1e-12)),
        Case(f"{name} of nan", fn, OF_NAN),
        Case(f"{name} literals", literals, (X, FEW, torch.tensor([0, 1, 2]))),
    ]


def _of_degree_70(x):
    """A loop instead of that many instructions."""
    return [getattr(S, name)(x, 70) for name in (*CHEBYSHEV, *OTHERS)]


CASES = [
    *(case for name in (*CHEBYSHEV, *OTHERS) for case in _row(name)),
    # Of float64, in which the recurrences are exact enough to compare.
    Case("degree 70", _of_degree_70, (X.double(),), tolerance=(1e-10, 1e-12)),
    Case("hermite above its limit", lambda x: [S.hermite_polynomial_h(x, 129), S.hermite_polynomial_he(x.double(), 513)], (X,)),
    Case("hermite at its limit", lambda x: [S.hermite_polynomial_h(x, n) for n in (30, 128)], (X,)),
    Case("legendre of a scalar", S.legendre_polynomial_p, (torch.tensor(0.3), torch.tensor(4.0))),
    Case("legendre of nothing", S.legendre_polynomial_p, (torch.ones(0, 1), torch.tensor([2.0, 3.0]))),
    Case("laguerre dynamic", S.laguerre_polynomial_l, (torch.rand(4, 1), torch.tensor([2.0, 3.0])), dynamic=({0: torch.export.Dim("rows", min=2)}, None), also=((torch.rand(7, 1), torch.tensor([2.0, 3.0])),)),
    Case("compiled", S.legendre_polynomial_p, (X[:8], torch.full((8,), 5.0)), compiled=True),
]  # fmt: skip


@params(CASES)
def test_polynomials(case, tmp_path):
    check(case, tmp_path)


@pytest.mark.parametrize("name", OTHERS)
def test_many(name, tmp_path):
    torch.manual_seed(0)
    x, n = torch.rand(200, dtype=torch.float64) * 4 - 2, torch.randint(-2, 40, (200,)).double()
    check(Case(name, getattr(S, name), (x, n), tolerance=(1e-8, 1e-9)), tmp_path)
