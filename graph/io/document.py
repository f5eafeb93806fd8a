"""oneDNN Graph's JSON files as data: a `Document` is a file as it was written.

Tools rewrite documents before they build a graph. A document also keeps what a graph can't hold: `version`,
`engine_kind`, `fpmath_mode_apply_to_int`, the layout `undef`, strides that differ between the uses of one tensor, and
attributes that the library adds to a partitioned graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar, cast

from attrs import Factory, evolve, field

from ...ops.attributes import S64_MIN, AttributeType, AttributeValue
from ...ops.data_types import DataType, parse_enum
from ...ops.errors import ArgumentTypeError
from ...ops.records import frozen
from ...ops.registry import REGISTRY
from ...ops.schema import UNKNOWN_DIM, Shape
from ...ops.values import format_value, integer, listed
from ..model.fpmath import FpmathMode
from ..model.logical_tensor import LayoutType, PropertyType, row_major

T = TypeVar("T")

FORMAT_VERSION = "3.13.0"
"""The version of the library whose format `from_graph` writes."""

MAX_FILE_BYTES = 64 * 2**20
MAX_MARKS = 2**23
"""Commas and opening brackets of one file, by which the memory that reading it takes is bounded beforehand: twice what
a graph of as many ops and tensors as there may be has."""
MAX_OPS = 2**16
MAX_TENSORS = 2**17
"""Descriptions of tensors in one file: one for each input and output of each op."""
MAX_PORTS = 2**10
"""Inputs, or outputs, of one op."""
MAX_ATTRIBUTES = 2**8
MAX_VALUES = 2**20
"""Elements of one attribute."""
MAX_STRING = 2**12

PARTITIONING_ATTRIBUTES = ("partition_id", "backend")
"""What the library adds to every op when it writes a graph that it has partitioned."""

WITHOUT_WEIGHTS = "none"
"""The `weights_id` of a file to which none belong."""

ENGINE_KINDS = ("any", "cpu", "gpu")


def _whole_numbers(values: Sequence[int]) -> tuple[int, ...]:
    if isinstance(values, tuple) and all(type(value) is int for value in values):
        return values  # what reading a file gives, and there are many
    items = listed(values)
    numbers = [integer(item) for item in items or ()]
    if items is None or None in numbers:
        raise ArgumentTypeError(
            f"shapes, strides and ports must be sequences of integers, got {format_value(values)}"
        )
    return tuple(cast("list[int]", numbers))


def _ports(values: Sequence[int] | None) -> tuple[int, ...] | None:
    return None if values is None else _whole_numbers(values)


def _records(kind: type[T], values: object) -> tuple[T, ...]:
    items = listed(values)
    if items is None or not all(isinstance(item, kind) for item in items):
        raise ArgumentTypeError(f"a sequence of {kind.__name__} is needed here, got {format_value(values)}")
    return cast("tuple[T, ...]", tuple(items))


def _data_type(value: DataType | str) -> DataType:
    return value if isinstance(value, DataType) else parse_enum(DataType, value, "data_type")


def _layout_type(value: LayoutType | str) -> LayoutType:
    return value if isinstance(value, LayoutType) else parse_enum(LayoutType, value, "layout_type")


def _property_type(value: PropertyType | str) -> PropertyType:
    return value if isinstance(value, PropertyType) else parse_enum(PropertyType, value, "property_type")


def _fpmath_mode(value: FpmathMode | str) -> FpmathMode:
    return parse_enum(FpmathMode, value, "fpmath_mode")


def _attribute_type(value: AttributeType | str) -> AttributeType:
    return (
        value if isinstance(value, AttributeType) else parse_enum(AttributeType, value, "an attribute's type")
    )


def written_shape(
    shape: Shape, strides: tuple[int, ...] | None, layout: LayoutType
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and strides as the format has them."""
    unknown = (S64_MIN,)
    if shape is None:
        return unknown, unknown
    written = tuple(S64_MIN if dim == UNKNOWN_DIM else dim for dim in shape)
    if layout is not LayoutType.strided:
        # One axis of unknown size must not look like a shape that is unknown altogether.
        return (shape if written == unknown else written), unknown
    if strides is not None:
        return written, strides
    dense = list(row_major(shape))
    for axis, dim in enumerate(shape):
        if dim == UNKNOWN_DIM:
            dense[:axis] = [S64_MIN] * axis
    return written, tuple(dense)


@frozen(kw_only=True)
class TensorRecord:
    """One description of a tensor, at one input or output of one op.

    Attributes:
        id: the tensor's identity in the file.
        data_type: element type.
        shape: sizes as written: -1 and INT64_MIN are both unknown, and one INT64_MIN may stand for all of them.
        strides: in elements, as written; INT64_MIN where unknown.
        layout_type, property_type: as in `LogicalTensor`.

    Raises:
        ArgumentError, ArgumentTypeError: an unknown type or layout, or a shape that is none.
    """

    id: int
    data_type: DataType = field(converter=_data_type)
    shape: tuple[int, ...] = field(converter=_whole_numbers)
    strides: tuple[int, ...] = field(converter=_whole_numbers)
    layout_type: LayoutType = field(default=LayoutType.strided, converter=_layout_type)
    property_type: PropertyType = field(default=PropertyType.undef, converter=_property_type)

    @property
    def dims(self) -> Shape:
        """The shape as a `LogicalTensor` has it: -1 for an unknown size, None for an unknown rank."""
        # The library writes one INT64_MIN for a shape in which anything is unknown, and likewise for strides.
        if len(self.shape) == 1 and self.shape[0] < 0 and self.strides == self.shape:
            return None
        return tuple(UNKNOWN_DIM if dim == S64_MIN else dim for dim in self.shape)

    @property
    def element_strides(self) -> tuple[int, ...] | None:
        """The strides; None where one is unknown or the layout has none."""
        free = self.layout_type in (LayoutType.any, LayoutType.opaque)
        return None if free or any(step < 0 for step in self.strides) else self.strides

    def with_shape(self, shape: Sequence[int] | None) -> TensorRecord:
        """The same tensor with another shape, None for an unknown one, and row-major strides."""
        dims = None if shape is None else _whole_numbers(shape)
        written, strides = written_shape(dims, None, self.layout_type)
        return evolve(self, shape=written, strides=strides)


def _canonical(value: AttributeValue | Sequence[int] | Sequence[float]) -> AttributeValue:
    items = listed(value)
    return cast("AttributeValue", value if items is None else tuple(items))


@frozen
class AttributeRecord:
    """An attribute's type and value, as written.

    Raises:
        ArgumentError, ArgumentTypeError: an unknown type.
    """

    type: AttributeType = field(converter=_attribute_type)
    value: AttributeValue = field(converter=_canonical)


def _attributes(values: Mapping[str, AttributeRecord]) -> Mapping[str, AttributeRecord]:
    if not isinstance(values, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] -- users' values
        raise ArgumentTypeError(
            f"attributes must be a mapping from names to AttributeRecord, got {format_value(values)}"
        )
    _records(str, list(values))
    _records(AttributeRecord, list(values.values()))
    return dict(values)


def _tensor_records(values: Sequence[TensorRecord]) -> tuple[TensorRecord, ...]:
    return _records(TensorRecord, values)


@frozen(kw_only=True)
class OpRecord:
    """An op of a file.

    Attributes:
        id, name: as written.
        kind: as written: a kind, a legacy name, or something unknown.
        attributes: by the names that were written.
        inputs, outputs: in port order.
        attributes_written: False where the file leaves the key `attrs` out instead of writing an empty object.
    """

    id: int
    name: str = ""
    kind: str
    attributes: Mapping[str, AttributeRecord] = field(
        default=Factory(dict[str, AttributeRecord]), converter=_attributes
    )
    inputs: tuple[TensorRecord, ...] = field(converter=_tensor_records)
    outputs: tuple[TensorRecord, ...] = field(converter=_tensor_records)
    attributes_written: bool = True

    @property
    def values(self) -> dict[str, AttributeValue]:
        """The attributes' values by name."""
        return {name: record.value for name, record in self.attributes.items()}

    def with_attributes(self, changes: Mapping[str, AttributeValue | Sequence[int] | None]) -> OpRecord:
        """The same op with some values changed or added; None takes an attribute away.

        A new attribute gets its type from the op's schema, or from the value where the kind or the name is unknown.
        """
        attributes = dict(self.attributes)
        for name, value in changes.items():
            if value is None:
                attributes.pop(name, None)
            else:
                attributes[name] = AttributeRecord(self._type_of(name, value), value)
        return evolve(self, attributes=attributes)

    def _type_of(self, name: str, value: object) -> AttributeType:
        if name in self.attributes:
            return self.attributes[name].type
        if self.kind in REGISTRY:
            schema, names = REGISTRY.resolve(self.kind)
            for spec in schema.attributes:
                if names.spell(spec.name) == name:
                    return spec.type
        items = listed(value)
        first: object = value if items is None else next(iter(items), 0)
        kinds = {bool: "bool", str: "string", float: "f32"}
        kind = next((kind for python, kind in kinds.items() if isinstance(first, python)), "s64")
        return AttributeType(kind if items is None else f"{kind}[]")


def _op_records(values: Sequence[OpRecord]) -> tuple[OpRecord, ...]:
    return _records(OpRecord, values)


def _names(values: Mapping[int, str]) -> Mapping[int, str]:
    if not isinstance(values, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] -- users' values
        raise ArgumentTypeError(f"names must be a mapping from ids to strings, got {format_value(values)}")
    _whole_numbers(list(values))
    _records(str, list(values.values()))
    return dict(values)


@frozen
class OutputRecord:
    """An output of a graph.

    Attributes:
        id: of the tensor.
        name: by which the graph returns it; None for the tensor's own.
    """

    id: int
    name: str | None = None


def _output_records(values: Sequence[OutputRecord]) -> tuple[OutputRecord, ...]:
    return _records(OutputRecord, values)


@frozen(kw_only=True)
class Interface:
    """How a graph is called, for which the library's format has no place.

    Attributes:
        names: of tensors, by id; those of tensors that are not there mean nothing.
        inputs: in order, also those that no op reads. Where one does, the op's description of the tensor counts; those
            that an op makes mean nothing.
        outputs: that are marked, in order; those of tensors that are not there mean nothing.
    """

    names: Mapping[int, str] = field(default=Factory(dict[int, str]), converter=_names)
    inputs: tuple[TensorRecord, ...] = field(default=(), converter=_tensor_records)
    outputs: tuple[OutputRecord, ...] = field(default=(), converter=_output_records)


@frozen(kw_only=True)
class Document:
    """A file in oneDNN Graph's JSON format, with everything that it says.

    Made anew with changes by `attrs.evolve`, `map_ops` and `map_tensors`; `dumps` and `graph_of` check the result.

    Attributes:
        version: of the library that wrote it.
        engine_kind: `cpu`, `gpu` or `any`; a `Graph` is always for the CPU.
        fpmath_mode: see `FpmathMode`.
        apply_to_int: whether the mode holds for integers too; None where the file says nothing.
        ops: in the file's order.
        input_ports, output_ports: ids of the graph's inputs and outputs, None where the file has none. Files
            that were edited by hand have stale ones.
        interface: names, inputs and outputs of the graph, None where the file says no more than `ops` and the ports.
        weights_id: of the file of weights that was written with this one, `WITHOUT_WEIGHTS` where none was though
            an older one lies there, None where the file says nothing.
        source: the file's name, for messages; no part of what is compared.
    """

    version: str = FORMAT_VERSION
    engine_kind: str = "cpu"
    fpmath_mode: FpmathMode = field(default=FpmathMode.strict, converter=_fpmath_mode)
    apply_to_int: bool | None = None
    ops: tuple[OpRecord, ...] = field(default=(), converter=_op_records)
    input_ports: tuple[int, ...] | None = field(default=None, converter=_ports)
    output_ports: tuple[int, ...] | None = field(default=None, converter=_ports)
    interface: Interface | None = None
    weights_id: str | None = None
    source: str = field(default="<document>", eq=False)

    def map_ops(self, change: Callable[[OpRecord], OpRecord]) -> Document:
        """The same document with `change` applied to every op."""
        return evolve(self, ops=tuple(change(op) for op in self.ops))

    def map_tensors(self, change: Callable[[TensorRecord], TensorRecord]) -> Document:
        """The same document with `change` applied to every description of every tensor."""
        changed = self.map_ops(
            lambda op: evolve(
                op,
                inputs=tuple(change(t) for t in op.inputs),
                outputs=tuple(change(t) for t in op.outputs),
            )
        )
        if self.interface is None:
            return changed
        inputs = tuple(change(t) for t in self.interface.inputs)
        return evolve(changed, interface=evolve(self.interface, inputs=inputs))
