"""State: buffers that a model writes to are carried from call to call, as PyTorch carries them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
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
from tests.models import silero
from tests.models.test_programs import needs
from tests.ops.harness import compare

STEPS = 4


class Buffers(nn.Module):
    """A module with the buffers of a row, whose forward is the row's function."""

    def __init__(self, fn: Callable[..., Any], buffers: dict[str, torch.Tensor]) -> None:
        super().__init__()
        self.fn = fn
        for name, tensor in buffers.items():
            self.register_buffer(name, tensor.clone())

    def forward(self, *args: torch.Tensor) -> Any:
        return self.fn(self, *args)


@dataclass
class Row:
    """fn: what forward does with the module `m`; buffers: initial; args: the arguments of a step."""

    name: str
    fn: Callable[..., Any]
    buffers: dict[str, torch.Tensor]
    args: Callable[[int], tuple[Any, ...]] = lambda step: (randn(2, 3, seed=step),)
    compiled: bool = False
    train: bool = False
    module: Callable[[], nn.Module] | None = None
    dynamic: Any = None


def at(step: int) -> torch.Tensor:
    return torch.tensor(step)


def write(m: Any, name: str, value: torch.Tensor) -> torch.Tensor:
    getattr(m, name).copy_(value)
    return getattr(m, name) * 1


def do(*actions: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Run actions on the module and the argument, return a copy of every buffer."""

    def run(m: Any, *args: Any) -> Any:
        for action in actions:
            action(m, *args)
        return tuple(b * 1 for b in m.buffers())

    return run


def set_slice(m: Any, x: torch.Tensor) -> None:
    m.a[1:3] = x


def set_row(m: Any, x: torch.Tensor) -> None:
    m.a[1] = x[0]


def set_column(m: Any, x: torch.Tensor) -> None:
    m.a[:, 2] = x.flatten()[:4]


def set_every_second(m: Any, x: torch.Tensor) -> None:
    m.a[::2] += x


def set_at(m: Any, x: torch.Tensor, p: torch.Tensor) -> None:
    m.a[p.reshape(1)] = x[0]


def set_item(m: Any, x: torch.Tensor, p: torch.Tensor) -> None:
    n = p.item()
    torch._check(n >= 0)
    torch._check(n + 1 < 4)
    m.a[n : n + 2] = x


def set_mask(m: Any, x: torch.Tensor) -> None:
    m.a[m.a < 0.5] = 2.0


def narrow(m: Any, x: torch.Tensor, p: torch.Tensor) -> None:
    n = p.item()
    torch._check(n >= 0)
    torch._check(n + 2 <= 4)
    m.a.narrow(0, n, 2).copy_(x)


def roll(m: Any, x: torch.Tensor) -> None:
    m.a.copy_(torch.cat([m.a[2:], x]))


def view_twice(m: Any, x: torch.Tensor) -> None:
    v = m.a.view(12)
    v[3:9] = x.flatten()
    m.a.t()[0] += 1


def chained(m: Any, x: torch.Tensor) -> None:
    for i in range(3):
        m.a[i].add_(x[0]).mul_(0.5)


def two(m: Any, x: torch.Tensor) -> None:
    m.a.add_(1)
    m.n.add_(m.a.sum().long())


def swap(m: Any, x: torch.Tensor) -> None:
    old = m.a.clone()
    m.a.copy_(m.b + 1)
    m.b.copy_(old)


def counts(m: Any, x: torch.Tensor) -> torch.Tensor:
    m.n += 1
    return x * m.n


def ring(m: Any, x: torch.Tensor) -> torch.Tensor:
    m.a[(m.n % 4).reshape(1)] = x[0]
    m.n += 1
    return m.a.sum(0)


def ema(m: Any, x: torch.Tensor) -> torch.Tensor:
    m.a.lerp_(x[0], 0.1)
    return x - m.a


def assign(m: Any, x: torch.Tensor) -> torch.Tensor:
    m.a = m.a + x.sum()
    return m.a * 1


def returns_buffer(m: Any, x: torch.Tensor) -> torch.Tensor:
    m.a[1:3] = x
    return m.a


def given(m: Any, x: torch.Tensor) -> torch.Tensor:
    """For rows with a module of their own."""
    raise NotImplementedError


def no_result(m: Any, x: torch.Tensor) -> None:
    m.a.add_(x.sum())


def reads_before(m: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    before = m.a.sum()
    m.a.add_(x[0])
    return before, m.a.sum()


A = {"a": randn(4, 3, seed=9)}
N = {"n": torch.tensor(0)}
X = randn(2, 3)
IDS = torch.tensor([2, 0])
with_position = lambda step: (randn(2, 3, seed=step), at(step % 3))


def index(step: int) -> tuple[Any, ...]:
    return randn(2, 3, seed=step), (IDS + step) % 4


ROWS = [
    Row("slice", do(set_slice), A, compiled=True),
    Row("select", do(set_row), A),
    Row("column", do(set_column), A),
    Row("steps, added", do(set_every_second), A),
    Row("index a tensor", do(set_at), A, with_position),
    Row("slice at item()", do(set_item), A, with_position, compiled=True),
    Row("narrow at item()", do(narrow), A, with_position),
    Row("mask", do(set_mask), A),
    Row("copy_", do(lambda m, x: m.a[:2].copy_(x)), A),
    Row("copy_ of another dtype", do(lambda m, x: m.a[:2].copy_(x.double())), A),
    Row("fill_ and zero_", do(lambda m, x: m.a[0].fill_(2), lambda m, x: m.a[1].zero_()), A),
    Row("index_copy_", do(lambda m, x, i: m.a.index_copy_(0, i, x)), A, index, compiled=True),
    Row("index_copy_ of one row", do(lambda m, x, i: m.a.index_copy_(0, i[:1], x[:1])), A, index),
    Row("index_add_", do(lambda m, x, i: m.a.index_add_(0, i, x)), A, index),
    Row("index_fill_", do(lambda m, x, i: m.a.index_fill_(0, i, 3.0)), A, index),
    Row("index_put_", do(lambda m, x, i: m.a.index_put_((i,), x)), A, index, compiled=True),
    Row("index_put_, accumulated", do(lambda m, x, i: m.a.index_put_((i,), x, accumulate=True)), A, index),
    Row("index_put_ on axis 1", do(lambda m, x, i: m.a.__setitem__((slice(None), i[:1] % 3), x[0, 0])), A, index),
    Row("scatter_", do(lambda m, x, i: m.a.scatter_(0, i[:, None].expand(2, 3), x)), A, index),
    Row("scatter_add_", do(lambda m, x, i: m.a.scatter_add_(0, i[:, None].expand(2, 3), x)), A, index),
    Row("scatter_reduce_", do(lambda m, x, i: m.a.scatter_reduce_(0, i[:, None].expand(2, 3), x, "amax")), A, index),
    Row("masked_fill_", do(lambda m, x: m.a.masked_fill_(m.a > 0, -1.0)), A),
    Row("masked_scatter_", do(lambda m, x: m.a.masked_scatter_(m.a > 100, x)), A),
    Row("a shift by cat", do(roll), A, compiled=True),
    Row("roll", do(lambda m, x: m.a.copy_(m.a.roll(-1, 0))), A),
    Row("through views", do(view_twice), A),
    Row("a chain", do(chained), A),
    Row("two buffers", do(two), A | N),
    Row("a swap of two", do(swap), A | {"b": randn(4, 3, seed=5)}),
    Row("a counter", counts, N, compiled=True),
    Row("a ring with its own position", ring, A | N),
    Row("lerp_", ema, {"a": torch.zeros(3)}),
    Row("assigned", assign, A),
    Row("returned itself", returns_buffer, A, compiled=True),
    Row("read before and after", reads_before, A),
    Row("float16", do(lambda m, x: m.a[1:3].copy_(x)), {"a": A["a"].half()}),
    Row("bfloat16", do(lambda m, x: m.a[1:3].copy_(x)), {"a": A["a"].bfloat16()}),
    Row("float64", do(lambda m, x: m.a[1:3].add_(x)), {"a": A["a"].double()}),
    Row("bool", do(lambda m, x: m.a.logical_xor_(x[0] > 0)), {"a": torch.tensor([True, False, True])}),
    Row("uint8", do(lambda m, x: m.a.add_(100)), {"a": torch.tensor([1, 2], dtype=torch.uint8)}),
    Row("complex64", do(lambda m, x: m.a.mul_(1j)), {"a": torch.ones(3, dtype=torch.complex64)}),
    Row("empty", do(lambda m, x: m.a.add_(1)), {"a": torch.zeros(0, 3)}),
    Row("0-d", do(lambda m, x: m.a.add_(x.sum())), {"a": torch.tensor(1.0)}),
    Row("no result", no_result, {"a": torch.ones(3)}),
    Row("a buffer set to the argument", lambda m, x: write(m, "a", x), {"a": torch.zeros(2, 3)}),
    Row("a buffer set to a constant", lambda m, x: write(m, "a", torch.ones(2, 3)), {"a": torch.zeros(2, 3)}),
    Row("dynamic length", lambda m, x: write(m, "a", x.sum(0)) + x, {"a": torch.zeros(3)},
        lambda step: (randn(step + 2, 3, seed=step),), dynamic={0: Dim("n", min=2, max=9)}, compiled=True),
    Row("batch norm in training form", given, {}, lambda s: (randn(4, 3, 5, seed=s),), train=True,
        module=lambda: nn.BatchNorm1d(3)),
    Row("instance norm that tracks", given, {}, lambda s: (randn(4, 3, 5, seed=s),), train=True,
        module=lambda: nn.InstanceNorm1d(3, track_running_stats=True)),
]  # fmt: skip


class Cell(nn.Module):
    """A recurrent layer that keeps its state."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.rnn = getattr(nn, kind)(3, 5, batch_first=True)
        self.register_buffer("h", torch.zeros(1, 2, 5))
        if kind == "LSTM":
            self.register_buffer("c", torch.zeros(1, 2, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if hasattr(self, "c"):
            out, (h, c) = self.rnn(x, (self.h, self.c))
            self.c.copy_(c)
        else:
            out, h = self.rnn(x, self.h)
        self.h.copy_(h)
        return out


for kind in ("RNN", "GRU", "LSTM"):
    ROWS.append(
        Row(
            kind,
            given,
            {},
            lambda s: (randn(2, 4, 3, seed=s),),
            module=lambda kind=kind: Cell(kind),
        )
    )


def build(row: Row) -> nn.Module:
    module = row.module() if row.module else Buffers(row.fn, row.buffers)
    return module.train(row.train)


def check_state(program: Any, module: nn.Module, where: str) -> None:
    buffers = dict(module.named_buffers())
    assert program.state, where
    for name, array in program.state.items():
        compare(array, buffers[name], None, f"{where}: state {name}")


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_rows(row: Row, tmp_path: Path) -> None:
    """Results and state of some calls, then once more after reset()."""
    module = build(row)
    initial = copy.deepcopy(module)
    shapes = None
    if row.dynamic:
        shapes = (row.dynamic,) if row.module else ((row.dynamic,),)
    with torch.no_grad():
        program = mlxify.convert(module, row.args(0), dynamic_shapes=shapes)
    program.save(tmp_path / "row.safetensors")
    forms = {
        "eager": Program(program.graph, compile=False),
        "loaded": mlxify.load(tmp_path / "row.safetensors"),
    }
    if row.compiled:
        forms["compiled"] = Program(program.graph, compile=True)
    check_state(program, initial, "initial")
    with torch.no_grad():
        for turn in range(2):
            module = copy.deepcopy(initial)
            for step in range(STEPS):
                args = row.args(step)
                expected = module(*copy.deepcopy(args))
                for form, candidate in forms.items():
                    where = f"{form}, turn {turn}, step {step}"
                    compare(candidate(*args), expected, None, where)
                    check_state(candidate, module, where)
            for candidate in forms.values():
                candidate.reset()
                check_state(candidate, initial, "after reset")


def accumulator() -> Program:
    return mlxify.convert(Buffers(lambda m, x: write(m, "a", m.a + x), {"a": torch.zeros(2, 3)}), (X,))


def ones(program: Any, count: int) -> list[float]:
    return [program(mx.ones((2, 3)))[0, 0].item() for _ in range(count)]


def test_sessions_are_independent() -> None:
    program = accumulator()
    one, two = program.session(), program.session()
    assert ones(one, 2) == [1, 2] and ones(two, 3) == [1, 2, 3] and ones(program, 1) == [1]
    assert [s.state["a"][0, 0].item() for s in (one, two, program)] == [2, 3, 1]
    one.reset()
    assert ones(one, 1) == [1] and ones(two, 1) == [4] and ones(program, 1) == [2]
    assert ones(program.session(), 1) == [1], "a session starts from the initial state, not the program's"


def test_what_state_gives_stays_as_it_is() -> None:
    """Neither later calls nor writing into the dict or an array change the one or the other."""
    program = accumulator()
    ones(program, 1)
    kept = program.state
    result = program(mx.ones((2, 3)))
    kept["a"][0, 0] = 100
    result[1, 1] = 100
    del kept["a"]
    assert ones(program, 1) == [3] and program.state["a"].tolist() == [[3.0] * 3] * 2
    kept = program.state["a"]
    ones(program, 2)
    assert kept.tolist() == [[3.0] * 3] * 2 and program.state["a"].tolist() == [[5.0] * 3] * 2


def test_a_saved_program_holds_the_initial_state(tmp_path: Path) -> None:
    program = accumulator()
    ones(program, 3)
    program.save(tmp_path / "p.safetensors")
    assert ones(mlxify.load(tmp_path / "p.safetensors"), 2) == [1, 2] and ones(program, 1) == [4]


def test_state_is_saved_and_loaded(tmp_path: Path) -> None:
    program, path = accumulator(), tmp_path / "state.safetensors"
    session = program.session()
    ones(session, 2)
    session.save_state(path)
    ones(session, 5)
    program.load_state(path)
    assert ones(program, 2) == [3, 4] and ones(session, 1) == [8]
    program.save_state(path)  # over the file that it was loaded from
    session.load_state(path)
    assert ones(session, 1) == [5]
    program.save(tmp_path / "p.safetensors")
    loaded = mlxify.load(tmp_path / "p.safetensors")
    loaded.load_state(path)
    assert ones(loaded, 1) == [5]
    loaded.reset()
    assert ones(loaded, 1) == [1]


class Other(nn.Module):
    def __init__(self, **buffers: torch.Tensor) -> None:
        super().__init__()
        for name, tensor in buffers.items():
            self.register_buffer(name, tensor)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for buffer in self.buffers():
            buffer.add_(1)
        return x


@pytest.mark.parametrize(
    ("buffers", "message"),
    [
        ({"b": torch.zeros(2, 3)}, r"should hold 'a', float32\[2, 3\]"),
        ({"a": torch.zeros(3, 2)}, r"should hold 'a', float32\[2, 3\]"),
        ({"a": torch.zeros(2, 3).half()}, r"should hold 'a', float32\[2, 3\]"),
    ],
)
def test_a_state_that_does_not_fit(buffers: dict, message: str, tmp_path: Path) -> None:
    """is refused, and the state stays as it was."""
    path = tmp_path / "state.safetensors"
    mlxify.convert(Other(**buffers), (X,)).save_state(path)
    program = accumulator()
    ones(program, 2)
    with pytest.raises(mlxify.ProgramError, match=message):
        program.load_state(path)
    assert ones(program, 1) == [3]


def test_files_that_are_no_state(tmp_path: Path) -> None:
    program = accumulator()
    program.save(tmp_path / "p.safetensors")
    (tmp_path / "cut").write_bytes((tmp_path / "p.safetensors").read_bytes()[:-4])
    with pytest.raises(mlxify.ProgramError, match="not a state file"):
        program.load_state(tmp_path / "p.safetensors")
    with pytest.raises(mlxify.ProgramError):
        program.load_state(tmp_path / "cut")
    with pytest.raises(FileNotFoundError):
        program.load_state(tmp_path / "nothing")
    program.save_state(tmp_path / "s.safetensors")
    with pytest.raises(mlxify.ProgramError, match="not an mlxify program"):
        mlxify.load(tmp_path / "s.safetensors")
    with pytest.raises(FileNotFoundError):
        program.save_state(tmp_path / "no folder" / "s.safetensors")
    assert ones(program, 1) == [1]


def test_a_program_without_state(tmp_path: Path) -> None:
    program = mlxify.convert(nn.Linear(3, 3), (X,))
    assert program.state == {} and program.session().state == {}
    program.reset()
    program.save_state(tmp_path / "s.safetensors")
    program.load_state(tmp_path / "s.safetensors")
    assert mx.array_equal(program.session()(X), program(X)).item()


def test_a_call_with_wrong_arguments_changes_nothing() -> None:
    program = accumulator()
    ones(program, 1)
    for wrong in (mx.ones((3, 3)), mx.ones((2, 3), mx.int32), "text", None):
        with pytest.raises(mlxify.InputError):
            program(wrong)
    with pytest.raises(mlxify.InputError):
        program()
    assert ones(program, 1) == [2]


def fails_while_built(m: Any, x: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
    """The size of the result is looked at while the call is built, after the counter's new value was."""
    m.n += 1
    n = p.item()
    torch._check(n >= 0)
    torch._check(n <= 6)
    return x.flatten()[:6].repeat(2)[:n] * m.n


def test_a_call_that_fails_while_it_is_built_changes_nothing() -> None:
    program = mlxify.convert(Buffers(fails_while_built, N), (torch.ones(2, 3), at(1)))
    assert program(X, at(2)).shape == (2,)
    for wrong in (-1, 7):
        with pytest.raises(mlxify.InputError):
            program(X, at(wrong))
    program(X, at(0))
    assert program.state["n"].item() == 2


def checked(m: Any, x: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
    torch._assert_async(p < 4, "the position is not in the cache")
    m.a[(p % 4).reshape(1)] = x[0]
    m.n += 1
    return m.a * 1


def test_a_condition_that_does_not_hold_changes_nothing() -> None:
    program = mlxify.convert(Buffers(checked, A | N), (X, at(0)))
    program(X, at(1))
    before = {name: array.tolist() for name, array in program.state.items()}
    with pytest.raises(mlxify.InputError, match="the position is not in the cache"):
        program(X + 1, at(5))
    assert {name: array.tolist() for name, array in program.state.items()} == before
    program(X, at(3))
    assert program.state["n"].item() == 2


def decomposes(m: Any, x: torch.Tensor) -> torch.Tensor:
    m.n += 1
    return torch.linalg.svdvals(x) * m.n


def lost_session() -> tuple[Program, Any]:
    program = mlxify.convert(Buffers(decomposes, N), (torch.eye(2),))
    session = program.session()
    session(mx.eye(2))
    with pytest.raises(RuntimeError, match="SVD"):
        session(mx.full((2, 2), float("nan")))
    return program, session


def test_a_failed_evaluation_marks_its_session(tmp_path: Path) -> None:
    """It had given up its buffers; others go on."""
    program, session = lost_session()
    for use in (
        lambda: session(mx.eye(2)),
        lambda: session.state,
        lambda: session.save_state(tmp_path / "s.safetensors"),
    ):
        with pytest.raises(mlxify.ProgramError, match=r"state of this session was lost .*reset\(\)"):
            use()
    assert not (tmp_path / "s.safetensors").exists()
    assert program(mx.eye(2)).tolist() == [1, 1] and program.session()(mx.eye(2)).tolist() == [1, 1]
    session.reset()
    assert session(mx.eye(2)).tolist() == [1, 1] and session.state["n"].item() == 1


def test_a_lost_session_takes_a_saved_state(tmp_path: Path) -> None:
    program, session = lost_session()
    program(mx.eye(2))
    program.save_state(tmp_path / "s.safetensors")
    session.load_state(tmp_path / "s.safetensors")
    assert session(mx.eye(2)).tolist() == [2, 2]


CACHE = (1, 8, 2048, 64)  # 4 MB


class Cache(nn.Module):
    """One step of attention: keys and values are written into their cache, the query sees all."""

    def __init__(self, write: Callable[..., None]) -> None:
        super().__init__()
        self.write = write
        self.register_buffer("k", torch.zeros(CACHE))
        self.register_buffer("v", torch.zeros(CACHE))

    def forward(self, x: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
        self.write(self.k, x, p)
        self.write(self.v, x + 1, p)
        return (self.k[:, :, :4] + self.v[:, :, :4]).sum()


def by_slice(cache: torch.Tensor, x: torch.Tensor, p: torch.Tensor) -> None:
    n = p.item()
    torch._check(n >= 0)
    torch._check(n + 1 <= CACHE[2])
    cache[:, :, n : n + 1] = x


def by_index_put(cache: torch.Tensor, x: torch.Tensor, p: torch.Tensor) -> None:
    cache[:, :, p.reshape(1)] = x


def by_scatter(cache: torch.Tensor, x: torch.Tensor, p: torch.Tensor) -> None:
    cache.scatter_(2, p.reshape(1, 1, 1, 1).expand(1, 8, 1, 64), x)


WRITES = {
    "slice": by_slice,
    "index_put": by_index_put,
    "index_copy": lambda cache, x, p: cache.index_copy_(2, p.reshape(1), x),
    "index_copy of two": lambda cache, x, p: cache.index_copy_(
        2, torch.stack([p, p + 1]), x.expand(1, 8, 2, 64)
    ),
    "index_add": lambda cache, x, p: cache.index_add_(2, p.reshape(1), x),
    "scatter": by_scatter,
    "slice at 0": lambda cache, x, p: cache[:, :, :1].copy_(x + p),
}


@pytest.mark.parametrize("form", ["eager", "loaded", "compiled"])
@pytest.mark.parametrize("name", WRITES)
def test_caches_are_updated_in_place(name: str, form: str, tmp_path: Path) -> None:
    """Neither a copy of a whole cache per step nor memory that grows: what MLX allocated at most says so."""
    module = Cache(WRITES[name])
    x = randn(1, 8, 1, 64)
    program = mlxify.convert(module, (x, at(0)))
    if form == "loaded":
        program.save(tmp_path / "c.safetensors")
        program = mlxify.load(tmp_path / "c.safetensors")
    program = Program(program.graph, compile=form == "compiled")
    cache = 2 * 4 * 8 * 2048 * 64
    mx.eval(list(program.state.values()))  # a loaded program's initial state is read when it is first used
    mx.clear_cache()
    before = mx.get_active_memory()
    session = program.session()
    xs = mx.array(x.numpy())
    for step in range(3):
        compare(session(xs, at(step)), module(x, at(step)))
    for turn in range(2):
        mx.reset_peak_memory()
        for step in range(50):
            session(xs, mx.array(step, mx.int64))
        peak = mx.get_peak_memory() - before
        assert peak < 1.25 * cache, f"{peak / cache} caches at most in turn {turn}"


def test_a_result_that_is_the_cache_is_not_written_to() -> None:
    program = mlxify.convert(Buffers(returns_buffer, A), (X,))
    kept = program(X)
    values = kept.tolist()
    program(X + 1)
    assert kept.tolist() == values


class Stream(nn.Module):
    """Silero VAD with its context and its LSTM's state in buffers: a chunk in, a probability out."""

    def __init__(self) -> None:
        super().__init__()
        self.model = silero.load()
        self.register_buffer("context", torch.zeros(1, silero.CONTEXT))
        self.register_buffer("hidden", silero.initial_state())

    def forward(self, chunk: torch.Tensor) -> torch.Tensor:
        samples = torch.cat([self.context, chunk], 1)
        probability, hidden = self.model(samples, self.hidden)
        self.context.copy_(samples[:, -silero.CONTEXT :])
        self.hidden.copy_(hidden)
        return probability


@needs("silero_vad")
def test_silero_as_a_stream(tmp_path: Path) -> None:
    """Chunk by chunk, two streams in turn, as PyTorch's own loop over the whole signal says."""
    with torch.no_grad():
        mlxify.convert(Stream().eval(), (torch.zeros(1, silero.CHUNK),)).save(tmp_path / "silero.safetensors")
    program = mlxify.load(tmp_path / "silero.safetensors")
    signals = [silero.speech_like(2.5, seed) for seed in (1, 2)]
    sessions = [program, program.session()]
    results: list[list[float]] = [[], []]
    for start in range(0, len(signals[0]) - silero.CHUNK + 1, silero.CHUNK):
        for session, signal, result in zip(sessions, signals, results, strict=True):
            result.append(session(signal[None, start : start + silero.CHUNK]).item())
    for signal, result in zip(signals, results, strict=True):
        expected = silero.probabilities(silero.load(), signal)[: len(result)]
        assert expected.max() > 0.5
        np.testing.assert_allclose(result, expected, atol=1e-5)


def one_value_twice(m: Any, x: torch.Tensor) -> torch.Tensor:
    m.a.copy_(x)
    m.b.copy_(x)
    return x * 1


def test_what_pytorch_cannot_make_functional_is_refused_with_advice() -> None:
    zeros = torch.zeros(2, 3)
    tied = Other(a=zeros, b=zeros)
    for module in (Buffers(one_value_twice, {"a": zeros, "b": zeros}), tied):
        with pytest.raises(mlxify.ConversionError, match=r"under one name only|value\.clone"):
            mlxify.convert(module, (X,))
