"""Dynamic sizes of an exported graph: their names, ranges, conditions and the two examples by which they are followed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sympy
import torch
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import free_symbols, free_unbacked_symbols

from .conditions import Condition, Place, read_conditions
from .errors import ConversionError
from .program import Dim, LinearDim
from .record import UNBACKED, example_sizes

Sizes = dict[Any, int]
NEAR = 256
"""How far from the preferred example a size is tried that fulfils a condition."""


class Symbols:
    """The free symbols of a graph's inputs, each with a name, a range and its example values.

    A size of an input that is no linear function of one symbol gets a name of its own; a condition says what it is.
    """

    def __init__(self, program: ExportedProgram) -> None:
        found, self.places = read_conditions(program)
        sizes = [p.size for p in self.places.values() if isinstance(p.size, torch.SymInt)]
        self._spans = dict(program.range_constraints)
        self._unbacked = any(free_unbacked_symbols(expr) for expr in self._spans)
        self._hints: Sizes = {}
        self.names: dict[Any, str] = {}
        self.ranges: dict[str, tuple[int, int | None]] = {}
        given = _user_names(sizes)
        for symbol in _in_order(sizes):
            self.names[symbol] = self._name(symbol, given.get(str(symbol)))
        self._own: dict[Any, str] = {}
        for size in sizes:
            if _linear(size.node.expr) is None and size.node.expr not in self._own:
                self._own[size.node.expr] = self._name(size.node.expr, None)
        for size in sizes:
            if size.node.expr.is_Symbol and isinstance(size.node.hint, int):
                self._hints[size.node.expr] = size.node.hint
        self.conditions = [c for c in found if not c.always_holds(self._symbolic, self._spans)]
        self.examples = self._examples()

    def _name(self, expr: Any, given: str | None) -> str:
        """A new name for a symbol or another size, with its range."""
        number = len(self.ranges)
        name = given if given is not None and given not in self.ranges else f"s{number}"
        while name in self.ranges:
            name += "_"
        self.ranges[name] = self._range(expr)
        return name

    def _range(self, expr: Any) -> tuple[int, int | None]:
        span = self._spans.get(expr)
        low = int(span.lower) if span is not None and span.lower.is_Integer else 0
        high = int(span.upper) if span is not None and span.upper.is_Integer else None
        return low, None if high is not None and high >= 2**31 - 1 else high

    def _symbolic(self, place: Place) -> Any:
        """A place's size as sympy sees it; a size with a name of its own is a symbol of its own."""
        if not isinstance(place.size, torch.SymInt):
            return place.size
        own = self._own.get(place.size.node.expr)
        return place.size.node.expr if own is None else sympy.Symbol(own, integer=True, nonnegative=True)

    def _examples(self) -> list[Sizes]:
        """Two sets of sizes in their ranges that fulfil all conditions, far apart."""
        pairs = [example_sizes(i, *self.ranges[name]) for i, name in enumerate(self.names.values())]
        preferred = [{s: pair[k] for s, pair in zip(self.names, pairs, strict=True)} for k in range(2)]
        small, large = (self._fulfil(sizes, distinct=True) or self._fulfil(sizes) for sizes in preferred)
        if small is None or large is None or not self._differ(small, large):
            return self._scaled_hints()
        return [small, large]

    def _differ(self, small: Sizes, large: Sizes) -> bool:
        """Whether every symbol that can have two values has two."""
        ranges = {symbol: self.ranges[name] for symbol, name in self.names.items()}
        return all(small[s] != large[s] for s, (low, high) in ranges.items() if low != high)

    def _scaled_hints(self) -> list[Sizes]:
        """Multiples of the sizes with which the model was exported."""
        fitting = []
        for factor in range(1, NEAR):
            sizes = {s: hint * factor for s, hint in self._hints.items()}
            if sizes.keys() == self.names.keys() and self._fits(sizes):
                fitting.append(sizes)
        if len(fitting) < 2:
            conditions = "; ".join(c.text for c in self.conditions)
            raise ConversionError(f"no two sets of sizes were found that fulfil the conditions {conditions}")
        return [fitting[0], fitting[-1]]

    def _fits(self, sizes: Sizes) -> bool:
        spans = ((sizes[s], *self.ranges[name]) for s, name in self.names.items())
        inside = all(low <= n and (high is None or n <= high) for n, low, high in spans)
        return inside and not self._broken(sizes)

    def _broken(self, sizes: Sizes) -> list[Condition]:
        def holds(condition: Condition) -> bool:
            try:
                return bool(condition.evaluate(lambda place: _at(place.size, sizes)))
            except (ZeroDivisionError, OverflowError, ValueError):
                return False

        return [c for c in self.conditions if not holds(c)]

    def _fulfil(self, start: Sizes, distinct: bool = False) -> Sizes | None:
        """Sizes near `start` that fulfil all conditions, found one size at a time; None when that does not work.

        distinct: no two of them are to be equal, so that a mistake of one for the other is seen.
        """

        def count_broken(sizes: Sizes) -> int:
            equal = len(sizes) - len(set(sizes.values())) if distinct else 0
            return len(self._broken(sizes)) + equal

        sizes, broken = dict(start), count_broken(start)
        while broken:
            before = broken
            for symbol in self.names:
                for value in self._candidates(symbol, sizes):
                    count = count_broken({**sizes, symbol: value})
                    if count < broken:
                        sizes[symbol], broken = value, count
                    if not broken:
                        break
            if broken == before:
                return None
        return sizes

    def _candidates(self, symbol: Any, sizes: Sizes) -> Iterator[int]:
        low, high = self.ranges[self.names[symbol]]
        wanted = [
            self._solve(symbol, place.size, value)
            for condition in self._broken(sizes)
            for place, value in condition.solutions(lambda place: _at(place.size, sizes))
        ]
        for value in (*wanted, *range(sizes[symbol], sizes[symbol] + NEAR), *range(sizes[symbol] - 1, 0, -1)):
            if value is not None and low <= value and (high is None or value <= high):
                yield value

    def _solve(self, symbol: Any, size: Any, value: int) -> int | None:
        linear = _linear(size.node.expr) if isinstance(size, torch.SymInt) else None
        if linear is None or linear[1] != symbol:
            return None
        return LinearDim(linear[0], "s", linear[2]).solve(value)

    @property
    def count(self) -> int:
        """How many examples to follow: one is enough when no size is dynamic or depends on data."""
        return 2 if self.names or self._unbacked else 1

    @property
    def chosen(self) -> dict[str, tuple[int, int]]:
        """The examples by name where they are not those that any program of such ranges has."""
        pairs = {name: self._pair(expr) for expr, name in {**self.names, **self._own}.items()}
        usual = (example_sizes(i, *self.ranges[name]) for i, name in enumerate(pairs))
        return {} if list(pairs.values()) == list(usual) else pairs

    def _pair(self, expr: Any) -> tuple[int, int]:
        return _evaluate(expr, self.examples[0]), _evaluate(expr, self.examples[1])

    def at(self, size: Any, example: int) -> int:
        """The value of a size (int or SymInt) in one example."""
        return _at(size, self.examples[example], UNBACKED[example])

    def known(self, size: Any) -> bool:
        """Whether a size depends on nothing but the inputs' sizes."""
        return isinstance(size, int) or all(s in self.names for s in size.node.expr.free_symbols)

    def dim(self, size: Any) -> Dim:
        """An input's size as the program writes it: a number, a symbol, or scale*symbol+offset."""
        if isinstance(size, int) or size.node.expr.is_Integer:
            return int(size)
        linear = _linear(size.node.expr)
        if linear is None:
            return self._own[size.node.expr]
        scale, symbol, offset = linear
        text = self.names[symbol] if scale == 1 else f"{scale}*{self.names[symbol]}"
        return f"{text}{offset:+d}" if offset else text


def _at(size: Any, sizes: Sizes, unknown: int = 0) -> Any:
    return _evaluate(size.node.expr, sizes, unknown) if isinstance(size, torch.SymInt) else size


def _evaluate(expr: Any, sizes: Sizes, unknown: int = 0) -> int:
    return int(expr.xreplace({s: sympy.Integer(sizes.get(s, unknown)) for s in expr.free_symbols}))


def _linear(expr: Any) -> tuple[int, Any, int] | None:
    """(scale, symbol, offset) of scale * symbol + offset, or None for another expression."""
    if len(expr.free_symbols) != 1:
        return (1, expr, 0) if expr.is_Integer else None
    (symbol,) = expr.free_symbols
    scale, offset = expr.coeff(symbol, 1), expr.coeff(symbol, 0)
    if expr != scale * symbol + offset or not (scale.is_Integer and offset.is_Integer and scale > 0):
        return None
    return int(scale), symbol, int(offset)


def _in_order(sizes: list[Any]) -> list[Any]:
    """The free symbols of some sizes, in order of appearance."""
    return list(dict.fromkeys(s for size in sizes for s in sorted(free_symbols(size), key=str)))


def _user_names(sizes: list[Any]) -> dict[str, str]:
    """The names of the user's Dims by torch's symbols ("s23"). An export that was saved and loaded has none."""
    names: dict[str, str] = {}
    environments = {id(size.node.shape_env): size.node.shape_env for size in sizes}
    for env in environments.values():
        for source, text in getattr(env, "source_name_to_debug_name", {}).items():
            dim = LinearDim.parse(str(text).replace(" ", ""))
            linear = _linear(env.replace(env.source_to_var[source])) if source in env.source_to_var else None
            if dim is not None and linear is not None and (dim.scale, dim.offset) == (linear[0], linear[2]):
                names.setdefault(str(linear[1]), dim.symbol)
    return names
