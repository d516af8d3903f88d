"""What does an instruction cost beyond MLX's own call? A thousand tiny ones, against the same calls by hand.

    python benchmarks/overhead.py [--json out.json] [--quick]

Microseconds for each instruction, the time of a call divided by their number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import mlx.core as mx
from timer import Row, Settings, alternate, difference, main

import mlxify

WIDTH = 4


def chain(count: int) -> tuple[Any, Any, Callable[[mx.array], mx.array]]:
    """A torch module of `count` additions and products in turn, an input, and the same calls in MLX."""
    import torch

    steps = torch.randn(count, WIDTH, generator=torch.Generator().manual_seed(0)) * 1e-3
    steps[1::2] += 1

    class Chain(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.steps = torch.nn.ParameterList(torch.nn.Parameter(step) for step in steps)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for n, step in enumerate(self.steps):
                x = x * step if n % 2 else x + step
            return x

    arrays = [mx.array(step.numpy()) for step in steps]
    mx.eval(arrays)
    functions = [(mx.multiply if n % 2 else mx.add, array) for n, array in enumerate(arrays)]

    def by_hand(x: mx.array) -> mx.array:
        for function, array in functions:
            x = function(x, array)
        return x

    return Chain(), torch.ones(WIDTH), by_hand


def four_sides(converted: Any, example: Any, by_hand: Callable[..., Any]) -> dict[str, Callable[[], Any]]:
    """A converted program and the calls written by hand, each eager and compiled."""
    from handwritten import BY_HAND, BY_HAND_COMPILED, COMPILED, OURS, evaluated, programs

    program, compiled = programs(converted)
    x = mx.array(example.numpy())
    return {
        OURS: evaluated(program, x),
        BY_HAND: evaluated(by_hand, x),
        COMPILED: evaluated(compiled, x),
        BY_HAND_COMPILED: evaluated(mx.compile(by_hand), x),
    }


def instructions(settings: Settings) -> Iterator[Row]:
    from handwritten import BY_HAND, BY_HAND_COMPILED, COMPILED, OURS

    count = 100 if settings.quick else 1000
    module, example, by_hand = chain(count)
    converted = mlxify.convert(module, (example,))
    found = converted.summary().methods["forward"]
    assert found == count, f"{found} instructions instead of {count}"
    sides = four_sides(converted, example, by_hand)
    apart = max(difference(side(), sides[BY_HAND]()) for side in sides.values())
    times, case = alternate(sides, settings), f"{count:,} tiny instructions"
    unit: Any = {"scale": 1e6 / count, "unit": "µs", "difference": apart}
    yield times.row(case, OURS, BY_HAND, **unit)
    yield times.row(case, COMPILED, BY_HAND_COMPILED, **unit)


def one_instruction(settings: Settings) -> Iterator[Row]:
    """What a call costs besides its instructions: arguments, results, the session."""
    from handwritten import BY_HAND, BY_HAND_COMPILED, COMPILED, OURS

    module, example, by_hand = chain(1)
    sides = four_sides(mlxify.convert(module, (example,)), example, by_hand)
    times = alternate(sides, settings)
    yield times.row("a call with one instruction", OURS, BY_HAND, scale=1e6, unit="µs")
    yield times.row("a call with one instruction", COMPILED, BY_HAND_COMPILED, scale=1e6, unit="µs")


GROUPS = {"instructions": instructions, "call": one_instruction}

if __name__ == "__main__":
    main(__doc__ or "", GROUPS, quick=tuple(GROUPS))
