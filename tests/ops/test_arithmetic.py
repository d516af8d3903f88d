"""Arithmetic of two and three operands, limits and powers."""

import torch
from torch.export import Dim
from torch.nn import functional as F

from .harness import Case, check, params
from .values import FEW, FLOATS, INF, INTEGERS, NAN, each, edges, grid

X = torch.tensor([[1.5, -2.25, 0.0], [3.0, -0.5, 7.0]])
Y = torch.tensor([[2.0, 0.5, -1.5], [-3.0, 4.0, 0.25]])
H = torch.linspace(-3, 3, 64).half()
I = torch.tensor([-7, -2, 0, 3, 100])  # noqa: E741
U8 = torch.tensor([0, 1, 44, 255], dtype=torch.uint8)
C = torch.tensor([1 + 2j, -1.5 + 0.5j, 3 - 1j])
D = torch.tensor([2 - 1j, 1 + 0j, 0.5j])
TINY = torch.tensor([1e-45, 3e-42, -1.1e-38, 1.2e-38, 1e-7, -6e-8])
NUMBERS = (0, 1, -7, 100, 0.1, -0.5, 2.5, 1e6, INF, NAN)


def no_bools(a, b):
    return torch.bool in (a, b)


def both_bool(a, b):
    return a == b == torch.bool


def trunc_divide(x, y):
    return torch.div(x, y, rounding_mode="trunc")


def numbers(name, fn, dtypes=FEW, values=NUMBERS, **options):
    """One row: fn(tensor, number) for each dtype and number."""
    return each(name, lambda x: [fn(x, v) for v in values], dtypes, **options)


def scalars(name, fn, dtypes=FEW, values=NUMBERS, **options):
    """One row: fn(tensor, 0-d tensor) for each dtype and number."""
    args = ([edges(d) for d in dtypes], [torch.tensor(v) for v in values])
    return Case(name, lambda xs, zs: [fn(x, z) for x in xs for z in zs], args, **options)


SUMS = [
    grid("add", torch.add),
    grid("mul", torch.mul),
    grid("sub", torch.sub, skip=no_bools),
    grid("rsub", torch.rsub, FEW, skip=no_bools),
    numbers("add numbers", torch.add),
    numbers("mul numbers", torch.mul),
    numbers("sub numbers", torch.sub, FEW[1:]),
    numbers("rsub numbers", torch.rsub, FEW[1:]),
    scalars("add 0-d", torch.add),
    scalars("mul 0-d", torch.mul),
    scalars("mul 0-d first", lambda x, z: z * x),
    scalars("sub 0-d", lambda x, z: (x - z, z - x), FEW[1:]),
    Case(
        "add bool number",
        lambda x: (x + True, x + 1, x * 2.5, x - 0.5 if x.dtype != torch.bool else x),
        (X > 0,),
    ),
    Case("uint8 with negative numbers", lambda x: (x + -1, x - 5, 5 - x, x * -1), (U8,)),
    Case("int64 beyond float64", lambda x: (x + (2**53 + 1), x - (2**62 + 1), x * (2**53 + 1)), (I,)),
    Case("int8 wraps", lambda x: (x + 300, x * 2**40 + 1, x - 128), (edges(torch.int8),)),
    Case(
        "0-d with 0-d", lambda x, y: (x + y, x * y, x - y, x + 300), (torch.tensor(1, dtype=torch.int8), I[0])
    ),
    Case("0-d half with f32", lambda x, y: (x * y, x + y, y / x), (H[5], X[0, 0])),
    # 1/3 in half and 1e5 beyond it: products keep the number's precision, sums round it first.
    Case("half with precise numbers", lambda x: (x * (1 / 3), x * 1e5, x + 1 / 3, x / 1e5, 1 / 3 - x), (H,)),
    Case("half mask times a large number", lambda m: (1 - m) * -1e9, (torch.tensor([1.0, 0.0]).half(),)),
    Case(
        "named aliases", lambda x, y: (torch.multiply(x, y), torch.subtract(x, y), torch.divide(x, y)), (X, Y)
    ),
    Case(
        "multiply.Scalar",
        lambda x: (torch.ops.aten.mul.Scalar(x, 2), torch.ops.aten.add.Scalar(x, 2, 3)),
        (X,),
    ),
    Case(
        "add alpha",
        lambda x, y: (torch.add(x, y, alpha=2), torch.sub(x, y, alpha=0.5)),
        (X, Y),
        compiled=True,
    ),
    Case(
        "rsub alpha",
        lambda x, y: (torch.rsub(x, y, alpha=2), torch.rsub(x, 3, alpha=2)),
        (X, Y),
        decomposed=True,
    ),
    Case("add alpha int", lambda x: (torch.add(x, x, alpha=-3), torch.add(x, 5, alpha=2)), (I,)),
    Case("add alpha int and float", lambda i, x: torch.add(i, x, alpha=0.5), (I[:3], X)),
    Case("add alpha inf free", lambda i, x: torch.add(i, x, alpha=0.5), (I[:1], torch.tensor([INF, -INF]))),
    Case("add alpha bool", lambda b: (torch.add(b, b, alpha=True), torch.add(b, 1, alpha=2)), (X > 0,)),
    Case("add alpha half", lambda x: (torch.add(x, x * 2, alpha=0.3), torch.sub(x, 0.1, alpha=0.3)), (H,)),
    Case(
        "add alpha bf16",
        lambda x: (torch.add(x, x * 2, alpha=0.3), torch.sub(x, 0.1, alpha=3)),
        (H.bfloat16(),),
    ),
    Case("add in place", lambda x, y: (x + 0).add_(y, alpha=2).mul_(y).sub_(1).div_(4), (X, Y)),
    Case("mul in place half by f32", lambda x, y: (x * 1).mul_(y), (H[:3].expand(2, 3), X)),
    Case("complex", lambda x, y: (x + y, x - y, x * y, x / y), (C, D)),
    Case(
        "complex with real", lambda x, y: (x + y, x * 2.5, y * (1 + 2j), x / y, 1 - x, x + 1), (C, X[0] + 5)
    ),
    Case("complex with int", lambda x, i: (x * i, x - i), (C, I[:3])),
    Case("complex alpha", lambda x, y: (torch.add(x, y, alpha=2 - 1j), torch.sub(x, y, alpha=2)), (C, D)),
    Case("empty", lambda x, y: (x + y, x * 2, x / y, x // 2, x % y), (X[:, :0], Y[:1, :0])),
    Case("broadcast", lambda x, y: (x[:, None] + y, y.T * x.T[None], x.T - y.T), (X, Y)),
    Case(
        "addcmul",
        lambda x, y: (torch.addcmul(x, x, y), torch.addcmul(x, y[:1], y, value=0.3)),
        (X, Y),
        decomposed=True,
    ),
    Case(
        "addcdiv",
        lambda x, y: (torch.addcdiv(x, x, y), torch.addcdiv(x, y[:1], y, value=-2)),
        (X, Y),
        decomposed=True,
    ),
    Case("addcmul int", lambda i: (torch.addcmul(i, i, i, value=3), torch.addcmul(i, i, i, value=0.5)), (I,)),
    Case("addcmul types", lambda x, i, b: torch.addcmul(x, i, b, value=0.5), (H[:5], I, H[:5].bfloat16())),
    Case(
        "addcmul half",
        lambda x: (torch.addcmul(x, x, x, value=0.3), torch.addcdiv(x, x, x * 3 + 1, value=0.3)),
        (H,),
    ),
    Case("addcmul complex", lambda x, y: torch.addcmul(x, x, y, value=2j), (C, D)),
    Case(
        "lerp", lambda x, y: [torch.lerp(x, y, w) for w in (0.0, 0.3, 0.5, 1.0, 2)], (X, Y), decomposed=True
    ),
    Case("lerp tensor", lambda x, y, w: (torch.lerp(x, y, w), torch.lerp(x, y, w[0, 0])), (X, Y, Y / 4)),
    Case(
        "lerp half",
        lambda x, w: (torch.lerp(x, x * 2, 0.3), torch.lerp(x, x * 2, x), torch.lerp(x, x * 2, w)),
        (H, X[0, 0]),
    ),
    Case("lerp complex", lambda x, y: (torch.lerp(x, y, 0.25), torch.lerp(x, y, y)), (C, D)),
    Case("dist", lambda x, y: [torch.dist(x, y, p) for p in (2, 1, 0, 3, INF)], (X, Y)),
]

QUOTIENTS = [
    grid("div", torch.div),
    grid("floor_divide int", torch.floor_divide, (torch.bool, *INTEGERS), zero=False, skip=both_bool),
    grid("remainder int", torch.remainder, (torch.bool, *INTEGERS), zero=False, skip=both_bool),
    # PyTorch itself ends the process on the least integer / -1.
    grid("trunc int", trunc_divide, (torch.bool, torch.uint8), zero=False, skip=both_bool),
    Case("trunc signed", lambda x, y: trunc_divide(x[1:, None], y), (edges(torch.int64), edges(torch.int64, zero=False))),
    grid("fmod int", torch.fmod, (torch.bool, *INTEGERS), zero=False, skip=both_bool),
    grid("floor_divide float", torch.floor_divide, FLOATS),
    grid("remainder float", torch.remainder, FLOATS),
    grid("fmod float", torch.fmod, FLOATS),
    grid("trunc float", trunc_divide, FLOATS),
    grid("floor float", lambda x, y: torch.div(x, y, rounding_mode="floor"), FLOATS, same=True),
    grid("int by float", lambda x, y: (x // y, x % y, torch.fmod(x, y)), (torch.int32,), FLOATS),
    numbers("div numbers", torch.div),
    numbers("true_divide number", lambda x, v: (torch.true_divide(x, v), torch.div(x, v, rounding_mode=None)), values=(2, 0.3)),
    numbers("floor_divide numbers", torch.floor_divide, FEW, values=(1, -7, 100, 0.1, -0.5, 2.5, INF, NAN)),
    numbers("floor_divide float by 0", lambda x, v: x // v, FLOATS, values=(0, 0.0, -0.0)),
    numbers("trunc numbers", trunc_divide, FEW, values=(3, -7, 0.1, -0.5, 2.5)),
    numbers("remainder numbers", torch.remainder, FEW, values=(1, -7, 100, 0.1, -0.5, 2.5, INF, NAN)),
    numbers("fmod numbers", torch.fmod, FEW, values=(1, -7, 100, 0.1, -0.5, 2.5, INF, NAN)),
    scalars("div 0-d", lambda x, z: (x / z, z / x)),
    scalars("floor_divide 0-d", lambda x, z: (x // z, trunc_divide(x, z)), values=(1, 3, 0.1, -1 / 3)),
    scalars("remainder 0-d", lambda x, z: (x % z, torch.fmod(x, z)), values=(1, 3, 0.1, -1 / 3)),
    Case("number % tensor", lambda i, x: (5 % i, 5.5 % i, 5.5 % x, 7 // i, 7.5 // x), (I[[0, 1, 3]], Y)),
    Case("int floor used further", lambda i: ((i // 2) * 2, (i // 2) == 1, i - (i // 3) * 3, (i // 2) & 1), (I,)),
    Case("int64 floor beyond float32", lambda i: (i // 1, i // 3, i % 1000), (torch.tensor([2**31 + 1, 2**53 + 1, -(2**62) - 1]),)),
    Case("floor_divide 1/0.1", lambda x, y: (x // y, x % y), (torch.tensor([1.0, 6.0, INF]), torch.tensor([0.1, 0.1, 2.0])), compiled=True),
    Case("modes", lambda x, y: [torch.div(x, y, rounding_mode=m) for m in (None, "floor", "trunc")], (I, I + 1), decomposed=True),
    Case("divide modes", lambda x: [torch.divide(x, 2, rounding_mode=m) for m in (None, "floor", "trunc")], (I,)),
    Case("// 0 refused", lambda i: i // 0, (I,), refused="ZeroDivisionError"),
    Case("% 0 refused", lambda i: i % 0, (I,), refused="ZeroDivisionError"),
    Case("fmod 0 refused", lambda i: torch.fmod(i, 0), (I,), refused="ZeroDivisionError"),
    Case("div 0 floor refused", lambda i: torch.div(i, 0, rounding_mode="floor"), (I,), refused="ZeroDivisionError"),
    Case("gcd", lambda x, y: (torch.gcd(x, y), torch.lcm(x, y)), (I * 6, torch.tensor([21, 4, 0, -18, 75]))),
    Case("gcd worst case", torch.gcd, (torch.tensor([7540113804746346429, 2**62]), torch.tensor([4660046610375530309, 6]))),
    Case("lcm int8", torch.lcm, (torch.tensor([-12, 0, 0, 12, 100], dtype=torch.int8), torch.tensor([18, 0, 5, -18, 7], dtype=torch.int8))),
    Case("gcd types", lambda u, i: (torch.gcd(u, u + 10), torch.gcd(u, i), torch.lcm(u.int(), i)), (U8, I[:4])),
]  # fmt: skip

POWERS = [
    grid("pow int", torch.pow, INTEGERS),
    # MLX's pow and PyTorch's vectorised one differ by two units in the last place of float16.
    grid("pow float", torch.pow, (torch.int32, *FLOATS), tolerance=(2e-3, 1e-4)),
    numbers("pow numbers", torch.pow, FEW[1:], values=(0, 1, 2, 3, 0.1, 0.5, 2.0, 3.0, 2.5), tolerance=(2e-3, 1e-4)),
    numbers("pow negative numbers", torch.pow, FEW[3:], values=(-1, -2, -0.5, -3, -INF, NAN)),
    numbers("pow int by float", torch.pow, (torch.int64,), values=(-1.0, -2.0, -0.5)),
    numbers("pow of numbers", lambda x, v: torch.pow(v, x), FEW[1:], values=(0, 1, 2, -1, 0.1, 2.5)),
    Case("pow 2 negative", lambda i: (2**i, (-1) ** i, 1**i, 0**i), (torch.tensor([-3, -1, 0, 1, 2]),)),
    Case("pow bool", lambda b: (b**2, 2**b, b**0.5), (X > 0,)),
    Case("pow special", lambda x: (x**0.5, x**-0.5, x**0, x**1, x**2), (torch.tensor([-INF, -0.0, 0.0, NAN, -1, INF]),)),
    Case("pow int negative refused", lambda i: i**-1, (I,), refused="negative power"),
    Case("pow 0-d", lambda x, z: (x**z, z**x), (X.abs(), torch.tensor(0.5)), decomposed=True),
    # Complex powers go through polar form.
    Case("pow complex", lambda x, y: (x**y, x**2, x**3, x**0.5, x**-1, x**0, x ** (1 + 1j), 2**x), (C, D), tolerance=(1e-5, 1e-5)),
    grid("float_power", torch.float_power, (torch.int32, *FLOATS)),
    numbers("float_power numbers", torch.float_power, FEW[1:], values=(0, -1, 0.5, -0.5, 2)),
    Case("float_power of a number", lambda i: (torch.float_power(2, i), torch.float_power(0.5, i)), (I,)),
    Case("float_power complex refused", lambda x: torch.float_power(x, 2), (C,), refused="complex128"),
]  # fmt: skip

FUNCTIONS = [
    grid("maximum", torch.maximum),
    grid("minimum", torch.minimum),
    grid("max.other", lambda x, y: (torch.max(x, y), torch.min(x, y)), FEW),
    grid("fmax", torch.fmax),
    grid("fmin", torch.fmin),
    grid("atan2", torch.atan2, FEW),
    grid("arctan2 float64", torch.arctan2, (torch.float64,)),
    grid("hypot", torch.hypot, FLOATS),
    Case("hypot extremes", torch.hypot, (torch.tensor([3e38, 1e-40, INF, NAN, 0.0]), torch.tensor([1e38, 1e-40, NAN, INF, 0.0]))),
    grid("logaddexp", torch.logaddexp, FLOATS),
    grid("logaddexp2", torch.logaddexp2, FLOATS),
    grid("xlogy", torch.xlogy, (*FEW[1:], torch.float64)),
    grid("xlog1py", torch.special.xlog1py, FLOATS, same=True),
    numbers("xlogy numbers", lambda x, v: (torch.xlogy(x, v), torch.xlogy(v, x), torch.special.xlogy(x, v)), FEW[1:], values=(0, 2, 0.3)),
    numbers("xlog1py numbers", lambda x, v: (torch.special.xlog1py(x, v), torch.special.xlog1py(v, x)), FEW[3:], values=(0, 2, 0.3)),
    grid("copysign", torch.copysign),
    numbers("copysign numbers", torch.copysign, values=(1, -1, 0.0, -0.0, -INF)),
    Case("copysign of zeros", lambda x, y: 1 / torch.copysign(x, y), (torch.tensor([0.0, -0.0, 0.0]), torch.tensor([-0.0, 0.0, -3.0]))),
    grid("heaviside", torch.heaviside, same=True),
    each("frexp", torch.frexp, FLOATS, tolerance=(0, 0)),
    Case("frexp of small numbers", lambda *xs: [torch.frexp(x) for x in xs], (TINY, TINY.half(), TINY.bfloat16(), torch.tensor([5e-324, -1e-310, 2.3e-308], dtype=torch.float64)), tolerance=(0, 0)),
    grid("nextafter", torch.nextafter, (torch.float32, torch.float64, torch.bfloat16, torch.float16), same=True, tolerance=(0, 0)),
    Case("complex logaddexp", torch.logaddexp, (C, D)),
    Case("ldexp", torch.ldexp, (X, I[:3])),
]  # fmt: skip

LIMITS = [
    numbers("clamp numbers", lambda x, v: (x.clamp(min=v), x.clamp(max=v), x.clamp(v, 5)), FEW[1:3], values=(0, 2, 0.5, 2.5)),
    numbers("clamp float numbers", lambda x, v: (x.clamp(min=v), x.clamp(max=v)), FLOATS, values=(0, -0.1, 300, INF, NAN)),
    Case("clamp int fractions", lambda i: (i.clamp(-0.5, 2.5), i.clamp_min(0.5), i.clamp_max(2.5)), (I,), decomposed=True),
    Case("clamp bool", lambda b: b.clamp(0, 1), (X > 0,)),
    Case("clamp int64 limits", lambda i: (i.clamp(max=2**53 + 1), i.clamp(0, 2**63 - 1)), (torch.tensor([2**60, -(2**60)]),)),
    Case("clamp min over max", lambda x: (x.clamp(2, 1), torch.clip(x, 2, 1)), (X,)),
    Case("clamp tensor", lambda x, y, i: (torch.clamp(x, y), torch.clamp(x, max=y), torch.clamp(x, y, i), torch.clip(x, i, y)), (X, Y, I[:3])),
    Case("clamp nan", lambda x, y: (torch.clamp(x, y), torch.clamp(y, x * 0, x), x.clamp(NAN)), (X, torch.where(Y > 0, NAN, Y))),
    Case("clamp 0-d", lambda h, z, i: (torch.clamp(h, z), torch.clamp(i, z), torch.clamp(z, max=i)), (H, X[0, 0], I)),
    Case("clamp uint8", lambda u, i: (u.clamp(min=-5), u.clamp(3, 200), torch.clamp(u, i[0], i[4])), (U8, I)),
    Case("clamp_min tensor", lambda x, y: (x.clamp_min(y), x.clamp_max(y), x.clamp_min(0), torch.clip(x, min=0.5)), (X, Y)),
    Case("clamp in place", lambda x: (x + 1).clamp_(0, 2).clamp_min_(0.5).clamp_max_(1.5), (X,)),
    Case("clamp overflow refused", lambda h: h.clamp(max=1e6), (H,), refused="does not fit"),
    Case("clamp int overflow refused", lambda i: i.clamp(max=2**40), (I.int(),), refused="does not fit"),
    Case("hardtanh", lambda x: (F.hardtanh(x), F.hardtanh(x, -0.1, 2)), (torch.tensor([-INF, -0.05, NAN, 1.5]),), decomposed=True),
    Case("hardtanh half then f32", lambda h: (F.hardtanh(h, -0.1, 0.1), F.hardtanh(h.float(), -0.1, 0.1)), (H,)),
    Case("hardtanh int", lambda i: (F.hardtanh(i), F.hardtanh(i, -0.5, 10.5)), (I,)),
    Case("relu6", F.relu6, (X * 3,)),
]  # fmt: skip

N = Dim("n", min=1, max=64)


def at(*sizes):
    return tuple((torch.randn(n, 3),) for n in sizes)


DYNAMIC = [
    Case("sizes as numbers", lambda x: (x + x.shape[0], x * x.shape[0], x / x.shape[0], x.shape[0] - x, x % x.shape[0]),
         (X,), dynamic=({0: N},), also=at(1, 5, 64)),
    Case("sizes as powers", lambda x: (x.abs() ** x.shape[0], x.shape[0] ** x, x // x.shape[0], torch.fmod(x, x.shape[0])),
         (X,), dynamic=({0: N},), also=at(1, 3, 4)),
    Case("sizes as limits", lambda x: (x.clamp(max=x.shape[0] - 2), torch.add(x, x, alpha=x.shape[0]), F.hardtanh(x, 0, x.shape[0])),
         (X,), dynamic=({0: N},), also=at(1, 3, 64)),
    Case("half with a size", lambda x: (x.half() / x.shape[0], x.half() * x.shape[0], x.half() * (x.shape[0] / 7)),
         (X,), dynamic=({0: N},), also=at(1, 3, 64)),
    Case("int with a size", lambda x: (x.long() // x.shape[0], x.int() * x.shape[0], x.int() + x.shape[0] / 2, x.int() - x.shape[0]),
         (X,), dynamic=({0: N},), also=at(1, 3, 64)),
    Case("broadcast dynamic", lambda x: (x + x[:1], x[:, None] * x, torch.lerp(x, x[:1], 0.3)),
         (X,), dynamic=({0: N},), also=at(1, 3, 64)),
    Case("items as numbers", lambda x, i: (x * i.item(), x - i.item(), x / i.item(), x.abs() ** i.item(), x % i.item(), x // i.item()),
         (X, I[3]), also=((Y, I[4]),)),
    Case("half with items", lambda h, z: (h * z.item(), h / z.item(), h + z.item()), (H, torch.tensor(1 / 3))),
    Case("int8 with an item", lambda x, i: (x + i.item(), x * i.item(), x.clamp(max=i.item())), (edges(torch.int8), I[4])),
]  # fmt: skip


@params([*SUMS, *QUOTIENTS, *POWERS, *FUNCTIONS, *LIMITS, *DYNAMIC])
def test_arithmetic(case, tmp_path):
    check(case, tmp_path)
