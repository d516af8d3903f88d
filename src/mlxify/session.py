"""State of a program in use: what its calls leave behind for the next call."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import mlx.core as mx

from .errors import ProgramError
from .files import read_arrays, write_whole
from .program import DTYPE_NAMES, RANDOM_STATE

if TYPE_CHECKING:
    from .profile import Profile
    from .run import Program

STATE_FORMAT = "mlxify-state"


class State:
    """Named arrays that calls read and replace, one call at a time."""

    def __init__(self, initial: dict[str, mx.array]) -> None:
        self.initial = initial
        self._arrays = dict(initial)
        self._lock = threading.RLock()
        self._lost = ""

    @contextmanager
    def arrays(self) -> Iterator[dict[str, mx.array]]:
        """All arrays, complete for as long as the block lasts."""
        with self._lock:
            if self._lost:
                raise ProgramError(f"the state of this session was lost ({self._lost}); call reset()")
            yield self._arrays

    def step(
        self,
        run: Callable[[dict[str, mx.array]], list[Any]],
        names: list[str],
        new_state: Callable[[list[Any]], list[mx.array]],
        wait: bool,
    ) -> list[Any]:
        """Run a call that replaces the arrays `names`.

        Unless told to wait it returns while the new arrays are being computed, and `run` may build its graph while
        those of the call before are. These are complete and let go of before the graph goes to MLX, which can then
        update them in place. What `run` raises, above all errors of shape and dtype, appears before that and leaves
        the state as it was; an error while computing loses it.
        """
        with self.arrays() as arrays:
            results = run(arrays)
            try:
                mx.eval([arrays.pop(name) for name in names])
                (mx.eval if wait else mx.async_eval)([r for r in results if isinstance(r, mx.array)])
                arrays.update(zip(names, new_state(results), strict=True))
            except BaseException as error:  # an interruption, too, loses the state
                self._lost = f"a call failed while it was computed: {type(error).__name__}: {error}"
                raise
            return results

    def restore(self, arrays: dict[str, mx.array]) -> None:
        """Begin from these arrays."""
        with self._lock:
            self._arrays, self._lost = dict(arrays), ""


class Session:
    """A state over a program's weights. Call it like the program; one thread at a time gets the state."""

    def __init__(self, program: Program, initial: dict[str, mx.array]) -> None:
        self._program, self._state = program, State(initial)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the method `forward` (or the only one) on this state."""
        return self._program.bound_method(self._program.default_method())(args, kwargs, self._state)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        methods = self._program.graph.methods if not name.startswith("_") else {}
        if name not in methods:
            raise AttributeError(f"there is no method {name!r}; this program has {', '.join(methods)}")
        return lambda *args, **kwargs: self._program.bound_method(name)(args, kwargs, self._state)

    def profile(self, *args: Any, method: str | None = None, rounds: int = 5, **kwargs: Any) -> Profile:
        """Like Program.profile, on this state."""
        from .profile import profile

        name = self._program.method_name(method)
        return profile(self._program, name, args, kwargs, self._state, rounds)

    @property
    def state(self) -> dict[str, mx.array]:
        """The arrays by name. A copy of the dict: change the state with calls, reset or load_state."""
        with self._state.arrays() as arrays:
            return dict(arrays)

    def reset(self) -> None:
        """Put the initial state back."""
        self._state.restore(self._state.initial)

    def seed(self, seed: int) -> None:
        """Start the random numbers anew."""
        if RANDOM_STATE in self._state.initial:
            with self._state.arrays() as arrays:
                arrays[RANDOM_STATE] = mx.random.key(seed)

    def save_state(self, path: str | os.PathLike[str]) -> None:
        """Write the state to a safetensors file, complete or not at all."""
        with self._state.arrays() as arrays:
            write_whole(path, arrays or {"empty": mx.zeros((0,))}, {"format": STATE_FORMAT})

    def load_state(self, path: str | os.PathLike[str]) -> None:
        """Read a state that save_state wrote for this program. Raises ProgramError when it does not fit."""
        arrays, metadata = read_arrays(path)
        if metadata.get("format") != STATE_FORMAT:
            raise ProgramError(f"{path} is not a state file of mlxify")
        for name, initial in self._state.initial.items():
            array = arrays.get(name)
            if array is None or array.shape != initial.shape or array.dtype != initial.dtype:
                wanted = f"{DTYPE_NAMES[initial.dtype]}{list(initial.shape)}"
                raise ProgramError(f"{path} does not fit this program: it should hold {name!r}, {wanted}")
        loaded = {name: arrays[name] for name in self._state.initial}
        mx.eval(list(loaded.values()))  # read now, lest the file is another one by the next call
        self._state.restore(loaded)
