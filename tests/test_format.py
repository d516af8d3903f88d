"""The file: round trip, foreign tools, atomic writes, the golden program."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
import torch
from safetensors import safe_open

import mlxify

from .attacks.build import METHOD, program_file

GOLDEN = Path(__file__).parent / "golden"


class Two(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(4, 8)
        self.second = torch.nn.Linear(8, 4)
        self.tied = self.first

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        h = self.tied(self.second(self.first(x)))
        return {"out": h * float("1e-8"), "sum": x + 0.1}


def program() -> mlxify.Program:
    torch.manual_seed(0)
    return mlxify.convert(Two().eval(), (torch.randn(3, 4),))


def test_round_trip_keeps_everything(tmp_path: Path) -> None:
    first, path, again = program(), tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    first.save(path)
    loaded = mlxify.load(path)
    assert str(loaded) == str(first)
    loaded.save(again)
    with safe_open(path, "numpy") as a, safe_open(again, "numpy") as b:
        assert a.metadata() == b.metadata()
        assert all(np.array_equal(a.get_tensor(k), b.get_tensor(k)) for k in a.keys())  # noqa: SIM118
    x = np.ones((3, 4), np.float32)
    for a, b in zip(first(x).values(), loaded(x).values(), strict=True):
        assert mx.array_equal(a, b)


def test_other_tools_open_it(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    program().save(path)
    with safe_open(path, framework="pt") as file:
        assert file.metadata()["format"] == "mlxify"
        assert len(file.keys()) == 4  # tied weights are stored once
        torch.manual_seed(0)
        assert torch.equal(file.get_tensor("second.weight"), Two().second.weight)


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.safetensors")), ids=lambda p: p.stem)
def test_golden_programs_load_for_ever(path: Path) -> None:
    """Files written by earlier versions load, and give the results written beside them."""
    expected = json.loads(path.with_suffix(".json").read_text())
    results = mlxify.load(path)(*[np.array(a["values"], a["dtype"]) for a in expected["inputs"]])
    for name, wanted in expected["outputs"].items():
        np.testing.assert_allclose(np.array(results[name]), np.array(wanted), rtol=1e-5, atol=1e-6)


def test_there_is_a_golden_program() -> None:
    assert list(GOLDEN.glob("*.safetensors"))


SAVER = """
import sys, mlx.core as mx, mlxify
program = mlxify.load(sys.argv[1])
program.graph.weights["second.weight"] = mx.random.normal((4, 8))
print("ready", flush=True)
while True:
    program.save(sys.argv[2])
"""


@pytest.mark.parametrize("kind, value, other", [("int", 3, True), ("float", 0.5, "x"), ("bool", True, 1)])
def test_host_numbers_keep_their_kind(kind: str, value: object, other: object, tmp_path: Path) -> None:
    """An argument that is a Python number is none of an array's dtypes, in the file as in a call."""
    path = tmp_path / "a.safetensors"
    fields = {"inputs": [["x", f"number:{kind}", []]], "symbols": {}, "instructions": [], "outputs": ["%0"]}
    path.write_bytes(program_file({"methods": [{**METHOD, **fields}]}))
    mlxify.load(path).save(path)
    loaded = mlxify.load(path)
    assert loaded(value) is value
    with pytest.raises(mlxify.InputError, match=f"a Python {kind}"):
        loaded(other)


def test_killed_while_saving_leaves_a_whole_file(tmp_path: Path) -> None:
    source, path = tmp_path / "source.safetensors", tmp_path / "target.safetensors"
    program().save(source)
    program().save(path)
    rng = random.Random(0)
    for _ in range(12):
        child = subprocess.Popen([sys.executable, "-c", SAVER, source, path], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(rng.uniform(0, 0.05))
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        assert mlxify.load(path).summary().weights == 4


def test_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.safetensors"
    program().save(path)
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(mx, "save_safetensors", full)
    with pytest.raises(OSError, match="No space"):
        program().save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["a.safetensors"]
