"""Window functions, computed at conversion."""

from __future__ import annotations

import numpy as np

from ..lowering import lowers
from .create import literal


def _cosines(coefficients, length, periodic, result):
    """The sum of c[j] * cos(2 pi j i / n); n is the length, or one less when the window is to be symmetric."""
    turns = np.arange(length) / max(length if periodic else length - 1, 1)
    values = sum(c * np.cos(2 * np.pi * j * turns) for j, c in enumerate(coefficients))
    return literal(values if length != 1 else np.ones(1), result.dtype)


@lowers("aten.hann_window", "aten.hann_window.periodic")
def hann_window(window_length, dtype, result, periodic=True):
    return _cosines((0.5, -0.5), window_length, periodic, result)


@lowers(
    "aten.hamming_window",
    "aten.hamming_window.periodic",
    "aten.hamming_window.periodic_alpha",
    "aten.hamming_window.periodic_alpha_beta",
)
def hamming_window(window_length, dtype, result, periodic=True, alpha=0.54, beta=0.46):
    return _cosines((alpha, -beta), window_length, periodic, result)


@lowers("aten.blackman_window", "aten.blackman_window.periodic")
def blackman_window(window_length, dtype, result, periodic=True):
    return _cosines((0.42, -0.5, 0.08), window_length, periodic, result)


@lowers("aten.bartlett_window", "aten.bartlett_window.periodic")
def bartlett_window(window_length, dtype, result, periodic=True):
    return literal(_window(np.bartlett, window_length, periodic), result.dtype)


@lowers("aten.kaiser_window", "aten.kaiser_window.periodic", "aten.kaiser_window.beta")
def kaiser_window(window_length, dtype, result, periodic=True, beta=12.0):
    return literal(_window(np.kaiser, window_length, periodic, beta), result.dtype)


def _window(function, length, periodic, *args):
    """NumPy's symmetric window; a periodic one is the next longer symmetric one without its last element."""
    return function(length + (periodic and length > 1), *args)[:length].astype(np.float64)
