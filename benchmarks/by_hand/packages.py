"""Models as other packages wrote them in MLX, mlx-embeddings and mlx-image, with the weights of PyTorch models."""

from __future__ import annotations

import importlib
import re
import sys
import types
from collections.abc import Callable
from functools import partial
from importlib.machinery import PathFinder
from typing import Any

import mlx.core as mx
from mlx import nn

from .weights import arrays

Names = list[tuple[str, str | Callable[[re.Match[str]], str]]]
"""Regular expressions for parts of transformers' names, and what they are in the package."""

RESNET: Names = [
    (r"resnet\.embedder\.embedder\.convolution", "conv1"),
    (r"resnet\.embedder\.embedder\.normalization", "bn1"),
    (r"resnet\.encoder\.stages\.(\d)\.layers", lambda found: f"layer{int(found[1]) + 1}.layers"),
    (r"shortcut\.convolution", "downsample.layers.0"),
    (r"shortcut\.normalization", "downsample.layers.1"),
    (r"layer\.(\d)\.convolution", lambda found: f"conv{int(found[1]) + 1}"),
    (r"layer\.(\d)\.normalization", lambda found: f"bn{int(found[1]) + 1}"),
    (r"classifier\.1", "fc"),
]
VIT: Names = [
    (r"vit\.embeddings\.cls_token", "class_token"),
    (r"vit\.embeddings\.position_embeddings", "encoder.pos_embedding"),
    (r"vit\.embeddings\.patch_embeddings\.projection", "conv_proj"),
    (r"vit\.layers", "encoder.layers"),
    (r"attention\.q_proj", "self_attention.query_proj"),
    (r"attention\.k_proj", "self_attention.key_proj"),
    (r"attention\.v_proj", "self_attention.value_proj"),
    (r"attention\.o_proj", "self_attention.out_proj"),
    (r"layernorm_before", "ln_1"),
    (r"layernorm_after", "ln_2"),
    (r"mlp\.fc", "mlp.linear_"),
    (r"vit\.layernorm", "encoder.ln"),
    (r"classifier", "heads.layers.0"),
]


def minilm(bert: Any) -> Callable[[mx.array, mx.array], mx.array]:
    """mlx-embeddings' BERT: token ids and mask (batch, length) to embeddings (batch, width)."""
    module = _module("mlx_embeddings", "models.bert")
    model = _with_weights(module.Model(module.ModelArgs.from_dict(bert.config.to_dict())), bert, [])
    return lambda ids, mask: model(ids, attention_mask=mask).text_embeds


def resnet(model: Any) -> Callable[[mx.array], mx.array]:
    """mlx-image's ResNet-50. Pictures are (batch, height, width, channels)."""
    module = _module("mlxim", "model.resnet.resnet")
    c = model.config
    return _with_weights(module.ResNet(module.Bottleneck, c.depths, c.num_labels), model, RESNET)


def vit(model: Any) -> Callable[[mx.array], mx.array]:
    """mlx-image's vision transformer. Pictures are (batch, height, width, channels)."""
    c = model.config
    sizes = (c.image_size, c.patch_size, c.num_hidden_layers, c.num_attention_heads, c.hidden_size)
    norm = partial(nn.LayerNorm, eps=c.layer_norm_eps)
    ours = _module("mlxim", "model.vit.vit").VisionTransformer(*sizes, c.intermediate_size, norm_layer=norm)
    return _with_weights(ours, model, VIT)


def _module(package: str, name: str) -> Any:
    """A module of a package whose own start imports much that the model does not need (hubs, image libraries)."""
    spec = PathFinder.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)
    folder = spec.submodule_search_locations[0]
    for part in ["", *name.split(".")[:-1]]:
        package, folder = (f"{package}.{part}", f"{folder}/{part}") if part else (package, folder)
        bare = types.ModuleType(package)
        bare.__path__ = [folder]
        sys.modules.setdefault(package, bare)
    return importlib.import_module(f"{package}.{name.rpartition('.')[2]}")


def _with_weights(ours: Any, theirs: Any, names: Names) -> Any:
    """The MLX model in evaluation form, with all the weights of the PyTorch model."""
    weights = []
    for name, array in arrays(theirs).items():
        for pattern, own in names:
            name = re.sub(pattern, own, name)
        if "position_ids" not in name:
            weights.append((name, array))
    ours.load_weights(weights)
    ours.eval()
    return ours
