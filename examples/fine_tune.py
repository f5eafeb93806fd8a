"""Fine-tunes a CNN of torch on digits that it has not seen, and hands it back to torch: python examples/fine_tune.py

Torch trains it on the digits 0 to 4. Its convolutions are then frozen but for the last one, it gets a new head, and
onednn_graph trains it on the digits 5 to 9.
"""

import argparse
from pathlib import Path
from typing import Any, cast

import matplotlib
import onednn_graph as og
import torch
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits  # pyright: ignore[reportUnknownVariableType] -- no type hints
from torch import nn

BATCH, EPOCHS = 32, 6


class Network(nn.Module):
    """Three convolutions with batch normalisation, and a head for five classes."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(16, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU())
        self.third = nn.Sequential(nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU())
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(32 * 4 * 4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.drop(self.third(self.second(self.first(x))).flatten(1)))


def accuracy(network: Network, images: torch.Tensor, labels: torch.Tensor) -> float:
    with torch.no_grad():
        return float((network.eval()(images).argmax(1) == labels).float().mean())


def by_torch(network: Network, images: torch.Tensor, labels: torch.Tensor) -> None:
    """Trains it from scratch."""
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
    network.train()
    for _ in range(3):
        for batch in torch.randperm(len(images)).split(BATCH):
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(images[batch]), labels[batch]).backward()
            optimizer.step()


def by_onednn_graph(network: Network, images: torch.Tensor, labels: torch.Tensor, epochs: int) -> list[float]:
    """Trains what is not frozen on, hands it back, and returns the loss of each step."""
    graph = og.from_torch(network, (images[:BATCH],), training=True)
    x, y = graph.inputs[0], graph.input("labels", "s64", [BATCH])
    loss = og.training.cross_entropy(graph, graph.outputs[0], y)
    trainer = og.training.Trainer(graph, loss, og.training.AdamW(2e-3))
    losses: list[float] = []
    for _ in range(epochs):
        batches = torch.randperm(len(images)).split(BATCH)[:-1]  # the graph has the size of the example
        losses += [trainer.step({x: images[batch], "labels": labels[batch]}) for batch in batches]
    network.load_state_dict(trainer.export_state_dict())
    return losses


def draw(path: Path, losses: list[float]) -> None:
    figure, axes = cast("Any", plt).subplots(figsize=(7, 4), layout="constrained")
    axes.plot(losses, color="tab:blue")
    axes.set(xlabel="step", ylabel="cross-entropy", yscale="log", title="Fine-tuning on five new digits")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description="Fine-tune a CNN of torch.")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--out", type=Path, default=Path("fine_tune.png"), help="where the curve goes")
    options = parser.parse_args()
    if options.epochs < 1:
        parser.error("--epochs must be at least 1")
    matplotlib.use("Agg")  # no display needed
    torch.manual_seed(0)
    torch.set_num_threads(1)  # layers this small are done before threads wake

    digits = cast("Any", load_digits())
    images = torch.tensor(digits.images[:, None] / 16, dtype=torch.float32)
    labels = torch.tensor(digits.target)
    old, new = (labels < 5).nonzero()[:, 0], (labels >= 5).nonzero()[:, 0]
    new = new[torch.randperm(len(new))]
    training, testing = new[: len(new) * 3 // 4], new[len(new) * 3 // 4 :]

    network = Network()
    by_torch(network, images[old], labels[old])
    print(f"trained by torch on 0 to 4: accuracy {accuracy(network, images[old], labels[old]):.4f}")

    for part in (network.first, network.second):
        part.requires_grad_(False)
    network.head = nn.Linear(32 * 4 * 4, 5)
    before = accuracy(network, images[testing], labels[testing] - 5)
    network.train()
    for part in (network.first, network.second):
        part.eval()  # the statistics of frozen layers stay as they are
    losses = by_onednn_graph(network, images[training], labels[training] - 5, options.epochs)
    after = accuracy(network, images[testing], labels[testing] - 5)
    print(f"fine-tuned by onednn_graph on 5 to 9: test accuracy {before:.4f} before, {after:.4f} after")
    draw(options.out, losses)
    print(f"the network is torch's again; see {options.out}")


if __name__ == "__main__":
    main()
