"""Fitting the cost data of weight gradients to this machine, for `onednn-graph tune --machine`."""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from attrs import field, frozen

from ..backends.onednn.library.enumerators import FpmathMode
from ..backends.onednn.library.primitive import NativeEngine
from ..backends.onednn.lowering.weight_gradient import problem_of
from ..backends.onednn.plan.work import Work
from ..backends.onednn.weight_gradients import machine
from ..backends.onednn.weight_gradients.problem import check
from ..backends.onednn.weight_gradients.selection import candidates, cost_model
from ..backends.onednn.weight_gradients.strategies import STRATEGIES
from ..graph.model.logical_tensor import LogicalTensor
from ..graph.model.op import Op
from ..graph.runtime.arrays import address, numpy_type

MOST_SECONDS = 600.0
LEAST_LAYERS = 12
"""Fewer tell nothing."""
HELD_BACK = 4
"""Of so many layers, one is not fitted, but used to see whether the fit is any good."""
MOST_FLOPS, MOST_ELEMENTS = 1.5e9, 6e6
"""Of a layer that is measured."""
FAR = 3.0
"""What takes so many times the best candidate's time is run once."""
SECONDS_PER_CANDIDATE = 0.01


@frozen
class Timed:
    """A candidate of a layer.

    Attributes:
        steps: what was done and how long it took, for those that the cost model knows.
        seconds: all steps together.
    """

    steps: tuple[tuple[Work, float], ...] = field(repr=False)
    seconds: float


Layer = tuple[Timed, ...]
"""All candidates of one."""


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


def draw(rng: random.Random) -> Op:
    """The weight gradient of a random layer of the kinds that networks have."""
    while True:
        op, size = _drawn(rng)
        if size is not None and size[0] <= MOST_FLOPS and size[1] <= MOST_ELEMENTS:
            return op


def _drawn(rng: random.Random) -> tuple[Op, tuple[float, float] | None]:
    """An op, and its multiplications and elements; None of those where the window is larger than the image."""
    kind = rng.choice(
        ["dense"] * 3 + ["pointwise"] * 3 + ["depthwise", "grouped", "patch", "transposed", "first"]
    )
    rank = rng.choice([1, 2, 2, 2, 2, 3])
    size = rng.choice(
        {1: [128, 500, 1024, 4096], 2: [7, 8, 14, 16, 28, 32, 56, 112], 3: [4, 8, 14, 16]}[rank]
    )
    ci, co = (rng.choice([8, 16, 24, 32, 48, 64, 96, 128, 256, 512]) for _ in range(2))
    batch, groups, k, s, d = (
        rng.choice([1, 2, 4, 8, 16]),
        1,
        rng.choice([3, 3, 3, 5, 7]),
        rng.choice([1, 1, 2]),
        1,
    )
    transposed = kind == "transposed"
    if kind == "pointwise":
        k = 1
    elif kind == "depthwise":
        co = groups = ci
    elif kind == "grouped":
        groups = rng.choice([g for g in (2, 4, 8) if ci % g == 0 and co % g == 0])
    elif kind == "patch":
        k = s = rng.choice([2, 4, 8])
    elif transposed:
        k, s = (
            rng.choice([(2, 2), (3, 2), (4, 2), (8, 4), (16, 8)])
            if rank == 1
            else rng.choice([(2, 2), (4, 2)])
        )
    elif kind == "first":
        ci, s = rng.choice([1, 3]), 2
    pad = 0 if kind == "patch" or k == s else (k - s) // 2 if transposed else k // 2
    out = s * (size - 1) + k - 2 * pad if transposed else (size + 2 * pad - k) // s + 1
    data_format, data_type = rng.choice(["NXC", "NCX"]), rng.choice(["f32", "bf16"])

    def shape(channels: int, length: int) -> list[int]:
        spatial = [length] * rank
        return [batch, *spatial, channels] if data_format == "NXC" else [batch, channels, *spatial]

    # A transposed one without groups: its weights are in x out.
    weights = [k] * rank + ([co, ci] if transposed else [ci // groups, co])
    tensors = [
        LogicalTensor(0, data_type, shape(ci, size)),
        LogicalTensor(1, data_type, shape(co, out)),
        LogicalTensor(2, data_type, weights),
    ]
    op = Op(
        0,
        "ConvTransposeBackwardWeights" if transposed else "ConvolutionBackwardWeights",
        tensors[:2],
        tensors[2:],
        strides=[s] * rank,
        pads_begin=[pad] * rank,
        pads_end=[pad] * rank,
        dilations=[d] * rank,
        groups=groups,
        data_format=data_format,
        weights_format="XOI" if transposed else "XIO",
        weights_shape=weights,
    )
    if out < 1:
        return op, None
    positions = batch * (size if transposed else out) ** rank
    elements = batch * (ci * size**rank + co * out**rank)
    return op, (2.0 * positions * math.prod(weights), float(elements))


def timed(engine: NativeEngine, op: Op, clock: Callable[[], float] = time.perf_counter) -> Layer:
    """All candidates of a weight gradient, with the shortest times of their steps."""
    problem = problem_of(op, FpmathMode.strict)
    if check(problem) is not None:
        return ()
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-2, 3, t.dims).astype(numpy_type(t.data_type)) for t in (*op.inputs, *op.outputs)]
    found: list[Timed] = []
    for candidate in candidates(engine, problem, STRATEGIES, []):
        frame = candidate.plan.take()
        frame.point([address(array) for array in arrays])
        frame.run()
        runs = [frame.timed_run()]
        near = not found or sum(runs[0]) < FAR * min(one.seconds for one in found)
        end = clock() + SECONDS_PER_CANDIDATE
        while near and (len(runs) < 3 or clock() < end):
            runs.append(frame.timed_run())
        least = [min(times) for times in zip(*runs, strict=True)]
        steps = tuple(
            (step.work, seconds)
            for step, seconds in zip(candidate.plan.steps, least, strict=True)
            if step.work is not None
        )
        found.append(Timed(steps, sum(least)))
    return tuple(found)


def measured(
    seconds: float,
    seed: int,
    show: Callable[[float, int], object],
    clock: Callable[[], float] = time.perf_counter,
) -> Iterator[Layer]:
    """Random layers with all candidates timed, for so long.

    Args:
        show: is told the part of the time that is over, and how many layers there are.
    """
    engine, rng, count = NativeEngine(), random.Random(seed), 0
    begin = clock()
    while (passed := clock() - begin) < seconds:
        show(passed / seconds, count)
        layer = timed(engine, draw(rng), clock)
        if layer:
            count += 1
            yield layer


def fitted(layers: Sequence[Layer]) -> Fit:
    """The factors of what was measured, kept where choices by them are no worse on the layers that were held back."""
    engine = NativeEngine()
    model = cost_model(engine).model
    held, used = layers[::HELD_BACK], [one for n, one in enumerate(layers) if n % HELD_BACK]
    factors = machine.fit(model, [step for layer in used for one in layer for step in one.steps])
    before, after = (_regret(machine.MachineCost(model, some), held) for some in ({}, factors))
    kept = len(layers) >= LEAST_LAYERS and after <= before
    if kept:
        machine.keep(engine.lib, factors)
    return Fit(len(layers), before, after, factors, kept)


def forgotten() -> bool:
    """Goes back to the package's data; whether there were others."""
    return machine.drop(NativeEngine().lib)


def _regret(model: machine.MachineCost, layers: Sequence[Layer]) -> float:
    """Time of the choice ÷ time of the best candidate, as a geometric mean."""
    ratios: list[float] = []
    for layer in layers:
        chosen = min(layer, key=lambda one: model.seconds([work for work, _ in one.steps]))
        ratios.append(chosen.seconds / min(one.seconds for one in layer))
    return statistics.geometric_mean(ratios) if ratios else 1.0
