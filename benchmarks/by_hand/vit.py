"""A vision transformer: transformers' ViTForImageClassification. Pictures are (batch, height, width, channels)."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
from mlx import nn

from .weights import arrays


class Layer(nn.Module):
    """Attention and a feed-forward part, each with a norm before it."""

    def __init__(self, width: int, inner: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(width, width) for _ in range(4))
        self.fc1, self.fc2 = nn.Linear(width, inner), nn.Linear(inner, width)
        self.layernorm_before, self.layernorm_after = nn.LayerNorm(width, 1e-12), nn.LayerNorm(width, 1e-12)

    def __call__(self, x: mx.array) -> mx.array:
        batch, length, width = x.shape
        y = self.layernorm_before(x)
        q, k, v = (
            project(y).reshape(batch, length, self.heads, -1).transpose(0, 2, 1, 3)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        seen = mx.fast.scaled_dot_product_attention(q, k, v, scale=(width // self.heads) ** -0.5)
        x = x + self.o_proj(seen.transpose(0, 2, 1, 3).reshape(batch, length, width))
        return x + self.fc2(nn.gelu(self.fc1(self.layernorm_after(x))))


class ViT(nn.Module):
    """Pictures to class scores."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        width, patch = config.hidden_size, config.patch_size
        places = (config.image_size // patch) ** 2 + 1
        self.projection = nn.Conv2d(config.num_channels, width, patch, patch)
        self.cls_token, self.position_embeddings = mx.zeros((1, 1, width)), mx.zeros((1, places, width))
        self.layers = [
            Layer(width, config.intermediate_size, config.num_attention_heads)
            for _ in range(config.num_hidden_layers)
        ]
        self.layernorm = nn.LayerNorm(width, 1e-12)
        self.classifier = nn.Linear(width, config.num_labels)

    def __call__(self, pictures: mx.array) -> mx.array:
        x = self.projection(pictures).flatten(1, 2)
        first = mx.broadcast_to(self.cls_token, (x.shape[0], 1, x.shape[2]))
        x = mx.concatenate([first, x], axis=1) + self.position_embeddings
        for layer in self.layers:
            x = layer(x)
        return self.classifier(self.layernorm(x[:, 0]))


def port(model: Any) -> ViT:
    """The same model with the weights of transformers' ViTForImageClassification."""
    ours = ViT(model.config)
    weights = []
    for name, array in arrays(model).items():
        for part in ("vit.", "embeddings.patch_embeddings.", "embeddings.", "attention.", "mlp."):
            name = name.replace(f".{part}", ".").removeprefix(part)
        weights.append((name, array))
    ours.load_weights(weights)
    return ours
