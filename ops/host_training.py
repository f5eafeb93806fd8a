"""The host family, continued: what training does with parameters once their gradients are known.

Each op makes the next value of a parameter and of the optimizer's state, and may do so in their memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from .attributes import NON_NEGATIVE, AttributeSpec, AttributeType
from .data_types import DataType
from .formulas import FormulaError, parsed
from .host import SOURCE
from .registry import HOST, REGISTRY
from .schema import InferenceContext, OpSchema, Port, Shape, format_shape
from .shared import FLOATS, flag, same

MOST_GRADIENTS = 1 << 16
"""Tensors of which one norm can be taken."""

_SCALAR = "one number, of shape []"


def _real(name: str, default: float, doc: str) -> AttributeSpec:
    return AttributeSpec(name, AttributeType.f32, default=default, rule=NON_NEGATIVE, doc=doc)


def _scalars(ctx: InferenceContext, names: Sequence[str], shapes: Sequence[Shape]) -> None:
    for name, shape in zip(names, shapes, strict=True):
        if shape not in (None, ()):
            raise ctx.error(f"'{name}' must be {_SCALAR}, got {format_shape(shape)}")


def _like_parameter(
    ctx: InferenceContext, numbers: Sequence[str], states: Sequence[str]
) -> tuple[Shape, ...]:
    """The shapes of the parameter and the states: inputs are parameter, gradient, numbers, states."""
    shape = same(ctx, ctx.inputs[0], ctx.inputs[1], ("parameter", "gradient"))
    first = 2 + len(numbers)
    _scalars(ctx, numbers, ctx.inputs[2:first])
    for name, state in zip(states, ctx.inputs[first:], strict=False):
        shape = same(ctx, shape, state, ("parameter", name))
    return (shape,) * len(ctx.outputs)


def _sgd(ctx: InferenceContext) -> tuple[Shape, ...]:
    if len(ctx.inputs) - 4 != len(ctx.outputs) - 1:
        raise ctx.error("'velocity' must be given where 'next_velocity' is made, and only there")
    return _like_parameter(ctx, ("rate", "scale"), ("velocity",))


_PARAMETER = Port("parameter", "T", doc="Any shape.")
_GRADIENT = Port("gradient", "T", doc="The shape of parameter.")
_RATE = Port("rate", "T_rate", doc=f"The learning rate, {_SCALAR}.")
_SCALE = Port("scale", "T_scale", doc="Factor of the gradient, of shape []. 0 leaves everything as it is.")
_NEXT = Port("next_parameter", "T", doc="The shape of parameter.")
_TYPES = {"T": (DataType.f32,), "T_rate": (DataType.f64,), "T_scale": (DataType.f64,)}
_DECAY = _real("weight_decay", 0.0, "Share of the parameter that is added to the gradient.")
_CLIP = _real("clip_value", 0.0, "Largest absolute value that is left of scale · gradient; 0 for any.")

REGISTRY.register(
    OpSchema(
        kind="HostSGD",
        summary="A step of stochastic gradient descent, with momentum where a velocity is given.",
        formula="g = clip(scale · gradient) + weight_decay · parameter; next_velocity = momentum · velocity + g; "
        "step = g + momentum · next_velocity if nesterov, else next_velocity; "
        "next_parameter = parameter − rate · step",
        inputs=(
            _PARAMETER,
            _GRADIENT,
            _RATE,
            _SCALE,
            Port("velocity", "T", required=False, doc="The shape of parameter. The step is g without it."),
        ),
        outputs=(_NEXT, Port("next_velocity", "T", required=False, doc="The shape of parameter.")),
        attributes=(
            _real("momentum", 0.0, "Share of the velocity that stays."),
            flag("nesterov", False, "Whether the step looks one step ahead."),
            _DECAY,
            _CLIP,
        ),
        types=_TYPES,
        infer_shapes=_sgd,
        source=SOURCE,
        family=HOST,
        in_place={"next_parameter": "parameter", "next_velocity": "velocity"},
    )
)


_STATES = ("first", "second", "third")


def _update(ctx: InferenceContext) -> tuple[Shape, ...]:
    states = _STATES[: len(ctx.inputs) - 5]
    if len(ctx.outputs) != 1 + len(states):
        raise ctx.error(f"it must have {1 + len(states)} outputs, one for each of parameter and states")
    try:
        formula = parsed(ctx.attributes.string("formula"), states)
    except FormulaError as error:
        raise ctx.error(f"attribute 'formula': {error}") from None
    if ctx.attributes.flag("trust_ratio") and not formula.again:
        raise ctx.error(
            "attribute 'formula': with trust_ratio 'update' must be made of what the states are behind the formula"
        )
    return _like_parameter(ctx, ("rate", "scale", "step"), states)


REGISTRY.register(
    OpSchema(
        kind="HostUpdate",
        summary="A step of an optimizer that is said as a formula, elementwise.",
        formula="the formula makes `update` and the states of what they were before; "
        "next_parameter = parameter − rate · r · update; r = ‖parameter‖ / ‖update‖ with trust_ratio where neither "
        "is 0, else 1",
        inputs=(
            _PARAMETER,
            _GRADIENT,
            _RATE,
            _SCALE,
            Port("step", "T_step", doc="Number of the step, from 1 on, of shape []."),
            *(Port(name, "T", required=False, doc="A state, of the shape of parameter.") for name in _STATES),
        ),
        outputs=(
            _NEXT,
            *(Port(f"next_{name}", "T", required=False, doc="The shape of parameter.") for name in _STATES),
        ),
        attributes=(
            AttributeSpec(
                "formula",
                AttributeType.string,
                required=True,
                doc="Assignments, with a semicolon between them, of `first`, `second` and `third`, names of its own, "
                "and `update`, by + - * /, squares as x ** 2, sqrt, abs, sign, clip, maximum and minimum, of these, "
                "`parameter`, `gradient` and the numbers `rate`, `scale` and `step`.",
            ),
            flag(
                "trust_ratio",
                False,
                "Whether the step is as long as the parameter, times the rate, as in LAMB.",
            ),
        ),
        types={**_TYPES, "T_step": (DataType.s64,)},
        infer_shapes=_update,
        source=SOURCE,
        family=HOST,
        in_place={"next_parameter": "parameter"} | {f"next_{name}": name for name in _STATES},
    )
)


def _adam(ctx: InferenceContext) -> tuple[Shape, ...]:
    return _like_parameter(ctx, ("rate", "scale", "step"), ("mean", "square"))


REGISTRY.register(
    OpSchema(
        kind="HostAdam",
        summary="A step of Adam, or of AdamW where the decay of the weights is decoupled.",
        formula="g = clip(scale · gradient) + weight_decay · parameter, without the latter if decoupled; "
        "m = beta1 · mean + (1 − beta1) · g; v = beta2 · square + (1 − beta2) · g²; "
        "p = (1 − rate · weight_decay) · parameter if decoupled, else parameter; "
        "next_parameter = p − rate · (m / (1 − beta1^step)) / (√(v / (1 − beta2^step)) + epsilon)",
        inputs=(
            _PARAMETER,
            _GRADIENT,
            _RATE,
            _SCALE,
            Port("step", "T_step", doc="Number of the step, from 1 on, of shape []."),
            Port("mean", "T", doc="The shape of parameter."),
            Port("square", "T", doc="The shape of parameter."),
        ),
        outputs=(
            _NEXT,
            Port("next_mean", "T", doc="m, of the shape of parameter."),
            Port("next_square", "T", doc="v, of the shape of parameter."),
        ),
        attributes=(
            _real("beta1", 0.9, "Share of the mean that stays."),
            _real("beta2", 0.999, "Share of the mean square that stays."),
            _real("epsilon", 1e-8, "Added to the root."),
            _DECAY,
            _CLIP,
            flag("decoupled", False, "Whether the decay bypasses the means, as in AdamW."),
        ),
        types={**_TYPES, "T_step": (DataType.s64,)},
        infer_shapes=_adam,
        source=SOURCE,
        family=HOST,
        in_place={"next_parameter": "parameter", "next_mean": "mean", "next_square": "square"},
    )
)

REGISTRY.register(
    OpSchema(
        kind="HostGradientScale",
        summary="The norm of all gradients together, and what they are multiplied by so that it is not too large.",
        formula="norm = √(Σ gradients²); scale = 0 if norm is not finite and guard, else min(1, max_norm / norm); "
        "1 where max_norm is 0",
        inputs=(Port("gradients", "any", repeat=MOST_GRADIENTS, doc="Tensors of any shapes."),),
        outputs=(
            Port("scale", "T_scale", doc="One number, of shape []."),
            Port("norm", "T_scale", doc="One number, of shape []."),
        ),
        attributes=(
            _real("max_norm", 0.0, "Norm from which gradients are scaled down; 0 for none."),
            flag("guard", True, "Whether a norm that is not finite gives the scale 0."),
        ),
        types={"any": FLOATS, "T_scale": (DataType.f64,)},
        infer_shapes=lambda ctx: ((), ()),
        source=SOURCE,
        family=HOST,
    )
)
