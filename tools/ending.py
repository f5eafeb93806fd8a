"""How every command ends: with an exit code, and one line where something went wrong."""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from enum import IntEnum
from typing import NoReturn

from ..graph.runtime.progress import show_progress
from ..ops.errors import OneDNNGraphError
from ..ops.values import one_line

GRACE = 1.0
"""Seconds that an interrupted command has to put its things in order."""
OF_NAMES = (
    errno.ENOENT,
    errno.EISDIR,
    errno.ENOTDIR,
    errno.EACCES,
    errno.ENAMETOOLONG,
    errno.EINVAL,
    errno.EADDRINUSE,
)
"""What is wrong with a file or port that somebody should have named otherwise; a full disk, say, is nobody's mistake.

Places that are none (EINVAL) are asked for by files that are damaged."""


class Exit(IntEnum):
    """Exit codes of all commands.

    `failed` is for what can't be done or came out wrong, `usage` for command lines and files that make no sense. The
    last two are what shells say of a process that a signal ended, SIGINT and SIGPIPE.
    """

    ok = 0
    failed = 1
    usage = 2
    interrupted = 130
    unread = 141


class Ended(Exception):  # noqa: N818 -- also how a command ends that was only interrupted
    """A command can't go on.

    Attributes:
        code: what the process ends with.
        problem: what to say of it; empty for nothing.
    """

    def __init__(self, code: Exit, problem: str = "", *, unwritable: bool = False) -> None:
        super().__init__(problem)
        self.code, self.problem, self._unwritable = code, problem, unwritable

    def settle(self) -> None:
        """Clears the line of progress, and says what is wrong."""
        show_progress(None)
        if self._unwritable:
            _drop(sys.stdout)
        if self.problem:
            say(self.problem)


def signal_name(number: int) -> str:
    """What a signal is called that ended a process."""
    try:
        return signal.Signals(number).name
    except ValueError:  # one of the real-time signals, of which the first and the last have names
        return f"signal {number}"


def code_of(error: OSError) -> Exit:
    """The exit code where a file can't be used."""
    return Exit.usage if error.errno in OF_NAMES else Exit.failed


@contextmanager
def told() -> Generator[None]:
    """Turns whatever a user can bring about into `Ended`; defects of ours pass as they are."""
    try:
        yield
    except OneDNNGraphError as error:
        wrong_input = isinstance(error, ValueError | TypeError)
        cause = error if isinstance(error, OSError) else error.__cause__
        if isinstance(cause, OSError) and cause.errno is not None:
            wrong_input = wrong_input and code_of(cause) is Exit.usage
        raise Ended(Exit.usage if wrong_input else Exit.failed, str(error)) from error
    except KeyboardInterrupt as error:
        raise Ended(Exit.interrupted) from error
    except BrokenPipeError as error:
        raise Ended(Exit.unread, unwritable=True) from error
    except MemoryError as error:
        more = f": {one_line(error)}" if str(error) else ""
        raise Ended(Exit.failed, f"there is not enough memory{more}; take smaller sizes") from error
    except OSError as error:
        if error.filename is None and isinstance(error, FileNotFoundError):  # which no stream raises
            problem = "the folder that this was started in is gone; change to one that is there"
            raise Ended(Exit.failed, problem) from error
        if error.filename is None:
            problem = f"the output can't be written: {error.strerror or error}"
            raise Ended(Exit.failed, problem, unwritable=True) from error
        problem = f"{os.fsdecode(error.filename)}: can't be used: {error.strerror or error}"
        raise Ended(code_of(error), problem) from error


def run_to_end(app: Callable[[], object]) -> NoReturn:
    """Calls the command line and ends the process.

    Args:
        app: does it all, and may end by SystemExit.
    """
    _watch_interrupts()
    warnings.showwarning = _tell  # else each comes with a file and a line of whatever calls commands
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, ValueError):  # a stream that is none, or closed
            stream.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] -- names of tensors may be any text
    code: str | int | None = Exit.ok
    try:
        with told():
            try:
                app()
            except SystemExit as ended:
                # typer ends with 1 where nobody reads its help.
                code = Exit.unread if isinstance(ended.__context__, BrokenPipeError) else ended.code
            if sys.stdout is not None:  # pyright: ignore[reportUnnecessaryComparison] -- None under pythonw
                sys.stdout.flush()  # here and not at the end of the interpreter, where errors have a form of their own
    except Ended as ended:
        code = ended.code
        ended.settle()
    sys.exit(code)


def say(problem: object) -> None:
    """One line on standard error, of which nobody hears where that is closed."""
    try:
        print(f"onednn-graph: {problem}", file=sys.stderr, flush=True)
    except (OSError, ValueError):
        _drop(sys.stderr)


def _tell(message: Warning | str, *_where: object, **_how: object) -> None:
    """A warning as any other line."""
    say(one_line(message))


def _drop(stream: object) -> None:
    """What is still in the buffer of a stream that can't be written goes nowhere, without an error."""
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]
        os.close(nowhere)


def _watch_interrupts() -> None:
    """Sees to it that Ctrl-C ends the process in any case.

    Python raises KeyboardInterrupt between two steps of its main thread: after a long call into the library only, and
    in vain where a finalizer or a callback of C happens to run. Then a thread ends the process after a while, and at a
    second Ctrl-C at once.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # from here on it is heard
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return  # a shell that runs a command in the background has it ignored
    woken, waker = socket.socketpair()  # sockets and no pipe, since Windows takes only these
    waker.setblocking(False)
    signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)

    def watch(_waker: socket.socket = waker) -> None:  # which is kept open by this
        while woken.recv(1) != bytes([signal.SIGINT]):
            pass
        select.select([woken], [], [], GRACE)
        show_progress(None)
        os._exit(Exit.interrupted)

    threading.Thread(target=watch, name="interrupts", daemon=True).start()
    others = sys.unraisablehook

    def unraised(what: sys.UnraisableHookArgs) -> None:
        if not issubclass(what.exc_type, KeyboardInterrupt):  # which the thread sees to, in silence
            others(what)

    sys.unraisablehook = unraised
