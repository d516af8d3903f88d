"""torchvision's own ops: non-maximum suppression, pooled regions, deformable convolutions."""

from __future__ import annotations

import mlx.core as mx
import numpy as np

from ..errors import refuse
from ..isa import Array, cast, instruction
from ..lowering import lowers
from ..record import UNBACKED, example
from .arithmetic import add, divide, maximum, minimum, multiply, subtract
from .bitwise import bitwise_and
from .compare import greater_equal, less_equal, where
from .conv import channels_first, channels_last
from .create import arange
from .grid import grid_sample
from .index import gather
from .join import stack
from .linear import matmul
from .reduce import mean
from .shape import expand_dims, reshape, slice_, squeeze, transpose
from .unary import floor


def _check_boxes(boxes: mx.array, scores: mx.array) -> None:
    if boxes.ndim != 2 or boxes.shape[1] != 4 or scores.shape != boxes.shape[:1]:
        raise ValueError(f"boxes of shape {list(boxes.shape)} with scores of shape {list(scores.shape)}")
    if not (mx.issubdtype(boxes.dtype, mx.floating) and mx.issubdtype(scores.dtype, mx.floating)):
        raise ValueError("boxes and scores are floats")


def _some_boxes(boxes: mx.array, scores: mx.array, threshold: float) -> mx.array:
    _check_boxes(boxes, scores)
    return mx.zeros((UNBACKED[example()],), mx.int64)


@instruction(sync=True, abstract=_some_boxes)
def nms(boxes: Array, scores: Array, threshold: float) -> Array:
    """The boxes that are left when each, best score first, removes those that share more than `threshold` with it.

    boxes: (n, 4) as x1, y1, x2, y2, scores: (n,). int64 indices by falling score, the first of equal ones first. What
    two boxes share is their common area divided by the area of both together. Waits for the boxes.
    """
    _check_boxes(boxes, scores)
    corners, ranks = (np.array(v.astype(mx.float32)) for v in (boxes, scores))
    if boxes.dtype == mx.float64:
        corners = np.array(boxes)
    missing = np.isnan(ranks)
    left = np.lexsort((-np.where(missing, 0, ranks), ~missing))
    sizes = (corners[:, 2] - corners[:, 0]) * (corners[:, 3] - corners[:, 1])
    kept = []
    with np.errstate(invalid="ignore", divide="ignore"):
        while len(left):
            best, left = left[0], left[1:]
            kept.append(best)
            low, high = (
                np.maximum(corners[best, :2], corners[left, :2]),
                np.minimum(corners[best, 2:], corners[left, 2:]),
            )
            width, height = np.maximum(high - low, 0).T
            common = width * height
            share = common / (sizes[best] + sizes[left] - common)
            left = left[~(share.astype(np.float64) > threshold)]
    return mx.array(np.array(kept, np.int64))


@lowers("torchvision::nms")
def nms_(dets, scores, iou_threshold):
    kept = nms(dets, scores, iou_threshold)
    kept.dynamic.add(0)
    return kept


@lowers("torchvision::roi_align")
def roi_align(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned):
    """Each region (image, x1, y1, x2, y2) as a grid of bins, each the mean of sampling_ratio**2 samples."""
    if sampling_ratio <= 0:
        raise refuse(
            "roi_align needs a sampling_ratio: without one the number of samples depends on the regions"
        )
    image, *corners = (_column(rois, i) for i in range(5))
    x1, y1, x2, y2 = (subtract(multiply(c, spatial_scale), 0.5 if aligned else 0.0) for c in corners)
    image = expand_dims(cast(image, mx.int64), [1, 2])
    rows = _samples(y1, y2, pooled_height, sampling_ratio, aligned)
    columns = _samples(x1, x2, pooled_width, sampling_ratio, aligned)
    height, width = input.shape[2:]
    total = None
    for i, weight_y in _neighbours(rows, height):
        for j, weight_x in _neighbours(columns, width):
            values = gather(input, [image, expand_dims(i, [2]), expand_dims(j, [1])], [0, 2, 3])
            weight = multiply(expand_dims(weight_y, [2, 3]), expand_dims(weight_x, [1, 3]))
            part = multiply(values, weight)
            total = part if total is None else add(total, part)
    bins = [rois.shape[0], pooled_height, sampling_ratio, pooled_width, sampling_ratio, input.shape[1]]
    return channels_first(mean(reshape(total, bins), [2, 4], False))


def _column(rois, i):
    return squeeze(slice_(rois, [i], [i + 1], [1], [1]), [1])


def _samples(start, end, bins, ratio, aligned):
    """The places of all samples along one axis, (regions, bins * ratio)."""
    length = subtract(end, start)
    if not aligned:
        length = maximum(length, 1.0)
    ramp = add(arange(0, bins * ratio, 1, start.dtype), 0.5)
    step = divide(length, bins * ratio)
    return add(expand_dims(start, [1]), multiply(expand_dims(step, [1]), ramp))


def _neighbours(place, size):
    """The two elements beside a place and their weights; a place more than 1 outside has none."""
    near = bitwise_and(greater_equal(place, -1.0), less_equal(place, size))
    top = size - 1
    inside = maximum(place, 0.0)
    low = minimum(floor(inside), top)
    high = minimum(add(low, 1.0), top)
    right = subtract(minimum(inside, top), low)
    left = subtract(1.0, right)
    index = [cast(where(near, n, multiply(n, 0.0)), mx.int64) for n in (low, high)]
    return [(i, where(near, w, multiply(w, 0.0))) for i, w in zip(index, (left, right), strict=True)]


@lowers("torchvision::deform_conv2d")
def deform_conv2d(
    input, weight, offset, mask, bias, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, offset_groups, use_mask
):  # fmt: skip
    """A convolution whose taps are moved by `offset` (y, then x, for each tap), and weighed by `mask`."""
    n, c, height, width = input.shape
    m, _, kh, kw = weight.shape
    rows, columns = offset.shape[2:]
    taps = kh * kw
    moved = reshape(offset, [n * offset_groups, kh, kw, 2, rows, columns])
    y, x = (squeeze(slice_(moved, [i], [i + 1], [1], [3]), [3]) for i in range(2))
    y = add(y, expand_dims(_tap_places(kh, dilation_h, rows, stride_h, pad_h, y.dtype), [1, 3]))
    x = add(x, expand_dims(_tap_places(kw, dilation_w, columns, stride_w, pad_w, x.dtype), [0, 2]))
    grid = stack([_normalized(x, width), _normalized(y, height)], -1)
    grid = reshape(grid, [n * offset_groups, taps * rows, columns, 2])
    images = reshape(input, [n * offset_groups, c // offset_groups, height, width])
    values = grid_sample(channels_last(images), grid, "linear", "zeros", False)
    values = reshape(values, [n, offset_groups, taps, rows * columns, c // offset_groups])
    if use_mask:
        values = multiply(values, reshape(mask, [n, offset_groups, taps, rows * columns, 1]))
    patches = reshape(transpose(values, [0, 1, 4, 2, 3]), [n, groups, (c // groups) * taps, rows * columns])
    result = matmul(reshape(weight, [groups, m // groups, (c // groups) * taps]), patches)
    result = reshape(result, [n, m, rows, columns])
    return add(result, expand_dims(bias, [1, 2]))


def _tap_places(k, dilation, count, stride, padding, dtype):
    """Where each tap of each window is, (k, count)."""
    taps = arange(-padding, k * dilation - padding, dilation, dtype)
    return add(expand_dims(taps, [1]), arange(0, count * stride, stride, dtype))


def _normalized(place, size):
    """From elements to the -1 … 1 of grid_sample."""
    return subtract(divide(add(multiply(place, 2.0), 1.0), size), 1.0)
