"""`from_torch`: integers, truths, halves and tensors without axes, in the types and with the numbers that torch has."""

import numpy as np
import onednn_graph as og
import pytest

torch = pytest.importorskip("torch", reason="these tests need torch; install the extra 'test-oracles'")

from test_from_torch import Apply, check, normal  # noqa: E402 -- torch comes first

F = torch.nn.functional
W = torch.arange(-6, 6).reshape(3, 4)
TRUTHS, BYTES = W % 3 > 0, W.to(torch.uint8)
X, HALF = normal(3, 4), normal(3, 4).half()
SCALAR, WHOLE, TRUTH = torch.tensor(1.1), torch.tensor(3), torch.tensor(True)
WIDE = torch.tensor(1.1, dtype=torch.float64)

EXACT = {
    "a sum of truths": (lambda x, y: (x + y, x + True), TRUTHS, ~TRUTHS),
    "the larger truth": (lambda x, y: (torch.maximum(x, y), torch.minimum(x, y)), TRUTHS, TRUTHS.flip(0)),
    "extremes of truths": (lambda x: (x.amax(1), x.amin(0, True), x.max(), x.min()), TRUTHS),
    "places of truths": (lambda x: (*x.max(1), *x.min(0)), TRUTHS),
    "truths in order": (lambda x: x.sort(stable=True), TRUTHS),
    "whether bytes are": (lambda x: (x.any(1), x.all()), BYTES),
    "whether one of nothing is": (lambda x: (x.any(0), x.all(0), x.any() + x.sum() > 1), X[:0]),
    "roundings of integers": (lambda x: (x.floor() + x.ceil(), x.trunc() + x.round()), W),
    "tests of integers": (lambda x: (x.isnan() | (x > 1), x.isinf() | (x > 2), x.isfinite() & (x > 0)), W),
    "signs": (lambda x, y: (x.sign() | y, y.sign(), (-y) + 1), TRUTHS, BYTES),
    "ReLU of integers": (F.relu, W),
    "integers between fractions": (lambda x: (x.clamp(-1.5, 2.5), x.clamp(min=0.5), x.clamp(-1, 3)), W),
    "powers of integers": (lambda x: (x**2, x**3, x.square(), x.int() ** 2, x**1, x.to(torch.int8) ** 4), W),
    "sums so far without axes": (lambda x: x.cumsum(0) + 1, WHOLE),
    "reductions without axes": (
        lambda x: (x.amax(0) + 1, x.sum(0) + 1, x.argmax() + 1, x.argmin(0) + 1, x.any(), x.all(0)),
        SCALAR,
    ),
    "order without axes": (lambda x: [one + 1 for one in (*x.sort(), *x.topk(1), *x.max(0))], SCALAR),
    "softmax without axes": (lambda x: x.softmax(0) + x.log_softmax(0), SCALAR),
    "f64 without axes": (lambda x, y: (x + y > 0, torch.maximum(x, y).floor()), X, WIDE),
    "f32 without axes, compared": (lambda x, y: (x > y, torch.maximum(x, y), x.clamp(min=y)), HALF, SCALAR),
    "f32 without axes, chosen": (
        lambda x, y: (torch.where(x > 0, x, y), torch.where(x > 0, y, x)),
        HALF,
        SCALAR,
    ),
    "halves of both kinds": (lambda x, y: torch.cat([x, y]), HALF, X.bfloat16()),
}


@pytest.mark.parametrize("name", EXACT)
def test_exact(name):
    function, *inputs = EXACT[name]
    check(Apply(function), *inputs, tolerance=0)


FUNCTIONS = (
    *("acos", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "exp", "exp2", "expm1", "log", "log10"),
    *("log1p", "log2", "reciprocal", "rsqrt", "sigmoid", "sin", "sinh", "sqrt", "tan", "tanh"),
)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_integers_and_truths_become_fractions(name):
    function = Apply(getattr(torch, name))
    check(function, W[2] if name not in ("acos", "asin", "atanh") else W[1] * 0)
    check(function, torch.ones(3, dtype=torch.bool) if name != "atanh" else torch.zeros(3, dtype=torch.bool))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("scalar", [SCALAR, torch.tensor(2049), WIDE], ids=["f32", "s64", "f64"])
def test_a_tensor_without_axes_beside_halves(dtype, scalar):
    """It is rounded to their type before, but for the second operand of a product or a quotient."""

    def arithmetic(x, y):
        return x + y, x - y, y - x, x * y, y * x, x / y, y / x

    check(Apply(arithmetic), (normal(200).abs() + 0.25).to(dtype), scalar, tolerance=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_statistics_of_halves_are_rounded_once(dtype):
    x = (normal(4, 64) + 200).to(dtype)
    functions = {
        "variance": lambda x: x.var(1),
        "deviation": lambda x: (x * 4).std(0, correction=0),
        "norm": lambda x: torch.linalg.vector_norm(x, 3, dim=1),
        "logarithm": lambda x: (x - 200).logsumexp(1),
    }
    for name, function in functions.items():
        made = og.from_torch(Apply(function), (x,)).compile()(x).only.astype("f8")
        exact = function(x.double() if name != "deviation" else x).double().numpy()
        assert np.isfinite(made).all(), name
        np.testing.assert_allclose(made, exact, rtol=2 * torch.finfo(dtype).eps, err_msg=name)


def test_the_logarithm_of_a_sum_with_nan_and_infinities():
    x = torch.tensor([[np.nan, 1], [-np.inf, -np.inf], [np.inf, 1], [-np.inf, 2], [np.nan, np.inf]])
    made = og.from_torch(Apply(lambda x: x.logsumexp(1)), (x,)).compile()(x).only
    np.testing.assert_allclose(made, x.logsumexp(1).numpy(), rtol=1e-6)


def test_heads_share_keys_and_values_differently():
    q, k, v = normal(2, 6, 5, 8), normal(2, 2, 7, 8, seed=1), normal(2, 3, 7, 4, seed=2)
    attend = Apply(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True))
    check(attend, q, k, v)
