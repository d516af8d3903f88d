"""mx.compile without fused kernels: a graph that is traced once and rebuilt by MLX, not by Python, in each call.

On a CPU a fused kernel is C++ that MLX hands to a compiler, at the first call and through a folder that other users
can foresee. MLX's header mlx/compile.h has a mode that leaves fusing out, which its Python module does not offer.
"""

from __future__ import annotations

import ctypes
import io
import os
import sys
import threading
from collections.abc import Callable
from functools import cache

import mlx.core as mx

NO_FUSE = 2
"""CompileMode::no_fuse of mlx/compile.h."""
SET_MODE = "_ZN3mlx4core16set_compile_modeENS0_11CompileModeE"
"""mlx::core::set_compile_mode, by the names of the Itanium C++ ABI (Linux, macOS)."""

Arrays = Callable[[list[mx.array]], list[mx.array]]

_lock = threading.RLock()


@cache
def tracing_works() -> bool:
    """Whether MLX has the mode, tried on a small graph that is not computed."""
    if _set_mode() is None or not compile_enabled():
        return False
    x = mx.array([0.0, 1.0])
    return len(kinds(*traced(_probe)([x]))) > 1 and len(kinds(*mx.compile(_probe)([x]))) == 1


def traced(function: Arrays) -> Arrays:
    """mx.compile(function) without fused kernels, for one thread. tracing_works() is asked first.

    The mode is the process's, so it is set while a graph is traced and by one thread at a time; what another thread
    compiles meanwhile is not fused either, and as right.
    """
    set_mode = _set_mode()
    tracing = False

    def body(arrays: list[mx.array]) -> list[mx.array]:
        nonlocal tracing
        if set_mode is not None and not tracing and compile_enabled():
            _lock.acquire()
            tracing = True
            set_mode(NO_FUSE)
        return function(arrays)

    compiled = mx.compile(body)

    def call(arrays: list[mx.array]) -> list[mx.array]:
        nonlocal tracing
        try:
            return compiled(arrays)
        finally:
            if tracing:  # MLX has run the body: at the first call, or for another default stream
                tracing = False
                mx.enable_compile()
                _lock.release()

    return call


def compile_enabled() -> bool:
    """Whether mx.compile compiles now. It can be switched off (mx.disable_compile, MLX_DISABLE_COMPILE)."""
    calls = 0

    def count(x: mx.array) -> mx.array:
        nonlocal calls
        calls += 1
        return x

    compiled, x = mx.compile(count), mx.zeros(())
    compiled(x)
    compiled(x)
    return calls == 1


@cache
def _set_mode() -> Callable[[int], None] | None:
    spec = mx.__spec__
    if spec is None or not spec.origin or sys.platform not in ("linux", "darwin"):
        return None
    name = "libmlx.so" if sys.platform == "linux" else "libmlx.dylib"
    try:
        function = ctypes.CDLL(os.path.join(os.path.dirname(spec.origin), "lib", name))[SET_MODE]
    except (OSError, AttributeError):
        return None
    function.argtypes, function.restype = (ctypes.c_int,), None
    return function


def _probe(arrays: list[mx.array]) -> list[mx.array]:
    return [mx.exp(x) * x + x for x in arrays]


def kinds(*arrays: mx.array) -> set[str]:
    """The kinds of node in the arrays' graph, by the labels of a drawing."""
    text = io.StringIO()
    mx.export_to_dot(text, *arrays)
    return {line.split('"')[1] for line in text.getvalue().splitlines() if "shape=rectangle" in line}
