"""MobileNetV2 and ResNet-50. Pictures are (batch, height, width, channels), as MLX's convolutions take them.

fold: put the batch norms into the convolutions before them, as one does for speed; else layer by layer.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import mlx.core as mx
from mlx import nn

from .weights import arrays

Weights = dict[str, mx.array]
Activation = Callable[[mx.array], mx.array]


class Convolution(nn.Module):
    """A convolution without bias, its batch norm, an activation."""

    def __init__(
        self,
        weights: Weights,
        kernel: str,
        norm: str,
        act: Activation | None = None,
        *,
        stride: int = 1,
        depthwise: bool = False,
        fold: bool = True,
    ) -> None:
        super().__init__()
        self.weight = weights[f"{kernel}.weight"]
        self.bias: mx.array | None = None
        self.stride, self.padding = stride, self.weight.shape[1] // 2
        self.groups = self.weight.shape[0] if depthwise else 1
        self.act = act
        mean, variance = weights[f"{norm}.running_mean"], weights[f"{norm}.running_var"]
        if fold:
            scale = weights[f"{norm}.weight"] * mx.rsqrt(variance + 1e-5)
            self.weight = self.weight * scale[:, None, None, None]
            self.bias = weights[f"{norm}.bias"] - mean * scale
        else:
            self.norm = nn.BatchNorm(len(mean))
            self.norm.weight, self.norm.bias = weights[f"{norm}.weight"], weights[f"{norm}.bias"]
            self.norm.running_mean, self.norm.running_var = mean, variance
        self.eval()
        mx.eval(self.parameters())

    def __call__(self, x: mx.array) -> mx.array:
        if self.groups > 1 and mx.default_device() == mx.Device(mx.cpu):
            x = shifted(x, self.weight, self.stride, self.padding)
        else:
            x = mx.conv2d(x, self.weight, self.stride, self.padding, groups=self.groups)
        x = self.norm(x) if self.bias is None else x + self.bias
        return x if self.act is None else self.act(x)


def shifted(x: mx.array, weight: mx.array, stride: int, padding: int) -> mx.array:
    """A depthwise convolution as a sum of shifted pictures: on a CPU MLX's own is slower."""
    edge, size = (padding, padding), weight.shape[1]
    x = mx.pad(x, [(0, 0), edge, edge, (0, 0)])
    high, wide = ((n - size) // stride * stride + 1 for n in x.shape[1:3])
    terms = (
        x[:, i : i + high : stride, j : j + wide : stride] * weight[:, i, j, 0]
        for i in range(size)
        for j in range(size)
    )
    return functools.reduce(mx.add, terms)


class Residual(nn.Module):
    """act(x + branch(x)), or with a shortcut in place of x, or the branch alone."""

    def __init__(
        self, branch: list[nn.Module], shortcut: nn.Module | None, add: bool, act: Activation | None
    ) -> None:
        super().__init__()
        self.branch, self.shortcut, self.add, self.act = branch, shortcut, add, act

    def __call__(self, x: mx.array) -> mx.array:
        y = x
        for layer in self.branch:
            y = layer(y)
        if self.add:
            y = y + (self.shortcut(x) if self.shortcut else x)
        return self.act(y) if self.act else y


class MobileNetV2(nn.Module):
    """The 1280 features of tests/models/mobilenet.py, before the classifier."""

    def __init__(self, model: Any, fold: bool = True) -> None:
        super().__init__()
        weights, theirs = arrays(model, "features."), model.features
        self.first = Convolution(weights, "0.0", "0.1", nn.relu6, stride=2, fold=fold)
        self.blocks = [_inverted(weights, n, theirs[n], fold) for n in range(1, len(theirs) - 1)]
        end = len(theirs) - 1
        self.last = Convolution(weights, f"{end}.0", f"{end}.1", nn.relu6, fold=fold)

    def __call__(self, x: mx.array) -> mx.array:
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.last(x).mean((1, 2))


def _inverted(weights: Weights, number: int, block: Any, fold: bool) -> Residual:
    """Wide, depthwise, narrow; the first is missing where nothing is widened."""
    prefix, wide = f"{number}.conv", len(block.conv) == 8

    def layer(n: int, act: Activation | None, **options: Any) -> Convolution:
        return Convolution(weights, f"{prefix}.{n}", f"{prefix}.{n + 1}", act, fold=fold, **options)

    branch = [layer(0, nn.relu6)] if wide else []
    branch += [layer(3 if wide else 0, nn.relu6, stride=block.stride, depthwise=True)]
    branch += [layer(6 if wide else 3, None)]
    return Residual(branch, None, block.use_res_connect, None)


class ResNet(nn.Module):
    """Transformers' ResNetForImageClassification with bottlenecks."""

    def __init__(self, model: Any, fold: bool = True) -> None:
        super().__init__()
        weights = arrays(model, "resnet.")

        def layer(name: str, act: Activation | None, stride: int = 1) -> Convolution:
            return Convolution(
                weights, f"{name}.convolution", f"{name}.normalization", act, stride=stride, fold=fold
            )

        self.first = layer("embedder.embedder", nn.relu, 2)
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.blocks = []
        for stage, depth in enumerate(model.config.depths):
            for n in range(depth):
                name, stride = f"encoder.stages.{stage}.layers.{n}", 2 if stage and not n else 1
                branch = [layer(f"{name}.layer.0", nn.relu), layer(f"{name}.layer.1", nn.relu, stride)]
                branch += [layer(f"{name}.layer.2", None)]
                shortcut = None if n else layer(f"{name}.shortcut", None, stride)
                self.blocks.append(Residual(branch, shortcut, True, nn.relu))
        rest = arrays(model, "classifier.1.")
        self.weight, self.bias = rest["weight"], rest["bias"]

    def __call__(self, x: mx.array) -> mx.array:
        x = self.pool(self.first(x))
        for block in self.blocks:
            x = block(x)
        return mx.addmm(self.bias, x.mean((1, 2)), self.weight.T)
