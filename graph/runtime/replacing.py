"""Files that are written whole or not at all: everything that is written for a user goes through `replacing`.

What is written lies in a part of its own, on the disk, before it takes the place of what was there. So a full disk, an
error half way or a process that is killed leaves the file of before; readers see that or the new one, never a piece.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import get_ident
from typing import BinaryIO

from .locking import Lock

try:
    import fcntl
except ImportError:  # there is none on Windows
    fcntl = None

PATIENCE = 2.0
"""Seconds that a lock of another process is waited for, which may be a user's own lock of the folder."""

_exchange = Lock()


@contextmanager
def replacing(*paths: str | os.PathLike[str]) -> Generator[tuple[BinaryIO, ...]]:
    """Files to write to, which take the place of those at `paths` together when the block ends without an error.

    Links are followed, and the permissions of a file that is there stay. A device or a pipe is written to as it is.

    Raises:
        OSError, ValueError: one can't be written; those that were there are as they were.
    """
    parts: list[_Part] = []
    with ExitStack() as opened:
        try:
            for path in paths:
                parts.append(_Part(Path(path)))
                opened.enter_context(parts[-1].file)
            yield tuple(part.file for part in parts)
            for part in parts:
                part.settle()
            new = [part for part in parts if not part.direct]
            with undisturbed(*(part.target.parent for part in new if len(new) > 1)):
                _exchange_all(new)
        finally:
            for part in parts:
                part.forget()


def _exchange_all(parts: list[_Part]) -> None:
    done: list[_Part] = []
    try:
        for part in parts:
            if part is not parts[-1]:
                part.keep_former()
            os.replace(part.path, part.target)
            done.append(part)
    except BaseException:
        for part in reversed(done):
            part.put_back()
        raise
    for folder in {part.target.parent for part in parts}:
        _settle_folder(folder)


class _Part:
    """A file in the making.

    Attributes:
        target: where it is to stand.
        direct: whether that is written to at once, since nothing can take its place.
        path: where it lies until then; with nothing there yet where the system knows files without names.
        former: another name of what was there, while that may be wanted back.
        file: to write to.
    """

    def __init__(self, path: Path) -> None:
        there = _status(path)
        self.direct = there is not None and (not stat.S_ISREG(there.st_mode) or _is_open_file(path))
        self.target = path if self.direct else Path(os.path.realpath(path))
        self.path = self.target.with_name(_unique_name())
        self.former: Path | None = None
        self._existed = there is not None
        self._nameless = False
        if there is not None and not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        self.file: BinaryIO = path.open("wb") if self.direct else self._opened()
        if there is not None and not self.direct and os.name == "posix":
            with suppress(OSError):  # a file of another user's can be replaced, but not given to them
                os.fchown(self.file.fileno(), there.st_uid, there.st_gid)
            with suppress(OSError):
                os.fchmod(self.file.fileno(), stat.S_IMODE(there.st_mode))

    def _opened(self) -> BinaryIO:
        nameless = getattr(os, "O_TMPFILE", None)
        if nameless is not None:
            # It vanishes with the process, so that one that is killed leaves nothing behind.
            with suppress(OSError):
                file = os.fdopen(os.open(self.target.parent, nameless | os.O_RDWR, 0o666), "wb")
                self._nameless = True
                return file
        return self._named()

    def _named(self) -> BinaryIO:
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0)
        return os.fdopen(os.open(self.path, flags, 0o666), "wb")

    def settle(self) -> None:
        """Has it on the disk, under a name."""
        self.file.flush()
        if not self.direct:
            os.fsync(self.file.fileno())
        if self._nameless:
            self._name()
        self.file.close()

    def _name(self) -> None:
        try:
            os.link(f"/proc/self/fd/{self.file.fileno()}", self.path, follow_symlinks=True)
        except OSError:  # where there is no such folder, or a sandbox that knows no such links
            import shutil  # which brings three compressors, and most processes need it never

            with os.fdopen(os.dup(self.file.fileno()), "rb") as written, self._named() as named:
                written.seek(0)
                shutil.copyfileobj(written, named)
                named.flush()
                os.fsync(named.fileno())
                os.fchmod(named.fileno(), stat.S_IMODE(os.fstat(written.fileno()).st_mode))

    def keep_former(self) -> None:
        """Gives what stands at the target another name."""
        if self._existed:
            self.former = self.target.with_name(_unique_name())
            try:
                os.link(self.target, self.former)
            except OSError:  # memory cards and some network drives know no second names
                import shutil

                shutil.copy2(self.target, self.former)

    def put_back(self) -> None:
        """Takes it away again, for what was there before."""
        if self.former is not None:
            os.replace(self.former, self.target)
            self.former = None
        else:
            self.target.unlink(missing_ok=True)

    def forget(self) -> None:
        """Leaves nothing behind but the target."""
        for name in (self.former, None if self.direct else self.path):
            if name is not None:
                with suppress(OSError):
                    name.unlink(missing_ok=True)


def _status(path: Path) -> os.stat_result | None:
    """What is there; None where nothing is."""
    with suppress(FileNotFoundError):
        return path.stat()
    return None


def _is_open_file(path: Path) -> bool:
    """Whether it stands for a file that a process has open, as /dev/stdout does, and not for a place."""
    return os.path.abspath(path).startswith(("/dev/fd/", "/dev/std", "/proc/"))


def _unique_name() -> str:
    """Unlike any other's, and short, for the target's own may be as long as names can be."""
    return f".onednn_graph-{os.getpid()}-{get_ident()}-{os.urandom(8).hex()}.part"


@contextmanager
def undisturbed(*folders: Path, reading: bool = False) -> Generator[None]:
    """Nobody else puts files in place in these folders meanwhile, so that files that belong together stay so.

    Other processes are kept away where the system can do that, for `PATIENCE` seconds at most.
    """
    with ExitStack() as held:
        if not reading:
            held.enter_context(_exchange)
        for folder in sorted({*folders}):
            held.enter_context(_locked(folder, reading))
        yield


@contextmanager
def _locked(folder: Path, reading: bool) -> Generator[None]:
    handle = _folder_handle(folder)
    try:
        if handle is not None and fcntl is not None:
            _try_lock(handle, fcntl.LOCK_SH if reading else fcntl.LOCK_EX)
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _try_lock(handle: int, how: int) -> None:
    if fcntl is None:
        return
    end = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(handle, how | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                return
            time.sleep(0.002)
        except OSError:  # not every file system has locks
            return
        else:
            return


def _folder_handle(folder: Path) -> int | None:
    """An open folder; None where folders can't be opened."""
    if os.name != "posix":
        return None
    with suppress(OSError, ValueError):  # a ValueError for a null character
        return os.open(folder, os.O_RDONLY)
    return None


def _settle_folder(folder: Path) -> None:
    """Has the names in a folder on the disk."""
    handle = _folder_handle(folder)
    if handle is not None:
        try:
            with suppress(OSError):  # some file systems can't, and the files themselves are there
                os.fsync(handle)
        finally:
            os.close(handle)
