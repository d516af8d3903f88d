"""`mlx::gather_mm` and `mlx::gather_qmm`: matrix products with matrices chosen by index."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from mlxify.torch_ops.registry import check_float, check_integer, compute_dtype, known_different, torch_op

_BITS = (2, 3, 4, 5, 6, 8)


def _indices_shape(
    op: str, lhs: Tensor | None, rhs: Tensor | None, a_batch: torch.Size, b_batch: torch.Size
) -> torch.Size:
    """Shape of the broadcast indices; a missing one is the identity over its batch axes."""
    for name, index in (("lhs_indices", lhs), ("rhs_indices", rhs)):
        if index is not None:
            check_integer(op, name, index)
    left = a_batch if lhs is None else lhs.shape
    right = b_batch if rhs is None else rhs.shape
    return torch.broadcast_shapes(left, right)


def _gather_products(
    op: str,
    a: Tensor,
    b_batch: torch.Size,
    columns: int,
    matrix: Callable[[int], Tensor],
    rhs: Tensor | None,
    lhs: Tensor | None,
) -> Tensor:
    """Every a[lhs] @ matrix(rhs), one product per matrix in use, so no matrix is copied per index."""
    a_batch = a.shape[:-2]
    shape = _indices_shape(op, lhs, rhs, a_batch, b_batch)
    left = _flat_indices(op, "lhs_indices", lhs, a_batch, shape, a.device)
    right = _flat_indices(op, "rhs_indices", rhs, b_batch, shape, a.device)
    rows = a.reshape(-1, *a.shape[-2:])
    out = a.new_empty(left.numel(), a.shape[-2], columns)
    for index in right.unique().tolist():
        chosen = (right == index).nonzero().squeeze(1)
        out[chosen] = (rows[left[chosen]].to(compute_dtype(a)) @ matrix(index)).to(a.dtype)
    return out.reshape(*shape, a.shape[-2], columns)


def _flat_indices(
    op: str, name: str, index: Tensor | None, batch: torch.Size, shape: torch.Size, device: torch.device
) -> Tensor:
    size = math.prod(batch)
    if index is None:
        index = torch.arange(size, device=device).reshape(batch)
    index = index.to(torch.int64)
    if index.numel() and (index.min() < 0 or index.max() >= size):
        raise IndexError(
            f"mlx::{op}: {name} must be in [0, {size}), got {int(index.min())} to {int(index.max())}"
        )
    return index.expand(shape).reshape(-1)


def _check_mm(a: Tensor, b: Tensor) -> None:
    check_float("gather_mm", "a", a)
    if a.dtype != b.dtype:
        raise TypeError(f"mlx::gather_mm: a and b must have one dtype, got {a.dtype} and {b.dtype}")
    if a.dim() < 2 or b.dim() < 2 or known_different(a.shape[-1], b.shape[-2]):
        raise ValueError(
            f"mlx::gather_mm: a (…, M, K) and b (E, K, N) do not fit: {tuple(a.shape)}, {tuple(b.shape)}"
        )


def _fake_mm(
    a: Tensor,
    b: Tensor,
    rhs_indices: Tensor | None = None,
    lhs_indices: Tensor | None = None,
    sorted_indices: bool | Tensor = False,
) -> Tensor:
    _check_mm(a, b)
    shape = _indices_shape("gather_mm", lhs_indices, rhs_indices, a.shape[:-2], b.shape[:-2])
    return a.new_empty(*shape, a.shape[-2], b.shape[-1])


@torch_op(
    "gather_mm.tensor(Tensor a, Tensor b, Tensor? rhs_indices, Tensor? lhs_indices, Tensor sorted_indices) -> Tensor",
    "gather_mm.tensor_kw(Tensor a, Tensor b, Tensor? rhs_indices=None, Tensor? lhs_indices=None, *, "
    "Tensor sorted_indices) -> Tensor",
    "gather_mm(Tensor a, Tensor b, Tensor? rhs_indices=None, Tensor? lhs_indices=None, "
    "bool sorted_indices=False) -> Tensor",
    fake=_fake_mm,
)
def gather_mm(
    a: Tensor,
    b: Tensor,
    rhs_indices: Tensor | None = None,
    lhs_indices: Tensor | None = None,
    sorted_indices: bool | Tensor = False,
) -> Tensor:
    """a[lhs_indices] @ b[rhs_indices].

    a: (…, M, K), b: (E, K, N) of one floating-point dtype. Indices: integers into the flattened batch axes
    of a and of b, broadcast against each other; a missing one is the identity, arange over those axes.
    The result is broadcast(lhs_indices, rhs_indices).shape + (M, N), a's dtype::

        result[j] = a.reshape(-1, M, K)[lhs_indices[j]] @ b[rhs_indices[j]]

    sorted_indices (a bool, or a 0-D tensor by the overloads `tensor` and `tensor_kw`) only promises that
    rhs_indices ascend; the numbers do not depend on it. An index out of range raises IndexError.
    """
    _check_mm(a, b)
    matrices = b.reshape(-1, *b.shape[-2:])
    dtype = compute_dtype(a)
    return _gather_products(
        "gather_mm", a, b.shape[:-2], b.shape[-1], lambda e: matrices[e].to(dtype), rhs_indices, lhs_indices
    )


def _check_qmm(
    x: Tensor,
    w: Tensor,
    scales: Tensor,
    biases: Tensor | None,
    transpose: bool,
    group_size: int,
    bits: int,
    mode: str,
) -> int:
    """Raise if the quantized matrices make no sense; the result's number of columns."""
    if mode != "affine":
        raise NotImplementedError(f"mlx::gather_qmm: mode={mode!r} is not supported, only 'affine'")
    if bits not in _BITS or group_size <= 0:
        raise ValueError(f"mlx::gather_qmm: bits={bits}, group_size={group_size}: bits is one of {_BITS}")
    if w.dtype not in (torch.int8, torch.uint8) or (w.dtype == torch.uint8 and bits != 4):
        raise TypeError(
            f"mlx::gather_qmm: w must be int8, or uint8 with bits=4, got {w.dtype} with bits={bits}"
        )
    check_float("gather_qmm", "x", x)
    check_float("gather_qmm", "scales", scales)
    if x.dim() < 2 or w.dim() != 3:
        raise ValueError(
            f"mlx::gather_qmm: x must be (…, M, K) and w (E, out, in): {tuple(x.shape)}, {tuple(w.shape)}"
        )
    experts, out, columns = w.shape
    columns = columns * 2 if w.dtype == torch.uint8 else columns
    for name, groups in (("scales", scales), ("biases", biases)):
        if groups is None:
            continue
        check_float("gather_qmm", name, groups)
        fits = groups.dim() == 3 and not known_different(groups.shape[-1] * group_size, columns)
        if not fits or any(known_different(g, n) for g, n in zip(groups.shape, (experts, out), strict=False)):
            raise ValueError(
                f"mlx::gather_qmm: {name} must be (E, out, in/group_size) with E, out, in = "
                f"{experts}, {out}, {columns} and group_size={group_size}, got {tuple(groups.shape)}"
            )
    if known_different(x.shape[-1], columns if transpose else out):
        raise ValueError(
            f"mlx::gather_qmm: x has {x.shape[-1]} columns, the matrices {columns if transpose else out} rows"
        )
    return out if transpose else columns


def _dequantize(w: Tensor, scales: Tensor, biases: Tensor | None, bits: int, dtype: torch.dtype) -> Tensor:
    """w * scale + bias, (out, in) in dtype. w: one matrix (out, in) int8, or (out, in/2) uint8."""
    if w.dtype == torch.uint8:
        values = torch.stack([w & 15, w >> 4], -1).flatten(-2).to(torch.int8) - 8
    else:
        values, limit = w, 1 << (bits - 1)
        if w.numel() and (int(w.min()) < -limit or int(w.max()) >= limit):
            raise ValueError(f"mlx::gather_qmm: w holds values outside of {bits} bits, [{-limit}, {limit})")
    grouped = values.reshape(w.shape[0], scales.shape[-1], -1).to(dtype) * scales.to(dtype)[..., None]
    if biases is not None:
        grouped = grouped + biases.to(dtype)[..., None]
    return grouped.flatten(-2)


def _fake_qmm(
    x: Tensor,
    w: Tensor,
    scales: Tensor,
    biases: Tensor | None = None,
    rhs_indices: Tensor | None = None,
    lhs_indices: Tensor | None = None,
    transpose: bool = True,
    group_size: int = 32,
    bits: int = 4,
    mode: str = "affine",
    sorted_indices: bool | Tensor = False,
) -> Tensor:
    columns = _check_qmm(x, w, scales, biases, transpose, group_size, bits, mode)
    shape = _indices_shape("gather_qmm", lhs_indices, rhs_indices, x.shape[:-2], w.shape[:-2])
    return x.new_empty(*shape, x.shape[-2], columns)


@torch_op(
    "gather_qmm.tensor(Tensor x, Tensor w, Tensor scales, Tensor? biases, Tensor? rhs_indices, Tensor? lhs_indices, "
    "bool transpose, int group_size, int bits, str mode, Tensor sorted_indices) -> Tensor",
    "gather_qmm.tensor_kw(Tensor x, Tensor w, Tensor scales, Tensor? biases=None, Tensor? rhs_indices=None, "
    "Tensor? lhs_indices=None, bool transpose=True, int group_size=32, int bits=4, str mode='affine', *, "
    "Tensor sorted_indices) -> Tensor",
    "gather_qmm(Tensor x, Tensor w, Tensor scales, Tensor? biases=None, Tensor? rhs_indices=None, "
    "Tensor? lhs_indices=None, bool transpose=True, int group_size=32, int bits=4, str mode='affine', "
    "bool sorted_indices=False) -> Tensor",
    fake=_fake_qmm,
)
def gather_qmm(
    x: Tensor,
    w: Tensor,
    scales: Tensor,
    biases: Tensor | None = None,
    rhs_indices: Tensor | None = None,
    lhs_indices: Tensor | None = None,
    transpose: bool = True,
    group_size: int = 32,
    bits: int = 4,
    mode: str = "affine",
    sorted_indices: bool | Tensor = False,
) -> Tensor:
    """gather_mm with quantized matrices: x[lhs_indices] @ W[rhs_indices].T, without .T if not transpose.

    x: (…, M, in), or (…, M, out) if not transpose. w: (E, out, in) int8 values of `bits` bits, or
    (E, out, in/2) uint8 holding two 4-bit values a byte, low nibble first, each stored + 8.
    scales, biases: (E, out, in/group_size). The matrices are, for column k::

        W[e, o, k] = w[e, o, k] * scales[e, o, k // group_size] + biases[e, o, k // group_size]

    biases are added (they are no zero points); None adds nothing. Dequantized and multiplied in float32
    (float64 for a float64 x), rounded once to x's dtype. Indices, shape of the result and sorted_indices as
    in gather_mm. mode is "affine".
    """
    columns = _check_qmm(x, w, scales, biases, transpose, group_size, bits, mode)

    def matrix(e: int) -> Tensor:
        plain = _dequantize(w[e], scales[e], None if biases is None else biases[e], bits, compute_dtype(x))
        return plain.T if transpose else plain

    return _gather_products("gather_qmm", x, w.shape[:-2], columns, matrix, rhs_indices, lhs_indices)
