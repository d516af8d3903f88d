"""Safetensors files: read with checks, written completely or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from .errors import ProgramError
from .program import DTYPE_NAMES

MAX_HEADER = 64 << 20
_DTYPES = {
    "BOOL": mx.bool_, "U8": mx.uint8, "U16": mx.uint16, "U32": mx.uint32, "U64": mx.uint64,
    "I8": mx.int8, "I16": mx.int16, "I32": mx.int32, "I64": mx.int64,
    "F16": mx.float16, "BF16": mx.bfloat16, "F32": mx.float32, "F64": mx.float64, "C64": mx.complex64,
}  # fmt: skip
_CODES = {dtype: code for code, dtype in _DTYPES.items()}


def write_whole(path: str | os.PathLike[str], arrays: dict[str, mx.array], metadata: dict[str, str]) -> None:
    """Write a safetensors file, complete or not at all."""
    with replaced(path, ".safetensors") as temporary:
        _write(temporary, arrays, metadata)


@contextlib.contextmanager
def replaced(path: str | os.PathLike[str], suffix: str) -> Iterator[str]:
    """Write to a temporary file in the same folder, flush, rename: a crash leaves the old file or the new one.

    Gives the temporary file's path, which ends with `suffix`; when the block raises, that file goes.
    """
    path = Path(path)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=suffix)
    os.close(handle)
    try:
        yield temporary
        os.chmod(temporary, 0o666 & ~_umask())
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:  # an interruption, too, leaves nothing behind
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    _sync_folder(path.parent)


def _umask() -> int:
    """The process's umask: a temporary file is private, the finished one is like any other."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _write(path: str, arrays: dict[str, mx.array], metadata: dict[str, str]) -> None:
    """MLX's own writer where it can: it does not write float64."""
    if all(array.dtype != mx.float64 for array in arrays.values()):
        mx.save_safetensors(path, arrays, metadata)
        return
    header: dict[str, Any] = {"__metadata__": metadata}
    end = 0
    for name, array in arrays.items():
        start, end = end, end + array.nbytes
        header[name] = {
            "dtype": _CODES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in arrays.values():
            file.write(np.array(array.view(mx.uint16) if array.dtype == mx.bfloat16 else array).tobytes())


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


def _load_arrays(path: Path, tensors: dict[str, Any]) -> dict[str, mx.array]:
    for name, (code, shape) in tensors.items():
        if code not in _DTYPES:
            raise ProgramError(
                f"{path.name}: the tensor {name[:60]!r} has the dtype {code}, which MLX does not have"
            )
        if len(shape) > 32 or any(n >= 2**31 for n in shape):
            raise ProgramError(f"{path.name}: the tensor {name[:60]!r} has the shape {list(shape)[:40]}")
    if any(code == "F64" for code, _ in tensors.values()):
        return _load_with_doubles(path)
    try:
        arrays = mx.load(str(path), format="safetensors")
    except (RuntimeError, ValueError) as error:
        raise ProgramError(f"{path.name}: {error}") from None
    assert isinstance(arrays, dict)
    return arrays


def _load_with_doubles(path: Path) -> dict[str, mx.array]:
    """All tensors of a file with float64 ones, which mx.load does not read. Reads the file at once."""
    from safetensors import deserialize

    arrays = {}
    for name, part in deserialize(path.read_bytes()):
        dtype = _DTYPES[part["dtype"]]
        stored = np.uint16 if dtype == mx.bfloat16 else np.dtype(DTYPE_NAMES[dtype])
        values = np.frombuffer(part["data"], stored).reshape(part["shape"])
        array = mx.array(values, dtype=dtype if dtype == mx.float64 else None)
        arrays[name] = array.view(mx.bfloat16) if dtype == mx.bfloat16 else array
    return arrays
