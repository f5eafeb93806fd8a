"""Lowering of the convolution family's data side: convolutions, transposed ones, and their gradients by the data."""

from __future__ import annotations

import math
from collections.abc import Sequence

from attrs import evolve

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
from ....ops.records import frozen
from ..library.descriptors import Binary, ConvolutionBackwardData, ConvolutionForward, DeconvolutionForward
from ..library.enumerators import Algorithm, Arg, Propagation, Query
from ..library.loading import MAX_SPATIAL_RANK
from ..library.memory import MemoryDesc
from ..library.primitive import PrimitiveAttributes, PrimitiveDesc
from ..plan.steps import Buffer
from ..plan.unfit import Unfit
from .links import Link, result_of
from .long_sums import check_products
from .lowering import Lowered, Lowering
from .points import PointProduct, is_of_points, point_product
from .post_ops import LikeResult, PostOps
from .tensors import HALVES, Quantized


@frozen(kw_only=True)
class Convolved:
    """What a convolution reads and makes, in the primitive's canonical axes.

    Attributes:
        op: the convolution, a transposed one, or a gradient by the data.
        geometry: of its windows.
        source: the data, (N, C, X). weights: as they lie, (G, O, I, K) without G for one group.
        integers: those behind data and weights, where there are such behind both.
        bias: an input of the op, or of a BiasAdd that follows; or None.
        links: what the primitive takes along beside that.
        result: what it makes.
    """

    op: Op
    geometry: ConvolutionGeometry
    source: Buffer
    weights: Buffer
    integers: tuple[Quantized, Quantized] | None
    bias: LogicalTensor | None
    links: Sequence[Link]
    result: LogicalTensor

    @property
    def order(self) -> tuple[int, ...]:
        """The tensors' axes as the primitive has them."""
        return self.geometry.src_axes.order

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the result, in the primitive's axes."""
        dims = self.op.outputs[0].dims
        return tuple(dims[axis] for axis in self.order)

    def bias_vector(self, low: Lowering) -> Buffer | None:
        """The bias, which is in f32 beside integers."""
        if self.bias is None:
            return None
        return low.tensors.dense(self.bias, None if self.integers is None else DataType.f32)

    def data(self, low: Lowering) -> MemoryDesc:
        """What to ask for as the data: channels last where they lie so or the way says it; any otherwise."""
        desc = self.source.desc
        if low.tensors.way.channels_last:
            return low.layouts.channels_last(desc.shape, desc.data_type)
        return desc if _channels_last(self.source) else low.layouts.any(desc.shape, desc.data_type)

    def wanted(self, low: Lowering) -> MemoryDesc:
        """What to ask for as the result: the user's layout where it is channels-last; any otherwise, for blocked ones
        are faster.
        """
        wanted = low.tensors.wanted(self.result, self.order, self.links)
        strides = wanted.strides if low.edges.is_port(self.result) else None
        if strides is not None and _is_channels_last(wanted.shape, strides):
            return wanted
        data_type = low.tensors.type_of(self.result)
        if low.tensors.way.channels_last:
            return low.layouts.channels_last(self.shape, data_type)
        return low.layouts.any(self.shape, data_type)

    def post_ops(self, low: Lowering, wanted: MemoryDesc) -> PostOps:
        """The integers' scales and zero points, and what follows.

        Args:
            wanted: how the result lies.
        """

        def see(operand: Buffer) -> Buffer:
            return low.tensors.images(operand, self.order)

        narrow = self.integers is not None and self.integers[1].narrow
        post_ops = PostOps(low, LikeResult.of(self.op.outputs[0], see, wanted), narrow_weights=narrow)
        if self.integers is not None:
            _add_scales(post_ops, self.op, *self.integers, self.geometry)
        post_ops.add_links(self.links)
        return post_ops


@frozen(kw_only=True)
class _Descs:
    """What a convolution primitive is described by."""

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
    c = _normalised(low, op, links)
    if c.integers is None and is_of_points(op, c.geometry):
        bias = c.bias_vector(low)
        product = PointProduct(
            source=c.source, weights=c.weights, bias=bias, links=c.links, result=c.result, order=c.order
        )
        point_product(low, op, product)
        return
    wanted = c.wanted(low)
    post_ops = c.post_ops(low, wanted)
    bias = c.bias_vector(low)
    descs = _Descs(
        data=c.data(low),
        weights=low.layouts.any(c.weights.desc.shape, c.weights.desc.data_type),
        bias=None if bias is None else bias.desc,
        result=wanted,
    )
    if bias is not None and c.integers is None and _adds_a_bias_slowly(low, c, descs):
        _with_bias_behind(low, c, descs, bias, post_ops)
        return
    desc = _described(low, c, descs, post_ops.attributes())
    if c.links and "gemm" in desc.implementation:
        raise Unfit("an operand in the user's layout drives the library to im2col")
    data_arg, data_query, out_arg, out_query = _places(op)
    arguments = [
        (data_arg, low.emitter.bring("data", c.source, desc.memory_desc(data_query))),
        (Arg.WEIGHTS, low.emitter.bring("weights", c.weights, desc.memory_desc(Query.weights_md))),
        *post_ops.arguments,
    ]
    if bias is not None:
        arguments.append((Arg.BIAS, bias))
    role = "deconvolution" if op.kind == "ConvTranspose" else "convolution"
    low.single(role, desc, arguments, c.result, c.order, out_arg, out_query)


def _normalised(low: Lowering, op: Op, links: Sequence[Link]) -> Convolved:
    """What the op reads, in the primitive's axes; integers where data and weights are such behind a Dequantize."""
    src, weights = op.inputs[:2]
    p = geometry(op.kind, op.attributes, src.dims, weights.dims, op.outputs[0].dims)
    data, kernel = low.tensors.quantized(src), low.tensors.quantized(weights)
    integers = None if data is None or kernel is None else (data, kernel)
    if integers is not None:
        products = math.prod(weights.dims) // op.outputs[0].dims[p.src_axes.order[1]]
        check_products(products, math.prod(one.largest for one in integers))
    bias, result, links = _bias(op, links)
    read = low.tensors.read(src) if integers is None else integers[0].buffer
    return Convolved(
        op=op,
        geometry=p,
        source=low.tensors.images(read, p.src_axes.order),
        weights=_weights(low, op, p, low.tensors.plain(weights) if integers is None else integers[1].buffer),
        integers=integers,
        bias=bias,
        links=links,
        result=result,
    )


def _adds_a_bias_slowly(low: Lowering, c: Convolved, descs: _Descs) -> bool:
    """Whether the library's deconvolution has a reference loop for the bias, ten times as long as the rest."""
    if c.op.kind != "ConvTranspose":
        return False
    return _described(low, c, descs, low.chooser.attributes()).implementation.startswith("conv:any")


def _with_bias_behind(low: Lowering, c: Convolved, descs: _Descs, bias: Buffer, behind: PostOps) -> None:
    """A deconvolution, in f32 where that can be, and a primitive that adds the bias and does what follows.

    Args:
        behind: what that primitive takes along.
    """
    alone = low.chooser.attributes()
    desc = _described(low, c, evolve(descs, bias=None), alone)
    target = desc.memory_desc(Query.dst_md)
    if target.strides is not None and target.data_type in HALVES:
        plain = low.layouts.desc(target.shape, target.strides, DataType.f32)
        desc = _described(low, c, evolve(descs, bias=None, result=plain), alone)
    sums = Buffer(desc.memory_desc(Query.dst_md))
    arguments = [
        (Arg.SRC, low.emitter.bring("data", c.source, desc.memory_desc(Query.src_md))),
        (Arg.WEIGHTS, low.emitter.bring("weights", c.weights, desc.memory_desc(Query.weights_md))),
        (Arg.DST, sums),
    ]
    low.emitter.run("deconvolution", desc, arguments)
    bias = low.layouts.view(bias, (1, sums.desc.shape[1], *(1 for _ in sums.desc.shape[2:])))
    added = low.chooser.describe(
        Binary(
            algorithm=Algorithm.binary_add,
            src_0=sums.desc,
            src_1=bias.desc,
            dst=target,
            attributes=behind.attributes(),
        )
    )
    low.single("bias", added, [(Arg.SRC, sums), (Arg.SRC_1, bias), *behind.arguments], c.result, c.order)


def _bias(op: Op, links: Sequence[Link]) -> tuple[LogicalTensor | None, LogicalTensor, Sequence[Link]]:
    """The bias, an input of the op or of a BiasAdd that follows; what is made; and what else is taken along."""
    if any(port.name == "bias" for port in op.input_ports[2:]):
        return op.inputs[2], result_of(op, links), links
    first = links[0] if links and not scatters_back(op) else None
    if first is not None and first.operand is not None and first.axis == _attributes(op).window.channel_axis:
        return first.operand, result_of(op, links), links[1:]
    return None, result_of(op, links), links


def scatters_back(op: Op) -> bool:
    """Whether the op is a gradient, whose primitive has no bias."""
    return op.kind.endswith("BackwardData")


def _attributes(op: Op) -> ConvolutionAttributes:
    return convolution_attributes(op.attributes, len(op.outputs[0].dims) - 2)


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


def _weights(low: Lowering, op: Op, p: ConvolutionGeometry, buffer: Buffer) -> Buffer:
    """Weights as the primitive has them, (G, O, I, K) without G for one group.

    A deconvolution's O is what the op makes, which is I of the geometry.
    """
    shape, strides = p.weights_axes.apply(op.inputs[1].dims, buffer.desc.strides or ())
    axes = [0, 1, 2, *range(3, len(shape))]
    if op.kind == "ConvTranspose":
        axes[1], axes[2] = 2, 1
    if p.groups == 1:
        axes = axes[1:]
    return low.layouts.view(buffer, [shape[a] for a in axes], [strides[a] for a in axes])


def _add_scales(
    post_ops: PostOps, op: Op, data: Quantized, weights: Quantized, p: ConvolutionGeometry
) -> None:
    """Scales and zero points of quantised data and weights.

    Raises:
        Unfit: what the library has no mask for.
    """
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


def _described(low: Lowering, c: Convolved, descs: _Descs, attributes: PrimitiveAttributes) -> PrimitiveDesc:
    p, kind = c.geometry, c.op.kind
    large = descs.result if scatters(kind) else descs.data
    if tuple(large.shape[2:]) != p.src_spatial:
        raise Unfit("positions that no window reaches")
    if kind == "ConvolutionBackwardData":
        return _described_gradient(low, p, descs, attributes)
    turned = kind == "ConvTranspose"
    forward = DeconvolutionForward if turned else ConvolutionForward
    return low.chooser.describe(
        forward(
            propagation=Propagation.forward_inference,
            algorithm=Algorithm.deconvolution_direct if turned else Algorithm.convolution_direct,
            src=descs.data,
            weights=descs.weights,
            bias=descs.bias,
            dst=descs.result,
            strides=p.strides,
            dilates=_dilates(p),
            pads_begin=p.pads_begin,
            pads_end=p.pads_end,
            attributes=attributes,
        )
    )


def _dilates(p: ConvolutionGeometry) -> tuple[int, ...]:
    """The dilations as the library has them, 0 for dense ones."""
    return tuple(d - 1 for d in p.dilations)


def _described_gradient(
    low: Lowering, p: ConvolutionGeometry, descs: _Descs, attributes: PrimitiveAttributes
) -> PrimitiveDesc:
    """A gradient by the data, with the convolution that it is of as its hint."""
    hint = low.chooser.describe(
        ConvolutionForward(
            propagation=Propagation.forward_training,
            algorithm=Algorithm.convolution_direct,
            src=low.layouts.any(descs.result.shape, descs.data.data_type),
            weights=descs.weights,
            bias=None,
            dst=low.layouts.any(descs.data.shape, descs.data.data_type),
            strides=p.strides,
            dilates=_dilates(p),
            pads_begin=p.pads_begin,
            pads_end=p.pads_end,
            attributes=attributes,
        )
    )
    return low.chooser.describe(
        ConvolutionBackwardData(
            algorithm=Algorithm.convolution_direct,
            diff_src=descs.result,
            weights=descs.weights,
            diff_dst=descs.data,
            strides=p.strides,
            dilates=_dilates(p),
            pads_begin=p.pads_begin,
            pads_end=p.pads_end,
            hint=hint,
            attributes=attributes,
        )
    )


def why_not(op: Op) -> str | None:
    """A rank that the library does not have."""
    shape = op.inputs[0].shape
    if shape is not None and len(shape) - 2 > MAX_SPATIAL_RANK:
        return f"oneDNN convolutions have 1 to 3 spatial axes, not {len(shape) - 2}"
    return None


LOWERED = {
    "Convolution": Lowered(convolution, why_not=why_not, channels_last=True),
    "ConvTranspose": Lowered(convolution, why_not=why_not),
    "ConvTransposeBackwardData": Lowered(convolution, why_not=why_not),
    "ConvolutionBackwardData": Lowered(convolution, why_not=why_not, channels_last=True),
}
