"""One trainer in several threads: each step is of one batch, and what is read meanwhile is between two steps."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onednn_graph as og
import pytest

SIZE = 1 << 18


def summed(graph: og.Graph, tensor: og.LogicalTensor) -> og.LogicalTensor:
    return graph.op("ReduceSum", tensor, axes=[0], keep_dims=False)


def together(*works: Callable[[], object]) -> None:
    """Does all of it at once; what one raises is raised."""
    raised: list[BaseException] = []

    def done(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=done, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


@pytest.mark.parametrize("accumulate", [1, 2])
def test_steps_of_several_threads_do_not_mix_their_batches(accumulate: int) -> None:
    graph = og.Graph()
    x, y = graph.input("x", "f32", [SIZE]), graph.input("y", "f32", [SIZE])
    w = graph.parameter(np.ones(SIZE, np.float32), name="w")
    # Both the loss and its gradient are 0 where x and y are alike, as in each batch.
    loss = summed(graph, graph.multiply(w, graph.subtract(x, y)))
    trainer = og.training.Trainer(graph, loss, og.training.SGD(1.0), accumulate=accumulate)
    losses: list[float] = []

    def work(number: float) -> None:
        batch = np.full(SIZE, number, np.float32)
        losses.extend(trainer.step({"x": batch, "y": batch}) for _ in range(60))

    together(*(lambda number=number: work(number) for number in (1.0, 2.0, 3.0)))
    assert set(losses) == {0.0}
    assert trainer.steps == 180 / accumulate
    np.testing.assert_array_equal(graph.parameters["w"], 1)


def test_what_is_read_meanwhile_is_between_two_steps(tmp_path: Path) -> None:
    graph = og.Graph()
    x = graph.input("x", "f32", [SIZE])
    a, b = (graph.parameter(np.zeros(SIZE, np.float32), name=name) for name in "ab")
    graph.output(graph.multiply(a, x), name="of a")
    graph.output(graph.multiply(b, x), name="of b")
    # Each step takes 1 from all of both.
    loss = graph.add(summed(graph, graph.multiply(a, x)), summed(graph, graph.multiply(b, x)))
    trainer = og.training.Trainer(graph, loss, og.training.SGD(1.0))
    ones, over = {"x": np.ones(SIZE, np.float32)}, threading.Event()

    def steps() -> None:
        try:
            for _ in range(300):
                trainer.step(ones)
        finally:
            over.set()

    def alike(arrays: dict[str, np.ndarray], names: tuple[str, str]) -> None:
        values = {float(one) for name in names for one in np.unique(arrays[name])}
        assert len(values) == 1, sorted(values)

    def reads() -> None:
        from safetensors.numpy import load_file

        while not over.is_set():
            alike(dict(trainer.evaluate(ones)), ("of a", "of b"))
            alike(dict(trainer.model(["of a", "of b"]).compile()(ones)), ("of a", "of b"))
            trainer.save(tmp_path / "now")
            alike(load_file(tmp_path / "now"), ("parameter/a", "parameter/b"))

    together(steps, reads)
    assert trainer.steps == 300


@pytest.mark.parametrize("how", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_trainer_says_how_it_goes_elsewhere(how: Callable[[object], object]) -> None:
    graph = og.Graph()
    w = graph.parameter(np.ones(4, np.float32), name="w")
    loss = summed(graph, graph.multiply(w, graph.input("x", "f32", [4])))
    trainer = og.training.Trainer(graph, loss, og.training.SGD(1.0))
    with pytest.raises(og.ArgumentTypeError, match=r"copied or pickled.*save.*load.*snapshot"):
        how(trainer)
