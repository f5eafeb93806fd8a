"""What oneDNN Graph's JSON format has no place for, in a safetensors file beside it: constants, parameters, names.

`m.safetensors` belongs to `m.json`. Its tensors are the graph's constants and parameters by name. Its metadata has
the names of all tensors, the order of inputs and outputs, and a fingerprint of the JSON document, so that it is never
taken for another.
Types that readers of such files lack (8-bit floats, 4-bit integers) are stored as bytes, u8.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
from attrs import frozen

from ...ops.data_types import DataType
from ...ops.errors import GraphFileError
from ...ops.values import integer, one_line
from ..graph import Graph
from ..model.logical_tensor import LogicalTensor, PropertyType
from ..runtime.arrays import Array, numpy_type
from ..runtime.libraries import library
from ..runtime.text_files import file_error, file_name, reason_of
from .document import Document
from .document_writer import dumps

KEY = "onednn_graph"
"""The entry of a file's metadata that is ours."""
AS_BYTES = (DataType.f8_e5m2, DataType.f8_e4m3, DataType.s4, DataType.u4)
"""Stored as u8."""


@frozen(kw_only=True, eq=False)
class Weights:
    """What such a file says of a graph.

    Attributes:
        source: the file's name, for messages.
        names: of tensors, by id.
        inputs: those of the graph, in order.
        constants, parameters: tensors and their arrays.
        assigned: ids of parameters and of the tensors that are assigned to them.
        outputs: name, None for the tensor's own, and id of each, in order.
    """

    source: str
    names: Mapping[int, str]
    inputs: tuple[LogicalTensor, ...]
    constants: tuple[tuple[LogicalTensor, Array], ...]
    parameters: tuple[tuple[LogicalTensor, Array], ...]
    assigned: tuple[tuple[int, int], ...]
    outputs: tuple[tuple[str | None, int], ...]


def weights_path(path: str | os.PathLike[str]) -> Path:
    """Where the constants of the graph in a JSON file lie."""
    return Path(path).with_suffix(".safetensors")


def save_weights(graph: Graph, document: Document, path: Path) -> None:
    """Writes the file; one of that name is replaced when the new one is complete.

    Args:
        document: the graph's.

    Raises:
        GraphFileError: it can't be written.
        UnsupportedError: the package safetensors is not installed.
    """
    numpy = library("safetensors.numpy", "weights", "Graph.save with weights")
    described = {
        "document": _fingerprint(document),
        "names": {str(t.id): t.name for t in graph.tensors if t.name},
        "inputs": [_described(t) for t in graph.inputs],
        "constants": [_described(t) for t in graph.constant_tensors],
        "parameters": [_described(t) for t in graph.parameter_tensors],
        "assigned": [(parameter.id, value.id) for parameter, value in graph.assignments],
        "outputs": graph.marked_outputs,
    }
    held = (*graph.constant_tensors, *graph.parameter_tensors)
    contents = (*graph.constants.values(), *graph.parameters.values())
    arrays = {
        t.name: array.view(np.uint8) if t.data_type in AS_BYTES else array
        for t, array in zip(held, contents, strict=True)
    }
    if "__metadata__" in arrays:
        raise GraphFileError(
            f"{file_name(path)}: a constant can't be called '__metadata__' there; give it another name"
        )
    part = path.with_name(f"{path.name}.part")
    try:
        numpy.save_file(arrays, part, metadata={KEY: json.dumps(described, ensure_ascii=False)})
        os.replace(part, path)
    except Exception as error:  # the package has an exception of its own
        part.unlink(missing_ok=True)
        raise file_error(f"{file_name(path)}: can't be written: {_reason(error)}", error) from error


def read_weights(path: Path, document: Document) -> Weights:
    """What the file beside a document's holds.

    Raises:
        GraphFileError: it can't be read, is damaged, or was written with another document.
        UnsupportedError: the package safetensors is not installed.
    """
    name = file_name(path)
    safetensors = library("safetensors", "weights", f"reading {name}")
    try:
        with safetensors.safe_open(os.fspath(path), framework="numpy") as file:
            metadata: Mapping[str, str] = file.metadata() or {}
            arrays: dict[str, Array] = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 -- no mapping
    except Exception as error:  # the package has an exception of its own
        raise file_error(f"{name}: can't be read: {_reason(error)}", error) from error
    text = metadata.get(KEY)
    if text is None:
        raise GraphFileError(
            f"{name}: was not written by Graph.save, for its metadata has no '{KEY}'; load with weights=False"
        )
    try:
        content: Any = json.loads(text)
        matches = content["document"] == _fingerprint(document)
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise GraphFileError(f"{name}: its metadata is damaged ({one_line(error)})") from error
    if not matches:
        raise GraphFileError(
            f"{name}: was written with another graph than {document.source}; save the graph anew with weights=True, or "
            "load with weights=False"
        )
    try:
        return _weights(name, content, arrays)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise GraphFileError(f"{name}: its metadata is damaged ({one_line(error)})") from error


def _weights(source: str, content: Any, arrays: Mapping[str, Array]) -> Weights:
    names = {int(number): str(name) for number, name in content["names"].items()}

    def held(described: Mapping[str, Any], property_type: PropertyType) -> tuple[LogicalTensor, Array]:
        tensor = _tensor(described, names, property_type)
        stored = arrays[tensor.name]
        return tensor, stored.view(numpy_type(tensor.data_type)) if tensor.data_type in AS_BYTES else stored

    outputs = [(name if name is None else str(name), _number(number)) for name, number in content["outputs"]]
    return Weights(
        source=source,
        names=names,
        inputs=tuple(
            _tensor(described, names, described["property_type"]) for described in content["inputs"]
        ),
        constants=tuple(held(one, PropertyType.constant) for one in content["constants"]),
        parameters=tuple(held(one, PropertyType.variable) for one in content.get("parameters", ())),
        assigned=tuple((_number(one), _number(value)) for one, value in content.get("assigned", ())),
        outputs=tuple(outputs),
    )


def _described(tensor: LogicalTensor) -> dict[str, object]:
    return {
        "id": tensor.id,
        "data_type": tensor.data_type.value,
        "shape": tensor.shape,
        "strides": tensor.strides,
        "layout_type": tensor.layout_type.value,
        "property_type": tensor.property_type.value,
    }


def _tensor(described: Mapping[str, Any], names: Mapping[int, str], property_type: str) -> LogicalTensor:
    number = _number(described["id"])
    return LogicalTensor(
        number,
        described["data_type"],
        described["shape"],
        layout_type=described["layout_type"],
        strides=described["strides"],
        property_type=property_type,
        name=names.get(number, ""),
    )


def _number(value: object) -> int:
    number = integer(value)
    if number is None:
        raise ValueError(f"an id must be an integer, got {one_line(value)}")
    return number


def _fingerprint(document: Document) -> str:
    """The same for all files that say the same."""
    return hashlib.sha256(dumps(document).encode()).hexdigest()


def _reason(error: Exception) -> str:
    return reason_of(error) if isinstance(error, OSError | ValueError) else one_line(cast("object", error))
