"""Which file the library is: one that the user names or has packed, or the wheel's."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from pathlib import Path

from ....ops.errors import LibraryError
from ....ops.records import frozen
from .remembered import FORGET, WHO, remembered

DISTRIBUTION = "onednn-cpu-gomp"
DISTRIBUTION_VERSION = "2023.2.0"
PACKED = "onednn-graph-library"
"""The distribution that `onednn-graph library pack` makes of a library."""
FILE = "libdnnl.so.3"
VARIABLE = "ONEDNN_GRAPH_LIBRARY"
"""Environment variable that names another libdnnl."""
ELF = b"\x7fELF"
MACHINES = {3: "x86", 21: "ppc64", 22: "s390x", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv"}
"""`e_machine` of an ELF header, at its 18th byte."""
X86_64 = 62


@frozen
class Found:
    """A file to load.

    Attributes:
        path: it, absolute and without links.
        source: who named it, in words.
        is_wheel: whether it is the wheel's own, and no other that somebody named.
        way_out: what ends the choice of a file that can't be used, where no program has made it.
    """

    path: Path
    source: str
    is_wheel: bool = False
    way_out: str = ""


_named: list[Path] = []
"""What `use_library` was given last."""


def name_library(path: Path | None) -> Path | None:
    """Puts a file in the place of all others, or None for none; returns what stood there."""
    before = _named[-1] if _named else None
    _named[:] = [] if path is None else [path]
    return before


def find_library() -> Found:
    """The file that the user names, else that of an installed distribution.

    In this order: `use_library`; the environment; what `onednn-graph library use` remembers; what `onednn-graph library
    pack` has packed, where it is installed; the wheel.

    Raises:
        LibraryError: the platform has none, the distribution is not installed, or the named file is not there or
            is for another machine.
    """
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "AMD64"):
        raise LibraryError(
            f"oneDNN's wheel is for Linux x86-64, and this is {sys.platform} {platform.machine()}"
        )
    if _named:
        return _given(str(_named[-1]), "og.use_library")
    given = os.environ.get(VARIABLE)
    if given:
        return _given(given, VARIABLE)
    if (choice := remembered()) is not None:
        return _given(str(choice), WHO, FORGET)
    if (packed := packed_library()) is not None:
        way_out = f"pip uninstall {PACKED} goes back to {DISTRIBUTION}"
        return _given(str(packed), f"the distribution {PACKED}", way_out)
    return wheel()


def wheel() -> Found:
    """The file of the wheel that the package asks for.

    Raises:
        LibraryError: it is not there.
    """
    return Found(_of_distribution(), f"the distribution {DISTRIBUTION}", is_wheel=True)


def packed_library() -> Path | None:
    """The file of the distribution that `onednn-graph library pack` makes, where that is installed."""
    try:
        files = importlib.metadata.files(PACKED) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    return next((Path(str(file.locate())) for file in files if file.name == FILE), None)


def check_named(path: Path, source: str) -> Found:
    """A file that somebody names, looked at from outside.

    Args:
        source: who does.

    Raises:
        LibraryError: it is not there, or is no library for this machine.
    """
    return _given(str(path), source)


def _given(text: str, source: str, way_out: str = "") -> Found:
    try:
        return _looked_at(Path(text).expanduser(), source, way_out)
    except LibraryError as error:
        if not way_out:
            raise
        raise LibraryError(f"{error}; {way_out}") from error


def _looked_at(path: Path, source: str, way_out: str) -> Found:
    try:
        if not path.exists():
            raise LibraryError(f"{source} names {path}, and there is no such file; name a libdnnl.so")
        if path.is_dir():
            raise LibraryError(f"{source} names {path}, which is a folder; name the file libdnnl.so in it")
    except OSError as error:
        raise LibraryError(f"{source} names {path}, which can't be read: {error.strerror}") from error
    path = path.resolve()
    try:
        with path.open("rb") as file:
            header = file.read(20)
    except OSError as error:
        raise LibraryError(f"{source} names {path}, which can't be read: {error.strerror}") from error
    if len(header) < 20 or not header.startswith(ELF):
        raise LibraryError(f"{source} names {path}, which is no shared library of Linux; name a libdnnl.so")
    machine = int.from_bytes(header[18:20], "big" if header[5] == 2 else "little")
    if machine != X86_64:
        told = MACHINES.get(machine, f"machine number {machine}")
        raise LibraryError(f"{source} names {path}, which is for {told}; name a libdnnl.so for x86_64")
    return Found(path, source, way_out=way_out)


def _of_distribution() -> Path:
    try:
        files = importlib.metadata.files(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        raise LibraryError(
            f"the distribution {DISTRIBUTION} is not installed; pip install {DISTRIBUTION}=="
            f"{DISTRIBUTION_VERSION}, or name another libdnnl 3.x by {VARIABLE}"
        ) from None
    for file in files:
        if file.name == FILE:
            path = Path(str(file.locate())).resolve()
            if path.exists():
                return path
    raise LibraryError(
        f"the distribution {DISTRIBUTION} is installed without its libdnnl.so.3; "
        f"pip install --force-reinstall {DISTRIBUTION}=={DISTRIBUTION_VERSION}"
    )
