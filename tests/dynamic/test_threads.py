"""Sessions used from several threads: each gets what it would get alone."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

import mlxify
from mlxify.run import Program
from tests.dynamic.rows import randn

THREADS, CALLS = 8, 200


class Memory(nn.Module):
    """Remembers its last inputs in a ring, and what it said last."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(6, 4)
        self.register_buffer("ring", torch.zeros(5, 4))
        self.register_buffer("position", torch.tensor([0]))
        self.register_buffer("last", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        new = torch.tanh(self.layer(x).mean(0) + self.last + self.ring.sum(0))
        self.ring.index_copy_(0, self.position, new[None])
        self.position.copy_((self.position + 1) % 5)
        self.last.copy_(new)
        return new * 2


def inputs(thread: int, call: int) -> mx.array:
    """Of several lengths, so that several traces are made at once."""
    return mx.array(randn(1 + (thread + call) % 3, 6, seed=1000 * thread + call).numpy())


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("threads") / "memory.safetensors"
    shapes = ({0: Dim("n", min=1, max=9)},)
    mlxify.convert(Memory().eval(), (randn(2, 6),), dynamic_shapes=shapes).save(path)
    return path


def in_threads(work: Callable[[int], Any]) -> list[Any]:
    """What `work` gives in each thread; all begin together."""
    barrier = Barrier(THREADS)

    def begin(thread: int) -> Any:
        barrier.wait()
        return work(thread)

    with ThreadPoolExecutor(THREADS) as pool:
        return [future.result() for future in [pool.submit(begin, n) for n in range(THREADS)]]


def talk(session: Any, thread: int) -> np.ndarray:
    """All results of a session, and its state at the end."""
    results = [np.array(session(inputs(thread, call))) for call in range(CALLS)]
    return np.stack([*results, *(np.array(session.state["ring"]))])


@pytest.mark.parametrize("compile", [False, True], ids=["eager", "compiled"])
def test_sessions_in_threads(saved: Path, compile: bool) -> None:
    """The first calls, which bind the weights and trace, come from all threads at once."""
    alone = Program(mlxify.load(saved).graph, compile=compile)
    expected = [talk(alone.session(), thread) for thread in range(THREADS)]
    program = Program(mlxify.load(saved).graph, compile=compile)
    for thread, actual in enumerate(in_threads(lambda thread: talk(program.session(), thread))):
        np.testing.assert_array_equal(actual, expected[thread])


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("n", torch.tensor(0))
        self.register_buffer("m", torch.tensor(0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.n += x
        self.m -= x
        return self.n * 1


class Look(nn.Module):
    def __init__(self, counter: Counter) -> None:
        super().__init__()
        self.counter = counter

    def forward(self) -> torch.Tensor:
        return self.counter.n + self.counter.m


def test_one_state_used_by_all_threads(tmp_path: Path) -> None:
    """Calls come one after another; whoever looks sees the state between two of them."""
    counter = Counter()
    one = torch.tensor(1)
    methods = {
        "forward": torch.export.export(counter, (one,)),
        "look": torch.export.export(Look(counter), ()),
    }
    program = mlxify.convert(methods)

    def work(thread: int) -> list[int]:
        seen = []
        for call in range(CALLS):
            seen.append(program(mx.array(1, mx.int64)).item())
            state = program.state
            assert state["n"].item() + state["m"].item() == 0 == program.look().item()
            if call % 100 == 0:
                program.save_state(tmp_path / f"{thread}.safetensors")
        return seen

    seen = in_threads(work)
    assert sorted(n for each in seen for n in each) == list(range(1, THREADS * CALLS + 1))
    assert all(each == sorted(each) for each in seen)
