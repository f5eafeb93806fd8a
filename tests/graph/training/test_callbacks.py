"""What listens to fit, and where fit goes on: metrics of training, early stops, interrupts, files of any step."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onednn_graph as og
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onednn_graph.graph.runtime.arrays import Array

T = og.training
RNG = np.random.default_rng(3)
POINTS = RNG.normal(size=(20, 3)).astype(np.float32)
LABELS = (POINTS.sum(1) > 0).astype(np.int64)


def network(lr: float = 0.5, *, dropout: bool = True, **options: Any) -> T.Trainer:
    """A dense layer behind a Dropout, trained with a momentum: all that a file has to keep."""
    graph = og.Graph()
    x, y = graph.input("x", "f32", [-1, 3]), graph.input("y", "s64", [-1])
    seen = x
    if dropout:
        seed, offset = (graph.constant(np.zeros((), np.int64)) for _ in range(2))
        seen = graph.dropout(x, seed, offset, graph.constant(np.float32(0.3)))
    w = graph.parameter(np.linspace(-1, 1, 6, dtype=np.float32).reshape(3, 2), name="w")
    logits = graph.output(graph.matmul(seen, w), name="logits")
    loss = T.cross_entropy(graph, logits, y)
    return T.Trainer(graph, loss, T.SGD(lr, momentum=0.9), deterministic=True, **options)


def loader(**options: Any) -> T.Loader:
    return T.Loader({"x": POINTS, "y": LABELS}, 6, shuffle=True, seed=5, **options)


def weights(trainer: T.Trainer) -> Array:
    return trainer._source.graph.parameters["w"].copy()


def without_times(told: Sequence[T.Epoch]) -> list[Any]:
    return [(e.number, e.loss, e.steps, e.training, e.validation) for e in told]


ACCURACY: dict[str, T.Metric] = {"accuracy": T.Accuracy("logits", "y")}


# --- metrics of training -------------------------------------------------------------------------------


def test_metrics_of_training_are_those_of_the_steps_outputs() -> None:
    trainer = network(0.0, dropout=False)
    seen: list[Array] = []

    def kept(outputs: Any, feeds: Any) -> Any:
        assert sorted(feeds) == ["x", "y"]
        seen.append(outputs["logits"])
        return outputs["logits"][:, 0]

    (epoch,) = trainer.fit(loader(), training_metrics={**ACCURACY, "first": kept})
    logits = np.concatenate([trainer.evaluate({"x": b["x"]})["logits"] for b in loader()(0)])
    np.testing.assert_allclose(np.concatenate(seen), logits, rtol=1e-6, atol=1e-6)
    labels = np.concatenate([b["y"] for b in loader()(0)])
    assert epoch.training["accuracy"] == np.mean(logits.argmax(1) == labels)
    np.testing.assert_allclose(epoch.training["first"], logits[:, 0].mean(), rtol=1e-5)


def test_who_asks_for_metrics_of_training_trains_the_same() -> None:
    one, other = network(), network()
    told = one.fit(loader(), 3)
    measured = other.fit(loader(), 3, training_metrics=ACCURACY)
    assert [e.loss for e in told] == [e.loss for e in measured]
    np.testing.assert_array_equal(weights(one), weights(other))
    assert all(step.outputs.outputs == () for step, _ in one._stepping.programs.values().values())


def test_metrics_of_training_in_bf16_and_of_outputs_without_names() -> None:
    graph = og.Graph()
    x, y = graph.input("x", "f32", [-1, 3]), graph.input("y", "f32", [-1, 2])
    w = graph.parameter(np.eye(3, 2, dtype=np.float32), name="w")
    found = graph.output(graph.matmul(x, w))
    trainer = T.Trainer(graph, T.mean_squared_error(graph, found, y), T.SGD(0.0), precision="bf16")
    names: list[Any] = []

    def seen(outputs: Any, feeds: Any) -> Any:
        names.append((list(outputs), [a.dtype.name for a in outputs.values()]))
        return 0.0

    trainer.fit([{"x": POINTS, "y": POINTS[:, :2]}], training_metrics={"none": seen})
    expected = trainer.evaluate({"x": POINTS})
    assert names == [(list(expected), [a.dtype.name for a in expected.values()])]


def test_skipped_steps_do_not_count_in_metrics() -> None:
    trainer = network(dropout=False)
    bad = {"x": np.full((2, 3), np.nan, np.float32), "y": LABELS[:2]}
    with pytest.warns(og.errors.SkippedStepWarning):
        (epoch,) = trainer.fit(
            [bad, {"x": POINTS, "y": LABELS}],
            training_metrics={"one": lambda o, f: np.ones(len(o["logits"]))},
        )
    assert epoch.training == {"one": 1.0}
    with pytest.warns(og.errors.SkippedStepWarning):
        (epoch,) = trainer.fit([bad], training_metrics=ACCURACY)
    assert np.isnan(epoch.training["accuracy"])


# --- early stopping ------------------------------------------------------------------------------------


def epochs(values: Sequence[float]) -> Iterator[T.Epoch]:
    for number, value in enumerate(values):
        yield T.Epoch(number=number, loss=value, steps=1, seconds=0.0)


NAN = float("nan")


@pytest.mark.parametrize(
    ("values", "options", "last", "best"),
    [
        ([3, 2, 1, 1, 1, 1], {"patience": 2}, 4, 1),
        ([3, 2, 1, 1.1, 0.9, 1, 1], {"patience": 2}, 6, 0.9),
        ([1, 2, 3, 3, 3], {"patience": 2, "mode": "max"}, 4, 3),
        ([1, 0.95, 0.9, 0.85], {"patience": 2, "min_delta": 0.1}, 2, 1),
        ([1, 0.95, 0.85, 0.8, 0.7], {"patience": 2, "min_delta": 0.1}, None, 0.7),
        ([NAN, NAN], {"patience": 2}, 1, None),
        ([1, NAN, 0.5], {"patience": 2}, None, 0.5),
        ([float("inf"), 3, 2], {"patience": 1}, None, 2),
        ([-float("inf"), 3], {"patience": 1}, 1, -float("inf")),
    ],
)
def test_when_training_is_stopped(
    values: list[float], options: dict[str, Any], last: int | None, best: float | None
) -> None:
    for before in range(len(values)):  # as if it went on from a file after so many epochs
        stopping = T.EarlyStopping("loss", **options)
        told = list(epochs(values))
        ended: int | None = None
        try:
            stopping.begin(told[:before], before or None)
        except StopIteration:
            assert last is not None
            assert before > last
            continue
        for epoch in told[before:]:
            try:
                stopping(epoch)
            except StopIteration:
                ended = epoch.number
                break
        assert (ended, stopping.best, stopping.stopped) == (last, best, last is not None)


def test_the_best_state_is_restored_after_all_have_heard() -> None:
    trainer = network(3.0)
    seen: list[tuple[float, Array]] = []
    stopping = T.EarlyStopping("loss", patience=2, restore_best=trainer)
    told = trainer.fit(loader(), 30, callbacks=[stopping, lambda e: seen.append((e.loss, weights(trainer)))])
    assert stopping.stopped
    assert len(told) == len(seen) < 30
    best = int(np.argmin([e.loss for e in told]))
    assert best == len(told) - 3
    np.testing.assert_array_equal(weights(trainer), seen[best][1])
    assert not np.array_equal(seen[-1][1], seen[best][1])
    assert trainer.steps == sum(e.steps for e in told[: best + 1])
    assert trainer.fit(loader(), 1)[0].number == 0  # nothing is left to go on with


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"patience": 0}, og.ArgumentError, "patience: must be a number of 1 or more"),
        ({"min_delta": -1}, og.ArgumentError, "min_delta must be 0 or more"),
        ({"min_delta": "a"}, og.ArgumentTypeError, "min_delta must be a number"),
        ({"mode": "least"}, og.ArgumentError, "mode must be"),
    ],
)
def test_what_early_stopping_refuses(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        T.EarlyStopping("loss", **arguments)


def test_a_mean_that_there_is_not() -> None:
    with pytest.raises(og.ArgumentError, match="epoch 0 has no 'validation loss'.*; it has 'loss'"):
        T.Epoch(number=0, loss=1.0, steps=1, seconds=0.0).value("validation loss")
    with pytest.raises(og.ArgumentError, match="1 or more, got 0"):
        T.EverySteps(0, print)


# --- callbacks -----------------------------------------------------------------------------------------


class Recorder(T.Callback):
    every = 3

    def __init__(self, ends_at: int | None = None) -> None:
        self.heard: list[Any] = []
        self._ends_at = ends_at

    def begin(self, told: Sequence[T.Epoch], resumed: int | None) -> None:
        self.heard.append(("begin", len(told)) if resumed is None else ("begin", len(told), "in", resumed))

    def step(self, done: T.StepDone) -> None:
        self.heard.append((done.epoch, done.batch, done.number))
        if done.number == self._ends_at:
            raise StopIteration

    def __call__(self, epoch: T.Epoch) -> None:
        self.heard.append(epoch.number)

    def end(self) -> None:
        self.heard.append("end")


def test_callbacks_hear_of_everything_in_order() -> None:
    recorder, texts = Recorder(), list[str]()

    def stop(epoch: T.Epoch) -> None:
        if epoch.number == 1:
            raise StopIteration

    network().fit(
        loader(), 5, callbacks=[stop, T.EverySteps(4, lambda done: texts.append(str(done))), recorder]
    )
    assert recorder.heard == [("begin", 0), (0, 2, 3), 0, (1, 1, 6), 1, "end"]
    assert [text.split(":")[0] for text in texts] == ["epoch 0, batch 3", "epoch 1, batch 3"]


def test_a_callback_ends_training_within_an_epoch_and_it_goes_on_there(tmp_path: Path) -> None:
    trainer, recorder = network(), Recorder(ends_at=6)
    told = trainer.fit(loader(), 5, callbacks=[recorder])
    assert recorder.heard == [("begin", 0), (0, 2, 3), 0, (1, 1, 6), "end"]
    assert [e.number for e in told] == [0]
    trainer.save(tmp_path / "a")
    again, recorder = network(), Recorder()
    again.load(tmp_path / "a")
    assert [e.number for e in again.fit(loader(), 3, callbacks=[recorder])] == [1, 2]
    assert recorder.heard == [("begin", 1, "in", 1), 1, (2, 0, 9), (2, 3, 12), 2, "end"]
    whole = network()
    whole.fit(loader(), 3)
    np.testing.assert_array_equal(weights(whole), weights(again))


def test_end_is_heard_whatever_happens() -> None:
    recorder = Recorder()

    def fail(epoch: T.Epoch) -> None:
        raise KeyError

    with pytest.raises(KeyError):
        network().fit(loader(), callbacks=[recorder, fail])
    assert recorder.heard[-1] == "end"


# --- going on ------------------------------------------------------------------------------------------


class Saving(T.Callback):
    """Writes a file after one step of all, and ends there."""

    every = 1

    def __init__(self, trainer: T.Trainer, path: Path, at: int) -> None:
        self._trainer, self._path, self._at = trainer, path, at

    def step(self, done: T.StepDone) -> None:
        if done.number == self._at:
            self._trainer.save(self._path)
            raise StopIteration


@settings(max_examples=12)
@given(
    at=st.integers(1, 12), threads=st.integers(0, 2), kind=st.sampled_from(["loader", "list", "generator"])
)
def test_training_goes_on_from_any_step_as_if_it_had_never_stopped(
    tmp_path_factory: pytest.TempPathFactory, at: int, threads: int, kind: str
) -> None:
    path = tmp_path_factory.mktemp("fit") / "state"
    made = loader(prefetch=threads, threads=max(threads, 1))

    def batches(number: int) -> Any:
        return {"loader": made(number), "list": list(made(number)), "generator": (b for b in made(number))}[
            kind
        ]

    options: Any = {
        "validation": [{"x": POINTS, "y": LABELS}],
        "metrics": ACCURACY,
        "training_metrics": ACCURACY,
    }
    whole = network()
    told = whole.fit(batches, 3, **options)
    first = network()
    before = first.fit(batches, 3, **options, callbacks=[Saving(first, path, at)])
    second = network()
    assert second.load(path) == path
    after = second.fit(batches, 3, **options)
    assert without_times([*before, *after]) == without_times(told)
    np.testing.assert_array_equal(weights(whole), weights(second))
    assert second.steps == whole.steps == 12


def test_what_is_said_of_epochs_is_kept_from_file_to_file(tmp_path: Path) -> None:
    trainer = network()
    trainer.fit(loader(), 4, callbacks=[lambda e: trainer.save(tmp_path / str(e.number))])
    middle = network()
    middle.load(tmp_path / "1")
    middle.save(tmp_path / "again")  # nothing was done in between
    last, heard = network(), Recorder()
    last.load(tmp_path / "again")
    assert [e.number for e in last.fit(loader(), 4, callbacks=[heard])] == [2, 3]
    assert heard.heard[0] == ("begin", 2, "in", 2)
    np.testing.assert_array_equal(weights(last), weights(trainer))


def test_where_training_begins(tmp_path: Path) -> None:
    trainer = network()
    numbers = [e.number for e in trainer.fit(loader(), 2)] + [e.number for e in trainer.fit(loader(), 2)]
    assert numbers == [0, 1, 0, 1]
    trainer.save(tmp_path / "over")
    other = network()
    other.load(tmp_path / "over")  # what was over begins anew
    assert [e.number for e in other.fit(loader(), 1)] == [0]
    trainer.fit(loader(), 2, first=7, callbacks=[lambda e: trainer.save(tmp_path / f"{e.number}")])
    other.load(tmp_path / "7")
    assert [e.number for e in other.fit(loader(), 2)] == [8]
    other.load(tmp_path / "8")
    with pytest.warns(og.errors.CheckpointWarning, match="after 2 epochs of 2, and nothing is left to do"):
        assert other.fit(loader(), 2) == []
    assert [e.number for e in other.fit(loader(), 1)] == [0]
    other.load(tmp_path / "8")
    assert [e.number for e in other.fit(loader(), 2, first=0)] == [0, 1]


def test_a_damaged_file_is_passed_over_for_an_older_one(tmp_path: Path) -> None:
    trainer = network()
    trainer.fit(loader(), 3, callbacks=[lambda e: trainer.save(tmp_path / str(e.number))])
    paths = [tmp_path / "2", tmp_path / "1", tmp_path / "0"]
    paths[0].write_bytes(paths[0].read_bytes()[:-7])
    other = network()
    with pytest.warns(og.errors.CheckpointWarning, match="2.*an older file is taken"):
        assert other.load(*paths) == paths[1]
    assert other.steps == 8
    for path in paths:
        path.write_bytes(b"nothing")
    before = weights(other)
    with pytest.warns(og.errors.CheckpointWarning), pytest.raises(og.GraphFileError, match="0"):
        other.load(*paths)
    np.testing.assert_array_equal(weights(other), before)


@pytest.mark.parametrize(
    "text",
    ["[]", "{", "3", '{"first": 0}', '{"first":-1,"epoch":0,"batch":0,"steps":0,"seconds":0,"means":{},"told":[]}',
     '{"first":0,"epoch":0,"batch":0,"steps":0,"seconds":0,"means":{"loss":3},"told":[]}',
     '{"first":0,"epoch":0,"batch":0,"steps":0,"seconds":0,"means":{},"told":[[0]]}',
     '{"first":0,"epoch":0,"batch":0,"steps":0,"seconds":0,"means":{},"told":[[0,1,1,1,[],{}]]}'],
)  # fmt: skip
def test_what_a_file_may_not_say_of_epochs(text: str, tmp_path: Path) -> None:
    from onednn_graph.graph.training.progress import progress_of

    with pytest.raises(og.GraphFileError, match="a.safetensors: what it says of the epochs is damaged"):
        progress_of("a.safetensors", text)


def test_numbers_that_are_none_come_back() -> None:
    from onednn_graph.graph.training.progress import Progress, progress_of

    given = Progress(first=0, epoch=0)
    given.means.add("loss", float("inf"))
    given.done(T.Epoch(number=0, loss=NAN, steps=2, seconds=1.5, validation={"loss": float("inf")}))
    found = progress_of("a", given.text)
    assert found is not None
    assert json.loads(found.text) == json.loads(given.text) or "NaN" in found.text
    assert found.text == given.text


# --- interrupts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefetch", [0, 2])
def test_ctrl_c_leaves_a_state_to_go_on_from(prefetch: int, tmp_path: Path) -> None:
    whole = network()
    whole.fit(loader(), 3)
    trainer = network()

    def interrupt(done: T.StepDone) -> None:
        if done.number == 6:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        trainer.fit(loader(prefetch=prefetch), 3, callbacks=[T.EverySteps(1, interrupt)])
    trainer.save(tmp_path / "interrupted")
    other = network()
    other.load(tmp_path / "interrupted")
    assert [e.number for e in other.fit(loader(), 3)] == [1, 2]
    np.testing.assert_array_equal(weights(other), weights(whole))


def test_batches_are_closed_when_a_step_fails() -> None:
    closed: list[bool] = []

    def batches(number: int) -> Iterator[Any]:
        try:
            while True:
                yield {"x": POINTS, "y": LABELS}
                yield {"x": POINTS.astype(np.float64), "y": LABELS}
        finally:
            closed.append(True)

    with pytest.raises(og.DataTypeError, match=r"convert it with .astype\('float32'\)") as error:
        network().fit(batches)
    assert closed == [True]
    del error


def test_a_generator_of_the_user_is_left_open() -> None:
    given = ({"x": POINTS, "y": LABELS} for _ in range(9))

    def stop(done: T.StepDone) -> None:
        raise StopIteration

    network().fit(given, callbacks=[T.EverySteps(2, stop)])
    assert len(list(given)) == 7


def test_a_callback_may_have_a_monitor_of_its_own() -> None:
    class Mine(T.Callback):
        monitor = print

        def __call__(self, epoch: T.Epoch) -> None:
            self.seen = epoch.number

    graph = og.Graph()
    x = graph.input("x", "f32", [-1, 1])
    loss = T.mean_squared_error(
        graph, graph.multiply(x, graph.parameter(np.ones(1, np.float32), name="w")), x
    )
    mine = Mine()
    T.Trainer(graph, loss, T.SGD(0.1)).fit([{"x": np.ones((2, 1), np.float32)}], callbacks=[mine])
    assert mine.seen == 0
