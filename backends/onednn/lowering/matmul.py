"""Lowering of the matmul family."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....graph.model.logical_tensor import row_major
from ....graph.model.op import Op
from ....ops.data_types import DataType
from ....ops.matmul import matrix_shapes
from ..library.enumerators import Arg, Query
from ..library.memory import MemoryDesc
from ..plan.steps import Buffer
from ..plan.unfit import Unfit
from .fusing import Link, result_of
from .long_sums import PRODUCTS, check_products
from .lowering import Lowered, Lowering
from .post_ops import OperandView, PostOps
from .tensors import Quantized
from .views import reshaped_strides


def matmul(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """A matmul primitive; transposed operands are looked at with their last axes exchanged."""
    src, weights, output = op.inputs[0], op.inputs[1], op.outputs[0]
    a_shape, b_shape = matrix_shapes(
        src.dims, weights.dims, op.attributes.flag("transpose_a"), op.attributes.flag("transpose_b")
    )
    if a_shape[-1] > PRODUCTS:
        raise Unfit(f"sums of {a_shape[-1]} products lose digits in f32")
    rank = max(len(a_shape), len(b_shape))
    vectors = len(src.dims) == 1 or len(weights.dims) == 1
    if vectors and links:
        raise Unfit("post-ops need the axes of the matrices")
    integers = [low.tensors.quantized(t) for t in (src, weights)]
    factors = [found.largest for found in integers if found is not None]
    if all(integers):
        check_products(a_shape[-1], math.prod(factors))
    scales: dict[int, tuple[int, Sequence[float]]] = {}
    points: dict[int, int] = {}
    operands: list[Buffer] = []
    for tensor, flag, found, argument in (
        (src, "transpose_a", integers[0], Arg.SRC),
        (weights, "transpose_b", integers[1], Arg.WEIGHTS),
    ):
        turned = op.attributes.flag(flag) and len(tensor.dims) > 1
        if all(integers) and found is not None:
            scales[argument], points[argument] = _scaled(found, argument, turned, len(tensor.dims), rank)
            operands.append(_matrix(low, found.buffer, rank, turned, argument))
        else:
            operands.append(_matrix(low, low.tensors.plain(tensor), rank, turned, argument))
    result = result_of(op, links)
    own_axes = sum(len(tensor.dims) > 1 for tensor in (src, weights))
    matrix = (*output.dims[: len(output.dims) - own_axes], a_shape[-2], b_shape[-1])
    matrix = (1,) * (rank - len(matrix)) + matrix
    bias: Buffer | None = None
    if len(op.inputs) > 2:
        data_type = DataType.f32 if all(integers) else None
        bias = low.tensors.aligned(op.inputs[2], rank, None, data_type)
    folds = _folds(matrix, operands, op.attributes.flag("transpose_a"))

    if folds:  # the columns are the second axis then
        scales = {argument: (2 if mask else 0, values) for argument, (mask, values) in scales.items()}

    def see(buffer: Buffer) -> Buffer:
        return _as_rows(low, buffer, matrix) if folds else buffer

    operands = [see(operand) for operand in operands]
    bias = None if bias is None else see(bias)
    post_ops = PostOps(low, OperandView(output, see))
    for argument, (mask, values) in scales.items():
        post_ops.add_scales(argument, values, mask)
    for argument, value in points.items():
        post_ops.add_zero_point(argument, value)
    post_ops.add_links(links)
    attributes = post_ops.attributes()
    if matrix == output.dims:
        target = low.tensors.wanted(result, None, links, turned_later=not folds)
    else:
        target = low.layouts.temporary(matrix, low.tensors.type_of(result)).desc
    if folds:
        target = _target_in_rows(low, target, matrix)
    # Constant weights are brought to the layout that the library likes best, once.
    free = (
        low.edges.is_constant(weights)
        and all(integers) == any(integers)
        and max(operands[1].desc.shape[:-2], default=1) == 1
    )
    weights_desc = (
        low.layouts.any(operands[1].desc.shape, operands[1].desc.data_type) if free else operands[1].desc
    )
    desc = low.chooser.describe(
        "matmul",
        low.engine,
        operands[0].desc,
        weights_desc,
        None if bias is None else bias.desc,
        target,
        attributes,
    )
    operands[1] = low.emitter.bring("weights", operands[1], desc.memory_desc(Query.weights_md))
    arguments = [(Arg.SRC, operands[0]), (Arg.WEIGHTS, operands[1]), *post_ops.arguments]
    if bias is not None:
        arguments.append((Arg.BIAS, bias))
    low.single("matmul", desc, arguments, result)
    made = low.tensors.read(result)
    if made.desc.shape != (output.dims or (1,)):
        strides = reshaped_strides(made.desc.shape, made.desc.strides or (), output.dims or (1,))
        shaped = low.layouts.desc(
            output.dims or (1,), strides or row_major(output.dims or (1,)), made.desc.data_type
        )
        low.tensors.produce(result, low.layouts.look(made, shaped))


def _folds(matrix: tuple[int, ...], operands: Sequence[Buffer], turned: bool) -> bool:
    """Whether the rows of all batches meet the same matrix, so that one product does what one for each would."""
    src, weights = (operand.desc.shape for operand in operands)
    return len(matrix) > 2 and not turned and math.prod(weights[:-2]) == 1 and src[:-1] == matrix[:-1]


def _as_rows(low: Lowering, buffer: Buffer, matrix: tuple[int, ...]) -> Buffer:
    """An operand with all its rows in one axis.

    Raises:
        Unfit: it broadcasts over some of the axes that become one.
    """
    shape = buffer.desc.shape
    if math.prod(shape[:-2]) == 1:
        wanted = shape[-2:]
    elif shape[:-1] == matrix[:-1]:
        wanted = (math.prod(shape[:-1]), shape[-1])
    else:
        raise Unfit("an operand that broadcasts over some of the batches")
    strides = reshaped_strides(shape, buffer.desc.strides or (), wanted)
    if strides is None:
        buffer = low.emitter.bring(
            "rows", buffer, low.layouts.desc(shape, row_major(shape), buffer.desc.data_type)
        )
        strides = row_major(wanted)
    return low.layouts.view(buffer, wanted, strides)


def _target_in_rows(low: Lowering, target: MemoryDesc, matrix: tuple[int, ...]) -> MemoryDesc:
    """The user's layout of the result with all rows in one axis, where that can be told; any otherwise."""
    wanted = (math.prod(matrix[:-1]), matrix[-1])
    strides = None if target.strides is None else reshaped_strides(matrix, target.strides, wanted)
    return (
        low.layouts.any(wanted, target.data_type)
        if strides is None
        else low.layouts.desc(wanted, strides, target.data_type)
    )


def _scaled(
    found: Quantized, argument: int, turned: bool, axes: int, rank: int
) -> tuple[tuple[int, Sequence[float]], int]:
    """Mask and scales, and the zero point, of an operand.

    Raises:
        Unfit: scales that are not one, or one per column of the weights; zero points of weights.
    """
    if argument == Arg.WEIGHTS and found.zero_point:
        raise Unfit("the library's matmul has no zero points of weights")
    if len(found.scales) == 1:
        return (0, found.scales), found.zero_point
    columns = axes - 2 if turned else axes - 1
    if axes == 1:
        raise Unfit("the elements of a vector of weights are summed, and can't have a scale each")
    if argument != Arg.WEIGHTS or found.axis != columns:
        raise Unfit("the library's matmul has one scale, or one per column of the weights")
    return (1 << (rank - 1), found.scales), found.zero_point


def _matrix(low: Lowering, buffer: Buffer, rank: int, turned: bool, argument: int) -> Buffer:
    """An operand as a matrix with `rank` axes."""
    shape, strides = list(buffer.desc.shape), list(buffer.desc.strides or ())
    if not strides:
        raise Unfit("a blocked layout")
    if len(shape) == 1:
        step = strides[0]
        shape, strides = (
            ([1, *shape], [shape[0] * step, step]) if argument == Arg.SRC else ([*shape, 1], [step, 1])
        )
    elif turned:
        shape[-1], shape[-2] = shape[-2], shape[-1]
        strides[-1], strides[-2] = strides[-2], strides[-1]
    outer = max((d * s for d, s in zip(shape, strides, strict=True)), default=1)
    missing = rank - len(shape)
    if min(strides[-2:]) != 1 and min(shape[-2:]) > 1:
        raise Unfit("a matrix whose elements are not adjacent")
    desc = low.layouts.desc([1] * missing + shape, [outer] * missing + strides, buffer.desc.data_type)
    return low.layouts.look(buffer, desc)


LOWERED = {"MatMul": Lowered(matmul, fuses=True)}
