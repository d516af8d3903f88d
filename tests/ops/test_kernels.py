"""The calls of MLX's fused kernels that instructions make on a GPU, made on the CPU's own versions of them."""

import importlib
from dataclasses import replace

import mlx.core as mx
import pytest

from .harness import check
from .test_attention import CASES as ATTENTION
from .test_attention import DYNAMIC
from .test_linear import ADDMM, LINEAR
from .test_norm import LAYER, RMS
from .test_rope import CASES as ROPE

# What the kernels promise: half precision may be rounded more than once, and means are less exact far from 0.
KERNEL = {"16": (2e-2, 2e-2), "half": (2e-2, 2e-2), "far from 0": (1e-2, 1e-2), "long": (1e-2, 1e-3)}
# MLX's CPU has kernels of float64 with the exp of float32, and is not asked for them on a GPU.
SKIPPED = ("float64", "mask of the least half", "large scores, half", "1e5", "half range", "large half")


def rows():
    for module, cases in (
        ("norm", [*LAYER, *RMS]),
        ("attention", [*ATTENTION, *DYNAMIC]),
        ("rope", ROPE),
        ("linear", [*LINEAR, *ADDMM]),
    ):
        for case in cases:
            if not case.refused and not any(name in case.name for name in SKIPPED):
                yield pytest.param(module, case, id=f"{module} {case.name}")


@pytest.mark.parametrize("module, case", list(rows()))
def test_kernel(module, case, tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.import_module(f"mlxify.ops.{module}"), "on_cpu", lambda: False)
    tolerance = next((t for name, t in KERNEL.items() if name in case.name), case.tolerance)
    check(replace(case, tolerance=tolerance, compiled=False, decomposed=False), tmp_path)


def test_offsets_that_the_rope_kernel_takes():
    """Of any integer dtype, one or one for each batch."""
    from mlxify.ops import rope as module

    x = mx.random.normal((2, 3, 5, 8)).astype(mx.float16)
    expected = module.rope(x, 8, False, 1e4, 1.0, 7, None)
    original = module.on_cpu
    module.on_cpu = lambda: False
    try:
        for dtype in (mx.int32, mx.int64, mx.uint8, mx.uint32):
            for offset in (mx.array(7, dtype), mx.array([7], dtype), mx.array([7, 7], dtype)):
                result = module.rope(x, 8, False, 1e4, 1.0, offset, None)
                assert mx.allclose(result, expected, atol=4e-3), (dtype, offset.shape)
    finally:
        module.on_cpu = original
