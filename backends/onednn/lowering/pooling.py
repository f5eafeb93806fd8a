"""Lowering of the pooling family."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....graph.model.logical_tensor import LogicalTensor
from ....graph.model.op import Op
from ....ops.formats import data_axes
from ....ops.pooling import Windows, pooling_attributes, windows_between
from ....ops.records import frozen
from ..library.descriptors import PoolingBackward, PoolingForward
from ..library.enumerators import Algorithm, Arg, Propagation, Query
from ..library.memory import MemoryDesc, packed
from ..library.primitive import PrimitiveAttributes, PrimitiveDesc
from ..plan.steps import Buffer
from ..plan.unfit import Unfit
from .as_views import is_part
from .extremes import largest_of_windows, may_be_minus_infinity
from .links import Link, result_of
from .long_sums import SHORT, check_length
from .lowering import Lowered, Lowering
from .post_ops import OperandView, PostOps
from .tensors import HALVES, label_of


@frozen
class _Pooling:
    """What a pooling does, whatever the layouts."""

    algorithm: Algorithm
    windows: Windows

    @property
    def _ends(self) -> tuple[int, ...]:
        w = self.windows
        return tuple(end + beyond for end, beyond in zip(w.pads_end, w.beyond, strict=True))

    @property
    def _dilates(self) -> tuple[int, ...]:
        """0 is dense."""
        return tuple(d - 1 for d in self.windows.dilations)

    def forward(
        self, propagation: Propagation, src: MemoryDesc, dst: MemoryDesc, attributes: PrimitiveAttributes
    ) -> PoolingForward:
        """The pooling of these tensors."""
        return PoolingForward(
            propagation=propagation,
            algorithm=self.algorithm,
            src=src,
            dst=dst,
            strides=self.windows.strides,
            kernel=self.windows.kernel,
            dilates=self._dilates,
            pads_begin=self.windows.pads_begin,
            pads_end=self._ends,
            attributes=attributes,
        )

    def backward(
        self, diff_src: MemoryDesc, diff_dst: MemoryDesc, hint: PrimitiveDesc, attributes: PrimitiveAttributes
    ) -> PoolingBackward:
        """Its gradient."""
        return PoolingBackward(
            algorithm=self.algorithm,
            diff_src=diff_src,
            diff_dst=diff_dst,
            strides=self.windows.strides,
            kernel=self.windows.kernel,
            dilates=self._dilates,
            pads_begin=self.windows.pads_begin,
            pads_end=self._ends,
            hint=hint,
            attributes=attributes,
        )


def _pooling(op: Op, src: Sequence[int], dst: Sequence[int]) -> _Pooling:
    """The pooling of canonical shapes.

    Raises:
        Unfit: negative padding, a window that lies in the padding alone, or averages over many elements that are in it
            everywhere.
    """
    attributes = pooling_attributes(op.attributes, len(src) - 2)
    found = windows_between(attributes, src[2:], dst[2:])
    if min(*found.pads_begin, *found.pads_end) < 0:
        raise Unfit("the library has no negative padding")
    averages = op.kind.startswith("Avg") and not attributes.exclude_pad
    there = tuple(map(len, found.reaching))
    if there != found.kernel:
        # The library would walk along elements that are in the padding everywhere.
        if averages:
            check_length(math.prod(found.kernel))
        else:
            found = found.trimmed
        if math.prod(found.kernel) > SHORT and there != found.kernel:
            raise Unfit("of its windows only some elements here and there are on the data")
        if min(*found.pads_begin, *found.pads_end) < 0:
            raise Unfit("windows without what is in the padding everywhere leave out elements")
    for k, d, begin, end in zip(found.kernel, found.dilations, found.pads_begin, found.pads_end, strict=True):
        if max(begin, end) > d * (k - 1):
            raise Unfit("the library has no windows in the padding alone")
    if op.kind.startswith("Max"):
        return _Pooling(Algorithm.pooling_max, found)
    if averages:
        return _Pooling(Algorithm.pooling_avg_include_padding, found)
    return _Pooling(Algorithm.pooling_avg_exclude_padding, found)


LEAST_FACTOR, LARGEST_FACTOR = 2.0**-24, 2.0**24
"""Of integers that f32 holds with what is added, and that leave some of them apart."""


@frozen
class _Integers:
    """The integers behind a tensor, of which the pooling is that of the tensor.

    Attributes:
        buffer: where they lie.
        linear: factor and offset that make the result's integers of their pooling; None where these are the result.
    """

    buffer: Buffer
    linear: tuple[float, float] | None = None


def _integers_kept(low: Lowering, op: Op, links: Sequence[Link]) -> _Integers | None:
    """Integers whose largest or whose means are those of the result, once scaled; None where there are none such.

    The largest ones are those of the same scale and zero point. Zeros around them are none of theirs where the zero
    point is another one.
    """
    if op.kind not in ("MaxPool", "AvgPool") or len(links) != 1 or links[0].quantize is None:
        return None
    found, wanted = low.tensors.quantized(op.inputs[0]), links[0].quantize
    if found is None or links[0].result.data_type is not found.buffer.desc.data_type:
        return None
    if op.kind == "AvgPool" and found.zero_point and not op.attributes.flag("exclude_pad"):
        return None
    if found.has(wanted):
        return _Integers(found.buffer)
    linear = found.rescaling(wanted)
    if op.kind == "MaxPool" or linear is None or not LEAST_FACTOR <= linear[0] <= LARGEST_FACTOR:
        return None
    return _Integers(found.buffer, linear)


def without_gaps(low: Lowering, tensor: LogicalTensor, buffer: Buffer) -> Buffer:
    """Kernels for images have no gaps between the elements."""
    desc = buffer.desc
    if not desc.has_gaps or desc.strides is None:
        return buffer
    dense = low.layouts.desc(desc.shape, packed(desc.shape, desc.strides), desc.data_type)
    return low.emitter.bring(label_of(tensor), buffer, dense.canonical(channels_last=True))


def _rectified(links: Sequence[Link]) -> bool:
    """Whether what follows makes the same of −∞ and of the lowest finite number."""
    return bool(links) and links[0].algorithm is Algorithm.eltwise_relu and links[0].alpha == 0


def forward(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """A pooling primitive; integers stay integers, for one scale in and out changes nothing."""
    tensor, result = op.inputs[0], result_of(op, links)
    if is_part(op):
        low.tensors.move(op)
        return
    order = data_axes(op.attributes.string("data_format"), len(tensor.dims) - 2).order
    integers = _integers_kept(low, op, links)
    looks = op.kind == "MaxPool" and integers is None and not _rectified(links)
    looks = looks and may_be_minus_infinity(low, tensor)
    if looks and links:
        raise Unfit("windows of -inf are looked for before what follows")
    real = low.tensors.plain if looks else low.tensors.read
    own = real(tensor) if integers is None else integers.buffer
    src = low.tensors.images(own, order)
    shape = tuple(op.outputs[0].dims[a] for a in order)
    taken = links if integers is None else ()
    view = OperandView(op.outputs[0], lambda operand: low.tensors.images(operand, order))
    post_ops = PostOps(low, view, scales_result=False)
    post_ops.add_links(taken)
    if integers is not None and integers.linear is not None:
        post_ops.add_eltwise(Algorithm.eltwise_linear, *integers.linear)
    pooling = _pooling(op, src.desc.shape, shape)
    src = without_gaps(low, tensor, src)
    if op.kind == "AvgPool" and math.prod(pooling.windows.kernel) > SHORT:
        if links or src.desc.data_type in HALVES:
            raise Unfit("post-ops of a mean in stages, or one that is rounded to halves in between")
        _axis_by_axis(low, pooling, src, result, order)
        return
    wanted = low.tensors.wanted(result, order, links)
    if integers is not None:  # the library has no other kernel for them
        lies = low.layouts.channels_last(src.desc.shape, src.desc.data_type)
        src = low.emitter.bring(label_of(tensor), src, lies)
        wanted = low.layouts.channels_last(shape, src.desc.data_type)
    desc = low.chooser.describe(
        pooling.forward(Propagation.forward_inference, src.desc, wanted, post_ops.attributes())
    )
    low.single("pooling", desc, [(Arg.SRC, src), *post_ops.arguments], result, order)
    if looks:
        made = low.tensors.read(result)
        largest_of_windows(low, op, [own], made, made)


def _axis_by_axis(
    low: Lowering, pooling: _Pooling, src: Buffer, result: LogicalTensor, order: Sequence[int]
) -> None:
    """Means over large windows along one axis after another, which are sums of fewer numbers, and fewer sums.

    Raises:
        Unfit: an axis alone is too long.
    """
    attributes = low.chooser.attributes()
    poolings = [_Pooling(pooling.algorithm, one) for one in pooling.windows.axis_by_axis()]
    for number, one in enumerate(poolings):
        check_length(max(one.windows.kernel))
        last = number == len(poolings) - 1
        shape = (*src.desc.shape[:2], *one.windows.dst)
        wanted = low.tensors.wanted(result, order) if last else low.layouts.any(shape, src.desc.data_type)
        desc = low.chooser.describe(one.forward(Propagation.forward_inference, src.desc, wanted, attributes))
        if last:
            low.single("pooling", desc, [(Arg.SRC, src)], result, order)
            return
        dst = Buffer(desc.memory_desc(Query.dst_md))
        low.emitter.run("pooling", desc, [(Arg.SRC, src), (Arg.DST, dst)])
        src = dst


def _check_sums(pooling: _Pooling, diff_dst: Buffer) -> None:
    """Leaves gradients of windows that overlap to f32.

    Raises:
        Unfit: halves, in which the library would round after each window that an element is in.
    """
    w = pooling.windows
    overlap = any(d * (k - 1) + 1 > s for k, d, s in zip(w.kernel, w.dilations, w.strides, strict=True))
    if overlap and diff_dst.desc.data_type in HALVES:
        raise Unfit("its gradients of overlapping windows are summed in halves")


def average_backward(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """The gradient of an average pooling."""
    result = op.outputs[0]
    order = data_axes(op.attributes.string("data_format"), len(result.dims) - 2).order
    diff_dst = low.tensors.images(low.tensors.read(op.inputs[0]), order)
    shape = tuple(result.dims[a] for a in order)
    attributes = low.chooser.attributes()
    pooling = _pooling(op, shape, diff_dst.desc.shape)
    _check_sums(pooling, diff_dst)
    source = low.layouts.any(shape, diff_dst.desc.data_type)
    hint = low.chooser.describe(
        pooling.forward(
            Propagation.forward_training,
            low.layouts.temporary(shape, diff_dst.desc.data_type).desc,
            low.layouts.any(diff_dst.desc.shape, diff_dst.desc.data_type),
            attributes,
        )
    )
    desc = low.chooser.describe(pooling.backward(source, diff_dst.desc, hint, attributes))
    low.single(
        "pooling gradient", desc, [(Arg.DIFF_DST, diff_dst)], result, order, Arg.DIFF_SRC, Query.diff_src_md
    )


def max_backward(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """The gradient of a max pooling: forward once more for the places of the largest elements, then back."""
    result = op.outputs[0]
    order = data_axes(op.attributes.string("data_format"), len(result.dims) - 2).order
    looks = may_be_minus_infinity(low, op.inputs[0])
    own = [low.tensors.plain(t) if looks else low.tensors.read(t) for t in op.inputs[:2]]
    src, diff_dst = (low.tensors.images(one, order) for one in own)
    attributes = low.chooser.attributes()
    pooling = _pooling(op, src.desc.shape, diff_dst.desc.shape)
    _check_sums(pooling, diff_dst)
    wanted = low.layouts.any(diff_dst.desc.shape, src.desc.data_type)
    forward_desc = low.chooser.describe(
        pooling.forward(Propagation.forward_training, src.desc, wanted, attributes)
    )
    dst = Buffer(forward_desc.memory_desc(Query.dst_md))
    workspace = Buffer(forward_desc.memory_desc(Query.workspace_md))
    low.emitter.run("pooling", forward_desc, [(Arg.SRC, src), (Arg.DST, dst), (Arg.WORKSPACE, workspace)])
    diff_dst = low.emitter.bring("diff_dst", diff_dst, dst.desc)
    desc = low.chooser.describe(pooling.backward(src.desc, diff_dst.desc, forward_desc, attributes))
    arguments = [(Arg.DIFF_DST, diff_dst), (Arg.WORKSPACE, workspace)]
    low.single("pooling gradient", desc, arguments, result, order, Arg.DIFF_SRC, Query.diff_src_md)
    if looks:
        largest_of_windows(low, op, own, low.tensors.read(result), dst)


LOWERED = {
    "AvgPool": Lowered(forward),
    "MaxPool": Lowered(forward),
    "AvgPoolBackward": Lowered(average_backward),
    "MaxPoolBackward": Lowered(max_backward),
}
