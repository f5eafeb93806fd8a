"""Trains a small convolutional network on real handwritten digits; onednn_graph computes the weight gradients.

    python examples/digits_cnn.py [--epochs 12] [--out digits_cnn.png]

The data are the 1797 images of 8x8 pixels of `sklearn.datasets.load_digits`. The network is two convolutions, the
second with stride 2, and a dense layer. The forward pass and the data gradients are plain NumPy; the gradients of the
convolutions' weights come from one graph of two ConvolutionBackwardWeights. Before training these are compared with
central finite differences of the loss, weight by weight.
"""

import argparse
import time
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, cast

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import onednn_graph as og
from matplotlib.ticker import PercentFormatter
from numpy.typing import NDArray
from sklearn.datasets import load_digits  # pyright: ignore[reportUnknownVariableType] -- no type hints
from threadpoolctl import threadpool_limits

Array: TypeAlias = NDArray[Any]
Weights: TypeAlias = dict[str, Array]

KERNEL, PAD, CLASSES = 3, 1, 10
BATCH, LEARNING_RATE, MOMENTUM = 64, 0.05, 0.9


class Convolution(NamedTuple):
    """A layer of 3x3 filters. Images are NXC and weights XIO, which are the defaults of oneDNN Graph's ops."""

    stride: int
    src: tuple[int, int, int]  # height, width, channels
    dst: tuple[int, int, int]

    @property
    def weights_shape(self) -> tuple[int, int, int, int]:
        return (KERNEL, KERNEL, self.src[-1], self.dst[-1])


CONV1 = Convolution(stride=1, src=(8, 8, 1), dst=(8, 8, 16))
CONV2 = Convolution(stride=2, src=(8, 8, 16), dst=(4, 4, 32))
LAYERS = {"conv1": CONV1, "conv2": CONV2}


# --- the part that onednn_graph does -----------------------------------------------------------------


def weight_gradients(data_type: str) -> og.CompiledGraph:
    """Compiles the weight gradients of both convolutions, for batches of any size (-1).

    f32 goes to oneDNN; f64, which finite differences need, to NumPy.
    """
    graph = og.Graph()
    for name, layer in LAYERS.items():
        graph.op(
            "ConvolutionBackwardWeights",
            graph.input(f"{name}.src", data_type, [-1, *layer.src]),
            graph.input(f"{name}.diff_dst", data_type, [-1, *layer.dst]),
            weights_shape=layer.weights_shape,
            strides=[layer.stride, layer.stride],
            pads_begin=[PAD, PAD],
            pads_end=[PAD, PAD],
            dilations=[1, 1],
            name=name,  # also the name of the result
        )
    return graph.compile()


# --- the rest of the network, in NumPy ---------------------------------------------------------------


def convolve(x: Array, weights: Array, stride: int) -> Array:
    padded = np.pad(x, ((0, 0), (PAD, PAD), (PAD, PAD), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (KERNEL, KERNEL), axis=(1, 2))
    return np.tensordot(windows[:, ::stride, ::stride], weights, axes=((4, 5, 3), (0, 1, 2)))


def data_gradient(diff_dst: Array, weights: Array, stride: int, src: Array) -> Array:
    batch, height, width, channels = src.shape
    padded = np.zeros((batch, height + 2 * PAD, width + 2 * PAD, channels), src.dtype)
    for row in range(KERNEL):
        for column in range(KERNEL):
            reached = padded[:, row : row + height : stride, column : column + width : stride]
            reached += diff_dst @ weights[row, column].T
    return padded[:, PAD:-PAD, PAD:-PAD]


def forward(weights: Weights, images: Array) -> dict[str, Array]:
    """All activations; `logits` are the last."""
    hidden1 = np.maximum(convolve(images, weights["conv1"], CONV1.stride), 0)
    hidden2 = np.maximum(convolve(hidden1, weights["conv2"], CONV2.stride), 0)
    logits = hidden2.reshape(len(images), -1) @ weights["dense"]
    return {"images": images, "hidden1": hidden1, "hidden2": hidden2, "logits": logits}


def cross_entropy(logits: Array, labels: Array) -> tuple[float, Array]:
    """The mean loss and its gradient by the logits."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_likelihood = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    rows = np.arange(len(labels))
    gradient = np.exp(log_likelihood)
    gradient[rows, labels] -= 1
    return float(-log_likelihood[rows, labels].mean()), gradient / len(labels)


def loss_and_gradients(
    weights: Weights, images: Array, labels: Array, graph: og.CompiledGraph
) -> tuple[float, Weights]:
    """One forward and one backward pass."""
    a = forward(weights, images)
    loss, diff_logits = cross_entropy(a["logits"], labels)
    diff_hidden2 = (diff_logits @ weights["dense"].T).reshape(a["hidden2"].shape) * (a["hidden2"] > 0)
    diff_hidden1 = data_gradient(diff_hidden2, weights["conv2"], CONV2.stride, a["hidden1"])
    results = graph(
        {
            "conv1.src": images,
            "conv1.diff_dst": diff_hidden1 * (a["hidden1"] > 0),
            "conv2.src": a["hidden1"],
            "conv2.diff_dst": diff_hidden2,
        }
    )
    dense = a["hidden2"].reshape(len(images), -1).T @ diff_logits
    return loss, {"conv1": results["conv1"], "conv2": results["conv2"], "dense": dense}


def accuracy(weights: Weights, images: Array, labels: Array) -> float:
    return float((forward(weights, images)["logits"].argmax(axis=1) == labels).mean())


# --- checking, training, drawing ---------------------------------------------------------------------


def check_gradients(weights: Weights, images: Array, labels: Array, graph: og.CompiledGraph) -> None:
    """Compares every weight gradient of both convolutions with (loss(w + h) − loss(w − h)) / 2h in float64."""
    double = {name: value.astype(np.float64) for name, value in weights.items()}
    exact = weight_gradients("f64")
    _, by_numpy = loss_and_gradients(double, images.astype(np.float64), labels, exact)
    _, by_onednn = loss_and_gradients(weights, images, labels, graph)
    for layer in LAYERS:
        numeric = np.empty_like(by_numpy[layer])
        for index in np.ndindex(numeric.shape):
            losses: list[float] = []
            for step in (1e-5, -1e-5):
                moved = double[layer].copy()
                moved[index] += step
                logits = forward(double | {layer: moved}, images)["logits"]
                losses.append(cross_entropy(logits, labels)[0])
            numeric[index] = (losses[0] - losses[1]) / 2e-5
        largest = np.abs(numeric).max()
        errors = [np.abs(g[layer] - numeric).max() / largest for g in (by_numpy, by_onednn)]
        print(
            f"{layer}: {numeric.size} weight gradients against finite differences, max relative error "
            f"{errors[0]:.1e} in f64 (numpy), {errors[1]:.1e} in f32 ({graph.partitions[0].backend})"
        )
        if errors[0] > 1e-6 or errors[1] > 1e-4:
            raise SystemExit(f"{layer}: the weight gradients are wrong")


def draw(path: Path, losses: list[float], train: list[float], test: list[float]) -> None:
    """Loss by step and accuracy by epoch, side by side."""
    steps = len(losses) / len(test)
    epochs = np.arange(1, len(test) + 1)
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    figure.suptitle(  # pyright: ignore[reportUnknownMemberType] -- Matplotlib's **kwargs have no types
        "A CNN on handwritten digits, weight gradients by onednn_graph"
    )
    left.plot(np.arange(1, len(losses) + 1) / steps, losses, color="tab:blue", alpha=0.3, label="each batch")
    means = np.reshape(losses, (len(test), -1)).mean(axis=1)
    left.plot(epochs - 0.5, means, color="tab:blue", marker="o", label="mean of the epoch")
    left.set(title="Training loss", xlabel="epoch", ylabel="cross-entropy", yscale="log")
    right.plot(epochs, train, color="tab:green", marker="o", label="training images")
    right.plot(epochs, test, color="tab:orange", marker="o", label="test images")
    right.set(title=f"Accuracy, {test[-1]:.1%} on test images at the end", xlabel="epoch", ylabel="accuracy")
    right.yaxis.set_major_formatter(PercentFormatter(1, 0))
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.xaxis.get_major_locator().set_params(integer=True)
    left.legend(loc="upper right")
    right.legend(loc="lower right")
    figure.savefig(path, dpi=120)  # pyright: ignore[reportUnknownMemberType] -- as above
    plt.close(figure)


def train(graph: og.CompiledGraph, epochs: int) -> tuple[list[float], list[float], list[float]]:
    """The loss of each step, and the accuracy on training and test images after each epoch."""
    digits = cast("Any", load_digits())
    images: Array = (digits.images[..., np.newaxis] / 16).astype(np.float32)
    labels: Array = digits.target
    rng = np.random.default_rng(0)
    training, testing = np.split(rng.permutation(len(images)), [1437])  # 80 % and 20 %

    shapes = {name: layer.weights_shape for name, layer in LAYERS.items()}
    weights: Weights = {
        name: rng.normal(0, np.sqrt(2 / np.prod(shape[:-1])), shape).astype(np.float32)
        for name, shape in (shapes | {"dense": (int(np.prod(CONV2.dst)), CLASSES)}).items()
    }
    velocity = {name: np.zeros_like(value) for name, value in weights.items()}
    check_gradients(weights, images[training[:8]], labels[training[:8]], graph)

    losses: list[float] = []
    train_accuracy: list[float] = []
    test_accuracy: list[float] = []
    start = time.perf_counter()
    for epoch in range(1, epochs + 1):
        order, done = rng.permutation(training), len(losses)
        for batch in np.split(order, range(BATCH, len(order), BATCH)):  # the last one is smaller
            loss, gradients = loss_and_gradients(weights, images[batch], labels[batch], graph)
            losses.append(loss)
            for name, gradient in gradients.items():
                velocity[name] = MOMENTUM * velocity[name] - LEARNING_RATE * gradient
                weights[name] += velocity[name]
        train_accuracy.append(accuracy(weights, images[training], labels[training]))
        test_accuracy.append(accuracy(weights, images[testing], labels[testing]))
        print(f"epoch {epoch:2}: loss {np.mean(losses[done:]):.4f}, test accuracy {test_accuracy[-1]:.4f}")
    print(f"{len(losses)} steps in {time.perf_counter() - start:.1f} s, weight gradients by")
    for partition in graph.partitions:
        print(f"  {partition}", str(graph.explain()[partition.id]).replace("\n", "\n    "), sep="\n    ")
    return losses, train_accuracy, test_accuracy


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a small CNN on handwritten digits.")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--out", type=Path, default=Path("digits_cnn.png"), help="where the curves go")
    options = parser.parse_args()
    if options.epochs < 1:
        parser.error("--epochs must be at least 1")
    matplotlib.use("Agg")  # no display needed
    graph = weight_gradients("f32")  # compiled once, used at every step; loads oneDNN
    with threadpool_limits(
        1
    ):  # for all libraries loaded by now: layers this small are done before threads wake
        losses, train_accuracy, test_accuracy = train(graph, options.epochs)
    draw(options.out, losses, train_accuracy, test_accuracy)
    print(f"final test accuracy {test_accuracy[-1]:.4f}; the learning curve is in {options.out}")


if __name__ == "__main__":
    main()
