"""Contractions of labelled axes: einsum, tensordot, bilinear. They become matmul, sums and transposes."""

from __future__ import annotations

from typing import Any

from ..lowering import lowers
from .arithmetic import add, multiply
from .axes import axis_of
from .diagonal import diagonal
from .linear import matmul
from .reduce import sum_
from .shape import product, reshape, transpose

Labels = list[Any]
"""The axes of an operand by name: letters, and integers for those of an ellipsis (0 is the last one)."""


@lowers("aten.einsum")
def einsum(equation, tensors, path=None):
    inputs, output = _parse(equation, [t.ndim for t in tensors])
    operands = [_diagonals(x, labels) for x, labels in zip(tensors, inputs, strict=True)]
    return _contract_all(operands, output)


@lowers("aten.tensordot")
def tensordot(self, other, dims_self, dims_other):
    left, right = [("x", i) for i in range(self.ndim)], [("y", i) for i in range(other.ndim)]
    output = [*left, *right]
    for a, b in zip(dims_self, dims_other, strict=True):
        a, b = axis_of(self, a), axis_of(other, b)
        output = [label for label in output if label not in (left[a], right[b])]
        right[b] = left[a]
    return _contract_all([(self, left), (other, right)], output)


@lowers("aten.bilinear")
def bilinear(input1, input2, weight, bias=None):
    x, y = (reshape(v, [product(v.shape[:-1]), v.shape[-1]]) for v in (input1, input2))
    result = _contract_all([(x, ["n", "i"]), (weight, ["o", "i", "j"]), (y, ["n", "j"])], ["n", "o"])
    result = reshape(result, [*input1.shape[:-1], weight.shape[0]])
    return result if bias is None else add(result, bias)


@lowers("aten._trilinear")
def trilinear(i1, i2, i3, expand1, expand2, expand3, sumdim, unroll_dim=1):
    axes = range(i1.ndim + len(expand1))
    operands = [
        (x, [i for i in axes if i not in e]) for x, e in ((i1, expand1), (i2, expand2), (i3, expand3))
    ]
    return _contract_all(operands, [i for i in axes if i not in sumdim])


def _contract_all(operands: list[tuple[Any, Labels]], output: Labels) -> Any:
    """The product of all operands, from the left, with the axes that `output` names, in its order."""
    x, labels = operands[0]
    for position, (y, others) in enumerate(operands[1:], 2):
        later = {label for _, rest in operands[position:] for label in rest}
        x, labels = contract(x, labels, y, others, [*output, *later])
    x, labels = _sum_out(x, labels, output)
    return transpose(x, [labels.index(label) for label in output])


def contract(x: Any, left: Labels, y: Any, right: Labels, keep: Labels) -> tuple[Any, Labels]:
    """Multiply x and y along the labels they share and sum over those that are not kept."""
    x, left = _drop_ones(x, left, y, right)
    y, right = _drop_ones(y, right, x, left)
    x, left = _sum_out(x, left, [*keep, *right])
    y, right = _sum_out(y, right, [*keep, *left])
    batch = [label for label in left if label in right and label in keep]
    summed = [label for label in left if label in right and label not in keep]
    rows = [label for label in left if label not in right]
    columns = [label for label in right if label not in left]
    shape = dict(zip([*left, *right], [*x.shape, *y.shape], strict=True))
    order = [*batch, *rows, *columns]
    if not summed:
        ends = [[shape[i] for i in labels] for labels in (batch, rows, columns)]
        x = reshape(_arrange(x, left, [*batch, *rows]), [*ends[0], *ends[1], *[1] * len(columns)])
        y = reshape(_arrange(y, right, [*batch, *columns]), [*ends[0], *[1] * len(rows), *ends[2]])
        return multiply(x, y), order
    x = _merge(_arrange(x, left, [*batch, *rows, *summed]), shape, batch, rows, summed)
    y = _merge(_arrange(y, right, [*batch, *summed, *columns]), shape, batch, summed, columns)
    return reshape(matmul(x, y), [shape[i] for i in order]), order


def _arrange(x: Any, labels: Labels, order: Labels) -> Any:
    return transpose(x, [labels.index(label) for label in order])


def _merge(x: Any, shape: dict[Any, Any], batch: Labels, first: Labels, second: Labels) -> Any:
    """x as a batch of matrices: the axes `first` and `second` each as one."""
    sizes = [[shape[i] for i in labels] for labels in (batch, first, second)]
    return reshape(x, [*sizes[0], product(sizes[1]), product(sizes[2])])


def _drop_ones(x: Any, labels: Labels, y: Any, others: Labels) -> tuple[Any, Labels]:
    """x without the axes of size 1 that broadcast against an axis of y."""
    sizes = dict(zip(others, y.shape, strict=True))
    shape = list(zip(labels, x.shape, strict=True))
    kept = [
        (label, n) for label, n in shape if not (_is_one(n) and label in sizes and not _is_one(sizes[label]))
    ]
    return (
        (x, labels) if len(kept) == len(shape) else (reshape(x, [n for _, n in kept]), [i for i, _ in kept])
    )


def _is_one(n: Any) -> bool:
    return isinstance(n, int) and n == 1


def _sum_out(x: Any, labels: Labels, keep: Labels) -> tuple[Any, Labels]:
    """x summed over the axes that are not kept."""
    axes = [axis for axis, label in enumerate(labels) if label not in keep]
    return (sum_(x, axes, False) if axes else x), [label for label in labels if label in keep]


def _diagonals(x: Any, labels: Labels) -> tuple[Any, Labels]:
    """x with every label once: repeated ones stand for the diagonal of their axes."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            x = diagonal(x, 0, first, second)
            labels = [*(other for axis, other in enumerate(labels) if axis not in (first, second)), label]
    return x, labels


def _parse(equation: str, ranks: list[int]) -> tuple[list[Labels], Labels]:
    """The labels of each operand and of the result."""
    text, _, wanted = equation.replace(" ", "").partition("->")
    inputs = [_labels(term, rank) for term, rank in zip(text.split(","), ranks, strict=True)]
    every = [label for labels in inputs for label in labels]
    ellipsis = sorted({label for label in every if isinstance(label, int)}, reverse=True)
    if "->" in equation:
        before, dots, after = wanted.partition("...")
        return inputs, [*before, *(ellipsis if dots else []), *after]
    letters = sorted({label for label in every if isinstance(label, str) and every.count(label) == 1})
    return inputs, [*ellipsis, *letters]


def _labels(term: str, rank: int) -> Labels:
    before, dots, after = term.partition("...")
    hidden = rank - len(before) - len(after)
    return [*before, *(range(hidden - 1, -1, -1) if dots else []), *after]
