"""Files from which training goes on: one safetensors file each, whole or not there."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from ...ops.errors import GraphFileError
from ...ops.values import integer, one_line
from ..runtime.arrays import Array
from ..runtime.libraries import library
from ..runtime.parameter import Parameter
from ..runtime.text_files import file_error, file_name, reason_of

KEY = "onednn_graph.training"
"""The entry of a file's metadata that is ours."""
WAYS = "ways"
"""In it: which way weight gradients go, by problem; files that were written before there were any lack it."""


def write_checkpoint(
    path: str | os.PathLike[str],
    contents: Mapping[str, Parameter],
    numbers: Mapping[str, int],
    ways: Mapping[str, str],
) -> None:
    """Writes a file beside, to the disk, and then puts it in its place.

    Args:
        ways: that weight gradients go, see `Choices.settled`.

    Raises:
        GraphFileError: it can't be written.
        UnsupportedError: the package safetensors is not installed.
    """
    numpy = library("safetensors.numpy", "weights", "Trainer.save")
    target = Path(path)
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        content: bytes = numpy.save(
            {name: one.array for name, one in contents.items()},
            metadata={KEY: json.dumps({**numbers, WAYS: dict(ways)})},
        )
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
        _settle(target.parent)
    except Exception as error:  # the package has an exception of its own
        part.unlink(missing_ok=True)
        raise file_error(f"{file_name(target)}: can't be written: {_reason(error)}", error) from error


def _settle(folder: Path) -> None:
    """Has the name of a new file on the disk too, where folders can be opened."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_checkpoint(
    path: str | os.PathLike[str], contents: Mapping[str, Parameter], numbers: Collection[str]
) -> tuple[dict[str, int], dict[str, str], list[tuple[Parameter, Array]]]:
    """The numbers of a file, the ways that weight gradients go, and the arrays for each of `contents`.

    Raises:
        GraphFileError: it can't be read, or does not have these very contents.
        UnsupportedError: the package safetensors is not installed.
    """
    name = file_name(Path(path))
    safetensors = library("safetensors", "weights", f"reading {name}")
    try:
        with safetensors.safe_open(os.fspath(path), framework="numpy") as file:
            metadata: Mapping[str, str] = file.metadata() or {}
            arrays: dict[str, Array] = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 -- no mapping
    except Exception as error:  # the package has an exception of its own
        raise file_error(f"{name}: can't be read: {_reason(error)}", error) from error
    found, ways = _numbers(name, metadata.get(KEY), numbers)
    for what, there, here in (("lacks", contents, arrays), ("has", arrays, contents)):
        different = [key for key in there if key not in here]
        if different:
            raise GraphFileError(
                f"{name}: {what} {different[0]!r}, unlike this model and optimizer; load the file of the same ones"
            )
    for key, parameter in contents.items():
        have, want = arrays[key], parameter.array
        if have.shape != want.shape or have.dtype != want.dtype:
            raise GraphFileError(
                f"{name}: {key!r} must be {want.dtype} of shape {list(want.shape)}, got {have.dtype} of "
                f"{list(have.shape)}; load the file of the same model"
            )
    return found, ways, [(parameter, arrays[key]) for key, parameter in contents.items()]


def _numbers(name: str, text: str | None, wanted: Collection[str]) -> tuple[dict[str, int], dict[str, str]]:
    if text is None:
        raise GraphFileError(
            f"{name}: was not written by Trainer.save, for its metadata has no '{KEY}'; give a file of Trainer.save"
        )
    found: dict[str, int] = {}
    try:
        content: Any = json.loads(text)
        for key in wanted:
            number = integer(content[key])
            if number is None:
                raise ValueError(f"{key} must be an integer")
            found[key] = number
        ways: dict[object, object] = dict(content.get(WAYS, {}))
        if not all(isinstance(text, str) for pair in ways.items() for text in pair):
            raise ValueError(f"{WAYS} must be texts by texts")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise GraphFileError(f"{name}: its metadata is damaged ({one_line(error)})") from error
    return found, {str(problem): str(way) for problem, way in ways.items()}


def _reason(error: Exception) -> str:
    return reason_of(error) if isinstance(error, OSError | ValueError) else one_line(error)
