"""Hostile files: each must give ProgramError, quickly, without crashing and without much memory."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import mlxify

from .build import ATTACKS, good

MAX_MB = 256
MAX_SECONDS = 10


def run_all(folder: Path) -> dict[str, dict]:
    """Outcomes by name. A crash of the child counts for the file at hand; a new child goes on after it."""
    (folder / "good.safetensors").write_bytes(good())
    waiting, outcomes = list(ATTACKS), {}
    for index, name in enumerate(waiting):
        (folder / f"{index}.safetensors").write_bytes(ATTACKS[name]())
    files = {name: str(folder / f"{index}.safetensors") for index, name in enumerate(waiting)}
    while waiting:
        lines = "".join(json.dumps([name, files[name]]) + "\n" for name in waiting)
        command = [sys.executable, "-m", "tests.attacks.child", str(folder / "good.safetensors")]
        child = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=300)
        rows = [json.loads(line) for line in child.stdout.splitlines()]
        done = {row["name"]: row for row in rows if "name" in row}
        outcomes |= done
        waiting = [name for name in waiting if name not in done]
        if waiting and child.returncode != 0:
            outcomes[waiting[0]] = {
                "outcome": f"crash {child.returncode}: {child.stderr[-500:]}",
                "mb": 0,
                "s": 0,
            }
            waiting = waiting[1:]
    return outcomes


@pytest.fixture(scope="session")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict]:
    return run_all(tmp_path_factory.mktemp("attacks"))


@pytest.mark.xdist_group("attacks")
@pytest.mark.parametrize("name", list(ATTACKS))
def test_attack(name: str, outcomes: dict[str, dict]) -> None:
    row = outcomes[name]
    assert row["outcome"].startswith("ProgramError: "), row["outcome"]
    assert row["mb"] < MAX_MB
    assert row["s"] < MAX_SECONDS


def test_good_file_loads(tmp_path: Path) -> None:
    """The file from which the attacks are made is itself a program, so they fail for their own reasons."""
    path = tmp_path / "good.safetensors"
    path.write_bytes(good())
    assert mlxify.load(path).summary().weights == 1


def test_enough_attacks() -> None:
    assert len(ATTACKS) >= 60
