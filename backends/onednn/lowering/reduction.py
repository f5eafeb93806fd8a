"""Lowering of the reduction family."""

from __future__ import annotations

from collections.abc import Sequence

from ....graph.model.op import Op
from ..library.enumerators import Algorithm, Arg
from ..plan.assembly import Unfit
from .fusing import Link, result_of
from .lowering import Lowered, Lowering

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


def reduce(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """A reduction primitive; its result keeps the reduced axes, and is looked at without them."""
    src = low.read(op.inputs[0])
    shape, output = src.desc.shape, op.outputs[0]
    keep = op.attributes.flag("keep_dims")
    axes = {a % len(shape) for a in low.sizes(op, 1, "axes")}
    kept = tuple(1 if a in axes else d for a, d in enumerate(shape))
    if kept == shape:
        raise Unfit("nothing is reduced")
    if links and not keep:
        raise Unfit("post-ops need the axes that are dropped")
    result = result_of(op, links)
    attributes, more = low.attributes(links, output)
    algorithm, p = ALGORITHMS[op.kind]
    target = low.wanted(result, None, links) if keep else low.temporary(kept, low.type_of(result)).desc
    desc = low.describe("reduction", low.engine, algorithm, src.desc, target, p, 0.0, attributes)
    low.single("reduction", desc, [(Arg.SRC, src), *more], result)
    if not keep:
        whole = low.read(result)
        dims = output.dims or (1,)
        low.produce(result, low.look(whole, low.temporary(dims, whole.desc.data_type).desc))


def why_not(op: Op) -> str | None:
    """What the library's reduction does not do."""
    if len(op.inputs) == 1 and not op.attributes.integers("axes"):
        return "nothing is reduced"
    return None


LOWERED = {kind: Lowered(reduce, fuses=True, why_not=why_not) for kind in ALGORITHMS}
