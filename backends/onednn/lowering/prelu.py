"""Lowering of the PReLU family."""

from __future__ import annotations

from collections.abc import Sequence

from ....graph.model.op import Op
from ....ops.prelu import slope_axis
from ..library.descriptors import PreluBackward, PreluForward
from ..library.enumerators import Arg, Propagation
from ..plan.steps import Buffer
from .common_axes import CommonAxes, common_axes
from .links import Link
from .lowering import Lowered, Lowering


def _operands(low: Lowering, op: Op, whole: Buffer) -> tuple[CommonAxes, Buffer, Buffer]:
    """The view of the primitive, data, and slopes as it sees them."""
    axis = slope_axis(op.attributes, op.inputs[0].dims, op.inputs[1].dims)
    if whole.desc.strides is None:  # slopes per channel would have to be blocked too
        whole = low.tensors.plain(op.inputs[0])
    view = common_axes(low.layouts, whole, [(op.inputs[1], axis)])
    return (
        view,
        view.see(whole),
        view.see(low.tensors.beside(op.inputs[1], whole, axis)),
    )


def forward(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """A PReLU primitive."""
    view, src, slope = _operands(low, op, low.tensors.elementwise(op.inputs[0]))
    made = view.like_first(src.desc.data_type)
    dst = view.see(made)
    attributes = low.chooser.attributes()
    desc = low.chooser.describe(
        PreluForward(
            propagation=Propagation.forward_inference,
            src=src.desc,
            weights=slope.desc,
            dst=dst.desc,
            attributes=attributes,
        )
    )
    low.emitter.run("prelu", desc, [(Arg.SRC, src), (Arg.WEIGHTS, slope), (Arg.DST, dst)])
    low.tensors.produce(op.outputs[0], made)


def backward(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """A PReLU primitive for both gradients, in rows, as the gradient of the slopes lies."""
    view, src, slope = _operands(low, op, low.tensors.dense(op.inputs[0]))
    diff_dst = view.see(low.tensors.beside(op.inputs[2], view.first))
    made = view.like_first(src.desc.data_type)
    diff_src = view.see(made)
    attributes = low.chooser.attributes()
    hint = low.chooser.describe(
        PreluForward(
            propagation=Propagation.forward_training,
            src=src.desc,
            weights=slope.desc,
            dst=src.desc,
            attributes=attributes,
        )
    )
    desc = low.chooser.describe(
        PreluBackward(
            src=src.desc,
            weights=slope.desc,
            diff_src=diff_src.desc,
            diff_weights=slope.desc,
            diff_dst=diff_dst.desc,
            hint=hint,
            attributes=attributes,
        )
    )
    full = op.inputs[1].dims == op.inputs[0].dims
    slopes = (
        view.like_first(slope.desc.data_type)
        if full
        else low.layouts.temporary(op.inputs[1].dims or (1,), slope.desc.data_type)
    )
    diff_slope = low.layouts.look(slopes, slope.desc)
    low.emitter.run(
        "prelu gradient",
        desc,
        [
            (Arg.SRC, src),
            (Arg.WEIGHTS, slope),
            (Arg.DIFF_DST, diff_dst),
            (Arg.DIFF_SRC, diff_src),
            (Arg.DIFF_WEIGHTS, diff_slope),
        ],
    )
    low.tensors.produce(op.outputs[0], made)
    low.tensors.produce(op.outputs[1], slopes)


LOWERED = {"PReLU": Lowered(forward), "PReLUBackward": Lowered(backward)}
