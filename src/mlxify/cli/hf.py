"""Models from the Hugging Face hub or a local folder, with example inputs and dynamic sizes by kind of model."""

from __future__ import annotations

from typing import Any

from ..errors import ConversionError, MissingExtraError


def load_hf(name: str, given: dict[str, Any]) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """(module, example inputs, dynamic_shapes) of a model id or folder. `given` replaces example inputs."""
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
    return model, examples, {key: _dynamic(key, value) for key, value in examples.items()}


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


def _dynamic(name: str, value: Any) -> Any:
    from torch.export import Dim

    if not hasattr(value, "ndim"):
        return None
    axes = {0: Dim.AUTO} if value.ndim else {}
    if name in ("input_ids", "attention_mask", "token_type_ids", "position_ids"):
        axes[1] = Dim.AUTO
    return axes
