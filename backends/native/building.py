"""Ops and tensors as the library's, and the partitions that its partitioner makes of them."""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from ctypes import POINTER, byref, c_float, c_int64, c_size_t, c_uint8, c_void_p
from typing import Any

from ...graph.model.logical_tensor import LogicalTensor, PropertyType
from ...graph.model.op import Op
from ...ops.attributes import AttributeSpec, AttributeType, AttributeValue
from ...ops.errors import UnsupportedError
from ...ops.schema import UNKNOWN_DIM as UNKNOWN
from ..onednn.library.loading import DATA_TYPES, MAX_NDIMS, loaded_library
from .api import (
    ATTRIBUTES,
    ENGINE_CPU,
    FPMATH_MODES,
    KINDS,
    LAYOUT_ANY,
    LAYOUT_STRIDED,
    PROPERTIES,
    UNKNOWN_DIM,
    UNKNOWN_NDIMS,
    InplacePair,
    LogicalTensorStruct,
    answer,
    call,
    count,
)
from .limits import IGNORED, NEWER


def described(
    tensor: LogicalTensor, *, layout_any: bool = False, constants: bool = False
) -> LogicalTensorStruct:
    """The library's description of a tensor.

    Args:
        tensor: unknown sizes, and an unknown rank, stay unknown.
        layout_any: the library may choose how it lies; else it lies as the tensor says.
        constants: whether the library is told that a constant tensor is one. It keeps what it makes of it then, and
            does not look at the content again.
    """
    made = LogicalTensorStruct()
    kept = constants or tensor.property_type is not PropertyType.constant
    last = PROPERTIES[tensor.property_type if kept else PropertyType.variable]
    data_type, what = DATA_TYPES[tensor.data_type], str(tensor)
    if tensor.shape is None:
        call(
            "logical_tensor_init",
            byref(made),
            tensor.id,
            data_type,
            UNKNOWN_NDIMS,
            LAYOUT_STRIDED,
            last,
            what=what,
        )
        return made
    front = (byref(made), tensor.id, data_type, len(tensor.shape))
    dims = (c_int64 * MAX_NDIMS)(*(UNKNOWN_DIM if d == UNKNOWN else d for d in tensor.shape))
    if layout_any or not tensor.is_concrete:
        layout = LAYOUT_ANY if layout_any else LAYOUT_STRIDED
        call("logical_tensor_init_with_dims", *front, dims, layout, last, what=what)
    else:
        strides = (c_int64 * MAX_NDIMS)(*tensor.element_strides)
        call("logical_tensor_init_with_strides", *front, dims, strides, last, what=what)
    return made


def created(stack: ExitStack, what: str, function: str, *arguments: Any, of: object = "") -> c_void_p:
    """A new handle, which is destroyed with the stack."""
    handle = c_void_p()
    call(function, byref(handle), *arguments, what=of)
    stack.callback(call, f"{what}_destroy", handle)
    return handle


def _set_attribute(handle: c_void_p, op: Op, spec: AttributeSpec, value: AttributeValue) -> None:
    if spec.name in (*IGNORED.get(op.kind, ()), *NEWER.get(op.kind, ())):
        return
    shape = op.inputs[0].shape
    if (
        spec.name in ("pads_begin", "pads_end") and not value and shape is not None
    ):  # no numbers stand for zeros
        value = (0,) * (len(shape) - 2)
    if spec.name == "axis" and isinstance(value, int) and value < 0 and shape is not None:
        value += len(shape)  # some of its ops abort the process for a negative one
    if value == ():
        return
    code, what = ATTRIBUTES[spec.name], f"{spec.name} of {op}"
    match spec.type:
        case AttributeType.string:
            text = str(value).encode()
            call("op_set_attr_str", handle, code, text, len(text), what=what)
        case AttributeType.bool:
            call("op_set_attr_bool", handle, code, (c_uint8 * 1)(value), 1, what=what)
        case AttributeType.s64 | AttributeType.s64_list:
            numbers = value if isinstance(value, tuple) else (value,)
            call("op_set_attr_s64", handle, code, (c_int64 * len(numbers))(*numbers), len(numbers), what=what)
        case AttributeType.f32 | AttributeType.f32_list:
            numbers = value if isinstance(value, tuple) else (value,)
            call("op_set_attr_f32", handle, code, (c_float * len(numbers))(*numbers), len(numbers), what=what)


class LibraryPartition:
    """One partition of the library.

    Attributes:
        handle: of the library.
        ops: their places in the list that the library was given.
        inputs, outputs: ids of its tensors, in the order of its ports; an input may come twice.
    """

    def __init__(self, handle: c_void_p) -> None:
        self.handle = handle
        places = (c_size_t * count("partition_get_op_num", handle))()
        call("partition_get_ops", handle, len(places), places)
        self.ops = tuple(int(place) for place in places)
        self.inputs = self._ports("input")
        self.outputs = self._ports("output")
        self.supported = answer("partition_is_supported", handle)

    def _ports(self, side: str) -> tuple[int, ...]:
        ports = (LogicalTensorStruct * count(f"partition_get_{side}_ports_num", self.handle))()
        call(f"partition_get_{side}_ports", self.handle, len(ports), ports)
        return tuple(int(port.id) for port in ports)


def partitioned(
    stack: ExitStack,
    ops: Sequence[Op],
    kept: Collection[int],
    *,
    fpmath_mode: str,
    policy: int,
    constants: bool = False,
) -> list[LibraryPartition]:
    """The partitions of the library.

    Args:
        stack: owns the handles that are made.
        ops: none that `limits.why_not` bars; those that only mark outputs are left out.
        kept: ids of tensors that somebody beside these ops reads.
        fpmath_mode: the graph's.
        policy: `POLICY_FUSION` or `POLICY_DEBUG`.
        constants: see `described`.

    Raises:
        UnsupportedError: the library refuses an op or the mode.
    """
    if fpmath_mode not in FPMATH_MODES:
        raise UnsupportedError(f"{loaded_library()} has no fpmath mode {fpmath_mode}")
    graph = created(stack, "graph", "graph_create_with_fpmath_mode", ENGINE_CPU, FPMATH_MODES[fpmath_mode])
    for place, op in enumerate(ops):
        if op.outputs:
            _add(graph, stack, place, op, constants)
    # Without an End, the library may keep an output to itself that an op reads too.
    read = {t.id: t for op in ops if op.outputs for t in op.inputs}
    made = {t.id for op in ops for t in op.outputs}
    ended = [t for t in read.values() if t.id in made and t.id in kept]
    for number, tensor in enumerate(ended, len(ops)):
        handle = created(stack, "op", "op_create", number, KINDS["End"], f"end_{number}".encode())
        call("op_add_input", handle, byref(described(tensor)), what=tensor)
        call("add_op", graph, handle, what=tensor)
    call("graph_finalize", graph)
    call("graph_filter", graph, policy)
    handles = (c_void_p * count("graph_get_partition_num", graph))()
    call("graph_get_partitions", graph, len(handles), handles)
    for handle in handles:
        stack.callback(call, "partition_destroy", c_void_p(handle))
    partitions = [LibraryPartition(c_void_p(handle)) for handle in handles]
    return [one for one in partitions if one.outputs]


def _add(graph: c_void_p, stack: ExitStack, place: int, op: Op, constants: bool) -> None:
    name = op.name or f"op_{op.id}"
    handle = created(stack, "op", "op_create", place, KINDS[op.kind], name.encode(), of=op)
    values = dict(op.attributes) | _implied(op)
    for spec in op.schema.attributes:
        if spec.name in values:
            _set_attribute(handle, op, spec, values[spec.name])
    for function, tensors in (("op_add_input", op.inputs), ("op_add_output", op.outputs)):
        for tensor in tensors:
            call(function, handle, byref(described(tensor, constants=constants)), what=op)
    call("add_op", graph, handle, what=op)


def _implied(op: Op) -> dict[str, AttributeValue]:
    """Attributes that the documents let users leave out, and that 3.2 does not do without."""

    def missing(name: str) -> bool:
        return op.attributes.get(name, ()) == ()

    if op.kind in ("Quantize", "Dequantize") and missing("zps"):
        scales = op.attributes.get("scales")
        return {"zps": (0,) * (len(scales) if isinstance(scales, tuple) else 1)}
    shape = op.inputs[0].shape
    if op.kind == "MaxPoolBackward" and missing("dilations") and shape is not None:
        return {"dilations": (1,) * (len(shape) - 2)}
    if op.kind == "ConvolutionBackwardData" and missing("dst_shape") and op.outputs[0].is_concrete:
        return {"dst_shape": op.outputs[0].dims}
    return {}


def inplace_pairs(compiled: c_void_p) -> list[tuple[int, int]]:
    """Inputs and outputs of a compiled partition that may share memory."""
    number, pairs = c_size_t(), POINTER(InplacePair)()
    call("compiled_partition_get_inplace_ports", compiled, byref(number), byref(pairs))
    return [(pairs[i].input_id, pairs[i].output_id) for i in range(number.value)]


def memory_bytes(tensor: LogicalTensorStruct) -> int:
    """How much memory a tensor takes in its layout."""
    size = c_size_t()
    call("logical_tensor_get_mem_size", byref(tensor), byref(size))
    return size.value


def pointers(tensors: Sequence[LogicalTensorStruct]) -> Any:
    """An array of pointers to descriptions."""
    return (POINTER(LogicalTensorStruct) * len(tensors))(*map(ctypes.pointer, tensors))
