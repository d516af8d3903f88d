"""Dynamic sizes of an exported graph: their names, ranges and the two example values by which they are followed."""

from __future__ import annotations

from typing import Any

from torch.fx.experimental.symbolic_shapes import free_symbols

from .program import Dim
from .record import UNBACKED, example_sizes


class Symbols:
    """The free symbols of a graph's inputs, each with a name, a range and its example values."""

    def __init__(self, sizes: list[Any], ranges: dict[Any, Any], names: dict[str, str]) -> None:
        self.names: dict[Any, str] = {}
        self.ranges: dict[str, tuple[int, int | None]] = {}
        self.examples: list[dict[Any, int]] = [{}, {}]
        for size in sizes:
            for symbol in sorted(free_symbols(size), key=str):
                if symbol not in self.names:
                    self._add(symbol, ranges.get(symbol), names)

    def _add(self, symbol: Any, found: Any, names: dict[str, str]) -> None:
        index = len(self.names)
        low = int(found.lower) if found is not None and found.lower.is_Integer else 0
        high = int(found.upper) if found is not None and found.upper.is_Integer else None
        if high is not None and high >= 2**31 - 1:
            high = None
        name = names.get(str(symbol), f"s{index}")
        self.names[symbol], self.ranges[name] = name, (low, high)
        self.examples[0][symbol], self.examples[1][symbol] = example_sizes(index, low, high)

    @property
    def count(self) -> int:
        """How many examples to follow: one is enough when no size is dynamic."""
        return 2 if self.names else 1

    def at(self, size: Any, example: int) -> int:
        """The value of a size (int or SymInt) in one example."""
        if isinstance(size, int):
            return size
        expr = size.node.expr
        values = self.examples[example]
        return int(expr.xreplace({s: values.get(s, UNBACKED[example]) for s in expr.free_symbols}))

    def known(self, size: Any) -> bool:
        """Whether a size depends on nothing but the inputs' sizes."""
        return isinstance(size, int) or all(s in self.names for s in size.node.expr.free_symbols)

    def dim(self, size: Any) -> Dim:
        """An input's size as the program writes it: a number, a symbol, or scale*symbol+offset."""
        if isinstance(size, int) or size.node.expr.is_Integer:
            return int(size)
        expr = size.node.expr
        (symbol,) = expr.free_symbols
        scale, offset = expr.coeff(symbol, 1), expr.coeff(symbol, 0)
        text = self.names[symbol] if scale == 1 else f"{int(scale)}*{self.names[symbol]}"
        return f"{text}{int(offset):+d}" if offset else text
