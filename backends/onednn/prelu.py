"""Lowering of the PReLU family."""

from __future__ import annotations

from collections.abc import Sequence

from ...graph.op import Op
from ...ops.prelu import slope_axis
from .enumerators import Arg, Propagation, Query
from .fusing import Link
from .lowering import Lowered, Lowering
from .plan import Buffer


def _slope(low: Lowering, op: Op) -> Buffer:
    dims, slope = op.inputs[0].dims, op.inputs[1]
    return low.aligned(slope, len(dims), slope_axis(op.attributes, dims, slope.dims))


def forward(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """A PReLU primitive."""
    src, slope = low.read(op.inputs[0]), _slope(low, op)
    attributes, _ = low.attributes((), op.outputs[0])
    desc = low.describe(
        "prelu_forward", low.engine, Propagation.forward_inference, src.desc, slope.desc,
        src.desc, attributes,
    )  # fmt: skip
    low.single("prelu", desc, [(Arg.SRC, src), (Arg.WEIGHTS, slope)], op.outputs[0])


def backward(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """A PReLU primitive for both gradients."""
    src, slope = low.dense(op.inputs[0]), _slope(low, op)
    diff_dst = low.bring("diff_dst", low.read(op.inputs[2]), src.desc)
    attributes, _ = low.attributes((), op.outputs[0])
    hint = low.describe(
        "prelu_forward", low.engine, Propagation.forward_training, src.desc, slope.desc,
        src.desc, attributes,
    )  # fmt: skip
    desc = low.describe(
        "prelu_backward", low.engine, src.desc, slope.desc, src.desc,
        slope.desc, diff_dst.desc, hint, attributes,
    )  # fmt: skip
    diff_src = Buffer(desc.memory_desc(Query.diff_src_md))
    diff_slope = Buffer(desc.memory_desc(Query.diff_weights_md))
    low.run(
        "prelu gradient",
        desc,
        [
            (Arg.SRC, src), (Arg.WEIGHTS, slope), (Arg.DIFF_DST, diff_dst), (Arg.DIFF_SRC, diff_src),
            (Arg.DIFF_WEIGHTS, diff_slope),
        ],
    )  # fmt: skip
    low.produce(op.outputs[0], diff_src)
    dims = op.outputs[1].dims or (1,)
    plain = low.bring(
        "diff_slope", diff_slope, low.temporary(diff_slope.desc.shape, diff_slope.desc.data_type).desc
    )
    low.produce(op.outputs[1], low.look(plain, low.temporary(dims, plain.desc.data_type).desc))


LOWERED = {"PReLU": Lowered(forward), "PReLUBackward": Lowered(backward)}
