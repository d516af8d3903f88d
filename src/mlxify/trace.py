"""Plan and record one exported graph: torch nodes in, a Method out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import mlx.core as mx
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind
from torch.fx import GraphModule, Node

from . import lowering as policy
from .calls import Call
from .conditions import Place
from .convert_torch import mlx_dtype, torch_array
from .errors import ConversionError, MlxifyError, Refusal, UnsupportedOp, UnsupportedOpError, refuse
from .graph import functional_name, has_out, is_mutable, plain_op, target_name
from .isa import MAX_TEXT
from .ops.scalar import assert_number
from .optimize import finish
from .origin import node_source, unsupported_op
from .patterns import Match
from .plan import constants_of, plan_graph
from .program import RANDOM_STATE, Input, Method, Source, Spec
from .record import Recorder, recording
from .symbols import Symbols
from .values import DynamicValueError, HostNumber, Value

KNOWN_SIZE = 1 << 16
"""Elements up to which an integer table is looked at, so that an index out of range is an error at conversion."""
KNOWN_VECTOR = 64
"""Elements up to which a lowering may ask for all of them."""
TOKEN = "token"
"""Stands for the values that say in which order effects come: instructions keep theirs."""
# Outputs that are new values of the model's own tensors. By name: older releases of torch lack the second kind.
STATE_UPDATES = ("BUFFER_MUTATION", "PARAMETER_MUTATION")


class Subgraph:
    """A branch or loop body: called with values while recording, it records its graph and returns its outputs."""

    def __init__(self, tracer: Tracer, module: GraphModule) -> None:
        self.tracer, self.module = tracer, module

    def __call__(self, *values: Any) -> list[Any]:
        nodes = [n for n in self.module.graph.nodes if n.op == "placeholder"]
        env = dict(zip(nodes, values, strict=True))
        return list(self.tracer.run_graph(self.module, env))


class Tracer:
    """Records the graph of one ExportedProgram as a Method."""

    def __init__(self, program: ExportedProgram, name: str, state: Iterable[str] = ()) -> None:
        """state: tensors that other methods write to, and that this one therefore reads anew in every call."""
        self.program, self.name = program, name
        self.signature = program.graph_signature
        self.symbols = Symbols(program)
        self.recorder = Recorder(self.symbols.count)
        self.method = Method(name, [], ("const", None), ("const", None), symbols=self.symbols.ranges)
        self.method.examples = self.symbols.chosen
        self.unsupported: list[UnsupportedOp] = []
        self.weights: dict[str, torch.Tensor] = {}
        self.state: dict[str, torch.Tensor] = {}
        self._sources: dict[Source, int] = {}
        self._constants = constants_of(program)
        self.fused: dict[Node, Match] = {}
        self._mutated = written_tensors(program) | set(state)

    def run(self, watch: Sequence[Node] = ()) -> tuple[Method, list[Any]]:
        """Record everything that an output needs; also return references to the values of the nodes in `watch`.

        Raises UnsupportedOpError with all that cannot be lowered.
        """
        with recording(self.recorder):
            try:
                env = self._bind_placeholders()
            except Refusal as refusal:
                raise ConversionError(f"{refusal}{_dtype_advice(str(refusal))}") from refusal
            outputs = self.run_graph(self.program.graph_module, env)
            if self.unsupported:
                raise UnsupportedOpError(_distinct(self.unsupported))
            self._bind_outputs(outputs)
        self.method.instrs = self.recorder.instrs
        self.method.sources = list(self._sources)
        return finish(self.method, self.recorder, [env.get(node) for node in watch])

    def _bind_placeholders(self) -> dict[Node, Any]:
        nodes = {n.name: n for n in self.program.graph.nodes if n.op == "placeholder"}
        env: dict[Node, Any] = {}
        for spec in self.signature.input_specs:
            node = nodes[spec.arg.name]
            if spec.kind == InputKind.USER_INPUT:
                env[node] = self._bind_input(spec.arg, node)
            elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
                env[node] = self._bind_tensor(spec.target, node)
            elif spec.kind == InputKind.TOKEN:
                env[node] = TOKEN
            else:
                raise ConversionError(
                    f"the input {spec.arg.name!r} is of the kind {spec.kind.name}, which is not supported"
                )
        self._assert_conditions({node.name: value for node, value in env.items()})
        return env

    def _assert_conditions(self, inputs: dict[str, Any]) -> None:
        """Record that a call whose sizes do not fulfil the export's conditions stops."""

        def number(place: Place) -> Any:
            value = inputs.get(place.node, place.size)
            return value if place.axis is None else value.shape[place.axis]

        for condition in self.symbols.conditions:
            text = f"the sizes of the inputs do not fulfil a condition of the model: {condition.text}"
            assert_number(condition.evaluate(number), text[:MAX_TEXT])

    def _bind_input(self, arg: Any, node: Node) -> Any:
        if isinstance(arg, ConstantArgument):
            return arg.value
        value = self._placeholder(node.meta["val"], f"the input {arg.name!r}")
        fake = node.meta["val"]
        if isinstance(value, HostNumber):
            kind = type(value.hints[0]).__name__
            spec = Spec((self.symbols.dim(fake),) if isinstance(fake, torch.SymInt) else (), None)
        else:
            spec, kind = Spec(tuple(self.symbols.dim(n) for n in fake.shape), value.dtype), ""
        self.method.inputs.append(Input(arg.name, spec, value.number, kind))
        return value

    def _bind_tensor(self, name: str, node: Node) -> Any:
        tensor = self.program.state_dict.get(name)
        if tensor is None:
            tensor = self.program.constants[name]
        value = self._placeholder(node.meta["val"], f"the weight {name!r}")
        if name in self._mutated:
            self.method.state[value.number] = name
            self.state[name] = tensor
        else:
            self.method.weights[value.number] = name
            self.weights[name] = tensor
            if tensor.dtype in (torch.int32, torch.int64) and 0 < tensor.numel() <= KNOWN_SIZE:
                self.recorder.bounds[value.number] = int(tensor.min()), int(tensor.max())
                if tensor.ndim == 1 and tensor.numel() <= KNOWN_VECTOR:
                    self.recorder.vectors[value.number] = tensor.tolist()
        return value

    def _placeholder(self, fake: Any, what: str) -> Any:
        """A value with the example shapes of PyTorch's metadata."""
        hints: list[Any] = []
        if isinstance(fake, torch.Tensor) and (fake.layout is not torch.strided or fake.is_quantized):
            kind = "legacy quantized" if fake.is_quantized else str(fake.layout).removeprefix("torch.")
            raise refuse(f"{what} is a {kind} tensor, which has no MLX form")
        for example in range(self.recorder.examples):
            if isinstance(fake, torch.Tensor):
                shape = [self.symbols.at(n, example) for n in fake.shape]
                hints.append(mx.zeros(shape, mlx_dtype(fake.dtype, what)))
            elif isinstance(fake, (torch.SymInt, int)) and not isinstance(fake, bool):
                hints.append(self.symbols.at(fake, example))
            else:
                hints.append(bool(fake) if isinstance(fake, (bool, torch.SymBool)) else 0.5)
        return self.recorder.new_value(tuple(hints))

    def run_graph(self, module: GraphModule, env: dict[Node, Any]) -> list[Any]:
        """Record a graph's needed nodes; `env` holds its placeholders' values. Returns its outputs, flat."""
        graph = module.graph
        plan = plan_graph(graph, self._constants)
        self.fused |= plan.fused
        for node in graph.nodes:
            if node.op == "get_attr":
                env[node] = self._attribute(module, node)
            elif node.op == "call_function" and (node in plan.alone or node in plan.fused):
                env[node] = self._lower(node, env)
        output = next(n for n in graph.nodes if n.op == "output")
        outputs = output.args[0]
        return [self._argument(a, env) for a in ([outputs] if isinstance(outputs, Node) else outputs)]

    def _attribute(self, module: GraphModule, node: Node) -> Any:
        value: Any = module
        for part in str(node.target).split("."):
            value = getattr(value, part)
        if isinstance(value, GraphModule):
            return Subgraph(self, value)
        return self.recorder.literal(torch_array(value))

    def _lower(self, node: Node, env: dict[Node, Any]) -> Any:
        if target_name(node.target) == "operator.getitem" and node not in self.fused:
            return self._item(node, env)
        self.recorder.source = self._source(node)
        try:
            result = self._apply(node, env)
            if is_mutable(node.target):
                self._rebind(node, env, result)
            return result
        except (Refusal, DynamicValueError, NotImplementedError) as refusal:
            self.unsupported.append(unsupported_op(node, str(refusal)))
            return self._stand_in(node)
        except (
            MlxifyError,
            TypeError,
            ValueError,
            AssertionError,
            KeyError,
            IndexError,
            AttributeError,
        ) as error:
            raise ConversionError(f"{unsupported_op(node, f'{type(error).__name__}: {error}')}") from error

    def _fuse(self, match: Match, node: Node, env: dict[Node, Any]) -> Any:
        """Record the lowering of a fusion."""
        value, found = node.meta["val"], match.found
        known = {name: _values(bound, env) for name, bound in found.bound.items()}
        known |= found.named | {"result": self._results(value, _storage(node))}
        arguments = {name: known.get(name) for name in match.fusion.parameters}
        return self._reconcile(match.fusion.fn(**arguments), value)

    def _lower_apart(self, node: Node, env: dict[Node, Any]) -> Any:
        """Record what a fusion would have taken in, and the node itself."""
        wanted, stack = set(), [node]
        while stack:
            needed = stack.pop()
            if needed not in env and needed not in wanted:
                wanted.add(needed)
                stack.extend(needed.all_input_nodes)
        for needed in node.graph.nodes:
            if needed in wanted:
                env[needed] = self._lower(needed, env)
        return env[node]

    def _item(self, node: Node, env: dict[Node, Any]) -> Any:
        """One of several results. A lowering leaves out (None) what hardly any model reads."""
        value = self._argument(node.args[0], env)[node.args[1]]
        if (
            value is None
            and isinstance(node.meta.get("val"), torch.Tensor)
            and isinstance(node.args[0], Node)
        ):
            self.unsupported.append(
                unsupported_op(node.args[0], f"its result {node.args[1]} is not computed")
            )
            return self._stand_in(node)
        return value

    def _apply(self, node: Node, env: dict[Node, Any]) -> Any:
        match = self.fused.pop(node, None)
        if match is not None:
            try:
                return self._fuse(match, node, env)
            except MlxifyError:
                return self._lower_apart(node, env)
        name = functional_name(node.target)
        if name == "higher_order.auto_functionalized_v2":
            return self._apply_functionalized(node, env)
        if name == "higher_order.with_effects":
            return self._apply_with_effects(node, env)
        found = policy.find(name)
        if found is None:
            raise NotImplementedError("no lowering")
        arguments, defaults = self._arguments(node, env, found.parameters)
        value = node.meta.get("val")
        result = self._results(value, _storage(node)) if found.wants_result else None
        return self._reconcile(policy.apply(found, arguments, defaults, result), value)

    def _apply_functionalized(self, node: Node, env: dict[Node, Any]) -> list[Any]:
        """A custom op that writes into arguments: its lowering returns its results, then the arguments' new values."""
        op: Any = node.args[0]
        kwargs: dict[str, Any] = dict(node.kwargs)
        found = policy.find(target_name(op))
        if found is None:
            raise NotImplementedError(f"no lowering for the wrapped op {target_name(op)}")
        bases = [self._argument(b, env) for b in kwargs.pop("_all_bases")]
        given = {k: self._argument(v, env) for k, v in kwargs.items() if not k.startswith("_")}
        for key, index in kwargs.items():
            if key.startswith("_") and key.endswith("_base_index"):
                given[key.removeprefix("_").removesuffix("_base_index")] = (
                    None if index is None else bases[index]
                )
            elif key.startswith("_"):
                raise refuse(f"{target_name(op)} writes into a view of a tensor")
        defaults = {a.name: a.default_value for a in op._schema.arguments}
        arguments = {a.name: given.get(a.name, defaults[a.name]) for a in op._schema.arguments}
        return self._reconcile(policy.apply(found, arguments, defaults, None), node.meta.get("val"))

    def _apply_with_effects(self, node: Node, env: dict[Node, Any]) -> list[Any]:
        """An op with an effect, wrapped with a token that orders it: the token, then the op's results."""
        token, op, *args = node.args
        found = policy.find(target_name(op))
        if found is None:
            raise NotImplementedError(f"no lowering for the wrapped op {target_name(op)}")
        arguments, defaults = self._bound(op, args, node.kwargs, env, found.parameters)
        results = policy.apply(found, arguments, defaults, None)
        listed = [] if results is None else list(results) if isinstance(results, (list, tuple)) else [results]
        return [self._argument(token, env), *self._reconcile(listed, node.meta["val"][1 : 1 + len(listed)])]

    def _rebind(self, node: Node, env: dict[Node, Any], result: Any) -> None:
        """After an in-place op its target's name means the new value (see decompose.is_simple_mutation)."""
        if has_out(node.target):
            names = [a.name for a in plain_op(node.target)._schema.arguments if a.is_out]
            values = result if isinstance(result, (list, tuple)) else [result]
            outs: list[Any] = [node.kwargs[name] for name in names]
            env.update(zip(outs, values, strict=True))
        elif node.args and isinstance(node.args[0], Node):
            env[node.args[0]] = result

    def _arguments(self, node: Node, env: dict[Node, Any], names: Iterable[str]) -> tuple[dict, dict]:
        return self._bound(node.target, node.args, node.kwargs, env, names)

    def _bound(
        self, op: Any, given_args: Any, given_kwargs: Any, env: dict[Node, Any], names: Iterable[str]
    ) -> tuple[dict, dict]:
        """An op's arguments and their defaults, by name."""
        schema = getattr(plain_op(op), "_schema", None)
        args = [self._argument(a, env) for a in given_args]
        kwargs = {k: self._argument(v, env) for k, v in given_kwargs.items()}
        if schema is None:
            return {**dict(zip(names, args, strict=False)), **kwargs}, {}
        given, defaults = {}, {}
        for position, argument in enumerate(schema.arguments):
            if argument.is_out:
                continue
            defaults[argument.name] = default = self._argument(argument.default_value, env)
            if position < len(args):
                given[argument.name] = args[position]
            else:
                given[argument.name] = kwargs.get(argument.name, default)
        return given, defaults

    def _argument(self, arg: Any, env: dict[Node, Any]) -> Any:
        if isinstance(arg, Node):
            return env[arg]
        if isinstance(arg, (list, tuple)):
            return [self._argument(a, env) for a in arg]
        if isinstance(arg, dict):
            return {k: self._argument(v, env) for k, v in arg.items()}
        if isinstance(arg, torch.dtype):
            return mlx_dtype(arg, "an argument")
        return arg

    def _results(self, value: Any, storage: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return policy.Result(mlx_dtype(value.dtype, "the result"), _static(value.shape), storage)
        return [self._results(v, storage) for v in value] if isinstance(value, (tuple, list)) else None

    def _reconcile(self, result: Any, expected: Any) -> Any:
        """Cast a lowering's result to PyTorch's dtype; its shape must be PyTorch's in every example."""
        if isinstance(expected, (tuple, list)):
            results = list(result) if isinstance(result, (tuple, list)) else [result]
            if len(results) != len(expected):
                raise AssertionError(f"{len(results)} results where PyTorch has {len(expected)}")
            return [self._reconcile(r, e) for r, e in zip(results, expected, strict=True)]
        if not isinstance(expected, torch.Tensor) or result is None:
            return result
        if isinstance(result, (tuple, list)):
            (result,) = result
        if isinstance(result, (int, float, complex, HostNumber)):
            result = policy.as_array(result, mlx_dtype(expected.dtype, "the result"))
        result = policy.as_array(result, mlx_dtype(expected.dtype, "the result"))
        self._check_shape(result, expected)
        return result

    def _check_shape(self, result: Value, expected: torch.Tensor) -> None:
        if result.ndim != expected.ndim:
            raise AssertionError(f"rank {result.ndim} where PyTorch has {expected.ndim}")
        result.dynamic = {axis for axis, size in enumerate(expected.shape) if not isinstance(size, int)}
        for axis, size in enumerate(expected.shape):
            if not self.symbols.known(size):
                continue
            for example, hint in enumerate(result.hints):
                if hint.shape[axis] != self.symbols.at(size, example):
                    wanted = [str(n) for n in expected.shape]
                    raise AssertionError(f"shape {list(hint.shape)} where PyTorch has {wanted}")

    def _stand_in(self, node: Node) -> Any:
        """A value with the shape of a node that was refused, so that the search for others goes on."""

        def stand_in(value: Any) -> Any:
            if isinstance(value, (tuple, list)):
                return [stand_in(v) for v in value]
            try:
                return None if value is None else self._placeholder(value, "the result")
            except Refusal:
                return self.recorder.new_value((mx.zeros(()),) * self.recorder.examples)

        return stand_in(node.meta.get("val"))

    def _bind_outputs(self, outputs: list[Any]) -> None:
        results = []
        for spec, value in zip(self.signature.output_specs, outputs, strict=True):
            if spec.kind.name in STATE_UPDATES:
                self.method.updates[spec.target] = value.number
            elif spec.kind == OutputKind.USER_OUTPUT:
                results.append(spec.arg.value if isinstance(spec.arg, ConstantArgument) else value)
            elif spec.kind == OutputKind.TOKEN:
                continue
            elif spec.kind == OutputKind.USER_INPUT_MUTATION:
                raise ConversionError(
                    f"the model writes into its input {spec.target!r}; return the new value instead"
                )
            else:
                raise ConversionError(f"outputs of the kind {spec.kind.name} are not supported")
        self.method.outputs = results
        if self.recorder.key_state is not None and self.recorder.key is not None:
            self.method.state[self.recorder.key_state.number] = RANDOM_STATE
            self.method.updates[RANDOM_STATE] = self.recorder.key.number

    def _source(self, node: Node) -> int:
        source = node_source(node)
        return self._sources.setdefault(source, len(self._sources))


def written_tensors(program: ExportedProgram) -> set[str]:
    """The names of the tensors to which a program writes."""
    specs = program.graph_signature.output_specs
    return {str(spec.target) for spec in specs if spec.kind.name in STATE_UPDATES}


def _values(bound: Any, env: dict[Node, Any]) -> Any:
    """What a pattern bound, its Calls replaced by the values of their nodes (None for those not computed)."""
    if isinstance(bound, (list, tuple)):
        return [_values(item, env) for item in bound]
    return env.get(bound.node) if isinstance(bound, Call) else bound


def _dtype_advice(reason: str) -> str:
    return '; try convert(..., dtype="float32")' if "complex128" not in reason and "dtype" in reason else ""


def _storage(node: Node) -> tuple[tuple[Any, ...], Any]:
    """See lowering.Result.storage."""
    value = node.args[0].meta.get("val") if node.args and isinstance(node.args[0], Node) else None
    if not isinstance(value, torch.Tensor):
        return (), None
    return _static(value.stride()), _static([value.storage_offset()])[0]


def _static(sizes: Any) -> tuple[Any, ...]:
    """Sizes, None for the dynamic ones."""
    return tuple(n if isinstance(n, int) else None for n in sizes)


def _distinct(ops: list[UnsupportedOp]) -> list[UnsupportedOp]:
    return list(dict.fromkeys(ops))
