"""Products by constant matrices as 1 × 1 convolutions of an image of one row, where these are faster.

With AVX2 the library's product packs its weights at each call, and what follows it goes over the result once more; a
convolution takes packed weights. In f32 the latter took 0.4 to 0.8 of the time for 2 to 12 rows by matrices of some
megabytes, and 0.85 to 1.0 for 16 to 1024 rows; in 8 bits 0.3 to 0.75 for 1 to 49 rows, and 0.9 to 0.95 for more.
"""

from __future__ import annotations

from collections.abc import Callable

from ....graph.model.logical_tensor import LogicalTensor, row_major
from ....ops.data_types import DataType
from ..library.descriptors import ConvolutionForward
from ..library.enumerators import Algorithm, Arg, Propagation, Query
from ..library.memory import MemoryDesc
from ..plan.layouts import Layouts
from ..plan.steps import Buffer
from ..plan.unfit import Unfit
from .lowering import Lowering
from .post_ops import PostOps

LEAST_WEIGHTS = 1 << 16
"""Elements of a matrix; with smaller ones a product of few rows is as fast."""
MANY_ROWS = 16
"""From so many on one kernel alone is faster."""
FASTER, FASTER_FOR_FEW = ("jit_1x1:avx2", "jit_uni_int8_1x1:avx2"), "brgconv_1x1:avx2"
"""Implementations of a convolution."""
INTEGERS = (DataType.u8, DataType.s8)
"""Types of both factors that its kernels take."""


def gains(low: Lowering, rows: MemoryDesc, weights: MemoryDesc, made: bool) -> bool:
    """Whether a convolution is faster than a product of these, and worth weights that products can't take.

    In f32, where there are plans for several sizes, that of a single row multiplies by the weights as they are, and few
    rows alone gain enough to hold them twice.

    Args:
        rows: the first factor. weights: the other one, which is constant.
        made: whether a step of the plan makes the weights.
    """
    if not low.chooser.engine.lib.effective_isa.startswith("avx2") or len(rows.shape) != 2:
        return False
    if weights.shape[0] * weights.shape[1] < LEAST_WEIGHTS:
        return False
    if (rows.data_type, weights.data_type) == INTEGERS:
        return True
    if low.request.options.shared.for_sizes and (made or rows.shape[0] >= MANY_ROWS):
        return False
    return rows.data_type is weights.data_type is DataType.f32 and rows.shape[0] > 1


def image(layouts: Layouts, matrix: MemoryDesc) -> MemoryDesc:
    """Rows as the positions of an image of one row, whose channels are the columns.

    Raises:
        Unfit: columns that are not adjacent.
    """
    (rows, columns), strides = matrix.shape, matrix.strides
    if strides is None or (columns > 1 and strides[1] != 1):
        raise Unfit("columns that are not adjacent")
    step = strides[0] if rows > 1 else columns
    lies = (rows * step, 1, rows * step, step)
    return layouts.desc((1, columns, 1, rows), lies, matrix.data_type).canonical(channels_last=True)


def convolved(
    low: Lowering,
    rows: Buffer,
    weights: Buffer,
    bias: Buffer | None,
    target: MemoryDesc,
    post_ops: PostOps,
    result: LogicalTensor,
) -> None:
    """The convolution, and its result as a matrix again.

    Args:
        rows, weights, bias: of the product.
        target: what to ask for as the result.
        post_ops: with operands as the convolution sees them.

    Raises:
        Unfit: it has no kernel that is faster.
    """
    layouts, (inner, columns), count = low.layouts, weights.desc.shape, rows.desc.shape[0]
    if target.strides is None:
        target = layouts.desc(target.shape, row_major(target.shape), target.data_type)
    steps = weights.desc.strides
    if steps is None:
        raise Unfit("weights in a blocked layout")
    turned = layouts.view(weights, (columns, inner, 1, 1), (steps[1], steps[0], *[inner * columns] * 2))
    vector = None if bias is None else _vector(layouts, bias, columns)
    data, wanted = layouts.look(rows, image(layouts, rows.desc)), image(layouts, target)
    desc = low.chooser.describe(
        ConvolutionForward(
            propagation=Propagation.forward_inference,
            algorithm=Algorithm.convolution_direct,
            src=data.desc,
            weights=layouts.any(turned.desc.shape, turned.desc.data_type),
            bias=None if vector is None else vector.desc,
            dst=wanted,
            strides=(1, 1),
            dilates=(0, 0),
            pads_begin=(0, 0),
            pads_end=(0, 0),
            attributes=post_ops.attributes(),
        )
    )
    faster = FASTER if count >= MANY_ROWS else (*FASTER, FASTER_FOR_FEW)
    if desc.implementation not in faster or desc.memory_desc(Query.dst_md) != wanted:
        raise Unfit(f"a convolution by {desc.implementation} is no faster")
    made = Buffer(desc.memory_desc(Query.dst_md))
    arguments = [
        (Arg.SRC, data),
        (Arg.WEIGHTS, low.emitter.bring("weights", turned, desc.memory_desc(Query.weights_md))),
        *post_ops.arguments,
        (Arg.DST, made),
    ]
    if vector is not None:
        arguments.append((Arg.BIAS, vector))
    low.emitter.run("matmul as convolution", desc, arguments)
    low.tensors.produce(result, layouts.view(made, target.shape, target.strides))


def seen(low: Lowering, as_rows: Callable[[Buffer], Buffer]) -> Callable[[Buffer], Buffer]:
    """From an operand to how the convolution sees it.

    Args:
        as_rows: from an operand to how the product sees it.
    """

    def see(operand: Buffer) -> Buffer:
        matrix = as_rows(operand)
        return low.layouts.look(matrix, image(low.layouts, matrix.desc))

    return see


def _vector(layouts: Layouts, bias: Buffer, columns: int) -> Buffer:
    """A bias as the convolution takes it.

    Raises:
        Unfit: it is no row.
    """
    strides = bias.desc.strides
    if bias.desc.shape != (1, columns) or strides is None or (columns > 1 and strides[1] != 1):
        raise Unfit("a bias that is no row")
    return layouts.view(bias, (columns,))
