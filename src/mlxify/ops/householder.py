"""QR factorisation and the Householder reflections that it consists of."""

from __future__ import annotations

import mlx.core as mx

from ..errors import refuse
from ..isa import Array, instruction
from ..lowering import lowers
from .create import eye, full
from .join import concatenate
from .linalg import adjoint, check_matrices, check_steps, columns, decomposable, few_steps
from .linear import product
from .shape import broadcast_to


@instruction(chain=0, fails=True)
def qr(x: Array) -> tuple[Array, Array]:
    """Q (..., m, k) with orthonormal columns and R (..., k, n), upper triangular, k = min(m, n): Q @ R = x.

    float32, float64, or complex64 with k at most 2048.
    """
    check_matrices(x)
    with mx.stream(mx.cpu):
        if x.dtype != mx.complex64:
            q, r = mx.linalg.qr(x)
            return q, r
        packed, tau = householder(x)
        k = tau.shape[-1]
        start = mx.broadcast_to(mx.eye(x.shape[-2], k, dtype=x.dtype), (*x.shape[:-1], k))
        return reflect(start, packed, tau, False), mx.triu(packed[..., :k, :])


@instruction(chain=0)
def householder(x: Array) -> tuple[Array, Array]:
    """The reflections that make x (..., m, n) upper triangular: R and below it their vectors, and tau (..., k).

    k = min(m, n) is at most 2048. R is H[k-1].H @ … @ H[0].H @ x, H[i] = 1 - tau[i] * v[i] @ v[i].H. v[i] is 0 above
    its element i, which is 1, and column i of the first result below. R's diagonal is real. float32, float64 or
    complex64.
    """
    check_matrices(x)
    steps = min(x.shape[-2:])
    check_steps(steps)
    if x.size == 0:
        return x, mx.zeros((*x.shape[:-2], steps), x.dtype)
    with mx.stream(mx.cpu):
        done, scales, rest = [], [], x
        for _ in range(steps):
            column, tau, row, rest = _reflection(rest)
            done.append((column, row))
            scales.append(tau)
        for column, row in reversed(done):  # put together from the last corner
            rest = mx.concatenate([column, mx.concatenate([row, rest], -2)], -1)
        return rest, mx.squeeze(mx.concatenate(scales, -1), -2)


def _reflection(x: mx.array) -> tuple[mx.array, mx.array, mx.array, mx.array]:
    """The first step: column (beta and v below its 1), tau (1, 1), the rest of the first row, what is left."""
    first, below = x[..., :1, :1], x[..., 1:, :1]
    largest = mx.max(mx.abs(x[..., :1]), axis=-2, keepdims=True)
    scale = mx.where(largest > 0, largest, mx.ones_like(largest))  # no square overflows or vanishes
    norm = scale * mx.sqrt(mx.sum(mx.square(mx.abs(x[..., :1]) / scale), axis=-2, keepdims=True))
    beta = mx.where(mx.real(first) >= 0, -norm, norm)
    flat = ~mx.any(below != 0, axis=-2, keepdims=True) & (mx.imag(first) == 0)
    beta = mx.where(flat, mx.real(first), beta).astype(x.dtype)
    one, zero = mx.ones_like(first), mx.zeros_like(first)
    tau = mx.where(flat, zero, (beta - first) / mx.where(flat, one, beta))
    below = below / mx.where(flat, one, first - beta)
    v = mx.concatenate([one, below], -2)
    right = x[..., 1:]
    right = right - mx.conjugate(tau) * v * product(mx.conjugate(mx.swapaxes(v, -1, -2)), right)
    return mx.concatenate([beta, below], -2), tau, right[..., :1, :], right[..., 1:, :]


@instruction(chain=0)
def reflect(x: Array, v: Array, tau: Array, adjoint: bool) -> Array:
    """Q @ x, or Q.H @ x if `adjoint`, with Q = H[0] @ H[1] @ … of the reflections that `householder` gives.

    x: (..., m, n), v: (..., m, k or more), tau: (..., k), k at most m and 2048, of one dtype and batch.
    """
    check_matrices(x, v)
    count = tau.shape[-1] if tau.ndim else -1
    check_steps(count)
    shapes = x.shape[:-1] == v.shape[:-1] and tau.shape[:-1] == x.shape[:-2]
    if tau.dtype != x.dtype or not shapes or not 0 <= count <= min(v.shape[-2:]):
        raise ValueError(f"reflections of shape {v.shape} and {tau.shape} of an array of shape {x.shape}")
    with mx.stream(mx.cpu):
        scales = mx.expand_dims(mx.conjugate(tau) if adjoint else tau, -2)
        for i in range(count) if adjoint else reversed(range(count)):
            below = v[..., i + 1 :, i : i + 1]
            vector = mx.concatenate([mx.ones_like(v[..., :1, :1]), below], -2)
            part = x[..., i:, :]
            along = product(mx.conjugate(mx.swapaxes(vector, -1, -2)), part)
            part = part - scales[..., i : i + 1] * vector * along
            x = mx.concatenate([x[..., :i, :], part], -2)
        return x


@lowers("aten.linalg_qr")
def linalg_qr(A, mode="reduced"):
    decomposable(A)
    rows, width = A.shape[-2:]
    if A.dtype == mx.complex64:
        few_steps(rows if mode == "complete" else min(n for n in A.shape[-2:] if isinstance(n, int)))
    if mode == "complete" and isinstance(rows, int) and isinstance(width, int) and rows > width:
        # More columns, of zeros, need no more reflections, and complete the basis.
        padding = full([*A.shape[:-1], rows - width], 0, A.dtype)
        q, r = qr(concatenate([A, padding], A.ndim - 1))
        return [q, columns(r, width, r.ndim - 1)]
    if mode == "complete" and not (isinstance(rows, int) and isinstance(width, int)):
        raise refuse("linalg.qr of matrices of a dynamic size in the mode 'complete' is not supported")
    q, r = qr(A)
    return [full([0], 0, A.dtype) if mode == "r" else q, r]


@lowers("aten.qr")
def old_qr(self, some=True):
    return linalg_qr(self, "reduced" if some else "complete")


@lowers("aten.geqrf")
def geqrf(self):
    decomposable(self)
    few_steps(*self.shape[-2:])
    return list(householder(self))


@lowers("aten.linalg_householder_product", "aten.orgqr")
def householder_product(self=None, input=None, input2=None, tau=None):
    """The first columns of the product of the reflections."""
    v, tau = (self, input2) if input is None else (input, tau)
    decomposable(v, tau)
    few_steps(tau.shape[-1])
    return reflect(broadcast_to(eye(*v.shape[-2:], 0, v.dtype), v.shape), v, tau, False)


@lowers("aten.ormqr")
def ormqr(self, input2, input3, left=True, transpose=False):
    decomposable(self, input2, input3)
    few_steps(input2.shape[-1])
    if left:
        return reflect(input3, self, input2, transpose)
    return adjoint(reflect(adjoint(input3), self, input2, not transpose))
