"""Torch modules of `models_zoo.py` that no package has, and wrappers that give tensors instead of dictionaries."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class Named(nn.Module):
    """A model that gives a dictionary or a class, reduced to tensors.

    Args:
        module: the model.
        field: which one is wanted; all of them, in order, without it.
        keyword: name of the argument that its input is; by position without it.
    """

    def __init__(self, module: nn.Module, field: str | None = None, keyword: str | None = None) -> None:
        super().__init__()
        self.module, self.field, self.keyword = module, field, keyword

    def forward(self, *inputs: torch.Tensor) -> Any:
        made = self.module(**{self.keyword: inputs[0]}) if self.keyword else self.module(*inputs)
        return tuple(made.values()) if self.field is None else made[self.field]


class AsBf16(nn.Module):
    """A module in bf16 that takes and gives f32."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *inputs: torch.Tensor) -> Any:
        made = self.module(*(t.bfloat16() if t.is_floating_point() else t for t in inputs))
        return tuple(t.float() for t in made) if isinstance(made, tuple) else made.float()


def _twice(inputs: int, outputs: int) -> nn.Sequential:
    """Two 3×3 convolutions, each with batch normalisation and ReLU."""
    layers: list[nn.Module] = []
    for channels in (inputs, outputs):
        layers += [nn.Conv2d(channels, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Four levels down by max pooling, four up by transposed convolutions, each beside what it had on the way down."""

    def __init__(self, width: int = 32, classes: int = 2) -> None:
        super().__init__()
        widths = [width * 2**level for level in range(5)]
        self.down = nn.ModuleList(_twice(a, b) for a, b in zip([3, *widths], widths, strict=False))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, stride=2) for w in reversed(widths[:-1]))
        self.joined = nn.ModuleList(_twice(2 * w, w) for w in reversed(widths[:-1]))
        self.last = nn.Conv2d(width, classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept: list[torch.Tensor] = []
        for level, block in enumerate(self.down):
            x = block(x if level == 0 else nn.functional.max_pool2d(x, 2))
            kept.append(x)
        for up, block, skip in zip(self.up, self.joined, reversed(kept[:-1]), strict=True):
            x = block(torch.cat([skip, up(x)], 1))
        return self.last(x)


class _Conv(nn.Sequential):
    """Convolution, batch normalisation, SiLU."""

    def __init__(self, inputs: int, outputs: int, kernel: int = 1, stride: int = 1) -> None:
        convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
        super().__init__(convolution, nn.BatchNorm2d(outputs), nn.SiLU())


class _Csp(nn.Module):
    """Half of the channels go through a chain of blocks; all that arises on the way is joined."""

    def __init__(self, inputs: int, outputs: int, blocks: int, residual: bool = True) -> None:
        super().__init__()
        half = outputs // 2
        self.residual = residual
        self.first, self.last = _Conv(inputs, outputs), _Conv(half * (2 + blocks), outputs)
        self.blocks = nn.ModuleList(
            nn.Sequential(_Conv(half, half, 3), _Conv(half, half, 3)) for _ in range(blocks)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = list(self.first(x).chunk(2, 1))
        for block in self.blocks:
            made = block(parts[-1])
            parts.append(parts[-1] + made if self.residual else made)
        return self.last(torch.cat(parts, 1))


class _Sppf(nn.Module):
    """Poolings of 5, 9 and 13, by three of 5."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first, self.last = _Conv(channels, channels // 2), _Conv(channels * 2, channels)
        self.pool = nn.MaxPool2d(5, 1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = [self.first(x)]
        for _ in range(3):
            parts.append(self.pool(parts[-1]))
        return self.last(torch.cat(parts, 1))


class Yolo(nn.Module):
    """A detector's backbone and neck: three maps with strides 8, 16 and 32 and their box and class channels."""

    def __init__(self, width: int = 32, outputs: int = 144) -> None:
        super().__init__()
        w = [width * 2**level for level in range(5)]
        self.stem = nn.Sequential(_Conv(3, w[0], 3, 2), _Conv(w[0], w[1], 3, 2), _Csp(w[1], w[1], 1))
        self.to8 = nn.Sequential(_Conv(w[1], w[2], 3, 2), _Csp(w[2], w[2], 2))
        self.to16 = nn.Sequential(_Conv(w[2], w[3], 3, 2), _Csp(w[3], w[3], 2))
        self.to32 = nn.Sequential(_Conv(w[3], w[4], 3, 2), _Csp(w[4], w[4], 1), _Sppf(w[4]))
        self.up16, self.up8 = _Csp(w[4] + w[3], w[3], 1, False), _Csp(w[3] + w[2], w[2], 1, False)
        self.down16, self.down32 = _Conv(w[2], w[2], 3, 2), _Conv(w[3], w[3], 3, 2)
        self.out16, self.out32 = _Csp(w[2] + w[3], w[3], 1, False), _Csp(w[3] + w[4], w[4], 1, False)
        self.heads = nn.ModuleList(nn.Conv2d(channels, outputs, 1) for channels in w[2:])

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        at8 = self.to8(self.stem(x))
        at16 = self.to16(at8)
        at32 = self.to32(at16)
        twice = nn.functional.interpolate
        mid = self.up16(torch.cat([twice(at32, scale_factor=2.0), at16], 1))
        low = self.up8(torch.cat([twice(mid, scale_factor=2.0), at8], 1))
        mid = self.out16(torch.cat([self.down16(low), mid], 1))
        high = self.out32(torch.cat([self.down32(mid), at32], 1))
        return tuple(head(x) for head, x in zip(self.heads, (low, mid, high), strict=True))
