"""Processes that are forked from a server end, and say it, as those of an interpreter that has just begun."""

import os
import signal
import subprocess
import sys

import processes
import pytest

PROGRAMS = {
    "ends": "print('said')",
    "a code": "import sys; sys.exit(7)",
    "a text": "import sys; sys.exit('why')",
    "an error": "int('x')",
    "an interrupt": "raise KeyboardInterrupt",
    "a signal": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "an abort": "import os; os.abort()",
    "at the end": "import atexit; atexit.register(print, 'last'); print('first')",
    "a thread": "import threading, time; threading.Thread(target=lambda: (time.sleep(0.1), print('late'))).start()",
    "a full disk": "import os, sys; os.dup2(os.open('/dev/full', os.O_WRONLY), 1); print('lost')",
    "standard input": "import sys; print(sys.stdin.read()[::-1], sys.stdin.isatty())",
    "arguments": "import sys; print(sys.argv, __name__, sys.path[0])",
    "the environment": "import os; print(sorted(os.environ.items()), os.getcwd())",
    "names": "print(sorted(name for name in globals() if name[0] != '_'))",
    "streams": (
        "import sys; show = lambda s: print(s.encoding.lower(), s.errors, s.line_buffering); "
        "show(sys.stdin); show(sys.stdout); show(sys.stderr)"
    ),
    "files": "import os; print(sorted(os.listdir('/dev/fd')))",
    "signals": "import signal; print([signal.getsignal(s) for s in (2, 13, 15, 17)])",
    "the library is not there yet": "print('libdnnl' in open('/proc/self/maps').read())",
}


def outcome(done):
    told = done.stderr.decode()
    return done.returncode, done.stdout, told[-12:]  # what follows the names of files


FEW = {"a code", "a full disk", "an interrupt", "the environment", "streams", "files"}
"""Those that plain pytest tries: an interpreter of its own takes half a second."""


@pytest.mark.parametrize(
    "program", [name if name in FEW else pytest.param(name, marks=pytest.mark.long) for name in PROGRAMS]
)
def test_a_forked_process_is_as_one_from_the_start(program, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = ["-c", f"import onednn_graph\n{PROGRAMS[program]}", "an", "argument"]
    env = {k: v for k, v in os.environ.items() if not k.startswith("COV")} | {"OF_ITS_OWN": "1"}
    alone = subprocess.run(
        [sys.executable, *arguments], input=b"abc", capture_output=True, timeout=120, env=env, check=False
    )
    forked = processes.run(arguments, input=b"abc", env=env)
    assert outcome(forked) == outcome(alone)


def test_much_is_written_and_read():
    text = os.urandom(1 << 20)
    copy = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"
    assert processes.run(["-c", copy], input=text).stdout == text


def test_a_process_that_goes_on_for_too_long_is_ended():
    with (
        pytest.raises(subprocess.TimeoutExpired) as raised,
        processes.start(["-c", "while True: pass"]) as process,
    ):
        process.wait(0.1)
    assert process.returncode == -signal.SIGKILL, raised.value
