"""from_onnx(training=True): which initializers are trained, what nodes are in training, and the way back to ONNX."""

import numpy as np
import onednn_graph as og
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from rows import each

F32 = TensorProto.FLOAT


def reals(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).uniform(-1, 1, shape).astype(np.float32)


def model(nodes, held, *, inputs=(("x", (4, 3)),), output=("logits", (4, 2)), opset=17):
    """A model of these nodes, with initializers by name."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, F32, shape) for name, shape in inputs],
        [helper.make_tensor_value_info(*output[:1], F32, output[1])],
        [numpy_helper.from_array(array, name) for name, array in held.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def node(kind, inputs, outputs, **attributes):
    return helper.make_node(kind, inputs.split(), outputs.split(), name=outputs.split()[0], **attributes)


LINEAR = [node("MatMul", "x w", "h"), node("Add", "h b", "logits")]
WEIGHTS = {"w": reals(3, 2), "b": reals(2)}
X, Y = reals(4, 3, seed=1), np.array([0, 1, 1, 0])


def trainer(graph, rate=0.5):
    labels = graph.input("labels", "s64", [4])
    loss = og.training.cross_entropy(graph, graph.tensor("logits"), labels)
    return og.training.Trainer(graph, loss, og.training.SGD(rate))


def softmax_step(w, b, rate=0.5):
    """One step of logistic regression, by its formula in f64; the loss before it."""
    w, b = w.astype(np.float64), b.astype(np.float64)
    logits = X.astype(np.float64) @ w + b
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    loss = -np.log(shares[np.arange(4), Y]).mean()
    away = (shares - np.eye(2)[Y]) / 4
    return loss, w - rate * X.T.astype(np.float64) @ away, b - rate * away.sum(0)


def test_a_step_is_that_of_the_formula_and_the_file_says_so_again(tmp_path):
    graph = og.from_onnx(model(LINEAR, WEIGHTS), training=True)
    assert set(graph.parameters) == {"w", "b"}
    training = trainer(graph)
    loss, w, b = softmax_step(**WEIGHTS)
    assert training.step({"x": X, "labels": Y}) == pytest.approx(loss, rel=1e-5)
    np.testing.assert_allclose(graph.parameters["w"], w, rtol=1e-5)
    np.testing.assert_allclose(graph.parameters["b"], b, rtol=1e-5)
    path = tmp_path / "trained.onnx"
    training.model().to_onnx(path)
    written = onnx.load(path)
    held = {one.name: numpy_helper.to_array(one) for one in written.graph.initializer}
    np.testing.assert_array_equal(held["w"], graph.parameters["w"])
    assert [one.name for one in written.graph.input] == ["x"]
    again = og.from_onnx(path, training=True)  # and once more
    assert set(again.parameters) == {"w", "b"}
    np.testing.assert_allclose(og.from_onnx(path).compile()(X)["logits"], X @ w + b, rtol=1e-4)


@each(
    ("frozen", "trained"),
    [(["w"], {"b"}), (["b*"], {"w"}), ((), {"w", "b"})],
)
def test_patterns_freeze(frozen, trained):
    graph = og.from_onnx(model(LINEAR, WEIGHTS), training=True, frozen=frozen)
    assert set(graph.parameters) == trained
    training = trainer(graph)
    training.step({"x": X, "labels": Y})
    _, w, b = softmax_step(**WEIGHTS)
    want = {"w": w, "b": b}
    for name in trained:
        np.testing.assert_allclose(graph.parameters[name], want[name], rtol=1e-5)


def test_what_is_read_otherwise_stays_a_constant():
    held = {
        **WEIGHTS,
        "scale": np.array(0.5, np.float32),  # a number
        "low": np.array(-1, np.float32),
        "shape": np.array([4, 3]),
        "rows": reals(2, 3),  # a weight, and a condition's operand
        "unread": reals(2),
    }
    nodes = [
        node("Mul", "x scale", "a"),
        node("Clip", "a low", "c"),
        node("Reshape", "c shape", "d"),
        node("ReduceMax", "rows", "most", keepdims=0),
        node("Add", "d most", "e"),
        node("MatMul", "e w", "h"),
        node("Add", "h b", "logits"),
    ]
    assert set(og.from_onnx(model(nodes, held), training=True).parameters) == {"w", "b"}


def test_weights_that_are_turned_first_keep_their_names():
    nodes = [node("Transpose", "w", "turned", perm=[1, 0]), node("MatMul", "x turned", "logits")]
    graph = og.from_onnx(model(nodes, {"w": WEIGHTS["w"].T.copy()}), training=True)
    assert set(graph.parameters) == {"w"}
    trainer(graph).step({"x": X, "labels": Y})
    zero = np.zeros(2, np.float32)
    _, w, _ = softmax_step(WEIGHTS["w"], zero)
    np.testing.assert_allclose(graph.parameters["w"], w.T, rtol=1e-5)


NORMALISED = [
    node("BatchNormalization", "x gamma beta mean variance", "n", momentum=0.75),
    node("MatMul", "n w", "h"),
    node("Add", "h b", "logits"),
]
STATISTICS = {
    "gamma": reals(3, seed=2) + 2,
    "beta": reals(3, seed=3),
    "mean": np.full(3, 0.5, np.float32),
    "variance": np.full(3, 2, np.float32),
}


@pytest.mark.parametrize("said", [{}, {"training_mode": 1}])
def test_a_normalisation_goes_by_the_batch_and_moves_the_statistics(said):
    first = node(
        "BatchNormalization", "x gamma beta mean variance", "n rm rv" if said else "n", momentum=0.75, **said
    )
    graph = og.from_onnx(model([first, *NORMALISED[1:]], WEIGHTS | STATISTICS), training=True)
    assert set(graph.parameters) == {*WEIGHTS, *STATISTICS}
    training = trainer(graph)
    x = X.astype(np.float64)
    normal = (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5) * STATISTICS["gamma"] + STATISTICS["beta"]
    logits = normal @ WEIGHTS["w"] + WEIGHTS["b"]
    want = np.log(np.exp(logits).sum(1)) - logits[np.arange(4), Y]
    assert training.step({"x": X, "labels": Y}) == pytest.approx(want.mean(), rel=1e-5)
    np.testing.assert_allclose(graph.parameters["mean"], 0.75 * 0.5 + 0.25 * x.mean(0), rtol=1e-5)
    np.testing.assert_allclose(graph.parameters["variance"], 0.75 * 2 + 0.25 * x.var(0), rtol=1e-5)
    served = training.model()
    held = served.constants
    by_statistics = (x - held["mean"]) / np.sqrt(held["variance"] + 1e-5) * held["gamma"] + held["beta"]
    got = served.compile()(X)["logits"]
    np.testing.assert_allclose(got, by_statistics @ held["w"] + held["b"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("frozen", [["mean"], ["mean", "variance"], ["*a*"]])
def test_frozen_statistics_stay(frozen):
    graph = og.from_onnx(model(NORMALISED, WEIGHTS | STATISTICS), training=True, frozen=frozen)
    assert not {"mean", "variance"} & set(graph.parameters)
    training = trainer(graph)
    before = og.from_onnx(model(NORMALISED, WEIGHTS | STATISTICS)).compile()(X)["logits"]
    np.testing.assert_allclose(training.evaluate({"x": X})["logits"], before, rtol=1e-5)
    want = np.log(np.exp(before).sum(1)) - before[np.arange(4), Y]
    assert training.step({"x": X, "labels": Y}) == pytest.approx(want.mean(), rel=1e-5)


@each(("opset", "mask"), [(11, False), (17, False), (17, True)])
def test_what_is_dropped_is_drawn_at_each_step(opset, mask):
    size = 4096
    held = {"w": np.ones((size, 2), np.float32)} | (
        {} if opset < 12 else {"ratio": np.array(0.25, np.float32)}
    )
    attributes = {"ratio": 0.25} if opset < 12 else {}
    drop = node("Dropout", "x" if opset < 12 else "x ratio", "d m" if mask else "d", **attributes)
    nodes = [drop, node("MatMul", "d w", "logits")]
    if mask:
        nodes = [
            drop,
            node("Cast", "m", "kept", to=F32),
            node("Mul", "d kept", "e"),
            node("MatMul", "e w", "logits"),
        ]
    given = model(nodes, held, inputs=(("x", (4, size)),), opset=opset)
    graph = og.from_onnx(given, training=True)
    assert graph.input_names == ("x", "seed")
    run = graph.compile()
    x = np.ones((4, size), np.float32)
    sums = [run({"x": x, "seed": np.asarray(n)})["logits"][:, 0] for n in (1, 1, 2)]
    np.testing.assert_array_equal(sums[0], sums[1])
    assert not np.array_equal(sums[0], sums[2])
    np.testing.assert_allclose(sums[0], size, rtol=0.1)
    kept = sums[0] * 0.75  # whole numbers of elements, each 1 / 0.75
    np.testing.assert_allclose(kept, kept.round(), atol=0.1)  # of a sum of 4096 in f32
    if not mask:
        served = graph.for_inference().compile()
        np.testing.assert_array_equal(served(x)["logits"], np.full((4, 2), size))


def test_a_step_of_a_network_with_dropout_needs_no_seed():
    held = {"w": reals(3, 2), "ratio": np.array(0.5, np.float32)}
    nodes = [node("Dropout", "x ratio", "d"), node("MatMul", "d w", "logits")]
    training = trainer(og.from_onnx(model(nodes, held), training=True))
    losses = {training.step({"x": X, "labels": Y}) for _ in range(3)}
    assert len(losses) == 3


# --- what is refused -------------------------------------------------------------------------------------


@each(
    ("options", "error", "message"),
    [
        (
            {"training": True, "frozen": ["head.*"]},
            og.ArgumentError,
            r"'head\.\*', which fits no initializer",
        ),
        ({"training": True, "frozen": "head"}, og.ArgumentError, "'head', which fits no initializer"),
        (
            {"training": True, "frozen": [3]},
            og.ArgumentTypeError,
            "frozen must be a name, a pattern of names",
        ),
        ({"training": True, "frozen": ["*"]}, og.ArgumentError, "nothing to train"),
        ({"frozen": ["w"]}, og.ArgumentError, "give training=True"),
    ],
)
def test_errors(options, error, message):
    with pytest.raises(error, match=message):
        og.from_onnx(model(LINEAR, WEIGHTS), **options)


def test_a_model_whose_ops_depend_on_its_sizes_trains_with_all_of_them():
    nodes = [
        node("Shape", "x", "shape"),
        node("ConstantOfShape", "shape", "zeros"),
        node("Add", "x zeros", "a"),
        node("MatMul", "a w", "logits"),
    ]
    opened = model(nodes, {"w": reals(3, 2)}, inputs=(("x", ("n", 3)),), output=("logits", ("n", 2)))
    whole = og.from_onnx(opened, training=True)
    assert isinstance(whole, og.OpenGraph)

    def loss(graph):
        return og.training.cross_entropy(graph, graph.outputs[0], graph.input("labels", "s64", [-1]))

    both = (
        og.training.Trainer(whole, loss, og.training.SGD(0.5)),
        trainer(og.from_onnx(opened, training=True, shapes={"x": [4, 3]})),
    )
    for _ in range(2):
        assert len({one.step({"x": X, "labels": Y}) for one in both}) == 1
    assert np.isfinite(both[0].step({"x": X[:3], "labels": Y[:3]}))


def test_a_model_in_stages_says_what_to_give():
    nodes = [
        node("NonZero", "x", "places"),
        node("Shape", "places", "shape"),
        node("ConstantOfShape", "shape", "zeros"),
        node("ReduceSum", "zeros", "sum", keepdims=0),
        node("Add", "x sum", "a"),
        node("MatMul", "a w", "logits"),
    ]
    with pytest.raises(og.UnsupportedError, match=r"no single graph.*shapes=\{…\}"):
        og.from_onnx(model(nodes, {"w": reals(3, 2)}), training=True)
