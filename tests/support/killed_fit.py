"""A training that is killed and started again until it is done: `python killed_fit.py FOLDER`."""

import sys
import warnings
from pathlib import Path

import numpy as np
import onednn_graph as og

T = og.training


def run(folder, epochs=6):
    """Trains, or goes on; the weights and what is told."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(50, 30)).astype(np.float32)
    graph = og.Graph()
    given, labels = graph.input("x", "f32", [-1, 30]), graph.input("y", "s64", [-1])
    weights = graph.parameter(rng.normal(size=(30, 500)).astype(np.float32), name="w")
    last = graph.parameter(rng.normal(size=(500, 3)).astype(np.float32), name="v")
    scores = graph.output(graph.matmul(graph.relu(graph.matmul(given, weights)), last), name="scores")
    trainer = T.Trainer(graph, T.cross_entropy(graph, scores, labels), T.Adam(1e-3), deterministic=True)
    batches = T.Loader(
        {"x": x, "y": x[:, :3].argmax(1)}, 4, shuffle=True, transform=noisy, prefetch=2, threads=2
    )
    accuracy = {"accuracy": T.Accuracy("scores", "y")}
    kept = T.Checkpoints(trainer, folder / "kept", every=1, best="accuracy", mode="max")
    trainer.load_newest(folder / "kept")
    try:
        trainer.fit(
            batches, epochs, training_metrics=accuracy, callbacks=[T.CsvLog(folder / "log.csv"), kept]
        )
    except KeyboardInterrupt:
        trainer.save(folder / "kept" / f"step-{trainer.steps:010d}.safetensors")
        sys.exit(9)
    return {"w": graph.parameters["w"], "v": graph.parameters["v"], "steps": np.array(trainer.steps)}


def noisy(batch, rng):
    return {**batch, "x": batch["x"] + rng.normal(scale=0.1, size=batch["x"].shape).astype(np.float32)}


if __name__ == "__main__":
    place = Path(sys.argv[1])
    with warnings.catch_warnings():
        warnings.simplefilter("error", og.errors.CheckpointWarning)  # no file is ever damaged by a kill
        found = run(place)
    np.savez(place / "done.npz", **found)
