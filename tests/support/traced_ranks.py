"""A step on ranks of MPI under a profile: `mpirun -n 2 python traced_ranks.py FOLDER` leaves the traces there."""

import json
import sys
from pathlib import Path

import numpy as np
import onednn_graph as og
from onednn_graph.graph.training.communication import mpi

LAYERS, WIDTH, BATCH = 6, 64, 16


def trainer_of(comm=None):
    rng = np.random.default_rng(0)
    graph = og.Graph()
    h = graph.input("x", "f32", [BATCH, WIDTH])
    for number in range(LAYERS):
        w = graph.parameter(rng.normal(0, 0.2, (WIDTH, WIDTH)).astype(np.float32), name=f"w{number}")
        h = graph.relu(graph.matmul(h, w))
    loss = graph.reduce_mean(graph.square(h), axes=[0, 1])
    return og.training.Trainer(graph, loss, og.training.SGD(0.01), comm=comm)


def main():
    folder = Path(sys.argv[1])
    comm = mpi(bucket_bytes=4 * WIDTH * WIDTH)  # a layer each
    trainer = trainer_of(comm)
    feeds = {"x": np.random.default_rng(comm.rank).normal(size=(BATCH, WIDTH)).astype(np.float32)}
    for _ in range(2):
        trainer.step(feeds)
    with og.profile() as prof:
        trainer.step(feeds)
    prof.save_trace(folder / f"{comm.rank}.json")
    prof.to_html(folder / f"{comm.rank}.html")
    (folder / f"{comm.rank}.txt").write_text(
        json.dumps({"told": str(prof), "lines": [line.name for line in prof.exchanges]})
    )


if __name__ == "__main__":
    main()
