"""Where builds of oneDNN are looked for, and which of them runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ...backends.onednn.library.finding import (
    DISTRIBUTION,
    FILE,
    PACKED,
    VARIABLE,
    find_library,
    packed_library,
    wheel,
)
from ...backends.onednn.library.remembered import WHO, remembered
from ...ops.errors import LibraryError
from ...ops.records import frozen
from .probing import Build, probe

SYSTEM = ("/usr/local/lib", "/usr/local/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib")


@frozen(kw_only=True)
class Place:
    """A file that is there, or that somebody names.

    Attributes:
        path: it; without links, where it is there.
        source: who names it, or where it was found, in words.
        used: whether it is what runs.
    """

    path: Path
    source: str
    used: bool = False


def used_path() -> Path | None:
    """What runs in a process that names none; None where that can't be found."""
    try:
        return find_library().path
    except LibraryError:
        return None


def places() -> list[Place]:
    """All files that are found, each once, with the first word on where."""
    used, seen = used_path(), dict[Path, str]()
    for path, source in _named():
        seen.setdefault(path.expanduser().resolve(), source)
    for path, source in _lying_around():
        if path.is_file():
            seen.setdefault(path.resolve(), source)
    return [Place(path=path, source=source, used=path == used) for path, source in seen.items()]


def _named() -> Iterator[tuple[Path, str]]:
    if given := os.environ.get(VARIABLE):
        yield Path(given), VARIABLE
    if (choice := remembered()) is not None:
        yield choice, WHO
    if (packed := packed_library()) is not None:
        yield packed, f"the distribution {PACKED}"
    with suppress(LibraryError):
        yield wheel().path, f"the distribution {DISTRIBUTION}"


def _lying_around() -> Iterator[tuple[Path, str]]:
    if prefix := os.environ.get("CONDA_PREFIX"):
        yield Path(prefix, "lib", FILE), "the environment of conda"
    yield Path(sys.prefix, "lib", FILE), "the environment of Python"
    for folder in filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)):
        yield Path(folder, FILE), "LD_LIBRARY_PATH"
    for folder in SYSTEM:
        yield Path(folder, FILE), "the system"


def of_version(version: str) -> list[tuple[Place, Build]]:
    """The builds of a version that are found: `3.13` takes each of its patches."""
    found = [(place, probe(place.path)) for place in places() if place.path.is_file()]
    return [
        (place, build)
        for place, build in found
        if build.version == version or build.version.startswith(f"{version}.")
    ]
