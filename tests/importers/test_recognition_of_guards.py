"""No guard is lost, and no constant is rounded: what is recognised means, in all tails, what was written."""

import functools
import random
import warnings

import ml_dtypes
import numpy as np
import onednn_graph as og
import pytest

mpmath = pytest.importorskip("mpmath", reason="these tests need mpmath; install the extra 'test-oracles'")

from onnx_formulas import function, model_of_formula  # noqa: E402 -- mpmath comes first
from written_formulas import KNOWN, POINTS, ROOT, Drawn, Exact, drawn, meaning_of, value_of  # noqa: E402

ULPS = {"f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7}
DIGITS_END = mpmath.mpf(10) ** -40
TYPES = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}


class InOnnx:
    """The ops as nodes of ONNX."""

    exp, sigmoid, softplus, tanh, erf, log, sqrt, absolute, larger, smaller, clipped = map(
        staticmethod,
        map(
            function,
            ["Exp", "Sigmoid", "Softplus", "Tanh", "Erf", "Log", "Sqrt", "Abs", "Max", "Min", "Clip"],
        ),
    )

    @staticmethod
    def number(value, meant=False):
        return value

    def clip(self, x, low, high):
        return self.clipped(x, low, high)

    @staticmethod
    def positive(x, a, b):
        return x.made("Greater", 0).made("Where", a, b)


def assert_same_meaning(graph, formula, name):
    """At all points where the formula has a value, but for what constants that no type holds may be off."""
    rounded, ulp = TYPES[name], ULPS[name]
    for point in POINTS:
        with np.errstate(over="ignore"):
            x = mpmath.mpf(float(rounded(point)))
        if not mpmath.isfinite(x):
            continue
        want, *around = [value_of(formula, Exact(rounded, off), x) for off in (0.0, ulp, -ulp)]
        if want is None or None in around:
            continue
        made, *moved = [value_of(meaning_of, graph, x, off) for off in (0.0, 2.0**-23, -(2.0**-23))]
        spread = [abs(one - want) for one in around] + [
            abs(one - made) for one in moved if None not in (one, made)
        ]
        slack = 8 * max(spread) + 1e-6 * abs(want)  # attributes are f32
        if made is None and abs(want) <= DIGITS_END:
            continue  # a root of what the oracle has no digits for
        where = f"{formula} at {mpmath.nstr(x, 9)}: {made} for {want}; {[op.kind for op in graph.ops]}"
        assert made is not None, where
        assert abs(made - want) <= slack + DIGITS_END, where


def assert_drawn_mean_the_same(seed, name, count):
    numbers = random.Random(f"{name} {seed}")
    for _ in range(count):
        formula = drawn(numbers, ULPS[name])
        x = np.ones((2, 2), TYPES[name])
        model = model_of_formula(lambda x, f=formula: f(InOnnx(), x), x, dtype=TYPES[name])
        if model.graph.node:
            assert_same_meaning(og.from_onnx(model), formula, name)


@pytest.mark.no_cover
@pytest.mark.parametrize("name", TYPES)
def test_what_is_drawn_means_the_same(name):
    assert_drawn_mean_the_same(0, name, 20)


@pytest.mark.long
@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("seed", range(1, 6))
def test_much_that_is_drawn_means_the_same(name, seed):
    assert_drawn_mean_the_same(seed, name, 100)


PLACES = [
    (known, place, away, name)
    for known, one in KNOWN.items()
    for place in range(one.constants)
    for away in ("1 %", "0.1 %", "1 ulp")
    for name in TYPES
]


@pytest.mark.long
@pytest.mark.parametrize(("known", "place", "away", "name"), PLACES)
def test_each_constant_counts(known, place, away, name):
    """Also what has exact constants beside it."""
    formula = Drawn(((known, place, away, "nothing", "nothing"),), ULPS[name])
    x = np.ones((2, 2), TYPES[name])
    model = model_of_formula(lambda x: formula(InOnnx(), x), x, dtype=TYPES[name])
    assert_same_meaning(og.from_onnx(model), formula, name)


GUARDED = {
    "log of what is clamped": lambda m, x: m.log(m.clip(m.sigmoid(x), 1e-7, 1 - 1e-7)),
    "log of a sum": lambda m, x: m.log(m.sigmoid(x) + 1e-8),
    "log of a sigmoid written out": lambda m, x: m.log(1 / (1 + m.exp(-x)) + 1e-8),
    "inverse": lambda m, x: 1 / (m.sigmoid(x) + 1e-7),
    "log of a softplus": lambda m, x: m.log(m.softplus(x) + 1e-6),
    "log of a softplus written out": lambda m, x: m.log(m.log(1 + m.exp(x)) + 1e-6),
    "log of a distance": lambda m, x: m.log(m.absolute(x) * 0.5 + 1e-7),
    "log of a gelu": lambda m, x: m.log(m.absolute(x * (m.erf(x / ROOT) + 1) * 0.5) + 1e-7),
    "log of a leaky relu": lambda m, x: m.log(m.absolute(m.larger(x, 0.1 * x)) + 1e-7),
}
"""What a loss has."""
X = np.array([-87, -80, -40, -17, -3, -0.5, 0, 1e-20, 0.25, 3, 16, 40, 80], np.float32)


class InTorch:
    """The ops as torch's."""

    @staticmethod
    def named(name):
        return functools.partial(InTorch._called, name)

    @staticmethod
    def _called(name, x, *more):
        import torch

        more = [torch.tensor(one, dtype=x.dtype) if isinstance(one, float) else one for one in more]
        return getattr(torch.nn.functional if name == "softplus" else torch, name)(x, *more)

    @staticmethod
    def clip(x, low, high):
        return x.clamp(low, high)

    @staticmethod
    def number(value, meant=False):
        return value

    @staticmethod
    def positive(x, a, b):
        import torch

        return torch.where(x > 0, a, b)


for _name, _torchs in {"absolute": "abs", "larger": "maximum", "smaller": "minimum"}.items():
    setattr(InTorch, _name, InTorch.named(_torchs))
for _name in ("exp", "sigmoid", "softplus", "tanh", "erf", "log", "sqrt"):
    setattr(InTorch, _name, InTorch.named(_name))


def by_onnx(formula, x):
    return og.from_onnx(model_of_formula(lambda x: formula(InOnnx(), x), x)).compile()(x).only


def as_module(formula):
    import torch

    class Module(torch.nn.Module):
        def forward(self, x):
            return formula(InTorch(), x)

    return Module()


def by_export(formula, x):
    torch = pytest.importorskip("torch", reason="needs torch; install the extra 'test-oracles'")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return og.from_torch(as_module(formula), (torch.from_numpy(x),)).compile()(x).only


def by_torch_compile(formula, x):
    torch = pytest.importorskip("torch", reason="needs torch; install the extra 'test-oracles'")
    torch._dynamo.reset()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.compile(as_module(formula), backend="onednn_graph")(torch.from_numpy(x)).numpy()


@pytest.mark.parametrize("door", [by_onnx, by_export, by_torch_compile])
@pytest.mark.parametrize("name", GUARDED)
def test_a_guard_stays_on_every_way_in(name, door):
    """But for roundings, which sums with 1 go through where x is far below 0."""
    formula, exact = GUARDED[name], Exact(np.float32)
    want = [float(formula(exact, mpmath.mpf(float(one)))) for one in X]
    np.testing.assert_allclose(door(formula, X), want, rtol=5e-3, atol=1e-5)


def test_a_pair_of_halves_that_is_no_function():
    """What is off by less than a rounding of bf16 is off."""
    for formula, kinds in (
        (lambda x: function("Abs")(x) * 0.99, ["Abs", "Multiply"]),
        (lambda x: function("Sigmoid")(x * 1.01), ["Multiply", "Sigmoid"]),
        (lambda x: function("Clip")(function("Sigmoid")(x), 0.01, 0.99), ["Sigmoid", "Clamp"]),
    ):
        for dtype in (np.float16, ml_dtypes.bfloat16):
            graph = og.from_onnx(model_of_formula(formula, np.ones((2, 2), dtype), dtype=dtype))
            assert [op.kind for op in graph.ops if op.kind != "TypeCast"] == kinds


def test_a_sum_that_rounds_is_no_identity():
    """(x + 2²³) − 2²³ rounds to whole numbers."""
    x = np.array([0.25, 0.75, 1.5, 2.5], np.float32)
    graph = og.from_onnx(model_of_formula(lambda x: x * ((x + 2.0**23) - 2.0**23), x))
    np.testing.assert_array_equal(graph.compile()(x).only, x * np.rint(x))
