"""Powers and exponentials of matrices."""

import torch

from .harness import Case, check, params
from .matrices import CLOSE, CLOSE64, F64, LA, A, C, N
from .test_linear import rand

CASES = [
    *(Case(f"matrix_power {n}", lambda x, n=n: LA.matrix_power(x, n), (A / 3,), tolerance=CLOSE) for n in (0, 1, 3, 5, -2)),
    *(Case(f"matrix_exp {s}", LA.matrix_exp, (rand(2, N, N) * s,), tolerance=(1e-4, 1e-4)) for s in (0.01, 1, 3)),
    Case("matrix_exp float64", LA.matrix_exp, (rand(N, N, dtype=F64),), tolerance=CLOSE64),
    Case("matrix_exp large and negative", LA.matrix_exp, (-A @ A.mT * 50,), tolerance=(1e-3, 1e-6)),
    Case("matrix_exp zeros", LA.matrix_exp, (torch.zeros(2, 3, 3),)),
    Case("matrix_exp rotation", LA.matrix_exp, (rand(4, 4) - rand(4, 4).mT + torch.triu(rand(4, 4), 1) - torch.triu(rand(4, 4), 1).mT,), tolerance=CLOSE),
    Case("vander", LA.vander, (rand(4),)),
    Case("matrix_power complex", lambda x: (LA.matrix_power(x, 3), LA.matrix_power(x, -2)), (C / 3,), tolerance=CLOSE),
    Case("matrix_exp complex", LA.matrix_exp, (C / 2,), tolerance=CLOSE),
    *(Case(f"matrix_exp {d}", LA.matrix_exp, (A.to(d),), refused="half-precision") for d in (torch.float16, torch.bfloat16)),
    Case("vander of integers", lambda x: (LA.vander(x), LA.vander(x, N=2)), (torch.tensor([[1, -2, 3], [4, 5, 6]], dtype=torch.int8),)),
    Case("vander complex", LA.vander, (C[0],), tolerance=CLOSE),
]  # fmt: skip


@params(CASES)
def test_matrix_functions(case, tmp_path):
    check(case, tmp_path)
