"""Bessel functions."""

import torch

from .harness import Case, check, params

S = torch.special
INF, NAN = torch.inf, torch.nan
X = torch.tensor(
    [0.0, -0.0, 1e-30, 1e-6, 9e-6, 0.3, -0.5, 1.0, -1.0, 1.9999, 2.0, 2.0001, 2.404826, 3.7, 3.8317, 4.9999, 5.0, 5.0001,
     5.520078, 7.0156, -7.99, 8.0, 8.01, 13.3, 20.0, -60.0, 88.0, 1234.5, 1e5, 1e20, INF, -INF, NAN]
)  # fmt: skip
FUNCTIONS = {
    name: getattr(S, name)
    for name in (
        "i0", "i0e", "i1", "i1e", "modified_bessel_i0", "modified_bessel_i1", "modified_bessel_k0", "modified_bessel_k1",
        "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1",
        "spherical_bessel_j0",
    )
}  # fmt: skip
HALF = {name: FUNCTIONS[name] for name in ("i0", "i0e", "i1", "i1e")}
INTEGERS = (torch.bool, torch.uint8, torch.int32, torch.int64)
CASES = [
    *(Case(name, fn, (X,)) for name, fn in FUNCTIONS.items()),
    *(Case(f"{name} float64", fn, (X.double(),)) for name, fn in FUNCTIONS.items()),
    *(Case(str(t), lambda x: [fn(x) for fn in HALF.values()], (X.to(t),)) for t in (torch.float16, torch.bfloat16)),
    *(Case(str(t), lambda x: [fn(x) for fn in FUNCTIONS.values()], (torch.tensor([0, 1, 3, 9]).to(t),)) for t in INTEGERS),
    Case("j0 of a scalar", S.bessel_j0, (torch.tensor(0.7),)),
    Case("j0 of nothing", S.bessel_j0, (torch.ones(0, 2),)),
    Case("k0 many", S.modified_bessel_k0, (torch.linspace(0.01, 30, 300),)),
    Case("y1 many", S.bessel_y1, (torch.linspace(0.01, 30, 300),)),
    Case("kaiser window", lambda x: x * torch.kaiser_window(6, False, 12.0), (torch.ones(6),)),
    Case("compiled", lambda x: torch.i0(x), (X[5:9],), compiled=True),
]  # fmt: skip


@params(CASES)
def test_bessel(case, tmp_path):
    check(case, tmp_path)
