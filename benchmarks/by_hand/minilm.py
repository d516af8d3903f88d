"""MiniLM: BERT, the mean over the tokens that count, normalised."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
from mlx import nn

from .weights import arrays

HEADS = 12


class Layer(nn.Module):
    """One of BERT's: attention and a feed-forward part, each followed by a norm."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
        self.norm1, self.norm2 = nn.LayerNorm(width, 1e-12), nn.LayerNorm(width, 1e-12)

    def __call__(self, x: mx.array, mask: mx.array) -> mx.array:
        batch, length, width = x.shape
        q, k, v = (
            project(x).reshape(batch, length, HEADS, -1).transpose(0, 2, 1, 3)
            for project in (self.query, self.key, self.value)
        )
        seen = mx.fast.scaled_dot_product_attention(q, k, v, scale=(width // HEADS) ** -0.5, mask=mask)
        x = self.norm1(x + self.out(seen.transpose(0, 2, 1, 3).reshape(batch, length, width)))
        return self.norm2(x + self.down(nn.gelu(self.up(x))))


class MiniLM(nn.Module):
    """Token ids and mask (batch, length) to embeddings (batch, width)."""

    def __init__(self, width: int = 384, inner: int = 1536, layers: int = 6, words: int = 30522) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(512, width)
        self.kinds = nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width, 1e-12)
        self.layers = [Layer(width, inner) for _ in range(layers)]

    def __call__(self, ids: mx.array, mask: mx.array) -> mx.array:
        x = self.words(ids) + self.places.weight[: ids.shape[1]] + self.kinds.weight[0]
        x = self.norm(x)
        seen = mask[:, None, None, :].astype(mx.bool_)
        for layer in self.layers:
            x = layer(x, seen)
        counted = mask[..., None].astype(x.dtype)
        mean = (x * counted).sum(1) / counted.sum(1)
        return mean / mx.linalg.norm(mean, axis=-1, keepdims=True)


NAMES = {
    "embeddings.word_embeddings": "words", "embeddings.position_embeddings": "places",
    "embeddings.token_type_embeddings": "kinds", "embeddings.LayerNorm": "norm",
    "attention.self.query": "query", "attention.self.key": "key", "attention.self.value": "value",
    "attention.output.dense": "out", "attention.output.LayerNorm": "norm1", "intermediate.dense": "up",
    "output.dense": "down", "output.LayerNorm": "norm2", "encoder.layer": "layers",
}  # fmt: skip
"""Transformers' names and ours; those with a part in common in the order in which they are replaced."""


def port(bert: Any) -> MiniLM:
    """The same model with the weights of transformers' BertModel."""
    weights = []
    for name, array in arrays(bert).items():
        if "pooler" in name or "position_ids" in name:
            continue
        for theirs, ours in NAMES.items():
            name = name.replace(theirs, ours)
        weights.append((name, array))
    model = MiniLM()
    model.load_weights(weights)
    return model
