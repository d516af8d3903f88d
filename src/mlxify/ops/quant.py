"""Quantised tensors: PT2E's quantized_decomposed ops, torchao's affine ops, fake quantisation.

An affine quantised value q with scale s and zero point z stands for (q - z) * s.
"""

from __future__ import annotations

import mlx.core as mx

from ..errors import refuse
from ..isa import cast
from ..lowering import as_array, lowers, result_type
from .arithmetic import add, divide, literal, maximum, minimum, multiply, subtract, widen
from .axes import axis_of
from .bitwise import bitwise_and, bitwise_invert, bitwise_or
from .compare import greater, greater_equal, isnan, less_equal, where
from .reduce import max_, min_
from .shape import reshape
from .unary import abs_, negative, reciprocal, round_

FLOAT32_EPS = 2.0**-23


def promoted(function, x, y):
    """function(x, y) in the dtype that PyTorch gives a binary op of the two."""
    common = result_type([x, y])
    return function(as_array(x, common), as_array(y, common))


def _inverse(scale):
    return 1.0 / scale if isinstance(scale, (int, float)) else reciprocal(scale)


def limited(x, low, high):
    return minimum(maximum(x, literal(low, x.dtype)), literal(high, x.dtype))


def _quantized(x, scale, zero_point, low, high):
    """round(x / scale) + zero_point, within limits, still in floats."""
    rounded = round_(promoted(multiply, x, _inverse(scale)))
    shifted = rounded if zero_point is None else promoted(add, rounded, zero_point)
    return limited(shifted, low, high)


def _dequantized(x, scale, zero_point):
    return promoted(multiply, x if zero_point is None else promoted(subtract, x, zero_point), scale)


# PT2E: quantized_decomposed


@lowers(
    "quantized_decomposed::quantize_per_tensor",
    "quantized_decomposed::quantize_per_tensor.tensor",
    "quantized_decomposed::quantize_per_tensor.tensor2",
)
def quantize_per_tensor(input, scale, zero_point, quant_min, quant_max, dtype):
    scale, zero_point = (_one(v) for v in (scale, zero_point))
    return cast(_quantized(widen(input), scale, zero_point, _one(quant_min), _one(quant_max)), dtype)


@lowers(
    "quantized_decomposed::dequantize_per_tensor",
    "quantized_decomposed::dequantize_per_tensor.tensor",
    "quantized_decomposed::dequantize_per_tensor.tensor2",
)
def dequantize_per_tensor(input, scale, zero_point, quant_min, quant_max, dtype, out_dtype=None):
    wide = cast(input, out_dtype or mx.float32)
    return _dequantized(wide, _one(scale), _one(zero_point))


def _one(value):
    """A parameter of one element as a 0-d array, so that it has a number's weight in promotion."""
    return reshape(value, []) if hasattr(value, "ndim") else value


@lowers("quantized_decomposed::quantize_per_channel")
def quantize_per_channel(input, scales, zero_points, axis, quant_min, quant_max, dtype):
    scales, zero_points = (_along(v, input, axis) for v in (scales, zero_points))
    return cast(_quantized(widen(input), scales, zero_points, quant_min, quant_max), dtype)


@lowers("quantized_decomposed::dequantize_per_channel")
def dequantize_per_channel(input, scales, zero_points, axis, quant_min, quant_max, dtype, out_dtype=None):
    return _dequantized(input, *(v if v is None else _along(v, input, axis) for v in (scales, zero_points)))


def _along(vector, x, axis):
    """A vector shaped to broadcast along an axis of x."""
    sizes = [1] * x.ndim
    sizes[axis_of(x, axis)] = vector.shape[0]
    return reshape(vector, sizes)


@lowers("quantized_decomposed::quantize_per_token")
def quantize_per_token(input, scales, zero_points, quant_min, quant_max, dtype):
    shifted = promoted(add, promoted(multiply, input, reciprocal(scales)), zero_points)
    return cast(limited(round_(shifted), quant_min, quant_max), dtype)


@lowers("quantized_decomposed::dequantize_per_token")
def dequantize_per_token(input, scales, zero_points, quant_min, quant_max, dtype, output_dtype):
    return _dequantized(input, scales, zero_points)


@lowers("quantized_decomposed::quantize_per_channel_group")
def quantize_per_channel_group(input, scales, zero_points, quant_min, quant_max, dtype, group_size):
    x, scales, zero_points = _groups(input, scales, zero_points, group_size)
    return reshape(quantize_per_token(x, scales, zero_points, quant_min, quant_max, dtype), input.shape)


@lowers("quantized_decomposed::dequantize_per_channel_group")
def dequantize_per_channel_group(
    input, scales, zero_points, quant_min, quant_max, dtype, group_size, output_dtype
):
    return reshape(_dequantized(*_groups(input, scales, zero_points, group_size)), input.shape)


def _groups(x, scales, zero_points, group_size):
    columns = x.shape[-1]
    if (
        isinstance(columns, int)
        and group_size > columns
        and isinstance(scales.shape[-1], int)
        and scales.shape[-1] == 1
    ):
        group_size = columns
    vectors = (v if v is None else reshape(v, [-1, 1]) for v in (scales, zero_points))
    return reshape(x, [-1, group_size]), *vectors


@lowers("quantized_decomposed::fake_quant_per_channel")
def fake_quant_per_channel(input, scales, zero_points, axis, quant_min, quant_max):
    scales, zero_points = (_along(v, input, axis) for v in (scales, zero_points))
    quantized = _quantized(input, scales, zero_points, quant_min, quant_max)
    return _dequantized(quantized, scales, zero_points)


@lowers("quantized_decomposed::choose_qparams.tensor")
def choose_qparams(input, quant_min, quant_max, eps, dtype):
    low, high = value_range(input, list(range(input.ndim)), False)
    scale = maximum(widen(divide(subtract(high, low), float(quant_max - quant_min))), eps)
    low = widen(low)
    zero_point = limited(subtract(float(quant_min), round_(divide(low, scale))), quant_min, quant_max)
    return [reshape(scale, [1]), reshape(zero_point, [1])]


@lowers("quantized_decomposed::choose_qparams_symmetric.tensor")
def choose_qparams_symmetric(input, quant_min, quant_max, eps, dtype):
    low, high = value_range(input, list(range(input.ndim)), False)
    largest = maximum(negative(low), high)
    scale = maximum(widen(divide(largest, float(quant_max - quant_min) / 2)), eps)
    zero_point = literal(128 if dtype == mx.uint8 else 0, mx.int64)
    return [reshape(scale, [1]), reshape(zero_point, [1])]


@lowers("quantized_decomposed::choose_qparams_per_token")
def choose_qparams_per_token(input, dtype):
    if dtype != mx.int8:
        raise refuse("choose_qparams_per_token: only int8 is supported, as in PyTorch")
    scale = max_(abs_(widen(input)), [input.ndim - 1], True)
    scale = divide(maximum(scale, 1e-5), 127.0)
    return [scale, multiply(scale, 0.0)]


@lowers(
    "quantized_decomposed::choose_qparams_per_token_asymmetric",
    "quantized_decomposed::_choose_qparams_per_token_asymmetric_impl",
)
def choose_qparams_per_token_asymmetric(input, dtype):
    low, high = value_range(input, [input.ndim - 1], True)
    scale = maximum(divide(subtract(high, low), 255.0), FLOAT32_EPS)
    first, last = divide(low, scale), divide(high, scale)
    from_low = greater(add(add(first, -128.0), add(last, 127.0)), literal(0.0, scale.dtype))
    zero_point = where(from_low, subtract(-128.0, first), subtract(127.0, last))
    return [scale, round_(limited(zero_point, -128, 127))]


def value_range(x, axes, keepdims):
    """The least and the largest element, 0 among them."""
    return minimum(min_(x, axes, keepdims), 0.0), maximum(max_(x, axes, keepdims), 0.0)


@lowers("quantized_decomposed::convert_element_type.no_fuse")
def convert_element_type(input, dtype):
    return cast(input, dtype)


# Fake quantisation: quantise and dequantise at once


@lowers("aten.fake_quantize_per_tensor_affine", "aten.fake_quantize_per_tensor_affine.tensor_qparams")
def fake_quantize_per_tensor(self, scale, zero_point, quant_min, quant_max):
    return _fake_quantized(self, _one(scale), _one(zero_point), quant_min, quant_max)[0]


@lowers("aten.fake_quantize_per_tensor_affine_cachemask")
def fake_quantize_per_tensor_cachemask(self, scale, zero_point, quant_min, quant_max):
    return _fake_quantized(self, scale, zero_point, quant_min, quant_max)


@lowers("aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams")
def fake_quantize_tensor_qparams(self, scale, zero_point, fake_quant_enabled, quant_min, quant_max):
    result, inside = _fake_quantized(self, _one(scale), _one(zero_point), quant_min, quant_max)
    enabled = cast(reshape(fake_quant_enabled, []), mx.bool_)
    return [where(enabled, result, self), bitwise_or(inside, bitwise_invert(enabled))]


@lowers("aten.fake_quantize_per_channel_affine")
def fake_quantize_per_channel(self, scale, zero_point, axis, quant_min, quant_max):
    return fake_quantize_per_channel_cachemask(self, scale, zero_point, axis, quant_min, quant_max)[0]


@lowers("aten.fake_quantize_per_channel_affine_cachemask")
def fake_quantize_per_channel_cachemask(self, scale, zero_point, axis, quant_min, quant_max):
    scale, zero_point = (_along(v, self, axis) for v in (scale, zero_point))
    return _fake_quantized(self, scale, zero_point, quant_min, quant_max)


def _fake_quantized(x, scale, zero_point, low, high):
    """The result in x's dtype, and where the quantised value was within its limits. NaN becomes the lower one."""
    wide = widen(x)
    scale = as_array(scale, mx.float32)
    whole = not (hasattr(zero_point, "dtype") and mx.issubdtype(zero_point.dtype, mx.floating))
    zero_point = as_array(zero_point, wide.dtype)
    scaled = promoted(multiply, wide, reciprocal(scale))
    quantized = add(round_(scaled), zero_point) if whole else round_(add(scaled, zero_point))
    quantized = where(isnan(quantized), literal(low - 1.0, quantized.dtype), quantized)
    inside = bitwise_and(greater_equal(quantized, float(low)), less_equal(quantized, float(high)))
    steps = subtract(limited(quantized, low, high), zero_point)
    result = multiply(cast(steps, mx.float32), scale)  # PyTorch's product is float32 for float64, too
    return [cast(result, x.dtype), inside]
