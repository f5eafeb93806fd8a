"""Learning rates: that of a number that is observed, in files and on several ranks; and what they refuse."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onednn_graph as og
import pytest

T = og.training


def linear(optimizer: Any, **options: Any) -> tuple[og.Graph, T.Trainer]:
    graph = og.Graph()
    x = graph.input("x", "f32", [4])
    w = graph.parameter(np.zeros(4, np.float32), name="w")
    loss = graph.op("ReduceSum", graph.op("Multiply", x, w), axes=[0])
    return graph, T.Trainer(graph, loss, optimizer, **options)


ONES = {"x": np.ones(4, np.float32)}


def test_the_rate_falls_where_what_is_observed_gets_no_better() -> None:
    plateau = T.Plateau(1.0, factor=0.5, patience=1)
    graph, trainer = linear({"*": T.SGD(plateau)})
    rates: list[float] = []
    for value in (3.0, 2.0, 2.0, 2.0, 2.0, 2.0):
        before = graph.parameters["w"][0]
        trainer.step(ONES)
        rates.append(float(before - graph.parameters["w"][0]))
        plateau.observe(value)
    assert rates == [1, 1, 1, 1, 0.5, 0.5]
    assert plateau.rate == 0.25


@pytest.mark.parametrize("wrap", [lambda p: p, lambda p: T.WarmUp(p, 2)], ids=["alone", "behind a warm-up"])
def test_files_keep_what_a_plateau_has_seen(wrap: Callable[[Any], Any], tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    seen = [2.0, 2.0, 1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.5]

    def run(saved: int | None, loaded: int) -> list[bytes]:
        plateau = T.Plateau(1.0, factor=0.5, patience=1, cooldown=1)
        graph, trainer = linear(T.SGD(wrap(plateau), momentum=0.5))
        if loaded:
            trainer.load(tmp_path / "state")
        found: list[bytes] = []
        for number, value in enumerate(seen[loaded:], loaded):
            trainer.step(ONES)
            plateau.observe(value)
            found.append(graph.parameters["w"].tobytes())
            if number + 1 == saved:
                trainer.save(tmp_path / "state")
        return found

    for where in range(1, len(seen)):
        whole = run(where, 0)
        assert run(None, where) == whole[where:]
    assert len(set(whole)) == len(seen)


def test_a_file_without_one_is_of_another_optimizer(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    linear(T.SGD(1.0))[1].save(tmp_path / "state")
    with pytest.raises(
        og.GraphFileError, match="with 0 learning rates that are a Plateau, and this trainer has 1"
    ):
        linear(T.SGD(T.Plateau(1.0)))[1].load(tmp_path / "state")


def test_optimizers_share_a_plateau() -> None:
    plateau = T.Plateau(1.0)
    assert T.SGD(plateau) == T.SGD(plateau) != T.SGD(T.Plateau(1.0))
    _, trainer = linear(T.SGD(T.WarmUp(plateau, 3)))
    assert [name for name in trainer._state.contents.parameters if name.startswith("plateau")] == [
        "plateau/0"
    ]


def test_copies_have_what_was_seen() -> None:
    plateau = T.Plateau(1.0, factor=0.5, patience=0)
    plateau.observe(1.0)
    plateau.observe(1.0)
    for one in (copy.deepcopy(plateau), pickle.loads(pickle.dumps(plateau))):
        assert one.rate == plateau.rate == 0.5
        one.observe(1.0)
        assert (one.rate, plateau.rate) == (0.25, 0.5)


def test_the_root_of_the_steps() -> None:
    rate = T.WarmUp(T.InverseSqrt(0.5, 100), 100)
    assert [rate(step) for step in (0, 99, 100, 400, 900)] == [0.005, 0.5, 0.5, 0.25, 0.5 / 3]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: T.Plateau(1.0, factor=1.0), "factor must be below 1, so that the rate falls, got 1.0"),
        (lambda: T.Plateau(1.0, patience=-1), "patience must be 0 or more, got -1"),
        (lambda: T.Plateau(1.0, patience=True), "patience must be an integer, got True"),
        (lambda: T.Plateau(-1.0), "lr must be a finite number of 0 or more, got -1.0"),
        (lambda: T.Plateau(1.0, mode="least"), "mode must be one of 'min', 'max', got 'least'|mode"),
        (lambda: T.Plateau(1.0).observe("x"), "Plateau.observe takes a number, got 'x'"),  # type: ignore[arg-type]
        (lambda: T.OneCycle(1.0, 10, rise=1.5), "rise must be at least 0 and at most 1, got 1.5"),
        (lambda: T.OneCycle(1.0, 10, last=0), "last must be above 0, for it divides a rate, got 0"),
        (lambda: T.CosineRestarts(1.0, 10, multiple=0), "multiple must be 1 or more, got 0"),
        (lambda: T.Polynomial(1.0, 0), "steps must be 1 or more, got 0"),
    ],
)
def test_what_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(og.errors.OneDNNGraphError, match=message):
        make()
