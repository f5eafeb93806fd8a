"""Exponential moving averages of the parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from attrs import field

from ...ops.errors import ArgumentTypeError
from ...ops.records import frozen
from ...ops.values import format_value
from ..graph import Graph
from ..runtime.parameter import Parameter
from .hyperparameters import share
from .program import PREFIX, Program, add_variable

RATE = f"{PREFIX}rate"


@frozen
class EMA:
    """How averages of the parameters follow them: after each update by a share of the way.

    Attributes:
        decay: the share of an average that stays.
        warm_up: whether a smaller one stays at first, (1 + n) / (10 + n) after n updates, so that averages don't
            remember where the training began, as in TensorFlow.
    """

    decay: float = field(converter=lambda value: share(value, "decay"))
    warm_up: bool = field(default=False, kw_only=True)

    def stays(self, updates: int) -> float:
        """What share of an average stays after so many updates, with the one that is being done."""
        return min(self.decay, (1 + updates) / (10 + updates)) if self.warm_up else self.decay


def ema_of(value: float | EMA | None) -> EMA | None:
    """What a user gives for `ema`.

    Raises:
        ArgumentError, ArgumentTypeError: no share, None or `EMA`.
    """
    if value is None or isinstance(value, EMA):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):  # pyright: ignore[reportUnnecessaryIsInstance] -- users' values
        raise ArgumentTypeError(f"ema must be a share, as 0.999, an EMA or None, got {format_value(value)}")
    return EMA(share(value, "ema"))


class Averages:
    """Moves averages towards parameters, in their place, in one pass over memory.

    Args:
        averages, parameters: by name.
        options: as for `Graph.compile`.
    """

    def __init__(
        self,
        averages: Mapping[str, Parameter],
        parameters: Mapping[str, Parameter],
        options: Mapping[str, Any],
    ) -> None:
        graph = Graph()
        rate, step = graph.input(RATE, "f64", []), graph.constant(np.int64(1))
        one = graph.constant(np.float64(1))
        for name, average in averages.items():
            own = add_variable(graph, f"{PREFIX}ema.{name}", average)
            value = add_variable(graph, name, parameters[name])
            moved = graph.op(
                "HostUpdate", own, value, rate, one, step, outputs=1, formula="update = parameter - gradient"
            )
            graph.assign(own, moved)
        self._program = Program(graph, options)

    def follow(self, stays: float) -> None:
        """One update is done."""
        self._program.take({}, {RATE: 1 - stays})
        self._program.run()
