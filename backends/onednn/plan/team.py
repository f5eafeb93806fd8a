"""How many threads a primitive gets: one where a second would cost more than it does.

Whoever shares out work waits for the others at its end, and wakes them first where they have gone to sleep, which
takes as long as hundreds of kilobytes from a cache. A step of a few is done by the thread that calls; the others of its
plan run on all threads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from attrs import fields

from ..library.descriptors import (
    ConvolutionBackwardData,
    ConvolutionBackwardWeights,
    ConvolutionForward,
    DeconvolutionForward,
    Descriptor,
    MatMul,
)
from ..library.memory import MemoryDesc

FLOPS_PER_SECOND = 60e9
BYTES_PER_SECOND = 40e9
"""What one core does with 16 floats at once, on data that lies in its caches."""
ALONE_SECONDS = 2e-6
"""What one core does in that time it does as soon alone."""


def threads_of(descriptor: Descriptor, most: int) -> int:
    """How many threads a primitive is described for.

    Args:
        most: those of the plan.
    """
    return 1 if most > 1 and seconds_of(descriptor) < ALONE_SECONDS else most


def seconds_of(descriptor: Descriptor) -> float:
    """About how long one core takes."""
    nbytes = sum(math.prod(desc.shape) * desc.itemsize for desc in _tensors(descriptor))
    return nbytes / BYTES_PER_SECOND + _flops(descriptor) / FLOPS_PER_SECOND


def _tensors(descriptor: Descriptor) -> list[MemoryDesc]:
    found: list[MemoryDesc] = []
    for field in fields(type(descriptor)):
        value: object = getattr(descriptor, field.name)
        several = cast("Sequence[object]", value) if isinstance(value, tuple | list) else (value,)
        found += [one for one in several if isinstance(one, MemoryDesc)]
    return found


def _flops(descriptor: Descriptor) -> float:
    """Of products and convolutions; all else takes as long as its bytes."""
    match descriptor:
        case MatMul():
            return 2.0 * math.prod(descriptor.dst.shape) * descriptor.src.shape[-1]
        case ConvolutionForward():
            return _of_windows(descriptor.weights, descriptor.dst)
        case DeconvolutionForward():
            return _of_windows(descriptor.weights, descriptor.src)
        case ConvolutionBackwardData():
            return _of_windows(descriptor.weights, descriptor.diff_dst)
        case ConvolutionBackwardWeights():
            return _of_windows(descriptor.diff_weights, descriptor.diff_dst)
        case _:
            return 0.0


def _of_windows(weights: MemoryDesc, places: MemoryDesc) -> float:
    """Every weight meets every image and every place of one side."""
    return 2.0 * math.prod(weights.shape) * places.shape[0] * math.prod(places.shape[2:])
