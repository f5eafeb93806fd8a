"""Where the six convolution ops read and write: their attributes, typed, and one geometry behind all of them.

A transposed convolution is a convolution's gradient by the data, so that its own gradient by the data is a convolution,
and its weight gradient that convolution's with `src` and `diff_dst` exchanged. Backends know `ConvolutionGeometry`
only; `geometry` makes it from an op's attributes and shapes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum

from . import spatial
from .attributes import Attributes
from .formats import AxisMap, axis_positions, data_axes, weights_axes
from .records import frozen
from .windows import WindowAttributes, resolve_pads, window_attributes


class Computes(Enum):
    """Which of the forward op's tensors an op computes, or the gradient of which."""

    DST = "dst"
    SRC = "src"
    WEIGHTS = "weights"


@frozen
class ConvolutionKind:
    """How the six ops differ.

    Attributes:
        transposed: the op belongs to a transposed convolution.
        computes: the forward op's output, or the gradient of its input or weights.
    """

    transposed: bool
    computes: Computes


KINDS = {
    "Convolution": ConvolutionKind(transposed=False, computes=Computes.DST),
    "ConvolutionBackwardData": ConvolutionKind(transposed=False, computes=Computes.SRC),
    "ConvolutionBackwardWeights": ConvolutionKind(transposed=False, computes=Computes.WEIGHTS),
    "ConvTranspose": ConvolutionKind(transposed=True, computes=Computes.DST),
    "ConvTransposeBackwardData": ConvolutionKind(transposed=True, computes=Computes.SRC),
    "ConvTransposeBackwardWeights": ConvolutionKind(transposed=True, computes=Computes.WEIGHTS),
}


def scatters(kind: str) -> bool:
    """Whether the op computes the larger tensor of its geometry, to which windows are added."""
    return KINDS[kind].computes is (Computes.DST if KINDS[kind].transposed else Computes.SRC)


@frozen(kw_only=True)
class ConvolutionAttributes:
    """What the attributes of a convolution op say.

    Attributes:
        window: how the kernel lies on the data.
        groups: how many groups the channels are divided into.
        output_padding: one value per spatial axis; None where the op does not say.
        weights_format: `OIX`, `XIO`, `IOX` or `XOI`.
        input_axis, output_axis, kernel_axes: of the weights, by weights_format.
    """

    window: WindowAttributes
    groups: int
    output_padding: tuple[int, ...] | None
    weights_format: str
    input_axis: int
    output_axis: int
    kernel_axes: tuple[int, ...]


def convolution_attributes(attributes: Attributes, rank: int) -> ConvolutionAttributes:
    """The attributes of an op over `rank` spatial axes whose lists have passed `check_per_axis`."""
    weights_format = attributes.string("weights_format")
    at = axis_positions(weights_format, rank)
    return ConvolutionAttributes(
        window=window_attributes(attributes, rank),
        groups=attributes.integer("groups"),
        output_padding=attributes.integers("output_padding") if "output_padding" in attributes else None,
        weights_format=weights_format,
        input_axis=at["I"][0],
        output_axis=at["O"][0],
        kernel_axes=at["X"],
    )


@frozen(kw_only=True)
class ConvolutionGeometry:
    """One of the six ops with normalised roles, over which windows of the larger tensor meet the smaller one.

    In the canonical views src, the larger one, is (N, G·I, X), diff_dst is (N, G·O, X) and the weights are
    (G, O, I, X). A gradient of weights is
    dW[g, o, i, k] = Σ_n Σ_p diff_dst[n, g·O + o, p] · src[n, g·I + i, p·s + k·d − pads_begin];
    the others gather windows of src into diff_dst, or scatter diff_dst over windows of src.

    Attributes:
        exchanged: the forward op's output plays src here, and its input plays diff_dst (transposed ops).
        batch, groups: N and G.
        rows, columns: O and I, per group.
        src_spatial, dst_spatial, kernel, strides, dilations: one value per spatial axis.
        pads_begin: zeros before src; pads_end: the zeros after it that the windows really reach.
        src_axes, dst_axes, weights_axes: from the arrays' own formats to the canonical views. `src_axes`
            belongs to the tensor that plays src here.
    """

    exchanged: bool
    batch: int
    groups: int
    rows: int
    columns: int
    src_spatial: tuple[int, ...]
    dst_spatial: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads_begin: tuple[int, ...]
    pads_end: tuple[int, ...]
    src_axes: AxisMap
    dst_axes: AxisMap
    weights_axes: AxisMap

    @property
    def spatial_rank(self) -> int:
        """Number of spatial axes."""
        return len(self.kernel)

    @property
    def is_zero(self) -> bool:
        """Whether nothing is summed, so that the gradient is all zeros."""
        return self.batch == 0

    @property
    def flops(self) -> int:
        """Multiplications and additions, those with padding included."""
        return 2 * self.batch * math.prod(self.dst_spatial) * self.weights_size

    @property
    def weights_size(self) -> int:
        """Number of elements of dW."""
        return self.groups * self.rows * self.columns * math.prod(self.kernel)

    @property
    def depthwise(self) -> bool:
        """One channel in and one out per group."""
        return self.groups > 1 and self.rows == self.columns == 1


def geometry(
    kind: str,
    attributes: Attributes,
    first: Sequence[int],
    second: Sequence[int],
    result: Sequence[int],
) -> ConvolutionGeometry:
    """The geometry of an op whose shapes have passed inference.

    Args:
        kind: one of `KINDS`.
        attributes: canonical attributes.
        first, second, result: concrete shapes of the op's first two inputs and of its output, in its own formats.
    """
    transposed = KINDS[kind].transposed
    match KINDS[kind].computes:
        case Computes.DST:
            src, weights, dst = first, second, result
        case Computes.SRC:
            dst, weights, src = first, second, result
        case Computes.WEIGHTS:
            src, dst, weights = first, second, result
    rank = len(src) - 2
    op = convolution_attributes(attributes, rank)
    window, groups = op.window, op.groups
    kernel = tuple(weights[a] for a in op.kernel_axes)
    # Under normalised roles a transposed op's input channels are the rows of dW, its outputs the columns.
    rows, columns = ("I", "O") if transposed else ("O", "I")
    carrier = "O"
    if transposed and groups > 1 and weights[op.input_axis] == src[window.channel_axis]:
        carrier = "I"
    sizes = {"I": weights[op.input_axis], "O": weights[op.output_axis]}
    sizes[carrier] //= groups
    src_spatial, dst_spatial = (tuple(shape[a] for a in window.spatial_axes) for shape in (src, dst))
    pads_begin = tuple(
        resolve_pads(window, axis, kernel[axis], src_spatial[axis], transposed=transposed)[0]
        for axis in range(rank)
    )
    if transposed:
        src_spatial, dst_spatial = dst_spatial, src_spatial
    reach = [
        (out - 1) * s + spatial.effective_kernel(k, d) - begin
        for out, s, k, d, begin in zip(
            dst_spatial, window.strides, kernel, window.dilations, pads_begin, strict=True
        )
    ]
    axes = data_axes(window.data_format, rank)
    return ConvolutionGeometry(
        exchanged=transposed,
        batch=src[window.batch_axis],
        groups=groups,
        rows=sizes[rows],
        columns=sizes[columns],
        # Positions a whole stride past the last window would look like more output to a convolution.
        src_spatial=tuple(
            size if size - want < s else max(want, 1)
            for size, want, s in zip(src_spatial, reach, window.strides, strict=True)
        ),
        dst_spatial=dst_spatial,
        kernel=kernel,
        strides=window.strides,
        dilations=tuple(d if k > 1 else 1 for d, k in zip(window.dilations, kernel, strict=True)),
        pads_begin=pads_begin,
        pads_end=tuple(max(0, want - size) for size, want in zip(src_spatial, reach, strict=True)),
        src_axes=axes,
        dst_axes=axes,
        weights_axes=weights_axes(
            op.weights_format,
            rank,
            rows=rows,
            columns=columns,
            carrier=carrier,
            parts=(groups, sizes[carrier]),
        ),
    )
