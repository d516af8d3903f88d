"""A call's arguments: bound like the model's own signature, converted, and checked against the program."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np

from .errors import InputError
from .program import DTYPE_NAMES, Input, LinearDim, Method
from .tree import flatten

_NUMBERS: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "bool": (bool,)}


class InputBinder:
    """Turns (args, kwargs) into the list of a method's input values."""

    def __init__(self, method: Method) -> None:
        self.method = method
        self.names = method.parameters
        tree = method.input_tree
        positional, keyword = tree[1]
        self.trees = [*positional[1], *keyword[-1]]
        self.positions = len(positional[1])
        order = [t[1] if t[0] == "leaf" else -1 for t in self.trees]
        flat = order == list(range(len(method.inputs))) and self.positions == len(order)
        self.flat = method.inputs if flat else None
        """The inputs, if each argument is one of them and may be given by position."""

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The input values in order. Raises InputError, naming the input, what was expected and what came."""
        sizes: dict[str, int] = {}
        if self.flat is not None and not kwargs and len(args) == len(self.flat):
            return [
                self._leaf(item, leaf, name, sizes)
                for item, leaf, name in zip(self.flat, args, self.names, strict=True)
            ]
        values: list[Any] = [None] * len(self.method.inputs)
        given = self._by_name(args, kwargs)

        def put(index: int, leaf: Any, path: str) -> None:
            values[index] = self._leaf(self.method.inputs[index], leaf, path, sizes)

        for name, tree in zip(self.names, self.trees, strict=True):
            flatten(tree, given[name], name, put, _mismatch)
        return values

    def _by_name(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        names = self.names
        if len(args) > self.positions:
            by_name = f" and {', '.join(names[self.positions :])} by name" if names[self.positions :] else ""
            raise InputError(
                f"{self.method.name} takes {self.positions} argument{'' if self.positions == 1 else 's'} ({', '.join(names[: self.positions])})"
                f"{by_name}; got {len(args)}"
            )
        given = dict(zip(names, args, strict=False))
        for name, value in kwargs.items():
            if name not in names:
                raise InputError(f"{self.method.name} has no argument {name!r}; it takes {', '.join(names)}")
            if name in given:
                raise InputError(f"the argument {name!r} was given twice, by position and by name")
            given[name] = value
        missing = [name for name in names if name not in given]
        for name in missing:
            tree = self.trees[names.index(name)]
            if tree[0] != "const":
                raise InputError(
                    f"the argument {name!r} is missing; {self.method.name} takes {', '.join(names)}"
                )
            given[name] = tree[1]
        return given

    def _leaf(self, item: Input, leaf: Any, path: str, sizes: dict[str, int]) -> Any:
        if type(leaf) is mx.array and leaf.shape == item.spec.shape and leaf.dtype == item.spec.dtype:
            return leaf
        if item.spec.dtype is None:
            if type(leaf) not in _NUMBERS[item.number]:
                raise InputError(f"the input {path!r} is a Python {item.number}; got {describe(leaf)}")
            for dim in item.spec.shape:
                self._check_size(f"the input {path!r} ({item.spec})", "value", dim, leaf, sizes)
            return leaf
        array = as_mlx(leaf, item.spec.dtype)
        if array is None:
            raise InputError(f"the input {path!r} is an array {item.spec}; got {describe(leaf)}")
        if array.dtype != item.spec.dtype and _holds(item.spec.dtype, array.dtype):
            array = array.astype(item.spec.dtype)
        if array.dtype != item.spec.dtype:
            wanted, got = DTYPE_NAMES[item.spec.dtype], DTYPE_NAMES[array.dtype]
            raise InputError(
                f"the input {path!r} has the dtype {wanted}; got {got}: pass x.astype(mx.{_mx_name(wanted)})"
            )
        if array.ndim != len(item.spec.shape):
            raise InputError(
                f"the input {path!r} has {len(item.spec.shape)} axes, {item.spec}; got {describe(array)}"
            )
        for axis, (dim, size) in enumerate(zip(item.spec.shape, array.shape, strict=True)):
            if dim != size:
                self._check_size(f"axis {axis} of the input {path!r} ({item.spec})", "size", dim, size, sizes)
        return array

    def _check_size(self, where: str, what: str, dim: Any, size: int, sizes: dict[str, int]) -> None:
        if isinstance(dim, int):
            if size != dim:
                raise InputError(f"{where} has the {what} {dim}; got {size}")
            return
        linear = LinearDim.parse(dim)
        assert linear is not None
        value = linear.solve(size)
        low, high = self.method.symbols[linear.symbol]
        if value is None or value < low or (high is not None and value > high):
            top = "no upper limit" if high is None else f"at most {linear.at(high)}"
            raise InputError(f"{where} has a {what} {dim}, at least {linear.at(low)}, {top}; got {size}")
        known = sizes.setdefault(linear.symbol, value)
        if known != value:
            raise InputError(
                f"{where} must agree with another input: {linear.at(known)} expected, got {size}"
            )


def _holds(wide: mx.Dtype, narrow: mx.Dtype) -> bool:
    """Whether one kind of integer has all values of another (token ids are int64 in PyTorch, argmax gives uint32)."""
    if not (mx.issubdtype(wide, mx.integer) and mx.issubdtype(narrow, mx.integer)):
        return False
    signs = [mx.issubdtype(d, mx.signedinteger) for d in (wide, narrow)]
    return wide.size > narrow.size and (signs[0] or not signs[1])


def _mx_name(name: str) -> str:
    return "bool_" if name == "bool" else name


def _mismatch(path: str, expected: str, value: Any) -> InputError:
    return InputError(f"the argument {path!r} should be {expected}; got {describe(value)}")


def as_mlx(leaf: Any, dtype: mx.Dtype) -> mx.array | None:
    """An mx.array from what users have: mx.array, NumPy, a torch tensor, or a Python number (takes `dtype`)."""
    if isinstance(leaf, mx.array):
        return leaf
    if isinstance(leaf, (np.ndarray, np.generic)):
        return _from_numpy(np.asarray(leaf))
    if type(leaf).__module__.split(".")[0] == "torch" and hasattr(leaf, "detach"):
        return from_torch(leaf)
    if isinstance(leaf, (bool, int, float, complex)):
        fits = isinstance(leaf, bool) or not (
            isinstance(leaf, (float, complex)) and not mx.issubdtype(dtype, mx.inexact)
        )
        return mx.array(leaf, dtype=dtype) if fits else None
    return None


def _from_numpy(array: np.ndarray) -> mx.array | None:
    if array.dtype == np.float64:
        return mx.array(array, dtype=mx.float64)
    if array.dtype.kind not in "biufc" or array.dtype == np.complex128:
        return None
    return mx.array(array)


def from_torch(tensor: Any) -> mx.array | None:
    """A dense torch tensor's values (a copy), without importing torch unless it is bfloat16."""
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    if str(tensor.dtype) == "torch.bfloat16":
        import torch

        return mx.array(tensor.view(torch.int16).numpy()).view(mx.bfloat16)
    return _from_numpy(tensor.numpy())


def to_numpy(array: mx.array) -> np.ndarray:
    """An array's values as NumPy can hold them: bfloat16 as float32."""
    values = np.array(array.astype(mx.float32) if array.dtype == mx.bfloat16 else array)
    # MLX's is another of C's types of 64 bits, which torch.from_numpy does not know.
    return values.view(np.uint64) if array.dtype == mx.uint64 else values


def describe(value: Any) -> str:
    """What a value is, in a few words."""
    if isinstance(value, mx.array):
        return f"{DTYPE_NAMES[value.dtype]}[{', '.join(map(str, value.shape))}]"
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"{type(value).__module__.split('.')[0]} {value.dtype}{list(value.shape)}"
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) < 60 else text[:57] + '...'}"
