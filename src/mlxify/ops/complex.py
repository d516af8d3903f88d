"""Complex numbers: their parts, their conjugates, and the two views of them."""

from __future__ import annotations

import math

import mlx.core as mx

from ..errors import refuse
from ..isa import Array, instruction
from ..lowering import lowers
from .arithmetic import arctan2, literal, multiply, subtract
from .compare import less, not_equal, where
from .exponential import exp, expm1
from .join import stack
from .shape import slice_, squeeze, swapped
from .unary import cos, sin


@instruction
def real(x: Array) -> Array:
    """The real part of complex x, as float32."""
    return mx.real(_complex(x))


@instruction
def imag(x: Array) -> Array:
    """The imaginary part of complex x, as float32."""
    return mx.imag(_complex(x))


@instruction
def conjugate(x: Array) -> Array:
    """The complex conjugate of x."""
    return mx.conjugate(_complex(x))


@instruction
def complex_(real: Array, imag: Array) -> Array:
    """real + imag * i, from two float32 arrays, which broadcast. Infinities stay in their part."""
    if real.dtype != mx.float32 or imag.dtype != mx.float32:
        raise ValueError(f"a complex number of {real.dtype} and {imag.dtype}")
    pairs = mx.stack(list(mx.broadcast_arrays(real, imag)), -1)
    return mx.squeeze(mx.view(pairs, mx.complex64), -1)


def _complex(x: mx.array) -> mx.array:
    if x.dtype != mx.complex64:
        raise ValueError(f"{x.dtype} is not complex")
    return x


def _single(x):
    if x.dtype != mx.float32:
        raise refuse("MLX has complex numbers of two float32, and no others")


@lowers("aten.real")
def real_(self):
    return real(self) if self.dtype == mx.complex64 else self


@lowers("aten.imag")
def imag_(self):
    return imag(self)


@lowers("aten.view_as_real")
def view_as_real(self):
    return stack([real(self), imag(self)], -1)


@lowers("aten.view_as_complex")
def view_as_complex(self):
    last = self.ndim - 1
    _single(self)
    parts = [squeeze(slice_(self, [i], [i + 1], [1], [last]), [last]) for i in range(2)]
    return complex_(*parts)


@lowers("aten.conj", "aten._conj", "aten.conj_physical", "aten._conj_physical")
def conj(self):
    return conjugate(self) if self.dtype == mx.complex64 else self


@lowers("aten.mH", "aten.adjoint")
def mh(self):
    return conj(swapped(self, -2, -1))


@lowers("aten.matrix_H")
def matrix_h(self):
    return conj(self if self.ndim == 0 else swapped(self, -2, -1))


@lowers("aten.resolve_conj", "aten.resolve_neg")
def resolve(self):
    """Values here are never lazy conjugates or negatives."""
    return self


@lowers("aten.complex", promote=("real", "imag"))
def complex_of(real, imag):
    _single(real)
    return complex_(real, imag)


@lowers("aten.polar")
def polar(abs, angle):
    _single(abs)
    return complex_(multiply(abs, cos(angle)), multiply(abs, sin(angle)))


@lowers("aten.angle", promote="self", to="float")
def angle(self):
    """Of a real number 0 or pi, or nan of nan."""
    if self.dtype == mx.complex64:
        return arctan2(imag(self), real(self))
    zero, pi = literal(0.0, self.dtype), literal(math.pi, self.dtype)
    return where(not_equal(self, self), self, where(less(self, zero), pi, zero))


@lowers("aten.expm1", "aten.special_expm1", promote="self", to="float", opmath=True)
def expm1_(self):
    """Of x + yi: expm1(x) cos(y) - 2 sin(y / 2)^2 + exp(x) sin(y) i, exact near 0 in both parts."""
    if self.dtype != mx.complex64:
        return expm1(self)
    x, y = real(self), imag(self)
    half = sin(multiply(y, 0.5))
    return complex_(
        subtract(multiply(expm1(x), cos(y)), multiply(2.0, multiply(half, half))), multiply(exp(x), sin(y))
    )
