"""Lowering of the convolution family's data side: convolutions, transposed ones, and their gradients by the data."""

from __future__ import annotations

import math
from collections.abc import Sequence

from attrs import evolve, frozen

from ....graph.model.logical_tensor import LogicalTensor
from ....graph.model.op import Op
from ....ops.convolution_geometry import (
    ConvolutionAttributes,
    ConvolutionGeometry,
    convolution_attributes,
    geometry,
    scatters,
)
from ....ops.data_types import DataType
from ..library.enumerators import Algorithm, Arg, Propagation, Query
from ..library.loading import MAX_SPATIAL_RANK, dims
from ..library.memory import MemoryDesc
from ..library.primitive import PrimitiveAttributes, PrimitiveDesc
from ..plan.steps import Buffer
from ..plan.unfit import Unfit
from .fusing import Link, result_of
from .long_sums import check_products
from .lowering import Lowered, Lowering
from .points import PointProduct, is_of_points, point_product
from .post_ops import LikeResult, PostOps
from .tensors import HALVES, Quantized


@frozen(kw_only=True)
class _Operands:
    """What a convolution primitive is described by: descriptors in canonical axis order."""

    data: MemoryDesc
    weights: MemoryDesc
    bias: MemoryDesc | None
    result: MemoryDesc


def convolution(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """A convolution or deconvolution primitive.

    Data and result of a convolution lie channels-last, so that nothing has to move between it and what is around it in
    a model; the library chooses where it has no such kernel. Weights are always brought to the layout that it chooses,
    which costs nothing at execution where they are constant.
    """
    p = geometry(op.kind, op.attributes, op.inputs[0].dims, op.inputs[1].dims, op.outputs[0].dims)
    order = p.src_axes.order
    output = op.outputs[0]
    integers = [low.tensors.quantized(t) for t in op.inputs[:2]]
    factors = [found.largest for found in integers if found is not None]
    if all(integers):
        check_products(math.prod(op.inputs[1].dims) // output.dims[order[1]], math.prod(factors))
    quantized = integers if all(integers) else [None, None]
    bias, links = _bias(op, links)
    result = result_of(op, links) if links or bias is None else bias.result
    source = low.tensors.images(
        low.tensors.read(op.inputs[0]) if quantized[0] is None else quantized[0].buffer, order
    )
    weights, weights_desc = _weights(low, op, p, quantized[1])
    if not all(integers) and is_of_points(op, p):
        vector = None if bias is None else _bias_vector(low, bias.tensor, integers=False)
        product = PointProduct(
            source=source, weights=weights, bias=vector, links=links, result=result, order=order
        )
        point_product(low, op, product)
        return
    wanted = _wanted(low, result, output, order, links)
    data = (
        source.desc if _channels_last(source) else low.layouts.any(source.desc.shape, source.desc.data_type)
    )
    if low.tensors.way.channels_last:
        data = low.layouts.channels_last(source.desc.shape, source.desc.data_type)
        if wanted.strides is None:
            wanted = low.layouts.channels_last(
                tuple(output.dims[a] for a in order), low.tensors.type_of(result)
            )
    post_ops = PostOps(low, LikeResult.of(output, lambda operand: low.tensors.images(operand, order), wanted))
    _add_scales(post_ops, op, quantized, p)
    post_ops.add_links(links)
    bias_buffer = None if bias is None else _bias_vector(low, bias.tensor, quantized[0] is not None)
    operands = _Operands(
        data=data,
        weights=weights_desc,
        bias=None if bias_buffer is None else bias_buffer.desc,
        result=wanted,
    )
    if bias_buffer is not None and not all(integers) and _adds_a_bias_slowly(low, op, p, operands):
        _with_bias_behind(low, op, p, operands, source, weights, bias_buffer, post_ops, result, order)
        return
    desc = _described(low, op, p, operands, post_ops.attributes())
    if links and "gemm" in desc.implementation:
        raise Unfit("an operand in the user's layout drives the library to im2col")
    data_arg, data_query, out_arg, out_query = _places(op)
    arguments = [
        (data_arg, low.emitter.bring("data", source, desc.memory_desc(data_query))),
        (Arg.WEIGHTS, low.emitter.bring("weights", weights, desc.memory_desc(Query.weights_md))),
        *post_ops.arguments,
    ]
    if bias_buffer is not None:
        arguments.append((Arg.BIAS, bias_buffer))
    role = "deconvolution" if op.kind == "ConvTranspose" else "convolution"
    low.single(role, desc, arguments, result, order, out_arg, out_query)


def _adds_a_bias_slowly(low: Lowering, op: Op, p: ConvolutionGeometry, operands: _Operands) -> bool:
    """Whether the library's deconvolution has a reference loop for the bias, ten times as long as the rest."""
    if op.kind != "ConvTranspose":
        return False
    return _described(low, op, p, operands, low.chooser.attributes()).implementation.startswith("conv:any")


def _with_bias_behind(
    low: Lowering,
    op: Op,
    p: ConvolutionGeometry,
    operands: _Operands,
    source: Buffer,
    weights: Buffer,
    bias: Buffer,
    behind: PostOps,
    result: LogicalTensor,
    order: Sequence[int],
) -> None:
    """A deconvolution, in f32 where that can be, and a primitive that adds the bias and does what follows.

    Args:
        behind: what that primitive takes along.
    """
    alone = low.chooser.attributes()
    desc = _described(low, op, p, evolve(operands, bias=None), alone)
    target = desc.memory_desc(Query.dst_md)
    if target.strides is not None and target.data_type in HALVES:
        plain = low.layouts.desc(target.shape, target.strides, DataType.f32)
        desc = _described(low, op, p, evolve(operands, bias=None, result=plain), alone)
    sums = Buffer(desc.memory_desc(Query.dst_md))
    arguments = [
        (Arg.SRC, low.emitter.bring("data", source, desc.memory_desc(Query.src_md))),
        (Arg.WEIGHTS, low.emitter.bring("weights", weights, desc.memory_desc(Query.weights_md))),
        (Arg.DST, sums),
    ]
    low.emitter.run("deconvolution", desc, arguments)
    shape = (1, sums.desc.shape[1], *(1 for _ in sums.desc.shape[2:]))
    bias = low.layouts.view(bias, shape)
    added = low.chooser.describe(
        "binary", low.engine, Algorithm.binary_add, sums.desc, bias.desc, target, behind.attributes()
    )
    low.single("bias", added, [(Arg.SRC, sums), (Arg.SRC_1, bias), *behind.arguments], result, order)


@frozen
class _Bias:
    """The bias of a primitive: an input of the op, or a BiasAdd that follows."""

    tensor: LogicalTensor
    result: LogicalTensor


def _bias(op: Op, links: Sequence[Link]) -> tuple[_Bias | None, Sequence[Link]]:
    if any(port.name == "bias" for port in op.input_ports[2:]):
        return _Bias(op.inputs[2], op.outputs[0]), links
    if links and links[0].axis is not None and links[0].operand is not None and not scatters_back(op):
        first = links[0]
        if first.axis == _attributes(op).window.channel_axis and first.operand is not None:
            return _Bias(first.operand, first.result), links[1:]
    return None, links


def scatters_back(op: Op) -> bool:
    """Whether the op is a gradient, whose primitive has no bias."""
    return op.kind.endswith("BackwardData")


def _attributes(op: Op) -> ConvolutionAttributes:
    return convolution_attributes(op.attributes, len(op.outputs[0].dims) - 2)


def _bias_vector(low: Lowering, tensor: LogicalTensor, integers: bool) -> Buffer:
    return low.tensors.dense(tensor, DataType.f32 if integers else None)


def _wanted(
    low: Lowering,
    result: LogicalTensor,
    output: LogicalTensor,
    order: Sequence[int],
    links: Sequence[Link],
) -> MemoryDesc:
    """The user's layout where it is channels-last; any otherwise, for blocked ones are faster."""
    wanted = low.tensors.wanted(result, order, links)
    strides = wanted.strides if low.edges.is_port(result) else None
    if strides is not None and _is_channels_last(wanted.shape, strides):
        return wanted
    return low.layouts.any([output.dims[a] for a in order], low.tensors.type_of(result))


def _channels_last(buffer: Buffer) -> bool:
    strides = buffer.desc.strides
    return strides is None or (not buffer.desc.has_gaps and _is_channels_last(buffer.desc.shape, strides))


def _is_channels_last(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether the channels, axis 1, are adjacent and nothing else is in between."""
    step = 1
    for axis in (1, *range(len(shape) - 1, 1, -1), 0):
        if shape[axis] != 1 and strides[axis] != step:
            return False
        step *= shape[axis]
    return shape[1] > 1


def _weights(
    low: Lowering, op: Op, p: ConvolutionGeometry, found: Quantized | None
) -> tuple[Buffer, MemoryDesc]:
    """The weights as they lie, and the descriptor to ask for: (G, O, I, K) of the primitive, without G for one group.

    A deconvolution's O is what the op makes, which is I of the geometry.
    """
    if found is None:
        buffer = low.tensors.plain(op.inputs[1])
        shape, strides = p.weights_axes.apply(op.inputs[1].dims, buffer.desc.strides or ())
    else:
        buffer = found.buffer
        shape, strides = p.weights_axes.apply(op.inputs[1].dims, buffer.desc.strides or ())
    axes = [0, 1, 2, *range(3, len(shape))]
    if op.kind == "ConvTranspose":
        axes[1], axes[2] = 2, 1
    if p.groups == 1:
        axes = axes[1:]
    own, steps = [shape[a] for a in axes], [strides[a] for a in axes]
    data_type = buffer.desc.data_type
    return low.layouts.view(buffer, own, steps), low.layouts.any(own, data_type)


def _add_scales(post_ops: PostOps, op: Op, found: Sequence[Quantized | None], p: ConvolutionGeometry) -> None:
    """Scales and zero points of quantised data and weights.

    Raises:
        Unfit: what the library has no mask for.
    """
    data, weights = found
    if data is None or weights is None:
        return
    if len(data.scales) > 1 or weights.zero_point:
        raise Unfit("the library has one scale for the data, and no zero points of weights")
    mask = 0
    if len(weights.scales) > 1:
        made = p.columns if op.kind == "ConvTranspose" else p.rows
        if len(weights.scales) != p.groups * made or weights.axis != _attributes(op).output_axis:
            raise Unfit("scales that are not per output channel")
        mask = 1 if p.groups == 1 else 3
    post_ops.add_scales(Arg.SRC, data.scales)
    post_ops.add_scales(Arg.WEIGHTS, weights.scales, mask)
    post_ops.add_zero_point(Arg.SRC, data.zero_point)


def _places(op: Op) -> tuple[int, Query, int, Query]:
    """Where data and result are among the primitive's arguments."""
    if op.kind == "ConvolutionBackwardData":
        return Arg.DIFF_DST, Query.diff_dst_md, Arg.DIFF_SRC, Query.diff_src_md
    return Arg.SRC, Query.src_md, Arg.DST, Query.dst_md


def _described(
    low: Lowering, op: Op, p: ConvolutionGeometry, operands: _Operands, attributes: PrimitiveAttributes
) -> PrimitiveDesc:
    large = operands.result if scatters(op.kind) else operands.data
    if tuple(large.shape[2:]) != p.src_spatial:
        raise Unfit("positions that no window reaches")
    numbers = (
        dims(p.strides),
        dims(tuple(d - 1 for d in p.dilations)),
        dims(p.pads_begin),
        dims(p.pads_end),
    )
    engine, bias = low.engine, None if operands.bias is None else operands.bias
    data, weights, result = operands.data, operands.weights, operands.result
    if op.kind == "ConvolutionBackwardData":
        hint = low.chooser.describe(
            "convolution_forward",
            engine,
            Propagation.forward_training,
            Algorithm.convolution_direct,
            low.layouts.any(operands.result.shape, operands.data.data_type),
            weights,
            None,
            low.layouts.any(operands.data.shape, operands.data.data_type),
            *numbers,
            attributes,
        )
        return low.chooser.describe(
            "convolution_backward_data",
            engine,
            Algorithm.convolution_direct,
            result,
            weights,
            data,
            *numbers,
            hint,
            attributes,
        )
    if op.kind == "ConvTranspose":
        return low.chooser.describe(
            "deconvolution_forward",
            engine,
            Propagation.forward_inference,
            Algorithm.deconvolution_direct,
            data,
            weights,
            bias,
            result,
            *numbers,
            attributes,
        )
    return low.chooser.describe(
        "convolution_forward",
        engine,
        Propagation.forward_inference,
        Algorithm.convolution_direct,
        data,
        weights,
        bias,
        result,
        *numbers,
        attributes,
    )


def why_not(op: Op) -> str | None:
    """A rank that the library does not have."""
    shape = op.inputs[0].shape
    if shape is not None and len(shape) - 2 > MAX_SPATIAL_RANK:
        return f"oneDNN convolutions have 1 to 3 spatial axes, not {len(shape) - 2}"
    return None


LOWERED = {
    "Convolution": Lowered(convolution, fuses=True, why_not=why_not, channels_last=True),
    "ConvTranspose": Lowered(convolution, fuses=True, why_not=why_not),
    "ConvTransposeBackwardData": Lowered(convolution, why_not=why_not),
    "ConvolutionBackwardData": Lowered(convolution, why_not=why_not, channels_last=True),
}
