"""examples/cpp: built with g++ against the MLX of this Python, it prints what the program gives in Python."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

EXAMPLE = Path(__file__).parent.parent / "examples" / "cpp"

pytestmark = pytest.mark.skipif(
    not shutil.which("g++") or not shutil.which("make"), reason="building takes g++ and make"
)


@pytest.fixture(scope="module")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cpp") / "run"
    command = ["make", "-C", str(EXAMPLE), f"PYTHON={sys.executable}", "CXX=g++", f"OUT={path}"]
    built = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert built.returncode == 0, built.stderr[-3000:]
    return path


@pytest.fixture(scope="module")
def export() -> ModuleType:
    spec = importlib.util.spec_from_file_location("cpp_export", EXAMPLE / "export.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_results_and_state_are_those_of_python(binary: Path, export: ModuleType, tmp_path: Path) -> None:
    expected = export.write(tmp_path)
    arguments = ["model.mlxfn", "inputs.safetensors", "state.safetensors", str(export.CALLS)]
    ran = subprocess.run([binary, *arguments], capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert len(lines) == len(expected) == 2
    for line, array in zip(lines, expected, strict=True):
        shape, *values = line.split()
        assert shape == f"[{','.join(map(str, array.shape))}]"
        np.testing.assert_allclose(np.array(values, np.float32).reshape(array.shape), array, rtol=1e-5)


def test_errors_are_told(binary: Path, tmp_path: Path) -> None:
    ran = subprocess.run(
        [binary, "absent.mlxfn", "x"], capture_output=True, text=True, timeout=120, cwd=tmp_path
    )
    assert ran.returncode == 1 and "absent.mlxfn" in ran.stderr
    assert subprocess.run([binary], capture_output=True, timeout=120).returncode == 2
