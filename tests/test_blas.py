"""A fast BLAS under MLX: it is taken when it can be, works, and nothing happens when it cannot.

What needs the package scipy-openblas32 is skipped without it, the rest is not. Each process has a cache of its own.
"""

import importlib.metadata
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
import pytest

import mlxify
from mlxify import blas
from mlxify.blas import openblas, threads, trial

LINUX = sys.platform == "linux"


def has_openblas() -> bool:
    try:
        importlib.metadata.version("scipy-openblas32")
    except importlib.metadata.PackageNotFoundError:
        return False
    return LINUX


linux = pytest.mark.skipif(not LINUX, reason="there is nothing to do on other systems")
with_openblas = pytest.mark.skipif(not has_openblas(), reason="needs scipy-openblas32")

Python = Callable[..., str]


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def start(cache: Path) -> Callable[..., subprocess.Popen[str]]:
    def start(code: str, **environment: str) -> subprocess.Popen[str]:
        inherited = {k: v for k, v in os.environ.items() if k not in (blas.SWITCH, *threads.SETTINGS)}
        paths = [str(Path(mlxify.__file__).parent.parent), *sys.path]
        settings = {"XDG_CACHE_HOME": str(cache), "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        return subprocess.Popen(
            [sys.executable, "-c", code],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**inherited, **settings, **environment},
        )

    return start


@pytest.fixture
def python(start: Callable[..., subprocess.Popen[str]]) -> Python:
    """What some code prints, in a new process."""

    def python(code: str, **environment: str) -> str:
        process = start(code, **environment)
        try:
            out, err = process.communicate(timeout=200)
        finally:
            process.kill()
        assert process.returncode == 0, err[-3000:]
        return out.strip()

    return python


STATUS = "b = mlxify.fast_blas(); print(b.fast, b.reason)"
PRODUCT = (
    "a = mx.arange(12.0).reshape(3, 4); assert (a @ a.T).tolist() == "
    "[[14, 38, 62], [38, 126, 214], [62, 214, 366]]; "
)

# It is taken


@with_openblas
@pytest.mark.parametrize(
    "imports",
    [
        "import mlxify; import mlx.core as mx",
        "import mlx.core as mx; import mlxify",
        "import mlxify, mlx.nn; import mlx.core as mx",
        "from mlxify import load; import mlxify; import mlx.core as mx",
    ],
)
def test_importing_is_enough(python: Python, imports: str) -> None:
    look = "from mlxify import blas; assert blas._result is not None; "
    assert python(f"{imports}; {look}{PRODUCT}{STATUS}") == "True"


@with_openblas
def test_the_trial_passes_here() -> None:
    """Exact products of whole numbers in three types; decompositions in two: the same as MLX's own."""
    assert trial.run(openblas.find(), openblas.find_mlx()) == trial.WORKS


@with_openblas
def test_it_is_faster(python: Python) -> None:
    code = "import mlxify; from mlxify.cli.doctor import matmul_gflops; print(matmul_gflops())"
    one = {"OMP_NUM_THREADS": "1"}
    assert float(python(code, **one)) > 2 * float(python(code, **one, MLXIFY_BLAS="off"))


@with_openblas
def test_others_do_not_see_it(python: Python) -> None:
    """No name of OpenBLAS becomes global, and NumPy's own slots stay as they were."""
    code = """
import ctypes, sys, numpy
from mlxify.blas import slots, openblas
library = next(m.__file__ for n, m in sys.modules.items() if n.endswith("_multiarray_umath") and m.__file__)
def held():
    found = slots.function_slots(library, openblas.os.uname().machine)
    return {n: [ctypes.c_size_t.from_address(a).value for a in s] for n, s in found.items()}
before = held()
import mlx.core, mlxify
assert mlxify.fast_blas().fast
assert held() == before
for name in ("cblas_sgemm", "scipy_cblas_sgemm", "sgetrf_"):
    try:
        ctypes.CDLL(None)[name]
    except AttributeError:
        print(name)
"""
    assert python(code).split() == ["cblas_sgemm", "scipy_cblas_sgemm", "sgetrf_"]


# It is not taken


def test_off(python: Python) -> None:
    code = f"import mlxify; import mlx.core as mx; {PRODUCT}{STATUS}; from mlxify.blas import openblas; print(len(openblas.attached))"
    first, attached = python(code, MLXIFY_BLAS="off").splitlines()
    assert attached == "0"
    assert not LINUX or first == "False turned off by MLXIFY_BLAS=off"


@linux
def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openblas, "PACKAGE", "no_such_openblas")
    monkeypatch.delenv(blas.SWITCH, raising=False)
    result = blas._prepare()
    assert not result.fast and result.threads is None
    assert result.reason == 'no-such-openblas is not installed: pip install "mlxify[cpu]"'


def test_on_other_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(blas.SWITCH, raising=False)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert blas._prepare() == blas.Blas(True, "Accelerate", None, "")
    monkeypatch.setattr(sys, "platform", "freebsd14")
    assert "no fast BLAS is known for freebsd14" in blas._prepare().reason


@linux
def test_on_other_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(blas.SWITCH, raising=False)
    names = os.uname()
    monkeypatch.setattr(os, "uname", lambda: os.uname_result([*names[:4], "riscv64"]))
    assert blas._prepare().reason == "no fast BLAS is known for linux on riscv64"


@linux
def test_where_mlx_cannot_be_imported(python: Python) -> None:
    code = "import sys; sys.modules['mlx.core'] = None; import mlxify; print('fine')"
    assert python(code) == "fine"
    code = """
import mlxify, sys
sys.path[:] = []
try:
    import mlx.core
except ImportError as error:
    print(error.name)
"""
    assert python(code) == "mlx"


@linux
def test_an_error_nobody_thought_of_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> str:
        raise RuntimeError("what now")

    monkeypatch.delenv(blas.SWITCH, raising=False)
    monkeypatch.setattr(openblas, "find", fail)
    assert blas._prepare().reason == "RuntimeError: what now"


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package scipy_openblas32 with a damaged library, found before the real one."""
    library = tmp_path / "packages" / "scipy_openblas32" / "lib" / "libscipy_openblas.so"
    library.parent.mkdir(parents=True)
    (library.parent.parent / "__init__.py").touch()
    library.write_text("this is no library")
    library.chmod(0o644)
    monkeypatch.syspath_prepend(tmp_path / "packages")
    return library


@linux
def test_a_damaged_library(fake: Path, python: Python) -> None:
    for _ in range(2):  # by a trial, then by its verdict
        text = python(f"import mlxify; import mlx.core as mx; {PRODUCT}{STATUS}")
        assert text.startswith(f"False the trial of OpenBLAS failed: {fake}: ")
    assert python(f"import mlxify; {STATUS}", MLXIFY_BLAS="on").startswith(f"False {fake}: ")


@linux
def test_a_library_that_others_may_write_is_not_loaded(fake: Path) -> None:
    assert openblas.find() == str(fake)
    for place in (fake, fake.parent, fake.parent.parent.parent):
        mode = place.stat().st_mode
        place.chmod(mode | stat.S_IWOTH)
        with pytest.raises(openblas.Unavailable, match=f"everybody may write to {place}: chmod o-w"):
            openblas.find()
        place.chmod(mode)


# The trial


@with_openblas
def test_two_processes_at_once(start: Callable[..., subprocess.Popen[str]], cache: Path) -> None:
    code = f"import mlxify; import mlx.core as mx; {PRODUCT}{STATUS}"
    processes = [start(code) for _ in range(2)]
    assert [p.communicate(timeout=250)[0].strip() for p in processes] == ["True", "True"]
    (kept,) = (cache / "mlxify").iterdir()
    assert kept.name.startswith("blas-") and kept.read_text().startswith("works\n")


@with_openblas
def test_on_goes_without_a_trial(python: Python, cache: Path) -> None:
    assert python(f"import mlxify; {STATUS}", MLXIFY_BLAS="on") == "True"
    assert not cache.exists()


# Threads and processes


def test_settings_for_threads(python: Python) -> None:
    if not has_openblas():
        pytest.skip("needs scipy-openblas32")
    code = "import mlxify; print(mlxify.fast_blas().threads)"
    cores = len(os.sched_getaffinity(0))
    assert python(code) in {str(min(cores, threads.container_share() or cores, n)) for n in (64, 128)}
    assert python(code, OMP_NUM_THREADS="1") == "1"
    assert python(code, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="2") == "1"


WORK = """
import threading
import mlxify, mlx.core as mx
assert mlxify.fast_blas().fast
a = mx.random.randint(-8, 9, (300, 256)).astype(mx.float32)
s = mx.random.normal((60, 60)) + 60 * mx.eye(60)
expected, inverse = a @ a.T, mx.linalg.inv(s, stream=mx.cpu)
mx.eval(a, s, expected, inverse)
wrong = []
def work():
    stream = mx.new_stream(mx.cpu)
    for _ in range(10):
        with mx.stream(stream):
            same = mx.array_equal(a @ a.T, expected)
            near = mx.allclose(mx.linalg.inv(s, stream=stream), inverse)
            wrong.extend([] if same.item() and near.item() else [1])
threads = [threading.Thread(target=work) for _ in range(4)]
"""


@with_openblas
def test_several_threads(python: Python) -> None:
    code = WORK + "[t.start() for t in threads]; [t.join() for t in threads]; print(wrong)"
    assert python(code) == "[]"


@with_openblas
def test_first_use_from_several_threads(python: Python) -> None:
    code = """
import threading
results = []
def work():
    import mlxify
    results.append(mlxify.fast_blas())
threads = [threading.Thread(target=work) for _ in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
from mlxify.blas import openblas
print(len(results), len(set(results)), results[0].fast, len(openblas.attached))
"""
    assert python(code) == "8 1 True 1"


@with_openblas
def test_the_process_may_end_while_a_stream_computes(python: Python) -> None:
    """OpenBLAS's own cleaning up would wait for its threads, for good in one of about five tries."""
    code = """
import mlxify, mlx.core as mx
a = mx.random.normal((500, 500))
for _ in range(8):
    a = a @ a * 0.001
mx.async_eval(a)
"""
    for _ in range(8):
        python(code)


@with_openblas
def test_the_process_may_fork_while_a_stream_computes(python: Python) -> None:
    """OpenBLAS's own preparation for a fork would wait for its threads, for good nearly every time. The child, which
    has none of them, and the parent compute on."""
    code = """
import mlxify, mlx.core as mx, os
a = mx.random.normal((400, 400))
mx.eval(a)
for _ in range(30):
    b = a @ a @ a
    mx.async_eval(b)
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    mx.eval(b)
from mlxify.blas import openblas, threads
(pool,) = openblas.attached
print(pool.threads <= threads.thread_ids(), pool.size == mlxify.fast_blas().threads)
"""
    assert python(code) == "True True"


@with_openblas
def test_a_forked_child_computes(python: Python) -> None:
    code = f"""
import mlxify, mlx.core as mx, os
child = os.fork()
if child == 0:
    {PRODUCT}
    a = mx.ones((300, 300))
    os._exit(0 if (a @ a).sum().item() == 300**3 else 1)
print(os.waitpid(child, 0)[1])
"""
    assert python(code) == "0"


def test_public_function_says_what_mlx_uses() -> None:
    result = mlxify.fast_blas()
    assert result == mlxify.fast_blas()
    assert bool(result.reason) != result.fast
    a = mx.arange(6.0).reshape(2, 3)
    assert (a @ a.T).tolist() == [[5, 14], [14, 50]]
