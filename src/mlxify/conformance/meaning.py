"""Results that are not unique: any that mean the same as PyTorch's count (ties, orders, signs, bases)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

# (arguments as (args, kwargs), our outputs, PyTorch's outputs, places that differ) -> whether they mean the same
Meaning = Callable[[tuple[tuple[Any, ...], dict[str, Any]], list[Any], list[Any], list[int]], bool]

# Of the norm of what is compared: float32 factorisations of small matrices.
TOLERANCE = 1e-4


def _gathers(dim_place: int, drops_dim: bool) -> Meaning:
    """Indices among equal values: they must be distinct and pick the values PyTorch's indices pick."""

    def same(arguments: Any, ours: list[Any], theirs: list[Any], differing: list[int]) -> bool:
        args, kwargs = arguments
        source = args[0]
        dim = kwargs.get("dim", args[dim_place] if len(args) > dim_place else -1)
        place = len(theirs) - 1  # the indices come last
        if differing != [place] or not isinstance(source, torch.Tensor) or source.ndim == 0:
            return False
        a, b = ours[place], theirs[place]
        if a.ndim == source.ndim - 1 and drops_dim:
            a, b = a.unsqueeze(dim), b.unsqueeze(dim)
        if a.numel() and (a.min() < 0 or a.max() >= source.shape[dim]):
            return False
        picked, wanted = source.gather(dim, a), source.gather(dim, b)
        ordered = a.sort(dim).values
        distinct = (ordered.diff(dim=dim) != 0).all()
        return bool(distinct) and _equal(picked, wanted)

    return same


def _equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)) and torch.equal(
        torch.isnan(a), torch.isnan(b)
    )


def _close(a: torch.Tensor, b: torch.Tensor) -> bool:
    scale = max(1.0, float(b.abs().max())) if b.numel() else 1.0
    return bool(((a - b).abs() <= TOLERANCE * scale).all())


def _same_eigenvalues(arguments: Any, ours: list[Any], theirs: list[Any], differing: list[int]) -> bool:
    """The same values in some order: each of ours is nearest to another of theirs."""
    return _matched(ours[0], theirs[0])


def _matched(a: torch.Tensor, b: torch.Tensor) -> bool:
    for x, y in zip(a.reshape(-1, a.shape[-1]), b.reshape(-1, b.shape[-1]), strict=True):
        rest = list(y)
        for value in x:
            distances = torch.stack([(value - other).abs() for other in rest])
            nearest = int(distances.argmin())
            if distances[nearest] > 1e-3 * max(1.0, float(y.abs().max())):
                return False
            del rest[nearest]
    return True


def _eig(arguments: Any, ours: list[Any], theirs: list[Any], differing: list[int]) -> bool:
    return _eigenvectors(arguments[0][0], ours, theirs)


def _eigh(arguments: Any, ours: list[Any], theirs: list[Any], differing: list[int]) -> bool:
    """Of the Hermitian matrix in one triangle, as UPLO says."""
    args, kwargs = arguments
    matrix, uplo = args[0], kwargs.get("UPLO", args[1] if len(args) > 1 else "L")
    half = matrix.tril(-1) if uplo.upper() == "L" else matrix.triu(1)
    diagonal = torch.diag_embed(matrix.diagonal(dim1=-2, dim2=-1).real.to(matrix.dtype))
    return _eigenvectors(half + half.mH + diagonal, ours, theirs)


def _eigenvectors(matrix: torch.Tensor, ours: list[Any], theirs: list[Any]) -> bool:
    """PyTorch's eigenvalues in some order, and unit vectors that the matrix only stretches by them."""
    values, vectors = ours
    unit = torch.linalg.vector_norm(vectors, dim=-2)
    return (
        _matched(values, theirs[0])
        and _close(matrix.to(vectors.dtype) @ vectors, vectors * values.to(vectors.dtype).unsqueeze(-2))
        and _close(unit, torch.ones_like(unit))
    )


def _svd(arguments: Any, ours: list[Any], theirs: list[Any], differing: list[int]) -> bool:
    """U S V^H is the matrix and U, V have orthonormal columns, whatever the signs or the basis of a null space."""
    u, s, v = ours
    right = v.mH if _returns_v(theirs, arguments[0][0]) else v
    k = s.shape[-1]
    if not _close(s, theirs[1]):
        return False
    product = (u[..., :k] * s.to(u.dtype).unsqueeze(-2)) @ right[..., :k, :]
    return _close(product, arguments[0][0]) and _orthonormal(u) and _orthonormal(right.mH)


def _returns_v(theirs: list[Any], matrix: torch.Tensor) -> bool:
    """torch.svd returns V, torch.linalg.svd V^H: whether PyTorch's own outputs multiply to the matrix by V."""
    u, s, v = theirs
    k = s.shape[-1]
    if v.shape[-1] < k:
        return False
    product = (u[..., :k] * s.to(u.dtype).unsqueeze(-2)) @ v.mH[..., :k, :]
    return product.shape == matrix.shape and _close(product, matrix)


def _orthonormal(matrix: torch.Tensor) -> bool:
    product = matrix.mH @ matrix
    return _close(product, torch.eye(product.shape[-1], dtype=product.dtype).expand_as(product))


def _qr(arguments: Any, ours: list[Any], theirs: list[Any], differing: list[int]) -> bool:
    q, r = ours
    upper = _close(r, r.triu())
    if q.numel() == 0:  # mode="r": R^H R is the matrix's own product
        return upper and _close(r.mH @ r, arguments[0][0].mH @ arguments[0][0])
    return upper and _orthonormal(q) and _close(q @ r, arguments[0][0])


MEANINGS: dict[str, Meaning] = {
    "topk": _gathers(2, False),
    "sort": _gathers(1, False),
    "argsort": _gathers(1, False),
    "kthvalue": _gathers(2, True),
    "mode": _gathers(1, True),
    "median": _gathers(1, True),
    "nanmedian": _gathers(1, True),
    "linalg.eigvals": _same_eigenvalues,
    "linalg.eig": _eig,
    "linalg.eigh": _eigh,
    "linalg.svd": _svd,
    "svd": _svd,
    "linalg.qr": _qr,
    "qr": _qr,
}
