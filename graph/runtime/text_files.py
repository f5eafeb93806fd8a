"""Files of a user's: their names in messages, and writing them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import BinaryIO, cast

from ...ops.errors import ArgumentTypeError, FileAccessError, GraphFileError, MissingFileError
from ...ops.values import format_value
from .replacing import replacing

_SURROGATES = re.compile("[\ud800-\udfff]")


def is_text(name: str) -> bool:
    """Whether a file can hold it in UTF-8, which knows no halves of characters."""
    return name.isascii() or not _SURROGATES.search(name)


def save_text(text: str, path: str | os.PathLike[str]) -> None:
    """Writes a file, whole or not at all; raises GraphFileError where that is not possible."""
    file_name(path)
    content = text.encode()
    save_files({path: lambda file: file.write(content)})


def save_files(contents: Mapping[str | os.PathLike[str], Callable[[BinaryIO], object]]) -> None:
    """Writes files that belong together, all or none; raises GraphFileError where that is not possible.

    Args:
        contents: what writes each of them, by its path.
    """
    try:
        with replacing(*contents) as files:
            for file, write in zip(files, contents.values(), strict=True):
                write(file)
    except (OSError, ValueError) as error:
        names = " and ".join(map(file_name, contents))
        raise file_error(f"{names}: can't be written: {reason_of(error)}", error) from error


def file_error(message: str, cause: Exception) -> GraphFileError:
    """The error for a file that can't be read or written: also an OSError where the system has said so.

    Args:
        message: of the error.
        cause: what was raised.
    """
    if not isinstance(cause, OSError):
        return GraphFileError(message)
    error = (MissingFileError if isinstance(cause, FileNotFoundError) else FileAccessError)(message)
    error.errno = cause.errno
    return error


def file_name(path: object) -> str:
    """A path as a string; raises ArgumentTypeError for what is none."""
    if not isinstance(path, str | os.PathLike):
        raise ArgumentTypeError(f"a graph file's path must be a string or a path, got {format_value(path)}")
    name = os.fsdecode(cast("str | os.PathLike[str]", path))
    return "".join(letter if letter.isprintable() else "?" for letter in name) or "''"


def reason_of(error: OSError | ValueError) -> str:
    """What went wrong with a file, in words."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
