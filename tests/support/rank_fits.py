"""What the ranks of a test of fit do: `mpirun -n 2 python rank_fits.py PROGRAM FOLDER`."""

import sys
import warnings
from pathlib import Path

import numpy as np
import onednn_graph as og

T = og.training
EXAMPLES = 13
"""Whose batches of 5 leave 3, and parts of 1, 1 and 1, or of none."""


def columns():
    rng = np.random.default_rng(3)
    x = rng.integers(-2, 3, (EXAMPLES, 4)).astype(np.float32)
    return {"x": x, "y": x.sum(1, keepdims=True)}


def model(shapes=None):
    """For batches of any size, or of the one that there is."""
    graph = og.Graph()
    x = graph.input("x", "f32", [-1, 4] if shapes is None else shapes["x"])
    w = graph.parameter(np.zeros((4, 1), np.float32), name="w")
    graph.output(graph.matmul(x, w), name="found")
    return graph


def loss_of(graph):
    return T.mean_squared_error(graph, graph.outputs[0], graph.input("y", "f32", [-1, 1]))


def network(comm=None, template=False):
    graph = model()
    if template:
        graph = og.OpenGraph(graph.inputs, [("found", graph.outputs[0])], model)
    trainer = T.Trainer(graph, loss_of, T.SGD(0.0625, momentum=0.5), deterministic=True, comm=comm)
    return trainer._source.graph, trainer


def loader(comm=None, batch=5, **options):
    rank, size = (0, 1) if comm is None else (comm.rank, comm.size)
    return T.Loader(columns(), batch, shuffle=True, seed=1, rank=rank, size=size, **options)


METRICS = {"error": lambda outputs, feeds: np.abs(outputs["found"] - feeds["y"]).ravel()}


def fitted(comm=None, epochs=3, batch=5, template=False, **options):
    """What fit tells, and where it ends. Losses are told as root mean squares, which are rounded as residuals are."""
    graph, trainer = network(comm, template)
    told = trainer.fit(
        loader(comm, batch, **options),
        epochs,
        validation=loader(comm, batch),
        metrics=METRICS,
        training_metrics=METRICS,
    )
    values = [[v**0.5 if "loss" in name else v for name, v in epoch.values.items()] for epoch in told]
    return {"values": np.array(values), "w": graph.parameters["w"], "steps": np.array(trainer.steps)}


def shares(comm, folder):
    return fitted(comm)


def shares_of_single_examples(comm, folder):
    return fitted(comm, batch=2, prefetch=2)


def shares_of_a_template(comm, folder):
    return fitted(comm, template=True)


def stops(comm, folder):
    """One rank alone ends the training after an epoch, and within one."""
    found = {}
    for who in range(comm.size):
        graph, trainer = network(comm)

        def stop(told, who=who):
            if comm.rank == who:
                raise StopIteration

        told = trainer.fit(loader(comm), 5, callbacks=[stop])
        found[f"epochs {who}"] = np.array([epoch.number for epoch in told])
        trainer.fit(loader(comm), 5, callbacks=[T.EverySteps(2, stop)])
        found[f"steps {who}"] = np.array(trainer.steps)
        found[f"w {who}"] = graph.parameters["w"].copy()
    return found


def stops_by_the_first_alone(comm, folder):
    """The first rank alone has the callback that ends it, and one for files."""
    _, trainer = network(comm)

    def stop(done):
        raise StopIteration

    stopping = T.EverySteps(4, stop)
    log = T.CsvLog(folder / "log.csv")
    trainer.fit(loader(comm), 5, callbacks=[log, stopping] if comm.rank == 0 else [log])
    return {"steps": np.array(trainer.steps)}


def goes_on(comm, folder):
    """From a folder that the first rank alone can see, from where it was stopped."""
    own = folder / "kept" if comm.rank == 0 else folder / f"nobody has {comm.rank}"
    graph, trainer = network(comm)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        taken = trainer.load_newest(own)
    first = trainer.steps
    kept = T.Checkpoints(trainer, own, every=2, best="validation loss")
    told = trainer.fit(
        loader(comm),
        3,
        validation=loader(comm),
        callbacks=[kept, T.EverySteps(7, _stop_at(0 if first else 7))],
    )
    if first:
        kept.load_best()
    return {
        "taken": np.array("" if taken is None else taken.name),
        "first": np.array(first),
        "epochs": np.array([epoch.number for epoch in told], np.int64),
        "steps": np.array(trainer.steps),
        "w": graph.parameters["w"],
        "warnings": np.array(len(heard)),
    }


def _stop_at(number):
    def stop(done):
        if done.number == number:
            raise StopIteration

    return stop


def fails(comm, folder):
    """The data of one rank can't be read, which the others hear of; then a callback of one fails."""

    def broken(batch, rng):
        if comm.rank == comm.size - 1:
            raise OSError("no such image")
        return batch

    def failing(epoch):
        if comm.rank == 0:
            raise KeyError("a callback")

    def failing_metric(outputs, feeds):
        if comm.rank == 1:
            raise ValueError("a metric")
        return 0.0

    def failing_order(epoch):
        if comm.rank == 1:
            raise ValueError("an order")
        return loader(comm)(epoch)

    ways = [
        {"batches": loader(comm, transform=broken)},
        {"callbacks": [failing]},
        {"callbacks": [T.EverySteps(2, failing)]},
        {
            "callbacks": [T.EverySteps(3, failing)] if comm.rank == 0 else []
        },  # behind the last step of an epoch
        {"training_metrics": {"a": failing_metric}},
        {"batches": failing_order},
        {"batches": [] if comm.rank else list(loader(comm)(0))},
    ]
    texts = []
    for way in ways:
        _, trainer = network(comm)
        try:
            trainer.fit(**{"batches": loader(comm), "epochs": 2, **way})
        except (OSError, KeyError, ValueError, og.errors.OneDNNGraphError) as error:
            texts.append(f"{type(error).__name__}: {error}")
    return {"texts": np.array(texts)}


def has_fewer(comm, folder):
    """One rank has fewer batches than the others."""
    _, trainer = network(comm)
    batches = list(loader(comm)(0))
    trainer.fit(batches[: 2 if comm.rank else 3], 2)
    return {}


def trains_longer(comm, folder):
    """One rank is told to do another number of epochs."""
    _, trainer = network(comm)
    trainer.fit(loader(comm), 2 + comm.rank)
    return {}


if __name__ == "__main__":
    communicator = T.mpi(timeout=20)
    place = Path(sys.argv[2])
    found = globals()[sys.argv[1]](communicator, place)
    np.savez(place / f"{communicator.rank}.npz", **found)
