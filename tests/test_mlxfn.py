"""Program.export_mlxfn: MLX's own function files give what the program gives, state included, or are refused."""

import json
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
import torch
from torch.export import Dim

import mlxify
from mlxify import mlxfn


class Net(torch.nn.Module):
    """A convolution, attention and a norm; a nested result with a size in it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = torch.nn.Conv2d(1, 8, 3, padding=1)
        self.norm = torch.nn.LayerNorm(8)
        self.fc = torch.nn.Linear(8, 4)

    def forward(self, image, scale=2.0):
        rows = torch.relu(self.conv(image)).flatten(2).transpose(1, 2)
        rows = torch.nn.functional.scaled_dot_product_attention(rows, rows, rows)
        return {"scores": self.fc(self.norm(rows)).mean(1) * scale, "parts": (rows, image.shape[0])}


class Counter(torch.nn.Module):
    """Reads a table, writes a cache at a position, counts, and draws."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("at", torch.zeros((), dtype=torch.int64))
        self.register_buffer("cache", torch.zeros(4, 3))

    def forward(self, x):
        where = torch.arange(4) == self.at
        self.cache.copy_(torch.where(where[:, None], x, self.cache))
        self.at.add_(1)
        return self.cache.sum(0) + torch.rand(3)


def image(batch: int) -> np.ndarray:
    return np.random.default_rng(batch).standard_normal((batch, 1, 6, 6), np.float32)


@pytest.fixture(scope="module")
def net() -> mlxify.Program:
    sizes = {0: Dim("batch", min=1, max=64)}
    return mlxify.convert(Net().eval(), (torch.ones(3, 1, 6, 6),), dynamic_shapes=(sizes,))


def metadata(path: Path) -> dict[str, Any]:
    return json.loads(mx.import_function(str(path), return_metadata=True)[1])


def test_one_trace_for_each_example(net: mlxify.Program, tmp_path: Path) -> None:
    path = tmp_path / "net.mlxfn"
    net.export_mlxfn(path, (image(2),), {"image": image(5)})
    function = mx.import_function(str(path))
    for batch in (2, 5):
        scores, rows, size = function(mx.array(image(batch) + 1))
        expected = net(image(batch) + 1)
        np.testing.assert_allclose(scores, expected["scores"], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(rows, expected["parts"][0], rtol=1e-5, atol=1e-6)
        assert size.dtype == mx.int64 and size.item() == batch
    with pytest.raises(ValueError, match="No imported function found"):
        function(mx.array(image(3)))


def test_the_file_names_its_arguments_and_results(net: mlxify.Program, tmp_path: Path) -> None:
    net.export_mlxfn(tmp_path / "net.mlxfn", (image(2),))
    assert metadata(tmp_path / "net.mlxfn") == {
        "format": "mlxify-mlxfn",
        "version": 1,
        "method": "forward",
        "inputs": ["image"],
        "outputs": ["scores", "parts[0]", "parts[1]"],
        "state": [],
    }


def test_weights_are_in_the_file_once(tmp_path: Path) -> None:
    model = torch.nn.Linear(200, 200).eval()
    program = mlxify.convert(model, (torch.ones(2, 200),), dynamic_shapes=({0: Dim("n", max=9)},))
    examples = [(np.ones((n, 200), np.float32),) for n in range(1, 6)]
    program.export_mlxfn(tmp_path / "linear.mlxfn", *examples)
    assert 200 * 200 * 4 < (tmp_path / "linear.mlxfn").stat().st_size < 1.5 * 200 * 200 * 4


class Weights(torch.nn.Module):
    """Weights that lie in memory otherwise than in row-major order: transposed, a part, expanded, for a convolution."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.register_buffer("table", torch.randn(5, 4, 3))
        self.register_buffer("row", torch.randn(1, 3))
        self.conv = torch.nn.Conv1d(3, 6, 2)

    def forward(self, x):
        part = self.table[1:4:2, 1:3].permute(2, 1, 0)
        y = torch.einsum("bsc,cij->bsij", x, part).flatten(2)
        z = self.conv(x.transpose(1, 2))
        return y, z, x + self.table[2:, 0] + self.row.expand(3, 3), x @ self.table[0].t()


def test_weights_in_any_order_of_memory(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 3), np.float32)
    program = mlxify.convert(Weights().eval(), (torch.from_numpy(x),))
    program.export_mlxfn(tmp_path / "weights.mlxfn", (x,))
    results = mx.import_function(str(tmp_path / "weights.mlxfn"))(mx.array(x))
    for got, wanted in zip(results, program(x), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def test_state_goes_in_and_comes_out(tmp_path: Path) -> None:
    program = mlxify.convert(Counter(), (torch.ones(3),))
    program.export_mlxfn(tmp_path / "counter.mlxfn", (np.ones(3, np.float32),))
    program.save_state(tmp_path / "state.safetensors")
    names = metadata(tmp_path / "counter.mlxfn")["state"]
    assert set(names) == {"at", "cache", "random.key"}
    function = mx.import_function(str(tmp_path / "counter.mlxfn"))
    stored = mx.load(str(tmp_path / "state.safetensors"))
    state = [stored[name] for name in names]
    for step in range(4):
        x = np.full(3, step + 1, np.float32)
        result, *state = function(mx.array(x), *state)
        np.testing.assert_allclose(result, program(x), rtol=1e-6)
        for name, array in zip(names, state, strict=True):
            assert mx.array_equal(array, program.state[name]), name
    assert state[names.index("at")].item() == 4


def test_exporting_changes_no_state(tmp_path: Path) -> None:
    program = mlxify.convert(Counter(), (torch.ones(3),))
    program(np.ones(3, np.float32))
    before = program.state
    program.export_mlxfn(tmp_path / "counter.mlxfn", (np.ones(3, np.float32),))
    assert all(array is before[name] for name, array in program.state.items())


def test_methods_by_name(tmp_path: Path) -> None:
    class Reads(Counter):
        def forward(self, x):
            return self.cache + x

    model = Counter()
    reads = Reads()
    reads.at, reads.cache = model.at, model.cache
    exported = {
        "write": torch.export.export(model, (torch.ones(3),)),
        "read": torch.export.export(reads, (torch.ones(3),)),
    }
    program = mlxify.convert(exported)
    with pytest.raises(mlxify.InputError, match="several methods"):
        program.export_mlxfn(tmp_path / "x.mlxfn", (np.ones(3, np.float32),))
    program.export_mlxfn(tmp_path / "read.mlxfn", (np.ones(3, np.float32),), method="read")
    state = {**program.state, "cache": mx.ones((4, 3))}
    names = metadata(tmp_path / "read.mlxfn")["state"]
    function = mx.import_function(str(tmp_path / "read.mlxfn"))
    result, *same = function(mx.ones(3), *(state[name] for name in names))
    assert mx.array_equal(result, state["cache"] + 1) and "cache" in names
    assert all(mx.array_equal(new, state[name]) for name, new in zip(names, same, strict=True))


def test_numbers_among_the_arguments_are_fixed(tmp_path: Path) -> None:
    class Scaled(torch.nn.Module):
        def forward(self, x, n: int):
            return x * n

    program = mlxify.convert(
        Scaled(), (torch.ones(2), 3), dynamic_shapes=({0: Dim("rows", max=9)}, Dim.DYNAMIC)
    )
    program.export_mlxfn(tmp_path / "scaled.mlxfn", (np.ones(2, np.float32), 5), (np.ones(4, np.float32), 7))
    function = mx.import_function(str(tmp_path / "scaled.mlxfn"))
    assert function(mx.ones(2))[0].tolist() == [5, 5] and function(mx.ones(4))[0].tolist() == [7] * 4
    assert metadata(tmp_path / "scaled.mlxfn")["inputs"] == ["x"]


def test_a_scan_is_unrolled(tmp_path: Path) -> None:
    class Sums(torch.nn.Module):
        def forward(self, xs):
            start = torch.zeros(3)
            return torch._higher_order_ops.scan(lambda c, x: (c + x, c * x), start, xs, dim=0)

    program = mlxify.convert(Sums(), (torch.ones(4, 3),))
    assert "scan" in program.summary().instructions
    xs = np.arange(12, dtype=np.float32).reshape(4, 3)
    program.export_mlxfn(tmp_path / "sums.mlxfn", (xs,))
    expected = program(xs)
    for got, wanted in zip(
        mx.import_function(str(tmp_path / "sums.mlxfn"))(mx.array(xs)), expected, strict=True
    ):
        assert mx.array_equal(got, wanted)


class Cond(torch.nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))


class Nonzero(torch.nn.Module):
    def forward(self, x):
        return x.nonzero()


class Checked(torch.nn.Module):
    def forward(self, x):
        torch._assert_async(x.min() > 0, "x is positive")
        return x + 1


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (Cond(), r"cond looks at values .*torch\.cond\(x\.sum\(\) > 0"),
        (Nonzero(), r"nonzero looks at values .*return x\.nonzero\(\)"),
        (Checked(), "a condition on data: x is positive"),
    ],
    ids=lambda v: type(v).__name__ if isinstance(v, torch.nn.Module) else "",
)
def test_decisions_by_values_are_refused(model: torch.nn.Module, reason: str, tmp_path: Path) -> None:
    program = mlxify.convert(model, (torch.ones(3),))
    with pytest.raises(mlxify.ProgramError, match=reason):
        program.export_mlxfn(tmp_path / "x.mlxfn", (np.ones(3, np.float32),))
    assert not list(tmp_path.iterdir())


def test_mistakes(net: mlxify.Program, tmp_path: Path) -> None:
    path = tmp_path / "x.mlxfn"
    with pytest.raises(mlxify.InputError, match="takes one example"):
        net.export_mlxfn(path)
    with pytest.raises(mlxify.InputError, match="each example is a tuple"):
        net.export_mlxfn(path, image(2))  # type: ignore[arg-type]
    with pytest.raises(mlxify.InputError, match="the examples 1 and 3 have the same shapes"):
        net.export_mlxfn(path, (image(2),), (image(4),), (image(2),))
    with pytest.raises(mlxify.InputError, match="has a size batch"):
        net.export_mlxfn(path, (image(65),))
    with pytest.raises(mlxify.InputError, match="no method 'decode'"):
        net.export_mlxfn(path, (image(2),), method="decode")
    assert not list(tmp_path.iterdir())


def test_a_file_with_other_numbers_is_refused(
    net: mlxify.Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = mx.import_function

    def wrong(path: str) -> Any:
        return lambda *arrays: [a + 1 for a in read(path)(*arrays)]

    monkeypatch.setattr(mlxfn.mx, "import_function", wrong)
    with pytest.raises(mlxify.ProgramError, match="its results for example 1 differ"):
        net.export_mlxfn(tmp_path / "net.mlxfn", (image(2),))
    assert not list(tmp_path.iterdir())


def test_a_failed_write_leaves_the_old_file(
    net: mlxify.Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "net.mlxfn"
    net.export_mlxfn(path, (image(2),))
    before = path.read_bytes()

    def full(*_: Any) -> Any:
        raise RuntimeError("[write] Unable to write 8 bytes to file.")

    monkeypatch.setattr(mlxfn.mx, "import_function", full)
    with pytest.raises(mlxify.ProgramError, match=r"could not write the method 'forward'.*Unable to write"):
        net.export_mlxfn(path, (image(3),))
    assert path.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == ["net.mlxfn"]
