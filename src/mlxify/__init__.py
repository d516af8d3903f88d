"""mlxify: PyTorch models as MLX programs. `convert` needs torch; `load` and running need only MLX."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from . import blas
from .errors import (
    ConversionError,
    InputError,
    MissingExtraError,
    MlxifyError,
    ProgramError,
    UnsupportedOp,
    UnsupportedOpError,
)

if TYPE_CHECKING:
    from .blas import fast_blas
    from .export import convert
    from .lowering import lowers
    from .patterns import fuses
    from .run import Program, load

__version__ = "0.1.0"

_LAZY = {
    "convert": "export",
    "fast_blas": "blas",
    "fuses": "patterns",
    "load": "run",
    "lowers": "lowering",
    "Program": "run",
}

__all__ = [
    "ConversionError",
    "InputError",
    "MissingExtraError",
    "MlxifyError",
    "Program",
    "ProgramError",
    "UnsupportedOp",
    "UnsupportedOpError",
    "convert",
    "fast_blas",
    "fuses",
    "load",
    "lowers",
    "supported_ops",
]


def __getattr__(name: str) -> Any:
    """Import the parts on first use: `import mlxify` stays quick, and free of torch."""
    if name not in _LAZY:
        raise AttributeError(f"module 'mlxify' has no attribute {name!r}")
    _need_mlx()
    if name == "convert":
        _need_torch()
    return getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)


def supported_ops() -> frozenset[str]:
    """The names of all ops that convert: "aten.add.Tensor", "mlx.rope.default", …"""
    _need_mlx()
    importlib.import_module(f"{__name__}.ops")
    return importlib.import_module(f"{__name__}.lowering").supported_ops()


def _need_mlx() -> None:
    try:
        importlib.import_module("mlx.core")
    except ImportError as error:
        raise MissingExtraError(
            f'MLX does not work here ({error}). On Linux it needs a backend: pip install "mlxify[cpu]", '
            'or "mlxify[cuda]" for an NVIDIA GPU'
        ) from error


def _need_torch() -> None:
    try:
        importlib.import_module("torch")
    except ImportError as error:
        raise MissingExtraError('converting needs PyTorch: pip install "mlxify[torch]"') from error


blas.install()
