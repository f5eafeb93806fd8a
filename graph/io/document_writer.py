"""From documents to the text of oneDNN Graph's JSON files."""

from __future__ import annotations

import json
import math
import os
from typing import cast

from ...ops.errors import ArgumentTypeError
from ..runtime.text_files import save_text
from .document import AttributeRecord, Document, Interface, OpRecord, TensorRecord
from .document_reader import Place, check_size, document_at


def _tensor_json(tensor: TensorRecord) -> dict[str, object]:
    return {
        "id": tensor.id,
        "dtype": tensor.data_type.value,
        "shape": list(tensor.shape),
        "stride": list(tensor.strides),
        "layout_type": tensor.layout_type.value,
        "property_type": tensor.property_type.value,
    }


def _attribute_json(attribute: AttributeRecord) -> dict[str, object]:
    value = attribute.value
    plain = list(value) if isinstance(value, tuple) else int(value) if isinstance(value, bool) else value
    return {"type": attribute.type.value, "value": plain}


def _op_json(op: OpRecord) -> dict[str, object]:
    values: dict[str, object] = {"id": op.id, "name": op.name, "kind": op.kind}
    if op.attributes_written or op.attributes:
        values["attrs"] = {name: _attribute_json(record) for name, record in op.attributes.items()}
    values["inputs"] = [_tensor_json(tensor) for tensor in op.inputs]
    values["outputs"] = [_tensor_json(tensor) for tensor in op.outputs]
    return values


def _interface_json(interface: Interface) -> dict[str, object]:
    return {
        "names": [{"id": number, "name": name} for number, name in interface.names.items()],
        "inputs": [_tensor_json(tensor) for tensor in interface.inputs],
        "outputs": [
            {"id": output.id} if output.name is None else {"id": output.id, "name": output.name}
            for output in interface.outputs
        ],
    }


def _document_json(document: Document) -> dict[str, object]:
    values: dict[str, object] = {
        "version": document.version,
        "engine_kind": document.engine_kind,
        "fpmath_mode": document.fpmath_mode.value,
    }
    if document.apply_to_int is not None:
        values["fpmath_mode_apply_to_int"] = "true" if document.apply_to_int else "false"
    for key, ports in (("input_ports", document.input_ports), ("output_ports", document.output_ports)):
        if ports is not None:
            values[key] = list(ports)
    values["graph"] = [_op_json(op) for op in document.ops]
    # The library's reader stops at a key that it does not know, and has read all that it needs by then.
    if document.interface is not None:
        values["interface"] = _interface_json(document.interface)
    if document.weights_id is not None:
        values["weights_id"] = document.weights_id
    return values


def _number(value: object) -> str:
    """JSON has no word for infinity, and readers make one of a number that is too large."""
    if isinstance(value, float) and math.isinf(value):
        return "1e999" if value > 0 else "-1e999"
    return repr(value)


def _text(value: object, indent: str = "") -> str:
    """JSON with one attribute or tensor a line, so that what differs between two files is a line.

    Nothing is escaped beyond what JSON demands, since the library's own reader knows no Unicode escapes.
    """
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict):
        entries = cast("dict[str, object]", value)
        flat = not any(isinstance(item, dict) or _holds_objects(item) for item in entries.values())
        inner = "" if flat and indent else indent + "  "
        items = [f"{_text(key)}: {_text(item, inner)}" for key, item in entries.items()]
        brackets = "{}"
    elif isinstance(value, list):
        elements = cast("list[object]", value)
        inner = indent + "  " if _holds_objects(elements) else ""
        items = [_text(item, inner) for item in elements]
        brackets = "[]"
    else:
        return _number(value)
    if not inner or not items:
        return brackets[0] + ", ".join(items) + brackets[1]
    return f"{brackets[0]}\n{inner}" + f",\n{inner}".join(items) + f"\n{indent}{brackets[1]}"


def _holds_objects(value: object) -> bool:
    return isinstance(value, list) and any(isinstance(item, dict) for item in cast("list[object]", value))


def dumps(document: Document) -> str:
    """The document as text, which `loads` reads back to an equal document.

    Keys and their order are the library's.

    Raises:
        GraphFileError: the document breaks a rule of the format, with the JSON path, or would be too large to be read.
        ArgumentTypeError: no Document.
    """
    text = _text(_document_json(checked(document))) + "\n"
    check_size(text, document.source)
    return text


def checked(document: Document) -> Document:
    """The document as it would be read back, since records can be made of anything."""
    if not isinstance(document, Document):  # pyright: ignore[reportUnnecessaryIsInstance] -- users' values
        raise ArgumentTypeError(f"a Document is needed, got a value of type {type(document).__name__}")
    return document_at(Place(document.source), _document_json(document))


def dump(document: Document, path: str | os.PathLike[str]) -> None:
    """Writes the document to a file.

    Raises:
        GraphFileError: the file can't be written, or see `dumps`.
        ArgumentTypeError: no path or no Document.
    """
    save_text(dumps(document), path)
