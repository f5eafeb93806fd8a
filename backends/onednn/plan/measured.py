"""The fastest implementation of a primitive by measurement, and what is remembered of it.

A convolution or a matrix product is timed alone, with every implementation that may run on the layouts that the first
one has, each on weights in the layout that it likes best.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from ....graph.compile.options import CompileOptions, Tune
from ....graph.runtime.arrays import Array, numpy_type
from ....ops.data_types import DataType
from ..library import fork
from ..library.descriptors import ConvolutionForward, DeconvolutionForward, MatMul
from ..library.enumerators import Arg, Query
from ..library.loading import Dims
from ..library.memory import MemoryDesc
from ..library.primitive import (
    Decompression,
    Grouping,
    PrimitiveAttributes,
    PrimitiveDesc,
    implementations,
)
from ..quarantine import refused
from ..rules.features import Features
from ..tuning_cache import remember, remembered
from .frame import Frame
from .plan import Plan
from .preference import preferred
from .steps import Buffer, Step

FORMAT = 1
"""Of the files; raised when older ones mean something else."""
LEAST_ROUNDS = 3
MEASURED = (ConvolutionForward, DeconvolutionForward, MatMul)
"""Of which primitives implementations are measured."""
IM2COL = "x64:gemm"
"""In names of convolutions that are copied into a matrix first, which no other op goes along with."""
OPERANDS = ((Arg.SRC, Query.src_md), (Arg.WEIGHTS, Query.weights_md), (Arg.DST, Query.dst_md))


def fastest(options: CompileOptions) -> Callable[[Features], str | None] | None:
    """What tells the name of the implementation to take, `preferred` for what has no times; None without tuning, and
    where executions tune, which try weight gradients alone.

    Args:
        options: with `tune` and `tune_seconds`, the time for one primitive.
    """
    if options.tune in (Tune.off, Tune.online):
        return None

    def found(features: Features) -> str | None:
        if not isinstance(features.descriptor, MEASURED) or features.attributes.decompression is not None:
            return preferred(features)
        key = key_of(features)
        times = remembered(key)
        if not times and options.tune is Tune.measure:
            times = fork.run(measure, features, options.tune_seconds)
            remember(key, times)
        return min(times, key=times.__getitem__) if times else preferred(features)

    return found


def key_of(features: Features) -> dict[str, Any]:
    """Everything that times depend on."""
    return {
        **features.desc.engine.lib.machine,
        "format": FORMAT,
        "primitive": features.function,
        "described": [
            text for text in map(_told, features.descriptor.arguments(features.desc.engine)) if text
        ],
    }


def _told(argument: object) -> str:
    """One of the things that describe a primitive, as text; nothing for what stands for no number."""
    if isinstance(argument, MemoryDesc):
        strides = argument.strides
        lies = argument.describe() if strides is None else "x".join(map(str, strides))
        return f"{argument.data_type.value} {'x'.join(map(str, argument.shape))} {lies}"
    if isinstance(argument, PrimitiveAttributes):
        post_ops = [
            f"{one.algorithm.name} {one.alpha:g} {one.beta:g} {_told(one.operand)}"
            for one in argument.post_ops
        ]
        how = argument.decompression
        grouped = [f"{one.mask} {one.group} {one.data_type.value}" for one in _groupings(how)]
        told = f"{post_ops} {argument.scales} {sorted(argument.zero_points)} {argument.fpmath.name}"
        return f"{told} {grouped}" if grouped else told
    if isinstance(argument, Dims):
        return f"{list(cast('Sequence[int]', argument))}"
    if isinstance(argument, int):
        return f"{int(argument)}"
    return ""


def measure(features: Features, seconds: float) -> dict[str, float]:
    """The time of each implementation that may run in the place of the first: the mean of the least and the median.

    Args:
        seconds: for all of them together; each runs three times at least.
    """
    frames = {one.implementation: frame_of(one, features) for one in _rivals(features)}
    return by_turns(frames, seconds)


def by_turns(frames: Mapping[str, Frame], seconds: float) -> dict[str, float]:
    """The time of each, run by turns for so long: the mean of the least and the median."""
    times: dict[str, list[float]] = {name: [] for name in frames}
    for frame in frames.values():
        frame.run()
    end = time.perf_counter() + seconds
    while any(len(t) < LEAST_ROUNDS for t in times.values()) or (
        len(frames) > 1 and time.perf_counter() < end
    ):
        for name, frame in frames.items():
            times[name] += frame.timed_run()
    return {name: (min(found) + statistics.median(found)) / 2 for name, found in times.items() if found}


def _rivals(features: Features) -> Iterator[PrimitiveDesc]:
    """The implementations that may run with data and result as they lie for the first of these."""
    first: PrimitiveDesc | None = None
    afresh = features.descriptor.described(features.desc.engine)  # a clone has no others to go on to
    for desc in () if afresh is None else implementations(afresh):
        if refused(Features(features.descriptor, desc)) is not None or IM2COL in desc.implementation:
            continue
        first = first or desc
        if all(desc.memory_desc(q) == first.memory_desc(q) for q in (Query.src_md, Query.dst_md)):
            yield desc


def frame_of(desc: PrimitiveDesc, features: Features) -> Frame:
    """The primitive as a plan of one step, on memory of its own."""
    lib = desc.engine.lib

    def vector(data_type: DataType, count: int) -> Buffer:
        ones = np.ones(count, numpy_type(data_type))
        return Buffer(MemoryDesc.strided(lib, (count,), data_type, (1,)), constant=ones)

    given: list[tuple[int, MemoryDesc]] = [(a, desc.memory_desc(what)) for a, what in OPERANDS]
    bias = features.descriptor.bias if isinstance(features.descriptor, MEASURED) else None
    if bias is not None:
        given.append((Arg.BIAS, bias))
    for number, one in enumerate(features.attributes.post_ops, 1):
        if one.operand is not None:
            given.append((Arg.ATTR_MULTIPLE_POST_OP_BASE * number | Arg.SRC_1, one.operand))
    shapes = {argument: one.shape for argument, one in given}
    arguments = [
        (argument, Buffer(one, constant=_filled(argument, one)) if argument != Arg.DST else Buffer(one))
        for argument, one in given
    ]
    arguments += [
        (Arg.ATTR_SCALES | argument, vector(DataType.f32, _along(shapes[argument], mask)))
        for argument, mask in features.attributes.scales.items()
    ]
    arguments += [
        (Arg.ATTR_ZERO_POINTS | argument, vector(DataType.s32, 1))
        for argument in features.attributes.zero_points
    ]
    rows, columns = shapes[Arg.WEIGHTS][-2:]
    kinds = (Arg.ATTR_SCALES, Arg.ATTR_ZERO_POINTS)
    for kind, one in zip(kinds, _groupings(features.attributes.decompression), strict=False):
        sizes = (rows // one.group[0] if one.group else 1, columns if one.mask else 1)
        lies = MemoryDesc.strided(lib, sizes, one.data_type, (sizes[1], 1))
        numbers = np.ones(sizes, numpy_type(one.data_type))
        arguments.append((kind | Arg.WEIGHTS, Buffer(lies, constant=numbers)))
    return Plan(desc.engine, [Step("timed", desc, tuple(arguments))]).take()


def _groupings(how: Decompression | None) -> list[Grouping]:
    """Of scales, and of zero points where there are any."""
    return [] if how is None else [one for one in (how.scales, how.points) if one is not None]


def _filled(seed: int, desc: MemoryDesc) -> Array:
    """Small integers for a layout: zeros and denormals would be timed wrongly."""
    values = np.random.default_rng(seed).integers(0, 3, -(-desc.nbytes // desc.itemsize))
    return values.astype(numpy_type(desc.data_type))


def _along(shape: tuple[int, ...], mask: int) -> int:
    """How many values there are, one along each axis of a mask."""
    return math.prod(size for axis, size in enumerate(shape) if mask >> axis & 1)
