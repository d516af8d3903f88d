"""Is a converted model as fast as PyTorch, eager and compiled, and as ONNX Runtime, on the CPU?

    python benchmarks/pytorch.py [--json out.json] [--only NAME] [--quick]

All use as many threads as MLX's BLAS (OMP_NUM_THREADS). The others are exported or compiled for the very sizes of a
case; mlxify's programs have dynamic sizes where a model's own export has them.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any

import mlx.core as mx
import torch
from timer import Row, Settings, alternate, difference, main, threads

import mlxify

OURS, COMPILED = "mlxify", "mlxify, compiled"
EAGER, TORCH_COMPILE, ONNX = "PyTorch", "torch.compile", "ONNX Runtime"


def torch_side(function: Any, *args: Any) -> Callable[[], Any]:
    @torch.inference_mode()
    def call() -> Any:
        return function(*args)

    return call


def onnx_side(model: torch.nn.Module, args: tuple[torch.Tensor, ...]) -> Callable[[], Any]:
    """The model by torch's own ONNX exporter, with all of ONNX Runtime's optimisations."""
    import onnxruntime

    exported = torch.onnx.export(model, args, dynamo=True, verbose=False)
    assert exported is not None
    file = io.BytesIO()
    exported.save(file)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads()
    session = onnxruntime.InferenceSession(file.getvalue(), options, providers=["CPUExecutionProvider"])
    feed = {put.name: arg.numpy() for put, arg in zip(session.get_inputs(), args, strict=True)}
    return lambda: session.run(None, feed)[0]


def compare(
    case: str, model: torch.nn.Module, converted: Any, args: tuple[torch.Tensor, ...], settings: Settings
) -> Iterator[Row]:
    """All sides of one call; a library that is missing is a row that says so."""
    from handwritten import evaluated, programs

    program, compiled = programs(converted)
    arrays = tuple(mx.array(arg.numpy()) for arg in args)
    sides = {OURS: evaluated(program, *arrays), EAGER: torch_side(model, *args)}
    if not settings.quick:
        torch.compiler.reset()
        sides |= {
            COMPILED: evaluated(compiled, *arrays),
            TORCH_COMPILE: torch_side(torch.compile(model), *args),
        }
    try:
        sides[ONNX] = onnx_side(model, args)
    except ModuleNotFoundError as error:
        yield Row(f"{case}, {ONNX}", skipped=str(error))
    apart = {name: difference(side(), sides[EAGER]()) for name, side in sides.items()}
    times = alternate(sides, settings)
    for theirs in (EAGER, TORCH_COMPILE, ONNX):
        for ours in (OURS, COMPILED):
            if ours in sides and theirs in sides:
                yield times.row(case, ours, theirs, difference=max(apart[ours], apart[theirs]))


def minilm(settings: Settings) -> Iterator[Row]:
    from torch_models import load_minilm, sentences

    model, exported = load_minilm()
    converted = mlxify.convert(exported)
    for batch, length in [(1, 16), (8, 64)]:
        case = f"MiniLM, {batch} x {length} tokens"
        yield from compare(case, model, converted, sentences(batch, length), settings)


def mobilenet(settings: Settings) -> Iterator[Row]:
    from torch_models import load_mobilenet, pictures

    model, args = load_mobilenet(), (pictures(),)
    yield from compare("MobileNetV2", model, mlxify.convert(model, args), args, settings)


def prompt(settings: Settings) -> Iterator[Row]:
    """The decoder without a cache, which every side can run."""
    from torch_models import PROMPT, Logits, load_decoder
    from torch_models import prompt as tokens

    decoder = load_decoder("Llama, 135M")
    decoder.config.use_cache = False
    model, args = Logits(decoder), (tokens(decoder.config.vocab_size),)
    case = f"Llama, 135M: prompt of {PROMPT}, no cache"
    yield from compare(case, model, mlxify.convert(model, args), args, settings)


def decode(settings: Settings) -> Iterator[Row]:
    """Tokens one by one, over a static cache. ONNX has no word for a cache that a model writes to."""
    from handwritten import Ours, follow, generate, programs
    from torch_models import NEW, PROMPT, export_decoder, load_decoder, with_cache
    from torch_models import prompt as tokens

    module = with_cache(load_decoder("Llama, 135M"))
    ids, first = tokens(49152), torch.tensor([[7]])
    program, compiled = programs(mlxify.convert(export_decoder(module)))
    sides: dict[str, Any] = {
        OURS: Ours(program), EAGER: Torch(module), COMPILED: Ours(compiled), TORCH_COMPILE: Torch(module, True)
    }  # fmt: skip
    array = mx.array(ids.numpy())
    logits = {
        name: side.follow(ids, 8) if isinstance(side, Torch) else follow(side, array, 8)
        for name, side in sides.items()
    }
    apart = max(difference(found, logits[EAGER]) for found in logits.values())
    token = mx.array(first.numpy())
    calls: dict[str, Callable[[], Any]] = {
        name: (lambda s=side: s.generate(first, PROMPT, NEW))
        if isinstance(side, Torch)
        else (lambda s=side: generate(s, token, PROMPT, NEW))
        for name, side in sides.items()
    }
    times = alternate(calls, settings)
    for theirs in (EAGER, TORCH_COMPILE):
        for ours in (OURS, COMPILED):
            yield times.row(
                f"Llama, 135M: {NEW} tokens",
                ours,
                theirs,
                scale=1e3 / NEW,
                unit="ms a token",
                difference=apart,
            )


class Torch:
    """The module with its cache in PyTorch."""

    def __init__(self, module: torch.nn.Module, compiled: bool = False) -> None:
        self.prefill: Any = module
        self.step: Any = torch.compile(module) if compiled else module

    @torch.inference_mode()
    def generate(self, token: torch.Tensor, start: int, count: int) -> None:
        for n in range(count):
            logits = self.step(input_ids=token, cache_position=torch.tensor([start + n]))
            token = logits[:, -1:].argmax(-1)

    @torch.inference_mode()
    def follow(self, ids: torch.Tensor, count: int) -> torch.Tensor:
        length = ids.shape[1]
        logits = [self.prefill(input_ids=ids, cache_position=torch.arange(length)).clone()]
        for n in range(count):
            at = torch.tensor([length + n])
            logits.append(self.step(input_ids=ids[:, n : n + 1], cache_position=at).clone())
        return torch.cat(logits, 1)


GROUPS = {"minilm": minilm, "mobilenet": mobilenet, "prompt": prompt, "decode": decode}

if __name__ == "__main__":
    mx.set_default_device(mx.cpu)
    torch.set_num_threads(threads())
    main(__doc__ or "", GROUPS, quick=("mobilenet",))
