"""What runs of a module have made, and how far two are from each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass
class Results:
    """Tensors that a run has made, by name."""

    tensors: dict[str, Any] = field(default_factory=dict)

    def add(self, group: str, name: str, tensor: Any) -> None:
        """One more."""
        self.tensors[f"{group} {name}"] = tensor.detach().clone()


def distances(have: Results, want: Results) -> dict[str, float]:
    """Of each tensor, in norm, relative to the wanted norm or what is nothing beside it."""
    made: dict[str, float] = {}
    of_all: dict[str, float] = {}
    for group in ("output", "input", "buffer", "gradient"):
        squares = [
            one.double().square().mean().item()
            for name, one in want.tensors.items()
            if name.startswith(group) and one.numel()
        ]
        of_all[group] = max([*squares, 1e-4]) ** 0.5
    for name, exact in want.tensors.items():
        away = torch.linalg.vector_norm(have.tensors[name].double() - exact.double()).item()
        norm = torch.linalg.vector_norm(exact.double()).item()
        floor = 1e-2 * of_all[name.split()[0]] * exact.numel() ** 0.5
        made[name] = away / max(norm, floor, 1e-30)
    return made
