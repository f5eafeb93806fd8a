"""Calls with plain arrays that lie as compiled, as most calls are: nothing is looked up, copied or put in words.

Whatever else is given, wrong or only unusual, is not taken here: `Arguments` copies it, or says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from attrs import frozen

from .arrays import Array, uninitialised
from .executable import Executable


@frozen
class PlainPort:
    """How an array lies that needs no copy.

    Attributes:
        shape, dtype: its own. strides: in bytes.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    strides: tuple[int, ...]


class DirectCall:
    """An executable on plain arrays.

    Args:
        executable: what runs.
        ports: of what a call gives, in order.
        inputs: for each input of the executable its place among these, or the array that it always is.
        outputs: of the executable, row-major.
        returned: places of the outputs that a call returns.
        names: of what a call gives.
    """

    def __init__(
        self,
        executable: Executable,
        ports: Sequence[PlainPort],
        inputs: Sequence[int | Array],
        outputs: Sequence[PlainPort],
        returned: Sequence[int],
        names: Sequence[str] = (),
    ) -> None:
        self._names = tuple(names)
        self._run = executable.run
        self._ports = tuple((port.shape, port.dtype, port.strides) for port in ports)
        self._inputs: list[Array] = [np.empty(0) if isinstance(one, int) else one for one in inputs]
        self._places = [(place, one) for place, one in enumerate(inputs) if isinstance(one, int)]
        self._outputs = tuple((port.shape, port.dtype) for port in outputs)
        self._returned = None if list(returned) == list(range(len(outputs))) else tuple(returned)

    def of(self, arguments: tuple[object, ...]) -> Sequence[Array] | None:
        """What the executable makes of arrays in order, or of a dictionary of them by name; None as by a call."""
        given: Sequence[object] = arguments
        if len(arguments) == 1 and type(arguments[0]) is dict:
            named = cast("dict[object, object]", arguments[0])
            if len(named) != len(self._names):
                return None
            try:
                given = [named[name] for name in self._names]
            except KeyError:
                return None
        return self(given) if len(given) == len(self._names) else None

    def __call__(self, given: Sequence[object]) -> Sequence[Array] | None:
        """What the executable makes; None, with nothing computed, where an array is not as it takes them."""
        for value, (shape, dtype, strides) in zip(given, self._ports, strict=True):
            if type(value) is not np.ndarray:
                return None
            array: Array = value
            if array.shape != shape or array.dtype is not dtype or array.strides != strides:
                return None
            if not array.flags.aligned:
                return None
        inputs = self._inputs.copy()
        for place, number in self._places:
            inputs[place] = cast("Array", given[number])
        try:
            outputs = [uninitialised(shape, dtype) for shape, dtype in self._outputs]
        except (MemoryError, ValueError):  # whose words are those of others
            return None
        self._run(inputs, outputs)
        return outputs if self._returned is None else [outputs[place] for place in self._returned]
