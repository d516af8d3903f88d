"""A trial of a pair of MLX and OpenBLAS, before its first use: a child process computes the same with MLX's own BLAS
and with OpenBLAS and compares. A crash or a wrong number there costs nothing here.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from . import SWITCH
from .openblas import Unavailable, attach, attached
from .threads import thread_ids
from .verdict import WORKS

if TYPE_CHECKING:
    import mlx.core as mx

LIMIT_SECONDS = 60
CHILD = "import sys; sys.path[:] = sys.argv[3:]; from mlxify.blas.trial import main; main(sys.argv[1], sys.argv[2])"


def run(library: str, mlx: str) -> str:
    """WORKS, or what went wrong, in one line."""
    python = sys.executable or ""
    if getattr(sys, "frozen", False) or "python" not in os.path.basename(python).lower():
        return f"no Python to run it in; {SWITCH}=on goes without"
    command = [python, "-c", CHILD, library, mlx, *sys.path]
    environment = {**os.environ, SWITCH: "off"}
    try:
        child = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=LIMIT_SECONDS,
            env=environment,
        )
    except subprocess.TimeoutExpired:
        return f"it took more than {LIMIT_SECONDS} seconds"
    except OSError as error:
        return f"no process could be started ({error})"
    if child.returncode < 0:
        return f"it crashed ({signal.Signals(-child.returncode).name})"
    lines = (child.stdout if child.returncode == 0 else child.stderr).strip().splitlines()
    return lines[-1] if lines else f"it ended with {child.returncode}"


# In the child


def main(library: str, mlx: str) -> None:
    """Compute with MLX's own BLAS, then with OpenBLAS; print WORKS or what is wrong."""
    import mlx.core as mx

    mx.set_default_device(mx.cpu)
    plain = _results()
    try:
        attach(library, mlx)
    except Unavailable as error:
        print(error)
        return
    fast = _results()
    wrong = [name for name in plain if not _agree(name, plain[name], fast[name])]
    if wrong:
        print(f"{', '.join(wrong)} differ")
    else:
        print(WORKS if _outlives_a_fork() else "its threads end when the process forks")


def _outlives_a_fork() -> bool:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return attached[-1].threads <= thread_ids()


def _results() -> dict[str, mx.array]:
    """Products of small whole numbers, which are exact in any order of summation; and decompositions."""
    import mlx.core as mx

    results = {}
    for dtype in (mx.float32, mx.float64, mx.complex64):
        for m, k, n in ((1, 300, 257), (7, 5, 3), (33, 129, 65), (200, 256, 192)):
            keys = mx.random.split(mx.random.key(m), 2)
            a = mx.random.randint(-8, 9, (m, k), key=keys[0]).astype(dtype)
            b = mx.random.randint(-8, 9, (n, k), key=keys[1]).astype(dtype)
            results[f"matmul {m}x{k}x{n} {dtype}"] = a @ b.T
            results[f"matmul {n}x{k}x{m} {dtype}"] = mx.contiguous(b) @ mx.contiguous(a.T)
    for dtype in (mx.float32, mx.float64):
        random = mx.random.normal((70, 70), key=mx.random.key(3)).astype(dtype)
        square = random @ random.T / 70 + mx.eye(70, dtype=dtype)
        results |= {
            f"inv {dtype}": mx.linalg.inv(square),
            f"cholesky {dtype}": mx.linalg.cholesky(square),
            f"qr {dtype}": mx.abs(mx.linalg.qr(square)[1]),
            f"svd {dtype}": mx.linalg.svd(random)[1],
            f"eigh {dtype}": mx.linalg.eigvalsh(square),
            f"eig {dtype}": mx.sort(mx.abs(mx.linalg.eigvals(random))),
        }
    mx.eval(results)
    return results


def _agree(name: str, plain: mx.array, fast: mx.array) -> bool:
    import mlx.core as mx

    if name.startswith("matmul"):
        return bool(mx.array_equal(plain, fast).item())
    return bool(mx.allclose(plain, fast, rtol=1e-3, atol=1e-4).item())
