"""Trainer.fit and Trainer.validate: epochs, metrics of validation data, callbacks, and what is shown."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.graph.runtime import progress
from onednn_graph.graph.runtime.arrays import Array

T = og.training
Feeds = dict[str, Array]


def scores(values: Any) -> Array:
    return np.array(values, np.float32)


def classifier() -> tuple[og.Graph, T.Trainer]:
    """Logits are what is fed, plus a parameter of zeros that does not move."""
    graph = og.Graph()
    x, labels = graph.input("x", "f32", [-1, 3]), graph.input("labels", "s64", [-1])
    shift = graph.parameter(np.zeros(3, np.float32), name="shift")
    logits = graph.output(graph.add(x, shift, name="logits"))
    return graph, T.Trainer(graph, T.cross_entropy(graph, logits, labels), T.SGD(0.0))


def batch(*rows: tuple[list[float], int]) -> Feeds:
    return {"x": scores([row for row, _ in rows]), "labels": np.array([label for _, label in rows])}


FIRST = batch(([3, 1, 2], 0), ([3, 1, 2], 2), ([3, 1, 2], 1))
SECOND = batch(([0, 0, 2], 2))


def cross_entropy(feeds: Feeds) -> Array:
    shifted = feeds["x"].astype(np.float64)
    logs = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    return -logs[np.arange(len(logs)), feeds["labels"]]


def test_means_are_over_examples_whatever_the_batches() -> None:
    _, trainer = classifier()
    found = trainer.validate(
        [FIRST, SECOND],
        {
            "accuracy": T.Accuracy("logits", "labels"),
            "two best": T.Accuracy("logits", "labels", top=2),
            "largest": lambda outputs, feeds: outputs["logits"].max(1),
            "batches": lambda outputs, feeds: len(feeds["x"]),
        },
    )
    assert list(found) == ["loss", "accuracy", "two best", "largest", "batches"]
    both = np.concatenate([cross_entropy(FIRST), cross_entropy(SECOND)])
    np.testing.assert_allclose(found.pop("loss"), both.mean(), rtol=1e-5, atol=4e-6)
    assert found == {"accuracy": 2 / 4, "two best": 3 / 4, "largest": (3 * 3 + 2) / 4, "batches": (3 + 1) / 2}


def test_accuracy_along_an_inner_axis_is_of_all_pixels() -> None:
    outputs: Any = {"y": scores([[[1, 2], [3, 0]], [[5, 5], [4, 6]]])}  # (batch 2, classes 2, pixels 2)
    labels = np.array([[1, 0], [1, 1]])
    found = T.Accuracy("y", "labels", axis=1)(outputs, {"labels": labels})
    assert found.tolist() == [[True, True], [False, True]]


@pytest.mark.parametrize("top", [1, 2, 3])
def test_no_label_is_found_by_nan_nor_one_that_is_no_class(top: int) -> None:
    nan = np.nan
    outputs: Any = {"y": scores([[nan, nan, nan], [3, nan, 1], [3, 2, 1], [3, 2, 1], [3, nan, 1]])}
    labels = np.array([1, 1, -1, 3, 0])
    found = T.Accuracy("y", "labels", top=top)(outputs, {"labels": labels})
    assert found.tolist() == [False] * 4 + [top >= 2]  # NaN may be above what is found


def test_fit_tells_of_validation_data_after_each_epoch() -> None:
    graph, trainer = classifier()
    seen: list[T.Epoch] = []
    told = trainer.fit(
        [FIRST] * 2,
        2,
        validation=lambda number: [SECOND] * (number + 1),
        metrics={"accuracy": T.Accuracy("logits", "labels")},
        callbacks=[seen.append],
    )
    assert told == seen
    assert [epoch.number for epoch in told] == [0, 1]
    for epoch in told:
        assert epoch.validation["accuracy"] == 1
        # The library's logarithms are right to 4e-6.
        np.testing.assert_allclose(
            epoch.validation["loss"], cross_entropy(SECOND).mean(), rtol=1e-5, atol=4e-6
        )
        np.testing.assert_allclose(epoch.loss, cross_entropy(FIRST).mean(), rtol=1e-5, atol=4e-6)
    full = T.Epoch(
        number=4,
        loss=0.5,
        steps=9,
        seconds=1.26,
        training={"f1": 0.5},
        validation={"loss": 0.25, "f1": 0.75},
    )
    said = "epoch 4: loss 0.5, f1 0.5, validation loss 0.25, validation f1 0.75, 9 steps in 1.3 s"
    assert str(full) == said
    with pytest.raises(og.ArgumentError, match="epoch 4 has no 'validaton loss' .*'validation loss'"):
        full.value("validaton loss")
    assert str(T.Epoch(number=0, loss=2.0, steps=1, seconds=0.0)) == "epoch 0: loss 2, 1 steps in 0.0 s"
    assert graph.parameters["shift"].tolist() == [0, 0, 0]


def test_validation_changes_nothing() -> None:
    graph = og.Graph()
    x, y = graph.input("x", "f32", [-1, 2]), graph.input("y", "f32", [-1, 2])
    w = graph.parameter(np.eye(2, dtype=np.float32), name="w")
    trainer = T.Trainer(graph, T.mean_squared_error(graph, graph.matmul(x, w), y), T.SGD(0.5))
    feeds = {"x": scores([[1, 2]]), "y": scores([[3, 2]])}
    assert trainer.validate([feeds]) == {"loss": 2.0}
    assert trainer.steps == 0
    assert graph.parameters["w"].tolist() == [[1, 0], [0, 1]]


def test_a_callback_can_stop_early_and_epochs_can_begin_later() -> None:
    _, trainer = classifier()
    numbers: list[int] = []

    def made(number: int) -> list[Feeds]:
        numbers.append(number)
        return [FIRST]

    def stop(epoch: T.Epoch) -> None:
        if epoch.number == 4:
            raise StopIteration

    told = trainer.fit(made, 10, first=3, callbacks=[stop])
    assert numbers == [epoch.number for epoch in told] == [3, 4]
    assert trainer.fit(made, 0) == []


def test_a_part_without_examples_has_no_share_in_means() -> None:
    _, trainer = classifier()
    nobody = {name: array[:0] for name, array in FIRST.items()}
    metrics: Any = {
        "accuracy": T.Accuracy("logits", "labels"),
        "mean": lambda o, f: sum(o["logits"][:, 0]) / len(f["x"]),
    }
    assert trainer.validate([FIRST, nobody], metrics) == trainer.validate([FIRST], metrics)


def test_what_a_callback_raises_reaches_the_caller() -> None:
    _, trainer = classifier()

    def fail(epoch: T.Epoch) -> None:
        raise KeyError(epoch.number)

    with pytest.raises(KeyError):
        trainer.fit([FIRST], 3, callbacks=[fail])
    assert trainer.steps == 1


class _Two:
    """A communicator that stands for two processes, of which the other one has seen nothing and found nothing."""

    rank = 0

    def prepare(self, graph: og.Graph) -> None: ...

    def broadcast(self, arrays: Any) -> None: ...

    def meet(self, what: str, value: object = None, *, weight: float = 1.0, failure: Any = None) -> None: ...

    def mean(self, value: float) -> float:
        return value / 2

    def averaged(self, graph: og.Graph, loss: og.LogicalTensor, gradients: Any) -> list[Any]:
        return [loss, *gradients]


def test_means_are_over_the_examples_of_all_processes() -> None:
    graph, alone = classifier()
    loss = graph.tensor(alone._source.loss.id)
    trainer = T.Trainer(graph, loss, T.SGD(0.0), comm=_Two())
    assert trainer.validate([FIRST, SECOND]) == alone.validate([FIRST, SECOND])


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("rich", [True, False])
def test_a_bar_on_the_terminal(rich: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    _, trainer = classifier()
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "INTERVAL", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    if not rich:
        monkeypatch.setitem(sys.modules, "rich.progress", None)
    trainer.fit([FIRST] * 3, 2)
    text = terminal.getvalue()
    assert ("━" in text) == rich
    for word in ("epoch 0 (1 of 2)", "epoch 1 (2 of 2)", "loss", "3/3" if rich else "step 3 of 3"):
        assert word in text
    assert text.endswith("\x1b[K") or rich


def test_nothing_is_written_where_there_is_no_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    _, trainer = classifier()
    trainer.fit([FIRST] * 3)
    assert capfd.readouterr() == ("", "")


def generator() -> Iterator[Feeds]:
    yield FIRST


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"batches": []}, og.ArgumentError, "epoch 0 has no batches"),
        ({"batches": generator(), "epochs": 2}, og.ArgumentError, "epoch 1 has no batches; give a list, or a function"),
        ({"batches": FIRST}, og.ArgumentTypeError, r"batches must be a sequence .* write \[feeds\] for one batch"),
        ({"batches": 3}, og.ArgumentTypeError, "batches must be a sequence of mappings"),
        ({"batches": lambda: [FIRST]}, og.ArgumentTypeError, "must be a function of the number of the epoch, lambda"),
        ({"batches": [(FIRST["x"], FIRST["labels"])]}, og.ArgumentTypeError, r"got a tuple; .* as FromTorch\(batches"),
        ({"batches": [None]}, og.ArgumentTypeError, "feeds must be a mapping"),
        ({"callbacks": print}, og.ArgumentTypeError, r"callbacks must be a list, .*; write \[callback\] for one"),
        ({"callbacks": [3]}, og.ArgumentTypeError, "a Callback or a function of an Epoch, got 3"),
        ({"callbacks": [T.EarlyStopping]}, og.ArgumentTypeError, "a Callback or a function of an Epoch, got"),
        ({"training_metrics": [print]}, og.ArgumentTypeError, "training_metrics must be a mapping from names"),
        ({"training_metrics": {"loss": print}}, og.ArgumentError, "can't be called 'loss'"),
        ({"epochs": -1}, og.ArgumentError, "epochs must be 0 or more, got -1"),
        ({"epochs": 1.5}, og.ArgumentTypeError, "epochs must be an integer"),
        ({"metrics": {"a": T.Accuracy("logits", "labels")}}, og.ArgumentError, "give validation=… too"),
        ({"ema": True}, og.ArgumentError, "ema=True is of validation data; give validation"),
        ({"ema": True, "validation": [SECOND]}, og.ArgumentError, r"give Trainer\(…, ema=0.999\)"),
        ({"validation": []}, og.ArgumentError, "the validation data has no batches"),
        ({"validation": FIRST}, og.ArgumentTypeError, "validation must be a sequence of mappings"),
        ({"validation": [{"x": FIRST["x"]}]}, og.ArgumentError, "depends on more inputs than 'x'; .* 'labels'"),
    ],
)  # fmt: skip
def test_what_fit_refuses(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    _, trainer = classifier()
    with pytest.raises(error, match=message):
        trainer.fit(**{"batches": [FIRST], **arguments})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"metrics": {"a": T.Accuracy("logit", "labels")}, "validation": [SECOND]},
            r"^fit: metrics: 'a' reads the output 'logit', which the graph has not \(did you mean 'logits'\?\); its "
            r"outputs are 'logits', 'loss'; graph.output\(tensor, name=…\) makes one$",
        ),
        (
            {"training_metrics": {"a": T.F1Score("logits", "label")}},
            "^fit: training_metrics: 'a' reads the input 'label', .*; its inputs are 'x', 'labels'$",
        ),
        (
            {"callbacks": [T.EarlyStopping("validation los")], "validation": [SECOND]},
            r"^fit: EarlyStopping reads 'validation los', which is not told \(did you mean 'validation loss'\?\); each "
            "epoch has 'loss', 'validation loss'$",
        ),
        (
            {"callbacks": [T.EarlyStopping()]},
            r"each epoch has 'loss'; give fit\(…, validation=…\) for what is of validation data$",
        ),
        (
            {"callbacks": [T.Checkpoints(classifier()[1], "nowhere", best="validation accuracy")]},
            "^fit: Checkpoints reads 'validation accuracy'",
        ),
    ],
)
def test_names_that_there_are_not(arguments: dict[str, Any], message: str) -> None:
    _, trainer = classifier()
    with pytest.raises(og.ArgumentError, match=message):
        trainer.fit([FIRST], **arguments)
    assert trainer.steps == 0  # they are looked at before the first one


@pytest.mark.parametrize(
    ("metric", "error", "message"),
    [
        ({"loss": T.Accuracy("logits", "labels")}, og.ArgumentError, "can't be called 'loss'"),
        ({"a": T.Accuracy("logit", "labels")}, og.ArgumentError, "'logit'"),
        ({"a": T.Accuracy("logits", "label")}, og.ArgumentError, "reads the input 'label', .* .did you mean 'labels'"),
        ({"a": T.Accuracy("logits", "x")}, og.ShapeError, r"without axis -1, \[3\], got \[3, 3\]"),
        ({"a": T.Accuracy("logits", "labels", axis=2)}, og.ShapeError, "must have the axis 2"),
        ({"a": lambda outputs, feeds: "x"}, og.ArgumentTypeError, "metric 'a' must return a number or an array"),
        ({"a": lambda outputs, feeds: None}, og.ArgumentTypeError, "metric 'a' must return a number"),
    ],
)  # fmt: skip
def test_what_metrics_refuse(metric: dict[str, T.Metric], error: type[Exception], message: str) -> None:
    _, trainer = classifier()
    with pytest.raises(error, match=message):
        trainer.validate([FIRST], metric)


def test_top_must_be_a_count() -> None:
    with pytest.raises(og.ArgumentError, match="top must be"):
        T.Accuracy("logits", "labels", top=0)
