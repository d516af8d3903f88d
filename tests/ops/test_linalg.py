"""Decompositions of matrices and what they solve."""

import subprocess
import sys

import mlx.core as mx
import pytest
import torch
from torch.export import Dim

import mlxify
from mlxify.ops.solve import inv

from .harness import Case, _Function, check, params
from .test_linear import rand

F32, F64 = torch.float32, torch.float64
LA = torch.linalg
N = 5
A, A64 = rand(2, N, N) + 3 * torch.eye(N), rand(N, N, dtype=F64) + 3 * torch.eye(N)
TALL, WIDE = rand(2, 6, 4), rand(2, 4, 6)
S = A @ A.mT
B = rand(2, N, 3)
EMPTY = torch.zeros(3, 0, 0)
# The inverse of a matrix of condition c is known to about c units in the last place; here c is below 100.
CLOSE = (1e-4, 1e-5)
CLOSE64 = (1e-10, 1e-12)


def parts(decompose, *names):
    """The results of a decomposition put together again, since their signs are a matter of taste."""

    def whole(x):
        a, *rest = decompose(x)
        product = a
        for b in rest:
            product = product @ (torch.diag_embed(b) if b.ndim == x.ndim - 1 else b)
        return product, a.mT @ a

    return whole


def rebuilt(x, uplo="L"):
    values, vectors = LA.eigh(x, uplo)
    return values, vectors @ torch.diag_embed(values) @ vectors.mT


def eigen_error(x, same):
    values, vectors = LA.eig(x)
    return (same @ vectors - vectors * values[:, None]).abs()


SOLVE = [
    *(Case(f"inv {x.dtype} {tuple(x.shape)}", LA.inv, (x,), tolerance=t) for x, t in ((A, CLOSE), (A64, CLOSE64), (A[0], CLOSE), (EMPTY, None))),
    Case("inv not diagonally dominant", LA.inv, (rand(2, 6, 6),), tolerance=CLOSE),
    Case("inverse", torch.inverse, (A,), tolerance=CLOSE, compiled=True),
    Case("inv_ex", lambda x: tuple(LA.inv_ex(x)), (A,), tolerance=CLOSE, decomposed=True),
    Case("inv_ex info", lambda x: LA.inv_ex(x).info, (torch.stack([A[0], torch.zeros(N, N), A[1] * torch.eye(N)]),)),
    Case("solve", LA.solve, (A, B), tolerance=CLOSE),
    Case("solve float64", LA.solve, (A64, rand(N, 3, dtype=F64)), tolerance=CLOSE64),
    Case("solve vector", LA.solve, (A[0], B[0, :, 0]), tolerance=CLOSE),
    Case("solve vectors", LA.solve, (A, B[:, :, 0]), tolerance=CLOSE),
    Case("solve broadcast", LA.solve, (A[0], B), tolerance=CLOSE),
    Case("solve from the right", lambda a, b: LA.solve(a, b, left=False), (A, B.mT), tolerance=CLOSE),
    Case("solve_ex", lambda a, b: tuple(LA.solve_ex(a, b)), (A, B), tolerance=CLOSE),
    *(Case(f"solve_triangular {u} {n}", lambda a, b, u=u, n=n: LA.solve_triangular(a, b, upper=u, unitriangular=n), (A, B), tolerance=CLOSE)
      for u in (True, False) for n in (True, False)),
    Case("solve_triangular from the right", lambda a, b: LA.solve_triangular(a, b, upper=True, left=False), (A, B.mT), tolerance=CLOSE),
    Case("triangular_solve", lambda b, a: torch.triangular_solve(b, a, transpose=True)[0], (B, A), tolerance=CLOSE),
    *(Case(f"cholesky_solve {u}", lambda b, s, u=u: torch.cholesky_solve(b, s, u), (B, torch.linalg.cholesky(S, upper=u)), tolerance=CLOSE) for u in (True, False)),
    *(Case(f"cholesky_inverse {u}", lambda s, u=u: torch.cholesky_inverse(s, u), (torch.linalg.cholesky(S, upper=u),), tolerance=CLOSE) for u in (True, False)),
    *(Case(f"pinv {tuple(x.shape)}", LA.pinv, (x,), tolerance=CLOSE) for x in (A, TALL, WIDE, A64.float() * torch.tensor([1, 1, 1, 0, 0]))),
    Case("pinv tolerances", lambda x: (LA.pinv(x, atol=0.5), LA.pinv(x, rtol=0.5), LA.pinv(x, atol=0.1, rtol=0.1), LA.pinv(x, 0.4)), (TALL,), tolerance=CLOSE),
    Case("pinv tolerances by matrix", lambda x, t: (LA.pinv(x, atol=t), LA.pinv(x, rtol=t)), (TALL, torch.tensor([0.1, 0.5])), tolerance=CLOSE),
    Case("pinv hermitian", lambda x: LA.pinv(x, hermitian=True), (S,), tolerance=CLOSE),
    Case("pinv empty", LA.pinv, (torch.zeros(2, 3, 0),)),
    Case("pinverse", torch.pinverse, (TALL,), tolerance=CLOSE),
    Case("matrix_rank", LA.matrix_rank, (torch.stack([A[0], A[0] * torch.tensor([1.0, 1, 0, 0, 1])]),)),
    *(Case(f"matrix_power {n}", lambda x, n=n: LA.matrix_power(x, n), (A / 3,), tolerance=CLOSE) for n in (0, 1, 3, 5, -2)),
    *(Case(f"matrix_exp {s}", LA.matrix_exp, (rand(2, N, N) * s,), tolerance=(1e-4, 1e-4)) for s in (0.01, 1, 3)),
    Case("matrix_exp float64", LA.matrix_exp, (rand(N, N, dtype=F64),), tolerance=CLOSE64),
    Case("matrix_exp large and negative", LA.matrix_exp, (-A @ A.mT * 50,), tolerance=(1e-3, 1e-6)),
    Case("matrix_exp zeros", LA.matrix_exp, (torch.zeros(2, 3, 3),)),
    Case("matrix_exp rotation", LA.matrix_exp, (rand(4, 4) - rand(4, 4).mT + torch.triu(rand(4, 4), 1) - torch.triu(rand(4, 4), 1).mT,), tolerance=CLOSE),
    *(Case(f"householder_product {tuple(x.shape)} {k}", LA.householder_product, (x, rand(*x.shape[:-2], k)), tolerance=CLOSE)
      for x, k in ((A, 5), (TALL, 4), (TALL[0], 2), (TALL, 0))),
    Case("tensorinv", lambda x: LA.tensorinv(x.reshape(2, 3, 6)), (rand(6, 6),), tolerance=CLOSE),
    Case("cond", LA.cond, (A,), tolerance=CLOSE),
    Case("vander", LA.vander, (rand(4),)),
    Case("solve dynamic", LA.solve, (A, B), tolerance=CLOSE, dynamic=({0: Dim("b")}, {0: Dim("b"), 2: Dim("k")}),
         also=((A[:1], B[:1, :, :1]), (A.repeat(2, 1, 1), rand(4, N, 9)))),
]  # fmt: skip

DECOMPOSE = [
    *(Case(f"det {x.dtype} {tuple(x.shape)}", torch.det, (x,), tolerance=t) for x, t in ((A, CLOSE), (A64, CLOSE64), (rand(3, 4, 4), CLOSE), (EMPTY, None))),
    Case("det singular", torch.det, (torch.zeros(2, 2),)),
    Case("slogdet", lambda x: tuple(torch.slogdet(x)), (torch.cat([A, -A, rand(2, N, N)]),), tolerance=CLOSE),
    Case("slogdet singular", lambda x: tuple(LA.slogdet(x)), (torch.zeros(2, 2),)),
    Case("logdet", torch.logdet, (S,), tolerance=CLOSE, decomposed=True),
    Case("_linalg_det", lambda x: torch.ops.aten._linalg_det(x)[0], (A,), tolerance=CLOSE),
    Case("lu", lambda x: tuple(LA.lu(x)), (rand(2, 7, 7),), tolerance=CLOSE),
    Case("lu tall", lambda x: tuple(LA.lu(x)), (TALL,), tolerance=CLOSE),
    Case("lu wide", lambda x: tuple(LA.lu(x)), (WIDE,), tolerance=CLOSE),
    Case("lu_factor", lambda x: tuple(LA.lu_factor(x)), (rand(2, 7, 7),), tolerance=CLOSE),
    Case("lu_factor_ex", lambda x: tuple(LA.lu_factor_ex(x)), (torch.stack([A[0], torch.diag(torch.tensor([1.0, 2, 0, 4, 0]))]),), tolerance=CLOSE),
    Case("cholesky", LA.cholesky, (S,), tolerance=CLOSE),
    Case("cholesky upper", lambda x: LA.cholesky(x, upper=True), (S,), tolerance=CLOSE),
    Case("cholesky reads one triangle", lambda x: (LA.cholesky(x.tril()), LA.cholesky(x.triu(), upper=True)), (S,), tolerance=CLOSE),
    Case("cholesky float64", torch.cholesky, (A64 @ A64.mT,), tolerance=CLOSE64),
    Case("cholesky empty", LA.cholesky, (EMPTY,)),
    Case("cholesky_ex info", lambda x: LA.cholesky_ex(x).info, (torch.stack([S[0], -S[0], S[0] - 30 * torch.diag(torch.tensor([0.0, 0, 1, 0, 0])), S[0] * float("nan")]),)),
    *(Case(f"qr {tuple(x.shape)}", lambda x: tuple(LA.qr(x)), (x,), tolerance=CLOSE) for x in (A, TALL, WIDE)),
    *(Case(f"qr complete {tuple(x.shape)}", lambda x: tuple(LA.qr(x, "complete")), (x,), tolerance=CLOSE) for x in (A, TALL, WIDE)),
    Case("qr r", lambda x: tuple(LA.qr(x, "r")), (TALL,), tolerance=CLOSE),
    Case("qr float64", lambda x: tuple(LA.qr(x)), (A64,), tolerance=CLOSE64),
    Case("qr empty", lambda x: tuple(LA.qr(x)), (torch.zeros(3, 0),)),
    Case("orthogonal", lambda x: torch.qr(x)[0], (A,), tolerance=CLOSE),
    *(Case(f"svd {tuple(x.shape)}", parts(lambda x: LA.svd(x, full_matrices=False)), (x,), tolerance=CLOSE) for x in (A, TALL, WIDE)),
    Case("svd full", lambda x: [v.abs() for v in LA.svd(x)[:2]], (WIDE,), tolerance=CLOSE),
    Case("svd old form", lambda x: torch.svd(x)[1], (TALL,), tolerance=CLOSE),
    Case("svdvals", LA.svdvals, (TALL,), tolerance=CLOSE, decomposed=True),
    Case("svdvals complex", LA.svdvals, (torch.complex(A[0], A[1]),), tolerance=CLOSE),
    Case("svd empty", lambda x: tuple(LA.svd(x)), (torch.zeros(0, 3),)),
    Case("eigh", rebuilt, (S,), tolerance=CLOSE),
    Case("eigh empty", lambda x: tuple(LA.eigh(x)), (EMPTY,)),
    Case("eigvals empty", LA.eigvals, (EMPTY,)),
    Case("eigh upper", lambda x: rebuilt(x.triu(), "U"), (S,), tolerance=CLOSE),
    Case("eigh float64", rebuilt, (A64 @ A64.mT,), tolerance=CLOSE64),
    Case("eigvalsh", LA.eigvalsh, (S,), tolerance=CLOSE, decomposed=True),
    Case("eigvalsh complex", LA.eigvalsh, (torch.complex(S[0], torch.zeros(N, N)),), tolerance=CLOSE),
    Case("eigvals", lambda x: LA.eigvals(x).abs().sort()[0], (rand(2, N, N),), tolerance=CLOSE),
    Case("eig", eigen_error, (A, A.to(torch.complex64)), tolerance=(0, 1e-4)),
    Case("eig float64", LA.eigvals, (A64,), refused="complex128"),
    Case("nuclear norm", lambda x: LA.matrix_norm(x, "nuc"), (TALL,), tolerance=CLOSE),
    Case("spectral norm", lambda x: (LA.matrix_norm(x, 2), LA.matrix_norm(x, -2, keepdim=True)), (TALL,), tolerance=CLOSE),
    Case("norm 2 of a matrix", lambda x: LA.norm(x, 2), (TALL[0],), tolerance=CLOSE),
    Case("half", lambda x: LA.inv(x.float()).half(), (A.half(),), tolerance=(2e-3, 1e-3)),
]  # fmt: skip


@params(SOLVE)
def test_solve(case, tmp_path):
    check(case, tmp_path)


@params(DECOMPOSE)
def test_decompose(case, tmp_path):
    check(case, tmp_path)


FAILING = {
    "inv": (LA.inv, torch.ones(3, 3), "singular"),
    "solve": (lambda x: LA.solve(x, x), torch.zeros(3, 3), "singular"),
    "lu_factor": (lambda x: LA.lu_factor(x)[0], torch.zeros(3, 3), "singular"),
    "cholesky": (LA.cholesky, -torch.eye(3), "not positive definite"),
    "eigh": (LA.eigvalsh, torch.full((3, 3), float("nan")), "not finite"),
    "eig": (lambda x: LA.eigvals(x).abs(), torch.full((3, 3), float("inf")), "not finite"),
    "svd": (LA.svdvals, torch.full((3, 3), float("nan")), "SVD"),
}


@pytest.mark.parametrize("name", FAILING)
def test_what_pytorch_refuses_fails(name):
    fn, bad, message = FAILING[name]
    good = torch.eye(3) * 2
    program = mlxify.convert(_Function(fn).eval(), (good,))
    mx.eval(program(good))
    with pytest.raises(Exception, match=message):
        mx.eval(program(bad))


HOSTILE = """
import mlx.core as mx
from mlxify.isa import INSTRUCTIONS
import mlxify.ops
for bad in (mx.zeros((0, 0)), mx.zeros((3, 0, 0)), mx.zeros((0, 2, 2)), mx.zeros((2, 2)), mx.ones((2, 2)),
            mx.full((2, 2), float("nan")), mx.full((2, 2), float("inf")), mx.array([[1e30, 1], [1, 1e-30]]),
            mx.zeros((0, 3)), mx.zeros((3, 0)), mx.zeros((2, 2), mx.float64), mx.zeros((2, 2), mx.complex64),
            mx.zeros((0, 3), mx.complex64), mx.zeros((3, 0), mx.complex64), mx.full((2, 2), -5, mx.int32),
            mx.full((2, 0), 5, mx.int32), mx.zeros((1,)), mx.zeros(()), mx.zeros((1 << 20, 1 << 20))):
    for name, arguments in (("inv", ()), ("lu_factor", ()), ("cholesky", (True,)), ("qr", ()), ("svd", ()),
                            ("eigh", ("L",)), ("eig", ()), ("householder", ()), ("order_of_pivots", (3,)),
                            ("order_of_pivots", (-1,)), ("solve_triangular", (bad, True, False)),
                            ("reflect", (bad, mx.zeros((2,)), True)), ("reflect", (mx.zeros((2, 2)), bad, True))):
        try:
            result = INSTRUCTIONS[name].fn(bad, *arguments)
            if bad.size < 100:
                mx.eval(result)
        except (ValueError, RuntimeError, OverflowError):
            pass
print("survived")
"""


def test_hostile_matrices_do_not_end_the_process():
    run = subprocess.run([sys.executable, "-c", HOSTILE], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0 and "survived" in run.stdout, run.stderr[-2000:]


def test_wrong_dtypes_and_shapes_are_refused():
    for bad in (mx.zeros((2, 2), mx.float16), mx.zeros((2, 2), mx.int32), mx.zeros((2,)), mx.zeros((2, 3))):
        with pytest.raises(ValueError):
            inv(bad)
