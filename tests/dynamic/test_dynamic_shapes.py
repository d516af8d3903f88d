"""Every family of ops at dynamic sizes: one program, run at sizes other than the one it was exported with.

torch.export itself takes no dynamic size for some: the length of an RNN, linspace, kron, max_pool1d along its axis.
"""

from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from .rows import Row, check_row, integers, randn

ELEMENTWISE = [
    Row(
        "unary",
        lambda x: (x.exp(), x.abs().sqrt(), x.tanh().neg(), x.sign()),
        lambda n: (randn(n, 3),),
        compiled=True,
    ),
    Row(
        "binary of two",
        lambda x, y: (x * y + 1, x - y, torch.maximum(x, y), x / (y.abs() + 1)),
        lambda n: (randn(n, 3), randn(n, 3, seed=1)),
    ),
    Row(
        "broadcast to a dynamic axis",
        lambda x, y: x + y,
        lambda n: (randn(n, 1), randn(1, n, seed=1)),
        lambda n: ({0: n}, {1: n}),
    ),
    Row("with a static row", lambda x: x + torch.arange(3.0), lambda n: (randn(n, 3),)),
    Row("where and compare", lambda x: torch.where(x > 0, x, x * 0.1), lambda n: (randn(n, 4),)),
    Row("clamp", lambda x: x.clamp(-0.5, 0.5), lambda n: (randn(2, n),), lambda n: ({1: n},)),
    Row("integers", lambda x: (x // 3, x % 3, x << 1, x & 5), lambda n: (integers(50, n),)),
    Row("casts", lambda x: (x.half(), x.long(), x.bool(), x.double()), lambda n: (randn(n, 2) * 3,)),
    Row(
        "activations",
        lambda x: (F.gelu(x), F.silu(x), F.softplus(x), F.elu(x), F.hardswish(x)),
        lambda n: (randn(n, 2),),
    ),
    Row("glu", lambda x: F.glu(x, 0), lambda n: (randn(2 * n, 3),), lambda n: ({0: 2 * n},), low=2),
    Row(
        "lerp addcmul",
        lambda x, y: (torch.lerp(x, y, 0.3), torch.addcmul(x, x, y, value=2)),
        lambda n: (randn(n), randn(n, seed=1)),
    ),
]

REDUCTIONS = [
    Row(
        "sum mean",
        lambda x: (x.sum(), x.sum(0), x.mean(0), x.mean((0, 1)), x.sum(1, keepdim=True)),
        lambda n: (randn(n, 3),),
        compiled=True,
    ),
    Row("prod", lambda x: (x.prod(0), x.prod()), lambda n: (randn(n, 3),)),
    Row(
        "var std",
        lambda x: (x.var(0, correction=0), x.std((0, 1), correction=0), torch.var_mean(x, 0, correction=0)),
        lambda n: (randn(n, 3),),
    ),
    Row("var with correction", lambda x: (x.var(0), x.std(0)), lambda n: (randn(n, 3),), low=2),
    Row("max min", lambda x: (x.max(0), x.min(0), x.amax(0), x.amin(1), x.max()), lambda n: (randn(n, 3),)),
    Row("argmax argmin", lambda x: (x.argmax(0), x.argmin(0), x.argmax()), lambda n: (randn(n, 3),)),
    Row("any all", lambda x: ((x > 0).any(0), (x > 0).all(0), (x > 5).any()), lambda n: (randn(n, 3),)),
    Row("logsumexp", lambda x: x.logsumexp(0), lambda n: (randn(n, 3),)),
    Row(
        "norms",
        lambda x: (x.norm(dim=0), torch.linalg.vector_norm(x, 1, 0), x.norm()),
        lambda n: (randn(n, 3),),
    ),
    Row("median", lambda x: x.median(0), lambda n: (randn(n, 3),)),
    Row("quantile", lambda x: x.quantile(0.3, 0), lambda n: (randn(n, 3),)),
    Row("count_nonzero", lambda x: (x > 0).count_nonzero(0), lambda n: (randn(n, 3),)),
    Row("softmax", lambda x: (x.softmax(0), x.log_softmax(0)), lambda n: (randn(n, 3),), compiled=True),
    Row(
        "cosine similarity",
        lambda x, y: F.cosine_similarity(x, y, 0),
        lambda n: (randn(n, 3), randn(n, 3, seed=1)),
    ),
    Row(
        "losses",
        lambda x, y: (F.mse_loss(x, y), F.l1_loss(x, y, reduction="sum"), F.smooth_l1_loss(x, y)),
        lambda n: (randn(n, 3), randn(n, 3, seed=1)),
    ),
    Row("cross entropy", lambda x, y: F.cross_entropy(x, y), lambda n: (randn(n, 3), integers(3, n))),
]

SCANS = [
    Row("cumsum", lambda x: (x.cumsum(0), x.cumsum(1)), lambda n: (randn(n, 3),)),
    Row("cumprod cummax", lambda x: (x.cumprod(0), x.cummax(0), x.cummin(0)), lambda n: (randn(n, 3),)),
    Row("logcumsumexp", lambda x: x.logcumsumexp(0), lambda n: (randn(n, 3),)),
    Row("diff", lambda x: x.diff(dim=0), lambda n: (randn(n, 3),), low=3),
]

SORTS = [
    Row("sort", lambda x: (x.sort(0), x.argsort(0, descending=True)), lambda n: (randn(n, 3),)),
    Row("topk", lambda x: x.topk(2, 0), lambda n: (randn(n, 3),), low=2),
    Row("topk along a static axis", lambda x: x.topk(2), lambda n: (randn(n, 4),)),
    Row(
        "topk of a dynamic k",
        lambda x: x.topk(x.shape[0] // 2, 0),
        lambda n: (randn(2 * n, 2),),
        lambda n: ({0: 2 * n},),
        low=2,
    ),
    Row("kthvalue", lambda x: x.kthvalue(2, 0), lambda n: (randn(n, 3),), low=2),
]

VIEWS = [
    Row(
        "view with -1",
        lambda x: (x.view(-1), x.view(-1, 6), x.view(x.shape[0], -1)),
        lambda n: (randn(n, 2, 3),),
        compiled=True,
    ),
    Row("view of runtime sizes", lambda x: x.view(x.shape[0] * x.shape[1], -1), lambda n: (randn(n, 3, 4),)),
    Row(
        "view there and back",
        lambda x: x.view(x.shape[0] * x.shape[1], -1).view(x.shape),
        lambda n: (randn(n, 3, 4),),
    ),
    Row("reshape after a transpose", lambda x: x.transpose(0, 1).reshape(2, -1), lambda n: (randn(n, 2, 3),)),
    Row(
        "heads and back",
        lambda x: x.view(2, x.shape[1], 2, 4).transpose(1, 2).reshape(2, x.shape[1], 8),
        lambda n: (randn(2, n, 8),),
        lambda n: ({1: n},),
        low=3,
    ),
    Row("split an axis", lambda x: x.view(4, -1), lambda n: (randn(4 * n),), lambda n: ({0: 4 * n},), low=2),
    Row("flatten", lambda x: (x.flatten(), x.flatten(1), x.flatten(0, 1)), lambda n: (randn(n, 2, 3),)),
    Row("unflatten", lambda x: x.unflatten(1, (2, -1)), lambda n: (randn(n, 6),)),
    Row(
        "squeeze unsqueeze",
        lambda x: (x.unsqueeze(0), x[:, None], x.unsqueeze(-1).squeeze(-1)),
        lambda n: (randn(n, 3),),
    ),
    Row(
        "permute",
        lambda x: (x.permute(2, 0, 1), x.transpose(0, 2), x.movedim(0, 1), x.mT),
        lambda n: (randn(n, 2, 3),),
    ),
    Row("expand", lambda x: (x.expand(x.shape[0], 4), x.expand(3, -1, 2)), lambda n: (randn(n, 1),)),
    Row(
        "expand to a dynamic size",
        lambda x, y: y.expand(x.shape[0], -1),
        lambda n: (randn(n, 2), randn(1, 3)),
        lambda n: ({0: n}, None),
    ),
    Row(
        "expand_as broadcast_tensors",
        lambda x, y: (y.expand_as(x), *torch.broadcast_tensors(x, y)),
        lambda n: (randn(n, 3), randn(3)),
        lambda n: ({0: n}, None),
    ),
    Row("repeat", lambda x: (x.repeat(2, 1), x.repeat(2, 1, 3), x.tile(2)), lambda n: (randn(n, 3),)),
    Row(
        "repeat a dynamic number of times",
        lambda x, y: y.repeat(x.shape[0], 1),
        lambda n: (randn(n, 2), randn(2, 3)),
        lambda n: ({0: n}, None),
    ),
    Row(
        "repeat_interleave",
        lambda x: (x.repeat_interleave(2, 0), x.repeat_interleave(3, 1)),
        lambda n: (randn(n, 2),),
    ),
    Row("roll", lambda x: (x.roll(1, 0), x.roll((-2, 1), (0, 1)), x.roll(3)), lambda n: (randn(n, 3),)),
    Row("roll by half the size", lambda x: x.roll(x.shape[0] // 2, 0), lambda n: (randn(n, 3),)),
    Row("flip rot90", lambda x: (x.flip(0), x.flip(0, 1), x.rot90()), lambda n: (randn(n, 3),)),
    Row("unfold", lambda x: x.unfold(0, 3, 1), lambda n: (randn(n, 2),), low=4),
    Row(
        "unfold with a step",
        lambda x: x.unfold(1, 2, 2),
        lambda n: (randn(3, 2 * n),),
        lambda n: ({1: 2 * n},),
        low=2,
    ),
    Row(
        "im2col col2im",
        lambda x: F.unfold(x, 3, padding=1),
        lambda n: (randn(1, 2, n, 4),),
        lambda n: ({2: n},),
    ),
    Row(
        "diagonal",
        lambda x: (x.diagonal(), x.diagonal(1), x.diag_embed()),
        lambda n: (randn(n, n),),
        lambda n: ({0: n, 1: n},),
        low=3,
    ),
    Row(
        "pixel shuffle",
        lambda x: (F.pixel_shuffle(x, 2), F.pixel_unshuffle(F.pixel_shuffle(x, 2), 2)),
        lambda n: (randn(1, 4, n, 3),),
        lambda n: ({2: n},),
    ),
    Row(
        "meshgrid",
        lambda x, y: torch.meshgrid(x, y, indexing="ij"),
        lambda n: (randn(n), randn(3)),
        lambda n: ({0: n}, None),
    ),
]

SLICES = [
    Row(
        "slices",
        lambda x: (x[1:], x[:-1], x[::2], x[-3:], x[1:4]),
        lambda n: (randn(n, 3),),
        low=4,
        compiled=True,
    ),
    Row(
        "slice to half the size",
        lambda x: (x[: x.shape[0] // 2], x[x.shape[0] // 2 :]),
        lambda n: (randn(2 * n, 3),),
        lambda n: ({0: 2 * n},),
        low=2,
    ),
    Row(
        "slice to another's size",
        lambda x, y: y[: x.shape[0]],
        lambda n: (randn(n), randn(20, 2)),
        lambda n: ({0: n}, None),
    ),
    Row("select", lambda x: (x[0], x[-1], x[x.shape[0] // 2]), lambda n: (randn(n, 3),), low=2, auto=True),
    Row(
        "narrow",
        lambda x: (x.narrow(0, 1, 2), x.narrow(0, 0, x.shape[0] - 1)),
        lambda n: (randn(n, 3),),
        low=3,
    ),
    Row(
        "narrow by a dynamic length",
        lambda x, y: y.narrow(0, 2, x.shape[0]),
        lambda n: (randn(n), randn(20, 2)),
        lambda n: ({0: n}, None),
    ),
    Row("split", lambda x: x.split(2, 1), lambda n: (randn(n, 5),)),
    Row(
        "split a dynamic axis",
        lambda x: x.split(x.shape[0] // 2),
        lambda n: (randn(2 * n, 2),),
        lambda n: ({0: 2 * n},),
        low=2,
    ),
    Row("split with sizes", lambda x: x.split([2, x.shape[0] - 2]), lambda n: (randn(n, 2),), low=4),
    Row("chunk", lambda x: x.chunk(2, 0), lambda n: (randn(2 * n, 3),), lambda n: ({0: 2 * n},), low=2),
    Row("chunk a static axis", lambda x: x.chunk(3, -1), lambda n: (randn(n, 6),)),
    Row("unbind", lambda x: x.unbind(1), lambda n: (randn(n, 3),)),
    Row("tensor_split", lambda x: x.tensor_split(3, 1), lambda n: (randn(n, 7),)),
    Row(
        "cat",
        lambda x, y: (torch.cat([x, y]), torch.cat([x, x, y[:1]])),
        lambda n: (randn(n, 3), randn(2, 3)),
        lambda n: ({0: n}, None),
        compiled=True,
    ),
    Row("stack", lambda x: (torch.stack([x, x + 1]), torch.stack([x, x], -1)), lambda n: (randn(n, 3),)),
    Row("hstack vstack", lambda x: (torch.hstack([x, x]), torch.vstack([x, x])), lambda n: (randn(n, 3),)),
]

CREATION = [
    Row(
        "arange",
        lambda x: (torch.arange(x.shape[0]), torch.arange(1, x.shape[0] + 1, dtype=torch.float32)),
        lambda n: (randn(n),),
        compiled=True,
    ),
    Row(
        "arange with a step",
        lambda x: (torch.arange(0, x.shape[0], 2), torch.arange(x.shape[0], 0, -1)),
        lambda n: (randn(n),),
        low=3,
    ),
    Row(
        "arange of floats",
        lambda x: (torch.arange(0, x.shape[0], 0.5), torch.arange(x.shape[0] / 2)),
        lambda n: (randn(n),),
        low=3,
    ),
    Row(
        "full zeros ones",
        lambda x: (torch.full((x.shape[0], 2), 7.0), torch.zeros(x.shape), torch.ones(2, x.shape[0])),
        lambda n: (randn(n),),
    ),
    Row(
        "full of a size",
        lambda x: (torch.full((3,), x.shape[0]), x.new_full((2,), x.shape[0] / 2)),
        lambda n: (randn(n),),
    ),
    Row(
        "like",
        lambda x: (torch.zeros_like(x), torch.full_like(x, 3), x.new_zeros(x.shape[0], 2)),
        lambda n: (randn(n),),
    ),
    Row("positions from 0 to 1", lambda x: torch.arange(x.shape[0]) / x.shape[0], lambda n: (randn(n),)),
    Row("eye", lambda x: torch.eye(x.shape[0]), lambda n: (randn(n),)),
    Row("one_hot", lambda x: F.one_hot(x, 6), lambda n: (integers(6, n),)),
    Row(
        "tril triu",
        lambda x: (x.tril(), x.triu(1), torch.ones(x.shape[0], x.shape[0]).tril()),
        lambda n: (randn(n, n),),
        lambda n: ({0: n, 1: n},),
    ),
    Row("a tensor of sizes", lambda x: torch.tensor([x.shape[0], 2]), lambda n: (randn(n),)),
]

PADDING = [
    Row(
        "pad constant",
        lambda x: (F.pad(x, (1, 2)), F.pad(x, (0, 0, 2, 1), value=3.0), F.pad(x, (-1, 0))),
        lambda n: (randn(n, 4),),
    ),
    Row(
        "pad to a multiple",
        lambda x: F.pad(x, (0, (-x.shape[1]) % 4)),
        lambda n: (randn(2, n),),
        lambda n: ({1: n},),
    ),
    Row(
        "pad to a fixed length",
        lambda x: F.pad(x, (0, 16 - x.shape[1])),
        lambda n: (randn(2, n),),
        lambda n: ({1: n},),
    ),
    Row(
        "pad reflect",
        lambda x: F.pad(x, (1, 2), mode="reflect"),
        lambda n: (randn(1, 2, n),),
        lambda n: ({2: n},),
        low=3,
    ),
    Row(
        "pad replicate",
        lambda x: F.pad(x, (1, 2), mode="replicate"),
        lambda n: (randn(1, 2, n),),
        lambda n: ({2: n},),
    ),
    Row(
        "pad circular",
        lambda x: F.pad(x, (1, 1), mode="circular"),
        lambda n: (randn(1, 2, n),),
        lambda n: ({2: n},),
        low=2,
    ),
    Row(
        "pad reflect 2d",
        lambda x: F.pad(x, (1, 1, 2, 1), mode="reflect"),
        lambda n: (randn(1, 2, n, 4),),
        lambda n: ({2: n},),
        low=3,
    ),
    Row(
        "pad replicate 2d",
        lambda x: F.pad(x, (1, 1, 2, 1), mode="replicate"),
        lambda n: (randn(1, 2, n, 4),),
        lambda n: ({2: n},),
    ),
]

INDEXING = [
    Row("gather", lambda x, i: x.gather(0, i), lambda n: (randn(n, 3), integers(n, n, 3)), compiled=True),
    Row(
        "index by a tensor",
        lambda x, i: (x[i], x[:, i % 3], x.index_select(0, i)),
        lambda n: (randn(n, 3), integers(n, n)),
    ),
    Row(
        "index by aranges",
        lambda x: x[torch.arange(x.shape[0]), torch.arange(x.shape[0]) % 3],
        lambda n: (randn(n, 3),),
    ),
    Row("gather by argsort", lambda x: x.gather(1, x.argsort(1)), lambda n: (randn(n, 3),)),
    Row(
        "scatter",
        lambda x, i: (torch.zeros_like(x).scatter(0, i, x), x.scatter_add(0, i, x)),
        lambda n: (randn(n, 3), torch.arange(n).flip(0)[:, None].expand(n, 3).contiguous()),
    ),
    Row(
        "index_add index_copy",
        lambda x, i: (x.index_add(0, i, x), x.index_copy(0, i, x)),
        lambda n: (randn(n, 3), torch.arange(n).flip(0)),
    ),
    Row("masked_fill", lambda x: x.masked_fill(x > 0, -1.0), lambda n: (randn(n, 3),)),
    Row("index_put", lambda x, i: x.index_put((i,), x), lambda n: (randn(n, 3), torch.arange(n).flip(0))),
    Row(
        "embedding",
        torch.nn.Embedding(10, 4),
        lambda n: (integers(10, 2, n),),
        lambda n: ({1: n},),
        compiled=True,
    ),
    Row(
        "searchsorted bucketize",
        lambda x: (
            torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])),
            torch.searchsorted(x.sort().values, x),
        ),
        lambda n: (randn(n),),
    ),
    Row(
        "slice_scatter select_scatter",
        lambda x: (x.slice_scatter(x[1:] * 2, 0, 1), x.select_scatter(x[1], 0, 0)),
        lambda n: (randn(n, 3),),
        low=3,
    ),
    Row("in-place slice", lambda x: _in_place(x), lambda n: (randn(n, 3),), low=3),
]


def _in_place(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[1:] += 1
    y[:, 0] = x.shape[0]
    return y


MATRICES = [
    Row(
        "matmul",
        lambda x, y: (x @ y, y @ x, x @ x.mT),
        lambda n: (randn(n, 3), randn(3, n)),
        lambda n: ({0: n}, {1: n}),
        compiled=True,
    ),
    Row("batched matmul", lambda x, y: x @ y, lambda n: (randn(n, 2, 3), randn(n, 3, 2)), compiled=True),
    Row(
        "matmul with a vector",
        lambda x, y: (x @ y, y @ x.mT),
        lambda n: (randn(n, 3), randn(3)),
        lambda n: ({0: n}, None),
    ),
    Row(
        "einsum",
        lambda x, y: (torch.einsum("bij,bjk->bik", x, y), torch.einsum("bij->bj", x)),
        lambda n: (randn(2, n, 3), randn(2, 3, n)),
        lambda n: ({1: n}, {2: n}),
    ),
    Row("linear", torch.nn.Linear(3, 4), lambda n: (randn(2, n, 3),), lambda n: ({1: n},)),
    Row("outer", lambda x: torch.outer(x, x), lambda n: (randn(n),)),
    Row("cdist", lambda x: torch.cdist(x, x), lambda n: (randn(n, 3),), tolerance=(1e-4, 1e-3)),
    Row(
        "addmm baddbmm",
        lambda x, y: (torch.addmm(x, x, y), torch.baddbmm(x[None], x[None], y[None], alpha=0.5)),
        lambda n: (randn(n, 3), randn(3, 3)),
        lambda n: ({0: n}, None),
    ),
]

NORMS = [
    Row("layer_norm", torch.nn.LayerNorm(4), lambda n: (randn(2, n, 4),), lambda n: ({1: n},), compiled=True),
    Row("rms_norm", torch.nn.RMSNorm(4), lambda n: (randn(2, n, 4),), lambda n: ({1: n},)),
    Row(
        "layer_norm over a dynamic axis",
        lambda x: F.layer_norm(x, x.shape[1:]),
        lambda n: (randn(2, n, 3),),
        lambda n: ({1: n},),
        tolerance=(1e-4, 1e-5),
    ),
    Row("group_norm", torch.nn.GroupNorm(2, 4), lambda n: (randn(2, 4, n, 3),), lambda n: ({2: n},)),
    Row("batch_norm", torch.nn.BatchNorm2d(3), lambda n: (randn(2, 3, n, 2),), lambda n: ({2: n},)),
    Row(
        "instance_norm",
        torch.nn.InstanceNorm1d(3),
        lambda n: (randn(2, 3, n),),
        lambda n: ({2: n},),
        low=2,
        tolerance=(1e-4, 1e-5),
    ),
    Row("normalize", lambda x: (F.normalize(x, dim=0), F.normalize(x, dim=1)), lambda n: (randn(n, 3),)),
    Row(
        "local response norm", torch.nn.LocalResponseNorm(2), lambda n: (randn(1, 4, n),), lambda n: ({2: n},)
    ),
]

CONVOLUTIONS = [
    Row(
        "conv1d",
        torch.nn.Conv1d(2, 4, 3, padding=1),
        lambda n: (randn(1, 2, n),),
        lambda n: ({2: n},),
        compiled=True,
    ),
    Row(
        "conv1d same",
        torch.nn.Conv1d(2, 4, 4, padding="same"),
        lambda n: (randn(1, 2, n),),
        lambda n: ({2: n},),
    ),
    Row(
        "conv1d without padding",
        torch.nn.Conv1d(2, 4, 3),
        lambda n: (randn(1, 2, n),),
        lambda n: ({2: n},),
        low=4,
    ),
    Row(
        "conv1d strided",
        torch.nn.Conv1d(2, 4, 3, stride=2, padding=1),
        lambda n: (randn(1, 2, n),),
        lambda n: ({2: n},),
        low=3,
    ),
    Row(
        "conv1d reflect",
        torch.nn.Conv1d(2, 4, 3, padding=1, padding_mode="reflect"),
        lambda n: (randn(1, 2, n),),
        lambda n: ({2: n},),
        low=3,
    ),
    Row("conv2d", torch.nn.Conv2d(2, 4, 3, padding=1), lambda n: (randn(2, 2, n, 5),), lambda n: ({2: n},)),
    Row("conv2d of a dynamic batch", torch.nn.Conv2d(2, 4, 3, stride=2), lambda n: (randn(n, 2, 5, 5),)),
    Row(
        "conv2d groups dilation",
        torch.nn.Conv2d(4, 4, 3, groups=2, dilation=2, padding=2),
        lambda n: (randn(1, 4, n, 5),),
        lambda n: ({2: n},),
    ),
    Row(
        "conv3d", torch.nn.Conv3d(2, 2, 3, padding=1), lambda n: (randn(1, 2, n, 3, 3),), lambda n: ({2: n},)
    ),
    Row(
        "conv_transpose1d",
        torch.nn.ConvTranspose1d(2, 3, 4, stride=2, padding=1),
        lambda n: (randn(1, 2, n),),
        lambda n: ({2: n},),
    ),
    Row(
        "conv_transpose2d",
        torch.nn.ConvTranspose2d(2, 3, 3, stride=2, padding=1, output_padding=1),
        lambda n: (randn(1, 2, n, 3),),
        lambda n: ({2: n},),
    ),
]

POOLS = [
    Row(
        "max_pool2d",
        torch.nn.MaxPool2d(3, 1, 1),
        lambda n: (randn(1, 2, n, 5),),
        lambda n: ({2: n},),
        compiled=True,
    ),
    Row(
        "max_pool2d strided",
        torch.nn.MaxPool2d(2),
        lambda n: (randn(1, 2, 2 * n, 4),),
        lambda n: ({2: 2 * n},),
        low=2,
    ),
    Row(
        "max_pool2d ceil",
        torch.nn.MaxPool2d(3, 2, 1, ceil_mode=True),
        lambda n: (randn(1, 2, n, 5),),
        lambda n: ({2: n},),
        low=3,
        auto=True,
    ),
    Row("max_pool1d of a dynamic batch", torch.nn.MaxPool1d(3, 2), lambda n: (randn(n, 2, 9),)),
    Row("avg_pool1d", torch.nn.AvgPool1d(3, 1, 1), lambda n: (randn(1, 2, n),), lambda n: ({2: n},)),
    Row(
        "avg_pool2d",
        torch.nn.AvgPool2d(3, 2, 1, count_include_pad=False),
        lambda n: (randn(1, 2, n, 5),),
        lambda n: ({2: n},),
        low=3,
    ),
    Row(
        "avg_pool2d ceil",
        torch.nn.AvgPool2d(3, 2, 1, ceil_mode=True),
        lambda n: (randn(1, 2, n, 5),),
        lambda n: ({2: n},),
        low=3,
        auto=True,
    ),
    Row(
        "adaptive_avg_pool to 1",
        torch.nn.AdaptiveAvgPool2d(1),
        lambda n: (randn(1, 2, n, 5),),
        lambda n: ({2: n},),
    ),
    Row(
        "adaptive_avg_pool1d to 1",
        torch.nn.AdaptiveAvgPool1d(1),
        lambda n: (randn(1, 2, n),),
        lambda n: ({2: n},),
    ),
    Row(
        "adaptive_avg_pool to many",
        torch.nn.AdaptiveAvgPool2d((3, 2)),
        lambda n: (randn(1, 2, n, 5),),
        lambda n: ({2: n},),
    ),
    Row(
        "adaptive_max_pool",
        torch.nn.AdaptiveMaxPool2d(1),
        lambda n: (randn(1, 2, n, 5),),
        lambda n: ({2: n},),
    ),
    Row(
        "global pooling by mean",
        lambda x: (x.mean((2, 3)), x.amax((2, 3))),
        lambda n: (randn(1, 2, n, 5),),
        lambda n: ({2: n},),
    ),
]

RESAMPLING = [
    Row(
        "interpolate nearest by scale",
        lambda x: F.interpolate(x, scale_factor=2),
        lambda n: (randn(1, 2, n, 3),),
        lambda n: ({2: n},),
        compiled=True,
    ),
    Row(
        "interpolate bilinear by scale",
        lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
        lambda n: (randn(1, 2, n, 3),),
        lambda n: ({2: n},),
    ),
    Row(
        "interpolate linear aligned",
        lambda x: F.interpolate(x, scale_factor=3, mode="linear", align_corners=True),
        lambda n: (randn(1, 2, n),),
        lambda n: ({2: n},),
    ),
    Row(
        "interpolate bicubic",
        lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"),
        lambda n: (randn(1, 2, n, 3),),
        lambda n: ({2: n},),
        tolerance=(1e-4, 1e-5),
    ),
    Row(
        "interpolate to a fixed size",
        lambda x: (F.interpolate(x, size=(7, 4)), F.interpolate(x, size=(7, 4), mode="bilinear")),
        lambda n: (randn(1, 2, n, 3),),
        lambda n: ({2: n},),
    ),
    Row(
        "interpolate to another's size",
        lambda x, y: (
            F.interpolate(y, size=x.shape[2:]),
            F.interpolate(y, size=x.shape[2:], mode="bilinear"),
        ),
        lambda n: (randn(1, 1, n, 3), randn(1, 2, 4, 5)),
        lambda n: ({2: n}, None),
    ),
    Row(
        "interpolate nearest fractional",
        lambda x: F.interpolate(x, scale_factor=2.5),
        lambda n: (randn(1, 2, n),),
        lambda n: ({2: n},),
    ),
    Row(
        "grid_sample",
        lambda x, g: F.grid_sample(x, g.tanh(), align_corners=False),
        lambda n: (randn(1, 2, n, 4), randn(1, n, 3, 2)),
        lambda n: ({2: n}, {1: n}),
    ),
    Row(
        "affine_grid of a dynamic batch",
        lambda t: F.affine_grid(t, [t.shape[0], 2, 4, 3], align_corners=False),
        lambda n: (randn(n, 2, 3),),
    ),
]


class Positional(torch.nn.Module):
    """Sines and cosines cut to the sequence, learned positions, relative positions."""

    def __init__(self) -> None:
        super().__init__()
        angle = torch.arange(64)[:, None] / 100 ** (torch.arange(4) / 4)
        self.register_buffer("table", torch.cat([angle.sin(), angle.cos()], 1))
        self.learned = torch.nn.Embedding(64, 8)
        self.relative = torch.nn.Embedding(9, 2)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        length = x.shape[1]
        position = torch.arange(length)
        y = x + self.table[:length] + self.learned(position)
        distance = (position[None, :] - position[:, None]).clamp(-4, 4) + 4
        return y, self.relative(distance).permute(2, 0, 1)


class Alibi(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        length = x.shape[1]
        slopes = 2.0 ** -torch.arange(1, 3)
        distance = torch.arange(length)[None, :] - torch.arange(length)[:, None]
        return slopes[:, None, None] * distance


class Rope(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        frequencies = 1.0 / 100 ** (torch.arange(0, 8, 2) / 8)
        angles = torch.outer(torch.arange(x.shape[2]).float(), frequencies)
        cos, sin = torch.cat([angles.cos()] * 2, -1), torch.cat([angles.sin()] * 2, -1)
        half = torch.cat([-x[..., 4:], x[..., :4]], -1)
        return x * cos + half * sin


def causal(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    length = x.shape[1]
    mask = torch.full((length, length), float("-inf")).triu(1)
    window = torch.ones(length, length, dtype=torch.bool).tril().triu(-3)
    return (
        mask,
        window,
        (x @ x.mT + mask).softmax(-1),
        torch.arange(length)[None] <= torch.arange(length)[:, None],
    )


def padded(x: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, ...]:
    keep = torch.arange(x.shape[1])[None] < lengths[:, None]
    bias = (1.0 - keep[:, None, None].float()) * torch.finfo(torch.float32).min
    return keep, bias, (x * keep[..., None]).sum(1) / keep.sum(1, keepdim=True)


def sdpa(q: torch.Tensor, k: torch.Tensor) -> tuple[torch.Tensor, ...]:
    mask = torch.arange(k.shape[2])[None] <= torch.arange(q.shape[2])[:, None] + 1
    attention = F.scaled_dot_product_attention
    return attention(q, k, k), attention(q, k, k, is_causal=True), attention(q, k, k, attn_mask=mask)


ATTENTION = [
    Row(
        "positional encodings", Positional(), lambda n: (randn(2, n, 8),), lambda n: ({1: n},), compiled=True
    ),
    Row("alibi", Alibi(), lambda n: (randn(2, n, 8),), lambda n: ({1: n},)),
    Row("rope", Rope(), lambda n: (randn(1, 2, n, 8),), lambda n: ({2: n},), compiled=True),
    Row("causal masks", causal, lambda n: (randn(2, n, 4),), lambda n: ({1: n},), compiled=True),
    Row("padding masks", padded, lambda n: (randn(2, n, 3), torch.tensor([1, n])), lambda n: ({1: n}, None)),
    Row(
        "sdpa",
        sdpa,
        lambda n: (randn(1, 2, n, 8), randn(1, 2, n, 8, seed=1)),
        lambda n: ({2: n}, {2: n}),
        compiled=True,
    ),
    Row(
        "multihead attention",
        torch.nn.MultiheadAttention(8, 2, batch_first=True),
        lambda n: (randn(2, n, 8),) * 3,
        lambda n: ({1: n},) * 3,
    ),
    Row(
        "transformer encoder layer",
        torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
        lambda n: (randn(2, n, 8),),
        lambda n: ({1: n},),
    ),
]

RECURRENT = [
    Row(
        "lstm of a dynamic batch",
        torch.nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True),
        lambda n: (randn(n, 6, 3),),
    ),
    Row("gru of a dynamic batch", torch.nn.GRU(3, 4, batch_first=True), lambda n: (randn(n, 6, 3),)),
    Row("rnn of a dynamic batch", torch.nn.RNN(3, 4), lambda n: (randn(6, n, 3),), lambda n: ({1: n},)),
]

OTHERS = [
    Row(
        "fft",
        lambda x: (torch.fft.rfft(x), torch.fft.irfft(torch.fft.rfft(x), n=x.shape[1])),
        lambda n: (randn(2, n),),
        lambda n: ({1: n},),
        low=2,
        auto=True,
    ),
    Row(
        "stft",
        lambda x: torch.stft(x, 16, 4, window=torch.hann_window(16), return_complex=True).abs(),
        lambda n: (randn(1, 16 * n),),
        lambda n: ({1: 16 * n},),
        low=2,
        tolerance=(1e-4, 1e-5),
    ),
    Row("dropout in eval", torch.nn.Dropout(0.5), lambda n: (randn(n, 2),)),
    Row("complex", lambda x: torch.view_as_real(torch.view_as_complex(x) * 1j), lambda n: (randn(n, 3, 2),)),
]

ROWS = [
    *ELEMENTWISE, *REDUCTIONS, *SCANS, *SORTS, *VIEWS, *SLICES, *CREATION, *PADDING, *INDEXING, *MATRICES, *NORMS,
    *CONVOLUTIONS, *POOLS, *RESAMPLING, *ATTENTION, *RECURRENT, *OTHERS,
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_one_program_for_all_sizes(row: Row, tmp_path: Path) -> None:
    check_row(row, tmp_path)
