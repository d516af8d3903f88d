"""The parts of the fast BLAS: the trial and its kept verdict, OpenBLAS's threads, the slots of a library."""

import ctypes
import os
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import mlx.core  # noqa: F401  (its library has the slots)
import pytest

from mlxify.blas import openblas, slots, threads, trial, verdict

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is nothing to do on other systems")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


# The trial and its verdict


def answer(text: str) -> str:
    return f"print({text!r})"


TRIALS = {
    "works": (answer("works"), "works"),
    "other numbers": (answer("matmul 7x5x3 differ"), "matmul 7x5x3 differ"),
    "a crash": ("import os; os.abort()", "it crashed (SIGABRT)"),
    "an error": ("raise OSError('no memory')", "OSError: no memory"),
    "no answer": ("pass", "it ended with 0"),
    "no end": ("import time; time.sleep(60)", "it took more than 3 seconds"),
}


@pytest.mark.parametrize(("child", "expected"), TRIALS.values(), ids=TRIALS)
def test_trial(monkeypatch: pytest.MonkeyPatch, child: str, expected: str) -> None:
    monkeypatch.setattr(trial, "CHILD", child)
    monkeypatch.setattr(trial, "LIMIT_SECONDS", 3 if "sleep" in child else 60)
    assert trial.run("/library", "/mlx") == expected


def test_trial_needs_a_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/usr/bin/uwsgi")
    assert trial.run("/library", "/mlx") == "no Python to run it in; MLXIFY_BLAS=on goes without"


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch, cache: Path) -> list[str]:
    """The verdicts that trials will give, last first."""
    verdicts: list[str] = []
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setattr(trial, "run", lambda library, mlx: verdicts.pop())
    return verdicts


@pytest.fixture
def pair(tmp_path: Path) -> tuple[str, str]:
    for name in ("library", "mlx"):
        (tmp_path / name).write_text(name)
    return str(tmp_path / "library"), str(tmp_path / "mlx")


def test_a_good_verdict_is_kept(tried: list[str], pair: tuple[str, str], cache: Path) -> None:
    tried.append("works")
    for _ in range(3):
        verdict.require_passed(*pair)
    (kept,) = (cache / "mlxify").iterdir()
    assert kept.read_text().startswith("works\n" + pair[0])
    assert stat.S_IMODE((cache / "mlxify").stat().st_mode) == 0o700
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    # Another version of either is another pair.
    Path(pair[1]).write_text("a newer mlx")
    tried.append("x differs")
    with pytest.raises(openblas.Unavailable, match="failed: x differs"):
        verdict.require_passed(*pair)


def test_a_bad_verdict_is_kept_for_a_day(tried: list[str], pair: tuple[str, str], cache: Path) -> None:
    tried += ["works", "x differs"]
    for _ in range(2):
        with pytest.raises(openblas.Unavailable, match=r"x differs \(kept for a day in .*blas-"):
            verdict.require_passed(*pair)
    (kept,) = (cache / "mlxify").iterdir()
    yesterday = time.time() - verdict.RETRY_SECONDS - 1
    os.utime(kept, (yesterday, yesterday))
    verdict.require_passed(*pair)
    os.utime(kept, (yesterday, yesterday))
    verdict.require_passed(*pair)
    assert not tried


@pytest.mark.parametrize("damage", [b"", b"works", b"works\nof something else", b"\xff\xfe\x00", b"\n\n"])
def test_a_damaged_verdict_is_made_anew(
    tried: list[str], pair: tuple[str, str], cache: Path, damage: bytes
) -> None:
    tried += ["works", "works"]
    verdict.require_passed(*pair)
    (kept,) = (cache / "mlxify").iterdir()
    good = kept.read_bytes()
    kept.write_bytes(damage)
    verdict.require_passed(*pair)
    assert kept.read_bytes() == good and not tried


def test_a_cache_that_others_may_write_is_not_used(
    tried: list[str], pair: tuple[str, str], cache: Path
) -> None:
    (cache / "mlxify").mkdir(parents=True)
    (cache / "mlxify").chmod(0o777)
    tried += ["works", "works"]
    verdict.require_passed(*pair)
    verdict.require_passed(*pair)
    assert not tried and not list((cache / "mlxify").iterdir())


@pytest.mark.parametrize("home", ["/dev/null", "/proc/no/such/folder"])
def test_without_a_cache_every_process_tries(
    tried: list[str], pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", home)
    tried += ["works", "works"]
    verdict.require_passed(*pair)
    verdict.require_passed(*pair)
    assert not tried


def test_the_cache_follows_the_home_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for value in ("", "not/absolute"):
        monkeypatch.setenv("XDG_CACHE_HOME", value)
        assert verdict.cache_folder() == str(tmp_path / ".cache" / "mlxify")


# Threads


def test_settings_for_the_moment_of_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenBLAS is told a container's share of the cores, and when to sleep; nobody else is, and users come first."""
    count, idle = threads.SETTINGS[0], threads.IDLE
    for name in (*threads.SETTINGS, idle):
        monkeypatch.delenv(name, raising=False)
    seen: list[tuple[str | None, ...]] = []
    monkeypatch.setattr(
        ctypes, "CDLL", lambda path: seen.append((os.environ.get(count), os.environ.get(idle)))
    )
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: range(8))
    for share in (2, 8, None):
        monkeypatch.setattr(threads, "container_share", lambda share=share: share)
        threads.load("")
    assert seen == [("2", "20"), (None, "20"), (None, "20")]
    assert count not in os.environ and idle not in os.environ
    monkeypatch.setattr(threads, "container_share", lambda: 2)
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    monkeypatch.setenv(idle, "26")
    threads.load("")
    assert seen[-1] == (None, "26") and os.environ[idle] == "26"


def test_threads_that_would_not_outlive_a_fork_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    put: list[int] = []
    library = {"openblas_get_num_threads": lambda: 4, "openblas_set_num_threads": put.append}
    monkeypatch.setattr(threads, "load", lambda path: library)
    pool = threads.Pool("", "")
    assert pool.size == 4
    pool.outlive_forks(None)
    assert pool.size == 1 and put == [1]


# Slots


def machine() -> str:
    return os.uname().machine


def test_slots_of_mlx() -> None:
    found = slots.function_slots(openblas.find_mlx(), machine())
    assert {"cblas_sgemm", "cblas_dgemm", "cblas_cgemm", "sgetrf_", "dgesdd_"} <= found.keys()
    assert all(len(addresses) > 0 for addresses in found.values())


def test_slots_that_cannot_be_found(tmp_path: Path) -> None:
    with pytest.raises(slots.SlotError, match="slots of riscv64 are not known"):
        slots.function_slots(openblas.find_mlx(), "riscv64")
    with pytest.raises(slots.SlotError, match="is not loaded"):
        slots.function_slots(str(tmp_path / "libnothing.so"), machine())


def test_nothing_is_written_outside_of_mapped_memory() -> None:
    word = ctypes.c_size_t(7)
    for wrong in (8, ctypes.addressof(word) + 1):
        with pytest.raises(slots.SlotError, match="outside"):
            slots.write({ctypes.addressof(word): 1, wrong: 1})
    assert word.value == 7


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.parametrize(
    "flags", [[], ["-Wl,-z,now,-z,relro"], ["-fno-plt"]], ids=["lazy", "read-only", "no plt"]
)
def test_calls_of_a_library_are_redirected(tmp_path: Path, flags: list[str]) -> None:
    """However it was linked: slots filled at the first call, slots in memory that is read-only by now."""

    def build(name: str, code: str, *more: str) -> str:
        (tmp_path / f"{name}.c").write_text(code)
        output = str(tmp_path / f"lib{name}.so")
        command = ["cc", "-O1", "-shared", "-fPIC", str(tmp_path / f"{name}.c"), "-o", output, *more]
        subprocess.run(command, check=True)
        return output

    build("callee", "int answer(void) { return 1; }")
    path = build(
        "caller",
        "int answer(void); int ask(void) { return answer() * 10; }",
        *(f"-L{tmp_path}", "-lcallee", f"-Wl,-rpath,{tmp_path}", *flags),
    )
    other = ctypes.CDLL(build("other", "int other(void) { return 2; }"))
    caller = ctypes.CDLL(path)
    before: Any = caller.ask()
    function = ctypes.cast(other.other, ctypes.c_void_p).value
    assert function is not None
    (slot,) = slots.function_slots(path, machine())["answer"]
    protection = [r.protection for r in slots._regions() if r.start <= slot < r.end]
    slots.write({slot: function})
    assert (before, caller.ask()) == (10, 20)
    assert [r.protection for r in slots._regions() if r.start <= slot < r.end] == protection
    assert ctypes.CDLL(str(tmp_path / "libcallee.so")).answer() == 1
    handle = slots.own_handle(path, machine())
    assert handle is not None and ctypes.c_size_t.from_address(handle).value == handle
