"""Verdicts on the disk, for all processes of the user.

They are rows of a SQLite file beside the tuning files: bounded, with a format's version, and opened for each question
anew, so that a fork finds nothing half open. In front of it is what this process knows already. Whatever is wrong with
the file, compilation goes on without it.
"""

from __future__ import annotations

import json
import logging
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ...ops.errors import ArgumentError, VerdictStoreWarning
from ..runtime.cache_folder import cache_folder
from ..runtime.locking import Lock, foreign_locks
from ..runtime.replacing import undisturbed
from .verdict import Kind, Verdict

if TYPE_CHECKING:
    from sqlite3 import Connection

try:
    import sqlite3
except ImportError:  # an interpreter can be built without
    sqlite3 = None

T = TypeVar("T")
NAME = "verdicts.sqlite"
FORMAT = 1
"""Of the file; raised when older ones mean something else."""
EXPORTED = "onednn_graph verdicts"
"""What an exported file says that it is."""
MOST = 100_000
"""Verdicts that are kept; those that were not used for the longest time go first."""
MOST_FILES = 100
PATIENCE = 5.0
"""Seconds that another process's writing is waited for."""
DAY = 86_400 * 10**6
"""After how many microseconds the use of a verdict is noted once more."""
AT_ONCE = 500
"""Keys that one query asks for."""
LONGEST = 1000
"""Letters that are kept of what was seen."""
UNUSABLE = ("BUSY", "LOCKED", "READONLY", "CANTOPEN", "PERM", "AUTH", "FULL", "IOERR", "NOMEM", "INTERRUPT")
"""Beginnings of errors of SQLite that are no fault of the file's content."""
TABLES = """
DROP TABLE IF EXISTS verdicts; DROP TABLE IF EXISTS files;
CREATE TABLE verdicts (key TEXT PRIMARY KEY, kind TEXT NOT NULL, seen TEXT NOT NULL, about TEXT NOT NULL,
 used INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX by_use ON verdicts (used);
CREATE TABLE files (path TEXT PRIMARY KEY, stamp TEXT NOT NULL, digest TEXT NOT NULL);
"""
LOGGER = logging.getLogger(__name__)


class VerdictStore:
    """What was found of kernels, by key; see `ExplainedStep.trust`.

    What is bad stays bad: a kernel that was right later is not trusted for it, until `clear`.

    Args:
        folder: where the file is, asked each time; None for nowhere.
    """

    def __init__(self, folder: Callable[[], Path | None] = cache_folder) -> None:
        self._folder = folder
        self._lock = Lock()
        self._said: set[object] = set()
        self._forget(None)

    @property
    def path(self) -> Path | None:
        """The file, whether it is there or not; None where there can't be one."""
        folder = self._folder()
        if sqlite3 is None:
            if self._once("sqlite3"):
                warnings.warn(
                    "this Python has no module sqlite3, so verdicts about kernels are forgotten with the process",
                    VerdictStoreWarning,
                    stacklevel=2,
                )
            return None
        return None if folder is None else folder / NAME

    def known(self, keys: Iterable[str]) -> dict[str, Verdict]:
        """The verdicts that there are of these keys, by one query at most for those that this process has not seen."""
        wanted = dict.fromkeys(keys)
        memory = self._here()
        missing = [key for key in wanted if key not in memory]
        if missing:
            found = self._read(lambda file: _asked(file, missing), list[tuple[str, Verdict, int]]())
            memory |= {key: verdict for key, verdict, _ in found}
            before = _now() - DAY
            stale = [(key,) for key, _, used in found if used < before]
            if stale:
                self._write(lambda file: _touch(file, stale), None)
        return {key: one for key in wanted if (one := memory.get(key)) is not None}

    def put(self, verdicts: Mapping[str, Verdict]) -> None:
        """Keeps verdicts, for this process and others."""
        memory = self._here()
        if len(memory) > MOST:
            memory.clear()
        for key, verdict in verdicts.items():
            if key not in memory or memory[key].right:
                memory[key] = verdict
        if verdicts:
            kept = self._write(lambda file: _add(file, verdicts), list[tuple[str, Verdict, int]]())
            memory |= {key: verdict for key, verdict, _ in kept}  # which others may have found bad

    def rows(self) -> dict[str, Verdict]:
        """All verdicts, those that were used last first; those of this process alone where there is no file."""
        kept = self._read(lambda file: dict(_all(file)), dict[str, Verdict]())
        return kept | {key: one for key, one in self._here().items() if key not in kept}

    def clear(self) -> int:
        """Forgets all of them; returns how many there were.

        Raises:
            OSError: the file can't be removed.
        """
        count, path = len(self.rows()), self.path
        self._forget(path)
        if path is not None:
            for name in (path, path.with_name(f"{NAME}-journal")):
                with suppress(FileNotFoundError, NotADirectoryError):
                    name.unlink()
        return count

    def forget(self, key: str) -> None:
        """Forgets one of them."""
        self._here().pop(key, None)
        self._write(lambda file: _remove(file, key), None)

    def exported(self) -> str:
        """All verdicts as JSON, for `imported` on a machine of the same kind."""
        rows = {
            key: {"kind": one.kind.value, "seen": one.seen, "about": one.about}
            for key, one in sorted(self.rows().items())
        }
        return json.dumps({"format": EXPORTED, "version": FORMAT, "verdicts": rows}, indent=1)

    def imported(self, text: str | bytes) -> int:
        """Adds the verdicts of a text that `exported` made; returns how many it has.

        Raises:
            ArgumentError: it is none such, or of another version; nothing is added then.
        """
        verdicts = _parsed(text)
        self.put(verdicts)
        return len(verdicts)

    def digest_of(self, path: Path) -> str:
        """The SHA-256 of a file, which is computed anew only where its size or time is another than it was.

        Raises:
            OSError: it can't be read.
        """
        found = path.stat()
        name, stamp = str(path), f"{found.st_size} {found.st_mtime_ns} {found.st_ctime_ns} {found.st_ino}"
        self._here()
        if self._files.get(name, ("", ""))[0] != stamp:
            digest = self._read(lambda file: _digest_in(file, name, stamp), "")
            if not digest:
                import hashlib  # and a library of cryptography with it: once for each library and machine

                with path.open("rb") as content:
                    digest = hashlib.file_digest(content, "sha256").hexdigest()
                self._write(lambda file: _note(file, name, stamp, digest), None)
            self._files[name] = stamp, digest
        return self._files[name][1]

    # --- the file ------------------------------------------------------------------------------------

    def _here(self) -> dict[str, Verdict]:
        """What this process knows of the present file."""
        folder = self._folder()
        path = None if folder is None else folder / NAME
        with self._lock:
            if self._memory_of != path:
                self._forget(path)
            return self._memory

    def _forget(self, path: Path | None) -> None:
        self._memory: dict[str, Verdict] = {}
        self._files: dict[str, tuple[str, str]] = {}
        self._memory_of = path

    def _read(self, ask: Callable[[Connection], T], nothing: T) -> T:
        path = self.path
        if path is None or not os.path.exists(path):  # where the folder can't be read too
            return nothing
        return self._try(path, "ro", ask, nothing)

    def _write(self, change: Callable[[Connection], T], nothing: T) -> T:
        path = self.path
        if path is None:
            return nothing
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            self._without(path, error)
            return nothing
        return self._try(path, "rwc", change, nothing)

    def _try(self, path: Path, mode: str, do: Callable[[Connection], T], nothing: T) -> T:
        """What is done with the file, once more on a new one where its content is none of ours."""
        assert sqlite3 is not None  # else there is no path
        for last in (False, True):
            try:
                # The library has locks that a fork would find taken, and nobody there to release them.
                with foreign_locks, closing(_opened(path, mode)) as file:
                    if not _has_format(file, new=mode != "ro"):
                        self._without(path, "it is being made, or of another version of the package")
                        return nothing
                    return do(file)
            except OSError as error:  # a folder that is named from one that is gone
                self._without(path, error)
                return nothing
            except (sqlite3.Error, UnicodeError) as error:  # whose own words may be damaged
                if _is_unusable(error):
                    self._without(path, error)
                    return nothing
                self._set_aside(path, error)
                if last or mode == "ro":
                    break
        return nothing

    def _set_aside(self, path: Path, error: Exception) -> None:
        """Renames a file that is no store, if no other process was first."""
        assert sqlite3 is not None
        there = path.with_name(f"{NAME}.corrupt")
        try:
            with undisturbed(path.parent):
                try:
                    with closing(_opened(path, "ro")) as file:
                        file.execute("PRAGMA quick_check").fetchall()
                        list(_all(file))
                        return  # another process has made a new one
                except (sqlite3.Error, UnicodeError):
                    os.replace(path, there)
        except OSError as trouble:
            self._without(path, trouble)
            return
        warnings.warn(
            f"the verdicts in {path} can't be read ({error}) and are begun anew; the file is now {there.name}",
            VerdictStoreWarning,
            stacklevel=2,
        )

    def _without(self, path: Path, reason: object) -> None:
        if self._once(path):
            LOGGER.debug("verdicts are kept in memory alone, %s can't be used: %s", path, reason)

    def _once(self, what: object) -> bool:
        with self._lock:
            new = what not in self._said
            self._said.add(what)
            return new


def _now() -> int:
    return time.time_ns() // 1000


def _opened(path: Path, mode: str) -> Connection:
    assert sqlite3 is not None
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(uri, timeout=PATIENCE, isolation_level=None, uri=True)


def _is_unusable(error: Exception) -> bool:
    """Whether an error of SQLite has another cause than the file's content."""
    name = getattr(error, "sqlite_errorname", "").removeprefix("SQLITE_")
    return name.startswith(UNUSABLE)


def _has_format(file: Connection, *, new: bool) -> bool:
    """Whether a file is of the present format; where `new`, it is given it unless it is of a later one."""
    (version,) = file.execute("PRAGMA user_version").fetchone()
    if version == FORMAT or version > FORMAT or not new:
        return version == FORMAT
    file.execute("BEGIN IMMEDIATE")
    with file:
        (version,) = file.execute("PRAGMA user_version").fetchone()
        if version < FORMAT:  # and not made by another process in the meantime
            for statement in TABLES.split(";"):
                file.execute(statement)
            file.execute(f"PRAGMA user_version = {FORMAT}")
    return version <= FORMAT


def _verdict(kind: object, seen: object, about: object) -> Verdict | None:
    """What a row tells; None where it is damaged, or another version's: SQLite has any type in any column."""
    if not (isinstance(kind, str) and isinstance(seen, str) and isinstance(about, str)):
        return None
    return Verdict(Kind(kind), seen, about) if kind in Kind.__members__ else None


def _asked(file: Connection, keys: list[str]) -> list[tuple[str, Verdict, int]]:
    found: list[tuple[str, Verdict, int]] = []
    for begin in range(0, len(keys), AT_ONCE):
        some = keys[begin : begin + AT_ONCE]
        query = (
            f"SELECT key, kind, seen, about, used FROM verdicts WHERE key IN ({','.join('?' * len(some))})"
        )
        for key, kind, seen, about, used in file.execute(query, some):
            verdict = _verdict(kind, seen, about)
            if verdict is not None and isinstance(used, int):
                found.append((key, verdict, used))
    return found


def _all(file: Connection) -> Iterator[tuple[str, Verdict]]:
    for key, kind, seen, about in file.execute(
        "SELECT key, kind, seen, about FROM verdicts ORDER BY used DESC"
    ):
        verdict = _verdict(kind, seen, about)
        if verdict is not None and isinstance(key, str):
            yield key, verdict


def _add(file: Connection, verdicts: Mapping[str, Verdict]) -> list[tuple[str, Verdict, int]]:
    """Adds rows; returns them as they are then."""
    now = _now()
    rows = [(k, v.kind.value, v.seen[:LONGEST], v.about[:LONGEST], now) for k, v in verdicts.items()]
    file.execute("BEGIN IMMEDIATE")
    with file:
        file.executemany(
            "INSERT INTO verdicts VALUES (?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET kind = excluded.kind, "
            "seen = excluded.seen, about = excluded.about, used = excluded.used WHERE kind = 'right'",
            rows,
        )
        (count,) = file.execute("SELECT count(*) FROM verdicts").fetchone()
        if count > MOST:
            file.execute(
                "DELETE FROM verdicts WHERE key IN (SELECT key FROM verdicts ORDER BY used LIMIT ?)",
                (count - MOST,),
            )
        return _asked(file, list(verdicts))


def _remove(file: Connection, key: str) -> None:
    file.execute("DELETE FROM verdicts WHERE key = ?", (key,))


def _touch(file: Connection, keys: list[tuple[str]]) -> None:
    file.execute("BEGIN IMMEDIATE")
    with file:
        file.executemany(f"UPDATE verdicts SET used = {_now()} WHERE key = ?", keys)


def _digest_in(file: Connection, name: str, stamp: str) -> str:
    row = file.execute("SELECT digest FROM files WHERE path = ? AND stamp = ?", (name, stamp)).fetchone()
    return row[0] if row is not None and isinstance(row[0], str) else ""


def _note(file: Connection, name: str, stamp: str, digest: str) -> None:
    file.execute("BEGIN IMMEDIATE")
    with file:
        file.execute("INSERT OR REPLACE INTO files VALUES (?, ?, ?)", (name, stamp, digest))
        newest = f"SELECT rowid FROM files ORDER BY rowid DESC LIMIT {MOST_FILES}"
        file.execute(f"DELETE FROM files WHERE rowid NOT IN ({newest})")


def _parsed(text: str | bytes) -> dict[str, Verdict]:
    """The verdicts of an exported text."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ArgumentError(
            f"verdicts must be JSON that `onednn-graph trust export` wrote, got {error}"
        ) from None
    content = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
    if content.get("format") != EXPORTED or content.get("version") != FORMAT:
        raise ArgumentError(
            f"verdicts must be of format '{EXPORTED}', version {FORMAT}; export them by this version of the package"
        )
    found: dict[str, Verdict] = {}
    rows: Any = content.get("verdicts")
    if not isinstance(rows, dict):
        raise ArgumentError("verdicts must be by key; export them once more")
    for key, row in cast("dict[str, Any]", rows).items():
        known = cast("dict[str, Any]", row) if isinstance(row, dict) else {}
        values = [known.get(name) for name in ("kind", "seen", "about")]
        verdict = _verdict(*values)
        if verdict is None:
            kinds = ", ".join(Kind)
            raise ArgumentError(
                f"the verdict of {key[:64]} must have texts as kind, seen and about, the kind one of {kinds}; "
                "export it once more"
            )
        found[key] = verdict
    return found


STORE = VerdictStore()
"""What the compiler asks."""
