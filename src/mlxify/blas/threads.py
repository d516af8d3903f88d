"""OpenBLAS's threads: how many, and how a process may fork while they work."""

from __future__ import annotations

import ctypes
import math
import os

SETTINGS = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS")
"""Environment variables that OpenBLAS follows by itself when it is loaded."""
IDLE, IDLE_LOG2_CYCLES = "OPENBLAS_THREAD_TIMEOUT", "20"
"""How long OpenBLAS's threads look out for more work before they sleep. By default it is 2**26 cycles, about 28 ms, in
which they keep the cores from PyTorch's and NumPy's threads in the same process; in 0.4 ms, MLX's next product comes.
"""


class Pool:
    """OpenBLAS, loaded, with one thread for each core that this process may use, or as many as the settings say."""

    def __init__(self, library: str, prefix: str) -> None:
        others = thread_ids()
        self.blas = load(library)
        self.threads = thread_ids() - others
        self._put = self.blas[f"{prefix}openblas_set_num_threads"]
        self.size: int = self.blas[f"{prefix}openblas_get_num_threads"]()

    def outlive_forks(self, handle: int | None) -> None:
        """Let a fork leave the threads alone; `handle` is the library's name for itself in the C runtime.

        OpenBLAS registers to end its threads before a fork. The end never comes if one is at work then, and MLX's
        streams may have it at work at any time. So this is taken back. A child has none of the threads and computes
        with its own; without a handle, so does this process.
        """
        if self.size == 1:
            return
        if handle is None:
            self.one_thread()
        else:
            finalize = ctypes.CDLL(None)["__cxa_finalize"]
            finalize.argtypes, finalize.restype = (ctypes.c_void_p,), None
            finalize(handle)  # forgets what the library wants to be called for: at a fork, and nothing else
            os.register_at_fork(after_in_child=self.one_thread)

    def one_thread(self) -> None:
        self._put(1)
        self.size = 1


def load(library: str) -> ctypes.CDLL:
    """Load OpenBLAS, with names that nobody else finds. It reads its settings then, so they are set for that moment:
    those that the user has not made."""
    settings = {IDLE: IDLE_LOG2_CYCLES}
    share = container_share()
    if share is not None and share < len(os.sched_getaffinity(0)) and not any(map(os.environ.get, SETTINGS)):
        settings[SETTINGS[0]] = str(share)  # OpenBLAS looks at the affinity only
    settings = {name: value for name, value in settings.items() if name not in os.environ}
    os.environ.update(settings)
    try:
        return ctypes.CDLL(library)
    finally:
        for name in settings:
            del os.environ[name]


def container_share() -> int | None:
    """The number of cores that the control group grants, rounded up."""
    try:
        with open("/sys/fs/cgroup/cpu.max") as file:
            quota, period = file.read().split()
        return None if quota == "max" else max(1, math.ceil(int(quota) / int(period)))
    except (OSError, ValueError):
        return None


def thread_ids() -> set[str]:
    return set(os.listdir("/proc/self/task"))
