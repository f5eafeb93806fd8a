"""Trains torchvision's ResNet-18 on digits with torch.compile: python examples/torch_compile_resnet.py

Three lines differ from eager torch; they are marked. Where torchvision can't be imported, a small ResNet is trained.
"""

import argparse
import time

import onednn_graph.torch  # (1) for the report alone: the backend is found without
import torch
from sklearn.datasets import load_digits
from torch import nn

BATCH = 32


class Block(nn.Module):
    """Two convolutions, added to what they read."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(outputs) for _ in range(2))
        self.short = nn.Conv2d(inputs, outputs, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norms[0](self.first(x)).relu()
        return (self.norms[1](self.second(y)) + self.short(x)).relu()


class SmallResNet(nn.Module):
    """Three blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(Block(3, 16, 1), Block(16, 32, 2), Block(32, 64, 2))
        self.last = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.blocks(x).mean((2, 3)))


def network() -> nn.Module:
    try:
        from torchvision.models import resnet18
    except (ImportError, RuntimeError) as problem:  # it was built for another torch, or is not there
        print(f"torchvision can't be imported ({type(problem).__name__}): a small ResNet in its place")
        return SmallResNet()
    return resnet18(num_classes=10)


def data() -> tuple[torch.Tensor, torch.Tensor]:
    """The digits as images of three channels and 32×32, in a random order."""
    digits = load_digits()
    order = torch.randperm(len(digits.target))
    images = torch.tensor(digits.images, dtype=torch.float32)[order, None] / 8 - 1
    return nn.functional.interpolate(images, scale_factor=4).expand(-1, 3, -1, -1).contiguous(), torch.tensor(
        digits.target
    )[order]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--eager", action="store_true", help="without torch.compile")
    options = parser.parse_args()
    torch.manual_seed(0)
    images, labels = data()
    train, test = slice(0, 1472), slice(1472, None)

    model = network()
    if not options.eager:
        model = torch.compile(model, backend="onednn_graph")  # (2)
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3)
    for epoch in range(options.epochs):
        begin = time.perf_counter()
        model.train()
        for batch in torch.randperm(1472).split(BATCH):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images[train][batch]), labels[train][batch])
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch + 1}: last loss {loss.item():.3f}, {time.perf_counter() - begin:.1f} s")
    model.eval()
    with torch.no_grad():
        right = (model(images[test]).argmax(1) == labels[test]).float().mean()
    print(f"test accuracy {right:.3f}")
    print(onednn_graph.torch.report(model))  # (3)


if __name__ == "__main__":
    main()
