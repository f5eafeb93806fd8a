"""What the steps of a plan have to do, in amounts that a cost model has seconds for."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ....ops.convolution_geometry import ConvolutionGeometry
from ....ops.data_types import DataType
from ....ops.records import frozen
from ..library.implementations import LANES, earlier_name
from ..library.memory import MemoryDesc

NEAR = 4 << 20
"""Bytes that are taken to stay in a cache between two steps; what is beyond is counted as far."""

AMOUNTS: Mapping[str, tuple[str, ...]] = {
    "convolution": (
        "calls",
        "flops",
        "padded flops",
        "bytes",
        "weights bytes",
        "rows",
        "columns bytes",
        "images",
        "patch flops",
        "weights traffic",
    ),
    "matmul": ("calls", "flops", "bytes", "far bytes", "batches"),
    "reorder": ("calls", "bytes", "far bytes", "elements", "runs"),
    "sum": ("calls", "bytes", "far bytes"),
}
"""Family of a step → what its amounts are, in order; of new ones, which come last, data from before have zeros."""
TRAITS: Mapping[str, tuple[str, ...]] = {
    "convolution": (
        "rows",
        "columns",
        "filled rows",
        "filled columns",
        "groups",
        "batch",
        "positions",
        "width",
        "src width",
        "taps",
        "kernel width",
        "stride",
        "dilation",
        "pad",
        "spatial rank",
        "flops",
        "filled patch",
        "patch",
    ),
    "matmul": (
        *("rows", "depth", "columns", "batches", "first turned", "second turned", "flops"),
        *("first crowded", "second crowded", "product crowded"),
    ),
    "reorder": ("elements", "source run", "target run", "channels", "images"),
    "sum": (),
}
"""Family of a step → what its traits are, in order: of the width where they are of one axis; `filled` is how full the
vectors are, `patch` the channels and taps that one position of diff_dst meets. Trees of older data ask for none of
those that came last."""

CROWDING = 2048
"""Bytes: rows that lie a multiple of it apart share few sets of a cache of the first level."""


@frozen
class Work:
    """What one step has to do.

    Attributes:
        family: a key of AMOUNTS.
        kind: implementation as oneDNN 3.2 calls it, data type and layout, by which times differ.
        amounts: as AMOUNTS says.
        traits: as TRAITS says; what else times depend on, without being proportional to it.
    """

    family: str
    kind: str
    amounts: tuple[float, ...]
    traits: tuple[float, ...] = ()


def convolution_work(
    implementation: str, data_type: DataType, layout: str, gradient: ConvolutionGeometry, nbytes: int
) -> Work:
    """The work of a weight gradient.

    Args:
        layout: of src in the library's letters, `acdb` or `aBcd16b`, say.
        nbytes: of src and diff_dst.
    """
    flops = float(gradient.flops)
    tiles = math.ceil(gradient.rows / LANES) * math.ceil(gradient.columns / LANES)
    padded = flops / (gradient.rows * gradient.columns) * tiles * LANES * LANES
    size = 4 if data_type is DataType.f32 else 2
    kernel_rows = math.prod(gradient.kernel[:-1])
    weights = float(gradient.weights_size * size)
    rows = gradient.groups * tiles * gradient.batch * math.prod(gradient.dst_spatial[:-1]) * kernel_rows
    return Work(
        "convolution",
        f"{earlier_name(implementation)} {data_type.value} {_layout_class(layout)} {_window_class(gradient)}",
        (
            1.0,
            flops,
            padded,
            float(nbytes),
            weights,
            float(rows),
            flops / (2 * gradient.rows) * size,
            float(gradient.batch * gradient.groups),
            flops / filled(_patch(gradient)),
            weights * gradient.batch,
        ),
        _convolution_traits(gradient),
    )


def _convolution_traits(gradient: ConvolutionGeometry) -> tuple[float, ...]:
    return tuple(
        map(
            float,
            (
                gradient.rows,
                gradient.columns,
                filled(gradient.rows),
                filled(gradient.columns),
                gradient.groups,
                gradient.batch,
                math.prod(gradient.dst_spatial),
                gradient.dst_spatial[-1],
                gradient.src_spatial[-1],
                math.prod(gradient.kernel),
                gradient.kernel[-1],
                gradient.strides[-1],
                gradient.dilations[-1],
                gradient.pads_begin[-1],
                gradient.spatial_rank,
                gradient.flops,
                filled(_patch(gradient)),
                _patch(gradient),
            ),
        )
    )


def _patch(gradient: ConvolutionGeometry) -> int:
    """What a product makes of one position of diff_dst: a row of the columns that gemm gathers."""
    return gradient.columns * math.prod(gradient.kernel)


def filled(channels: int) -> float:
    """The part of the vectors' lanes that so many channels fill."""
    return channels / (math.ceil(channels / LANES) * LANES)


def _layout_class(layout: str) -> str:
    """`blocked`, `last` or `first`, by where the channels are."""
    if any(letter.isupper() for letter in layout):
        return "blocked"
    return "last" if layout.endswith("b") else "first"


def _window_class(gradient: ConvolutionGeometry) -> str:
    """`unit`, `strided` or `window`: ways in which kernels walk over src."""
    if any(stride > 1 for stride in gradient.strides):
        return "strided"
    return "unit" if all(k == 1 for k in gradient.kernel) else "window"


def matmul_work(
    implementation: str, data_type: DataType, first: MemoryDesc, second: MemoryDesc, product: MemoryDesc
) -> Work:
    """The work of a (batched) matrix product."""
    *batch, rows, depth = first.shape
    columns, batches = second.shape[-1], float(math.prod(batch))
    flops = 2.0 * batches * rows * depth * columns
    turned = (float(_is_turned(first)), float(_is_turned(second)))
    crowded = tuple(float(is_crowded(one)) for one in (first, second, product))
    return Work(
        "matmul",
        f"{earlier_name(implementation)} {data_type.value}",
        (1.0, flops, *_bytes(first.nbytes + second.nbytes + product.nbytes), batches),
        (float(rows), float(depth), float(columns), batches, *turned, flops, *crowded),
    )


def is_crowded(matrix: MemoryDesc) -> bool:
    """Whether its rows, or its columns where these lie together, are so far apart that they share sets of a cache."""
    strides = matrix.strides
    return (
        strides is not None and max(strides[-2:]) > 1 and max(strides[-2:]) * matrix.itemsize % CROWDING == 0
    )


def _is_turned(matrix: MemoryDesc) -> bool:
    """Whether its columns lie together, and not its rows."""
    return matrix.strides is not None and matrix.strides[-1] != 1


def reorder_work(implementation: str, source: MemoryDesc, target: MemoryDesc) -> Work:
    """The work of a copy; what turns the fastest axis costs more than what keeps it."""
    first, second = source.describe(), target.describe()
    way = f"{_layout_class(first)} to {_layout_class(second)}"
    same = first[-1:] == second[-1:]
    elements = math.prod(source.shape)
    nbytes = elements * (source.itemsize + target.itemsize)
    types = f"{source.itemsize} to {target.itemsize}"
    runs = elements / min(source.run, target.run) if same else elements
    return Work(
        "reorder",
        f"{implementation} {types} {way}",
        (1.0, *_bytes(nbytes), float(elements), float(runs)),
        tuple(map(float, (elements, source.run, target.run, *_second_and_first(source.shape)))),
    )


def _second_and_first(shape: tuple[int, ...]) -> tuple[int, int]:
    """Sizes of the second and of the first axis: of data its channels and its images."""
    return (shape[1] if len(shape) > 1 else 1), (shape[0] if shape else 1)


def sum_work(implementation: str, nbytes: int) -> Work:
    """The work of a sum of tensors."""
    return Work("sum", implementation, (1.0, *_bytes(nbytes)))


def _bytes(count: int) -> tuple[float, float]:
    """Bytes, and those of them that are far."""
    return float(count), float(max(0, count - NEAR))
