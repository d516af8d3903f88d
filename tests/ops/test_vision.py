"""torchvision's ops, beside plain loops: torchvision itself is not needed."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

import mlxify

from .harness import Case, check, params
from .values import NAN

NMS = "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
ROI_ALIGN = (
    "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "int sampling_ratio, bool aligned) -> Tensor"
)
DEFORM = (
    "deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, "
    "SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, "
    "SymInt offset_groups, bool use_mask) -> Tensor"
)


def bilinear(image, y, x):
    """An image at a place, its elements weighed by nearness; zeros around it."""
    total = 0.0
    for i, j in [(math.floor(y) + a, math.floor(x) + b) for a in (0, 1) for b in (0, 1)]:
        if 0 <= i < image.shape[0] and 0 <= j < image.shape[1]:
            total += image[i, j] * (1 - abs(y - i)) * (1 - abs(x - j))
    return total


def nms(boxes, scores, threshold):
    def area(b):
        return (b[2] - b[0]) * (b[3] - b[1])

    kept = []
    for i in torch.sort(scores, stable=True, descending=True).indices.tolist():
        a = boxes[i].double().tolist()
        for k in kept:
            b = boxes[k].double().tolist()
            common = max(min(a[2], b[2]) - max(a[0], b[0]), 0) * max(min(a[3], b[3]) - max(a[1], b[1]), 0)
            if common / (area(a) + area(b) - common) > threshold:
                break
        else:
            kept.append(i)
    return torch.tensor(kept, dtype=torch.int64)


def roi_align(x, rois, scale, height, width, ratio, aligned):
    image, shift = x.double().numpy(), 0.5 if aligned else 0.0
    out = np.zeros((len(rois), x.shape[1], height, width))
    for r, roi in enumerate(rois.double().tolist()):
        x1, y1, x2, y2 = (v * scale - shift for v in roi[1:])
        h, w = y2 - y1, x2 - x1
        if not aligned:
            h, w = max(h, 1), max(w, 1)
        for c, i, j in np.ndindex(out.shape[1:]):
            for a, b in np.ndindex(ratio, ratio):
                y = y1 + (i + (a + 0.5) / ratio) * h / height
                z = x1 + (j + (b + 0.5) / ratio) * w / width
                if -1 <= y <= x.shape[2] and -1 <= z <= x.shape[3]:
                    y, z = min(max(y, 0), x.shape[2] - 1), min(max(z, 0), x.shape[3] - 1)
                    out[r, c, i, j] += bilinear(image[int(roi[0]), c], y, z) / ratio**2
    return torch.from_numpy(out).to(x.dtype)


def deform_conv2d(x, weight, offset, mask, bias, sh, sw, ph, pw, dh, dw, groups, offset_groups, use_mask):
    image, kernel, moved = x.double().numpy(), weight.double().numpy(), offset.double().numpy()
    (n, c, _, _), (m, inner, kh, kw), (rows, columns) = x.shape, weight.shape, offset.shape[2:]
    out = np.zeros((n, m, rows, columns)) + bias.double().numpy()[:, None, None]
    for b, channel, i, j, p, q in np.ndindex(n, c, kh, kw, rows, columns):
        tap = (channel // (c // offset_groups)) * kh * kw + i * kw + j
        y = p * sh - ph + i * dh + moved[b, 2 * tap, p, q]
        z = q * sw - pw + j * dw + moved[b, 2 * tap + 1, p, q]
        value = bilinear(image[b, channel], y, z) * (mask[b, tap, p, q].item() if use_mask else 1)
        group = channel // inner
        outputs = range(group * (m // groups), (group + 1) * (m // groups))
        for o in outputs:
            out[b, o, p, q] += value * kernel[o, channel % inner, i, j]
    return torch.from_numpy(out).to(x.dtype)


def declare():
    """torchvision's schemas, with the loops above as their CPU kernels, unless torchvision is there."""
    if hasattr(torch.ops.torchvision, "nms"):
        return None
    library = torch.library.Library("torchvision", "DEF")
    for schema, kernel in ((NMS, nms), (ROI_ALIGN, roi_align), (DEFORM, deform_conv2d)):
        library.define(schema)
        library.impl(schema.split("(")[0], kernel, "CPU")

    @torch.library.register_fake("torchvision::nms", lib=library)
    def _(dets, scores, iou_threshold):
        return dets.new_empty(torch.library.get_ctx().new_dynamic_size(), dtype=torch.int64)

    @torch.library.register_fake("torchvision::roi_align", lib=library)
    def _(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned):
        return input.new_empty(rois.shape[0], input.shape[1], pooled_height, pooled_width)

    @torch.library.register_fake("torchvision::deform_conv2d", lib=library)
    def _(input, weight, offset, *_):
        return input.new_empty(input.shape[0], weight.shape[0], *offset.shape[2:])

    return library


LIBRARY = declare()
OPS = torch.ops.torchvision
torch.manual_seed(0)
X = torch.randn(2, 4, 7, 9)
ROIS = torch.tensor(
    [[0, 1, 2, 10, 12], [1, -3, 0, 5, 4], [0, 4, 4, 4, 4], [1, 0, 0, 40, 40], [1, 17, 13, 30, 30.0]]
)
corners = torch.rand(40, 2) * 10
BOXES = torch.cat([corners, corners + torch.rand(40, 2) * 8], 1)
SCORES = torch.rand(40)
TIES = (SCORES * 4).round()


def deform(name, groups=1, offset_groups=1, stride=(1, 1), padding=(0, 0), dilation=(1, 1), use_mask=True):
    rows, columns = (
        (n + 2 * p - d * 2 - 1) // s + 1 for n, s, p, d in zip((7, 9), stride, padding, dilation, strict=True)
    )
    args = (
        X,
        torch.randn(6, 4 // groups, 3, 3),
        torch.randn(2, 2 * offset_groups * 9, rows, columns) * 2,
        torch.rand(2, offset_groups * 9, rows, columns),
        torch.randn(6),
    )
    rest = (*stride, *padding, *dilation, groups, offset_groups, use_mask)
    return Case(
        name, lambda *a: OPS.deform_conv2d(*a, *rest), args, tolerance=(1e-4, 1e-4)
    )  # places differ by 1e-6


CASES = [
    *(Case(f"nms {t}", lambda b, s, t=t: OPS.nms(b, s, t), (BOXES, SCORES)) for t in (0.0, 0.3, 0.7)),
    Case("nms ties", lambda b, s: OPS.nms(b, s, 0.5), (BOXES, TIES)),
    Case("nms of nothing", lambda b, s: OPS.nms(b[:0], s[:0], 0.5), (BOXES, SCORES)),
    Case("nms NaN", lambda b, s: OPS.nms(b, s, 0.5), (BOXES, torch.where(SCORES < 0.2, NAN, SCORES))),
    Case("nms float64", lambda b, s: OPS.nms(b, s, 0.3), (BOXES.double(), SCORES.double())),
    *(
        Case(f"roi_align aligned={a}", lambda x, r, a=a: OPS.roi_align(x, r, 0.5, 3, 2, 2, a), (X, ROIS), tolerance=(1e-4, 1e-5))
        for a in (False, True)  # the mean of 4 samples with 4 weights each
    ),
    Case("roi_align adaptive", lambda x, r: OPS.roi_align(x, r, 0.5, 3, 2, -1, True), (X, ROIS), refused="sampling_ratio"),
    deform("deform_conv2d"),
    deform("deform_conv2d groups", groups=2, offset_groups=2, padding=(1, 2)),
    deform("deform_conv2d strides", stride=(2, 1), padding=(1, 1), dilation=(1, 2), use_mask=False),
]  # fmt: skip


class Detect(nn.Module):
    """The boxes that are left, with their scores."""

    def forward(self, boxes, scores):
        kept = OPS.nms(boxes, scores, 0.4)
        return boxes[kept], scores[kept] * 2


N = Dim("n", min=1, max=512)
DYNAMIC = [
    Case(
        "dynamic nms",
        Detect(),
        (BOXES, SCORES),
        dynamic=({0: N}, {0: N}),
        also=((BOXES[:1], SCORES[:1]), (BOXES[5:22], TIES[5:22])),
        compiled=True,
    ),
]


@params([*CASES, *DYNAMIC])
def test_vision(case, tmp_path):
    check(case, tmp_path)


def test_nms_is_named():
    assert "torchvision.nms.default" in mlxify.supported_ops()
    with pytest.raises(mlxify.MlxifyError, match="boxes"):
        mlxify.convert(_Wrong(), (torch.rand(4, 5), torch.rand(4)))


class _Wrong(nn.Module):
    def forward(self, boxes, scores):
        return OPS.nms(boxes, scores, 0.5)
