"""How long a step takes on several ranks: mpirun -n 2 python benchmarks/ranks.py

Beside each other, in turns: the step without an exchange, with it in buckets of several sizes, and the exchange
alone. Times are medians over the steps of the slowest rank.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from time import perf_counter

import numpy as np
import onednn_graph as og
from onednn_graph.graph.training.averaging import averaged
from onednn_graph.graph.training.communication import MpiCommunicator
from onednn_graph.ops.data_types import DataType


def step(batch: int, width: int, layers: int, comm: MpiCommunicator | None) -> tuple[Callable[[], None], int]:
    """A forward and backward pass through dense layers, bound to arrays; and the bytes of its gradients."""
    graph = og.Graph()
    h = graph.input("x", "f32", [batch, width])
    weights = [graph.input(f"w{i}", "f32", [width, width]) for i in range(layers)]
    for w in weights:
        h = graph.op("ReLU", graph.op("MatMul", h, w))
    loss = graph.op("ReduceMean", h, axes=[0, 1], keep_dims=False)
    found = [loss, *graph.gradients(loss, weights)]
    if comm is not None:
        found = list(averaged(graph, comm, loss, found[1:]))
    for tensor in found:
        graph.output(tensor)
    model = graph.compile()
    rng = np.random.default_rng(1)
    inputs = {t.name: (rng.normal(size=t.dims) / 30).astype(np.float32) for t in model.inputs}
    made = zip(model.output_names, graph.outputs, strict=True)
    outputs = {name: np.empty(graph.tensor(t.id).dims, np.float32) for name, t in made}
    return model.bind(inputs, outputs), layers * width * width * 4


def exchange(comm: MpiCommunicator, nbytes: int) -> Callable[[], None]:
    """The means of so many bytes, and nothing else."""
    count = nbytes // 4
    piece = comm.bucket_bytes // (2 if comm.data_type is DataType.bf16 else 4)
    sizes = [min(piece, count - at) for at in range(0, count, piece)]
    numbers = comm.buckets([((size,), comm.data_type) for size in sizes])
    values = np.ones(max(sizes), np.float32)

    def run() -> None:
        for number, size in zip(numbers, sizes, strict=True):
            comm.put(number, 0, values[:size])
        for number, size in zip(numbers, sizes, strict=True):
            comm.get(number, 0, values[:size])

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=64, help="of each rank")
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--turns", type=int, default=15)
    options = parser.parse_args()
    base = og.training.mpi()
    alone, nbytes = step(options.batch, options.width, options.layers, None)
    ways: dict[str, Callable[[], None]] = {"step without exchange": alone}
    for data_type in ("f32", "bf16"):
        for mib in (0.25, 1, 4, 16, 64):
            comm = og.training.mpi(bucket_bytes=int(mib * 2**20), data_type=data_type, split_cores=False)
            ways[f"{data_type}, buckets of {mib:5} MiB: step"] = step(
                options.batch, options.width, options.layers, comm
            )[0]
            ways[f"{data_type}, buckets of {mib:5} MiB: exchange alone"] = exchange(comm, nbytes)
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(options.turns + 2):
        for name, run in ways.items():
            base.barrier()
            start = perf_counter()
            run()
            base.barrier()  # until the slowest has done it
            if turn >= 2:
                seconds[name].append(perf_counter() - start)
    if base.rank == 0:
        print(
            f"{base.size} ranks, {og.get_num_threads()} threads each, {nbytes / 2**20:.1f} MiB of gradients"
        )
        for name, times in seconds.items():
            print(f"{name:42} {statistics.median(times) * 1e3:8.2f} ms, best {min(times) * 1e3:8.2f}")


if __name__ == "__main__":
    main()
