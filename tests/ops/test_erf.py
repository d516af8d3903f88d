"""The error function and its kin."""

import pytest
import torch

from .harness import Case, check, params

X = torch.tensor(
    [
        0.0,
        -0.0,
        1e-20,
        -1e-5,
        0.1,
        -0.4,
        0.7,
        1.0,
        -1.3,
        2.0,
        -2.9,
        3.4,
        5.0,
        -7.0,
        1e5,
        torch.inf,
        -torch.inf,
        torch.nan,
    ]
)
P = torch.tensor([0.0, 1e-20, -1e-5, 0.3, -0.7, 0.999, -0.9999999, 1.0, -1.0, 1.5, torch.nan])
# Next to 1 a float64 is not 1 as a float32.
NEAR_1 = torch.tensor(
    [1 - 1e-7, 1 - 1e-9, 1e-9 - 1, 1 - 1e-15, 0.729, 0.7294, -0.73, 1 - 2e-3], dtype=torch.float64
)
SHARES = torch.tensor(
    [0.0, -0.0, 1e-37, 1e-20, 1e-14, 1.3e-14, 1e-3, 0.135, 0.1354, 0.3, 0.5, 0.8646, 0.8647, 0.99, 1 - 6e-8, 1.0, 1.5, -0.1,
     torch.inf, -torch.inf, torch.nan]
)  # fmt: skip
UNDERFLOWS = torch.tensor([8.5, -8.5, 9.0, 12.0, -12.0, -30.0])
SPECIAL = torch.special
FUNCTIONS = {
    "erf": (torch.erf, X), "erfc": (torch.erfc, X), "erfinv": (torch.erfinv, P), "erfcx": (SPECIAL.erfcx, X),
    "ndtr": (SPECIAL.ndtr, X), "log_ndtr": (SPECIAL.log_ndtr, X), "erfcx far": (SPECIAL.erfcx, UNDERFLOWS),
    "log_ndtr far": (SPECIAL.log_ndtr, UNDERFLOWS), "ndtri": (SPECIAL.ndtri, SHARES),
}  # fmt: skip
HALVES = ("erf", "erfc", "erfinv", "ndtr")
# erfinv is 1e6 times as steep near 1 as at 0; ndtr is 1 + erf, which cancels below 0.
DOUBLE = {"erfinv": (1e-10, 0.0), "ndtr": (1e-13, 1e-15)}
CASES = [
    *(Case(name, fn, (x,), decomposed=True) for name, (fn, x) in FUNCTIONS.items()),
    *(Case(f"{name} float64", fn, (x.double(),), tolerance=DOUBLE.get(name, (1e-13, 0.0))) for name, (fn, x) in FUNCTIONS.items()),
    *(Case(f"{n} float16", FUNCTIONS[n][0], (FUNCTIONS[n][1].half(),)) for n in HALVES),
    *(Case(f"{n} bfloat16", FUNCTIONS[n][0], (FUNCTIONS[n][1].bfloat16(),)) for n in HALVES),
    *(Case(f"{n} integers", FUNCTIONS[n][0], (torch.tensor([0, 1, -1]),)) for n in ("erf", "erfc", "erfinv", "ndtr")),
    Case("erfinv near 1", torch.erfinv, (NEAR_1,), tolerance=(1e-13, 0.0)),
    Case("ndtri of tiny shares", SPECIAL.ndtri, (torch.tensor([1e-300, 1e-310, 5e-324], dtype=torch.float64),), tolerance=(1e-13, 0.0)),
    Case("ndtri integers", lambda x: [SPECIAL.ndtri(x.to(t)) for t in (torch.bool, torch.uint8, torch.int64)], (torch.tensor([0, 1, 2]),)),
    Case("ndtr cancels in half", torch.special.ndtr, (torch.linspace(-4, 4, 20).bfloat16(),)),
    Case("erfc is small", torch.erfc, (torch.tensor([3.0, 5.0, 8.0]),), tolerance=(1e-5, 0)),
    Case("compiled", lambda x: torch.erf(x) + torch.erfc(x), (X,), compiled=True),
]  # fmt: skip


@params(CASES)
def test_erf(case, tmp_path):
    check(case, tmp_path)


@pytest.mark.parametrize("x", [1e-30, 1e-8, 1e-3, 0.05, 0.3, 1.0, 2.5])
def test_erf_is_relatively_exact(x, tmp_path):
    check(Case("erf", torch.erf, (torch.tensor([x, -x]),), tolerance=(6e-7, 0.0)), tmp_path)
