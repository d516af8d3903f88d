"""Fractional max pooling with given samples."""

import torch
import torch.nn.functional as F
from torch.export import Dim

from .harness import Case, check, params
from .test_linear import rand
from .values import INF, NAN

aten = torch.ops.aten
FLAT, DEEP = rand(2, 3, 9, 7), rand(2, 3, 6, 7, 5)
S2, S3 = torch.rand(2, 3, 2), torch.rand(2, 3, 3)
ODD = torch.where(rand(1, 2, 9, 7) > 0.5, torch.tensor(NAN), rand(1, 2, 9, 7)).masked_fill(
    rand(1, 2, 9, 7) < 0, -INF
)


def pool(kernel, size, of=F.fractional_max_pool2d):
    return lambda x, s: of(x, kernel, output_size=size, return_indices=True, _random_samples=s)


def volume(kernel, size):
    return pool(kernel, size, F.fractional_max_pool3d)


CASES = [
    *(Case(f"2-d {k} {s}", pool(k, s), (FLAT, S2)) for k, s in ((2, (4, 3)), ((3, 2), (3, 6)), (1, (9, 7)), (2, (1, 1)), ((9, 7), 1), (3, 5))),
    *(Case(f"3-d {k} {s}", volume(k, s), (DEEP, S3)) for k, s in ((2, (3, 3, 2)), ((3, 2, 1), (2, 4, 4)), (2, 1))),
    *(Case(f"2-d {d}", pool(2, (4, 3)), (FLAT.to(d), S2.to(d))) for d in (torch.float16, torch.bfloat16, torch.float64)),
    Case("2-d without batch", pool(2, (4, 3)), (FLAT[0], S2[:1])),
    Case("3-d without batch", volume(2, (3, 3, 2)), (DEEP[0], S3[:1])),
    Case("NaN and infinities", pool(3, (4, 3)), (ODD, S2[:1, :2])),
    Case("nothing but -inf", pool(3, (4, 3)), (FLAT * 0 - INF, S2)),
    Case("samples of 0 and nearly 1", pool(2, (4, 3)), (FLAT, torch.tensor([0.0, 1 - 2**-24]).expand(2, 3, 2))),
    Case("ratio", lambda x, s: F.fractional_max_pool2d(x, 2, output_ratio=(0.5, 0.5), _random_samples=s), (FLAT, S2)),
    Case("samples drawn", lambda x: F.fractional_max_pool2d(x * 0 + 3, 2, output_size=3), (FLAT,)),
    Case("dynamic", pool(2, (4, 3)), (FLAT, S2), dynamic=({0: Dim("n")}, {0: Dim("n")}), also=((rand(4, 3, 9, 7), torch.rand(4, 3, 2)),)),
]  # fmt: skip


@params(CASES)
def test_fractional_pool(case, tmp_path):
    check(case, tmp_path)
