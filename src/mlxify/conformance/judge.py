"""One sample through export, conversion and both runtimes, and the verdict."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import tempfile
import warnings
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np
import torch
from torch.utils import _pytree as pytree

import mlxify

from ..run import Program
from .samples import SampleModule

CATEGORIES = ("pass", "wrong", "unsupported", "error", "crash", "timeout", "not exportable", "eager error")
FAILURES = ("wrong", "error", "crash", "timeout")

# torch.testing's own defaults times four, since a sample may be a chain of several roundings in another order.
TOLERANCES = {
    torch.float32: (1.3e-6 * 4, 1e-5),
    torch.float64: (1e-7 * 4, 1e-7),
    torch.complex64: (1.3e-6 * 4, 1e-5),
    torch.float16: (1e-3 * 4, 1e-5 * 40),
    torch.bfloat16: (1.6e-2, 1e-5 * 40),
}
# Families whose results amplify rounding (ill-conditioned random matrices, long sums of squares).
WIDER = {"linalg": 100.0, "cholesky": 100.0, "svd": 100.0, "pinverse": 100.0, "logdet": 100.0, "fft": 10.0, "matmul": 4.0,
         "cdist": 10.0, "conv": 4.0, "polygamma": 10.0}  # fmt: skip
# Vectors of these are unique up to sign or phase only; shape and dtype are compared, and what is unique.
AMBIGUOUS = (
    "linalg.svd",
    "svd",
    "linalg.eigh",
    "linalg.eig",
    "linalg.qr",
    "qr",
    "svd_lowrank",
    "pca_lowrank",
    "symeig",
    "geqrf",
)
UNINITIALISED = (
    "empty",
    "new_empty",
    "resize",
    "empty_like",
    "empty_strided",
    "empty_permuted",
    "new_empty_strided",
)


@dataclass(frozen=True)
class Verdict:
    """What became of one sample."""

    category: str
    detail: str = ""


def quiet() -> None:
    """PyTorch's warnings and logs about odd samples are not ours."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)


def judge(key: str, module: SampleModule, tensors: tuple[torch.Tensor, ...], reload: bool = False) -> Verdict:
    """Export, convert, run and compare one sample."""
    shown = describe(module, tensors)
    try:
        expected = eager(module, tensors, 1)
    except Exception as error:
        return Verdict("eager error", f"{shown}: {first_line(error)}")
    try:
        exported = torch.export.export(module, tensors, strict=False)
    except Exception as error:
        return Verdict("not exportable", f"{shown}: {first_line(error)}")
    try:
        program = mlxify.convert(exported)
        actual = Program(through_file(program) if reload else program.graph, compile=False)(*tensors)
        mx.eval(arrays(actual))
    except mlxify.UnsupportedOpError as error:
        op = error.ops[0]
        return Verdict("unsupported", f"{op.target}: {op.reason}")
    except Exception as error:
        return Verdict("error", f"{shown}: {type(error).__name__}: {first_line(error)}")
    loose = is_random(key, module, tensors, expected)
    problem = mismatch(key, actual, expected, loose)
    return Verdict("wrong", f"{shown}: {problem}") if problem else Verdict("pass")


def through_file(program: Program) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "p.safetensors")
        program.save(path)
        graph = mlxify.load(path).graph
        mx.eval(list(graph.weights.values()), list(graph.state.values()))
        return graph


def eager(module: SampleModule, tensors: tuple[torch.Tensor, ...], seed: int) -> Any:
    torch.manual_seed(seed)
    with torch.no_grad():
        return module(*[t.clone() for t in tensors])


def is_random(key: str, module: SampleModule, tensors: tuple[torch.Tensor, ...], expected: Any) -> bool:
    """Whether another seed gives another result: then only shapes and dtypes can agree."""
    if key in UNINITIALISED or key.removeprefix("_refs.") in UNINITIALISED:
        return True
    with contextlib.suppress(Exception):
        again = eager(module, tensors, 2)
        pairs = zip(pytree.tree_leaves(expected), pytree.tree_leaves(again), strict=True)
        return not all(
            (a.shape == b.shape and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)))
            if isinstance(a, torch.Tensor) and not a.is_sparse
            else True
            for a, b in pairs
        )
    return False


def arrays(value: Any) -> list[mx.array]:
    return [leaf for leaf in pytree.tree_leaves(plain(value)) if isinstance(leaf, mx.array)]


def plain(value: Any) -> Any:
    """Structured outputs as tuples, so that torch's pytree takes them apart."""
    if isinstance(value, mlxify.tree.Output):
        return tuple(plain(v) for v in value.values())
    return type(value)(plain(v) for v in value) if type(value) in (list, tuple) else value


def mismatch(key: str, actual: Any, expected: Any, loose: bool) -> str:
    """What differs, or "" when nothing does."""
    got, wanted = pytree.tree_leaves(plain(actual)), pytree.tree_leaves(expected)
    if len(got) != len(wanted):
        return f"{len(got)} outputs, PyTorch has {len(wanted)}"
    for index, (a, e) in enumerate(zip(got, wanted, strict=True)):
        vague = loose or (key in AMBIGUOUS and not _unique(key, index))
        problem = leaf_mismatch(key, a, e, vague)
        if problem:
            return f"output {index}: {problem}"
    return ""


def _unique(key: str, index: int) -> bool:
    """Whether this output of a decomposition is unique: singular values and eigenvalues are."""
    return index == (1 if "svd" in key else 0) and "qr" not in key


def leaf_mismatch(key: str, a: Any, e: Any, vague: bool) -> str:
    if not isinstance(e, torch.Tensor):
        value: Any = a.item() if isinstance(a, mx.array) else a
        close = (
            value == e
            or (isinstance(e, float) and math.isclose(value, e, rel_tol=1e-5))
            or (e != e and value != value)
        )
        return "" if close else f"{value!r}, PyTorch has {e!r}"
    if not isinstance(a, mx.array):
        return f"a {type(a).__name__}, PyTorch has a tensor"
    name = str(a.dtype).removeprefix("mlx.core.").removesuffix("_")
    if name != str(e.dtype).removeprefix("torch."):
        return f"dtype {name}, PyTorch has {e.dtype}"
    if tuple(a.shape) != tuple(e.shape):
        return f"shape {list(a.shape)}, PyTorch has {list(e.shape)}"
    return "" if vague else value_mismatch(key, a, e)


def value_mismatch(key: str, a: mx.array, e: torch.Tensor) -> str:
    half = a.dtype in (mx.float16, mx.bfloat16)
    x = np.array(a.astype(mx.float32) if half else a)
    e = e.detach().resolve_conj().resolve_neg()
    y = (e.float() if half else e).numpy()
    if e.dtype not in TOLERANCES:
        bad = x != y
    else:
        rtol, atol = TOLERANCES[e.dtype]
        factor = max([f for part, f in WIDER.items() if part in key], default=1.0)
        bad = ~np.isclose(x, y, rtol=rtol * factor, atol=atol * factor, equal_nan=True)
    if not bad.any():
        return ""
    place = tuple(int(i) for i in np.argwhere(bad)[0])
    return f"{int(bad.sum())} of {bad.size} values, at {list(place)} {x[place]!r}, PyTorch has {y[place]!r}"


def describe(module: SampleModule, tensors: tuple[torch.Tensor, ...]) -> str:
    """A sample in short: tensors as dtype[shape], all else as it is."""
    leaves = list(module.others)
    for place, tensor in zip(module.places, tensors, strict=True):
        leaves[place] = f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"
    first, args, kwargs = pytree.tree_unflatten(leaves, module.spec)
    parts = [str(first), *(str(a) for a in args), *(f"{k}={v}" for k, v in kwargs.items())]
    return f"({', '.join(parts)})"[:300]


def first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0][:300] if text else type(error).__name__
