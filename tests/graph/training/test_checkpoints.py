"""Files of trainers: going on bit for bit, and a kill that leaves the old file whole."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import tracemalloc
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onednn_graph as og
import processes
import pytest
from onednn_graph.graph.runtime.arrays import Array
from onednn_graph.graph.runtime.parameter import Parameter

pytest.importorskip("safetensors", reason="checkpoints need the extra 'weights'")
T = og.training


def trainer(
    *, seed: int = 5, optimizer: T.Optimizer | None = None, size: int = 6
) -> tuple[og.Graph, T.Trainer]:
    rng = np.random.default_rng(0)
    graph = og.Graph()
    x, y = graph.input("x", "f32", [-1, 4]), graph.input("y", "f32", [-1, 2])
    w = graph.parameter(rng.standard_normal((4, size)).astype(np.float32), name="w")
    v = graph.parameter(rng.standard_normal((size, 2)).astype(np.float32), name="v")
    hidden = graph.op("Tanh", graph.op("MatMul", x, w))
    zero = graph.constant(np.int64(0))
    hidden = graph.op("Dropout", hidden, zero, zero, graph.constant(np.float32(0.25)))
    seen = graph.parameter(np.zeros((), np.float32), name="seen")
    graph.assign(seen, graph.op("Add", seen, graph.op("ReduceMean", x, axes=[0, 1])))
    loss = T.mean_squared_error(graph, graph.op("MatMul", hidden, v), y)
    schedule = T.WarmUp(T.Cosine(0.1, 20), 3)
    chosen = T.AdamW(schedule, clip_norm=1.0) if optimizer is None else optimizer
    return graph, T.Trainer(graph, loss, chosen, seed=seed)


def feeds(number: int) -> dict[str, Array]:
    rng = np.random.default_rng(number)
    return {
        "x": rng.standard_normal((8, 4)).astype(np.float32),
        "y": rng.standard_normal((8, 2)).astype(np.float32),
    }


@pytest.mark.parametrize("optimizer", [None, T.SGD(0.1, momentum=0.9)])
def test_going_on_is_as_never_having_stopped(tmp_path: Path, optimizer: T.Optimizer | None) -> None:
    graph, whole = trainer(optimizer=optimizer)
    for number in range(5):
        whole.step(feeds(number))
    path = tmp_path / "half.safetensors"
    whole.save(path)
    losses = [whole.step(feeds(number)) for number in range(5, 10)]
    other, again = trainer(seed=99, optimizer=optimizer)
    again.step(feeds(77))
    again.load(path)
    assert (again.steps, again.seed) == (5, 5)
    assert [again.step(feeds(number)) for number in range(5, 10)] == losses
    assert {n: a.tobytes() for n, a in graph.parameters.items()} == {
        n: a.tobytes() for n, a in other.parameters.items()
    }
    assert graph.parameters["seen"] != 0


def test_models_that_were_compiled_before_see_what_is_loaded(tmp_path: Path) -> None:
    graph, first = trainer()
    first.save(tmp_path / "t.safetensors")
    want = first.evaluate({"x": feeds(0)["x"]} | feeds(0))
    first.step(feeds(0))
    first.load(tmp_path / "t.safetensors")
    again = first.evaluate(feeds(0))
    assert {n: a.tobytes() for n, a in want.items()} == {n: a.tobytes() for n, a in again.items()}
    assert len(graph.parameters) == 3


SAVING = """
import sys
sys.path.insert(0, sys.argv[1])
from test_checkpoints import feeds, trainer
_, made = trainer(size=200_000)
made.step(feeds(0))
print("ready", flush=True)
while True:
    made.steps += 1
    made.save(sys.argv[2])
"""


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is POSIX's")
@pytest.mark.parametrize("delay", [0.0, 0.011, 0.023, 0.05])
def test_a_kill_leaves_a_whole_file(tmp_path: Path, delay: float) -> None:
    path = tmp_path / "t.safetensors"
    _, first = trainer(size=200_000)
    first.save(path)
    arguments = ["-c", SAVING, str(Path(__file__).parent), str(path)]
    with processes.start(arguments, stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"ready\n"
        time.sleep(delay)
        child.kill()
    first.load(path)
    assert all(np.isfinite(array).all() for array in first.evaluate(feeds(0)).values())


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, made = trainer()
    path = tmp_path / "t.safetensors"
    made.save(path)
    before = path.read_bytes()
    made.step(feeds(0))

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(og.GraphFileError, match=r"t\.safetensors: can't be written: No space left"):
            made.save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["t.safetensors"]


def test_files_of_others_are_refused(tmp_path: Path) -> None:
    graph, made = trainer()
    path = tmp_path / "t.safetensors"
    made.save(path)
    before = {n: a.tobytes() for n, a in graph.parameters.items()}
    for optimizer, size, message in (
        (T.SGD(0.1), 6, "parameter 'w' was trained by AdamW, and is to be trained by SGD here"),
        (T.SGD(0.1, momentum=0.5), 6, "parameter 'w' was trained by AdamW, and is to be trained by SGD here"),
        (T.Adam(0.1), 6, "parameter 'w' was trained by AdamW, and is to be trained by Adam here"),
        (T.AdamW(0.1, amsgrad=True), 6, "lacks '.*/w', unlike this training by AdamW: .* settings"),
        (T.AdamW(T.Plateau(0.1)), 6, "with 0 learning rates that are a Plateau, and this trainer has 1;"),
        (
            None,
            7,
            r"'parameter/w' must be float32 of shape \[4, 7\], as in this model, got float32 of \[4, 6\]",
        ),
    ):
        _, other = trainer(optimizer=optimizer, size=size)
        with pytest.raises(og.GraphFileError, match=message):
            other.load(path)
    graph.save(tmp_path / "g.json", weights=True)
    with pytest.raises(og.GraphFileError, match=r"was not written by Trainer\.save"):
        made.load(tmp_path / "g.safetensors")
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(og.GraphFileError, match="can't be read"):
        made.load(path)
    with pytest.raises(og.GraphFileError, match="can't be read"):
        made.load(tmp_path / "none.safetensors")
    assert {n: a.tobytes() for n, a in graph.parameters.items()} == before


def one_layer(names: tuple[str, ...], optimizer: Any, **options: Any) -> tuple[og.Graph, T.Trainer]:
    graph = og.Graph()
    found = graph.input("x", "f32", [-1, 4])
    for name in names:
        found = graph.matmul(found, graph.parameter(np.eye(4, dtype=np.float32), name=name))
    loss = graph.reduce_mean(found, axes=[0, 1], keep_dims=False)
    return graph, T.Trainer(graph, loss, optimizer, **options)


SGD = T.SGD(0.1, momentum=0.5)
OF_OTHERS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    (
        {"names": ("w", "v")},
        {"names": ("w",)},
        "has a parameter 'v' more; its parameters are .*, and .* model 'w';",
    ),
    (
        {"names": ("w",)},
        {"names": ("w", "v")},
        "has no parameter 'v', as this model has; its parameters are 'w', and",
    ),
    ({"ema": 0.9}, {}, r"written with averages .* has none; load it in a Trainer\(…, ema=…\)"),
    ({}, {"ema": 0.9}, "written without averages .* has some; load it in a Trainer without ema"),
    (
        {"optimizer": T.SGD(T.Plateau(0.1))},
        {"optimizer": T.SGD(0.1)},
        "with 1 learning rates that are a Plateau",
    ),
    ({"accumulate": 3}, {}, "written between two updates, .* this trainer has accumulate=1"),
    (
        {"optimizer": {"w": SGD, "*": None}},
        {},
        "'v' was trained by no optimizer, and is to be trained by SGD here",
    ),
    (
        {},
        {"optimizer": {"w": SGD, "*": None}},
        "'v' was trained by SGD, and is to be trained by no optimizer here",
    ),
    (
        {},
        {"optimizer": {"w": SGD, "*": T.Lion(0.1)}},
        "'v' was trained by SGD, and is to be trained by Lion here",
    ),
    ({}, {"optimizer": T.SGD(0.1)}, "has 'velocity/.', unlike this training by SGD: .* as momentum"),
]


@pytest.mark.parametrize(("there", "here", "message"), OF_OTHERS)
def test_what_differs_from_a_file_is_told(
    tmp_path: Path, there: dict[str, Any], here: dict[str, Any], message: str
) -> None:
    usual: dict[str, Any] = {"names": ("w", "v"), "optimizer": SGD}
    written, (graph, other) = one_layer(**(usual | there))[1], one_layer(**(usual | here))
    written.step({"x": np.ones((2, 4), np.float32)})
    written.save(tmp_path / "t.safetensors")
    before = {name: one.tobytes() for name, one in graph.parameters.items()}
    with pytest.raises(og.GraphFileError, match=message):
        other.load(tmp_path / "t.safetensors")
    assert other.steps == 0
    assert {name: one.tobytes() for name, one in graph.parameters.items()} == before
    one_layer(**(usual | there))[1].load(tmp_path / "t.safetensors")  # the same one takes it


def test_each_flipped_bit_is_seen(tmp_path: Path) -> None:
    """But for one in the name of the checksum of the metadata: the file is then taken for one without any."""
    graph, made = trainer()
    made.step(feeds(0))
    path = tmp_path / "t.safetensors"
    made.save(path)
    whole = path.read_bytes()
    before = {n: a.tobytes() for n, a in graph.parameters.items()}
    rng = np.random.default_rng(0)
    places = rng.choice(8 * len(whole), 400, replace=False).tolist()
    named = whole.index(b"onednn_graph.training.checksum")
    for place in places:
        if named <= place // 8 < named + len("onednn_graph.training.checksum"):
            continue
        flipped = bytearray(whole)
        flipped[place // 8] ^= 1 << place % 8
        path.write_bytes(flipped)
        with pytest.raises(og.GraphFileError, match=r"t\.safetensors: "):
            made.load(path)
        assert {n: a.tobytes() for n, a in graph.parameters.items()} == before
    path.write_bytes(whole)
    made.load(path)


@pytest.mark.parametrize("steps", [10**30, -(10**30), 2.5, None, "7", [1]])
def test_numbers_of_a_file_are_checked(tmp_path: Path, steps: object) -> None:
    _, made = trainer()
    made._state.steps = steps  # as a file may have it
    made.save(tmp_path / "t")
    with pytest.raises(og.GraphFileError, match=r"its metadata is damaged \(steps must be an integer"):
        trainer()[1].load(tmp_path / "t")


def test_saving_takes_no_copy_of_the_parameters(tmp_path: Path) -> None:
    _, made = trainer(size=400_000)
    tracemalloc.start()
    made.save(tmp_path / "t")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < (tmp_path / "t").stat().st_size / 8


def test_files_of_before_there_were_checksums_are_read(tmp_path: Path) -> None:
    numpy = pytest.importorskip("safetensors.numpy")
    graph, made = trainer()
    arrays = {name: np.array(one.array + 1) for name, one in made._state.contents.parameters.items()}
    metadata = {"onednn_graph.training": '{"steps": 3, "skipped": 1, "seed": 5}'}
    numpy.save_file(arrays, tmp_path / "t", metadata=metadata)
    made.load(tmp_path / "t")
    assert (made.steps, made.skipped) == (3, 1)
    np.testing.assert_array_equal(graph.parameters["w"], arrays["parameter/w"])


@pytest.mark.parametrize(
    "kind", [ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn, ml_dtypes.int4, ml_dtypes.uint4]
)
def test_parameters_of_types_that_files_lack_are_kept(tmp_path: Path, kind: type) -> None:
    """Only f32 is trained, and the others go along."""
    graph = og.Graph()
    w = graph.parameter(np.ones((4, 1), np.float32), name="w")
    graph.parameter(np.arange(5).astype(kind), name="few")
    loss = graph.op("ReduceSum", graph.op("MatMul", graph.input("x", "f32", [2, 4]), w), axes=[0, 1])
    trainer = T.Trainer(graph, loss, T.SGD(0.25))
    trainer.step({"x": np.ones((2, 4), np.float32)})
    trainer.save(tmp_path / "m.safetensors")
    kept = {name: array.copy() for name, array in graph.parameters.items()}
    graph.set_parameters({"w": np.zeros((4, 1), np.float32), "few": np.zeros(5, kind)})
    trainer.load(tmp_path / "m.safetensors")
    for name, array in kept.items():
        assert graph.parameters[name].dtype == array.dtype
        np.testing.assert_array_equal(graph.parameters[name].view(np.uint8), array.view(np.uint8))


@pytest.mark.parametrize("seed", [-5, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 70, -(1 << 64)])
def test_any_seed_comes_back(seed: int, tmp_path: Path) -> None:
    graph, whole = trainer(seed=seed)
    whole.step(feeds(0))
    whole.save(tmp_path / "t.safetensors")
    whole.step(feeds(1))
    other, again = trainer()
    again.load(tmp_path / "t.safetensors")
    assert again.seed == seed
    again.step(feeds(1))
    assert {n: a.tobytes() for n, a in graph.parameters.items()} == {
        n: a.tobytes() for n, a in other.parameters.items()
    }


@pytest.mark.skipif(os.name != "posix", reason="signals are those of POSIX")
@pytest.mark.parametrize("way", ["load", "snapshot"])
def test_an_interrupt_leaves_no_half_of_a_file(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while parameters are written waits until all are, with the counters."""
    graph, whole = trainer()
    whole.step(feeds(0))
    path = tmp_path / "t.safetensors"
    whole.save(path)
    put_back = whole.snapshot()
    want = {n: a.tobytes() for n, a in graph.parameters.items()}
    whole.step(feeds(1))
    write, times = Parameter.write, list[int]()

    def interrupted(self: Parameter, content: Array) -> None:
        write(self, content)
        times.append(1)
        if len(times) == 2:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Parameter, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        whole.load(path) if way == "load" else put_back()
    assert {n: a.tobytes() for n, a in graph.parameters.items()} == want
    assert whole.steps == 1


class Named(T.SGD):
    """An optimizer of a user's, whose state has another name."""

    called = ("velocity",)

    @property
    def states(self) -> tuple[str, ...]:
        return self.called


@pytest.mark.parametrize(
    ("names", "ema"),
    [(("parameter",), None), (("accumulated",), None), (("ema",), 0.5), (("velocity", "velocity"), None)],
)
def test_states_that_files_could_not_tell_apart(
    names: tuple[str, ...], ema: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of them would be lost in a file, or the file could not be loaded."""
    monkeypatch.setattr(Named, "called", names)
    graph, _ = trainer()
    loss = graph.op("ReduceSum", graph.op("Square", graph.parameter_tensors[0]), axes=[0, 1])
    with pytest.raises(og.ArgumentError, match=rf"Named.states .* '{names[0]}': files keep each state"):
        T.Trainer(graph, loss, Named(0.1, momentum=0.5), ema=ema)
