"""What is written of a model: its nodes and constants, under names that are each used once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...ops.data_types import DataType
from ...ops.errors import UnsupportedError
from ...ops.schema import UNKNOWN_DIM, format_shape
from ..core.building import GraphCore
from ..model.logical_tensor import LogicalTensor, label
from ..model.numpy_types import NUMPY_TYPES
from ..model.op import Op
from ..runtime.arrays import Array

OPSET, NEWER_OPSET = 20, 21
"""Of ONNX; the first with Gelu, and the first with GroupNormalization by channels, integers of 4 bits, and scales of
blocks, which a model has that needs one of these: the older one, the more runtimes know it."""
FAR = 2**63 - 1
"""An end of a slice that is behind everything."""
NUMBERS: Mapping[DataType, int] = {
    DataType.f32: 1,
    DataType.u8: 2,
    DataType.s8: 3,
    DataType.s32: 6,
    DataType.s64: 7,
    DataType.boolean: 9,
    DataType.f16: 10,
    DataType.f64: 11,
    DataType.bf16: 16,
    DataType.f8_e4m3: 17,
    DataType.f8_e5m2: 19,
    DataType.u4: 21,
    DataType.s4: 22,
}
"""Numbers of types in `TensorProto.DataType`."""


class Writing:
    """A model that grows node by node.

    Args:
        graph: whose ops are written; its shapes are inferred.
        onnx: the package.

    Attributes:
        nodes: in order.
        constants: arrays by name.
        titles: names that the graph has for what nodes make.
        opsets: domain → version.
    """

    def __init__(self, graph: GraphCore, onnx: Any) -> None:
        self.graph, self.onnx = graph, onnx
        self.nodes: list[Any] = []
        self.constants: dict[str, Array] = {}
        self.titles: dict[str, str] = {}
        self._held = dict(graph.held_constants)
        self._held.update((i, parameter.array) for i, parameter in graph.held_parameters.items())
        self._read = {t.id for op in graph.ops for t in op.inputs} | {t.id for t in graph.outputs}
        self._names: dict[int, str] = {}
        self._taken: set[str] = set()
        self._small: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._first: dict[str, str] = {}
        self._wider: dict[int, LogicalTensor] = {}
        self._next_id = 1 + max((t.id for t in graph.tensors), default=0)
        self._title = ""
        self.opsets: dict[str, int] = {"": OPSET}

    def need(self, version: int = NEWER_OPSET, domain: str = "") -> None:
        """Says that a node is of an op set, or of a later one."""
        self.opsets[domain] = max(version, self.opsets.get(domain, 0))

    # --- names -------------------------------------------------------------------------------------------

    def fresh(self, wanted: str) -> str:
        """A name that nothing has yet."""
        name, number = wanted, 1
        while name in self._taken:
            number += 1
            name = f"{wanted}_{number}"
        self._taken.add(name)
        return name

    def call(self, tensor: LogicalTensor, name: str) -> None:
        """Says under which name a tensor is in the model."""
        self._names[tensor.id] = name

    def entitle(self, title: str) -> None:
        """Says after what the nodes are named that come next."""
        self._title = title

    def name(self, tensor: LogicalTensor) -> str:
        """A tensor's name; one that the graph holds becomes a constant of the model."""
        if tensor.id not in self._names:
            name = self.fresh(label(tensor))
            self.constants[name] = self._held[tensor.id]
            self._names[tensor.id] = name
        return self._names[tensor.id]

    # --- what is known of tensors ------------------------------------------------------------------------

    def shape(self, tensor: LogicalTensor, op: Op) -> tuple[int, ...]:
        """Its shape, of which sizes may be unknown.

        Raises:
            UnsupportedError: not even the number of its axes is known.
        """
        shape = (
            self._wider[tensor.id].shape if tensor.id in self._wider else self.graph.tensor(tensor.id).shape
        )
        if shape is None:
            raise UnsupportedError(
                f"to_onnx: {op} needs the number of axes of {label(tensor)!r}; describe its shape"
            )
        return shape

    def dims(self, tensor: LogicalTensor, op: Op, what: str) -> tuple[int, ...]:
        """Its shape where all of it is known.

        Raises:
            UnsupportedError: a size is not known.
        """
        shape = self.shape(tensor, op)
        if UNKNOWN_DIM in shape:
            raise self.unknown(tensor, op, what)
        return shape

    def unknown(self, tensor: LogicalTensor, op: Op, what: str) -> UnsupportedError:
        """The error that says that something of an op depends on sizes of a tensor that are not known."""
        return UnsupportedError(
            f"to_onnx: {what} of {op} depends on sizes of {label(tensor)!r} that are not known, "
            f"{format_shape(tensor.shape)}; give them by graph.with_shapes({{…}}) first"
        )

    def dims_of(self, tensor: LogicalTensor, op: Op, axes: Sequence[int], what: str) -> tuple[int, ...]:
        """Sizes of some axes, likewise."""
        shape = self.shape(tensor, op)
        if any(shape[axis] == UNKNOWN_DIM for axis in axes):
            raise self.unknown(tensor, op, what)
        return tuple(shape[axis] for axis in axes)

    def held(self, tensor: LogicalTensor) -> Array | None:
        """The content of what the graph holds."""
        return self._held.get(tensor.id)

    def is_read(self, tensor: LogicalTensor) -> bool:
        """Whether an op reads the tensor, or it is an output."""
        return tensor.id in self._read

    def widened(self, tensor: LogicalTensor) -> LogicalTensor:
        """A tensor of f32 with the same numbers, for what ONNX does not do in bf16; others as they are."""
        if tensor.data_type is not DataType.bf16:
            return tensor
        shape = self.graph.tensor(tensor.id).shape
        wide = LogicalTensor(self._next_id, DataType.f32, shape, name=f"{label(tensor)}.f32")
        self._next_id += 1
        self._wider[wide.id] = wide
        if tensor.id in self._read:
            self._read.add(wide.id)
        array = self.held(tensor)
        if array is not None:
            self._held[wide.id] = array.astype(np.float32)
        elif tensor.id in self._names:
            self._names[wide.id] = self.cast(self._names[tensor.id], DataType.bf16, DataType.f32)
        return wide

    # --- nodes -------------------------------------------------------------------------------------------

    def node(self, kind: str, *inputs: str, **attributes: object) -> str:
        """Adds a node with one output, and returns that."""
        return self.nodes_of(kind, inputs, 1, attributes)[0]

    def nodes_of(
        self,
        kind: str,
        inputs: Sequence[str],
        outputs: int,
        attributes: Mapping[str, object],
        domain: str = "",
    ) -> list[str]:
        """Adds a node, and returns its outputs; an attribute that is None is left out."""
        given = {name: value for name, value in attributes.items() if value is not None}
        made = [self.fresh(f"{self._title}.{kind}") for _ in range(outputs)]
        node = self.onnx.helper.make_node(kind, list(inputs), made, name=made[0], domain=domain, **given)
        self.nodes.append(node)
        return made

    def constant(self, array: Array) -> str:
        """The name of a constant; equal small ones are one."""
        array = np.ascontiguousarray(array) if array.ndim else array
        key = (str(array.dtype), array.shape, array.tobytes()) if array.size <= 64 else None
        if key is not None and key in self._small:
            return self._small[key]
        name = self.fresh(f"{self._title}.constant")
        self.constants[name] = array
        if key is not None:
            self._small[key] = name
        return name

    def integers(self, values: Sequence[int]) -> str:
        """A constant of integers on one axis, as axes and shapes are given."""
        return self.constant(np.asarray(list(values), np.int64))

    def number(self, value: float, data_type: DataType) -> str:
        """A constant of one number, which broadcasts to everything."""
        return self.constant(np.asarray(value, NUMPY_TYPES[data_type]))

    def filled(self, shape: Sequence[int], value: float, data_type: DataType) -> str:
        """A constant that is one number everywhere."""
        return self.constant(np.full(tuple(shape), value, NUMPY_TYPES[data_type]))

    def zeros_like(self, name: str, tensor: LogicalTensor, data_type: DataType) -> str:
        """Zeros of a type, of the shape of what was made of a tensor."""
        if not tensor.shape:
            return self.number(0, data_type)
        return self.node("Cast", self.node("Sub", name, name), to=NUMBERS[data_type])

    # --- what many ops need ------------------------------------------------------------------------------

    def cast(self, name: str, have: DataType, want: DataType) -> str:
        """The same numbers in another type."""
        return name if have is want else self.node("Cast", name, to=NUMBERS[want])

    def reshape(self, name: str, shape: Sequence[int]) -> str:
        """The same elements in another shape; one size may be -1."""
        return self.node("Reshape", name, self.integers(shape), allowzero=int(-1 not in shape))

    def transpose(self, name: str, order: Sequence[int]) -> str:
        """Axes in another order."""
        return name if list(order) == sorted(order) else self.node("Transpose", name, perm=list(order))

    def channels_first(self, tensor: LogicalTensor, op: Op) -> str:
        """Data of the op's data_format as (N, C, X)."""
        name = self.name(tensor)
        if op.attributes.string("data_format") == "NCX":
            return name
        if name not in self._first:
            rank = len(self.shape(tensor, op))
            self._first[name] = self.transpose(name, (0, rank - 1, *range(1, rank - 1)))
        return self._first[name]

    def as_data(self, name: str, rank: int, op: Op) -> str:
        """(N, C, X) as data of the op's data_format."""
        if op.attributes.string("data_format") == "NCX":
            return name
        made = self.transpose(name, (0, *range(2, rank), 1))
        self._first[made] = name  # what follows in the same format needs no way back
        return made

    def along_channels(self, values: LogicalTensor, op: Op, rank: int) -> str:
        """One value per channel so that it broadcasts to data of the op's data_format."""
        if rank < 3 or op.attributes.string("data_format") == "NXC":
            return self.name(values)
        shape = (-1, *[1] * (rank - 2))
        array = self.held(values)
        return (
            self.reshape(self.name(values), shape) if array is None else self.constant(array.reshape(shape))
        )

    def ordered(self, tensor: LogicalTensor, order: Sequence[int]) -> str:
        """A tensor with its axes in another order; what the graph holds is reordered here and now."""
        array = self.held(tensor)
        if array is None or list(order) == sorted(order):
            return self.transpose(self.name(tensor), order)
        return self.constant(array.transpose(order))
