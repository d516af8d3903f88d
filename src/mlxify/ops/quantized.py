"""Products with quantised matrices, in MLX's layout: packed words, a scale and a bias for each group of elements."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from ..device import on_cpu
from ..errors import refuse
from ..isa import Array, cast, instruction
from ..lowering import HALVES, lowers
from .arithmetic import add, literal, multiply, subtract, widen
from .bitwise import bitwise_and, right_shift
from .cast import view
from .experts import gather_mm, matrix_numbers
from .join import repeat, stack
from .shape import expand_dims, product, reshape, swapped

BITS = (2, 3, 4, 5, 6, 8)
GROUPS = (128, 64, 32)


@instruction
def pack_bits(x: Array, bits: int) -> Array:
    """uint8 values below 2**bits as a stream of bits along the last axis, the lowest bit first, in words of uint32."""
    if x.dtype != mx.uint8 or x.ndim == 0 or bits not in BITS or x.shape[-1] * bits % 32:
        raise ValueError(f"{x.dtype}{list(x.shape)} does not pack into words, {bits} bits each")
    if 8 % bits == 0:
        each = 8 // bits
        packed = x[..., ::each]
        for i in range(1, each):
            packed = mx.bitwise_or(packed, mx.left_shift(x[..., i::each], mx.array(bits * i, mx.uint8)))
    else:
        # Eight values fill `bits` bytes.
        eights = mx.reshape(x, (*x.shape[:-1], x.shape[-1] // 8, 8)).astype(mx.uint64)
        words = mx.sum(mx.left_shift(eights, mx.arange(8, dtype=mx.uint64) * bits), axis=-1, keepdims=True)
        octets = mx.right_shift(words, mx.arange(bits, dtype=mx.uint64) * 8).astype(mx.uint8)
        packed = mx.flatten(octets, -2)
    return mx.view(mx.contiguous(packed), mx.uint32)


@instruction
def quantized_matmul(
    x: Array, w: Array, scales: Array, biases: Array, transpose: bool, group_size: int, bits: int
) -> Array:
    """x @ W, or x @ W.T if `transpose`, where W[i, j] = w[i, j] * scales[i, j // group_size] + biases[i, j // group_size].

    x: (..., m, k), w: (n, k * bits / 32) as from `pack_bits`, scales and biases: (n, k / group_size), of x's dtype;
    n and k the other way round if not `transpose`. Half precision adds up in float32.
    """
    if w.ndim != 2:
        raise ValueError(f"a quantised matrix of the shape {w.shape}")
    _check_quantized(x, w, scales, biases, transpose, group_size, bits)
    columns = w.shape[0] if transpose else scales.shape[1] * group_size
    if 0 in (*x.shape, columns):  # MLX divides by the sizes
        return mx.zeros((*x.shape[:-1], columns), x.dtype)
    y, s, b = (_for_cpu(v) for v in (x, scales, biases))
    result = mx.quantized_matmul(y, w, s, b, transpose=transpose, group_size=group_size, bits=bits)
    return result.astype(x.dtype)


@instruction
def gather_qmm(
    x: Array, w: Array, scales: Array, biases: Array, lhs_indices: Array | None, rhs_indices: Array | None,
    transpose: bool, group_size: int, bits: int, sorted_indices: bool,
) -> Array:  # fmt: skip
    """quantized_matmul of the matrices of x and w that the indices choose, as in gather_mm. w: (..., n, k * bits / 32)."""
    _check_quantized(x, w, scales, biases, transpose, group_size, bits)
    lhs, rhs = matrix_numbers(lhs_indices, x.shape[:-2]), matrix_numbers(rhs_indices, w.shape[:-2])
    columns = w.shape[-2] if transpose else scales.shape[-1] * group_size
    shape = (*mx.broadcast_shapes(lhs.shape, rhs.shape), x.shape[-2], columns)
    if 0 in (*shape, x.shape[-1]):
        return mx.zeros(shape, x.dtype)
    y, s, b = (_for_cpu(v) for v in (x, scales, biases))
    result = mx.gather_qmm(
        y,
        w,
        s,
        b,
        lhs,
        rhs,
        transpose=transpose,
        group_size=group_size,
        bits=bits,
        sorted_indices=sorted_indices,
    )
    return result.astype(x.dtype)


@instruction
def dequantize(w: Array, scales: Array, biases: Array, group_size: int, bits: int) -> Array:
    """The matrices W of quantized_matmul, in the dtype of scales. w: (..., n, k * bits / 32)."""
    _check_packed(w, scales, biases, group_size, bits)
    if scales.size == 0:
        return mx.zeros((*scales.shape[:-1], scales.shape[-1] * group_size), scales.dtype)
    result = mx.dequantize(w, _for_cpu(scales), _for_cpu(biases), group_size=group_size, bits=bits)
    return result.astype(scales.dtype)


def _for_cpu(x: mx.array) -> mx.array:
    """On a CPU MLX's quantised products add up halves as halves."""
    return x.astype(mx.float32) if x.dtype in HALVES and on_cpu() else x


def _check_packed(w: mx.array, scales: mx.array, biases: mx.array, group_size: int, bits: int) -> None:
    if bits not in BITS or group_size not in GROUPS:
        raise ValueError(f"{bits} bits in groups of {group_size}")
    if (
        scales.dtype != biases.dtype
        or scales.dtype not in (mx.float32, *HALVES)
        or scales.shape != biases.shape
    ):
        raise ValueError("scales and biases need one shape and one dtype, not float64")
    fits = w.dtype == mx.uint32 and w.ndim == scales.ndim >= 2 and w.shape[:-1] == scales.shape[:-1]
    if not fits or w.shape[-1] * 32 != scales.shape[-1] * group_size * bits:
        raise ValueError(f"packed {w.dtype}{list(w.shape)} with scales of the shape {scales.shape}")


def _check_quantized(
    x: mx.array, w: mx.array, scales: mx.array, biases: mx.array, transpose: bool, group_size: int, bits: int
) -> None:
    _check_packed(w, scales, biases, group_size, bits)
    inner = scales.shape[-1] * group_size if transpose else w.shape[-2]
    if x.dtype != scales.dtype or x.ndim < 2 or x.shape[-1] != inner:
        raise ValueError(f"{x.dtype}{list(x.shape)} times quantised matrices of {inner} rows, {scales.dtype}")


@lowers("mlx::gather_qmm", "mlx::gather_qmm.tensor", "mlx::gather_qmm.tensor_kw")
def gather_qmm_(
    x, w, scales, biases=None, rhs_indices=None, lhs_indices=None, transpose=True, group_size=32, bits=4,
    mode="affine", sorted_indices=False,
):  # fmt: skip
    if mode != "affine":
        raise refuse(f"mode={mode!r} is not supported, only 'affine'")
    dtypes = {v.dtype for v in (x, scales, biases) if v is not None}
    if biases is not None or len(dtypes) > 1:  # sums of products that half precision does not hold
        x, scales, biases = (v if v is None else widen(v) for v in (x, scales, biases))
    if mx.float64 in dtypes or group_size % GROUPS[-1]:
        matrices = _dense(w, *(v if v is None else cast(v, x.dtype) for v in (scales, biases)))
        matrices = swapped(matrices, -1, -2) if transpose else matrices
        return gather_mm(x, matrices, lhs_indices, rhs_indices, sorted_indices is True)
    group = next(g for g in GROUPS if group_size % g == 0)
    scales, biases = (v if v is None else _regrouped(v, group_size // group) for v in (scales, biases))
    shift = multiply(scales, literal(-(1 << (bits - 1)), scales.dtype))
    biases = shift if biases is None else add(biases, shift)
    return gather_qmm(
        x,
        _packed(w, bits),
        scales,
        biases,
        lhs_indices,
        rhs_indices,
        transpose,
        group,
        bits,
        sorted_indices is True,
    )


def _regrouped(x: Any, count: int) -> Any:
    return x if count == 1 else repeat(x, count, x.ndim - 1)


def _packed(w: Any, bits: int) -> Any:
    """int8 values, or pairs of 4-bit ones, as words of values that begin at 0."""
    if w.dtype == mx.uint8:
        return view(w, mx.uint32)
    raised = add(view(w, mx.uint8), literal(1 << (bits - 1), mx.uint8))
    return pack_bits(bitwise_and(raised, literal((1 << bits) - 1, mx.uint8)), bits)


def _dense(w: Any, scales: Any, biases: Any) -> Any:
    """The matrices themselves, in the dtype of scales."""
    if w.dtype == mx.uint8:
        halves = stack([bitwise_and(w, literal(15, mx.uint8)), right_shift(w, literal(4, mx.uint8))], w.ndim)
        w = reshape(
            subtract(cast(halves, mx.int8), literal(8, mx.int8)), [*w.shape[:-1], product([w.shape[-1], 2])]
        )
    grouped = reshape(cast(w, scales.dtype), [*scales.shape, w.shape[-1] // scales.shape[-1]])
    grouped = multiply(grouped, expand_dims(scales, [-1]))
    return reshape(grouped if biases is None else add(grouped, expand_dims(biases, [-1])), w.shape)
