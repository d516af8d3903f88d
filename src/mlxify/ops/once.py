"""Parts of instruction bodies that several instructions of a call have in common, computed once in that call."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar, cast

import mlx.core as mx

MOST = 64
"""Results that are remembered at a time."""

F = TypeVar("F", bound=Callable[..., Any])

_local = threading.local()


@contextmanager
def one_call() -> Iterator[None]:
    """A call of a program: nothing is remembered beyond it, since its caller may then change arrays in place."""
    before = getattr(_local, "results", None)
    _local.results = {}
    try:
        yield
    finally:
        _local.results = before


def once_a_call(function: F) -> F:
    """Compute function(*args) of the same arrays and equal other arguments once in a call. Arrays go by identity."""

    @wraps(function)
    def remembered(*args: Any) -> Any:
        results: dict[Any, Any] | None = getattr(_local, "results", None)
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
