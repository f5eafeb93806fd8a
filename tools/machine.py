"""Fitting the cost data of weight gradients to this machine, for `onednn-graph tune --machine`."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence

from attrs import field

from ..backends.onednn.library.primitive import NativeEngine
from ..backends.onednn.weight_gradients import machine
from ..backends.onednn.weight_gradients.selection import cost_model
from ..ops.records import frozen
from .measuring import LayerLimits, Sample, best, chosen, sampling

MOST_SECONDS = 600.0
LEAST_LAYERS = 12
"""Fewer tell nothing."""
HELD_BACK = 4
"""Of so many layers, one is not fitted, but used to see whether the fit is any good."""
DTYPES = ("f32", "bf16")
LIMITS = LayerLimits(flops=1.5e9, elements=6e6, seconds=0.01)


@frozen
class Fit:
    """What came of it.

    Attributes:
        layers: how many were measured.
        before, after: time of the choice ÷ time of the best candidate, as a geometric mean over the layers held back.
        factors: see `MachineCost`.
        kept: whether the machine's data are used from now on.
    """

    layers: int
    before: float
    after: float
    factors: dict[str, float] = field(repr=False)
    kept: bool


def measured(
    seconds: float,
    seed: int,
    show: Callable[[float, int], object],
    clock: Callable[[], float] = time.perf_counter,
) -> Iterator[Sample]:
    """Random layers with all candidates timed, for so long.

    Args:
        show: is told the part of the time that is over, and how many layers there are.
    """
    return sampling(seconds, seed, DTYPES, LIMITS, show, clock)


def fitted(layers: Sequence[Sample]) -> Fit:
    """The factors of what was measured, kept where choices by them are no worse on the layers that were held back."""
    engine = NativeEngine()
    model = cost_model(engine).model
    held, used = layers[::HELD_BACK], [one for n, one in enumerate(layers) if n % HELD_BACK]
    steps = [
        (work, seconds)
        for layer in used
        for one in layer.found
        for work, seconds in zip(one.works, one.steps, strict=True)
        if work is not None
    ]
    factors = machine.fit(model, steps)
    before, after = (_regret(machine.MachineCost(model, some), held) for some in ({}, factors))
    kept = len(layers) >= LEAST_LAYERS and after <= before
    if kept:
        machine.keep(engine.lib, factors)
    return Fit(len(layers), before, after, factors, kept)


def forgotten() -> bool:
    """Goes back to the package's data; whether there were others."""
    return machine.drop(NativeEngine().lib)


def _regret(model: machine.MachineCost, layers: Sequence[Sample]) -> float:
    """Time of the choice ÷ time of the best candidate, as a geometric mean."""
    ratios = [chosen(one, model.seconds).together / best(one).together for one in layers]
    return statistics.geometric_mean(ratios) if ratios else 1.0
