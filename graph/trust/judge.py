"""The judge: a process of its own that says of kernels whether they are right, so that a crash there is an answer.

It is started when it is first asked, kept, and ends with this process, however that ends. It hears questions and tells
answers through a socket, a line of JSON each; see `child` for its side.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import count
from time import monotonic
from typing import Any, cast
from weakref import WeakSet

from ..runtime.locking import Lock
from ..runtime.progress import INTERVAL, PATIENCE, show_progress
from .process import BEGIN_SECONDS, JudgeProcess, NotAskedError
from .verdict import Kind, Verdict

STILL_SECONDS = 60.0
"""A process that sleeps so long, and whose CPU time stands still meanwhile, waits for something that never comes."""
TIMES = 2
"""So often a process that others have ended is followed by another one."""
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


class UnfinishedError(Exception):
    """The processes that ran it were ended, by others it seems: that must not happen to this one."""


class Judge:
    """A process that is asked; thread-safe, one question at a time. A fork of this process starts one of its own.

    Args:
        entry: the module whose `serve` is its program.
    """

    def __init__(self, entry: str) -> None:
        self._entry = entry
        self._lock = Lock()
        self._child: JudgeProcess | None = None
        self._impossible = ""
        self._numbers = count()
        self._asking = self._leaving = False
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
            UnfinishedError: it was ended while it ran what is judged, again and again, as a system does whose memory
                is spent.
        """
        with self._lock:
            if self._asking:  # by a signal handler, say, or a finalizer
                raise NotAskedError("this thread waits for an answer of it already")
            self._asking = True
            try:
                return self._told(question, environment, what)
            finally:
                self._asking = False

    def close(self) -> None:
        """Ends the process; the next question starts another one."""
        with self._lock:
            child, self._child = self._child, None
            if child is not None:
                child.end()

    def leave(self) -> None:
        """Lets go of it in a fork of its parent."""
        child, self._child = self._child, None
        self._asking = False
        if child is not None:
            child.leave()

    def stop(self) -> None:
        """Ends the process as this one ends, without waiting for a daemon's thread that asks."""
        self._leaving = True
        child = self._child
        if child is not None:
            child.process.kill()
        if self._lock.is_free():
            self.close()

    def _told(self, question: Mapping[str, Any], environment: Mapping[str, str], what: str) -> Verdict:
        """What it says, whose memory nothing else can have spoilt where that is bad."""
        ended = 0
        while True:
            child = self._ready(environment, what)
            fresh = child.asked == 0
            verdict = self._answer(child, question, what)
            if verdict is None:
                if self._leaving:
                    raise SystemExit  # of a daemon's thread, which has no more to do
                ended += 1
                if ended == TIMES:
                    error = UnfinishedError if child.running else NotAskedError
                    raise error("the process that was to judge it was ended by others")
            elif verdict.right:
                return verdict
            else:
                self.close()
                if fresh or verdict.kind is Kind.endless:
                    return verdict

    def _answer(self, child: JudgeProcess, question: Mapping[str, Any], what: str) -> Verdict | None:
        """What it says; None where somebody else has ended it. It is gone but for an answer."""
        answered = False
        number = next(self._numbers)
        try:
            with suppress(OSError):
                child.errors.truncate(0)
            child.asked += 1
            child.doing, child.running = "", False
            child.send(json.dumps({**question, "number": number}).encode() + b"\n")
            for message in self._messages(child, what):
                if message is None:
                    return Verdict(
                        Kind.endless, f"it does nothing any more after {child.cpu:.0f} s of CPU time"
                    )
                if message.get("number") != number:
                    continue
                if "doing" in message:
                    child.doing, child.running = str(message["doing"]), bool(message.get("running"))
                    child.bounded = bool(message.get("bounded", True))
                    continue
                answered = True
                if "unable" in message:
                    raise NotAskedError(str(message["unable"]))
                return Verdict(Kind(message["kind"]), str(message.get("seen", "")))
            return self._ended(child)
        finally:
            # Also where this one is interrupted: nobody waits for the answer any more.
            if not answered:
                self.close()

    def _ended(self, child: JudgeProcess) -> Verdict | None:
        """What it means that it has ended; None where that says nothing of what it was asked."""
        child.ends()
        words = child.last_words()
        self._child = None
        code = child.end()
        if code == -signal.SIGXCPU:
            if not child.bounded:
                return None
            return Verdict(Kind.endless, f"it had not ended when its time was up, while {child.doing}")
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"exit code {code}"
        if -code in FAULTS or (child.running and code > 0):
            return Verdict(Kind.crashed, f"{name}{words}, while {child.doing}")
        # Where somebody else waits for all children of this process, it is told that each has ended with 0.
        if code < 0 or (code == 0 and child.running):
            return None
        raise NotAskedError(f"the process that was to judge it ended with {name}{words}")

    def _messages(self, child: JudgeProcess, what: str) -> Iterator[dict[str, Any] | None]:
        """What it tells, until it ends; None where nothing will come any more."""
        patience, shown = monotonic() + PATIENCE, False
        child.begins()
        try:
            while True:
                *lines, child.rest = child.rest.split(b"\n")
                for line in lines:
                    yield cast("dict[str, Any]", json.loads(line))
                if child.is_ready(select.POLLIN, INTERVAL):
                    if not child.read():
                        return
                elif child.stands_still(STILL_SECONDS):
                    yield None
                if monotonic() > patience:
                    show_progress(
                        f"verifying {what} in another process{', ' * bool(child.doing)}{child.doing}"
                    )
                    shown, patience = True, monotonic() + INTERVAL
        finally:
            if shown:
                show_progress(None)

    def _ready(self, environment: Mapping[str, str], what: str) -> JudgeProcess:
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
            try:
                self._child = child = JudgeProcess.started(self._entry, environment)
            except (OSError, ValueError, RuntimeError, subprocess.SubprocessError) as error:
                raise NotAskedError(str(error)) from error
            return self._begun(child, what)
        except NotAskedError as error:
            self.close()
            self._impossible = f"no process can be started for it ({error})"
            raise NotAskedError(self._impossible) from error
        except BaseException:
            self.close()
            raise

    def _begun(self, child: JudgeProcess, what: str) -> JudgeProcess:
        """The process once it has said that it listens."""
        begun, shown = monotonic(), False
        try:
            while b"\n" not in child.rest:
                if child.is_ready(select.POLLIN, INTERVAL):
                    if not child.read():
                        child.ends()
                        raise NotAskedError(f"it ends as it begins{child.last_words()}")
                    continue
                passed = monotonic() - begun
                if passed > BEGIN_SECONDS:
                    raise NotAskedError(f"it has not begun after {BEGIN_SECONDS:.0f} s")
                if passed > PATIENCE:
                    show_progress(f"beginning another process, to verify {what}")
                    shown = True
        finally:
            if shown:
                show_progress(None)
        _, _, child.rest = child.rest.partition(b"\n")
        return child


_judges: WeakSet[Judge] = WeakSet()


def _in_fork() -> None:
    for judge in list(_judges):
        judge.leave()


@atexit.register
def _at_exit() -> None:
    for judge in list(_judges):
        judge.stop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_fork)
