"""A fast BLAS under MLX on Linux CPUs, from the moment that mlxify is imported.

MLX's wheels for Linux carry the reference BLAS and LAPACK, which are slow. The extra `cpu` installs OpenBLAS beside
them (scipy-openblas32). Once `mlx.core` is loaded, the calls that MLX's library makes into BLAS and LAPACK are led
to OpenBLAS (`slots.py`, `openblas.py`), those of MLX alone: OpenBLAS is loaded with private, prefixed names, and
PyTorch, NumPy and SciPy keep what they have. No file is changed or copied. Before a pair of libraries is used for
the first time on a machine, a child process tries it (`trial.py`, `verdict.py`). If anything is missing or fails, MLX works as it
does without mlxify, and `fast_blas().reason` says why.

Nothing here imports MLX or another part of mlxify while it is imported.
"""

from __future__ import annotations

import importlib
import os
import sys
from _thread import allocate_lock
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType

SWITCH = "MLXIFY_BLAS"
"""Environment variable: `off` leaves MLX as it is, `on` goes without the trial in a child process."""


class Blas(NamedTuple):
    """What computes MLX's matrix products and decompositions on the CPU."""

    fast: bool
    name: str
    """Such as "OpenBLAS 0.3.34 (Haswell)"."""
    threads: int | None
    """How many threads one product uses at most, if known."""
    reason: str
    """Why MLX's own is in use and what to do; empty if a fast one is."""


_LOCK = allocate_lock()
_result: Blas | None = None


def fast_blas() -> Blas:
    """Give MLX a fast BLAS on Linux CPUs, if it has none yet, and say which one it uses.

    `import mlxify` does this by itself, before or after MLX is imported; call it to look. It never raises because the
    fast BLAS is unavailable: then MLX keeps its own, and `reason` says why.
    """
    global _result
    importlib.import_module("mlx.core")
    with _LOCK:
        if _result is None:
            _result = _prepare()
        return _result


def install() -> None:
    """Have `fast_blas` called as soon as mlx.core is loaded: now, or right after somebody imports it."""
    if sys.platform != "linux" or os.environ.get(SWITCH) == "off":
        return
    if sys.modules.get("mlx.core") is not None:
        fast_blas()
    elif not any(isinstance(finder, _AfterMlx) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AfterMlx())


def _prepare() -> Blas:
    if sys.platform == "darwin":
        return Blas(True, "Accelerate", None, "")
    from .openblas import Unavailable

    try:
        return _openblas()
    except Unavailable as error:
        reason = str(error)
    except Exception as error:  # MLX works without, so nothing that goes wrong here may stop a program
        reason = f"{type(error).__name__}: {error}"
    return Blas(False, "MLX's own", None, reason)


def _openblas() -> Blas:
    from . import openblas

    switch = os.environ.get(SWITCH)
    if switch == "off":
        raise openblas.Unavailable(f"turned off by {SWITCH}=off")
    library, mlx = openblas.find(), openblas.find_mlx()
    if switch != "on":
        from .verdict import require_passed

        require_passed(library, mlx)
    return Blas(True, *openblas.attach(library, mlx), "")


class _AfterMlx:
    """An import hook that finds nothing itself; it has `fast_blas` called right after mlx.core is executed."""

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != "mlx.core":
            return None
        others = [finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec")]
        specs = (finder.find_spec(name, path, target) for finder in others)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                fast_blas()

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
