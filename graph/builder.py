"""What the builder, the eager functions and the generator share: names, and telling inputs from attributes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..ops.errors import PortError
from ..ops.registry import REGISTRY
from .logical_tensor import LogicalTensor


def split_arguments(
    kind: str, positional: Sequence[object], named: Mapping[str, object]
) -> tuple[list[LogicalTensor], dict[str, object]]:
    """Inputs in port order, and attributes.

    An input may be given by position or by name. A name that is an input and an attribute at once
    (`weights_shape`) is the input when a LogicalTensor is given, and the attribute otherwise. None means
    "not given".

    Raises:
        UnknownOpError: no such kind.
        PortError: an input is given twice, or an optional one is left out before a given one.
    """
    schema, names = REGISTRY.resolve(kind)
    spelled = [names.spell(p.name) for p in schema.inputs]
    given: dict[str, object] = dict(named)
    if len(positional) > len(spelled):
        raise PortError(
            f"{kind}: too many inputs; it takes at most {len(spelled)} ({', '.join(spelled)}), "
            f"got {len(positional)}"
        )
    for name, value in zip(spelled, positional, strict=False):
        if value is not None and given.get(name) is not None:
            raise PortError(f"{kind}: input '{name}' is given twice, by position and by name; give it once")
        if value is not None or name not in given:
            given[name] = value
    attribute_names = {names.spell(spec.name) for spec in schema.attributes}
    tensors: list[LogicalTensor] = []
    missing: str | None = None
    for name in spelled:
        value = given.get(name)
        if value is None or (name in attribute_names and not isinstance(value, LogicalTensor)):
            missing = missing or name
            if value is None:
                given.pop(name, None)
            continue
        if missing is not None:
            raise PortError(
                f"{kind}: input '{missing}' is missing, but '{name}' after it is given; give both"
            )
        tensors.append(value)  # pyright: ignore[reportArgumentType] -- Op says what is no tensor
        del given[name]
    return tensors, {name: value for name, value in given.items() if value is not None}


def snake_case(kind: str) -> str:
    """`ConvolutionBackwardWeights` → `convolution_backward_weights`; abbreviations stay whole."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", kind)
    return words.lower()
