"""From a graph to a model of ONNX, and into a file."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ...ops.data_types import DataType
from ...ops.errors import GraphFileError, UnsupportedError
from ...ops.schema import UNKNOWN_DIM
from ...ops.values import format_value
from ..core.building import GraphCore
from ..model.logical_tensor import LogicalTensor, label
from ..model.numpy_types import DATA_TYPES
from ..model.op import Op
from ..model.topology import topological
from ..runtime.arrays import Array
from ..runtime.libraries import library
from ..runtime.text_files import file_name, is_text, save_files
from .table import TABLE
from .writing import NEWER_OPSET, NUMBERS, OPSET, Writing

IR_VERSIONS = {OPSET: 9, NEWER_OPSET: 10}
"""Of the format, by opset: the one that came with it, so that runtimes which know the opset read the file."""
LARGEST = 2**31 - 2**20
"""Bytes of a model in one file; protobuf has no more than 2 GiB."""
SMALL = 1024
"""Bytes up to which a constant is in the model's own file: shapes and axes, which runtimes read before all others."""
ALIGNMENT = 4096
"""Of arrays in a file beside the model's, so that they can be mapped."""
TRAINING = ("Dropout", "BatchNormForwardTraining", "HostSGD", "HostAdam", "HostUpdate", "HostGradientScale")


SizeNames = Mapping[str, Sequence[str | None]]
"""Names of the sizes of inputs and outputs; None for one that has none."""


def to_onnx(graph: GraphCore, sizes: SizeNames, path: str | os.PathLike[str]) -> None:
    """See `Graph.to_onnx`.

    Args:
        sizes: of those that are not known.
    """
    file_name(path)
    target = Path(path)
    writing, model = _written(graph, sizes)
    size = sum(array.nbytes for array in writing.constants.values())
    beside = target.with_name(f"{target.name}.data")
    contents: dict[str | os.PathLike[str], Callable[[BinaryIO], object]] = {}
    if size > LARGEST:
        contents[beside] = lambda file: _write_beside(file, writing, model, beside.name)
    else:
        for key, array in writing.constants.items():
            model.graph.initializer.append(_tensor(writing.onnx, key, array))
    contents[target] = lambda file: file.write(model.SerializeToString())
    save_files(contents)


def model_of(graph: GraphCore) -> Any:
    """The ModelProto of a graph, with its constants inside.

    Raises:
        UnsupportedError: see `Graph.to_onnx`; the model is larger than protobuf has them.
    """
    writing, model = _written(graph, {})
    if sum(array.nbytes for array in writing.constants.values()) > LARGEST:
        raise UnsupportedError(
            "a model of more than 2 GiB is no single message; write it to a file, graph.to_onnx(path)"
        )
    for key, array in writing.constants.items():
        model.graph.initializer.append(_tensor(writing.onnx, key, array))
    return model


def _written(graph: GraphCore, sizes: SizeNames) -> tuple[Writing, Any]:
    """The nodes of a graph, and a model that lacks only the constants."""
    onnx = library("onnx", "onnx", "to_onnx")
    _check(graph)
    known = copy.copy(graph)
    if not known.finalized:
        known.finalize()
    writing = Writing(known, onnx)
    inputs = [
        _described(writing, tensor, writing.fresh(label(tensor)), sizes.get(label(tensor)))
        for tensor in known.inputs
    ]
    for tensor, info in zip(known.inputs, inputs, strict=True):
        writing.call(tensor, info.name)
    given = {info.name for info in inputs}
    wanted = [(writing.fresh(name), known.tensor(number)) for name, number in _outputs(known)]
    for op in topological(known.ops):
        _write(writing, op)
    _name_outputs(writing, wanted, given)
    named = [sizes.get(name) for name, _ in _outputs(known)]
    outputs = [
        _described(writing, tensor, name, dims) for (name, tensor), dims in zip(wanted, named, strict=True)
    ]
    _drop_unread(writing, {name for name, _ in wanted})
    helper = onnx.helper
    made = helper.make_graph(writing.nodes, "onednn_graph", inputs, outputs)
    opsets = [helper.make_opsetid(domain, version) for domain, version in writing.opsets.items()]
    model = helper.make_model(
        made, opset_imports=opsets, ir_version=IR_VERSIONS[writing.opsets[""]], producer_name="onednn_graph"
    )
    return writing, model


def _check(graph: GraphCore) -> None:
    """Whether all ops can be written.

    Raises:
        UnsupportedError: one can't be, or the graph assigns to its parameters.
        GraphFileError: a name is no text that a file can hold.
    """
    for name in (*(label(t) for t in graph.tensors), *(op.name for op in graph.ops), *graph.output_names):
        if not is_text(name):
            raise GraphFileError(
                f"to_onnx: names must be text without lone surrogates, got {format_value(name)}; give it another name"
            )
    foreign = [op for op in graph.ops if op.kind not in TABLE and op.kind != "End"]
    if foreign:
        kinds = sorted({op.kind for op in foreign})
        trains = any("Backward" in kind or kind in TRAINING for kind in kinds)
        way = "; graph.for_inference() is the model without its training" if trains else ""
        raise UnsupportedError(f"to_onnx: ONNX has no op for {', '.join(kinds)}, as {foreign[0]} is{way}")
    if graph.assignments:
        parameter, _ = graph.assignments[0]
        raise UnsupportedError(
            f"to_onnx: the graph assigns to its parameter {label(parameter)!r}, and a model of ONNX has no state; "
            "graph.for_inference() is the model without its training"
        )


def _outputs(graph: GraphCore) -> list[tuple[str, int]]:
    """Name and tensor of each output, in order."""
    marked = [number for _, number in graph.marked_outputs]
    others = [t.id for t in graph.outputs if t.id not in set(marked)]
    return list(zip(graph.output_names, [*marked, *others], strict=True))


def _described(
    writing: Writing, tensor: LogicalTensor, name: str, called: Sequence[str | None] | None
) -> Any:
    """What a model says of an input or an output."""
    shape = writing.graph.tensor(tensor.id).shape
    sizes = (
        None
        if shape is None
        else [
            size if size != UNKNOWN_DIM else None if called is None else called[axis]
            for axis, size in enumerate(shape)
        ]
    )
    return writing.onnx.helper.make_tensor_value_info(name, NUMBERS[tensor.data_type], sizes)


def _write(writing: Writing, op: Op) -> None:
    if op.kind == "End":
        return
    if any(t.data_type in (DataType.s4, DataType.u4) for t in (*op.inputs, *op.outputs)):
        writing.need()
    writing.entitle(op.name or f"{op.kind}_{op.id}")
    before = len(writing.nodes)
    found = TABLE[op.kind](writing, op)
    narrow = any(t.data_type is DataType.bf16 for t in (*op.inputs, *op.outputs))
    if narrow and not all(_takes_bf16(writing.onnx, node) for node in writing.nodes[before:]):
        del writing.nodes[before:]
        wide = op.with_tensors(
            *([writing.widened(t) for t in tensors] for tensors in (op.inputs, op.outputs))
        )
        found = TABLE[op.kind](writing, wide)
        names = [found] if isinstance(found, str) else found
        found = [
            writing.cast(name, have.data_type, want.data_type) if name else name
            for name, have, want in zip(names, wide.outputs, op.outputs, strict=True)
        ]
    made = {name for node in writing.nodes[before:] for name in node.output}
    for tensor, name in zip(op.outputs, [found] if isinstance(found, str) else found, strict=True):
        writing.call(tensor, name)
        if name in made and name not in writing.titles:
            writing.titles[name] = writing.fresh(label(tensor))


def _takes_bf16(onnx: Any, node: Any) -> bool:
    """Whether an op of ONNX has bf16 wherever it has f32."""
    if node.domain:
        return True
    schema = onnx.defs.get_schema(node.op_type, OPSET)
    return all(
        "tensor(bfloat16)" in allowed.allowed_type_strs or "tensor(float)" not in allowed.allowed_type_strs
        for allowed in schema.type_constraints
    )


def _name_outputs(writing: Writing, wanted: list[tuple[str, LogicalTensor]], given: set[str]) -> None:
    """Has the model's outputs, and what else the graph has names for, under their names."""
    made = {name for node in writing.nodes for name in node.output}
    outputs: dict[str, str] = {}
    for name, tensor in wanted:
        have = writing.name(tensor)
        if have in made and have not in outputs and have not in given:
            outputs[have] = name
        else:
            node = writing.onnx.helper.make_node("Identity", [have], [name], name=name)
            writing.nodes.append(node)
    renamed = writing.titles | outputs
    for node in writing.nodes:
        node.name = renamed.get(node.name, node.name)
        for names in (node.input, node.output):
            for place, name in enumerate(names):
                if name in renamed:
                    names[place] = renamed[name]


def _drop_unread(writing: Writing, wanted: set[str]) -> None:
    """Leaves out nodes and constants that no output needs."""
    needed, kept = set(wanted), list[Any]()
    for node in reversed(writing.nodes):
        if needed.intersection(node.output):
            needed.update(node.input)
            kept.append(node)
    writing.nodes = kept[::-1]
    writing.constants = {name: array for name, array in writing.constants.items() if name in needed}


# --- constants -------------------------------------------------------------------------------------------


def _number(array: Array) -> int:
    return NUMBERS[DATA_TYPES[array.dtype]]


def _bytes(array: Array) -> bytes:
    """Elements as ONNX has them: little endian, and of 4 bits two in a byte."""
    if str(array.dtype) in ("int4", "uint4"):
        flat = array.reshape(-1).astype(np.uint8) & 15
        flat = np.append(flat, np.zeros(flat.size % 2, np.uint8))
        return (flat[::2] | flat[1::2] << 4).tobytes()
    return array.tobytes()


def _tensor(onnx: Any, name: str, array: Array) -> Any:
    return onnx.TensorProto(name=name, data_type=_number(array), dims=array.shape, raw_data=_bytes(array))


def _write_beside(file: BinaryIO, writing: Writing, model: Any, beside: str) -> None:
    """Writes constants into a file of their own, and says in the model where each lies."""
    at = 0
    for name, array in writing.constants.items():
        if array.nbytes <= SMALL:
            model.graph.initializer.append(_tensor(writing.onnx, name, array))
            continue
        data = _bytes(array)
        start = -(-at // ALIGNMENT) * ALIGNMENT
        file.write(bytes(start - at))
        file.write(data)
        at = start + len(data)
        tensor = writing.onnx.TensorProto(name=name, data_type=_number(array), dims=array.shape)
        tensor.data_location = writing.onnx.TensorProto.EXTERNAL
        for key, value in {"location": beside, "offset": start, "length": len(data)}.items():
            tensor.external_data.add(key=key, value=str(value))
        model.graph.initializer.append(tensor)
