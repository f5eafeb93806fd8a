"""Lowering of the movement family."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

from ....graph.model.op import Op
from ..library.descriptors import Concat
from ..library.enumerators import Arg, Query
from ..library.memory import MemoryDesc
from ..plan.steps import Buffer, Step
from ..plan.unfit import Unfit
from .integers import rescaled
from .links import Link, result_of
from .lowering import Lowered, Lowering
from .tensors import label_of
from .views import in_order, order_of

SHORT_RUN = 32
"""Elements that lie together, of which the library's concat moves fewer one by one: a copy of each part is up to three
times as fast, which takes blocks of several runs. From 36 channels on it is slower.
"""


def concat(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """A concat primitive; what lies in another order than the largest part is brought into it first."""
    result = result_of(op, links)
    sources = _integers(low, op, links[0]) if links else [low.tensors.read(t) for t in op.inputs]
    largest = max(sources, key=lambda one: one.desc.nbytes).desc
    if largest.strides is not None:
        order = order_of(largest.shape, largest.strides)
        sources = [
            source
            if _lies_in(source, order)
            else low.emitter.bring(
                label_of(tensor),
                source,
                low.layouts.desc(
                    source.desc.shape, in_order(source.desc.shape, order), source.desc.data_type
                ),
            )
            for tensor, source in zip(op.inputs, sources, strict=True)
        ]
    attributes = low.chooser.attributes()
    axis = op.attributes.integer("axis") % len(result.dims)
    desc = low.chooser.describe(
        Concat(
            dst=low.tensors.wanted(result),
            axis=axis,
            sources=[source.desc for source in sources],
            attributes=attributes,
        )
    )
    made = Buffer(desc.memory_desc(Query.dst_md).canonical())
    copies = _copies(low, sources, made, axis)
    if copies:
        low.emitter.steps.extend(copies)
        low.tensors.produce(result, made)
        return
    arguments = [(Arg.MULTIPLE_SRC + number, source) for number, source in enumerate(sources)]
    low.single("concat", desc, arguments, result)


def _copies(low: Lowering, sources: Sequence[Buffer], made: Buffer, axis: int) -> list[Step]:
    """Steps that copy the parts to where they belong; none where the library's concat is as fast."""
    lies = made.desc
    if lies.strides is None or _run(sources, lies, axis) >= SHORT_RUN:
        return []
    steps: list[Step] = []
    places = accumulate([source.desc.shape[axis] for source in sources], initial=0)
    for source, place in zip(sources, places, strict=False):
        part = low.layouts.desc(source.desc.shape, lies.strides, lies.data_type)
        desc = low.chooser.reorder(source.desc, part).desc
        if desc is None or not desc.implementation.startswith("jit"):
            return []
        offset = place * lies.strides[axis] * lies.itemsize
        target = Buffer(part, base=made, offset=offset)
        steps.append(Step("concat", desc, ((Arg.SRC, source), (Arg.DST, target))))
    return steps


def _run(sources: Sequence[Buffer], lies: MemoryDesc, axis: int) -> int:
    """How many elements of the largest part lie together in the result, if that is not all of it."""
    strides = lies.strides or ()
    inside = [a for a, step in enumerate(strides) if step <= strides[axis]]
    largest = max(sources, key=lambda one: one.desc.nbytes).desc
    run = math.prod(largest.shape[a] for a in inside)
    return run if run < math.prod(largest.shape) else SHORT_RUN


def _lies_in(source: Buffer, order: Sequence[int]) -> bool:
    """Whether its axes lie in this order, with neighbours along the innermost one; gaps between rows don't matter."""
    shape, strides = source.desc.shape, source.desc.strides
    if strides is None or tuple(order_of(shape, strides)) != tuple(order):
        return False
    return min((s for s, d in zip(strides, shape, strict=True) if d > 1), default=1) == 1


def reorder(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """The same memory: whoever reads the result, or the end, asks for a layout."""
    low.tensors.produce(op.outputs[0], low.tensors.read(op.inputs[0]))


def _integers(low: Lowering, op: Op, link: Link) -> list[Buffer]:
    """The parts as they were before they were dequantised, in the scale and zero point of the result.

    Raises:
        Unfit: a part that was not, or that has a scale per channel.
    """
    quantize = link.quantize
    found = [low.tensors.quantized(tensor) for tensor in op.inputs]
    if quantize is None or any(one is None or len(one.scales) > 1 for one in found):
        raise Unfit("not all parts are integers of one scale")
    return [
        rescaled(low, label_of(tensor), one, quantize, link.result.data_type)
        for tensor, one in zip(op.inputs, found, strict=True)
        if one is not None
    ]


def move(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """The same memory seen in another way, where strides can tell it."""
    del links
    low.tensors.move(op)


def slice_why_not(op: Op) -> str | None:
    """Why a slice is no view, or None."""
    if min(op.attributes.integers("steps"), default=1) < 0:
        return "the library has no negative strides"
    return None


LOWERED = {
    "Concat": Lowered(concat),
    "Reorder": Lowered(reorder),
    "HostStopGradient": Lowered(reorder),
    "HostSlice": Lowered(move, why_not=slice_why_not),
    "StaticReshape": Lowered(move),
    "StaticTranspose": Lowered(move),
}
