"""`onednn-graph check`: what passes as right, and the reference that it is held against."""

import math

import numpy as np
import onednn_graph as og
import pytest
from check_documents import CHAIN, CONV, attention, conv, filled, one, run, text_of
from onednn_graph.backends.numpy import backend as numpy_backend
from onednn_graph.tools.benchdnn.check import State, run_case
from onednn_graph.tools.benchdnn.options import parse
from onednn_graph.tools.benchdnn.reference import Expected, reference
from onednn_graph.tools.benchdnn.tolerances import Rule, compare, threshold
from op_calls import EXAMPLES
from rows import each

# --- comparison ---------------------------------------------------------------------------------------

NORM = {"epsilon": 0.001, "data_format": "NCX"}

POOL = {
    "strides": [2],
    "pads_begin": [0],
    "pads_end": [0],
    "kernel": [2],
    "data_format": "NCX",
    "rounding_type": "floor",
}

CASES = {
    "convolution": conv(),
    "convolution, bf16": conv("bf16"),
    "weights": one(
        "ConvolutionBackwardWeights",
        [[2, 8, 6, 6], [2, 4, 4, 4]],
        [[4, 8, 3, 3]],
        **CONV,
        weights_shape=[4, 8, 3, 3],
    ),
    "matmul": one("MatMul", [[5, 7], [7, 6], [6]], [[5, 6]]),
    "eltwise": one("GELU", [[200]], [[200]]),
    "eltwise, f16": one("Tanh", [[200]], [[200]], "f16"),
    "gradient": one("SigmoidBackward", [[50], [50]], [[50]], use_dst=True),
    "binary": one("Multiply", [[9, 9], [1, 9]], [[9, 9]]),
    "division": one("Divide", [[9, 9], [9]], [[9, 9]]),
    "select": one("Select", [("boolean", [9]), [9], [9]], [[9]]),
    "compare": one("GreaterEqual", [[9, 9], [9]], [("boolean", [9, 9])]),
    "softmax": one("SoftMax", [[4, 30]], [[4, 30]], axis=-1),
    "logsoftmax": one("LogSoftmax", [[4, 30]], [[4, 30]], axis=-1),
    "batch norm": one("BatchNormInference", [[2, 4, 9], [4], [4], [4], [4]], [[2, 4, 9]], **NORM),
    "layer norm": one("LayerNorm", [[4, 32], [32], [32]], [[4, 32], [4], [4]], epsilon=1e-5),
    "reduction": one("ReduceMean", [[4, 32]], [[4]], axes=[1], keep_dims=False),
    "norm": one("ReduceL2", [[4, 32]], [[4]], axes=[1], keep_dims=False),
    "maximum": one("MaxPool", [[1, 2, 8]], [[1, 2, 4]], **POOL),
    "average": one("AvgPool", [[1, 2, 8]], [[1, 2, 4]], **POOL, exclude_pad=False),
    "interpolate": one(
        "Interpolate", [[1, 2, 8]], [[1, 2, 12]], mode="linear", sizes=[12], data_format="NCX"
    ),
    "nearest": one("Interpolate", [[1, 2, 8]], [[1, 2, 12]], mode="nearest", sizes=[12], data_format="NCX"),
    "prelu": one("PReLU", [[2, 4, 8], [4]], [[2, 4, 8]], data_format="NCX"),
    "concat": one("Concat", [[2, 4], [2, 3]], [[2, 7]], axis=1),
    "cast": one("TypeCast", [[64]], [("bf16", [64])]),
    "quantize": one("Quantize", [[64]], [("s8", [64])], qtype="per_tensor", axis=0, scales=[0.5], zps=[3]),
    "dequantize": one(
        "Dequantize", [("u8", [64])], [[64]], qtype="per_tensor", axis=0, scales=[0.5], zps=[3]
    ),
    "float8": one("Quantize", [[64]], [("f8_e4m3", [64])], qtype="per_tensor", axis=0, scales=[0.5]),
    "transpose": one("StaticTranspose", [[4, 6]], [[6, 4]], order=[1, 0]),
    "index": one("GenIndex", [[4, 6]], [("s32", [4, 6])], axis=1),
    "chain": CHAIN,
    "attention": attention("none", [1, 1, 5, 5]),
}


@pytest.mark.parametrize("name", CASES)
def test_right_results_pass(tmp_path, name):
    (outcome,) = run(CASES[name], tmp_path)
    assert (outcome.state, outcome.reason) == (State.passed, "")
    assert all(c.points for c in outcome.comparisons)


def breaking(kernel, share):
    """The kernel, with one element of its first output off by that share of what is typical there."""

    def broken(op, inputs, outputs):
        kernel(op, inputs, outputs)
        result = outputs[0]
        index = np.unravel_index(int(np.argmax(np.abs(result.astype(float)))), result.shape)
        value = float(result[index])
        if result.dtype.kind in "fV" and result.dtype.itemsize > 1:
            result[index] = value + max(1.0, abs(value)) * share
        elif result.dtype == bool:
            result[index] = not value
        elif result.dtype.kind in "iu":
            result[index] = value + (2 if value < 0 else -2)
        else:
            result[index] = value / 2

    return broken


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_number_is_found(tmp_path, monkeypatch, name):
    low = any(data_type in name for data_type in ("bf16", "f16", "cast"))
    broken = {kind: breaking(k, 0.05 if low else 1e-3) for kind, k in numpy_backend.KERNELS.items()}
    monkeypatch.setattr(numpy_backend, "KERNELS", broken)
    (tmp_path / "g.json").write_text(CASES[name], encoding="utf-8")
    outcome = run_case(parse(["g.json"], [tmp_path]).cases[0], backend="numpy")
    assert outcome.state is State.failed
    assert "elements of type" in outcome.reason
    assert "expected" in outcome.reason


def test_an_inner_tensor_is_judged_on_request(tmp_path):
    (tmp_path / "g.json").write_text(CHAIN, encoding="utf-8")
    case = parse(["g.json"], [tmp_path]).cases[0]
    assert [c.tensor for c in run_case(case).comparisons] == [5]
    assert sorted(c.tensor for c in run_case(case, verbose=True).comparisons) == [2, 4, 5]


def test_what_end_reads_is_an_output(tmp_path):
    text = text_of(
        {0: ("f32", [4]), 1: ("f32", [4]), 2: ("f32", [4])},
        ("Abs", [0], [1], {}),
        ("ReLU", [1], [2], {}),
        ("End", [1], [], {}),
    )
    (outcome,) = run(text, tmp_path)
    assert outcome.state is State.passed, outcome.reason
    assert sorted(c.tensor for c in outcome.comparisons) == [1, 2]


def judged(want, got, rule, spread=None, data_type="f32", exact=False):
    want = np.asarray(want, float)
    expected = Expected(want, None if spread is None else np.asarray(spread, float), exact)
    dtype = {"f32": np.float32, "f16": np.float16, "s8": np.int8}[data_type]
    return compare(0, og.DataType(data_type), expected, np.asarray(got, dtype), rule)


@pytest.mark.parametrize(
    ("want", "got", "rule", "ok"),
    [
        ([1, 2], [1, 2], Rule(), True),
        ([1, 2], [1, 2.001], Rule(), False),
        ([1, 2], [1, 2.001], Rule(relative=1e-3), True),
        ([1, 2], [1, 2.003], Rule(relative=1e-3), False),
        ([0, 1e-7], [1e-7, 0], Rule(relative=1e-9), True),
        ([0.5, 2], [0.51, 2], Rule(relative=1e-6, absolute=0.02), True),
        ([0.5, 2], [0.5, 2.01], Rule(relative=1e-6, absolute=0.02), False),
        ([0.01, 10], [0.011, 10], Rule(relative=1e-6, typical=1e-3), True),
        ([np.nan, 1], [np.nan, 1], Rule(), False),
        ([np.nan, 1], [np.nan, 1], Rule(nan=True), True),
        ([np.nan, 1], [2, 1], Rule(nan=True, relative=1), False),
        ([1, 1], [np.nan, 1], Rule(nan=True, relative=1), False),
        ([np.inf, 1], [np.inf, 1], Rule(), True),
        ([np.inf, 1], [-np.inf, 1], Rule(nan=True, relative=1), False),
        ([np.inf, 1], [3e38, 1], Rule(relative=1), False),
        ([1, 1], [np.inf, 1], Rule(relative=1), False),
    ],
)
def test_thresholds(want, got, rule, ok):
    result = judged(want, got, rule)
    assert result.ok is ok
    assert bool(result.message) is not ok


def test_integers_may_be_a_step_off_where_something_was_rounded():
    assert judged([4, 5], [5, 5], Rule(steps=1), data_type="s8").ok
    assert not judged([4, 5], [6, 5], Rule(steps=1), data_type="s8").ok
    assert not judged([4, 5], [5, 5], Rule(), data_type="s8").ok


def test_the_expected_number_is_rounded_to_the_type():
    assert judged([1 + 2**-12], [1], Rule(), data_type="f16").ok
    assert judged([1e6], [np.inf], Rule(), data_type="f16").ok


def test_spread_widens_what_is_allowed():
    want = np.linspace(1, 2, 100)
    got = want + 1e-3
    assert not judged(want, got, Rule(relative=1e-5)).ok
    assert judged(want, got, Rule(relative=1e-5), spread=np.full(100, 1e-3)).ok
    assert not judged(want, want + 0.1, Rule(relative=1e-5), spread=np.full(100, 1e-3)).ok


def test_a_few_outliers_of_many_pass_if_they_are_near():
    want = np.ones(10_000)
    near, far, many = want.copy(), want.copy(), want.copy()
    near[:5] += 5e-4
    far[0] += 0.2
    many[:100] += 5e-4
    rule = Rule(relative=1e-4)
    assert judged(want, near, rule).ok
    assert judged(want, near, rule).wrong == 5
    assert not judged(want, far, rule).ok
    assert not judged(want, many, rule).ok
    assert not judged(want, near, Rule()).ok


R = 2.0**-10
"""A threshold whose multiples f32 tells apart."""

ROOT_MEAN_SQUARE = math.sqrt(12.5)
"""Of 3 and 4."""


@pytest.mark.parametrize(
    ("want", "rule", "allowed"),
    [
        ([1.0], Rule(relative=R), R),
        ([-4.0], Rule(relative=R), 4 * R),
        ([1.1e-5], Rule(relative=R), 1.1e-5 * R),
        ([0.9e-5], Rule(relative=R), R),
        ([0.0], Rule(relative=R), R),
        ([0.0], Rule(relative=1e-9), 2.0**-23),
        ([0.9e-5], Rule(relative=1e-9), 2.0**-23),
        ([0.999], Rule(relative=1e-6, absolute=R), R),
        ([1.0], Rule(relative=1e-6, absolute=R), 1e-6),
        ([1.0], Rule(relative=1e-6), 1e-6),
        ([3.0, 4.0], Rule(typical=R), ROOT_MEAN_SQUARE * R),
        ([3.0, 4.0], Rule(relative=R / 8, typical=R), ROOT_MEAN_SQUARE * R),
        ([3.0, 4.0], Rule(relative=2 * R, typical=R), 6 * R),
        ([np.inf, 3.0, 4.0], Rule(typical=R), ROOT_MEAN_SQUARE * R),
    ],
    ids=str,
)
def test_errors_just_above_each_threshold(want, rule, allowed):
    """An element may be off by what is allowed, and not by a little more."""
    place = int(np.isinf(want[0]))
    for share, ok in ((0.97, True), (1.03, False)):
        for sign in (1, -1):
            got = np.array(want, np.float64)
            got[place] += sign * share * allowed
            expected = Expected(np.asarray(want, np.float64), None, False)
            assert compare(0, og.DataType.f64, expected, got, rule).ok is ok


def test_the_spread_that_is_allowed_is_eight_times_the_usual_one():
    want, spread = np.ones(100), np.full(100, R)
    for factor, ok in ((7.9, True), (8.1, False)):
        got = want.copy()
        got[7] += factor * R
        assert judged(want, got, Rule(), spread=spread).ok is ok
    spread[7] = 4 * R
    usual = math.sqrt((99 + 16) / 100)
    for place, factor, ok in ((7, 31.5, True), (7, 32.5, False), (8, 8 * usual - 0.1, True), (8, 8.8, False)):
        got = want.copy()
        got[place] += factor * R
        assert judged(want, got, Rule(), spread=spread).ok is ok


@pytest.mark.parametrize(
    ("count", "off", "ok"),
    [
        (4, 15.5, True),
        (5, 15.5, False),
        (4, 16.5, False),
        (1, 16.5, False),
        (5, 0.9, True),
        (4096, 0.9, True),
    ],
)
def test_how_many_outliers_there_may_be_and_how_far_off(count, off, ok):
    """One of 1024, by sixteen times what is allowed."""
    want = np.ones(4096)
    got = want.copy()
    got[:count] += off * R
    assert judged(want, got, Rule(relative=R)).ok is ok
    assert not judged(want, got, Rule()).ok


@pytest.mark.parametrize(("off", "ok"), [(0.094, True), (0.098, False)])
def test_outliers_together_must_be_small(off, ok):
    """The norm of the difference is 2 · off, and that of what is expected 64, of which 3 in 1000 may be."""
    want = np.ones(4096)
    got = want.copy()
    got[:4] += off
    assert judged(want, got, Rule(relative=2.0**-6)).ok is ok


@each(
    ("kind", "data_type", "position", "size"),
    [
        ("ReLU", "f32", 0, 4e-6),
        ("Exp", "f32", 0, 4e-6),
        ("GELU", "f32", 0, 4e-5),
        ("Tanh", "f32", 0, 4e-5),
        ("SoftPlusBackward", "f32", 0, 4e-5),
        ("SigmoidBackward", "f32", 0, 4e-6),
        ("GELU", "bf16", 0, 2.0**-7),
        ("GELU", "f16", 0, 2.0**-10),
        ("SoftMax", "f32", 0, 10 * 2.0**-23),
        ("SoftMax", "bf16", 0, 2.0**-7),
        ("LogSoftmax", "f32", 0, 50 * 2.0**-23),
        ("LogSoftmax", "f16", 0, 5 * 2.0**-10),
        ("SoftMaxBackward", "f32", 0, 40 * 2.0**-23),
        ("LogSoftmaxBackward", "bf16", 0, 20 * 2.0**-7),
        ("SoftMax", "f32", 1, 4e-5),
        ("LayerNorm", "f32", 0, 6e-7),
        ("LayerNorm", "bf16", 0, 2.0**16 * 6e-7),
        ("LayerNorm", "f16", 0, 2.0**13 * 6e-7),
        ("LayerNorm", "f32", 1, 5e-6),
        ("ReduceSum", "f32", 0, 2.0**-23),
        ("ReduceMean", "f16", 0, 2.0**-10),
        ("ReduceL1", "f32", 0, 5 * 2.0**-23),
        ("ReduceL2", "bf16", 0, 5 * 2.0**-7),
        ("AvgPool", "f32", 0, 10 * 2.0**-23),
        ("MaxPool", "f32", 0, 2.0**-23),
        ("AvgPoolBackward", "f32", 0, 10 * 2.0**-23),
        ("Interpolate", "f32", 0, 7 * 2.0**-23),
        ("PReLU", "f32", 0, 2 * 2.0**-23),
        ("MatMul", "f32", 0, 1e-5),
        ("MatMul", "bf16", 0, 2.0**-7),
        ("Convolution", "f32", 0, 1e-5),
        ("Add", "f32", 0, 2.0**-23),
        ("Divide", "f16", 0, 2.0**-10),
    ],
)
def test_the_threshold_of_each_kind(kind, data_type, position, size):
    op = EXAMPLES[kind][0].op(outputs=EXAMPLES[kind][0].outputs)
    assert threshold(op, position, og.DataType(data_type)) == pytest.approx(size, rel=1e-12)


def test_statistics_of_large_batches_may_be_off_by_more():
    """Sums over more than 4096 elements, by the root of their number."""
    x = og.LogicalTensor(0, "f32", (64, 256, 4))
    vectors = [og.LogicalTensor(i, "f32", (4,)) for i in range(1, 3)]
    outputs = [
        og.LogicalTensor(10, "f32", x.shape),
        *(og.LogicalTensor(i, "f32", (4,)) for i in range(11, 15)),
    ]
    op = og.Op(0, "BatchNormForwardTraining", [x, *vectors], outputs, epsilon=0.1)
    assert threshold(op, 0, og.DataType.f32) == pytest.approx(6e-7)
    assert threshold(op, 1, og.DataType.f32) == pytest.approx(5e-6 * 128 / 64)


def test_zeros_are_mistrusted():
    zeros = np.zeros(100)
    assert judged(zeros, zeros, Rule(zeros=90)).mistrusted
    assert not judged(zeros, zeros, Rule()).mistrusted
    assert not judged(zeros[:5], zeros[:5], Rule(zeros=90)).mistrusted


def test_shapes_must_agree():
    assert "has shape [2], expected [3]" in judged([1, 2, 3], [1, 2], Rule()).message


# --- the reference ------------------------------------------------------------------------------------


def test_the_reference_keeps_more_digits_than_the_types(tmp_path):
    text = text_of(
        {0: ("bf16", [64]), 1: ("bf16", [64]), 2: ("bf16", [64])},
        ("Exp", [0], [1], {}),
        ("Sqrt", [1], [2], {}),
    )
    graph, arrays = filled(text, tmp_path)
    expected = reference(graph, arrays, [1, 2])
    exact = np.exp(arrays[0].astype(float))
    assert expected[1].value == pytest.approx(exact, rel=1e-14)
    assert expected[2].value == pytest.approx(np.sqrt(exact), rel=1e-14)
    assert not expected[2].exact
    assert 0 < np.median(expected[2].spread / np.sqrt(exact)) < 2**-8


def test_casts_and_quantization_round_in_the_reference(tmp_path):
    graph, _ = filled(CASES["cast"], tmp_path)
    expected = reference(graph, {0: np.full(64, 1 + 2**-9, np.float32)}, [1])[1]
    assert np.array_equal(expected.value, np.ones(64))
    graph, arrays = filled(CASES["quantize"], tmp_path)
    assert reference(graph, arrays, [1])[1].value.dtype == np.int8


@pytest.mark.parametrize(
    ("data_type", "factor", "exact"),
    [
        ("f32", 1.0, True),
        ("f32", 1 + 2**-23, False),
        ("f32", np.inf, False),
        ("bf16", 1.0, True),
        ("bf16", 129.0, False),
    ],
)
def test_only_sums_without_rounding_are_exact(tmp_path, data_type, factor, exact):
    graph, arrays = filled(one("MatMul", [[4, 4], [4, 4]], [[4, 4]], data_type), tmp_path)
    arrays = {0: np.full_like(arrays[0], 3), 1: np.full_like(arrays[1], factor)}
    arrays[1][0, 0] = 1
    assert reference(graph, arrays, [2])[2].exact is exact
