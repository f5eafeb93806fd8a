"""What drawn modules are called with: numbers, indices and masks, of several layouts."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch

LAYOUTS = ("last", "strided", "expanded", "transposed", "offset")
"""How an input may lie other than dense: channels last, every second element, one row for all, with its last two axes
exchanged, behind other elements of its storage."""


@dataclass(frozen=True)
class Input:
    """One input.

    Attributes:
        shape: of it.
        below: None for floating-point numbers; integers from 0 to below this; 2 and `mask` for booleans.
        mask: whether it is boolean.
        layout: empty, or one of `LAYOUTS`.
        batched: whether its first axis is the batch's, which other calls have of other sizes.
    """

    shape: tuple[int, ...]
    below: int | None = None
    mask: bool = False
    layout: str = ""
    batched: bool = False

    def tensor(self, generator: Any, dtype: Any, batch: int | None = None, rounded: Any = None) -> Any:
        """One, of a batch's size where that is open; its numbers may be rounded to another type before."""
        shape = self.shape
        if self.batched and batch is not None:
            shape = (batch, *shape[1:])
        if self.below is not None:
            made = torch.randint(0, self.below, shape, generator=generator)
            return made.bool() if self.mask else made
        return self._laid(torch.randn(shape, generator=generator).to(rounded or dtype).to(dtype))

    def _laid(self, made: Any) -> Any:
        rank = made.ndim
        if self.layout == "last" and rank in (4, 5):
            return made.contiguous(memory_format=torch.channels_last if rank == 4 else torch.channels_last_3d)
        if self.layout == "strided" and rank:
            wide = torch.zeros((*made.shape[:-1], 2 * made.shape[-1]), dtype=made.dtype)
            wide[..., ::2] = made
            return wide[..., ::2]
        if self.layout == "expanded" and rank and made.shape[0]:
            return made[:1].expand(made.shape)
        if self.layout == "transposed" and rank > 1:
            return made.transpose(-1, -2).contiguous().transpose(-1, -2)
        if self.layout == "offset":
            wide = torch.zeros(made.numel() + 3, dtype=made.dtype)
            wide[3:] = made.reshape(-1)
            return wide[3:].view(made.shape)
        return made

    @property
    def plain(self) -> Input:
        """Dense."""
        return replace(self, layout="")

    @property
    def elements(self) -> int:
        """How many it has."""
        return math.prod(self.shape)

    def to_json(self) -> list[Any]:
        """For a file."""
        return [list(self.shape), self.below, self.mask, self.layout, self.batched]

    @classmethod
    def from_json(cls, data: list[Any]) -> Input:
        """From a file."""
        return cls(tuple(data[0]), *data[1:])
