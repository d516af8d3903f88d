"""`mlxify doctor`: what it says of this installation, of one with a slow BLAS, and of one where MLX does not work."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import mlx.core as mx
import pytest

import mlxify
from mlxify import cli
from mlxify.blas import Blas
from mlxify.cli import doctor

ROOT = Path(__file__).parent.parent
SLOW = Blas(False, "MLX's own", None, 'scipy-openblas32 is not installed: pip install "mlxify[cpu]"')
FAST = Blas(True, "OpenBLAS 0.3.34 (Haswell)", 2, "")


def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *args: str) -> tuple[int, str]:
    monkeypatch.setattr(sys, "argv", ["mlxify", "doctor", *args])
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    capfd.readouterr()
    with pytest.raises(SystemExit) as end:
        cli.main()
    return int(str(end.value.code or 0)), capfd.readouterr().out


def test_json(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    code, out = run(monkeypatch, capfd, "--json")
    report = json.loads(out)
    assert code == 0
    assert report["mlxify"] == mlxify.__version__ and report["python"].startswith("3.")
    assert report["mlx"]["device"] == mx.default_device().type.name and report["mlx"]["error"] is None
    used = report["mlx"]["blas"]
    assert {**mlxify.fast_blas()._asdict(), "gflops": used["gflops"]} == used and used["gflops"] > 0
    assert report["extras"]["torch"]["torch"]
    assert report["mlx"]["programs"] == mlxify.segments.mode_of(None).value
    assert bool(report["advice"]) == (not used["fast"])


@pytest.mark.parametrize("blas", [FAST, SLOW], ids=["fast", "slow"])
def test_text(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], blas: Blas) -> None:
    monkeypatch.setattr(doctor, "fast_blas", lambda: blas)
    monkeypatch.setattr(doctor, "matmul_gflops", lambda: 123.4)
    code, out = run(monkeypatch, capfd)
    assert code == 0
    assert f"{blas.name}, 123.4 GFLOP/s" in out and f"mlxify{' ' * 11}{mlxify.__version__}" in out
    assert "extra torch" in out
    if blas.fast:
        assert "threads: 2" in out and out.rstrip().endswith("All is well.")
    else:
        assert out.rstrip().endswith(f"the BLAS is slow: {blas.reason}")


def test_a_slow_blas_is_no_news_where_a_gpu_computes() -> None:
    mlx = doctor.Mlx("0.32", "gpu", None, SLOW, 1.0)
    assert doctor.blas_advice(mlx) is None


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(doctor, "EXTRAS", {"cli": ("typer", "no-such-package", "nor-this")})
    _, out = run(monkeypatch, capfd)
    assert re.search(r"extra cli +typer [\d.]+; without no-such-package, nor-this", out)


@pytest.mark.parametrize("as_json", [True, False])
def test_where_mlx_does_not_work(as_json: bool) -> None:
    """The other commands end with one sentence; this one has the whole picture."""
    args = ["doctor", "--json"] if as_json else ["doctor"]
    code = f"import sys; sys.modules['mlx.core'] = None; sys.argv = {['mlxify', *args]}; from mlxify.cli import main; main()"
    paths = os.pathsep.join([str(Path(mlxify.__file__).parent.parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "COLUMNS": "200", "PYTHONPATH": paths}
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env=environment
    )
    assert result.returncode == 1, result.stderr
    assert 'pip install "mlxify[cpu]"' in result.stdout.replace('\\"', '"')
    if as_json:
        report = json.loads(result.stdout)
        assert report["mlx"]["blas"] is None and report["advice"] == [report["mlx"]["error"]]
    else:
        assert "does not work here" in result.stdout


def test_the_extras_are_those_of_the_package() -> None:
    tomllib = pytest.importorskip("tomllib")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    provides = {"mlx[cpu]": "mlx-cpu", "mlx[cuda13]": "mlx-cuda-13"}
    for extra, packages in doctor.EXTRAS.items():
        wanted = [re.split(r"[;>=<]", item)[0].strip() for item in extras[extra]]
        assert [provides.get(w, w) for w in wanted if not w.startswith("mlxify[")] == list(packages)
