"""Programs of several ranks whose steps accumulate, for `launching`."""

import sys
from pathlib import Path

import numpy as np
import onednn_graph as og
import pytest
from rank_programs import integers, main

BATCH = 32
STEPS = 4


def batch(step):
    return {"x": integers(step, (BATCH, 8)), "t": integers(50 + step, (BATCH, 4))}


def dense(comm=None, **options):
    """A trainer of a layer, exact on integers for some steps, and its graph."""
    graph = og.Graph()
    x, target = graph.input("x", "f32", [-1, 8]), graph.input("t", "f32", [-1, 4])
    w = graph.parameter(integers(1, (8, 4)), name="w")
    b = graph.parameter(integers(2, (4,)), name="b")
    loss = og.training.mean_squared_error(graph, graph.add(graph.matmul(x, w), b), target)
    optimizer = og.training.Adam(0.01, clip_norm=1.0)
    options = {"ema": 0.5, "deterministic": True, **options}
    return og.training.Trainer(graph, loss, optimizer, comm=comm, **options), graph


def halves(comm):
    """Two steps an update on each rank; what is exchanged before the second is counted."""
    trainer, graph = dense(comm, accumulate=2)
    losses, met = [], []
    meet = comm.meet
    comm.meet = lambda *args, **options: met.append(args[0]) or meet(*args, **options)
    for step in range(STEPS):
        mine = {name: np.array_split(array, comm.size)[comm.rank] for name, array in batch(step).items()}
        for number in range(2):
            before = len(met)
            half = {name: np.array_split(array, 2)[number] for name, array in mine.items()}
            losses.append(trainer.step(half))
            assert len(met) - before == number, met
    averages = {f"ema {name}": one.array for name, one in trainer._state.averages.items()}
    return {"losses": np.array(losses[1::2]), **averages, **graph.parameters}


def uneven(comm):
    """Parts of other sizes on each rank and in each step, and none on some; the end is flushed."""
    trainer, graph = dense(comm, accumulate=3)
    for step in range(STEPS):
        cuts = np.sort(np.random.default_rng(step).integers(0, BATCH + 1, 2 * comm.size - 1)).tolist()
        edges = [0, *cuts, BATCH]
        for number in range(2):
            place = 2 * comm.rank + number
            trainer.step(
                {name: array[edges[place] : edges[place + 1]] for name, array in batch(step).items()}
            )
        trainer.flush()
    return dict(graph.parameters)


def fails_between(comm):
    """A rank that can't take a step: no rank keeps what it had summed up, and they go on together."""
    trainer, graph = dense(comm, accumulate=2)
    mine = {name: np.array_split(array, comm.size)[comm.rank] for name, array in batch(0).items()}
    errors = []
    for number in range(2):
        try:
            trainer.step({**mine, "x": mine["x"][:, :5]} if comm.rank == 1 and number == 0 else mine)
        except (og.errors.OneDNNGraphError, ValueError) as error:
            errors.append(type(error).__name__)
            if comm.rank == 1:
                break
    assert errors == [("ResourceError", "ShapeError")[comm.rank]], errors
    assert trainer.steps == trainer._state.pending == 0
    trainer.step(mine)
    with pytest.raises(og.ArgumentError, match="each process on its own"):
        trainer.save("nowhere")
    trainer.step(mine)
    return dict(graph.parameters)


def loads_between(comm):
    """A file is taken up where each rank has summed up something: none goes on with that, and no rank has another's.

    A folder without files leaves the sums as they are.
    """
    folder = Path(sys.argv[2])
    trainer, graph = dense(comm, accumulate=2)
    trainer.save(folder / "begin.safetensors")
    mine = [
        {name: np.array_split(array, comm.size)[comm.rank] for name, array in batch(step).items()}
        for step in range(3)
    ]
    trainer.step(mine[2])
    trainer.load(folder / "begin.safetensors")
    assert trainer._state.pending == 0
    trainer.step(mine[0])
    assert trainer.load_newest(folder / "nothing") is None
    trainer.step(mine[1])
    assert trainer.steps == 1
    return dict(graph.parameters)


if __name__ == "__main__":
    main(globals(), {})
