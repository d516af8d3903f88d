"""A sample call of any ATen op, made from its schema: what the rules over the registry are tried on.

Arguments come by their type and name; PyTorch itself decides which of a few kinds of tensors an op takes. GIVEN holds
the calls that cannot be guessed.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

import mlxify
import mlxify.export
from mlxify.lowering import LOWERINGS

mlxify.supported_ops()  # registers the lowerings

RANDOM = (torch.Tag.nondeterministic_seeded,)


def aten(target: str) -> torch._ops.OpOverload:
    _, name, overload = target.split(".")
    return getattr(getattr(torch.ops.aten, name), overload)


def targets() -> list[str]:
    """The ATen ops that have a lowering and give the same result every time."""
    return [
        t
        for t in sorted(LOWERINGS)
        if t.startswith("aten.") and not t.startswith("aten.sym_") and not set(RANDOM) & set(aten(t).tags)
    ]


@dataclass
class Sample:
    """Arguments of an op by name."""

    op: torch._ops.OpOverload
    given: dict[str, Any]

    def __call__(self, changes: dict[str, Any] | None = None) -> Any:
        """The result, with some arguments changed."""
        given = self.given | (changes or {})
        args: list[Any] = []
        for argument in self.op._schema.arguments:
            if argument.kwarg_only or argument.name not in given:
                break
            args.append(given.pop(argument.name))
        return self.op(*args, **given)

    def runs(self, changes: dict[str, Any] | None = None) -> bool:
        """Whether PyTorch takes it. An op never writes into the sample's own tensors."""
        try:
            with torch.no_grad():
                self(pytree.tree_map_only(torch.Tensor, torch.clone, self.given | (changes or {})))
        except Exception:  # PyTorch refuses it
            return False
        return True


def tensor(*shape: int) -> torch.Tensor:
    """Distinct values in (0, 1), in no order."""
    count = max(int(torch.tensor(shape).prod()), 1) if shape else 1
    order = torch.arange(count) * 7 % count if count % 7 else torch.arange(count).flip(0)
    return ((order + 0.5) / count).reshape(shape)


def _square(n: int) -> torch.Tensor:
    """Symmetric, positive definite."""
    x = tensor(n, n)
    return x @ x.T + torch.eye(n)


SELF = (
    lambda: tensor(2, 3, 4),
    lambda: (tensor(2, 3, 4) * 24).long(),
    lambda: tensor(2, 3, 4) > 0.5,
    lambda: _square(3),
    lambda: tensor(5),
    lambda: tensor(1, 2, 6, 6),
    lambda: tensor(1, 2, 6),
    lambda: tensor(1, 2, 6, 6, 6),
    lambda: (tensor(5) * 4).long(),
    lambda: torch.complex(tensor(2, 3), tensor(2, 3)),
    lambda: tensor(3, 4),
    lambda: tensor(2, 3, 3),
)
"""The first tensor of an op: the first of these that PyTorch takes."""


def _axis_index(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros(x.shape, dtype=torch.int64)


BY_NAME: dict[str, Any] = {
    "index": _axis_index,
    "indices": _axis_index,
    "mask": lambda x: x.real > 0.5,
    "condition": lambda x: x.real > 0.5,
    "weight": lambda x: torch.ones(x.shape[1]) if x.dim() > 1 else torch.ones(1),
    "running_mean": lambda x: torch.zeros(x.shape[1]),
    "running_var": lambda x: torch.ones(x.shape[1]),
    "dim": lambda x: 1 if x.dim() > 1 else 0,
    "dim0": lambda x: 0,
    "dim1": lambda x: 1,
    "axis": lambda x: 1,
    "axis0": lambda x: 0,
    "axis1": lambda x: 1,
    "source": lambda x: x,
    "destination": lambda x: 1,
    "size": lambda x: list(x.shape),
    "shape": lambda x: [-1],
    "k": lambda x: 1,
    "p": lambda x: 2,
    "kernel_size": lambda x: [2] * (x.dim() - 2),
    "stride": lambda x: [2] * (x.dim() - 2),
    "padding": lambda x: [1] * (x.dim() - 2),
    "dilation": lambda x: [1] * (x.dim() - 2),
    "output_size": lambda x: [3] * (x.dim() - 2),
    "normalized_shape": lambda x: [x.shape[-1]],
    "split_sizes": lambda x: [1, x.shape[0] - 1],
    "reduce": lambda x: "sum",
    "n": lambda x: 3,
    "step": lambda x: 1,
    "decimals": lambda x: 1,
    "shifts": lambda x: [1],
    "dims": lambda x: list(range(x.dim())),
    "repeats": lambda x: [2] * x.dim(),
    "pad": lambda x: [1, 1],
    "value": lambda x: 1,
    "tensors": lambda x: [x, x],
    "rounding_mode": lambda x: "floor",
    "eps": lambda x: 0.1,
    "dtype": lambda x: torch.float32,
    "window_length": lambda x: 5,
    "end": lambda x: 4,
    "steps": lambda x: 5,
    "tau": lambda x: x[..., 0],
}
"""Arguments by name, given the first tensor."""

BY_TYPE: dict[str, Any] = {
    "Tensor": lambda x: x,
    "int": lambda x: 1,
    "float": lambda x: 0.5,
    "number": lambda x: 2,
    "bool": lambda x: False,
    "List[int]": lambda x: [1],
    "List[Tensor]": lambda x: [x, x],
    "List[Optional[Tensor]]": lambda x: [torch.tensor([0, 1])],
}


def _conv(rank: int, transposed: bool = False) -> dict[str, Any]:
    sizes = [6, 5, 4][:rank]
    return {"input": tensor(1, 2, *sizes), "weight": tensor(*((2, 3) if transposed else (3, 2)), *[2] * rank)}


def _resize(rank: int, **more: Any) -> dict[str, Any]:
    return {
        "input": tensor(1, 2, *[4, 5, 3][:rank]),
        "output_size": [6, 4, 5][:rank],
        "scale_factors": None,
        **more,
    }


def _grid(rank: int) -> dict[str, Any]:
    common = {"interpolation_mode": 0, "padding_mode": 0, "align_corners": False}
    return {"input": tensor(1, 2, *[4] * rank), "grid": tensor(1, *[3] * rank, rank) * 2 - 1.1, **common}


def _pad(rank: int) -> dict[str, Any]:
    return {"self": tensor(1, 2, *[4] * rank), "padding": [1, 2] * rank}


def _fake_quant(**more: Any) -> dict[str, Any]:
    return {"self": tensor(2, 3), "quant_min": 0, "quant_max": 15, **more}


X, V, M = tensor(2, 3, 4), tensor(3), tensor(3, 4)
BAG = {"weight": tensor(5, 3), "indices": torch.tensor([0, 2, 4, 1]), "offsets": torch.tensor([0, 3])}
CELL = {"input": tensor(2, 3), "hx": tensor(2, 4)}
STATS = {"momentum": 0.1, "eps": 0.1}
NORM = {"input": tensor(2, 3, 4), "weight": V, "bias": V + 1}
RUNNING = {"running_mean": V, "running_var": V + 0.5}
CONVOLUTION = {
    **_conv(2), "bias": None, "stride": [1, 2], "padding": [1, 0], "dilation": [1, 1], "transposed": False,
    "output_padding": [0, 0], "groups": 1,
}  # fmt: skip
PIVOTS = torch.tensor([2, 2, 3], dtype=torch.int32)
SECOND = {"cholesky_solve": "input2", "_cholesky_solve_helper": "A"}
SPECTRUM = torch.complex(tensor(2, 3, 4), tensor(2, 3, 4))

GIVEN: dict[str, dict[str, Any]] = {
    **{f"aten.{name}.default": {"self": tensor(5, 2), "bins": [3, 2]} for name in ("_histogramdd_bin_edges", "_histogramdd_from_bin_cts")},
    **{f"aten.{name}": {"self": tensor(5, 2), "bins": [torch.tensor([0.0, 0.5, 1.0]), torch.tensor([0.2, 0.7])]} for name in ("_histogramdd_from_bin_tensors.default", "histogramdd.TensorList_bins")},
    "aten.linalg_ldl_solve.default": {**dict(zip(("LD", "pivots"), torch.linalg.ldl_factor(_square(3)), strict=True)), "B": tensor(3, 2)},
    "aten._batch_norm_no_update.default": {**NORM, **RUNNING, **STATS},
    "aten._batch_norm_with_update_functional.default": {**NORM, **RUNNING, **STATS},
    "aten._native_batch_norm_legit.no_stats": {**NORM, "training": True, **STATS},
    "aten._native_batch_norm_legit_functional.default": {**NORM, **RUNNING, "training": True, **STATS},
    "aten._native_batch_norm_legit_no_training.default": {**NORM, **RUNNING, **STATS},
    "aten.batch_norm.default": {**NORM, **RUNNING, "training": False, **STATS, "cudnn_enabled": False},
    "aten.instance_norm.default": {**NORM, "running_mean": None, "running_var": None, "use_input_stats": True, **STATS, "cudnn_enabled": False},
    "aten.native_group_norm.default": {"input": tensor(2, 4, 3), "weight": None, "bias": None, "N": 2, "C": 4, "HxW": 3, "group": 2, "eps": 0.1},
    "aten._convolution.default": {**CONVOLUTION, "benchmark": False, "deterministic": False, "cudnn_enabled": False, "allow_tf32": False},
    "aten.convolution.default": CONVOLUTION,
    **{f"aten.conv{n}d.default": _conv(n) for n in (1, 2, 3)},
    **{f"aten.conv{n}d.padding": {**_conv(n), "padding": "same"} for n in (1, 2, 3)},
    **{f"aten.conv_transpose{n}d.{o}": _conv(n, True) for n, o in ((1, "default"), (2, "input"), (3, "input"))},
    "aten.conv_tbc.default": {"self": tensor(5, 2, 3), "weight": tensor(2, 3, 4), "bias": tensor(4)},
    **{f"aten.{u}upsample_nearest{e}{n}d.vec": _resize(n) for n in (1, 2, 3) for u, e in (("", ""), ("_", "_exact"))},
    **{f"aten.{name}.vec": _resize(int(name[-2] if "aa" not in name else 2), align_corners=False) for name in (
        "_upsample_bicubic2d_aa", "_upsample_bilinear2d_aa", "_upsample_lanczos2d_aa",
        "upsample_bicubic2d", "upsample_bilinear2d", "upsample_linear1d", "upsample_trilinear3d")},
    **{f"aten.{name}.default": _grid(2) for name in ("_grid_sampler_2d_cpu_fallback", "grid_sampler", "grid_sampler_2d")},
    "aten.grid_sampler_3d.default": _grid(3),
    **{f"aten.{kind}_pad{n}d.default": _pad(n) for n in (1, 2, 3) for kind in ("reflection", "replication")},
    **{f"aten.{name}.default": BAG for name in ("_embedding_bag", "_embedding_bag_forward_only", "embedding_bag")},
    "aten.embedding_bag.padding_idx": {**BAG, "scale_grad_by_freq": False, "mode": 0, "sparse": False, "per_sample_weights": None, "include_last_offset": False, "padding_idx": 2},
    "aten.embedding_dense_backward.default": {"grad_output": tensor(2, 3), "indices": torch.tensor([1, 0]), "num_weights": 4, "padding_idx": -1, "scale_grad_by_freq": False},
    "aten.gru_cell.default": {**CELL, "w_ih": tensor(12, 3), "w_hh": tensor(12, 4)},
    "aten.lstm_cell.default": {"input": tensor(2, 3), "hx": [tensor(2, 4), tensor(2, 4) - 0.5], "w_ih": tensor(16, 3), "w_hh": tensor(16, 4)},
    "aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default": _fake_quant(scale=torch.tensor(0.1), zero_point=torch.tensor(2), fake_quant_enabled=torch.tensor(1)),
    "aten.fake_quantize_per_tensor_affine.tensor_qparams": _fake_quant(scale=torch.tensor(0.1), zero_point=torch.tensor(2)),
    **{f"aten.fake_quantize_per_channel_affine{c}.default": _fake_quant(scale=V * 0.1 + 0.05, zero_point=torch.tensor([0, 1, 2], dtype=torch.int32), axis=1) for c in ("", "_cachemask")},
    "aten._fft_c2c.default": {"self": SPECTRUM, "dim": [1], "normalization": 0, "forward": True},
    "aten._fft_c2r.default": {"self": SPECTRUM, "dim": [2], "normalization": 2, "last_dim_size": 6},
    "aten._fft_r2c.default": {"self": X, "dim": [1], "normalization": 0, "onesided": True},
    "aten.stft.default": {"self": tensor(2, 16), "n_fft": 4, "return_complex": True},
    "aten.stft.center": {"self": tensor(2, 16), "n_fft": 4, "return_complex": True, "center": True},
    "aten.istft.default": {"self": torch.complex(tensor(3, 5), tensor(3, 5)), "n_fft": 4, "window": torch.ones(4)},
    "aten._grouped_mm.default": {"self": tensor(2, 3, 8).bfloat16(), "mat2": tensor(2, 8, 8).bfloat16()},
    "aten._int_mm.default": {"self": torch.ones(18, 8, dtype=torch.int8), "mat2": torch.ones(8, 8, dtype=torch.int8)},
    "aten._reshape_alias.default": {"self": X, "size": [6, 4], "stride": [4, 1]},
    "aten._pdist_forward.default": {"self": M},
    "aten._trilinear.default": {"i1": M, "i2": tensor(5, 4, 2), "i3": tensor(3, 2), "expand1": [1, 3], "expand2": [0], "expand3": [1, 2], "sumdim": [2, 3]},
    **{f"aten.{name}.default": {"self": tensor(3, 2), SECOND[name]: _square(3).tril(), "upper": False} for name in SECOND},
    **{f"aten.fractional_max_pool{n}d.default": {"self": tensor(1, 2, *[6] * n), "kernel_size": [2] * n, "output_size": [3] * n, "random_samples": tensor(1, 2, n)} for n in (2, 3)},
    "aten.as_strided_scatter.default": {"self": X, "src": tensor(2, 3), "size": [2, 3], "stride": [4, 1]},
    "aten.linalg_cond.p_str": {"self": _square(3), "p": "fro"},
    "aten.linalg_lu_solve.default": {"LU": _square(3), "pivots": PIVOTS, "B": tensor(3, 2)},
    "aten.lu_solve.default": {"self": tensor(3, 2), "LU_data": _square(3), "LU_pivots": PIVOTS},
    "aten.lu_unpack.default": {"LU_data": _square(3), "LU_pivots": PIVOTS},
    "aten.orgqr.default": {"self": tensor(3, 2), "input2": tensor(2)},
    "aten.ormqr.default": {"self": tensor(3, 2), "input2": tensor(2), "input3": tensor(3, 2)},
    "aten.linalg_tensorsolve.default": {"self": _square(6).reshape(2, 3, 6), "other": tensor(2, 3)},
    "aten.segment_reduce.default": {"data": tensor(4, 3), "reduce": "sum", "lengths": torch.tensor([1, 3])},
    **{f"aten.histogramdd.{o}": {"self": tensor(5, 2), "bins": b, "range": [0.0, 1.0, 0.0, 2.0]} for o, b in (("default", [3, 2]), ("int_bins", 2))},
    "aten.addbmm.default": {"self": tensor(3, 5), "batch1": X.transpose(1, 2)[:, :3, :3].contiguous(), "batch2": tensor(2, 3, 5)},
    "aten.addmv.default": {"self": V, "mat": M, "vec": tensor(4)},
    "aten.mv.default": {"self": M, "vec": tensor(4)},
    "aten.affine_grid_generator.default": {"theta": tensor(1, 2, 3), "size": [1, 2, 3, 4], "align_corners": False},
    "aten.as_strided.default": {"self": X, "size": [2, 3], "stride": [1, 2], "storage_offset": 3},
    "aten._weight_norm.default": {"v": X, "g": tensor(2, 1, 1)},
    "aten.bilinear.default": {"input1": tensor(2, 3), "input2": tensor(2, 4), "weight": tensor(5, 3, 4)},
    **{f"aten.{name}.Tensor": {"self": X, "min": X[0] * 0.5, "max": torch.tensor(0.9)} for name in ("clamp", "clip")},
    **{f"aten.{name}.default": {"self": X, "min": 0.25, "max": 0.75} for name in ("clamp", "clip")},
    "aten.col2im.default": {"self": tensor(1, 8, 4), "output_size": [3, 3], "kernel_size": [2, 2], "dilation": [1, 1], "padding": [0, 0], "stride": [1, 1]},
    "aten.count_nonzero.dim_IntList": {"self": X, "dim": [1]},
    "aten.diagonal_scatter.default": {"self": M, "src": V},
    **{f"aten.{name}.array": {"self": X, "indices": [1]} for name in ("dsplit", "hsplit", "vsplit")},
    "aten.einsum.default": {"equation": "ij,jk->ki", "tensors": [M, tensor(4, 2)]},
    "aten.fill.Tensor": {"self": X, "value": torch.tensor(2.0)},
    "aten.index_fill.int_Tensor": {"self": X, "dim": 1, "index": torch.tensor([0, 2]), "value": torch.tensor(2.0)},
    "aten.index_reduce.default": {"self": X, "dim": 1, "index": torch.tensor([0, 2]), "source": tensor(2, 2, 4), "reduce": "amax"},
    "aten.lerp.Scalar": {"self": X, "end": X * 2, "weight": 0.25},
    "aten.lerp.Tensor": {"self": X, "end": X * 2, "weight": X[0]},
    "aten.linalg_norm.ord_str": {"self": M, "ord": "fro"},
    "aten.linalg_tensorinv.default": {"self": _square(6).reshape(2, 3, 6), "ind": 2},
    **{f"aten.{name}.Scalar_Tensor": {"start": 1, "end": torch.tensor(3.0), "steps": 5} for name in ("linspace", "logspace")},
    **{f"aten.{name}.Tensor_Scalar": {"start": torch.tensor(1.0), "end": 3, "steps": 5} for name in ("linspace", "logspace")},
    **{f"aten.{name}.Tensor_Tensor": {"start": torch.tensor(1.0), "end": torch.tensor(3.0), "steps": 5} for name in ("linspace", "logspace")},
    "aten.masked_fill.Tensor": {"self": X, "mask": X > 0.5, "value": torch.tensor(2.0)},
    "aten.meshgrid.indexing": {"tensors": [V, tensor(4)], "indexing": "xy"},
    **{f"aten.{name}.int": {"self": X, "source": 0, "destination": 2} for name in ("movedim", "moveaxis")},
    **{f"aten.{name}.intlist": {"self": X, "source": [0, 1], "destination": [2, 0]} for name in ("movedim", "moveaxis")},
    "aten.one_hot.default": {"self": torch.tensor([2, 0]), "num_classes": 4},
    **{f"aten.{name}.default": {"n": 0, "self": X} for name in ("polygamma", "special_polygamma")},
    "aten.nonzero_static.default": {"self": X > 0.8, "size": 4},
    "aten.repeat_interleave.self_Tensor": {"self": X, "repeats": torch.tensor([1, 0, 2]), "dim": 1, "output_size": 3},
    "aten.repeat_interleave.self_int": {"self": X, "repeats": 2, "dim": 1},
    "aten.scatter.reduce": {"self": X, "dim": 1, "index": torch.zeros(2, 1, 4, dtype=torch.int64), "src": X, "reduce": "add"},
    "aten.scatter.value_reduce": {"self": X, "dim": 1, "index": torch.zeros(2, 1, 4, dtype=torch.int64), "value": 2, "reduce": "multiply"},
    "aten.select.int": {"self": X, "dim": 1, "index": 2},
    "aten.select_scatter.default": {"self": X, "src": X[:, 0], "dim": 1, "index": 2},
    "aten.squeeze.dims": {"self": X[:, :1], "dim": [1]},
    "aten.unflatten.int": {"self": X, "dim": 2, "sizes": [2, 2]},
    "aten.unfold.default": {"self": X, "dimension": 2, "size": 2, "step": 1},
    "aten.unfold_copy.default": {"self": X, "dimension": 2, "size": 2, "step": 1},
    "aten.view_as_complex.default": {"self": tensor(3, 4, 2)},
}  # fmt: skip
"""Arguments that cannot be guessed."""

UNTRIED = {
    "aten._linalg_check_errors.default": "has no result",
    "aten._assert_async.msg": "has no result",
    "aten._assert_scalar.default": "has no result",
    "aten.item.default": "its result is a number",
    "aten._local_scalar_dense.default": "its result is a number",
    "aten.convolution_overrideable.default": "PyTorch's CPU has no kernel",
    "aten.narrow.Tensor": "torch.export refuses it",
    "aten._efficientzerotensor.default": "its result holds no memory",
    "aten.empty_permuted.default": "its values are not defined",
    "aten.empty_strided.default": "its values are not defined",
    "aten.new_empty_strided.default": "its values are not defined",
    "aten.empty.memory_format": "its values are not defined",
    "aten.empty_like.default": "its values are not defined",
    "aten.new_empty.default": "its values are not defined",
    "aten.to.device": "takes a device",
}
"""Ops without a sample, and why."""


def _guess(op: torch._ops.OpOverload, first: torch.Tensor) -> Sample:
    given: dict[str, Any] = {}
    tensors = 0
    for argument in op._schema.arguments:
        kind = str(argument.type)
        if argument.has_default_value():
            continue
        if kind.startswith("Optional") and argument.name not in BY_NAME:
            given[argument.name] = None
            continue
        make = None if tensors == 0 and kind == "Tensor" else BY_NAME.get(argument.name)
        value = make(first) if make else None
        if value is None or isinstance(value, torch.Tensor) != (kind == "Tensor"):
            value = BY_TYPE[kind](first) if kind in BY_TYPE else value
        given[argument.name] = value
        tensors += kind == "Tensor"
    return Sample(op, given)


@functools.cache
def sample(target: str) -> Sample | None:
    """A call that PyTorch takes, or None."""
    if target in UNTRIED:
        return None
    op = aten(target)
    if target in GIVEN:
        found = Sample(op, GIVEN[target])
        return found if found.runs() else None
    matrices = any(word in target for word in ("linalg", "cholesky", "inverse", "pinv"))
    for make in (functools.partial(_square, 3), *SELF) if matrices else SELF:
        try:
            found = _guess(op, make())
        except Exception:  # no sample of this kind fits the op
            continue
        if found.runs():
            return found
    return None
