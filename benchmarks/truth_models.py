"""The networks of `training_truth.py`: torch modules that return their loss, in the usual size and in a small one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

import torch
from attrs import frozen
from torch import nn
from torch.nn import functional

Tensor = torch.Tensor
CLASSES = 10


class _Basic(nn.Module):
    """ResNet's basic block, in two or three dimensions."""

    def __init__(self, inputs: int, outputs: int, stride: int, rank: int = 2) -> None:
        super().__init__()
        conv, norm = (nn.Conv2d, nn.BatchNorm2d) if rank == 2 else (nn.Conv3d, nn.BatchNorm3d)
        self.conv1, self.bn1 = conv(inputs, outputs, 3, stride, 1, bias=False), norm(outputs)
        self.conv2, self.bn2 = conv(outputs, outputs, 3, 1, 1, bias=False), norm(outputs)
        self.beside: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.beside = nn.Sequential(conv(inputs, outputs, 1, stride, bias=False), norm(outputs))

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.bn1(self.conv1(x)))
        return functional.relu(self.bn2(self.conv2(y)) + self.beside(x))


def _residual(width: int) -> nn.Module:
    """ResNet-18 with a width of 64."""
    widths = [width, width, 2 * width, 4 * width, 8 * width]
    blocks = [
        block
        for n, (a, b) in enumerate(itertools.pairwise(widths))
        for block in (_Basic(a, b, 1 if n == 0 else 2), _Basic(b, b, 1))
    ]
    return nn.Sequential(
        nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
        *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], CLASSES),
    )  # fmt: skip


def _volumes(width: int) -> nn.Module:
    """A residual network on volumes, with pooling of windows of three dimensions."""
    return nn.Sequential(
        nn.Conv3d(1, width, 3, padding=1, bias=False), nn.BatchNorm3d(width), nn.ReLU(), nn.MaxPool3d(2),
        _Basic(width, width, 1, 3), _Basic(width, 2 * width, 2, 3), _Basic(2 * width, 4 * width, 2, 3),
        nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(4 * width, CLASSES),
    )  # fmt: skip


class _Inverted(nn.Module):
    """MobileNetV3's block, with squeeze and excitation where it is asked for."""

    def __init__(
        self, inputs: int, kernel: int, wide: int, outputs: int, squeeze: bool, hard: bool, stride: int
    ) -> None:
        super().__init__()
        self.own = stride == 1 and inputs == outputs
        activation = nn.Hardswish if hard else nn.ReLU
        layers: list[nn.Module] = []
        if wide != inputs:
            layers += [nn.Conv2d(inputs, wide, 1, bias=False), nn.BatchNorm2d(wide, 1e-3), activation()]
        layers += [
            nn.Conv2d(wide, wide, kernel, stride, kernel // 2, groups=wide, bias=False),
            nn.BatchNorm2d(wide, 1e-3),
            activation(),
        ]
        self.before = nn.Sequential(*layers)
        few = max(8, (wide // 4 + 4) // 8 * 8)
        self.squeeze: nn.Module | None = None
        if squeeze:
            self.squeeze = nn.Sequential(
                nn.AdaptiveAvgPool2d(1),
                nn.Conv2d(wide, few, 1),
                nn.ReLU(),
                nn.Conv2d(few, wide, 1),
                nn.Hardsigmoid(),
            )
        self.after = nn.Sequential(nn.Conv2d(wide, outputs, 1, bias=False), nn.BatchNorm2d(outputs, 1e-3))

    def forward(self, x: Tensor) -> Tensor:
        y = self.before(x)
        if self.squeeze is not None:
            y = y * self.squeeze(y)
        y = self.after(y)
        return x + y if self.own else y


MOBILE = (
    (3, 16, 16, True, False, 2), (3, 72, 24, False, False, 2), (3, 88, 24, False, False, 1), (5, 96, 40, True, True, 2),
    (5, 240, 40, True, True, 1), (5, 240, 40, True, True, 1), (5, 120, 48, True, True, 1), (5, 144, 48, True, True, 1),
    (5, 288, 96, True, True, 2), (5, 576, 96, True, True, 1), (5, 576, 96, True, True, 1),
)  # fmt: skip
"""Kernel, wide channels, channels, squeeze, hard swish and stride of the blocks of MobileNetV3-small."""


def _mobile(rows: Sequence[tuple[int, int, int, bool, bool, int]], wide: int, last: int) -> nn.Module:
    blocks: list[nn.Module] = []
    inputs = 16
    for kernel, more, outputs, squeeze, hard, stride in rows:
        blocks.append(_Inverted(inputs, kernel, more, outputs, squeeze, hard, stride))
        inputs = outputs
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16, 1e-3), nn.Hardswish(), *blocks,
        nn.Conv2d(inputs, wide, 1, bias=False), nn.BatchNorm2d(wide, 1e-3), nn.Hardswish(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(wide, last), nn.Hardswish(), nn.Linear(last, CLASSES),
    )  # fmt: skip


class _Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        def parted(y: Tensor) -> Tensor:
            return y.unflatten(-1, (self.heads, -1)).transpose(1, 2)

        q, k, v = (parted(one(x)) for one in (self.query, self.key, self.value))
        return self.out(functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class _Layer(nn.Module):
    """A transformer's layer, normalised before its parts, as in ViT, or after them, as in BERT."""

    def __init__(self, width: int, heads: int, *, before: bool) -> None:
        super().__init__()
        self.before = before
        eps = 1e-6 if before else 1e-12
        self.first, self.second = nn.LayerNorm(width, eps), nn.LayerNorm(width, eps)
        self.attention = _Attention(width, heads)
        self.wide, self.back = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        if self.before:
            x = x + self.attention(self.first(x))
            return x + self.back(functional.gelu(self.wide(self.second(x))))
        x = self.first(x + self.attention(x))
        return self.second(x + self.back(functional.gelu(self.wide(x))))


class _Vision(nn.Module):
    """ViT-tiny with a width of 192, three heads and twelve layers."""

    def __init__(self, side: int, patch: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.first = nn.Parameter(0.02 * torch.randn(1, 1, width))
        self.places = nn.Parameter(0.02 * torch.randn(1, (side // patch) ** 2 + 1, width))
        self.layers = nn.Sequential(*(_Layer(width, heads, before=True) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width, 1e-6), nn.Linear(width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        y = self.patches(x).flatten(2).transpose(1, 2)
        y = torch.cat([self.first.expand(len(x), -1, -1), y], 1) + self.places
        return self.head(self.norm(self.layers(y))[:, 0])


class _Language(nn.Module):
    """BERT-mini with a width of 256, four heads and four layers; it classifies by its first word."""

    def __init__(self, words: int, length: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.norm = nn.LayerNorm(width, 1e-12)
        self.layers = nn.Sequential(*(_Layer(width, heads, before=False) for _ in range(layers)))
        self.pool, self.head = nn.Linear(width, width), nn.Linear(width, CLASSES)
        for one in (self.words, self.places):
            nn.init.normal_(one.weight, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        y = self.norm(self.words(tokens) + self.places.weight[: tokens.shape[1]])
        return self.head(torch.tanh(self.pool(self.layers(y)[:, 0])))


class _UNet(nn.Module):
    """Levels down by pooling and up by transposed convolutions, each joined with what it had on the way down."""

    def __init__(self, width: int, levels: int) -> None:
        super().__init__()
        widths = [width * 2**level for level in range(levels + 1)]
        self.down = nn.ModuleList(self._twice(a, b) for a, b in itertools.pairwise([3, *widths]))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in reversed(widths[:-1]))
        self.joined = nn.ModuleList(self._twice(2 * w, w) for w in reversed(widths[:-1]))
        self.last = nn.Conv2d(width, CLASSES, 1)

    @staticmethod
    def _twice(inputs: int, outputs: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        kept: list[Tensor] = []
        for level, block in enumerate(self.down):
            x = block(functional.max_pool2d(x, 2) if level else x)
            kept.append(x)
        for up, block, beside in zip(self.up, self.joined, reversed(kept[:-1]), strict=True):
            x = block(torch.cat([beside, up(x)], 1))
        return self.last(x)


class _Audio(nn.Module):
    """Waves down by strided convolutions and up again by transposed ones, each level added to what it was."""

    def __init__(self, width: int, levels: int) -> None:
        super().__init__()
        widths = [1, *(width * 2**level for level in range(levels))]
        pairs = list(itertools.pairwise(widths))
        self.down = nn.ModuleList(nn.Conv1d(a, b, 8, 4, 2) for a, b in pairs)
        self.norms = nn.ModuleList(nn.GroupNorm(4, b) for _, b in pairs)
        self.up = nn.ModuleList(nn.ConvTranspose1d(b, a, 8, 4, 2) for a, b in reversed(pairs))

    def forward(self, x: Tensor) -> Tensor:
        kept: list[Tensor] = []
        for down, norm in zip(self.down, self.norms, strict=True):
            kept.append(x)
            x = functional.leaky_relu(norm(down(x)), 0.1)
        for up, beside in zip(self.up, reversed(kept), strict=True):
            x = up(functional.elu(x)) + beside
        return torch.tanh(x)


class WithLoss(nn.Module):
    """A network and its loss, which is computed in f32 at least."""

    def __init__(self, network: nn.Module, *, classes: bool) -> None:
        super().__init__()
        self.network, self.classes = network, classes

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        made = self.network(x)
        return functional.cross_entropy(made, target) if self.classes else functional.mse_loss(made, target)


@frozen
class Recipe:
    """A network that is trained.

    Attributes:
        make: the module without its loss.
        shape: of its input with the batch.
        target: shape of what the loss compares with.
        words: how many there are, where the input is words.
        classes: whether the loss is the cross entropy of classes, or the mean square of a difference.
    """

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    target: tuple[int, ...]
    words: int = 0
    classes: bool = True

    def module(self) -> WithLoss:
        """With its loss, in training, the same at each call."""
        torch.manual_seed(0)
        return WithLoss(self.make(), classes=self.classes).train()

    def batches(self, count: int) -> list[tuple[Tensor, Tensor]]:
        """Inputs and targets, drawn from a seed."""
        torch.manual_seed(1)
        found: list[tuple[Tensor, Tensor]] = []
        for _ in range(count):
            x = torch.randint(0, self.words, self.shape) if self.words else torch.randn(self.shape)
            target = (
                torch.randint(0, CLASSES, self.target) if self.classes else torch.randn(self.target).tanh()
            )
            found.append((x, target))
        return found


NETWORKS: Mapping[str, Recipe] = {
    "ResNet-18": Recipe(lambda: _residual(64), (8, 3, 64, 64), (8,)),
    "MobileNetV3-small": Recipe(lambda: _mobile(MOBILE, 576, 1024), (8, 3, 64, 64), (8,)),
    "ViT-tiny": Recipe(lambda: _Vision(32, 8, 192, 3, 12), (8, 3, 32, 32), (8,)),
    "BERT-mini": Recipe(lambda: _Language(3000, 32, 256, 4, 4), (8, 32), (8,), words=3000),
    "U-Net": Recipe(lambda: _UNet(16, 3), (4, 3, 32, 32), (4, 32, 32)),
    "audio, 1-D": Recipe(lambda: _Audio(32, 3), (8, 1, 2048), (8, 1, 2048), classes=False),
    "volumes, 3-D": Recipe(lambda: _volumes(16), (4, 1, 16, 16, 16), (4,)),
}
"""As the table in the documentation has them."""

SMALL: Mapping[str, Recipe] = {
    "ResNet-18": Recipe(lambda: _residual(16), (8, 3, 32, 32), (8,)),
    "MobileNetV3-small": Recipe(lambda: _mobile(MOBILE[:6:2], 48, 32), (8, 3, 32, 32), (8,)),
    "ViT-tiny": Recipe(lambda: _Vision(16, 4, 48, 3, 3), (8, 3, 16, 16), (8,)),
    "BERT-mini": Recipe(lambda: _Language(50, 12, 32, 4, 2), (8, 12), (8,), words=50),
    "U-Net": Recipe(lambda: _UNet(16, 2), (2, 3, 16, 16), (2, 16, 16)),
    "audio, 1-D": Recipe(lambda: _Audio(16, 2), (4, 1, 256), (4, 1, 256), classes=False),
    "volumes, 3-D": Recipe(lambda: _volumes(16), (4, 1, 8, 8, 8), (4,)),
}
"""Some seconds each, for tests."""
