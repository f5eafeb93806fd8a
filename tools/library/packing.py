"""A wheel of a build of oneDNN, which the loader prefers to the one that the package asks for.

The same file gives the same wheel: times of its members are SOURCE_DATE_EPOCH, or 1980.
"""

from __future__ import annotations

import base64
import hashlib
import os
import tempfile
import time
import zipfile
from pathlib import Path

from ...backends.onednn.library.finding import FILE, PACKED
from ...ops.errors import ArgumentError, LibraryError
from .probing import Build, probe

PACKAGE = PACKED.replace("-", "_")
TAG = "py3-none-linux_x86_64"
LICENCES = ("LICENSE", "THIRD-PARTY-PROGRAMS")
FOLDERS = 3
"""How many folders from the file's own upwards may be oneDNN's: a source has its builds in `build/src`."""
EARLIEST, LATEST = 315532800, 4354819198
"""What an archive's times can be: 1980 to 2107, in seconds of 1970."""


def licences(path: Path) -> list[Path]:
    """Files of oneDNN's licences: beside the library, above it in its source, in an installation, in conda's."""
    above = list(path.parents)[:FOLDERS]
    for folder in (
        *above,
        *(one / "share" / "doc" / "dnnl" for one in above),
        above[-1] / "info" / "licenses",
    ):
        found = [folder / name for name in LICENCES if (folder / name).is_file()]
        if len(found) == len(LICENCES) or (found and folder == path.parent):
            return found
    return []


def pack(path: Path, folder: Path) -> tuple[Path, Build, list[Path]]:
    """Writes the wheel of a library.

    Args:
        path: of the library, without links.
        folder: where the wheel goes.

    Returns:
        The wheel, what is in it, and the licences that went along.

    Raises:
        ArgumentError: SOURCE_DATE_EPOCH is no time.
        LibraryError: the library can't be used without what lies beside it.
        OSError: something can't be read or written.
    """
    when = _when()
    folder.mkdir(parents=True, exist_ok=True)
    library = (
        path.read_bytes()
    )  # once: what is packed is what was tried, whoever writes to the file meanwhile
    with tempfile.TemporaryDirectory(dir=folder) as elsewhere:
        copy = Path(elsewhere, FILE)
        copy.write_bytes(library)
        build = probe(copy, alone=True)
    if build.problem:
        reason = build.problem.removeprefix(f"{copy} can't be loaded: ").partition(";")[0]
        raise LibraryError(
            f"{path} needs what lies beside it ({reason}) and would not load from a wheel; "
            f"leave it where it is: onednn-graph library use {path}"
        )
    found = licences(path)
    wheel = folder / f"{PACKAGE}-{build.version}-{TAG}.whl"
    _write(wheel, _members(library, build, found), when)
    return wheel, build, found


def _when() -> tuple[int, int, int, int, int, int]:
    text = os.environ.get("SOURCE_DATE_EPOCH", str(EARLIEST))
    if not text.isdecimal():
        raise ArgumentError(
            f"SOURCE_DATE_EPOCH must be seconds since 1970, got {text!r}; unset it or mend it"
        )
    return time.gmtime(min(max(int(text), EARLIEST), LATEST))[:6]


def _members(library: bytes, build: Build, found: list[Path]) -> dict[str, bytes]:
    """Name in the archive → content."""
    info = f"{PACKAGE}-{build.version}.dist-info"
    metadata = [
        "Metadata-Version: 2.4",
        f"Name: {PACKED}",
        f"Version: {build.version}",
        f"Summary: oneDNN {build.version} on {build.threads}, for onednn-graph; packed from a file of the user's",
        "License-Expression: Apache-2.0",
        *(f"License-File: {one.name}" for one in found),
    ]
    wheel = (
        "Wheel-Version: 1.0",
        "Generator: onednn-graph library pack",
        "Root-Is-Purelib: false",
        f"Tag: {TAG}",
    )
    doc = f'"""oneDNN {build.version}, which onednn_graph takes where this is installed."""\n'
    return {
        f"{PACKAGE}/__init__.py": doc.encode(),
        f"{PACKAGE}/{FILE}": library,
        f"{info}/METADATA": "".join(f"{line}\n" for line in metadata).encode(),
        f"{info}/WHEEL": "".join(f"{line}\n" for line in wheel).encode(),
        **{f"{info}/licenses/{one.name}": one.read_bytes() for one in found},
    }


def _write(wheel: Path, members: dict[str, bytes], when: tuple[int, int, int, int, int, int]) -> None:
    from ...graph.runtime.replacing import replacing

    record = next(name for name in members if name.endswith("/METADATA")).replace("METADATA", "RECORD")
    lines = [f"{name},sha256={_digest(content)},{len(content)}\n" for name, content in members.items()]
    content = members | {record: "".join([*lines, f"{record},,\n"]).encode()}
    with (
        replacing(wheel) as (target,),
        zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as made,
    ):
        for name, data in content.items():
            member = zipfile.ZipInfo(name, when)
            member.external_attr = (0o755 if name.endswith(FILE) else 0o644) << 16
            member.compress_type = zipfile.ZIP_DEFLATED
            member.create_system = 3
            made.writestr(member, data)


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
