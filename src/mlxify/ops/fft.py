"""Fourier transforms of any number of axes, and the short-time one and its inverse."""

from __future__ import annotations

from typing import Any, Literal

import mlx.core as mx
import numpy as np

from ..errors import refuse
from ..isa import Array, Int, cast, instruction
from ..lowering import HALVES, lowers
from ..record import current
from .arithmetic import divide, multiply
from .axes import axis_of
from .compare import greater
from .complex import conjugate, view_as_real
from .create import full, literal
from .join import roll
from .pad import pad
from .patches import overlap_add
from .reduce import all_
from .shape import broadcast_to, check_sizes, expand_dims, slice_, squeeze, transpose
from .slicing import as_strided

Norm = Literal["backward", "ortho", "forward"]


@instruction
def fftn(x: Array, sizes: list[Int], axes: list[int], norm: Norm) -> Array:
    """The discrete Fourier transform of complex x along axes, each cut or filled up with zeros to its size first.

    `norm` says which transform is divided by the number of elements: the inverse one (backward), this one (forward),
    or both by its root (ortho).
    """
    return _transform(mx.fft.fftn, x, mx.complex64, sizes, axes, sizes, norm)


@instruction
def ifftn(x: Array, sizes: list[Int], axes: list[int], norm: Norm) -> Array:
    """The inverse of `fftn`."""
    return _transform(mx.fft.ifftn, x, mx.complex64, sizes, axes, sizes, norm)


@instruction
def rfftn(x: Array, sizes: list[Int], axes: list[int], norm: Norm) -> Array:
    """`fftn` of real x, float32, without the second half of the last of `axes`, which follows from the first one."""
    return _transform(
        mx.fft.rfftn, x, mx.float32, sizes, axes, [*sizes[:-1], *(n // 2 + 1 for n in sizes[-1:])], norm
    )


@instruction
def irfftn(x: Array, sizes: list[Int], axes: list[int], norm: Norm) -> Array:
    """The inverse of `rfftn`: real, with `sizes` the sizes of the result. Imaginary parts that should be 0 are ignored."""
    return _transform(mx.fft.irfftn, x, mx.complex64, sizes, axes, sizes, norm)


def _transform(
    function: Any,
    x: mx.array,
    dtype: mx.Dtype,
    sizes: list[int],
    axes: list[int],
    result: list[int],
    norm: str,
) -> mx.array:
    axes = [axis_of(x, axis) for axis in axes]
    if len(sizes) != len(axes) or len(set(axes)) < len(axes) or not axes or not x.ndim:
        raise ValueError(f"a transform of the axes {axes} with sizes {sizes} of the shape {list(x.shape)}")
    if x.dtype != dtype or min(check_sizes(sizes)) < 1:
        raise ValueError(f"a transform of {x.dtype} to the sizes {sizes}")
    if x.size == 0:
        shape = list(x.shape)
        for axis, n in zip(axes, result, strict=True):
            shape[axis] = n
        return mx.zeros(shape, mx.float32 if function is mx.fft.irfftn else mx.complex64)
    return function(x, s=list(sizes), axes=axes, norm=norm)


NORMS: tuple[Norm, ...] = ("backward", "ortho", "forward")
"""PyTorch's normalisation codes for a forward transform: none, by the root, by the number of elements."""
OPPOSITE: dict[Norm, Norm] = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


def _axes(x, s, dim):
    """The transformed axes and their sizes in x; a size of -1 keeps that of x."""
    if dim is None:
        dim = range(x.ndim - len(s), x.ndim) if s is not None else range(x.ndim)
    axes = [axis_of(x, d) for d in (dim if isinstance(dim, (list, tuple, range)) else [dim])]
    s = [None] * len(axes) if s is None else (s if isinstance(s, (list, tuple)) else [s])
    sizes = [n if not (n is None or (isinstance(n, int) and n == -1)) else None for n in s]
    return axes, sizes


def _filled(x, axes, sizes):
    return [x.shape[axis] if n is None else n for axis, n in zip(axes, sizes, strict=True)]


def _complex(x):
    if x.dtype in HALVES:
        raise refuse("PyTorch transforms half precision on GPUs only")
    return cast(x, mx.complex64)


def _real(x):
    if x.dtype in (*HALVES, mx.complex64):
        raise refuse("a transform of real numbers takes float32 or integers")
    return cast(x, mx.float32)


def forward(x, s, dim, norm):
    axes, sizes = _axes(x, s, dim)
    return fftn(_complex(x), _filled(x, axes, sizes), axes, norm or "backward") if axes else _complex(x)


def inverse(x, s, dim, norm):
    axes, sizes = _axes(x, s, dim)
    return ifftn(_complex(x), _filled(x, axes, sizes), axes, norm or "backward") if axes else _complex(x)


def real_forward(x, s, dim, norm):
    axes, sizes = _axes(x, s, dim)
    return rfftn(_real(x), _filled(x, axes, sizes), axes, norm or "backward")


def real_inverse(x, s, dim, norm):
    axes, sizes = _axes(x, s, dim)
    if sizes[-1] is None:
        sizes[-1] = 2 * (x.shape[axes[-1]] - 1)
    return irfftn(_complex(x), _filled(x, axes, sizes), axes, norm or "backward")


def hermitian(x, s, dim, norm):
    """A real spectrum of half a signal that equals its own reversed conjugate."""
    return real_inverse(conjugate(_complex(x)), s, dim, OPPOSITE[norm or "backward"])


def hermitian_inverse(x, s, dim, norm):
    return conjugate(real_forward(x, s, dim, OPPOSITE[norm or "backward"]))


_FORMS = {
    "fft": forward, "ifft": inverse, "rfft": real_forward, "irfft": real_inverse,
    "hfft": hermitian, "ihfft": hermitian_inverse,
}  # fmt: skip


def _one_axis(form):
    return lambda self, n, dim, norm: form(self, None if n is None else [n], dim, norm)


def _some_axes(form):
    return lambda self, s, dim, norm: form(self, s, dim, norm)


for _name, _form in _FORMS.items():
    lowers(f"aten.fft_{_name}")(_one_axis(_form))
    for _suffix in ("2", "n"):
        lowers(f"aten.fft_{_name}{_suffix}")(_some_axes(_form))


@lowers("aten._fft_c2c")
def fft_c2c(self, dim, normalization, forward):
    sizes = [self.shape[axis] for axis in dim]
    if not dim:
        return self
    if forward:
        return fftn(self, sizes, dim, NORMS[normalization])
    return ifftn(self, sizes, dim, OPPOSITE[NORMS[normalization]])


@lowers("aten._fft_r2c")
def fft_r2c(self, dim, normalization, onesided):
    transform, x = (rfftn, _real(self)) if onesided else (fftn, _complex(self))
    return transform(x, [self.shape[axis] for axis in dim], dim, NORMS[normalization])


@lowers("aten._fft_c2r")
def fft_c2r(self, dim, normalization, last_dim_size):
    sizes = [*(self.shape[axis] for axis in dim[:-1]), last_dim_size]
    return irfftn(self, sizes, dim, OPPOSITE[NORMS[normalization]])


@lowers("aten.fft_fftshift")
def fftshift(self, dim):
    axes, _ = _axes(self, None, dim)
    return roll(self, [self.shape[axis] // 2 for axis in axes], axes) if self.ndim else self


@lowers("aten.fft_ifftshift")
def ifftshift(self, dim):
    axes, _ = _axes(self, None, dim)
    return roll(self, [(self.shape[axis] + 1) // 2 for axis in axes], axes) if self.ndim else self


@lowers("aten.fft_fftfreq")
def fftfreq(n, d, dtype, result):
    return literal(np.fft.fftfreq(n, d), result.dtype)


@lowers("aten.fft_rfftfreq")
def rfftfreq(n, d, dtype, result):
    return literal(np.fft.rfftfreq(n, d), result.dtype)


PAD_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@lowers("aten.stft", "aten.stft.center")
def stft(
    self,
    n_fft,
    hop_length,
    win_length,
    window,
    normalized,
    onesided,
    return_complex,
    center=False,
    pad_mode="reflect",
):
    """(batch, time) to (batch, frequency, frame): the transform of windows `hop_length` apart."""
    x = self if self.ndim == 2 else expand_dims(self, [0])
    if center:
        width = [0, n_fft // 2]
        x = pad(x, width, width, PAD_MODES[pad_mode], 0)
    hop = n_fft // 4 if hop_length is None else hop_length
    n, length = x.shape
    frames = as_strided(x, [n, (length - n_fft) // hop + 1, n_fft], [length, hop, 1], 0)
    if window is not None or win_length not in (None, n_fft):
        window = _window(window, win_length, n_fft)
        dtype = mx.complex64 if mx.complex64 in (x.dtype, window.dtype) else x.dtype
        frames = multiply(cast(frames, dtype), cast(window, dtype))
    half = frames.dtype != mx.complex64 if onesided is None else onesided
    transform = real_forward if half else forward
    result = transpose(transform(frames, None, [2], "ortho" if normalized else None), [0, 2, 1])
    result = result if self.ndim == 2 else squeeze(result, [0])
    return result if return_complex else view_as_real(result)


def _window(window, win_length, n_fft):
    """The window, all ones if there is none, in the middle of n_fft elements."""
    length = n_fft if win_length is None else win_length
    window = full([length], 1, mx.float32) if window is None else window
    left = (n_fft - length) // 2
    return pad(window, [left], [n_fft - length - left], "constant", 0)


@lowers("aten.istft")
def istft(self, n_fft, hop_length, win_length, window, center, normalized, onesided, length, return_complex):
    """Windows of the inverse transforms added up, divided by the sum of the squared windows at each place."""
    x = self if self.ndim == 3 else expand_dims(self, [0])
    hop = n_fft // 4 if hop_length is None else hop_length
    window = _window(window, win_length, n_fft)
    norm = "ortho" if normalized else "backward"
    x = transpose(x, [0, 2, 1])
    x = inverse(x, None, [2], norm) if return_complex else real_inverse(x, [n_fft], [2], norm)
    count = x.shape[1]
    total = overlap_add(multiply(x, cast(window, x.dtype)), 1, hop, 1)
    squares = broadcast_to(multiply(window, window), [count, n_fft])
    weight = overlap_add(squares, 0, hop, 1)
    start = n_fft // 2 if center else 0
    size = (count - 1) * hop + n_fft
    stop = size - start if length is None else start + length
    weight = slice_(weight, [start], [stop], [1], [0])
    _require(all_(greater(weight, 1e-11), [0], False), "the windows of istft leave gaps")
    y = divide(slice_(total, [start], [stop], [1], [1]), cast(weight, x.dtype))
    if length is not None:
        y = pad(y, [0, 0], [0, length - y.shape[1]], "constant", 0)
    return y if self.ndim == 3 else squeeze(y, [0])


def _require(condition, message):
    """Make a condition on data one of the program's, except in a branch or loop."""
    recorder = current()
    assert recorder is not None, "lowerings run while recording"
    if not recorder.in_block:
        recorder.checks.append((condition, message))
