"""LogicalTensor: the description of a tensor, without data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, cast

from attrs import field

from ...ops.attributes import S64_MAX, S64_MIN
from ...ops.data_types import DataType, parse_enum
from ...ops.errors import ArgumentError, ArgumentTypeError, LayoutError, ShapeError
from ...ops.records import frozen
from ...ops.schema import UNKNOWN_DIM, Shape, format_shape
from ...ops.values import format_value, integer, listed
from .numpy_types import as_data_type, itemsize
from .operators import Home, Operators

MAX_ID = 2**64 - 1
MAX_NDIMS = 64
"""NumPy's limit. oneDNN's is 12, and partitions of more axes go to NumPy."""
_USUAL = 2**48
"""Elements of a tensor of which nothing has to be asked."""


class LayoutType(StrEnum):
    """How a tensor lies in memory: known strides, the compiler's choice, or a backend's secret."""

    undef = "undef"
    any = "any"
    strided = "strided"
    opaque = "opaque"


class PropertyType(StrEnum):
    """Whether the content changes between executions."""

    undef = "undef"
    variable = "variable"
    constant = "constant"
    host_scalar = "host_scalar"


def _as_dims(values: object, what: str) -> tuple[int, ...]:
    items = listed(values)
    if items is None:
        raise ArgumentTypeError(
            f"{what} must be a sequence of integers, got {format_value(values)} of type {type(values).__name__}; "
            "write one element as [8]"
        )
    dims: list[int] = []
    for item in items:
        dim = integer(item)
        if dim is None:
            open_size = item is None or isinstance(item, str)  # as NumPy people and ONNX have it
            hint = "; write -1 for a size that is known only at execution" if open_size else ""
            raise ArgumentTypeError(
                f"{what} must hold integers, got {format_value(item)} in {format_value(values)}{hint}"
            )
        dims.append(dim)
    return tuple(dims)


def as_shape(shape: object, what: str) -> Shape:
    """A canonical shape: a tuple with UNKNOWN_DIM for unknown sizes, or None for an unknown rank.

    -1 and INT64_MIN, which oneDNN Graph and its JSON files use, both mean unknown.

    Raises:
        ArgumentTypeError: no sequence of integers.
        ShapeError: a negative size, too many axes, or a size beyond 64 bits.
    """
    if shape is None:
        return None
    if is_canonical(shape):
        return cast("Shape", shape)
    dims = tuple(UNKNOWN_DIM if d == S64_MIN else d for d in _as_dims(shape, what))
    if len(dims) > MAX_NDIMS:
        raise ShapeError(f"{what} must have at most {MAX_NDIMS} axes, got {len(dims)}")
    for dim in dims:
        if dim < UNKNOWN_DIM:
            raise ShapeError(
                f"{what} must have sizes of 0 or more, or -1 for unknown, got {format_value(dim)} "
                f"in {format_value(list(dims))}"
            )
    if math.prod(d for d in dims if d > 0) > S64_MAX // 8:
        raise ShapeError(f"{what} must have fewer than 2**60 elements, got {format_value(list(dims))}")
    return dims


def is_canonical(shape: object) -> bool:
    """Whether a shape is, at a glance, as `as_shape` would make it; it may be where this says no."""
    if type(shape) is not tuple:
        return False
    dims = cast("tuple[object, ...]", shape)
    total = 1
    for dim in dims:
        if type(dim) is not int or not UNKNOWN_DIM <= dim <= _USUAL:
            return False
        total *= dim if dim > 0 else 1
    return len(dims) <= MAX_NDIMS and total <= _USUAL


def type_and_shape(data_type: DataType, shape: Shape) -> str:
    """For tables: `f32 16x28x28x64`, with ? for what is unknown."""
    sizes = "?" if shape is None else "x".join("?" if d == UNKNOWN_DIM else str(d) for d in shape)
    return f"{data_type.value} {sizes or 'scalar'}"


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides, in elements, of a dense row-major tensor."""
    strides: list[int] = []
    step = 1
    for dim in reversed(shape):
        strides.append(step)
        step *= max(dim, 1)
    return tuple(reversed(strides))


def may_overlap(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether two elements may share memory: the strides do not nest."""
    reach = 1
    for stride, dim in sorted((s, d) for d, s in zip(shape, strides, strict=True) if d > 1):
        if stride < reach:
            return True
        reach = stride * (dim - 1) + reach
    return False


@frozen
class LogicalTensor(Operators):
    """A typed tensor of a graph, without data.

    Two are equal that describe the same. One that a graph has returned knows the graph, so that `x @ w + b`, `-x`,
    `2 * x`, `x ** 2` and `abs(x)` add ops to it; numbers become constants of the tensor's type.

    Attributes:
        id: identity within a graph; two logical tensors with one id are the same tensor.
        data_type: element type, a `DataType` or its string.
        shape: sizes, -1 where unknown; None where not even the rank is known.
        layout_type: `strided` (default), `any` (the compiler chooses) or `opaque` (chosen by a backend).
        strides: elements from one index to the next, per axis; None means dense row-major.
        property_type: whether the content is constant.
        layout_id: identity of an opaque layout.
        name: for messages and for `CompiledGraph`'s arguments.

    Raises:
        ArgumentTypeError, ArgumentError, ShapeError, LayoutError: naming the tensor, the rule, the value.
    """

    id: int = field()
    data_type: DataType = field()
    shape: Shape = None
    layout_type: LayoutType = LayoutType.strided
    strides: tuple[int, ...] | None = None
    property_type: PropertyType = PropertyType.undef
    layout_id: int | None = None
    name: str = ""

    def __init__(
        self,
        id: int,  # noqa: A002 -- oneDNN Graph's name
        data_type: DataType | str,
        shape: Sequence[int] | None = None,
        *,
        layout_type: LayoutType | str = LayoutType.strided,
        strides: Sequence[int] | None = None,
        property_type: PropertyType | str = PropertyType.undef,
        layout_id: int | None = None,
        name: str = "",
    ) -> None:
        number = integer(id)
        if number is None:
            raise ArgumentTypeError(f"a logical tensor's id must be an integer, got {format_value(id)}")
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance] -- users' values
            raise ArgumentTypeError(
                f"tensor {format_value(number)}: name must be a string, got {format_value(name)}"
            )
        what = f"tensor {format_value(name or number)}"
        if not 0 <= number <= MAX_ID:
            raise ArgumentError(f"{what}: id must be between 0 and 2**64 - 1, got {format_value(number)}")
        dims = as_shape(shape, f"{what}: shape")
        layout = parse_enum(LayoutType, layout_type, f"{what}: layout_type")
        if layout_id is not None:
            if integer(layout_id) is None or layout_id < 0:
                raise ArgumentTypeError(
                    f"{what}: layout_id must be a non-negative integer or None, got {format_value(layout_id)}"
                )
            if layout is not LayoutType.opaque:
                raise LayoutError(
                    f"{what}: layout_id needs layout_type 'opaque', got layout_id {layout_id} with "
                    f"'{layout.value}'; leave it out"
                )
        dtype = as_data_type(data_type, f"{what}: data_type")
        if dtype is DataType.undef:
            raise ArgumentError(f"{what}: data_type must be a concrete type such as 'f32', got 'undef'")
        self.__attrs_init__(  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] -- attrs makes it
            number,
            dtype,
            dims,
            layout,
            None if strides is None else _checked_strides(strides, dims, layout, what),
            parse_enum(PropertyType, property_type, f"{what}: property_type"),
            layout_id,
            name,
        )

    @property
    def is_concrete(self) -> bool:
        """Whether rank and all sizes are known."""
        return self.shape is not None and UNKNOWN_DIM not in self.shape

    @property
    def dims(self) -> tuple[int, ...]:
        """The concrete shape.

        Raises:
            ShapeError: a size is unknown.
        """
        if self.shape is None or UNKNOWN_DIM in self.shape:
            raise ShapeError(f"{self} must have all its sizes here; describe it with them")
        return self.shape

    @property
    def element_strides(self) -> tuple[int, ...]:
        """The strides in elements; row-major where none were given."""
        return self.strides if self.strides is not None else row_major(self.dims)

    @property
    def nbytes(self) -> int:
        """Bytes from the first to the last element of a strided tensor, both included."""
        if 0 in self.dims:
            return 0
        last = sum((d - 1) * s for d, s in zip(self.dims, self.element_strides, strict=True))
        return (last + 1) * itemsize(self.data_type)

    def with_shape(self, shape: Shape) -> LogicalTensor:
        """The same tensor with another shape; strides stay where they still fit."""
        if self.strides is not None or not is_canonical(shape):
            return evolve_tensor(self, shape=shape)
        twin = _twin(self)
        object.__setattr__(twin, "shape", shape)
        return twin

    def __str__(self) -> str:
        key = repr(self.name) if self.name else str(self.id)
        return f"tensor {key} ({self.data_type.value}, shape {format_shape(self.shape)})"


def evolve_tensor(tensor: LogicalTensor, **changes: Any) -> LogicalTensor:
    """A copy of `tensor` with some fields changed, checked again."""
    fields: dict[str, Any] = {
        name: getattr(tensor, name)
        for name in (
            "data_type",
            "shape",
            "layout_type",
            "strides",
            "property_type",
            "layout_id",
            "name",
        )
    }
    fields.update(changes)
    return LogicalTensor(tensor.id, **fields)


_FIELDS = ("id", "data_type", "shape", "layout_type", "strides", "property_type", "layout_id", "name")


def foreign_tensor(number: int, name: str) -> LogicalTensor:
    """What stands for an input or output of a type that oneDNN Graph has none for. No graph holds one.

    Its data type is `undef`, its shape unknown.
    """
    tensor = object.__new__(LogicalTensor)
    values = (number, DataType.undef, None, LayoutType.strided, None, PropertyType.undef, None, name)
    for field_name, value in zip(_FIELDS, values, strict=True):
        object.__setattr__(tensor, field_name, value)
    return tensor


def at_home(tensor: LogicalTensor, home: Home) -> LogicalTensor:
    """The same tensor, whose operators add to the graph of `home`."""
    if getattr(tensor, "_home", None) is home:
        return tensor
    twin = _twin(tensor)
    object.__setattr__(twin, "_home", home)
    return twin


def _twin(tensor: LogicalTensor) -> LogicalTensor:
    """The same tensor without its graph; nothing has to be checked again."""
    twin = object.__new__(LogicalTensor)
    for name in _FIELDS:
        object.__setattr__(twin, name, getattr(tensor, name))
    return twin


def as_plain(tensor: LogicalTensor) -> LogicalTensor:
    """The tensor as a strided one: opaque and free layouts become row-major."""
    if tensor.layout_type is LayoutType.strided:
        return tensor
    return evolve_tensor(tensor, layout_type=LayoutType.strided, layout_id=None)


def _checked_strides(strides: Sequence[int], dims: Shape, layout: LayoutType, what: str) -> tuple[int, ...]:
    if layout is not LayoutType.strided:
        raise LayoutError(
            f"{what}: strides need layout_type 'strided', got strides {format_value(strides)} with "
            f"'{layout.value}'; leave them out"
        )
    steps = _as_dims(strides, f"{what}: strides")
    if dims is None or len(steps) != len(dims):
        raise LayoutError(
            f"{what}: strides must have one value per axis of the shape {format_shape(dims)}, "
            f"got {format_value(list(steps))}"
        )
    if any(step < 0 for step in steps):
        raise LayoutError(
            f"{what}: strides must be non-negative, counted in elements, got {format_value(list(steps))}; reverse the "
            "array itself for a negative stride"
        )
    if max(steps, default=0) > S64_MAX // 8 or (
        sum((max(d, 1) - 1) * s for d, s in zip(dims, steps, strict=True)) >= S64_MAX // 8
    ):
        raise LayoutError(f"{what}: strides reach beyond 64-bit addresses, got {format_value(list(steps))}")
    return steps


def label(tensor: LogicalTensor) -> str:
    """The key of a tensor: its name, or its id where it has none."""
    return tensor.name or str(tensor.id)
