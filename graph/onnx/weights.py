"""The large weights of an ONNX file, read where they belong: the rest is small, and ONNX's package reads that.

That package has the whole file in memory three times over: as bytes, as objects, and as arrays. Here the file's
outermost messages are walked through (a ModelProto has its graph, that its initializers, and these their `raw_data`),
without looking into anything else. Where something is not as it usually is, the package reads all.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator
from io import BufferedReader
from typing import Any, cast

import numpy as np

from ...ops.records import frozen
from ..runtime.arrays import Array
from .types import STRING, numpy_type_of

GRAPH, INITIALIZER, RAW_DATA = 7, 5, 9
"""Numbers of fields: of a ModelProto, a GraphProto, a TensorProto; see onnx.proto."""
VARINT, EIGHT_BYTES, MESSAGE, FOUR_BYTES = 0, 1, 2, 5
"""Types on the wire; see protobuf's documentation of its encoding."""
LARGE = 1 << 16
"""Bytes of a tensor from which on it is read apart."""
PACKED = ("int2", "uint2", "int4", "uint4", "float4_e2m1fn")
"""Types of which several elements lie in a byte."""


class _UnusualError(Exception):
    """Something is not as it usually is."""


@frozen
class _Field:
    """A field of a message: its number and type, and where it, its content and what comes after it begin."""

    number: int
    kind: int
    start: int
    content: int
    end: int


def light_and_large(path: str, onnx: Any) -> tuple[Any, dict[str, Array]] | None:
    """The ModelProto of a file without its large initializers' data, and these by name; None where that can't be.

    Raises:
        OSError: the file can't be read.
    """
    if sys.byteorder != "little" or os.path.getsize(path) < LARGE:
        return None
    with open(path, "rb") as file:
        try:
            light, places = _walked(file, os.fstat(file.fileno()).st_size)
            proto = onnx.ModelProto.FromString(light)
            tensors = proto.graph.initializer
            names = [tensor.name for tensor in tensors]
            if not places or len(set(names)) < len(names):
                return None
            return proto, {names[at]: _read(file, tensors[at], *place) for at, place in places.items()}
        except (OSError, MemoryError):
            raise
        except Exception:  # _UnusualError, and whatever the package raises at what is no model
            return None


def _walked(file: BufferedReader, size: int) -> tuple[bytes, dict[int, tuple[int, int]]]:
    """The bytes of a model without its large tensors, and where these lie, by their place among the initializers."""
    fields = list(_fields(file, 0, size))
    graphs = [field for field in fields if field.number == GRAPH]
    if len(graphs) != 1 or graphs[0].kind != MESSAGE:
        raise _UnusualError
    places: dict[int, tuple[int, int]] = {}
    graph, count = bytearray(), 0
    for field in _fields(file, graphs[0].content, graphs[0].end):
        if field.number != INITIALIZER:
            graph += _bytes(file, field.start, field.end)
            continue
        raw = [one for one in _fields(file, field.content, field.end) if one.number == RAW_DATA]
        if len(raw) == 1 and raw[0].kind == MESSAGE and raw[0].end - raw[0].content >= LARGE:
            places[count] = raw[0].content, raw[0].end - raw[0].content
            tensor = _bytes(file, field.content, raw[0].start) + _bytes(file, raw[0].end, field.end)
            graph += _message(INITIALIZER, tensor)
        else:
            graph += _bytes(file, field.start, field.end)
        count += 1
    parts = [
        _message(GRAPH, bytes(graph)) if field.number == GRAPH else _bytes(file, field.start, field.end)
        for field in fields
    ]
    return b"".join(parts), places


def _read(file: BufferedReader, tensor: Any, place: int, size: int) -> Array:
    """The elements of a tensor."""
    unusual = tensor.data_location or tensor.HasField("segment")
    if unusual or tensor.data_type == STRING or min(tensor.dims, default=0) < 0:
        raise _UnusualError
    dtype, shape = numpy_type_of(tensor.data_type), tuple(tensor.dims)
    if dtype.name in PACKED or math.prod(shape) * dtype.itemsize != size:
        raise _UnusualError
    array = np.empty(shape, dtype)
    file.seek(place)
    if file.readinto(cast("Any", array.reshape(-1).view(np.uint8))) != size:
        raise _UnusualError
    return array


# --- protobuf ----------------------------------------------------------------------------------------------


def _fields(file: BufferedReader, start: int, end: int) -> Iterator[_Field]:
    """The fields of the message that lies there."""
    while start < end:
        tag, content = _number(file, start, end)
        number, kind = tag >> 3, tag & 7
        if kind == VARINT:
            _, after = _number(file, content, end)
        elif kind == MESSAGE:
            length, content = _number(file, content, end)
            after = content + length
        elif kind in (EIGHT_BYTES, FOUR_BYTES):
            after = content + (8 if kind == EIGHT_BYTES else 4)
        else:
            raise _UnusualError
        if after > end:
            raise _UnusualError
        yield _Field(number, kind, start, content, after)
        start = after


def _number(file: BufferedReader, place: int, end: int) -> tuple[int, int]:
    """The number that lies there, seven bits in each byte, and where it ends."""
    value = 0
    for count, byte in enumerate(_bytes(file, place, min(place + 10, end))):
        value |= (byte & 127) << (7 * count)
        if byte < 128:
            return value, place + count + 1
    raise _UnusualError


def _message(number: int, content: bytes) -> bytes:
    """A field that holds a message."""
    length, size = bytearray(), len(content)
    while size > 127:
        length.append(size & 127 | 128)
        size >>= 7
    return bytes([number << 3 | MESSAGE, *length, size]) + content


def _bytes(file: BufferedReader, start: int, end: int) -> bytes:
    file.seek(start)
    found = file.read(end - start)
    if len(found) != end - start:
        raise _UnusualError
    return found
