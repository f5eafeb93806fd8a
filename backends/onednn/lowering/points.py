"""Transposed convolutions of images of one position, as the first layer of a generator is: products of matrices.

Each result is then one row of the input times the weights at its position, and nothing is added up over positions. The
library does the sums of a whole convolution there, nearly all of zeros: 14 ms instead of 0.5 for 32×100 to 512×4×4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ....graph.model.logical_tensor import LogicalTensor
from ....graph.model.op import Op
from ....graph.runtime.arrays import Array
from ....ops.convolution_geometry import ConvolutionGeometry, scatters
from ..library.enumerators import Arg
from ..plan.plan import Buffer, HostArray, HostStep
from .lowering import Lowering
from .views import in_order


def is_of_points(op: Op, p: ConvolutionGeometry) -> bool:
    """Whether the op's images have one position, which it spreads over the whole window, and nothing else."""
    window = tuple(op.outputs[0].dims[axis] for axis in p.src_axes.order[2:])
    return (
        scatters(op.kind)
        and p.groups == 1
        and math.prod(p.dst_spatial) == 1
        and not any(p.pads_begin)
        and not any(p.pads_end)
        and window == p.kernel
    )


def product_of_points(
    low: Lowering,
    op: Op,
    source: Buffer,
    weights: Buffer,
    bias: Buffer | None,
    result: LogicalTensor,
    order: Sequence[int],
) -> None:
    """A product of the points with the weights, which makes images with their channels last.

    Args:
        source: the points, (N, C, 1 …). weights: (O, I, K …) of the primitive. bias: a vector.
        result: what is made. order: of its axes, N, C and the spatial ones.

    Raises:
        Unfit: the library has no product for this.
    """
    batch = source.desc.shape[0]
    read, made = (1, 0) if op.kind == "ConvTranspose" else (0, 1)
    shape = weights.desc.shape
    points, channels, positions = shape[read], shape[made], math.prod(shape[2:])
    lies = low.desc(shape, in_order(shape, (read, *range(2, len(shape)), made)), weights.desc.data_type)
    weights = low.bring("weights", weights, lies)
    matrix = low.look(
        weights, low.desc((points, positions * channels), (positions * channels, 1), weights.desc.data_type)
    )
    dense = low.desc(source.desc.shape, in_order(source.desc.shape, range(len(shape))), source.desc.data_type)
    source = low.bring("data", source, dense)
    rows = low.look(source, low.desc((batch, points), (points, 1), source.desc.data_type))
    images = low.temporary((batch, positions * channels), low.type_of(result))
    every = None if bias is None else _for_every_position(low, bias, positions)
    attributes, _ = low.attributes((), op.outputs[0])
    bias_desc = None if every is None else every.desc
    desc = low.describe("matmul", low.engine, rows.desc, matrix.desc, bias_desc, images.desc, attributes)
    arguments = [(Arg.SRC, rows), (Arg.WEIGHTS, matrix), (Arg.DST, images)]
    low.run("matmul", desc, arguments if every is None else [*arguments, (Arg.BIAS, every)])
    sizes = (batch, channels, *shape[2:])
    low.produce(result, low.look(images, low.channels_last(sizes, images.desc.data_type)), order)


def _for_every_position(low: Lowering, bias: Buffer, positions: int) -> Buffer:
    """A vector over the channels, once for each position: (1, positions · channels)."""
    made = low.temporary((1, positions * bias.desc.shape[-1]), bias.desc.data_type)

    def run(inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        outputs[0][...] = np.tile(inputs[0].reshape(1, -1), positions)

    both = (bias, made)
    arrays = tuple(array for array in map(HostArray.of, both) if array is not None)
    low.steps.append(HostStep("bias for each position", run, tuple(enumerate(both)), arrays, 1))
    return made
