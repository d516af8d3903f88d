"""Normalisation."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

import mlxify

from .harness import Case, check, compare, params
from .test_linear import rand

HALF, BF16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
FLOATS = (F32, HALF, BF16, F64)
B, T = Dim("b"), Dim("t")
aten = torch.ops.aten


def moved(*shape, dtype=F32, offset=3.0):
    return (rand(*shape, dtype=F64) * 2 + offset).to(dtype)


LAYER = [
    *(
        Case(f"layer_norm {d}", lambda x, w, b: F.layer_norm(x, (32,), w, b),
             (moved(2, 5, 32, dtype=d), rand(32, dtype=d), rand(32, dtype=d)))
        for d in FLOATS
    ),
    Case("layer_norm plain", lambda x: F.layer_norm(x, (32,)), (moved(4, 32),), decomposed=True, compiled=True),
    Case("layer_norm weight only", lambda x, w: F.layer_norm(x, (32,), w, eps=0.1), (moved(4, 32), rand(32))),
    Case("layer_norm bias only", lambda x, b: F.layer_norm(x, (32,), None, b), (moved(4, 32), rand(32))),
    Case("layer_norm half, float32 weight", lambda x, w: F.layer_norm(x, (32,), w, w), (moved(4, 32, dtype=HALF), rand(32))),
    Case("layer_norm two axes", lambda x, w, b: F.layer_norm(x, (3, 8), w, b), (moved(2, 5, 3, 8), rand(3, 8), rand(3, 8)), decomposed=True),
    Case("layer_norm all axes", lambda x: F.layer_norm(x, (2, 3, 8)), (moved(2, 3, 8),), decomposed=True),
    Case("layer_norm 1-d", lambda x: F.layer_norm(x, (8,)), (moved(8),)),
    Case("layer_norm one element", lambda x: F.layer_norm(x, (1,)), (moved(3, 1),)),
    Case("layer_norm no rows", lambda x: F.layer_norm(x, (8,)), (moved(0, 8),)),
    Case("layer_norm no elements", lambda x: F.layer_norm(x, (0,)), (moved(2, 0),)),
    Case("layer_norm nan and inf", lambda x: F.layer_norm(x, (3,)), (torch.tensor([[1, float("nan"), 2], [1, float("inf"), 2.0], [1, 2, 4]]),)),
    # float32 knows the data to 1e-3 / 10; one pass over it would lose 1.7e-3 more
    Case("layer_norm far from 0", lambda x: F.layer_norm(x, (768,)), (rand(8, 768) * 10 + 1e4,), tolerance=(1e-4, 1e-4)),
    Case("layer_norm long", lambda x: F.layer_norm(x, (100_000,)), (rand(1, 100_000) + 100,), tolerance=(1e-4, 1e-5)),
    Case("layer_norm half range", lambda x: F.layer_norm(x, (64,)), (rand(4, 64, dtype=HALF) * 2000,)),
    Case("native_layer_norm", lambda x, w, b: aten.native_layer_norm(x, [8], w, b, 1e-3), (moved(2, 5, 8), rand(8), rand(8))),
    Case("native_layer_norm two axes", lambda x: aten.native_layer_norm(x, [5, 8], None, None, 1e-5), (moved(2, 5, 8),)),
    Case("native_layer_norm half", lambda x: aten.native_layer_norm(x, [8], None, None, 1e-5), (moved(2, 5, 8, dtype=HALF),)),
    Case("layer_norm dynamic", nn.LayerNorm(8), (moved(2, 5, 8),), dynamic=({0: B, 1: T},),
         also=((moved(1, 1, 8),), (moved(3, 9, 8),), (moved(0, 2, 8),)), decomposed=True),
    Case("layer_norm dynamic, two axes", nn.LayerNorm((5, 8)), (moved(2, 5, 8),), dynamic=({0: B},), also=((moved(7, 5, 8),),)),
]  # fmt: skip

RMS = [
    *(Case(f"rms_norm {d}", lambda x, w: F.rms_norm(x, (32,), w), (rand(2, 5, 32, dtype=d), rand(32, dtype=d))) for d in FLOATS),
    # PyTorch takes the eps of the dtype in which it computes: float32's for halves.
    *(Case(f"rms_norm default eps {d}", lambda x: F.rms_norm(x, (32,)), (rand(4, 32, dtype=d) * 1e-3,)) for d in FLOATS),
    Case("rms_norm eps", lambda x, w: F.rms_norm(x, (32,), w, 1e-2), (rand(4, 32), rand(32)), decomposed=True, compiled=True),
    Case("rms_norm two axes", lambda x, w: F.rms_norm(x, (4, 8), w, 1e-6), (rand(3, 4, 8), rand(4, 8)), decomposed=True),
    Case("rms_norm large half", lambda x: F.rms_norm(x, (64,)), (rand(4, 64, dtype=HALF) * 5000,)),
    Case("rms_norm half, float32 weight", lambda x, w: F.rms_norm(x, (32,), w, 1e-6), (rand(4, 32, dtype=HALF), rand(32))),
    Case("rms_norm zeros", lambda x: F.rms_norm(x, (8,)), (torch.zeros(2, 8),)),
    Case("rms_norm no rows", lambda x: F.rms_norm(x, (8,)), (torch.zeros(0, 8),)),
    Case("_fused_rms_norm", lambda x, w: aten._fused_rms_norm(x, [8], w, 1e-5), (rand(2, 5, 8), rand(8))),
    Case("_fused_rms_norm default eps", lambda x: aten._fused_rms_norm(x, [5, 8], None, None), (rand(2, 5, 8) * 1e-3,)),
    Case("rms_norm dynamic", nn.RMSNorm(8), (rand(2, 5, 8),), dynamic=({0: B, 1: T},), also=((rand(1, 1, 8),), (rand(3, 9, 8),)), decomposed=True),
]  # fmt: skip


def batch(x, mean, var, weight=None, bias=None, eps=1e-5):
    return F.batch_norm(x, mean, var, weight, bias, eps=eps)


def trained(module):
    """The module with running statistics and weights that are not the initial ones."""
    for position, tensor in enumerate([*module.parameters(), *module.buffers()]):
        if tensor.is_floating_point():
            tensor.data.copy_(
                torch.rand(tensor.shape, generator=torch.Generator().manual_seed(position)) + 0.5
            )
    return module


MEAN, VAR, W, BIAS = rand(3), rand(3).abs() + 0.5, rand(3) + 1, rand(3)
IMAGE = moved(2, 3, 4, 5)

# PyTorch rounds the statistics of a half batch to half when no parameter is float32; here they stay float32.
ROUNDED = (2e-3, 2e-3)

BATCH = [
    *(Case(f"batch_norm rank {len(s)}", batch, (moved(*s), MEAN, VAR, W, BIAS), decomposed=True)
      for s in ((4, 3), (2, 3, 7), (2, 3, 4, 5), (2, 3, 4, 2, 3))),
    *(Case(f"batch_norm {d}", batch, (moved(2, 3, 4, 5, dtype=d), *(t.to(d) for t in (MEAN, VAR, W, BIAS)))) for d in FLOATS),
    Case("batch_norm plain", batch, (IMAGE, MEAN, VAR), decomposed=True),
    Case("batch_norm weight only", batch, (IMAGE, MEAN, VAR, W)),
    Case("batch_norm bias only", lambda x, m, v, b: batch(x, m, v, None, b, 0.1), (IMAGE, MEAN, VAR, BIAS)),
    # The statistics keep their range and precision though the activations are half.
    *(Case(f"batch_norm half, variance {v}", batch, (moved(2, 3, 4, dtype=HALF), MEAN, torch.full((3,), v), W, BIAS)) for v in (1e5, 1e-6)),
    Case("batch_norm bfloat16, float32 statistics", batch, (moved(2, 3, 4, dtype=BF16), MEAN, VAR, W, BIAS)),
    Case("batch_norm empty batch", batch, (moved(0, 3, 4), MEAN, VAR, W, BIAS)),
    Case("batch_norm by the batch", lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), (IMAGE, W, BIAS), decomposed=True),
    Case("batch_norm by the batch, half", lambda x: F.batch_norm(x, None, None, training=True), (IMAGE.half() * 300,), tolerance=ROUNDED, decomposed=True),
    Case("BatchNorm2d", trained(nn.BatchNorm2d(3)), (IMAGE,), decomposed=True, compiled=True),
    Case("BatchNorm1d no statistics", nn.BatchNorm1d(3, track_running_stats=False), (moved(4, 3),), decomposed=True),
    Case("BatchNorm dynamic", trained(nn.BatchNorm2d(3)), (IMAGE,), dynamic=({0: B, 2: T},),
         also=((moved(1, 3, 1, 5),), (moved(5, 3, 9, 5),)), decomposed=True),
    Case("legit_no_training", lambda x, m, v: aten._native_batch_norm_legit_no_training(x, None, None, m, v, 0.1, 1e-5), (IMAGE, MEAN, VAR)),
    Case("legit.no_stats", lambda x: aten._native_batch_norm_legit.no_stats(x, None, None, True, 0.1, 1e-5), (IMAGE,)),
    Case("legit_functional", lambda x, w, m, v: aten._native_batch_norm_legit_functional(x, w, w, m, v, True, 0.3, 1e-5), (IMAGE, W, MEAN, VAR)),
    Case("with_update_functional", lambda x, w, m, v: aten._batch_norm_with_update_functional(x, w, w, m, v, 0.3, 1e-5), (IMAGE, W, MEAN, VAR)),
    Case("no_update", lambda x, w, m, v: aten._batch_norm_no_update(x, w, w, m, v, 0.3, 1e-5), (IMAGE, W, MEAN, VAR)),
    Case("updates in place are not lost", lambda x, m, v: ((m := m.clone()), (v := v.clone()), F.batch_norm(x, m, v, training=True)), (IMAGE, MEAN, VAR)),
    Case("result unused", lambda x, m, v: ((m := m.clone()), (v := v.clone()), F.batch_norm(x, m, v, training=True))[:2], (IMAGE, MEAN, VAR)),
    Case("instance_norm updates, too", lambda x, m, v: ((m := m.clone()), (v := v.clone()), F.instance_norm(x, m, v)), (IMAGE, MEAN, VAR)),
    Case("legit, no training", lambda x, m, v: aten._native_batch_norm_legit_functional(x, None, None, m, v, False, 0.3, 1e-5), (IMAGE, MEAN, VAR)),
]  # fmt: skip

GROUP = [
    *(Case(f"group_norm {d}", lambda x, w, b: F.group_norm(x, 2, w, b),
           (moved(2, 6, 4, 5, dtype=d), rand(6, dtype=d), rand(6, dtype=d)), decomposed=d in (F32, F64)) for d in FLOATS),
    *(Case(f"group_norm groups {g}", lambda x, g=g: F.group_norm(x, g), (moved(2, 6, 7),), decomposed=True) for g in (1, 3, 6)),
    Case("group_norm rank 2", lambda x, w: F.group_norm(x, 2, w), (moved(5, 6), rand(6))),
    Case("group_norm rank 5", lambda x: F.group_norm(x, 2, eps=0.01), (moved(2, 4, 3, 2, 2),)),
    Case("group_norm half, float32 weight", lambda x, w, b: F.group_norm(x, 2, w, b), (moved(2, 6, 4, dtype=HALF), rand(6), rand(6))),
    Case("native_group_norm", lambda x, w: aten.native_group_norm(x, w, None, 2, 6, 4, 3, 1e-5), (moved(2, 6, 4), rand(6))),
    Case("group_norm dynamic", nn.GroupNorm(2, 6), (moved(2, 6, 4, 5),), dynamic=({0: B, 2: T},),
         also=((moved(1, 6, 1, 5),), (moved(3, 6, 7, 5),)), decomposed=True),
    Case("instance_norm", lambda x, w, b: F.instance_norm(x, weight=w, bias=b), (IMAGE, W, BIAS), decomposed=True),
    Case("instance_norm half", lambda x: F.instance_norm(x, eps=0.01), (IMAGE.half(),), tolerance=ROUNDED),
    Case("InstanceNorm1d", nn.InstanceNorm1d(3, affine=True), (moved(2, 3, 7),)),
    Case("InstanceNorm3d running", trained(nn.InstanceNorm3d(3, affine=True, track_running_stats=True)), (moved(2, 3, 2, 3, 4),), decomposed=True),
    Case("InstanceNorm dynamic", nn.InstanceNorm2d(3), (IMAGE,), dynamic=({0: B, 3: T},), also=((moved(1, 3, 4, 2),), (moved(4, 3, 4, 9),))),
]  # fmt: skip

OTHERS = [
    *(Case(f"weight_norm dim {d}", lambda v, g, d=d: torch._weight_norm(v, g, d), (rand(4, 3, 5), g), decomposed=True)
      for d, g in ((0, rand(4, 1, 1)), (2, rand(1, 1, 5)), (-1, torch.tensor(2.0)))),
    Case("weight_norm half", lambda v, g: torch._weight_norm(v, g), (rand(4, 300, dtype=HALF) * 10, rand(4, 1, dtype=HALF))),
    Case("weight_norm module", nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)), (rand(2, 4),), decomposed=True),
    Case("weight_norm old module", nn.utils.weight_norm(nn.Linear(4, 3), dim=None), (rand(2, 4),)),
    Case("weight_norm interface", lambda v, g: aten._weight_norm_interface(v, g, 0), (rand(4, 3, 5), rand(4, 1, 1))),
    Case("norm_except_dim", lambda v: torch.norm_except_dim(v, 2, 1), (rand(4, 3, 5),)),
    Case("normalize", lambda x: F.normalize(x, dim=-1), (rand(3, 8),), decomposed=True),
    Case("normalize half", lambda x: F.normalize(x, dim=1), (rand(3, 8, dtype=HALF) * 1000,)),
    Case("normalize zeros", lambda x: F.normalize(x), (torch.zeros(2, 3),)),
    Case("local_response_norm", lambda x: F.local_response_norm(x, 3), (rand(2, 5, 4, 4),), decomposed=True),
    Case("local_response_norm 1-d", lambda x: F.local_response_norm(x, 2, 0.1, 0.5, 2.0), (rand(2, 5, 4),)),
    Case("spectral_norm", nn.utils.parametrizations.spectral_norm(nn.Linear(4, 3)), (rand(2, 4),)),
]  # fmt: skip


class Counter(nn.Module):
    """Training in two steps: the statistics after the first count for the second."""

    def __init__(self):
        super().__init__()
        self.norm = trained(nn.BatchNorm1d(3))

    def forward(self, x):
        return (
            self.norm(x),
            self.norm.running_mean + 0,
            self.norm.running_var + 0,
            self.norm.num_batches_tracked + 0,
        )


def test_training_updates_state():
    module = Counter().train()
    program = mlxify.convert(module, (moved(4, 3),))
    for seed in range(3):
        x = moved(4, 3, offset=float(seed))
        with torch.no_grad():
            compare(program(x), module(x))


@params(LAYER)
def test_layer_norm(case, tmp_path):
    check(case, tmp_path)


@params(RMS)
def test_rms_norm(case, tmp_path):
    check(case, tmp_path)


@params(BATCH)
def test_batch_norm(case, tmp_path):
    check(case, tmp_path)


@params(GROUP)
def test_group_norm(case, tmp_path):
    check(case, tmp_path)


@params(OTHERS)
def test_other_norms(case, tmp_path):
    check(case, tmp_path)
