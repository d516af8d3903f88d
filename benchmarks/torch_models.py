"""The PyTorch models that are measured, and their exports as a user would write them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from examples import minilm
from tests.models import mobilenet

PROMPT, NEW = 128, 64
"""Tokens of a prompt, and tokens that are then generated one by one."""


def load_minilm() -> tuple[nn.Module, ExportedProgram]:
    """Trained weights, dynamic batch and length."""
    model, _ = minilm.load()
    return model, minilm.export(model)


def sentences(batch: int, length: int) -> tuple[Tensor, Tensor]:
    """Random token ids, and a mask that leaves out the end of every second row."""
    ids = torch.randint(1000, 30_000, (batch, length), generator=torch.Generator().manual_seed(0))
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[1::2, length // 2 :] = 0
    return ids, mask


def load_mobilenet() -> nn.Module:
    """MobileNetV2 with trained weights."""
    return mobilenet.load()


def pictures(batch: int = 1) -> Tensor:
    return mobilenet.images(batch)


def load_classifier(kind: str, **settings: Any) -> nn.Module:
    """Transformers' ViT or ResNet for image classification, random weights and running statistics."""
    import transformers

    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**settings)
    model = getattr(transformers, f"{kind}ForImageClassification")(config)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_mean, -0.1, 0.1)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
    return Logits(model.eval())


class Logits(nn.Module):
    """A model of transformers that returns its logits alone."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: Tensor) -> Tensor:
        return self.model(inputs).logits


TINY = dict(
    hidden_size=256, intermediate_size=512, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
    head_dim=64, vocab_size=2000,
)  # fmt: skip
# SmolLM-135M's sizes.
SMALL = dict(
    hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9, num_key_value_heads=3,
    head_dim=64, vocab_size=49152,
)  # fmt: skip
DECODERS = {
    "Llama, tiny": ("Llama", TINY),
    "Qwen2, tiny": ("Qwen2", TINY),
    "Qwen3, tiny": ("Qwen3", TINY),
    "Gemma, tiny": ("Gemma", TINY),
    "Llama, 135M": ("Llama", SMALL),
}


def load_decoder(name: str) -> Any:
    """Transformers' model with random weights, set up for a static cache that holds the prompt and what follows."""
    import transformers

    torch.manual_seed(0)
    kind, sizes = DECODERS[name]
    config = getattr(transformers, f"{kind}Config")(
        **sizes, max_position_embeddings=2048, tie_word_embeddings=True, use_cache=True, bos_token_id=1,
        eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    model = getattr(transformers, f"{kind}ForCausalLM")(config).eval()
    room = PROMPT + NEW
    model.generation_config = transformers.GenerationConfig(
        use_cache=True, cache_implementation="static", max_length=room,
        cache_config={"batch_size": 1, "max_cache_len": room}, bos_token_id=1, eos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    return model


def with_cache(model: Any) -> nn.Module:
    """Transformers' own module for export: input_ids (1, n) and cache_position (n,) to logits (1, n, words)."""
    from transformers.integrations.executorch import TorchExportableModuleWithStaticCache

    return TorchExportableModuleWithStaticCache(model)


def export_decoder(module: nn.Module) -> dict[str, ExportedProgram]:
    """A method for prompts of any length and one for a token, over one cache."""

    def method(length: int, shapes: Any = None) -> ExportedProgram:
        example = {
            "input_ids": torch.ones(1, length, dtype=torch.long),
            "cache_position": torch.arange(length),
        }
        return torch.export.export(module, (), example, dynamic_shapes=shapes, strict=True)

    n = Dim("n", min=2, max=PROMPT)
    return {
        "prefill": method(5, {"input_ids": {1: n}, "cache_position": {0: n}}),
        "decode": method(1),
    }


def prompt(words: int) -> Tensor:
    return torch.randint(3, words, (1, PROMPT), generator=torch.Generator().manual_seed(0))
