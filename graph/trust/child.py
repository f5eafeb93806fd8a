"""The judge's side: a process that answers questions, one after another, and ends with whoever asks them."""

from __future__ import annotations

import json
import math
import os
import queue
import signal
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NoReturn, Protocol

try:
    import resource
except ImportError:  # not everywhere
    resource = None

LEAST_MEMORY = 8 << 30
"""Bytes of address space that it may have on a machine with less memory, beside what is its parent's."""
LOOK_SECONDS = 0.5
"""How often it looks whether its parent is still there, where a fork of that one holds the socket too."""

OUTSIDE = 0
"""The number of a parent that has moved on to another namespace of processes."""
LARGEST_FILE = 1 << 30
"""Bytes; what a kernel says before it ends can be without end, and is held in memory."""


class Doing(Protocol):
    """Tells what comes next."""

    def __call__(self, what: str, *, cpu_seconds: float, threads: int = 1, running: bool = False) -> None:
        """Says it.

        Args:
            what: in words.
            cpu_seconds: time that each thread may take; the process is ended if one takes more.
            threads: how many there are, for systems that do not tell what each one takes.
            running: whether that runs what is judged, which may do anything.
        """
        ...


Answer = Callable[[dict[str, Any], Doing], dict[str, Any]]
"""From a question, and what to tell meanwhile, to `kind` and `seen` of a verdict, or `unable` with the reason."""


def serve(answer: Answer, number: int, parent: int) -> NoReturn:
    """Answers until the parent is gone; does not return.

    Args:
        answer: what the questions are answered by.
        number: of the socket.
        parent: the process that asks.
    """
    _hear_signals()
    _bound_memory()
    talk = socket.socket(fileno=number)
    questions: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    clock = _Clock()
    threading.Thread(target=_listen, args=(talk, parent, questions, clock), daemon=True).start()
    asked: object = None

    def tell(message: dict[str, Any]) -> None:
        with suppress(OSError):  # the parent is gone, and the other thread will see that
            talk.sendall(json.dumps({**message, "number": asked}).encode() + b"\n")

    def doing(what: str, *, cpu_seconds: float, threads: int = 1, running: bool = False) -> None:
        bounded = _bound_time(cpu_seconds * threads)
        tell({"doing": what, "running": running, "bounded": bounded})
        clock.begin(cpu_seconds)

    tell({"begun": True})
    while True:
        question = json.loads(questions.get())
        asked = question.get("number")
        try:
            told = answer(question, doing)
        except MemoryError:
            told = {"unable": "it takes more memory than there is"}
        except Exception as error:  # whatever goes wrong here says nothing of a kernel
            told = {"unable": f"{type(error).__name__}: {error}"}
        clock.begin(math.inf)
        _bound_time(math.inf)
        tell(told)


def cpu_time() -> float:
    """Seconds of CPU time that this process has had, all threads together."""
    times = os.times()
    return times.user + times.system


class _Clock:
    """Ends the process where one of its threads takes more than it may, as the system does at its limit."""

    def __init__(self) -> None:
        self._now: tuple[float, Mapping[str, float]] = (math.inf, {})

    def begin(self, seconds: float) -> None:
        """From now on each thread has so much CPU time."""
        self._now = seconds, {} if math.isinf(seconds) else _thread_times()

    def look(self) -> None:
        """Looks whether one has had more."""
        seconds, before = self._now
        if math.isinf(seconds):
            return
        if any(time - before.get(thread, 0.0) > seconds for thread, time in _thread_times().items()):
            os.kill(os.getpid(), signal.SIGXCPU)


def _thread_times() -> dict[str, float]:
    """CPU seconds of each thread; none where the system does not tell."""
    found: dict[str, float] = {}
    with suppress(OSError, ValueError, IndexError):
        for thread in os.listdir("/proc/self/task"):
            with (
                suppress(FileNotFoundError, ProcessLookupError),
                open(f"/proc/self/task/{thread}/stat", "rb") as file,
            ):
                numbers = file.read().rpartition(b")")[2].split()
                found[thread] = (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")
    return found


def _listen(talk: socket.socket, parent: int, questions: queue.SimpleQueue[bytes], clock: _Clock) -> None:
    """Takes in questions until the parent is gone, and ends the process then, whatever it does."""
    rest = b""
    poll = _poll_of(talk)
    while True:
        if not poll(LOOK_SECONDS):
            if os.getppid() not in (parent, OUTSIDE):
                os._exit(0)
            clock.look()
            continue
        try:
            data = talk.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            os._exit(0)
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            questions.put(line)


def _poll_of(talk: socket.socket) -> Callable[[float], bool]:
    """What waits for something to read, so many seconds. The socket itself has no time limit: answers take none."""
    import select

    poll = select.poll()
    poll.register(talk, select.POLLIN)
    return lambda seconds: bool(poll.poll(seconds * 1000))


def _hear_signals() -> None:
    """Takes back what the parent has said of signals that are to end this process: exec keeps that."""
    with suppress(AttributeError, OSError, ValueError):
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in ("SIGXCPU", "SIGABRT", "SIGTERM"):
        with suppress(AttributeError, OSError, ValueError):
            signal.signal(getattr(signal, number), signal.SIG_DFL)


def _bound_memory() -> None:
    """No more address space than there is memory, and no file of it where it crashes.

    Where no memory is left, it is to be ended and not its parent.
    """
    with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("1000")
    if resource is None:
        return
    with suppress(ValueError, OSError):
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(
            resource.RLIMIT_FSIZE, (LARGEST_FILE if most < 0 else min(LARGEST_FILE, most), most)
        )
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(ValueError, OSError):
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        there = max(LEAST_MEMORY, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
        resource.setrlimit(resource.RLIMIT_AS, (there if most < 0 else min(there, most), most))


def _bound_time(seconds: float) -> bool:
    """From now on the process has so much CPU time, and is ended by SIGXCPU where it takes more.

    Returns:
        Whether it has that, and not less by a limit that others have set.
    """
    if resource is None:
        return True
    with suppress(ValueError, OSError):
        _, most = resource.getrlimit(resource.RLIMIT_CPU)
        wanted = -1 if math.isinf(seconds) else math.ceil(cpu_time() + seconds) + 1
        has_all = most < 0 or 0 <= wanted <= most
        resource.setrlimit(resource.RLIMIT_CPU, (wanted if has_all else most, most))
        return has_all
    return True
