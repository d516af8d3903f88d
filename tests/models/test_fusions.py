"""Which fusions real architectures hit: transformers' models, tiny and with random weights."""

from typing import Any

import pytest
import torch
from torch.export import Dim

import mlxify
from mlxify.check import check
from mlxify.support import fusion_uses

transformers = pytest.importorskip("transformers")

LAYERS = 2
SMALL = dict(
    hidden_size=32, intermediate_size=64, num_hidden_layers=LAYERS, num_attention_heads=4, vocab_size=64,
    pad_token_id=0, bos_token_id=1, eos_token_id=2,
)  # fmt: skip
GROUPED = dict(SMALL, num_key_value_heads=2, head_dim=8, use_cache=False)
MODELS = {
    "Llama": ("LlamaConfig", "LlamaForCausalLM", GROUPED),
    "Qwen2": ("Qwen2Config", "Qwen2ForCausalLM", GROUPED),
    "Gemma": ("GemmaConfig", "GemmaForCausalLM", GROUPED),
    "Gemma2": ("Gemma2Config", "Gemma2ForCausalLM", GROUPED),
    "BERT": ("BertConfig", "BertModel", SMALL),
    "ModernBERT": ("ModernBertConfig", "ModernBertModel", dict(SMALL, cls_token_id=1, sep_token_id=2)),
}
IDS = torch.tensor([[3, 14, 15, 9, 26, 5], [3, 5, 8, 0, 0, 0]])
MASK = (IDS > 0).long()


def model(name: str, attention: str, dtype: torch.dtype = torch.float32) -> Any:
    config_name, model_name, settings = MODELS[name]
    config = getattr(transformers, config_name)(**settings)
    config._attn_implementation = attention
    torch.manual_seed(0)
    return getattr(transformers, model_name)(config).to(dtype).eval()


def export(module: Any, dynamic: bool = False) -> torch.export.ExportedProgram:
    inputs = {"input_ids": IDS, "attention_mask": MASK}
    axes = {0: Dim("batch", max=8), 1: Dim("tokens", min=2, max=32)}
    return torch.export.export(
        module, (), inputs, dynamic_shapes=dict.fromkeys(inputs, axes) if dynamic else None, strict=False
    )


def fused(exported: torch.export.ExportedProgram) -> dict[str, int]:
    return {use.fusion: use.count for use in fusion_uses(exported) if not use.reason}


def missed(exported: torch.export.ExportedProgram) -> dict[str, tuple[int, str]]:
    return {use.fusion: (use.count, use.reason) for use in fusion_uses(exported) if use.reason}


# By layer: two norms, one attention, a rotation each of queries and keys; and one more norm at the end.
DECODER = {"rms_norm": 2 * LAYERS + 1, "rope": 2 * LAYERS}
EXPECTED = {
    ("Llama", "eager"): {**DECODER, "attention": LAYERS},
    ("Llama", "sdpa"): {**DECODER, "grouped_attention": LAYERS},
    ("Qwen2", "eager"): {**DECODER, "attention": LAYERS},
    ("Qwen2", "sdpa"): {**DECODER, "grouped_attention": LAYERS},
    ("Gemma", "eager"): {**DECODER, "attention": LAYERS},
    ("Gemma", "sdpa"): {**DECODER, "grouped_attention": LAYERS},
    # Four norms by layer; the scores are capped, so attention stays as it is.
    ("Gemma2", "eager"): {"rms_norm": 4 * LAYERS + 1, "rope": 2 * LAYERS},
    ("BERT", "eager"): {"attention": LAYERS},
    ("BERT", "sdpa"): {},
    ("ModernBERT", "eager"): {"attention": LAYERS, "rope": 2 * LAYERS},
    ("ModernBERT", "sdpa"): {"rope": 2 * LAYERS},
}


@pytest.mark.parametrize("name, attention", EXPECTED)
def test_fusions(name: str, attention: str) -> None:
    exported = export(model(name, attention))
    assert fused(exported) == EXPECTED[name, attention]
    assert ("attention" in missed(exported)) == (name == "Gemma2")
    inputs = {"input_ids": IDS, "attention_mask": MASK}
    assert all(row.ok for row in check(exported, (), inputs, tolerance=1e-5))


def test_dynamic_llama() -> None:
    module = model("Llama", "eager")
    exported = export(module, dynamic=True)
    assert fused(exported) == EXPECTED["Llama", "eager"]
    program = mlxify.convert(exported)
    for ids in (IDS, IDS[:1, :3], IDS.repeat(2, 3)):
        inputs = {"input_ids": ids, "attention_mask": (ids > 0).long()}
        assert all(row.ok for row in check(exported, (), inputs, program=program, tolerance=1e-5))


def test_llama_in_bfloat16() -> None:
    """The norms compute in float32 and are fused; attention and rotation round every step and are not."""
    exported = export(model("Llama", "eager", torch.bfloat16))
    assert fused(exported) == {"rms_norm": 2 * LAYERS + 1}
    reasons = missed(exported)
    assert reasons["attention"] == (LAYERS, "PyTorch rounds the scores to half precision before the softmax, a fused attention does not")  # fmt: skip
    assert reasons["rope"][0] == 2 * LAYERS and "half precision" in reasons["rope"][1]
    inputs = {"input_ids": IDS, "attention_mask": MASK}
    assert all(row.ok for row in check(exported, (), inputs))


def test_the_instructions_of_a_llama() -> None:
    program = mlxify.convert(export(model("Llama", "eager")))
    found = [instr.op for instr in program.graph.methods["forward"].all_instrs()]
    for name, count in {"rms_norm": 5, "rope": 4, "scaled_dot_product_attention": 2}.items():
        assert found.count(name) == count
    assert not {"softmax", "rsqrt", "mean", "cos", "sin", "negative"} & set(found)
