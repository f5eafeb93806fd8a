"""The judge in surroundings that a user may have: signals, closed files, search paths, others who end processes."""

import inspect
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import faulty_backends
import onednn_graph as og
import processes
import pytest
from faulty_backends import compiled
from onednn_graph.graph.compile import judging
from onednn_graph.graph.compile.backend import BACKENDS
from onednn_graph.graph.trust.process import PYTHONS
from onednn_graph.graph.trust.store import STORE
from rows import each

PROGRAM = """
import os, signal, sys, threading, time
import faulty_backends
import onednn_graph as og
from faulty_backends import compiled
from onednn_graph.graph.compile import judging, trying
from onednn_graph.graph.compile.backend import BACKENDS
"""


@pytest.fixture(autouse=True)
def in_a_child(monkeypatch):
    monkeypatch.setenv("ONEDNN_GRAPH_VERIFY", "child")


@pytest.fixture
def judge():
    judging.JUDGE.close()
    yield judging.JUDGE
    judging.JUDGE.close()


def told(program, **options):
    """What a program prints, that has the lines of `PROGRAM` before it."""
    done = processes.run(["-c", PROGRAM + program], **options)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().split()


# --- who is to blame ------------------------------------------------------------------------------------


def test_a_crash_in_a_process_that_has_judged_others_is_asked_of_a_new_one(judge):
    for _ in range(3):
        assert compiled(faulty_backends.Spoilt()).strategy == "first"


def test_a_process_that_ran_something_wrong_judges_no_more(judge):
    compiled(faulty_backends.Faulty())
    before = judge.pid
    assert compiled(faulty_backends.Wrong()).strategy == "second"
    assert judge.pid != before


def test_what_ends_by_others_again_and_again_does_not_run_here_and_is_not_kept(judge):
    explanation = compiled(faulty_backends.Killed())
    assert explanation.strategy == "second"
    assert (
        "it can't be tried, for the process that was to judge it was ended by others"
        in explanation.rejected[0]
    )
    assert STORE.rows() == {}


def test_who_takes_in_all_ends_of_children(judge):
    program = """
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for fault in ("Faulty", "Killed", "Crashing", "Exiting"):
    print(compiled(getattr(faulty_backends, fault)()).strategy)
"""
    assert told(program) == ["first", "second", "second", "second"]


# --- signals --------------------------------------------------------------------------------------------


def alarm(handler, seconds):
    """Has a handler called in this thread after so many seconds; returns what puts things as they were."""
    before = signal.signal(signal.SIGALRM, lambda *_: handler())
    signal.setitimer(signal.ITIMER_REAL, seconds)

    def back():
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

    return back


def test_a_time_limit_of_the_users_ends_the_wait(judge):
    def handler():
        raise TimeoutError("of the user's")

    compiled(faulty_backends.Faulty())
    back = alarm(handler, 1)
    try:
        with pytest.raises(TimeoutError, match="of the user's"):
            compiled(faulty_backends.Waiting())
    finally:
        back()
    assert compiled(faulty_backends.Faulty()).strategy == "first"


def test_a_handler_that_compiles_gets_no_answer_of_another_question(judge):
    """`Wrong` is asked while the answer about `Slow` is on its way."""
    found = []
    compiled(faulty_backends.Faulty())
    slow = og.Graph()
    slow.output(slow.op("ReLU", slow.input("x", "f32", (2, 3))), name="y")

    class Other(faulty_backends.Wrong):
        name = "other"
        plans_with = ("other",)

    def handler():
        BACKENDS.register(Other(), on_request=True)
        graph = og.Graph()
        graph.output(graph.op("ReLU", graph.input("x", "f32", (2, 3))), name="y")
        found.extend(graph.compile(backend="other").explain().values())

    Other.__module__, Other.__qualname__ = "faulty_backends", "Wrong"
    back = alarm(handler, 0.4)
    try:
        assert compiled(faulty_backends.Slow()).strategy == "first"
    finally:
        back()
        BACKENDS.unregister("other")
    assert [one.strategy for one in found] == ["second"]


def test_an_answer_of_before_is_passed_over(judge):
    compiled(faulty_backends.Faulty())
    judge._child.rest = b'{"kind": "wrong", "seen": "by another", "number": -1}\n'
    assert compiled(faulty_backends.Faulty()).strategy == "first"


def test_signals_that_this_process_holds_back_end_the_other_one(judge, monkeypatch):
    monkeypatch.setattr(judging, "RUN_SECONDS", 0.2)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGXCPU})
    try:
        assert "endless" in compiled(faulty_backends.Endless(), threads=1).rejected[0]
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_one_thread_that_has_no_end_is_not_given_the_time_of_all(judge, monkeypatch):
    monkeypatch.setattr(judging, "RUN_SECONDS", 0.2)
    assert "endless" in compiled(faulty_backends.Endless(), threads=3000).rejected[0]


# --- how this process was started, and ends -------------------------------------------------------------


def test_without_standard_files():
    program = """
said = os.dup(1)
for number in range(3):
    os.close(number)
strategy = compiled(faulty_backends.Wrong()).strategy
compiled(faulty_backends.Faulty())
os.write(said, f"{strategy} {judging.JUDGE.impossible} {judging.JUDGE.pid is not None}".encode())
os._exit(0)
"""
    assert told(program) == ["second", "True"]


def test_paths_that_are_no_texts(judge, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path, Path("/nowhere"), b"/nowhere", None])
    compiled(faulty_backends.Faulty())
    assert judge.pid is not None


def test_modules_of_the_folder_are_not_taken_for_pythons_own(tmp_path):
    for name in ("json", "socket", "onednn_graph"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(7)\n")
    program = """
os.chdir(sys.argv[1])
sys.path.remove("")
compiled(faulty_backends.Faulty())
print(judging.JUDGE.impossible or "possible")
"""
    done = processes.run(["-c", PROGRAM + program, tmp_path])
    assert done.stdout.split() == [b"possible"], done.stderr.decode()


def test_a_process_that_compiles_as_it_begins_asks_no_other(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        PROGRAM
        + f"""
with open({str(tmp_path / "begun")!r}, "a+") as file:
    print(os.getpid(), file=file, flush=True)
    file.seek(0)
    few = len(file.readlines()) < 4
if few:
    compiled(faulty_backends.Faulty())
"""
    )
    support = os.path.dirname(faulty_backends.__file__)
    search = os.pathsep.join([str(tmp_path), support])
    told("compiled(faulty_backends.Faulty())", env=os.environ | {"PYTHONPATH": search})
    assert len((tmp_path / "begun").read_text().splitlines()) == 1


def test_a_daemons_thread_that_asks_keeps_nobody_from_ending():
    program = """
threading.Thread(target=compiled, args=[faulty_backends.Waiting()], daemon=True).start()
while judging.JUDGE.pid is None:
    time.sleep(0.1)
time.sleep(1)
"""
    with processes.start(["-c", PROGRAM + program], stderr=subprocess.PIPE) as process:
        assert process.wait(timeout=40) == 0
        assert process.stderr.read() == b""


def test_where_no_file_can_be_made(judge, monkeypatch):
    def none(*_, **__):
        raise OSError("no room")

    monkeypatch.setattr(os, "memfd_create", none)
    monkeypatch.setattr(tempfile, "TemporaryFile", none)
    assert "SIGABRT" in compiled(faulty_backends.Aborting()).rejected[0]


@each(
    "name, is_python",
    [
        ("python", True),
        ("python3.11", True),
        ("python3.13t", True),
        ("python3-dbg", True),
        ("Python", True),
        ("pypy3.11", True),
        ("pythonista", False),
        ("python-host", False),
        ("uwsgi", False),
        ("", False),
    ],
)
def test_programs_that_are_python(name, is_python):
    assert bool(PYTHONS.fullmatch(name)) is is_python


def test_it_looks_into_what_can_be_looked_into():
    """As protocols are told from Python 3.12 on: by what there is without asking `__getattr__`."""

    class Plain:
        def run(self, inputs, outputs):
            pass

    class Open(Plain):
        def run_tapped(self, inputs, outputs, visit):
            return True

    def doing(what, **_):
        pass

    for made, tapped in [(Plain(), False), (Open(), True)]:
        watched = judging.watched_by(made, doing, 1.0, 1)
        assert (inspect.getattr_static(watched, "run_tapped", None) is not None) is tapped


def test_threads_fork_while_others_ask_for_verdicts(tmp_path):
    """SQLite's own locks are free in a fork."""
    program = """
from onednn_graph.graph.trust.store import STORE
from onednn_graph.graph.trust.verdict import RIGHT
end = time.monotonic() + 4

def keep(name):
    number = 0
    while time.monotonic() < end:
        number += 1
        STORE.put({f"{name} {number}": RIGHT})

threads = [threading.Thread(target=keep, args=[name]) for name in range(3)]
for thread in threads:
    thread.start()
forks = 0
while time.monotonic() < end:
    child = os.fork()
    if child == 0:
        STORE.put({"of a fork": RIGHT})
        os._exit(0)
    limit = time.monotonic() + 30
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > limit:
            os.kill(child, 9)
            os.waitpid(child, 0)
            sys.exit("a fork hangs")
        time.sleep(0.001)
    forks += 1
print(forks > 0)
"""
    assert told(program, env=os.environ | {"ONEDNN_GRAPH_CACHE": str(tmp_path)}) == ["True"]


def test_a_folder_named_from_one_that_is_gone(tmp_path):
    program = """
from onednn_graph.graph.trust.store import STORE
from onednn_graph.graph.trust.verdict import RIGHT
os.chdir(sys.argv[1])
os.rmdir(sys.argv[1])
STORE.put({"a": RIGHT})
print(len(STORE.rows()))
"""
    folder = tmp_path / "gone"
    folder.mkdir()
    done = processes.run(["-c", PROGRAM + program, folder], env=os.environ | {"ONEDNN_GRAPH_CACHE": "here"})
    assert done.stdout.split() == [b"1"], done.stderr.decode()
