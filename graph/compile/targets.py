"""Arrays that the outputs of a call are written to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from ...ops.errors import ArgumentError
from ..runtime.arrays import Array, as_array
from ..runtime.tensor import Tensor


def check_apart(
    targets: Mapping[str, object], held: Iterable[Array], inputs: Mapping[str, Array], parts: int
) -> None:
    """Constants must not change, and a later part would read what an earlier one has written over.

    Args:
        targets: arrays by the names of outputs.
        held: memory of constants and parameters.
        inputs: arrays by name.
        parts: in how many the graph runs.

    Raises:
        ArgumentError: a target shares memory with what it must not.
    """
    constants = list(held)
    taken = [(repr(name), array) for name, array in inputs.items()] if parts > 1 else []
    for name, value in targets.items():
        what = f"output {name!r}"
        array = value.data if isinstance(value, Tensor) else as_array(value, what)
        for known in constants:
            if np.may_share_memory(array, known):
                raise ArgumentError(
                    f"{what} must not share memory with a constant of the graph, or a parameter; pass an array "
                    "of its own"
                )
        for other, known in taken:
            if np.may_share_memory(array, known):
                raise ArgumentError(
                    f"{what} must not share memory with {other}, for the graph runs in {parts} parts; pass an "
                    "array of its own"
                )
        if parts > 1:
            taken.append((repr(name), array))
