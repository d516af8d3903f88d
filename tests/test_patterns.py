"""The pattern language, its matcher, and how a graph is planned."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

import mlxify
from mlxify.calls import Call
from mlxify.errors import refuse
from mlxify.ops.arithmetic import add, multiply
from mlxify.ops.exponential import exp
from mlxify.ops.unary import negative
from mlxify.patterns import FUSIONS, Found, fuses, narrowed, number, op, shared, widened, wild
from mlxify.plan import Plan, _Planner, constants_of, plan_graph
from mlxify.support import fusion_uses

from .ops.harness import Case, _Function, check, compare

X, Y = torch.randn(2, 3), torch.randn(2, 3)
A, B = wild("a"), wild("b")


@pytest.fixture(autouse=True)
def no_other_fusions() -> Iterator[None]:
    before = dict(FUSIONS)
    FUSIONS.clear()
    yield
    FUSIONS.clear()
    FUSIONS.update(before)


def export(fn: Callable[..., Any], *args: torch.Tensor) -> torch.export.ExportedProgram:
    module = fn if isinstance(fn, nn.Module) else _Function(fn)
    return torch.export.export(module.eval(), args, strict=False)


def plan(fn: Callable[..., Any], *args: torch.Tensor) -> Plan:
    exported = export(fn, *args)
    return plan_graph(exported.graph, constants_of(exported))


def found(pattern: Any, fn: Callable[..., Any], *args: torch.Tensor) -> list[Found]:
    """All ways in which a pattern fits the result of `fn`."""
    exported = export(fn, *args)
    planner = _Planner(exported.graph, constants_of(exported))
    (result,) = exported.graph.output_node().args[0]
    return list(pattern.match(planner.call(result), Found(), False))


def tanh(x: Any) -> Any:
    return op("aten.tanh", x)


FITS = {
    "an op": (tanh(A), torch.tanh),
    "another op": (tanh(A), torch.sin, 0),
    "an op with its overload": (op("aten.mean.dim", A, [-1], True), lambda x: x.mean(-1, keepdim=True)),
    "a keyword": (op("aten.mean.dim", A, [-1], keepdim=True), lambda x: x.mean(dim=-1, keepdim=True)),
    "another literal": (op("aten.mean.dim", A, [-1], True), lambda x: x.mean(0, keepdim=True), 0),
    "a literal of another kind": (A + 1, lambda x: x + 1.0),
    "True is not 1": (op("aten.mean.dim", A, [-1], 1), lambda x: x.mean(-1, keepdim=True), 0),
    "an argument that is not mentioned": (op("aten.mean.dim", A, [-1]), lambda x: x.mean(-1, keepdim=True), 0),
    "loose": (op("aten.mean.dim", A, [-1], loose=True), lambda x: x.mean(-1, keepdim=True)),
    "alpha is not mentioned": (A + B, lambda x: torch.add(x, x, alpha=2), 0),
    "a sum": (tanh(A) + B, lambda x: x + x.tanh()),
    "a sum both ways": (A + B, lambda x: x.sin() + x.tanh(), 2),
    "a difference": (tanh(A) - B, lambda x: x - x.tanh(), 0),
    "a number minus": (1 - A, lambda x: 1 - x),
    "one over": (1 / tanh(A), lambda x: 1 / x.tanh()),
    "two over": (2 / tanh(A), lambda x: 2 / x.tanh()),
    "one node twice": (tanh(A) * A, lambda x: x.tanh() * x),
    "two nodes for one name": (tanh(A) * A, lambda x: x.tanh() * (x + 1), 0),
    "two names for one node": (tanh(A) * B, lambda x: x.tanh() * x),
    "one or the other": (op("aten.sin", A) | tanh(A), torch.tanh),
    "a list": (op("aten.cat", [A, tanh(B)], -1), lambda x: torch.cat([x, x.tanh()], -1)),
    "a longer list": (op("aten.cat", [A, B], -1), lambda x: torch.cat([x, x, x], -1), 0),
    "a number": (A * number("n"), lambda x: x * 0.5),
    "a tensor is no number": (A * number("n"), lambda x: x * x, 0),
    "a 0-d constant is a number": (A * number("n"), lambda x: x * torch.tensor(0.5)),
    "a filled 0-d tensor is one, too": (A * number("n"), lambda x: x * torch.full([], 0.5)),
    "a predicate": (op("aten.tanh", A, where=lambda call: call.ndim == 2), torch.tanh),
    "a predicate that refuses": (op("aten.tanh", A, where=lambda call: call.ndim == 1), torch.tanh, 0),
    "copies are nothing": (tanh(tanh(A)), lambda x: x.tanh().clone().contiguous().tanh()),
    "casts to the same dtype are nothing": (tanh(tanh(A)), lambda x: x.tanh().float().to(x.dtype).tanh()),
    "views of the same shape are nothing": (tanh(tanh(A)), lambda x: x.tanh().view(2, 3).expand(2, 3)[:].tanh()),
    "times 1 is nothing": (tanh(tanh(A)), lambda x: (x.tanh() * 1.0 / 1).tanh()),
    "dropout in evaluation is nothing": (tanh(tanh(A)), lambda x: nn.functional.dropout(x.tanh(), 0.5, False).tanh()),
    "integers between are something": (tanh(tanh(A)), lambda x: x.tanh().to(torch.int32).to(torch.float32).tanh(), 0),
    "a slice is something": (tanh(tanh(A)), lambda x: x.tanh()[::2].tanh(), 0),
    "in place": (tanh(A) * B, lambda x: x.tanh().mul_(x)),
    "in place, used before": (tanh(A) * B, lambda x: (lambda t, u: t.mul_(u))(x.tanh(), x) + 0 * x, 0),
}  # fmt: skip


@pytest.mark.parametrize("row", FITS.values(), ids=FITS)
def test_pattern(row: Any) -> None:
    pattern, fn, *count = row
    assert len(found(pattern, fn, X)) == (count[0] if count else 1)


def test_casts() -> None:
    wide = tanh(widened(A))
    (half,) = found(wide, lambda x: x.float().tanh(), X.half())
    assert half.bound["a"].target == "" and str(half.bound["a"].dtype).endswith("float16")
    assert len(found(wide, torch.tanh, X)) == len(found(wide, lambda x: x.double().tanh(), X.half())) == 1
    (rounded,) = found(wide, lambda x: x.half().tanh(), X)
    assert rounded.bound["a"].target.startswith("aten.to")
    assert found(narrowed(tanh(A)), lambda x: x.tanh().half(), X)
    assert not found(narrowed(tanh(A)), lambda x: x.tanh().double(), X)


def test_names() -> None:
    ((call,),) = [f.named.values() for f in found(tanh(A).named("inner") * 2, lambda x: x.tanh() * 2, X)]
    assert isinstance(call, Call) and call.target == "aten.tanh.default" and call.shape == (2, 3)
    with pytest.raises(ValueError, match="has no c"):
        fuses(tanh(A))(lambda c: c)
    with pytest.raises(ValueError, match="has no c"):
        fuses(tanh(A), condition=lambda c: None)(lambda a: a)
    with pytest.raises(ValueError, match="may be called"):
        fuses(tanh(wild("root")))(lambda root: root)
    with pytest.raises(TypeError, match="cannot end with"):
        fuses(A)(lambda a: a)


def product(pattern: Any = None, **settings: Any) -> None:
    """Register -(a * b) for a * tanh(b)."""

    @fuses(A * tanh(B) if pattern is None else pattern, **settings)
    def negated(a, b):
        return negative(multiply(a, b))


def test_a_fusion_takes_in_what_nobody_else_needs(tmp_path: Any) -> None:
    product()
    chosen = plan(lambda x, y: x * y.tanh() + 1, X, Y)
    assert [m.root.target for m in chosen.fused.values()] == ["aten.mul.Tensor"]
    assert "tanh" not in {n.name for n in chosen.alone}
    program = mlxify.convert(export(lambda x, y: x * y.tanh() + 1, X, Y))
    assert [i.op for i in program.graph.methods["forward"].instrs] == [
        "multiply",
        "negative",
        "constant",
        "add",
    ]
    compare(program(X, Y), 1 - X * Y)


def test_the_larger_fusion_wins() -> None:
    product()

    @fuses(A * tanh(op("aten.sin", B)))
    def larger(a, b):
        return add(a, b)

    (match,) = plan(lambda x, y: x * y.sin().tanh(), X, Y).fused.values()
    assert match.fusion.name == "larger"


def test_what_is_used_elsewhere_is_not_taken_in() -> None:
    product()
    chosen = plan(lambda x, y: (lambda t: (x * t, t))(y.tanh()), X, Y)
    assert (
        not chosen.fused
        and chosen.misses[0][1] == "the result of aten.tanh.default inside it is used elsewhere, too"
    )


def test_shared_nodes_are_lowered_as_well() -> None:
    product(A * shared(tanh(B)))
    chosen = plan(lambda x, y: (lambda t: (x * t, t))(y.tanh()), X, Y)
    assert len(chosen.fused) == 1 and "tanh" in {n.name for n in chosen.alone}


def test_users_that_no_output_needs_do_not_count() -> None:
    product()

    def fn(x, y):
        t = y.tanh()
        t + 1
        return x * t

    assert plan(fn, X, Y).fused


def test_what_is_written_to_is_not_taken_in(tmp_path: Any) -> None:
    product(A * shared(tanh(B)))

    def fn(x, y):
        t = y + 0
        first = x * t.tanh()
        t.add_(1)
        return first * t

    # t.tanh() was computed before t changed, and (x * …) * t has no tanh of the new one.
    chosen = plan(fn, X, Y)
    assert not chosen.fused and not chosen.misses
    check(Case("", fn, (X, Y)), tmp_path)


def test_a_refused_match_has_a_reason_and_a_place() -> None:
    product(condition=lambda a, b: None if a is b else "a is not b")
    (use,) = fusion_uses(export(lambda x, y: x * y.tanh(), X, Y))
    assert (use.fusion, use.reason, use.count) == ("negated", "a is not b", 1)
    assert next(iter(use.places)).startswith("tests/")


def test_a_larger_miss_is_forgotten_where_a_smaller_form_matches() -> None:
    def none(more):
        return None if more is None else "too much"

    @fuses(A * tanh(B) | A * tanh(B) + wild("more"), condition=none, name="product")
    def lowered(a, b):
        return multiply(a, b)

    (use,) = fusion_uses(export(lambda x, y: x * y.tanh() + x, X, Y))
    assert use.reason == "" and use.count == 1


def test_a_lowering_that_refuses_leaves_the_ops_as_they_are() -> None:
    @fuses(A * tanh(B))
    def refused(a, b):
        exp(a)
        raise refuse("not today")

    program = mlxify.convert(export(lambda x, y: x * y.tanh(), X, Y))
    assert [i.op for i in program.graph.methods["forward"].instrs] == ["tanh", "multiply"]
    compare(program(X, Y), X * Y.tanh())


def test_branches_and_loops_are_planned_too() -> None:
    product()

    def fn(x, y):
        return torch.cond(x.sum() > 0, lambda x, y: x * y.tanh(), lambda x, y: x - y, (x, y))

    (use,) = fusion_uses(export(fn, X, Y))
    assert use.count == 1 and use.reason == ""
