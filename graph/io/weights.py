"""What has no place in oneDNN Graph's JSON files, in a safetensors file beside one: constants and parameters.

`m.safetensors` belongs to `m.json`, and `net.50.safetensors` to `net.50`. Its tensors are the graph's constants and
parameters by name. Its metadata has the names of all tensors, the order of inputs and outputs, checksums, a fingerprint
of the JSON document, and an id made of all that, which the document has too: so it is never taken for another's.
Files of versions before 0.3 have neither ids nor checksums, and `net.50` had its weights in `net.safetensors`.
Types that readers of such files lack are stored as bytes, u8: 8-bit floats one by one, 4-bit integers two to a byte,
the first of them in the lower half, as their entry's `per_byte` says; without one they lie one by one.
"""

from __future__ import annotations

import glob
import hashlib
import json
import math
import os
import zlib
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from attrs import evolve

from ...ops.data_types import DataType
from ...ops.errors import GraphFileError
from ...ops.records import frozen
from ...ops.values import integer, one_line
from ..core.building import GraphCore
from ..model.logical_tensor import LogicalTensor, PropertyType
from ..runtime.arrays import Array, numpy_type
from ..runtime.libraries import library
from ..runtime.tensor_files import MAX_HEADER_BYTES, content, read_tensors, write_tensors
from ..runtime.text_files import file_name, save_files
from .document import WITHOUT_WEIGHTS, Document
from .document_reader import load
from .document_writer import dumps

KEY = "onednn_graph"
"""The entry of a file's metadata that is ours."""
SUFFIX = ".safetensors"
AS_BYTES = (DataType.f8_e5m2, DataType.f8_e4m3, DataType.s4, DataType.u4)
"""Stored as u8."""
HALF_BYTES = (DataType.s4, DataType.u4)
"""Two of them go in a byte."""


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
    name = os.fsdecode(path)
    return Path(f"{name[:-5] if name.lower().endswith('.json') else name}{SUFFIX}")


def former_weights_path(path: str | os.PathLike[str]) -> Path:
    """Where versions before 0.3 put them."""
    name = os.fsdecode(path)
    return Path(os.path.splitext(name)[0] + SUFFIX)


@frozen(kw_only=True, eq=False)
class Stored:
    """What such a file is to hold.

    Attributes:
        id: which the JSON file has too.
        arrays: by their keys.
        text: the metadata.
    """

    id: str
    arrays: Mapping[str, Array]
    text: str

    @classmethod
    def of(cls, graph: GraphCore, document: Document) -> Stored:
        """What belongs to the graph of a document."""
        arrays: dict[str, Array] = {}

        def entry(tensor: LogicalTensor, array: Array) -> dict[str, object]:
            key = _key(tensor, arrays)
            short = tensor.data_type in HALF_BYTES
            arrays[key] = stored = packed(array) if short else array
            told: dict[str, object] = {"key": key, "crc32": _checksum(stored)}
            return {**told, "per_byte": 2} if short else told

        described = {"document": _fingerprint(document), **described_interface(graph, entry)}
        name = _id(described)
        return cls(id=name, arrays=arrays, text=json.dumps({"id": name, **described}, ensure_ascii=False))

    def write(self, file: BinaryIO) -> None:
        """Writes it to an open file; raises ValueError for a name that can't be, as one of half a character."""
        write_tensors(file, self.arrays, {KEY: self.text})


def described_interface(
    graph: GraphCore, entry: Callable[[LogicalTensor, Array], Mapping[str, object]]
) -> dict[str, object]:
    """What JSON files of graphs don't tell of a graph, which `weights_in` reads.

    Args:
        entry: what to add about something that the graph holds, the `key` of its array among it; takes the elements
            in a type that files have.
    """
    contents = {**graph.held_constants, **{i: one.array for i, one in graph.held_parameters.items()}}
    entries: dict[int, dict[str, object]] = {}
    for number, array in contents.items():
        tensor = graph.tensor(number)
        stored = array.view(np.uint8) if tensor.data_type in AS_BYTES else array
        entries[number] = {**described_tensor(tensor), **entry(tensor, stored)}
    return {
        "names": {str(t.id): t.name for t in graph.tensors if t.name},
        "inputs": [described_tensor(t) for t in graph.inputs],
        "constants": [entries[t.id] for t in graph.constant_tensors],
        "parameters": [entries[t.id] for t in graph.parameter_tensors],
        "assigned": [(parameter.id, value.id) for parameter, value in graph.assignments],
        "outputs": graph.marked_outputs,
    }


def _key(tensor: LogicalTensor, taken: Collection[str]) -> str:
    """A name for a tensor in the file: its own, where that is one and nobody else's."""
    candidates = (tensor.name, f"tensor_{tensor.id}", *(f"tensor_{tensor.id}_{i}" for i in range(len(taken))))
    return next(name for name in candidates if name not in ("", "__metadata__") and name not in taken)


def save_pair(graph: GraphCore, document: Document, path: str | os.PathLike[str]) -> None:
    """Writes both files of a graph, or none.

    Args:
        document: the graph's.
        path: of the JSON file.

    Raises:
        GraphFileError: one can't be written, or the place of the weights is another's.
        UnsupportedError: the package safetensors, which reads the second one, is not installed.
    """
    library("safetensors", "weights", "Graph.save with weights")
    stored = Stored.of(graph, document)
    text = dumps(evolve(document, weights_id=stored.id)).encode()
    beside = weights_path(path)
    _check_place(beside, Path(path))
    save_files({beside: stored.write, path: lambda file: file.write(text)})


def _check_place(beside: Path, path: Path) -> None:
    """Whether weights can be written there: nothing is lost but what belongs to the JSON file that is replaced."""
    there = metadata_of(beside)
    if there is None or not os.path.lexists(beside):
        return  # whether it can be written at all, writing will show
    if "document" not in there:
        raise GraphFileError(
            f"{file_name(beside)}: was not written by Graph.save and would be lost; take it away, or save the graph "
            "under another name"
        )
    owners = _owners(beside, there, path)
    if owners:
        raise GraphFileError(
            f"{file_name(beside)}: holds the weights of {file_name(owners[0])}, which would be lost; save the graph "
            "under another name"
        )


def _owners(beside: Path, metadata: Mapping[str, Any], path: Path) -> list[Path]:
    """Other files than the one at `path` that the weights of this metadata may belong to."""
    place = weights_path if "id" in metadata else former_weights_path
    found: list[Path] = []
    for other in sorted(beside.parent.glob(f"{glob.escape(beside.name.removesuffix(SUFFIX))}*")):
        same = other == path or (path.exists() and other.samefile(path))
        if same or other.suffix == SUFFIX or place(other) != beside or not other.is_file():
            continue
        with suppress(GraphFileError):
            document = load(other)
            if _matches(document, metadata):
                found.append(other)
    return found


def _matches(document: Document, metadata: Mapping[str, Any]) -> bool:
    return metadata.get("id") == document.weights_id and metadata.get("document") == _fingerprint(document)


def of_an_older_version(document: Document, path: str | os.PathLike[str]) -> Path | None:
    """The file of a version without ids that would be taken for a document's, which has no id either."""
    beside, former = weights_path(path), former_weights_path(path)
    for place in (beside, former):
        there = metadata_of(place) or {}
        if "document" in there and "id" not in there and (place == beside or _matches(document, there)):
            return place
    return None


def weights_of(document: Document, path: str | os.PathLike[str], wanted: bool | None) -> Weights | None:
    """The weights that belong to the JSON file at `path`.

    Args:
        wanted: None for those that there are.

    Raises:
        GraphFileError: those that are there can't be read, are damaged, or were written with another document; there
            are none that were wanted.
        UnsupportedError: the package safetensors is not installed.
    """
    beside = weights_path(path)
    if document.weights_id == WITHOUT_WEIGHTS:
        if wanted:
            raise GraphFileError(
                f"{document.source}: was saved without weights; save the graph anew with weights=True, or load with "
                "weights=False"
            )
        return None
    if document.weights_id is not None:
        return read_weights(beside, document) if wanted or beside.exists() else None
    old = of_an_older_version(document, path)
    if old is None:
        return read_weights(beside, document) if wanted else None
    owners = _owners(old, metadata_of(old) or {}, Path(path))
    if owners:
        raise GraphFileError(
            f"{file_name(old)}: may belong to {document.source} or to {file_name(owners[0])}, since an older version "
            "gave both the same file; move the one away that it is not of, or load with weights=False"
        )
    return read_weights(old, document)


def metadata_of(path: Path) -> Mapping[str, Any] | None:
    """The metadata that is ours in a file, read without its arrays; None where there is no such file.

    An empty mapping is of a file that `Graph.save` has not written; one that it has has a `document`.
    """
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header: Any = json.loads(file.read(size)) if size <= MAX_HEADER_BYTES else {}
        text = header["__metadata__"][KEY]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return {}
    damaged: Mapping[str, Any] = {"document": None}
    try:
        content: Any = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return damaged
    return (
        cast("Mapping[str, Any]", content) if isinstance(content, dict) and "document" in content else damaged
    )


def read_weights(path: Path, document: Document) -> Weights:
    """What the file beside a document's holds.

    Raises:
        GraphFileError: it can't be read, is damaged, or was written with another document.
        UnsupportedError: the package safetensors is not installed.
    """
    name = file_name(path)
    arrays, metadata = read_tensors(path)
    text = metadata.get(KEY)
    if text is None:
        raise GraphFileError(
            f"{name}: was not written by Graph.save, for its metadata has no '{KEY}'; load with weights=False"
        )
    try:
        content: Any = json.loads(text)
        number, fingerprint = content.pop("id", None), content["document"]
        whole = number is None or number == _id(content)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise GraphFileError(f"{name}: its metadata is damaged ({one_line(error)})") from error
    if not whole:
        raise GraphFileError(f"{name}: its metadata is damaged (its id is of another content)")
    if number != document.weights_id or fingerprint != _fingerprint(document):
        raise GraphFileError(
            f"{name}: was written with another graph than {document.source}, or one of the two was saved again without "
            "the other; save the graph anew with weights=True, or load with weights=False"
        )
    try:
        return weights_in(name, content, arrays)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise GraphFileError(f"{name}: its metadata is damaged ({one_line(error)})") from error


def weights_in(source: str, content: Any, arrays: Mapping[str, Array]) -> Weights:
    """What `described_interface` has told of a graph.

    Args:
        source: the file's name, for messages.
        content: what was told. Of arrays with a checksum that is checked.
        arrays: by key.

    Raises:
        ValueError, LookupError, TypeError, AttributeError: it was told by somebody else.
    """
    names = {int(number): str(name) for number, name in content["names"].items()}

    def held(described: Mapping[str, Any], property_type: PropertyType) -> tuple[LogicalTensor, Array]:
        tensor = tensor_in(described, names, property_type)
        key = described.get("key", tensor.name)
        stored = arrays[key]
        if "crc32" in described and described["crc32"] != _checksum(stored):
            raise ValueError(f"{one_line(key)} is not what was saved")
        if "per_byte" in described:
            return tensor, _unpacked(stored, tensor, described["per_byte"])
        return tensor, stored.view(numpy_type(tensor.data_type)) if tensor.data_type in AS_BYTES else stored

    outputs = [(name if name is None else str(name), _number(number)) for name, number in content["outputs"]]
    return Weights(
        source=source,
        names=names,
        inputs=tuple(
            tensor_in(described, names, described["property_type"]) for described in content["inputs"]
        ),
        constants=tuple(held(one, PropertyType.constant) for one in content["constants"]),
        parameters=tuple(held(one, PropertyType.variable) for one in content.get("parameters", ())),
        assigned=tuple((_number(one), _number(value)) for one, value in content.get("assigned", ())),
        outputs=tuple(outputs),
    )


def packed(array: Array) -> Array:
    """4-bit integers that lie in a byte each, two to a byte; behind the last of an odd number is a zero."""
    halves = np.pad(array.reshape(-1).view(np.uint8) & 15, (0, array.size % 2))
    return halves[::2] | halves[1::2] << 4


def with_unpacked(content: Any, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Arrays by key, with what was packed as it was, each once for all graphs that hold it.

    Args:
        content: what `described_interface` has told of a graph. arrays: by key, packed or not.

    Raises:
        ValueError, LookupError, TypeError, AttributeError: it was told by somebody else.
    """
    found = dict(arrays)
    for described in (*content["constants"], *content.get("parameters", ())):
        if "per_byte" in described:
            tensor, key = tensor_in(described, {}, PropertyType.constant), described["key"]
            found[key] = _unpacked(found[key], tensor, described["per_byte"])
            found[key].flags.writeable = False
    return found


def _unpacked(stored: Array, tensor: LogicalTensor, per_byte: object) -> Array:
    """What was packed; itself where it is not any more.

    Raises:
        ValueError: it was packed by somebody else.
    """
    shape = tensor.dims
    if stored.dtype == numpy_type(tensor.data_type) and stored.shape == shape:
        return stored
    count = math.prod(shape)
    if per_byte != 2 or tensor.data_type not in HALF_BYTES:
        raise ValueError(f"{tensor.data_type.value} is not stored {one_line(per_byte)} to a byte")
    if stored.dtype != np.uint8 or stored.shape != ((count + 1) // 2,):
        raise ValueError(f"{one_line(tensor)} has not the bytes of its {count} elements")
    if count % 2 and stored[-1] > 15:
        raise ValueError(f"{one_line(tensor)} has more than its {count} elements")
    halves = np.stack([stored & 15, stored >> 4], axis=-1).reshape(-1)[:count].reshape(shape)
    if tensor.data_type is DataType.s4:
        halves = (halves << 4).view(np.int8) >> 4
    return halves.astype(numpy_type(tensor.data_type))


def described_tensor(tensor: LogicalTensor) -> dict[str, object]:
    """All of a tensor but its name, as JSON has it."""
    return {
        "id": tensor.id,
        "data_type": tensor.data_type.value,
        "shape": tensor.shape,
        "strides": tensor.strides,
        "layout_type": tensor.layout_type.value,
        "property_type": tensor.property_type.value,
    }


def tensor_in(described: Mapping[str, Any], names: Mapping[int, str], property_type: str) -> LogicalTensor:
    """The tensor that `described_tensor` has told of."""
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
    return hashlib.sha256(dumps(evolve(document, weights_id=None)).encode()).hexdigest()


def _id(described: Mapping[str, Any]) -> str:
    """Of everything that a file holds, its arrays by their checksums."""
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:32]


def _checksum(array: Array) -> int:
    return zlib.crc32(content(array))
