"""Which file the library is: one that the user names, or the wheel's."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from pathlib import Path

from ....ops.errors import LibraryError
from ....ops.records import frozen

DISTRIBUTION = "onednn-cpu-gomp"
DISTRIBUTION_VERSION = "2023.2.0"
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
    """

    path: Path
    source: str
    is_wheel: bool = False


_named: list[Path] = []
"""What `use_library` was given last."""


def name_library(path: Path | None) -> Path | None:
    """Puts a file in the place of all others, or None for none; returns what stood there."""
    before = _named[-1] if _named else None
    _named[:] = [] if path is None else [path]
    return before


def find_library() -> Found:
    """The file that the user names by `use_library` or the environment, else that of the installed distribution.

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
    return Found(_of_distribution(), f"the distribution {DISTRIBUTION}", is_wheel=True)


def _given(text: str, source: str) -> Found:
    path = Path(text).expanduser()
    if not path.exists():
        raise LibraryError(f"{source} names {path}, and there is no such file; name a libdnnl.so")
    if path.is_dir():
        raise LibraryError(f"{source} names {path}, which is a folder; name the file libdnnl.so in it")
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
    return Found(path, source)


def _of_distribution() -> Path:
    try:
        files = importlib.metadata.files(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        raise LibraryError(
            f"the distribution {DISTRIBUTION} is not installed; pip install {DISTRIBUTION}=="
            f"{DISTRIBUTION_VERSION}, or name another libdnnl 3.x by {VARIABLE}"
        ) from None
    for file in files:
        if file.name == "libdnnl.so.3":
            path = Path(str(file.locate())).resolve()
            if path.exists():
                return path
    raise LibraryError(
        f"the distribution {DISTRIBUTION} is installed without its libdnnl.so.3; "
        f"pip install --force-reinstall {DISTRIBUTION}=={DISTRIBUTION_VERSION}"
    )
