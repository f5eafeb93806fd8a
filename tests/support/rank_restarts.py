"""Training that is broken off when a rank is killed, and goes on with fewer: a checkpoint every two steps."""

import sys
from pathlib import Path

import numpy as np
import onednn_graph as og
from rank_losses import LOST, kill
from rank_programs import main

BATCH, STEPS, KILLED_AT = 12, 8, 5


def trainer_of(comm=None):
    """A trainer of two dense layers, and its graph."""
    graph = og.Graph()
    x, target = graph.input("x", "f32", [-1, 4]), graph.input("t", "f32", [-1, 3])
    rng = np.random.default_rng(0)
    w1 = graph.parameter(rng.normal(size=(4, 16)).astype(np.float32) / 2, name="w1")
    w2 = graph.parameter(rng.normal(size=(16, 3)).astype(np.float32) / 4, name="w2")
    made = graph.matmul(graph.relu(graph.matmul(x, w1)), w2)
    loss = og.training.mean_squared_error(graph, made, target)
    return og.training.Trainer(graph, loss, og.training.Adam(0.01, clip_norm=1.0), comm=comm), graph


def whole(step):
    rng = np.random.default_rng(step)
    return {"x": rng.normal(size=(BATCH, 4)).astype(np.float32), "t": np.ones((BATCH, 3), np.float32)}


def trains(comm):
    """From the file where there is one; a rank is killed in the middle of what begins without."""
    file = Path(sys.argv[2]) / "state.safetensors"
    trainer, graph = trainer_of(comm)
    begun = file.exists()
    comm.meet("whether there is a file", begun)
    if begun:
        trainer.load(file)
    first = trainer.steps
    losses = []
    while trainer.steps < STEPS:
        if not begun and trainer.steps == KILLED_AT and comm.rank == LOST:
            kill()
        mine = {
            name: np.array_split(array, comm.size)[comm.rank] for name, array in whole(trainer.steps).items()
        }
        losses.append(trainer.step(mine))
        if trainer.steps % 2 == 0:
            trainer.save(file)
    return {"first": np.array(first), "losses": np.array(losses), **graph.parameters}


if __name__ == "__main__":
    main(globals(), {})
