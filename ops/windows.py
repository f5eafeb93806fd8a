"""Windows that slide along spatial axes: the attributes that convolutions and poolings share, and what they pad."""

from __future__ import annotations

from . import spatial
from .attributes import Attributes
from .formats import axis_positions
from .records import frozen
from .schema import InferenceContext, format_shape
from .shared import known

PER_AXIS = ("kernel", "strides", "dilations", "pads_begin", "pads_end", "output_padding")
"""Attributes with one value per spatial axis."""


@frozen(kw_only=True)
class WindowAttributes:
    """How windows lie on the data.

    Attributes:
        strides, dilations: one value per spatial axis; an op without dilations has ones.
        pads_begin, pads_end: one value per spatial axis, as given; `resolve_pads` says what counts.
        auto_pad: one of `AUTO_PADS`.
        data_format: `NXC` or `NCX`.
        batch_axis, channel_axis, spatial_axes: of the data, by data_format.
    """

    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads_begin: tuple[int, ...]
    pads_end: tuple[int, ...]
    auto_pad: str
    data_format: str
    batch_axis: int
    channel_axis: int
    spatial_axes: tuple[int, ...]


def window_attributes(attributes: Attributes, rank: int) -> WindowAttributes:
    """The attributes of an op over `rank` spatial axes whose lists have passed `check_per_axis`."""
    data_format = attributes.string("data_format")
    at = axis_positions(data_format, rank)
    return WindowAttributes(
        strides=attributes.integers("strides"),
        dilations=attributes.integers("dilations") if "dilations" in attributes else (1,) * rank,
        pads_begin=attributes.integers("pads_begin") or (0,) * rank,
        pads_end=attributes.integers("pads_end") or (0,) * rank,
        auto_pad=attributes.string("auto_pad"),
        data_format=data_format,
        batch_axis=at["N"][0],
        channel_axis=at["C"][0],
        spatial_axes=at["X"],
    )


def check_per_axis(ctx: InferenceContext, shape: tuple[int, ...]) -> None:
    """Checks lists of one value per spatial axis against data or weights of `shape`; empty pads mean zeros.

    Raises:
        ShapeError: one is longer or shorter.
    """
    rank = len(shape) - 2
    for name in PER_AXIS:
        if name not in ctx.attributes:
            continue
        values = ctx.attributes.integers(name)
        if len(values) != rank and (values or not name.startswith("pads_")):
            raise ctx.error(
                f"attribute '{ctx.names.spell(name)}' must have one value per spatial axis, {rank} for shape "
                f"{format_shape(shape)}, got {len(values)} in {list(values)}"
            )


def resolve_pads(
    window: WindowAttributes, axis: int, kernel: int, size: int, *, transposed: bool = False
) -> tuple[int, int]:
    """(begin, end) of one spatial axis, `auto_pad` resolved.

    SAME_* of a transposed op follows its forward rule: the output has size · stride positions where the
    kernel is at least as large as the stride.

    Args:
        window: how the windows lie.
        axis: counted over the spatial axes.
        kernel: elements of the window along the axis.
        size: of the data that the windows slide over, which SAME_* of ops that are not transposed needs; no padding
            while it is unknown.
        transposed: whether the op belongs to a transposed convolution.
    """
    if window.auto_pad == "VALID":
        return 0, 0
    if window.auto_pad == "None":
        return window.pads_begin[axis], window.pads_end[axis]
    stride = window.strides[axis]
    extent = spatial.effective_kernel(kernel, window.dilations[axis])
    if transposed:
        total = spatial.transposed_same_total(extent, stride)
    else:
        total = spatial.convolution_same_total(size, extent, stride) if known(size) else 0
    return spatial.same_pads(total, window.auto_pad)
