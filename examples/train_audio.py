"""Takes the noise off tones, by a network of transposed 1-D convolutions: python examples/train_audio.py

Every clip is a chord of a few tones that fade, in noise as loud as they are. The network halves the length twice and
doubles it twice, by transposed convolutions. What it wins is said in decibels, on new clips.
"""

import argparse

import numpy as np
import onednn_graph as og
from numpy.typing import NDArray

LENGTH, RATE, BATCH, STEPS = 1024, 8000, 16, 300
WIDTH, KERNEL = 16, 16
PAD = KERNEL // 2 - 1  # so that a stride of 2 halves the length, and doubles it


def clips(rng: np.random.Generator, count: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Noisy clips and clean ones, (count, length, 1)."""
    seconds = np.arange(LENGTH) / RATE
    pitch = rng.uniform(100, 800, (count, 3, 1))
    phase = rng.uniform(0, 2 * np.pi, (count, 3, 1))
    fading = np.exp(-seconds * rng.uniform(2, 10, (count, 3, 1)))
    clean: NDArray[np.float64] = np.sum(np.sin(2 * np.pi * pitch * seconds + phase) * fading, axis=1)
    clean /= clean.std(1, keepdims=True)
    noise = rng.standard_normal((count, LENGTH), np.float32)
    heard = clean.astype(np.float32)
    return (heard + noise)[..., None], heard[..., None]


class Denoiser:
    """Down twice, up twice, with what went down added on the way up."""

    def __init__(self, graph: og.Graph, rng: np.random.Generator) -> None:
        self.graph, self.rng = graph, rng

    def weights(self, name: str, *shape: int, reads: int) -> og.LogicalTensor:
        values = self.rng.normal(0, np.sqrt(2 / (KERNEL * reads)), shape).astype(np.float32)
        return self.graph.parameter(values, name=name)

    def down(self, name: str, x: og.LogicalTensor, inputs: int, outputs: int) -> og.LogicalTensor:
        """A convolution that halves the length; weights are (X, I, O)."""
        made = self.weights(name, KERNEL, inputs, outputs, reads=inputs)
        return self.graph.convolution(x, made, strides=[2], pads_begin=[PAD], pads_end=[PAD], dilations=[1])

    def up(self, name: str, x: og.LogicalTensor, inputs: int, outputs: int) -> og.LogicalTensor:
        """A transposed convolution that doubles the length; weights are (X, O, I)."""
        made = self.weights(name, KERNEL, outputs, inputs, reads=inputs)
        return self.graph.conv_transpose(
            x, made, strides=[2], pads_begin=[PAD], pads_end=[PAD], dilations=[1]
        )

    def clean(self, noisy: og.LogicalTensor) -> og.LogicalTensor:
        graph = self.graph
        half = graph.tanh(self.down("down1", noisy, 1, WIDTH))
        quarter = graph.relu(self.down("down2", half, WIDTH, 2 * WIDTH))
        up = graph.relu(self.up("up2", quarter, 2 * WIDTH, WIDTH))
        made = self.up("up1", graph.add(up, half), WIDTH, 1)
        return graph.output(made, name="clean")


def decibels(found: NDArray[np.float32], clean: NDArray[np.float32]) -> float:
    """How much louder the clean clips are than what differs from them."""
    return float(10 * np.log10((clean**2).mean() / ((found - clean) ** 2).mean()))


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a network to take noise off tones.")
    parser.add_argument("--steps", type=int, default=STEPS)
    options = parser.parse_args()
    if options.steps < 1:
        parser.error("--steps must be at least 1")
    rng = np.random.default_rng(0)
    graph = og.Graph()
    noisy, target = (graph.input(name, "f32", [BATCH, LENGTH, 1]) for name in ("noisy", "target"))
    loss = og.training.mean_squared_error(graph, Denoiser(graph, rng).clean(noisy), target)
    rate = og.training.Cosine(5e-3, options.steps)
    trainer = og.training.Trainer(graph, loss, og.training.Adam(rate), deterministic=True)
    for step in range(options.steps):
        heard, clean = clips(rng, BATCH)
        told = trainer.step({"noisy": heard, "target": clean})
        if (step + 1) % 50 == 0:
            print(f"step {step + 1:3}: loss {told:.4f}")
    heard, clean = clips(rng, BATCH)
    found = trainer.evaluate({"noisy": heard})["clean"]
    print(f"tones to noise: {decibels(heard, clean):.1f} dB before, {decibels(found, clean):.1f} dB after")


if __name__ == "__main__":
    main()
