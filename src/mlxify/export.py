"""The pipeline: a PyTorch model in, a Program out."""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections import OrderedDict, defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.export import Dim, ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind
from torch.fx import Node
from torch.utils import _pytree as pytree

from . import lowering, torch_ops  # noqa: F401  (registers the custom torch ops)
from .conditions import parameter_names
from .decompose import prepare
from .errors import ConversionError
from .program import Graph, LinearDim, Method
from .run import Program
from .store import Store, tensor_place
from .symbols import Symbols
from .trace import Tracer
from .tree import Tree
from .verify import verify

CONVERTIBLE = ("float32", "float16", "bfloat16")
"""What `dtype` of convert may be."""


def convert(
    model: torch.nn.Module | ExportedProgram | Mapping[str, ExportedProgram],
    args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    dtype: str | None = None,
) -> Program:
    """Compile a PyTorch model into a Program that runs on MLX alone.

    model: a module, exported here with the example `args` and `kwargs`; or an ExportedProgram; or several of them
        by method name.
    dynamic_shapes: as for torch.export.export.
    dtype: "float32", "float16" or "bfloat16": convert the module's floating-point weights (and example inputs) first.

    Raises UnsupportedOpError (all unsupported calls at once), ConversionError (torch.export refuses the model).
    """
    exported = model if isinstance(model, Mapping) else {"forward": model}
    copies: dict[Any, torch.Tensor] = {}
    programs = {
        name: export_module(item, args, kwargs, dynamic_shapes, dtype, copies)
        for name, item in exported.items()
    }
    prepared = {name: prepare(program) for name, program in programs.items()}
    graph, _ = record_methods(prepared)
    if isinstance(model, torch.nn.Module):
        _allow_positions(graph.methods["forward"], model)
    return Program(graph)


def _allow_positions(method: Method, model: torch.nn.Module) -> None:
    """Let arguments that were exported by name be given by position as well, where the model's signature has them."""
    kinds = inspect.signature(model.forward).parameters.values()
    order = [p.name for p in kinds if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    (_, positional), (_, keys, named) = method.input_tree[1]
    given = dict(zip(keys, named, strict=True))
    for name in order[len(positional) :]:
        if name not in given:
            break
        positional = (*positional, given.pop(name))
    method.parameters = (
        [*order[: len(positional)], *given] if given.keys() != set(keys) else method.parameters
    )
    method.input_tree = ("tuple", (("tuple", positional), ("dict", tuple(given), tuple(given.values()))))


def record_methods(
    programs: dict[str, ExportedProgram], watch: Sequence[Node] = ()
) -> tuple[Graph, list[Any]]:
    """Record prepared programs as the methods of one verified graph.

    watch: nodes of the (only) program whose values are wanted as well; returned as references.
    """
    methods: dict[str, Method] = {}
    store = Store(programs)
    watched: list[Any] = []
    for name, program in programs.items():
        methods[name], watched = _record(program, name, store, watch)
    graph = Graph(methods, store.weights, store.state)
    verify(graph)
    return graph, watched


def export_module(
    model: torch.nn.Module | ExportedProgram,
    args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
    dynamic_shapes: Any = None,
    dtype: str | None = None,
    copies: dict[Any, torch.Tensor] | None = None,
) -> ExportedProgram:
    """`torch.export.export`, with errors that say what to try.

    copies: tensors in the dtype wanted, by the place of the originals, so that methods share them as before.
    """
    if isinstance(model, ExportedProgram):
        if dtype is None:
            return model
        args, kwargs = model.example_inputs or ((), {})
        dynamic_shapes = dynamic_shapes_of(model)
        model = model.module()
    if dtype is not None:
        if dtype not in CONVERTIBLE:
            raise ConversionError(f"dtype={dtype!r}: convert to one of {', '.join(CONVERTIBLE)}")
        wanted = getattr(torch, dtype)
        model = _in_dtype(model, wanted, {} if copies is None else copies)
        args, kwargs = pytree.tree_map_only(
            torch.Tensor, lambda t: t.to(wanted) if t.is_floating_point() else t, (args, kwargs)
        )
    try:
        return torch.export.export(model, tuple(args), kwargs, dynamic_shapes=dynamic_shapes, strict=False)
    except Exception as error:  # torch.export raises many kinds, and the model its own
        raise ConversionError(
            f"torch.export refuses this model: {type(error).__name__}: {error}\n\n"
            "What to try: export the part of the model that computes (without file access, printing or Python "
            "branches on tensor values); mark changing sizes with dynamic_shapes; replace data-dependent branches by "
            "torch.where or torch.cond; then pass the ExportedProgram to mlxify.convert."
        ) from error


def _in_dtype(model: torch.nn.Module, dtype: torch.dtype, copies: dict[Any, torch.Tensor]) -> torch.nn.Module:
    """A copy of the model with its floating-point parameters and buffers in another dtype."""
    memo: dict[int, Any] = {}
    for name, tensor in (
        *model.named_parameters(remove_duplicate=False),
        *model.named_buffers(remove_duplicate=False),
    ):
        place = tensor_place(name, tensor)
        if place not in copies:
            new = tensor.detach().to(dtype if tensor.is_floating_point() else tensor.dtype, copy=True)
            is_parameter = isinstance(tensor, torch.nn.Parameter)
            copies[place] = torch.nn.Parameter(new, tensor.requires_grad) if is_parameter else new
        memo[id(tensor)] = copies[place]
    return copy.deepcopy(model, memo)


def dynamic_shapes_of(program: ExportedProgram) -> Any:
    """The dynamic_shapes by which a program can be exported again; conditions on sizes will be found again."""
    symbols = Symbols(program)
    placeholders = {n.name: n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder"}
    values = [
        placeholders.get(spec.arg.name)
        for spec in program.graph_signature.input_specs
        if spec.kind == InputKind.USER_INPUT
    ]
    tied = bool(symbols.conditions) or any(isinstance(value, torch.SymInt) for value in values)
    named = {n: Dim(n, min=low, max=high) for n, (low, high) in symbols.ranges.items()}

    def axis(size: Any) -> Any:
        linear = LinearDim.parse(str(symbols.dim(size)))
        if linear is None:
            return None
        low, high = symbols.ranges[linear.symbol]
        if tied:
            return Dim.AUTO(min=linear.at(low), max=None if high is None else linear.at(high))
        dim = named[linear.symbol] if linear.scale == 1 else linear.scale * named[linear.symbol]
        return dim + linear.offset if linear.offset else dim

    def leaf(value: Any) -> Any:
        if isinstance(value, torch.SymInt):
            return Dim.DYNAMIC
        return {i: axis(n) for i, n in enumerate(value.shape)} if isinstance(value, torch.Tensor) else None

    if not symbols.ranges:
        return None
    args, kwargs = pytree.tree_unflatten([leaf(value) for value in values], program.call_spec.in_spec)
    return dict(zip(parameter_names(program), (*args, *kwargs.values()), strict=True))


def _record(
    program: ExportedProgram, name: str, store: Store, watch: Sequence[Node]
) -> tuple[Method, list[Any]]:
    tracer = Tracer(program, name, store.state_of[name])
    method, watched = tracer.run(watch)
    in_spec, out_spec = program.call_spec.in_spec, program.call_spec.out_spec
    leaves: list[Tree] = []
    for spec in program.graph_signature.input_specs:
        if spec.kind == InputKind.USER_INPUT:
            constant = isinstance(spec.arg, ConstantArgument)
            used = sum(leaf[0] == "leaf" for leaf in leaves)
            leaves.append(("const", spec.arg.value) if constant else ("leaf", used))
    method.input_tree = build_tree(in_spec, leaves)
    method.parameters = parameter_names(program)
    method.output_tree = build_tree(out_spec, [("leaf", i) for i in range(out_spec.num_leaves)])
    store.add(method, tracer)
    return method, watched


def build_tree(spec: Any, leaves: list[Tree]) -> Tree:
    """torch's TreeSpec as a Tree, its leaves taken from `leaves` in order."""
    queue = iter(leaves)

    def build(node: Any) -> Tree:
        if node.is_leaf():
            return next(queue)
        children = tuple(build(child) for child in node.children())
        kind, context = node.type, node.context
        if kind in (tuple, list, torch.Size):
            return ("list" if kind is list else "tuple", children)
        if kind is deque:
            return ("list", children)
        if kind in (dict, OrderedDict, defaultdict):
            return ("dict", _dict_keys(context[1] if kind is defaultdict else context), children)
        named = (
            context if isinstance(context, type) else kind
        )  # torch keeps a named tuple's class in the context
        if isinstance(named, type) and issubclass(named, tuple):  # named tuples, and torch.return_types
            names: Any = getattr(named, "_fields", None) or getattr(named, "__match_args__", ())
            return ("object", named.__name__, tuple(names), children)
        keys = _field_names(context)
        if keys is None or len(keys) != len(children):
            raise ConversionError(f"arguments or results of the type {kind.__name__} are not supported")
        named_children = dict(zip(keys, children, strict=True))
        if _drops_none(kind, context):
            every = [f.name for f in dataclasses.fields(kind)]
            named_children = {name: named_children.get(name, ("const", None)) for name in every}
        return ("object", kind.__name__, tuple(named_children), tuple(named_children.values()))

    return build(spec)


def _dict_keys(keys: Any) -> tuple[Any, ...]:
    wrong = [key for key in keys if type(key) not in (str, int)]
    if wrong:
        raise ConversionError(
            f"a dict among the arguments or results has the key {wrong[0]!r}; use text or ints"
        )
    return tuple(keys)


def _drops_none(kind: Any, context: Any) -> bool:
    """Whether torch leaves out the fields of a dataclass that are None (those are listed beside the others)."""
    pair = isinstance(context, (list, tuple)) and len(context) == 2 and isinstance(context[1], (list, tuple))
    names = {f.name for f in dataclasses.fields(kind)} if dataclasses.is_dataclass(kind) else set()
    return bool(pair) and names == {*context[0], *context[1]}


def _field_names(context: Any) -> list[str] | None:
    """The field names in the context of a dataclass or transformers ModelOutput node."""
    if isinstance(context, (list, tuple)):
        if all(isinstance(k, str) for k in context):
            return list(context)
        if context and isinstance(context[0], (list, tuple)):
            return _field_names(context[0])
    if isinstance(context, dict):
        return list(context)
    return None
