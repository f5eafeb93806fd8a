"""`from_torch`: ops that become several of ours, each as torch has it."""

import onednn_graph as og
import pytest

torch = pytest.importorskip("torch", reason="these tests need torch; install the extra 'test-oracles'")

from test_from_torch import Apply, check, integers, normal  # noqa: E402 -- torch comes first

F = torch.nn.functional
NAN, INF = float("nan"), float("inf")
X, Y = normal(3, 4), normal(3, 4, seed=1)
SIGNS = torch.tensor([[-0.0, 0.0, -INF, INF], [-1e-45, 1e-45, -2.0, 2.0]])
ODD = torch.tensor([[NAN, 1.0, -2.0, 0.5], [3.0, -1.0, 2.0, 0.0], [1.0, 1.0, 0.0, NAN]])
W, BITS = torch.arange(-6, 6).reshape(3, 4), torch.arange(4)

EXACT = {
    "left shift": (lambda x: x << 3, W),
    "left shifts": (lambda x: (x[..., None] << BITS).sum(-1), W),
    "right shift": (lambda x: x >> 1, W),
    "right shifts": (lambda x: (x[..., None] >> BITS) & 1, W),
    "right shift of s32": (lambda x: torch.bitwise_right_shift(x, 2), W.int()),
    "left shift of s32": (lambda x: torch.bitwise_left_shift(x, BITS.int()), W.int()),
    "signbit": (torch.signbit, SIGNS),
    "signbit of integers": (torch.signbit, W),
    "copysign": (torch.copysign, normal(2, 4), SIGNS),
    "copysign of two types": (torch.copysign, normal(2, 4).half(), SIGNS),
    "hypot of infinities": (
        lambda x, y: torch.hypot(x, y).nan_to_num(9.0, 7.0),
        torch.tensor([INF, -INF, NAN, INF, 3.0]),
        torch.tensor([NAN, 1.0, INF, INF, 4.0]),
    ),
    "median of a number": (lambda x: x.sum().median(0), W),
    "kthvalue of a number": (lambda x: x.sum().kthvalue(1, 0), W),
    "log2 of powers": (torch.log2, 2.0 ** torch.arange(-126.0, 128)),
    "log10 of powers": (torch.log10, 10.0 ** torch.arange(0.0, 11)),
    "copysign of a number": (lambda x: torch.copysign(x, -0.0), X),
    "copysign of integers": (torch.copysign, W, X),
    "fmax": (lambda x, y: torch.nan_to_num(torch.fmax(x, y), 9.0), ODD, ODD.flip(0)),
    "fmin": (torch.fmin, ODD, Y),
    "fmin of integers": (torch.fmin, W, W.flip(0)),
    "angle": (torch.angle, SIGNS),
    "angle with NaN": (lambda x: torch.nan_to_num(torch.angle(x), 9.0), ODD),
    "angle of integers": (torch.angle, W),
    "median": (lambda x: x.median(1), torch.randperm(20).reshape(4, 5).float()),
    "lower median": (lambda x: x.median(0, keepdim=True), torch.randperm(20).reshape(4, 5).float()),
    "median with NaN": (lambda x: (lambda m: (torch.nan_to_num(m[0], 9.0), m[1]))(x.median(1)), ODD),
    "median of all": (lambda x: x.median(), torch.randperm(20).reshape(4, 5)),
    "cummax": (lambda x: torch.cummax(x, 1), ODD.nan_to_num(-5.0)),
    "cummin": (lambda x: torch.cummin(x, 0), normal(7, 3)),
    "cummax with NaN": (lambda x: (lambda m: (torch.nan_to_num(m[0], 9.0), m[1]))(x.cummax(1)), ODD),
    "cummin with NaN": (lambda x: (lambda m: (torch.nan_to_num(m[0], 9.0), m[1]))(x.cummin(1)), ODD),
    "cummax of equal ones": (lambda x: torch.cummax(x // 3, 1), W.flip(1)),
    "cummin of truths": (lambda x: torch.cummin(x, 1), W % 3 > 0),
    "cummax of a number": (lambda x: torch.cummax(x.sum(), 0), W),
    "gcd": (torch.gcd, W * 6, W.flip(0) * 4),
    "gcd of two types": (torch.gcd, W * 6, torch.tensor(4, dtype=torch.int32)),
    "lcm": (torch.lcm, W * 6, W.flip(0) * 4),
    "kthvalue": (lambda x: x.kthvalue(2, 0), torch.randperm(20).reshape(4, 5).float()),
    "remainder of a number": (lambda x: torch.remainder(7, x), W + 20),
    "cumprod of integers": (lambda x: x.cumprod(1), W),
    "cumprod of truths": (lambda x: x.cumprod(1), W < 2),
    "cumprod of one": (lambda x: x[:, :1].cumprod(1) + 1, X),
    "addmv": (torch.addmv, integers(3), integers(3, 4), integers(4)),
    "addbmm": (
        lambda x, a, b: torch.addbmm(x, a, b, beta=2, alpha=3),
        integers(3, 2),
        integers(5, 3, 4),
        integers(5, 4, 2),
    ),
    "ldexp": (torch.ldexp, X, W),
    "ldexp from end to end": (
        torch.ldexp,
        torch.tensor([1e-38, 2.0**-149, 2.0**127, 0.0, 3.0]),
        torch.tensor([130, 276, -270, 1000, -1000]),
    ),
    "ldexp of halves": (torch.ldexp, torch.tensor([1e-4, 1.0, 6e-8]).half(), torch.tensor([20, -20, 30])),
    "rrelu": (lambda x: F.rrelu(x, 0.25, 0.75), X),
}


@pytest.mark.parametrize("name", EXACT)
def test_a_function(name):
    function, *inputs = EXACT[name]
    check(Apply(function), *inputs, tolerance=0)


ROUNDED = {
    "round to decimals": (lambda x: x.round(decimals=2), X),
    "round to tens": (lambda x: x.round(decimals=-1), 30 * X),
    "hypot": (torch.hypot, X, Y),
    "hypot of large numbers": (lambda x, y: torch.hypot(x, y) * 1e-30, 1e30 * X, 1e30 * Y),
    "hypot of zeros": (torch.hypot, SIGNS[:, :2], SIGNS[:, :2].flip(1)),
    "cumprod": (lambda x: x.cumprod(0), X),
    "erfinv": (torch.erfinv, torch.tensor([-0.9999999, -0.3, 0.0, 1e-30, 0.85, 0.99])),
    "lgamma": (torch.lgamma, torch.tensor([-2.5, 1e-20, 0.5, 1.0, 2.5, 1e5])),
    "lgamma of integers": (lambda x: torch.lgamma(x.abs() + 1), W),
    "digamma": (torch.digamma, torch.tensor([-2.5, 1e-4, 0.5, 1.0, 2.5, 1e5])),
    "trigamma": (lambda x: torch.polygamma(1, x), torch.tensor([-2.5, 1e-4, 0.5, 1.0, 2.5, 1e5])),
    "tetragamma": (lambda x: torch.polygamma(2, x), torch.tensor([1e-4, 0.5, 1.0, 2.5, 1e5])),
    "cumprod of seven": (lambda x: x.cumprod(-1), normal(2, 7)),
}


@pytest.mark.parametrize("name", ROUNDED)
def test_a_rounded_function(name):
    function, *inputs = ROUNDED[name]
    check(Apply(function), *inputs)


@pytest.mark.parametrize("count", [-1, 63])
def test_a_shift_beyond_the_bits_is_refused(count):
    with pytest.raises(og.UnsupportedError, match="a shift of int64 by less than 0 or more than 62 places"):
        og.from_torch(Apply(lambda x: x << count), (W,))


def test_a_shift_that_a_call_brings_is_refused():
    with pytest.raises(og.UnsupportedError, match="a shift by numbers that are known in a call only"):
        og.from_torch(Apply(lambda x, y: x << y), (W, W.abs()))


def test_lengths_of_halves_are_rounded_once():
    a, b = (100 * normal(200)).half(), (100 * normal(200, seed=1)).half()
    made = og.from_torch(Apply(torch.hypot), (a, b)).compile()(a, b).only
    exact = torch.hypot(a.double(), b.double()).numpy()
    assert (abs(made - exact) <= exact * 2.0**-11 * 1.001).all()
