"""Random small graphs of many ops, drawn so that their results can be compared.

Each value has a twin, computed by PyTorch in float64. Where both are the same number and no rounding function is
behind it, a value is *exact*: only exact values go into ops that jump (floor, comparisons, sorting), since a result
that is one rounding off would land elsewhere. A step whose float32 result is far from its twin is not taken: what
PyTorch itself computes badly measures nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from hypothesis import strategies as st
from torch.nn import functional as F

from .strategies import Strategy, axis, of_shape

LIMIT = 128.0
"""The largest magnitude of a value."""
ELEMENTS = 96
ERROR = 1e-5
"""The largest error of PyTorch's float32 results, relative to 1 + |x|."""
DTYPES = (torch.float32, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.bool)

Drawn = Callable[..., Strategy]


@dataclass(frozen=True)
class Op:
    """takes: which values each operand may be; smooth: its results are rounded; given: draws further arguments."""

    name: str
    fn: Callable[..., Any]
    takes: str = "number"
    smooth: bool = False
    given: Drawn = lambda *values: st.just(())


@dataclass
class Value:
    tensor: torch.Tensor
    twin: torch.Tensor
    exact: bool
    used: bool = False
    final: bool = False
    """A half that was rounded more than once: nothing is computed from it."""


@dataclass(frozen=True)
class Step:
    op: Op
    operands: tuple[int, ...]
    given: tuple[Any, ...]

    def run(self, values: list[Any], wide: bool = False) -> torch.Tensor:
        given = [
            torch.float64 if wide and isinstance(g, torch.dtype) and g.is_floating_point else g
            for g in self.given
        ]
        return self.op.fn(*(values[i] for i in self.operands), *given)

    def __repr__(self) -> str:
        words = [f"v{i}" for i in self.operands] + [str(g) for g in self.given]
        return f"{self.op.name}({', '.join(words)})"


@dataclass
class Graph(torch.nn.Module):
    """A drawn graph as a model: v0, v1, … are its inputs, then the results of its steps."""

    inputs: list[torch.Tensor]
    steps: list[Step] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    __hash__ = torch.nn.Module.__hash__

    def forward(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        values = list(inputs)
        for step in self.steps:
            values.append(step.run(values))
        return [values[i] for i in self.outputs]

    def __repr__(self) -> str:
        count = len(self.inputs)
        lines = [f"v{i} = {t.dtype} {list(t.shape)} {t.tolist()}" for i, t in enumerate(self.inputs)]
        lines += [f"v{i} = {step}" for i, step in enumerate(self.steps, count)]
        return "\n".join([*lines, "return " + ", ".join(f"v{i}" for i in self.outputs)])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))


def fits(value: Value, what: str) -> bool:
    """Whether a value may be an operand: of a kind and of one of the dtypes that an op takes."""
    dtype = value.tensor.dtype
    if value.final:
        return False
    return {
        "number": dtype != torch.bool,
        "any": True,
        "exact": value.exact and dtype != torch.bool,
        "exact any": value.exact,
        "float": dtype.is_floating_point,
        "integer": not dtype.is_floating_point and dtype != torch.bool,
        "bool": dtype == torch.bool,
        "matrix": dtype == torch.float32 and value.tensor.dim() >= 2,
    }[what]


def dim(x: Value) -> Strategy:
    return st.tuples(axis(x.tensor.dim()))


def dim_and_keep(x: Value) -> Strategy:
    return st.tuples(axis(x.tensor.dim()), st.booleans())


def two_dims(x: Value) -> Strategy:
    return st.tuples(axis(x.tensor.dim()), axis(x.tensor.dim()))


def dtype(*_: Value) -> Strategy:
    return st.tuples(
        st.sampled_from([torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.bool])
    )


def number(*_: Value) -> Strategy:
    return st.tuples(st.sampled_from([1, 2, -1, 3, 0.5, -0.25, True]))


def weights(x: Value) -> Strategy:
    """A constant of the model."""
    rows = st.integers(1, 3)
    return rows.flatmap(lambda n: st.tuples(of_shape((n, x.tensor.shape[-1]), torch.float32, "small")))


def written(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[..., :1] = 2
    y += 1
    return y


def picked(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return x[i.flatten().remainder(x.shape[0])]


def gathered(x: torch.Tensor, at: int) -> torch.Tensor:
    return torch.gather(x, at, torch.argsort(x, dim=at, stable=True).flip(at))


EXACT = [
    Op("neg", torch.neg),
    Op("abs", torch.abs),
    Op("relu", torch.relu),
    Op("square", torch.square),
    Op("clamp", lambda x: x.clamp(-2, 3)),
    Op("add", torch.add, "any any"),
    Op("sub", torch.sub, "number number"),
    Op("mul", torch.mul, "any any"),
    Op("maximum", torch.maximum, "any any"),
    Op("minimum", torch.minimum, "number number"),
    Op("add number", torch.add, "number", given=number),
    Op("mul number", torch.mul, "number", given=number),
    Op("number minus", lambda x, n: n - x, "number", given=number),
    Op("where", torch.where, "bool any any"),
    Op("to", lambda x, d: x.to(d), "exact any", given=dtype),
    Op("sum", lambda x, d, k: x.sum(d, k), given=dim_and_keep),
    Op("amax", lambda x, d, k: x.amax(d, k), given=dim_and_keep),
    Op("cumsum", torch.cumsum, given=dim),
    Op("any", lambda x, d, k: x.any(d, k), "exact any", given=dim_and_keep),
    Op("written", written),
]
JUMPS = [
    Op("floor", torch.floor, "exact"),
    Op("sign", torch.sign, "exact"),
    Op("eq", torch.eq, "exact exact"),
    Op("lt", torch.lt, "exact exact"),
    Op("gt number", torch.gt, "exact", given=number),
    Op("logical_not", torch.logical_not, "exact any"),
    Op("logical_and", torch.logical_and, "bool bool"),
    Op("argmax", lambda x, d, k: x.argmax(d, k), "exact", given=dim_and_keep),
    Op("sort", lambda x, d: x.sort(d, stable=True)[0], "exact", given=dim),
    Op("gather of argsort", gathered, "exact", given=dim),
    Op("remainder", lambda x: x.remainder(3), "exact"),
    Op("floor_divide", lambda x: x // 2, "integer"),
    Op("bitwise_xor", torch.bitwise_xor, "integer integer"),
    Op("masked_fill", lambda x, m: x.masked_fill(m, 3), "number bool"),
    Op("pick rows", picked, "any integer"),
]
SMOOTH = [
    Op("tanh", torch.tanh, "float", True),
    Op("sigmoid", torch.sigmoid, "float", True),
    Op("sin", torch.sin, "float", True),
    Op("exp of a limit", lambda x: torch.exp(x.clamp(max=2)), "float", True),
    Op("gelu", F.gelu, "float", True),
    Op("silu", F.silu, "float", True),
    Op("hypotenuse", lambda x: torch.sqrt(x * x + 1), "float", True),
    Op("half of integers", lambda x: x / 3, "integer", True),
    Op("softmax", torch.softmax, "float", True, dim),
    Op("log_softmax", torch.log_softmax, "float", True, dim),
    Op("mean", lambda x, d, k: x.mean(d, k), "float", True, dim_and_keep),
    Op("logsumexp", lambda x, d, k: x.logsumexp(d, k), "float", True, dim_and_keep),
    Op("layer_norm", lambda x: F.layer_norm(x, x.shape[-1:], eps=0.5), "matrix", True),
    Op("matmul", lambda x: x @ x.transpose(-1, -2), "matrix", True),
    Op("linear", F.linear, "matrix", True, weights),
]
SHAPES = [
    Op("transpose", torch.transpose, "any", given=two_dims),
    Op("flatten", torch.flatten, "any"),
    Op("rows", lambda x: x.reshape(x.shape[0], -1) if x.dim() else x.reshape(1, 1), "any"),
    Op("unsqueeze", torch.unsqueeze, "any", given=lambda x: st.tuples(axis(x.tensor.dim() + 1))),
    Op("squeeze", torch.squeeze, "any"),
    Op("cat", lambda x, y, d: torch.cat([x, y], d), "any any", given=lambda x, y: dim(x)),
    Op("stack", lambda x, d: torch.stack([x, x], d), "any", given=dim),
    Op("tail", lambda x: x[1:], "any"),
    Op("every second", lambda x: x[..., ::2], "any"),
    Op("last", lambda x: x[..., -1], "any"),
    Op("flip", lambda x, d: x.flip(d), "any", given=dim),
    Op("roll", lambda x, d: x.roll(1, d), "any", given=dim),
    Op("pad", lambda x: F.pad(x, (1, 2)), "number"),
    Op("expand", lambda x: x.expand(2, *x.shape), "any"),
    Op("chunk", lambda x, d: x.chunk(2, d)[-1], "any", given=dim),
    Op("tril", torch.tril, "any"),
    Op("positions", lambda x: x + torch.arange(x.shape[-1]), "number"),
    Op("ones like", lambda x: torch.ones_like(x).cumsum(0), "number"),
    Op("by its size", lambda x: x * x.shape[0], "number"),
]
OPS = [*EXACT, *JUMPS, *SMOOTH, *SHAPES]


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return bool(((a.double() == b) | (a.isnan() & b.isnan())).all())


def result(step: Step, values: list[Value]) -> Value | None:
    """The step's value, or None when PyTorch refuses the step or its result is not to be compared."""
    try:
        tensor = step.run([v.tensor for v in values])
        twin = step.run([v.twin for v in values], wide=True)
    except Exception:  # PyTorch refuses this step: the graph grows by another
        return None
    if tensor.numel() > ELEMENTS or tensor.shape != twin.shape or not tensor.numel():
        return None
    wide = twin.double()
    if wide.abs().nan_to_num(0, 0, 0).max() > LIMIT:
        return None
    operands = [values[i] for i in step.operands]
    exact = not step.op.smooth and all(v.exact for v in operands) and same(tensor, wide)
    if exact:
        return Value(tensor, twin, True)
    if not tensor.is_floating_point():
        return None
    half = tensor.dtype in (torch.float16, torch.bfloat16)
    if half and not all(v.exact for v in operands):
        return None
    if not half and not bool(
        (((tensor - wide).abs() <= ERROR * (1 + wide.abs())) | (tensor == wide) | tensor.isnan()).all()
    ):
        return None
    return Value(tensor, twin, False, final=half)


def wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor


@st.composite
def graphs(draw: st.DrawFn, least: int = 5, most: int = 30) -> Graph:
    """A graph of `least` to `most` steps that PyTorch runs."""
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    inputs = []
    for _ in range(draw(st.integers(1, 3))):
        sizes = [draw(st.sampled_from([n, n, 1])) for n in shape[draw(st.integers(0, len(shape) - 1)) :]]
        kind = draw(st.sampled_from(["small", "small", "special"]))
        inputs.append(draw(of_shape(sizes, draw(st.sampled_from(DTYPES)), kind)))
    graph = Graph(inputs)
    values = [Value(t, wide(t), True) for t in inputs]
    count = draw(st.integers(least, most))
    for _ in range(4 * count):
        if len(graph.steps) == count:
            break
        step = draw(steps(values))
        value = None if step is None else result(step, values)
        if value is not None:
            graph.steps.append(step)
            values.append(value)
            for i in step.operands:
                values[i].used = True
    graph.outputs = [
        i for i, v in enumerate(values) if not v.used or (i >= len(inputs) and draw(st.integers(0, 4)) == 0)
    ]
    return graph


@st.composite
def steps(draw: st.DrawFn, values: list[Value]) -> Step | None:
    """One more step; its operands are rather the latest values."""
    op = draw(st.sampled_from(draw(st.sampled_from([EXACT, JUMPS, SMOOTH, SHAPES]))))
    operands = []
    for what in _kinds(op.takes):
        fitting = [i for i, v in enumerate(values) if fits(v, what)]
        if not fitting:
            return None
        operands.append(fitting[-1 - min(draw(st.integers(0, 6)), len(fitting) - 1)])
    return Step(op, tuple(operands), tuple(draw(op.given(*(values[i] for i in operands)))))


def _kinds(takes: str) -> list[str]:
    return ["exact any"] if takes == "exact any" else takes.split()
