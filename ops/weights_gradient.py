"""The one problem behind every weight gradient of a convolution.

Both ops and their legacy names come down to `WeightsGradient`: a transposed convolution is the data gradient of a
convolution, so its weight gradient is that convolution's with `src` and `diff_dst` exchanged. Backends know
this problem only; `weights_gradient` makes it from an op's attributes and shapes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from attrs import frozen

from . import spatial
from .attributes import Attributes
from .formats import AxisMap, axis_positions, data_axes, weights_axes
from .schema import UNKNOWN_DIM, Shape

TRANSPOSED_KIND = "ConvTransposeBackwardWeights"


@frozen(kw_only=True)
class WeightsGradient:
    """A weight gradient with normalised roles: dW = Σ over batch and positions of diff_dst · src window.

    In the canonical views src is (N, G·I, X), diff_dst is (N, G·O, X) and dW is (G, O, I, X):
    dW[g, o, i, k] = Σ_n Σ_p diff_dst[n, g·O + o, p] · src[n, g·I + i, p·s + k·d − pads_begin].

    Attributes:
        exchanged: the op's `diff_dst` plays src here, and its `src` plays diff_dst (transposed ops).
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


def spatial_dims(attributes: Attributes, shape: Shape, rank: int) -> tuple[int, ...]:
    """Spatial sizes of src or diff_dst; UNKNOWN_DIM where not known."""
    if shape is None:
        return (UNKNOWN_DIM,) * rank
    at = axis_positions(attributes.string("data_format"), rank)
    return tuple(shape[a] for a in at["X"])


def resolve_pads(
    attributes: Attributes, rank: int, kernel: Sequence[int], src: Sequence[int], transposed: bool
) -> list[tuple[int, int]]:
    """(begin, end) of every spatial axis, `auto_pad` resolved.

    SAME_* of a transposed op follows its forward rule: the output has src · stride positions where the
    kernel is at least as large as the stride.
    """
    auto_pad = attributes.string("auto_pad")
    if auto_pad == "VALID":
        return [(0, 0)] * rank
    if auto_pad == "None":
        begin = attributes.integers("pads_begin") or (0,) * rank
        end = attributes.integers("pads_end") or (0,) * rank
        return list(zip(begin, end, strict=True))
    pads: list[tuple[int, int]] = []
    for axis in range(rank):
        stride = attributes.integers("strides")[axis]
        extent = spatial.effective_kernel(kernel[axis], attributes.integers("dilations")[axis])
        total = (
            spatial.transposed_same_total(extent, stride)
            if transposed
            else spatial.convolution_same_total(src[axis], extent, stride)
        )
        pads.append(spatial.same_pads(total, auto_pad))
    return pads


def weights_gradient(
    kind: str,
    attributes: Attributes,
    src: tuple[int, ...],
    diff_dst: tuple[int, ...],
    weights: tuple[int, ...],
) -> WeightsGradient:
    """The normalised problem of an op whose shapes have passed inference.

    Args:
        kind: `ConvolutionBackwardWeights` or `ConvTransposeBackwardWeights`.
        attributes: canonical attributes.
        src, diff_dst, weights: concrete shapes in the op's own formats.
    """
    transposed = kind == TRANSPOSED_KIND
    rank = len(src) - 2
    groups = attributes.integer("groups")
    fmt = attributes.string("weights_format")
    at = axis_positions(fmt, rank)
    kernel = tuple(weights[a] for a in at["X"])
    pads = resolve_pads(attributes, rank, kernel, spatial_dims(attributes, src, rank), transposed)
    axes = data_axes(attributes.string("data_format"), rank)
    # Under normalised roles a transposed op's input channels are the rows of dW, its outputs the columns.
    rows, columns = ("I", "O") if transposed else ("O", "I")
    carrier = "O"
    if transposed and groups > 1 and weights[at["I"][0]] == src[axis_of_channels(attributes, rank)]:
        carrier = "I"
    sizes = {letter: weights[at[letter][0]] for letter in "IO"}
    sizes[carrier] //= groups
    playing_src, playing_dst = (diff_dst, src) if transposed else (src, diff_dst)
    src_spatial = spatial_dims(attributes, playing_src, rank)
    dst_spatial = spatial_dims(attributes, playing_dst, rank)
    strides, dilations = attributes.integers("strides"), attributes.integers("dilations")
    pads_begin = tuple(begin for begin, _ in pads)
    reach = [
        (out - 1) * s + spatial.effective_kernel(k, d) - begin
        for out, s, k, d, begin in zip(dst_spatial, strides, kernel, dilations, pads_begin, strict=True)
    ]
    return WeightsGradient(
        exchanged=transposed,
        batch=src[axes.order[0]],
        groups=groups,
        rows=sizes[rows],
        columns=sizes[columns],
        # Positions a whole stride past the last window would look like more output to a convolution.
        src_spatial=tuple(
            size if size - want < s else max(want, 1)
            for size, want, s in zip(src_spatial, reach, strides, strict=True)
        ),
        dst_spatial=dst_spatial,
        kernel=kernel,
        strides=strides,
        dilations=tuple(d if k > 1 else 1 for d, k in zip(dilations, kernel, strict=True)),
        pads_begin=pads_begin,
        pads_end=tuple(max(0, want - size) for size, want in zip(src_spatial, reach, strict=True)),
        src_axes=axes,
        dst_axes=axes,
        weights_axes=weights_axes(
            fmt,
            rank,
            rows=rows,
            columns=columns,
            carrier=carrier,
            parts=(groups, sizes[carrier]),
        ),
    )


def axis_of_channels(attributes: Attributes, rank: int) -> int:
    """The channel axis of src and diff_dst."""
    return axis_positions(attributes.string("data_format"), rank)["C"][0]
