"""Zero padding and batch norms around convolutions, and transposes that cancel along a chain of them."""

from collections import Counter

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

import mlxify
from mlxify.program import refs

from ..ops.harness import Case, check_program
from .harness import Hit, Miss, check_hit, check_miss, exported, module_of, rows

torch.manual_seed(0)
W1, W1_OF_5, W2 = torch.randn(3, 4, 3), torch.randn(3, 5, 3), torch.randn(3, 4, 3, 3)
CLASSES = {1: (nn.Conv1d, nn.BatchNorm1d), 2: (nn.Conv2d, nn.BatchNorm2d), 3: (nn.Conv3d, nn.BatchNorm3d)}


def image(rank=2, channels=4, size=9, dtype=torch.float32):
    return torch.randn(2, channels, *[size] * rank, dtype=dtype)


class Block(nn.Module):
    """Convolution and batch norm with statistics of their own. before, between, after: what else is done."""

    def __init__(self, rank=2, before=None, between=None, after=None, affine=True, eps=1e-3, **settings):
        super().__init__()
        convolution, norm = CLASSES[rank]
        self.conv = convolution(4, 6, **{"kernel_size": 3, **settings})
        self.norm = norm(6, eps=eps, affine=affine)
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.1, 2)
        if affine:
            nn.init.normal_(self.norm.weight)
            nn.init.normal_(self.norm.bias)
        self.steps = before, between, after

    def forward(self, x):
        before, between, after = self.steps
        x = self.conv(x if before is None else before(x))
        x = self.norm(x if between is None else between(x))
        return x if after is None else after(x)


def padded(*widths, value=0.0, mode="constant"):
    return lambda x: F.pad(x, widths, mode, value) if mode == "constant" else F.pad(x, widths, mode)


# Of 36 products and more, scaled before they are added up and not after.
SCALED = (1e-5, 1e-5)


def hit(name, module, x, fusion="convolution_and_batch_norm", gone=(), **options):
    tolerance = SCALED if "norm" in fusion else None
    return Hit(Case(name, module, (x,), tolerance, **options), fusion, ("conv",), gone)


HITS = [
    *(hit(f"{n}d", Block(n), image(n)) for n in (1, 2, 3)),
    hit("no bias", Block(bias=False), image()),
    hit("no weight of the norm", Block(affine=False), image()),
    hit("stride, padding, dilation, groups", Block(stride=2, padding=1, dilation=2, groups=2), image()),
    hit("padding same", Block(padding="same", kernel_size=4), image()),
    hit("in place behind it", Block(after=lambda x: F.relu6(x, inplace=True)), image()),
    hit("padded before", Block(before=padded(0, 1, 2, 1), stride=2), image(), gone=("pad",)),
    hit("cut off before, and padded", Block(before=padded(-1, 1, 0, 0), padding=1), image()),
    hit("not a batch", Block(before=lambda x: x), image(), compiled=True),
    hit("dynamic", Block(padding=1), image(), dynamic=({0: Dim("b"), 2: Dim("h", min=4)},), also=((image()[:1, :, :5],),)),
    hit("padding alone", lambda x: F.conv2d(F.pad(x, (1, 2)), W2, padding=1), image(), "padded_convolution", ("pad",)),
    hit("padding of one axis, half", lambda x: F.conv1d(F.pad(x, (2, 0)), W1.half()), image(1).half(), "padded_convolution", ("pad",)),
    hit("cut off", lambda x: F.conv1d(F.pad(x, (-1, 2)), W1), image(1), "padded_convolution", ("pad",)),
]  # fmt: skip


def miss(name, reason, module, x, fusion="convolution_and_batch_norm", tolerance=None):
    return Miss(Case(name, module, (x,), tolerance), fusion, reason)


def twice(x):
    return x + 1


MISSES = [
    miss("half precision", "rounds between", Block().half(), image().half(), tolerance=(8e-3, 8e-3)),  # two roundings of values near 4
    miss("something between", "", Block(between=twice), image(), tolerance=SCALED),
    miss("eps of 0", "eps is not a positive number", Block(eps=0.0), image(), tolerance=SCALED),
    miss("padded with ones", "not with zeros", lambda x: F.conv1d(F.pad(x, (1, 1), value=1.0), W1), image(1), "padded_convolution"),
    miss("reflected", "", lambda x: F.conv1d(F.pad(x, (1, 1), "reflect"), W1), image(1), "padded_convolution"),
    miss("channels padded", "not only the axes", lambda x: F.conv1d(F.pad(x, (1, 1, 0, 1)), W1_OF_5), image(1), "padded_convolution"),
    miss("cut off and padded with zeros", "cuts off", lambda x: F.conv1d(F.pad(x, (-1, 2)), W1, padding=1), image(1), "padded_convolution"),
    miss("padding same", "is 'same'", lambda x: F.conv1d(F.pad(x, (1, 1)), W1, padding="same"), image(1), "padded_convolution"),
    miss("the padded array is used again", "used elsewhere", lambda x: (lambda y: (F.conv1d(y, W1), y))(F.pad(x, (1, 1))), image(1), "padded_convolution"),
]  # fmt: skip


@rows(HITS)
def test_fused(row, tmp_path):
    check_hit(row, tmp_path)


@rows(MISSES)
def test_not_fused(row, tmp_path):
    check_miss(row, tmp_path)


def chain(middle):
    """Two convolutions with something between."""
    torch.manual_seed(1)
    first, second = nn.Conv2d(4, 6, 3, padding=1), nn.Conv2d(6, 4, 3, padding=1)

    class Chain(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = first, second

        def forward(self, x):
            return self.second(middle(self.first(x)))

    return Chain()


C = torch.randn(6, 1, 1)
# By what is between two convolutions: the transposes on the way of the activations, and not of the weights.
CANCEL = {
    "nothing": (lambda x: x, 2),
    "relu": (F.relu, 2),
    "silu": (F.silu, 2),
    "gelu": (F.gelu, 2),
    "hardswish": (F.hardswish, 2),
    "a vector": (lambda x: x * C + 1, 2),
    "a 0-d array": (lambda x: x * torch.tensor(2.0), 2),
    "where": (lambda x: torch.where(x > 0, x, 0.1 * x), 2),
    "pool": (lambda x: F.max_pool2d(x, 2), 2),
    "average pool": (lambda x: F.avg_pool2d(x, 3, 1, 1), 2),
    "upsample": (lambda x: F.interpolate(x, scale_factor=2, mode="nearest"), 2),
    "padding": (lambda x: F.pad(x, (1, 2, 0, 1), value=3.0), 2),
    "a slice": (lambda x: x[:, :, 1:, ::2], 2),
    "parts put together": (lambda x: torch.cat([x[:, :2], x[:, 2:] * 2], 1), 2),
    "squeeze and excite": (lambda x: x * x.mean((2, 3), keepdim=True).sigmoid(), 2),
    "a sum with itself": (lambda x: x + F.relu(x), 2),
    "the mean over channels": (lambda x: x - x.mean(1, keepdim=True), 2),
    "the largest of the rows": (lambda x: x + x.amax(-2, keepdim=True), 2),
    "channels last and back": (lambda x: F.relu(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2), 2),
    "an array in the other order": (lambda x: x + torch.arange(81.0).view(9, 9), 2),
}


@pytest.mark.parametrize("name", CANCEL)
def test_transposes_cancel(name, tmp_path):
    middle, wanted = CANCEL[name]
    case = Case(name, chain(middle), (image(),), (1e-5, 1e-5))  # two convolutions in a row
    program = mlxify.convert(exported(case))
    method = program.graph.methods["forward"]
    instrs = list(method.all_instrs())
    known = set(method.weights)
    for instr in instrs:  # what depends on weights alone is computed at load
        if set(refs(instr.args)) <= known:
            known.update(instr.outputs)
    left = [i for i in instrs if i.op == "transpose" and not set(i.outputs) <= known]
    assert len(left) == wanted, Counter(i.op for i in instrs)
    check_program(case, module_of(case), program, tmp_path)


def test_transposes_that_keep_rows_whole_stay():
    """Heads are moved before attention: what follows is computed after it, on rows of the last axis."""

    def heads(x):
        return (x.view(2, 5, 2, 4).transpose(1, 2) * 0.5).exp()

    ops = [
        i.op
        for i in mlxify.convert(module_of(Case("", heads, ())), (torch.randn(2, 5, 8),))
        .graph.methods["forward"]
        .instrs
    ]
    assert ops.index("transpose") < ops.index("multiply") < ops.index("exp")
