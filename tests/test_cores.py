"""What a CPU computes in parts, on several of MLX's streams, and what the C library does with freed memory."""

import os
import random
import subprocess
import sys
import threading
from functools import partial

import mlx.core as mx
import pytest

import mlxify
from mlxify import device
from mlxify.isa import INSTRUCTIONS
from mlxify.ops import attention, depthwise

mlxify.supported_ops()  # registers instructions

SHAPES = [(300_000,), (1, 400_000), (3, 100_001), (2, 3, 70_000), (1, 7, 1, 60_000), (200_000, 2)]
CALLS = {
    "erf": (), "exp": (), "gelu": ("none",), "silu": (), "sigmoid": (), "tanh": (), "log": (), "sin": (),
    "softmax": (-1,),
}  # fmt: skip


@pytest.fixture(params=[2, 3, 8])
def cores(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(device, "_cores", lambda: request.param)
    return request.param


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16], ids=["float32", "bfloat16"])
def test_parts_are_the_whole(name: str, shape: tuple[int, ...], dtype: mx.Dtype, cores: int) -> None:
    function, args = INSTRUCTIONS[name].fn, CALLS[name]
    x = mx.random.normal(shape).astype(dtype)
    with device.one_core():
        wanted = function(x, *args)
    got = function(x, *args)
    assert got.shape == wanted.shape and got.dtype == wanted.dtype
    assert mx.array_equal(got, wanted, equal_nan=True)


def test_transposed(cores: int) -> None:
    x = mx.random.normal((500, 600)).T
    with device.one_core():
        wanted = INSTRUCTIONS["exp"].fn(x)
    assert mx.array_equal(INSTRUCTIONS["exp"].fn(x), wanted)


def largest(monkeypatch: pytest.MonkeyPatch, elements: int) -> None:
    """Parts of so few elements, in as many rounds."""
    monkeypatch.setattr(device, "parts_of", partial(device.parts_of, largest=elements))


@pytest.mark.parametrize("name", CALLS)
def test_several_parts_on_a_core(name: str, cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x = mx.random.normal((700, 600))
    with device.one_core():
        wanted = INSTRUCTIONS[name].fn(x, *CALLS[name])
    largest(monkeypatch, 30_000)
    assert mx.array_equal(INSTRUCTIONS[name].fn(x, *CALLS[name]), wanted, equal_nan=True)


# (batch, heads, groups, length, width), the mask's shape
ATTENTION = [
    ((9, 4, 4, 40, 8), None),
    ((9, 4, 4, 40, 8), (9, 1, 1, 40)),
    ((9, 4, 2, 40, 8), (1, 1, 40, 40)),
    ((1, 12, 12, 60, 8), (1, 12, 60, 60)),
    ((1, 12, 3, 60, 8), (1, 12, 60, 60)),
    ((1, 12, 1, 60, 8), (1, 1, 60, 60)),
    ((2, 12, 4, 60, 8), (2, 1, 60, 60)),
]


@pytest.mark.parametrize("one_thread", [1, 1 << 18], ids=["large products", "small products"])
@pytest.mark.parametrize("sizes, mask", ATTENTION, ids=str)
def test_attention(
    sizes: tuple[int, ...],
    mask: tuple[int, ...] | None,
    one_thread: int,
    cores: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batch, heads, groups, length, width = sizes
    arrays = [mx.random.normal((batch, n, length, width)) for n in (heads, groups, groups)]
    args = (*arrays, None if mask is None else mx.random.bernoulli(0.7, mask), 0.3, "none")
    function = INSTRUCTIONS["scaled_dot_product_attention"].fn
    with device.one_core():
        wanted = function(*args)
    for name, value in {"ONE_THREAD": one_thread, "PART": 1 << 12, "MANY": 1 << 12}.items():
        monkeypatch.setattr(attention, name, value)
    assert mx.allclose(
        function(*args), wanted, rtol=1e-5, atol=1e-6
    )  # products of other shapes add up otherwise


@pytest.mark.parametrize("few", [0, 1 << 20], ids=["shifted", "at once"])
def test_depthwise_convolutions(few: int, cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In parts, whose windows may see nothing but padding."""
    monkeypatch.setattr(depthwise, "FEW_PRODUCTS", few)
    monkeypatch.setattr(depthwise, "PART_OF_STEPS", 1)
    generator = random.Random(0)
    for _ in range(100):
        rank = generator.choice((1, 2, 3))
        size, kernel, stride, dilation, low, high = (
            [generator.randint(*ends) for _ in range(rank)]
            for ends in ((1, 9), (1, 3), (1, 3), (1, 3), (-1, 12), (-1, 12))
        )
        x, weight = mx.random.normal((2, *size, 5)), mx.random.normal((5, *kernel, 1))
        args = (x, weight, None, stride, low, high, dilation, 5)
        try:
            with device.one_core():
                wanted = INSTRUCTIONS["conv"].fn(*args)
        except ValueError:  # a window larger than what it moves over
            continue
        assert mx.allclose(INSTRUCTIONS["conv"].fn(*args), wanted, rtol=1e-5, atol=1e-5)


def test_softmax_along_the_first_axis(cores: int) -> None:
    x = mx.random.normal((100, 3000))
    assert mx.allclose(INSTRUCTIONS["softmax"].fn(x, 0).sum(0), mx.ones((3000,)))


def test_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "_cores", lambda: 3)
    x = mx.random.normal((4, 100_000))
    with device.one_core():
        wanted = INSTRUCTIONS["gelu"].fn(x, "none")
    mx.eval(x, wanted)
    equal: list[bool] = []

    def work() -> None:
        for _ in range(10):
            equal.append(mx.array_equal(INSTRUCTIONS["gelu"].fn(x, "none"), wanted).item())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert equal == [True] * 40


FORK = """
import os, mlx.core as mx, mlxify
from mlxify.isa import INSTRUCTIONS
from mlxify import device
device._cores.__globals__["fast_blas"] = lambda: mlxify.fast_blas()._replace(threads=3)
mlxify.supported_ops()
def work():
    mx.eval(INSTRUCTIONS["gelu"].fn(mx.zeros((4, 100_000)), "none"))
work()
child = os.fork()
if child == 0:
    assert device._cores() == 1
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
work()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_has_one_core() -> None:
    subprocess.run([sys.executable, "-c", FORK], check=True, timeout=120)


FAULTS = """
import resource, mlx.core as mx, mlxify
from mlxify.heap import keep_freed_memory
kept = keep_freed_memory()
x = mx.zeros((16 << 20,))
def faults():
    for _ in range(10):
        mx.eval(x * x + 1)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
before = faults()
print(kept, faults() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="GNU's C library only")
@pytest.mark.parametrize(
    "settings", [{}, {"MLXIFY_KEEP_MEMORY": "off"}, {"MALLOC_TRIM_THRESHOLD_": "131072"}], ids=str
)
def test_freed_memory_is_kept(settings: dict[str, str]) -> None:
    """Ten times two arrays of 64 MB are 327,680 pages."""
    run = subprocess.run(
        [sys.executable, "-c", FAULTS],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=True,
    )
    kept, faults = run.stdout.split()
    assert (kept == "True") == (not settings)
    assert int(faults) < 1000 if kept == "True" else int(faults) > 100_000
