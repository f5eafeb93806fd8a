"""Text files of a user's: their names in messages, and writing them."""

from __future__ import annotations

import os
from typing import cast

from ...ops.errors import ArgumentTypeError, FileAccessError, GraphFileError, MissingFileError
from ...ops.values import format_value


def save_text(text: str, path: str | os.PathLike[str]) -> None:
    """Writes a file; raises GraphFileError where that is not possible."""
    name = file_name(path)
    try:
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except (OSError, ValueError) as error:
        raise file_error(f"{name}: can't be written: {reason_of(error)}", error) from error


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
