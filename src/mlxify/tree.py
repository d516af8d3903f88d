"""Nested arguments and results (dict, list, tuple, dataclass, None) as data, without torch.

A tree says how leaves nest. Nodes: ("leaf", index), ("const", value), ("tuple" | "list", children),
("dict", keys, children), ("object", class name, keys, children): a dataclass or a transformers ModelOutput.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Any

from .errors import ProgramError

Tree = tuple[Any, ...]
MAX_DEPTH = 32
MAX_LEAVES = 100_000


class Output(OrderedDict[str, Any]):
    """A structured result: by attribute, by key or by position, like transformers' ModelOutput."""

    def __init__(self, type_name: str, items: Any) -> None:
        super().__init__(items)
        self.__dict__["type_name"] = type_name

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"{self.__dict__.get('type_name')} has no field {name!r}") from None

    def __getitem__(self, key: Any) -> Any:
        return list(self.values())[key] if isinstance(key, (int, slice)) else super().__getitem__(key)


def unflatten(tree: Tree, leaves: list[Any]) -> Any:
    """Put `leaves` in their places."""
    kind = tree[0]
    if kind == "leaf":
        return leaves[tree[1]]
    if kind == "const":
        return tree[1]
    if kind in ("tuple", "list"):
        items = [unflatten(child, leaves) for child in tree[1]]
        return tuple(items) if kind == "tuple" else items
    if kind == "dict":
        return {key: unflatten(child, leaves) for key, child in zip(tree[1], tree[2], strict=True)}
    return Output(tree[1], [(k, unflatten(c, leaves)) for k, c in zip(tree[2], tree[3], strict=True)])


def named_leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """What is in a nested result, in order, each with its path: "logits", "hidden[3]", "" for the whole."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from named_leaves(item, f"{name}.{key}" if name else str(key))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from named_leaves(item, f"{name}[{index}]")
    else:
        yield name, value


def flatten(
    tree: Tree, value: Any, path: str, put: Callable[[int, Any, str], None], mismatch: Callable
) -> None:
    """Take `value` apart as `tree` says: `put(index, leaf, path)` for each leaf.

    `mismatch(path, expected, value)` returns the exception to raise when the structure differs.
    """
    kind = tree[0]
    if kind == "leaf":
        put(tree[1], value, path)
    elif kind == "const":
        if not same_constant(value, tree[1]):
            raise mismatch(path, f"{tree[1]!r}, the value it was exported with", value)
    elif kind in ("tuple", "list"):
        if not isinstance(value, (tuple, list, deque)) or len(value) != len(tree[1]):
            raise mismatch(path, f"a {kind} of {len(tree[1])}", value)
        for i, (child, item) in enumerate(zip(tree[1], value, strict=True)):
            flatten(child, item, f"{path}[{i}]", put, mismatch)
    else:
        keys, children = tree[-2], tree[-1]
        if kind == "object" and type(value) is tuple and len(value) == len(keys):
            value = dict(zip(keys, value, strict=True))
        for key, child in zip(keys, children, strict=True):
            flatten(child, _field(value, key, path, keys, mismatch), f"{path}.{key}", put, mismatch)
        if isinstance(value, dict) and len(value) > len(keys):
            raise mismatch(path, f"the keys {list(keys)}", value)


def same_constant(a: Any, b: Any) -> bool:
    """Whether two literals are the same: 1, 1.0 and True differ, NaN is NaN."""
    return type(a) is type(b) and (a == b or (a != a and b != b))


def encode_tree(tree: Tree) -> list[Any]:
    """A tree as JSON; floats that JSON does not have become ["float", text]."""
    kind, *rest = tree
    if kind == "const" and isinstance(rest[0], float) and not math.isfinite(rest[0]):
        return ["float", str(rest[0])]
    if kind in ("leaf", "const"):
        return [kind, *rest]
    return [kind, *map(_as_list, rest[:-1]), [encode_tree(child) for child in rest[-1]]]


def _as_list(part: Any) -> Any:
    return list(part) if isinstance(part, tuple) else part


def _field(value: Any, key: Any, path: str, keys: Any, mismatch: Callable) -> Any:
    if isinstance(value, dict):
        if key in value:
            return value[key]
    elif isinstance(key, str) and not key.startswith("_") and hasattr(value, key):
        return getattr(value, key)
    raise mismatch(path, f"the keys {list(keys)}", value)


def leaf_numbers(tree: Tree) -> list[int]:
    """The numbers of the leaves, in order."""
    if tree[0] == "leaf":
        return [tree[1]]
    return [] if tree[0] == "const" else [n for child in tree[-1] for n in leaf_numbers(child)]


def check_tree(data: Any, leaves: int, depth: int = 0) -> Tree:
    """A tree read from a file, checked: known kinds, string keys, leaf numbers below `leaves`."""
    if depth > MAX_DEPTH:
        raise ProgramError(f"a tree is nested deeper than {MAX_DEPTH}")
    if not isinstance(data, list) or not data or not isinstance(data[0], str):
        raise ProgramError("a tree node is not a list that starts with its kind")
    kind, *rest = data
    if kind == "leaf" and len(rest) == 1 and type(rest[0]) is int and 0 <= rest[0] < leaves:
        return (kind, rest[0])
    if kind == "const" and len(rest) == 1 and isinstance(rest[0], (str, int, float, bool, type(None))):
        return (kind, rest[0])
    if kind == "float" and len(rest) == 1 and rest[0] in ("inf", "-inf", "nan"):
        return ("const", float(rest[0]))
    if kind in ("tuple", "list") and len(rest) == 1 and isinstance(rest[0], list):
        return (kind, tuple(check_tree(child, leaves, depth + 1) for child in rest[0]))
    if kind in ("dict", "object") and len(rest) == (2 if kind == "dict" else 3):
        keys, children = rest[-2], rest[-1]
        if (
            isinstance(keys, list)
            and isinstance(children, list)
            and len(keys) == len(children)
            and all(type(k) in (str, int) for k in keys)
            and len(set(keys)) == len(keys)
            and all(isinstance(name, str) for name in rest[:-2])
        ):
            nested = tuple(check_tree(child, leaves, depth + 1) for child in children)
            return (kind, *rest[:-2], tuple(keys), nested)
    raise ProgramError(f"a tree node of the kind {kind[:40]!r} is malformed")
