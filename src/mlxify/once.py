"""Parts of instruction bodies that several instructions of a call have in common, computed once in that call."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import mlx.core as mx

MOST = 64
"""Results that are remembered at a time."""

F = TypeVar("F", bound=Callable[..., Any])


class _Local(threading.local):
    results: dict[Any, Any] | None = None


_local = _Local()


class OneCall:
    """A call of a program: nothing is remembered beyond it, since its caller may then change arrays in place."""

    __slots__ = ("before",)

    def __enter__(self) -> None:
        self.before = _local.results
        _local.results = {}

    def __exit__(self, *error: object) -> None:
        _local.results = self.before


def once_a_call(function: F) -> F:
    """Compute function(*args) of the same arrays and equal other arguments once in a call. Arrays go by identity."""

    @wraps(function)
    def remembered(*args: Any) -> Any:
        results = _local.results
        if results is None:
            return function(*args)
        key = (function, *[id(a) if isinstance(a, mx.array) else (type(a), a) for a in args])
        found = results.get(key)
        if found is None:
            if len(results) >= MOST:
                results.clear()
            # With its arguments: the identity of an array that is gone may become another's.
            found = results[key] = (function(*args), args)
        return found[0]

    return cast(F, remembered)
