"""Files of tensors that are mapped into memory and not read: of what nobody touches, nothing is loaded.

They are in the format of safetensors, with fillers between the tensors, so that each begins at a cache line. Nothing
in such a file is believed before it is checked: a damaged one is one error, never a crash.
"""

from __future__ import annotations

import json
import math
import mmap
import os
from collections.abc import Mapping
from typing import Any, BinaryIO

import ml_dtypes
import numpy as np

from ...ops.records import frozen
from ...ops.values import integer, one_line
from .arrays import Array
from .kinds_of_files import COMPILED, told
from .tensor_files import DTYPES, MAX_HEADER_BYTES, content, header_of
from .text_files import file_error, file_name, reason_of

LINE = 64
"""Bytes; kernels are at their best on what begins at a multiple."""
_FILLER = "__filler"
_TYPES: Mapping[str, np.dtype[Any]] = {
    short: np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name) for name, short in DTYPES.items()
}


@frozen(eq=False)
class MappedTensors:
    """The tensors of a file.

    Attributes:
        source: the file's name, for messages.
        arrays: read-only, by name. The file stays open as long as one of them lives.
        metadata: texts by name.
    """

    source: str
    arrays: Mapping[str, Array]
    metadata: Mapping[str, str]


def write_mapped(file: BinaryIO, arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> None:
    """Writes a whole file, as `map_tensors` reads it.

    Args:
        arrays: by names that do not begin as those of fillers do.
        metadata: texts by name.

    Raises:
        TypeError, ValueError, OSError: see `tensor_files.write_tensors`.
    """
    padded: dict[str, Array] = {}
    for number, (name, array) in enumerate(arrays.items()):
        padded[name] = array
        if array.nbytes % LINE:
            padded[f"{_FILLER}{number}"] = np.zeros(-array.nbytes % LINE, np.uint8)
    file.write(header_of(padded, metadata, LINE))
    for array in padded.values():
        file.write(content(array))


def map_tensors(path: str | os.PathLike[str]) -> MappedTensors:
    """The tensors of a file, of which only the list is read.

    Raises:
        GraphFileError: it can't be read, or is damaged.
        ArgumentTypeError: no path.
    """
    name = file_name(path)
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            length = int.from_bytes(file.read(8), "little")
            if not 2 <= length <= min(size - 8, MAX_HEADER_BYTES):
                raise ValueError("its list of tensors is cut off, or it is another kind of file")
            header: Any = json.loads(file.read(length))
            memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        whole = np.frombuffer(memory, np.uint8)
        metadata = {str(key): str(value) for key, value in header.pop("__metadata__", {}).items()}
        arrays = {str(key): _tensor(whole, 8 + length, key, entry) for key, entry in header.items()}
    except (
        OSError,
        ValueError,
        ArithmeticError,
        LookupError,
        TypeError,
        AttributeError,
        RecursionError,
    ) as error:
        reason = reason_of(error) if isinstance(error, OSError) else one_line(error)
        other = told(path, COMPILED)
        raise file_error(f"{name}: can't be read: {other or reason}", error) from error
    return MappedTensors(name, {k: v for k, v in arrays.items() if not k.startswith(_FILLER)}, metadata)


def _tensor(whole: Array, start: int, name: str, entry: Mapping[str, Any]) -> Array:
    """A tensor of the file, whose tensors begin at `start`.

    Raises:
        ValueError: it is not all there, or its place and its shape contradict each other.
        LookupError, TypeError, AttributeError: its entry has another form.
    """
    dtype, shape = _TYPES[entry["dtype"]], [integer(one) for one in entry["shape"]]
    begin, end = map(integer, entry["data_offsets"])
    if begin is None or end is None or not 0 <= begin <= end <= whole.size - start:
        raise ValueError(f"{one_line(name)} is not all there, the file is cut off or damaged")
    sizes = tuple(one for one in shape if one is not None and one >= 0)
    if len(sizes) != len(shape) or math.prod(sizes) * dtype.itemsize != end - begin:
        raise ValueError(f"{one_line(name)} has a shape that is not that of its content")
    if (start + begin) % LINE and not name.startswith(_FILLER):
        raise ValueError(f"{one_line(name)} does not lie where a tensor can")
    return whole[start + begin : start + end].view(dtype).reshape(sizes)
