"""Program.profile and `mlxify profile`: what is timed, how it adds up, and that nothing changes."""

import json
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import mlxify
from mlxify.cli.app import app
from mlxify.profile import Profile


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(8, 8)

    def forward(self, x):
        return torch.tanh(self.fc(x))


class Net(torch.nn.Module):
    """Two modules, a counter, a cache that is written to, random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = Layer(), Layer()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("cache", torch.zeros(4, 8))

    def forward(self, x):
        self.calls.add_(1)
        y = self.two(self.one(x))
        self.cache.copy_(self.cache + y.sum(0) + torch.rand(8))
        return {"y": y, "rows": x.shape[0]}


@pytest.fixture(scope="module")
def program() -> mlxify.Program:
    torch.manual_seed(0)
    rows = torch.export.Dim("rows", min=2, max=64)
    return mlxify.convert(Net().eval(), (torch.ones(3, 8),), dynamic_shapes=({0: rows},))


X = np.ones((5, 8), np.float32)


@pytest.fixture(scope="module")
def result(program: mlxify.Program) -> Profile:
    return program.profile(X, rounds=3)


def test_every_instruction_is_timed_once(program: mlxify.Program, result: Profile) -> None:
    names = [t.op for t in result.instructions]
    assert names.count("tanh") == 2 and {"random_uniform"} & set(names)
    assert all(t.seconds > 0 for t in result.instructions)
    assert result.method == "forward" and result.rounds == 3 and result.call_seconds > 0
    assert result.wait_seconds > 0


def test_groups_add_up(result: Profile) -> None:
    for groups in (result.by_instruction(), result.by_module(), result.by_line()):
        assert sum(g.seconds for g in groups) == pytest.approx(result.seconds)
        assert sum(g.count for g in groups) == len(result.instructions)
        assert sum(g.bytes_read for g in groups) == sum(t.bytes_read for t in result.instructions)
        assert [g.seconds for g in groups] == sorted((g.seconds for g in groups), reverse=True)


def test_modules_and_lines_are_the_users(result: Profile) -> None:
    assert {"one", "one.fc", "two", "two.fc", "(model)"} <= {g.name for g in result.by_module()}
    assert {"one", "two", "(model)"} == {g.name for g in result.by_module(depth=1)}
    assert any("return torch.tanh(self.fc(x))" in g.name for g in result.by_line())


def test_bytes_are_those_of_the_arrays(result: Profile) -> None:
    (tanh, _) = (t for t in result.instructions if t.op == "tanh")
    assert tanh.bytes_read == tanh.bytes_written == 5 * 8 * 4


def test_the_state_stays_as_it_was(program: mlxify.Program) -> None:
    program.reset()
    program(X)
    before = program.state
    program.profile(X, rounds=1)
    assert before.keys() == program.state.keys()
    for name, array in program.state.items():
        assert array is before[name], name
    assert program.state["calls"].item() == 1
    again = program.session()
    again(X)
    again(X)
    program(X)
    for name, array in again.state.items():
        assert mx.array_equal(array, program.state[name]), name


def test_a_session_is_timed_on_its_own_state() -> None:
    class Bounded(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("at", torch.zeros((), dtype=torch.int64))
            self.register_buffer("rows", torch.zeros(4, 2))

        def forward(self, x):
            y = torch.index_copy(self.rows, 0, self.at.reshape(1), x)
            self.rows.copy_(y)
            self.at.add_(1)
            return y.sum(0)

    program = mlxify.convert(Bounded(), (torch.ones(1, 2),))
    session = program.session()
    for _ in range(3):
        session(np.ones((1, 2), np.float32))
    session.profile(
        np.ones((1, 2), np.float32), rounds=4
    )  # the cache has room for one more step, not for six
    assert session.state["at"].item() == 3 and program.state["at"].item() == 0


def test_methods_by_name() -> None:
    program = mlxify.convert(
        {name: torch.export.export(Layer(), (torch.ones(size, 8),)) for name, size in (("a", 2), ("b", 3))}
    )
    assert program.profile(np.ones((3, 8), np.float32), method="b", rounds=1).method == "b"
    with pytest.raises(mlxify.InputError, match="several methods"):
        program.profile(np.ones((3, 8), np.float32))
    with pytest.raises(mlxify.InputError, match="no method 'c'; this program has a, b"):
        program.profile(np.ones((3, 8), np.float32), method="c")


def test_mistakes(program: mlxify.Program) -> None:
    with pytest.raises(mlxify.InputError, match=r"the input 'x' .* has a size rows"):
        program.profile(np.ones((1, 8), np.float32))
    with pytest.raises(ValueError, match="at least one round"):
        program.profile(X, rounds=0)


def test_text_and_json(result: Profile) -> None:
    text = str(result)
    assert text.startswith("forward on ") and "medians of 3 rounds" in text
    for title in ("instruction", "module", "line"):
        assert f"written  {title}\n" in text
    data = json.loads(json.dumps(result.as_dict()))
    assert len(data["instructions"]) == len(result.instructions)
    assert {"by_instruction", "by_module", "by_line", "call_seconds", "device"} < data.keys()


def test_command_line(program: mlxify.Program, tmp_path: Path) -> None:
    program.save(tmp_path / "net.safetensors")
    arguments = ["profile", str(tmp_path / "net.safetensors"), "-i", "x=float32[3,8]", "--rounds", "1"]
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 0 and "one by one" in shown.output and "tanh" in shown.output
    data = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).output)
    assert data["method"] == "forward" and data["instructions"][0].keys() >= {"op", "seconds", "bytes_read"}
