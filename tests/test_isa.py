"""The instruction set is for ever, and every lowering fits the torch op that it is named after.

`python -m tests.test_isa` writes the snapshot. It refuses to change or drop an instruction, since files that use it
exist; `--force` does it all the same (before the first release, or together with a new format version).
"""

import contextlib
import importlib
import inspect
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import mlxify
import mlxify.export  # registers the custom torch ops
from mlxify.isa import INSTRUCTIONS, Kind
from mlxify.lowering import LOWERINGS, Lowering
from mlxify.program import DTYPE_NAMES

mlxify.supported_ops()  # registers instructions and lowerings

DATA = Path(__file__).parent / "data"
SNAPSHOT = DATA / "isa.json"
COMMAND = "python -m tests.test_isa"
# Ops of packages that need not be installed: the namespace, and the module that registers it.
OPTIONAL = {
    "torchao": "torchao.quantization.quant_primitives",
    "dim_order_ops": "executorch.exir.passes.dim_order_ops_registry",
    "torchvision": "torchvision",
    "torch_nn": "torch.nn.modules.linear_cross_entropy",
    "transformers": "transformers.integrations.moe",
    "quantized_decomposed": "torch.ao.quantization.fx._decomposed",
}
PYTHON = ("operator", "math", "builtins", "torch")


def current() -> dict[str, Any]:
    """The instruction set as the snapshot holds it."""
    result = {}
    for name, schema in INSTRUCTIONS.items():
        parameters = {}
        for parameter, kind, default in zip(schema.parameters, schema.kinds, schema.defaults, strict=True):
            parameters[parameter] = describe(kind)
            if default is not inspect.Parameter.empty:
                parameters[parameter] += f" = {DTYPE_NAMES.get(default, default)!r}"
        result[name] = {"parameters": parameters, "returns": schema.returns}
    return dict(sorted(result.items()))


def describe(kind: Kind) -> str:
    text = " | ".join(map(repr, kind.choices)) if kind.choices else kind.base
    if kind.many:
        text = f"list[{text}{' | None' if kind.item_optional else ''}]"
    return text + " | array" * kind.or_array + " | None" * kind.optional


def differences(old: dict[str, Any], new: dict[str, Any]) -> tuple[list[str], list[str]]:
    """(instructions that are new, those that changed or are gone)."""
    added = [name for name in new if name not in old]
    changed = [name for name in old if new.get(name) != old[name] or list_of(new[name]) != list_of(old[name])]
    return added, changed


def list_of(instruction: dict[str, Any]) -> list[str]:
    return list(instruction["parameters"])  # their order is part of the format


def update(force: bool) -> int:
    old = json.loads(SNAPSHOT.read_text()) if SNAPSHOT.exists() else {}
    added, changed = differences(old, current())
    if changed and not force:
        print(
            f"changed or gone: {', '.join(changed)}. A new meaning needs a new name; --force writes all the same."
        )
        return 1
    SNAPSHOT.write_text(json.dumps(current(), indent=1) + "\n")
    print(f"{SNAPSHOT.name}: {len(added)} added, {len(changed)} changed")
    return 0


def test_snapshot() -> None:
    assert SNAPSHOT.exists(), f"write it with: {COMMAND}"
    added, changed = differences(json.loads(SNAPSHOT.read_text()), current())
    assert not changed, f"these instructions changed, and files that use them exist: {changed}"
    assert not added, f"new instructions: {added}. Add them with: {COMMAND}"


@pytest.mark.parametrize("name", sorted(INSTRUCTIONS))
def test_every_instruction_is_documented(name: str) -> None:
    doc = INSTRUCTIONS[name].doc
    assert doc and doc.splitlines()[0].endswith("."), f"{name}: the docstring is its reference page"


class Missing(Exception):
    """The package that defines the op is not installed."""


def resolve(target: str) -> Any:
    """The torch op or Python function of a lowering's key."""
    namespace, name, *overload = target.split(".")
    if namespace in PYTHON:
        return getattr(importlib.import_module(namespace), name)
    if namespace == "higher_order":
        return getattr(torch.ops.higher_order, name)
    if namespace in OPTIONAL:
        try:
            importlib.import_module(OPTIONAL[namespace])
        except ImportError:
            raise Missing(namespace) from None
    return getattr(getattr(getattr(torch.ops, namespace), name), overload[0])


@pytest.mark.parametrize("target", sorted(LOWERINGS))
def test_lowering_fits_its_op(target: str) -> None:
    lowering = LOWERINGS[target]
    try:
        op = resolve(target)
    except Missing as missing:
        pytest.skip(f"{missing} is not installed")
    assert set(lowering.promote) <= set(lowering.parameters), (
        "promote names an argument that it does not take"
    )
    if isinstance(op, torch._ops.OpOverload):
        required, optional = parameters(lowering)
        assert required <= names_in(op), f"not in the schema {op._schema}"
        assert optional <= OFFERED[lowering.fn], "in no schema of the ops that this lowering is for"
    elif not isinstance(op, torch._ops.HigherOrderOperator):
        _check_count(op, lowering)


def parameters(lowering: Lowering) -> tuple[set[str], set[str]]:
    """The ATen arguments that a lowering always needs, and those it can do without."""
    found = inspect.signature(lowering.fn).parameters.values()
    names = {p.name.rstrip("_"): p.default is inspect.Parameter.empty for p in found if p.name != "result"}
    return {name for name, needed in names.items() if needed}, {
        name for name, needed in names.items() if not needed
    }


def names_in(op: Any) -> set[str]:
    return {argument.name for argument in op._schema.arguments}


def offered() -> dict[Any, set[str]]:
    """The argument names of all overloads that share a lowering."""
    names: dict[Any, set[str]] = {}
    for target, lowering in LOWERINGS.items():
        with contextlib.suppress(Missing, AttributeError):
            op = resolve(target)
            if isinstance(op, torch._ops.OpOverload):
                names.setdefault(lowering.fn, set()).update(names_in(op))
    return names


OFFERED = offered()


def _check_count(function: Callable[..., Any], lowering: Lowering) -> None:
    try:
        taken = inspect.signature(function).parameters
    except ValueError:  # some builtins have none
        return
    if not any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in taken.values()):
        assert len([n for n in lowering.parameters if not n.startswith("_")]) <= len(taken)


def test_the_ops_of_the_specification_convert() -> None:
    wanted = set((DATA / "seed_ops.txt").read_text().split())
    assert len(wanted) == 196
    assert not sorted(wanted - mlxify.supported_ops())


if __name__ == "__main__":
    sys.exit(update("--force" in sys.argv))
