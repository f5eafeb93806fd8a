"""For certainty that what was written to weights behind torch's back is seen."""

from __future__ import annotations

from typing import Any

from .report import alive
from .run.steps import RegionCall
from .tensors import memory_of_all


def refresh(model: Any = None) -> None:
    """Has compiled functions read all weights anew at their next call.

    Changes that torch counts, and weights that get other memory, are seen by themselves; what is written through
    `.data` or an array of NumPy's is seen at the next call where it changes a weight as a whole, and where it changes
    single elements after some calls, by when all has been looked at. After this it is seen at once.

    Args:
        model: a `torch.nn.Module`, compiled or not; None for all that was compiled in this process.
    """
    memory = None if model is None else memory_of_all(model)
    for function in alive():
        for program in list(function.programs.values()):
            for step in program.steps:
                if isinstance(step, RegionCall):
                    step.weights.forget(memory)
