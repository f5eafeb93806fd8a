"""Ranks that divide the state of the optimizer, and ranks that don't, which must not differ."""

import sys
from pathlib import Path

import numpy as np
import onednn_graph as og
from rank_programs import failure, main

BATCH, STEPS = 8, 4
SIZES = {"w1": 35, "b1": 7, "w2": 28}


def trainer_of(comm, optimizer, precise=True, **options):
    """A trainer of two dense layers, with numbers whose sums are exact or not."""
    graph = og.Graph()
    x, target = graph.input("x", "f32", [-1, 5]), graph.input("t", "f32", [-1, 4])
    rng = np.random.default_rng(1)

    def numbers(*shape):
        return (
            rng.integers(-1, 2, shape).astype(np.float32)
            if precise
            else rng.normal(size=shape).astype(np.float32)
        )

    w1, b1 = graph.parameter(numbers(5, 7), name="w1"), graph.parameter(numbers(7), name="b1")
    w2 = graph.parameter(numbers(7, 4), name="w2")
    made = graph.matmul(graph.relu(graph.add(graph.matmul(x, w1), b1)), w2)
    scores = graph.multiply(made, target)
    if not precise:
        scores = graph.square(graph.subtract(made, target))
    loss = graph.reduce_mean(scores, axes=[0, 1])
    return og.training.Trainer(graph, loss, optimizer, comm=comm, deterministic=True, **options), graph


def whole(step, precise=True):
    rng = np.random.default_rng(50 + step)
    if precise:
        return {n: rng.integers(-2, 3, (BATCH, k)).astype(np.float32) for n, k in (("x", 5), ("t", 4))}
    return {n: rng.normal(size=(BATCH, k)).astype(np.float32) for n, k in (("x", 5), ("t", 4))}


def mine(comm, batch):
    return {name: np.array_split(array, comm.size)[comm.rank] for name, array in batch.items()}


OPTIMIZERS = {
    "momentum": lambda: og.training.SGD(0.5, momentum=0.5),
    "adam": lambda: og.training.AdamW(0.01),
    "clipped": lambda: og.training.Adam(0.01, clip_norm=0.125),
}


def exactly(comm):
    """One step, whose gradients are exact, by each optimizer."""
    found = {}
    for name, make in OPTIMIZERS.items():
        trainer, graph = trainer_of(comm, make())
        found[f"{name} loss"] = np.array(trainer.step(mine(comm, whole(0))))
        found |= {f"{name} {key}": np.array(array) for key, array in graph.parameters.items()}
        found[f"{name} bytes"] = np.array(trainer.state_bytes)
    trainer, graph = trainer_of(comm, OPTIMIZERS["momentum"](), accumulate=2)
    for step in range(2):
        trainer.step(mine(comm, whole(step)))
    assert trainer.steps == 1
    return found | {f"accumulated {key}": np.array(array) for key, array in graph.parameters.items()}


def exactly_in_whole(comm):
    return exactly(comm)


def training(comm):
    """Some steps, one of them skipped, from a file that any number of ranks has written."""
    file = Path(sys.argv[2]) / "state.safetensors"
    trainer, graph = trainer_of(comm, OPTIMIZERS["clipped"](), precise=False)
    begun = file.exists()
    comm.meet("whether there is a file", begun)
    if begun:
        trainer.load(file)
    losses = []
    for step in range(trainer.steps, trainer.steps + STEPS):
        if step == 2:
            nothing = {name: np.full_like(array, np.nan) for name, array in mine(comm, whole(0)).items()}
            trainer.step(nothing)
        losses.append(trainer.step(mine(comm, whole(step, precise=False))))
    trainer.save(file)
    return {"losses": np.array(losses), "skipped": np.array(trainer.skipped), **graph.parameters}


def in_bf16(comm):
    return training(comm)


def needs_whole_parameters(comm):
    return {"told": np.array(failure(lambda: trainer_of(comm, og.training.LAMB(0.01))))}


SHARDED = {"shard_optimizer": True, "bucket_bytes": 64}
OPTIONS = {
    **dict.fromkeys(("exactly", "training", "needs_whole_parameters"), SHARDED),
    "in_bf16": {**SHARDED, "data_type": "bf16"},
}

if __name__ == "__main__":
    main(globals(), OPTIONS)
