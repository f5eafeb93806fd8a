"""Lowering of the movement family."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_void_p

from ....graph.model.op import Op
from ....ops.movement import permutation
from ..library.enumerators import Arg
from ..plan.assembly import Unfit
from .fusing import Link
from .lowering import Lowered, Lowering


def concat(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """A concat primitive."""
    result = op.outputs[0]
    sources = [low.read(t) for t in op.inputs]
    attributes, _ = low.attributes((), result)
    axis = op.attributes.integer("axis") % len(result.dims)
    descs = (c_void_p * len(sources))(*[source.desc.handle for source in sources])
    desc = low.describe(
        "concat", low.engine, low.wanted(result), len(sources), axis,
        ctypes.cast(descs, ctypes.POINTER(c_void_p)), attributes,
    )  # fmt: skip
    arguments = [(Arg.MULTIPLE_SRC + number, source) for number, source in enumerate(sources)]
    low.single("concat", desc, arguments, result)


def reorder(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """The same memory: whoever reads the result, or the end, asks for a layout."""
    low.produce(op.outputs[0], low.read(op.inputs[0]))


def reshape(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """The same memory, in row-major order, under another shape."""
    whole = low.dense(op.inputs[0])
    shape = op.outputs[0].dims or (1,)
    low.produce(op.outputs[0], low.look(whole, low.temporary(shape, whole.desc.data_type).desc))


def transpose(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """The same memory with its axes in another order."""
    source = low.read(op.inputs[0])
    order = permutation(op.attributes, len(op.inputs[0].dims))
    if order is None or not order:
        raise Unfit("a tensor without axes")
    low.produce(op.outputs[0], low.ordered(source, order))


LOWERED = {
    "Concat": Lowered(concat),
    "Reorder": Lowered(reorder),
    "StaticReshape": Lowered(reshape),
    "StaticTranspose": Lowered(transpose),
}
