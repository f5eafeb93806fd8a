"""Trains a small transformer on handwritten digits, read row by row: python examples/train_transformer.py"""

import argparse
from pathlib import Path
from typing import Any, cast

import matplotlib
import numpy as np
import onednn_graph as og
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits  # pyright: ignore[reportUnknownVariableType] -- no type hints

LENGTH, FEATURES, CLASSES = 8, 8, 10  # eight rows of eight pixels
SIZE, HEADS, LAYERS = 32, 4, 2
BATCH, EPOCHS = 47, 12


class Transformer:
    """An encoder whose parameters are held by a graph; blocks normalise what they read."""

    def __init__(self, graph: og.Graph, rng: np.random.Generator) -> None:
        self.graph = graph
        self.rng = rng

    def parameter(self, name: str, *shape: int, scale: float) -> og.LogicalTensor:
        values = self.rng.normal(0, scale, shape).astype(np.float32)
        return self.graph.parameter(values, name=name)

    def linear(self, name: str, x: og.LogicalTensor, inputs: int, outputs: int) -> og.LogicalTensor:
        weight = self.parameter(f"{name}.weight", inputs, outputs, scale=inputs**-0.5)
        bias = self.graph.parameter(np.zeros(outputs, np.float32), name=f"{name}.bias")
        return self.graph.matmul(x, weight, bias)

    def norm(self, name: str, x: og.LogicalTensor) -> og.LogicalTensor:
        gamma = self.graph.parameter(np.ones(SIZE, np.float32), name=f"{name}.gamma")
        beta = self.graph.parameter(np.zeros(SIZE, np.float32), name=f"{name}.beta")
        return self.graph.layer_norm(x, gamma, beta, keep_stats=False)

    def heads(self, x: og.LogicalTensor) -> og.LogicalTensor:
        """(batch, length, size) as (batch, heads, length, size / heads)."""
        parts = self.graph.static_reshape(x, shape=[-1, LENGTH, HEADS, SIZE // HEADS], special_zero=False)
        return self.graph.static_transpose(parts, order=[0, 2, 1, 3])

    def attention(self, name: str, x: og.LogicalTensor) -> og.LogicalTensor:
        graph = self.graph
        query, key, value = (self.heads(self.linear(f"{name}.{part}", x, SIZE, SIZE)) for part in "qkv")
        scores = graph.matmul(query, key, transpose_b=True)
        scaled = graph.divide(scores, graph.constant(np.float32((SIZE / HEADS) ** 0.5)))
        mixed = graph.matmul(graph.softmax(scaled, axis=-1), value)
        joined = graph.static_transpose(mixed, order=[0, 2, 1, 3])
        flat = graph.static_reshape(joined, shape=[-1, LENGTH, SIZE], special_zero=False)
        return self.linear(f"{name}.out", flat, SIZE, SIZE)

    def block(self, name: str, x: og.LogicalTensor) -> og.LogicalTensor:
        x = self.graph.add(x, self.attention(f"{name}.attention", self.norm(f"{name}.norm1", x)))
        wide = self.graph.gelu(self.linear(f"{name}.up", self.norm(f"{name}.norm2", x), SIZE, 4 * SIZE))
        return self.graph.add(x, self.linear(f"{name}.down", wide, 4 * SIZE, SIZE))

    def logits(self, rows: og.LogicalTensor) -> og.LogicalTensor:
        position = self.parameter("position", LENGTH, SIZE, scale=0.1)
        x = self.graph.add(self.linear("embedding", rows, FEATURES, SIZE), position)
        for number in range(LAYERS):
            x = self.block(f"block{number}", x)
        mean = self.graph.reduce_mean(self.norm("norm", x), axes=[1])
        return self.graph.output(self.linear("head", mean, SIZE, CLASSES), name="logits")


def draw(path: Path, losses: list[float], accuracy: list[float]) -> None:
    """The loss of each step, and the accuracy after each epoch."""
    figure, axes = cast("Any", plt).subplots(figsize=(7, 4), layout="constrained")
    steps = np.arange(1, len(losses) + 1) / (len(losses) / len(accuracy))
    axes.plot(steps, losses, color="tab:blue", alpha=0.6, label="loss of each batch")
    axes.set(
        xlabel="epoch", ylabel="cross-entropy", yscale="log", title="A transformer reads digits row by row"
    )
    right = axes.twinx()
    right.plot(range(1, len(accuracy) + 1), accuracy, color="tab:orange", label="test accuracy")
    right.set(ylabel="accuracy", ylim=(0, 1))
    figure.legend(loc="outside lower center", ncols=2)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a small transformer on handwritten digits.")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--out", type=Path, default=Path("transformer.png"), help="where the curves go")
    options = parser.parse_args()
    if options.epochs < 1:
        parser.error("--epochs must be at least 1")
    matplotlib.use("Agg")  # no display needed

    digits, rng = cast("Any", load_digits()), np.random.default_rng(0)
    rows, labels = (digits.images / 16).astype(np.float32), digits.target.astype(np.int64)
    training, testing = np.split(rng.permutation(len(rows)), [1410])
    count = len(training) // BATCH

    graph = og.Graph()
    x, y = graph.input("x", "f32", [-1, LENGTH, FEATURES]), graph.input("y", "s64", [-1])
    loss = og.training.cross_entropy(graph, Transformer(graph, rng).logits(x), y, label_smoothing=0.05)
    steps, warm = options.epochs * count, count
    schedule = og.training.WarmUp(og.training.Cosine(4e-3, steps - warm), warm)
    trainer = og.training.Trainer(graph, loss, og.training.AdamW(schedule, weight_decay=0.01))

    losses: list[float] = []
    accuracy: list[float] = []
    for epoch in range(options.epochs):
        batches = np.split(rng.permutation(training), count)
        losses += [trainer.step({"x": rows[batch], "y": labels[batch]}) for batch in batches]
        found = trainer.evaluate({"x": rows[testing]})["logits"].argmax(1)
        accuracy.append(float((found == labels[testing]).mean()))
        print(f"epoch {epoch + 1:2}: loss {np.mean(losses[-count:]):.4f}, test accuracy {accuracy[-1]:.4f}")
    draw(options.out, losses, accuracy)
    print(f"{len(graph.parameters)} parameters, final test accuracy {accuracy[-1]:.4f}; see {options.out}")


if __name__ == "__main__":
    main()
