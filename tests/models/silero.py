"""Silero VAD, 16 kHz: a PyTorch transcription of the network, and speech-like test signals."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

RATE = 16_000
CHUNK = 512  # new samples per step
CONTEXT = 64  # samples of the previous chunk put in front of them
HIDDEN = 128


class SileroVAD(nn.Module):
    """STFT magnitude -> four convolutions -> one LSTM step -> speech probability of the chunk.

    samples: (B, 576), state: (2, B, 128), the LSTM's h and c. Returns ((B, 1), (2, B, 128)).
    """

    def __init__(self) -> None:
        super().__init__()
        # The STFT is a convolution with a fixed basis: 129 real rows, then 129 imaginary ones.
        self.stft_conv = nn.Conv1d(1, 258, 256, stride=128, bias=False)
        self.conv1 = nn.Conv1d(129, 128, 3, padding=1)
        self.conv2 = nn.Conv1d(128, 64, 3, stride=2, padding=1)
        self.conv3 = nn.Conv1d(64, 64, 3, stride=2, padding=1)
        self.conv4 = nn.Conv1d(64, 128, 3, padding=1)
        self.lstm_cell = nn.LSTMCell(128, HIDDEN)
        self.final_conv = nn.Conv1d(HIDDEN, 1, 1)

    def forward(self, samples: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        spectrum = self.stft_conv(F.pad(samples.unsqueeze(1), (0, 64), mode="reflect"))
        real, imaginary = spectrum.chunk(2, dim=1)
        x = torch.sqrt(real**2 + imaginary**2)
        for conv in (self.conv1, self.conv2, self.conv3, self.conv4):
            x = F.relu(conv(x))
        h, c = self.lstm_cell(x.squeeze(-1), (state[0], state[1]))
        logits = self.final_conv(F.relu(h).unsqueeze(-1))
        return torch.sigmoid(logits).squeeze(-1), torch.stack((h, c))


def package_data(name: str) -> Path:
    """A file of silero_vad/data, found without importing the package (which imports torchaudio)."""
    spec = find_spec("silero_vad")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(
            "silero-vad is not installed (tests/models/requirements.txt)", name="silero_vad"
        )
    return Path(spec.submodule_search_locations[0]) / "data" / name


def load_script() -> nn.Module:
    """The ScriptModule the package ships: takes (B, 512) and the rate, keeps context and state itself."""
    script: nn.Module = torch.jit.load(str(package_data("silero_vad.jit")))  # type: ignore[no-untyped-call]
    return script


def load(weights: Literal["safetensors", "script"] = "safetensors") -> SileroVAD:
    """The transcription with trained 16 kHz weights, in eval mode.

    silero-vad 6.2.3 ships two trainings of this one network: silero_vad_16k.safetensors (used by its
    tinygrad definition) and the ScriptModule's, which its ONNX files share. Their probabilities differ
    by up to 0.8, so compare each only with its own reference.
    """
    model = SileroVAD()
    if weights == "safetensors":
        from safetensors.torch import load_file

        state = load_file(package_data("silero_vad_16k.safetensors"))
    else:
        script = load_script().state_dict()
        state = {ours: script[theirs] for ours, theirs in _script_names().items()}
    model.load_state_dict(state)
    return model.eval()


def _script_names() -> dict[str, str]:
    """Parameter of the transcription -> its name in the ScriptModule's 16 kHz half."""
    modules = {f"conv{n + 1}": f"encoder.{n}.reparam_conv" for n in range(4)}
    modules |= {"final_conv": "decoder.decoder.2", "lstm_cell": "decoder.rnn"}
    names = {"stft_conv.weight": "_model.stft.forward_basis_buffer"}
    for parameter, _ in SileroVAD().named_parameters():
        module, leaf = parameter.rsplit(".", 1)
        if module in modules:
            names[parameter] = f"_model.{modules[module]}.{leaf}"
    return names


def initial_state(batch: int = 1) -> Tensor:
    """The state before the first chunk."""
    return torch.zeros(2, batch, HIDDEN)


def stream(signal: np.ndarray) -> Iterator[np.ndarray]:
    """(576,) float32 chunks: 64 samples of context, then 512 new ones; the last is zero-padded."""
    signal = np.asarray(signal, np.float32)
    padded = np.pad(signal, (CONTEXT, -len(signal) % CHUNK))
    for start in range(0, len(padded) - CONTEXT, CHUNK):
        yield padded[start : start + CONTEXT + CHUNK]


def probabilities(model: nn.Module, signal: np.ndarray) -> np.ndarray:
    """The speech probability of each chunk of the signal, the state carried from chunk to chunk."""
    state, result = initial_state(), []
    with torch.no_grad():
        for chunk in stream(signal):
            probability, state = model(torch.from_numpy(chunk)[None], state)
            result.append(probability.item())
    return np.array(result)


def export(model: nn.Module) -> ExportedProgram:
    """One step with a dynamic batch."""
    batch = Dim("batch", min=1, max=64)
    example = (torch.randn(2, CONTEXT + CHUNK) * 0.1, initial_state(2))
    return torch.export.export(model, example, dynamic_shapes=({0: batch}, {1: batch}), strict=False)


# Speech-like signals: source (glottal pulses) and filter (formants), in syllables and pauses.

# First three formants (Hz) of a, e, i, o, u for an adult male voice.
_VOWELS = np.array(
    [[730, 1090, 2440], [530, 1840, 2480], [270, 2290, 3010], [570, 840, 2410], [300, 870, 2240]]
)
_BANDWIDTHS = (80.0, 100.0, 140.0)


def syllables(seconds: float, seed: int) -> list[tuple[int, int]]:
    """(start, stop) in samples of each syllable: phrases of 4 to 7, a pause of 0.8 to 1.2 s after each."""
    rng = np.random.default_rng(seed)
    result: list[tuple[int, int]] = []
    end, at = int(seconds * RATE), RATE // 2
    while True:
        for _ in range(rng.integers(4, 8)):
            length = int(rng.uniform(0.16, 0.26) * RATE)
            if at + length > end:
                return result
            result.append((at, at + length))
            at += length + int(0.03 * RATE)
        at += int(rng.uniform(0.8, 1.2) * RATE)


def chunk_labels(seconds: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """For each chunk of speech_like(seconds, seed): is it all voiced; is it a settled pause.

    A pause counts from the seventh chunk (0.2 s) on, since the LSTM keeps speech ringing that long.
    """
    voiced = np.zeros(-(-int(seconds * RATE) // CHUNK) * CHUNK, bool)
    for start, stop in syllables(seconds, seed):
        voiced[start:stop] = True
    chunks = voiced.reshape(-1, CHUNK)
    busy = np.pad(np.any(chunks, axis=1), (6, 0))
    settled = ~np.any(np.lib.stride_tricks.sliding_window_view(busy, 7), axis=1)
    return np.asarray(np.all(chunks, axis=1)), np.asarray(settled)


def _resonate(x: np.ndarray, frequency: np.ndarray, bandwidth: float) -> np.ndarray:
    """One formant: a two-pole resonator of moving frequency, with gain 1 at 0 Hz."""
    radius = np.exp(-np.pi * bandwidth / RATE)
    a1, a2 = 2 * radius * np.cos(2 * np.pi * frequency / RATE), -(radius**2)
    result, y1, y2 = [], 0.0, 0.0
    for sample, a in zip((x * (1 - a1 - a2)).tolist(), a1.tolist(), strict=True):
        y1, y2 = sample + a * y1 + a2 * y2, y1
        result.append(y1)
    return np.array(result)


def speech_like(seconds: float, seed: int) -> np.ndarray:
    """Float32 samples at 16 kHz: gliding vowels in the syllables, faint noise in the pauses."""
    rng = np.random.default_rng(seed + 1_000_003)
    signal = rng.normal(0, 3e-4, int(seconds * RATE))
    pitch = rng.uniform(100, 140)
    for start, stop in syllables(seconds, seed):
        n = stop - start
        t = np.arange(n) / n
        f0 = (
            pitch
            * rng.uniform(0.9, 1.2)
            * (1.1 - 0.25 * t)
            * (1 + 0.01 * rng.normal(size=n).cumsum() / n**0.5)
        )
        phase = np.cumsum(f0) / RATE % 1
        pulse = np.where(phase < 0.6, phase**2 * (0.6 - phase), 0)  # Rosenberg: opens slowly, closes fast
        voice = np.diff(pulse, prepend=0) + 2e-4 * rng.normal(size=n)  # lips radiate; a little breath
        one, other = _VOWELS[rng.choice(len(_VOWELS), 2, replace=False)]
        glide = np.clip((t - 0.2) / 0.5, 0, 1)[:, None]
        for formant, bandwidth in zip((one * (1 - glide) + other * glide).T, _BANDWIDTHS, strict=True):
            voice = _resonate(voice, formant * rng.uniform(0.95, 1.05), bandwidth)
        envelope = np.minimum(1, np.minimum(t / 0.2, (1 - t) / 0.3))
        signal[start:stop] += 0.3 * envelope * voice / np.abs(voice).max()
    return signal.astype(np.float32)
