"""What a primitive does to its result before it writes it: post-ops, scales and zero points, and what these read.

`PostOps` collects them one by one. Each `add_` says the place among the primitive's arguments where its operand or its
values stand, so that nobody counts. How an operand is seen depends on the primitive: with its axes in another order,
say, or with several of them as one; that is an `OperandView`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ....graph.model.logical_tensor import LogicalTensor
from ....graph.model.op import Op
from ....graph.runtime.arrays import Array
from ....ops.data_types import DataType
from ....ops.records import frozen
from ..library.enumerators import Algorithm, Arg, FpmathMode
from ..library.memory import MemoryDesc
from ..library.primitive import Decompression, PostOp, PrimitiveAttributes
from ..plan.plan import Buffer
from ..plan.unfit import Unfit
from .common_axes import CommonAxes
from .links import Link, OneScale, PostEltwise, Rounding
from .lowering import Lowering
from .tensors import Quantized, label_of

SUMS = (Algorithm.binary_add, Algorithm.binary_sub)
"""Post-ops that integers may go into as they are."""

See = Callable[[Buffer], Buffer]
"""From an operand with the axes of the result to the same memory as the primitive sees it."""


@frozen
class OperandView:
    """How a primitive sees the operands of its post-ops: as they broadcast to its result.

    Attributes:
        result: the op's own result, to which operands broadcast.
        see: how the primitive sees an operand, if its axes are not the result's.
    """

    result: LogicalTensor
    see: See = lambda buffer: buffer

    @property
    def rank(self) -> int:
        """Axes of the result as the library counts them."""
        return max(len(self.result.dims), 1)

    def vector(self, low: Lowering, vector: Buffer, axis: int | None) -> Buffer:
        """One number for each index of an axis."""
        return self.see(low.tensors.spread(vector, self.rank, axis))

    def tensor(
        self, low: Lowering, tensor: LogicalTensor, axis: int | None, data_type: DataType | None
    ) -> Buffer:
        """A tensor; a vector stands at `axis`."""
        return self.see(low.tensors.aligned(tensor, self.rank, axis, data_type))

    def integers(self, low: Lowering, link: Link) -> Quantized | None:
        """The integers of as many elements as the result has that a post-op adds, subtracts or, where zero is zero,
        multiplies by; None for others.
        """
        if link.operand is None or link.operand.dims != self.result.dims:
            return None
        found = (
            low.tensors.quantized(link.operand) if link.algorithm in (*SUMS, Algorithm.binary_mul) else None
        )
        if found is None or len(found.scales) > 1:
            return None
        return found if link.algorithm in SUMS or not found.zero_point else None

    def reads_copy(self, low: Lowering, link: Link) -> bool:
        """Whether a post-op reads integers of as many elements as the result has that are made real before."""
        if link.operand is None or link.operand.dims != self.result.dims:
            return False
        return low.tensors.quantized(link.operand) is not None and self.integers(low, link) is None

    def as_integers(self, low: Lowering, integers: Quantized) -> Buffer:
        """Such integers, as the primitive sees them."""
        return self.see(low.tensors.without_gaps(self.result, integers.buffer))


@frozen
class LikeResult(OperandView):
    """Operands of as many elements are brought to how the primitive's result lies.

    Attributes:
        desc: of the primitive's result, in its axes; a layout of strides.
    """

    desc: MemoryDesc | None = None

    @classmethod
    def of(cls, result: LogicalTensor, see: See, desc: MemoryDesc) -> OperandView:
        """The view of a primitive whose result lies so; where it is not known how, operands are as they are."""
        return OperandView(result, see) if desc.strides is None else cls(result, see, desc)

    def tensor(
        self, low: Lowering, tensor: LogicalTensor, axis: int | None, data_type: DataType | None
    ) -> Buffer:
        if tensor.dims != self.result.dims:
            return super().tensor(low, tensor, axis, data_type)
        return self._brought(low, tensor, self.see(low.tensors.read(tensor, data_type)))

    def as_integers(self, low: Lowering, integers: Quantized) -> Buffer:
        return self._brought(low, self.result, self.see(integers.buffer))

    def _brought(self, low: Lowering, tensor: LogicalTensor, operand: Buffer) -> Buffer:
        if self.desc is None:
            return operand
        lies = low.layouts.desc(self.desc.shape, self.desc.strides or (), operand.desc.data_type)
        return low.emitter.bring(label_of(tensor), operand, lies)


@frozen
class ElementwiseView(OperandView):
    """Operands of an elementwise primitive, which lie as its first one does.

    Attributes:
        axes: how it sees its tensors.
    """

    axes: CommonAxes | None = None

    @classmethod
    def of(cls, result: LogicalTensor, axes: CommonAxes) -> ElementwiseView:
        """The view of a primitive that sees its tensors so."""
        return cls(result, axes.see, axes)

    def tensor(
        self, low: Lowering, tensor: LogicalTensor, axis: int | None, data_type: DataType | None
    ) -> Buffer:
        if self.axes is None:
            return super().tensor(low, tensor, axis, data_type)
        return self.see(low.tensors.beside(tensor, self.axes.first, axis, data_type))

    def as_integers(self, low: Lowering, integers: Quantized) -> Buffer:
        strides = None if self.axes is None else self.axes.first.desc.strides
        if strides is None:
            return super().as_integers(low, integers)
        buffer = integers.buffer
        lies = low.layouts.desc(buffer.desc.shape, strides, buffer.desc.data_type)
        return self.see(low.emitter.bring(label_of(self.result), buffer, lies))


class PostOps:
    """The post-ops of one primitive in the making, its scales and zero points.

    Args:
        low: the lowering, which reads operands.
        view: how the primitive sees them.
        scales_result: whether it has a scale and zero point of its result; a post-op does it otherwise.
        narrow_weights: whether weights of 8 bits are known to take 7.
    """

    def __init__(
        self, low: Lowering, view: OperandView, *, scales_result: bool = True, narrow_weights: bool = False
    ) -> None:
        self._low = low
        self._view = view
        self._scales_result = scales_result
        self._narrow_weights = narrow_weights
        self._chain: list[PostOp] = []
        self._operands: list[tuple[int, Buffer]] = []
        self._scales: dict[int, tuple[int, Sequence[float]]] = {}
        self._points: dict[int, int] = {}
        self._decompression: tuple[Decompression, FpmathMode] | None = None
        self._grouped: list[tuple[int, Buffer]] = []
        self._linear: int | None = None

    # --- one by one ----------------------------------------------------------------------------------

    def add_eltwise(self, algorithm: Algorithm, alpha: float = 0.0, beta: float = 0.0) -> int:
        """A function of each element; returns its place in the chain."""
        self._chain.append(PostOp(algorithm, alpha, beta))
        return Arg.ATTR_MULTIPLE_POST_OP_BASE * len(self._chain)

    def add_binary(self, algorithm: Algorithm, operand: Buffer) -> int:
        """An operation with an operand that the primitive sees as it is given; returns the operand's place."""
        self._chain.append(PostOp(algorithm, operand=operand.desc))
        place = Arg.ATTR_MULTIPLE_POST_OP_BASE * len(self._chain) | Arg.SRC_1
        self._operands.append((place, operand))
        return place

    def add_scales(self, argument: int, values: Sequence[float], mask: int = 0) -> int:
        """Scales of an argument, along the axes of a mask; returns the place of the values."""
        self._scales[argument] = mask, values
        return Arg.ATTR_SCALES | argument

    def add_zero_point(self, argument: int, value: int) -> int:
        """A zero point of an argument; returns the place of the value."""
        self._points[argument] = value
        return Arg.ATTR_ZERO_POINTS | argument

    def add_decompression(
        self, how: Decompression, fpmath: FpmathMode, scales: Buffer, points: Buffer | None
    ) -> None:
        """How the weights become real numbers, and the scales and zero points for that."""
        self._decompression = how, fpmath
        self._grouped = [(Arg.ATTR_SCALES | Arg.WEIGHTS, scales)]
        if points is not None:
            self._grouped.append((Arg.ATTR_ZERO_POINTS | Arg.WEIGHTS, points))

    # --- what follows an op --------------------------------------------------------------------------

    def add_links(self, links: Sequence[Link]) -> None:
        """What follows the op, one after another.

        Raises:
            Unfit: an operand that no primitive takes, or that is copied where more than one quantisation goes along.
        """
        rounds = bool(links) and (links[-1].quantize is not None or links[-1].rounding is not None)
        again = any(link.rounding is not None for link in links)
        for link in links:
            if again and self._view.reads_copy(self._low, link):
                raise Unfit("integers that are copied to be read make up for nothing")
            self._add_link(link, rounds)

    def _add_link(self, link: Link, rounds: bool) -> None:
        """One of them.

        Args:
            rounds: whether the result is quantised.
        """
        if link.quantize is not None:
            self._add_quantization(link.quantize)
        if link.rounding is not None:
            self._add_rounding(link.rounding)
        if link.normalize is not None:
            factor, summand = folded(self._low, link.normalize)
            self.add_binary(Algorithm.binary_mul, self._view.vector(self._low, factor, link.axis))
            self.add_binary(Algorithm.binary_add, self._view.vector(self._low, summand, link.axis))
        self._add_function(link.before)
        if link.algorithm is None:
            return
        integers = self._view.integers(self._low, link) if rounds else None
        if integers is not None:
            self._add_integers(link.algorithm, integers)
            return
        if link.operand is None:
            self.add_eltwise(link.algorithm, link.alpha, link.beta)
        else:
            # Resamplings misread operands in f16; there and elsewhere f32 costs next to nothing.
            data_type = DataType.f32 if link.operand.data_type is DataType.f16 else None
            self.add_binary(link.algorithm, self._view.tensor(self._low, link.operand, link.axis, data_type))
        self._add_function(link.after)

    def _add_function(self, function: PostEltwise | None) -> None:
        if function is not None:
            self.add_eltwise(function.algorithm, function.alpha, function.beta)

    def _add_linear(self, factor: float, summand: float) -> None:
        """A multiple and a summand; together with another such that stands right before."""
        before = self._chain.pop() if self._linear == len(self._chain) - 1 else None
        if before is not None:
            factor, summand = before.alpha * factor, before.beta * factor + summand
        self._linear = len(self._chain)
        self.add_eltwise(Algorithm.eltwise_linear, factor, summand)

    def _add_rounding(self, rounding: Rounding) -> None:
        """Integers, which are real again."""
        to, back = rounding.to, rounding.back
        self._add_linear(1 / to.scale, to.zero_point)
        self.add_eltwise(Algorithm.eltwise_clip_v2, *rounding.bounds)
        self.add_eltwise(Algorithm.eltwise_round)
        self._add_linear(back.scale, -back.scale * back.zero_point)

    def _add_quantization(self, quantize: OneScale) -> None:
        """The result's scale and zero point."""
        if self._scales_result:
            self.add_scales(Arg.DST, (quantize.scale,))
            self.add_zero_point(Arg.DST, quantize.zero_point)
        else:
            self.add_eltwise(Algorithm.eltwise_linear, 1 / quantize.scale, quantize.zero_point)

    def _add_integers(self, algorithm: Algorithm, integers: Quantized) -> None:
        """Adds integers as they lie: a + (q − z)·s = (a / s − z + q)·s; or multiplies by them: a · q·s = a·q · s.

        That rounds more often than what is done in f32, and is for results that are quantised.
        """
        (scale,) = integers.scales
        if algorithm is Algorithm.binary_mul:
            self.add_binary(algorithm, self._view.as_integers(self._low, integers))
            self._add_linear(scale, 0.0)
            return
        point = integers.zero_point if algorithm is Algorithm.binary_add else -integers.zero_point
        operand = self._view.as_integers(self._low, integers)
        self._add_linear(1 / scale, -point)
        self.add_binary(algorithm, operand)
        self.add_eltwise(Algorithm.eltwise_linear, scale)

    # --- the end -------------------------------------------------------------------------------------

    @property
    def arguments(self) -> list[tuple[int, Buffer]]:
        """What the primitive reads beside its own arguments."""
        scales = [
            (Arg.ATTR_SCALES | argument, self._low.layouts.constant(np.asarray(values, np.float32)))
            for argument, (_, values) in self._scales.items()
        ]
        points = [
            (Arg.ATTR_ZERO_POINTS | argument, self._low.layouts.constant(np.asarray([value], np.int32)))
            for argument, value in self._used_points.items()
        ]
        return [*self._operands, *scales, *points, *self._grouped]

    @property
    def _used_points(self) -> dict[int, int]:
        return {argument: value for argument, value in self._points.items() if value}

    def attributes(self) -> PrimitiveAttributes:
        """What the primitive is described with.

        Raises:
            Unfit: the library has no such post-ops.
        """
        masks = {argument: mask for argument, (mask, _) in self._scales.items()}
        how, fpmath = self._decompression or (None, None)
        points = dict.fromkeys(self._used_points, 0)
        return self._low.chooser.attributes(self._chain, masks, points, how, fpmath, self._narrow_weights)


def folded(low: Lowering, op: Op) -> tuple[Buffer, Buffer]:
    """The factor and the summand per channel that a BatchNormInference is, made on the host."""
    vectors = [low.tensors.dense(tensor, DataType.f32) for tensor in op.inputs[1:]]
    factor, summand = (low.layouts.temporary(vectors[0].desc.shape, DataType.f32) for _ in range(2))
    epsilon = op.attributes.real("epsilon")

    def run(inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        gamma, beta, mean, variance = inputs
        with np.errstate(all="ignore"):  # negative variances give NaN, as in the library
            np.divide(gamma, np.sqrt(variance + np.float32(epsilon)), out=outputs[0])
            np.subtract(beta, mean * outputs[0], out=outputs[1])

    low.emitter.on_host("batch normalization, folded", run, vectors, (factor, summand))
    return factor, summand
