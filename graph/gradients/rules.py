"""The table of rules: kind → what makes the gradients, or why there are none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum

from ...ops.errors import SchemaError
from ...ops.records import frozen
from ...ops.registry import REGISTRY
from ...ops.schema import CUSTOM, OpSchema
from ...ops.values import format_value
from ..model.logical_tensor import LogicalTensor
from .context import GradientContext

Made = tuple[str | int, LogicalTensor | None]
"""An input, by the name of its port or by position, and the gradient by it; None where that is zero."""
GradientRule = Callable[[GradientContext], Iterable[Made]]
"""From an op with the gradients of its outputs to the gradients by the inputs that are wanted."""


@frozen
class KindRule:
    """A rule and what it takes.

    Attributes:
        function: yields the gradients.
        spread: the gradient of the output may come with one element along an axis whose elements are all equal, and
            what the rule yields may too.
        every_output: the rule heeds the gradients of all outputs; with others, only the first one can have one.
    """

    function: GradientRule
    spread: bool = False
    every_output: bool = False


class Flow(StrEnum):
    """What becomes of a gradient at an op."""

    rule = "rule"
    stops = "stops"
    none = "none"


RULES: dict[str, KindRule] = {}
"""Kind → its rule; `schema.backward` is the rule of kinds that are not in here."""
STOPS: set[str] = set()
"""Kinds whose outputs do not change with their inputs but by steps: the gradient is zero, and nothing flows."""
STOPPED_PORTS: dict[str, frozenset[str]] = {}
"""Kind → inputs and outputs of which the same is true, or that are read for their shape alone."""
NOT_DIFFERENTIABLE: dict[str, str] = {}
"""Kind → why a gradient through it is an error."""


def rule(
    *kinds: str, spread: bool = False, every_output: bool = False
) -> Callable[[GradientRule], GradientRule]:
    """Decorator: makes a function the rule of these kinds."""

    def register(function: GradientRule) -> GradientRule:
        for kind in kinds:
            RULES[kind] = KindRule(function, spread, every_output)
        return function

    return register


def flow_of(schema: OpSchema) -> Flow | None:
    """What becomes of a gradient at an op of this kind; None where nobody has said."""
    if schema.kind in RULES or schema.backward:
        return Flow.rule
    if schema.kind in STOPS:
        return Flow.stops
    return Flow.none if schema.kind in NOT_DIFFERENTIABLE else None


def register_gradient(kind: str, rule: GradientRule) -> None:
    """Gives an op of your own its gradient, for `Graph.gradients`.

    Args:
        kind: of an op that `register_op` has added.
        rule: called with a `GradientContext`; yields pairs of an input's name and the gradient by it, for the inputs
            that `context.wants`. It adds ops by `context.make.op`.

    Raises:
        UnknownOpError: there is no such op.
        SchemaError: the kind is built in, or `rule` can't be called.
    """
    schema, _ = REGISTRY.resolve(kind)
    if schema.family != CUSTOM:
        raise SchemaError(f"'{kind}' is built in, and so is its gradient; give one to an op of your own")
    if not callable(rule):
        raise SchemaError(
            f"the gradient of '{kind}' must be a function of a GradientContext, got {format_value(rule)}"
        )
    RULES[schema.kind] = KindRule(rule, every_output=True)
