"""Matrix products, einsum, softmax, norms, attention, losses."""

from typing import Any

import torch
from hypothesis import strategies as st
from torch.nn import functional as F

from ..runner import Row
from ..strategies import (
    FLOATS,
    NUMBERS,
    SINGLE,
    Strategy,
    axis,
    broadcastable,
    integers_below,
    numbers,
    of_shape,
    shapes,
    some,
    tensors,
)
from .reduce import along

SIDE = st.integers(0, 3)
WIDE = (torch.float32, torch.float64)
HALF = (*WIDE, torch.bfloat16, torch.float16)


@st.composite
def products(draw: st.DrawFn, dtypes: Any = NUMBERS, kind: str = "small") -> Any:
    """(a, b) of matmul: vectors, matrices, and batches that broadcast."""
    front = draw(broadcastable(2, 2))
    m, k, n = draw(st.tuples(SIDE, SIDE, SIDE))
    a = [*front[0], m, k] if draw(st.integers(0, 3)) else [k]
    b = [*front[1], k, n] if draw(st.integers(0, 3)) else [k]
    dtype = draw(st.sampled_from(dtypes))
    return (draw(of_shape(a, dtype, kind)), draw(of_shape(b, dtype, kind))), {}


@st.composite
def shaped(
    draw: st.DrawFn, text: str, dtypes: Any = HALF, kind: str = "small", smallest: int = 0, **options: Any
) -> Any:
    """Tensors of one dtype and of the shapes in `text`: 'mk,kn' gives (m, k) and (k, n)."""
    sizes = {letter: draw(st.integers(smallest, 3)) for letter in sorted(set(text) - {","})}
    dtype = draw(st.sampled_from(dtypes))
    found = [draw(of_shape([sizes[c] for c in word], dtype, kind)) for word in text.split(",")]
    return tuple(found), draw(some(**options))


@st.composite
def summed(draw: st.DrawFn) -> Any:
    """(equation, *operands) of einsum, with ellipses, repeated letters and any output."""
    equation = draw(
        st.sampled_from(
            ["ij,jk", "ij,jk->ki", "i,j->ij", "ii", "ii->i", "ij->", "bij,bjk->bik", "ij,ij->i", "i,ij,j->",
             "iji->j", "ab,cd->acbd", "ij->ji", "ij,kj,kl->il", "i,i"]
        )
    )  # fmt: skip
    sizes = {letter: draw(SIDE) for letter in "abcdijkl"}
    dtype = draw(st.sampled_from(FLOATS))
    words = equation.split("->")[0].split(",")
    return (equation, *(draw(of_shape([sizes[c] for c in w], dtype, "small")) for w in words)), {}


@st.composite
def normalized(draw: st.DrawFn, bias: bool = True) -> Any:
    """(x, shape, weight, bias): weights are there or not."""
    shape = draw(shapes(1, 2, smallest=1))
    front = draw(shapes(0, 2))
    dtype = draw(st.sampled_from(FLOATS))
    x = draw(of_shape([*front, *shape], dtype, "small"))
    weights = [
        draw(of_shape(shape, dtype, "small")) if draw(st.booleans()) else None for _ in range(1 + bias)
    ]
    return (x, list(shape), *weights), {"eps": draw(st.sampled_from([1e-5, 0.5]))}


@st.composite
def grouped(draw: st.DrawFn, dtypes: Any = FLOATS) -> Any:
    """(x, groups, weight, bias) of group_norm."""
    groups, each = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    rest = draw(shapes(1, 2, smallest=1))
    dtype = draw(st.sampled_from(dtypes))
    x = draw(of_shape([draw(st.integers(1, 2)), groups * each, *rest], dtype, "small"))
    weight = draw(of_shape([groups * each], dtype, "small")) if draw(st.booleans()) else None
    return (x, groups, weight, weight), {"eps": 0.5}


@st.composite
def batches(draw: st.DrawFn) -> Any:
    """(x, mean, var, weight, bias) of batch_norm, in evaluation."""
    n, c = draw(st.integers(0, 2)), draw(st.integers(1, 3))
    dtype = draw(st.sampled_from(WIDE))
    x = draw(of_shape([n, c, *draw(shapes(0, 2))], dtype, "special"))
    weight, bias = (draw(of_shape([c], dtype, "small")) if draw(st.booleans()) else None for _ in "wb")
    return (x, draw(of_shape([c], dtype, "small")), draw(of_shape([c], dtype, "positive")), weight, bias), {}


@st.composite
def attended(draw: st.DrawFn) -> Any:
    """(q, k, v, mask) of attention."""
    front = draw(st.lists(st.integers(1, 2), min_size=1, max_size=2))
    length, keys, e, v = draw(st.tuples(*[st.integers(1, 3)] * 4))
    dtype = draw(st.sampled_from((torch.float32, torch.float16)))
    made = [draw(of_shape([*front, *s], dtype, "small")) for s in ((length, e), (keys, e), (keys, v))]
    mask = draw(st.sampled_from([None, "bool", "float"]))
    if mask == "bool":
        return (*made, draw(of_shape([length, keys], torch.bool))), draw(some(scale=[0.5]))
    if mask:
        return (*made, draw(of_shape([length, keys], dtype, "small"))), {}
    return tuple(made), draw(some(is_causal=st.booleans(), scale=[0.5]))


@st.composite
def classified(draw: st.DrawFn, smallest: int = 1) -> Any:
    """(logits, classes) of cross entropy, with weights, ignored classes, axes behind and label smoothing."""
    rest = draw(shapes(0, 2, smallest=smallest))
    c = draw(st.integers(1, 3))
    dtype = draw(st.sampled_from(WIDE))
    front = [draw(st.integers(1, 3))] if rest or draw(st.booleans()) else []
    logits = draw(of_shape([*front, c, *rest], dtype, "small"))
    target = draw(of_shape([*front, *rest], torch.int64, integers_below(c)))
    options = draw(some(reduction=["none", "sum", "mean"], ignore_index=[0]))
    if draw(st.booleans()):
        options["weight"] = draw(of_shape([c], dtype, "positive"))
    return (logits, target), options


@st.composite
def compared(
    draw: st.DrawFn, kind: str = "small", target: str = "", dtypes: Any = WIDE, **options: Any
) -> Any:
    """(input, target) of a loss between tensors of one shape."""
    shape = draw(shapes(smallest=1))
    dtype = draw(st.sampled_from(dtypes))
    pair = draw(of_shape(shape, dtype, kind)), draw(of_shape(shape, dtype, target or kind))
    return pair, draw(some(reduction=["none", "sum", "mean"], **options))


def floats(kind: str = "small", **options: Any) -> Strategy:
    return along(FLOATS, kind, smallest=0, **options)


PRODUCTS = [
    Row("matmul", torch.matmul, products()),
    Row("matmul special", torch.matmul, products(SINGLE, "special")),
    Row("mm", torch.mm, shaped("mk,kn", NUMBERS)),
    Row("bmm", torch.bmm, shaped("bmk,bkn", NUMBERS)),
    Row("mv", torch.mv, shaped("mk,k")),
    Row("dot", torch.dot, shaped("k,k")),
    Row("inner", torch.inner, shaped("abk,ck")),
    Row("outer", torch.outer, shaped("m,n", NUMBERS)),
    Row("addmm", torch.addmm, shaped("mn,mk,kn", beta=[0.0, 0.5], alpha=[2.0])),
    Row("addmm a vector", torch.addmm, shaped("n,mk,kn", beta=[0.5], alpha=[-1.0])),
    Row("addmv", torch.addmv, shaped("m,mk,k", beta=[0.0, 0.5])),
    Row("addbmm", torch.addbmm, shaped("mn,bmk,bkn", WIDE, beta=[0.5])),
    Row("baddbmm", torch.baddbmm, shaped("bmn,bmk,bkn", beta=[0.0, 0.5], alpha=[2.0])),
    Row("addr", torch.addr, shaped("mn,m,n", beta=[0.0, 0.5])),
    Row("linear", F.linear, shaped("abk,nk")),
    Row("linear bias", F.linear, shaped("abk,nk,n")),
    Row("bilinear", F.bilinear, shaped("bi,bj,oij,o", WIDE, smallest=1)),
    Row("tensordot", lambda a, b: torch.tensordot(a, b, 2), shaped("aij,ijb")),
    Row("einsum", torch.einsum, summed()),
    Row("einsum ellipsis", lambda a, b: torch.einsum("...ij,...jk->...ik", a, b), products(WIDE).filter(lambda a: min(t.dim() for t in a[0]) > 1)),
    Row("kron", torch.kron, shaped("ab,cd", WIDE)),
    Row("cdist", torch.cdist, shaped("bmk,bnk", WIDE, p=[1.0, 2.0, float("inf")])),
    Row("linalg.matrix_power", lambda x: torch.linalg.matrix_power(x, 3), shaped("bkk", WIDE)),
    Row("cross", torch.linalg.cross, broadcastable(1, 2).flatmap(lambda s: st.tuples(of_shape((*s[0], 3), torch.float32, "small"), of_shape((3,), torch.float32, "small"))).map(lambda a: (a, {}))),
]  # fmt: skip

NORMS = [
    Row("softmax", torch.softmax, floats("any", dtype=[torch.float32])),
    Row("log_softmax", torch.log_softmax, floats("special", dtype=[torch.float32])),
    Row("softmax of integers", lambda x, d: torch.softmax(x, d, dtype=torch.float32), along(NUMBERS[:5])),
    Row("softmin", F.softmin, floats().map(lambda a: (a[0], {}))),
    Row("glu", F.glu, tensors(FLOATS, shapes(1, 3), "small").flatmap(lambda x: axis(x.dim()).map(lambda d: ((torch.cat([x, x + 1], d), d), {})))),
    Row("layer_norm", F.layer_norm, normalized()),
    Row("rms_norm", F.rms_norm, normalized(bias=False)),
    Row("group_norm", F.group_norm, grouped()),
    Row("batch_norm", F.batch_norm, batches()),
    # PyTorch rounds the statistics of halves to halves, of which a difference near 0 keeps few digits. It refuses
    # a single element a channel.
    Row("instance_norm", lambda x, g, w, b, eps: F.instance_norm(x, eps=eps), grouped(WIDE).filter(lambda a: a[0][0][0, 0].numel() > 1)),
    Row("normalize", lambda x, d: F.normalize(x, dim=d), floats()),
    Row("cosine_similarity", F.cosine_similarity, shaped("bk,bk", WIDE, "positive", dim=[0, -1])),
    Row("attention", F.scaled_dot_product_attention, attended()),
    Row("local_response_norm", lambda x: F.local_response_norm(x, 2), shaped("bcl", WIDE)),
]  # fmt: skip

LOSSES = [
    Row("mse_loss", F.mse_loss, compared()),
    Row("l1_loss", F.l1_loss, compared()),
    Row("smooth_l1_loss", F.smooth_l1_loss, compared(beta=[0.5, 2.0])),
    Row("huber_loss", F.huber_loss, compared(delta=[0.5, 2.0])),
    Row("binary_cross_entropy", F.binary_cross_entropy, compared("unit")),
    Row("binary_cross_entropy_with_logits", F.binary_cross_entropy_with_logits, compared("small", "unit")),
    Row("kl_div", F.kl_div, compared("small", "unit", log_target=[False, True])),
    Row("poisson_nll_loss", F.poisson_nll_loss, compared("small", "positive", full=[True])),
    Row("soft_margin_loss", F.soft_margin_loss, compared()),
    Row("hinge_embedding_loss", F.hinge_embedding_loss, compared()),
    Row("cross_entropy", F.cross_entropy, classified()),
    Row("cross_entropy smoothed", lambda x, t, **k: F.cross_entropy(x, t, label_smoothing=0.25, **k), classified()),
    Row("nll_loss", lambda x, t, **k: F.nll_loss(x, t, **k), classified()),
    Row("margin_ranking_loss", lambda a, b, **k: F.margin_ranking_loss(a, b, torch.sign(a), **k), compared(margin=[0.5])),
    Row("triplet_margin_loss", lambda a, b, c, **k: F.triplet_margin_loss(a, b, c, **k), shaped("bk,bk,bk", WIDE, reduction=["none", "sum"])),
    Row("scale and shift", lambda x, n: x * n + 1, st.tuples(tensors(FLOATS, kind="small"), numbers("if", "small")).map(lambda a: (a, {}))),
]  # fmt: skip

ROWS = [*PRODUCTS, *NORMS, *LOSSES]
