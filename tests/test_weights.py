"""Weights that lie in memory otherwise than in the file: nobody sees it."""

from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
import torch

import mlxify
from mlxify import weights
from mlxify.inputs import to_numpy
from mlxify.program import Instr, Ref, Source
from mlxify.weights import LARGE, LEAST, _orders, kernel_order, laid_out


class Tied(torch.nn.Module):
    """A table of words that is also the weight of the last layer, and a layer in a branch."""

    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(400, 96)
        self.inner, self.small = torch.nn.Linear(96, 200), torch.nn.Linear(200, 96, bias=False)
        self.head = torch.nn.Linear(96, 400, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.words(ids)
        x = torch.cond(x.sum() > 0, lambda x: self.small(torch.relu(self.inner(x))), lambda x: -x, (x,))
        return self.head(x)


@pytest.fixture(scope="module")
def model() -> Tied:
    torch.manual_seed(0)
    return Tied().eval()


@pytest.fixture(scope="module")
def program(model: Tied) -> mlxify.Program:
    return mlxify.convert(model, (torch.arange(7),), dynamic_shapes=({0: torch.export.Dim("n", max=64)},))


@pytest.mark.parametrize("count", [1, 2, 16, 64])
@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("compile", [False, True])
def test_results(
    model: Tied, program: mlxify.Program, count: int, loaded: bool, compile: bool, tmp_path: Path
) -> None:
    if loaded:
        program.save(tmp_path / "tied.safetensors")
        program = mlxify.load(tmp_path / "tied.safetensors", compile=compile)
    ids = torch.arange(count) * 5
    wanted = model(ids).detach().numpy()
    # Sums of 200 and 96 float32 products, rounded in another order.
    np.testing.assert_allclose(to_numpy(program(ids)), wanted, rtol=1e-5, atol=1e-5)


def test_the_file_stays_the_same(model: Tied, tmp_path: Path) -> None:
    program = mlxify.convert(model, (torch.arange(7),))
    paths = [tmp_path / name for name in ("new", "called", "loaded", "called_again")]
    program.save(paths[0])
    program(torch.arange(7))
    program.save(paths[1])
    loaded = mlxify.load(paths[0])
    loaded.save(paths[2])
    loaded(torch.arange(7))
    loaded.save(paths[3])
    new, called, loaded_again, called_again = (path.read_bytes() for path in paths)
    assert new == called and loaded_again == called_again  # MLX reads tensors in another order


def test_which_are_turned(program: mlxify.Program) -> None:
    found = set(dict(_orders(program.graph)))
    assert found == {"head.weight", "inner.weight", "small.weight"}
    assert all(program.graph.weights[name].size >= LEAST for name in found)
    program(mx.arange(7))
    if mlxify.fast_blas().fast and mx.default_device() == mx.Device(mx.cpu):
        assert program.graph.turned


@pytest.mark.parametrize("shape", [(5003, 900), (700, 6007), (1, LARGE), (LARGE + 1, 1)], ids=str)
def test_large_weights_are_turned_tile_by_tile(shape: tuple[int, int]) -> None:
    weight = mx.random.normal(shape)
    turned = laid_out(weight, [1, 0])
    assert weight.size >= LARGE and mx.array_equal(turned, weight)
    assert np.array(turned, copy=False).T.flags.c_contiguous


class Norms(torch.nn.Module):
    """Kernels over all channels, over each channel, and one with a norm to be folded into it."""

    def __init__(self) -> None:
        super().__init__()
        self.all, self.each = torch.nn.Conv2d(8, 16, 3), torch.nn.Conv2d(16, 16, 2, groups=16)
        self.normed, self.norm = torch.nn.Conv2d(16, 16, 2, groups=16), torch.nn.BatchNorm2d(16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.normed(torch.relu(self.each(self.all(x)))))


def test_kernels_lie_as_convolutions_read_them() -> None:
    torch.manual_seed(0)
    model, x = Norms().eval(), torch.randn(1, 8, 9, 9)
    program = mlxify.convert(model, (x,))
    assert dict(_orders(program.graph)) == {
        "all.weight": [0, 2, 3, 1],
        "each.weight": [2, 3, 1, 0],
    }
    for _ in range(2):
        # Sums of 72 float32 products, rounded in another order.
        np.testing.assert_allclose(to_numpy(program(x)), model(x).detach().numpy(), rtol=1e-5, atol=1e-5)
    if mx.default_device() == mx.Device(mx.cpu):
        kernel = np.array(program.graph.weights["each.weight"], copy=False)
        assert kernel.transpose(2, 3, 1, 0).flags.c_contiguous


# (kernel, groups, whether its channels lie last on a CPU)
KERNELS = [
    ((16, 3, 3, 1), 16, True),
    ((16, 9, 1), 16, True),
    ((16, 3, 3, 1), 1, False),
    ((32, 3, 3, 1), 16, False),
    ((16, 9, 9, 1), 16, False),
    ((16, 3, 3, 1), Ref(16), False),
]


@pytest.mark.parametrize("cpu", [True, False])
@pytest.mark.parametrize("kernel, groups, last", KERNELS, ids=str)
def test_kernel_order(
    kernel: tuple[int, ...], groups: int, last: bool, cpu: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the convolution that is chosen reads it: on a GPU MLX's own, of row-major kernels."""
    monkeypatch.setattr(weights, "on_cpu", lambda: cpu)
    instr = Instr("conv", (Ref(0), Ref(1), None, [1], [0], [0], [1], groups), (2,), Source())
    axes = list(range(len(kernel)))
    assert kernel_order(instr, kernel) == ([*axes[1:], 0] if last and cpu else axes)
