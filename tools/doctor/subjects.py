"""What is examined: a file or a name, and the inputs that it is run on."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...graph.runtime.arrays import Array
from ...graph.runtime.text_files import file_error, reason_of
from ...ops.errors import ArgumentError
from ...ops.records import frozen
from ...ops.values import format_value, one_line
from ..graph_files import GraphFile

DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
SHAPE = re.compile(r"(?P<name>[^=]+)=(?:(?P<type>[a-z]+[0-9]+|bool):)?(?P<sizes>[0-9]+(?:x[0-9]+)*|)")
TYPES = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "s64": "int64",
    "i64": "int64",
    "s32": "int32",
    "i32": "int32",
    "s8": "int8",
    "u8": "uint8",
    "bool": "bool",
}
"""Types of inputs by how they are written, and their names in NumPy and torch."""


@frozen(kw_only=True)
class Subject:
    """What the user has named.

    Attributes:
        text: as it was written.
        kind: `torch` or `onnx`.
        path: of the file; empty for what is imported.
        module: to import; empty for a file.
        name: of the model in there; empty for the usual ones.
    """

    text: str
    kind: str
    path: str = ""
    module: str = ""
    name: str = ""

    def task(self, **more: Any) -> dict[str, Any]:
        """For a worker."""
        return {
            "kind": self.kind,
            "path": self.path,
            "module": self.module,
            "name": self.name,
            "text": self.text,
            **more,
        }


def subject_of(text: str) -> Subject:
    """What `model.py`, `model.py:NAME`, `package.module:NAME` or `model.onnx` names.

    Raises:
        ArgumentError: it names nothing of these.
        GraphFileError: the file can't be read.
    """
    path = Path(text)
    try:
        there = path.is_file()
    except OSError as error:
        raise file_error(f"{text}: can't be read: {reason_of(error)}", error) from error
    if there:
        if path.suffix == ".py":
            return Subject(text=text, kind="torch", path=str(path.resolve()))
        if GraphFile.at(path).is_onnx:
            return Subject(text=text, kind="onnx", path=str(path.resolve()))
        raise ArgumentError(
            f"doctor takes a Python file with a torch module, an ONNX model or MODULE:NAME, and {text} is neither; "
            "onednn-graph show, bench and check take oneDNN Graph's JSON"
        )
    where, colon, name = text.rpartition(":")
    if colon and name.isidentifier():
        if where.endswith(".py") and Path(where).is_file():
            return Subject(text=text, kind="torch", path=str(Path(where).resolve()), name=name)
        if DOTTED.fullmatch(where):
            return Subject(text=text, kind="torch", module=where, name=name)
    raise ArgumentError(
        f"there is no file {format_value(text)}; doctor takes model.py, model.py:NAME, model.onnx or module:NAME"
    )


def shapes_of(texts: Sequence[str]) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Type, empty for the usual one, and shape by name of `NAME=2x3` or `NAME=s64:2x3`.

    Raises:
        ArgumentError: one is not written so.
    """
    found: dict[str, tuple[str, tuple[int, ...]]] = {}
    for text in texts:
        read = SHAPE.fullmatch(text)
        if read is None or (read["type"] and read["type"] not in TYPES):
            raise ArgumentError(
                "--shape takes NAME=SIZES or NAME=TYPE:SIZES, such as image=1x3x224x224 or ids=s64:1x16, with a type "
                f"of {', '.join(TYPES)}, got {format_value(text)}"
            )
        sizes = tuple(map(int, read["sizes"].split("x"))) if read["sizes"] else ()
        found[read["name"]] = (TYPES.get(read["type"] or "", ""), sizes)
    return found


def arrays_of(path: str) -> dict[str, Array]:
    """The arrays of an .npz file.

    Raises:
        ArgumentError: it is none, or can't be read.
    """
    try:
        loaded: Any = np.load(path, allow_pickle=False)
        if not hasattr(loaded, "files"):
            raise ArgumentError(f"{path} holds one array; save it by its name, as in np.savez(path, x=array)")
        return {str(key): loaded[key] for key in loaded.files}
    except OSError as error:
        raise ArgumentError(f"{path} can't be read: {error.strerror or one_line(error)}") from error
    except (ValueError, zipfile.BadZipFile, EOFError) as error:
        raise ArgumentError(
            f"{path} is no .npz file of arrays; write one by np.savez(path, x=array)"
        ) from error


def made_up(shape: Sequence[int], dtype: np.dtype[Any], seed: int) -> Array:
    """Numbers for an input: normal ones for floating-point, bytes for bytes, else 0 and 1, which index anything."""
    rng = np.random.default_rng(seed)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        most = {"uint8": 256, "int8": 128}.get(dtype.name, 2)
        return rng.integers(0, most, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)
