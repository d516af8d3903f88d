"""Whether a result is PyTorch's: shapes and dtypes always, values by dtype, and what is not unique by its meaning."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from typing import Any
from unittest import mock

import mlx.core as mx
import numpy as np
import torch
from torch.utils import _pytree as pytree

from ..inputs import to_numpy
from ..tree import Output
from .meaning import MEANINGS
from .samples import SampleModule, same

# Relative and absolute, by dtype: torch.testing's own defaults times four, since a sample may be a chain of several
# roundings in another order.
TOLERANCES = {
    torch.float32: (1.3e-6 * 4, 1e-5),
    torch.float64: (1e-7, 1e-7),
    torch.complex64: (1.3e-6 * 4, 1e-5),
    torch.float16: (1e-3 * 4, 1e-5 * 40),
    torch.bfloat16: (1.6e-2, 1e-5 * 40),
}
# Where PyTorch itself is off the exact result by more than the tolerance (half-precision sums, ill-conditioned
# matrices), a result counts if its error is at most this many times PyTorch's: the roundings differ in order only.
ERROR_RATIO = 8.0
# Where PyTorch is off by more than this share of the largest value, its error says nothing about ours: then a result
# counts only within the tolerance of the exact one.
MEANINGFUL = 0.05
UNINITIALISED = (
    "empty",
    "new_empty",
    "resize",
    "empty_like",
    "empty_strided",
    "empty_permuted",
    "new_empty_strided",
)
WIDE = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
    torch.complex32: torch.complex128,
}


@dataclass(frozen=True)
class Comparison:
    """What differs, "" when nothing does; how that was decided; how far the float values are from PyTorch's.

    `by`: "value" within the dtype's tolerance, "meaning" where the result is not unique, "chance" where it is random,
    "error bound" as ERROR_RATIO says. `deviation` is measured for "value" only.
    """

    problem: str = ""
    by: str = "value"
    deviation: float = 0.0


def compare(
    key: str, module: SampleModule, tensors: tuple[torch.Tensor, ...], actual: Any, expected: Any
) -> Comparison:
    """Compare the outputs of a program with PyTorch's."""
    got, wanted = pytree.tree_leaves(plain(actual)), pytree.tree_leaves(expected)
    if len(got) != len(wanted):
        return Comparison(f"{len(got)} outputs, PyTorch has {len(wanted)}")
    pairs = list(zip(got, wanted, strict=True))
    for index, (a, e) in enumerate(pairs):
        if problem := _kind_mismatch(a, e):
            return Comparison(f"output {index}: {problem}")
    differing = {i: p for i, (a, e) in enumerate(pairs) if (p := _value_mismatch(a, e))}
    if not differing:
        return Comparison(deviation=max((_deviation(a, e) for a, e in pairs), default=0.0))
    if is_random(key, module, tensors):
        return Comparison(by="chance")
    results = [_to_torch(a) if isinstance(a, mx.array) else a for a in got]
    meaning = MEANINGS.get(key)
    if meaning is not None and meaning(module.arguments(tensors), results, wanted, list(differing)):
        return Comparison(by="meaning")
    exact = _exact(module, tensors)
    for index, problem in differing.items():
        if exact is None or not _within_error(results[index], wanted[index], exact[index]):
            return Comparison(f"output {index}: {problem}")
    return Comparison(by="error bound")


def _deviation(a: Any, e: Any) -> float:
    """The largest difference relative to the output's largest finite value."""
    if not isinstance(e, torch.Tensor) or e.dtype not in TOLERANCES:
        return 0.0
    x, y = _widened(_to_torch(a)), _widened(e.detach().resolve_conj().resolve_neg())
    finite = torch.isfinite(x) & torch.isfinite(y)
    if not finite.any() or not (scale := y[finite].abs().max()) > 0:
        return 0.0
    return float((x - y)[finite].abs().max() / scale)


def plain(value: Any) -> Any:
    """Structured outputs as tuples, so that torch's pytree takes them apart."""
    if isinstance(value, Output):
        return tuple(plain(v) for v in value.values())
    return type(value)(plain(v) for v in value) if type(value) in (list, tuple) else value


def eager(module: SampleModule, tensors: tuple[torch.Tensor, ...], seed: int = 1) -> Any:
    """PyTorch's own result; the inputs are left as they are. Entries that seed by themselves are kept from it."""
    torch.manual_seed(seed)
    with torch.no_grad(), mock.patch.object(torch, "manual_seed"):
        return module(*[t.clone() for t in tensors])


def is_random(key: str, module: SampleModule, tensors: tuple[torch.Tensor, ...]) -> bool:
    """Whether other seeds give other results: then only shapes and dtypes can agree."""
    if key.removeprefix("_refs.") in UNINITIALISED:
        return True
    first = pytree.tree_leaves(eager(module, tensors))
    for seed in range(2, 10):
        with contextlib.suppress(Exception):
            again = pytree.tree_leaves(eager(module, tensors, seed))
            if not all(_same(a, b) for a, b in zip(first, again, strict=True)):
                return True
    return False


def _same(a: Any, b: Any) -> bool:
    return not isinstance(a, torch.Tensor) or same(a, b)


def _kind_mismatch(a: Any, e: Any) -> str:
    """Differences in what kind of value it is."""
    if not isinstance(e, torch.Tensor):
        return ""
    if not isinstance(a, mx.array):
        return f"a {type(a).__name__}, PyTorch has a tensor"
    name = str(a.dtype).removeprefix("mlx.core.").removesuffix("_")
    if name != str(e.dtype).removeprefix("torch."):
        return f"dtype {name}, PyTorch has {e.dtype}"
    if tuple(a.shape) != tuple(e.shape):
        return f"shape {list(a.shape)}, PyTorch has {list(e.shape)}"
    return ""


def _value_mismatch(a: Any, e: Any) -> str:
    if not isinstance(e, torch.Tensor):
        value: Any = a.item() if isinstance(a, mx.array) else a
        close = value == e or (value != value and e != e)
        if not close and isinstance(e, float):
            close = math.isclose(value, e, rel_tol=1e-5)
        return "" if close else f"{value!r}, PyTorch has {e!r}"
    x, y = _to_torch(a), e.detach().resolve_conj().resolve_neg()
    if e.dtype in TOLERANCES:
        rtol, atol = TOLERANCES[e.dtype]
        bad = ~torch.isclose(_widened(x), _widened(y), rtol=rtol, atol=atol, equal_nan=True)
    else:
        bad = x != y
    if not bad.any():
        return ""
    place = tuple(torch.nonzero(bad)[0].tolist())
    return f"{int(bad.sum())} of {bad.numel()} values, at {list(place)} {x[place].item()!r}, PyTorch has {y[place].item()!r}"


def _to_torch(array: mx.array) -> torch.Tensor:
    if array.dtype == mx.bfloat16:
        return torch.from_numpy(np.array(array.astype(mx.float32))).bfloat16()
    return torch.from_numpy(np.array(to_numpy(array)))


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(WIDE.get(tensor.dtype, tensor.dtype))


def _exact(module: SampleModule, tensors: tuple[torch.Tensor, ...]) -> list[Any] | None:
    """The sample computed by PyTorch in double precision throughout, or None where that fails."""
    leaves = [WIDE.get(leaf, leaf) if isinstance(leaf, torch.dtype) else leaf for leaf in module.others]
    default = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        return pytree.tree_leaves(eager(module.with_others(leaves), tuple(_widened(t) for t in tensors)))
    except Exception:  # the op has no such dtype: there is nothing to compare with
        return None
    finally:
        torch.set_default_dtype(default)


def _within_error(x: Any, pytorch: Any, exact: Any) -> bool:
    """Whether x is as close to the exact result as PyTorch's own is, within ERROR_RATIO and the dtype's tolerance."""
    if not isinstance(exact, torch.Tensor) or pytorch.dtype not in TOLERANCES or exact.shape != pytorch.shape:
        return False
    rtol, atol = TOLERANCES[pytorch.dtype]
    x, pytorch, exact = _widened(x), _widened(pytorch.detach()), _widened(exact)
    finite = torch.isfinite(exact) & torch.isfinite(pytorch)
    if not finite.any():
        return False
    limit = torch.finfo(torch.float16).max if pytorch.dtype == torch.float16 else math.inf
    unbounded = torch.isfinite(x) & ~torch.isfinite(pytorch) & torch.isfinite(exact) & (exact.abs() <= limit)
    theirs = (pytorch - exact)[finite].abs().max()
    allowed = ERROR_RATIO * theirs if theirs <= MEANINGFUL * exact[finite].abs().max() else 0.0
    close = (x - exact).abs() <= allowed + atol + rtol * exact.abs()
    placed = (x == pytorch) | (torch.isnan(x) & torch.isnan(pytorch))
    return bool((torch.where(finite | unbounded, close, placed)).all())
