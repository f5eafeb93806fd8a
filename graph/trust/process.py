"""The judge's process as its parent sees it: how it is started, asked, watched and ended."""

from __future__ import annotations

import json
import os
import re
import select
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import IO, Any, cast

from attrs import field

from ...ops.records import define
from .settings import VARIABLE, Verifying

try:
    import fcntl
except ImportError:  # there is none on Windows
    fcntl = None

BEGIN_SECONDS = 120.0
"""Seconds that it may take to begin, on a busy machine."""
LOOK_SECONDS = 2.0
"""What passes between two looks counts as no more: the machine may have stood still, or this process."""
LONGEST_SECONDS = 1200.0
"""A question takes no longer where the system does not tell CPU times."""
PROGRAM = """import json, sys
sys.path[:] = json.loads(sys.argv[3])
from {entry} import serve
serve(int(sys.argv[1]), int(sys.argv[2]))"""
SILENCED = ("ONEDNN_VERBOSE", "DNNL_VERBOSE", "ONEDNN_JIT_DUMP", "DNNL_JIT_DUMP", "ONEDNN_JIT_PROFILE")
"""Variables by which the library would write what is meant of this process."""
PYTHONS = re.compile(r"(python|pypy)w?[\d.]*t?d?(-dbg)?", re.IGNORECASE)
"""Names of programs that are Python, and not one that has it within."""
WORDS = 300
"""Letters of what it said before it crashed."""
READ = 4096
"""Bytes of it that are looked at."""
FREE = 3
"""The first number of files that is none of the standard ones."""


class NotAskedError(Exception):
    """No verdict can be had from another process; the message says why."""


@define(eq=False)
class JudgeProcess:
    """The process.

    Attributes:
        errors: what it writes to its standard error.
        environment: what it was started with beside this process's variables.
        doing: what it does, as it has said last.
        running: whether that runs what it is asked about.
        bounded: whether the time that this may take is what was asked for, and not what others have set.
        asked: how many questions it was asked.
    """

    process: subprocess.Popen[bytes]
    talk: socket.socket
    errors: IO[bytes]
    environment: Mapping[str, str]
    rest: bytes = b""
    doing: str = ""
    running: bool = False
    bounded: bool = True
    asked: int = 0
    cpu: float = 0.0
    still: float = 0.0
    looked: float = field(factory=monotonic)

    @classmethod
    def started(cls, entry: str, environment: Mapping[str, str]) -> JudgeProcess:
        """A new one.

        Args:
            entry: the module whose `serve` is its program.

        Raises:
            OSError, ValueError, NotAskedError: it can't be.
        """
        command = _interpreter()
        paths = [path for path in sys.path if isinstance(path, str)]  # pyright: ignore[reportUnnecessaryIsInstance] -- others put what they like there
        errors = _nameless()
        try:
            ours, theirs = map(_beyond_standard, socket.socketpair())
            try:
                with theirs:
                    process = subprocess.Popen(
                        [
                            *(*command, "-c", PROGRAM.format(entry=entry)),
                            *(str(theirs.fileno()), str(os.getpid()), json.dumps(paths)),
                        ],
                        pass_fds=[theirs.fileno()],
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        stderr=errors,
                        env=_variables() | dict(environment),
                        start_new_session=True,  # Ctrl-C is not meant for it
                    )
                return cls(process, ours, errors, dict(environment))
            except BaseException:
                ours.close()
                raise
        except BaseException:
            errors.close()
            raise

    def is_ready(self, what: int, seconds: float) -> bool:
        """Whether the socket can be read or written within so many seconds, `select.POLLIN` or `select.POLLOUT`.

        The socket has no time limit of its own, for a `TimeoutError` may also be what a signal handler of the user's
        raises, and that is theirs.
        """
        poll = select.poll()
        poll.register(self.talk, what)
        return bool(poll.poll(seconds * 1000))

    def send(self, text: bytes) -> None:
        """Sends it, unless the process is gone, which reading will tell.

        Raises:
            NotAskedError: nobody takes it in.
        """
        rest = memoryview(text)
        while rest:
            if not self.is_ready(select.POLLOUT, BEGIN_SECONDS):
                raise NotAskedError("it does not listen")
            try:
                rest = rest[self.talk.send(rest, socket.MSG_DONTWAIT) :]
            except BlockingIOError:
                continue
            except ConnectionError:
                return

    def read(self) -> bool:
        """Adds to `rest` what is there; whether the process is there too."""
        try:
            data = self.talk.recv(1 << 16)
        except ConnectionError:
            return False
        self.rest += data
        return bool(data)

    def ends(self) -> None:
        """Waits for its end, which it has promised by closing its socket."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(BEGIN_SECONDS)

    def end(self) -> int:
        """Ends it, and returns how it has ended; negative, by which signal."""
        self.talk.close()
        self.process.kill()
        code = self.process.wait()
        self.errors.close()
        return code

    def leave(self) -> None:
        """Lets go of it in a fork of its parent, whose child it stays."""
        self.talk.close()
        self.errors.close()
        self.process.returncode = 0

    def last_words(self) -> str:
        """The end of what it has written to its standard error since it was asked."""
        try:
            size = self.errors.seek(0, os.SEEK_END)
            self.errors.seek(max(0, size - READ))
            text = self.errors.read(READ).decode(errors="replace")
        except OSError:
            return ""
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return f": {' '.join(lines[-2:])[-WORDS:]}" if lines else ""

    def begins(self) -> None:
        """From now on it is looked whether it stands still."""
        self.still, self.looked = 0.0, monotonic()

    def stands_still(self, seconds: float) -> bool:
        """Whether it has slept for so many seconds, and nothing happens any more."""
        now = monotonic()
        passed, self.looked = min(now - self.looked, LOOK_SECONDS), now
        self.still += passed
        told = cpu_time(self.process.pid)
        if told is None:
            return self.still > LONGEST_SECONDS
        cpu, asleep = told
        if cpu > self.cpu or not asleep:
            self.cpu, self.still = cpu, 0.0
        return self.still > seconds


def cpu_time(pid: int) -> tuple[float, bool] | None:
    """Seconds of CPU time of a process, and whether it sleeps; None where the system does not tell."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        state, *numbers = text.rpartition(")")[2].split()
        return (int(numbers[10]) + int(numbers[11])) / os.sysconf("SC_CLK_TCK"), state == "S"
    except (OSError, ValueError, IndexError):
        return None


def _interpreter() -> list[str]:
    """The Python that runs this, told to look for modules nowhere but where this one does.

    Raises:
        NotAskedError: a program that is none.
    """
    program = sys.executable or ""
    if os.name != "posix":
        raise NotAskedError(f"on {sys.platform} none is")
    if getattr(sys, "frozen", False) or not PYTHONS.fullmatch(Path(program).name):
        raise NotAskedError(f"{program or 'what runs this'} is no Python")
    flags = {"-E": sys.flags.ignore_environment, "-s": sys.flags.no_user_site, "-S": sys.flags.no_site}
    # Without -P a file json.py in the current folder would be taken for the module.
    return [program, "-P", *(flag for flag, is_set in flags.items() if is_set), "-W", "ignore"]


def _variables() -> dict[str, str]:
    """The environment of the other one, which asks no judge in its turn, whatever it imports."""
    kept = {name: text for name, text in os.environ.items() if name not in SILENCED}
    return kept | {VARIABLE: Verifying.inline.value}


def _beyond_standard(one: socket.socket) -> socket.socket:
    """The same socket with a number that nobody takes for standard output, where this process has closed its own."""
    if fcntl is None or one.fileno() >= FREE:
        return one
    with one:
        return socket.socket(fileno=fcntl.fcntl(one.fileno(), fcntl.F_DUPFD_CLOEXEC, FREE))


def _nameless() -> IO[bytes]:
    """A file without a name, which its writers add to; none that keeps anything where there can't be one."""
    try:
        file: Any = open(os.memfd_create("onednn-judge"), "rb+", buffering=0)  # noqa: SIM115 -- the caller closes it
    except (AttributeError, OSError):
        try:
            file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 -- likewise
        except OSError:
            file = open(os.devnull, "rb+", buffering=0)  # noqa: SIM115 -- likewise
    if fcntl is not None:
        with suppress(OSError):
            fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL) | os.O_APPEND)
    return cast("IO[bytes]", file)
