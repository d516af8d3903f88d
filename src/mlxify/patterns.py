"""Fusions: what a model spells out in several ops and MLX computes with one instruction.

A fusion is a pattern (an expression over ATen ops), a condition that refuses with a reason, and a lowering like any
other. No graph is changed: a fusion only says that a node is lowered together with the nodes that lead to it.

    x, weight, eps = wild("x"), wild("weight"), wild("eps")

    @fuses(x * op("aten.rsqrt", op("aten.mean.dim", x * x, [-1], True) + eps) * weight, condition=one_vector)
    def rms_norm_by_hand(x, weight, eps):
        return rms_norm(x, weight, eps)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx

from .calls import CASTS, MINUS, OVER, PLUS, TIMES, Call, first, seen_through
from .lowering import HALVES, canonical


@dataclass(frozen=True)
class Found:
    """What a pattern has matched so far. inner: the calls inside, and whether each may be used elsewhere as well."""

    bound: dict[str, Any] = field(default_factory=dict)
    named: dict[str, Call] = field(default_factory=dict)
    inner: dict[Call, bool] = field(default_factory=dict)

    def binding(self, name: str, value: Any) -> Found | None:
        """With `name` for a value; None when the name stands for another one."""
        if name in self.bound:
            return self if _same(self.bound[name], value) else None
        return Found({**self.bound, name: value}, self.named, self.inner)

    def holding(self, calls: Iterable[Call], free: bool) -> Found:
        inner = dict(self.inner)
        for call in calls:
            inner[call] = inner.get(call, True) and free
        return Found(self.bound, self.named, inner)

    def naming(self, name: str, call: Call) -> Found:
        return Found(self.bound, {**self.named, name: call}, self.inner)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(_same, a, b))
    return a is b or (not isinstance(a, Call) and type(a) is type(b) and bool(a == b))


class Pattern:
    """An expression over ATen ops. `+ - * /` are the ops on tensors and numbers, `|` is one pattern or else the other."""

    def match(self, value: Any, found: Found, free: bool) -> Iterator[Found]:
        """All ways in which the pattern fits a value, each as `found` grown by them."""
        raise NotImplementedError

    def admits(self, value: Any) -> bool:
        """Whether the pattern may fit a value (seen through): a quick test, which most values fail."""
        return True

    def roots(self) -> tuple[str, ...]:
        """The targets with which a match can end."""
        raise TypeError(f"a fusion cannot end with {type(self).__name__}")

    def parts(self) -> Iterable[Pattern]:
        """The patterns inside."""
        return ()

    def names(self) -> set[str]:
        """The names that the pattern gives. A part stands in many places of a pattern, and is looked at once."""
        seen: dict[int, Pattern] = {}
        todo: list[Pattern] = [self]
        while todo:
            part = todo.pop()
            if id(part) not in seen:
                seen[id(part)] = part
                todo += part.parts()
        return {part.name for part in seen.values() if isinstance(part, (_Wild, _Named))}

    def named(self, name: str) -> Pattern:
        """The pattern, its node known as `name` to the condition and, as a Call, to the lowering."""
        return _Named(self, name)

    def __or__(self, other: Pattern) -> Pattern:
        return _Either([self, other])

    def __add__(self, other: Any) -> Pattern:
        return op(PLUS, self, other, commutes=True)

    def __mul__(self, other: Any) -> Pattern:
        return op(TIMES, self, other, commutes=True)

    __radd__, __rmul__ = __add__, __mul__

    def __sub__(self, other: Any) -> Pattern:
        return op(MINUS, self, other)

    def __rsub__(self, other: Any) -> Pattern:
        return op(MINUS, other, self) | op("aten.rsub.Scalar", self, other)

    def __truediv__(self, other: Any) -> Pattern:
        return op(OVER, self, other)

    def __rtruediv__(self, other: Any) -> Pattern:
        """1 / x, which PyTorch writes as the reciprocal, times the number."""
        inverse = op("aten.reciprocal", self)
        return inverse if type(other) in (int, float) and other == 1 else other * inverse


@dataclass(frozen=True)
class _Wild(Pattern):
    name: str
    where: Callable[[Any], bool] | None = None

    def match(self, value: Any, found: Found, free: bool) -> Iterator[Found]:
        value, _ = seen_through(value)
        grown = found.binding(self.name, value) if self.admits(value) else None
        if grown is not None:
            yield grown

    def admits(self, value: Any) -> bool:
        return self.where is None or self.where(value)


@dataclass(frozen=True)
class _Literal(Pattern):
    value: Any

    def match(self, value: Any, found: Found, free: bool) -> Iterator[Found]:
        if self.admits(seen_through(value)[0]):
            yield found

    def admits(self, value: Any) -> bool:
        alike = isinstance(value, bool) == isinstance(self.value, bool) and not isinstance(value, Call)
        return alike and bool(value == self.value)


@dataclass(frozen=True)
class _List(Pattern):
    items: tuple[Pattern, ...]

    def match(self, value: Any, found: Found, free: bool) -> Iterator[Found]:
        if self.admits(value):
            yield from _match_all(list(zip(self.items, value, strict=True)), found, free)

    def admits(self, value: Any) -> bool:
        return isinstance(value, (list, tuple)) and len(value) == len(self.items)

    def parts(self) -> Iterable[Pattern]:
        return self.items


@dataclass(frozen=True)
class _Either(Pattern):
    options: list[Pattern]

    def match(self, value: Any, found: Found, free: bool) -> Iterator[Found]:
        seen, _ = seen_through(value)
        for option in self.options:
            if option.admits(seen):
                yield from option.match(value, found, free)

    def admits(self, value: Any) -> bool:
        return any(option.admits(value) for option in self.options)

    def roots(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(root for option in self.options for root in option.roots()))

    def parts(self) -> Iterable[Pattern]:
        return self.options

    def __or__(self, other: Pattern) -> Pattern:
        return _Either([*self.options, other])


@dataclass(frozen=True)
class _Around(Pattern):
    inside: Pattern

    def admits(self, value: Any) -> bool:
        return self.inside.admits(value)

    def roots(self) -> tuple[str, ...]:
        return self.inside.roots()

    def parts(self) -> Iterable[Pattern]:
        return (self.inside,)


@dataclass(frozen=True)
class _Named(_Around):
    name: str

    def match(self, value: Any, found: Found, free: bool) -> Iterator[Found]:
        call, _ = seen_through(value)
        for grown in self.inside.match(value, found, free):
            yield grown.naming(self.name, call)


@dataclass(frozen=True)
class _Shared(_Around):
    def match(self, value: Any, found: Found, free: bool) -> Iterator[Found]:
        yield from self.inside.match(value, found, True)


@dataclass(frozen=True)
class _Widened(_Around):
    def match(self, value: Any, found: Found, free: bool) -> Iterator[Found]:
        value, passed = seen_through(value)
        while isinstance(value, Call) and value.target in CASTS and _widens(value):
            found = found.holding([value, *passed], True)
            value, passed = seen_through(first(value))
        yield from self.inside.match(value, found, free)

    def admits(self, value: Any) -> bool:
        return self.inside.admits(value) or (isinstance(value, Call) and value.target in CASTS)


@dataclass(frozen=True)
class _Op(Pattern):
    targets: tuple[str, ...]
    operands: tuple[Pattern, ...]
    settings: dict[str, Pattern]
    commutes: bool
    where: Callable[[Call], bool] | None
    loose: bool

    def match(self, value: Any, found: Found, free: bool) -> Iterator[Found]:
        call, passed = seen_through(value)
        if not self.admits(call):
            return
        given = call.arguments
        names = list(given)[: len(self.operands)]
        if len(names) < len(self.operands) or not all(name in given for name in self.settings):
            return
        rest = given.keys() - self.settings.keys() - set(names)
        if not self.loose and not all(call.left_out(name) for name in rest):
            return
        if self.where is not None and not self.where(call):
            return
        grown = found.holding([call, *passed], free)
        settings = [(p, given[name]) for name, p in self.settings.items()]
        values = [given[name] for name in names]
        for order in (values, values[::-1]) if self.commutes else (values,):
            yield from _match_all([*zip(self.operands, order, strict=True), *settings], grown, free)

    def admits(self, value: Any) -> bool:
        return isinstance(value, Call) and value.target in self.targets

    def roots(self) -> tuple[str, ...]:
        return self.targets

    def parts(self) -> Iterable[Pattern]:
        return (*self.operands, *self.settings.values())


def _match_all(pairs: list[tuple[Pattern, Any]], found: Found, free: bool) -> Iterator[Found]:
    if all(pattern.admits(seen_through(value)[0]) for pattern, value in pairs):
        yield from _match_each(pairs, found, free)


def _match_each(pairs: list[tuple[Pattern, Any]], found: Found, free: bool) -> Iterator[Found]:
    if not pairs:
        yield found
        return
    (pattern, value), *rest = pairs
    for grown in pattern.match(value, found, free):
        yield from _match_each(rest, grown, free)


def wild(name: str, where: Callable[[Any], bool] | None = None) -> Pattern:
    """Anything: a Call, a literal. The same name stands for the same node everywhere in a pattern."""
    return _Wild(name, where)


def number(name: str) -> Pattern:
    """A number that is known at conversion."""
    return _Wild(name, lambda value: type(value) in (int, float))


def op(
    targets: str | tuple[str, ...],
    *operands: Any,
    commutes: bool = False,
    where: Callable[[Call], bool] | None = None,
    loose: bool = False,
    **settings: Any,
) -> Pattern:
    """A call of one of the targets ("aten.mean.dim"). Its first arguments and those in `settings` match the patterns.

    An argument that is not mentioned must have its default, unless `loose`. commutes: the two operands may come in
    either order. where: what must hold of the call as well. Lists of patterns match lists; other values, themselves.
    """
    names = (targets,) if isinstance(targets, str) else targets
    return _Op(
        tuple(canonical(name) for name in names),
        tuple(_pattern(o) for o in operands),
        {name: _pattern(s) for name, s in settings.items()},
        commutes,
        where,
        loose,
    )


def _pattern(value: Any) -> Pattern:
    if isinstance(value, Pattern):
        return value
    return _List(tuple(map(_pattern, value))) if isinstance(value, list) else _Literal(value)


def either(*patterns: Pattern) -> Pattern:
    """One of the patterns."""
    return _Either(list(patterns))


def shared(pattern: Pattern) -> Pattern:
    """The pattern, its nodes free to be used elsewhere: cheap ones, or ones that each user's fusion takes in."""
    return _Shared(pattern)


def widened(pattern: Pattern) -> Pattern:
    """The pattern, before or after a cast to a wider float, which loses nothing: what is bound is the narrow one."""
    return _Widened(pattern)


def narrowed(pattern: Pattern) -> Pattern:
    """The pattern rounded to a half float."""
    return op(CASTS, pattern, where=_rounds, loose=True)


def _widens(call: Call) -> bool:
    source = first(call)
    if not isinstance(source, Call) or source.dtype is None or call.dtype is None:
        return False
    narrower = {mx.float32: HALVES, mx.float64: (*HALVES, mx.float32)}
    return source.dtype in narrower.get(call.dtype, ())


def _rounds(call: Call) -> bool:
    source = first(call)
    if not isinstance(source, Call) or source.dtype is None or call.dtype is None:
        return False
    return source.dtype == mx.float32 and call.dtype in HALVES


@dataclass(frozen=True)
class Fusion:
    """One registered fusion. parameters, conditions: what its lowering and its condition take, by name."""

    name: str
    pattern: Pattern
    fn: Callable[..., Any]
    parameters: tuple[str, ...]
    condition: Callable[..., str | None] | None
    conditions: tuple[str, ...]

    def matches(self, root: Call) -> Iterator[Match]:
        """All ways in which it fits, in the order of the pattern's alternatives."""
        for found in self.pattern.match(root, Found(), False):
            yield Match(self, root, found)


@dataclass(frozen=True, eq=False)
class Match:
    """A fusion that fits the nodes before `root`, its condition aside."""

    fusion: Fusion
    root: Call
    found: Found

    @property
    def size(self) -> int:
        return len(self.found.inner)

    def refused(self) -> str | None:
        """The reason for which the condition refuses, if it does."""
        if self.fusion.condition is None:
            return None
        known = {**self.found.bound, **self.found.named, "root": self.root}
        return self.fusion.condition(**{name: known.get(name) for name in self.fusion.conditions})

    def leaves(self) -> Iterator[Call]:
        """The nodes whose values the lowering takes."""
        yield from _calls(self.found.bound[n] for n in self.fusion.parameters if n in self.found.bound)


def _calls(values: Iterable[Any]) -> Iterator[Call]:
    for value in values:
        if isinstance(value, Call):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _calls(value)


RESERVED = ("result", "root")
FUSIONS: dict[str, list[Fusion]] = {}
"""By the target of the node that a match ends with."""


def fuses(
    pattern: Pattern, *, condition: Callable[..., str | None] | None = None, name: str = ""
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a lowering for all nodes that `pattern` matches. Its parameters are names in the pattern.

    It gets the values of wild names, None for those of other alternatives; a Call (shape, dtype) for a named op, and
    PyTorch's shape and dtype for `result`. condition: takes such names as Calls, and `root`; returns why this match is
    none, or None. name: what `mlxify check` calls the fusion, by default the function's name.
    """

    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        parameters = tuple(inspect.signature(fn).parameters)
        conditions = tuple(inspect.signature(condition).parameters) if condition else ()
        names = pattern.names()
        if not names.isdisjoint(RESERVED):
            raise ValueError(f"{fn.__name__}: no part of a pattern may be called {' or '.join(RESERVED)}")
        unknown = {*parameters, *conditions} - names - {*RESERVED}
        if unknown:
            raise ValueError(f"{fn.__name__}: the pattern has no {', '.join(sorted(unknown))}")
        fusion = Fusion(name or fn.__name__, pattern, fn, parameters, condition, conditions)
        for root in pattern.roots():
            FUSIONS.setdefault(root, []).append(fusion)
        return fn

    return register


def fusions_of(root: Call) -> list[Fusion]:
    """The fusions that can end with a call."""
    return [] if seen_through(root)[0] is not root else FUSIONS.get(root.target, [])
