"""Normalisation: over the last axes, over groups of channels, over a batch."""

from __future__ import annotations

import mlx.core as mx

from ..device import PART_OF_STEPS, on_cpu, over_cores
from ..errors import refuse
from ..isa import Array, cast, instruction
from ..lowering import lowers
from .arithmetic import add, divide, multiply, subtract
from .axes import axis_of
from .create import full
from .exponential import wide_floats
from .reduce import mean, row_means, sum_, var
from .shape import product, reshape
from .softmax import widen
from .unary import rsqrt, sqrt

FLOAT32_EPS = 2.0**-23
FLOAT64_EPS = 2.0**-52


@instruction(chain=512)
def layer_norm(x: Array, weight: Array | None, bias: Array | None, eps: float) -> Array:
    """(x - mean) / sqrt(variance + eps) * weight + bias along the last axis, in at least float32, rounded to x's dtype.

    The variance is the mean of squares, undiminished. x: floats (..., n), weight and bias: floats (n,) or None.
    """
    _check_last_axis(x, weight, bias)
    if x.size == 0:
        return x  # MLX's kernel sometimes never returns from an empty array
    if not on_cpu():
        return mx.fast.layer_norm(x, weight, bias, eps).astype(x.dtype)

    def rows(x: mx.array) -> mx.array:
        wide = wide_floats(x)
        # Twice, because the first mean of numbers far from 0 is a little off.
        centred = wide - row_means(wide)
        centred = centred - row_means(centred)
        result = centred * mx.rsqrt(row_means(mx.square(centred)) + eps)
        result = result if weight is None else result * weight
        return (result if bias is None else result + bias).astype(x.dtype)

    return over_cores(rows, x, 1, PART_OF_STEPS)


@instruction
def rms_norm(x: Array, weight: Array | None, eps: float) -> Array:
    """x / sqrt(mean(x**2) + eps) * weight along the last axis, in at least float32, rounded to x's dtype.

    x: floats (..., n), weight: floats (n,) or None.
    """
    _check_last_axis(x, weight)
    if x.size == 0:
        return x
    if not on_cpu():
        return mx.fast.rms_norm(x, weight, eps).astype(x.dtype)
    wide = wide_floats(x)
    result = wide * mx.rsqrt(row_means(mx.square(wide)) + eps)
    return (result if weight is None else result * weight).astype(x.dtype)


def _check_last_axis(x: mx.array, *vectors: mx.array | None) -> None:
    for array in (x, *vectors):
        if array is not None and not mx.issubdtype(array.dtype, mx.floating):
            raise ValueError("normalising needs floats")
        if array is not None and array is not x and array.shape != x.shape[-1:]:
            raise ValueError(f"the weight or bias has the shape {array.shape}, x {x.shape}")
    if not x.ndim:
        raise ValueError("normalising needs an axis")


@lowers("aten.layer_norm")
def layer_norm_(input, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    return _over_last_axes(layer_norm, input, normalized_shape, weight, bias, eps)


@lowers("aten.native_layer_norm")
def native_layer_norm(input, normalized_shape, weight, bias, eps):
    axes = list(range(input.ndim - len(normalized_shape), input.ndim))
    result = _over_last_axes(layer_norm, input, normalized_shape, weight, bias, eps)
    return [result, *_statistics(input, axes, eps)]


@lowers("aten.rms_norm")
def rms_norm_(input, normalized_shape, weight=None, eps=None):
    if input.dtype == mx.complex64:
        raise refuse("rms_norm of complex numbers is not supported")
    return _over_last_axes(rms_norm, input, normalized_shape, weight, eps=_default_eps(input, eps))


@lowers("aten._fused_rms_norm")
def fused_rms_norm(input, normalized_shape, weight, eps):
    eps = _default_eps(input, eps)
    wide = widen(input)
    axes = list(range(input.ndim - len(normalized_shape), input.ndim))
    rstd = rsqrt(add(mean(multiply(wide, wide), axes, True), eps))
    return [_over_last_axes(rms_norm, input, normalized_shape, weight, eps=eps), rstd]


def _default_eps(x, eps):
    if eps is None:  # that of the dtype in which PyTorch computes
        return FLOAT64_EPS if x.dtype == mx.float64 else FLOAT32_EPS
    return eps


def _over_last_axes(norm, x, normalized_shape, *vectors, eps=None):
    """norm(x, *vectors) with the last axes of x as one."""
    settings = [] if eps is None else [eps]
    if len(normalized_shape) == 1:
        return norm(x, *vectors, *settings)
    lead = x.shape[: x.ndim - len(normalized_shape)]
    size = product(x.shape[len(lead) :])
    flat = [v if v is None or not hasattr(v, "ndim") else reshape(v, [size]) for v in vectors]
    return reshape(norm(reshape(x, [*lead, size]), *flat, *settings), x.shape)


def _statistics(x, axes, eps):
    """The mean and 1 / sqrt(variance + eps) over axes, in at least float32."""
    wide = widen(x)
    return mean(wide, axes, True), rsqrt(add(var(wide, axes, 0.0, True), eps))


@lowers("aten.group_norm")
def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=True):
    return _by_groups(input, num_groups, weight, bias, eps)


@lowers("aten.native_group_norm")
def native_group_norm(input, weight, bias, N, C, HxW, group, eps):
    grouped = _grouped(input, group)
    statistics = (reshape(s, s.shape[:2]) for s in _statistics(grouped, [2], eps))
    return [_by_groups(input, group, weight, bias, eps), *statistics]


@lowers("aten.instance_norm")
def instance_norm(
    input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled
):
    if not use_input_stats:
        return _by_statistics(input, weight, bias, running_mean, running_var, eps)
    return _by_groups(input, input.shape[1], weight, bias, eps)


def _grouped(x, groups):
    """x of shape (n, c, ...) as (n, groups, the rest)."""
    batch, channels, *sizes = x.shape
    return reshape(x, [batch, groups, product([channels // groups, *sizes])])


def _by_groups(x, groups, weight, bias, eps):
    result = reshape(layer_norm(widen(_grouped(x, groups)), None, None, eps), x.shape)
    result = result if weight is None else multiply(result, _per_channel(weight, result))
    return cast(result if bias is None else add(result, _per_channel(bias, result)), x.dtype)


def _per_channel(vector, x):
    """A vector (c,) in x's dtype, shaped to broadcast along axis 1 of x."""
    return reshape(cast(vector, x.dtype), [vector.shape[0], *[1] * (x.ndim - 2)])


def _by_statistics(x, weight, bias, center, variance, eps):
    """(x - center) / sqrt(variance + eps) * weight + bias by channel, in at least float32, rounded to x's dtype."""
    wide = widen(x)
    weight, bias, center, variance = (
        v if v is None else cast(v, wide.dtype) for v in (weight, bias, center, variance)
    )
    scale, shift = scale_and_shift(weight, bias, center, variance, eps)
    return cast(add(multiply(wide, _per_channel(scale, wide)), _per_channel(shift, wide)), x.dtype)


def scale_and_shift(weight, bias, center, variance, eps):
    """The vectors with which (x - center) / sqrt(variance + eps) * weight + bias is x * scale + shift."""
    scale = rsqrt(add(variance, eps))
    scale = scale if weight is None else multiply(scale, weight)
    shift = multiply(center, scale)
    return scale, subtract(0.0, shift) if bias is None else subtract(bias, shift)


@lowers("aten.batch_norm")
def batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled):
    return _batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)[0]


@lowers("aten._native_batch_norm_legit_no_training", "aten._batch_norm_no_update")
def batch_norm_no_training(input, weight, bias, running_mean, running_var, momentum, eps, result):
    normed = _by_statistics(input, weight, bias, running_mean, running_var, eps)
    return [normed, *[full([0], 0, r.dtype) for r in result[1:]]]


@lowers("aten._native_batch_norm_legit.no_stats")
def batch_norm_no_stats(input, weight, bias, training, momentum, eps):
    return _batch_norm(input, weight, bias, None, None, training, momentum, eps)[:3]


@lowers("aten._native_batch_norm_legit_functional")
def batch_norm_functional(input, weight, bias, running_mean, running_var, training, momentum, eps):
    return _batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)


@lowers("aten._batch_norm_with_update_functional")
def batch_norm_with_update(input, weight, bias, running_mean, running_var, momentum, eps):
    results = _batch_norm(input, weight, bias, running_mean, running_var, True, momentum, eps)
    return [*results[:3], full([0], 0, mx.uint8), *results[3:]]


def _batch_norm(x, weight, bias, running_mean, running_var, training, momentum, eps):
    """The normalised x, the batch's mean and 1 / sqrt(variance + eps), the running statistics after the batch."""
    if not training:
        nothing = full([0], 0, x.dtype)  # statistics of the batch that were not taken
        normed = _by_statistics(x, weight, bias, running_mean, running_var, eps)
        return [normed, nothing, nothing, running_mean, running_var]
    wide = widen(x)
    axes = [a for a in range(x.ndim) if a != 1]
    center, variance = mean(wide, axes, False), var(wide, axes, 0.0, False)
    results = [_by_statistics(x, weight, bias, center, variance, eps), center, rsqrt(add(variance, eps))]
    if running_mean is None:
        return [*results, None, None]
    unbiased = var(wide, axes, 1.0, False)
    return [*results, _moved(running_mean, center, momentum), _moved(running_var, unbiased, momentum)]


def _moved(old, new, momentum):
    """(1 - momentum) * old + momentum * new."""
    wide = widen(old)
    step = multiply(subtract(cast(new, wide.dtype), wide), momentum)
    return cast(add(wide, step), old.dtype)


@lowers("aten._weight_norm", promote=("v", "g"), opmath=True)
def weight_norm(v, g, dim=0):
    return multiply(v, divide(g, _norm_except(v, dim)))


@lowers("aten._weight_norm_interface", promote=("v", "g"), opmath=True)
def weight_norm_interface(v, g, dim=0):
    norm = _norm_except(v, dim)
    return [multiply(v, divide(g, norm)), norm]


@lowers("aten.norm_except_dim", opmath=True)
def norm_except_dim(v, pow=2, dim=0):
    if pow != 2:
        raise refuse(f"norm_except_dim with the power {pow} is not supported")
    return _norm_except(v, dim)


def _norm_except(v, dim):
    """The root of the sum of squares over all axes but one; over all axes when dim is -1."""
    if dim == -1:
        return sqrt(sum_(multiply(v, v), list(range(v.ndim)), False))
    kept = axis_of(v, dim)
    return sqrt(sum_(multiply(v, v), [a for a in range(v.ndim) if a != kept], True))
