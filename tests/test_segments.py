"""Runs of instructions as one graph, on a CPU without fused kernels: same results, traced when it pays, safe."""

import io
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
import torch

import mlxify
from mlxify import segments
from mlxify.inputs import to_numpy
from mlxify.isa import INSTRUCTIONS
from mlxify.run import Program
from mlxify.segments import Mode, Segment
from mlxify.unfused import kinds, tracing_works
from tests.attacks import build

pytestmark = pytest.mark.skipif(
    mx.default_device() != mx.Device(mx.cpu) or not tracing_works(), reason="programs run otherwise here"
)


class Layers(torch.nn.Module):
    """Elementwise steps that mx.compile would fuse, a size that is a host number, a constant -0.0."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(8, 8)
        self.register_buffer("negative_zero", torch.tensor(-0.0))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.exp(self.inner(x)) * x + x * 2
        return y.sum(0) / x.shape[0], torch.floor_divide(x, self.negative_zero)


@pytest.fixture(scope="module")
def model() -> Layers:
    torch.manual_seed(0)
    return Layers().eval()


@pytest.fixture
def program(model: Layers) -> Program:
    rows = torch.export.Dim("rows", min=1, max=500)
    return Program(mlxify.convert(model, (torch.ones(3, 8),), dynamic_shapes=({0: rows},)).graph)


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The threads in which a segment was traced."""
    seen: list[str] = []
    trace = Segment._new_trace

    def counted(self: Segment, numbers: list[object]) -> object:
        seen.append(threading.current_thread().name)
        return trace(self, numbers)

    monkeypatch.setattr(Segment, "_new_trace", counted)
    return seen


def check(program: Program, model: Layers, rows: int) -> None:
    x = torch.arange(rows * 8.0).reshape(rows, 8) / 100 - 1
    for ours, theirs in zip(program(mx.array(x.numpy())), model(x), strict=True):
        # One product of eight, an exponential and a sum of up to 70 rows, rounded in another order.
        np.testing.assert_allclose(to_numpy(ours), theirs.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_traced_at_second_sight(program: Program, model: Layers, traces: list[str]) -> None:
    assert program.mode is Mode.TRACED
    for rows, traced in [(3, 0), (3, 1), (3, 1), (5, 1), (5, 2), (3, 2), (1, 2)]:
        check(program, model, rows)
        assert len(traces) == traced


def test_nothing_is_fused(program: Program) -> None:
    x = mx.ones((3, 8))
    for _ in range(3):
        found = kinds(*program(x))
        assert "Exp" in found or "Power" in found
        assert not any(kind.startswith("Compiled") for kind in found)
    fused = kinds(mx.compile(lambda x: mx.exp(x) * x + x)(x))
    assert any(kind.startswith("Compiled") for kind in fused)  # other people's functions are


def test_few_traces_are_kept(program: Program, model: Layers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "MAX_TRACES", 4)
    for rows in [*range(1, 9), *range(1, 9)]:
        check(program, model, rows)
        check(program, model, rows)
    (segment,) = (s for s in program.bound_method("forward")._call.steps if isinstance(s, Segment))
    assert len(segment._local.by_use) == 4


def test_other_streams_and_threads(program: Program, model: Layers, traces: list[str]) -> None:
    for _ in range(2):
        check(program, model, 3)
        with mx.stream(mx.new_stream(mx.cpu)):
            check(program, model, 3)
            check(program, model, 3)
            assert not any(kind.startswith("Compiled") for kind in kinds(*program(mx.ones((3, 8)))))

    def use() -> None:
        for rows in (3, 3, 70, 70):
            check(program, model, rows)

    threads = [threading.Thread(target=use, name=f"user {n}") for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(traces.count(thread.name) == 2 for thread in threads)


def test_inside_the_users_own_mx_compile(program: Program, model: Layers) -> None:
    x = mx.arange(24.0).reshape(3, 8) / 100
    wanted = program(x)
    outer = mx.compile(lambda x: [y * 2 for y in program(x)])
    for _ in range(3):
        # The second result is left out: mx.compile on a CPU writes -0.0 into its kernels as 0.0.
        assert mx.allclose(outer(x)[0], wanted[0] * 2, rtol=1e-5)
    check(program, model, 3)
    assert not any(kind.startswith("Compiled") for kind in kinds(*program(x)))


def test_where_the_user_has_switched_compiling_off(program: Program, model: Layers) -> None:
    mx.disable_compile()
    try:
        for _ in range(3):
            check(program, model, 3)
        calls = []
        counted = mx.compile(lambda x: calls.append(1) or x)
        counted(mx.ones(1)), counted(mx.ones(1))
        assert len(calls) == 2  # it is off still
    finally:
        mx.enable_compile()


def test_what_mlx_cannot_trace_runs_uncompiled(
    program: Program, model: Layers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(function: object) -> object:
        def call(arrays: list[mx.array]) -> list[mx.array]:
            raise IndexError("_Map_base::at")

        return call

    monkeypatch.setattr(segments, "traced", broken)
    check(program, model, 3)
    with pytest.warns(UserWarning, match="runs uncompiled: IndexError"):
        check(program, model, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(program, model, 3)


LONG = """
import sys
import mlx.core as mx
import mlxify

program = mlxify.load(sys.argv[1], compile={"True": True, "None": None}[sys.argv[2]])
for _ in range(3):
    assert mx.array_equal(program(mx.ones((3, 4))), mx.ones((3, 4)))
"""


@pytest.mark.parametrize("compile", [None, True])
def test_a_long_chain_does_not_overflow_the_stack(compile: bool | None, tmp_path: Path) -> None:
    """mx.compile goes through a graph by recursion; of 60,000 operations in a row it would end the process."""
    chain = [["negative", [f"%{n}"], [n + 1], 0] for n in range(4, 60_004)]
    first = ["multiply", ["%0", "%0"], [4], 0]
    path = tmp_path / "long.safetensors"
    path.write_bytes(build.instrs(first, *chain, outputs=["%60004"]))
    done = subprocess.run(
        [sys.executable, "-c", LONG, str(path), str(compile)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def chain(*arrays: mx.array) -> int:
    """The most operations in the arrays' graph of which each takes the result of the last."""
    text = io.StringIO()
    mx.export_to_dot(text, *arrays)
    lengths: dict[str, int] = {}
    for line in text.getvalue().splitlines():  # operations come after what they take
        if "->" in line:
            start, end = (name.strip('" ') for name in line.split("->"))
            lengths[end] = max(lengths.get(end, 0), lengths.get(start, 0) + line.startswith('"'))
    return max(lengths.values(), default=0)


FLOATS, INTEGERS = mx.linspace(0.1, 0.9, 17), mx.array([6, 10, 15])
LARGE = mx.zeros((1, 80, 80, 3))
MILLIONS = mx.zeros((1 << 12, 1 << 12))  # graphs are built, not computed
CHAINS = {
    "igamma": (FLOATS, FLOATS * 8),
    "igammac": (FLOATS, FLOATS * 8),
    "gcd": (INTEGERS, INTEGERS[::-1]),
    "searchsorted": (mx.zeros((3, 1 << 20)), mx.zeros((3, 5)), "left"),
    "erf": (MILLIONS.astype(mx.float16),),
    "erfcx": (FLOATS,),
    "erfinv": (FLOATS.astype(mx.float64),),
    "gelu": (MILLIONS.astype(mx.float64), "none"),
    "silu": (MILLIONS.astype(mx.float16),),
    "exp": (MILLIONS,),
    "sigmoid": (MILLIONS.astype(mx.float16),),
    "tanh": (MILLIONS.astype(mx.float16),),
    "softmax": (MILLIONS.astype(mx.float16), -1),
    "logsumexp": (MILLIONS, [0, 1], False),
    "scaled_dot_product_attention": (
        *[mx.zeros((1, 4, 8192, 64), mx.float16)] * 3,
        None,
        1.0,
        "bottom_right",
    ),
    "lgamma": (FLOATS,),
    "digamma": (FLOATS,),
    "zeta": (FLOATS + 1, FLOATS),
    "i0e": (FLOATS,),
    "polynomial": (FLOATS, [1.0] * 128),
    "random_binomial": (mx.random.key(0), FLOATS * 100, FLOATS),
    "random_poisson": (mx.random.key(0), FLOATS),
    "logcumsumexp": (mx.zeros((1 << 18,), mx.float64), 0),
    "layer_norm": (mx.zeros((64, 1 << 20)), *[mx.zeros((1 << 20,))] * 2, 1e-5),
    "sum": (mx.zeros((1 << 24,)), [0], False),
    "xor_sum": (mx.zeros((1 << 20,), mx.int64), [0], False),
    "conv": (mx.zeros((1, 900, 900, 3)), mx.zeros((3, 8, 8, 1)), None, [1, 1], [0, 0], [0, 0], [1, 1], 3),
    "max_pool": (LARGE, [32, 32], [1, 1], [0, 0], [1, 1], False),
    "argmax_pool": (LARGE, [32, 32], [1, 1], [0, 0], [1, 1], False),
}


@pytest.mark.parametrize("name", CHAINS)
def test_chains_are_as_short_as_declared(name: str) -> None:
    schema = INSTRUCTIONS[name]
    results = schema.fn(*CHAINS[name])
    found = chain(*(results if isinstance(results, (list, tuple)) else [results]))
    assert 0 < found <= schema.chain
