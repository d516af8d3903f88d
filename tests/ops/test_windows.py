"""Window functions."""

import torch

from .harness import Case, check, params
from .test_create import new

PERIODIC = (True, False)
LENGTHS = (0, 1, 2, 9, 400)
WINDOWS = ("hann_window", "hamming_window", "blackman_window", "bartlett_window", "kaiser_window")

CASES = [
    *(
        new(
            name,
            lambda name=name: tuple(getattr(torch, name)(n, periodic=p) for n in LENGTHS for p in PERIODIC),
        )
        for name in WINDOWS
    ),
    *(new(f"{name} default", lambda name=name: getattr(torch, name)(16)) for name in WINDOWS),
    # PyTorch rounds each of its five steps to half.
    new("hann_window half", lambda: torch.hann_window(16, dtype=torch.float16), tolerance=(1e-2, 2e-3)),
    new(
        "hamming_window alpha",
        lambda: (torch.hamming_window(8, True, 0.5), torch.hamming_window(8, False, 0.5, 0.3)),
    ),
    new(
        "kaiser_window beta",
        lambda: (torch.kaiser_window(8, True, 8.6), torch.kaiser_window(9, False, beta=0.0)),
    ),
    Case("framed", lambda x: x.unfold(-1, 16, 4) * torch.hann_window(16), (torch.randn(40),)),
]


@params(CASES)
def test_windows(case, tmp_path):
    check(case, tmp_path)
