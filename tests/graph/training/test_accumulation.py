"""Several steps as one update, averages of the parameters, and what the backward pass computes again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.graph.runtime.arrays import Array

T = og.training
OPTIMIZERS = [
    T.SGD(0.5, momentum=0.5),
    T.Adam(0.01, clip_norm=1.0),
    T.Adagrad(0.1, clip_value=0.5),
    T.LAMB(0.01),
]


def dropped(graph: og.Graph, tensor: og.LogicalTensor, share: float, name: str) -> og.LogicalTensor:
    numbers = [graph.constant(one) for one in (np.int64(0), np.int64(0), np.float32(share))]
    made = graph.op("Dropout", tensor, *numbers, name=name)
    return made if isinstance(made, og.LogicalTensor) else made[0]


def dense(
    optimizer: Any = OPTIMIZERS[0], *, dropout: float = 0.0, **options: Any
) -> tuple[og.Graph, T.Trainer]:
    """Two dense layers, of integers at first; the unused weights have an optimizer and no gradient."""
    rng = np.random.default_rng(0)
    graph = og.Graph()
    x, y = graph.input("x", "f32", [-1, 8]), graph.input("y", "f32", [-1, 4])
    a, b = (
        graph.parameter(rng.integers(-2, 3, shape).astype(np.float32), name=name)
        for name, shape in (("a", (8, 16)), ("b", (16, 4)))
    )
    unused = graph.parameter(np.ones(3, np.float32), name="unused")
    graph.output(graph.op("Multiply", unused, unused), name="other")
    hidden = graph.op("ReLU", graph.op("MatMul", x, a, name="first"), name="hidden")
    if dropout:
        hidden = dropped(graph, hidden, dropout, "drop")
    found = graph.output(graph.op("MatMul", hidden, b), name="found")
    loss = T.mean_squared_error(graph, found, y)
    return graph, T.Trainer(graph, loss, optimizer, deterministic=True, **options)


def feeds(count: int, seed: int = 1) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {
        name: rng.integers(-3, 4, (count, size)).astype(np.float32) for name, size in (("x", 8), ("y", 4))
    }


def parts(batch: Mapping[str, Array], *sizes: int) -> list[dict[str, Array]]:
    ends = np.cumsum(sizes)
    return [
        {name: array[end - size : end] for name, array in batch.items()}
        for size, end in zip(sizes, ends, strict=True)
    ]


def values(graph: og.Graph) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in graph.parameters.items()}


def bits(trainer: T.Trainer) -> dict[str, bytes]:
    return {name: one.array.tobytes() for name, one in trainer._state.contents.parameters.items()}


@pytest.mark.parametrize("real", [False, True])
def test_counters_of_a_model_follow_each_step(real: bool) -> None:
    """As `num_batches_tracked` of torch's BatchNorm does, beside statistics or alone."""
    graph = og.Graph()
    x = graph.input("x", "f32", [-1, 2])
    w = graph.parameter(np.ones((2, 1), np.float32), name="w")
    count = graph.parameter(np.zeros((), np.int64), name="count")
    graph.assign(count, graph.op("HostAdd", count, graph.constant(np.int64(1))))
    if real:
        mean = graph.parameter(np.zeros(1, np.float32), name="mean")
        graph.assign(mean, graph.op("Add", mean, graph.constant(np.ones(1, np.float32))))
    loss = T.mean_squared_error(graph, graph.matmul(x, w), graph.input("y", "f32", [-1, 1]))
    trainer = T.Trainer(graph, loss, T.SGD(0.5), accumulate=2)
    for _ in range(4):
        trainer.step({"x": np.ones((2, 2), np.float32), "y": np.zeros((2, 1), np.float32)})
    assert (trainer.steps, graph.parameters["count"]) == (2, 4)
    assert not real or graph.parameters["mean"] == 4


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("ema", [None, 0.5])
def test_four_eights_are_one_thirty_two(optimizer: T.Optimizer, ema: float | None) -> None:
    """Sums of integers are exact, and so is a mean of a power of two of them."""
    batch = feeds(32)
    _, whole = dense(optimizer, ema=ema)
    loss = whole.step(batch)
    other, summed = dense(optimizer, ema=ema, accumulate=4)
    before = values(other)
    for number, part in enumerate(parts(batch, 8, 8, 8, 8)):
        assert summed.steps == 0
        assert values(other) == before
        last = summed.step(part)
        assert summed._state.pending == (number + 1) % 4
    assert last == loss
    assert summed.steps == whole.steps == 1
    assert bits(summed) == bits(whole)
    assert values(other) != before


def test_batches_count_by_their_lengths() -> None:
    batch = feeds(16)
    _, whole = dense()
    _, summed = dense(accumulate=6)
    whole.step(batch)
    for part in parts(batch, 2, 8, 1, 0, 4, 1):
        summed.step(part)
    assert bits(summed) == bits(whole)
    assert summed.steps == 1


def test_what_is_left_is_an_update_too() -> None:
    batch = feeds(16)
    _, whole = dense()
    _, summed = dense(accumulate=4)
    loss = whole.step(batch)
    assert summed.flush() is None
    for part in parts(batch, 8, 8):
        summed.step(part)
    assert summed.flush() == loss
    assert bits(summed) == bits(whole)
    assert summed.flush() is None
    assert (summed.steps, summed._state.pending) == (1, 0)


def test_epochs_end_with_an_update() -> None:
    batch = feeds(40)
    _, whole = dense(T.SGD(2.0**-10))
    _, summed = dense(T.SGD(2.0**-10), accumulate=2)
    first, rest = parts(batch, 32, 8)
    told = whole.fit([first, rest], 2)
    found = summed.fit([*parts(first, 16, 16), rest], 2)
    for name, one in whole._state.parameters.items():
        np.testing.assert_allclose(summed._state.parameters[name].array, one.array, rtol=1e-5)
    np.testing.assert_allclose([epoch.loss for epoch in found], [epoch.loss for epoch in told], rtol=1e-5)
    assert summed.steps == whole.steps == 4


def test_rates_and_steps_count_updates() -> None:
    seen: list[int] = []
    _, trainer = dense(T.Adam(lambda step: seen.append(step) or 0.1), accumulate=3)
    for part in parts(feeds(24), *[3] * 8):
        trainer.step(part)
    assert seen == [0, 1]


@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_updates_that_are_not_finite_are_skipped_with_all_their_steps(precision: str) -> None:
    graph, trainer = dense(OPTIMIZERS[1], accumulate=2, ema=0.5, precision=precision)
    one, bad, *rest = parts(feeds(24), 4, 4, 4, 4, 4, 4)
    bad["x"][0] = np.nan
    before = values(graph), bits(trainer)
    trainer.step(one)
    with pytest.warns(
        og.errors.SkippedStepWarning, match="step 0 was skipped: the norm of its gradients is nan"
    ):
        trainer.step(bad)
    assert (trainer.steps, trainer.skipped) == (0, 1)
    assert (values(graph), bits(trainer)) == before
    for part in rest:
        trainer.step(part)
    assert (trainer.steps, trainer.skipped) == (2, 1)
    assert all(np.isfinite(array).all() for array in graph.parameters.values())


@pytest.mark.parametrize("precision", ["f32", "bf16"])
@pytest.mark.parametrize("where", [1, 2, 3, 4, 5])
def test_files_within_an_accumulation_go_on_bit_for_bit(where: int, precision: str, tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    options: dict[str, Any] = {"accumulate": 3, "ema": T.EMA(0.9, warm_up=True), "dropout": 0.5}
    data = parts(feeds(40, 7), *[5] * 8)
    _, whole = dense(OPTIMIZERS[1], precision=precision, **options)
    losses: list[float] = []
    for number, part in enumerate(data):
        if number == where:
            whole.save(tmp_path / "state")
        losses.append(whole.step(part))
    _, resumed = dense(OPTIMIZERS[1], precision=precision, **options)
    resumed.step(data[0])  # its sums are none of the file's
    resumed.load(tmp_path / "state")
    assert [resumed.step(part) for part in data[where:]] == losses[where:]
    assert bits(resumed) == bits(whole)
    assert resumed.flush() == whole.flush()
    assert bits(resumed) == bits(whole)


def test_sums_of_a_file_are_not_dropped(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    _, trainer = dense(accumulate=3)
    trainer.step(feeds(4))
    trainer.save(tmp_path / "state")
    with pytest.raises(og.GraphFileError, match="accumulated"):
        dense()[1].load(tmp_path / "state")
    put_back = trainer.snapshot()
    before = bits(trainer)
    trainer.step(feeds(4))
    trainer.step(feeds(4))
    put_back()
    assert bits(trainer) == before
    assert trainer._state.pending == 1


def test_masks_are_drawn_anew_in_each_step() -> None:
    batch = feeds(8)
    _, trainer = dense(dropout=0.5, accumulate=3)
    losses = [trainer.step(batch) for _ in range(2)]
    assert losses[0] != losses[1]


def test_statistics_follow_each_step_that_has_some() -> None:
    graph = og.Graph()
    x, y = graph.input("x", "f32", [-1, 4, 2]), graph.input("y", "f32", [-1, 4, 2])
    mean, variance = (
        graph.parameter(np.full(4, n, np.float32), name=name) for name, n in (("mean", 0), ("variance", 1))
    )
    gamma = graph.parameter(np.ones(4, np.float32), name="gamma")
    beta = graph.parameter(np.zeros(4, np.float32), name="beta")
    out, new_mean, new_variance, *_ = graph.op(
        "BatchNormForwardTraining", x, mean, variance, gamma, beta, epsilon=1e-5, momentum=0.5,
        data_format="NCX", outputs=5,
    )  # fmt: skip
    graph.assign(mean, new_mean)
    graph.assign(variance, new_variance)
    trainer = T.Trainer(graph, T.mean_squared_error(graph, out, y), T.SGD(0.1), accumulate=3)
    ones = np.ones((2, 4, 2), np.float32)
    trainer.step({"x": 2 * ones, "y": ones})
    assert np.array_equal(graph.parameters["mean"], np.full(4, 1))
    trainer.step({"x": np.nan * ones, "y": ones})
    assert np.array_equal(graph.parameters["mean"], np.full(4, 1))
    with pytest.warns(og.errors.SkippedStepWarning):
        trainer.step({"x": 3 * ones, "y": ones})
    assert np.array_equal(graph.parameters["mean"], np.full(4, 2))


@pytest.mark.parametrize(("warm_up", "accumulate"), [(False, 1), (True, 1), (True, 2)])
def test_averages_of_the_parameters(warm_up: bool, accumulate: int) -> None:
    graph, trainer = dense(T.SGD(0.01), ema=T.EMA(0.8, warm_up=warm_up), accumulate=accumulate)
    average = graph.parameters["a"].astype(np.float64)
    batch = feeds(8)
    for number in range(1, 12):
        for _ in range(accumulate):
            trainer.step(batch)
        stays = min(0.8, (1 + number) / (10 + number)) if warm_up else 0.8
        average = stays * average + (1 - stays) * graph.parameters["a"]
    model = trainer.model(["found"], ema=True)
    by_name = {t.name: array for t, array in ((t, model.constants[t.name]) for t in model.constant_tensors)}
    np.testing.assert_allclose(by_name["a"], average, rtol=1e-5)
    assert not np.array_equal(by_name["a"], graph.parameters["a"])
    found = trainer.evaluate({"x": batch["x"]}, ema=True)["found"]
    np.testing.assert_allclose(found, model.compile()(batch["x"])["found"], rtol=1e-6)
    assert not np.array_equal(found, trainer.evaluate({"x": batch["x"]})["found"])
    assert trainer.validate([batch], ema=True) != trainer.validate([batch])
    trainer.step(batch)
    again = trainer.evaluate({"x": batch["x"]}, ema=True)["found"]
    assert np.array_equal(again, found) == (accumulate == 2)


def test_there_are_no_averages_unless_there_are_to_be() -> None:
    _, trainer = dense()
    with pytest.raises(og.ArgumentError, match="ema=True wants averages of the parameters; give Trainer"):
        trainer.evaluate(feeds(2), ema=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"accumulate": 0}, "accumulate must be a number of steps to an update, 1 or more, got 0"),
        ({"accumulate": True}, "accumulate must be a number of steps"),
        ({"ema": 1.0}, "ema must be at least 0 and below 1, got 1.0"),
        ({"ema": "0.9"}, "ema must be a share, as 0.999, an EMA or None, got '0.9'"),
        ({"recompute": 1}, "recompute must be a name, a pattern of names"),
        ({"recompute": [1]}, r"recompute must be a name, a pattern of .*, got 1 in \[1\]"),
    ],
)
def test_what_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(og.errors.OneDNNGraphError, match=message):
        dense(**options)


# --- computed again --------------------------------------------------------------------------------------


def deep(
    precision: str, recompute: list[str], *, dropout: bool = False, **options: Any
) -> tuple[og.Graph, T.Trainer]:
    """Six blocks of a wide activation, whose weights are small beside it."""
    rng = np.random.default_rng(0)
    graph = og.Graph()
    x, y = graph.input("x", "f32", [-1, 32]), graph.input("y", "f32", [-1, 32])
    held = x
    for n in range(6):
        up, down = (
            graph.parameter((rng.standard_normal(shape) / 6).astype(np.float32), name=f"{name}{n}")
            for name, shape in (("up", (32, 128)), ("down", (128, 32)))
        )
        wide = graph.op("GELU", graph.op("MatMul", held, up, name=f"block{n}.wide"), name=f"block{n}.act")
        if dropout:
            wide = dropped(graph, wide, 0.5, f"block{n}.drop")
        held = graph.op(
            "Add", held, graph.op("MatMul", wide, down, name=f"block{n}.narrow"), name=f"block{n}.sum"
        )
    loss = T.mean_squared_error(graph, held, y)
    return graph, T.Trainer(
        graph,
        loss,
        T.SGD(0.01, momentum=0.5),
        recompute=recompute,
        precision=precision,
        deterministic=True,
        **options,
    )


@pytest.mark.parametrize("precision", ["f32", "bf16"])
@pytest.mark.parametrize("dropout", [False, True])
def test_what_is_computed_again_is_the_same_and_is_not_kept(precision: str, dropout: bool) -> None:
    rng = np.random.default_rng(1)
    data = [{name: rng.standard_normal((2048, 32)).astype(np.float32) for name in "xy"} for _ in range(2)]
    found: list[tuple[list[float], dict[str, bytes], int]] = []
    for patterns in (
        [],
        ["block*.wide", "block*.act", "block*.drop"] if dropout else ["block*.wide", "block*.act"],
    ):
        graph, trainer = deep(precision, patterns, dropout=dropout)
        losses = [trainer.step(one) for one in data]
        ((_, program),) = trainer._stepping.programs.values().values()
        found.append((losses, values(graph), program.model.memory_bytes))
    kept, again = found
    if precision == "f32":
        assert again[:2] == kept[:2]
    else:  # what is not kept is not rounded either
        assert again[0][0] == pytest.approx(kept[0][0], rel=1e-2)
    assert again[2] < 0.7 * kept[2]


def test_a_pattern_of_nothing() -> None:
    _, trainer = deep("f32", ["block9*"])
    with pytest.raises(
        og.ArgumentError, match="recompute has 'block9\\*', which fits the name of no op and of no"
    ):
        trainer.step({name: np.zeros((2, 32), np.float32) for name in "xy"})


@pytest.mark.parametrize("accumulate", [1, 2])
def test_an_input_that_is_only_assigned_is_what_was_fed(accumulate: int) -> None:
    """Of steps that are summed up the parameter had what lay in memory."""
    graph = og.Graph()
    x, labels = graph.input("x", "f32", [2, 4]), graph.input("labels", "s64", [3])
    weights = graph.parameter(np.ones((4, 1), np.float32), name="weights")
    latest = graph.parameter(np.zeros(3, np.int64), name="latest")
    graph.assign(latest, labels)
    loss = graph.op("ReduceSum", graph.op("MatMul", x, weights), axes=[0, 1])
    trainer = og.training.Trainer(graph, loss, og.training.SGD(0.5), accumulate=accumulate)
    batch = {"x": np.ones((2, 4), np.float32)}
    for number in range(4):
        trainer.step({**batch, "labels": np.full(3, number)})
        np.testing.assert_array_equal(graph.parameters["latest"], number)
    with pytest.raises(og.errors.ArgumentError, match="'labels' is missing"):
        trainer.step(batch)


def test_a_step_that_breaks_off_leaves_nothing_in_the_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the first one behind an update, of which nothing is counted yet."""
    from onednn_graph.graph.training.program import Program

    graph, trainer = dense(accumulate=2)
    other, whole = dense(accumulate=2)
    run = Program.run

    def broken(self: Program) -> dict[str, Array]:
        run(self)  # whose gradients are added
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(Program, "run", broken)
        with pytest.raises(MemoryError):
            trainer.step(feeds(8, seed=7))
    for seed in (1, 2):
        trainer.step(feeds(8, seed))
        whole.step(feeds(8, seed))
    assert {n: a.tobytes() for n, a in graph.parameters.items()} == {
        n: a.tobytes() for n, a in other.parameters.items()
    }
