"""Safetensors files: read with checks, written completely or not at all."""

from __future__ import annotations

import contextlib
import os
import struct
import tempfile
from pathlib import Path
from typing import Any

import mlx.core as mx

from .errors import ProgramError

MAX_HEADER = 64 << 20


def write_whole(path: str | os.PathLike[str], arrays: dict[str, mx.array], metadata: dict[str, str]) -> None:
    """Write to a temporary file in the same folder, flush, rename: a crash leaves the old file or the new one."""
    path = Path(path)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".safetensors")
    os.close(handle)
    try:
        mx.save_safetensors(temporary, arrays, metadata)
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make the rename itself last through a power cut, where the system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read_arrays(path: str | os.PathLike[str]) -> tuple[dict[str, mx.array], dict[str, str]]:
    """The tensors (read when they are first used) and the metadata. Raises ProgramError when the file is damaged."""
    path = Path(path)
    tensors, metadata = _read_header(path)
    return _load_arrays(path, tensors), metadata


def _read_header(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Tensor names with their shapes and dtypes, and the metadata, checked by the safetensors library."""
    from safetensors import SafetensorError, safe_open

    size = path.stat().st_size
    with open(path, "rb") as file:
        start = file.read(8)
    if len(start) < 8 or (length := struct.unpack("<Q", start)[0]) > size - 8:
        raise ProgramError(f"{path.name} is not a safetensors file, or is cut short")
    if length > MAX_HEADER:
        raise ProgramError(f"{path.name}: a header of {length:,} bytes exceeds the limit of {MAX_HEADER:,}")
    try:
        with safe_open(path, framework="numpy") as file:
            names = {}
            for name in file.keys():  # noqa: SIM118  (not a dict)
                part = file.get_slice(name)
                names[name] = (part.get_dtype(), tuple(part.get_shape()))
            return names, dict(file.metadata() or {})
    except (SafetensorError, ValueError, UnicodeError, OSError) as error:
        raise ProgramError(f"{path.name} is not a valid safetensors file: {error}") from None


_DTYPE_CODES = {
    "BOOL", "U8", "U16", "U32", "U64", "I8", "I16", "I32", "I64", "F16", "BF16", "F32", "F64", "C64",
}  # fmt: skip


def _load_arrays(path: Path, tensors: dict[str, Any]) -> dict[str, mx.array]:
    for name, (code, shape) in tensors.items():
        if code not in _DTYPE_CODES:
            raise ProgramError(f"{path.name}: the tensor {name[:60]!r} has the dtype {code}, which MLX does not have")
        if len(shape) > 32 or any(n >= 2**31 for n in shape):
            raise ProgramError(f"{path.name}: the tensor {name[:60]!r} has the shape {list(shape)[:40]}")
    try:
        arrays = mx.load(str(path), format="safetensors")
    except (RuntimeError, ValueError) as error:
        raise ProgramError(f"{path.name}: {error}") from None
    assert isinstance(arrays, dict)
    return arrays
