"""What all decompositions of matrices have in common: what fails, and what a hostile file may do."""

import subprocess
import sys

import mlx.core as mx
import numpy as np
import pytest
import torch

import mlxify
from mlxify.ops.linalg import MAX_STEPS
from mlxify.ops.solve import inv

from .harness import Case, _Function, check, params
from .matrices import LA, A, N, S

FAILING = {
    "inv": (LA.inv, torch.ones(3, 3), "singular"),
    "solve": (lambda x: LA.solve(x, x), torch.zeros(3, 3), "singular"),
    "lu_factor": (lambda x: LA.lu_factor(x)[0], torch.zeros(3, 3), "singular"),
    "cholesky": (LA.cholesky, -torch.eye(3), "not positive definite"),
    "eigh": (LA.eigvalsh, torch.full((3, 3), float("nan")), "not finite"),
    "eig": (lambda x: LA.eigvals(x).abs(), torch.full((3, 3), float("inf")), "not finite"),
    "inv complex": (lambda x: LA.inv(x + 0j), torch.ones(3, 3), "singular"),
    "inv_ex": (lambda x: LA.inv_ex(x, check_errors=True)[0], torch.ones(3, 3), "singular"),
    "cholesky complex": (lambda x: LA.cholesky(x + 0j), -torch.eye(3), "not positive definite"),
    "cholesky_inverse": (torch.cholesky_inverse, torch.zeros(3, 3), "zero"),
    "ldl_factor": (lambda x: LA.ldl_factor(x)[0], torch.zeros(3, 3), "singular"),
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


def test_pivots_out_of_range_fail():
    def unpacked(x, pivots):
        return torch.lu_unpack(x, pivots)[0]

    good, bad = (torch.tensor(p, dtype=torch.int32) for p in ([2, 2], [3, 2]))
    program = mlxify.convert(_Function(unpacked).eval(), (torch.eye(2), good))
    mx.eval(program(torch.eye(2), good))
    with pytest.raises(mlxify.InputError, match="pivots"):
        mx.eval(program(torch.eye(2), bad))


def test_checks_behind_an_effect_token_fail():
    exported = torch.export.export(
        _Function(lambda x: (LA.inv(x), LA.cholesky(x))).eval(), (S[0],), strict=False
    ).run_decompositions()
    assert any(spec.kind.name == "TOKEN" for spec in exported.graph_signature.input_specs)
    program = mlxify.convert(exported)
    inverse, factor = program(S[0])
    np.testing.assert_allclose(np.array(inverse), LA.inv(S[0]), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.array(factor), LA.cholesky(S[0]), rtol=1e-4, atol=1e-5)
    with pytest.raises(mlxify.InputError, match="cholesky: a matrix"):
        mx.eval(program(-torch.eye(N)))


LIMITS = [
    Case("too many steps", lambda x: LA.qr(x)[0], (torch.zeros(MAX_STEPS + 1, MAX_STEPS + 1) + 0j,), refused="at most"),
    Case("half precision", torch.det, (A.half(),), refused="float16"),
]  # fmt: skip


@params(LIMITS)
def test_what_is_not_supported_is_refused(case, tmp_path):
    check(case, tmp_path)


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
                            ("ldl_factor", (True,)), ("ldl_factor", (False,)),
                            ("ldl_solve", (mx.full((2,), 9, mx.int32), bad, True)),
                            ("ldl_solve", (mx.full((2,), -9, mx.int32), bad, False)),
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
