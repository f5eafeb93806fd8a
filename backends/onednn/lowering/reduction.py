"""Lowering of the reduction family."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....graph.model.op import Op
from ....ops.data_types import DataType
from ..library.descriptors import PoolingForward, Reduction
from ..library.enumerators import Algorithm, Arg, Propagation, Query
from ..library.loading import MAX_SPATIAL_RANK
from ..library.primitive import PostOp
from ..plan.steps import Buffer
from ..plan.unfit import Unfit
from .extremes import extremes_of_rows
from .links import Link, result_of
from .long_sums import LANES, SHORT, check_length, stages
from .lowering import Lowered, Lowering
from .pooling import without_gaps
from .post_ops import OperandView, PostOps
from .sums_of_rows import follow, sum_of_rows
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
        if links or op.kind not in POOLED or len(shape) - len(axes) != 2 or len(axes) > MAX_SPATIAL_RANK:
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
    """Sums of what was reduced, which tell of NaN among it, and a look at both."""
    total = low.layouts.temporary(made.desc.shape, DataType.f32)
    attributes = low.chooser.attributes()
    algorithm = Algorithm.reduction_sum
    desc = low.chooser.describe(
        Reduction(
            algorithm=algorithm, src=src.desc, dst=total.desc, p=0.0, epsilon=0.0, attributes=attributes
        )
    )
    low.emitter.run("sums that tell of NaN", desc, [(Arg.SRC, src), (Arg.DST, total)])
    extremes_of_rows(low, op, src, total, made, sorted(axes))


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
    """The sum of the rows of a matrix, if it is one; says whether it is."""
    made = sum_of_rows(low, src, axes, low.tensors.type_of(op.outputs[0]))
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


def _by_pooling(low: Lowering, op: Op, src: Buffer, axes: set[int]) -> None:
    """A pooling over the reduced axes as spatial ones, where two axes stay."""
    shape, output = src.desc.shape, op.outputs[0]
    stay = [a for a in range(len(shape)) if a not in axes]
    order = (*stay, *sorted(axes))
    data = without_gaps(low, op.inputs[0], low.tensors.images(src, order))
    window = tuple(shape[a] for a in sorted(axes))
    ones, zeros = (1,) * len(axes), (0,) * len(axes)
    small = (*(shape[a] for a in stay), *ones)
    attributes = low.chooser.attributes()
    desc = low.chooser.describe(
        PoolingForward(
            propagation=Propagation.forward_inference,
            algorithm=POOLED[op.kind],
            src=data.desc,
            dst=low.layouts.any(small, low.tensors.type_of(output)),
            strides=ones,
            kernel=window,
            dilates=zeros,
            pads_begin=zeros,
            pads_end=zeros,
            attributes=attributes,
        )
    )
    made = Buffer(desc.memory_desc(Query.dst_md))
    low.emitter.run("pooling", desc, [(Arg.SRC, data), (Arg.DST, made)])
    strides = (
        None if made.desc.strides is None else reshaped_strides(small, made.desc.strides, output.dims or (1,))
    )
    if strides is None:
        raise Unfit("a layout that can't be looked at without the reduced axes")
    low.tensors.produce(output, low.layouts.view(made, output.dims or (1,), strides))


def why_not(op: Op) -> str | None:
    """What the library's reduction does not do."""
    if len(op.inputs) == 1 and not op.attributes.integers("axes"):
        return "nothing is reduced"
    return None


LOWERED = {kind: Lowered(reduce, why_not=why_not) for kind in ALGORITHMS}
