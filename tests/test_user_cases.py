"""What people who convert models for a living ran into elsewhere, each with the right values.

The numbers are those of the project's list of user cases. Cases about whole language models with caches (U07, U09)
are tested with the exporter of such models, U61 by the conformance suite, U05 and U57 also by `mlxify doctor` and
`mlxify check`.
"""

import itertools
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from torch.export import Dim
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F

import mlxify
from mlxify.inputs import to_numpy
from mlxify.run import Program

from .dynamic.rows import integers, randn
from .ops.harness import Case, check, params
from .test_api import module

INF, NAN = math.inf, math.nan


def tensor(*values: Any, dtype: Any = None) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype)


class UNetBlock(nn.Module):
    """U01: norm, activation, upsampling and convolution, three times."""

    def __init__(self, groups: int, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, channels, 3, padding=1)
        self.norms = nn.ModuleList(nn.GroupNorm(groups, channels) for _ in range(3))
        self.convs = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for norm, conv in zip(self.norms, self.convs, strict=True):
            x = conv(F.interpolate(F.silu(norm(x)), scale_factor=2, mode="nearest"))
        return x


def attention_by_hand(x: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """U15: spelled out, and as one op."""
    scores = (x @ x.mT) / 4 + bias
    return scores.softmax(-1) @ x, F.scaled_dot_product_attention(x, x, x, attn_mask=bias, scale=0.25)


def every_average(x: torch.Tensor) -> list[torch.Tensor]:
    """U17: kernel 7, padding 3, stride 4, and all around it."""
    found = [F.avg_pool2d(x, 7, 4, 3)]
    for k, s, p, ceil, count in itertools.product(
        (2, 3, 7), (1, 2, 4), (0, 1, 3), (False, True), (False, True)
    ):
        if p <= k // 2:
            found.append(F.avg_pool2d(x, k, s, p, ceil, count))
    return [*found, F.avg_pool2d(x, (3, 2), (2, 1), (1, 0), divisor_override=5)]


def masked_halves(x: torch.Tensor, keep: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """U19: the mask's constant overflows in float16; one row is padding only."""
    bias = torch.where(keep[:, None, None, None], 0.0, torch.finfo(torch.float32).min).to(x.dtype)
    small = torch.where(keep[:, None, None, None], 0.0, torch.finfo(x.dtype).min).to(x.dtype)
    scores = x @ x.mT
    return (
        F.scaled_dot_product_attention(x, x, x, attn_mask=small),
        (scores + small).softmax(-1),
        scores + bias,
    )


def diagonals(x: torch.Tensor) -> list[torch.Tensor]:
    return [part for k in range(-2, 3) for d in [torch.diagonal(x, k, -2, -1)] for part in (d, d.sum(-1))]


def half_norm(x: torch.Tensor) -> list[torch.Tensor]:
    """U29: variances that float16 cannot hold."""
    mean = torch.tensor([0.5, -0.5])
    return [F.batch_norm(x, mean, torch.tensor([1e5, 1e-6])), F.batch_norm(x, mean, torch.tensor([9e4, 7e4]))]


def extremes(x: torch.Tensor) -> list[torch.Tensor]:
    """U37: NaN first, in the middle, last."""
    return [x.argmax(-1), x.argmin(-1), x.amax(-1), x.amin(-1), *x.max(-1), *x.min(-1), x.argmax(), x.max()]


def safe_attention(q: torch.Tensor, k: torch.Tensor) -> list[torch.Tensor]:
    """U39: a row without anything to look at, by a boolean and by an additive mask, with grouped heads."""
    keep = torch.ones(4, 5, dtype=torch.bool).tril()
    keep = keep & (torch.arange(4) != 2)[:, None]
    bias = torch.zeros(4, 5).masked_fill(~keep, -INF)
    attention = F.scaled_dot_product_attention
    masks = (keep, bias)
    return [
        *(attention(q[:, :2], k, k, attn_mask=m) for m in masks),
        *(attention(q, k, k, attn_mask=m, enable_gqa=True) for m in masks),
        *(attention(q, k, k, attn_mask=m.expand(1, 4, 4, 5), enable_gqa=True) for m in masks),
    ]


def nearest(x: torch.Tensor) -> list[torch.Tensor]:
    """U43: by fractional scale, through the module and the function, up and down."""
    scales = (2.5, 1.3, 0.7, 0.31)
    return [
        *(nn.Upsample(scale_factor=s)(x) for s in scales),
        *(F.interpolate(x, scale_factor=s) for s in scales),
        *(F.interpolate(x, scale_factor=s, recompute_scale_factor=True) for s in scales),
        *(F.interpolate(x, size=size, mode=m) for size in ((7, 4), (3, 13)) for m in ("nearest", "nearest-exact")),
    ]  # fmt: skip


def inverse_stft(x: torch.Tensor) -> list[torch.Tensor]:
    """U53: there and back, a quarter of the window at a time."""
    window = torch.hann_window(64)
    spectrum = torch.stft(x, 64, 16, window=window, return_complex=True)
    back = torch.istft(spectrum, 64, 16, window=window, length=x.shape[-1])
    return [torch.view_as_real(spectrum), back, torch.istft(spectrum, 64, 16, window=window)]


NANS = torch.tensor([[NAN, 1.0, 2.0], [1.0, NAN, 2.0], [1.0, 2.0, NAN], [NAN, NAN, 3.0], [INF, -INF, 0.0]])
TRUNC = tensor(2.5, -2.5, 0.0, -0.0, INF, -INF, NAN, 1e20, -0.7)
WHOLE = tensor(7, -7, 8, -8, 1, 0), tensor(2, 2, -3, -3, 3, 5)
N = Dim("n", min=1, max=40)

CASES = [
    *(
        Case(f"U01 unet block, {groups} of {channels} at {size}", UNetBlock(groups, channels), (randn(1, 3, *size),), tolerance=(1e-4, 1e-4))
        for groups, channels, size in ((4, 32, (7, 5)), (32, 32, (4, 6)), (1, 8, (3, 3)))
    ),
    Case("U13 trunc", lambda x, n: (x.trunc(), x.double().trunc(), x.half().trunc(), n.trunc(), x.fix()), (TRUNC, tensor(3, -3))),
    *(
        Case(f"U15 attention by hand, batch {b}", attention_by_hand, (randn(b, 2, 6, 16), randn(b, 1, 6, 6)))
        for b in (1, 9, 10, 16, 33)
    ),
    Case("U17 average pooling", every_average, (randn(1, 2, 19, 17),)),
    Case("U19 a mask in float16", masked_halves, (randn(2, 1, 4, 8).half(), tensor(True, False))),
    Case("U21 runtime sizes", lambda x: (x.view(x.shape[0] * x.shape[1], -1), (x.view(x.shape[0] * x.shape[1], -1) * 2).view(x.shape)),
         (randn(4, 3, 5),), dynamic=({0: N, 1: Dim("m", min=1, max=20)},), also=((randn(1, 7, 5),), (randn(40, 1, 5),), (randn(9, 20, 5),))),
    Case("U23 shapes that depend on data", lambda x: (x[x > 0.2], (x > 0).nonzero(), x.masked_select(x < 0), torch.unique((x * 2).round()), *torch.where(x > 0.1)),
         (randn(4, 5),), also=((randn(4, 5, seed=3),), (torch.zeros(4, 5),), (torch.ones(4, 5),))),
    Case("U25 diagonals", diagonals, (randn(4, 5),)),
    Case("U25 diagonals of a batch", diagonals, (randn(2, 5, 4),)),
    Case("U25 along other axes", lambda x: [torch.diagonal(x, k, 0, 2) for k in range(-2, 3)], (randn(4, 2, 5),)),
    Case("U27 division of integers", lambda a, b: (a / b, torch.true_divide(a, b), a / 2, 7 / b, torch.div(a, b, rounding_mode="trunc"), torch.div(a, b, rounding_mode="floor"), a // b, a.int() / b.int(), (a > 0) / b), WHOLE),
    Case("U29 half batch norm", half_norm, ((randn(4, 2, 3) * 500).half(),)),
    Case("U29 half batch norm, a module", nn.BatchNorm2d(2).half(), (randn(2, 2, 3, 3).half(),)),
    Case("U31 arange", lambda x: (torch.arange(0, 5.5), torch.arange(5), torch.arange(5, dtype=torch.float32), torch.arange(1, 7, 2.5), torch.arange(0.5, 3), torch.arange(3, 0, -1),
         torch.arange(x.shape[0]), torch.arange(0, x.shape[0], dtype=torch.float32), torch.arange(0.5, x.shape[0] + 0.5)), (randn(5),), dynamic=({0: Dim("n", min=3, max=40)},), also=((randn(3),), (randn(40),))),
    Case("U37 NaN among the greatest", extremes, (NANS,)),
    Case("U37 NaN among the greatest, float16", extremes, (NANS.half(),)),
    Case("U37 NaN among the greatest, bfloat16", extremes, (NANS.bfloat16(),)),
    Case("U39 rows without keys", safe_attention, (randn(1, 4, 4, 24), randn(1, 2, 5, 24))),
    Case("U39 rows without keys, odd heads", safe_attention, (randn(1, 4, 4, 7), randn(1, 2, 5, 7))),
    Case("U41 products of integers", lambda a, b: (a @ b, a.int() @ b.int(), a[0] @ b, torch.mv(a, b[:, 0]), torch.einsum("ij,jk->ik", a, b), (a > 4).long() @ b), (integers(9, 4, 5), integers(9, 5, 3) - 4)),
    Case("U41 products beyond float64", lambda a: a @ a.mT, (tensor(2**31, 3**19, 7) [None].repeat(2, 1),)),
    Case("U43 nearest", nearest, (randn(1, 2, 5, 6),)),
    Case("U53 stft and back", inverse_stft, (randn(2, 512),), tolerance=(1e-4, 1e-5)),
    Case("U53 transposed convolution", nn.ConvTranspose1d(3, 3, 3, stride=2, padding=1, output_padding=1, groups=3), (randn(2, 3, 11),)),
    Case("U53 transposed convolution, 2-D", nn.ConvTranspose2d(4, 2, (3, 5), stride=(2, 3), padding=(1, 2), output_padding=(1, 2), groups=2, dilation=(1, 2)), (randn(1, 4, 5, 4),)),
]  # fmt: skip


@params(CASES)
def test_cases(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


class AudioEncoder(nn.Module):
    """U03: two convolutions, then eight layers of attention over 1500 positions."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(80, width, 3, padding=1)
        self.conv2 = nn.Conv1d(width, width, 3, stride=2, padding=1)
        layer = nn.TransformerEncoderLayer(width, 2, 4 * width, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 8, enable_nested_tensor=False)

    def forward(self, mel: torch.Tensor) -> torch.Tensor:
        return self.layers(F.gelu(self.conv2(F.gelu(self.conv1(mel)))).mT)


def test_u03_memory_of_an_audio_encoder(tmp_path: Path) -> None:
    """At its peak: the weights and what few operations need, not what eight layers compute. Loaded lazily."""
    torch.manual_seed(0)
    model = AudioEncoder().eval().bfloat16()
    mel = torch.randn(1, 80, 3000).bfloat16()
    mlxify.convert(model, (mel,)).save(tmp_path / "audio.safetensors")
    program = mlxify.load(tmp_path / "audio.safetensors", compile=False)
    given = mx.array(mel.float().numpy()).astype(mx.bfloat16)
    mx.eval(given)
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    result = program(given)
    mx.eval(result)
    # On a CPU attention's scores are there in full, in float32, and MLX has up to ten operations under way.
    scores, weights = 2 * 1500 * 1500 * 4, program.summary().weight_bytes
    assert mx.get_peak_memory() - before < weights + 6 * scores
    with torch.no_grad():
        expected = model.float()(mel.float())
    assert np.abs(to_numpy(result) - expected.numpy()).max() < 0.1 * expected.abs().max()


def test_u05_a_machine_without_metal() -> None:
    """A program runs on what there is; asking for a device that is not there is an error, never an abort."""
    code = (
        "import mlx.core as mx, mlxify\n"
        "print(mx.metal.is_available(), mx.default_device())\n"
        "x = mx.ones((2,)); mx.eval(x + 1)\n"
        "try: mx.eval(mx.add(x, x, stream=mx.gpu)); print('ran')\n"
        "except Exception as error: print(type(error).__name__)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr


class Vision(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 8, 4, 4)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.patch(image).flatten(2).mT


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.out = nn.Embedding(10, 8), nn.Linear(8, 10)

    def forward(self, ids: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
        return self.out(torch.cat([image, self.words(ids)], 1))


def test_u11_dtypes_of_chained_programs() -> None:
    """A float32 encoder before a bfloat16 decoder: inputs tell their dtypes, another one is refused with the cast."""
    torch.manual_seed(0)
    vision = mlxify.convert(Vision(), (torch.randn(1, 3, 8, 8),))
    example = (torch.ones(1, 3, dtype=torch.long), torch.randn(1, 4, 8).bfloat16())
    decoder = mlxify.convert(Decoder().bfloat16(), example)
    assert [str(i.spec) for i in vision.graph.methods["forward"].inputs] == ["float32[1, 3, 8, 8]"]
    assert [str(i.spec) for i in decoder.graph.methods["forward"].inputs] == [
        "int64[1, 3]",
        "bfloat16[1, 4, 8]",
    ]
    seen = vision(np.ones((1, 3, 8, 8), np.float32))
    message = r"'image' has the dtype bfloat16; got float32: pass x.astype\(mx.bfloat16\)"
    with pytest.raises(mlxify.InputError, match=message):
        decoder(example[0], seen)
    assert decoder(example[0], seen.astype(mx.bfloat16)).dtype == mx.bfloat16


@pytest.mark.parametrize("compile", [False, True])
def test_u33_a_reduction_after_a_take_is_computed_anew(compile: bool) -> None:
    model = module(lambda table, x: table[torch.arange(x.shape[0])].sum())
    shapes = (None, {0: Dim("n", min=1, max=8)})
    converted = mlxify.convert(model, (torch.arange(8.0), torch.ones(3)), dynamic_shapes=shapes)
    program = Program(converted.graph, compile=compile)
    for n in (1, 2, 3, 4, 3, 8, 1):
        assert program(np.arange(8, dtype=np.float32), np.ones(n, np.float32)).item() == n * (n - 1) / 2


def test_u35_gradients_through_a_program(tmp_path: Path) -> None:
    """mx.grad goes through a loaded program: gradients of a cross-entropy loss are PyTorch's."""
    torch.manual_seed(0)
    inner = nn.Sequential(nn.Linear(12, 5), nn.GELU(), nn.Linear(5, 3))
    criterion = module(lambda x, target: F.cross_entropy(inner(x), target))
    x, target = torch.randn(6, 12, requires_grad=True), integers(3, 6)
    mlxify.convert(criterion, (x.detach(), target)).save(tmp_path / "loss.safetensors")
    program = mlxify.load(tmp_path / "loss.safetensors", compile=False)
    loss = criterion(x, target)
    loss.backward()
    value, gradient = mx.value_and_grad(lambda x: program(x, mx.array(target.numpy())))(
        mx.array(x.detach().numpy())
    )
    np.testing.assert_allclose(value.item(), loss.item(), rtol=1e-5)
    np.testing.assert_allclose(np.array(gradient), x.grad.numpy(), rtol=1e-4, atol=1e-6)


def test_u35_an_exported_backward_pass(tmp_path: Path) -> None:
    """A loss with its gradients as one graph of ATen ops, saved and loaded."""
    torch.manual_seed(0)
    weight, bias = torch.randn(3, 4), torch.randn(3)

    def loss(weight: torch.Tensor, bias: torch.Tensor, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(F.linear(x.relu(), weight, bias), target)

    both = torch.func.grad_and_value(loss, argnums=(0, 1, 2))
    args = (weight, bias, torch.randn(6, 4), integers(3, 6))
    exported = torch.export.export(make_fx(both)(*args), args, strict=False)
    mlxify.convert(exported).save(tmp_path / "grads.safetensors")
    grads, value = mlxify.load(tmp_path / "grads.safetensors")(*args)
    expected, loss_value = both(*args)
    np.testing.assert_allclose(value.item(), loss_value.item(), rtol=1e-5)
    for mine, theirs in zip(grads, expected, strict=True):
        np.testing.assert_allclose(np.array(mine), theirs.numpy(), rtol=1e-4, atol=1e-6)


def test_u45_a_transposed_convolution_with_a_long_stride() -> None:
    """6000 frames overlapped and added, as an inverse STFT does: no buffer of all windows of all positions."""
    layer = nn.ConvTranspose1d(1, 1, 4096, stride=1024, bias=False)
    frames = randn(1, 1, 6000)
    program = mlxify.convert(layer, (frames,))
    given = mx.array(frames.numpy())
    mx.eval(given)
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    found = program(given)
    mx.eval(found)
    output = 4 * found.size
    assert mx.get_peak_memory() - before < 16 * output
    with torch.no_grad():
        np.testing.assert_allclose(np.array(found), layer(frames).numpy(), rtol=1e-4, atol=1e-5)


def test_u47_compiled_calls_run_no_python_per_op() -> None:
    """Upsampling twice, then more: after the first call the instructions' bodies do not run again."""
    model = module(
        lambda x: F.interpolate(
            F.interpolate(x, scale_factor=2, mode="bilinear"), scale_factor=2, mode="bilinear"
        ).relu()
    )
    x = randn(1, 4, 16, 16)
    program = Program(mlxify.convert(model, (x,)).graph, compile=True)
    np.testing.assert_allclose(np.array(program(x)), model(x).numpy(), rtol=1e-5, atol=1e-6)
    names: list[str] = []

    def watch(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            names.append(frame.f_code.co_filename)

    given = mx.array(x.numpy())
    sys.setprofile(watch)
    try:
        program(given)
    finally:
        sys.setprofile(None)
    assert not [n for n in names if "/mlxify/ops/" in n] and len(names) < 60
    assert not {"take", "gather", "take_along_axis"} & program.summary().instructions.keys()


@pytest.mark.timeout(600)
def test_u49_rope_scaling_at_a_long_context() -> None:
    """Gemma 3: local and global layers with their own rotations; only the global ones are scaled."""
    transformers = pytest.importorskip("transformers")
    config = transformers.Gemma3TextConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=16, sliding_window=32, max_position_embeddings=4096,
        layer_types=["sliding_attention", "full_attention"], use_cache=False,
        rope_parameters={
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0},
        },
    )  # fmt: skip
    torch.manual_seed(0)
    language = transformers.Gemma3ForCausalLM(config).eval()
    model = module(lambda ids: language(input_ids=ids, use_cache=False).logits)
    for length in (64, 3000):
        ids = integers(64, 1, length)
        found = mlxify.convert(model, (ids,))(ids)
        with torch.no_grad():
            expected = model(ids).numpy()
        np.testing.assert_allclose(np.array(found), expected, rtol=1e-3, atol=1e-4)


class Mixed(nn.Module):
    """Weights whose axes could be taken for one another: all of one size."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.back = nn.Conv2d(3, 3, 3, padding=1), nn.ConvTranspose2d(3, 3, 3, padding=1)
        self.line, self.linear = nn.Conv1d(3, 3, 3, padding=1), nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(self.line(self.back(self.conv(x)).mean(0)))


def test_u51_weights_stay_as_they_are(tmp_path: Path) -> None:
    """Converted, saved, loaded and saved again: the weights are PyTorch's, bit for bit, and the results the same."""
    torch.manual_seed(0)
    model = Mixed().eval()
    x = randn(2, 3, 3, 3)
    program = mlxify.convert(model, (x,))
    first = np.array(program(x))
    for number in range(3):
        program.save(tmp_path / f"{number}.safetensors")
        program = mlxify.load(tmp_path / f"{number}.safetensors")
        np.testing.assert_array_equal(np.array(program(x)), first)
    contents = [load_file(tmp_path / f"{n}.safetensors") for n in range(3)]
    for saved in contents:
        assert saved.keys() == model.state_dict().keys()
        assert all(torch.equal(array, model.state_dict()[name]) for name, array in saved.items())


def test_u55_weights_go_back_to_pytorch(tmp_path: Path) -> None:
    """A program's file is a state_dict by the original names: changed in MLX, it loads in PyTorch, same results."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2)).eval()
    program = mlxify.convert(model, (randn(3, 4),))
    weights = program.graph.weights
    assert set(weights) == set(model.state_dict())
    down, up = mx.random.normal((1, 4)), mx.random.normal((6, 1))
    weights["0.weight"] = weights["0.weight"] + up @ down * 0.1
    tuned = Program(program.graph)
    tuned.save(tmp_path / "tuned.safetensors")
    model.load_state_dict(load_file(tmp_path / "tuned.safetensors"))
    x = randn(5, 4)[:3]
    with torch.no_grad():
        np.testing.assert_allclose(np.array(tuned(x)), model(x).numpy(), rtol=1e-5, atol=1e-6)


def test_u59_noise_in_an_inference_model(tmp_path: Path) -> None:
    """Other numbers with every call, the same ones after the same seed, of PyTorch's distribution."""
    model = module(lambda x, noise: x + noise * 0.1 * torch.randn_like(x))
    x = torch.zeros(100, 100)
    mlxify.convert(model, (x, torch.ones(()))).save(tmp_path / "noise.safetensors")
    program = mlxify.load(tmp_path / "noise.safetensors")
    program.seed(7)
    first, second = (np.array(program(x, 1.0)) for _ in range(2))
    program.seed(7)
    again = np.array(program(x, 1.0))
    assert np.array_equal(first, again) and not np.array_equal(first, second)
    assert abs(first.mean()) < 0.005 and abs(first.std() - 0.1) < 0.005
    assert not np.array(program(x, 0.0)).any()


@pytest.mark.timeout(600)
def test_u63_a_tiny_llama(tmp_path: Path) -> None:
    """Tied weights and shared constants: converted, saved and loaded, at several lengths."""
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, tie_word_embeddings=True, use_cache=False,
    )  # fmt: skip
    torch.manual_seed(0)
    language = transformers.LlamaForCausalLM(config).eval()
    model = module(lambda ids: language(input_ids=ids, use_cache=False).logits)
    model.language = language
    shapes = ({1: Dim("length", min=2, max=512)},)
    mlxify.convert(model, (integers(64, 1, 9),), dynamic_shapes=shapes).save(tmp_path / "llama.safetensors")
    program = mlxify.load(tmp_path / "llama.safetensors")
    assert len([n for n, a in program.graph.weights.items() if a.shape == (64, 32)]) == 1
    for length in (2, 33, 512):
        ids = integers(64, 1, length)
        with torch.no_grad():
            expected = model(ids).numpy()
        np.testing.assert_allclose(np.array(program(ids)), expected, rtol=1e-3, atol=1e-4)
