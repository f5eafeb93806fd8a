"""Files in the format of safetensors: written to an open file without a copy in memory, and read.

The package writes to a path, which it cuts first, or makes one string of bytes of it all. What is written here goes
into a file that takes its place when it is whole, and tensors are as large as memory. The package reads it.
Source: the format's description in the documentation of safetensors.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import BinaryIO

import numpy as np

from ...ops.values import one_line
from .arrays import Array
from .kinds_of_files import CHECKPOINT, COMPILED, TENSORS, WEIGHTS, told
from .libraries import library
from .text_files import file_error, file_name, reason_of

DTYPES = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "uint16": "U16",
    "int16": "I16",
    "float16": "F16",
    "bfloat16": "BF16",
    "int32": "I32",
    "uint32": "U32",
    "float32": "F32",
    "int64": "I64",
    "uint64": "U64",
    "float64": "F64",
}
"""NumPy's names of types, and the format's."""
_ALIGNMENT = 8
MAX_HEADER_BYTES = 10**8
"""Of names, shapes and metadata: what the package reads at most."""


def write_tensors(file: BinaryIO, arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> None:
    """Writes a whole file.

    Args:
        arrays: C-contiguous or not, in the byte order of the machine or not; the largest elements come first, so that
            each lies where its elements like to.
        metadata: texts by their names.

    Raises:
        TypeError: the format has no such data type.
        ValueError: a text is no Unicode, or names and metadata are more than is ever read.
        OSError: it can't be written.
    """
    order = sorted(arrays, key=lambda name: -arrays[name].itemsize)
    file.write(header_of({name: arrays[name] for name in order}, metadata))
    for name in order:
        file.write(content(arrays[name]))


def header_of(arrays: Mapping[str, Array], metadata: Mapping[str, str], alignment: int = _ALIGNMENT) -> bytes:
    """What stands before the tensors of a file, up to a multiple of `alignment` bytes; see `write_tensors`.

    Args:
        arrays: in the order in which they follow.
        metadata: texts by their names.
        alignment: as above.

    Raises:
        TypeError, ValueError: see `write_tensors`.
    """
    header: dict[str, object] = {"__metadata__": dict(metadata)}
    begin = 0
    for name, array in arrays.items():
        if array.dtype.name not in DTYPES:
            raise TypeError(f"{name!r} is {array.dtype}, for which files have no type")
        end = begin + array.nbytes
        header[name] = {
            "dtype": DTYPES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [begin, end],
        }
        begin = end
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % alignment)
    if len(text) > MAX_HEADER_BYTES:
        raise ValueError(
            f"names and metadata may have at most {MAX_HEADER_BYTES} bytes in such a file, got {len(text)}"
        )
    return len(text).to_bytes(8, "little") + text


def content(array: Array) -> memoryview:
    """The bytes of an array as they stand in a file: row by row, the lowest of each number first."""
    little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
    return little.reshape(-1).view(np.uint8).data


def read_tensors(path: str | os.PathLike[str]) -> tuple[dict[str, Array], Mapping[str, str]]:
    """The tensors and the metadata of a whole file, by their names.

    Raises:
        GraphFileError: it can't be read, or is damaged.
        UnsupportedError: the package safetensors is not installed.
    """
    name = file_name(path)
    safetensors = library("safetensors", "weights", f"reading {name}")
    try:
        with safetensors.safe_open(os.fspath(path), framework="numpy") as file:
            metadata: Mapping[str, str] = file.metadata() or {}
            arrays: dict[str, Array] = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 -- no mapping
    except Exception as error:  # the package has an exception of its own
        other = told(path, COMPILED, CHECKPOINT, WEIGHTS, TENSORS)
        raise file_error(f"{name}: can't be read: {other or in_words(error)}", error) from error
    return arrays, metadata


def in_words(error: Exception) -> str:
    """Why a file can't be read or written, on one line."""
    return reason_of(error) if isinstance(error, OSError | ValueError) else one_line(error)
