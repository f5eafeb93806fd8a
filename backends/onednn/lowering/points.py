"""Convolutions between whole images and single positions: products of matrices.

Such are the first layer of a generator, which spreads a vector over a small image, and the last one of a discriminator,
or a fully connected layer written as a convolution, whose window is the whole image. The library's convolutions take
far longer than its product: 14 ms instead of 0.5 for 32×100×1×1 to 512×4×4, where they sum a whole convolution of
zeros, and 28 instead of 10 for 8×512×7×7 to 4096.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ....graph.model.logical_tensor import LogicalTensor
from ....graph.model.op import Op
from ....graph.runtime.arrays import Array
from ....ops.convolution_geometry import ConvolutionGeometry, scatters
from ....ops.records import frozen
from ..library.descriptors import MatMul
from ..library.enumerators import Arg, Query
from ..plan.steps import Buffer
from ..plan.unfit import Unfit
from .links import Link
from .lowering import Lowering
from .post_ops import OperandView, PostOps
from .views import in_order


@frozen(kw_only=True)
class PointProduct:
    """What such an op reads and makes, in the primitive's canonical axes.

    Attributes:
        source: (N, C, 1 …), or (N, C, K …) where the window gathers. weights: (O, I, K …) of the primitive.
        bias: a vector, or None. links: what follows, where the window gathers.
        result: what is made. order: of its axes, N, C and the spatial ones.
    """

    source: Buffer
    weights: Buffer
    bias: Buffer | None
    links: Sequence[Link]
    result: LogicalTensor
    order: Sequence[int]


def is_of_points(op: Op, p: ConvolutionGeometry) -> bool:
    """Whether one of the op's images has one position, and the other is what the window has, and nothing else."""
    large = op.outputs[0] if scatters(op.kind) else op.inputs[0]
    return (
        p.groups == 1
        and math.prod(p.dst_spatial) == 1
        and math.prod(p.kernel) > 1
        and not any(p.pads_begin)
        and not any(p.pads_end)
        and tuple(large.dims[axis] for axis in p.src_axes.order[2:]) == p.kernel
    )


def point_product(low: Lowering, op: Op, product: PointProduct) -> None:
    """Adds the product, and says where its result lies.

    Raises:
        Unfit: the library has no product for this, or it can't take along what follows.
    """
    read = 0 if op.kind == "ConvolutionBackwardData" else 1
    if scatters(op.kind):
        if product.links:
            raise Unfit("a product that makes all positions has no post-op per channel")
        _spread(low, op, product, read)
    else:
        _gather(low, op, product, read)


def _spread(low: Lowering, op: Op, product: PointProduct, read: int) -> None:
    """(N, C) · (C, K·M): images with their channels last."""
    source, shape = product.source, product.weights.desc.shape
    spatial, made = range(2, len(shape)), 1 - read
    batch, columns = source.desc.shape[0], math.prod(shape) // shape[read]
    weights = _lying(low, "weights", product.weights, (read, *spatial, made))
    rows = _matrix(low, _lying(low, "data", source, range(len(shape))), batch, shape[read])
    matrix = _matrix(low, weights, shape[read], columns)
    bias = None if product.bias is None else _for_every_position(low, product.bias, math.prod(shape[2:]))
    images = low.layouts.temporary((batch, columns), low.tensors.type_of(product.result))
    _multiply(low, op, rows, matrix, bias, images, PostOps(low, OperandView(op.outputs[0])))
    seen = low.layouts.channels_last((batch, shape[made], *shape[2:]), images.desc.data_type)
    low.tensors.produce(product.result, low.layouts.look(images, seen), product.order)


def _gather(low: Lowering, op: Op, product: PointProduct, read: int) -> None:
    """(N, K·C) · (K·C, M), with the channels first or last as the images lie."""
    source, shape = product.source, product.weights.desc.shape
    spatial, made = range(2, len(shape)), 1 - read
    batch, depth, columns = source.desc.shape[0], math.prod(shape) // shape[made], shape[made]
    first = source.desc.strides == in_order(source.desc.shape, range(len(shape)))
    source = _lying(low, "data", source, range(len(shape)) if first else (0, *spatial, 1))
    inner = (read, *spatial) if first else (*spatial, read)
    # As the weights of torch lie: a product with them turned.
    by_rows = product.weights.desc.strides == in_order(shape, (made, *inner))
    weights = _lying(low, "weights", product.weights, (made, *inner) if by_rows else (*inner, made))
    rows = _matrix(low, source, batch, depth)
    steps = (1, depth) if by_rows else (columns, 1)
    matrix = low.layouts.view(weights, (depth, columns), steps)

    def see(operand: Buffer) -> Buffer:
        there = low.tensors.images(operand, product.order)
        there = _lying(low, "operand", there, range(len(shape)))
        return _matrix(low, there, *there.desc.shape[:2])

    post_ops = PostOps(low, OperandView(op.outputs[0], see))
    post_ops.add_links(product.links)
    bias = None if product.bias is None else _matrix(low, product.bias, 1, columns)
    points = low.layouts.temporary((batch, columns), low.tensors.type_of(product.result))
    _multiply(low, op, rows, matrix, bias, points, post_ops)
    sizes = (batch, columns, *(1 for _ in spatial))
    low.tensors.produce(
        product.result,
        low.layouts.look(points, low.layouts.channels_last(sizes, points.desc.data_type)),
        product.order,
    )


def _multiply(
    low: Lowering,
    op: Op,
    rows: Buffer,
    matrix: Buffer,
    bias: Buffer | None,
    made: Buffer,
    post_ops: PostOps,
) -> None:
    """Adds a product; constant weights are brought to the layout that the library likes best, once."""
    free = low.edges.is_constant(op.inputs[1])
    weights = low.layouts.any(matrix.desc.shape, matrix.desc.data_type) if free else matrix.desc
    bias_desc = None if bias is None else bias.desc
    attributes = post_ops.attributes()
    desc = low.chooser.describe(
        MatMul(src=rows.desc, weights=weights, bias=bias_desc, dst=made.desc, attributes=attributes)
    )
    matrix = low.emitter.bring("weights", matrix, desc.memory_desc(Query.weights_md))
    arguments = [(Arg.SRC, rows), (Arg.WEIGHTS, matrix), *post_ops.arguments, (Arg.DST, made)]
    low.emitter.run("matmul", desc, arguments if bias is None else [*arguments, (Arg.BIAS, bias)])


def _lying(low: Lowering, name: str, buffer: Buffer, order: Sequence[int]) -> Buffer:
    """The buffer with its axes lying in this order, without gaps."""
    shape = buffer.desc.shape
    return low.emitter.bring(
        name, buffer, low.layouts.desc(shape, in_order(shape, order), buffer.desc.data_type)
    )


def _matrix(low: Lowering, buffer: Buffer, rows: int, columns: int) -> Buffer:
    return low.layouts.view(buffer, (rows, columns))


def _for_every_position(low: Lowering, bias: Buffer, positions: int) -> Buffer:
    """A vector over the channels, once for each position: (1, positions · channels)."""
    made = low.layouts.temporary((1, positions * bias.desc.shape[-1]), bias.desc.data_type)

    def run(inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        outputs[0][...] = np.tile(inputs[0].reshape(1, -1), positions)

    low.emitter.on_host("bias for each position", run, (bias,), (made,))
    return made
