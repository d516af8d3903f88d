"""Models from the Hugging Face hub or a local folder, with example inputs and dynamic sizes by kind of model."""

from __future__ import annotations

from typing import Any

from ..errors import ConversionError, MissingExtraError

TOKENS = ("input_ids", "attention_mask", "token_type_ids", "position_ids")
"""Inputs of the shape (batch, length)."""


def load_hf(name: str, given: dict[str, Any]) -> tuple[Any, dict[str, Any], list[dict[str, Any]]]:
    """(module, example inputs, dynamic_shapes to try in turn) of a model id or folder.

    `given` replaces example inputs.
    """
    try:
        import transformers
    except ImportError as error:
        raise MissingExtraError('hf: models need transformers: pip install "mlxify[llm]"') from error
    try:
        config = transformers.AutoConfig.from_pretrained(name)
        kind = getattr(transformers, (config.architectures or [""])[0], None) or transformers.AutoModel
        model = kind.from_pretrained(name, config=config).eval()
    except (OSError, ValueError) as error:
        raise ConversionError(f"transformers cannot load {name!r}: {error}") from error
    if hasattr(model.config, "use_cache"):
        model.config.use_cache = False
    examples = {**_examples(name, model, config), **given}
    return model, examples, _dynamic_shapes(examples, getattr(config, "max_position_embeddings", None))


def _examples(name: str, model: Any, config: Any) -> dict[str, Any]:
    import torch

    main = model.main_input_name
    if main == "pixel_values":
        size = getattr(config, "image_size", 224)
        height, width = size if isinstance(size, (list, tuple)) else (size, size)
        return {main: torch.zeros(2, getattr(config, "num_channels", 3), height, width)}
    if main == "input_ids":
        # Two different sizes, none of them 0 or 1, so that the exporter keeps both dynamic.
        tokens = torch.ones(2, 7, dtype=torch.int64)
        return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
    raise ConversionError(f"{name}: give the example input yourself: --input {main}=float32[…]")


def _dynamic_shapes(examples: dict[str, Any], longest: int | None) -> list[dict[str, Any]]:
    """Dynamic batch and length: first from 1 on, then what the exporter finds (it leaves the size 1 out)."""
    from torch.export import Dim

    named = {0: Dim("batch", min=1), 1: Dim("seq", min=1, max=longest)}
    found = {0: Dim.AUTO, 1: Dim.AUTO}
    return [{key: _axes(key, value, dims) for key, value in examples.items()} for dims in (named, found)]


def _axes(name: str, value: Any, dims: dict[int, Any]) -> Any:
    if not getattr(value, "ndim", 0):
        return None
    return dims if name in TOKENS and value.ndim == 2 else {0: dims[0]}
