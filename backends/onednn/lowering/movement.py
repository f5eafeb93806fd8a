"""Lowering of the movement family."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_void_p

from ....graph.model.op import Op
from ..library.enumerators import Arg
from .fusing import Link
from .lowering import Lowered, Lowering
from .tensors import label_of
from .views import in_order, order_of


def concat(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """A concat primitive; what lies in another way than the largest part is brought into its order first."""
    result = op.outputs[0]
    sources = [low.read(t) for t in op.inputs]
    largest = max(sources, key=lambda one: one.desc.nbytes).desc
    if largest.strides is not None:
        order = order_of(largest.shape, largest.strides)
        sources = [
            low.bring(
                label_of(tensor),
                source,
                low.desc(source.desc.shape, in_order(source.desc.shape, order), source.desc.data_type),
            )
            for tensor, source in zip(op.inputs, sources, strict=True)
        ]
    attributes, _ = low.attributes((), result)
    axis = op.attributes.integer("axis") % len(result.dims)
    descs = (c_void_p * len(sources))(*[source.desc.handle for source in sources])
    desc = low.describe(
        "concat",
        low.engine,
        low.wanted(result),
        len(sources),
        axis,
        ctypes.cast(descs, ctypes.POINTER(c_void_p)),
        attributes,
    )
    arguments = [(Arg.MULTIPLE_SRC + number, source) for number, source in enumerate(sources)]
    low.single("concat", desc, arguments, result)


def reorder(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """The same memory: whoever reads the result, or the end, asks for a layout."""
    low.produce(op.outputs[0], low.read(op.inputs[0]))


def move(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """The same memory seen in another way, where strides can tell it."""
    del links
    low.move(op)


LOWERED = {
    "Concat": Lowered(concat),
    "Reorder": Lowered(reorder),
    "StaticReshape": Lowered(move),
    "StaticTranspose": Lowered(move),
}
