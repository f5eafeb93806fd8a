"""The binary primitive: for binary ops, and for elementwise ops on integers."""

from __future__ import annotations

from collections.abc import Sequence

from ....graph.model.logical_tensor import LogicalTensor
from ....graph.model.op import Op
from ..library.descriptors import Binary
from ..library.enumerators import Algorithm, Arg
from ..plan.steps import Buffer
from .common_axes import common_axes
from .links import Link, result_of
from .lowering import Lowering
from .post_ops import ElementwiseView, PostOps


def binary_primitive(
    low: Lowering,
    op: Op,
    links: Sequence[Link],
    algorithm: Algorithm,
    operands: tuple[Buffer, Buffer],
    second: tuple[LogicalTensor, int | None],
    scales: Sequence[float] = (),
) -> None:
    """A step that makes the op's result, with what `links` say done to it.

    Args:
        links: the op's post-ops, and those that it takes along.
        operands: the one that has all elements, and one that broadcasts to it.
        second: the second operand as a tensor, and where it stands if it is a vector.
        scales: of the operands, one each from the first on.
    """
    result = result_of(op, links)
    view = common_axes(low.layouts, operands[0], [second], links)
    seen = [view.see(operand) for operand in operands]
    post_ops = PostOps(low, ElementwiseView.of(op.outputs[0], view), scales_result=False)
    for place, scale in zip((Arg.SRC, Arg.SRC_1), scales, strict=False):
        post_ops.add_scales(place, (scale,))
    post_ops.add_links(links)
    made = view.like_first(low.tensors.type_of(result))
    target = view.see(made).desc
    desc = low.chooser.describe(
        Binary(
            algorithm=algorithm,
            src_0=seen[0].desc,
            src_1=seen[1].desc,
            dst=target,
            attributes=post_ops.attributes(),
        )
    )
    made = view.chosen(made, desc)
    arguments = [(Arg.SRC, seen[0]), (Arg.SRC_1, seen[1]), *post_ops.arguments]
    low.emitter.run("binary", desc, [*arguments, (Arg.DST, view.see(made))])
    low.tensors.produce(result, made)
