"""ExecuTorch's edge dialect: what `to_edge(...).exported_program()` gives converts like the model itself."""

from pathlib import Path

import pytest
import torch
from torch.export import Dim

import mlxify

from .ops.harness import compare

pytest.importorskip("executorch.exir", reason="executorch is not installed (tests/edge_requirements.txt)")


class Picture(torch.nn.Module):
    """Convolution, norm, pooling, casts and memory formats (the dim_order ops)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8)
        self.head = torch.nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        h = torch.relu(self.norm(self.conv(x))).to(torch.float16).to(torch.float32)
        h = h.clone(memory_format=torch.channels_last)
        return self.head(h.mean((2, 3))).softmax(-1), x.to(torch.int64) + 0.5, torch.max_pool2d(h, 2)


class Words(torch.nn.Module):
    """Embedding, attention and shapes with a dynamic length."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(20, 8)
        self.layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        h = self.layer(self.table(ids))
        return torch.cat([h[:, :1], h.flip(1)], 1).view(ids.shape[0], -1)


CASES = {
    "picture": (Picture, [(torch.randn(2, 3, 8, 8),)], None),
    "words": (
        Words,
        [(torch.randint(0, 20, (2, n)),) for n in (6, 2, 3, 32)],
        ({1: Dim("length", min=2, max=32)},),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_edge_program(name: str, tmp_path: Path) -> None:
    from executorch.exir import to_edge

    kind, inputs, shapes = CASES[name]
    torch.manual_seed(0)
    model = kind().eval()
    exported = torch.export.export(model, inputs[0], dynamic_shapes=shapes, strict=False)
    program = mlxify.convert(to_edge(exported).exported_program())
    program.save(tmp_path / "edge.safetensors")
    loaded = mlxify.load(tmp_path / "edge.safetensors")
    for args in inputs:
        with torch.no_grad():
            expected = model(*args)
        compare(loaded(*args), expected)
