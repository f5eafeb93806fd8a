"""What the builder, the eager functions and the generator share: names, and telling inputs from attributes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import cast

from ...ops.attributes import canonical_attributes
from ...ops.data_types import DataType, parse_data_type
from ...ops.errors import ArgumentError, PortError
from ...ops.registry import REGISTRY
from ...ops.schema import OpNames, OpSchema, counts_allowed
from ...ops.values import format_value, integer
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
    repeated = schema.inputs[-1].repeat if schema.inputs else 1
    positional = unpacked(schema, positional)
    if len(positional) > len(spelled) - 1 + repeated:
        raise PortError(
            f"{kind}: too many inputs; it takes at most {len(spelled) - 1 + repeated} ({', '.join(spelled)}), "
            f"got {len(positional)}"
        )
    if repeated > 1:
        return list(cast("Sequence[LogicalTensor]", positional)), {
            n: v for n, v in given.items() if v is not None
        }
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


def unpacked(schema: OpSchema, inputs: Sequence[object]) -> Sequence[object]:
    """The inputs of an op that takes any number of them, also where they are given as one list or tuple."""
    if len(inputs) == 1 and len(schema.inputs) == 1 and schema.inputs[0].repeat > 1:
        only = inputs[0]
        if isinstance(only, list | tuple):
            return cast("Sequence[object]", only)
    return inputs


def schema_output_types(
    schema: OpSchema,
    names: OpNames,
    inputs: Sequence[object],
    attributes: Mapping[str, object],
    outputs: int | None,
    output_type: DataType | str | None,
) -> tuple[DataType, ...]:
    """The data type of each output that the builder makes.

    Args:
        schema, names: the op in the user's spelling.
        inputs: logical tensors; what is none is left for `Op` to complain about.
        attributes: as given.
        outputs: how many; as the attributes say if None.
        output_type: for outputs whose type the inputs leave open.

    Raises:
        ArgumentError: a number of outputs that the op can't have, or a data type that none of them can.
    """
    kind = names.kind
    wanted = None if output_type is None else parse_data_type(output_type, f"{kind}: output_type")
    allowed = counts_allowed(schema.outputs, schema.output_counts)
    if outputs is None:
        own = {name: value for name, value in attributes.items() if value is not None}
        outputs = schema.outputs_of(
            canonical_attributes(schema.attributes, own, kind, names.spell, schema.legacy_names)
        )
    elif integer(outputs) is None or outputs not in allowed:
        raise ArgumentError(
            f"{kind}: outputs must be {' or '.join(map(str, allowed))}, the number of its outputs, "
            f"got {format_value(outputs)}"
        )
    types = [tensor.data_type for tensor in inputs if isinstance(tensor, LogicalTensor)]
    ports = schema.output_ports(outputs)
    if wanted is not None and ports and wanted not in schema.types[ports[0].type]:
        raise ArgumentError(
            f"{kind}: output_type must be {' or '.join(d.value for d in schema.types[ports[0].type])}, "
            f"got {format_value(wanted.value)}"
        )
    result = schema.output_types(types, outputs, wanted)
    if wanted is not None and result and result[0] is not wanted:
        raise ArgumentError(
            f"{kind}: output_type is {result[0].value}, the data type of its inputs, got {format_value(wanted.value)}; "
            "leave it out, or insert a TypeCast"
        )
    return result


_ONE_WORD = re.compile("PReLU|ReLU|SoftMax|SoftPlus|MatMul")
"""What is one word in spite of its capitals."""


def snake_case(kind: str) -> str:
    """`ConvolutionBackwardWeights` → `convolution_backward_weights`, `LeakyReLU` → `leaky_relu`."""
    simple = _ONE_WORD.sub(lambda word: word.group().capitalize(), kind)
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", simple)
    return words.lower()
