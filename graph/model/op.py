"""Op: a node of a graph, checked and frozen when it is made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import cast

from attrs import field

from ...ops.attributes import Attributes, canonical_attributes
from ...ops.data_types import DataType
from ...ops.errors import ArgumentError, ArgumentTypeError, DataTypeError, PortError, SchemaError
from ...ops.records import frozen
from ...ops.registry import REGISTRY
from ...ops.schema import ANY, InferenceContext, OpNames, OpSchema, Port, Shape, counts_allowed
from ...ops.values import format_value, integer, listed
from .logical_tensor import LogicalTensor, as_shape, is_canonical


@frozen(eq=False)
class Op:
    """A node: a kind, attributes, and logical tensors on its ports.

    Args:
        id: identity within a graph.
        kind: a registered kind or one of its legacy names; messages keep the name that you wrote.
        inputs, outputs: logical tensors in port order; optional inputs at the end may be left out.
        name: for messages; empty is allowed.
        **attributes: oneDNN Graph's attribute names, or the legacy ones with a legacy kind.

    Attributes:
        schema: what the kind is.
        names: how the written kind spells attributes and ports.
        attributes: canonical, with defaults filled in.

    Raises:
        UnknownOpError, AttributeValueError, AttributeTypeError, PortError, DataTypeError,
        ArgumentError, ArgumentTypeError: each names the op, the rule and the value.
    """

    id: int
    schema: OpSchema
    names: OpNames
    inputs: tuple[LogicalTensor, ...]
    outputs: tuple[LogicalTensor, ...]
    attributes: Attributes
    name: str = field(default="")

    def __init__(
        self,
        id: int,  # noqa: A002 -- oneDNN Graph's name
        kind: str,
        inputs: Sequence[LogicalTensor],
        outputs: Sequence[LogicalTensor],
        *,
        name: str = "",
        **attributes: object,
    ) -> None:
        schema, names = REGISTRY.resolve(kind)
        number = integer(id)
        if number is None:
            raise ArgumentTypeError(f"{kind}: an op's id must be an integer, got {format_value(id)}")
        if not 0 <= number < 2**64:
            raise ArgumentError(f"{kind}: id must be between 0 and 2**64 - 1, got {format_value(number)}")
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance] -- users' values
            raise ArgumentTypeError(f"{kind}: name must be a string, got {format_value(name)}")
        label = f"{names.kind} {format_value(name)}" if name else names.kind
        ins = _tensors(inputs, label, "input", [names.spell(p.name) for p in schema.inputs])
        outs = _tensors(outputs, label, "output", [names.spell(p.name) for p in schema.outputs])
        _check_ports(schema, names, ins, outs, label)
        self.__attrs_init__(  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] -- attrs makes it
            number,
            schema,
            names,
            ins,
            outs,
            canonical_attributes(schema.attributes, attributes, label, names.spell, schema.legacy_names),
            name,
        )

    @property
    def input_ports(self) -> tuple[Port, ...]:
        """The schema's port of each input."""
        return self.schema.input_ports(len(self.inputs))

    @property
    def output_ports(self) -> tuple[Port, ...]:
        """The schema's port of each output."""
        return self.schema.output_ports(len(self.outputs))

    @property
    def kind(self) -> str:
        """The canonical kind, also where a legacy name was written."""
        return self.schema.kind

    def __eq__(self, other: object) -> bool:
        """Whether two ops say the same: id, kind, attributes, name, and tensors."""
        if not isinstance(other, Op):
            return NotImplemented
        return self is other or (
            self.id == other.id
            and self.schema is other.schema
            and self.name == other.name
            and self.attributes == other.attributes
            and self.inputs == other.inputs
            and self.outputs == other.outputs
        )

    def __hash__(self) -> int:
        return hash((self.id, self.schema.kind))

    def __copy__(self) -> Op:
        return self

    def __deepcopy__(self, memo: object) -> Op:
        return self

    def __reduce__(self) -> tuple[Callable[..., Op], tuple[object, ...]]:
        """By its description: whoever unpickles it needs the kind, a user's own for example, and checks it anew."""
        spelled = {self.names.spell(name): value for name, value in self.attributes.items()}
        return _described, (self.id, self.names.kind, self.inputs, self.outputs, self.name, spelled)

    def __str__(self) -> str:
        return f"{self.names.kind} {self.name!r}" if self.name else f"{self.names.kind} (op {self.id})"

    def with_tensors(self, inputs: Sequence[LogicalTensor], outputs: Sequence[LogicalTensor]) -> Op:
        """The same op on other descriptions of its tensors."""
        copy = object.__new__(Op)
        copy.__attrs_init__(  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] -- attrs makes it
            self.id, self.schema, self.names, tuple(inputs), tuple(outputs), self.attributes, self.name
        )
        return copy

    def infer_shapes(
        self,
        inputs: Sequence[Shape],
        outputs: Sequence[Shape],
        values: Mapping[int, tuple[int, ...]],
    ) -> tuple[Shape, ...]:
        """Output shapes by the schema's rule.

        Args:
            inputs, outputs: shapes known or declared.
            values: values of shape operands that are known, by input index.

        Raises:
            ShapeError: the shapes contradict each other or the attributes.
        """
        context = InferenceContext(
            op=str(self),
            names=self.names,
            attributes=self.attributes,
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            values={self.input_ports[index].name: value for index, value in values.items()},
        )
        for port, shape in zip(self.input_ports, context.inputs, strict=True):
            if port.shape_operand and shape is not None and len(shape) != 1:
                raise context.error(
                    f"input '{self.names.spell(port.name)}' must be a 1-D tensor of integers, got shape {list(shape)}"
                )
        shapes: object = self.schema.infer_shapes(context)
        if not isinstance(shapes, list | tuple) or len(cast("Sequence[object]", shapes)) != len(outputs):
            raise SchemaError(
                f"{self}: infer_shapes must return a list with one shape for each of its {len(outputs)} outputs, "
                f"got {format_value(shapes)}"
            )
        listed_shapes = cast("Sequence[object]", shapes)
        named = zip(self.schema.output_ports(len(listed_shapes)), listed_shapes, strict=True)
        return tuple(
            cast("Shape", shape)
            if is_canonical(shape)
            else as_shape(shape, f"{self}: what infer_shapes returned for '{self.names.spell(port.name)}'")
            for port, shape in named
        )


def _described(
    number: int,
    kind: str,
    inputs: Sequence[LogicalTensor],
    outputs: Sequence[LogicalTensor],
    name: str,
    attributes: Mapping[str, object],
) -> Op:
    """The op of a pickle."""
    return Op(number, kind, inputs, outputs, name=name, **attributes)


@frozen
class PortName:
    """A port in the words that the user wrote: `ConvolutionBackpropFilters 'dw': input 'input_forward'`."""

    op: str
    direction: str
    port: str

    def __str__(self) -> str:
        return f"{self.op}: {self.direction} '{self.port}'"


def port_names(ops: Sequence[Op], tensors: Iterable[LogicalTensor] | None = None) -> dict[int, PortName]:
    """Tensor id → the first port that it is on.

    Args:
        ops: in order.
        tensors: those that are asked about; all if None.
    """
    wanted = None if tensors is None else {t.id for t in tensors}
    found: dict[int, PortName] = {}
    for op in ops:
        for direction, sides in (("input", op.inputs), ("output", op.outputs)):
            for position, tensor in enumerate(sides):
                if tensor.id not in found and (wanted is None or tensor.id in wanted):
                    port = (op.input_ports if direction == "input" else op.output_ports)[position]
                    found[tensor.id] = PortName(str(op), direction, op.names.spell(port.name))
    return found


def _tensors(values: object, label: str, what: str, ports: Sequence[str]) -> tuple[LogicalTensor, ...]:
    if isinstance(values, LogicalTensor):
        raise ArgumentTypeError(
            f"{label}: {what}s must be a sequence of LogicalTensor, got one, {values}; write [tensor]"
        )
    items = listed(values)
    if items is None:
        raise ArgumentTypeError(
            f"{label}: {what}s must be a sequence of LogicalTensor, one for each of {', '.join(ports)}, "
            f"got {type(values).__name__}"
        )
    for position, value in enumerate(items):
        if not isinstance(value, LogicalTensor):
            port = f"'{ports[position]}'" if position < len(ports) else f"{position}"
            held = hasattr(value, "__float__") or listed(value) is not None or hasattr(value, "__array__")
            raise ArgumentTypeError(
                f"{label}: {what} {port} must be a LogicalTensor, got {format_value(value)} of type "
                f"{type(value).__name__}; "
                + (
                    "graph.constant(…) makes one of what stays as it is, graph.parameter(…) of what is trained, and "
                    "graph.input(…) of what each call brings"
                    if held
                    else "graph.input(…) and the graph's ops make them"
                )
            )
    return cast("tuple[LogicalTensor, ...]", tuple(items))


def _counted(counts: Sequence[int]) -> str:
    """`2`, `1 to 3`, or `1 or 3`."""
    first, last = min(counts), max(counts)
    if first == last:
        return f"{first}"
    if len(counts) == last - first + 1:
        return f"{first} to {last}"
    return " or ".join(map(str, counts))


def _check_ports(
    schema: OpSchema,
    names: OpNames,
    inputs: tuple[LogicalTensor, ...],
    outputs: tuple[LogicalTensor, ...],
    label: str,
) -> None:
    for what, ports, tensors, counts in (
        ("input", schema.inputs, inputs, counts_allowed(schema.inputs, schema.input_counts)),
        ("output", schema.outputs, outputs, counts_allowed(schema.outputs, schema.output_counts)),
    ):
        if len(tensors) not in counts:
            spelled = ", ".join(names.spell(p.name) + ("" if p.required else " (optional)") for p in ports)
            missing = [names.spell(p.name) for p in ports[len(tensors) :]]
            too_many = len(tensors) > max(counts)
            problem = f"too many {what}s" if too_many or not missing else f"{what} '{missing[0]}' is missing"
            count = _counted(counts)
            plural = "" if count == "1" else "s"
            raise PortError(
                f"{label}: {problem}; it takes {count} {what}{plural} ({spelled}), got {len(tensors)}"
            )
    seen: dict[str, tuple[Port, DataType]] = {}
    for port, tensor in (
        *zip(schema.input_ports(len(inputs)), inputs, strict=True),
        *zip(schema.output_ports(len(outputs)), outputs, strict=True),
    ):
        allowed = schema.types[port.type]
        if tensor.data_type not in allowed:
            raise DataTypeError(
                f"{label}: '{names.spell(port.name)}' must have data type "
                f"{' or '.join(d.value for d in allowed)}, got {tensor.data_type.value}; convert it"
            )
        if port.type == ANY:
            continue
        first, data_type = seen.setdefault(port.type, (port, tensor.data_type))
        if tensor.data_type != data_type:
            raise DataTypeError(
                f"{label}: '{names.spell(port.name)}' must have the data type of "
                f"'{names.spell(first.name)}', {data_type.value}, got {tensor.data_type.value}; convert one "
                "of them"
            )
