"""Views and shape ops, slices, joins, splits, padding."""

import math
from typing import Any

import torch
from hypothesis import strategies as st
from torch.nn import functional as F

from ..runner import Row
from ..strategies import (
    ALL,
    FLOATS,
    INTEGERS,
    REAL,
    axes,
    axis,
    maybe,
    numbers,
    of_shape,
    shapes,
    some,
    tensors,
)
from .reduce import along


def having(tensor: Any, arguments: Any) -> Any:
    """(x, *arguments): `arguments` makes a strategy of a list from x."""
    return tensor.flatmap(lambda x: arguments(x).map(lambda more: ((x, *more), {})))


ANY = tensors(ALL)
RANKED = tensors(ALL, shapes(1, 4))


def dim(x: Any) -> Any:
    return axis(x.dim()).map(lambda a: [a])


def two_dims(x: Any) -> Any:
    return st.lists(axis(x.dim()), min_size=2, max_size=2)


@st.composite
def regrouped(draw: st.DrawFn, x: torch.Tensor) -> list[Any]:
    """A shape with as many elements as x, one size perhaps -1."""
    sizes = list(draw(st.permutations(x.shape)))
    while len(sizes) > 1 and draw(st.booleans()):
        sizes[:2] = [sizes[0] * sizes[1]]
    for _ in range(draw(st.integers(0, 2))):
        sizes.insert(draw(st.integers(0, len(sizes))), 1)
    if sizes and draw(st.booleans()) and (x.numel() or 0 not in sizes[1:]):
        place = 0 if not x.numel() else draw(st.integers(0, len(sizes) - 1))
        sizes[place] = -1
    return [sizes]


@st.composite
def expanded(draw: st.DrawFn) -> Any:
    """(x, shape) for expand: sizes of 1 grow, -1 keeps, axes are added in front."""
    x = draw(tensors(ALL))
    front = draw(shapes(0, 2))
    rest = [
        draw(st.integers(0, 3)) if n == 1 and draw(st.booleans()) else draw(st.sampled_from([n, -1]))
        for n in x.shape
    ]
    return (x, [*front, *rest]), {}


@st.composite
def flattened(draw: st.DrawFn) -> Any:
    x = draw(tensors(ALL, shapes(0, 4)))
    rank = max(x.dim(), 1)
    start, end = sorted(draw(st.lists(st.integers(0, rank - 1), min_size=2, max_size=2)))
    signed = [n - rank if draw(st.booleans()) else n for n in (start, end)]
    return (x, *signed), {}


@st.composite
def unflattened(draw: st.DrawFn) -> Any:
    groups = draw(shapes(1, 3, smallest=1))
    shape = list(draw(shapes(0, 2)))
    place = draw(st.integers(0, len(shape)))
    shape.insert(place, math.prod(groups))
    sizes = list(groups)
    if draw(st.booleans()):
        sizes[draw(st.integers(0, len(sizes) - 1))] = -1
    at = place - len(shape) if draw(st.booleans()) else place
    return (draw(of_shape(shape, torch.float32)), at, sizes), {}


def permuted(x: torch.Tensor) -> Any:
    order = st.permutations(range(x.dim()))
    return st.tuples(order, st.lists(st.booleans(), min_size=x.dim(), max_size=x.dim())).map(
        lambda drawn: [[a - x.dim() if back else a for a, back in zip(*drawn, strict=True)]]
    )


@st.composite
def moved(draw: st.DrawFn) -> Any:
    x = draw(tensors(ALL, shapes(1, 4)))
    count = draw(st.integers(1, x.dim()))
    pair = [
        [a - x.dim() if draw(st.booleans()) else a for a in draw(st.permutations(range(x.dim())))[:count]]
        for _ in "st"
    ]
    return (x, *pair), {}


@st.composite
def strided(draw: st.DrawFn) -> Any:
    """(x, size, stride, offset) within the storage of a contiguous x."""
    x = draw(tensors(REAL, shapes(1, 3, smallest=1)))
    size = draw(shapes(0, 3, smallest=1))
    stride = [draw(st.integers(0, 2)) for _ in size]
    need = sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    offset = draw(st.integers(0, max(x.numel() - 1 - need, 0)))
    return (x, size, stride, offset), {}


def ends(size: int) -> Any:
    return maybe(st.integers(-size - 2, size + 2))


@st.composite
def sliced(draw: st.DrawFn) -> Any:
    """(x, key): ints, slices with steps, new axes and an ellipsis."""
    x = draw(tensors(ALL, shapes(1, 4)))
    key: list[Any] = []
    for size in x.shape:
        kind = draw(st.integers(0, 6))
        if kind == 0 and size:
            key.append(draw(st.integers(-size, size - 1)))
        elif kind == 1:
            key.append(slice(None))
        elif kind < 5:
            key.append(slice(draw(ends(size)), draw(ends(size)), draw(st.sampled_from([None, 1, 2, 3]))))
        elif kind == 5:
            key += [None, slice(None)]
        else:
            key.append(...)
            break
    return (x, tuple(key)), {}


@st.composite
def narrowed(draw: st.DrawFn) -> Any:
    x = draw(RANKED)
    at = draw(axis(x.dim()))
    start = draw(st.integers(0, x.shape[at]))
    length = draw(st.integers(0, x.shape[at] - start))
    if start and start < x.shape[at] and draw(st.booleans()):
        start -= x.shape[at]
    return (x, at, start, length), {}


def selected(x: torch.Tensor) -> Any:
    at = st.sampled_from([a for a in range(-x.dim(), x.dim()) if x.shape[a]])
    return at.flatmap(lambda a: st.integers(-x.shape[a], x.shape[a] - 1).map(lambda i: [a, i]))


FILLED = tensors(ALL, shapes(1, 4, smallest=1))


@st.composite
def joined(draw: st.DrawFn, dtypes: Any = ALL[:8]) -> Any:
    """Tensors of equal shapes but for one axis, perhaps of several dtypes, and that axis; empty 1-d ones too."""
    shape = draw(shapes(1, 3))
    at = draw(st.integers(-len(shape), len(shape) - 1))
    tensors_ = []
    for _ in range(draw(st.integers(1, 4))):
        size = list(shape)
        size[at] = draw(st.integers(0, 3))
        tensors_.append(draw(of_shape(size, draw(st.sampled_from(dtypes)))))
    if draw(st.integers(0, 4)) == 0:
        tensors_.insert(0, draw(of_shape((0,), torch.float32)))
    return (tensors_, at), {}


@st.composite
def stacked(draw: st.DrawFn, with_axis: bool = True) -> Any:
    shape = draw(shapes(0, 3))
    dtypes = draw(st.sampled_from([[d] for d in ALL] + [[torch.float32, torch.int64, torch.float16]]))
    found = [draw(of_shape(shape, draw(st.sampled_from(dtypes)))) for _ in range(draw(st.integers(1, 3)))]
    return (found, *([draw(axis(len(shape) + 1))] if with_axis else [])), {}


@st.composite
def parted(draw: st.DrawFn) -> Any:
    """(x, sizes, dim) for split."""
    x = draw(RANKED)
    at = draw(axis(x.dim()))
    if draw(st.booleans()):
        return (x, draw(st.integers(1, 4)), at), {}
    left, sizes = x.shape[at], []
    while left and draw(st.booleans()):
        sizes.append(draw(st.integers(0, left)))
        left -= sizes[-1]
    return (x, [*sizes, left], at), {}


@st.composite
def sectioned(draw: st.DrawFn) -> Any:
    x = draw(RANKED)
    how = draw(st.one_of(st.integers(1, 4), st.lists(st.integers(-4, 5), max_size=3)))
    return (x, how, draw(axis(x.dim()))), {}


def repeated(x: torch.Tensor) -> Any:
    return st.lists(st.integers(0, 3), min_size=x.dim(), max_size=x.dim() + 2).map(lambda r: [r])


def tiled(x: torch.Tensor) -> Any:
    return st.lists(st.integers(0, 3), min_size=0, max_size=x.dim() + 1).map(lambda r: [r])


@st.composite
def padded(draw: st.DrawFn, mode: str = "constant") -> Any:
    """(x, pad, mode, value): constant padding may be negative, of any axes."""
    if mode == "constant":
        x = draw(tensors(REAL, shapes(1, 4)))
        pads: list[int] = []
        for size in reversed(x.shape[-draw(st.integers(1, x.dim())) :]):
            low = draw(st.integers(-size, 3))
            pads += [low, draw(st.integers(-min(size, size + low), 3))]
        integral = x.dtype in INTEGERS
        value = draw(st.booleans() if x.dtype == torch.bool else numbers("i") if integral else numbers("if"))
        return (x, pads, mode, 0 if x.dtype == torch.uint8 else value), {}
    axes_ = draw(st.integers(1, 3))
    x = draw(tensors(FLOATS, shapes(axes_ + 1, axes_ + 2, 4, smallest=1)))
    pads = []
    for size in reversed(x.shape[-axes_:]):
        most = {"reflect": size - 1, "circular": size, "replicate": 4}[mode]
        pads += [draw(st.integers(0, most)), draw(st.integers(0, most))]
    return (x, pads, mode), {}


@st.composite
def rolled(draw: st.DrawFn) -> Any:
    x = draw(tensors(ALL, shapes(1, 3)))
    chosen = draw(axes(x.dim(), 1))
    return (x, [draw(st.integers(-4, 4)) for _ in chosen], chosen), {}


@st.composite
def windows(draw: st.DrawFn) -> Any:
    x = draw(RANKED)
    at = draw(axis(x.dim()))
    return (x, at, draw(st.integers(0, x.shape[at])), draw(st.integers(1, 3))), {}


@st.composite
def diagonals(draw: st.DrawFn) -> Any:
    x = draw(tensors(ALL, shapes(2, 3)))
    a, b = draw(st.permutations(range(x.dim())))[:2]
    return (x, draw(st.integers(-4, 4)), a - x.dim() if draw(st.booleans()) else a, b), {}


@st.composite
def merged(draw: st.DrawFn) -> Any:
    """(x, source, dim, index) of select_scatter."""
    x = draw(tensors(REAL, shapes(1, 3, smallest=1)))
    at, index = draw(selected(x))
    part = x.select(at, index)
    return (x, draw(of_shape(part.shape, x.dtype)), at, index), {}


@st.composite
def inserted(draw: st.DrawFn) -> Any:
    """(x, source, dim, start, end, step) of slice_scatter."""
    x = draw(RANKED)
    at = draw(axis(x.dim()))
    start, end, step = draw(ends(x.shape[at])), draw(ends(x.shape[at])), draw(st.integers(1, 3))
    part = torch.ops.aten.slice(x, at, start, end, step)
    return (x, draw(of_shape(part.shape, x.dtype)), at, start, end, step), {}


VIEWS = [
    Row("reshape", torch.reshape, having(ANY, regrouped)),
    Row("view", lambda x, s: x.contiguous().view(s), having(ANY, regrouped)),
    Row("flatten", torch.flatten, flattened()),
    Row("unflatten", torch.unflatten, unflattened()),
    Row("permute", torch.permute, having(tensors(ALL, shapes(0, 4)), permuted)),
    Row("transpose", torch.transpose, having(ANY, two_dims)),
    Row("movedim", torch.movedim, moved()),
    Row("t", torch.t, st.tuples(st.tuples(tensors(ALL, shapes(0, 2))), some())),
    Row("squeeze", torch.squeeze, st.tuples(st.tuples(ANY), some())),
    Row("squeeze dim", torch.squeeze, having(ANY, dim)),
    Row("squeeze dims", torch.squeeze, having(ANY, lambda x: axes(x.dim()).map(lambda a: [tuple(a)]))),
    Row("unsqueeze", torch.unsqueeze, having(ANY, lambda x: axis(x.dim() + 1).map(lambda a: [a]))),
    Row("expand", lambda x, s: x.expand(s), expanded()),
    Row("repeat", lambda x, r: x.repeat(r), having(ANY, repeated)),
    Row("tile", torch.tile, having(ANY, tiled)),
    Row("repeat_interleave", torch.repeat_interleave, having(RANKED, lambda x: st.tuples(st.integers(0, 3), axis(x.dim())))),
    Row("flip", torch.flip, having(ANY, lambda x: axes(x.dim()).map(lambda a: [a if x.dim() else []]))),
    Row("roll", torch.roll, rolled()),
    Row("roll flat", torch.roll, having(ANY, lambda x: st.integers(-9, 9).map(lambda s: [s]))),
    Row("rot90", lambda x, k: torch.rot90(x, k, (-1, 0)), having(tensors(ALL, shapes(2, 3)), lambda x: st.integers(-5, 5).map(lambda k: [k]))),
    Row("unfold", lambda x, *a: x.unfold(*a), windows()),
    Row("as_strided", torch.as_strided, strided(), layouts=False),
    Row("diagonal", torch.diagonal, diagonals()),
    Row("diag", torch.diag, having(tensors(ALL, shapes(1, 2)), lambda x: st.integers(-4, 4).map(lambda k: [k]))),
    Row("diag_embed", torch.diag_embed, having(tensors(ALL, shapes(1, 2)), lambda x: st.integers(-3, 3).map(lambda k: [k]))),
    Row("tril", torch.tril, having(tensors(ALL, shapes(2, 3)), lambda x: st.integers(-4, 4).map(lambda k: [k]))),
    Row("triu", torch.triu, having(tensors(ALL, shapes(2, 3)), lambda x: st.integers(-4, 4).map(lambda k: [k]))),
    Row("atleast_2d", torch.atleast_2d, st.tuples(st.tuples(ANY), some())),
    Row("atleast_3d", torch.atleast_3d, st.tuples(st.tuples(ANY), some())),
    Row("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), st.tuples(st.tuples(tensors(FLOATS, shapes(0, 2).map(lambda s: (*s, 4, 2, 3)))), some())),
    Row("pixel_unshuffle", lambda x: F.pixel_unshuffle(x, 2), st.tuples(st.tuples(tensors(FLOATS, shapes(0, 2).map(lambda s: (*s, 2, 2, 4)))), some()), refused="leaves empty tensors"),
    Row("view as dtype", lambda x: x.contiguous().view(torch.int32), st.tuples(st.tuples(tensors((torch.float32,))), some())),
    Row("broadcast_tensors", torch.broadcast_tensors, st.tuples(tensors(ALL, shapes(0, 2, 1)), tensors(ALL, shapes(2, 2))).map(lambda a: (a, {}))),
]  # fmt: skip

SLICES = [
    Row("slice", lambda x, key: x[key], sliced()),
    Row("narrow", torch.narrow, narrowed()),
    Row("select", torch.select, having(FILLED, selected)),
    Row("unbind", torch.unbind, having(tensors(ALL, shapes(1, 3, smallest=1)), dim)),
    Row("select_scatter", torch.select_scatter, merged()),
    Row("slice_scatter", torch.ops.aten.slice_scatter, inserted()),
    Row("write into a slice", lambda x, *a: _write(x, *a), sliced().map(lambda a: (a[0], {}))),
]

JOINS = [
    Row("cat", torch.cat, joined()),
    Row("stack", torch.stack, stacked()),
    *[Row(name, getattr(torch, name), stacked(with_axis=False)) for name in ("hstack", "vstack", "dstack", "column_stack")],
    Row("split", torch.split, parted()),
    Row("chunk", torch.chunk, having(RANKED, lambda x: st.tuples(st.integers(1, 4), axis(x.dim())))),
    Row("tensor_split", torch.tensor_split, sectioned()),
    Row("block_diag", torch.block_diag, st.tuples(tensors(ALL[:4], shapes(1, 2)), tensors(ALL[:4], shapes(1, 2))).map(lambda a: (a, {}))),
    Row("cartesian_prod", torch.cartesian_prod, st.tuples(tensors((torch.int32,), shapes(1, 1)), tensors((torch.int32,), shapes(1, 1))).map(lambda a: (a, {}))),
    Row("meshgrid", lambda a, b, **k: torch.meshgrid(a, b, **k), st.tuples(st.tuples(tensors(ALL[:1], shapes(0, 1)), tensors(ALL[:1], shapes(0, 1))), some(indexing=["ij", "xy"]))),
    Row("pad constant", F.pad, padded()),
    *[Row(f"pad {mode}", F.pad, padded(mode)) for mode in ("reflect", "replicate", "circular")],
    Row("constant_pad_nd of the least", torch.ops.aten.constant_pad_nd, along(INTEGERS).map(lambda a: ((a[0][0], [1, 0], torch.iinfo(a[0][0].dtype).min), {}))),
]  # fmt: skip


def _write(x: torch.Tensor, key: Any) -> torch.Tensor:
    y = x.clone()
    y[key] = 1
    return y


ROWS = [*VIEWS, *SLICES, *JOINS]
