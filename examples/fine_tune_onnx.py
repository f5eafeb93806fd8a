"""Fine-tunes a file of ONNX and writes it back: python examples/fine_tune_onnx.py

Torch trains a small ResNet on the digits 0 to 4 and exports it. From there on there is the file alone: its first
layers are frozen, it gets a new head, learns the digits 5 to 9, and becomes a file of ONNX again.
"""

import argparse
import warnings
from pathlib import Path
from typing import Any, cast

import matplotlib
import numpy as np
import onednn_graph as og
import torch
from matplotlib import pyplot as plt
from numpy.typing import NDArray
from sklearn.datasets import load_digits  # pyright: ignore[reportUnknownVariableType] -- no type hints
from torch import nn

Array = NDArray[Any]


class Block(nn.Module):
    """Two convolutions with batch normalisation, added to what they read."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x + self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))).relu()


def pretrained(path: Path, images: Array, labels: Array) -> None:
    """Torch trains a network on five classes and writes it to a file."""
    stem = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
    body = nn.Sequential(Block(16), nn.MaxPool2d(2), Block(16))
    network = nn.Sequential()
    for name, part in (("stem", stem), ("body", body), ("flat", nn.Flatten()), ("fc", nn.Linear(256, 5))):
        network.add_module(name, part)
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
    for _ in range(3):
        for batch in np.array_split(np.random.default_rng(0).permutation(len(images)), len(images) // 32):
            optimizer.zero_grad()
            x, y = torch.from_numpy(images[batch]), torch.from_numpy(labels[batch])
            nn.functional.cross_entropy(network(x), y).backward()
            optimizer.step()
    warnings.simplefilter("ignore", DeprecationWarning)  # torch has a newer exporter, too
    torch.onnx.export(
        network.eval(), (torch.from_numpy(images[:2]),), str(path), input_names=["x"], output_names=["logits"],
        dynamic_axes={"x": {0: "batch"}, "logits": {0: "batch"}}, dynamo=False,
        training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False,  # normalisations stay by themselves
    )  # fmt: skip


def fine_tuned(path: Path, new: Path, images: Array, labels: Array, epochs: int) -> list[float]:
    """From a file to a file; returns the loss of each step."""
    graph = og.from_onnx(path, training=True, frozen=["stem.*"])
    logits = og.training.replace_head(graph, classes=5)
    loss = og.training.cross_entropy(graph, logits, graph.input("labels", "s64", [-1]))
    trainer = og.training.Trainer(graph, loss, og.training.AdamW(2e-3), deterministic=True)
    losses: list[float] = []
    for epoch in range(epochs):
        batches = np.array_split(np.random.default_rng(epoch).permutation(len(images)), len(images) // 32)
        losses += [trainer.step({"x": images[batch], "labels": labels[batch]}) for batch in batches]
    trainer.model().to_onnx(new)
    return losses


def accuracy(path: Path, images: Array, labels: Array) -> float:
    found = og.from_onnx(path).compile()(images)["logits"].argmax(1)
    return float(np.mean(found == labels))


def draw(path: Path, losses: list[float]) -> None:
    figure, axes = cast("Any", plt).subplots(figsize=(7, 4), layout="constrained")
    axes.plot(losses, color="tab:blue")
    axes.set(
        xlabel="step",
        ylabel="cross-entropy",
        yscale="log",
        title="Fine-tuning a file of ONNX on five new digits",
    )
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description="Fine-tune a file of ONNX.")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--out", type=Path, default=Path("fine_tune_onnx.png"), help="where the curve goes")
    options = parser.parse_args()
    if options.epochs < 1:
        parser.error("--epochs must be at least 1")
    matplotlib.use("Agg")  # no display needed
    torch.manual_seed(0)
    torch.set_num_threads(1)  # layers this small are done before threads wake

    digits = cast("Any", load_digits())
    images, labels = (digits.images[:, None] / 16).astype(np.float32), digits.target.astype(np.int64)
    old, new = np.flatnonzero(labels < 5), np.random.default_rng(0).permutation(np.flatnonzero(labels >= 5))
    training, testing = np.split(new, [len(new) * 3 // 4])

    file, tuned = options.out.with_name("digits_0_to_4.onnx"), options.out.with_name("digits_5_to_9.onnx")
    pretrained(file, images[old], labels[old])
    before = accuracy(file, images[testing], labels[testing] - 5)
    losses = fine_tuned(file, tuned, images[training], labels[training] - 5, options.epochs)
    after = accuracy(tuned, images[testing], labels[testing] - 5)
    print(f"test accuracy on 5 to 9: {before:.4f} by {file.name}, {after:.4f} by {tuned.name}")
    draw(options.out, losses)
    print(f"the loss of each step is in {options.out.name}")


if __name__ == "__main__":
    main()
