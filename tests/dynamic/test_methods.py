"""Several methods in one program: weights stored once, one state, names that users may choose."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export

import mlxify
from tests.ops.harness import compare

WIDTH, HEADS, ROOM, WORDS = 16, 2, 48, 40


class Decoder(nn.Module):
    """Two blocks of attention with caches in buffers; the embedding is the head as well."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.embed.weight
        self.norm = nn.LayerNorm(WIDTH)
        self.qkv = nn.ModuleList(nn.Linear(WIDTH, 3 * WIDTH) for _ in range(2))
        for n in range(2):
            for kind in "kv":
                self.register_buffer(f"{kind}{n}", torch.zeros(1, HEADS, ROOM, WIDTH // HEADS))

    def forward(self, ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """ids: (1, n), positions: (n,). Logits (1, n, words)."""
        x = self.embed(ids)
        mask = torch.arange(ROOM) <= positions[:, None]
        for n, layer in enumerate(self.qkv):
            q, k, v = (
                part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in layer(self.norm(x)).chunk(3, -1)
            )
            keys, values = getattr(self, f"k{n}"), getattr(self, f"v{n}")
            keys.index_copy_(2, positions, k)
            values.index_copy_(2, positions, v)
            seen = nn.functional.scaled_dot_product_attention(q, keys, values, mask)
            x = x + seen.transpose(1, 2).flatten(2)
        return self.head(self.norm(x))


class Wrapped(nn.Module):
    """The decoder under another name, as exporters wrap models."""

    def __init__(self, model: Decoder) -> None:
        super().__init__()
        self.inner = model

    def forward(self, ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        return self.inner(ids, positions)[:, -1]


def decoder_methods(model: Decoder) -> dict[str, ExportedProgram]:
    n = Dim("n", min=2, max=ROOM)
    prompt = (torch.arange(5)[None], torch.arange(5))
    return {
        "prefill": export(Wrapped(model), prompt, dynamic_shapes=({1: n}, {0: n}), strict=False),
        "decode": export(model, (torch.tensor([[3]]), torch.tensor([5])), strict=False),
    }


def test_prefill_and_decode(tmp_path: Path) -> None:
    """A prompt and 32 steps, each compared with PyTorch's; weights and caches are stored once."""
    model = Decoder().eval()
    with torch.no_grad():
        converted = mlxify.convert(decoder_methods(model))
    path = tmp_path / "decoder.safetensors"
    converted.save(path)
    assert len(converted.graph.state) == 4
    weights = sum(p.numel() * 4 for p in model.parameters())
    assert weights <= converted.summary().weight_bytes < weights + 1000
    for program in (converted, mlxify.load(path)):
        for turn in range(2):  # the second one after reset
            prompt = torch.randint(WORDS, (1, 7 + turn), generator=torch.Generator().manual_seed(turn))
            for buffer in model.buffers():
                buffer.zero_()
            with torch.no_grad():
                logits = model(prompt, torch.arange(prompt.shape[1]))[:, -1]
                compare(program.prefill(prompt, torch.arange(prompt.shape[1])), logits, (1e-4, 1e-5))
                for step in range(32):
                    token, position = logits.argmax(-1, keepdim=True), torch.tensor([prompt.shape[1] + step])
                    logits = model(token, position)[:, -1]
                    ours = program.decode(mx.array(token.numpy()), mx.array(position.numpy()))
                    compare(ours[:, -1], logits, (1e-4, 1e-5), f"step {step}")
            program.reset()


def test_methods_of_a_session_share_its_state() -> None:
    model = Decoder().eval()
    program = mlxify.convert(decoder_methods(model))
    prompts = [torch.tensor([[1, 2, 3]]), torch.tensor([[7, 8, 9, 10]])]
    token = mx.array([[5]], mx.int64)

    def answer(session: Any, prompt: torch.Tensor) -> np.ndarray:
        session.prefill(prompt, torch.arange(prompt.shape[1]))
        return np.array(session.decode(token, mx.array([prompt.shape[1]], mx.int64)))

    alone = [answer(program.session(), prompt) for prompt in prompts]
    one, two = program.session(), program.session()
    for session, prompt in ((one, prompts[0]), (two, prompts[1])):
        session.prefill(prompt, torch.arange(prompt.shape[1]))
    for session, prompt, expected in ((one, prompts[0], alone[0]), (two, prompts[1], alone[1])):
        actual = session.decode(token, mx.array([prompt.shape[1]], mx.int64))
        np.testing.assert_array_equal(np.array(actual), expected)
    assert not np.array(program.state["inner.k0"]).any()


class Cell(nn.Module):
    def __init__(self, **buffers: torch.Tensor) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        for name, tensor in buffers.items():
            self.register_buffer(name, tensor)


class Add(Cell):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x)
        return self.total * 1


class Look(Cell):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.total * x


class LookRow(Cell):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.row * x


class Apply(Cell):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)


X = torch.ones(2, 3)


def methods(**modules: nn.Module) -> dict[str, ExportedProgram]:
    return {name: export(module.eval(), (X,), strict=False) for name, module in modules.items()}


def test_a_method_that_only_reads_sees_what_others_wrote(tmp_path: Path) -> None:
    total = torch.zeros(2, 3)
    converted = mlxify.convert(methods(look=Look(total=total), add=Add(total=total)))
    converted.save(tmp_path / "p.safetensors")
    for program in (converted, mlxify.load(tmp_path / "p.safetensors")):
        assert list(program.state) == ["total"] and program.look(X).tolist() == [[0.0] * 3] * 2
        program.add(X)
        program.add(X)
        assert program.look(X).tolist() == [[2.0] * 3] * 2
        assert program.session().look(X).tolist() == [[0.0] * 3] * 2
    converted = mlxify.convert(methods(look=LookRow(row=total), add=Add(total=total)))
    converted.add(X)
    assert len(converted.state) == 1 and converted.look(X).tolist() == [[1.0] * 3] * 2


def test_two_tensors_of_one_name_that_are_written_to_are_refused() -> None:
    """Whether they are one state makes the numbers, and cannot be known."""
    for other in (torch.zeros(2, 3), torch.ones(2, 3)):
        for kind in (Look, Add):
            with pytest.raises(mlxify.ConversionError, match="different tensors of the name 'total'"):
                mlxify.convert(methods(add=Add(total=torch.zeros(2, 3)), other=kind(total=other)))


def test_a_view_of_what_another_method_writes_to_is_refused() -> None:
    total = torch.zeros(2, 3)
    with pytest.raises(mlxify.ConversionError, match="'row' shares memory with a buffer"):
        mlxify.convert(methods(add=Add(total=total), look=LookRow(row=total[0])))


def test_two_models_with_weights_of_one_name() -> None:
    torch.manual_seed(0)
    one, two = Apply().eval(), Apply().eval()
    program = mlxify.convert(methods(one=one, two=two))
    assert set(program.graph.weights) == {"layer.weight", "layer.bias", "two.layer.weight", "two.layer.bias"}
    with torch.no_grad():
        compare(program.one(X), one(X))
        compare(program.two(X), two(X))


def test_equal_weights_from_two_files_are_stored_once(tmp_path: Path) -> None:
    exported = methods(one=Apply())["one"]
    torch.export.save(exported, tmp_path / "one.pt2")
    loaded = {name: torch.export.load(tmp_path / "one.pt2") for name in ("one", "two")}
    assert set(mlxify.convert(loaded).graph.weights) == {"layer.weight", "layer.bias"}


def test_methods_share_after_a_change_of_dtype() -> None:
    model = Decoder().eval()
    program = mlxify.convert(decoder_methods(model), dtype="float16")
    assert len(program.graph.state) == 4 and {a.dtype for a in program.state.values()} == {mx.float16}
    weights = sum(p.numel() * 2 for p in model.parameters())
    assert weights <= program.summary().weight_bytes < weights + 1000
    program.prefill(torch.tensor([[1, 2, 3]]), torch.arange(3))
    assert mx.any(program.state["inner.k0"]).item() and not any(b.any() for b in model.buffers())


def test_some_methods_of_a_file(tmp_path: Path) -> None:
    total = torch.zeros(2, 3)
    path = tmp_path / "p.safetensors"
    mlxify.convert(methods(add=Add(total=total), look=Look(total=total), apply=Apply())).save(path)
    program = mlxify.load(path, methods=["apply"])
    assert list(program.graph.methods) == ["apply"] and set(program.graph.weights) == {
        "layer.weight",
        "layer.bias",
    }
    assert program.state == {} and program(X).shape == (2, 3)  # the only method
    with pytest.raises(AttributeError, match="there is no method 'add'; this program has apply"):
        program.add(X)
    program = mlxify.load(path, methods=["look", "add"])
    assert list(program.graph.methods) == ["look", "add"] and program.graph.weights == {}
    program.add(X)
    program.save(tmp_path / "part.safetensors")
    assert list(mlxify.load(tmp_path / "part.safetensors").graph.methods) == ["look", "add"]
    with pytest.raises(mlxify.ProgramError, match="has no method 'nothing'; it has add, look, apply"):
        mlxify.load(path, methods=["look", "nothing"])
    with pytest.raises(mlxify.ProgramError, match="no methods"):
        mlxify.load(path, methods=[])


@pytest.mark.parametrize("name", ["step", "generate", "arrays", "restore", "élan"])
def test_names_that_methods_may_have(name: str, tmp_path: Path) -> None:
    mlxify.convert(methods(**{name: Apply(), "other": Apply()})).save(tmp_path / "p.safetensors")
    program = mlxify.load(tmp_path / "p.safetensors")
    assert getattr(program, name)(X).shape == getattr(program.session(), name)(X).shape == (2, 3)


@pytest.mark.parametrize(
    "name", ["", "a b", "1", "_private", "__call__", "save", "state", "graph", "session"]
)
def test_names_that_methods_may_not_have(name: str) -> None:
    with pytest.raises(mlxify.MlxifyError, match="cannot be a method's name"):
        mlxify.convert(methods(**{name: Apply()}))


def test_no_method_hides_what_programs_have() -> None:
    own = {
        n
        for kind in (mlxify.Program, type(mlxify.convert(methods(forward=Apply())).session()))
        for n in dir(kind)
    }
    assert {n for n in own if not n.startswith("_")} <= mlxify.program.RESERVED


def test_methods_by_attribute_and_default() -> None:
    program = mlxify.convert(methods(forward=Apply(), other=Apply()))
    assert program(X).tolist() == program.forward(X).tolist() == program.session()(X).tolist()
    with pytest.raises(AttributeError, match="there is no method 'nothing'; this program has forward, other"):
        program.nothing(X)
    with pytest.raises(mlxify.MlxifyError, match="no methods"):
        mlxify.convert({})


def greedy(step: Callable[[int, int], Any], first: int, start: int, count: int) -> list[int]:
    """`count` tokens; `step` gives the token after one at a position."""
    tokens = [first]
    while len(tokens) < count:
        tokens.append(step(tokens[-1], start + len(tokens) - 1))
    return tokens


def test_a_llama_with_a_static_cache(tmp_path: Path) -> None:
    """transformers' own module for export, its prompt and its steps as two methods: 16 tokens as PyTorch's."""
    transformers = pytest.importorskip("transformers")
    from transformers.integrations.executorch import TorchExportableModuleWithStaticCache

    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=100, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, tie_word_embeddings=True, use_cache=True,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).eval()
    model.generation_config = transformers.GenerationConfig(
        use_cache=True, cache_implementation="static", max_length=64,
        cache_config={"batch_size": 1, "max_cache_len": 64}, eos_token_id=None, pad_token_id=0, bos_token_id=1,
    )  # fmt: skip
    prompt = torch.randint(100, (1, 9))
    with torch.no_grad():
        expected = model.generate(prompt, max_new_tokens=16, do_sample=False, cache_implementation=None)[
            0, 9:
        ]
        wrapper = TorchExportableModuleWithStaticCache(model)

        def method(length: int, **shapes: Any) -> ExportedProgram:
            example = {
                "input_ids": torch.ones(1, length, dtype=torch.long),
                "cache_position": torch.arange(length),
            }
            return export(wrapper, (), example, strict=True, **shapes)

        n = Dim("n", min=2, max=63)
        prefill = method(5, dynamic_shapes={"input_ids": {1: n}, "cache_position": {0: n}})
        mlxify.convert({"prefill": prefill, "decode": method(1)}).save(tmp_path / "llama.safetensors")
    program = mlxify.load(tmp_path / "llama.safetensors")
    first = program.prefill(input_ids=prompt, cache_position=torch.arange(9))[0, -1].argmax().item()

    def step(token: int, position: int) -> int:
        ids, at = mx.array([[token]], mx.int64), mx.array([position], mx.int64)
        return int(program.decode(input_ids=ids, cache_position=at)[0, -1].argmax().item())

    assert greedy(step, int(first), 9, 16) == expected.tolist()
    parameters = sum(p.numel() * 4 for p in model.parameters())
    assert program.summary().weight_bytes < parameters + 10_000
