"""Programs of Python in processes of their own that begin with the package imported, which takes half a second.

A server has imported it, and has not loaded oneDNN, which reads the environment. It forks itself for each program: the
fork has the arguments, the environment, the folder and the files that it is given, finds modules of tests/support, runs
at the top level of `__main__`, and ends as an interpreter ends. The command line is imported by each process anew, for
it looks at the terminal then.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import io
import json
import os
import pickle
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import types
import warnings

PATIENCE = 120
"""Seconds; a busy machine stops a process for a while."""
FILES = 3
"""Those that a program has from the start."""


class Process:
    """What `start` has started; like subprocess.Popen, as far as it goes. Leaving `with` waits for its end.

    Attributes:
        pid: of the process.
        returncode: None while it runs; negative, the signal that ended it.
        stdin, stdout, stderr: this side's end of a pipe, where one was asked for.
    """

    def __init__(self, status, pipes):
        self._status = status
        self.returncode = None
        self.stdin, self.stdout, self.stderr = pipes
        self.pid = int(status.readline())

    def poll(self):
        """The code that it has ended with, or None."""
        if self.returncode is None and select.select([self._status], [], [], 0)[0]:
            self.returncode = int(self._status.readline())
        return self.returncode

    def wait(self, timeout=PATIENCE):
        """The code that it ends with; `subprocess.TimeoutExpired` where it does not in time."""
        if self.returncode is None and not select.select([self._status], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(str(self.pid), timeout)
        return self.poll()

    def send_signal(self, number):
        """Where it has not ended yet."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        """Ends it at once."""
        self.send_signal(signal.SIGKILL)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            self.kill()
        for file in (self.stdin, self.stdout, self.stderr):
            if file is not None:
                file.close()
        self.wait()
        self._status.close()


def start(arguments, *, stdin=None, stdout=None, stderr=None, env=None, cwd=None, start_new_session=False):
    """Starts Python.

    Args:
        arguments: what would follow `python`: `-m` or `-c` and more.
        stdin, stdout, stderr: a file, its number, `subprocess.PIPE`, or None for those of tests: nothing.
        env, cwd: the environment and the folder, this process's by default.
        start_new_session: whether signals of this one's group pass it by.
    """
    ours, theirs, mine = [], [], []
    for number, file in enumerate((stdin, stdout, stderr)):
        if file == subprocess.PIPE:
            ends = os.pipe()
            theirs.append(ends[number > 0])
            mine.append(theirs[-1])
            ours.append(os.fdopen(ends[number == 0], "rb" if number else "wb"))
        else:
            ours.append(None)
            if file is None or file == subprocess.DEVNULL:
                file = os.open(os.devnull, os.O_RDWR)
                mine.append(file)
            theirs.append(file if isinstance(file, int) else file.fileno())
    readable, writable = os.pipe()
    with tempfile.TemporaryFile() as request:
        wanted = (
            list(map(str, arguments)),
            dict(os.environ if env is None else env),
            str(cwd or os.getcwd()),
            start_new_session,
        )
        pickle.dump(wanted, request)
        request.flush()
        socket.send_fds(_server(), [b"!"], [*theirs, writable, request.fileno()])
    for number in (*mine, writable):
        os.close(number)
    return Process(open(readable), ours)


def run(arguments, *, input=b"", stdin=None, stdout=None, env=None, cwd=None, timeout=PATIENCE):  # noqa: A002 -- as subprocess.run says
    """Like subprocess.run, of a program that is given `input` and read to its end; stdin and stdout may be files."""
    process = start(
        arguments,
        stdin=subprocess.PIPE if stdin is None else stdin,
        stdout=subprocess.PIPE if stdout is None else stdout,
        stderr=subprocess.PIPE,
        env=env,
        cwd=cwd,
    )
    with process:
        read = {file: bytearray() for file in (process.stdout, process.stderr) if file is not None}
        open_ones, rest, end = set(read), memoryview(input), time.monotonic() + timeout
        while open_ones or process.stdin is not None:
            readable, writable, _ = select.select(
                open_ones, [process.stdin] if process.stdin else [], [], max(0, end - time.monotonic())
            )
            if not readable and not writable:
                raise subprocess.TimeoutExpired(list(arguments), timeout, *map(bytes, read.values()))
            for file in readable:
                part = os.read(file.fileno(), 1 << 16)
                read[file] += part
                if not part:
                    open_ones.remove(file)
            if writable:
                with contextlib.suppress(BrokenPipeError):
                    rest = rest[os.write(process.stdin.fileno(), rest[: select.PIPE_BUF]) if rest else 0 :]
                    if rest:
                        continue
                process.stdin.close()
                process.stdin = None
        code = process.wait(timeout)
    told = [None if file is None else bytes(read[file]) for file in (process.stdout, process.stderr)]
    return subprocess.CompletedProcess(list(arguments), code, *told)


def printed(code, *arguments, env=None):
    """What a program prints as JSON, which must end well."""
    done = run(["-c", code, *arguments], env=env)
    assert done.returncode == 0, f"it ended with {done.returncode}: {done.stderr.decode()[-4000:]}"
    return json.loads(done.stdout)


@functools.cache
def _server():
    ours, theirs = socket.socketpair()
    with theirs:
        subprocess.Popen(  # it ends when this process does, which has the other socket
            [sys.executable, __file__, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        ).returncode = 0  # nobody waits for it
    atexit.register(ours.close)
    return ours


# --- the server ---------------------------------------------------------------------------------------


def serve(asked):
    """Forks for each request. Returns in the fork what is asked for, in the server None when nobody asks any more."""
    import onednn_graph

    for module in ("onnx", "rich.console", "rich.table", "safetensors", "typer", "typer.rich_utils"):
        with contextlib.suppress(ImportError):
            __import__(module)
    assert not any(name.startswith("onednn_graph.tools") for name in sys.modules), onednn_graph
    warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)  # NumPy's threads can be
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks that wait
    while True:
        _, files, _, _ = socket.recv_fds(asked, 1, FILES + 2)
        if not files:
            asked.close()
            return None
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            asked.close()
            return _begun(files)
        for file in files:
            os.close(file)


def _begun(files):
    """In the process that runs the program, what that is; another one waits for its end and tells of it."""
    *ends, status, request = files
    child = os.fork()
    if child:
        for file in (*ends, request):
            os.close(file)
        with open(status, "w") as told:
            print(child, file=told, flush=True)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), file=told, flush=True)
            os._exit(0)
    with open(request, "rb") as file:
        file.seek(0)
        arguments, environment, folder, alone = pickle.load(file)
    if alone:
        os.setsid()
    for number, file in enumerate(ends):
        os.dup2(file, number)
    os.closerange(FILES, 1024)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stdin, sys.stdout, sys.stderr = [_stream(n, environment) for n in range(FILES)]
    search = [part for part in environment.get("PYTHONPATH", "").split(os.pathsep) if part]
    support, *rest = sys.path
    first = "" if arguments[0] == "-c" else folder
    sys.path[:] = [first, *(part for part in search if part not in rest), *rest, support]
    return arguments


def _stream(number, environment):
    """As an interpreter opens the first three files."""
    encoding = environment.get("PYTHONIOENCODING") or sys.__stdin__.encoding
    errors = None if "PYTHONIOENCODING" in environment else sys.__stdin__.errors
    if number == 0:
        return os.fdopen(number, encoding=encoding, errors=errors, closefd=False)
    unbuffered = bool(environment.get("PYTHONUNBUFFERED"))
    stream = os.fdopen(number, "wb", 0 if unbuffered else -1, closefd=False)
    return io.TextIOWrapper(
        stream,
        encoding=encoding,
        errors="backslashreplace" if number == 2 else errors,
        newline="\n",
        line_buffering=not unbuffered and (number == 2 or os.isatty(number)),
        write_through=unbuffered,
    )


def become(option, what, *arguments):
    """Runs a module or a text as an interpreter that has just begun would."""
    sys.argv = [option, *arguments]
    sys.modules["__main__"] = main = types.ModuleType("__main__")
    if option == "-m":
        signal.signal(
            signal.SIGINT, signal.SIG_DFL
        )  # as the package does where it is imported for its command
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        exec(compile(what, "<string>", "exec"), vars(main))


if __name__ == "__main__":
    if program := serve(socket.socket(fileno=int(sys.argv[1]))):
        become(*program)
