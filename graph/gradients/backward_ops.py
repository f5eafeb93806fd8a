"""The rule of ops that have gradient ops in the set: their schemas say what goes where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...ops.registry import REGISTRY
from ...ops.schema import BackwardOp, OpSchema, counts_allowed
from ..model.logical_tensor import LogicalTensor
from .arithmetic import sizes
from .context import GradientContext
from .rules import Made


def by_backward_ops(
    ctx: GradientContext, *, in_place_of_shapes: Mapping[str, Mapping[str, object]] | None = None
) -> Iterator[Made]:
    """The gradients that the gradient ops in `schema.backward` compute.

    Args:
        ctx: the op.
        in_place_of_shapes: kind of a gradient op → attributes that say what its `shapes` would, where sizes are not
            known.
    """
    others = in_place_of_shapes or {}
    for backward in ctx.op.schema.backward:
        wanted = [place for place, port in enumerate(backward.outputs) if ctx.wants(port)]
        if wanted:
            yield from _added(ctx, backward, wanted, others.get(backward.kind))


def _added(
    ctx: GradientContext, backward: BackwardOp, wanted: list[int], others: Mapping[str, object] | None
) -> Iterator[Made]:
    schema, _ = REGISTRY.resolve(backward.kind)
    found = [_tensor(ctx, name) for name in backward.inputs]
    inputs = [tensor for tensor in found if tensor is not None]
    made = ctx.make.ops(
        backward.kind,
        inputs,
        _handed(ctx, backward, schema) | dict(_shapes(ctx, backward) if others is None else others),
        outputs=min(n for n in counts_allowed(schema.outputs, schema.output_counts) if n > wanted[-1]),
        wanted=ctx.shape_of(backward.outputs[0]).data_type,
    )
    yield from ((backward.outputs[place], made[place]) for place in wanted)


def _tensor(ctx: GradientContext, name: str) -> LogicalTensor | None:
    """What an input of the gradient op is; None for an optional port that is not connected."""
    schema = ctx.op.schema
    if any(port.name == name for port in schema.inputs):
        return ctx.input(name) if ctx.has_input(name) else None
    if any(port.name == name for port in schema.outputs):
        return ctx.output(name)
    return ctx.gradient  # of the first output, the only one that such an op has a gradient of


def _handed(ctx: GradientContext, backward: BackwardOp, schema: OpSchema) -> dict[str, object]:
    names = {spec.name for spec in schema.attributes}
    handed = {name: value for name, value in ctx.op.attributes.items() if name in names}
    return {**handed, **backward.attributes}


def _shapes(ctx: GradientContext, backward: BackwardOp) -> dict[str, object]:
    return {name: list(sizes(ctx.shape_of(port))) for name, port in backward.shapes.items()}
