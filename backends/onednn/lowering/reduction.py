"""Lowering of the reduction family."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....graph.model.logical_tensor import LogicalTensor
from ....graph.model.op import Op
from ....ops.data_types import DataType
from ..library.descriptors import PoolingForward, Reduction
from ..library.enumerators import Algorithm, Arg, Propagation, Query
from ..library.loading import MAX_SPATIAL_RANK
from ..library.memory import MemoryDesc
from ..library.primitive import PostOp, PrimitiveAttributes
from ..plan.steps import Above, Buffer
from ..plan.unfit import Unfit
from .extremes import extremes_of_rows
from .links import Link, result_of
from .long_sums import LANES, SHORT, check_length, stages
from .lowering import Lowered, Lowering
from .pooling import without_gaps
from .post_ops import OperandView, PostOps
from .sums_of_rows import check_rows, follow, has_many_short_rows, sum_of_rows, sum_within_rows
from .views import reshaped_strides

ALGORITHMS: dict[str, tuple[Algorithm, float]] = {
    "ReduceL1": (Algorithm.reduction_norm_lp_power_p_sum, 1.0),
    "ReduceL2": (Algorithm.reduction_norm_lp_sum, 2.0),
    "ReduceMax": (Algorithm.reduction_max, 0.0),
    "ReduceMean": (Algorithm.reduction_mean, 0.0),
    "ReduceMin": (Algorithm.reduction_min, 0.0),
    "ReduceProd": (Algorithm.reduction_mul, 0.0),
    "ReduceSum": (Algorithm.reduction_sum, 0.0),
}
"""Kind → algorithm and the norm's p."""
EXTREMES = ("ReduceMax", "ReduceMin")
"""Kinds of which the library knows neither NaN nor infinities; nothing follows them before these are seen to."""


def reduce(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """A reduction primitive; its result keeps the reduced axes, and is looked at without them."""
    if links and _mean_of_integers(low, op, links):
        return
    src = low.tensors.plain(op.inputs[0]) if op.kind in EXTREMES else low.tensors.read(op.inputs[0])
    shape, output = src.desc.shape, op.outputs[0]
    keep = op.attributes.flag("keep_dims")
    axes = {a % len(shape) for a in low.edges.sizes(op, 1, "axes")}
    kept = tuple(1 if a in axes else d for a, d in enumerate(shape))
    if kept == shape:
        raise Unfit("nothing is reduced")
    if links and not keep:
        raise Unfit("post-ops need the axes that are dropped")
    result = result_of(op, links)
    if op.kind in SUMS and math.prod(shape[a] for a in axes) > SHORT:
        _long(low, op, src, axes, links)
        return
    if op.kind in ADDED and has_many_short_rows(src, axes):
        if links:
            raise Unfit("the product that sums up short rows takes nothing along")
        if _by_product(low, op, src, axes):
            return
    check_rows(low, src, axes, alone=not links)
    post_ops = PostOps(low, OperandView(output), scales_result=False)
    post_ops.add_links(links)
    attributes = post_ops.attributes()
    algorithm, p = ALGORITHMS[op.kind]
    target = (
        low.tensors.wanted(result, None, links)
        if keep
        else low.layouts.temporary(kept, low.tensors.type_of(result)).desc
    )
    try:
        desc = low.chooser.describe(
            Reduction(algorithm=algorithm, src=src.desc, dst=target, p=p, epsilon=0.0, attributes=attributes)
        )
    except Unfit:
        if op.kind == "ReduceSum" and not links and _by_product(low, op, src, axes):
            return
        if links or not _is_pooled(op, shape, axes):
            raise
        _by_pooling(low, op, src, axes)
        return
    low.single("reduction", desc, [(Arg.SRC, src), *post_ops.arguments], result)
    if op.kind in EXTREMES:
        _look_for_extremes(low, op, src, low.tensors.read(result), axes)
    if not keep:
        whole = low.tensors.read(result)
        dims = output.dims or (1,)
        low.tensors.produce(result, low.layouts.view(whole, dims))


def _look_for_extremes(low: Lowering, op: Op, src: Buffer, made: Buffer, axes: set[int]) -> None:
    """A look at the result, and at what was reduced: at all of a little, else at its sums, which tell of NaN."""
    if Above.of(0, src, -math.inf) is not None:
        extremes_of_rows(low, op, src, src, made, sorted(axes))
        return
    extremes_of_rows(low, op, src, _sums_that_tell_of_nan(low, src, made, axes), made, sorted(axes))


def _sums_that_tell_of_nan(low: Lowering, src: Buffer, made: Buffer, axes: set[int]) -> Buffer:
    """Sums in f32, of one element along the axes, as what was made."""
    if has_many_short_rows(src, axes):
        total = sum_within_rows(low, src, axes, DataType.f32, mean=False)
        if total is not None:
            return total
    total = low.layouts.temporary(made.desc.shape, DataType.f32)
    desc = low.chooser.describe(
        Reduction(
            algorithm=Algorithm.reduction_sum,
            src=src.desc,
            dst=total.desc,
            p=0.0,
            epsilon=0.0,
            attributes=low.chooser.attributes(),
        )
    )
    low.emitter.run("sums that tell of NaN", desc, [(Arg.SRC, src), (Arg.DST, total)])
    return total


ADDED = ("ReduceMean", "ReduceSum")
"""Kinds that a product with ones does."""
SUMS = ("ReduceL1", "ReduceL2", "ReduceMean", "ReduceSum")
"""Kinds that add up."""


def _long(low: Lowering, op: Op, src: Buffer, axes: set[int], links: Sequence[Link]) -> None:
    """A long sum, in stages of sums that are short.

    Raises:
        Unfit: of numbers that don't lie as it needs them, or with post-ops.
    """
    if links:
        raise Unfit("post-ops of a sum in stages")
    if op.kind == "ReduceSum" and _by_product(low, op, src, axes):
        return
    shape, strides, output = src.desc.shape, src.desc.strides, op.outputs[0]
    gone = [a for a in axes if shape[a] > 1]
    stay = [a for a in range(len(shape)) if a not in axes and shape[a] > 1]
    length = math.prod(shape[a] for a in gone)
    factors, rows = stages(length, LANES), math.prod(shape[a] for a in stay)
    packed = strides is not None and follow(gone, shape, strides, 1) and follow(stay, shape, strides, length)
    if factors is None or not packed:
        if src.desc.data_type is DataType.f32 and _is_pooled(op, shape, axes):
            _by_pooling(low, op, src, axes)
            return
        check_length(length)
        return
    algorithm, p = ALGORITHMS[op.kind]
    if op.kind == "ReduceL2":
        algorithm = Algorithm.reduction_norm_lp_power_p_sum
    made, count = src, rows * length
    for number, factor in enumerate(factors):
        last = number == len(factors) - 1
        count //= factor
        rooted = [PostOp(Algorithm.eltwise_sqrt)] if last and op.kind == "ReduceL2" else ()
        attributes = low.chooser.attributes(rooted)
        seen = low.layouts.view(made, (count, factor))
        made = low.layouts.temporary((count, 1), low.tensors.type_of(output) if last else DataType.f32)
        desc = low.chooser.describe(
            Reduction(
                algorithm=algorithm, src=seen.desc, dst=made.desc, p=p, epsilon=0.0, attributes=attributes
            )
        )
        low.emitter.run("reduction", desc, [(Arg.SRC, seen), (Arg.DST, made)])
        if op.kind != "ReduceMean":
            algorithm, p = Algorithm.reduction_sum, 0.0
    kept, lies = list[int](), list[int]()
    for axis, size in enumerate(shape):
        if axis not in axes or op.attributes.flag("keep_dims"):
            kept.append(1 if axis in axes else size)
            lies.append(strides[axis] // length if axis in stay and strides else rows)
    low.tensors.produce(output, low.layouts.view(made, kept or (1,), lies or (1,)))


def _by_product(low: Lowering, op: Op, src: Buffer, axes: set[int]) -> bool:
    """The sum of the rows of a matrix, or the sums or means of the numbers within each; says whether it is such."""
    made, data_type = None, low.tensors.type_of(op.outputs[0])
    if has_many_short_rows(src, axes):
        made = sum_within_rows(low, src, axes, data_type, mean=op.kind == "ReduceMean")
    elif op.kind == "ReduceSum":
        made = sum_of_rows(low, src, axes, data_type)
    if made is None:
        return False
    output, keep = op.outputs[0], op.attributes.flag("keep_dims")
    kept = [step for axis, step in enumerate(made.desc.strides or ()) if keep or axis not in axes]
    low.tensors.produce(
        output,
        low.layouts.view(made, output.dims or (1,), kept or (1,)),
    )
    return True


POOLED = {"ReduceMean": Algorithm.pooling_avg_include_padding}
"""Reductions that are a pooling with one window over all that is reduced: it has kernels for every layout.

The largest element is none of them: the pooling forgets a NaN.
"""


def _is_pooled(op: Op, shape: Sequence[int], axes: set[int]) -> bool:
    """Whether a pooling does the same, with the reduced axes as spatial ones."""
    return op.kind in POOLED and len(shape) - len(axes) == 2 and len(axes) <= MAX_SPATIAL_RANK


def _by_pooling(low: Lowering, op: Op, src: Buffer, axes: set[int]) -> None:
    """A pooling over the reduced axes as spatial ones, where two axes stay; one axis after the other for long sums.

    Raises:
        Unfit: an axis that is too long, or a layout that can't be looked at without the reduced axes.
    """
    data = without_gaps(low, op.inputs[0], low.tensors.images(src, _as_images(src, axes)))
    plain = low.chooser.attributes()
    if math.prod(data.desc.shape[2:]) > SHORT:
        check_length(max(data.desc.shape[2:]))
        for axis in reversed(range(3, len(data.desc.shape))):
            shape = data.desc.shape
            window = tuple(size if a == axis else 1 for a, size in enumerate(shape))[2:]
            left = low.layouts.any((*shape[:axis], 1, *shape[axis + 1 :]), data.desc.data_type)
            data = _mean(low, op, data, left, window, plain)
    wanted = low.layouts.any(_points(data), low.tensors.type_of(op.outputs[0]))
    _pooled(low, op, op.outputs[0], data, wanted, plain)


def _as_images(src: Buffer, axes: set[int]) -> tuple[int, ...]:
    """The axes with those that are reduced behind the others."""
    return (*(a for a in range(len(src.desc.shape)) if a not in axes), *sorted(axes))


def _points(images: Buffer) -> tuple[int, ...]:
    """The shape of what a pooling over whole images makes."""
    shape = images.desc.shape
    return (*shape[:2], *(1 for _ in shape[2:]))


def _pooled(
    low: Lowering,
    op: Op,
    result: LogicalTensor,
    data: Buffer,
    wanted: MemoryDesc,
    attributes: PrimitiveAttributes,
) -> None:
    """The pooling over whole images."""
    made = _mean(low, op, data, wanted, data.desc.shape[2:], attributes)
    dims = result.dims or (1,)
    lies = made.desc.strides
    strides = None if lies is None else reshaped_strides(_points(data), lies, dims)
    if strides is None:
        raise Unfit("a layout that can't be looked at without the reduced axes")
    low.tensors.produce(result, low.layouts.view(made, dims, strides))


def _mean(
    low: Lowering,
    op: Op,
    data: Buffer,
    wanted: MemoryDesc,
    window: tuple[int, ...],
    attributes: PrimitiveAttributes,
) -> Buffer:
    """The pooling by windows one beside the other."""
    zeros = (0,) * len(window)
    desc = low.chooser.describe(
        PoolingForward(
            propagation=Propagation.forward_inference,
            algorithm=POOLED[op.kind],
            src=data.desc,
            dst=wanted,
            strides=window,
            kernel=window,
            dilates=zeros,
            pads_begin=zeros,
            pads_end=zeros,
            attributes=attributes,
        )
    )
    made = Buffer(desc.memory_desc(Query.dst_md))
    low.emitter.run("pooling", desc, [(Arg.SRC, data), (Arg.DST, made)])
    return made


MOST_INTEGERS = 1 << 16
"""Elements of 8 bits whose sum a number in f32 holds exactly."""


def _mean_of_integers(low: Lowering, op: Op, links: Sequence[Link]) -> bool:
    """A pooling of integers over whole images, which are summed as they are and are rounded once; whether it is one."""
    found, quantize = low.tensors.quantized(op.inputs[0]), links[0].quantize
    if op.kind not in POOLED or found is None or quantize is None:
        return False
    linear = found.rescaling(quantize)
    if linear is None:
        return False
    shape, result = op.inputs[0].dims, links[0].result
    axes = {a % len(shape) for a in low.edges.sizes(op, 1, "axes")}
    spatial = 0 < len(axes) <= MAX_SPATIAL_RANK and len(shape) - len(axes) == 2
    if not spatial or result.data_type is not found.buffer.desc.data_type:
        return False
    if math.prod(shape[a] for a in axes) > MOST_INTEGERS:
        return False
    seen = low.tensors.images(found.buffer, _as_images(found.buffer, axes))
    if seen.desc != low.layouts.channels_last(seen.desc.shape, result.data_type):
        return False  # the library has no other kernel for them
    wanted = low.layouts.channels_last(_points(seen), result.data_type)
    scaled = PostOp(Algorithm.eltwise_linear, *linear)
    _pooled(low, op, result, seen, wanted, low.chooser.attributes([scaled]))
    return True


def why_not(op: Op) -> str | None:
    """What the library's reduction does not do."""
    if len(op.inputs) == 1 and not op.attributes.integers("axes"):
        return "nothing is reduced"
    return None


LOWERED = {kind: Lowered(reduce, why_not=why_not) for kind in ALGORITHMS}
