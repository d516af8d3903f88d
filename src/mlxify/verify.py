"""The verifier: a program is what its signatures say it is. Runs after conversion and on every load.

Each method is replayed on lazy example arrays (see record): every instruction must exist, take arguments of the
right kinds that were defined before, and give a result that MLX accepts. Nothing is computed.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from . import ops  # noqa: F401  (registers the instructions)
from .errors import MlxifyError, ProgramError
from .isa import INSTRUCTIONS
from .optimize import spec_of
from .program import RESERVED, Block, Graph, Input, Instr, LinearDim, Method, Ref, Spec, refs
from .record import Recorder, example_sizes
from .tree import leaf_numbers
from .values import Value

MAX_INSTRUCTIONS = 500_000
MAX_NESTING = 16
NUMBER_EXAMPLES: dict[str, tuple[Any, Any]] = {"int": (3, 5), "float": (0.5, 0.5), "bool": (True, True)}


def verify(graph: Graph) -> None:
    """Check the whole program and fill in the specs of its values. Raises ProgramError."""
    if not graph.methods:
        raise ProgramError("the program has no methods")
    for method in graph.methods.values():
        if not method.name.isidentifier() or method.name.startswith("_") or method.name in RESERVED:
            raise ProgramError(f"{method.name[:80]!r} cannot be a method's name")
        try:
            _Verifier(graph, method).run()
        except ProgramError as error:
            raise ProgramError(f"method {method.name!r}: {error}") from error


class _Verifier:
    def __init__(self, graph: Graph, method: Method) -> None:
        self.graph, self.method = graph, method
        self.examples = _examples(method)
        self.recorder = Recorder(len(self.examples))
        self.count = 0
        self.visible: set[int] = set()

    def run(self) -> None:
        method = self.method
        for item in method.inputs:
            self._define_input(item)
        for number, name in method.weights.items():
            self._define_tensor(number, name, self.graph.weights, "weight")
        for number, name in method.state.items():
            self._define_tensor(number, name, self.graph.state, "state")
        self._instrs(method.instrs, 0)
        self._check_updates()
        for output in method.outputs:
            self._check_visible(refs(output), "the outputs")
        self._check_checks()
        self._check_trees()
        names = self._names()
        for number, value in enumerate(self.recorder.values):
            method.specs[number] = spec_of(value, names) if isinstance(value, Value) else Spec((), None)

    def _define(self, number: int, hints: tuple[Any, ...]) -> None:
        value = self.recorder.new_value(hints)
        if value.number != number:
            raise ProgramError(f"the value %{number} is out of order (expected %{value.number})")
        self.visible.add(number)

    def _define_input(self, item: Input) -> None:
        if item.spec.dtype is None:
            sizes = [_size_at(dim, e, item.name) for e in self.examples for dim in item.spec.shape]
            self._define(item.value, tuple(sizes) or NUMBER_EXAMPLES[item.number][: len(self.examples)])
            return
        hints = []
        for symbols in self.examples:
            shape = [_size_at(dim, symbols, item.name) for dim in item.spec.shape]
            hints.append(_zeros(shape, item.spec.dtype, f"the input {item.name!r}"))
        self._define(item.value, tuple(hints))

    def _define_tensor(self, number: int, name: str, arrays: dict[str, mx.array], what: str) -> None:
        if name not in arrays:
            raise ProgramError(f"the {what} {name!r} is missing")
        array = arrays[name]
        self._define(number, (_zeros(array.shape, array.dtype, f"the {what} {name!r}"),) * len(self.examples))

    def _instrs(self, instrs: list[Instr], depth: int) -> None:
        if depth > MAX_NESTING:
            raise ProgramError(f"blocks are nested deeper than {MAX_NESTING}")
        for instr in instrs:
            self.count += 1
            if self.count > MAX_INSTRUCTIONS:
                raise ProgramError(f"more than {MAX_INSTRUCTIONS} instructions")
            try:
                self._instr(instr, depth)
            except MlxifyError as error:
                where = (
                    self.method.sources[instr.source] if 0 <= instr.source < len(self.method.sources) else ""
                )
                raise ProgramError(
                    f"instruction {self.count}: {error}{f' ({where})' if str(where) else ''}"
                ) from error

    def _instr(self, instr: Instr, depth: int) -> None:
        schema = INSTRUCTIONS.get(instr.op)
        if schema is None:
            raise ProgramError(f"there is no instruction {instr.op!r}")
        if len(instr.args) != len(schema.kinds):
            raise ProgramError(f"{instr.op} takes {len(schema.kinds)} arguments, not {len(instr.args)}")
        for name, kind, arg in zip(schema.parameters, schema.kinds, instr.args, strict=True):
            try:
                kind.check(arg)
                self._check_kinds(kind, arg)
            except ProgramError as error:
                raise ProgramError(f"{instr.op}: {name}: {error}") from None
            if isinstance(arg, Block):
                self._block(arg, depth)
        result = self.recorder.append(schema, instr.args)
        results = result if isinstance(result, tuple) else () if result is None else (result,)
        numbers = tuple(r.number for r in results)
        if numbers != tuple(instr.outputs):
            raise ProgramError(f"{instr.op} defines {list(numbers)}, not {list(instr.outputs)}")
        self.visible.update(numbers)

    def _check_kinds(self, kind: Any, arg: Any) -> None:
        """References must be visible here and of the parameter's kind: an array or a host number."""
        for item in arg if isinstance(arg, tuple) else (arg,):
            if isinstance(item, Ref):
                self._check_visible((int(item),), "an argument")
                is_array = isinstance(self.recorder.values[item], Value)
                if is_array != (kind.base == "array") and not kind.or_array:
                    raise ProgramError(f"%{int(item)} is {'an array' if is_array else 'a number'}")

    def _check_visible(self, numbers: Any, where: str) -> None:
        for number in numbers:
            if number not in self.visible:
                raise ProgramError(f"{where} refer to %{number}, which is not defined there")

    def _block(self, block: Block, depth: int) -> None:
        outer = set(self.visible)
        if len(block.inputs) != len(block.like):
            raise ProgramError("a block has another number of inputs than of examples for them")
        self._check_visible(block.like, "a block's inputs")
        for number, ref in zip(block.inputs, block.like, strict=True):
            self._define(number, self.recorder.values[ref].hints)
        self._instrs(block.instrs, depth + 1)
        self._check_visible(refs(block.outputs), "a block's outputs")
        self.visible = outer

    def _check_updates(self) -> None:
        for name, number in self.method.updates.items():
            if name not in self.graph.state:
                raise ProgramError(f"the state {name!r} is missing")
            self._check_visible((number,), "the state's updates")
            value, array = self.recorder.values[number], self.graph.state[name]
            same = isinstance(value, Value) and all(
                h.shape == array.shape and h.dtype == array.dtype for h in value.hints
            )
            if not same:
                raise ProgramError(f"the update of the state {name!r} has another shape or dtype")

    def _check_checks(self) -> None:
        for ref, _ in self.method.checks:
            self._check_visible((ref,), "a check")
            value = self.recorder.values[ref]
            if not isinstance(value, Value) or any(h.size != 1 or h.dtype != mx.bool_ for h in value.hints):
                raise ProgramError(f"the check of %{int(ref)} is not one bool")

    def _check_trees(self) -> None:
        m = self.method
        for tree, count in ((m.input_tree, len(m.inputs)), (m.output_tree, len(m.outputs))):
            if sorted(leaf_numbers(tree)) != list(range(count)):
                raise ProgramError("the argument or result tree does not fit the inputs or outputs")
        tree = m.input_tree
        shaped = tree[0] == "tuple" and [part[0] for part in tree[1]] == ["tuple", "dict"]
        if not shaped or sum(len(part[-1]) for part in tree[1]) != len(m.parameters):
            raise ProgramError("the argument tree does not fit the parameters")
        if len(set(m.parameters)) != len(m.parameters):
            raise ProgramError("two parameters have one name")

    def _names(self) -> dict[tuple[int, ...], str]:
        names: dict[tuple[int, ...], str] = {}
        for item in self.method.inputs:
            for dim in item.spec.shape:
                if isinstance(dim, str):
                    names.setdefault(tuple(_size_at(dim, e, item.name) for e in self.examples), dim)
        return names


def _examples(method: Method) -> list[dict[str, int]]:
    """Values of the dynamic sizes by which a method is checked: two sets, or one when no size can change."""
    if not method.symbols:
        waits = any(i.op in INSTRUCTIONS and INSTRUCTIONS[i.op].sync for i in method.all_instrs())
        return [{}, {}] if waits else [{}]
    pairs = {name: example_sizes(i, *span) for i, (name, span) in enumerate(method.symbols.items())}
    pairs |= method.examples
    return [{name: pair[k] for name, pair in pairs.items()} for k in range(2)]


def _size_at(dim: int | str, symbols: dict[str, int], what: str) -> int:
    if isinstance(dim, int):
        return dim
    linear = LinearDim.parse(dim)
    if linear is None or linear.symbol not in symbols:
        raise ProgramError(f"the input {what!r} has the unknown size {dim!r}")
    return linear.at(symbols[linear.symbol])


def _zeros(shape: Any, dtype: mx.Dtype, what: str) -> mx.array:
    count = dtype.size
    for n in shape:
        if not 0 <= n < 2**31:
            raise ProgramError(f"{what} has the size {n}")
        count *= n
    if count > 1 << 40 or len(shape) > 32:
        raise ProgramError(f"{what} is too large: shape {list(shape)}")
    return mx.zeros(shape, dtype)
