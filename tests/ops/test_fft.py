"""Fourier transforms, and complex numbers."""

import pytest
import torch
from torch import nn
from torch.export import Dim

import mlxify

from .harness import Case, check, params
from .values import HALVES, INF, NAN

torch.manual_seed(0)
X = torch.randn(3, 4, 5)
C = torch.randn(3, 4, 5, dtype=torch.complex64)
# Transforms of dozens of elements: sums in another order.
SUM = (1e-4, 1e-5)
ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
NORMS = (None, "backward", "ortho", "forward")


def takes(name):
    """What a transform takes: real or complex numbers."""
    return X if name.startswith(("rfft", "ihfft")) else C


def form(name):
    fn = getattr(torch.fft, name)
    if name.endswith(("2", "n")):
        return lambda x: [
            fn(x),
            *(fn(x, norm=n) for n in NORMS),
            fn(x, s=(3, 6)),
            fn(x, s=(5, -1), dim=(0, 2)),
            fn(x, dim=(2, 1)),
            fn(x, dim=(-3,)),
        ]
    return lambda x: [fn(x), *(fn(x, norm=n) for n in NORMS), fn(x, 3), fn(x, 8), fn(x, dim=0), fn(x, 7, -2)]


CASES = [
    *(
        Case(name + suffix, form(name + suffix), (takes(name),), tolerance=SUM, decomposed=True)
        for name in ONE
        for suffix in ("", "2", "n")
    ),
    Case("fft of real numbers", lambda x: (torch.fft.fft(x), torch.fft.ifft(x), torch.fft.hfft(x)), (X,), tolerance=SUM),
    Case("all axes", lambda x: (torch.fft.fftn(x, s=(2, 2, 2)), torch.fft.rfftn(x)), (X,), tolerance=SUM),
    *(
        Case(f"integers {str(d)[6:]}", lambda x: (torch.fft.fft(x), torch.fft.rfft(x)), ((X * 9).to(d),), tolerance=SUM)
        for d in (torch.bool, torch.int8, torch.int64)
    ),
    Case("float64", lambda x: torch.fft.rfft(x), (X.double(),), refused="complex128"),
    Case("a prime and a large size", lambda x: torch.fft.rfft(x), (torch.randn(2, 1009),), tolerance=(1e-4, 1e-4)),
    Case("one element", lambda x: (torch.fft.fft(x), torch.fft.rfft(x), torch.fft.irfft(x, 1)), (X[..., :1],)),
    Case(
        "shift",
        lambda x: (torch.fft.fftshift(x), torch.fft.ifftshift(x), torch.fft.fftshift(x, dim=1), torch.fft.ifftshift(x, dim=(0, -1))),
        (X,),
        decomposed=True,
    ),
    Case("freq", lambda x: (x + torch.fft.fftfreq(5, 0.1), torch.fft.rfftfreq(8), torch.fft.fftfreq(4)), (X,)),
    Case(
        "real, imag, conj",
        lambda x: (x.real, x.imag, x.conj(), x.conj().resolve_conj(), torch.conj_physical(x), torch.real(x.abs())),
        (C,),
    ),
    Case("views", lambda x, y: (torch.view_as_real(x), torch.view_as_complex(y)), (C, torch.randn(3, 2)), decomposed=True),
    Case("complex", lambda a, b: torch.complex(a, b), (torch.tensor([1, INF, -INF, NAN]), torch.tensor([[2], [INF], [0]]))),
    Case("polar", lambda a, b: torch.polar(a, b), (X.abs(), X)),
    Case("views 0-d", lambda x: torch.view_as_real(x[0, 0, 0]), (C,)),
]  # fmt: skip


class Stft(nn.Module):
    def __init__(self, **options) -> None:
        super().__init__()
        self.options = {"return_complex": True, **options}
        self.register_buffer("window", torch.hann_window(self.options.get("win_length", 16)))

    def forward(self, x):
        return torch.stft(x, 16, window=self.window, **self.options)


class RoundTrip(nn.Module):
    """stft and back: the second must undo the first."""

    def __init__(self, n=16, **options) -> None:
        super().__init__()
        self.n, self.options = n, options
        self.register_buffer("window", torch.hann_window(n))

    def forward(self, x):
        spectrum = torch.stft(
            x, self.n, window=self.window, return_complex=True, hop_length=self.n // 4, **self.options
        )
        return torch.istft(spectrum * 0.5, self.n, window=self.window, hop_length=self.n // 4, **self.options)


SIGNAL = torch.randn(2, 96)
ALSO = {
    "dynamic": ({0: Dim("n", min=1, max=8), 1: Dim("t", min=32, max=4096)},),
    "also": ((torch.randn(1, 32),), (torch.randn(3, 100),), (torch.randn(8, 4096),)),
    "tolerance": SUM,
}

MODULES = [
    Case("stft", Stft(), (SIGNAL,), tolerance=SUM, decomposed=True),
    Case("stft 1d", Stft(hop_length=5), (SIGNAL[0],), tolerance=SUM),
    Case("stft window", Stft(win_length=10, hop_length=3), (SIGNAL,), tolerance=SUM),
    Case("stft options", Stft(normalized=True, onesided=False, center=False), (SIGNAL,), tolerance=SUM),
    Case("stft pad", Stft(pad_mode="constant"), (SIGNAL,), tolerance=SUM),
    Case("stft real", Stft(return_complex=False), (SIGNAL,), tolerance=SUM),
    Case("stft dynamic", Stft(hop_length=4), (SIGNAL,), **ALSO),
    Case("round trip", RoundTrip(), (SIGNAL,), **ALSO),
    Case("round trip normalized", RoundTrip(normalized=True), (SIGNAL,), tolerance=SUM),
    Case("round trip two sides", RoundTrip(onesided=False), (SIGNAL,), tolerance=SUM),
]


def istft(**options):
    return lambda x, w: torch.istft(x, 16, window=w, **options)


S = torch.randn(2, 9, 12, dtype=torch.complex64)
W = torch.hann_window(16) + 0.1
INVERSES = [
    Case(name, istft(**options), (x, window), tolerance=SUM, decomposed=name == "istft")
    for name, options, x, window in [
        ("istft", {}, S, W),
        ("istft shorter", {"length": 30, "hop_length": 4}, S, W),
        ("istft longer", {"length": 70, "hop_length": 4}, S, W),
        ("istft no centre", {"center": False, "hop_length": 5}, S, W),
        ("istft without window", {"hop_length": 5}, S, None),
        ("istft one signal", {"hop_length": 7, "win_length": 12}, S[0], W[:12]),
        ("istft complex", {"return_complex": True}, torch.randn(2, 16, 12, dtype=torch.complex64), W),
    ]
]


@params(CASES)
def test_fft(case, tmp_path):
    check(case, tmp_path)


@params([*MODULES, *INVERSES])
def test_short_time(case, tmp_path):
    check(case, tmp_path)


def test_round_trip_is_exact():
    """At an inner product of hann windows a quarter apart, nothing is lost."""
    program = mlxify.convert(RoundTrip(), (SIGNAL,))
    back = torch.tensor(program(SIGNAL).tolist())
    torch.testing.assert_close(back, SIGNAL[:, : back.shape[1]] * 0.5, rtol=1e-5, atol=1e-5)


def test_gaps_between_windows():
    """PyTorch refuses windows whose squares add up to nothing somewhere."""
    program = mlxify.convert(_Istft(), (S, W))
    program(S, W)
    with pytest.raises(mlxify.MlxifyError, match="gaps"):
        program(S, torch.zeros(16))


class _Istft(nn.Module):
    def forward(self, x, window):
        return torch.istft(x, 16, window=window)


@pytest.mark.parametrize("dtype", HALVES)
def test_half_precision_is_refused(dtype):
    """PyTorch's CPU transforms refuse it when they run."""
    with pytest.raises((mlxify.MlxifyError, RuntimeError, ValueError)):
        mlxify.convert(_Rfft(), (X.to(dtype),))


class _Rfft(nn.Module):
    def forward(self, x):
        return torch.fft.rfft(x)
