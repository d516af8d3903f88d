"""Rules over the registry: what must hold for every lowering of an ATen op, tried on a sample of each.

Many ops share one exported graph, since exporting is what takes time; when a graph fails, each op is tried alone.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from mlxify.graph import functional_name, is_mutable

from .runner import Call, Row, Tally, compare, make_call, takes
from .samples import UNTRIED, Sample, aten, sample, targets
from .strategies import LAYOUTS, fits

CHUNK = 24
AXES = (
    "dim", "dims", "axis", "dim0", "dim1", "dim2", "axis0", "axis1", "source", "destination", "start_dim", "end_dim",
    "dimension", "dims_self", "dims_other",
)  # fmt: skip
"""Arguments that name axes, when they are integers."""
VECTORS = ("weight", "bias", "running_mean", "running_var")
"""Arguments whose shapes PyTorch does not check: it reads beyond the end of a 0-d one."""

TARGETS = targets()
PARTS = [TARGETS[i : i + CHUNK] for i in range(0, len(TARGETS), CHUNK)]


def by_part(sampled: int) -> pytest.MarkDecorator:
    """All ops, part by part. Every sixth part runs in CI, another sixth for each rule; the others are slow."""
    return pytest.mark.parametrize(
        "part",
        [
            pytest.param(
                part, id=part[0].removeprefix("aten."), marks=[] if i % 6 == sampled else [pytest.mark.slow]
            )
            for i, part in enumerate(PARTS)
        ],
    )


CRASH = "PyTorch crashes"
NO_EXPORT = "torch.export refuses it"
SHAPES = "torch.export gives its results other shapes than PyTorch has"
SIGNS = "the signs of its vectors are not unique"
LOOSE: dict[str, tuple[float, float]] = {}
REFUSED = {
    "aten.as_strided.default": "beyond the tensor",
    "aten.as_strided_scatter.default": "beyond the tensor",
    **{
        f"aten.{name}": "is not computed"
        for name in (
            "_embedding_bag.default",
            "_embedding_bag_forward_only.default",
            "embedding_bag.default",
            "embedding_bag.padding_idx",
        )
    },
    "aten.nanmean.default": "wrong shape for no axes",
    "aten.nansum.default": "wrong shape for no axes",
    "aten.resize.default": "beyond the tensor",
    "aten.resize_as.default": "beyond the tensor",
    "aten.unique_consecutive.default": "wrong shape for a negative dim",
    "aten.embedding_renorm.default": "changes its weights",
    "aten._embedding_bag.out": "is not computed",
    "aten._embedding_bag_forward_only.out": "is not computed",
    "aten._linalg_solve_ex.result": "is not computed",
    "aten._linalg_solve_ex.default": "is not computed",
}
"""Texts of refusals that are right."""


def call_of(found: Sample, changes: dict[str, Any], name: str = "") -> Call:
    """The sample with some arguments changed, as a call.

    Its tensors are its own: torch.export makes sizes of a tensor dynamic that it is given twice.
    """
    target = ".".join(["aten", found.op._schema.name.removeprefix("aten::"), found.op._overloadname])
    row = Row(name or target, found, tolerance=LOOSE.get(target), refused=REFUSED.get(target))
    return make_call(row, pytree.tree_map_only(torch.Tensor, torch.clone, found.given | changes))


def tried(calls: list[Call], tmp_path: Path) -> None:
    """Compare the calls that PyTorch takes."""
    tally = Tally()
    compare([call for call in calls if takes(call, tally)], tmp_path, tally)


# Negative axes


def rank_of(found: Sample) -> int:
    """The number of axes that an axis argument chooses from."""
    leaves = pytree.tree_leaves(list(found.given.values()))
    rank = next((v.dim() for v in leaves if isinstance(v, torch.Tensor)), 0)
    return rank + (found.op._schema.name in ("aten::unsqueeze", "aten::stack", "aten::_stack"))


def axis_changes(found: Sample) -> Iterator[dict[str, Any]]:
    """Each axis argument with every axis, from either end."""
    rank = rank_of(found)
    for argument in found.op._schema.arguments:
        kind = str(argument.type)
        if argument.name not in AXES or "int" not in kind:
            continue
        for axis in range(-rank, rank):
            yield {argument.name: [axis] if "List" in kind else axis}
        if "List" in kind:
            given = found.given.get(argument.name)
            given = given if isinstance(given, list) else []
            for axes in ([a - rank for a in given], [-2, -1], [0, -1]):
                yield {argument.name: axes}


def axis_calls(target: str) -> list[Call]:
    found = sample(target)
    if found is None or target in NO_AXES:
        return []
    calls = [call_of(found, c) for c in axis_changes(found) if found.runs(c)]
    return calls if any(_negative(c) for c in calls) else []


def _negative(call: Call) -> bool:
    return any(isinstance(v, int) and v < 0 for v in call.leaves)


@by_part(0)
def test_negative_axes(part: list[str], tmp_path: Path) -> None:
    tried([call for target in part for call in axis_calls(target)], tmp_path)


def has_axes(target: str) -> bool:
    return any(a.name in AXES and "int" in str(a.type) for a in aten(target)._schema.arguments)


def test_axes_that_were_not_tried() -> None:
    assert {t for t in TARGETS if has_axes(t) and not axis_calls(t)} == set(NO_AXES)


NO_AXES = {
    "aten.narrow.Tensor": "torch.export refuses it",
    "aten._fft_c2c.default": CRASH,
    "aten._fft_c2r.default": CRASH,
    "aten._fft_r2c.default": CRASH,
    "aten._weight_norm.default": "PyTorch reads g unchecked",
    "aten._weight_norm_interface.default": "PyTorch takes 0 and the last axis only",
    "aten.fake_quantize_per_channel_affine.default": "PyTorch refuses negative axes",
    "aten.fake_quantize_per_channel_affine_cachemask.default": "PyTorch refuses negative axes",
    "aten.tile.default": "its dims are numbers of copies",
}


# 0-d tensors


def scalars(value: Any) -> Any:
    """Tensors as 0-d ones, each with its first element."""
    return pytree.tree_map_only(torch.Tensor, lambda t: t.reshape(-1)[0].clone(), value)


def scalar_changes(found: Sample) -> Iterator[dict[str, Any]]:
    """All tensors 0-d, or one of them; axes 0 and -1."""
    kinds = {a.name: str(a.type) for a in found.op._schema.arguments}
    tensors = [
        k for k, v in found.given.items() if any(isinstance(x, torch.Tensor) for x in pytree.tree_leaves(v))
    ]
    axes = [k for k in found.given if k in AXES and "int" in kinds[k]]
    for group in (tensors, *([name] for name in tensors if len(tensors) > 1 and name not in VECTORS)):
        changes = {name: scalars(found.given[name]) for name in group}
        for axis in (0, -1) if axes else (0,):
            yield changes | {k: [axis] if "List" in kinds[k] else axis for k in axes}
        for name, kind in kinds.items():
            if "List[int]" in kind and name in found.given:
                yield changes | {name: []}


def scalar_calls(target: str) -> list[Call]:
    found = sample(target)
    if found is None or target in NO_SCALARS:
        return []
    return [call_of(found, c) for c in scalar_changes(found) if found.runs(c)]


NO_SCALARS = {
    "aten._chunk_cat.default": CRASH,
    **{
        f"aten.{name}.default": "PyTorch reads g unchecked"
        for name in ("_weight_norm", "_weight_norm_interface")
    },
    **{f"aten._fft_{kind}.default": CRASH for kind in ("c2c", "c2r", "r2c")},
    "aten._fused_rms_norm.default": "PyTorch does not check its shapes",
    "aten._reshape_alias.default": "PyTorch does not check its sizes",
}


@by_part(1)
def test_0d_tensors(part: list[str], tmp_path: Path) -> None:
    tried([call for target in part for call in scalar_calls(target)], tmp_path)


# Non-contiguous, channels_last and expanded tensors


def laid_out(call: Call, layout: str, inside: bool) -> Call:
    """The call, all tensors that can be in a layout: views made before the graph or in it."""
    leaves, views = list(call.leaves), dict(call.views)
    for place in call.views:
        if fits(layout, leaves[place]):
            views[place], leaves[place] = layout, LAYOUTS[layout][0](leaves[place])
    return replace(call, leaves=leaves, views=views, inside=inside)


def expanded(call: Call) -> Call:
    """The call, each tensor its first row over and over, without memory of its own for the others."""
    rows = {p: call.leaves[p][:1].expand_as(call.leaves[p]) for p in call.views if call.leaves[p].dim()}
    return replace(call, leaves=[rows.get(place, leaf) for place, leaf in enumerate(call.leaves)])


SINGULAR = ("linalg", "svd", "inverse", "cholesky", "solve", "det", "lu", "qr")
"""Parts of names of ops whose results mean little for matrices of equal rows."""
NO_LAYOUTS = {
    "aten._masked_softmax.default": "PyTorch reads it as if it were contiguous",
    "aten._reshape_alias.default": "it is given strides, and PyTorch does not check them",
    "aten.linalg_eig.default": SIGNS,
    "aten._linalg_eigh.default": SIGNS,
    "aten.linalg_eigh.default": SIGNS,
    "aten.svd.default": SIGNS,
    "aten.linalg_matrix_rank.tol_tensor": SHAPES,
    "aten._weight_norm_interface.default": "PyTorch reads v as if it were contiguous",
    "aten._histogramdd_from_bin_tensors.default": NO_EXPORT,
    "aten._pdist_forward.default": NO_EXPORT,
    "aten._grid_sampler_2d_cpu_fallback.default": NO_EXPORT,
}


def layout_calls(target: str) -> list[Call]:
    found = sample(target)
    if found is None or target in NO_LAYOUTS:
        return []
    names = [n for n in LAYOUTS if n not in ("plain", "expanded")]
    equal_rows = [] if any(part in target for part in SINGULAR) else [expanded(call_of(found, {}))]
    return [
        *equal_rows,
        *(laid_out(call_of(found, {}), name, inside) for name in names for inside in (False, True)),
    ]


@by_part(2)
def test_layouts(part: list[str], tmp_path: Path) -> None:
    tried([call for target in part for call in layout_calls(target)], tmp_path)


# In-place, out= and _copy forms


@functools.cache
def variants() -> dict[str, list[Any]]:
    """The other forms of each op of the registry."""
    known = {t: _signature(aten(t)) for t in TARGETS}
    found: dict[str, list[Any]] = defaultdict(list)
    for schema in torch._C._jit_get_all_schemas():
        if not schema.name.startswith("aten::"):
            continue
        name, overload = schema.name.removeprefix("aten::"), schema.overload_name or "default"
        op = getattr(getattr(torch.ops.aten, name), overload)
        if any(a.is_out for a in schema.arguments):
            plain = [t for t in known if t.split(".")[1] == name and known[t] == _signature(op)]
        elif is_mutable(op):
            plain = [functional_name(op)]
        else:
            plain = [f"aten.{name.removesuffix('_copy')}.{overload}"] if name.endswith("_copy") else []
        for target in plain:
            if target in known and target != f"aten.{name}.{overload}":
                found[target].append(op)
    return found


def _signature(op: Any) -> list[tuple[str, str]]:
    return [(a.name, str(a.type)) for a in op._schema.arguments if not a.is_out]


def variant_call(found: Sample, op: Any) -> Call | None:
    """A call of another form of the sample's op, or None where PyTorch does not take it."""
    arguments = op._schema.arguments
    outs = [a.name for a in arguments if a.is_out]
    writes = [a.name for a in arguments if a.alias_info is not None and a.alias_info.is_write]
    given = {a.name: found.given[a.name] for a in arguments if a.name in found.given}
    if outs and torch.Tag.dynamic_output_shape in found.op.tags:
        return None  # torch.export takes its size for that of the tensors given as out=
    if outs:
        with torch.no_grad():
            results = [r for r in pytree.tree_leaves(found()) if isinstance(r, torch.Tensor)]
        if len(results) != len(outs):
            return None
    form = Sample(op, given)

    def run(named: dict[str, Any]) -> Any:
        if outs:
            empty = {k: torch.empty(r.shape, dtype=r.dtype) for k, r in zip(outs, results, strict=True)}
            form(named | empty)
            return list(empty.values())
        if writes:
            copy = named[writes[0]].clone()
            form(named | {writes[0]: copy})
            return copy
        return form(named)

    row = Row(str(op), run, tolerance=LOOSE.get(str(found.op)), refused=REFUSED.get(str(op)))
    call = make_call(row, given)
    return call if takes(call, Tally()) else None


def variant_calls(target: str) -> list[Call]:
    found = sample(target)
    if found is None:
        return []
    calls = [variant_call(found, op) for op in variants()[target] if str(op) not in NO_VARIANTS]
    return [call for call in calls if call is not None]


NO_VARIANTS = {
    "aten.svd.U": SIGNS,
    "aten._batch_norm_no_update.out": SHAPES,
    "aten._native_batch_norm_legit_no_training.out": SHAPES,
    "aten._stack.out": SHAPES,
    "aten.linalg_matrix_rank.out_tol_tensor": SHAPES,
    "aten._linalg_eigh.eigenvalues": SIGNS,
    "aten._linalg_svd.U": SIGNS,
    "aten.linalg_eig.out": SIGNS,
    "aten.linalg_eigh.eigvals": SIGNS,
    "aten._grid_sampler_2d_cpu_fallback.out": NO_EXPORT,
    "aten._weight_norm_interface.out": NO_EXPORT,
    "aten.bucketize.Scalar_out": NO_EXPORT,
    "aten.embedding_dense_backward.out": NO_EXPORT,
    "aten.lift.out": NO_EXPORT,
}


@by_part(3)
def test_other_forms(part: list[str], tmp_path: Path) -> None:
    tried([call for target in part for call in variant_calls(target)], tmp_path)


def test_ops_without_a_sample() -> None:
    assert {t for t in TARGETS if sample(t) is None} == {t for t in UNTRIED if t in TARGETS}
