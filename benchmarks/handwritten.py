"""Is a converted model as fast as MLX code that an expert wrote by hand, with the same weights?

    python benchmarks/handwritten.py [--json out.json] [--only NAME] [--quick]

Decoders are compared with mlx-lm, BERT with mlx-embeddings, ResNet and ViT with mlx-image, and all but the decoders
with benchmarks/by_hand as well, which does what an expert would do for speed. Both sides use the same BLAS. Rows
"compiled" compare `compile=True` with the same hand-written function in mx.compile, where it can be compiled; else as
it is. Before anything is timed, the outputs must agree within 1e-3 of their largest value.
"""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import mlx.core as mx
from timer import Row, Settings, Times, alternate, difference, main

import mlxify

OURS, COMPILED = "mlxify", "mlxify, compiled"
BY_HAND, BY_HAND_COMPILED = "by hand", "by hand, compiled"
NORMS = {"by hand, layer by layer": False, "by hand, norms folded": True}
"""What a port does with batch norms: whether it puts them into the convolutions."""


def programs(converted: Any) -> tuple[Any, Any]:
    """The program as its users have it: saved and loaded, with the default settings and compiled."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.safetensors"
        converted.save(path)
        return mlxify.load(path), mlxify.load(path, compile=True)


def evaluated(function: Callable[..., Any], *args: Any) -> Callable[[], Any]:
    """The call, with its results computed."""

    def call() -> Any:
        result = function(*args)
        mx.eval(result)
        return result

    return call


def one_call(
    case: str,
    converted: Any,
    ours: tuple[mx.array, ...],
    hand: Callable[..., Any],
    theirs: tuple[mx.array, ...],
    settings: Settings,
    label: str = BY_HAND,
) -> Iterator[Row]:
    """The rows of a model that is one function: as it is, and both sides compiled."""
    program, compiled = converted
    mx.eval(ours, theirs)
    pairs = [(OURS, label), (COMPILED, f"{label}, compiled")]
    sides = {OURS: evaluated(program, *ours), label: evaluated(hand, *theirs)}
    if not settings.quick:  # a C++ compiler takes its time
        sides[COMPILED], sides[pairs[1][1]] = evaluated(compiled, *ours), evaluated(mx.compile(hand), *theirs)
    apart = max(difference(side(), sides[label]()) for side in sides.values())
    times = alternate(sides, settings)
    for pair in pairs[: len(sides) // 2]:
        yield times.row(case, *pair, difference=apart)


def minilm(settings: Settings) -> Iterator[Row]:
    from by_hand import minilm as hand
    from by_hand import packages
    from torch_models import load_minilm, sentences

    model, exported = load_minilm()
    converted = programs(mlxify.convert(exported))
    ports = {BY_HAND: hand.port(model.bert), "mlx-embeddings": packages.minilm(model.bert)}
    for batch, length in [(1, 16), (8, 64)][: 1 if settings.quick else 2]:
        args = tuple(mx.array(tensor.numpy()) for tensor in sentences(batch, length))
        for label, port in ports.items():
            case = f"MiniLM, {batch} x {length} tokens"
            yield from one_call(case, converted, args, port, args, settings, label)


def convolutional(
    case: str, model: Any, pictures: Any, ports: dict[str, Callable[[], Any]], settings: Settings
) -> Iterator[Row]:
    """Against several ports, whose pictures have the channels last."""
    channels_first = mx.array(pictures.numpy())
    channels_last = mx.contiguous(channels_first.transpose(0, 2, 3, 1))
    converted = programs(mlxify.convert(model, (pictures,)))
    for label, port in ports.items():
        yield from one_call(case, converted, (channels_first,), port(), (channels_last,), settings, label)


def mobilenet(settings: Settings) -> Iterator[Row]:
    from by_hand.convolution import MobileNetV2
    from torch_models import load_mobilenet, pictures

    model = load_mobilenet()
    ports = {label: partial(MobileNetV2, model, fold) for label, fold in NORMS.items()}
    yield from convolutional("MobileNetV2", model, pictures(), ports, settings)


def resnet(settings: Settings) -> Iterator[Row]:
    from by_hand import packages
    from by_hand.convolution import ResNet
    from torch_models import load_classifier, pictures

    model = load_classifier("ResNet")
    ports: dict[str, Callable[[], Any]]
    ports = {label: partial(ResNet, model.model, fold) for label, fold in NORMS.items()}
    ports["mlx-image"] = partial(packages.resnet, model.model)
    yield from convolutional("ResNet-50", model, pictures(), ports, settings)


def vit(settings: Settings) -> Iterator[Row]:
    from by_hand import packages
    from by_hand import vit as hand
    from torch_models import load_classifier, pictures

    sizes = dict(hidden_size=384, num_hidden_layers=12, num_attention_heads=6, intermediate_size=1536)
    model = load_classifier("ViT", **sizes, num_labels=1000)
    ports = {BY_HAND: partial(hand.port, model.model), "mlx-image": partial(packages.vit, model.model)}
    yield from convolutional("ViT-small", model, pictures(), ports, settings)


class MlxLm:
    """mlx-lm's model with a transformers model's weights, and its cache."""

    def __init__(self, model: Any) -> None:
        module = importlib.import_module(f"mlx_lm.models.{model.config.model_type}")
        config = {**model.config.to_dict(), "rope_theta": model.config.rope_parameters["rope_theta"]}
        self.model = module.Model(module.ModelArgs.from_dict({**config, "rope_scaling": None}))
        weights = {name: mx.array(tensor.numpy()) for name, tensor in model.state_dict().items()}
        weights = {name: array for name, array in weights.items() if name != "lm_head.weight"}
        self.model.load_weights(list(weights.items()))
        mx.eval(self.model.parameters())
        self.cache: list[Any] = []

    def prefill(self, ids: mx.array) -> mx.array:
        from mlx_lm.models.cache import make_prompt_cache

        self.cache = make_prompt_cache(self.model)
        logits = self.model(ids, self.cache)
        mx.eval(logits, [c.state for c in self.cache])
        return logits

    def step(self, token: mx.array, position: int) -> mx.array:
        assert self.cache[0].offset == position
        return self.model(token, self.cache)

    def rewind(self, tokens: int) -> None:
        for cache in self.cache:
            cache.trim(tokens)


class Ours:
    """The program under the same three calls."""

    def __init__(self, program: Any) -> None:
        self.program = program

    def prefill(self, ids: mx.array) -> mx.array:
        positions = mx.arange(ids.shape[1], dtype=mx.int64)
        logits = self.program.prefill(input_ids=ids, cache_position=positions)
        mx.eval(logits)
        return logits

    def step(self, token: mx.array, position: int) -> mx.array:
        at = mx.array([position], mx.int64)
        return self.program.decode(input_ids=token.astype(mx.int64), cache_position=at)

    def rewind(self, tokens: int) -> None:
        """Nothing to do: what comes is written over it."""


def generate(side: Any, token: mx.array, start: int, count: int) -> None:
    """Greedy decoding; each step is built while the one before is computed, as mlx_lm.generate does it."""
    for n in range(count):
        following = mx.argmax(side.step(token, start + n)[:, -1:], axis=-1)
        mx.async_eval(following)
        token.item()
        token = following
    token.item()
    side.rewind(count)


def follow(side: Any, ids: mx.array, count: int) -> mx.array:
    """The logits of a prompt, and of steps with given tokens."""
    logits = [side.prefill(ids)]
    for n in range(count):
        logits.append(side.step(ids[:, n : n + 1], ids.shape[1] + n))
        mx.eval(logits)
    side.rewind(count)
    return mx.concatenate(logits, axis=1)


def decoder(name: str) -> Callable[[Settings], Iterator[Row]]:
    """The rows of a language model: a prompt, and tokens after it."""

    def measure(settings: Settings) -> Iterator[Row]:
        import mlx_lm  # noqa: F401  (missing, before anything is made)
        from torch_models import NEW, PROMPT, export_decoder, load_decoder, prompt, with_cache

        model = load_decoder(name)
        program, compiled = programs(mlxify.convert(export_decoder(with_cache(model))))
        ids, new = mx.array(prompt(model.config.vocab_size).numpy()), 8 if settings.quick else NEW
        hand = MlxLm(model)
        sides = {OURS: Ours(program), "mlx-lm": hand}
        if not settings.quick:
            sides[COMPILED] = Ours(compiled)
        del model
        wanted = follow(hand, ids, 8)
        apart = max(difference(follow(side, ids, 8), wanted) for side in sides.values())

        def rows(case: str, times: Times, scale: float, unit: str) -> Iterator[Row]:
            for ours in [side for side in (OURS, COMPILED) if side in sides]:
                yield times.row(case, ours, "mlx-lm", scale=scale, unit=unit, difference=apart)

        calls = {label: (lambda s=side: s.prefill(ids)) for label, side in sides.items()}
        yield from rows(f"{name}: prompt of {PROMPT}", alternate(calls, settings), 1e3, "ms")
        first = mx.array([[7]])
        calls = {label: (lambda s=side: generate(s, first, PROMPT, new)) for label, side in sides.items()}
        yield from rows(f"{name}: {new} tokens", alternate(calls, settings), 1e3 / new, "ms a token")

    return measure


GROUPS = {
    "minilm": minilm,
    "mobilenet": mobilenet,
    "resnet": resnet,
    "vit": vit,
    "llama-tiny": decoder("Llama, tiny"),
    "qwen2-tiny": decoder("Qwen2, tiny"),
    "qwen3-tiny": decoder("Qwen3, tiny"),
    "gemma-tiny": decoder("Gemma, tiny"),
    "llama-135m": decoder("Llama, 135M"),
}

if __name__ == "__main__":
    main(__doc__ or "", GROUPS, quick=("minilm", "llama-tiny"))
