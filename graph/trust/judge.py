"""The judge: a process of its own that says of kernels whether they are right, so that a crash there is an answer.

It is started when it is first asked, kept, and ends with this process, however that ends. It hears questions and tells
answers through a socket, a line of JSON each; see `child` for its side.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import IO, Any, cast
from weakref import WeakSet

from attrs import define, field

from ..runtime.locking import Lock
from ..runtime.progress import INTERVAL, PATIENCE, show_progress
from .verdict import Kind, Verdict

BEGIN_SECONDS = 120.0
"""Seconds that it may take to begin, on a busy machine."""
STILL_SECONDS = 60.0
"""A process that sleeps so long, and whose CPU time stands still meanwhile, waits for something that never comes."""
LONGEST_SECONDS = 1200.0
"""A question takes no longer where the system does not tell CPU times."""
PROGRAM = """import json, sys
sys.path[:] = json.loads(sys.argv[3])
from {entry} import serve
serve(int(sys.argv[1]), int(sys.argv[2]))"""
SILENCED = ("ONEDNN_VERBOSE", "DNNL_VERBOSE", "ONEDNN_JIT_DUMP", "DNNL_JIT_DUMP", "ONEDNN_JIT_PROFILE")
"""Variables by which the library would write what is meant of this process."""
FAULTS = {
    signal.SIGSEGV,
    signal.SIGBUS,
    signal.SIGILL,
    signal.SIGFPE,
    signal.SIGABRT,
    signal.SIGTRAP,
    signal.SIGSYS,
}
"""Signals that a process is ended by for what it did itself."""
WORDS = 300
"""Letters of what it said before it crashed."""


class NotAskedError(Exception):
    """No verdict can be had from another process; the message says why."""


@define(eq=False)
class _Child:
    """The process.

    Attributes:
        errors: what it writes to its standard error.
        environment: what it was started with beside this process's variables.
        doing: what it does, as it has said last.
        running: whether that runs what it is asked about.
    """

    process: subprocess.Popen[bytes]
    talk: socket.socket
    errors: IO[bytes]
    environment: Mapping[str, str]
    rest: bytes = b""
    doing: str = ""
    running: bool = False
    cpu: float = 0.0
    moved: float = field(factory=monotonic)

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
        self.errors.seek(0)
        lines = [
            line.strip() for line in self.errors.read().decode(errors="replace").splitlines() if line.strip()
        ]
        return f": {' '.join(lines[-2:])[-WORDS:]}" if lines else ""

    def stands_still(self) -> bool:
        """Whether it has slept for long, and nothing happens any more."""
        now = monotonic()
        told = _cpu_time(self.process.pid)
        if told is None:
            return now - self.moved > LONGEST_SECONDS
        cpu, asleep = told
        if cpu > self.cpu or not asleep:
            self.cpu, self.moved = cpu, now
        return now - self.moved > STILL_SECONDS


class Judge:
    """A process that is asked; thread-safe, one question at a time. A fork of this process starts one of its own.

    Args:
        entry: the module whose `serve` is its program.
    """

    def __init__(self, entry: str) -> None:
        self._entry = entry
        self._lock = Lock()
        self._child: _Child | None = None
        self._impossible = ""
        _judges.add(self)

    @property
    def pid(self) -> int | None:
        """Of the process; None where there is none now."""
        return None if self._child is None else self._child.process.pid

    @property
    def impossible(self) -> str:
        """Why none can be started; empty as long as nobody knows."""
        return self._impossible

    def ask(self, question: Mapping[str, Any], environment: Mapping[str, str], what: str) -> Verdict:
        """What it says.

        Args:
            question: for `serve`, of what JSON can tell.
            environment: variables that it is to have; another process is started where they are others than before.
            what: is judged, in words, for who waits.

        Raises:
            NotAskedError: it can't be started, or can't say.
        """
        line = json.dumps(question).encode() + b"\n"
        with self._lock:
            for last in (False, True):
                child = self._ready(environment)
                answer = self._answer(child, line, what)
                if answer is not None:
                    return answer
                if last:
                    raise NotAskedError("the process that was to judge it was ended by others")
        raise AssertionError

    def close(self) -> None:
        """Ends the process; the next question starts another one."""
        with self._lock:
            child, self._child = self._child, None
            if child is not None:
                child.end()

    def leave(self) -> None:
        """Lets go of it in a fork of its parent."""
        child, self._child = self._child, None
        if child is not None:
            child.leave()

    def _answer(self, child: _Child, line: bytes, what: str) -> Verdict | None:
        """What it says; None where somebody else has ended it. It is gone but for a good answer."""
        answered = False
        try:
            with suppress(OSError):
                child.errors.truncate(0)
            with suppress(ConnectionError):
                child.talk.settimeout(BEGIN_SECONDS)
                child.talk.sendall(line)
            for message in self._messages(child, what):
                if message is None:
                    return Verdict(
                        Kind.endless, f"it does nothing any more after {child.cpu:.0f} s of CPU time"
                    )
                if "doing" in message:
                    child.doing, child.running = str(message["doing"]), bool(message.get("running"))
                    continue
                answered = True
                if "unable" in message:
                    raise NotAskedError(str(message["unable"]))
                return Verdict(Kind(message["kind"]), str(message.get("seen", "")))
            return self._ended(child)
        except TimeoutError as error:
            raise NotAskedError("it does not listen") from error
        finally:
            if (
                not answered
            ):  # also where this one is interrupted: its answer would be taken for that of the next one
                self.close()

    def _ended(self, child: _Child) -> Verdict | None:
        """What it means that it has ended."""
        with suppress(subprocess.TimeoutExpired):
            child.process.wait(BEGIN_SECONDS)
        words = child.last_words()
        self._child = None
        code = child.end()
        if code == -signal.SIGXCPU:
            return Verdict(Kind.endless, f"it had not ended when its time was up, while {child.doing}")
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"exit code {code}"
        if -code in FAULTS or (child.running and code >= 0):
            return Verdict(Kind.crashed, f"{name}{words}, while {child.doing}")
        if code < 0:
            return None
        raise NotAskedError(f"the process that was to judge it ended with {name}{words}")

    def _messages(self, child: _Child, what: str) -> Iterator[dict[str, Any] | None]:
        """What it tells, until it ends; None where nothing will come any more."""
        patience, shown = monotonic() + PATIENCE, False
        child.moved = monotonic()
        child.talk.settimeout(INTERVAL)
        try:
            while True:
                *lines, child.rest = child.rest.split(b"\n")
                for line in lines:
                    yield cast("dict[str, Any]", json.loads(line))
                try:
                    data = child.talk.recv(1 << 16)
                except TimeoutError:
                    if child.stands_still():
                        yield None
                    if monotonic() > patience:
                        show_progress(f"verifying {what} in another process, {child.doing}")
                        shown = True
                    continue
                except ConnectionError:
                    return
                if not data:
                    return
                child.rest += data
        finally:
            if shown:
                show_progress(None)

    def _ready(self, environment: Mapping[str, str]) -> _Child:
        """The process, started where there is none with that environment.

        Raises:
            NotAskedError: it can't be started, now or ever.
        """
        child = self._child
        if child is not None and child.environment == environment and child.process.poll() is None:
            return child
        self.close()
        if self._impossible:
            raise NotAskedError(self._impossible)
        try:
            self._child = child = self._started(environment)
            return self._begun(child)
        except (OSError, ValueError, subprocess.SubprocessError, NotAskedError) as error:
            self.close()
            self._impossible = f"no process can be started for it ({error})"
            raise NotAskedError(self._impossible) from error
        except BaseException:
            self.close()
            raise

    def _begun(self, child: _Child) -> _Child:
        """The process once it has said that it listens."""
        child.talk.settimeout(BEGIN_SECONDS)
        while b"\n" not in child.rest:
            try:
                data = child.talk.recv(1 << 16)
            except TimeoutError as error:
                raise NotAskedError(f"it has not begun after {BEGIN_SECONDS:.0f} s") from error
            if not data:
                with suppress(subprocess.TimeoutExpired):
                    child.process.wait(BEGIN_SECONDS)
                raise NotAskedError(f"it ends as it begins{child.last_words()}")
            child.rest += data
        _, _, child.rest = child.rest.partition(b"\n")
        return child

    def _started(self, environment: Mapping[str, str]) -> _Child:
        program = _interpreter()
        ours, theirs = socket.socketpair()
        errors = _nameless()
        try:
            with theirs:
                variables = {name: text for name, text in os.environ.items() if name not in SILENCED}
                process = subprocess.Popen(
                    [
                        *(program, "-W", "ignore", "-c", PROGRAM.format(entry=self._entry)),
                        *(str(theirs.fileno()), str(os.getpid()), json.dumps(sys.path)),
                    ],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                    env=variables | dict(environment),
                    start_new_session=True,  # Ctrl-C is not meant for it
                )
        except BaseException:
            ours.close()
            errors.close()
            raise
        return _Child(process, ours, errors, dict(environment))


def _interpreter() -> str:
    """The Python that runs this.

    Raises:
        NotAskedError: a program that is none.
    """
    program = sys.executable or ""
    if os.name != "posix":
        raise NotAskedError(f"on {sys.platform} none is")
    if getattr(sys, "frozen", False) or not Path(program).name.lower().startswith(("python", "pypy")):
        raise NotAskedError(f"{program or 'what runs this'} is no Python")
    return program


def _nameless() -> IO[bytes]:
    """A file without a name, which its writers add to."""
    try:
        file = open(os.memfd_create("onednn-judge"), "rb+", buffering=0)  # noqa: SIM115 -- the caller closes it
    except (AttributeError, OSError):
        file = cast("IO[bytes]", tempfile.TemporaryFile(buffering=0))  # noqa: SIM115 -- likewise
    with suppress(ImportError, OSError):
        import fcntl

        fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL) | os.O_APPEND)
    return cast("IO[bytes]", file)


def _cpu_time(pid: int) -> tuple[float, bool] | None:
    """Seconds of CPU time of a process, and whether it sleeps; None where the system does not tell."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        state, *numbers = text.rpartition(")")[2].split()
        return (int(numbers[10]) + int(numbers[11])) / os.sysconf("SC_CLK_TCK"), state == "S"
    except (OSError, ValueError, IndexError):
        return None


_judges: WeakSet[Judge] = WeakSet()


def _in_fork() -> None:
    for judge in list(_judges):
        judge.leave()


@atexit.register
def _at_exit() -> None:
    for judge in list(_judges):
        judge.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_fork)
