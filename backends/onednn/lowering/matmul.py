"""Lowering of the matmul family."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

from attrs import evolve

from ....graph.model.logical_tensor import LogicalTensor, row_major
from ....graph.model.op import Op
from ....ops.data_types import DataType
from ....ops.errors import LibraryError
from ....ops.matmul import matrix_shapes
from ....ops.records import frozen
from ..library.descriptors import MatMul
from ..library.enumerators import Arg, Query
from ..library.implementations import is_called
from ..library.loading import LATER_DATA_TYPES
from ..library.memory import MemoryDesc
from ..library.primitive import PrimitiveDesc
from ..plan.measured_forms import Form
from ..plan.steps import Buffer
from ..plan.unfit import Unfit
from ..plan.work import is_crowded
from .decompression import MODES, Packed, brought, packed_weights, why_not_so
from .links import Link, result_of
from .long_sums import PRODUCTS, check_products
from .lowering import Lowered, Lowering
from .post_ops import LikeResult, OperandView, PostOps, See
from .rows_as_image import convolved, gains, image, seen
from .tensors import Quantized
from .views import reshaped_strides


@frozen(kw_only=True)
class Operands:
    """The operands of a product, as matrices with the same number of axes.

    Attributes:
        matrix: sizes of what the primitive makes: batches, rows and columns.
        src, weights: the factors, with rows and columns as the last two axes.
        bias: broadcasts to the result; or None.
        scales: argument → mask and scales, of factors that are integers. zero_points: argument → value.
        mixed: whether integers stand behind one factor alone, so that both are real.
        folded: whether the rows of all batches are in one axis; the factors are, `matrix` is as it was.
        packed: the weights, where they are integers in groups that the product decompresses.
        narrow: whether the weights are 8-bit integers that are known to take 7.
    """

    matrix: tuple[int, ...]
    src: Buffer
    weights: Buffer
    bias: Buffer | None
    scales: Mapping[int, tuple[int, Sequence[float]]]
    zero_points: Mapping[int, int]
    mixed: bool
    folded: bool = False
    packed: Packed | None = None
    narrow: bool = False

    @property
    def meets_one_matrix(self) -> bool:
        """Whether the rows of all batches meet the same weights, so that one product does what one for each would."""
        src, weights = self.src.desc.shape, self.weights.desc.shape
        return len(self.matrix) > 2 and math.prod(weights[:-2]) == 1 and src[:-1] == self.matrix[:-1]

    def in_rows(self, low: Lowering) -> Operands:
        """The same with all rows in one axis."""
        return evolve(
            self,
            src=_as_rows(low, self.src, self.matrix),
            weights=_as_rows(low, self.weights, self.matrix),
            bias=None if self.bias is None else _as_rows(low, self.bias, self.matrix),
            # The columns are the second axis then.
            scales={argument: (2 if mask else 0, values) for argument, (mask, values) in self.scales.items()},
            folded=True,
        )

    def seen(self, low: Lowering) -> See:
        """From an operand of what follows to how the product sees it."""
        return partial(_as_rows, low, matrix=self.matrix) if self.folded else lambda operand: operand

    def post_ops(self, low: Lowering, output: LogicalTensor, links: Sequence[Link]) -> PostOps:
        """The factors' scales and zero points, and what follows the product."""
        post_ops = PostOps(low, OperandView(output, self.seen(low)), narrow_weights=self.narrow)
        self.add_scales(post_ops)
        if self.packed is not None:
            rank = len(self.weights.desc.shape)
            how, mode = self.packed.decompression(rank), MODES[self.src.desc.data_type]
            post_ops.add_decompression(how, mode, self.packed.scales, self.packed.points)
        post_ops.add_links(links)
        return post_ops

    def add_scales(self, post_ops: PostOps, columns: int | None = None) -> None:
        """The factors' scales and zero points.

        Args:
            columns: mask of the columns' axis in weights that lie otherwise than the product's.
        """
        for argument, (mask, values) in self.scales.items():
            post_ops.add_scales(argument, values, columns if mask and columns is not None else mask)
        for argument, value in self.zero_points.items():
            post_ops.add_zero_point(argument, value)

    def target(
        self, low: Lowering, output: LogicalTensor, result: LogicalTensor, links: Sequence[Link]
    ) -> MemoryDesc:
        """What to ask for as the result: the user's layout where its axes are the primitive's."""
        if self.matrix == output.dims:
            target = low.tensors.wanted(result, None, links, turned_later=not self.folded)
        else:
            target = low.layouts.rows(self.matrix, low.tensors.type_of(result))
        return _target_in_rows(low, target, self.matrix) if self.folded else target

    def free_weights(self, low: Lowering, weights: LogicalTensor) -> MemoryDesc:
        """What to ask for as the weights: constant ones are brought to the layout that the library likes best, once."""
        desc = self.weights.desc
        if self.packed is not None:
            weights = self.packed.dequantize.inputs[0]
        one_matrix = max(desc.shape[:-2], default=1) == 1
        free = low.edges.is_constant(weights) and not self.mixed and one_matrix
        free = free and desc.data_type not in LATER_DATA_TYPES  # in one layout, which has no copy
        return low.layouts.any(desc.shape, desc.data_type) if free else desc


def matmul(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """A matmul primitive: operands as matrices, with all rows in one axis where that can be, and the result as it was.

    Raises:
        Unfit: sums that are too long, post-ops of a product of vectors, scales that the primitive does not have.
    """
    a, b = op.inputs[0].dims, op.inputs[1].dims
    output, result = op.outputs[0], result_of(op, links)
    turned = op.attributes.flag("transpose_a")
    a_shape, b_shape = matrix_shapes(a, b, turned, op.attributes.flag("transpose_b"))
    if a_shape[-1] > PRODUCTS:
        raise Unfit(f"sums of {a_shape[-1]} products lose digits in f32")
    if links and 1 in (len(a), len(b)):
        raise Unfit("post-ops need the axes of the matrices")
    product = _normalised(low, op, a_shape, b_shape)
    if product.meets_one_matrix and not turned:
        product = product.in_rows(low)
    if _as_convolution(low, op, product, links):
        _shape_back(low, result, output.dims or (1,))
        return
    post_ops = product.post_ops(low, output, links)
    bias = product.bias
    asked = MatMul(
        src=product.src.desc,
        weights=product.free_weights(low, op.inputs[1]),
        bias=None if bias is None else bias.desc,
        dst=product.target(low, output, result, links),
        attributes=post_ops.attributes(),
    )
    if product.packed is None:
        role, desc, bring = "matmul", _on_rows_apart(low, asked), partial(low.emitter.bring, "weights")
    else:
        role, desc = (
            f"matmul that decompresses {product.packed.told}",
            _on_integers(low, asked, product.packed),
        )
        bring = partial(brought, low)
    weights = bring(product.weights, desc.memory_desc(Query.weights_md))
    arguments = [(Arg.SRC, product.src), (Arg.WEIGHTS, weights), *post_ops.arguments]
    low.single(role, desc, arguments if bias is None else [*arguments, (Arg.BIAS, bias)], result)
    _shape_back(low, result, output.dims or (1,))


def _as_convolution(low: Lowering, op: Op, product: Operands, links: Sequence[Link]) -> bool:
    """A convolution, where it is faster; says whether there is one."""
    constant = product.free_weights(low, op.inputs[1]) != product.weights.desc
    made = low.edges.producer(op.inputs[1]) is not None
    if product.packed or not constant or not gains(low, product.src.desc, product.weights.desc, made):
        return False
    output, result = op.outputs[0], result_of(op, links)
    try:
        with low.attempt(low.tensors.way):
            target = product.target(low, output, result, links)
            lies = target if target.strides is None else image(low.layouts, target)
            view = LikeResult.of(output, seen(low, product.seen(low)), lies)
            post_ops = PostOps(low, view, narrow_weights=product.narrow)
            product.add_scales(post_ops, columns=1)
            post_ops.add_links(links)
            convolved(low, product.src, product.weights, product.bias, target, post_ops, result)
    except (Unfit, LibraryError):
        return False
    return True


GAP = 64
"""Bytes behind a row, so that rows do not: a cache line."""


def _on_rows_apart(low: Lowering, asked: MatMul) -> PrimitiveDesc:
    """The product; where it packs weights that may lie as they like, their rows do not crowd in the cache.

    `gemm:jit` packs at each call a few columns of many rows at a time. Where these share sets of the cache, products
    of 16 to 256 rows took 1.1 to 2.6 times as long in f32 with AVX2 (2.6 by 1024 × 4096), 1.2 to 1.4 times in 8 bits;
    none took longer with gaps.

    Raises:
        NoKernel: the library has none.
    """
    desc = low.chooser.describe(asked)
    lies = desc.memory_desc(Query.weights_md)
    row = lies.shape[-1]
    if asked.weights == lies or not is_crowded(lies) or not is_called(desc.implementation, "gemm:jit"):
        return desc
    if lies.data_type not in (DataType.f32, DataType.s8) or lies.shape[-2] == 1:
        return desc
    outer, step = len(lies.shape) - 2, row + GAP // lies.itemsize
    strides = (*[lies.shape[-2] * step] * outer, step, 1)
    return low.chooser.describe(evolve(asked, weights=low.layouts.desc(lies.shape, strides, lies.data_type)))


def _on_integers(low: Lowering, asked: MatMul, packed: Packed) -> PrimitiveDesc:
    """A product that decompresses its weights.

    Raises:
        Unfit: there is no kernel for it, or another form of the weights is faster.
    """
    choice = low.chooser.find(asked)
    if choice.desc is None:
        reason = "; ".join(choice.passed_over) or "the library has none"
        raise Unfit(f"no product decompresses the weights here, which are expanded instead: {reason}")
    slower = why_not_so(low, asked, packed, low.tensors.way.decompresses or Form.bytes)
    if slower is not None:
        raise Unfit(slower)
    return choice.desc


def _normalised(low: Lowering, op: Op, a_shape: Sequence[int], b_shape: Sequence[int]) -> Operands:
    """The operands with the same number of axes; integers where both factors are such behind a Dequantize.

    Args:
        a_shape, b_shape: of the factors as matrices.
    """
    rank, factors = max(len(a_shape), len(b_shape)), op.inputs[:2]
    if low.tensors.way.decompresses is not None:
        return _compressed(low, op, a_shape, b_shape, low.tensors.way.decompresses)
    integers = [low.tensors.quantized(tensor) for tensor in factors]
    both = all(integers)
    if both:
        check_products(a_shape[-1], math.prod(found.largest for found in integers if found is not None))
    scales: dict[int, tuple[int, Sequence[float]]] = {}
    points: dict[int, int] = {}
    matrices: list[Buffer] = []
    for tensor, flag, found, argument in zip(
        factors, ("transpose_a", "transpose_b"), integers, (Arg.SRC, Arg.WEIGHTS), strict=True
    ):
        turned = op.attributes.flag(flag) and len(tensor.dims) > 1
        if both and found is not None:
            scales[argument], points[argument] = _scaled(found, argument, turned, len(tensor.dims), rank)
            matrices.append(_matrix(low, found.buffer, rank, turned, argument))
        else:
            matrices.append(_matrix(low, low.tensors.plain(tensor), rank, turned, argument))
    bias_type = DataType.f32 if both else None
    return Operands(
        matrix=_result(op, a_shape, b_shape),
        src=matrices[0],
        weights=matrices[1],
        bias=low.tensors.aligned(op.inputs[2], rank, None, bias_type) if len(op.inputs) > 2 else None,
        scales=scales,
        zero_points=points,
        mixed=both != any(integers),
        narrow=both and integers[1] is not None and integers[1].narrow,
    )


def _result(op: Op, a_shape: Sequence[int], b_shape: Sequence[int]) -> tuple[int, ...]:
    """Sizes of what the primitive makes: batches, rows and columns."""
    own = sum(len(tensor.dims) > 1 for tensor in op.inputs[:2])
    output, rank = op.outputs[0].dims, max(len(a_shape), len(b_shape))
    matrix = (*output[: len(output) - own], a_shape[-2], b_shape[-1])
    return (1,) * (rank - len(matrix)) + matrix


def _compressed(
    low: Lowering, op: Op, a_shape: Sequence[int], b_shape: Sequence[int], form: Form
) -> Operands:
    """The operands, with weights that are integers in groups, in this form.

    Raises:
        Unfit: weights that are no such, or not so that the library takes them.
    """
    rank = len(a_shape)
    turned = op.attributes.flag("transpose_a") and len(op.inputs[0].dims) > 1
    src = _matrix(low, low.tensors.plain(op.inputs[0]), rank, turned, Arg.SRC)
    packed = packed_weights(low, op, turned=op.attributes.flag("transpose_b"), form=form)
    return Operands(
        matrix=_result(op, a_shape, b_shape),
        src=src,
        weights=_matrix(low, packed.integers, rank, False, Arg.WEIGHTS),
        bias=low.tensors.aligned(op.inputs[2], rank) if len(op.inputs) > 2 else None,
        scales={},
        zero_points={},
        mixed=False,
        packed=packed,
    )


def _shape_back(low: Lowering, result: LogicalTensor, dims: Sequence[int]) -> None:
    """Says that the result, which lies as the primitive has made it, has its own axes again."""
    made = low.tensors.read(result)
    if made.desc.shape != tuple(dims):
        strides = reshaped_strides(made.desc.shape, made.desc.strides or (), dims)
        low.tensors.produce(result, low.layouts.view(made, dims, strides))


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
    """An operand as a matrix with `rank` axes, copied where neither its rows nor its columns are adjacent elements.

    That is as heads that lie innermost have it, and a product by NumPy takes many times as long as the copy.

    Raises:
        Unfit: a blocked layout.
    """
    if buffer.desc.strides is None:
        raise Unfit("a blocked layout")
    if min(buffer.desc.strides[-2:]) != 1 and min(buffer.desc.shape[-2:]) > 1:
        rows = low.layouts.rows(buffer.desc.shape, buffer.desc.data_type)
        buffer = low.emitter.bring("matrix", buffer, rows)
    shape, strides = list(buffer.desc.shape), list(buffer.desc.strides or ())
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
    desc = low.layouts.desc([1] * missing + shape, [outer] * missing + strides, buffer.desc.data_type)
    return low.layouts.look(buffer, desc)


LOWERED = {"MatMul": Lowered(matmul)}
