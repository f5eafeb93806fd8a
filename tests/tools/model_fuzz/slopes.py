"""Whether eager torch's gradients are the slopes of what its own forward pass makes: not always.

InstanceNorm of a batch of one has a wrong gradient where that comes in another order of axes (torch 2.13), say.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch

CUT = re.compile(r"detach|no_grad|autograd|enable_grad|\.data\b|stop")
"""By this a module's gradients need not be slopes."""
STEP = 1e-6
NEAR = 1e-3


def are_slopes(source: str, loss: Callable[[list[Any]], Any], inputs: list[Any]) -> bool:
    """Whether the gradient of a loss is its slope along some way through the inputs; true where nothing can be told.

    Args:
        source: of the module.
        loss: a number of double precision from inputs, by a module of its own each time.
        inputs: in double precision; those that are no floats stay as they are.
    """
    floats = [place for place, one in enumerate(inputs) if one.is_floating_point() and one.numel()]
    if CUT.search(source) or not floats:
        return True
    generator = torch.Generator().manual_seed(3)
    ways = {n: torch.randn(inputs[n].shape, generator=generator, dtype=torch.float64) for n in floats}

    def moved(step: float) -> list[Any]:
        return [(one + step * ways[n]).requires_grad_() if n in ways else one for n, one in enumerate(inputs)]

    leaves = [one.clone().requires_grad_(n in ways) for n, one in enumerate(inputs)]
    loss(leaves).backward()
    told = sum(float((leaves[n].grad * ways[n]).sum()) for n in floats if leaves[n].grad is not None)
    size = sum(float(leaves[n].grad.norm()) for n in floats if leaves[n].grad is not None)
    seen = float(loss(moved(STEP)) - loss(moved(-STEP))) / (2 * STEP)
    return abs(told - seen) <= NEAR * max(abs(told), abs(seen), size)
