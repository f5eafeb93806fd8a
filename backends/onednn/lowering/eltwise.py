"""Lowering of the eltwise family."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ....graph.model.op import Op
from ....ops.attributes import Attributes
from ..library.descriptors import EltwiseBackward, EltwiseForward
from ..library.enumerators import Algorithm, Arg, Propagation
from . import integers
from .common_axes import common_axes
from .links import ELTWISE, Link, result_of
from .lowering import Lowered, Lowering
from .post_ops import ElementwiseView, PostOps


def forward(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """An eltwise primitive; a sigmoid that its argument alone is multiplied with becomes one with it."""
    result = result_of(op, links)
    algorithm, alpha, beta = ELTWISE[op.kind](op.attributes)
    found = low.tensors.quantized(op.inputs[0])
    gated = None if found is not None or links else _gated(low, op)
    if gated is not None:
        result, algorithm, alpha = gated.outputs[0], Algorithm.eltwise_swish, 1.0
        low.notes.absorb(op, gated)
    if found is not None:
        applied = Link(ops=(), result=op.outputs[0], algorithm=algorithm, alpha=alpha, beta=beta)
        integers.function(low, op, links, found, applied)
        return
    whole = low.tensors.elementwise(op.inputs[0])
    view = common_axes(low.layouts, whole, (), links)
    # Links of a blocked tensor are conversions alone, which are left to whoever reads the result.
    data_type = low.tensors.type_of(result) if view.axes is not None else whole.desc.data_type
    src, made = view.see(whole), view.like_first(data_type)
    dst = view.see(made)
    post_ops = PostOps(low, ElementwiseView.of(op.outputs[0], view), scales_result=False)
    post_ops.add_links(links)
    desc = low.chooser.describe(
        EltwiseForward(
            propagation=Propagation.forward_inference,
            algorithm=algorithm,
            src=src.desc,
            dst=dst.desc,
            alpha=alpha,
            beta=beta,
            attributes=post_ops.attributes(),
        )
    )
    low.emitter.run("eltwise", desc, [(Arg.SRC, src), *post_ops.arguments, (Arg.DST, dst)])
    low.tensors.produce(result, made)


def _gated(low: Lowering, op: Op) -> Op | None:
    """The product of a sigmoid and what it is of, where nobody else reads the sigmoid."""
    gate, users = op.outputs[0], low.edges.users(op.outputs[0])
    if op.kind != "Sigmoid" or low.edges.is_port(gate) or len(users) != 1 or users[0].id in low.notes.done:
        return None
    (product,) = users
    alike = product.outputs[0].data_type is gate.data_type
    both = {tensor.id for tensor in product.inputs} == {gate.id, op.inputs[0].id}
    return product if product.kind == "Multiply" and both and alike else None


BACKWARD: Mapping[str, Callable[[Attributes], tuple[Algorithm, Algorithm | None, float, float]]] = {
    "AbsBackward": lambda a: (Algorithm.eltwise_abs, None, 0, 0),
    "ClampBackward": lambda a: (
        Algorithm.eltwise_clip_v2,
        Algorithm.eltwise_clip_v2_use_dst_for_bwd,
        a.real("min"),
        a.real("max"),
    ),
    "EluBackward": lambda a: (
        Algorithm.eltwise_elu,
        Algorithm.eltwise_elu_use_dst_for_bwd,
        a.real("alpha"),
        0,
    ),
    "GELUBackward": lambda a: (
        Algorithm.eltwise_gelu_erf if a.string("mode") == "gelu_erf" else Algorithm.eltwise_gelu_tanh,
        None,
        0,
        0,
    ),
    "HardSigmoidBackward": lambda a: (Algorithm.eltwise_hardsigmoid, None, a.real("alpha"), a.real("beta")),
    "HardSwishBackward": lambda a: (Algorithm.eltwise_hardswish, None, 1 / 6, 0.5),
    "MishBackward": lambda a: (Algorithm.eltwise_mish, None, 0, 0),
    "ReLUBackward": lambda a: (Algorithm.eltwise_relu, Algorithm.eltwise_relu_use_dst_for_bwd, 0, 0),
    "SigmoidBackward": lambda a: (
        Algorithm.eltwise_logistic,
        Algorithm.eltwise_logistic_use_dst_for_bwd,
        0,
        0,
    ),
    "SoftPlusBackward": lambda a: (Algorithm.eltwise_soft_relu, None, a.real("beta"), 0),
    "SqrtBackward": lambda a: (Algorithm.eltwise_sqrt, Algorithm.eltwise_sqrt_use_dst_for_bwd, 0, 0),
    "SwishBackward": lambda a: (Algorithm.eltwise_swish, None, 1, 0),
    "TanhBackward": lambda a: (Algorithm.eltwise_tanh, Algorithm.eltwise_tanh_use_dst_for_bwd, 0, 0),
}
"""Kind → algorithm from the input, algorithm from the output, alpha and beta."""


def backward(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """An eltwise primitive for the gradient."""
    by_src, by_dst, alpha, beta = BACKWARD[op.kind](op.attributes)
    use_dst = by_dst is not None and op.attributes.flag("use_dst")
    whole = low.tensors.elementwise(op.inputs[0])
    view = common_axes(low.layouts, whole, [(op.inputs[1], None)])
    data, diff_dst = (
        view.see(whole),
        view.see(low.tensors.beside(op.inputs[1], whole)),
    )
    made = view.like_first(whole.desc.data_type)
    diff_src = view.see(made)
    attributes = low.chooser.attributes()
    algorithm = by_dst if use_dst and by_dst is not None else by_src
    hint = low.chooser.describe(
        EltwiseForward(
            propagation=Propagation.forward_training,
            algorithm=by_src,
            src=data.desc,
            dst=data.desc,
            alpha=alpha,
            beta=beta,
            attributes=attributes,
        )
    )
    desc = low.chooser.describe(
        EltwiseBackward(
            algorithm=algorithm,
            diff_src=diff_src.desc,
            diff_dst=diff_dst.desc,
            data=data.desc,
            alpha=alpha,
            beta=beta,
            hint=hint,
            attributes=attributes,
        )
    )
    arguments = [(Arg.DST if use_dst else Arg.SRC, data), (Arg.DIFF_DST, diff_dst), (Arg.DIFF_SRC, diff_src)]
    low.emitter.run("eltwise gradient", desc, arguments)
    low.tensors.produce(op.outputs[0], made)


LOWERED = {
    **{kind: Lowered(forward) for kind in ELTWISE},
    **{kind: Lowered(backward) for kind in BACKWARD if kind != "ReLUBackward"},  # see batch_normalization.py
}
