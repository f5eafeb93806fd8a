"""Gradients of ATen by the rules that a graph's own gradients follow: one formula for both."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ...gradients.arithmetic import Arithmetic
from ...gradients.context import GradientContext
from ...gradients.table import RULES
from ...graph import Graph
from ...importing.translation import Translation, Unmapped, Value
from ...model.logical_tensor import LogicalTensor
from ...model.op import Op


def by_rule(
    t: Translation,
    kind: str,
    gradient: Value,
    inputs: Mapping[str, Value],
    wanted: Collection[str],
    kept: Mapping[str, Value] | None = None,
    **attributes: Any,
) -> dict[str | int, Value | None]:
    """The gradients of an op that need not be there.

    Args:
        t: where the gradients go.
        kind: of the op.
        gradient: of its first output.
        inputs: of the op, by name, in their order.
        wanted: names of those by which gradients are wanted.
        kept: other outputs of the op, by name.
        attributes: of the op.
    """
    alone = Graph()
    given = {name: t.tensor(value) for name, value in inputs.items()}
    ports = [alone.input(name, one.data_type, one.shape) for name, one in given.items()]
    alone.op(kind, *ports, **attributes)
    (op,) = alone.ops
    real = dict(zip((port.id for port in ports), given.values(), strict=True))
    for port, output in zip(op.output_ports, op.outputs, strict=True):
        if kept and port.name in kept:
            real[output.id] = t.tensor(kept[port.name])

    def missing(port: str) -> Op:
        raise Unmapped(f"the gradient of {kind} needs its output {port!r}")

    def there(tensor: LogicalTensor) -> LogicalTensor:
        return real[tensor.id]

    context = GradientContext(
        op=op,
        make=Arithmetic(t.graph),
        gradients=(t.tensor(gradient),),
        wanted=frozenset(place for place, name in enumerate(given) if name in wanted),
        kept=there,
        with_output=missing,
    )
    return dict(RULES[kind].function(context))
