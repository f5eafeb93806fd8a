"""Trains a U-Net to tell discs and squares from a noisy background, pixel by pixel: python examples/train_unet.py"""

import argparse
from pathlib import Path
from typing import Any, cast

import matplotlib
import numpy as np
import onednn_graph as og
from matplotlib import pyplot as plt
from numpy.typing import NDArray

Array = NDArray[Any]

SIDE, CLASSES = 32, 3  # background, disc, square
BATCH, STEPS, WIDTH = 16, 250, 8


def shapes(rng: np.random.Generator, count: int) -> tuple[Array, Array]:
    """Images (count, side, side, 1) of a bright disc and a dim square, in noise, and the class of each pixel."""
    row, column = np.mgrid[:SIDE, :SIDE]
    classes = np.zeros((count, SIDE, SIDE), np.int64)
    for image in classes:
        for kind in rng.permutation([1, 2]):
            y, x = rng.uniform(6, SIDE - 6, 2)
            size = rng.uniform(5, 8)
            down, right = abs(row - y), abs(column - x)
            away = np.hypot(down, right) if kind == 1 else np.maximum(down, right)
            image[away < size] = kind
    light = np.choose(classes, [0.0, 1.0, 0.6]) + rng.normal(0, 0.25, classes.shape)
    return light[..., None].astype(np.float32), classes


class UNet:
    """Two levels down and up; transposed convolutions double the sizes, and join what went down."""

    def __init__(self, graph: og.Graph, rng: np.random.Generator) -> None:
        self.graph = graph
        self.rng = rng

    def weights(self, name: str, *shape: int) -> og.LogicalTensor:
        values = self.rng.normal(0, np.sqrt(2 / np.prod(shape[:-1])), shape).astype(np.float32)
        return self.graph.parameter(values, name=name)

    def channels(self, name: str, count: int, value: float) -> og.LogicalTensor:
        return self.graph.parameter(np.full(count, value, np.float32), name=name)

    def convolution(self, name: str, x: og.LogicalTensor, inputs: int, outputs: int) -> og.LogicalTensor:
        """A convolution of 3 × 3, a normalisation of groups of channels, ReLU."""
        made = self.graph.convolution(
            x,
            self.weights(f"{name}.weight", 3, 3, inputs, outputs),
            strides=[1, 1],
            pads_begin=[1, 1],
            pads_end=[1, 1],
            dilations=[1, 1],
        )
        gamma, beta = self.channels(f"{name}.gamma", outputs, 1), self.channels(f"{name}.beta", outputs, 0)
        return self.graph.relu(self.graph.group_norm(made, gamma, beta, groups=4, keep_stats=False))

    def down(self, x: og.LogicalTensor) -> og.LogicalTensor:
        return self.graph.max_pool(x, kernel=[2, 2], strides=[2, 2], pads_begin=[0, 0], pads_end=[0, 0])

    def up(self, name: str, x: og.LogicalTensor, inputs: int, outputs: int) -> og.LogicalTensor:
        """A transposed convolution of 2 × 2 that doubles height and width; its weights are (X, O, I)."""
        return self.graph.conv_transpose(
            x,
            self.weights(f"{name}.weight", 2, 2, outputs, inputs),
            self.channels(f"{name}.bias", outputs, 0),
            strides=[2, 2],
            pads_begin=[0, 0],
            pads_end=[0, 0],
            dilations=[1, 1],
        )

    def logits(self, image: og.LogicalTensor) -> og.LogicalTensor:
        first = self.convolution("down1", image, 1, WIDTH)
        second = self.convolution("down2", self.down(first), WIDTH, 2 * WIDTH)
        middle = self.convolution("middle1", self.down(second), 2 * WIDTH, 4 * WIDTH)
        middle = self.convolution("middle2", middle, 4 * WIDTH, 4 * WIDTH)
        x = self.graph.concat(self.up("up2", middle, 4 * WIDTH, 2 * WIDTH), second, axis=3)
        x = self.convolution("join2", x, 4 * WIDTH, 2 * WIDTH)
        x = self.graph.concat(self.up("up1", x, 2 * WIDTH, WIDTH), first, axis=3)
        x = self.convolution("join1", x, 2 * WIDTH, WIDTH)
        x = self.graph.matmul(x, self.weights("out.weight", WIDTH, CLASSES))
        return self.graph.output(x, name="logits")


def draw(path: Path, losses: list[float], images: Array, classes: Array, found: Array) -> None:
    """The loss of each step, and three images with what they show and what was found."""
    figure, axes = cast("Any", plt).subplots(
        3, 4, figsize=(10, 6), layout="constrained", width_ratios=[2, 1, 1, 1]
    )
    for row in axes[:, 0]:
        row.remove()
    curve = figure.add_subplot(axes[0, 0].get_gridspec()[:, 0])
    curve.plot(losses, color="tab:blue")
    curve.set(xlabel="step", ylabel="cross-entropy of a pixel", yscale="log", title="Training loss")
    for number, row in enumerate(axes[:, 1:]):
        pictures = (images[number, ..., 0], classes[number], found[number])
        for place, title, picture in zip(row, ("image", "classes", "found"), pictures, strict=True):
            place.imshow(picture, cmap="gray" if title == "image" else "viridis")
            place.set(xticks=[], yticks=[], title=title if number == 0 else "")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a U-Net to segment shapes.")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--out", type=Path, default=Path("unet.png"), help="where the curves go")
    options = parser.parse_args()
    if options.steps < 1:
        parser.error("--steps must be at least 1")
    matplotlib.use("Agg")  # no display needed

    rng = np.random.default_rng(0)
    graph = og.Graph()
    x, y = graph.input("x", "f32", [BATCH, SIDE, SIDE, 1]), graph.input("y", "s64", [BATCH, SIDE, SIDE])
    loss = og.training.cross_entropy(graph, UNet(graph, rng).logits(x), y)
    schedule = og.training.Cosine(1e-2, options.steps)
    trainer = og.training.Trainer(graph, loss, og.training.Adam(schedule))

    losses: list[float] = []
    for step in range(options.steps):
        images, classes = shapes(rng, BATCH)
        losses.append(trainer.step({"x": images, "y": classes}))
        if (step + 1) % 25 == 0:
            print(f"step {step + 1:3}: loss {np.mean(losses[-25:]):.4f}")

    images, classes = shapes(rng, BATCH)
    found = trainer.evaluate({"x": images})["logits"].argmax(-1)
    draw(options.out, losses, images, classes, found)
    overlap = [np.sum((found == k) & (classes == k)) / np.sum((found == k) | (classes == k)) for k in (1, 2)]
    print(f"{np.mean(found == classes):.4f} of the pixels of new images are right")
    print(f"overlap of discs {overlap[0]:.4f} and of squares {overlap[1]:.4f}; see {options.out}")


if __name__ == "__main__":
    main()
