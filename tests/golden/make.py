"""Writes a golden program: `python -m tests.golden.make NAME`. Files that are there are never written again."""

import json
import sys
from pathlib import Path

import numpy as np
import torch

import mlxify

HERE = Path(__file__).parent


class Golden(torch.nn.Module):
    """A little of every family: convolution, norm, attention, indexing, sorting, dynamic batch."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv1d(3, 8, 3, padding=1)
        self.norm = torch.nn.LayerNorm(8)
        self.project = torch.nn.Linear(8, 8)
        self.table = torch.nn.Embedding(10, 8)

    def forward(self, x: torch.Tensor, ids: torch.Tensor) -> dict[str, torch.Tensor]:
        h = self.norm(self.conv(x).transpose(1, 2))
        h = torch.nn.functional.gelu(self.project(h)) + self.table(ids)
        heads = h.view(h.shape[0], h.shape[1], 2, 4).transpose(1, 2)
        attended = torch.nn.functional.scaled_dot_product_attention(heads, heads, heads, is_causal=True)
        best, order = attended.flatten(1).topk(3)
        return {"best": best, "order": order, "mean": attended.mean((1, 2, 3)), "index": ids[:, ::2] % 3}


def main(name: str) -> None:
    path = HERE / f"{name}.safetensors"
    assert not path.exists(), f"{path} is there, and golden for ever"
    torch.manual_seed(7)
    model = Golden().eval()
    args = (torch.randn(2, 3, 6), torch.randint(0, 10, (2, 6)))
    batch = torch.export.Dim("batch", max=64)
    mlxify.convert(model, args, dynamic_shapes=({0: batch}, {0: batch})).save(path)
    args = (torch.randn(3, 3, 6), torch.randint(0, 10, (3, 6)))
    with torch.no_grad():
        outputs = {key: value.tolist() for key, value in model(*args).items()}
    inputs = [{"dtype": str(np.asarray(a).dtype), "values": a.tolist()} for a in args]
    path.with_suffix(".json").write_text(json.dumps({"inputs": inputs, "outputs": outputs}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
