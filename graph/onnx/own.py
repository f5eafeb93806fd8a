"""NumPy for nodes that no op of a graph does and ONNX's reference gets wrong, or not at all."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from ...ops.records import frozen
from ..importing.translation import Unmapped
from ..runtime.arrays import Array
from .cached_attention import grouped_attention
from .calls import Call
from .classic import CLASSIC
from .detection import suppressed
from .regions import region_averages
from .resize import resized, sampled
from .shapes import split_counts
from .signals import recurrent, spectra
from .text import counts, full_matches, tokens


def _divided(call: Call) -> list[Array]:
    """Div of integers, which rounds towards zero."""
    a, b = np.broadcast_arrays(call[0], call[1])
    if a.dtype.kind not in "iu" or a.dtype != b.dtype:
        raise Unmapped("its inputs must be integers of one type")
    if not b.all():
        raise Unmapped("it divides integers by 0")
    with np.errstate(all="ignore"):
        quotient = a // b
        short = (a - quotient * b != 0) & ((a < 0) != (b < 0))
        return [(quotient + short).astype(a.dtype)]


def pieces(call: Call) -> list[Array]:
    """Split, whose parts must be there: the reference cuts what any numbers say."""
    data, axis = call[0], int(call.get("axis", 0))
    if not -data.ndim <= axis < data.ndim:
        raise Unmapped(f"axis {axis} of rank {data.ndim}")
    given = call.optional(1)
    given = call.get("split") if given is None else given
    counts = None if given is None else [int(count) for count in np.ravel(given)]
    parts = int(call.get("num_outputs", call.listed))
    counts = split_counts(data.shape[axis], counts, parts, call.listed, call.opset)
    return np.split(data, np.cumsum(counts[:-1]), axis)[: call.outputs]


# --- pooling ---------------------------------------------------------------------------------------------


@frozen
class Windows:
    """Windows along the spatial axes of a pooling.

    Attributes:
        kernel, strides, dilations, begin: for each axis; begin is the padding before it.
        sizes: of the output.
    """

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    begin: list[int]
    end: list[int]
    sizes: list[int]


def _windows(call: Call, spatial: Sequence[int]) -> Windows:
    """The windows of a pooling, as ONNX's documents say.

    Raises:
        Unmapped: attributes that say none.
    """
    kernel = list(call.get("kernel_shape", ()))
    ones = [1] * len(spatial)
    strides, dilations = list(call.get("strides", ones)), list(call.get("dilations", ones))
    pads = list(call.get("pads", [0] * 2 * len(spatial)))
    if not len(kernel) == len(strides) == len(dilations) == len(pads) / 2 == len(spatial):
        raise Unmapped("its attributes have not one value for each spatial axis")
    if min((*kernel, *strides, *dilations), default=1) < 1 or min(pads, default=0) < 0:
        raise Unmapped("its windows, strides and dilations must be above 0, and its padding not below")
    auto_pad = call.get("auto_pad", "NOTSET")
    begin, end, sizes = pads[: len(spatial)], pads[len(spatial) :], list[int]()
    for axis, size in enumerate(spatial):
        reach, stride = dilations[axis] * (kernel[axis] - 1) + 1, strides[axis]
        if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            sizes.append(-(-size // stride))
            total = max(0, (sizes[-1] - 1) * stride + reach - size)
            begin[axis] = total // 2 if auto_pad == "SAME_UPPER" else total - total // 2
            end[axis] = total - begin[axis]
            continue
        if auto_pad == "VALID":
            begin[axis] = end[axis] = 0
        span = size + begin[axis] + end[axis] - reach
        if span < 0:
            raise Unmapped(f"its window of {reach} is larger than the {size} elements with their padding")
        count = span // stride + 1
        if call.get("ceil_mode", 0):
            count = -(-span // stride) + 1
            if (count - 1) * stride >= size + begin[axis]:  # a window must not begin in the padding behind
                count -= 1
        sizes.append(count)
    return Windows(kernel, strides, dilations, begin, end, sizes)


def _parts(x: Array, windows: Windows, fill: float) -> list[tuple[tuple[int, ...], Array]]:
    """The elements at each place of all windows, with the place."""
    pads = [(0, 0), (0, 0)]
    for axis, size in enumerate(x.shape[2:]):
        reach = (
            (windows.sizes[axis] - 1) * windows.strides[axis]
            + windows.dilations[axis] * (windows.kernel[axis] - 1)
            + 1
        )
        pads.append((windows.begin[axis], max(0, reach - size - windows.begin[axis])))
    padded = np.pad(x, pads, constant_values=fill)
    found: list[tuple[tuple[int, ...], Array]] = []
    for place in product(*map(range, windows.kernel)):
        slices = [slice(None), slice(None)]
        for axis, offset in enumerate(place):
            start, step = offset * windows.dilations[axis], windows.strides[axis]
            slices.append(slice(start, start + step * (windows.sizes[axis] - 1) + 1, step))
        found.append((place, padded[tuple(slices)]))
    return found


def _positions(windows: Windows, place: Sequence[int]) -> list[Array]:
    """Where, in the input, windows have their element of a place: coordinates along each axis."""
    return [
        np.arange(count) * windows.strides[axis] + place[axis] * windows.dilations[axis] - windows.begin[axis]
        for axis, count in enumerate(windows.sizes)
    ]


def _averages(call: Call) -> list[Array]:
    x = call[0]
    windows = _windows(call, x.shape[2:])
    total = sum(part.astype(np.float64) for _, part in _parts(x, windows, 0))
    count = np.ones(())
    for axis, size in enumerate(x.shape[2:]):
        low, high = (
            (-windows.begin[axis], size + windows.end[axis])
            if call.get("count_include_pad", 0)
            else (0, size)
        )
        there = np.zeros(windows.sizes[axis])
        for offset in range(windows.kernel[axis]):
            place = np.arange(windows.sizes[axis]) * windows.strides[axis] + offset * windows.dilations[axis]
            there += (low <= place - windows.begin[axis]) & (place - windows.begin[axis] < high)
        count = count[..., None] * there
    with np.errstate(all="ignore"):
        return [(total / count).astype(x.dtype)]


def _norms(call: Call) -> list[Array]:
    x, p = call[0], call.get("p", 2)
    parts = _parts(x, _windows(call, x.shape[2:]), 0)
    total = sum(np.abs(part.astype(np.float64)) ** p for _, part in parts)
    return [(total ** (1 / p)).astype(x.dtype)]


def _maxima(call: Call) -> list[Array]:
    x = call[0]
    if x.dtype.kind not in "fiu":
        raise Unmapped(f"maxima of {x.dtype}")
    windows = _windows(call, x.shape[2:])
    least = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    best = np.full((*x.shape[:2], *windows.sizes), least, x.dtype)
    index = np.full(best.shape, -1, np.int64)
    spatial = x.shape[2:]
    steps = [math.prod(spatial[axis + 1 :]) for axis in range(len(spatial))]
    if call.get("storage_order", 0):
        steps = [math.prod(spatial[:axis]) for axis in range(len(spatial))]
    for place, part in _parts(x, windows, least):
        positions = _positions(windows, place)
        flat, inside = np.zeros((), np.int64), np.ones((), np.bool_)
        for at, step, size in zip(positions, steps, spatial, strict=True):
            flat = flat[..., None] + at * step
            inside = inside[..., None] & (at >= 0) & (at < size)
        better = inside & (
            (part > best) | (index < 0) | (np.isnan(part) & ~np.isnan(best) if x.dtype.kind == "f" else False)
        )
        best = np.where(better, part, best)
        index = np.where(better, flat, index)
    planes = np.arange(math.prod(x.shape[:2])).reshape(*x.shape[:2], *[1] * len(spatial))
    return [best, index + planes * math.prod(spatial)]


# --- what may be there, sampling, peepholes --------------------------------------------------------------


def _same(call: Call) -> list[Any]:
    """Optional, which a value in it is, and OptionalGetElement."""
    return [call.optional(0)]


def _is_there(call: Call) -> list[Any]:
    return [np.asarray(call.optional(0) is not None)]


def _resized(call: Call) -> list[Array]:
    return [
        resized(call[0], call.optional(1), call.optional(2), call.optional(3), call.attributes, call.limit)
    ]


def _sampled(call: Call) -> list[Array]:
    return [sampled(call[0], call[1], call.attributes)]


def _suppressed(call: Call) -> list[Array]:
    most, overlap, least = (call.optional(place) for place in (2, 3, 4))
    kept = suppressed(
        call[0],
        call[1],
        0 if most is None else int(np.reshape(most, ())),
        0.0 if overlap is None else float(np.reshape(overlap, ())),
        None if least is None else float(np.reshape(least, ())),
        centers=bool(call.get("center_point_box", 0)),
    )
    return [kept]


def _inverse(call: Call) -> list[Array]:
    x = call[0]
    wide = np.float64 if x.dtype == np.float64 else np.float32
    return [np.linalg.inv(x.astype(wide, copy=False)).astype(x.dtype, copy=False)]


OWN: Mapping[str, Callable[[Call], list[Any] | None]] = {
    **CLASSIC,
    "AveragePool": _averages,
    "Div": _divided,
    "GRU": recurrent,
    "GridSample": _sampled,
    "LSTM": recurrent,
    "LpPool": _norms,
    "MaxPool": _maxima,
    "NonMaxSuppression": _suppressed,
    "Optional": _same,
    "OptionalGetElement": _same,
    "OptionalHasElement": _is_there,
    "RNN": recurrent,
    "RegexFullMatch": full_matches,
    "Resize": _resized,
    "STFT": spectra,
    "RoiAlign": region_averages,
    "Split": pieces,
    "TfIdfVectorizer": counts,
    "com.microsoft.GroupQueryAttention": grouped_attention,
    "com.microsoft.Inverse": _inverse,
    "com.microsoft.Tokenizer": tokens,
}
"""ONNX op → its outputs; None for a node that ONNX's reference has."""
