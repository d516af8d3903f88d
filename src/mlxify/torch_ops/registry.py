"""Define a torch op from its schema, its eager function and its fake function."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import statically_known_true

F = TypeVar("F", bound=Callable[..., Tensor])

# Torch removes the ops of a Library that is collected, so a reload of this module keeps the first one.
_LIBRARY: torch.library.Library = globals().get("_LIBRARY") or torch.library.Library("mlx", "FRAGMENT")


def torch_op(
    *schemas: str, fake: Callable[..., Tensor], tags: tuple[torch.Tag, ...] = ()
) -> Callable[[F], F]:
    """Register the decorated function as the eager form of ``mlx::<schema>``, for each schema.

    A call takes the first overload that fits, in the order given. torch reads a 0-D tensor as an int or a
    bool if it can, so overloads with a Tensor come before the one with a plain number.
    """

    def register(eager: F) -> F:
        for schema in schemas:
            name = "mlx::" + schema.partition("(")[0]
            if _is_defined(name, "mlx::" + schema):
                continue
            _LIBRARY.define(schema, tags=(torch.Tag.pt2_compliant_tag, *tags))
            _LIBRARY.impl(name.removeprefix("mlx::"), eager, "CompositeExplicitAutograd")
            torch.library.register_fake(name, fake, lib=_LIBRARY)
        return eager

    return register


def _is_defined(name: str, schema: str) -> bool:
    """Whether somebody has registered this op already; warns if it is not the op that we mean."""
    try:
        existing = torch._C._get_schema(*_split(name))
    except RuntimeError:
        return False
    if existing != torch._C.parse_schema(schema):
        warnings.warn(
            f"{name} was registered by another package as `{existing}`; "
            f"mlxify needs `{schema}` and leaves the existing op as it is.",
            stacklevel=4,
        )
    return True


def _split(name: str) -> tuple[str, str]:
    base, _, overload = name.partition(".")
    return base, overload


def known(condition: Any) -> bool:
    """Whether a condition on sizes certainly holds. Adds no guard: what only run time can tell is False."""
    return bool(statically_known_true(condition))


def known_different(a: Any, b: Any) -> bool:
    """Whether two sizes certainly differ."""
    return known(a != b)


def check_float(op: str, name: str, x: Tensor) -> None:
    """Raise unless x holds real floating-point numbers."""
    if not x.dtype.is_floating_point:
        raise TypeError(f"mlx::{op}: {name} must be floating point, not {x.dtype}")


def check_integer(op: str, name: str, x: Tensor) -> None:
    """Raise unless x holds integers."""
    if x.dtype.is_floating_point or x.dtype.is_complex or x.dtype == torch.bool:
        raise TypeError(f"mlx::{op}: {name} must be an integer tensor, not {x.dtype}")


def compute_dtype(x: Tensor) -> torch.dtype:
    """The type to compute in: float64 for float64, float32 for everything narrower."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32
