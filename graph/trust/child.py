"""The judge's side: a process that answers questions, one after another, and ends with whoever asks them."""

from __future__ import annotations

import json
import math
import os
import queue
import socket
import threading
from collections.abc import Callable
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


class Doing(Protocol):
    """Tells what comes next."""

    def __call__(self, what: str, *, cpu_seconds: float, running: bool = False) -> None:
        """Says it.

        Args:
            what: in words.
            cpu_seconds: time of all threads that it may take; the process is ended if it takes more.
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
    _bound_memory()
    talk = socket.socket(fileno=number)
    questions: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(talk, parent, questions), daemon=True).start()

    def tell(message: dict[str, Any]) -> None:
        with suppress(OSError):  # the parent is gone, and the other thread will see that
            talk.sendall(json.dumps(message).encode() + b"\n")

    def doing(what: str, *, cpu_seconds: float, running: bool = False) -> None:
        tell({"doing": what, "running": running})
        _bound_time(cpu_seconds)

    tell({"begun": True})
    while True:
        question = json.loads(questions.get())
        try:
            told = answer(question, doing)
        except MemoryError:
            told = {"unable": "it takes more memory than there is"}
        except Exception as error:  # whatever goes wrong here says nothing of a kernel
            told = {"unable": f"{type(error).__name__}: {error}"}
        _bound_time(math.inf)
        tell(told)


def cpu_time() -> float:
    """Seconds of CPU time that this process has had, all threads together."""
    times = os.times()
    return times.user + times.system


def _listen(talk: socket.socket, parent: int, questions: queue.SimpleQueue[bytes]) -> None:
    """Takes in questions until the parent is gone, and ends the process then, whatever it does."""
    rest = b""
    poll = _poll_of(talk)
    while True:
        if not poll(LOOK_SECONDS):
            if os.getppid() != parent:
                os._exit(0)
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


def _bound_memory() -> None:
    """No more address space than there is memory, and no file of it where it crashes."""
    if resource is None:
        return
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(ValueError, OSError):
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        there = max(LEAST_MEMORY, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
        resource.setrlimit(resource.RLIMIT_AS, (there if most < 0 else min(there, most), most))


def _bound_time(seconds: float) -> None:
    """From now on the process has so much CPU time, and is ended by SIGXCPU where it takes more."""
    if resource is None:
        return
    with suppress(ValueError, OSError):
        _, most = resource.getrlimit(resource.RLIMIT_CPU)
        wanted = -1 if math.isinf(seconds) else math.ceil(cpu_time() + seconds) + 1
        resource.setrlimit(
            resource.RLIMIT_CPU, (most if most >= 0 and not 0 <= wanted <= most else wanted, most)
        )
