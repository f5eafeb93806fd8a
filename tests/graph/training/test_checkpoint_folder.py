"""Folders of checkpoints, and logs: what stays of a training that is stopped anywhere, and what is read back."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.graph.training import checkpoint_folder

T = og.training
RNG = np.random.default_rng(4)
POINTS = RNG.normal(size=(16, 3)).astype(np.float32)
TARGETS = POINTS.sum(1, keepdims=True)


def network(width: int = 1, lr: float = 0.1) -> T.Trainer:
    graph = og.Graph()
    x, y = graph.input("x", "f32", [-1, 3]), graph.input("y", "f32", [-1, 1])
    w = graph.parameter(np.zeros((3, width), np.float32), name="w")
    total = graph.matmul(graph.matmul(x, w), graph.constant(np.ones((width, 1), np.float32)))
    found = graph.output(total, name="found")
    return T.Trainer(graph, T.mean_squared_error(graph, found, y), T.SGD(lr), deterministic=True)


LOADER = T.Loader({"x": POINTS, "y": TARGETS}, 4, shuffle=True)
HELD_OUT = [{"x": POINTS, "y": TARGETS}]


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def file(steps: int) -> str:
    return f"step-{steps:010d}.safetensors"


@pytest.mark.parametrize(
    ("options", "stay"),
    [
        ({}, [12, 16, 20]),
        ({"keep": 1}, [20]),
        ({"keep": None}, [4, 8, 12, 16, 20]),
        ({"every": 3}, [12, 15, 18]),
        ({"every": 10, "keep": 2}, [10, 20]),
    ],
)
def test_the_last_ones_stay(options: dict[str, Any], stay: list[int], tmp_path: Path) -> None:
    trainer = network()
    (tmp_path / "mine.txt").write_text("stays")
    trainer.fit(LOADER, 5, callbacks=[T.Checkpoints(trainer, tmp_path / "a" / "b", **options)])
    assert names(tmp_path / "a" / "b") == [file(n) for n in stay]
    other = network()
    assert other.load_newest(tmp_path / "a" / "b") == tmp_path / "a" / "b" / file(stay[-1])
    assert other.steps == stay[-1]


def test_the_best_one_stays_under_its_name(tmp_path: Path) -> None:
    trainer = network()
    kept = T.Checkpoints(trainer, tmp_path, keep=1, best="goal", mode="max")
    goals = [3.0, 5.0, 4.0, 5.0, float("nan"), 1.0]
    seen: list[Any] = []

    def goal(outputs: Any, feeds: Any) -> float:
        return goals[len(seen)]

    trainer.fit(
        LOADER, len(goals), training_metrics={"goal": goal},
        callbacks=[lambda e: seen.append(trainer._source.graph.parameters["w"].copy()), kept],
    )  # fmt: skip
    assert names(tmp_path) == ["best.safetensors", file(24)]
    kept.load_best()
    assert trainer.steps == 8
    np.testing.assert_array_equal(trainer._source.graph.parameters["w"], seen[1])


@pytest.mark.parametrize("linked", [True, False])
def test_the_best_one_is_known_after_going_on(
    linked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not linked:
        monkeypatch.delattr(os, "link")
        monkeypatch.setattr(
            os, "link", lambda *a, **k: (_ for _ in ()).throw(OSError("no links")), raising=False
        )
    trainer = network()
    goal: Any = {"goal": lambda o, f: 2.0 - (trainer.steps > 4)}
    trainer.fit(LOADER, 2, training_metrics=goal, callbacks=[T.Checkpoints(trainer, tmp_path, best="goal")])
    before = (tmp_path / "best.safetensors").stat().st_mtime_ns
    again = network()
    again.load_newest(tmp_path)
    kept = T.Checkpoints(again, tmp_path, best="goal")
    again.fit(LOADER, 4, training_metrics={"goal": lambda o, f: 1.5}, callbacks=[kept])
    assert (tmp_path / "best.safetensors").stat().st_mtime_ns == before
    kept.load_best()
    assert again.steps == 8


def test_the_newest_whole_one_is_taken_and_a_damaged_one_removes_nothing(tmp_path: Path) -> None:
    trainer = network()
    assert trainer.load_newest(tmp_path) is None
    assert trainer.load_newest(tmp_path / "nowhere") is None
    trainer.fit(LOADER, 4, callbacks=[T.Checkpoints(trainer, tmp_path, keep=2)])
    damaged = tmp_path / file(16)
    damaged.write_bytes(damaged.read_bytes()[:100])
    (tmp_path / ".onednn_graph-1-2-3.part").write_bytes(b"of a process that was killed")
    (tmp_path / "step-9.safetensors").write_bytes(b"of somebody else")
    other = network()
    with pytest.warns(og.errors.CheckpointWarning, match="an older file is taken"):
        assert other.load_newest(tmp_path) == tmp_path / file(12)
    assert [e.number for e in other.fit(LOADER, 4, callbacks=[T.Checkpoints(other, tmp_path, keep=1)])] == [3]
    assert file(16) in names(tmp_path)
    assert network().load_newest(tmp_path) == tmp_path / file(16)
    for one in tmp_path.glob("step-0*"):
        one.write_bytes(b"")
    with pytest.raises(og.GraphFileError):
        other.load_newest(tmp_path)
    assert other.steps == 16


def test_files_of_another_model_are_no_damaged_ones(tmp_path: Path) -> None:
    trainer = network()
    trainer.fit(LOADER, 1, callbacks=[T.Checkpoints(trainer, tmp_path)])
    with pytest.raises(og.GraphFileError, match="load the file of the same model"):
        network(2).load_newest(tmp_path)


def test_a_kill_between_two_files_loses_no_best_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> T.Checkpoints:
        trainer = network()
        kept = T.Checkpoints(trainer, tmp_path, every=1, best="goal")
        trainer.load_newest(tmp_path)
        metrics: Any = {"goal": lambda o, f: 1.0 if trainer.steps <= 8 else 2.0}
        trainer.fit(LOADER, 3, training_metrics=metrics, callbacks=[T.CsvLog(tmp_path / "log"), kept])
        return kept

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(checkpoint_folder, "_give_name", killed)
        with pytest.raises(KeyboardInterrupt):
            run()
    kept = run()
    assert [row["epoch"] for row in rows(tmp_path / "log")] == list("012")
    other = network()
    other.load(kept.folder / "best.safetensors")
    assert other.steps == 4


def test_files_have_what_other_callbacks_leave(tmp_path: Path) -> None:
    """A Plateau observes what an epoch gave before the file is written, wherever it stands among the callbacks."""

    def run(epochs: int, folder: Path) -> list[float]:
        graph = og.Graph()
        x, y = graph.input("x", "f32", [-1, 3]), graph.input("y", "f32", [-1, 1])
        w = graph.parameter(np.zeros((3, 1), np.float32), name="w")
        rate = T.Plateau(0.1, patience=0)
        loss = T.mean_squared_error(graph, graph.matmul(x, w), y)
        trainer = T.Trainer(graph, loss, T.SGD(rate), deterministic=True)
        trainer.load_newest(folder)
        rates: list[float] = []

        def observe(epoch: T.Epoch) -> None:
            rates.append(rate.rate)
            rate.observe(1.0)  # which never gets better

        trainer.fit(LOADER, epochs, callbacks=[T.Checkpoints(trainer, folder), observe])
        return rates

    parts = [*run(2, tmp_path / "a"), *run(4, tmp_path / "a")]
    assert parts == run(4, tmp_path / "b")
    assert len(set(parts)) > 2


FULL = """
import resource, sys
import numpy as np, onednn_graph as og
sys.path.insert(0, sys.argv[2])
import test_checkpoint_folder as tests
trainer = tests.network(4000)
kept = og.training.Checkpoints(trainer, sys.argv[1])
def full(epoch):
    if epoch.number == 1:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20000, resource.RLIM_INFINITY))
try:
    trainer.fit([{"x": tests.POINTS, "y": tests.TARGETS}], 3, callbacks=[full, kept])
except og.GraphFileError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
w = trainer._source.graph.parameters["w"].copy()
print(trainer.steps, bool(np.isfinite(w).all()))
again = tests.network(4000)
print(again.load_newest(sys.argv[1]).name)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a limit of file sizes stands for a full disk")
def test_a_full_disk_leaves_the_old_file_and_a_clear_error(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FULL, str(tmp_path), str(Path(__file__).parent)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    told = ended.stdout.splitlines()
    assert told[0].startswith(f"{tmp_path}/{file(2)}: can't be written: ")
    assert told[1:] == ["2 True", file(1)]
    assert names(tmp_path) == [file(1)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"keep": 0}, "keep: must be a number of 1 or more, got 0"),
        ({"every": -1}, "every must be a number of steps, got -1"),
        ({"best": "loss", "mode": "low"}, "mode must be"),
    ],
)
def test_what_checkpoints_refuse(arguments: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(og.ArgumentError, match=message):
        T.Checkpoints(network(), tmp_path, **arguments)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    trainer = network()
    with pytest.raises(og.GraphFileError, match="file.*: can't be made"):
        trainer.fit(LOADER, 1, callbacks=[T.Checkpoints(trainer, tmp_path / "file")])
    assert trainer.steps == 0


# --- logs ----------------------------------------------------------------------------------------------


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as opened:
        return list(csv.DictReader(opened))


def test_a_log_has_a_line_for_each_epoch_however_often_it_is_continued(tmp_path: Path) -> None:
    path = tmp_path / "log, of mine.csv"
    metrics: Any = {"range, all": lambda o, f: np.ptp(o["found"])}

    def run(epochs: int, stop: int | None = None) -> None:
        trainer = network()
        trainer.load_newest(tmp_path)
        lines: list[int] = []

        def flushed(epoch: T.Epoch) -> None:
            lines.append(len(rows(path)))
            if epoch.number == stop:
                raise KeyboardInterrupt

        kept = T.Checkpoints(trainer, tmp_path, every=8)
        options: Any = {"validation": HELD_OUT, "metrics": metrics, "training_metrics": metrics}
        try:
            told = trainer.fit(LOADER, epochs, callbacks=[T.CsvLog(path), flushed, kept], **options)
            assert lines[-1] == told[-1].number + 1
        except KeyboardInterrupt:
            pass

    run(9, stop=4)  # the last file is of epoch 4, and the log has epoch 5
    assert [row["epoch"] for row in rows(path)] == list("01234")
    with path.open("a") as opened:
        opened.write("5,0.1")  # as of a process that was killed
    run(9)
    found = rows(path)
    assert [row["epoch"] for row in found] == list("012345678")
    columns = ["epoch", "loss", "range, all", "validation loss", "validation range, all", "steps", "seconds"]
    assert list(found[0]) == columns
    whole = network()
    told = whole.fit(LOADER, 9, validation=HELD_OUT)
    assert [float(row["loss"]) for row in found] == [e.loss for e in told]
    assert [float(row["validation loss"]) for row in found] == [e.validation["loss"] for e in told]
    with pytest.raises(
        og.GraphFileError, match="has the columns epoch, loss, .*; give a log of other metrics another"
    ):
        whole.fit(LOADER, 1, callbacks=[T.CsvLog(path)])
    with pytest.raises(og.GraphFileError, match="can't be written"):
        whole.fit(LOADER, 1, callbacks=[T.CsvLog(tmp_path / "no" / "such")])


def curves(folder: Path) -> dict[str, list[tuple[int, float]]]:
    accumulator: Any = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    read = accumulator.EventAccumulator(str(folder))
    read.Reload()
    return {
        name: [(event.step, event.value) for event in read.Scalars(name)] for name in read.Tags()["scalars"]
    }


def test_curves_for_tensorboard_are_read_back_by_it(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX", reason="the extra tensorboard")
    path = tmp_path / "state"
    trainer = network()

    def save(epoch: T.Epoch) -> None:
        if epoch.number == 1:
            trainer.save(path)

    metrics: Any = {"range": lambda o, f: np.ptp(o["found"])}
    options: Any = {"validation": HELD_OUT, "metrics": metrics, "training_metrics": metrics}
    trainer.fit(LOADER, 3, callbacks=[save, T.TensorBoardLog(tmp_path / "runs", every=2)], **options)
    again = network()
    again.load(path)
    again.fit(LOADER, 4, callbacks=[T.TensorBoardLog(tmp_path / "runs", every=2)], **options)
    told = network().fit(LOADER, 4, **options)
    found = curves(tmp_path / "runs")
    wanted = {
        "training/loss": [e.loss for e in told],
        "training/range": [e.training["range"] for e in told],
        "validation/loss": [e.validation["loss"] for e in told],
        "validation/range": [e.validation["range"] for e in told],
    }
    assert set(found) == {*wanted, "training/step_loss"}
    for name, values in wanted.items():
        assert [step for step, _ in found[name]] == [4, 8, 12, 16]
        np.testing.assert_allclose([value for _, value in found[name]], values, rtol=1e-6)
    assert [step for step, _ in found["training/step_loss"]] == list(range(2, 17, 2))


def test_without_a_writer_for_tensorboard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(og.UnsupportedError, match=r"pip install '\.\[tensorboard\]'"):
        T.TensorBoardLog("runs")
