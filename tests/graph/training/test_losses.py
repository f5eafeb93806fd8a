"""Losses against their formulas in double precision, their gradients against differences, and what they refuse."""

import itertools
from functools import partial

import numpy as np
import onednn_graph as og
import pytest
from losses import run
from rows import each

T = og.training
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(2, 3, 4)), RNG.normal(size=(2, 3, 4))
SHARES = RNG.dirichlet(np.ones(4), (2, 3))
LABELS = RNG.integers(0, 4, (2, 3))
LABELS[1, 0] = -100
SIGNED = np.abs(Y) * np.array([[[1], [-1], [1]], [[-1], [1], [-1]]])
"""Vectors all of whose elements have one sign."""
BY_CLASS = np.array([0.5, 2.0, 1.0, 0.25])


def log_softmax(x):
    return x - np.log(np.sum(np.exp(x), axis=-1, keepdims=True))


def of_labels(logs, labels, by_class=None, smoothing=0.0):
    """The loss and the weight of each label, with 0 for those that do not count."""
    known = labels >= 0
    weights = np.ones(logs.shape[-1]) if by_class is None else by_class
    at = np.where(known, labels, 0)
    own = -np.take_along_axis(logs * weights, at[..., None], -1)[..., 0]
    even = -np.mean(logs * weights, -1)
    return known * ((1 - smoothing) * own + smoothing * even), known * weights[at]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def huber(d, delta):
    return np.where(np.abs(d) <= delta, d * d / 2, delta * (np.abs(d) - delta / 2))


def smoothed(x, y):
    losses, weights = of_labels(log_softmax(x), y, BY_CLASS, 0.2)
    return losses.sum() / weights.sum()


def counted(x, y):
    losses, weights = of_labels(x, y, BY_CLASS)
    return losses.sum() / weights.sum()


def cosine(x, y):
    return np.sum(x * y, -1) / np.sqrt(np.sum(x * x, -1) * np.sum(y * y, -1))


def length(x):
    return np.sqrt(np.sum(x * x, -1))


FORMULAS = {
    "hinge": (T.hinge, np.sign(Y), lambda x, y: np.mean(np.maximum(0, 1 - x * y))),
    "cosine_embedding": (
        lambda graph, x, y: T.cosine_embedding(
            graph, x, y, graph.reduce_max(graph.op("HostSign", y), axes=[2]), margin=-0.9
        ),
        SIGNED,
        lambda x, y: np.mean(np.where(y.max(-1) > 0, 1 - cosine(x, y), np.maximum(0, cosine(x, y) + 0.9))),
    ),
    "triplet_margin": (
        lambda graph, x, y: T.triplet_margin(graph, x, y, graph.op("Square", y), margin=2),
        Y,
        lambda x, y: np.mean(np.maximum(0, length(x - y + 1e-6) - length(x - y * y + 1e-6) + 2)),
    ),
    "mean_squared_error": (T.mean_squared_error, Y, lambda x, y: np.mean((x - y) ** 2)),
    "mean_absolute_error": (T.mean_absolute_error, Y, lambda x, y: np.mean(np.abs(x - y))),
    "huber": (partial(T.huber, delta=0.7), Y, lambda x, y: np.mean(huber(x - y, 0.7))),
    "smooth_l1": (partial(T.smooth_l1, beta=0.7), Y, lambda x, y: np.mean(huber(x - y, 0.7)) / 0.7),
    "smooth_l1 without a parabola": (
        partial(T.smooth_l1, beta=0),
        Y,
        lambda x, y: np.mean(np.abs(x - y)),
    ),
    "binary_cross_entropy": (
        lambda graph, x, y: T.binary_cross_entropy(graph, graph.op("Sigmoid", x), y),
        SHARES,
        lambda x, y: np.mean(-y * np.log(sigmoid(x)) - (1 - y) * np.log(1 - sigmoid(x))),
    ),
    "binary_cross_entropy_with_logits": (
        partial(T.binary_cross_entropy_with_logits, pos_weight=BY_CLASS, reduction="sum"),
        SHARES,
        lambda x, y: np.sum(-y * BY_CLASS * np.log(sigmoid(x)) - (1 - y) * np.log(1 - sigmoid(x))),
    ),
    "kl_divergence": (
        T.kl_divergence,
        SHARES,
        lambda x, y: np.mean(np.sum(y * (np.log(y) - x), -1)),
    ),
    "kl_divergence of logarithms": (
        partial(T.kl_divergence, log_targets=True, reduction="sum"),
        np.log(SHARES),
        lambda x, y: np.sum(np.exp(y) * (y - x)),
    ),
    "negative_log_likelihood": (
        partial(T.negative_log_likelihood, ignore_index=-100, class_weights=BY_CLASS),
        LABELS,
        counted,
    ),
    "cross_entropy": (
        partial(T.cross_entropy, ignore_index=-100, class_weights=BY_CLASS, label_smoothing=0.2),
        LABELS,
        smoothed,
    ),
    "cross_entropy of shares": (
        partial(T.cross_entropy, class_weights=BY_CLASS, label_smoothing=0.2),
        SHARES,
        lambda x, y: np.mean(np.sum(-log_softmax(x) * BY_CLASS * (0.8 * y + 0.2 / 4), -1)),
    ),
}


@pytest.mark.parametrize("opened", [(), (0,), (0, 1)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@each("name", FORMULAS)
def test_losses_are_their_formulas(dtype, opened, name):
    within = {"rtol": 1e-5, "atol": 1e-6} if dtype == np.float32 else {"rtol": 1e-6, "atol": 1e-8}
    build, targets, formula = FORMULAS[name]
    given = targets if targets.dtype.kind == "i" else targets.astype(dtype)
    loss, (gradient,), _ = run(build, {"x": X.astype(dtype), "y": given}, by=["x"], opened=opened)
    assert loss.dtype == dtype
    np.testing.assert_allclose(loss, formula(X, targets), **within)
    steps = 1e-5 * np.eye(X.size).reshape(X.size, *X.shape)
    slopes = [(formula(X + step, targets) - formula(X - step, targets)) / 2e-5 for step in steps]
    np.testing.assert_allclose(gradient, np.reshape(slopes, X.shape), **within)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_weights_of_examples_are_factors(reduction):
    weights = np.array([[2.0, 0.0, 1.0], [0.5, 3.0, 0.0]])
    reduced = {"mean": np.mean, "sum": np.sum, "none": np.asarray}[reduction]

    def of_classes(graph, x, y, weights):
        return T.cross_entropy(
            graph, x, y, ignore_index=-100, class_weights=BY_CLASS, weights=weights, reduction=reduction
        )

    losses, by_class = of_labels(log_softmax(X), LABELS, BY_CLASS)
    found, _, _ = run(of_classes, {"x": X, "y": LABELS, "weights": weights}, by=["x"], opened=(0,))
    want = reduced(losses * weights)
    np.testing.assert_allclose(
        found, (losses * weights).sum() / by_class.sum() if reduction == "mean" else want
    )

    def of_numbers(graph, x, y, weights):
        return T.mean_squared_error(graph, x, y, weights=weights, reduction=reduction)

    found, _, _ = run(of_numbers, {"x": X, "y": Y, "weights": weights}, by=["x"], opened=(0,))
    np.testing.assert_allclose(found, reduced((X - Y) ** 2 * weights[..., None]))
    found, _, _ = run(of_numbers, {"x": X, "y": Y, "weights": BY_CLASS[None, None]}, by=["x"], opened=(1,))
    np.testing.assert_allclose(found, reduced((X - Y) ** 2 * BY_CLASS))


def test_weights_of_another_batch_do_not_make_it_longer():
    graph = og.Graph()
    x, y, w = (
        graph.input("x", "f32", [-1, 2]),
        graph.input("y", "f32", [-1, 2]),
        graph.input("w", "f32", [-1]),
    )
    graph.output(T.mean_squared_error(graph, x, y, weights=w), name="loss")
    one = np.ones((1, 2), np.float32)
    with pytest.raises(og.ShapeError):
        graph.compile()(x=one, y=one, w=np.ones(3, np.float32))


def test_what_a_target_gives_no_share_counts_nothing():
    logs = np.array([[0.0, -np.inf, -np.inf], [-np.inf, np.log(0.5), np.log(0.5)]])
    shares = np.array([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]])
    loss, (slope,), _ = run(T.kl_divergence, {"x": logs, "y": shares}, by=["x"])
    assert loss == 0
    np.testing.assert_allclose(slope, -shares / 2)
    loss, (slope,), _ = run(
        lambda graph, x, y: T.kl_divergence(graph, x, y, log_targets=True), {"x": logs, "y": logs}, by=["x"]
    )
    assert loss == 0
    np.testing.assert_allclose(slope, -shares / 2)
    loss, (slope,), _ = run(T.cross_entropy, {"x": logs, "y": shares}, by=["x"])
    np.testing.assert_allclose(loss, np.log(2) / 2)
    np.testing.assert_allclose(slope, np.zeros_like(logs), atol=1e-12)


def test_small_losses_have_their_digits_and_no_sign():
    x = np.array([20.0, 30.0, 80.0], np.float32)
    none = partial(T.binary_cross_entropy_with_logits, reduction="none")
    for logits, target in ((x, 1.0), (-x, 0.0)):
        loss, _, _ = run(none, {"x": logits, "y": np.full_like(x, target)}, by=["x"])
        np.testing.assert_allclose(loss, np.log1p(np.exp(-x.astype(np.float64))), rtol=1e-3, atol=1e-30)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_probabilities_of_zero_and_one_have_bounds(dtype):
    p = np.array([0, 1, 0, 1, 1e-30], dtype)
    targets = np.array([1, 0, 0, 1, 1], dtype)
    none = partial(T.binary_cross_entropy, reduction="none")
    loss, (slope,), _ = run(none, {"x": p, "y": targets}, by=["x"])
    np.testing.assert_allclose(loss, [100, 100, 0, 0, -np.log(p[4].astype(np.float64))], rtol=1e-5)
    np.testing.assert_allclose(slope, [-1e12, 1e12, 1, -1, -1e12], rtol=1e-5)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_sizes_may_all_be_open_wherever_the_classes_are(axis):
    x, y = np.moveaxis(X, -1, axis), LABELS
    loss, (slope,), _ = run(
        partial(T.cross_entropy, axis=axis, ignore_index=-100), {"x": x, "y": y}, by=["x"], opened=(0, 1, 2)
    )
    known, (same,), _ = run(
        partial(T.cross_entropy, axis=axis, ignore_index=-100), {"x": x, "y": y}, by=["x"]
    )
    losses, weights = of_labels(log_softmax(X), LABELS)
    np.testing.assert_allclose([loss, known], losses.sum() / weights.sum())
    np.testing.assert_allclose(slope, same, atol=1e-12)


def test_probabilities_out_of_bounds_are_no_numbers():
    p = np.array([-0.5, 1.5, np.nan], np.float32)
    none = partial(T.binary_cross_entropy, reduction="none")
    for target in (0.0, 0.3, 1.0):
        loss, _, _ = run(none, {"x": p, "y": np.full_like(p, target)}, by=["x"])
        assert np.isnan(loss).all()


def test_an_index_that_no_label_can_be_ignores_none():
    loss, _, _ = run(
        partial(T.cross_entropy, ignore_index=1 << 40), {"x": X[0], "y": LABELS[0].astype(np.int32)}, by=["x"]
    )
    np.testing.assert_allclose(loss, of_labels(log_softmax(X[0]), LABELS[0])[0].mean())


def test_one_prediction_without_axes():
    loss, (slope,), _ = run(T.mean_squared_error, {"x": np.array(3.0), "y": np.array(1.0)}, by=["x"])
    assert (loss, slope) == (4, 4)


# --- in bf16 ---


def network(build, labels, size=4):
    graph = og.Graph()
    x = graph.input("x", "f32", [size, 8])
    w = graph.parameter(RNG.normal(size=(8, 3)).astype(np.float32), name="w")
    found = graph.matmul(x, w)
    data_type, shape = labels
    return graph, build(graph, found, graph.input("y", data_type, [size, *shape[1:]]))


IN_BF16 = {
    "cross_entropy": (partial(T.cross_entropy, class_weights=[1, 2, 3], ignore_index=0), ("s64", [4])),
    "binary_cross_entropy": (
        lambda graph, x, y: T.binary_cross_entropy(graph, graph.op("Sigmoid", x), y),
        ("f32", [4, 3]),
    ),
    **{
        name: (getattr(T, name), ("f32", [4, 3]))
        for name in (
            "binary_cross_entropy_with_logits",
            "huber",
            "smooth_l1",
            "mean_absolute_error",
            "kl_divergence",
        )
    },
}


@pytest.mark.parametrize("size", [4, 1])
@each("name", IN_BF16)
def test_losses_stay_in_f32_where_models_are_bf16(size, name):
    build, labels = IN_BF16[name]
    graph, loss = network(build, labels, size)
    graph.output(loss, name="loss")
    made = [op for op in graph.to("bf16").ops if op.kind not in ("TypeCast", "MatMul")]
    assert made
    for op in made:
        assert "bf16" not in {t.data_type.value for t in (*op.inputs, *op.outputs)}, op


def test_weights_of_examples_stay_in_f32_too():
    graph, _ = network(T.mean_squared_error, ("f32", [4, 3]))
    weights = graph.input("weights", "f32", [4])
    loss = T.mean_squared_error(graph, graph.ops[0].outputs[0], graph.inputs[1], weights=weights)
    graph.output(loss, name="loss")
    made = graph.to("bf16")
    assert {op.kind for op in made.ops if any(t.data_type.value == "bf16" for t in op.inputs)} == {
        "MatMul",
        "TypeCast",
    }


# --- errors ---


def refused(build, kinds, message):
    graph = og.Graph()
    tensors = [graph.input(f"x{n}", data_type, shape) for n, (data_type, shape) in enumerate(kinds)]
    with pytest.raises(og.OneDNNGraphError, match=message) as caught:
        build(graph, *tensors)
    assert "\n" not in str(caught.value)


PAIR = [("f32", [4, 3]), ("f32", [4, 3])]
CLASSES = [("f32", [4, 3]), ("s64", [4])]
REFUSED = {
    "a margin": (
        lambda graph, x, y: T.triplet_margin(graph, x, x, y, margin=0),
        PAIR,
        "margin must be above 0, got 0",
    ),
    "another margin": (
        lambda graph, x, y: T.cosine_embedding(graph, x, y, graph.input("t", "f32", [4]), margin=2),
        PAIR,
        "margin must be from -1 to 1, got 2",
    ),
    "targets of each element": (
        lambda graph, x, y: T.cosine_embedding(graph, x, y, y),
        PAIR,
        r"targets must have the shape of first without its last axis, \[4\], got \[4, 3\]",
    ),
    "a vector and a column": (
        T.mean_squared_error,
        [("f32", [4]), ("f32", [4, 1])],
        r"targets must have the shape of p",
    ),
    "integers": (
        T.mean_squared_error,
        [("f32", [4]), ("s64", [4])],
        "targets must be of the type of predictions, f32",
    ),
    "two types": (
        T.huber,
        [("f32", [4]), ("f64", [4])],
        "huber: targets must be of the type of predictions, f32",
    ),
    "delta": (partial(T.huber, delta=0), PAIR, "delta must be above 0, got 0"),
    "delta that is none": (partial(T.huber, delta="1"), PAIR, "delta must be a number, got '1'"),
    "delta without end": (partial(T.huber, delta=np.inf), PAIR, "delta must be above 0, got inf"),
    "beta": (partial(T.smooth_l1, beta=-1), PAIR, "beta must be 0 or more, got -1"),
    "reduction": (
        partial(T.huber, reduction="meen"),
        PAIR,
        "huber: reduction must be one of mean, sum, none.*'mean'",
    ),
    "no reduction": (
        partial(T.huber, reduction=None),
        PAIR,
        "reduction must be one of mean, sum, none, got None",
    ),
    "an array": (
        lambda graph, x: T.huber(graph, x, np.zeros(3)),
        PAIR[:1],
        "targets must be a tensor of the graph",
    ),
    "no graph": (lambda graph, x, y: T.huber(x, y, y), PAIR, "huber: graph must be a Graph, got"),
    "integers of logits": (
        T.cross_entropy,
        [("s64", [4, 3]), ("s64", [4])],
        "logits must be of floating-point",
    ),
    "axis": (partial(T.cross_entropy, axis=2), CLASSES, "logits must have the axis 2 of the classes"),
    "axis that is none": (partial(T.cross_entropy, axis=1.0), CLASSES, "axis must be an integer, got 1.0"),
    "smoothing": (
        partial(T.cross_entropy, label_smoothing=1.1),
        CLASSES,
        "label_smoothing must be from 0 to 1",
    ),
    "smoothing that is none": (
        partial(T.cross_entropy, label_smoothing="a"),
        CLASSES,
        "must be a number, got 'a'",
    ),
    "shares": (T.cross_entropy, [("f32", [4, 3]), ("f32", [4])], "numbers of classes are integers"),
    "too many class weights": (
        partial(T.cross_entropy, class_weights=[1, 2]),
        CLASSES,
        r"one number for each class, shape \[3\], got \[2\]",
    ),
    "class weights by name": (
        partial(T.cross_entropy, class_weights={0: 1.0}),
        CLASSES,
        "class_weights must be numbers, or a tensor",
    ),
    "a column of labels": (
        T.cross_entropy,
        [("f32", [4, 3]), ("s64", [4, 1])],
        r"without axis 1, \[4\], got \[4, 1\]",
    ),
    "likelihood of shares": (T.negative_log_likelihood, PAIR, "labels must be s32 or s64, got"),
    "pos_weight": (
        partial(T.binary_cross_entropy_with_logits, pos_weight=[1, 2]),
        PAIR,
        r"pos_weight must have one number for each class",
    ),
    "pos_weight below 0": (
        partial(T.binary_cross_entropy_with_logits, pos_weight=-1),
        PAIR,
        "pos_weight must be 0 or more, got -1",
    ),
    "labels of yes or no": (
        T.binary_cross_entropy_with_logits,
        [("f32", [4]), ("s64", [4])],
        "targets must be of the type of logits",
    ),
    "log_targets": (partial(T.kl_divergence, log_targets="no"), PAIR, "log_targets must be True or False"),
    "weights of a last axis": (
        lambda graph, x, y, w: T.huber(graph, x, y, weights=w),
        [*PAIR, ("f32", [3])],
        r"weights must have the first axes of the losses, \[4, 3\].*give weights of a last axis as shape \[1, …\]",
    ),
    "an array of weights": (
        lambda graph, x, y: T.huber(graph, x, y, weights=np.ones(4)),
        PAIR,
        "weights must be a tensor",
    ),
    "another type of weights": (
        lambda graph, x, y, w: T.huber(graph, x, y, weights=w),
        [*PAIR, ("f64", [4])],
        "weights must be f32",
    ),
}


@each("name", REFUSED)
def test_what_does_not_fit_is_refused(name):
    refused(*REFUSED[name])


# --- sequences ---


def ways(probabilities, labels, blank):
    """The probability of labels by all ways through all times, one by one."""
    found = 0.0
    for way in itertools.product(range(probabilities.shape[1]), repeat=len(probabilities)):
        told = [c for c, _ in itertools.groupby(way) if c != blank]
        if told == list(labels):
            found += np.prod(probabilities[np.arange(len(way)), list(way)])
    return found


SEQUENCES = {
    "labels": np.array([[1, 1, 2], [2, 1, -7], [1, 2, 1], [9, 9, 9], [1, 1, 1]]),
    "times": np.array([5, 4, 3, 2, 4]),
    "lengths": np.array([3, 2, 3, 0, 3]),
}


def of_ways(x, y, times, lengths, blank):
    p = np.exp(log_softmax(x))
    rows = zip(p, y, times, lengths, strict=True)
    return np.array([-np.log(ways(q[:t], labels[:n], blank)) for q, labels, t, n in rows])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_ctc_is_the_sum_of_all_ways(reduction, dtype):
    x = RNG.normal(size=(5, 5, 3))
    y, times, lengths = SEQUENCES.values()
    with np.errstate(divide="ignore"):
        want = of_ways(x, y, times, lengths, 0)
    fits = np.isfinite(want)
    assert fits.tolist() == [True, True, True, True, False]
    build = partial(T.ctc, reduction=reduction, zero_infinity=True)

    def loss(graph, x, y, times, lengths):
        return build(graph, x, y, times, lengths)

    arrays = {"x": x.astype(dtype), "y": y, "times": times, "lengths": lengths}
    found, (gradient,), _ = run(loss, arrays, by=["x"], opened=(0, 1), second=dtype is np.float64)
    counted = np.where(fits, want, 0)
    reduced = {
        "mean": np.mean(counted / np.maximum(lengths, 1)),
        "sum": counted.sum(),
        "none": counted,
    }[reduction]
    np.testing.assert_allclose(found, reduced, rtol=1e-5 if dtype is np.float32 else 1e-9)
    slopes = np.zeros_like(x)
    for n, t, c in np.ndindex(4, 5, 3):
        moved = [x[n : n + 1].copy() for _ in range(2)]
        moved[0][0, t, c] += 1e-5
        moved[1][0, t, c] -= 1e-5
        up, down = (of_ways(one, *(a[n : n + 1] for a in (y, times, lengths)), 0)[0] for one in moved)
        slopes[n, t, c] = (up - down) / 2e-5 / (5 * max(lengths[n], 1) if reduction == "mean" else 1)
    within = 1e-5 if dtype is np.float32 else 1e-8  # of f32 logits, whose LogSoftmax is rounded
    np.testing.assert_allclose(gradient, slopes, rtol=within, atol=within)
    assert not gradient[4].any()
    assert not gradient[2, 3:].any()


def test_what_ctc_can_not_align_is_infinite():
    x, (y, times, lengths) = np.zeros((5, 5, 3)), SEQUENCES.values()
    loss, _, _ = run(
        lambda graph, *given, **more: T.ctc(graph, *given, *more.values(), reduction="none"),
        {"x": x, "y": y, "times": times, "lengths": lengths},
        by=["x"],
    )
    assert np.isinf(loss).tolist() == [False, False, False, False, True]


def test_ctc_of_logits_of_any_size():
    x = np.zeros((1, 6, 3), np.float32)
    x[0, np.arange(6), [0, 1, 0, 1, 2, 2]] = 1e4
    loss, (slope,), _ = run(
        lambda graph, *given, **more: T.ctc(graph, *given, *more.values()),
        {"x": x, "y": np.array([[1, 1, 2]]), "times": np.array([6]), "lengths": np.array([3])},
        by=["x"],
    )
    assert loss == 0
    np.testing.assert_allclose(slope, np.zeros_like(x), atol=1e-12)


WRONG_SEQUENCES = {
    "the blank": ({"labels": [[1, 0]]}, "'labels' must not be the blank, 0; give attribute 'blank' a class"),
    "a class too many": ({"labels": [[1, 3]]}, "'labels' must be from 0 to 2, got 3"),
    "below 0": ({"labels": [[1, -1]]}, "'labels' must be from 0 to 2, got -1"),
    "too many labels": ({"label_lengths": [3]}, "'label_lengths' must be from 0 to 2, got 3"),
    "too long a time": ({"logit_lengths": [5]}, "'src_lengths' must be from 0 to 4, got 5"),
}


@each("name", WRONG_SEQUENCES)
def test_sequences_that_do_not_fit(name):
    changed, message = WRONG_SEQUENCES[name]
    feeds = {"labels": [[1, 2]], "logit_lengths": [4], "label_lengths": [2]} | changed
    graph = og.Graph()
    x, y = graph.input("logits", "f32", [1, 4, 3]), graph.input("labels", "s64", [1, 2])
    times, lengths = graph.input("logit_lengths", "s64", [1]), graph.input("label_lengths", "s64", [1])
    graph.output(T.ctc(graph, x, y, times, lengths), name="loss")
    model = graph.compile()
    with pytest.raises(og.ArgumentError, match=message):
        model(logits=np.zeros((1, 4, 3), np.float32), **{n: np.array(a) for n, a in feeds.items()})


CTC = [("f32", [2, 4, 3]), ("s64", [2, 2]), ("s64", [2]), ("s64", [2])]
REFUSED_SEQUENCES = {
    "two axes": (T.ctc, [("f32", [4, 3]), *CTC[1:]], r"ctc: logits must have shape \[N, T, C\]"),
    "labels of numbers": (T.ctc, [CTC[0], ("f32", [2, 2]), *CTC[2:]], "labels must be s32 or s64"),
    "two types": (
        T.ctc,
        [*CTC[:2], ("s32", [2]), CTC[3]],
        "logit_lengths must be of the type of labels, s64",
    ),
    "times first": (
        T.ctc,
        [("f32", [4, 2, 3]), *CTC[1:]],
        r"labels must have shape \[N, S\] for logits of \[4, 2, 3\]",
    ),
    "a matrix of lengths": (T.ctc, [*CTC[:3], ("s64", [2, 1])], r"label_lengths must have shape \[N\]"),
    "blank": (partial(T.ctc, blank=3), CTC, "blank must be one of the classes, 0 or more and below 3, got 3"),
    "no blank": (partial(T.ctc, blank=None), CTC, "blank must be an integer, got None"),
    "zero_infinity": (partial(T.ctc, zero_infinity=1), CTC, "zero_infinity must be True or False, got 1"),
}


@each("name", REFUSED_SEQUENCES)
def test_what_can_be_no_sequence_is_refused(name):
    refused(*REFUSED_SEQUENCES[name])
