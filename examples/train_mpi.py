"""Trains a small network on handwritten digits in as many processes as there are:

    python examples/train_mpi.py
    mpirun -n 4 python examples/train_mpi.py

Every process takes its part of each batch, and all have the same parameters after each step. So the losses are those
of one process but for rounding, however many there are. Needs the extras `mpi` and `examples`.
"""

import argparse
from typing import Any, cast

import numpy as np
import onednn_graph as og
from numpy.typing import NDArray
from sklearn.datasets import load_digits  # pyright: ignore[reportUnknownVariableType] -- no type hints

BATCH, CHANNELS, CLASSES = 64, 16, 10


def model(batch: int) -> tuple[og.Graph, og.LogicalTensor]:
    """A convolution, its BatchNorm, and a dense layer, for so many images; and their loss."""
    rng = np.random.default_rng(0)

    def weights(name: str, *shape: int) -> og.LogicalTensor:
        scale = np.sqrt(2 / np.prod(shape[:-1]))
        return graph.parameter((rng.normal(size=shape) * scale).astype(np.float32), name=name)

    def channels(name: str, value: float) -> og.LogicalTensor:
        return graph.parameter(np.full(CHANNELS, value, np.float32), name=name)

    graph = og.Graph()
    x = graph.input("x", "f32", [batch, 8, 8, 1])
    labels = graph.input("labels", "s64", [batch])
    made = graph.convolution(
        x,
        weights("conv", 3, 3, 1, CHANNELS),
        strides=[1, 1],
        pads_begin=[1, 1],
        pads_end=[1, 1],
        dilations=[1, 1],
    )
    mean, variance = channels("mean", 0), channels("variance", 1)
    y, new_mean, new_variance, *_ = graph.batch_norm_forward_training(
        made, mean, variance, channels("gamma", 1), channels("beta", 0), epsilon=1e-5, momentum=0.9
    )
    graph.assign(mean, new_mean)
    graph.assign(variance, new_variance)
    flat = graph.static_reshape(graph.relu(y), shape=[batch, -1], special_zero=False)
    scores = graph.matmul(flat, weights("dense", 64 * CHANNELS, CLASSES))
    graph.output(scores, name="scores")
    return graph, og.training.cross_entropy(graph, scores, labels)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    epochs = parser.parse_args().epochs
    comm = og.training.mpi(sync_batch_norm=True)
    if BATCH % comm.size:
        parser.error(f"a batch of {BATCH} images must be divisible by the number of processes, {comm.size}")
    loaded = cast("Any", load_digits())
    images: NDArray[np.float32] = (loaded.images / 16).astype(np.float32)[..., None]
    labels: NDArray[np.int64] = loaded.target.astype(np.int64)
    graph, loss = model(BATCH // comm.size)
    trainer = og.training.Trainer(graph, loss, og.training.SGD(0.05, momentum=0.9), comm=comm)

    def part(examples: slice, *, shuffle: bool) -> og.training.Loader:
        """What is this process's of each batch: the same batches, however many processes there are."""
        columns = {"x": images[examples], "labels": labels[examples]}
        return og.training.Loader(columns, BATCH, shuffle=shuffle, seed=1, rank=comm.rank, size=comm.size)

    def told(epoch: og.training.Epoch) -> None:
        if comm.rank == 0:
            print(f"epoch {epoch.number}: loss {epoch.loss:.4f}")

    trainer.fit(part(slice(1536), shuffle=True), epochs, callbacks=[told])
    testing = part(slice(1536, 1792), shuffle=False)
    accuracy = trainer.validate(testing, {"accuracy": og.training.Accuracy("scores", "labels")})["accuracy"]
    if comm.rank == 0:
        print(f"{comm.size} processes, {og.get_num_threads()} threads each: test accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
