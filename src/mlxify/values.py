"""What lowerings see while they are recorded: arrays, and numbers that are known when the program runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mlx.core as mx

from .errors import MlxifyError
from .program import DTYPE_NAMES

if TYPE_CHECKING:
    from .record import Recorder


class DynamicValueError(MlxifyError, TypeError):
    """A lowering needs a number at conversion that is known only when the program runs."""


class HostNumber:
    """A number known when the program runs (a dynamic size and what is computed from it)."""

    __slots__ = ("hints", "number")

    def __init__(self, number: int, hints: tuple[Any, ...]) -> None:
        self.number, self.hints = number, hints

    def _binary(self, function: str, a: Any, b: Any) -> Any:
        from .ops.scalar import number_binary

        return number_binary(function, a, b)

    def __add__(self, other: Any) -> Any:
        return self if type(other) is int and other == 0 else self._binary("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return self + other

    def __sub__(self, other: Any) -> Any:
        return self if type(other) is int and other == 0 else self._binary("subtract", self, other)

    def __rsub__(self, other: Any) -> Any:
        return self._binary("subtract", other, self)

    def __mul__(self, other: Any) -> Any:
        return self if type(other) is int and other == 1 else self._binary("multiply", self, other)

    def __rmul__(self, other: Any) -> Any:
        return self * other

    def __floordiv__(self, other: Any) -> Any:
        return self if type(other) is int and other == 1 else self._binary("floor_divide", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._binary("floor_divide", other, self)

    def __mod__(self, other: Any) -> Any:
        return self._binary("remainder", self, other)

    def __truediv__(self, other: Any) -> Any:
        return self._binary("divide", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._binary("divide", other, self)

    def __neg__(self) -> Any:
        return self._binary("subtract", 0, self)

    def _unknown(self, *_: Any) -> Any:
        raise DynamicValueError("this needs a size that is known at conversion, and it is dynamic")

    __bool__ = __int__ = __index__ = __float__ = __lt__ = __le__ = __gt__ = __ge__ = _unknown
    __eq__ = object.__eq__
    __hash__ = object.__hash__


class Value:
    """An array of the program being recorded. `dtype`, `ndim` and `shape` are an array's, sizes may be HostNumbers."""

    __slots__ = ("dynamic", "hints", "number", "recorder")

    def __init__(self, recorder: Recorder, number: int, hints: tuple[mx.array, ...]) -> None:
        self.recorder, self.number, self.hints = recorder, number, hints
        self.dynamic: set[int] = set()

    @property
    def dtype(self) -> mx.Dtype:
        return self.hints[0].dtype

    @property
    def ndim(self) -> int:
        return self.hints[0].ndim

    @property
    def shape(self) -> tuple[Any, ...]:
        return tuple(self.size_at(axis) for axis in range(self.ndim))

    @property
    def size(self) -> Any:
        """The number of elements: an int, or a HostNumber."""
        total: Any = 1
        for n in self.shape:
            total = n * total
        return total

    def size_at(self, axis: int) -> Any:
        sizes = {hint.shape[axis] for hint in self.hints}
        if len(sizes) == 1 and axis not in self.dynamic:
            return self.hints[0].shape[axis]
        from .ops.scalar import size

        return size(self, axis)

    def __repr__(self) -> str:
        shapes = " / ".join(str(list(hint.shape)) for hint in self.hints)
        return f"%{self.number}: {DTYPE_NAMES[self.dtype]}{shapes}"
