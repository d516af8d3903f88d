"""Writes what main.cpp and ../swift read: a small network (not trained), its function file, state and an input.

    python examples/cpp/export.py FOLDER

Needs PyTorch. FOLDER gets model.mlxfn, state.safetensors, inputs.safetensors; the result of two calls is printed.
"""

import sys
from pathlib import Path

import mlx.core as mx
import torch
from torch import nn

import mlxify

CALLS = 2


class Detector(nn.Module):
    """A small convolutional network, and an average of its scores over all calls so far: its state."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1),
            nn.GELU(),
        )
        self.head = nn.Linear(16, 4)
        self.register_buffer("average", torch.zeros(4))

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scores = self.head(self.features(image).mean((2, 3))).softmax(-1)
        self.average.mul_(0.9).add_(0.1 * scores.mean(0))
        return scores, self.average.clone()


def write(folder: Path) -> list[mx.array]:
    """Write the three files, and give the results of call number CALLS."""
    torch.manual_seed(0)
    program = mlxify.convert(Detector().eval(), (torch.randn(1, 1, 12, 12),))
    image = mx.random.normal((1, 1, 12, 12), key=mx.random.key(1))
    program.export_mlxfn(folder / "model.mlxfn", (image,))
    program.save_state(folder / "state.safetensors")
    mx.save_safetensors(str(folder / "inputs.safetensors"), {"0": image})
    for _ in range(CALLS):
        results = program(image)
    return list(results)


if __name__ == "__main__":
    for result in write(Path(sys.argv[1])):
        print(list(result.shape), *result.reshape(-1).tolist())
