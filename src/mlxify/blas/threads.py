"""OpenBLAS's threads: how many, and how a process may fork while they work."""

from __future__ import annotations

import ctypes
import math
import os
import time

SETTINGS = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS")
"""Environment variables that OpenBLAS follows by itself when it is loaded."""
IDLE, IDLE_LOG2_CYCLES = "OPENBLAS_THREAD_TIMEOUT", "20"
"""How long OpenBLAS's threads look out for more work before they sleep. By default it is 2**26 cycles, about 28 ms, in
which they keep the cores from PyTorch's and NumPy's threads in the same process; in 0.4 ms, MLX's next product comes.
"""
PATIENCE_SECONDS = 5.0
"""How long a fork waits for products that are being computed."""


class Pool:
    """OpenBLAS, loaded, with one thread for each core that this process may use, or as many as the settings say.

    OpenBLAS ends its threads before a fork and starts them again when needed. The end never comes if one of them is
    at work then, and MLX's streams may have it at work at any time. So before Python forks, further products stay in
    MLX's own threads, and those of OpenBLAS are awaited.
    """

    def __init__(self, library: str, prefix: str) -> None:
        others = thread_ids()
        self.blas = load(library)
        self.threads = thread_ids() - others
        self._put = self.blas[f"{prefix}openblas_set_num_threads"]
        self.size: int = self.blas[f"{prefix}openblas_get_num_threads"]()

    def prepare_forks(self) -> None:
        if self.size > 1:
            os.register_at_fork(before=self.pause, after_in_parent=self.restart, after_in_child=self.restart)

    def pause(self) -> None:
        self._put(1)
        end = time.monotonic() + PATIENCE_SECONDS
        while any(map(is_awake, self.threads)) and time.monotonic() < end:
            time.sleep(0.001)

    def restart(self) -> None:
        others = thread_ids()
        self._put(self.size)
        self.threads = thread_ids() - others


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


def is_awake(thread: str) -> bool:
    """Whether a thread runs or would like to. OpenBLAS's sleep when they have had nothing to do for a while."""
    try:
        with open(f"/proc/self/task/{thread}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "S"
    except OSError:
        return False
