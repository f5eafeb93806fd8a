"""Child processes for work that may crash: forks that send messages, and programs that log what they are about to do.

A fork is for a parent that never called the library itself. A program is started anew behind the entry at which the
last one died, until it comes to its end.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Message = dict[str, Any]
MOST_BYTES = 8 << 30
"""Address space of a child: a graph that wants more must not take the machine with it."""


@dataclass
class Ended:
    """How a child ended.

    Attributes:
        messages: what it sent.
        status: `ok`, `signal:NAME`, `exit:CODE` or `hang`.
        errors: the end of its stderr.
    """

    messages: list[Message] = field(default_factory=list)
    status: str = "ok"
    errors: str = ""


def in_child(work: Callable[[Callable[[Message], None]], None], timeout: float) -> Ended:
    """Runs `work` in a fork; it takes a function that sends a message here.

    Args:
        timeout: seconds without a message until it counts as hung.
    """
    readable, writable = os.pipe()
    with tempfile.TemporaryFile() as errors:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            _be_child(work, readable, writable, errors.fileno())
        os.close(writable)
        ended = Ended()
        hung = False
        for message in _lines(readable, timeout):
            if message is None:
                hung = True
                os.kill(child, signal.SIGKILL)
                break
            ended.messages.append(message)
        os.close(readable)
        _, status = os.waitpid(child, 0)
        if hung:
            ended.status = "hang"
        elif os.WIFSIGNALED(status):
            ended.status = f"signal:{signal.Signals(os.WTERMSIG(status)).name}"
        elif os.WEXITSTATUS(status):
            ended.status = f"exit:{os.WEXITSTATUS(status)}"
        errors.seek(0, os.SEEK_END)
        errors.seek(max(0, errors.tell() - 600))
        ended.errors = errors.read().decode(errors="replace")
    return ended


def _be_child(
    work: Callable[[Callable[[Message], None]], None], readable: int, writable: int, errors: int
) -> None:
    code = 0
    try:
        os.close(readable)
        os.dup2(errors, 2)
        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
        work(lambda message: _send(writable, message))
    except BaseException:
        traceback.print_exc()
        code = 3
    finally:
        sys.stderr.flush()
        os._exit(code)  # no handlers of the parent's


def _send(writable: int, message: Message) -> None:
    data = json.dumps(message).encode() + b"\n"
    while data:
        data = data[os.write(writable, data) :]


def _lines(readable: int, timeout: float) -> Iterator[Message | None]:
    """Messages as they come; None where none came in time."""
    rest, last = b"", time.monotonic()
    while True:
        ready, _, _ = select.select([readable], [], [], max(0.0, last + timeout - time.monotonic()))
        if not ready:
            yield None
            return
        data = os.read(readable, 1 << 16)
        if not data:
            return
        last = time.monotonic()
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield json.loads(line)


# --- programs with a log ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """One start of a program that logs JSON, an object a line.

    Attributes:
        lines: its log. `{"begin": {"n": NUMBER, …}}` says what it is about to do; `{"end": true}` is the last one.
        code: how it exited; `timeout` where it hung.
        errors: the end of its stderr.
    """

    lines: list[Message]
    code: int | str
    errors: str

    @property
    def begun(self) -> Message | None:
        """What it began last."""
        return next((line["begin"] for line in reversed(self.lines) if "begin" in line), None)

    @property
    def ended(self) -> bool:
        """Whether it came to its end."""
        return self.code == 0 and any("end" in line for line in self.lines)


def restarted(
    command: Callable[[Path, int], list[str]], environment: dict[str, str], timeout: float
) -> Iterator[Run]:
    """Starts a program until it comes to its end, each time behind what it began before it died.

    Args:
        command: from the log's path and the first number to do, to the program's arguments.
        environment: of the program.
        timeout: seconds until it counts as hung.

    Yields:
        each run. The last one has ended, or has begun nothing: then there is nothing to go on behind.
    """
    first = 0
    while True:
        run = _logged(command, first, environment, timeout)
        yield run
        if run.ended or run.begun is None:
            return
        first = run.begun["n"] + 1


def _logged(
    command: Callable[[Path, int], list[str]], first: int, environment: dict[str, str], timeout: float
) -> Run:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        code: int | str = "timeout"
        errors = ""
        try:
            done = subprocess.run(
                [sys.executable, *command(log, first)],
                env=environment,
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
            code, errors = done.returncode, done.stderr[-2000:]
        except subprocess.TimeoutExpired:
            pass
        lines = log.read_text().splitlines() if log.exists() else []
    return Run([json.loads(line) for line in lines], code, errors)
