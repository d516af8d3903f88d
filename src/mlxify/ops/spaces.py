"""A given number of values between two bounds, evenly or logarithmically spaced."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np

from ..errors import refuse
from ..isa import Array, DType, Int, Number, instruction
from ..lowering import as_array, lowers
from ..values import Value
from .arithmetic import power
from .complex import complex_, imag, real
from .shape import check_sizes


def _example(start: Number, stop: Number, num: Int, *rest: Any) -> Array:
    (num,) = check_sizes([num])
    return mx.zeros([num], rest[-1])


@instruction(abstract=_example)
def linspace(start: Number, stop: Number, num: Int, dtype: DType) -> Array:
    """`num` evenly spaced numbers from start to stop, both included, in the arithmetic of dtype.

    The first half is start + i * step, the second one stop - (num - 1 - i) * step. Integers: from whole bounds in
    float64, towards zero.
    """
    check_sizes([num])
    if mx.issubdtype(dtype, mx.integer):
        first, last = (_whole(bound, dtype) for bound in (start, stop))
        return _table(_ramp(first, last, last - first, num), dtype)
    low, high = mx.array(start, dtype), mx.array(stop, dtype)
    if num < 2:
        return mx.broadcast_to(low, [num])
    step = (high - low) / mx.array(num - 1, dtype)
    index = mx.arange(num).astype(dtype)
    down = mx.arange(num - 1, -1, -1).astype(dtype)
    return mx.where(mx.arange(num) < num // 2, low + step * index, high - step * down)


@instruction(abstract=_example)
def logspace(start: Number, stop: Number, num: Int, base: float, dtype: DType) -> Array:
    """`num` powers of `base`, whose exponents are evenly spaced from start to stop, both included.

    They are computed in float64 on the host, from bounds that are rounded to dtype unless there is only one.
    Integers: towards zero.
    """
    check_sizes([num])
    if num == 1:
        exponents = np.array([start], np.float64)
    elif mx.issubdtype(dtype, mx.integer):
        first, last = (_whole(bound, dtype) for bound in (start, stop))
        exponents = _ramp(first, last, last - first, num)
    else:
        low, high = (_rounded(bound, dtype) for bound in (start, stop))
        exponents = _ramp(low, high, _rounded(high - low, dtype), num)
    with np.errstate(all="ignore"):
        return _table(np.power(np.float64(base), exponents), dtype)


def _ramp(start: float, stop: float, span: float, num: int) -> np.ndarray:
    """The values of `linspace` in float64; `span` is their range."""
    index = np.arange(num)
    step = span / max(num - 1, 1)
    return np.where(index < num // 2 + (num == 1), start + step * index, stop - step * (num - 1 - index))


def _whole(bound: float, dtype: mx.Dtype) -> float:
    limits = mx.iinfo(dtype)
    if not limits.min <= int(bound) <= limits.max:
        raise ValueError(f"the bound {bound} does not fit {dtype}")
    return float(int(bound))


def _rounded(value: float, dtype: mx.Dtype) -> float:
    number: Any = mx.array(value, dtype).item()
    return float(number)


def _table(values: np.ndarray, dtype: mx.Dtype) -> mx.array:
    if mx.issubdtype(dtype, mx.integer):
        return mx.array(values.astype(np.int64)).astype(dtype)
    if dtype == mx.float64:
        return mx.array(values, mx.float64)
    # NumPy rounds to half precision correctly from float64, MLX from float32.
    return mx.array(values.astype(np.float16 if dtype == mx.float16 else np.float32)).astype(dtype)


@lowers(
    "aten.linspace",
    "aten.linspace.Tensor_Tensor",
    "aten.linspace.Tensor_Scalar",
    "aten.linspace.Scalar_Tensor",
)
def linspace_(start, end, steps, dtype, result):
    """Bounds that are tensors are read on the host."""
    _check_real(result, start, end)
    if result.dtype != mx.complex64:
        return linspace(start, end, steps, result.dtype)
    ends = zip(_parts(start), _parts(end), strict=True)
    return complex_(*(linspace(a, b, steps, mx.float32) for a, b in ends))


@lowers(
    "aten.logspace",
    "aten.logspace.Tensor_Tensor",
    "aten.logspace.Tensor_Scalar",
    "aten.logspace.Scalar_Tensor",
)
def logspace_(start, end, steps, base, dtype, result):
    _check_real(result, start, end)
    if result.dtype != mx.complex64:
        return logspace(start, end, steps, base, result.dtype)
    return power(as_array(base, mx.complex64), linspace_(start, end, steps, None, result))


def _check_real(result, *bounds):
    if result.dtype != mx.complex64 and any(isinstance(v, Value) and v.dtype == mx.complex64 for v in bounds):
        raise refuse("torch.export derives real numbers from complex tensors as bounds; pass dtype=")


def _parts(bound):
    """The real and the imaginary part of a literal, host number or 0-d array."""
    if isinstance(bound, Value):
        return (real(bound), imag(bound)) if bound.dtype == mx.complex64 else (bound, 0.0)
    return (bound.real, bound.imag) if isinstance(bound, complex) else (bound, 0.0)
