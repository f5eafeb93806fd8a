"""Gradients of convolutions where a size has to be found that no attribute says."""

from __future__ import annotations

from collections.abc import Iterator

from ...ops.formats import axis_positions
from ...ops.schema import UNKNOWN_DIM
from ...ops.spatial import effective_kernel
from ...ops.windows import resolve_pads, window_attributes
from ..model.logical_tensor import LogicalTensor
from .arithmetic import dims_of, sizes
from .backward_ops import by_backward_ops
from .context import GradientContext
from .rules import Made, rule


@rule("Convolution")
def convolution(ctx: GradientContext) -> Iterator[Made]:
    """Its gradient ops. Where the batch is not known, the padding of the data's says what the spatial sizes are."""
    src = ctx.shape_of("src")
    if src.is_concrete or not ctx.wants("src"):
        yield from by_backward_ops(ctx)
    else:
        padding = {"output_padding": _left_over(ctx, src)}
        yield from by_backward_ops(ctx, in_place_of_shapes={"ConvolutionBackwardData": padding})


def _left_over(ctx: GradientContext, src: LogicalTensor) -> list[int]:
    """How many elements at the end of each spatial axis the last window does not reach.

    Raises:
        UnsupportedError: a spatial size is not known, or matters to the padding as well.
    """
    shape, kernels = dims_of(src), sizes(ctx.shape_of("weights"))
    window = window_attributes(ctx.op.attributes, len(shape) - 2)
    taps = axis_positions(ctx.op.attributes.string("weights_format"), len(shape) - 2)["X"]
    if window.auto_pad.startswith("SAME") or any(shape[axis] == UNKNOWN_DIM for axis in window.spatial_axes):
        sizes(src)  # says which tensor
    left: list[int] = []
    for number, axis in enumerate(window.spatial_axes):
        kernel = kernels[taps[number]]
        pads = sum(resolve_pads(window, number, kernel, shape[axis]))
        extent = effective_kernel(kernel, window.dilations[number])
        left.append((shape[axis] + pads - extent) % window.strides[number])
    return left


def _transposed(
    ctx: GradientContext, src: LogicalTensor, weights: LogicalTensor, like: LogicalTensor
) -> LogicalTensor:
    """The transposed convolution that makes a tensor of the shape of `like`."""
    shape, kernels, wanted = sizes(src), sizes(weights), sizes(like)
    window = window_attributes(ctx.op.attributes, len(shape) - 2)
    taps = axis_positions(ctx.op.attributes.string("weights_format"), len(shape) - 2)["X"]
    padding: list[int] = []
    for number, axis in enumerate(window.spatial_axes):
        kernel = kernels[taps[number]]
        pads = sum(resolve_pads(window, number, kernel, shape[axis], transposed=True))
        extent = effective_kernel(kernel, window.dilations[number])
        padding.append(wanted[axis] - (window.strides[number] * (shape[axis] - 1) + extent - pads))
    handed = {n: v for n, v in ctx.op.attributes.items() if n not in ("weights_shape", "output_padding")}
    return ctx.make.ops("ConvTranspose", [src, weights], {**handed, "output_padding": padding})[0]


@rule("ConvTransposeBackwardData")
def data(ctx: GradientContext) -> Iterator[Made]:
    """It is linear in both: a transposed convolution, and a gradient of its weights."""
    if ctx.wants("diff_dst"):
        yield "diff_dst", _transposed(ctx, ctx.gradient, ctx.input("weights"), ctx.shape_of("diff_dst"))
    yield from by_backward_ops(ctx)


@rule("ConvTransposeBackwardWeights")
def weights(ctx: GradientContext) -> Iterator[Made]:
    """It is linear in both: a gradient of the data, and a transposed convolution."""
    if ctx.wants("diff_dst"):
        yield "diff_dst", _transposed(ctx, ctx.input("src"), ctx.gradient, ctx.shape_of("diff_dst"))
    yield from by_backward_ops(ctx)
