"""What importers' tables are made of where oneDNN Graph has no op: each function against NumPy."""

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.graph.importing import expressions, hosted
from onednn_graph.graph.importing.translation import Translation, Unmapped

RNG = np.random.default_rng(3)
X = RNG.standard_normal((4, 5, 3)).astype(np.float32)
Y = RNG.standard_normal((4, 5, 3)).astype(np.float32)
N = RNG.integers(-5, 6, (4, 5, 3))
M = RNG.integers(-5, 6, (4, 5, 3))
TRUE = np.random.default_rng(4).random((4, 5, 3)) < 0.5
OTHER = np.random.default_rng(5).random((4, 5, 3)) < 0.5
ROWS, COLUMNS = np.asarray([[0, -1], [2, 3]]), np.asarray([1, -5])


def of(function, *arrays):
    """What a function makes of inputs of a graph, which is run."""
    t = Translation()
    inputs = [
        t.input(f"x{number}", og.DataType(_name(array)), array.shape) for number, array in enumerate(arrays)
    ]
    made = function(t, *inputs)
    t.graph.output(t.tensor(made), name="y")
    return t.graph.compile()(*arrays)["y"]


def _name(array):
    return {"float32": "f32", "int64": "s64", "bool": "boolean", "float16": "f16"}[array.dtype.name]


CASES = {
    "less": (lambda t, a, b: hosted.compared(t, "Less", a, b), np.less, X, Y),
    "less or equal": (lambda t, a, b: hosted.compared(t, "LessEqual", a, b), np.less_equal, N, M),
    "greater than a number": (lambda t, a: hosted.compared(t, "Greater", a, 0.5), lambda a: a > 0.5, X),
    "and": (lambda t, a, b: hosted.logical(t, "And", a, b), np.logical_and, TRUE, OTHER),
    "xor of bits": (lambda t, a, b: hosted.logical(t, "Xor", a, b), np.bitwise_xor, N, M),
    "any": (lambda t, a: hosted.any_of(t, a, [1], keep=False, every=False), lambda a: a.any(1), TRUE),
    "all of all": (
        lambda t, a: hosted.any_of(t, a, [], keep=True, every=True),
        lambda a: a.all(keepdims=True),
        N,
    ),
    "gathered": (
        lambda t, a: hosted.gathered(t, a, -2, np.asarray([[[1, 0, 4]], [[0, 2, 2]]])),
        lambda a: hosted.take_along(a, np.asarray([[[1, 0, 4]], [[0, 2, 2]]]), 1),
        X,
    ),
    "rows": (lambda t, a: hosted.indexed(t, a, [None, ROWS]), lambda a: a[:, ROWS], X),
    "rows and columns": (
        lambda t, a: hosted.indexed(t, a, [ROWS, COLUMNS]),
        lambda a: a[ROWS, COLUMNS],
        X,
    ),
    "behind the first axis": (
        lambda t, a: hosted.indexed(t, a, [None, COLUMNS, np.asarray([2])]),
        lambda a: a[:, COLUMNS, np.asarray([2])],
        X,
    ),
    "with an axis between": (
        lambda t, a: hosted.indexed(t, a, [COLUMNS % 4, None, np.asarray([2, 0])]),
        lambda a: a[COLUMNS % 4, :, np.asarray([2, 0])],
        X,
    ),
    "sums so far": (lambda t, a: hosted.cumulative(t, a, -1), lambda a: a.cumsum(-1), N),
    "sums of truths from behind": (
        lambda t, a: hosted.cumulative(t, a, 0, reverse=True),
        lambda a: a[::-1].cumsum(0)[::-1],
        TRUE,
    ),
    "largest": (
        lambda t, a: hosted.extreme(t, "ArgMax", a, 1, keep=True),
        lambda a: a.argmax(1, keepdims=True),
        X,
    ),
    "smallest of all": (
        lambda t, a: hosted.extreme(t, "ArgMin", a, None, keep=True),
        lambda a: a.argmin().reshape(1, 1, 1),
        X,
    ),
    "mirrored": (
        lambda t, a: hosted.bordered(t, a, [0, 2, 1], [1, 0, 2], "reflect"),
        lambda a: np.pad(a, [(0, 1), (2, 0), (1, 2)], "reflect"),
        X,
    ),
    "a power": (lambda t, a, b: expressions.power(t, a, b), lambda a, b: np.abs(a) ** b, np.abs(X), Y),
    "a number to powers": (lambda t, a: expressions.power(t, 2.0, a), lambda a: 2.0**a, X),
    "the first power": (
        lambda t, a: expressions.binary(t, "Add", expressions.power(t, a, 1.0), 0.0),
        lambda a: a,
        X,
    ),
    "powers of one number": (
        lambda t, a: expressions.power(t, a, np.full((2, 1, 1, 1), 2, np.float32)),
        lambda a: np.broadcast_to(a**2, (2, *a.shape)),
        X,
    ),
    "at most": (lambda t, a: expressions.clamp(t, a, None, 0.5), lambda a: np.minimum(a, 0.5), X),
    "at least, of integers": (lambda t, a: expressions.clamp(t, a, -1, 2), lambda a: np.clip(a, -1, 2), N),
    "above zero": (lambda t, a: expressions.clamp(t, a, 0, float("inf")), lambda a: np.maximum(a, 0), X),
    "opposite": (expressions.negative, np.negative, X),
    "a chain": (lambda t, a, b: expressions.chain(t, "Multiply", [a, 2.0, b]), lambda a, b: a * 2 * b, X, Y),
    "a choice of numbers": (
        lambda t, c: expressions.where(t, c, 1.0, -2.0),
        lambda c: np.where(c, 1.0, -2.0),
        TRUE,
    ),
    "never the first": (
        lambda t, a, b: t.op("Add", expressions.where(t, np.zeros((5, 3), np.bool_), 7.0, a), b),
        np.add,
        X,
        Y,
    ),
    "copies": (
        lambda t, a: expressions.repeat(t, a, [2, 1, 3]),
        lambda a: np.tile(a, [2, 1, 3]),
        X,
    ),
    "a number that halves don't have": (
        lambda t, a: expressions.binary(t, "Multiply", a, 0.1),
        lambda a: (a.astype("f4") * np.float32(0.1)).astype("f2"),
        X.astype(np.float16),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_function(name):
    function, oracle, *arrays = CASES[name]
    expected = np.asarray(oracle(*arrays))
    result = of(function, *arrays)
    assert result.shape == expected.shape
    assert result.dtype.kind == expected.dtype.kind
    np.testing.assert_allclose(result.astype("f8"), expected.astype("f8"), rtol=1e-5, atol=1e-6)


REFUSED = {
    "and of numbers": (lambda t, a: hosted.logical(t, "And", a, a), "and of float32"),
    "truths as places": (
        lambda t, a: hosted.indexed(t, a, [hosted.compared(t, "Greater", a, 0.0)]),
        "known at execution only",
    ),
    "less than nothing around": (
        lambda t, a: hosted.bordered(t, a, [-1, 0, 0], [0] * 3, "edge"),
        "not be negative",
    ),
    "numbers alone": (lambda t, a: expressions.chain(t, "Add", [1.0]), "all numbers"),
    "two numbers": (lambda t, a: expressions.operands(t, 1.0, 2.0), "are numbers"),
    "no condition": (lambda t, a: expressions.where(t, a, a, a), "a condition of float32"),
    "two open sizes": (lambda t, a: expressions.reshape(t, a, [-2, 3]), "only -1"),
    "other elements": (lambda t, a: expressions.reshape(t, a, [7, 3]), "another number of elements"),
    "no such axis": (lambda t, a: expressions.cut(t, a, 3, 0, 1), "none of the 3 axes"),
    "a step of 0": (lambda t, a: expressions.cut(t, a, 0, 0, 1, 0), "a step of 0"),
    "half a number": (
        lambda t, a: expressions.binary(t, "Add", expressions.cast(t, a, np.dtype(np.int64)), 0.5),
        "mixes int64 with the number 0.5",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    function, message = REFUSED[name]
    with pytest.raises(Unmapped, match=message):
        of(function, X)
