"""Each op's NumPy kernel against torch on the CPU: functions of one tensor."""

from dataclasses import dataclass

import numpy as np
import onednn_graph as og
import pytest
from hypothesis import given, settings
from oracle import (
    DTYPES,
)
from torch_oracle import close, exact_tensor, functional, gradients, normal, roundoff, run, tensors, torch

pytestmark = pytest.mark.usefixtures("one_thread")


def f32(value):
    """An attribute as f32 has it; few bits would let a half precision hit it."""
    return float(np.float32(value))


LOW, HIGH = f32(-0.7), f32(1.3)

ALPHA, BETA = f32(0.23), f32(0.57)

CUBE = f32(1.7)

SLOPE = f32(0.13)


@dataclass(frozen=True)
class Function:
    """An eltwise op in torch.

    Attributes:
        torch: the function in float64.
        attributes: of the op.
        lost: how large numbers are that cancel on the way, beyond the result itself.
        positive: whether the op is one of positive numbers.
    """

    torch: object
    attributes: dict
    lost: object = staticmethod(torch.zeros_like)
    positive: bool = False


def _none(x):
    return torch.zeros_like(x)


FORWARD = {
    "Abs": Function(torch.abs, {}),
    "Clamp": Function(lambda x: torch.clamp(x, LOW, HIGH), {"min": LOW, "max": HIGH}),
    "Elu": Function(lambda x: functional.elu(x, ALPHA), {"alpha": ALPHA}),
    "Exp": Function(torch.exp, {}),
    "GELU": Function(functional.gelu, {}, torch.abs),
    "GELU, gelu_erf": Function(functional.gelu, {"mode": "gelu_erf"}, torch.abs),
    "GELU, gelu_tanh": Function(
        lambda x: functional.gelu(x, approximate="tanh"), {"mode": "gelu_tanh"}, torch.abs
    ),
    "HardSigmoid": Function(
        lambda x: (ALPHA * x + BETA).clamp(0, 1),
        {"alpha": ALPHA, "beta": BETA},
        lambda x: ALPHA * x.abs() + BETA,
    ),
    "HardSwish": Function(functional.hardswish, {}, torch.abs),
    "LeakyReLU": Function(lambda x: functional.leaky_relu(x, SLOPE), {"alpha": SLOPE}),
    "Log": Function(torch.log, {}, positive=True),
    "Mish": Function(functional.mish, {}),
    "Pow": Function(lambda x: x**CUBE, {"beta": CUBE}, positive=True),
    "Pow, 2": Function(torch.square, {"beta": 2.0}),
    "Reciprocal": Function(torch.reciprocal, {}),
    "ReLU": Function(torch.relu, {}),
    "Round": Function(torch.round, {}),
    "Sigmoid": Function(torch.sigmoid, {}),
    "SoftPlus": Function(lambda x: functional.softplus(x, threshold=1e9), {}),
    "SoftPlus, beta": Function(lambda x: functional.softplus(x, BETA, threshold=1e9), {"beta": BETA}),
    "SoftPlus, negative beta": Function(
        lambda x: functional.softplus(-BETA * x, threshold=1e9) / -BETA, {"beta": -BETA}
    ),
    "Sqrt": Function(torch.sqrt, {}, positive=True),
    "Square": Function(torch.square, {}),
    "Tanh": Function(torch.tanh, {}),
}


def _one(x):
    return torch.ones_like(x)


def _one_and_more(x):
    return 1 + x.abs()


aten = torch.ops.aten

OF_SRC = {
    "AbsBackward": (FORWARD["Abs"], _none),
    "ClampBackward": (FORWARD["Clamp"], _none),
    "EluBackward": (FORWARD["Elu"], _none),
    "GELUBackward": (FORWARD["GELU"], _one_and_more),
    "GELUBackward, gelu_erf": (FORWARD["GELU, gelu_erf"], _one_and_more),
    "GELUBackward, gelu_tanh": (FORWARD["GELU, gelu_tanh"], lambda x: 1 + x.abs() + x.abs() ** 3 / 9),
    "HardSigmoidBackward": (FORWARD["HardSigmoid"], _none),
    "HardSwishBackward": (FORWARD["HardSwish"], _one_and_more),
    "MishBackward": (FORWARD["Mish"], _one_and_more),
    "ReLUBackward": (FORWARD["ReLU"], _none),
    "SigmoidBackward": (FORWARD["Sigmoid"], _one),
    "SoftPlusBackward": (FORWARD["SoftPlus"], _none),
    "SoftPlusBackward, beta": (FORWARD["SoftPlus, beta"], _none),
    "SoftPlusBackward, negative beta": (FORWARD["SoftPlus, negative beta"], _none),
    "SqrtBackward": (FORWARD["Sqrt"], _none),
    "SwishBackward": (Function(functional.silu, {}), _one_and_more),
    "TanhBackward": (FORWARD["Tanh"], _one),
}
"""Gradient op → its forward function and what cancels in the derivative."""

OF_DST = {
    "ClampBackward": (lambda dy, y: aten.hardtanh_backward(dy, y, LOW, HIGH), _none),
    "EluBackward": (lambda dy, y: aten.elu_backward(dy, ALPHA, 1, 1, True, y), lambda y: y.abs() + ALPHA),
    "ReLUBackward": (lambda dy, y: aten.threshold_backward(dy, y, 0), _none),
    "SigmoidBackward": (aten.sigmoid_backward, _one),
    "SqrtBackward": (lambda dy, y: dy / (2 * y), _none),
    "TanhBackward": (aten.tanh_backward, _one),
}
"""Gradient op with use_dst → torch's own function of diff_dst and dst."""

ELTWISE_ROUNDINGS = 10
"""NumPy's transcendental functions in f32 are good to 4 units, and a kernel calls two of them at most."""


def plain(name):
    """The kind, without what its row in a table adds."""
    return name.split(",")[0]


def test_the_tables_of_elementwise_functions_are_complete():
    kinds = {schema.kind for schema in og.list_ops() if schema.family == "eltwise"}
    assert {plain(name) for name in (*FORWARD, *OF_SRC)} == kinds
    assert set(OF_DST) == {s.kind for s in og.list_ops() if any(a.name == "use_dst" for a in s.attributes)}


def points(rng, shape, dtype, positive):
    """Values around 0 and, but for f16, some far away; never where a derivative jumps."""
    spreads = [0.1, 1.0, 3.0] if dtype == "f16" else [0.1, 1.0, 3.0, 12.0]
    x = normal(rng, shape, dtype) * rng.choice(spreads, shape).astype(DTYPES[dtype])
    x[np.isin(np.abs(x.astype(np.float64)), [0, 3])] = 2.5
    return np.abs(x) if positive else x


def sensitivity(function, x, dtype):
    """How far a few roundings of the argument move the result."""
    h = 4 * roundoff(dtype)
    y = function(x)
    return torch.maximum((function(x * (1 + h)) - y).abs(), (function(x * (1 - h)) - y).abs())


@pytest.mark.parametrize("name", FORWARD)
@settings(max_examples=24)
@given(tensors())
def test_eltwise(name, drawn):
    shape, dtype, rng = drawn
    row = FORWARD[name]
    x = points(rng, shape, dtype, row.positive)
    result = run(plain(name), x, **row.attributes)
    x = exact_tensor(x)
    exact = row.torch(x)
    slack = 0 if name == "Round" else sensitivity(row.torch, x, dtype)
    terms = 0 if name in ("Abs", "Clamp", "ReLU", "Round") else ELTWISE_ROUNDINGS
    close(result, exact, dtype, terms=terms, scale=exact.abs() + row.lost(x), slack=slack)


@pytest.mark.parametrize("name", OF_SRC)
@settings(max_examples=24)
@given(tensors())
def test_eltwise_backward(name, drawn):
    shape, dtype, rng = drawn
    row, lost = OF_SRC[name]
    x, dy = points(rng, shape, dtype, row.positive), normal(rng, shape, dtype)
    more = {"use_dst": False} if name in OF_DST else {}
    result = run(plain(name), x, dy, **row.attributes, **more)
    x, dy = exact_tensor(x), exact_tensor(dy)

    def slope(at):
        return gradients(row.torch, [at], torch.ones_like(at))[0]

    exact = gradients(row.torch, [x], dy)[0]
    slack = dy.abs() * sensitivity(slope, x, dtype)
    scale = exact.abs() + dy.abs() * lost(x)
    close(result, exact, dtype, terms=ELTWISE_ROUNDINGS, scale=scale, slack=slack)


@pytest.mark.parametrize("name", OF_DST)
@pytest.mark.parametrize("told", [True, False])
@settings(max_examples=24)
@given(tensors())
def test_eltwise_backward_of_dst(name, told, drawn):
    """use_dst is the default."""
    shape, dtype, rng = drawn
    row, _ = OF_SRC[name]
    function, lost = OF_DST[name]
    x, dy = points(rng, shape, dtype, row.positive), normal(rng, shape, dtype)
    y = run(name.removesuffix("Backward"), x, **row.attributes)
    result = run(name, y, dy, **row.attributes, **({"use_dst": True} if told else {}))
    y, dy = exact_tensor(y), exact_tensor(dy)
    exact = function(dy, y)
    close(result, exact, dtype, terms=3, scale=exact.abs() + dy.abs() * lost(y))
