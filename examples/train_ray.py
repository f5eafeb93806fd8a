"""Trains a small network on handwritten digits in a worker group of Ray Train, which starts lost workers again:

    python examples/train_ray.py --workers 2
    python examples/train_ray.py --workers 2 --lose 25   # kills a worker before that step, once

Each worker takes its part of every batch, and gradients are averaged over Gloo. Every few steps there is a
checkpoint, and where a worker is lost, Ray starts the group again, which goes on from the last one. Needs the extras
`ray` and `examples`.
"""

import argparse
import json
import os
import signal
import tempfile
from pathlib import Path
from typing import Any, cast

import numpy as np
import onednn_graph as og
import ray
from numpy.typing import NDArray
from ray import train
from ray.train.torch import TorchTrainer
from sklearn.datasets import load_digits  # pyright: ignore[reportUnknownVariableType] -- no type hints

BATCH, HIDDEN, CLASSES = 64, 32, 10
STATE = "state.safetensors"


def digits() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    loaded = cast("Any", load_digits())
    return (loaded.data / 16).astype(np.float32), loaded.target.astype(np.int64)


def trainer_of(comm: og.training.Communicator | None) -> og.training.Trainer:
    """Of two dense layers."""
    rng = np.random.default_rng(0)
    graph = og.Graph()
    x, labels = graph.input("x", "f32", [-1, 64]), graph.input("labels", "s64", [-1])
    w1 = graph.parameter(rng.normal(0, 0.2, (64, HIDDEN)).astype(np.float32), name="w1")
    w2 = graph.parameter(rng.normal(0, 0.2, (HIDDEN, CLASSES)).astype(np.float32), name="w2")
    scores = graph.matmul(graph.relu(graph.matmul(x, w1)), w2)
    loss = og.training.cross_entropy(graph, scores, labels)
    return og.training.Trainer(graph, loss, og.training.SGD(0.2, momentum=0.9), comm=comm)


def work(config: dict[str, Any]) -> None:
    """What each worker does."""
    with og.training.gloo() as comm:  # over the process group that Ray Train has made
        train_part(config, comm)


def train_part(config: dict[str, Any], comm: og.training.GlooCommunicator) -> None:
    trainer = trainer_of(comm)
    images, labels = digits()
    part = slice(comm.rank * BATCH // comm.size, (comm.rank + 1) * BATCH // comm.size)
    checkpoint = train.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            trainer.load(Path(folder) / STATE)
    for step in range(trainer.steps, config["steps"]):
        if step == config["lose"] and checkpoint is None and comm.rank == comm.size - 1:
            train.get_all_reported_checkpoints()  # Ray asks for reports now and then; those of a lost worker are lost
            os.kill(os.getpid(), signal.SIGKILL)
        drawn = np.random.default_rng(step).permutation(len(images))[:BATCH][
            part
        ]  # the same order everywhere
        error = trainer.step({"x": images[drawn], "labels": labels[drawn]})
        if comm.rank == 0:
            with open(config["log"], "a") as log:
                log.write(json.dumps({"step": step, "loss": error, "workers": comm.size}) + "\n")
        if trainer.steps % config["every"] == 0 or trainer.steps == config["steps"]:
            with tempfile.TemporaryDirectory() as folder:
                trainer.save(Path(folder) / STATE)  # all call it, rank 0 writes
                train.report(
                    {"step": trainer.steps, "loss": error},
                    checkpoint=train.Checkpoint.from_directory(folder) if comm.rank == 0 else None,
                )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--every", type=int, default=10, help="steps between checkpoints")
    parser.add_argument("--lose", type=int, default=None, help="kill a worker before this step")
    parser.add_argument(
        "--folder", type=Path, default=Path("ray_results"), help="of checkpoints, shared by all machines"
    )
    options = parser.parse_args()
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "log.jsonl"
    log.unlink(missing_ok=True)
    if not ray.is_initialized():
        ray.init(num_cpus=options.workers, include_dashboard=False)  # without these arguments on a cluster
    trainer = TorchTrainer(
        work,
        train_loop_config={
            "steps": options.steps,
            "every": options.every,
            "lose": options.lose,
            "log": str(log),
        },
        scaling_config=train.ScalingConfig(num_workers=options.workers),
        run_config=train.RunConfig(
            storage_path=str(folder), name="digits", failure_config=train.FailureConfig(max_failures=3)
        ),
    )
    result = trainer.fit()
    for line in map(json.loads, log.read_text().splitlines()):
        print(f"step {line['step']}: loss {line['loss']:.6f}, {line['workers']} workers")
    print(f"{result.metrics} in {result.checkpoint}")


if __name__ == "__main__":
    main()
