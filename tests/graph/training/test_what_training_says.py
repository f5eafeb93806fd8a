"""What training says of common mistakes: NaN and where it comes from, means over batches, lengths of batches."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.ops.errors import NAN_GUIDE

T = og.training
ROOT = Path(__file__).parents[3]
RNG = np.random.default_rng(3)
X = RNG.normal(size=(6, 4)).astype(np.float32)
LABELS = np.array([0, 1, 2, 2, 1, 0])


def network(batch: int = -1, *, scale: float = 1, optimizer: Any = None, **options: Any) -> T.Trainer:
    graph = og.Graph()
    x, y = graph.input("x", "f32", [batch, 4]), graph.input("y", "s64", [batch])
    w = graph.parameter((RNG.normal(size=(4, 3)) * scale).astype(np.float32), name="w")
    logits = graph.output(graph.matmul(x, w, name="logits"))
    loss = T.cross_entropy(graph, logits, y, **options)
    return T.Trainer(graph, loss, optimizer or T.SGD(0.1))


def parts(sizes: Sequence[int]) -> list[dict[str, Any]]:
    ends = np.cumsum([0, *sizes])
    return [{"x": X[a:b], "y": LABELS[a:b]} for a, b in itertools.pairwise(ends)]


@pytest.mark.parametrize("options", [{"class_weights": [1.0, 5.0, 0.1]}, {"ignore_index": 2}, {}], ids=str)
def test_the_mean_of_validation_data_does_not_depend_on_batches(options: dict[str, Any]) -> None:
    trainer = network(**options)
    whole = trainer.validate(parts([6]))["loss"]
    for sizes in ([3, 3], [1, 2, 3], [2, 2, 2], [1] * 6):  # of [2, 2, 2] one batch has ignored labels alone
        np.testing.assert_allclose(trainer.validate(parts(sizes))["loss"], whole, rtol=2e-6)
    logits = X.astype(np.float64) @ trainer.model().constants["w"]
    logs = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    weights = np.asarray(options.get("class_weights", [1.0, 1.0, 1.0]))[LABELS]
    weights[options.get("ignore_index", -1) == LABELS] = 0
    np.testing.assert_allclose(
        whole, -(logs[np.arange(6), LABELS] * weights).sum() / weights.sum(), rtol=1e-5
    )
    assert list(trainer.evaluate(parts([6])[0])) == ["logits", "loss"]


def test_the_mean_of_labels_that_are_all_ignored_is_nan() -> None:
    assert np.isnan(network(ignore_index=7).validate([{"x": X[:2], "y": [7, 7]}])["loss"])


def test_a_loss_that_has_a_name_keeps_it() -> None:
    graph = og.Graph()
    w = graph.parameter(np.ones(3, np.float32), name="w")
    loss = graph.reduce_sum(graph.multiply(w, graph.input("x", "f32", [3])), axes=[0], name="energy")
    feeds = {"x": np.ones(3, np.float32)}
    assert list(T.Trainer(graph, loss, T.SGD(0.1)).evaluate(feeds)) == ["energy"]


@pytest.mark.parametrize("run", [T.Trainer.step, T.Trainer.evaluate, lambda t, feeds: t.validate([feeds])])
def test_a_batch_of_another_length(run: Callable[[T.Trainer, Any], Any]) -> None:
    trainer = network(batch=4)
    with pytest.raises(og.ShapeError) as caught:
        run(trainer, parts([2])[0])
    assert str(caught.value) == (
        "input 'x' is for batches of 4, shape [4, 4], got one of 2; leave a shorter last batch out by Loader(…, "
        "drop_last=True), or make the input of shape [-1, 4], whose size is open"
    )
    with pytest.raises(og.ShapeError, match="got one of 6; make the input of shape"):
        run(trainer, parts([6])[0])
    loader = T.Loader({"x": X, "y": LABELS}, 4, drop_last=True)
    assert trainer.fit(loader)[0].steps == 1


def test_a_side_input_of_another_length_is_no_batch() -> None:
    graph = og.Graph()
    x, scale = graph.input("x", "f32", [4, 3]), graph.input("scale", "f32", [3])
    loss = graph.reduce_sum(
        graph.matmul(graph.multiply(x, scale), graph.parameter(np.ones((3, 1), np.float32), name="w")),
        axes=[0, 1],
    )
    with pytest.raises(og.ShapeError) as caught:
        T.Trainer(graph, loss, T.SGD(0.1)).step({"x": X[:4, :3], "scale": np.ones(2, np.float32)})
    assert "batches" not in str(caught.value)


@pytest.mark.parametrize("first", [False, True])
def test_a_weighted_mean_times_a_number_is_one_on_either_side(first: bool) -> None:
    graph = og.Graph()
    x, y = graph.input("x", "f32", [-1, 4]), graph.input("y", "s64", [-1])
    w = graph.parameter(RNG.normal(size=(4, 3)).astype(np.float32), name="w")
    mean = T.cross_entropy(graph, graph.matmul(x, w), y, ignore_index=2)
    half = graph.constant(np.float32(0.5))
    trainer = T.Trainer(
        graph, graph.multiply(half, mean) if first else graph.multiply(mean, half), T.SGD(0.1)
    )
    whole = trainer.validate(parts([6]))["loss"]
    np.testing.assert_allclose(trainer.validate(parts([1, 5]))["loss"], whole, rtol=2e-6)


# --- how much a batch counts ---------------------------------------------------------------------------


def tempered(**options: Any) -> T.Trainer:
    """A network whose first input is one number."""
    graph = og.Graph()
    temperature = graph.input("temperature", "f32", [1])
    x, y = graph.input("x", "f32", [-1, 4]), graph.input("y", "s64", [-1])
    w = graph.parameter(np.ones((4, 3), np.float32), name="w")
    logits = graph.output(graph.multiply(graph.matmul(x, w), temperature), name="logits")
    return T.Trainer(graph, T.cross_entropy(graph, logits, y), T.SGD(0.1), deterministic=True, **options)


def test_a_batch_counts_by_its_open_axis_however_it_is_fed() -> None:
    warm = {"temperature": np.ones(1, np.float32)}
    batches = parts([5, 1])
    whole = tempered().validate([batch | warm for batch in parts([6])])["loss"]
    for feeds in ([batch | warm for batch in batches], [warm | batch for batch in batches]):
        np.testing.assert_allclose(tempered().validate(feeds)["loss"], whole, rtol=1e-6)
        trainer = tempered(accumulate=2)
        trainer.step(feeds[0])
        np.testing.assert_allclose(trainer.step(feeds[1]), whole, rtol=1e-6)


def test_a_batch_without_examples_is_no_step() -> None:
    trainer = network()
    with pytest.raises(og.ArgumentError, match="the batch has no examples"):
        trainer.step({"x": X[:0], "y": LABELS[:0]})
    assert (trainer.steps, trainer.skipped) == (0, 0)


# --- learning rates ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (np.nan, og.ArgumentError),
        (np.inf, og.ArgumentError),
        (-1.0, og.ArgumentError),
        (None, og.ArgumentTypeError),
        ("0.1", og.ArgumentTypeError),
        (True, og.ArgumentTypeError),
    ],
    ids=str,
)
def test_what_a_schedule_returns_is_looked_at(value: Any, error: type[Exception]) -> None:
    trainer = network(optimizer=T.SGD(lambda step: value))
    before = trainer.model().constants["w"].copy()
    with pytest.raises(error, match="a schedule must return a (finite )?number"):
        trainer.step(parts([6])[0])
    np.testing.assert_array_equal(trainer.model().constants["w"], before)


def test_numbers_of_numpy_are_rates() -> None:
    trainer = network(optimizer=T.SGD(lambda step: np.float32(0.5)))
    trainer.step(parts([6])[0])
    assert trainer.steps == 1


def test_a_class_is_no_schedule() -> None:
    with pytest.raises(og.ArgumentTypeError, match="Cosine is a class: call it"):
        T.SGD(T.Cosine)  # pyright: ignore[reportArgumentType]


# --- the model that was trained ------------------------------------------------------------------------


def test_the_loss_is_no_output_of_the_model() -> None:
    graph = og.Graph()
    x, y = graph.input("x", "f32", [-1, 4]), graph.input("y", "s64", [-1])
    logits = graph.matmul(x, graph.parameter(np.ones((4, 3), np.float32), name="w"), name="logits")
    trainer = T.Trainer(graph, graph.output(T.cross_entropy(graph, logits, y), name="loss"), T.SGD(0.1))
    with pytest.raises(og.ArgumentError, match=r"no output is left without the loss.*outputs="):
        trainer.model()
    served = trainer.model(["logits"])
    assert (served.input_names, served.output_names) == (("x",), ("logits",))
    assert trainer.model(["loss"]).output_names == ("loss",)


# --- steps that are skipped ----------------------------------------------------------------------------


def skipped(trainer: T.Trainer, *, steps: bool = True, **feeds: Any) -> str:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        (trainer.step if steps else trainer.fit)(feeds if steps else [feeds])
    (one,) = [w for w in caught if w.category is og.errors.SkippedStepWarning]
    assert one.filename == __file__  # the line of who has called, however deep it comes from
    return str(one.message)


def yes_or_no(activation: str | None, *, flat: bool = False, less: bool = False) -> T.Trainer:
    graph = og.Graph()
    x, y = graph.input("x", "f32", [6, 4]), graph.input("y", "f32", [6] if flat else [6, 1])
    w = graph.parameter(np.full((4, 1), 3, np.float32), name="w")
    out = graph.matmul(x, w, name="scores")
    if less:
        out = graph.op("Subtract", out, out)
    if activation:
        out = graph.op(activation, out)
    if flat:
        out = graph.op("StaticReshape", out, shape=[6], special_zero=False, name="flat")
    return T.Trainer(graph, T.binary_cross_entropy(graph, out, y), T.SGD(0.1))


def test_logits_that_are_taken_for_probabilities() -> None:
    ones = np.ones((6, 1), np.float32)
    assert skipped(yes_or_no(None), x=X, y=ones).endswith(
        "binary_cross_entropy wants probabilities, from 0 to 1, and 'scores' is no result of a sigmoid; "
        "binary_cross_entropy_with_logits takes logits"
    )
    assert "'scores' is no result of a sigmoid" in skipped(yes_or_no(None, flat=True), x=X, y=ones[:, 0])
    huge = np.full((6, 4), 3e38, np.float32)  # whose sums are infinite in any order, and NaN less themselves
    for activation, flat in (("Sigmoid", True), ("SoftMax", False)):
        trainer = yes_or_no(activation, flat=flat, less=True)
        said = skipped(trainer, x=huge, y=ones[:, 0] if flat else ones)
        assert "sigmoid" not in said
    wrong = X.copy()
    wrong[0, 0] = np.nan
    said = skipped(yes_or_no("Sigmoid"), x=wrong, y=ones)
    assert said.endswith("input 'x' has NaN, which was there before the step")


def test_what_is_not_finite_before_a_step_is_named() -> None:
    trainer = network()
    feeds = parts([6])[0]
    infinite = X.copy()
    infinite[2, 1] = -np.inf
    assert "input 'x' has an infinity" in skipped(trainer, **feeds | {"x": infinite})
    assert "input 'x' has an infinity" in skipped(trainer, steps=False, **feeds | {"x": infinite})
    trainer = network(scale=np.nan)
    assert "parameter 'w' has NaN" in skipped(trainer, **feeds)


def test_other_skipped_steps_name_the_guide() -> None:
    said = skipped(network(scale=100), x=np.full((6, 4), 3e38, np.float32), y=LABELS)
    assert said.endswith(f"lower the learning rate or set clip_norm; {NAN_GUIDE}")
    page = (ROOT / "docs" / "pages" / "guides" / "special-values.md").read_text(encoding="utf-8")
    title = NAN_GUIDE.split("'")[1]
    assert page.startswith(f"# {title}\n")
