"""Orthogonal polynomials of any degree, by their recurrences as PyTorch runs them.

The degree is an argument, and may be a tensor. A literal one is unrolled; for a tensor, a loop runs up to the largest
degree among the elements that need it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mlx.core as mx

from ..isa import cast
from ..lowering import as_array, lowers, result_type
from ..record import active
from ..values import HostNumber, Value
from .arithmetic import add, divide, is_integral, literal, multiply, remainder, subtract
from .bitwise import bitwise_and, bitwise_invert, bitwise_or
from .compare import equal, greater, less, less_equal, where
from .control import while_loop
from .reduce import any_
from .shape import broadcast_arrays
from .unary import abs_, arccos, cos, negative, sin

MAX_UNROLLED = 64

Step = Callable[[Any, Any, Any], Any]
"""The polynomial of degree k from k (a float or a 0-d array) and the polynomials of degrees k - 2 and k - 1."""


class Degree:
    """The degree of each element: `values` in int64, `known` if it is one literal."""

    def __init__(self, n: Any, dtype: mx.Dtype) -> None:
        """Rounded to `dtype` first, then towards 0, as PyTorch does; what int64 cannot hold counts as negative."""
        self.known: int | None = None
        if isinstance(n, (Value, HostNumber)):
            rounded = as_array(n, dtype)
            fits = less(abs_(rounded), 2.0**63)
            self.values = cast(where(fits, rounded, literal(-1.0, dtype)), mx.int64)
        else:
            value: Any = mx.array(float(n), dtype=dtype).item()
            self.known = int(value) if abs(value) < 2.0**63 else -1
            self.values = as_array(self.known, mx.int64)

    def is_above(self, bound: int) -> Any:
        return greater(self.values, bound)

    def is_even(self) -> Any:
        return equal(remainder(self.values, 2), 0)

    def scaled(self, factor: int, offset: int, dtype: mx.Dtype) -> Any:
        """factor * degree + offset, exact, then as `dtype`."""
        return cast(add(multiply(self.values, factor), offset), dtype)


def _operands(x: Any, n: Any) -> tuple[Any, Degree]:
    """x and the degree, both of the result's shape."""
    common = result_type([x, n])
    common = mx.float32 if is_integral(common) else common
    degree = Degree(n, common)
    x, degree.values = broadcast_arrays([as_array(x, common), degree.values])
    return x, degree


def _recur(first: Any, degree: Degree, needed: Any, step: Step) -> Any:
    """The polynomial by steps from 1 and `first`, where `needed`. 0 for a negative degree."""
    one = literal(1.0, first.dtype)
    if degree.known is not None and degree.known <= MAX_UNROLLED:
        before, value = one, first
        for k in range(2, degree.known + 1):
            before, value = value, step(float(k), before, value)
    else:
        value = _loop(first, degree, needed, step)
    value = where(equal(degree.values, 0), one, value)
    return where(less(degree.values, 0), literal(0.0, first.dtype), value)


def _loop(first: Any, degree: Degree, needed: Any, step: Step) -> Any:
    """Steps as long as an element is needed, below its degree and not nan."""

    def grows(k: Any, value: Any) -> Any:
        return bitwise_and(bitwise_and(less_equal(k, degree.values), needed), equal(value, value))

    def condition(k: Any, before: Any, value: Any) -> list[Any]:
        return [any_(grows(k, value), list(range(value.ndim)), False)]

    def body(k: Any, before: Any, value: Any) -> list[Any]:
        after = step(cast(k, value.dtype), before, value)
        going = grows(k, value)
        return [add(k, 1), where(going, value, before), where(going, after, value)]

    _, ones = broadcast_arrays([first, literal(1.0, first.dtype)])
    carried = [as_array(2, mx.int64), ones, first]
    recorder = active()
    return while_loop(recorder.block(condition, carried), recorder.block(body, carried), carried)[2]


def _line(k: Any, factor: float, offset: float) -> Any:
    """factor * k + offset."""
    return factor * k + offset if isinstance(k, float) else add(multiply(k, factor), offset)


def _chebyshev(kind: str, y: Any, degree: Degree, above: int, shifted: bool) -> Any:
    """T, U, V or W of y: 2 y p(k - 1) - p(k - 2); from a degree over `above` on by the angle, inside -1 to 1."""
    dtype, double, one = y.dtype, add(y, y), literal(1.0, y.dtype)
    first, at_1, at_minus_1 = {
        "t": lambda: (y, one, one),
        "u": lambda: (double, degree.scaled(1, 1, dtype), degree.scaled(1, 1, dtype)),
        "v": lambda: (subtract(double, 1.0), one, degree.scaled(2, 1, dtype)),
        "w": lambda: (add(double, 1.0), degree.scaled(2, 1, dtype), one),
    }[kind]()
    at_minus_1 = where(degree.is_even(), at_minus_1, negative(at_minus_1))
    ends = where(greater(y, 0.0), at_1, at_minus_1)
    inside = bitwise_and(degree.is_above(above), less(abs_(y), 1.0))
    outside = bitwise_invert(bitwise_or(inside, equal(abs_(y), 1.0)))
    value = _recur(first, degree, outside, lambda k, p, q: subtract(multiply(double, q), p))
    if degree.known is None or degree.known > above:
        # Next to an end the quotient is 0 / 0; PyTorch takes the wrong end for the shifted W.
        value = where(inside, _by_angle(kind, arccos(y), degree, at_minus_1 if shifted else ends), value)
    return where(bitwise_and(equal(abs_(y), 1.0), degree.is_above(-1)), ends, value)


def _by_angle(kind: str, angle: Any, degree: Degree, at_end: Any) -> Any:
    """T, U, V or W of cos(angle): DLMF 18.5.1 to 18.5.4, W with the sign that makes it W."""
    n, half = degree.scaled(1, 0, angle.dtype), divide(angle, 2.0)
    if kind == "t":
        return cos(multiply(n, angle))
    if kind == "u":
        return divide(sin(multiply(degree.scaled(1, 1, angle.dtype), angle)), sin(angle))
    angle = multiply(add(n, 0.5), angle)
    if kind == "v":
        return where(equal(sin(half), 1.0), at_end, divide(cos(angle), cos(half)))
    return where(equal(cos(half), 1.0), at_end, divide(sin(angle), sin(half)))


def _polynomial(name: str) -> Callable[[Callable[[Any, Degree], Any]], Any]:
    """Register a function of x and the degree as the lowering of all overloads of a polynomial."""

    def register(fn: Callable[[Any, Degree], Any]) -> Any:
        def lowering(x: Any, n: Any) -> Any:
            return fn(*_operands(x, n))

        return lowers(*(f"aten.special_{name}{overload}" for overload in ("", ".x_scalar", ".n_scalar")))(
            lowering
        )

    return register


def _register_chebyshev(kind: str, above: int, above_shifted: int) -> None:
    @_polynomial(f"chebyshev_polynomial_{kind}")
    def chebyshev(x: Any, degree: Degree) -> Any:
        return _chebyshev(kind, x, degree, above, False)

    @_polynomial(f"shifted_chebyshev_polynomial_{kind}")
    def shifted(x: Any, degree: Degree) -> Any:
        return _chebyshev(kind, subtract(add(x, x), 1.0), degree, above_shifted, True)


for _kind, _above, _above_shifted in (("t", 6, 6), ("u", 8, 6), ("v", 8, 6), ("w", 8, 4)):
    _register_chebyshev(_kind, _above, _above_shifted)


def _hermite(first: Any, degree: Degree, step: Step) -> Any:
    """nan above a degree that depends on the dtype, as in PyTorch."""
    limit = 512 if first.dtype == mx.float64 else 128
    too_high = degree.is_above(limit)
    if degree.known is not None and degree.known > limit:
        value = first
    else:
        value = _recur(first, degree, bitwise_invert(too_high), step)
    return where(too_high, literal(math.nan, first.dtype), value)


@_polynomial("hermite_polynomial_h")
def hermite_h(x, degree):
    """2 x p(k - 1) - 2 (k - 1) p(k - 2)."""
    double = add(x, x)
    return _hermite(
        double, degree, lambda k, p, q: subtract(multiply(double, q), multiply(p, _line(k, 2, -2)))
    )


@_polynomial("hermite_polynomial_he")
def hermite_he(x, degree):
    """x p(k - 1) - (k - 1) p(k - 2)."""
    return _hermite(x, degree, lambda k, p, q: subtract(multiply(x, q), multiply(p, _line(k, 1, -1))))


@_polynomial("laguerre_polynomial_l")
def laguerre(x, degree):
    """((2 k - 1 - x) p(k - 1) - (k - 1) p(k - 2)) / k; 1 at 0."""
    first = subtract(1.0, x)

    def step(k: Any, p: Any, q: Any) -> Any:
        return divide(subtract(multiply(add(first, _line(k, 2, -2)), q), multiply(p, _line(k, 1, -1))), k)

    at_0 = bitwise_and(equal(x, 0.0), degree.is_above(-1))
    value = _recur(first, degree, bitwise_invert(at_0), step)
    return where(at_0, literal(1.0, x.dtype), value)


@_polynomial("legendre_polynomial_p")
def legendre(x, degree):
    """((2 k - 1) x p(k - 1) - (k - 1) p(k - 2)) / k; 1 or -1 at the ends."""

    def step(k: Any, p: Any, q: Any) -> Any:
        return divide(subtract(multiply(multiply(x, _line(k, 2, -1)), q), multiply(p, _line(k, 1, -1))), k)

    at_end = bitwise_and(equal(abs_(x), 1.0), degree.is_above(-1))
    value = _recur(x, degree, bitwise_invert(at_end), step)
    end = where(degree.is_even(), literal(1.0, x.dtype), x)
    return where(at_end, end, value)
