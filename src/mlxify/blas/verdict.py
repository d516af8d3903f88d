"""The verdict of a trial (`trial.py`), kept in the user's cache folder for two files on one kind of processor.

A good one is kept for good, a bad one for a day. It is text that allows or forbids, never code: OpenBLAS is always
loaded from where it was installed.
"""

from __future__ import annotations

import os
import time

from .openblas import Unavailable

WORKS = "works"
RETRY_SECONDS = 24 * 3600


def require_passed(library: str, mlx: str) -> None:
    """Return if the pair works here, by the kept verdict or by a trial; raise Unavailable if it does not."""
    key = _key(library, mlx)
    folder = cache_folder()
    digest = int.from_bytes(key.encode(), "big") % (
        2**61 - 1
    )  # needs no import; the file repeats the whole key
    path = os.path.join(folder, f"blas-{digest:016x}.txt") if folder else None
    verdict = _read(path, key) if path else None
    if verdict is None:
        from .trial import run  # what it imports takes as long as all the rest, and it is needed once

        verdict = run(library, mlx)
        if path:
            _write(path, verdict, key)
    if verdict != WORKS:
        raise Unavailable(
            f"the trial of OpenBLAS failed: {verdict}" + (f" (kept for a day in {path})" if path else "")
        )


def cache_folder() -> str | None:
    """The user's cache folder of mlxify, made if need be; None if it cannot be used or others may write to it."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.expanduser("~/.cache")
    folder = os.path.join(base, "mlxify")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        status = os.stat(folder)
    except OSError:
        return None
    mine = os.path.isabs(base) and status.st_uid == os.getuid() and not status.st_mode & 0o022
    return folder if mine and os.access(folder, os.W_OK) else None


def _key(library: str, mlx: str) -> str:
    """What the verdict holds for: the two files as they are now, and the processor."""
    lines = []
    for path in (library, mlx):
        status = os.stat(path)
        lines.append(f"{path} {status.st_size} {status.st_mtime_ns}")
    return "\n".join([*lines, *_processor()])


def _processor() -> list[str]:
    """The kind of the first core; verdicts in a home folder may be shared by different machines."""
    try:
        with open("/proc/cpuinfo", "rb", buffering=0) as file:
            text = file.read(4096).decode(
                "ascii", "replace"
            )  # one core's worth: the file grows with the cores
    except OSError:
        return []
    kinds = ("model name", "flags", "Features", "CPU implementer", "CPU part", "CPU variant")
    return sorted({line for line in text.splitlines() if line.startswith(kinds)})


def _read(path: str, key: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as file:
            verdict, _, kept = file.read(65536).partition("\n")
            age = time.time() - os.fstat(file.fileno()).st_mtime
    except (OSError, UnicodeDecodeError):
        return None
    return verdict if verdict and kept == key and (verdict == WORKS or 0 <= age < RETRY_SECONDS) else None


def _write(path: str, verdict: str, key: str) -> None:
    """Whole or not at all, also when two processes do it at once. Failing to keep a verdict is no failure."""
    import tempfile

    try:
        handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path))
        try:
            with open(handle, "w", encoding="utf-8") as file:
                file.write(f"{verdict}\n{key}")
            os.replace(temporary, path)
        except BaseException:  # an interruption, too, leaves nothing behind
            os.unlink(temporary)
            raise
    except OSError:
        pass
