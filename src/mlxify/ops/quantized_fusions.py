"""Products with matrices that a model dequantises first, and rows of them: they stay quantised, in MLX's layout.

In half precision PyTorch rounds each dequantised weight; a quantised product does not, and is nearer to the exact one.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from ..calls import CASTS, Call
from ..isa import cast
from ..lowering import HALVES, Result
from ..patterns import either, fuses, op, shared, wild
from .affine import dequantize_affine
from .arithmetic import add, literal, multiply, subtract
from .attention_fusions import transposed
from .cast import view
from .create import full
from .index import check_known, take
from .join import repeat
from .quantized import BITS, GROUPS, dequantize, pack_bits, quantized_matmul
from .shape import expand_dims, reshape, squeeze

X, Q = wild("x"), wild("q").named("q_node")
SCALE, POINT = wild("scale").named("scale_node"), wild("point").named("point_node")
LIMITS = (wild("quant_min"), wild("quant_max"), wild("dtype"))
PT2E = "quantized_decomposed::dequantize_per"
MATRIX = shared(
    either(
        op("torchao::dequantize_affine", Q, wild("block"), SCALE, POINT, loose=True),
        op(f"{PT2E}_channel_group", Q, SCALE, POINT, *LIMITS, wild("group"), loose=True),
        op(f"{PT2E}_channel", Q, SCALE, POINT, wild("axis"), *LIMITS, loose=True),
        op(f"{PT2E}_tensor", Q, SCALE, POINT, *LIMITS, loose=True),
    )
).named("matrix")


def no_matrix(q_node, scale, scale_node, point, point_node, matrix, block, group, axis):
    if matrix.ndim != 2 or not all(type(n) is int for n in matrix.shape):
        return "it is not a matrix of known sizes"
    if not isinstance(q_node, Call) or q_node.dtype not in (mx.int8, mx.uint8) or q_node.bounds() is None:
        return "its quantised values are not int8 or uint8 weights of the model"
    size = _shared_by(matrix, block, group)
    if axis not in (None, 0) or size <= 0 or size % GROUPS[-1] or matrix.shape[1] % size:
        return f"its scales are not for groups of a multiple of {GROUPS[-1]} elements of a row"
    rows, groups = matrix.shape[0], matrix.shape[1] // size
    shapes = [(rows, groups), (rows,)][: 2 if groups == 1 else 1]
    vectors = [node for value, node in ((scale, scale_node), (point, point_node)) if isinstance(value, Call)]
    if any(node.shape not in shapes for node in vectors):
        return "it has not one scale and zero point for each group"
    if block is None and isinstance(point, Call) and point_node.dtype not in (mx.int32, mx.int64):
        return "its zero points are of a small dtype, in which PyTorch's difference may wrap"
    if isinstance(scale, Call) and scale_node.dtype not in (mx.float32, *HALVES):
        return "its scales are neither float32 nor half floats"
    return None


def _shared_by(matrix: Call, block: Any, group: Any) -> int:
    """How many elements of a row share a scale; 0 when they share it with other rows."""
    if block is None:
        return group or matrix.shape[1]
    return block[1] if len(block) == 2 and block[0] == 1 else 0


def no_product(x, q_node, scale, scale_node, point, point_node, matrix, block, group, axis, root):
    if not isinstance(x, Call) or x.dtype not in (mx.float32, *HALVES) or root.dtype != x.dtype:
        return "it does not meet float32 or half floats of the same dtype"
    return no_matrix(q_node, scale, scale_node, point, point_node, matrix, block, group, axis)


TRANSPOSED = transposed(MATRIX)
BIAS = wild("bias")


@fuses(
    either(
        op("aten.linear", X, MATRIX, BIAS),
        op(("aten.mm", "aten.matmul"), X, TRANSPOSED),
        op("aten.addmm", BIAS, X, TRANSPOSED),
    ),
    condition=no_product,
    name="quantized_linear",
)
def quantized_linear(x, q, q_node, scale, point, point_node, matrix, block, group, bias, result):
    if point is None or _is_zero(point, point_node):
        point = None
    size = _shared_by(matrix, block, group)
    # A zero point times a scale is no half float.
    exact = point is None and (not hasattr(scale, "dtype") or scale.dtype == x.dtype)
    dtype = x.dtype if exact else mx.float32
    low, bits = _range(q_node)
    count = next(n for n in GROUPS if size % n == 0)
    scales = _spread(scale, matrix, size, count, dtype)
    shift = literal(low, dtype)
    shift = shift if point is None else subtract(shift, _spread(point, matrix, size, count, dtype))
    y = expand_dims(cast(x, dtype), [0]) if x.ndim == 1 else cast(x, dtype)
    y = quantized_matmul(y, _packed(q, low, bits), scales, multiply(scales, shift), True, count, bits)
    y = squeeze(y, [0]) if x.ndim == 1 else y
    return y if bias is None else add(cast(y, result.dtype), cast(bias, result.dtype))


def _is_zero(point: Any, node: Any) -> bool:
    return node.bounds() == (0, 0) if isinstance(node, Call) else point == 0


def _range(q_node: Call) -> tuple[int, int]:
    """The value that packed zeros stand for, and the bits that hold all values."""
    least, largest = q_node.bounds() or (0, 0)
    for bits in BITS:
        low = -(1 << (bits - 1)) if q_node.dtype == mx.int8 else 0
        if low <= least and largest < low + (1 << bits):
            break
    return low, bits


def _packed(q: Any, low: int, bits: int) -> Any:
    raised = add(view(q, mx.uint8), literal(-low, mx.uint8)) if low else q
    return pack_bits(raised, bits)


def _spread(vector: Any, matrix: Call, size: int, count: int, dtype: mx.Dtype) -> Any:
    """Scales or zero points, one for each `size` elements of a row or one for all, as one for each `count`."""
    rows, columns = matrix.shape
    if not hasattr(vector, "dtype"):
        return full([rows, columns // count], vector, dtype)
    grouped = reshape(cast(vector, dtype), [rows, columns // size])
    return grouped if size == count else repeat(grouped, size // count, 1)


def no_rows(q_node, scale, scale_node, point, point_node, matrix, block, group, axis):
    if block is None and matrix.dtype != mx.float32:
        return "it is dequantised to half precision"
    return no_matrix(q_node, scale, scale_node, point, point_node, matrix, block, group, axis)


@fuses(
    op("aten.embedding", MATRIX, wild("indices"), loose=True), condition=no_rows, name="quantized_embedding"
)
def quantized_embedding(q, q_node, scale, point, matrix, block, group, indices):
    """The rows are chosen first and dequantised after, as PyTorch does with all of them."""
    check_known(indices, matrix.shape[0])
    rows, size = reshape(indices, [indices.size]), _shared_by(matrix, block, group)
    scale, point = (_rows_of(v, rows, matrix, size) for v in (scale, point))
    values = _values(q, q_node, rows, matrix)
    dense = dequantize_affine(values, [1, size], scale, point, None, result=Result(matrix.dtype, ()))
    return reshape(cast(dense, matrix.dtype), [*indices.shape, matrix.shape[1]])


def _rows_of(vector: Any, rows: Any, matrix: Call, size: int) -> Any:
    """The scales or zero points of some rows, (m, groups)."""
    groups = matrix.shape[1] // size
    if vector is None:
        return None
    if not hasattr(vector, "dtype"):
        return full([rows.shape[0], groups], vector, matrix.dtype)
    return take(reshape(vector, [matrix.shape[0], groups]), rows, 0)


def _values(q: Any, q_node: Call, rows: Any, matrix: Call) -> Any:
    """The quantised values of some rows; out of packed words where these are smaller."""
    low, bits = _range(q_node)
    if bits == 8:
        return take(q, rows, 0)
    words = take(_packed(q, low, bits), rows, 0)
    count = next(n for n in GROUPS if matrix.shape[1] % n == 0)
    shape = [rows.shape[0], matrix.shape[1] // count]
    return dequantize(words, full(shape, 1, mx.float32), full(shape, low, mx.float32), count, bits)


# torchao's int8 weights: a product with the integers, scaled by column


def no_scaled_product(x, q_node, scale, scale_node, product, root):
    if not isinstance(q_node, Call) or q_node.dtype != mx.int8 or q_node.bounds() is None or q_node.ndim != 2:
        return "its quantised values are not int8 weights of the model"
    if not isinstance(scale, Call) or scale_node.shape != q_node.shape[:1] or q_node.shape[1] % GROUPS[-1]:
        return f"it has not one scale for each column, of a multiple of {GROUPS[-1]} elements"
    if not x.dtype == scale_node.dtype == product.dtype == root.dtype or x.dtype not in (
        mx.float32,
        mx.bfloat16,
    ):
        return "it is not computed in float32 or bfloat16"  # float16 may overflow before it is scaled
    return None


INTEGERS = op(CASTS, transposed(Q), loose=True)


@fuses(
    op(("aten.mm", "aten.matmul"), X, INTEGERS).named("product") * SCALE,
    condition=no_scaled_product,
    name="quantized_linear",
)
def quantized_linear_scaled_after(x, q, q_node, scale, scale_node, result):
    return quantized_linear(x, q, q_node, scale, None, None, q_node, None, None, None, result)
