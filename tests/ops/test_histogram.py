"""Counts by bins."""

import pytest
import torch
from torch.export import Dim

import mlxify

from .harness import Case, _Function, check, params

NAN, INF = float("nan"), float("inf")
S = Dim("s", min=2, max=8192)
X = torch.randn(2, 3, 4)


def counts():
    x = torch.randn(1000)
    x[3], x[5] = NAN, INF
    finite = torch.randn(1000)
    yield Case("histc", lambda x: (torch.histc(x, 10, -2, 2), torch.histc(x, 7, 0, 1)), (x,))
    yield Case("histc of its own range", lambda x: (torch.histc(x), torch.histc(x, 3)), (finite,))
    yield Case("histc at the edges", lambda x: torch.histc(x, 4, 0, 4), (torch.arange(-1.0, 6),))
    yield Case(
        "histc of experts",
        lambda x: torch.histc(x.float(), 8, 0, 7),
        (torch.randint(0, 8, (300,)),),
        compiled=True,
    )
    yield Case("histc of equal elements", lambda x: torch.histc(x, 4), (torch.full((5,), 2.0),))
    yield Case("histc of nothing", lambda x: torch.histc(x, 4), (torch.zeros(0),))
    yield Case(
        "histc of rows and 0-d", lambda x: (torch.histc(x, 5, -1, 1), torch.histc(x[0, 0, 0], 2)), (X,)
    )
    yield Case("histc float64", lambda x: torch.histc(x, 11, -1.5, 2), (finite.double(),))
    yield Case("histc half", lambda x: torch.histc(x, 4, 0, 4), (torch.arange(-1.0, 6).half(),))
    yield Case(
        "histc dynamic",
        lambda x: (torch.histc(x, 8, 0, 7), torch.histc(x, 3)),
        (torch.randint(0, 8, (20,)).float(),),
        dynamic=({0: S},),
        also=(
            (torch.tensor([3.0, 1]),),
            (torch.randint(0, 8, (4096,)).float(),),
            (torch.randint(0, 8, (7,)).float(),),
        ),
    )
    ids = torch.tensor([1, 7, 2, 2, 0, 7, 7])
    yield Case("bincount", lambda x: torch.bincount(x), (ids,))
    yield Case(
        "bincount minlength",
        lambda x: (torch.bincount(x, minlength=12), torch.bincount(x, minlength=3)),
        (ids,),
    )
    yield Case("bincount weights", lambda x, w: torch.bincount(x, w), (ids, torch.rand(7)))
    yield Case("bincount integer weights", lambda x, w: torch.bincount(x, w, 10), (ids, torch.arange(7)))
    yield Case(
        "bincount uint8", lambda x: torch.bincount(x), (torch.tensor([255, 1, 255], dtype=torch.uint8),)
    )
    yield Case("bincount int32", lambda x: torch.bincount(x), (ids.int(),))
    yield Case("bincount of nothing", lambda x: torch.bincount(x, minlength=3), (ids[:0],))
    yield Case("bincount used", lambda x: torch.bincount(x).float() / x.shape[0], (ids,))
    yield Case(
        "bincount dynamic",
        lambda x: torch.bincount(x, minlength=4),
        (ids,),
        dynamic=({0: S},),
        also=((torch.tensor([0, 0]),), (torch.randint(0, 99, (4096,)),), (torch.tensor([2, 2, 9]),)),
    )


def between(name, **options):
    return lambda x, *bins: getattr(torch, name)(x, *bins, **options)


EDGES = torch.tensor([-1.0, -0.5, 0.25, 0.25, 2.0])
FEW = torch.tensor([-1.0, 2.0, 2.1, 0.25, NAN, -0.5, 1.99, -1.1, INF, 0.2])
CLOUD, WEIGHTS = torch.randn(30, 2, 3), torch.rand(30, 2)


def histograms():
    x = torch.randn(500)
    grid = torch.linspace(0, 1, 9)  # exact: other edges differ by a unit in the last place
    near = torch.cat([grid, torch.nextafter(grid, grid + 1), torch.nextafter(grid, grid - 1)])
    yield Case("histogram", between("histogram"), (x, EDGES))
    yield Case("histogram of edges and NaN", between("histogram"), (FEW, EDGES))
    yield Case("histogram density", between("histogram", density=True), (FEW, EDGES))
    yield Case("histogram float64", between("histogram", density=True), (x.double(), EDGES.double()))
    yield Case("histogram weights", lambda x, e, w: torch.histogram(x, e, weight=w), (x, EDGES, x.abs()))
    yield Case("histogram of rows", between("histogram"), (CLOUD, EDGES))
    yield Case("histogram of a number", lambda x: torch.histogram(x, 9), (x,), compiled=True)
    yield Case("histogram range", lambda x: torch.histogram(x, 5, range=(-1.0, 2.0), density=True), (x,))
    yield Case("histogram range of a point", lambda x: torch.histogram(x, 3, range=(1.0, 1.0)), (FEW,))
    yield Case("histogram near the edges", lambda x: torch.histogram(x, 8, range=(0.0, 1.0)), (near,))
    yield Case("histogram of equal elements", lambda x: torch.histogram(x, 4), (x * 0 + 3,))
    yield Case("histogram of nothing", lambda x: torch.histogram(x, 4, density=True), (x[:0],))
    yield Case("histogramdd", lambda x: flat(torch.histogramdd(x, [3, 2, 4])), (CLOUD,))
    yield Case("histogramdd int", lambda x: flat(torch.histogramdd(x, 3, density=True)), (CLOUD,))
    yield Case(
        "histogramdd range",
        lambda x, w: flat(
            torch.histogramdd(x, [3, 2, 4], range=[-1.0, 1, 0, 1, -2, 2], weight=w, density=True)
        ),
        (CLOUD, WEIGHTS),
    )
    yield Case(
        "histogramdd edges",
        lambda x, e: flat(torch.histogramdd(x, [e, e * 2, e[:3]], density=True)),
        (CLOUD, EDGES),
    )
    yield Case(
        "histogramdd decomposed", lambda x: flat(torch.histogramdd(x, [3, 2, 4])), (CLOUD,), decomposed=True
    )


def flat(histogram):
    return histogram[0], *histogram[1]


@params([*counts(), *histograms()])
def test_histogram(case, tmp_path):
    check(case, tmp_path)


def test_a_range_must_be_finite():
    program = mlxify.convert(_Function(lambda x: torch.histogram(x, 3)).eval(), (CLOUD,))
    with pytest.raises(mlxify.InputError, match="finite"):
        program(torch.tensor(NAN).expand(30, 2, 3))
