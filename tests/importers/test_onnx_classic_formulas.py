"""`from_onnx`: ops of the domain ai.onnx.ml, by their formulas in double precision."""

import numpy as np
import pytest
from onnx_classic import classic, results_of
from onnx_oracle import onnx, rng

ROWS = rng(5).standard_normal((6, 3)).astype(np.float32)
VECTORS = rng(6).standard_normal((7, 3)).astype(np.float32)
COEFFICIENTS = rng(7).standard_normal((2, 7)).astype(np.float32)
KERNELS = {
    "LINEAR": lambda a, b: a @ b.T,
    "POLY": lambda a, b: (0.5 * (a @ b.T) + 1) ** 2,
    "SIGMOID": lambda a, b: np.tanh(0.5 * (a @ b.T) + 1),
    "RBF": lambda a, b: np.exp(-0.5 * ((a[:, None] - b) ** 2).sum(-1)),
}


def machine(kernel):
    """Attributes of a support vector machine, and its kernel's values in double precision."""
    given = {
        "kernel_type": kernel,
        "kernel_params": [0.5, 1.0, 2.0],
        "support_vectors": VECTORS.ravel().tolist(),
    }
    return given, KERNELS[kernel](ROWS.astype("f8"), VECTORS.astype("f8"))


@pytest.mark.parametrize("kernel", KERNELS)
def test_support_vectors_by_their_formula(kernel):
    given, values = machine(kernel)
    own = {"coefficients": COEFFICIENTS[0].tolist(), "rho": [0.25], "n_supports": 7}
    (y,) = results_of(classic("SVMRegressor", {"x": ROWS}, **given, **own), {"x": ROWS})
    np.testing.assert_allclose(y, (values @ COEFFICIENTS[0] + 0.25)[:, None], rtol=1e-5, atol=1e-5)
    (side,) = results_of(classic("SVMRegressor", {"x": ROWS}, one_class=1, **given, **own), {"x": ROWS})
    np.testing.assert_array_equal(side, np.where(y > 0, 1, -1))


@pytest.mark.parametrize("kernel", KERNELS)
def test_classes_win_pair_by_pair(kernel):
    given, values = machine(kernel)
    own = {
        "coefficients": COEFFICIENTS.ravel().tolist(),
        "rho": [0.25, -0.5, 0.125],
        "vectors_per_class": [2, 3, 2],
        "classlabels_ints": [10, 20, 30],
    }
    chosen, scores = results_of(
        classic("SVMClassifier", {"x": ROWS}, ["y", "z"], **given, **own), {"x": ROWS}
    )
    parts = [slice(0, 2), slice(2, 5), slice(5, 7)]
    wins = np.zeros((len(ROWS), 3))
    for number, (i, j) in enumerate([(0, 1), (0, 2), (1, 2)]):
        one = (
            values[:, parts[i]] @ COEFFICIENTS[j - 1, parts[i]]
            + values[:, parts[j]] @ COEFFICIENTS[i, parts[j]]
        )
        one = one + own["rho"][number]
        np.testing.assert_allclose(scores[:, number], one, rtol=1e-5, atol=1e-5)
        wins[:, i] += one > 0
        wins[:, j] += one <= 0
    np.testing.assert_array_equal(chosen, np.array([10, 20, 30])[wins.argmax(1)])


def coupled(scores, a, b):
    """Probabilities p of three classes that make Σ (r_ji p_i − r_ij p_j)² least: a linear system with Σ p = 1."""
    r = np.zeros((3, 3))
    for (i, j), likely in zip([(0, 1), (0, 2), (1, 2)], 1 / (1 + np.exp(scores * a + b)), strict=True):
        r[i, j], r[j, i] = likely, 1 - likely
    q = -r.T * r
    q[np.diag_indices(3)] = (r**2).sum(0)
    system = np.block([[q, np.ones((3, 1))], [np.ones((1, 3)), np.zeros((1, 1))]])
    return np.linalg.solve(system, [0, 0, 0, 1])[:3]


@pytest.mark.parametrize("kernel", ["LINEAR", "RBF"])
def test_probabilities_are_those_that_fit_all_pairs_best(kernel):
    given, _ = machine(kernel)
    a, b = np.asarray([-1.0, -0.5, -2.0]), np.asarray([0.25, 0.0, -0.125])
    own = {
        "coefficients": COEFFICIENTS.ravel().tolist(),
        "rho": [0.25, -0.5, 0.125],
        "vectors_per_class": [2, 3, 2],
        "classlabels_ints": [10, 20, 30],
    }
    _, scores = results_of(classic("SVMClassifier", {"x": ROWS}, ["y", "z"], **given, **own), {"x": ROWS})
    likely = {"prob_a": a.tolist(), "prob_b": b.tolist()}
    made = classic("SVMClassifier", {"x": ROWS}, ["y", "z"], **given, **own, **likely)
    _, found = results_of(made, {"x": ROWS})
    np.testing.assert_allclose(found.sum(1), 1, rtol=1e-6)
    expected = [coupled(row, a, b) for row in scores.astype("f8")]
    np.testing.assert_allclose(found, expected, atol=0.02)  # rounds end where they change little


def _softmax(x):
    powers = np.exp(x - x.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


TIMES = COEFFICIENTS.ravel()[:9].reshape(3, 3)
GAPS = np.where(np.abs(ROWS) < 0.3, np.nan, ROWS).astype(np.float32)
FORMULAS = {
    "LinearRegressor": (
        {"coefficients": TIMES.ravel().tolist(), "intercepts": [1.0, 2.0, 3.0], "targets": 3},
        ROWS,
        lambda: ROWS @ TIMES.T.astype("f8") + [1, 2, 3],
    ),
    "Scaler": (
        {"offset": [1.0, 2.0, 3.0], "scale": [0.5, 2.0, 4.0]},
        ROWS,
        lambda: (ROWS - [1, 2, 3]) * [0.5, 2, 4],
    ),
    "Normalizer": (
        {"norm": "L2"},
        ROWS,
        lambda: ROWS / np.sqrt((ROWS.astype("f8") ** 2).sum(1, keepdims=True)),
    ),
    "Binarizer": ({"threshold": 0.5}, ROWS, lambda: (ROWS > 0.5) * 1.0),
    "Imputer": (
        {"imputed_value_floats": [7.0, 8.0, 9.0], "replaced_value_float": float("nan")},
        GAPS,
        lambda: np.where(np.isnan(GAPS), [7, 8, 9], GAPS),
    ),
    "LabelEncoder": (
        {"keys_int64s": [4, 2, 9], "values_floats": [0.5, 1.5, 2.5], "default_float": -1.0},
        np.array([[2, 9], [4, 3]]),
        lambda: np.array([[1.5, 2.5], [0.5, -1.0]]),
    ),
    "OneHotEncoder": (
        {"cats_int64s": [3, 5], "zeros": 1},
        np.array([[5, 3], [1, 5]]),
        lambda: np.array([[[0, 1], [1, 0]], [[0, 0], [0, 1]]]),
    ),
}


@pytest.mark.parametrize("kind", FORMULAS)
def test_one_node_by_its_formula(kind):
    attributes, x, want = FORMULAS[kind]
    model = classic(kind, {"x": x}, version=2 if kind == "LabelEncoder" else 3, **attributes)
    (y,) = results_of(model, {"x": x})
    np.testing.assert_allclose(y, want(), rtol=1e-5, atol=1e-6)


def test_classes_by_lines():
    attributes = {
        "coefficients": TIMES.ravel().tolist(),
        "intercepts": [0.5, 0.25, 0.0],
        "classlabels_strings": ["a", "b", "c"],
        "post_transform": "SOFTMAX",
        "multi_class": 1,
    }
    model = classic("LinearClassifier", {"x": ROWS}, ["y", "z"], **attributes)
    model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.STRING
    chosen, scores = results_of(model, {"x": ROWS})
    lines = ROWS @ TIMES.T.astype("f8") + [0.5, 0.25, 0]
    np.testing.assert_allclose(scores, _softmax(lines), rtol=1e-5)
    assert chosen.tolist() == [["a", "b", "c"][one] for one in lines.argmax(1)]
