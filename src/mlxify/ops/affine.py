"""torchao's affine quantisation: blocks of a tensor share a scale and a zero point."""

from __future__ import annotations

import mlx.core as mx

from ..errors import refuse
from ..isa import cast
from ..lowering import lowers
from .arithmetic import add, divide, maximum, multiply, subtract
from .compare import greater, where
from .quant import limited, promoted, value_range
from .shape import reshape, same_sizes
from .unary import negative, reciprocal, round_

LIMITS = {
    mx.int8: (-128, 127),
    mx.uint8: (0, 255),
    mx.int16: (-(2**15), 2**15 - 1),
    mx.int32: (-(2**31), 2**31 - 1),
}
SMALLEST = {mx.float32: 2.0**-126, mx.bfloat16: 2.0**-126, mx.float16: 2.0**-14}
"""The smallest normal number of each dtype."""


@lowers("torchao::dequantize_affine")
def dequantize_affine(
    input,
    block_size,
    scale,
    zero_point,
    input_dtype,
    quant_min=None,
    quant_max=None,
    output_dtype=None,
    *,
    result,
):
    inside, across, _ = _blocks(input, block_size)
    wide = cast(reshape(input, inside), result.dtype)
    if zero_point is not None:
        wide = subtract(wide, cast(reshape(zero_point, across), result.dtype))
    return reshape(promoted(multiply, wide, reshape(scale, across)), input.shape)


@lowers("torchao::quantize_affine")
def quantize_affine(input, block_size, scale, zero_point, output_dtype, quant_min=None, quant_max=None):
    low, high = _limits(output_dtype, quant_min, quant_max)
    inside, across, _ = _blocks(input, block_size)
    quantized = round_(promoted(multiply, reshape(input, inside), reciprocal(reshape(scale, across))))
    if zero_point is not None:
        quantized = promoted(add, quantized, reshape(zero_point, across))
    return cast(reshape(limited(quantized, low, high), input.shape), output_dtype)


@lowers("torchao::choose_qparams_affine")
def choose_qparams_affine(
    input,
    mapping_type,
    block_size,
    target_dtype,
    quant_min=None,
    quant_max=None,
    eps=None,
    scale_dtype=None,
    zero_point_dtype=None,
    keepdim=False,
):
    low, high = _limits(target_dtype, quant_min, quant_max)
    inside, _, axes = _blocks(input, block_size)
    least, largest = value_range(reshape(input, inside), axes, keepdim)
    eps = SMALLEST[input.dtype] if eps is None else float(eps)
    if mapping_type == "ASYMMETRIC":
        scale = maximum(divide(subtract(largest, least), float(high - low)), eps)
        zero_point = limited(subtract(float(low), round_(divide(least, scale))), low, high)
    else:
        scale = maximum(_symmetric_scale(mapping_type, least, largest, low, high), eps)
        zero_point = add(multiply(scale, 0.0), float(int((high + low + 1) / 2)))
    if not keepdim:
        return [scale, zero_point]
    sizes = [n // b for n, b in zip(input.shape, block_size, strict=True)]
    return [reshape(scale, sizes), reshape(zero_point, sizes)]


def _symmetric_scale(mapping_type, least, largest, low, high):
    if mapping_type == "SYMMETRIC":
        return divide(maximum(negative(least), largest), float(high - low) / 2)
    if mapping_type != "SYMMETRIC_NO_CLIPPING_ERR":
        raise refuse(f"the mapping type {mapping_type} is not supported")
    below, above = divide(least, float(low)), divide(largest, float(high))
    return where(greater(below, above), below, above)


def _limits(dtype, low, high):
    if dtype not in LIMITS and None in (low, high):
        raise refuse(f"quantised values of the dtype {dtype} are not supported")
    return (low if low is not None else LIMITS[dtype][0]), (high if high is not None else LIMITS[dtype][1])


def _blocks(x, block_size):
    """The shape of x with an axis for the inside of each block, that shape with 1 for these axes, and these axes."""
    inside, across = [], []
    for n, block in zip(x.shape, block_size, strict=True):
        if isinstance(block, int) and block > 1 and not same_sizes([n], [block]):
            inside += [n // block, block]
            across += [n // block, 1]
        else:
            inside.append(n)
            across.append(n if isinstance(block, int) and block == 1 else 1)
    axes = [a for a, (n, m) in enumerate(zip(inside, across, strict=True)) if n is not m]
    return inside, across, axes
