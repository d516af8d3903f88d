"""Arguments and results as users have them: each model is called in PyTorch, here, and where torch cannot be imported."""

import json
import subprocess
import sys
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
import torch
from torch.export import register_dataclass

import mlxify
from mlxify.inputs import to_numpy
from tests.test_api import module

from .data import Pair, Span
from .rows import randn

outputs = pytest.importorskip("transformers.modeling_outputs")
register_dataclass(Pair)

ARRAYS: dict[str, torch.Tensor] = {
    "x": randn(2, 3),
    "y": randn(2, 3, seed=1),
    "one": torch.tensor(2.0),
    "ids": torch.tensor([[1, 2, 0]]),
    "keep": torch.tensor([True, False]),
    "none": torch.zeros(0, 3),
    "half": randn(2, 3).half(),
}


@dataclass
class Case:
    """A model; how it is called to be exported; further calls. A call is Python text over `p`, ARRAYS, Pair, Span.

    refused: calls and what the InputError says about them.
    """

    model: torch.nn.Module
    example: str
    calls: tuple[str, ...] = ()
    refused: dict[str, str] = field(default_factory=dict)


def case(fn: Callable[..., Any], example: str, *calls: str, **refused: str) -> Case:
    return Case(module(fn), example, calls, refused.pop("refused", {}))


class Defaults(torch.nn.Module):
    def forward(
        self, x: Any, scale: float = 2.0, mask: Any = None, *, flag: bool = False, name: str = "a"
    ) -> Any:
        y = x * scale if name == "a" else x
        y = y if mask is None else y * mask
        return -y if flag else y


class Starred(torch.nn.Module):
    def forward(self, *xs: Any, **named: Any) -> Any:
        return sum(xs) + named["y"] * 2


class Buffers(torch.nn.Module):
    """Returns its buffers and weights as they are; one weight has two names."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.arange(3.0))
        self.register_buffer("empty", torch.zeros(0, 2))
        self.linear = torch.nn.Linear(3, 3)
        self.tied = torch.nn.Linear(3, 3)
        self.tied.weight = self.linear.weight

    def forward(self, x: Any) -> Any:
        return self.table, self.linear.weight, self.tied(self.linear(x)), self.empty, self.table


class Counter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.long))

    def forward(self, x: Any) -> Any:
        self.count += 1
        return x + self.count, self.count


class Fixed(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.arange(4.0))

    def forward(self) -> Any:
        return self.weight * 2, torch.ones(2)


class Lifted(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.plain = torch.tensor([0.5, 1.5, 2.5])

    def forward(self, x: Any) -> Any:
        return (
            x * torch.tensor([1.0, 2.0, 3.0]) + self.plain + torch.tensor(4),
            torch.tensor([7, 8]),
            torch.tensor(3),
        )


class Encoded(torch.nn.Module):
    def forward(self, encoder: Any) -> Any:
        return encoder.last_hidden_state + encoder.hidden_states[1]


def nothing(x: Any) -> None:
    x + 1


CASES: dict[str, Case] = {
    "nested": case(
        lambda batch, pair: {"sum": batch["a"] + batch["b"][0] * pair[1], "all": [batch["b"], (pair, None)]},
        "p({'a': x, 'b': [y, x]}, (x, y))",
        "p(batch={'b': [y, x], 'a': x}, pair=(x, y))",
        refused={
            "p({'a': x, 'b': [y]}, (x, y))": "'batch.b' should be a list of 2",
            "p({'a': x, 'b': [y, ids]}, (x, y))": r"'batch.b\[1\]' has the dtype float32; got int64",
            "p({'a': x}, (x, y))": r"'batch' should be the keys \['a', 'b'\]",
            "p({'a': x, 'b': None}, (x, y))": "'batch.b' should be a list of 2; got NoneType",
        },
    ),
    "a dataclass": case(
        lambda pair: Pair(pair.first + 1, [pair.second, pair.first]),
        "p(Pair(x, {'deep': y}))",
        "p(pair=Pair(x, {'deep': y}))",
        refused={"p(Pair(x))": "'pair.second' should be the keys"},
    ),
    "a dataclass with a field that is None": case(lambda pair: Pair(pair.first * 2), "p(Pair(x))"),
    "a named tuple": case(lambda span: Span(span.high, span.low + 1), "p(Span(x, y))"),
    "a model output": case(
        lambda x: outputs.BaseModelOutput(last_hidden_state=x + 1, hidden_states=(x, x * 2)), "p(x)"
    ),
    "an ordered dict": case(lambda d: OrderedDict(b=d["b"], a=d["a"] + 1), "p(OrderedDict(a=x, b=y))"),
    "a default dict": case(lambda x: defaultdict(list, a=x + 1, b=[x]), "p(x)"),
    "a deque": case(lambda x: deque([x + 1, x]), "p(x)"),
    "a dict with numbers for keys": case(lambda d: {3: d[1] + d[2], 0: d[1]}, "p({1: x, 2: y})"),
    "keywords": case(lambda x, y: x - y, "p(y=x, x=y)", "p(y, y=x)", "p(y, x)", "p(x=y, y=x)"),
    "defaults": Case(
        Defaults(), "p(x)", ("p(x=x)",), {"p(x, 3.0)": "takes 1 argument \\(x\\); got 2", "p(x, flag=True)": "no argument 'flag'"}
    ),
    "constants": Case(
        Defaults(),
        "p(x, 0.5, None, flag=True, name='b')",
        ("p(x)", "p(x, 0.5, name='b', flag=True)"),
        {
            "p(x, 0.25)": "'scale' should be 0.5, the value it was exported with; got float 0.25",
            "p(x, 0.5, y)": "'mask' should be None",
            "p(x, flag=False)": "'flag' should be True",
            "p(x, name='c')": "'name' should be 'b'",
        },
    ),
    "constants that are not finite": Case(Defaults(), "p(x, float('inf'))", ("p(x)",), {"p(x, 1.0)": "'scale' should be inf"}),
    "a constant that is no number": Case(Defaults(), "p(x, float('nan'))", ("p(x, float('nan'))",)),
    "an optional input given": Case(Defaults(), "p(x, mask=y)", (), {"p(x)": "'mask' is missing", "p(x, mask=None)": "got NoneType None"}),
    "stars": Case(Starred(), "p(x, y, x, y=y)"),
    "flags and numbers beside arrays": case(
        lambda x, n, on, rate: (x * n if on else x) * rate, "p(x, 3, True, 0.5)", refused={"p(x, 3, 1, 0.5)": "'on' should be True"}
    ),
    "a 0-d array": case(lambda x, one: x * one, "p(x, one)", "p(x, 2.0)", "p(x, 2)"),
    "bools": case(lambda keep, x: (~keep, torch.where(keep[:, None], x, -x)), "p(keep, x)"),
    "outputs that are inputs": case(lambda x, y: (x, y, x, {"again": y}), "p(x, y)"),
    "only an input": case(lambda x: x, "p(x)"),
    "outputs that are constants": case(lambda x: (x + 1, 3, 2.5, True, None, "text", float("inf")), "p(x)"),
    "a view of an input": case(lambda x: (x.T, x[0], x.view(-1), x.detach()), "p(x)"),
    "an output twice": case(lambda x: (lambda y: (y, [y, y]))(x * 2), "p(x)"),
    "unused inputs": case(lambda x, unused, more: x + 1, "p(x, y, {'z': ids})"),
    "None": case(nothing, "p(x)"),
    "an empty tuple": case(lambda x: (), "p(x)"),
    "empty containers": case(lambda x, d: (x, [], {}, ()), "p(x, {})"),
    "buffers and tied weights": Case(Buffers(), "p(x)"),
    "no inputs": Case(Fixed(), "p()"),
    "no weights": case(lambda x: x.sum(), "p(x)"),
    "neither": case(lambda: torch.arange(3) * 2, "p()"),
    "lifted constants": Case(Lifted(), "p(x)"),
    "empty arrays": case(
        lambda none, x: (none * 2, none.sum(0), torch.cat([none, x]), x[:0], none.mean(), none.reshape(3, 0)), "p(none, x)"
    ),
    "half precision": case(lambda half: half * 2, "p(half)", refused={"p(x)": "dtype float16; got float32"}),
}  # fmt: skip

NAMES = {"Pair": Pair, "Span": Span, "OrderedDict": OrderedDict}


def values(kind: Callable[[torch.Tensor], Any]) -> dict[str, Any]:
    return {**NAMES, **{name: kind(tensor) for name, tensor in ARRAYS.items()}}


class _Exporter:
    """In place of a program while a case's example is read."""

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        return args, kwargs


def converted(item: Case) -> mlxify.Program:
    args, kwargs = eval(item.example, {**values(lambda t: t), "p": _Exporter()})
    return mlxify.convert(item.model.eval(), args, kwargs)


def plain(value: Any) -> Any:
    """Nested results as JSON: arrays with dtype and shape; all sequences as lists, all with names as dicts."""
    if isinstance(value, (mx.array, torch.Tensor)):
        dtype = str(value.dtype).split(".")[-1].removesuffix("_")
        array = to_numpy(value) if isinstance(value, mx.array) else value.detach().numpy()
        return [dtype, list(value.shape), array.reshape(-1).tolist()]
    if isinstance(value, Pair):
        return {"first": plain(value.first), "second": plain(value.second)}
    if isinstance(value, Span):
        return plain(value._asdict())
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, deque)):
        return [plain(item) for item in value]
    return repr(value)


def assert_same(got: Any, wanted: Any, where: str) -> None:
    assert type(got) is type(wanted), (where, got, wanted)
    if isinstance(got, dict):
        assert list(got) == list(wanted), where
        for key in got:
            assert_same(got[key], wanted[key], f"{where}.{key}")
    elif isinstance(got, list):
        assert len(got) == len(wanted), where
        for index, (a, b) in enumerate(zip(got, wanted, strict=True)):
            assert_same(a, b, f"{where}[{index}]")
    elif isinstance(got, float):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6, err_msg=where)
    else:
        assert got == wanted, where


def expected(item: Case, call: str) -> Any:
    with torch.no_grad():
        return plain(eval(call, {**values(torch.clone), "p": item.model}))


def given(item: Case, call: str) -> str:
    """A call in full for the model: constants that it leaves out are those of the example."""
    return item.example if call in ("p(x)", "p(x, 0.5, name='b', flag=True)") and item.calls else call


@pytest.mark.parametrize("name", CASES)
def test_calls(name: str) -> None:
    item = CASES[name]
    program = converted(item)
    for call in (item.example, *item.calls):
        for kind in (lambda t: t, lambda t: mx.array(t.numpy()), lambda t: t.numpy()):
            result = eval(call, {**values(kind), "p": program})
            assert_same(plain(result), expected(item, given(item, call)), call)
    for call, message in item.refused.items():
        with pytest.raises(mlxify.InputError, match=message):
            eval(call, {**values(lambda t: t.numpy()), "p": program})


def test_a_plain_tuple_for_a_named_one() -> None:
    x, y = ARRAYS["x"].numpy(), ARRAYS["y"].numpy()
    result = converted(CASES["a named tuple"])((x, y))
    np.testing.assert_array_equal(np.array(result.low), y)


def test_a_model_output_as_argument() -> None:
    """Encoder outputs go to a decoder as they are; a field that was not exported is refused."""
    x, y = ARRAYS["x"], ARRAYS["y"]
    given = outputs.BaseModelOutput(last_hidden_state=x, hidden_states=(x, y))
    program = mlxify.convert(Encoded(), (given,))
    for call in (given, {"last_hidden_state": x.numpy(), "hidden_states": (x.numpy(), y.numpy())}):
        np.testing.assert_allclose(np.array(program(call)), (x + y).numpy(), rtol=1e-6)
    more = outputs.BaseModelOutput(last_hidden_state=x, hidden_states=(x, y), attentions=(x,))
    with pytest.raises(
        mlxify.InputError, match=r"'encoder' should be the keys \['last_hidden_state', 'hidden_states'\]"
    ):
        program(more)


def test_arguments_by_name_keep_their_places_by_position() -> None:
    """By position in the order of the model's signature, whatever the order in the example's keywords."""
    model = module(lambda x, y, z: x - 2 * y + 3 * z)
    x, y, z = (ARRAYS[name] for name in ("x", "y", "half"))
    z = z.float()
    program = mlxify.convert(model, (), {"z": z, "y": y, "x": x})
    np.testing.assert_allclose(np.array(program(x, y, z)), model(x, y, z).numpy(), rtol=1e-5)
    np.testing.assert_allclose(np.array(program(x, z=z, y=y)), model(x, y, z).numpy(), rtol=1e-5)


def test_a_gap_in_the_signature_ends_the_positions() -> None:
    """`y` comes after `scale`, which the example leaves out: by position it would be `scale`."""
    x, y = ARRAYS["x"], ARRAYS["y"]
    program = mlxify.convert(Defaults(), (x,), {"mask": y})
    with pytest.raises(mlxify.InputError, match=r"takes 1 argument \(x\) and mask by name; got 2"):
        program(x, y)


def test_an_exported_program_takes_by_position_what_it_was_exported_with_by_position() -> None:
    """An ExportedProgram does not know the order of its model's signature."""
    x, y = ARRAYS["x"], ARRAYS["y"]
    exported = torch.export.export(module(lambda a, b: a - b), (), {"b": y, "a": x}, strict=False)
    program = mlxify.convert(exported)
    np.testing.assert_allclose(np.array(program(a=x, b=y)), (x - y).numpy(), rtol=1e-6)
    with pytest.raises(mlxify.InputError, match=r"takes 0 arguments \(\) and b, a by name; got 2"):
        program(x, y)


def test_state_and_weights_are_stored_once(tmp_path: Path) -> None:
    program = mlxify.convert(Buffers(), (ARRAYS["x"],))
    assert len(program.graph.weights) == 5  # table, empty, one weight for two layers, two biases
    counter = mlxify.convert(Counter(), (ARRAYS["x"],))
    counter.save(tmp_path / "counter.safetensors")
    for each in (counter, mlxify.load(tmp_path / "counter.safetensors")):
        counts = [each(ARRAYS["x"])[1].item() for _ in range(3)]
        assert counts == [1, 2, 3] and each.state["count"].item() == 3


def test_keys_that_no_file_can_hold() -> None:
    with pytest.raises(mlxify.ConversionError, match="key"):
        mlxify.convert(module(lambda x: {(1, 2): x, None: x + 1}), (ARRAYS["x"],))


CHILD = """
import sys
sys.modules["torch"] = None
import json, math
from collections import OrderedDict
import mlx.core as mx, numpy as np, mlxify
from tests.dynamic.data import Pair, Span

def plain(value):
    if isinstance(value, mx.array):
        name = str(value.dtype).split(".")[-1].removesuffix("_")
        return [name, list(value.shape), np.array(value).reshape(-1).tolist()]
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    return [plain(v) for v in value] if isinstance(value, (list, tuple)) else repr(value)

arrays = dict(np.load(sys.argv[2]))
results = {}
for name, (path, calls) in json.load(open(sys.argv[1])).items():
    program = mlxify.load(path)
    results[name] = [plain(eval(call, {**globals(), **arrays, "p": program})) for call in calls]
json.dump(results, sys.stdout)
"""


def test_calls_where_torch_cannot_be_imported(tmp_path: Path) -> None:
    """All of them, saved, loaded and called in one process without torch."""
    jobs: dict[str, Any] = {}
    for number, (name, item) in enumerate(CASES.items()):
        path = tmp_path / f"{number}.safetensors"
        converted(item).save(path)
        jobs[name] = (str(path), [item.example, *item.calls])
    (tmp_path / "jobs.json").write_text(json.dumps(jobs))
    np.savez(tmp_path / "arrays.npz", **{k: v.numpy() for k, v in ARRAYS.items()})
    command = [sys.executable, "-c", CHILD, str(tmp_path / "jobs.json"), str(tmp_path / "arrays.npz")]
    paths = {"PYTHONPATH": "src:."}
    result = subprocess.run(command, capture_output=True, text=True, timeout=280, env=paths)
    assert result.returncode == 0, result.stderr
    for name, found in json.loads(result.stdout).items():
        item = CASES[name]
        for call, value in zip((item.example, *item.calls), found, strict=True):
            assert_same(value, expected(item, given(item, call)), f"{name}: {call}")
