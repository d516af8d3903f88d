"""Gamma and Bessel functions, and special functions that PyTorch decomposes."""

import torch

from .harness import Case, check, params

S = torch.special
INF, NAN = torch.inf, torch.nan
GAMMA = torch.tensor(
    [
        0.0,
        -0.0,
        1e-20,
        -1e-6,
        0.3,
        0.999,
        1.0,
        1.5,
        2.0,
        2.001,
        3.0,
        5.5,
        8.0,
        9.7,
        40.0,
        1e4,
        1e20,
        -1.0,
        -3.0,
        -0.5,
        -2.5,
        -7.3,
        INF,
        NAN,
    ]
)
BESSEL = torch.tensor([0.0, -0.0, 1e-6, 0.5, -1.0, 3.7, -7.99, 8.0, 8.01, 20.0, -60.0, NAN])
UNIT = torch.tensor([0.0, 0.2, 1.0, 3.0, -1.0, INF, NAN])
FUNCTIONS = {
    "lgamma": (torch.lgamma, GAMMA), "gammaln": (S.gammaln, GAMMA), "digamma": (torch.digamma, GAMMA),
    "psi": (S.psi, GAMMA), "polygamma 0": (lambda x: torch.polygamma(0, x), GAMMA), "i0": (torch.i0, BESSEL),
    "i0e": (S.i0e, BESSEL), "i1": (S.i1, BESSEL), "i1e": (S.i1e, BESSEL), "entr": (S.entr, UNIT),
    "multigammaln": (lambda x: S.multigammaln(x.abs() + 3, 3), torch.tensor([0.0, 1.5, 20.0])),
    "xlog1py": (lambda x: S.xlog1py(x, x.flip(0)), UNIT), "xlogy": (lambda x: torch.xlogy(x, x.flip(0)), UNIT),
    "exp2": (S.exp2, UNIT), "expit": (S.expit, UNIT), "expm1": (S.expm1, UNIT), "log1p": (S.log1p, UNIT),
    "logit": (S.logit, UNIT), "sinc": (S.sinc, UNIT), "round": (S.round, UNIT),
    "log_softmax": (lambda x: S.log_softmax(x, 0), torch.tensor([1.0, 2.0])),
    "modified_bessel_i0": (S.modified_bessel_i0, BESSEL), "modified_bessel_i1": (S.modified_bessel_i1, BESSEL),
    "spherical_bessel_j0": (S.spherical_bessel_j0, torch.tensor([0.0, 1e-3, -0.4, 2.0, 9.0])),
}  # fmt: skip
# PyTorch has these for float32 and wider only.
NO_HALVES = ("modified_bessel_i0", "modified_bessel_i1", "spherical_bessel_j0")
# PyTorch reflects float32 in float64; here pi / tan(pi x) is rounded to float32 next to a root.
LOOSE = {"digamma": (1e-5, 3e-6), "psi": (1e-5, 3e-6), "polygamma 0": (1e-5, 3e-6)}
CASES = [
    *(Case(name, fn, (x,), tolerance=LOOSE.get(name)) for name, (fn, x) in FUNCTIONS.items()),
    *(Case(f"{n} float64", fn, (x.double(),), tolerance=(1e-11, 1e-13)) for n, (fn, x) in FUNCTIONS.items()),
    *(Case(f"{n} float16", fn, (x.half(),)) for n, (fn, x) in FUNCTIONS.items() if n not in NO_HALVES),
    *(Case(f"{n} int64", FUNCTIONS[n][0], (torch.tensor([1, 2, 5]),)) for n in ("lgamma", "digamma", "i0", "i1e")),
    Case("kaiser window", lambda x: x * torch.kaiser_window(6, False, 12.0), (torch.ones(6),)),
    Case("polygamma 1", lambda x: torch.polygamma(1, x), (UNIT,), refused="only of order 0"),
    Case("compiled", lambda x: torch.lgamma(x) + torch.i0(x), (UNIT,), compiled=True),
]  # fmt: skip


@params(CASES)
def test_special(case, tmp_path):
    check(case, tmp_path)
