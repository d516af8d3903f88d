"""What the decompositions of matrices share. MLX has them on the CPU only: there each of these instructions runs."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from ..errors import refuse
from ..isa import cast
from ..lowering import lowers
from ..program import DTYPE_NAMES
from .arithmetic import add, literal, subtract
from .bitwise import bitwise_invert
from .compare import equal, where
from .complex import conjugate, real
from .create import full
from .reduce import all_, any_, argmax, max_, sum_
from .scalar import assert_scalar
from .shape import slice_, swapped

MATRICES = (mx.float32, mx.float64, mx.complex64)
MAX_STEPS = 2048
"""Rows or columns that an algorithm written here takes one by one: each is a few operations of MLX."""


def check_matrices(*arrays: mx.array, square: bool = False) -> None:
    """Raise ValueError unless these are matrices of one dtype that can be decomposed."""
    for x in arrays:
        if x.dtype not in MATRICES or x.dtype != arrays[0].dtype:
            raise ValueError(f"this needs float32, float64 or complex64, not {x.dtype}")
        if x.ndim < 2 or (square and x.shape[-1] != x.shape[-2]):
            raise ValueError(f"this needs {'square ' if square else ''}matrices, not the shape {x.shape}")


def check_steps(count: int) -> None:
    """Raise ValueError for more steps than an algorithm written here takes."""
    if count > MAX_STEPS:
        raise ValueError(f"this takes at most {MAX_STEPS} rows or columns, not {count}")


def any_in_last(x: mx.array) -> mx.array:
    """(..., 1, 1): whether any of the last axis is true."""
    return mx.expand_dims(mx.any(x, axis=-1, keepdims=True), -1)


def not_finite(x: mx.array) -> mx.array:
    """(..., 1, 1): whether a matrix has an element that is not finite."""
    finite = mx.isfinite(mx.real(x)) & mx.isfinite(mx.imag(x)) if x.dtype == mx.complex64 else mx.isfinite(x)
    return any_in_last(mx.flatten(~finite, -2))


def identity_where(bad: mx.array, x: mx.array) -> mx.array:
    return mx.where(bad, mx.eye(x.shape[-1], dtype=x.dtype), x)


def nan_where(bad: mx.array, x: mx.array) -> mx.array:
    # Added, since mx.compile on a CPU cannot write a complex NaN.
    return x + mx.where(bad, mx.array(float("nan"), real_dtype(x.dtype)), mx.array(0, real_dtype(x.dtype)))


def real_dtype(dtype: mx.Dtype) -> mx.Dtype:
    return mx.float32 if dtype == mx.complex64 else dtype


def decomposable(*arrays: Any) -> None:
    """Refuse dtypes of which there are no decompositions."""
    for x in arrays:
        if x.dtype not in MATRICES:
            raise refuse(f"this decomposition of {DTYPE_NAMES[x.dtype]} matrices is not supported")


def few_steps(*sizes: Any) -> None:
    """Refuse more steps than an algorithm written here takes."""
    for size in sizes:
        if isinstance(size, int) and size > MAX_STEPS:
            raise refuse(f"matrices of {size} rows or columns: at most {MAX_STEPS} are supported here")


def columns(x: Any, count: Any, axis: int) -> Any:
    """The first `count` slices along an axis."""
    return slice_(x, [0], [count], [1], [axis])


def transposed(x: Any) -> Any:
    return swapped(x, -1, -2)


def adjoint(x: Any) -> Any:
    """The conjugate transpose."""
    return conjugate(transposed(x)) if x.dtype == mx.complex64 else transposed(x)


def real_part(x: Any) -> Any:
    return real(x) if x.dtype == mx.complex64 else x


def largest(x: Any, axis: int) -> Any:
    """The largest along an axis of what has no sign; of nothing 0."""
    size = x.shape[axis]
    return (sum_ if isinstance(size, int) and size == 0 else max_)(x, [axis], False)


def first_bad(ok: Any) -> Any:
    """The number, from 1, of the first false element along the last axis; 0 if there is none. int32."""
    if isinstance(ok.shape[-1], int) and ok.shape[-1] == 0:
        return full(ok.shape[:-1], 0, mx.int32)
    bad = bitwise_invert(ok)
    place = add(argmax(cast(bad, mx.int32), ok.ndim - 1, False), 1)
    return cast(where(any_(bad, [ok.ndim - 1], False), place, literal(0, place.dtype)), mx.int32)


def assert_none(info: Any, message: str) -> None:
    """The call fails with `message` unless all of info is 0."""
    assert_scalar(all_(equal(info, 0), list(range(info.ndim)), False), message)


@lowers("aten._linalg_check_errors")
def check_errors(info, api_name, is_matrix):
    assert_none(info, f"{api_name}: a matrix is singular or not positive definite")


def assert_finite(x: Any, message: str) -> None:
    """The call fails with `message` unless all of real x is finite."""
    assert_scalar(all_(equal(subtract(x, x), 0.0), list(range(x.ndim)), False), message)
