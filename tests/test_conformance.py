"""A fixed sample of PyTorch's operator database, and proof that the judge sees faults.

The whole database: `make conformance`; its result is docs/coverage.md.
"""

import functools
from collections import Counter
from dataclasses import replace

import mlx.core as mx
import pytest
import torch

from mlxify.conformance.compare import Comparison, compare
from mlxify.conformance.judge import FAILURES, JUDGED, PASSES, quiet
from mlxify.conformance.meaning import MEANINGS
from mlxify.conformance.pool import Row, verdicts
from mlxify.conformance.report import closing_lines, read_json, write_json, write_markdown
from mlxify.conformance.samples import COMMON_DTYPES, Entry, SampleModule, entries, is_core

# One sample of each entry in the dtypes that most models compute with, and of each core entry in two of the six others.
OTHERS = 2
SHARDS = 48


@functools.cache
def sample() -> list[Entry]:
    """The entries of which a sample is judged."""
    chosen, others = [], Counter[str]()
    for entry in entries([], None, core=False):
        if entry.dtype not in COMMON_DTYPES:
            others[entry.key] += 1
            if (others[entry.key] + len(others)) % 3 >= OTHERS - 1:
                continue
        chosen.append(entry)
    return chosen


def judge_entry(entry: Entry, limit: int) -> Row:
    row = Row(entry)
    for verdict in verdicts(entry, limit):
        row.add(verdict)
    return row


@pytest.mark.parametrize(
    "shard", [pytest.param(s, marks=[pytest.mark.slow] if s % 2 else []) for s in range(SHARDS)]
)
def test_sample(shard: int) -> None:
    quiet()
    rows = [judge_entry(entry, 1) for entry in sample()[shard::SHARDS]]
    faults = {f"{r.entry.key} {r.entry.dtype}": r.details for r in rows if any(r.counts[c] for c in FAILURES)}
    assert not faults
    counts = sum((r.counts for r in rows), Counter())
    assert sum(counts[c] for c in PASSES) >= 0.5 * sum(counts[c] for c in JUDGED)


def test_the_sample_is_large() -> None:
    assert len(sample()) >= 1500  # half of it is slow


def sample_of(op, *arguments) -> tuple[SampleModule, tuple[torch.Tensor, ...]]:
    leaves, spec = torch.utils._pytree.tree_flatten((arguments[0], tuple(arguments[1:]), {}))
    return SampleModule(op, spec, leaves), tuple(a for a in leaves if isinstance(a, torch.Tensor))


FLOATS = torch.tensor([1.0, 2.0, float("nan"), float("inf")])
WRONG = {
    "dtype": (mx.array([1.0, 2.0, float("nan"), float("inf")]).astype(mx.float16), "dtype float16"),
    "shape": (mx.array([[1.0, 2.0, float("nan"), float("inf")]]), "shape [1, 4]"),
    "value": (mx.array([1.0, 2.001, float("nan"), float("inf")]), "1 of 4 values, at [1]"),
    "NaN": (mx.array([1.0, 2.0, 3.0, float("inf")]), "1 of 4 values, at [2]"),
    "infinity": (mx.array([1.0, 2.0, float("nan"), 3.4e38]), "1 of 4 values, at [3]"),
    "no tensor": (1.0, "a float"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_results_are_seen(name: str) -> None:
    actual, problem = WRONG[name]
    module, tensors = sample_of(torch.clone, FLOATS)
    assert problem in compare("clone", module, tensors, actual, FLOATS).problem


def test_number_of_outputs() -> None:
    module, tensors = sample_of(torch.clone, FLOATS)
    assert "2 outputs" in compare("clone", module, tensors, [mx.array(1.0), mx.array(1.0)], FLOATS).problem


def test_error_bound_counts_only_what_pytorch_itself_misses() -> None:
    """A half-precision sum that PyTorch rounds at every step: the exact value counts, another wrong one does not."""
    x = torch.full((4096,), 0.1, dtype=torch.float16)
    module, tensors = sample_of(lambda t: torch.cumsum(t, 0)[-1:], x)
    rough = torch.tensor([405.0], dtype=torch.float16)  # 1 % below the exact 409.5
    found = compare("cumsum", module, tensors, mx.array([409.5], mx.float16), rough)
    assert found == Comparison(by="error bound")
    assert compare("cumsum", module, tensors, mx.array([500.0], mx.float16), rough).problem


TIED = torch.tensor([[3.0, 1.0, 3.0, 2.0]])


@pytest.mark.parametrize(
    ("indices", "same"), [([0, 2], True), ([2, 0], True), ([0, 0], False), ([0, 1], False), ([0, 9], False)]
)
def test_ties(indices: list[int], same: bool) -> None:
    ours = [torch.tensor([[3.0, 3.0]]), torch.tensor([indices])]
    theirs = [torch.tensor([[3.0, 3.0]]), torch.tensor([[0, 2]])]
    assert MEANINGS["topk"](((TIED, 2), {}), ours, theirs, [1]) == same


@pytest.mark.parametrize("key", ["linalg.eigh", "linalg.eig", "linalg.svd", "svd", "linalg.qr", "qr"])
def test_decompositions_by_their_meaning(key: str) -> None:
    torch.manual_seed(0)
    matrix = torch.randn(4, 4)
    op = {"svd": torch.svd, "qr": torch.qr}.get(key) or getattr(torch.linalg, key.split(".")[-1])
    theirs = list(op(matrix))
    vectors = 1 if "eig" in key else 0
    flipped = [t.clone() for t in theirs]
    flipped[vectors] = flipped[vectors] * -1
    if "svd" in key:
        flipped[2] = flipped[2] * -1
    if "qr" in key:
        flipped[1] = flipped[1] * -1
    meaning = MEANINGS[key]
    assert meaning(((matrix,), {}), flipped, theirs, [vectors])
    broken = [t.clone() for t in theirs]
    broken[vectors] = broken[vectors] * 1.01
    assert not meaning(((matrix,), {}), broken, theirs, [vectors])


def test_core_means_reaching_core_ops_only() -> None:
    assert is_core("add") and is_core("nn.functional.conv2d") and not is_core("linalg.eig")


def test_report(tmp_path) -> None:
    row = judge_entry(Entry("add", "int64"), 2)
    write_json([row], tmp_path / "c.json")
    write_markdown([row], tmp_path / "c.md", "command")
    assert read_json(tmp_path / "c.json") == [replace(row, seconds=0.0)]
    assert "| add | 2/2 |" in (tmp_path / "c.md").read_text()
    assert closing_lines([row])[0].startswith("core: 2 of 2 samples pass (100.00 %)")
