"""Conditions on the inputs' sizes under which an exported graph holds.

torch.export finds them while it traces ("y has half the size of x", "the size of x is a multiple of 4") and keeps
them as Python expressions over the inputs. Each is read once and evaluated on numbers: plain ones, to choose
examples; those of a program, to check every call; sympy's, to drop conditions that always hold.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind
from torch.utils import _pytree as pytree
from torch.utils._sympy.functions import FloorDiv, Max, Min, Mod
from torch.utils._sympy.value_ranges import bound_sympy

from .errors import ConversionError
from .ops.scalar import number_binary, number_select, number_unary

Apply = Callable[..., Any]

_OPERATORS: dict[type, str] = {
    ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide", ast.FloorDiv: "floor_divide",
    ast.Mod: "remainder", ast.Pow: "power", ast.Eq: "equal", ast.NotEq: "not_equal", ast.Lt: "less",
    ast.LtE: "less_equal", ast.Gt: "greater", ast.GtE: "greater_equal", ast.And: "and", ast.Or: "or",
    ast.USub: "negative", ast.Not: "not",
}  # fmt: skip
_CALLS = {
    "max": "maximum", "min": "minimum", "math.floor": "floor", "math.ceil": "ceil", "math.trunc": "trunc",
    "math.sqrt": "sqrt", "round": "round", "abs": "abs", "int": "int", "float": "float",
}  # fmt: skip
_SYMBOLIC: dict[str, Any] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "floor_divide": FloorDiv,
    "remainder": Mod, "minimum": Min, "maximum": Max, "negative": operator.neg, "equal": sympy.Eq,
    "not_equal": sympy.Ne, "less": sympy.Lt, "less_equal": sympy.Le, "greater": sympy.Gt,
    "greater_equal": sympy.Ge, "and": sympy.And, "or": sympy.Or, "not": sympy.Not,
}  # fmt: skip
_LAYOUT = re.compile(r"\.stride\(\)|\.storage_offset\(\)|\._base\b|IsNonOverlappingAndDense")


@dataclass(frozen=True)
class Place:
    """Where a size comes from: an axis of an input, or (axis None) the value of an input that is a number.

    node: the input's name in the graph; name: as the user knows it.
    """

    node: str
    name: str
    axis: int | None
    size: Any


class Condition:
    """One condition. `places`: what it depends on, by the text that stands for it in the code."""

    def __init__(self, code: str, places: Mapping[str, Place]) -> None:
        self.tree = ast.parse(code, mode="eval").body
        self.places: dict[str, Place] = {}
        self._read(places)
        shown = code
        for text, place in self.places.items():
            shown = shown.replace(
                text, place.name if place.axis is None else f"{place.name}.shape[{place.axis}]"
            )
        self.text = ast.unparse(ast.parse(shown.replace("\n", ""), mode="eval"))

    def _read(self, places: Mapping[str, Place]) -> None:
        def leaf(text: str) -> int:
            if text not in places:
                raise ConversionError(f"a condition on the inputs of this export is not understood: {text}")
            self.places[text] = places[text]
            return 1

        _walk(self.tree, leaf, lambda *_: 1)

    def evaluate(self, number: Callable[[Place], Any]) -> Any:
        """The condition's value on numbers, plain ones or those of the program being recorded."""
        return _walk(self.tree, lambda text: number(self.places[text]), _apply)

    def always_holds(self, number: Callable[[Place], Any], ranges: dict[Any, Any]) -> bool:
        """Whether it can be shown to hold for all sizes in their ranges, given as sympy expressions."""
        try:
            expr = _walk(self.tree, lambda text: number(self.places[text]), _apply_symbolic)
            return expr is True or bound_sympy(expr, ranges).lower == sympy.true
        except (KeyError, TypeError, AttributeError, NotImplementedError, ZeroDivisionError):
            return False

    def solutions(self, number: Callable[[Place], Any]) -> Iterator[tuple[Place, int]]:
        """For an equality with a size alone on one side: that size's place and the value it should have."""
        if not isinstance(self.tree, ast.Compare) or not isinstance(self.tree.ops[0], ast.Eq):
            return
        sides = (self.tree.left, self.tree.comparators[0])
        for alone, other in (sides, sides[::-1]):
            place = self.places.get(ast.unparse(alone))
            if place is not None:
                yield place, _walk(other, lambda text: number(self.places[text]), _apply)


def _walk(node: ast.AST, leaf: Callable[[str], Any], apply: Apply) -> Any:
    def walk(child: ast.AST) -> Any:
        return _walk(child, leaf, apply)

    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.BinOp):
        return apply(_OPERATORS[type(node.op)], walk(node.left), walk(node.right))
    if isinstance(node, ast.UnaryOp):
        return apply(_OPERATORS[type(node.op)], walk(node.operand))
    if isinstance(node, ast.BoolOp):
        return _fold(apply, _OPERATORS[type(node.op)], [walk(v) for v in node.values])
    if isinstance(node, ast.Compare):
        sides = [walk(v) for v in (node.left, *node.comparators)]
        pairs = zip(node.ops, sides, sides[1:], strict=False)
        return _fold(apply, "and", [apply(_OPERATORS[type(op)], a, b) for op, a, b in pairs])
    if isinstance(node, ast.IfExp):
        return apply("select", walk(node.test), walk(node.body), walk(node.orelse))
    if isinstance(node, ast.Call) and ast.unparse(node.func) in _CALLS:
        return _fold(apply, _CALLS[ast.unparse(node.func)], [walk(v) for v in node.args])
    return leaf(ast.unparse(node))


def _fold(apply: Apply, name: str, values: list[Any]) -> Any:
    if len(values) == 1:
        return values[0] if name in ("and", "or", "maximum", "minimum") else apply(name, values[0])
    result = values[0]
    for value in values[1:]:
        result = apply(name, result, value)
    return result


def _apply(name: str, *values: Any) -> Any:
    if name == "select":
        return number_select(*values)
    return number_unary(name, *values) if len(values) == 1 else number_binary(name, *values)


def _apply_symbolic(name: str, *values: Any) -> Any:
    return _SYMBOLIC[name](*(sympy.sympify(v) for v in values))


def read_conditions(program: ExportedProgram) -> tuple[list[Condition], dict[str, Place]]:
    """The conditions of an export that concern sizes (memory layouts do not matter here), and the sizes' places."""
    places = _places(program)
    codes = dict.fromkeys(getattr(program, "_guards_code", None) or [])
    return [Condition(code, places) for code in codes if not _LAYOUT.search(code)], places


def _places(program: ExportedProgram) -> dict[str, Place]:
    """All sizes of the inputs, by the texts by which torch's conditions may call them."""
    nodes = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}
    specs = [s for s in program.graph_signature.input_specs if s.kind == InputKind.USER_INPUT]
    places: dict[str, Place] = {}
    for index, (spec, path) in enumerate(zip(specs, _paths(program), strict=True)):
        constant = isinstance(spec.arg, ConstantArgument)
        value = spec.arg.value if constant else nodes[spec.arg.name].meta.get("val")
        for source in (f"L['flat_args'][{index}]", *_sources(path)):
            if not isinstance(value, torch.Tensor):
                places.setdefault(source, Place(spec.arg.name, "".join(path), None, value))
                continue
            for axis, size in enumerate(value.shape):
                place = Place(spec.arg.name, "".join(path), axis, size)
                places.setdefault(f"{source}.size()[{axis}]", place)
    return places


def _paths(program: ExportedProgram) -> list[tuple[str, str]]:
    """For each leaf of the arguments the parameter it belongs to, and how it is reached from there."""
    spec = program.call_spec.in_spec
    args, kwargs = pytree.tree_unflatten([0] * spec.num_leaves, spec)
    parameters = parameter_names(program)
    named = dict(zip(parameters, (*args, *kwargs.values()), strict=True))
    return [
        (name, pytree.keystr(path))
        for name, value in named.items()
        for path, _ in pytree.tree_flatten_with_path(value)[0]
    ]


def _sources(path: tuple[str, str]) -> Iterator[str]:
    name, rest = path
    yield f"L['{name}']{rest}"
    starred = re.fullmatch(r"(.+)_(\d+)", name)  # torch calls the arguments of *xs xs_0, xs_1, …
    if starred is not None:
        yield f"L['{starred[1]}'][{starred[2]}]{rest}"


def parameter_names(program: ExportedProgram) -> list[str]:
    """The names of the model's own arguments, in the order of its signature."""
    (_, args_spec), (_, kwargs_spec) = zip("ab", program.call_spec.in_spec.children(), strict=True)
    signature = program.module_call_graph[0].signature
    names = list(signature.forward_arg_names or []) if signature is not None else []
    count = args_spec.num_children
    positional = names[:count] if len(names) >= count else [f"arg{i}" for i in range(count)]
    return positional + list(kwargs_spec.context or [])
