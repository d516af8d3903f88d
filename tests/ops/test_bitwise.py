"""Bits of integers and bools, shifts."""

import torch
from torch.export import Dim

from .harness import Case, check, params
from .values import INTEGERS, each, edges, grid

WHOLE = (torch.bool, *INTEGERS)
I = torch.tensor([[-7, -2, 0], [3, 100, 5]])  # noqa: E741
M = I > 0
# PyTorch's results beyond the width of the dtype and for negative counts are defined: 0, or the sign.
COUNTS = (0, 1, 3, 7, 8, 31, 32, 63, 64, 65, -1)


def counts(dtype):
    values = [n for n in COUNTS if dtype != torch.uint8 or n >= 0]
    return torch.tensor(values, dtype=dtype)


SHIFTED = [(edges(d)[:, None], counts(d)) for d in INTEGERS]


CASES = [
    grid("and", lambda x, y: (x & y, torch.bitwise_and(x, y)), WHOLE),
    grid("or", lambda x, y: (x | y, torch.bitwise_or(x, y)), WHOLE),
    grid("xor", lambda x, y: (x ^ y, torch.bitwise_xor(x, y)), WHOLE),
    each("not", lambda x: (~x, torch.bitwise_not(x)), WHOLE, decomposed=True),
    each("numbers", lambda x: [(x & n, x | n, x ^ n, n & x, n | x) for n in (0, 1, 2, True, 6, -1)], WHOLE),
    each("number first", lambda x: (torch.bitwise_and(5, x), torch.bitwise_or(5, x), torch.bitwise_xor(5, x)), WHOLE),
    Case("and core form", lambda x, m: (x & 6, m & (x > 3), m | ~m, x ^ x), (I, M), decomposed=True, compiled=True),
    Case("0-d", lambda x, z: (x & z, z | x, z ^ x), (edges(torch.int8), torch.tensor(300))),
    Case("int64 beyond float64", lambda x: (x & (2**53 + 1), x | 2**62, x ^ (2**53 + 1)), (torch.tensor([-1, 2**53 + 1]),)),
    Case("in place", lambda x, m: ((x + 0).bitwise_and_(6).bitwise_or_(1), (x > 0).__iand__(m), (x > 3).__ior__(m)), (I, M)),
    Case("empty, broadcast", lambda x, m: (x[:, :0] & x[:1, :0], x[:, None] | x, m[:1] & m), (I, M)),
    Case("index differences", lambda x: ~x.argmax(1) & 7, (I,)),
    Case("left shift", lambda pairs: [x << n for x, n in pairs], (SHIFTED,)),
    Case("right shift", lambda pairs: [x >> n for x, n in pairs], (SHIFTED,)),
    Case("named shifts", lambda pairs: [(torch.bitwise_left_shift(x, n), torch.bitwise_right_shift(x, n)) for x, n in pairs], (SHIFTED,), decomposed=True),
    each("shift by numbers", lambda x: [(x << n, x >> n) for n in (0, 1, 7, 8, 40, 64)], INTEGERS),
    each("named shift by numbers", lambda x: [(torch.bitwise_left_shift(x, n), torch.bitwise_right_shift(x, n)) for n in (1, 9)], INTEGERS),
    each("shift a number", lambda x: (1 << x, torch.bitwise_right_shift(100, x), torch.bitwise_left_shift(3, x)), INTEGERS),
    Case("shift in place", lambda x: ((x + 0).__ilshift__(2), (x + 0).__irshift__(1)), (I,)),
    Case("shift by mixed types", lambda u, i: (u << i, u >> i), (edges(torch.uint8)[:, None], torch.tensor([0, 1, 9, 65], dtype=torch.int32))),
    Case("size as number", lambda x: (x & x.shape[0], x | x.shape[0], x << x.shape[0], x >> x.shape[0]), (I,),
         dynamic=({0: Dim("n", min=1, max=64)},), also=tuple((torch.arange(3 * n).reshape(n, 3) - 5,) for n in (1, 5, 64))),
]  # fmt: skip


@params(CASES)
def test_bitwise(case, tmp_path):
    check(case, tmp_path)
