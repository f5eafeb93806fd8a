"""What a model writes out of several ops becomes the one op that the set has for it, and nothing else does."""

import math

import numpy as np
import onednn_graph as og
import pytest
from onnx_formulas import function, model_of_formula, over_last
from onnx_oracle import check, helper, model_of, normal

erf, tanh, exp, log, sigmoid, relu, absolute, sqrt, reciprocal, clip = map(
    function,
    ["Erf", "Tanh", "Exp", "Log", "Sigmoid", "Relu", "Abs", "Sqrt", "Reciprocal", "Clip"],
)
smallest, largest, where, greater = map(function, ["Min", "Max", "Where", "Greater"])
mean, total, peak = map(over_last, ["ReduceMean", "ReduceSum", "ReduceMax"])

ROOT, SCALE, CUBE = math.sqrt(2), math.sqrt(2 / math.pi), 0.044715
X = np.concatenate([np.linspace(-12, 12, 121), [-80, 80, 0, 1e-5]]).astype(np.float32).reshape(5, 25)
EXACT_ERF = np.vectorize(math.erf, otypes=[np.float64])


def gelu_erf(x):
    return x * (1 + EXACT_ERF(x / ROOT)) / 2


def gelu_tanh(x):
    return x * (1 + np.tanh(SCALE * (x + CUBE * x**3))) / 2


def softplus(x):
    return np.logaddexp(0, x)


def mish(x):
    return x * np.tanh(softplus(x))


def hard_swish(x):
    return x * np.clip(x + 3, 0, 6) / 6


SPELLINGS = {
    "gelu, erf: division first": (lambda x: x * (erf(x / ROOT) + 1) * 0.5, "GELU", gelu_erf),
    "gelu, erf: half first": (lambda x: (0.5 * x) * (1 + erf(x * (1 / ROOT))), "GELU", gelu_erf),
    "gelu, erf: half of the sum": (lambda x: x * (0.5 * (1 + erf(x / ROOT))), "GELU", gelu_erf),
    "gelu, erf: divided by two": (lambda x: (erf(x / ROOT) + 1) * x / 2, "GELU", gelu_erf),
    "gelu, erf: half inside": (lambda x: x * (0.5 + 0.5 * erf(x / ROOT)), "GELU", gelu_erf),
    "gelu, erf: a sum": (lambda x: 0.5 * x + 0.5 * x * erf(x / ROOT), "GELU", gelu_erf),
    "gelu, tanh: Pow": (
        lambda x: 0.5 * x * (1 + tanh(SCALE * (x + CUBE * x**3.0))),
        "GELU",
        gelu_tanh,
    ),
    "gelu, tanh: x · x · x": (
        lambda x: x * 0.5 * (tanh((CUBE * x * x * x + x) * SCALE) + 1),
        "GELU",
        gelu_tanh,
    ),
    "gelu, tanh: factored": (
        lambda x: 0.5 * (x * (1 + tanh(x * SCALE * (1 + CUBE * (x * x))))),
        "GELU",
        gelu_tanh,
    ),
    "gelu, tanh: by sigmoid": (
        lambda x: x * sigmoid(2 * SCALE * (x + CUBE * x**3.0)),
        "GELU",
        gelu_tanh,
    ),
    "hard swish: Clip": (lambda x: x * clip(x + 3, 0, 6) / 6, "HardSwish", hard_swish),
    "hard swish: Min and Max": (
        lambda x: (x * (1 / 6)) * smallest(largest(x + 3, 0), 6),
        "HardSwish",
        hard_swish,
    ),
    "hard swish: of one": (lambda x: clip(x / 6 + 0.5, 0, 1) * x, "HardSwish", hard_swish),
    "hard sigmoid": (lambda x: clip(x + 3, 0, 6) / 6, "HardSigmoid", lambda x: np.clip(x / 6 + 0.5, 0, 1)),
    "hard sigmoid, of other lines": (
        lambda x: smallest(relu(x * 0.2 + 0.5), 1),
        "HardSigmoid",
        lambda x: np.clip(0.2 * x + 0.5, 0, 1),
    ),
    "hard sigmoid, falling": (
        lambda x: clip(0.25 - x * 0.125, 0, 1),
        "HardSigmoid",
        lambda x: np.clip(0.25 - 0.125 * x, 0, 1),
    ),
    "mish": (lambda x: x * tanh(log(1 + exp(x))), "Mish", mish),
    "mish, without overflow": (
        lambda x: tanh(relu(x) + log(exp(-absolute(x)) + 1)) * x,
        "Mish",
        mish,
    ),
    "softplus": (lambda x: log(exp(x) + 1), "SoftPlus", softplus),
    "softplus, steep": (lambda x: log(1 + exp(3 * x)) / 3, "SoftPlus", lambda x: softplus(3 * x) / 3),
    "sigmoid": (lambda x: 1 / (1 + exp(-x)), "Sigmoid", lambda x: 1 / (1 + np.exp(-x))),
    "tanh": (lambda x: 2 * sigmoid(2 * x) - 1, "Tanh", np.tanh),
    "leaky relu": (lambda x: largest(x, 0.125 * x), "LeakyReLU", lambda x: np.where(x > 0, x, x / 8)),
    "elu": (
        lambda x: where(greater(x, 0), x, 0.5 * (exp(x) - 1)),
        "Elu",
        lambda x: np.where(x > 0, x, 0.5 * np.expm1(np.minimum(x, 0))),
    ),
    "clamp": (lambda x: largest(smallest(x, 4), -2), "Clamp", lambda x: np.clip(x, -2, 4)),
    "relu": (lambda x: largest(x, 0), "ReLU", lambda x: np.maximum(x, 0)),
    "square": (lambda x: x * x, "Square", np.square),
}


def kinds_of(graph):
    return [op.kind for op in graph.ops]


@pytest.mark.parametrize("name", SPELLINGS)
def test_a_function_written_out_is_one_op(name):
    formula, kind, exact = SPELLINGS[name]
    graph = og.from_onnx(model_of_formula(formula, X))
    assert kinds_of(graph) == [kind]
    (result,) = graph.compile()(X).values()
    want = exact(X.astype(np.float64))
    assert np.all(np.abs(result - want) <= 2e-6 * np.maximum(np.abs(want), np.abs(X)) + 1e-6)


@pytest.mark.parametrize("name", SPELLINGS)
def test_between_other_ops_it_keeps_its_name(name):
    """Also with sizes that are left open."""
    formula, kind, _ = SPELLINGS[name]
    model = model_of_formula(lambda x: exp(formula(exp(x))), X[:1], shapes={"x": ["n", 25]})
    model.graph.node[-2].name = "the end of it"
    graph = check(model, {"x": np.minimum(X, 1)}, rtol=1e-4)
    assert kinds_of(graph) == ["Exp", kind, "Exp"]
    assert [graph.ops[1].name, graph.ops[1].outputs[0].name] == ["the end of it", "the end of it"]


NEARLY = {
    "gelu, erf: another root": lambda x: x * (erf(x / 1.4148) + 1) * 0.5,
    "gelu, erf: another half": lambda x: x * (erf(x / ROOT) + 1) * 0.5002,
    "gelu, erf: another one": lambda x: x * (erf(x / ROOT) + 1.0003) * 0.5,
    "gelu, tanh: another cube": lambda x: 0.5 * x * (1 + tanh(SCALE * (x + 0.04475 * x**3.0))),
    "gelu, tanh: another scale": lambda x: 0.5 * x * (1 + tanh(0.7976 * (x + CUBE * x**3.0))),
    "gelu, tanh: another power": lambda x: 0.5 * x * (1 + tanh(SCALE * (x + CUBE * x**3.001))),
    "gelu that ends at 50": lambda x: smallest(x * (erf(x / ROOT) + 1) * 0.5, 50),
    "gelu of what ends at 50": lambda x: (lambda c: c * (erf(c / ROOT) + 1) * 0.5 + 0 * x)(smallest(x, 50)),
    "gelu with a step at 700": lambda x: x * (erf(x / ROOT) + 1) * 0.5 + where(greater(x, 700), 1, 0),
    "gelu up to 300": lambda x: x * (erf(x / ROOT) + 1) * 0.5 + where(greater(x, 300), np.inf, 0),
    "gelu and a little": lambda x: x * (erf(x / ROOT) + 1) * 0.5 + 1e-5,
    "hard swish to 5.99": lambda x: x * clip(x + 3, 0, 5.99) / 6,
    "hard swish from 3.001": lambda x: x * clip(x + 3.001, 0, 6) / 6,
    "softplus that ends at 50": lambda x: log(1 + exp(smallest(x, 50))),
    "mish of less": lambda x: x * tanh(log(1.001 + exp(x))),
    "sigmoid of more": lambda x: 1 / (1.001 + exp(-x)),
    "relu and a little": lambda x: largest(x, 1e-12),
    "a bound on one side": lambda x: smallest(x, 6.5),
    "bounds far away": lambda x: largest(x, -1e9) * 2,
    "a product of two": lambda x: x * exp(x),
}
ONE_OP = {kind for _, kind, _ in SPELLINGS.values()} - {"ReLU", "LeakyReLU", "Sigmoid", "Tanh", "Square"}


@pytest.mark.parametrize("name", NEARLY)
def test_what_looks_like_a_function_but_is_not(name):
    """The clamps that some of these have stay, and gelu goes on inside of what only ends it."""
    graph = og.from_onnx(model_of_formula(NEARLY[name], X))
    assert len(graph.ops) > 1 or kinds_of(graph)[0] in ("Maximum", "Minimum")
    x = np.concatenate([X.reshape(-1), [250, 600, 800, 4.5, -3]]).astype(np.float32)
    check(model_of_formula(NEARLY[name], x), {"x": x})


@pytest.mark.parametrize(
    "name", [n for n in NEARLY if "another" in n or "from" in n or "to 5" in n or "of less" in n]
)
def test_other_constants_are_another_function(name):
    graph = og.from_onnx(model_of_formula(NEARLY[name], X))
    assert not ONE_OP.intersection(kinds_of(graph)) - {"Clamp"}


def test_a_tensor_that_is_read_elsewhere_stays():
    def formula(x):
        inner = erf(x / ROOT)
        return x * (inner + 1) * 0.5, exp(inner)

    check(
        model_of_formula(formula, X),
        {"x": X},
        kinds=["Divide", "HostErf", "Add", "Multiply", "Multiply", "Exp"],
    )


def test_an_output_inside_stays():
    def formula(x):
        inner = erf(x / ROOT)
        return x * (inner + 1) * 0.5, inner

    assert "GELU" not in kinds_of(check(model_of_formula(formula, X), {"x": X}))


def test_a_constant_that_is_an_input_is_none():
    model = model_of_formula(lambda x, y: x * (erf(x / y) + 1) * 0.5, X, np.array([ROOT], np.float32))
    assert "HostErf" in kinds_of(og.from_onnx(model))


def test_a_number_with_more_axes_is_none():
    """It would give the result more axes."""
    model = model_of_formula(lambda x: x * (erf(x / np.full((1, 1, 1), ROOT)) + 1) * 0.5, X)
    assert "HostErf" in kinds_of(check(model, {"x": X}))


def test_two_sources_are_no_function_of_one():
    model = model_of_formula(lambda x, y: x * (erf(y / ROOT) + 1) * 0.5, X, X[::-1])
    check(model, {"x": X, "y": X[::-1]}, kinds=["Divide", "HostErf", "Add", "Multiply", "Multiply"])


def test_halves_may_round_their_constants():
    x = X.astype(np.float16)
    model = model_of_formula(lambda x: x * (erf(x / ROOT) + 1) * 0.5, x, dtype=np.float16)
    graph = og.from_onnx(model)
    assert kinds_of(graph) == ["GELU"]
    (result,) = graph.compile()(x).values()
    want = gelu_erf(x.astype(np.float64))
    assert np.all(np.abs(result - want) <= 2e-3 * np.maximum(np.abs(x), 1e-2))


def test_f32_does_not_take_constants_of_halves():
    model = model_of_formula(lambda x: x * (erf(x / np.float16(ROOT)) + 1) * 0.5, X)
    assert "HostErf" in kinds_of(og.from_onnx(model))


def test_an_inner_rounding_stays():
    def formula(x):
        rounded = function("Cast")(function("Cast")(x / ROOT, to=10), to=1)
        return x * (erf(rounded) + 1) * 0.5

    assert "HostErf" in kinds_of(og.from_onnx(model_of_formula(formula, X)))


def test_an_inner_rounding_of_a_square_stays():
    nodes = [
        helper.make_node("Cast", ["x"], ["h"], to=10),
        helper.make_node("Mul", ["h", "h"], ["s"]),
        helper.make_node("Cast", ["s"], ["y"], to=1),
    ]
    x = normal(3, 4)
    assert "TypeCast" in kinds_of(og.from_onnx(model_of(nodes, {"x": x}, ["y"])))


def test_many_equal_layers():
    """Each of them, and what lies between: products of matrices."""
    w = normal(25, 25) / 5

    def formula(x):
        for _ in range(40):
            h = function("MatMul")(x, w)
            x = h * (erf(h / ROOT) + 1) * 0.5
        return x

    assert kinds_of(og.from_onnx(model_of_formula(formula, X))) == ["MatMul", "GELU"] * 40


POWERS = {
    3.0: ["Square", "Multiply"],
    4.0: ["Square", "Square"],
    2.0: ["Square"],
    -2.0: ["Reciprocal", "Square"],
    -0.5: ["Sqrt", "Reciprocal"],
    1.5: ["Pow"],
}


@pytest.mark.parametrize("exponent", POWERS)
def test_powers_become_products(exponent):
    x = np.abs(X) + np.float32(0.5)
    graph = check(model_of_formula(lambda x: x**exponent, x), {"x": x})
    assert kinds_of(graph) == POWERS[exponent]
    (result,) = graph.compile()(x).values()
    np.testing.assert_allclose(result, x.astype(np.float64) ** exponent, rtol=1e-6)


@pytest.mark.parametrize("exponent", [3.0, 4.0, 2.0])
def test_powers_of_integers_are_exact(exponent):
    x = np.arange(-30, 31, dtype=np.float32)
    check(model_of_formula(lambda x: x**exponent, x), {"x": x}, exact=True)


# --- normalisations ----------------------------------------------------------------------------------------

ROWS = normal(2, 3, 16) * 3 + 1
GAMMA, BETA, EPSILON = normal(16, seed=1), normal(16, seed=2), 1e-3


def deviation(x, axes=(-1,)):
    return x - mean(x, axes)


def variance_of(x, axes=(-1,)):
    d = deviation(x, axes)
    return mean(d * d, axes)


def with_square(x, square):
    d = x - mean(x)
    return d / sqrt(mean(square(d)) + EPSILON) * GAMMA + BETA


def factors(x, order):
    d = x - mean(x)
    return order(d, reciprocal(sqrt(EPSILON + mean(d**2.0))), GAMMA) + BETA


NORMS = {
    "as old exporters do": lambda x: with_square(x, lambda d: d**2.0),
    "product": lambda x: with_square(x, lambda d: d * d),
    "two differences": lambda x: BETA + GAMMA * (deviation(x) / sqrt(variance_of(x) + EPSILON)),
    "power of a half": lambda x: deviation(x) / (variance_of(x) + EPSILON) ** 0.5 * GAMMA + BETA,
    "power of minus a half": lambda x: deviation(x) * (variance_of(x) + EPSILON) ** -0.5 * GAMMA + BETA,
    "one divided": lambda x: (1 / sqrt(variance_of(x) + EPSILON)) * deviation(x) * GAMMA + BETA,
    "inverse, then gamma": lambda x: factors(x, lambda d, r, g: d * (r * g)),
    "gamma, then inverse": lambda x: factors(x, lambda d, r, g: (g * d) * r),
    "gamma last": lambda x: factors(x, lambda d, r, g: g * (r * d)),
    "gamma before the quotient": lambda x: GAMMA * deviation(x) / sqrt(variance_of(x) + EPSILON) + BETA,
    "axes of one element": lambda x: (
        deviation(x) / sqrt(variance_of(x) + EPSILON) * GAMMA[None, None] + BETA[None]
    ),
}


def normalised(x, first=-1, gamma=GAMMA, beta=BETA):
    x = x.astype(np.float64)
    axes = tuple(range(first, 0))
    d = x - x.mean(axes, keepdims=True)
    return d / np.sqrt((d * d).mean(axes, keepdims=True) + EPSILON) * gamma + beta


@pytest.mark.parametrize("name", NORMS)
def test_a_layer_normalisation_written_out_is_one_op(name):
    graph = og.from_onnx(model_of_formula(NORMS[name], ROWS))
    assert kinds_of(graph) == ["LayerNorm"]
    (result,) = graph.compile()(ROWS).values()
    np.testing.assert_allclose(result, normalised(ROWS), rtol=0, atol=2e-5)


@pytest.mark.parametrize("gamma", [GAMMA, None])
@pytest.mark.parametrize("beta", [BETA, None])
def test_a_layer_normalisation_with_and_without_vectors(gamma, beta):
    def formula(x):
        made = deviation(x) / sqrt(variance_of(x) + EPSILON)
        made = made if gamma is None else made * gamma
        return made if beta is None else made + beta

    graph = og.from_onnx(model_of_formula(formula, ROWS))
    assert kinds_of(graph) == ["LayerNorm"]
    (result,) = graph.compile()(ROWS).values()
    want = normalised(ROWS, gamma=1 if gamma is None else gamma, beta=0 if beta is None else beta)
    np.testing.assert_allclose(result, want, rtol=0, atol=2e-5)


def test_a_layer_normalisation_over_two_axes():
    def formula(x):
        return deviation(x, (1, 2)) / sqrt(variance_of(x, (-1, -2)) + EPSILON)

    graph = og.from_onnx(model_of_formula(formula, ROWS))
    assert kinds_of(graph) == ["LayerNorm"]
    (result,) = graph.compile()(ROWS).values()
    np.testing.assert_allclose(result, normalised(ROWS, -2, 1, 0), rtol=0, atol=2e-5)


NO_NORMS = {
    "over the middle": lambda x: deviation(x, (1,)) / sqrt(variance_of(x, (1,)) + EPSILON),
    "of other axes": lambda x: deviation(x) / sqrt(variance_of(x, (1, 2)) + EPSILON),
    "of other data": lambda x: deviation(x * 2) / sqrt(variance_of(x) + EPSILON),
    "from another mean": lambda x: (lambda d: d / sqrt(mean(d * d) + EPSILON))(x - mean(x * 2)),
    "root of the quotient": lambda x: sqrt(variance_of(x) + EPSILON) / deviation(x),
    "not the root": lambda x: deviation(x) / (variance_of(x) + EPSILON),
    "without epsilon": lambda x: deviation(x) / sqrt(variance_of(x)),
    "sum of squares": lambda x: deviation(x) / sqrt(total(deviation(x) ** 2.0) + EPSILON),
    "cubes": lambda x: deviation(x) / sqrt(mean(deviation(x) ** 4.0) + EPSILON),
}


@pytest.mark.parametrize("name", NO_NORMS)
def test_what_looks_like_a_layer_normalisation_but_is_not(name):
    graph = check(model_of_formula(NO_NORMS[name], ROWS), {"x": ROWS}, rtol=1e-4)
    assert "LayerNorm" not in kinds_of(graph)


def test_a_mean_that_is_read_elsewhere_stays():
    def formula(x):
        m = mean(x)
        d = x - m
        return d / sqrt(mean(d * d) + EPSILON), exp(m)

    graph = check(model_of_formula(formula, ROWS), {"x": ROWS})
    assert "LayerNorm" not in kinds_of(graph)


def test_a_bias_of_other_axes_stays():
    column = normal(3, 1)

    def formula(x):
        return deviation(x) / sqrt(variance_of(x) + EPSILON) * column + BETA

    check(model_of_formula(formula, ROWS), {"x": ROWS}, kinds=["LayerNorm", "Multiply", "Add"])


def softmax(powers, share):
    return lambda x: share(powers(x), total(powers(x)))


def shifted(x):
    return x - peak(x)


def once(x, order):
    e = exp(shifted(x))
    return order(e, total(e))


SOFTMAXES = {
    "quotient": (lambda x: once(x, lambda e, s: e / s), "SoftMax"),
    "product": (lambda x: once(x, lambda e, s: reciprocal(s) * e), "SoftMax"),
    "without the largest": (lambda x: (lambda e: e / total(e))(exp(x)), "SoftMax"),
    "logarithm": (lambda x: (lambda d: d - log(total(exp(d))))(shifted(x)), "LogSoftmax"),
    "logarithm, without the largest": (lambda x: x - log(total(exp(x))), "LogSoftmax"),
}


@pytest.mark.parametrize("name", SOFTMAXES)
def test_a_softmax_written_out_is_one_op(name):
    formula, kind = SOFTMAXES[name]
    graph = og.from_onnx(model_of_formula(formula, ROWS))
    assert kinds_of(graph) == [kind]
    (result,) = graph.compile()(ROWS).values()
    x = ROWS.astype(np.float64)
    want = x - np.log(np.exp(x).sum(-1, keepdims=True))
    np.testing.assert_allclose(result, want if kind == "LogSoftmax" else np.exp(want), rtol=1e-5, atol=1e-6)


def test_softmaxes_of_other_sums_are_none():
    for formula in (
        lambda x: exp(x) / total(exp(x * 2)),
        lambda x: (lambda e: e / total(e, (-1, -2)))(exp(x)),
        lambda x: (lambda e: total(e) / e)(exp(x)),
        lambda x: x - log(total(exp(x * 2))),
    ):
        graph = check(model_of_formula(formula, ROWS), {"x": ROWS}, rtol=1e-4)
        assert not {"SoftMax", "LogSoftmax"} & set(kinds_of(graph))


# --- reshapes ----------------------------------------------------------------------------------------------

matmul, reshape = function("MatMul"), function("Reshape")
FLAT, WEIGHTS = normal(6, 16), normal(16, 8, seed=1)


def test_a_function_behind_a_reshape_goes_before_it():
    def formula(x):
        h = reshape(matmul(x, WEIGHTS), np.array([2, 3, 8]))
        return h * (erf(h / ROOT) + 1) * 0.5

    graph = check(model_of_formula(formula, FLAT), {"x": FLAT}, kinds=["MatMul", "GELU", "StaticReshape"])
    (partition,) = [p for p in graph.compile().partitions if len(p.ops) > 1]
    assert [op.kind for op in partition.ops] == ["MatMul", "GELU"]


def test_a_residual_behind_a_reshape_goes_before_it():
    def formula(x, y):
        return tanh(y + reshape(matmul(x, WEIGHTS), np.array([2, 3, 8])))

    y = normal(2, 3, 8, seed=3)
    graph = check(model_of_formula(formula, FLAT, y), {"x": FLAT, "y": y})
    assert sorted(kinds_of(graph)) == ["Add", "MatMul", "StaticReshape", "StaticReshape", "Tanh"]
    assert kinds_of(graph)[-1] == "StaticReshape" or graph.outputs[0].shape == (2, 3, 8)


def test_the_difference_of_two_products_behind_reshapes():
    def formula(x):
        first, second = (reshape(matmul(x, w), np.array([2, 3, 8])) for w in (WEIGHTS, WEIGHTS[::-1]))
        return first - second

    graph = check(model_of_formula(formula, FLAT), {"x": FLAT})
    assert sorted(kinds_of(graph)) == ["MatMul", "MatMul", "StaticReshape", "Subtract"]


def test_what_is_read_elsewhere_or_spread_stays_behind_its_reshape():
    column = normal(3, 1)

    def read_twice(x):
        h = reshape(matmul(x, WEIGHTS), np.array([2, 3, 8]))
        return tanh(h), exp(h)

    check(model_of_formula(read_twice, FLAT), {"x": FLAT}, kinds=["MatMul", "StaticReshape", "Tanh", "Exp"])

    def spread(x):
        return reshape(matmul(x, WEIGHTS), np.array([2, 3, 8])) + column

    check(model_of_formula(spread, FLAT), {"x": FLAT}, kinds=["MatMul", "StaticReshape", "Add"])

    def an_output(x):
        h = reshape(matmul(x, WEIGHTS), np.array([2, 3, 8]))
        return tanh(h), h

    check(model_of_formula(an_output, FLAT), {"x": FLAT}, kinds=["MatMul", "StaticReshape", "Tanh"])


def test_a_sum_of_products_whose_shapes_differ_behind_their_reshapes():
    """(49, 1) and (1, 49) have as many elements: what lies under a reshape is no operand for another one."""
    one, image = WEIGHTS[:1, :1], np.array([1, 1, 7, 7])

    def formula(x, y):
        return reshape(matmul(x, one), image) + reshape(y.turned("MatMul", one), image)

    x, y = normal(49, 1), normal(1, 49, seed=2)
    check(model_of_formula(formula, x, y), {"x": x, "y": y})


def test_a_number_with_more_axes_is_no_epsilon():
    """It would give the result more axes."""

    def formula(x):
        d = x - mean(x)
        return d / sqrt(mean(d * d) + np.full((1, 1, 1, 1), EPSILON))

    check(model_of_formula(formula, ROWS), {"x": ROWS})


@pytest.mark.parametrize(
    ("exponent", "point"), [(-2.0, 300.0), (-2.0, 0.004), (-0.5, 6e4), (3.0, 40.0), (4.0, 15.0)]
)
def test_powers_of_halves_have_the_values_that_halves_can_hold(exponent, point):
    x = np.array([point, -point if exponent != -0.5 else point], np.float16)
    graph = og.from_onnx(model_of_formula(lambda x: x**exponent, x, dtype=np.float16))
    np.testing.assert_allclose(
        graph.compile()(x).only.astype(np.float64), x.astype(np.float64) ** exponent, rtol=4e-3
    )
