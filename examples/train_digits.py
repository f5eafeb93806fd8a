"""Trains a small CNN on handwritten digits, to 97 % of images that it has not seen: python examples/train_digits.py"""

from typing import Any, cast

import numpy as np
import onednn_graph as og
from sklearn.datasets import load_digits  # pyright: ignore[reportUnknownVariableType] -- no type hints

digits, rng = cast("Any", load_digits()), np.random.default_rng(0)
images, labels = (digits.images[..., None] / 16).astype(np.float32), digits.target.astype(np.int64)
training, testing = np.split(rng.permutation(len(images)), [1437])

graph = og.Graph()


def weights(name: str, *shape: int) -> og.LogicalTensor:
    scale = np.sqrt(2 / np.prod(shape[:-1]))
    return graph.parameter(rng.normal(0, scale, shape).astype(np.float32), name=name)


def convolution(x: og.LogicalTensor, w: og.LogicalTensor, stride: int) -> og.LogicalTensor:
    pads, strides, dense = [1, 1], [stride, stride], [1, 1]
    return graph.relu(
        graph.convolution(x, w, strides=strides, pads_begin=pads, pads_end=pads, dilations=dense)
    )


x, y = graph.input("x", "f32", [-1, 8, 8, 1]), graph.input("y", "s64", [-1])
hidden = convolution(convolution(x, weights("conv1", 3, 3, 1, 16), 1), weights("conv2", 3, 3, 16, 32), 2)
flat = graph.static_reshape(hidden, shape=[-1, 512], special_zero=False)
logits = graph.output(graph.matmul(flat, weights("dense", 512, 10), name="logits"))
loss = og.training.cross_entropy(graph, logits, y)

trainer = og.training.Trainer(graph, loss, og.training.AdamW(og.training.Cosine(2e-3, 8 * 44)))
for epoch in range(8):
    batches = np.array_split(rng.permutation(training)[: 44 * 32], 44)
    losses = [trainer.step({"x": images[batch], "y": labels[batch]}) for batch in batches]
    found = trainer.evaluate({"x": images[testing]})["logits"].argmax(1)
    print(f"epoch {epoch}: loss {np.mean(losses):.4f}, test accuracy {np.mean(found == labels[testing]):.4f}")
