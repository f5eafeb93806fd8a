"""Functions that drawn modules call: what a line can't define, as autograd's Functions."""

from __future__ import annotations

from typing import Any

import torch


class Straight(torch.autograd.Function):
    """Rounds to quarters; gradients go straight through."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return (x * 4).round() / 4

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g


class Reversed(torch.autograd.Function):
    """The same number, with a gradient of the other sign."""

    @staticmethod
    def forward(ctx: Any, x: Any, by: float) -> Any:
        ctx.by = by
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return -ctx.by * g, None


class Swish(torch.autograd.Function):
    """x sigmoid(x), which saves its input alone."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x.sigmoid()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        s = x.sigmoid()
        return g * (s + x * s * (1 - s))


class Product(torch.autograd.Function):
    """x·y and x+y: two results, two gradients."""

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.save_for_backward(x, y)
        return x * y, x + y

    @staticmethod
    def backward(ctx: Any, g: Any, h: Any) -> Any:
        x, y = ctx.saved_tensors
        return g * y + h, g * x + h


class Doubled(torch.nn.Module):
    """A module that calls another twice, and counts its calls in a buffer."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def forward(self, x: Any, *, scale: float = 1.0) -> Any:
        self.calls += 1
        return self.inner(self.inner(x) * scale)


def hooked(module: Any) -> Any:
    """A module whose result a hook halves."""
    module.register_forward_hook(lambda module, given, made: made * 0.5)
    return module


def tied(module: Any, other: Any) -> Any:
    """A module with another one's weight."""
    if module.weight.shape != other.weight.shape:
        raise ValueError("weights of different shapes")
    module.weight = other.weight
    return module
