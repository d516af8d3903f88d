"""Memory that a call of a program frees stays with the process, for the next call.

On a CPU, MLX asks the C library for the memory of each array. GNU's gives large pieces back to the system at once, and
the next array of that size gets fresh pages, which the system fills with zeros one by one: up to three quarters of the
time of a simple instruction.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache

SWITCH = "MLXIFY_KEEP_MEMORY"
"""Environment variable: `off` leaves the C library as it is."""
TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD = -1, -2, -3
"""Parameters of mallopt, https://man7.org/linux/man-pages/man3/mallopt.3.html"""
GROW_BY, LARGEST, OLD_LARGEST = 64 << 20, 1 << 30, 32 << 20
"""Bytes: steps in which the heap grows; the largest piece on the heap, and that of older releases."""
SHARE = 8
"""Up to this part of the machine's memory, and 2 GB, stays with the process."""


@cache
def keep_freed_memory() -> bool:
    """Have the C library keep what is freed. False if it is another library, or if the user has settings for it."""
    if sys.platform != "linux" or os.environ.get(SWITCH) == "off" or _has_settings():
        return False
    try:
        set_option = ctypes.CDLL(None).mallopt
    except AttributeError:
        return False
    kept = min(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // SHARE, 2**31 - 1)
    on_heap = set_option(MMAP_THRESHOLD, LARGEST) or set_option(MMAP_THRESHOLD, OLD_LARGEST)
    return bool(on_heap and set_option(TRIM_THRESHOLD, kept) and set_option(TOP_PAD, GROW_BY))


def _has_settings() -> bool:
    return any(name.startswith("MALLOC_") for name in os.environ) or "malloc" in os.environ.get(
        "GLIBC_TUNABLES", ""
    )
