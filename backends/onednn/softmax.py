"""Lowering of the softmax family."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...graph.arrays import Array
from ...graph.op import Op
from .assembly import Unfit
from .enumerators import Algorithm, Arg, Propagation, Query
from .fusing import Link
from .lowering import Lowered, Lowering
from .plan import Buffer, HostArray, HostStep


def _algorithm(op: Op) -> Algorithm:
    return Algorithm.softmax_log if op.kind.startswith("Log") else Algorithm.softmax_accurate


def forward(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """A softmax primitive, without statistics."""
    reason = why_not(op)
    if reason is not None:
        raise Unfit(reason)
    src = low.read(op.inputs[0])
    result = op.outputs[0]
    attributes, _ = low.attributes((), result)
    axis = op.attributes.integer("axis") % len(src.desc.shape)
    desc = low.describe(
        "softmax_forward", low.engine, Propagation.forward_inference, _algorithm(op), src.desc,
        low.wanted(result), axis, attributes,
    )  # fmt: skip
    low.single("softmax", desc, [(Arg.SRC, src)], result)
    if op.attributes.get("mode") == "inf_as_zero":
        _empty_rows(low, src, low.read(result), axis)


def _empty_rows(low: Lowering, src: Buffer, dst: Buffer, axis: int) -> None:
    """Zeros for the NaN that the library gives where all of an axis is -inf: a look at one element of each."""
    arrays = [HostArray.of(buffer) for buffer in (src, dst)]
    if None in arrays:
        raise Unfit("a blocked layout")

    def run(inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        first = outputs[0].take(0, axis)
        if np.isnan(first).any():
            empty: Array = np.isneginf(inputs[0].max(axis=axis, keepdims=True))
            np.copyto(outputs[0], 0, where=empty)

    low.steps.append(
        HostStep("rows of -inf", run, ((0, src), (1, dst)), tuple(a for a in arrays if a is not None), 1)
    )


def backward(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """A softmax primitive for the gradient."""
    dst = low.read(op.inputs[1])
    diff_dst = low.bring("diff_dst", low.read(op.inputs[0]), dst.desc)
    result = op.outputs[0]
    attributes, _ = low.attributes((), result)
    axis = op.attributes.integer("axis") % len(dst.desc.shape)
    hint = low.describe(
        "softmax_forward", low.engine, Propagation.forward_training, _algorithm(op), dst.desc,
        dst.desc, axis, attributes,
    )  # fmt: skip
    desc = low.describe(
        "softmax_backward", low.engine, _algorithm(op), low.wanted(result), diff_dst.desc,
        dst.desc, axis, hint, attributes,
    )  # fmt: skip
    arguments = [(Arg.DST, dst), (Arg.DIFF_DST, diff_dst)]
    low.single("softmax gradient", desc, arguments, result, output=Arg.DIFF_SRC, query=Query.diff_src_md)


def why_not(op: Op) -> str | None:
    """What the library's softmax does not have."""
    if len(op.outputs) > 1:
        return "oneDNN's softmax has no output of statistics"
    return None


LOWERED = {
    "SoftMax": Lowered(forward, why_not=why_not),
    "LogSoftmax": Lowered(forward),
    "SoftMaxBackward": Lowered(backward),
    "LogSoftmaxBackward": Lowered(backward),
}
