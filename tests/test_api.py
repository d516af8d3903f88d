"""The public API: calling a program, what it refuses and how, what conversion refuses and how."""

import dataclasses
import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np
import pytest
import torch
from torch.export import Dim, register_dataclass

import mlxify

from . import acme  # noqa: F401  (operations without a lowering)


def rows(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)


def module(fn: Callable[..., Any]) -> torch.nn.Module:
    """A model with the signature of `fn`."""
    names = list(inspect.signature(fn).parameters)
    scope: dict[str, Any] = {"fn": fn, "Module": torch.nn.Module}
    call = ", ".join(names)
    exec(f"class Model(Module):\n    def forward(self, {call}):\n        return fn({call})", scope)
    return scope["Model"]()


class Scale(torch.nn.Module):
    def forward(
        self, x: torch.Tensor, factor: torch.Tensor, bias: torch.Tensor | None = None, *, twice: bool = False
    ) -> torch.Tensor:
        y = x * factor
        y = y if bias is None else y + bias
        return y + y if twice else y


@pytest.fixture(scope="module")
def scale() -> mlxify.Program:
    args = (torch.ones(2, 3), torch.tensor(2.0), torch.ones(3))
    return mlxify.convert(Scale(), args, {"twice": True})


@pytest.fixture(scope="module")
def dynamic() -> mlxify.Program:
    n = Dim("n", min=2, max=16)
    model = module(lambda x, y: x + y)
    shapes = {"x": {0: n}, "y": {0: n}}
    return mlxify.convert(model, (torch.ones(4, 3), torch.ones(4, 3)), dynamic_shapes=shapes)


# Arguments

X, F, B = rows(2, 3), np.float32(2), rows(3)

CALLS: dict[str, Callable[[mlxify.Program], Any]] = {
    "positional": lambda p: p(X, F, B, twice=True),
    "by name": lambda p: p(bias=B, factor=F, x=X, twice=True),
    "mixed": lambda p: p(X, bias=B, factor=F, twice=True),
    "a constant left out": lambda p: p(X, F, B),
    "mx.array": lambda p: p(mx.array(X), mx.array(2.0), mx.array(B)),
    "torch": lambda p: p(torch.tensor(X), torch.tensor(2.0), torch.tensor(B)),
    "a tensor that requires grad": lambda p: p(torch.tensor(X, requires_grad=True), F, B),
    "a strided tensor": lambda p: p(torch.tensor(X.T.copy()).T, F, B),
    "a strided array": lambda p: p(np.asfortranarray(X), F, B),
    "Python float": lambda p: p(X, 2.0, B),
    "Python int": lambda p: p(X, 2, B),
    "NumPy scalar": lambda p: p(X, np.float32(2.0), B),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_arguments(scale: mlxify.Program, call: Callable[[mlxify.Program], Any]) -> None:
    result = call(scale)
    assert isinstance(result, mx.array) and result.dtype == mx.float32
    np.testing.assert_array_equal(np.array(result), 2 * (X * 2 + B))


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint32, np.int16, np.uint8])
def test_integers_widen(dtype: Any) -> None:
    """Token ids of any kind of integer that int64 holds; not of one that it does not hold."""
    ids = np.array([[1, 0, 2]])
    program = mlxify.convert(torch.nn.Embedding(3, 4).eval(), (torch.tensor(ids),))
    np.testing.assert_array_equal(np.array(program(ids.astype(dtype))), np.array(program(ids)))
    with pytest.raises(mlxify.InputError, match="has the dtype int64; got uint64"):
        program(ids.astype(np.uint64))


REFUSED: dict[str, tuple[Callable[[mlxify.Program], Any], str]] = {
    "too few": (lambda p: p(X, F), r"the argument 'bias' is missing; forward takes x, factor, bias, twice"),
    "too many": (
        lambda p: p(X, F, B, True, 5),
        r"forward takes 3 arguments \(x, factor, bias\) and twice by name; got 5",
    ),
    "only by name": (lambda p: p(X, F, B, True), r"takes 3 arguments .* and twice by name; got 4"),
    "unknown name": (lambda p: p(X, F, bais=B), r"no argument 'bais'; it takes x, factor, bias, twice"),
    "twice": (lambda p: p(X, F, B, x=X), r"'x' was given twice, by position and by name"),
    "dtype": (
        lambda p: p(X.astype(np.float64), F, B),
        r"'x' has the dtype float32; got float64: .*astype\(mx.float32",
    ),
    "integer dtype": (lambda p: p(X.astype(np.int32), F, B), r"'x' has the dtype float32; got int32"),
    "half": (lambda p: p(torch.tensor(X).half(), F, B), r"'x' has the dtype float32; got float16"),
    "bfloat16": (lambda p: p(torch.tensor(X).bfloat16(), F, B), r"'x' has the dtype float32; got bfloat16"),
    "rank": (lambda p: p(X, F, X), r"'bias' has 1 axes, float32\[3\]; got float32\[2, 3\]"),
    "size": (
        lambda p: p(X, F, rows(4)),
        r"axis 0 of the input 'bias' \(float32\[3\]\) has the size 3; got 4",
    ),
    "text": (lambda p: p("abc", F, B), r"'x' is an array float32\[2, 3\]; got str 'abc'"),
    "a list": (lambda p: p([1.0, 2.0], F, B), r"'x' is an array float32\[2, 3\]; got list"),
    "None": (lambda p: p(None, F, B), r"'x' is an array float32\[2, 3\]; got NoneType None"),
    "complex128": (
        lambda p: p(X.astype(np.complex128), F, B),
        r"'x' is an array float32\[2, 3\]; got numpy complex128",
    ),
    "objects": (lambda p: p(np.array([None]), F, B), r"'x' is an array float32\[2, 3\]; got numpy object"),
    "constant": (
        lambda p: p(X, F, B, twice=False),
        r"'twice' should be True, the value it was exported with; got bool False",
    ),
    "constant of another type": (lambda p: p(X, F, B, twice=1), r"'twice' should be True, .*; got int 1"),
}


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=REFUSED)
def test_refused_arguments(
    scale: mlxify.Program, call: Callable[[mlxify.Program], Any], message: str
) -> None:
    """One sentence that names the input, what was expected and what came."""
    with pytest.raises(mlxify.InputError, match=message) as caught:
        call(scale)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 200


DYNAMIC_REFUSED = {
    "too small": ((rows(1, 3), rows(1, 3)), r"axis 0 of the input 'x' .* at least 2, at most 16; got 1"),
    "too large": ((rows(17, 3), rows(17, 3)), r"at most 16; got 17"),
    "disagree": (
        (rows(4, 3), rows(5, 3)),
        r"axis 0 of the input 'y' .* must agree with another input: 4 expected, got 5",
    ),
    "static axis": ((rows(4, 2), rows(4, 2)), r"axis 1 of the input 'x' .* has the size 3; got 2"),
}


@pytest.mark.parametrize(("args", "message"), DYNAMIC_REFUSED.values(), ids=DYNAMIC_REFUSED)
def test_refused_dynamic_sizes(dynamic: mlxify.Program, args: tuple[Any, ...], message: str) -> None:
    with pytest.raises(mlxify.InputError, match=message):
        dynamic(*args)


@pytest.mark.parametrize("n", [2, 3, 16])
def test_dynamic_sizes(dynamic: mlxify.Program, n: int) -> None:
    np.testing.assert_array_equal(np.array(dynamic(rows(n, 3), rows(n, 3))), 2 * rows(n, 3))


def test_derived_sizes() -> None:
    n = Dim("n", min=1, max=8)
    program = mlxify.convert(module(lambda x: x + x), (torch.ones(6),), dynamic_shapes=({0: 2 * n},))
    assert program(rows(4)).shape == (4,)
    with pytest.raises(mlxify.InputError, match="got 5"):
        program(rows(5))


@pytest.mark.parametrize(
    "dtype",
    [
        "float16",
        "bfloat16",
        "float32",
        "float64",
        "int8",
        "uint8",
        "int16",
        "int32",
        "int64",
        "bool",
        "complex64",
    ],
)
def test_every_dtype_comes_and_goes(dtype: str) -> None:
    x = torch.tensor([[1, 0], [3, 4]]).to(getattr(torch, dtype))
    result = mlxify.convert(module(lambda x: x.transpose(0, 1)), (x,))(x)
    assert str(result.dtype).removesuffix("_") == f"mlx.core.{dtype}"
    wide = result.astype(mx.float32) if dtype == "bfloat16" else result
    np.testing.assert_array_equal(np.array(wide), (x.float() if dtype == "bfloat16" else x).T.numpy())


def test_nested_arguments() -> None:
    def forward(batch: dict[str, Any], pair: tuple[Any, ...]) -> torch.Tensor:
        return batch["a"] + batch["b"][0] * pair[1]

    one = torch.ones(2)
    program = mlxify.convert(module(forward), ({"a": one, "b": [one, one]}, (one, one * 3)))
    x = rows(2)
    np.testing.assert_array_equal(np.array(program({"a": x, "b": [x, x]}, (x, x))), x + x * x)
    np.testing.assert_array_equal(np.array(program(batch={"b": [x, x], "a": x}, pair=[x, x])), x + x * x)
    for args, message in (
        (({"a": x}, (x, x)), r"'batch' should be the keys \['a', 'b'\]"),
        (({"a": x, "b": [x]}, (x, x)), r"'batch.b' should be a list of 2"),
        (({"a": x, "b": [x, x], "c": x}, (x, x)), r"'batch' should be the keys"),
        (({"a": x, "b": [x, rows(3)]}, (x, x)), r"'batch.b\[1\]'.* has the size 2; got 3"),
        (({"a": x, "b": [x, x]}, x), r"'pair' should be a tuple of 2; got"),
    ):
        with pytest.raises(mlxify.InputError, match=message):
            program(*args)


def test_none_and_constant_arguments() -> None:
    model = module(lambda x, mask, mode: x if mask is None else x * mask)
    program = mlxify.convert(model, (torch.ones(2), None, "plain"))
    np.testing.assert_array_equal(np.array(program(rows(2), None, "plain")), rows(2))
    with pytest.raises(
        mlxify.InputError, match=r"'mask' should be None, the value it was exported with; got numpy"
    ):
        program(rows(2), rows(2), "plain")
    with pytest.raises(mlxify.InputError, match=r"'mode' should be 'plain'.*got str 'other'"):
        program(rows(2), None, "other")


# Results


@dataclasses.dataclass
class Both:
    total: torch.Tensor
    parts: list[torch.Tensor]


class Named(NamedTuple):
    low: torch.Tensor
    high: torch.Tensor


register_dataclass(Both)


def test_nested_results() -> None:
    def forward(x: torch.Tensor) -> Any:
        y = x + 1
        return {"a": y, "b": [x * 2, None, (y, 3, "text")], "named": Named(x - 1, y), 7: x * 3}

    result = mlxify.convert(module(forward), (torch.ones(2),))(rows(2))
    assert list(result) == ["a", "b", "named", 7]
    assert result["b"][1] is None and result["b"][2][1:] == (3, "text")
    assert isinstance(result["b"], list) and isinstance(result["b"][2], tuple)
    np.testing.assert_array_equal(np.array(result["named"].low), rows(2) - 1)
    np.testing.assert_array_equal(np.array(result["named"][1]), rows(2) + 1)
    np.testing.assert_array_equal(np.array(result[7]), rows(2) * 3)


def test_dataclass_results() -> None:
    program = mlxify.convert(module(lambda x: Both(x + 1, [x * 2, x])), (torch.ones(2),))
    result = program(rows(2))
    np.testing.assert_array_equal(np.array(result.total), rows(2) + 1)
    np.testing.assert_array_equal(np.array(result["parts"][0]), rows(2) * 2)
    assert list(result) == ["total", "parts"]
    with pytest.raises(AttributeError, match="Both has no field 'other'"):
        result.other


def test_model_output_results() -> None:
    outputs = pytest.importorskip("transformers.modeling_outputs")
    program = mlxify.convert(
        module(lambda x: outputs.BaseModelOutput(last_hidden_state=x + 1, hidden_states=(x, x * 2))),
        (torch.ones(2),),
    )
    result = program(rows(2))
    np.testing.assert_array_equal(np.array(result.last_hidden_state), rows(2) + 1)
    np.testing.assert_array_equal(np.array(result[0]), rows(2) + 1)
    np.testing.assert_array_equal(np.array(result.hidden_states[1]), rows(2) * 2)


def test_an_input_as_output_and_the_same_output_twice() -> None:
    a, b, c = mlxify.convert(module(lambda x: (x, x + 1, x)), (torch.ones(2),))(rows(2))
    np.testing.assert_array_equal(np.array(a), np.array(c))
    np.testing.assert_array_equal(np.array(b), rows(2) + 1)


# The program as an object


class Two(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(4, 8)
        self.second = torch.nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x) * 2)


@pytest.fixture(scope="module")
def two() -> mlxify.Program:
    torch.manual_seed(0)
    return mlxify.convert(Two().eval(), (torch.ones(3, 4),), dynamic_shapes=({0: Dim("batch")},))


def test_save_and_load(two: mlxify.Program, tmp_path: Path) -> None:
    two.save(tmp_path / "two.safetensors")
    two.save(str(tmp_path / "text.safetensors"))
    loaded = mlxify.load(str(tmp_path / "two.safetensors"))
    torch.manual_seed(0)
    expected = Two()(torch.tensor(rows(5, 4))).detach().numpy()
    for program in (two, loaded, mlxify.load(tmp_path / "text.safetensors")):
        np.testing.assert_allclose(np.array(program(rows(5, 4))), expected, rtol=1e-5, atol=1e-5)
    with pytest.raises(FileNotFoundError):
        mlxify.load(tmp_path / "nothing.safetensors")


def test_a_program_prints(two: mlxify.Program) -> None:
    lines = str(two).splitlines()
    assert re.fullmatch(r"forward\(x %0: float32\[\w+, 4\]\):", lines[0])
    line = inspect.getsourcelines(Two.forward)[1] + 1
    assert any(re.search(rf"# \S*test_api\.py:{line} in first: return self.second", text) for text in lines)
    assert any(re.search(r"%\d+: float32\[\w+, 8\] = linear\(%0, %\d+, %\d+\)", text) for text in lines)
    assert lines[-1].startswith("  return %")


def test_summary(two: mlxify.Program) -> None:
    summary = two.summary()
    assert (summary.weights, summary.weight_bytes) == (4, 4 * (32 + 8 + 16 + 2))
    assert summary.instructions["linear"] == 2 and summary.methods["forward"] == sum(
        summary.instructions.values()
    )
    assert "4 weights" in str(summary) and "linear" in str(summary)
    assert "forward" in repr(two)


def test_calling_a_method_by_name(two: mlxify.Program) -> None:
    np.testing.assert_array_equal(np.array(two.forward(rows(1, 4))), np.array(two(rows(1, 4))))
    with pytest.raises(AttributeError, match=r"no method 'forwards'; .* has forward"):
        two.forwards


def test_several_methods_share_weights(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Two().eval()
    sizes = {"one": 1, "many": 3}
    program = mlxify.convert({n: torch.export.export(model, (torch.ones(k, 4),)) for n, k in sizes.items()})
    program.save(tmp_path / "both.safetensors")
    loaded = mlxify.load(tmp_path / "both.safetensors")
    assert loaded.summary().weights == 4
    np.testing.assert_allclose(np.array(loaded.one(rows(1, 4))), np.array(program.one(rows(1, 4))))
    with pytest.raises(mlxify.InputError, match="several methods; call one by name: one, many"):
        loaded(rows(1, 4))


def test_supported_ops() -> None:
    names = mlxify.supported_ops()
    assert isinstance(names, frozenset)
    assert {"aten.add.Tensor", "aten.view.default", "aten.view_copy.default", "operator.add"} <= names
    assert all(isinstance(name, str) and re.fullmatch(r"[\w.]+", name) for name in names)


def test_dtype_converts_weights_and_example_inputs() -> None:
    program = mlxify.convert(Two().eval(), (torch.ones(3, 4),), dtype="bfloat16")
    assert program(mx.ones((3, 4), dtype=mx.bfloat16)).dtype == mx.bfloat16
    assert program.summary().weight_bytes == 2 * (32 + 8 + 16 + 2)
    with pytest.raises((ValueError, TypeError), match="float33"):
        mlxify.convert(Two().eval(), (torch.ones(3, 4),), dtype="float33")


def test_dtype_keeps_the_dynamic_sizes_of_an_exported_program() -> None:
    exported = torch.export.export(Two().eval(), (torch.ones(3, 4),), dynamic_shapes=({0: Dim("batch")},))
    program = mlxify.convert(exported, dtype="float16")
    assert program(mx.ones((5, 4), dtype=mx.float16)).shape == (5, 2)


# What conversion refuses


def helper(x: torch.Tensor) -> torch.Tensor:
    return torch.ops.acme.window(x)


class Inner(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.acme.other(x) + 1


class Unsupported(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = torch.nn.Sequential(torch.nn.Identity(), Inner())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        dead = torch.ops.acme.unused(x)  # noqa: F841  (nobody needs it, so it does not count)
        return helper(self.block(x))


def line_of(function: Any, text: str) -> int:
    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(lines) if text in line)


def test_unsupported_ops_are_reported_together() -> None:
    with pytest.raises(mlxify.UnsupportedOpError) as caught:
        mlxify.convert(Unsupported(), (torch.ones(2, 3),))
    error = caught.value
    assert isinstance(error, NotImplementedError) and isinstance(error, mlxify.MlxifyError)
    assert len(error.ops) == 2 and "2 calls not supported" in str(error)
    first, second = error.ops
    assert first.target.endswith("other.default") and second.target.endswith("window.default")
    assert first.arguments == "float32[2, 3]" and first.module == "block.1"
    assert f"test_api.py:{line_of(Inner.forward, 'acme.other')}: return torch.ops.acme.other" in first.source
    # torch.export (not strict) knows the line of a module's forward, not those of functions that it calls.
    assert f"test_api.py:{line_of(Unsupported.forward, 'helper')}: " in second.source
    assert "@mlxify.lowers(" in first.hint and "docs/adding-an-op.md" in first.hint
    for part in (first.target, first.arguments, first.module, first.source, first.hint):
        assert part in str(error)


def test_a_strict_export_names_the_line_inside_a_function() -> None:
    exported = torch.export.export(Unsupported(), (torch.ones(2, 3),), strict=True)
    with pytest.raises(mlxify.UnsupportedOpError) as caught:
        mlxify.convert(exported)
    assert f"test_api.py:{line_of(helper, 'acme.window')}: " in caught.value.ops[1].source


def test_unsupported_ops_have_the_names_that_the_user_wrote() -> None:
    """Not those of a decomposition that leads to nothing supported either."""
    with pytest.raises(mlxify.UnsupportedOpError) as caught:
        mlxify.convert(module(lambda x: torch.ops.acme.both(x)), (torch.ones(2),))
    assert caught.value.ops[0].target == "acme.both.default"


def test_what_the_exporter_refuses() -> None:
    """PyTorch's own message, and what to try."""
    with pytest.raises(
        mlxify.ConversionError, match=r"(?s)torch.export refuses.*data-dependent.*What to try: "
    ) as caught:
        mlxify.convert(module(lambda x: x * 2 if (x * 3).max() > 0 else x), (torch.ones(2),))
    assert isinstance(caught.value.__cause__, Exception)


class Holds(torch.nn.Module):
    def __init__(self, tensor: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("held", tensor)

    def forward(self, x: torch.Tensor) -> Any:
        return x + 1, self.held


def quantized() -> torch.Tensor:
    return torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8)


NO_FORM = {
    "complex128": lambda: torch.ones(2, dtype=torch.complex128),
    "sparse": lambda: torch.eye(2).to_sparse(),
    "quantized": quantized,
    "float8_e4m3fn": lambda: torch.ones(2).to(torch.float8_e4m3fn),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", NO_FORM)
def test_tensors_that_mlx_does_not_have_as_inputs(kind: str) -> None:
    with pytest.raises((mlxify.ConversionError, mlxify.UnsupportedOpError), match=kind):
        mlxify.convert(module(lambda x: (x, 1)), (NO_FORM[kind](),))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", NO_FORM)
def test_tensors_that_mlx_does_not_have_as_weights(kind: str) -> None:
    with pytest.raises((mlxify.ConversionError, mlxify.UnsupportedOpError), match=kind):
        mlxify.convert(Holds(NO_FORM[kind]()), (torch.ones(2),))


def test_writing_into_an_input_is_refused() -> None:
    with pytest.raises(mlxify.ConversionError, match="writes into its input 'x'"):
        mlxify.convert(module(lambda x: x.add_(1)), (torch.ones(2),))


def test_converting_without_torch_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import mlxify\n"
        "try: mlxify.convert\n"
        "except mlxify.MissingExtraError as error: print(error)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert 'pip install "mlxify[torch]"' in result.stdout, result.stderr


@pytest.mark.parametrize("use", ["load", "supported_ops()", "Program"])
def test_without_an_mlx_backend_it_says_what_to_install(use: str) -> None:
    code = (
        "import sys; sys.modules['mlx.core'] = None\n"
        "import mlxify\n"
        f"try: mlxify.{use}\n"
        "except mlxify.MissingExtraError as error: print(error)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert 'pip install "mlxify[cpu]"' in result.stdout, result.stderr


def test_unknown_names_of_the_package() -> None:
    with pytest.raises(AttributeError, match="no attribute 'converts'"):
        mlxify.converts
    assert set(mlxify.__all__) <= {*dir(mlxify), *mlxify._LAZY}
    assert all(getattr(mlxify, name) is not None for name in mlxify.__all__)
