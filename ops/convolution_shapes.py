"""Shape rules of the six convolution ops. They check everything that is known and return what follows."""

from __future__ import annotations

import math
from collections.abc import Sequence

from . import spatial
from .attributes import S64_MAX
from .convolution_geometry import (
    KINDS,
    Computes,
    ConvolutionAttributes,
    ConvolutionKind,
    convolution_attributes,
    scatters,
)
from .schema import UNKNOWN_DIM, InferenceContext, InferShapes, Shape, format_shape
from .shared import known, vector
from .windows import check_per_axis, resolve_pads

MAX_AXES = 32
"""The NumPy kernel's windows take twice the spatial axes, and NumPy arrays have at most 64."""


def shape_rule(kind: str) -> InferShapes:
    """The shape rule of one of `KINDS`."""
    how = KINDS[kind]
    if how.computes is Computes.WEIGHTS:
        return lambda ctx: _infer_weights(ctx, how)
    return lambda ctx: _infer_data(ctx, kind, how)


def _spatial_rank(ctx: InferenceContext, described: Sequence[tuple[str, Shape]]) -> int | None:
    """The spatial rank, or None when no shape tells it; every one that does must agree, and the attributes with them.

    Args:
        described: names, as the user spells them, and shapes.
    """
    found: tuple[int, ...] | None = None
    first = ""
    for name, shape in described:
        if shape is None:
            continue
        if not 3 <= len(shape) <= MAX_AXES:
            raise ctx.error(
                f"'{name}' must have a batch, a channel and 1 to {MAX_AXES - 2} spatial axes "
                f"(weights likewise), got shape {format_shape(shape)} of rank {len(shape)}"
            )
        if found is None:
            found, first = shape, name
        elif len(found) != len(shape):
            raise ctx.error(
                f"'{name}' must have the rank of '{first}', {len(found)}, got shape {format_shape(shape)} of rank "
                f"{len(shape)}"
            )
    if found is None:
        return None
    check_per_axis(ctx, found)
    return len(found) - 2


# --- gradients of weights ----------------------------------------------------------------------------


def _infer_weights(ctx: InferenceContext, how: ConvolutionKind) -> tuple[Shape, ...]:
    name = ctx.names.spell("weights_shape")
    src, diff_dst = ctx.inputs[0], ctx.inputs[1]
    if len(ctx.inputs) < 3 and "weights_shape" not in ctx.attributes:
        raise ctx.error(
            f"the shape of the weights is missing; give attribute '{name}' or connect input 2 '{name}'"
        )
    value = ctx.values.get("weights_shape")
    if value is not None and any(v < 1 for v in value):
        raise ctx.error(f"input '{name}' must hold positive sizes, got {list(value)}")
    weights = _requested_weights(ctx)
    rank = _spatial_rank(
        ctx,
        [
            (ctx.names.spell("src"), src),
            (ctx.names.spell("diff_dst"), diff_dst),
            (name, weights),
            (ctx.names.spell("diff_weights"), ctx.outputs[0]),
        ],
    )
    if rank is None:
        return (None,)
    op = convolution_attributes(ctx.attributes, rank)
    src_batch, src_channels = _batch_and_channels(ctx, op, "src", src)
    dst_batch, dst_channels = _batch_and_channels(ctx, op, "diff_dst", diff_dst)
    if known(src_batch) and known(dst_batch) and src_batch != dst_batch:
        raise ctx.error(
            f"'{ctx.names.spell('src')}' and '{ctx.names.spell('diff_dst')}' must have the same batch "
            f"size, got {src_batch} and {dst_batch}"
        )
    if weights is None:
        return (ctx.outputs[0] if ctx.outputs[0] is not None else (UNKNOWN_DIM,) * (rank + 2),)
    _check_weights(ctx, op, how, weights, src_channels, dst_channels)
    _check_positions(ctx, op, how, weights)
    return (weights,)


def _requested_weights(ctx: InferenceContext) -> Shape:
    """The weights' shape: the input's value wins over the attribute, as the documents say."""
    if "weights_shape" in ctx.values:
        return ctx.values["weights_shape"]
    if len(ctx.inputs) > 2:
        return None
    return ctx.attributes.integers("weights_shape") if "weights_shape" in ctx.attributes else None


def _batch_and_channels(
    ctx: InferenceContext, op: ConvolutionAttributes, port: str, shape: Shape
) -> tuple[int, int]:
    """(batch, channels) of a data tensor, with UNKNOWN_DIM where not known."""
    if shape is None:
        return UNKNOWN_DIM, UNKNOWN_DIM
    batch, channels = shape[op.window.batch_axis], shape[op.window.channel_axis]
    if channels == 0 or (known(channels) and channels % op.groups):
        raise ctx.error(
            f"'{ctx.names.spell(port)}' must have a positive number of channels that attribute "
            f"'groups' = {op.groups} divides, got {channels} channels in shape {list(shape)} with "
            f"data_format '{op.window.data_format}'"
        )
    return batch, channels


def _check_weights(
    ctx: InferenceContext,
    op: ConvolutionAttributes,
    how: ConvolutionKind,
    weights: tuple[int, ...],
    src_channels: int,
    dst_channels: int,
) -> None:
    """Checks the weights' size and channels, and the declared output."""
    if math.prod(weights) > S64_MAX // 8:
        raise ctx.error(
            f"'{ctx.names.spell('weights_shape')}' must have fewer than 2**60 elements, got {list(weights)}"
        )
    inputs, outputs = weights[op.input_axis], weights[op.output_axis]
    choices = [_documented_channels(src_channels, dst_channels, op.groups)]
    if how.transposed:
        choices.append(_library_channels(src_channels, dst_channels, op.groups))
    if not any((not known(i) or i == inputs) and (not known(o) or o == outputs) for i, o in choices):
        expected = " or ".join(
            f"I = {i if known(i) else '?'} and O = {o if known(o) else '?'}"
            for i, o in dict.fromkeys(choices)
        )
        raise ctx.error(
            f"'{ctx.names.spell('weights_shape')}' must have {expected} for these channels and "
            f"groups = {op.groups}, got I = {inputs} and O = {outputs} in {list(weights)} with "
            f"{ctx.names.spell('weights_format')} '{op.weights_format}' and data_format "
            f"'{op.window.data_format}'; check both formats first"
        )
    declared = ctx.outputs[0]
    if declared is not None and any(
        known(have) and have != want for have, want in zip(declared, weights, strict=True)
    ):
        raise ctx.error(
            f"output '{ctx.names.spell('diff_weights')}' is declared with shape {list(declared)}, but "
            f"'{ctx.names.spell('weights_shape')}' is {list(weights)}; make them equal"
        )


def _documented_channels(src: int, dst: int, groups: int) -> tuple[int, int]:
    """(I, O) of the weights as both documents give them: I is divided by the groups."""
    return (src // groups if known(src) else UNKNOWN_DIM), dst


def _library_channels(src: int, dst: int, groups: int) -> tuple[int, int]:
    """(I, O) of transposed weights as oneDNN's code has them: O is divided by the groups."""
    return src, (dst // groups if known(dst) else UNKNOWN_DIM)


def _check_positions(
    ctx: InferenceContext, op: ConvolutionAttributes, how: ConvolutionKind, weights: tuple[int, ...]
) -> None:
    """The spatial arithmetic, axis by axis, where both sizes are known."""
    rule = _transposed_positions if how.transposed else _convolution_positions
    for axis, (at, kernel_at) in enumerate(zip(op.window.spatial_axes, op.kernel_axes, strict=True)):
        src, dst = (UNKNOWN_DIM if shape is None else shape[at] for shape in ctx.inputs[:2])
        for port, size in (("src", src), ("diff_dst", dst)):
            if size == 0:
                raise ctx.error(
                    f"'{ctx.names.spell(port)}' must have a positive size on spatial axis {axis}, got 0"
                )
        if not (known(src) and known(dst)):
            continue
        want, numbers = rule(op, axis, src, dst, weights[kernel_at])
        if want != dst or want < 1:
            raise ctx.error(
                f"'{ctx.names.spell('diff_dst')}' must have size {numbers} on spatial axis {axis}, got "
                f"{dst}; check strides, pads, dilations, "
                f"{'output_padding, ' if how.transposed else ''}'{ctx.names.spell('weights_shape')}' and "
                "data_format"
            )


def _convolution_positions(
    op: ConvolutionAttributes, axis: int, src: int, dst: int, kernel: int
) -> tuple[int, str]:
    """The size that diff_dst must have on one axis, and the rule in numbers."""
    stride = op.window.strides[axis]
    extent = spatial.effective_kernel(kernel, op.window.dilations[axis])
    pads = sum(resolve_pads(op.window, axis, kernel, src))
    size = spatial.convolution_size(src, extent, stride, pads)
    return size, f"(src + pads − extent) // stride + 1 = ({src} + {pads} − {extent}) // {stride} + 1 = {size}"


def _transposed_positions(
    op: ConvolutionAttributes, axis: int, src: int, dst: int, kernel: int
) -> tuple[int, str]:
    """The size that diff_dst must have on one axis, and the rule in numbers.

    Native oneDNN Graph has no output_padding on this op and takes what the sizes imply; so do we when it is
    not given, as long as it stays below the stride, above which it would hide a wrong size.
    """
    stride = op.window.strides[axis]
    extent = spatial.effective_kernel(kernel, op.window.dilations[axis])
    pads = sum(resolve_pads(op.window, axis, kernel, src, transposed=True))
    if op.output_padding is not None:
        extra = op.output_padding[axis]
    else:
        implied = dst - spatial.transposed_size(src, extent, stride, pads, 0)
        extra = implied if 0 <= implied < stride else 0
    size = spatial.transposed_size(src, extent, stride, pads, extra)
    return size, (
        f"stride·(src − 1) + extent + output_padding − pads = "
        f"{stride}·({src} − 1) + {extent} + {extra} − {pads} = {size}"
    )


# --- convolutions and gradients of their data --------------------------------------------------------


def _infer_data(ctx: InferenceContext, kind: str, how: ConvolutionKind) -> tuple[Shape, ...]:
    forward = how.computes is Computes.DST
    name = "src" if forward else "diff_dst"
    rank = _spatial_rank(ctx, [(name, ctx.inputs[0]), ("weights", ctx.inputs[1])])
    if rank is None:
        return (None,)
    op = convolution_attributes(ctx.attributes, rank)
    window = op.window
    unknown = (UNKNOWN_DIM,) * (rank + 2)
    data, weights = ctx.inputs[0] or unknown, ctx.inputs[1] or unknown
    channels = _channels_made(ctx, op, how, name, data[window.channel_axis], weights)
    requested = _requested_data(ctx)
    if requested is not None and len(requested) != rank + 2:
        raise ctx.error(
            f"the output must have {rank + 2} axes as '{name}', got shape {format_shape(requested)}"
        )
    sizes = {window.batch_axis: data[window.batch_axis], window.channel_axis: channels}
    waits = not forward and len(ctx.inputs) > 2 and "dst_shape" not in ctx.values
    for axis, (at, kernel_at) in enumerate(zip(window.spatial_axes, op.kernel_axes, strict=True)):
        size, kernel = data[at], weights[kernel_at]
        if waits or not (known(size) and known(kernel)):
            sizes[at] = UNKNOWN_DIM
        elif scatters(kind):
            want = requested[at] if requested is not None else UNKNOWN_DIM
            sizes[at] = _scattered(ctx, op, axis, size, kernel, want)
        else:
            sizes[at] = _gathered(ctx, op, how, axis, size, kernel)
    result = tuple(sizes[a] for a in range(rank + 2))
    if requested is not None and any(
        known(a) and known(b) and a != b for a, b in zip(requested, result, strict=True)
    ):
        raise ctx.error(
            f"the output must have shape {format_shape(result)} for these inputs and attributes, got "
            f"{format_shape(requested)}"
        )
    if forward and len(ctx.inputs) > 2:
        vector(ctx, ctx.inputs[2], "bias", channels)
    return (result,)


def _channels_made(
    ctx: InferenceContext,
    op: ConvolutionAttributes,
    how: ConvolutionKind,
    name: str,
    channels: int,
    weights: tuple[int, ...],
) -> int:
    """Checks the channels of the data input and returns those of the output.

    Raises:
        ShapeError: the channels, the weights and the groups contradict each other.
    """
    groups = op.groups
    inputs, outputs = weights[op.input_axis], weights[op.output_axis]
    # (input channels, output channels) of the forward op; transposed weights with groups come in two layouts.
    pairs = [(inputs * groups if known(inputs) else UNKNOWN_DIM, outputs)]
    if how.transposed and groups > 1:
        pairs.append((inputs, outputs * groups if known(outputs) else UNKNOWN_DIM))
    given, wanted = (0, 1) if how.computes is Computes.DST else (1, 0)
    for port, count in ((name, channels), ("weights", inputs), ("weights", outputs)):
        if count == 0:
            raise ctx.error(f"'{port}' must have a positive number of channels, got 0")
    fitting = {
        pair[wanted]
        for pair in pairs
        if (UNKNOWN_DIM in (pair[given], channels) or pair[given] == channels)
        and all(not known(c) or c % groups == 0 for c in pair)
    }
    if fitting:
        return fitting.pop() if len(fitting) == 1 else UNKNOWN_DIM
    expected = " or ".join(str(pair[given]) for pair in pairs)
    raise ctx.error(
        f"'{name}' must have {expected} channels for weights {format_shape(weights)} in weights_format "
        f"'{op.weights_format}' and groups = {groups}, which must divide the channels, got {channels} in "
        f"data_format '{op.window.data_format}'; check both formats first"
    )


def _requested_data(ctx: InferenceContext) -> Shape:
    """The output's shape where the user says it: an input, an attribute, or the declaration."""
    if "dst_shape" in ctx.values:
        return ctx.values["dst_shape"]
    if "dst_shape" in ctx.attributes and len(ctx.inputs) == 2:
        return ctx.attributes.integers("dst_shape")
    return ctx.outputs[0]


def _gathered(
    ctx: InferenceContext, op: ConvolutionAttributes, how: ConvolutionKind, axis: int, size: int, kernel: int
) -> int:
    """Output size of one axis where windows of the input are gathered."""
    extent = spatial.effective_kernel(kernel, op.window.dilations[axis])
    pads = sum(resolve_pads(op.window, axis, kernel, size, transposed=how.transposed))
    result = spatial.convolution_size(size, extent, op.window.strides[axis], pads)
    if result < 1:
        raise ctx.error(
            f"the kernel must fit into the padded data on spatial axis {axis}, got size {size}, pads {pads} and an "
            f"extent of {extent}"
        )
    return result


def _scattered(
    ctx: InferenceContext, op: ConvolutionAttributes, axis: int, size: int, kernel: int, want: int
) -> int:
    """Output size of one axis where windows are scattered; `want` is what the user says of it."""
    stride = op.window.strides[axis]
    extent = spatial.effective_kernel(kernel, op.window.dilations[axis])
    extra = 0 if op.output_padding is None else op.output_padding[axis]
    pads = sum(resolve_pads(op.window, axis, kernel, size, transposed=True))
    result = spatial.transposed_size(size, extent, stride, pads, extra)
    if known(want) and want != result:
        total = sum(resolve_pads(op.window, axis, kernel, want))
        if spatial.convolution_size(want, extent, stride, total) == size:
            return want
    if result < 1:
        raise ctx.error(
            f"the output must have a positive size on spatial axis {axis}, got stride·(size − 1) + extent + "
            f"output_padding − pads = {stride}·({size} − 1) + {extent} + {extra} − {pads} = {result}"
        )
    return result
