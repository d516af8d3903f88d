"""OpenBLAS from the package scipy-openblas32: where it is, and how MLX comes to call it."""

from __future__ import annotations

import ctypes
import os
import stat
import sys
from importlib.machinery import PathFinder

from .slots import SLOT_KINDS, SlotError, finalizer_slots, function_slots, own_handle, write
from .threads import Pool

PACKAGE, PREFIX = "scipy_openblas32", "scipy_"
INSTALL = 'pip install "mlxify[cpu]"'
MAIN = "cblas_sgemm"
"""The function behind matmul, linear and convolutions in float32."""

attached: list[Pool] = []
"""Keeps OpenBLAS in memory for good: MLX's library points into it."""


class Unavailable(Exception):
    """The fast BLAS cannot be used here; the message says why and, where something helps, what."""


def find() -> str:
    """The path of OpenBLAS's library, without loading it or importing its package (which would load it globally)."""
    machine = os.uname().machine
    if sys.platform != "linux" or machine not in SLOT_KINDS:
        raise Unavailable(f"no fast BLAS is known for {sys.platform} on {machine}")
    spec = PathFinder.find_spec(PACKAGE)
    folders = list(spec.submodule_search_locations or []) if spec else []
    if not folders:
        raise Unavailable(f"{PACKAGE.replace('_', '-')} is not installed: {INSTALL}")
    path = os.path.realpath(os.path.join(folders[0], "lib", "libscipy_openblas.so"))
    if not os.path.isfile(path):
        raise Unavailable(f"{PACKAGE} has no {path}")
    writable = _writable_by_all(path)
    if writable:
        raise Unavailable(f"everybody may write to {writable}: chmod o-w")
    return path


def _writable_by_all(path: str) -> str | None:
    """The file or the first folder above it in which any user could exchange it."""
    mode = os.stat(path).st_mode
    if mode & stat.S_IWOTH and not (stat.S_ISDIR(mode) and mode & stat.S_ISVTX):
        return path
    parent = os.path.dirname(path)
    return None if parent == path else _writable_by_all(parent)


def find_mlx() -> str:
    """The path of MLX's library. mlx.core has been imported."""
    spec = sys.modules["mlx.core"].__spec__
    if spec is None or not spec.origin:
        raise Unavailable("mlx.core does not say where it is")
    return os.path.join(os.path.dirname(spec.origin), "lib", "libmlx.so")


def attach(library: str, mlx: str) -> tuple[str, int]:
    """Lead MLX's calls of BLAS and LAPACK to OpenBLAS: its name and its number of threads."""
    try:
        pool = Pool(library, PREFIX)
        name = _name(pool.blas)
        words = _targets(pool.blas, mlx)
        # MLX's threads may still compute while the process ends. OpenBLAS would take its buffers and threads away
        # under them, which hangs or crashes; the system frees all anyway.
        words.update(dict.fromkeys(finalizer_slots(library), 0))
        pool.outlive_forks(own_handle(library, os.uname().machine))
        write(words)
    except (SlotError, OSError) as error:
        raise Unavailable(str(error)) from error
    attached.append(pool)
    return name, pool.size


def _targets(blas: ctypes.CDLL, mlx: str) -> dict[int, int]:
    """MLX's slots and the functions of OpenBLAS to write there."""
    targets = {}
    for function, slots in function_slots(mlx, os.uname().machine).items():
        address = _address(blas, function)
        if address:
            targets.update(dict.fromkeys(slots, address))
        elif function == MAIN:
            raise Unavailable(f"this OpenBLAS has no {PREFIX}{MAIN}")
    if not targets:
        raise Unavailable("this build of MLX calls no BLAS in another library")
    return targets


def _name(blas: ctypes.CDLL) -> str:
    text = {}
    for key in ("config", "corename"):
        function = blas[f"{PREFIX}openblas_get_{key}"]
        function.restype = ctypes.c_char_p
        text[key] = function().decode()
    if "USE64BITINT" in text["config"]:
        raise Unavailable("this OpenBLAS counts in 64 bits, MLX in 32")
    version = ".".join(text["config"].split()[1].split(".")[:3])
    return f"OpenBLAS {version} ({text['corename']})"


def _address(blas: ctypes.CDLL, function: str) -> int | None:
    """The address of OpenBLAS's function of this name, BLAS, CBLAS or LAPACK."""
    if not (function.startswith("cblas_") or function.endswith("_")) or function.startswith("_"):
        return None
    try:
        return ctypes.cast(blas[PREFIX + function], ctypes.c_void_p).value
    except AttributeError:
        return None
