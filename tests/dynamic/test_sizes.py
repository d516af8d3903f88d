"""Dims as users declare them: ranges, derived and shared ones, conditions between them, names; arithmetic on sizes."""

import io
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
import torch
from torch.export import Dim, export
from torch.nn import functional as F

import mlxify
from mlxify.cli.inspect import _as_json
from mlxify.cli.run import complete
from tests.test_api import module

from .rows import Row, check_row, randn

AUTO = Dim.AUTO
Call = tuple[tuple[Any, ...], str]
"""Arguments, and what an InputError says about them ("" when they are right)."""


def sized(*sizes: int) -> tuple[torch.Tensor, ...]:
    return tuple(randn(n, seed=n) for n in sizes)


# Model, example, dynamic_shapes, calls.
MODELS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], Any, list[Call]]] = {
    "a range": (
        lambda x: x + 1,
        sized(5),
        lambda n: ({0: n},),
        [(sized(1), ""), (sized(12), ""), (sized(13), r"axis 0 of the input 'x' \(float32\[n\]\) has a size n, at least 1, at most 12; got 13")],
    ),
    "no upper limit": (
        lambda x: x + 1,
        sized(5),
        lambda n: ({0: Dim("long", min=2)},),
        [(sized(2), ""), (sized(5000), ""), (sized(1), r"a size long, at least 2, no upper limit; got 1")],
    ),
    "automatic": (
        lambda x: x + 1,
        sized(5),
        lambda n: ({0: AUTO(min=3, max=9)},),
        [(sized(3), ""), (sized(9), ""), (sized(10), r"axis 0 of the input 'x' .* at least 3, at most 9; got 10")],
    ),
    "twice": (
        lambda x, y: x.repeat(2) + y,
        sized(5, 10),
        lambda n: ({0: n}, {0: 2 * n}),
        [(sized(1, 2), ""), (sized(12, 24), ""), (sized(7, 14), ""), (sized(3, 7), r"axis 0 of the input 'y' \(float32\[2\*n\]\) has a size 2\*n, at least 2, at most 24; got 7"), (sized(3, 8), "6 expected, got 8")],
    ),
    "one more": (
        lambda x, y: y[1:] * x,
        sized(5, 6),
        lambda n: ({0: Dim("n", min=2, max=12)}, {0: Dim("n", min=2, max=12) + 1}),
        [(sized(2, 3), ""), (sized(12, 13), ""), (sized(4, 4), r"'y' \(float32\[n\+1\]\) must agree .*: 5 expected, got 4")],
    ),
    "only derived": (
        lambda x: x.view(4, -1).sum(0),
        sized(20),
        lambda n: ({0: 4 * n},),
        [(sized(8), ""), (sized(48), ""), (sized(18), r"has a size 4\*n, at least 8, at most 48; got 18")],
    ),
    "several, shared": (
        lambda x, y, z: x.sum(1) + y + z.sum(),
        (randn(5, 6), randn(5), randn(6)),
        lambda n: ({0: n, 1: Dim("m", max=20)}, {0: n}, {0: Dim("m", max=20)}),
        [((randn(1, 20), randn(1), randn(20)), ""), ((randn(12, 2), randn(12), randn(2)), ""), ((randn(3, 4), randn(3), randn(5)), r"axis 0 of the input 'z' \(float32\[m\]\) must agree with another input: 4 expected, got 5")],
    ),
    "the sum of two": (
        lambda x, y, z: torch.cat([x, y]) + z,
        sized(4, 6, 10),
        ({0: AUTO}, {0: AUTO}, {0: AUTO}),
        [(sized(2, 3, 5), ""), (sized(30, 9, 39), ""), (sized(3, 7, 11), r"do not fulfil a condition of the model: y.shape\[0\] \+ x.shape\[0\] == z.shape\[0\]")],
    ),
    "half, rounded up": (
        lambda x, y: x[::2] + y,
        sized(8, 4),
        ({0: AUTO}, {0: AUTO}),
        [(sized(3, 2), ""), (sized(31, 16), ""), (sized(9, 4), r"\(1 \+ x.shape\[0\]\) // 2 == y.shape\[0\]")],
    ),
    "a sixteenth and one": (
        lambda x, y: y[: x.shape[0] // 16 + 1] * torch.arange(x.shape[0] // 16 + 1),
        sized(40, 3),
        ({0: AUTO}, {0: AUTO}),
        [(sized(17, 2), ""), (sized(100, 9), ""), (sized(64, 2), "condition of the model: .*x.shape")],
    ),
    "a multiple": (
        lambda x: x.view(-1, 4),
        sized(24),
        ({0: AUTO},),
        [(sized(8), ""), (sized(40), ""), (sized(42), r"x.shape\[0\] % 4 == 0")],
    ),
    "the branch that was taken": (
        lambda x, y: x * 2 if x.shape[0] > y.shape[0] else x * 3,
        sized(8, 4),
        ({0: AUTO}, {0: AUTO}),
        [(sized(9, 8), ""), (sized(3, 2), ""), (sized(4, 9), r"x.shape\[0\] > y.shape\[0\]")],
    ),
    "a check of the model": (
        lambda x: (torch._check(x.shape[0] % 3 != 0), x * 2)[1],
        sized(8),
        ({0: AUTO},),
        [(sized(4), ""), (sized(100), ""), (sized(6), r"x.shape\[0\] % 3")],
    ),
    "nested": (
        lambda batch, pair: batch["a"][0] + pair[1],
        ({"a": list(sized(5))}, (torch.ones(2), *sized(5))),
        lambda n: {"batch": {"a": [{0: n}]}, "pair": (None, {0: n})},
        [(({"a": list(sized(12))}, (torch.ones(2), *sized(12))), ""), (({"a": list(sized(3))}, (torch.ones(2), *sized(4))), r"axis 0 of the input 'pair\[1\]' .* 3 expected, got 4"), (({"a": list(sized(13))}, (torch.ones(2), *sized(4))), r"axis 0 of the input 'batch.a\[0\]' \(float32\[n\]\) .* at most 12; got 13")],
    ),
    "an int": (
        lambda x, k: x * k + k // 2,
        (randn(3), 4),
        (None, Dim.DYNAMIC),
        [((randn(3), 0), ""), ((randn(3), 7), ""), ((randn(3), 2**40), ""), ((randn(3), -1), r"the input 'k' \(number s0\) has a value s0, at least 0, no upper limit; got -1"), ((randn(3), 1.0), "'k' is a Python int; got float 1.0"), ((randn(3), True), "got bool True")],
    ),
    "an int as a length": (
        lambda x, k: x[:k] * torch.arange(k),
        (randn(8), 4),
        ({0: AUTO}, AUTO),
        [((randn(5), 5), ""), ((randn(20), 2), ""), ((randn(5), 6), r"condition of the model: .*k <= x.shape\[0\]")],
    ),
    "an int that is a size": (
        lambda x, k: x.view(2, k).sum(0),
        (randn(8), 4),
        ({0: AUTO}, AUTO),
        [((randn(6), 3), ""), ((randn(40), 20), ""), ((randn(6), 2), r"the input 'k' \(number s0\) must agree with another input: 3 expected, got 2")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_dims(name: str, tmp_path: Path) -> None:
    fn, example, shapes, calls = MODELS[name]
    model = module(fn)
    shapes = shapes(Dim("n", min=1, max=12)) if callable(shapes) else shapes
    program = mlxify.convert(model, example, dynamic_shapes=shapes)
    program.save(tmp_path / "dims.safetensors")
    loaded = mlxify.load(tmp_path / "dims.safetensors", compile=True)
    for candidate in (program, loaded):
        for args, message in calls:
            if message:
                with pytest.raises(mlxify.InputError, match=message):
                    candidate(*args)
            else:
                np.testing.assert_allclose(np.array(candidate(*args)), model(*args).numpy(), rtol=1e-6)


@pytest.mark.parametrize("name", ["twice", "the sum of two", "a sixteenth and one", "an int as a length"])
def test_the_command_line_makes_inputs_that_fulfil_the_conditions(name: str) -> None:
    fn, example, shapes, _ = MODELS[name]
    shapes = shapes(Dim("n", min=1, max=12)) if callable(shapes) else shapes
    program = mlxify.convert(module(fn), example, dynamic_shapes=shapes)
    program(**complete(program.graph.methods["forward"], {}, 0))


def test_conditions_survive_saving_an_export_strict_export_and_decomposition() -> None:
    """Each form tells what the inputs' sizes must fulfil in its own way."""
    model = module(lambda x, y: torch.addcmul(x[::2], y, y))
    shapes = {"x": {0: AUTO}, "y": {0: AUTO}}
    exported = export(model, sized(8, 4), dynamic_shapes=shapes, strict=False)
    buffer = io.BytesIO()
    torch.export.save(exported, buffer)
    buffer.seek(0)
    forms = (
        exported,
        torch.export.load(buffer),
        export(model, sized(8, 4), dynamic_shapes=shapes, strict=True),
        exported.run_decompositions(),
    )
    for form in forms:
        program = mlxify.convert(form)
        np.testing.assert_allclose(
            np.array(program(*sized(31, 16))), model(*sized(31, 16)).numpy(), rtol=1e-6
        )
        with pytest.raises(mlxify.InputError, match=r"x\.shape\[0\]"):
            program(*sized(31, 4))
        conditions = _as_json(program, False)["methods"]["forward"]["conditions"]
        assert any("x.shape[0]" in text and "y.shape[0]" in text for text in conditions)


class Starred(torch.nn.Module):
    def forward(self, x: torch.Tensor, *others: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return x[::2] + others[1] * scale


def test_conditions_on_starred_and_keyword_arguments() -> None:
    args, kwargs = sized(8, 3, 4), {"scale": torch.ones(4)}
    shapes = {"x": {0: AUTO}, "others": (None, {0: AUTO}), "scale": {0: AUTO}}
    program = mlxify.convert(Starred(), args, kwargs, dynamic_shapes=shapes)
    assert program(*sized(31, 3, 16), scale=torch.ones(16)).shape == (16,)
    with pytest.raises(mlxify.InputError, match=r"\(1 \+ x\.shape\[0\]\) // 2 == others_1\.shape\[0\]"):
        program(*sized(31, 3, 4), scale=torch.ones(4))


def test_sizes_have_the_users_names() -> None:
    """In errors, in the printed program and in its description; `s0` only where the user gave none."""

    def forward(ids: torch.Tensor, more: dict[str, torch.Tensor]) -> torch.Tensor:
        return ids.sum(1) + more["bias"].view(2, -1).sum(0)

    batch, length = Dim("batch", min=2, max=64), Dim("length", max=512)
    shapes = {"ids": {0: batch, 1: length}, "more": {"bias": {0: 2 * batch}}}
    example = (randn(4, 6), {"bias": randn(8)})
    exported = export(module(forward), example, dynamic_shapes=shapes, strict=False)
    for form in (exported, exported.run_decompositions()):
        program = mlxify.convert(form)
        text = str(program)
        assert "forward(ids %0: float32[batch, length], more_bias %1: float32[2*batch])" in text
        assert "float32[batch] = sum" in text and not re.search(r"\bs\d+\b", text.split("\n")[0])
        described = _as_json(program, False)["methods"]["forward"]
        assert described["sizes"] == {"batch": [2, 64], "length": [0, 512]}
        assert described["inputs"]["more_bias"] == "float32[2*batch]"
        with pytest.raises(mlxify.InputError, match=r"a size batch, at least 2, at most 64; got 65"):
            program(randn(65, 6), {"bias": randn(130)})


def test_one_name_for_two_sizes_is_kept_apart() -> None:
    """`s1` is the user's name here, and what the second size would be called."""
    model = module(lambda x, y: x.sum() + y)
    program = mlxify.convert(model, sized(5, 6), dynamic_shapes=({0: Dim("s1")}, {0: AUTO}))
    assert list(program.graph.methods["forward"].symbols) == ["s1", "s1_"]
    assert program(*sized(3, 4)).shape == (4,)


@pytest.mark.parametrize(
    "name", ["twice", "several, shared", "half, rounded up", "an int as a length", "nested"]
)
def test_dtype_keeps_dims_and_conditions(name: str) -> None:
    fn, example, shapes, calls = MODELS[name]
    shapes = shapes(Dim("n", min=1, max=12)) if callable(shapes) else shapes
    exported = export(module(fn), example, dynamic_shapes=shapes, strict=False)
    direct, converted = mlxify.convert(exported), mlxify.convert(exported, dtype="float16")
    assert converted.graph.methods["forward"].symbols == direct.graph.methods["forward"].symbols
    for args, message in calls:
        half = torch.utils._pytree.tree_map_only(torch.Tensor, torch.Tensor.half, args)
        if message:
            with pytest.raises(mlxify.InputError, match=message.replace("float32", "float16")):
                converted(*half)
        else:
            assert converted(*half).dtype == mx.float16


class Arithmetic(torch.nn.Module):
    """All that a model computes from sizes; results are sizes, offsets and factors."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[Any, ...]:
        n, m = x.shape[0], y.shape[0]
        low, high = torch.sym_min(n, m), torch.sym_max(n, m)
        whole = (n + m, 3 * n - m, n * m, n // 3, (-n) % 4, n % 3, low, high, -n, n**2)
        parts = (n / 3, n / m, n**0.5, torch.sym_sqrt(n), torch.sym_float(n) * 0.5)
        rounded = (math.floor(n / 3), math.ceil(n / 3), math.trunc(n / 3), torch.sym_int(n / 2))
        chosen = torch.sym_ite(n > m, n, 10 * m), torch.sym_ite(torch.sym_not(n == 7), 1, 2)
        return (
            *(x * k for k in (*whole, *parts, *rounded, *chosen)),
            torch.zeros(low, 3), torch.zeros(high), torch.full((3,), n / m), torch.arange(n // 2 + 1), torch.tensor([n, n * m]),
            y[: m // 2 + 1], x.new_ones(n % 3 + 2), F.pad(x, (0, (-n) % 4)),
        )  # fmt: skip


NUMBERS = [
    Row("arithmetic", Arithmetic(), lambda n: (randn(n), randn(2 * n)), lambda n: ({0: n}, {0: 2 * n}), tolerance=(1e-6, 1e-6), compiled=False),
    Row("mean by hand", lambda x: x.sum(0) / x.shape[0], lambda n: (randn(n, 3),)),
    Row("scale by a root", lambda x: x @ x.mT / x.shape[1] ** 0.5, lambda n: (randn(2, n),), lambda n: ({1: n},)),
    Row("sizes as results", lambda x: (x.shape[0], x.numel(), x.shape[0] / 2, x.shape[0] > 6, x), lambda n: (randn(n, 3),)),
    Row("the least of two", lambda x, y: y[: torch.sym_min(x.shape[0], 6)], lambda n: (randn(n), randn(20))[:2], lambda n: ({0: n}, None)),
    Row("padded to at least", lambda x: F.pad(x, (0, torch.sym_max(8 - x.shape[0], 0))).cumsum(0).softmax(0), lambda n: (randn(n),)),
    Row("padded to far more than the examples", lambda x: torch.zeros(torch.sym_max(x.shape[0], 2000)).index_fill(0, torch.arange(1), 1.0).softmax(0)[None].cumsum(1), lambda n: (randn(n),), high=2500, tolerance=(1e-4, 1e-6)),
    Row("the last window", lambda x: x[torch.sym_max(x.shape[0] - 4, 0) :], lambda n: (randn(n, 2),), low=2, auto=True),
    Row("positions after a cache", lambda x, c: torch.arange(c.shape[1], c.shape[1] + x.shape[1]), lambda n: (randn(1, 3), randn(1, n)), lambda n: (None, {1: n})),
]  # fmt: skip


@pytest.mark.parametrize("row", NUMBERS, ids=[row.name for row in NUMBERS])
def test_arithmetic_on_sizes(row: Row, tmp_path: Path) -> None:
    check_row(row, tmp_path)


def test_no_size_is_baked_from_the_example() -> None:
    """The example's size is in no instruction, and a program from another example is the same."""
    shapes = ({0: Dim("n", min=1, max=100)}, {0: 2 * Dim("n", min=1, max=100)})
    texts = []
    for n in (37, 61):
        exported = export(Arithmetic(), sized(n, 2 * n), dynamic_shapes=shapes, strict=False)
        texts.append(str(mlxify.convert(exported)))
    assert texts[0] == texts[1] and not re.search(r"(?<!%)\b(37|61|74|122)\b", re.sub("#.*", "", texts[0]))
