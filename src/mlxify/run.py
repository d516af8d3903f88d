"""Programs: call them, save them, look at them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import mlx.core as mx

from .bound import BoundMethod
from .device import on_cpu
from .errors import InputError
from .heap import keep_freed_memory
from .program import Graph, Summary, format_method
from .segments import Mode, mode_of
from .session import Session
from .weights import turn_weights

if TYPE_CHECKING:
    from .profile import Profile


class Program:
    """A compiled model.

    compile: run through mx.compile (True), instruction by instruction (False), or as suits the device (None): on a
    GPU through mx.compile, on a CPU as a graph that MLX traces but does not hand to a C++ compiler.
    """

    def __init__(self, graph: Graph, *, compile: bool | None = None) -> None:
        self.graph = graph
        _prepare_device()
        # Read now: MLX reads a file's arrays on a stream of the thread that opened it, which other threads lack.
        mx.eval([*graph.weights.values(), *graph.state.values()])
        self.mode = mode_of(compile)
        self._session = Session(self, graph.state)
        self._bound: dict[str, BoundMethod] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the method `forward` (or the only one): arguments as for the model, results as mx.array."""
        return self._session(*args, **kwargs)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._session, name)

    @property
    def state(self) -> dict[str, mx.array]:
        """The program's own state by name (caches, running statistics, the random key)."""
        return self._session.state

    def session(self) -> Session:
        """An independent state over the same weights, for a second conversation or thread."""
        return Session(self, self.graph.state)

    def reset(self) -> None:
        """Put the initial state back."""
        self._session.reset()

    def seed(self, seed: int) -> None:
        """Start the random numbers anew. Without a seed they start from 0 whenever a program is loaded."""
        self._session.seed(seed)

    def save_state(self, path: str | os.PathLike[str]) -> None:
        """Write the program's own state to a safetensors file."""
        self._session.save_state(path)

    def load_state(self, path: str | os.PathLike[str]) -> None:
        """Read a state that save_state wrote."""
        self._session.load_state(path)

    def default_method(self) -> str:
        """The method that a call of the program itself runs: `forward`, or the only one."""
        names = list(self.graph.methods)
        if "forward" in names or len(names) == 1:
            return "forward" if "forward" in names else names[0]
        raise InputError(f"this program has several methods; call one by name: {', '.join(names)}")

    def method_name(self, name: str | None) -> str:
        """`name`, or the default method. Raises InputError when there is no such method."""
        if name is not None and name not in self.graph.methods:
            raise InputError(f"there is no method {name!r}; this program has {', '.join(self.graph.methods)}")
        return self.default_method() if name is None else name

    def bound_method(self, name: str) -> BoundMethod:
        """A method with its weights bound, made on first use."""
        if name not in self._bound:
            self._bound.setdefault(name, BoundMethod(self.graph, self.graph.methods[name], self.mode))
        return self._bound[name]

    def profile(self, *args: Any, method: str | None = None, rounds: int = 5, **kwargs: Any) -> Profile:
        """Where the time of a call goes: by instruction, module and line of the user's code.

        args, kwargs: as for a call; a parameter of the model that is named `method` or `rounds` goes by position.
        Runs `method` (or the default one) instruction by instruction and waits after each, on copies of the state:
        two rounds to warm up, then `rounds` that count. Raises InputError as a call does.
        """
        return self._session.profile(*args, method=method, rounds=rounds, **kwargs)

    def watch(self, args: tuple[Any, ...], kwargs: dict[str, Any], values: list[Any]) -> list[Any]:
        """Run `forward` and return some of its inner values, by reference (see mlxify.check)."""
        bound = BoundMethod(self.graph, self.graph.methods[self.default_method()], Mode.STEPS, values)
        return bound.inner_values(args, kwargs, self._session._state, len(values))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the program to one safetensors file, complete or not at all."""
        from .format import save

        save(self.graph, path)

    def export_mlxfn(
        self,
        path: str | os.PathLike[str],
        *examples: tuple[Any, ...] | dict[str, Any],
        method: str | None = None,
    ) -> None:
        """Write one method as MLX's own function file, for C++ and Swift apps (docs/mlxfn.md).

        Each example holds the arguments of one call, a tuple by position or a dict by name. The file has one trace
        for each, of exactly its shapes; Python numbers among the arguments become fixed. It takes the arrays of the
        arguments in their order, then the state; it gives the results, then the new state. Written complete or not
        at all. Raises ProgramError when the method's shapes or conditions depend on values, InputError when an
        example does not fit or two have the same shapes.
        """
        from .mlxfn import export

        export(self.graph, self.method_name(method), path, examples)

    def summary(self) -> Summary:
        """Weights, bytes and instruction counts."""
        return self.graph.summary()

    def __str__(self) -> str:
        return "\n\n".join(format_method(m) for m in self.graph.methods.values())

    def __repr__(self) -> str:
        s = self.summary()
        return f"<mlxify.Program {', '.join(s.methods)}: {sum(s.methods.values())} instructions, {s.weight_bytes:,} bytes>"


def _prepare_device() -> None:
    if on_cpu():
        keep_freed_memory()


def load(
    path: str | os.PathLike[str], *, methods: list[str] | None = None, compile: bool | None = None
) -> Program:
    """Load a program file. It is verified first: a damaged or hostile file raises ProgramError."""
    from .format import load as load_graph

    _prepare_device()
    graph = load_graph(path, methods)
    turn_weights(graph)  # while each weight is read
    return Program(graph, compile=compile)
