"""Convolutions, transposed ones, and the gradients of both by their data, which are each the other one."""

from __future__ import annotations

from collections.abc import Sequence

from ...ops.convolution_geometry import ConvolutionAttributes, convolution_attributes
from ...ops.errors import UnsupportedError
from ...ops.schema import UNKNOWN_DIM
from ...ops.spatial import effective_kernel
from ...ops.windows import resolve_pads
from ..model.logical_tensor import LogicalTensor
from ..model.op import Op
from .entries import Writers
from .writing import Writing

WRITERS = Writers()


@WRITERS.of("Convolution", "ConvTransposeBackwardData")
def _gathering(out: Writing, op: Op) -> str:
    """What gathers windows of its first input: Conv."""
    src, weights, *bias = op.inputs
    shape = out.shape(src, op)
    how = convolution_attributes(op.attributes, len(shape) - 2)
    transposed = op.kind != "Convolution"
    kernel = _kernel(out, op, weights, how)
    pads = _pads(out, op, how, kernel, shape, transposed=transposed)
    made = out.node(
        "Conv",
        out.channels_first(src, op),
        _inputs_first(out, op, weights, how, shape) if transposed else _outputs_first(out, weights, how),
        *map(out.name, bias),
        **_attributes(how, kernel, pads),
    )
    return out.as_data(made, len(shape), op)


@WRITERS.of("ConvTranspose", "ConvolutionBackwardData")
def _scattering(out: Writing, op: Op) -> str:
    """What adds windows to its output: ConvTranspose."""
    src, weights = op.inputs[:2]
    shape = out.shape(src, op)
    rank = len(shape) - 2
    how = convolution_attributes(op.attributes, rank)
    transposed = op.kind == "ConvTranspose"
    kernel = _kernel(out, op, weights, how)
    result = op.outputs[0]
    pads = _pads(out, op, how, kernel, shape if transposed else out.shape(result, op), transposed=transposed)
    padding: tuple[int, ...] = how.output_padding or (0,) * rank
    if not transposed:
        # What the forward op's last windows did not reach is told by the sizes alone.
        have, want = out.dims(src, op, "the output's size"), out.dims(result, op, "the output's size")
        window = how.window
        padding = tuple(
            want[at]
            - window.strides[axis] * (have[at] - 1)
            - effective_kernel(kernel[axis], window.dilations[axis])
            + pads[0][axis]
            + pads[1][axis]
            for axis, at in enumerate(window.spatial_axes)
        )
    made = out.node(
        "ConvTranspose",
        out.channels_first(src, op),
        _inputs_first(out, op, weights, how, shape) if transposed else _outputs_first(out, weights, how),
        *(map(out.name, op.inputs[2:]) if transposed else ()),
        output_padding=list(padding) if any(padding) else None,
        **_attributes(how, kernel, pads),
    )
    return out.as_data(made, rank + 2, op)


def _attributes(
    how: ConvolutionAttributes, kernel: Sequence[int], pads: tuple[Sequence[int], Sequence[int]]
) -> dict[str, object]:
    return {
        "strides": list(how.window.strides),
        "dilations": list(how.window.dilations),
        "pads": [*pads[0], *pads[1]],
        "group": how.groups,
        "kernel_shape": list(kernel),
    }


def _kernel(out: Writing, op: Op, weights: LogicalTensor, how: ConvolutionAttributes) -> tuple[int, ...]:
    shape = out.dims(weights, op, "the kernel")
    return tuple(shape[axis] for axis in how.kernel_axes)


def _pads(
    out: Writing,
    op: Op,
    how: ConvolutionAttributes,
    kernel: Sequence[int],
    shape: tuple[int, ...],
    *,
    transposed: bool,
) -> tuple[Sequence[int], Sequence[int]]:
    sizes = [shape[axis] for axis in how.window.spatial_axes]
    if how.window.auto_pad.startswith("SAME") and not transposed and UNKNOWN_DIM in sizes:
        raise out.unknown(op.inputs[0], op, "the padding")
    pairs = [
        resolve_pads(how.window, axis, k, size, transposed=transposed)
        for axis, (k, size) in enumerate(zip(kernel, sizes, strict=True))
    ]
    return [first for first, _ in pairs], [last for _, last in pairs]


def _outputs_first(out: Writing, weights: LogicalTensor, how: ConvolutionAttributes) -> str:
    """Weights of a convolution as (O, I / groups, X)."""
    return out.ordered(weights, (how.output_axis, how.input_axis, *how.kernel_axes))


def _inputs_first(
    out: Writing, op: Op, weights: LogicalTensor, how: ConvolutionAttributes, data: tuple[int, ...]
) -> str:
    """Weights of a transposed convolution as (I, O / groups, X).

    Args:
        data: shape of the op's first input, whose channels say which of the two layouts grouped weights have.
    """
    shape = out.dims(weights, op, "the order of the weights")
    order = (how.input_axis, how.output_axis, *how.kernel_axes)
    inputs, outputs, *kernel = (shape[axis] for axis in order)
    channels = data[how.window.channel_axis]
    if channels == UNKNOWN_DIM and how.groups > 1:
        raise UnsupportedError(
            f"to_onnx: {op} has groups, and channels that are not known; give them by graph.with_shapes({{…}}) first"
        )
    # Of the forward op's input here, and of its output in the gradient.
    by_outputs = channels == outputs if op.kind != "ConvTranspose" else channels != inputs
    if how.groups == 1 or not by_outputs:
        return out.ordered(weights, order)
    # (I / groups, O, X): groups lie along O.
    name = out.ordered(weights, order)
    parts = out.reshape(name, (inputs, how.groups, outputs // how.groups, *kernel))
    apart = out.transpose(parts, (1, 0, 2, *range(3, 3 + len(kernel))))
    return out.reshape(apart, (how.groups * inputs, outputs // how.groups, *kernel))
