"""The judge: what a kernel does in its process comes back as a verdict, and this one goes on."""

import logging
import os
import signal
import subprocess
import sys
import threading
import time

import bad_inputs
import faulty_backends
import numpy as np
import onednn_graph as og
import processes
import pytest
from onednn_graph.graph.compile import judging, trying
from onednn_graph.graph.compile.backend import BACKENDS
from onednn_graph.graph.runtime import progress
from onednn_graph.graph.trust import judge as judge_module
from rows import each

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2


@pytest.fixture(autouse=True)
def in_a_child(monkeypatch):
    """Tests verify in their own process elsewhere."""
    monkeypatch.setenv("ONEDNN_GRAPH_VERIFY", "child")


@pytest.fixture
def judge():
    """The judge of this process, which begins anew."""
    judging.JUDGE.close()
    yield judging.JUDGE
    judging.JUDGE.close()


@pytest.fixture
def use():
    """From a backend to a function that compiles a graph of one op by it."""
    yield compiled
    BACKENDS.unregister("faulty")


def compiled(backend, **options):
    """A graph of one ReLU, compiled by a backend `faulty`, and its explanation."""
    if backend not in list(BACKENDS):
        BACKENDS.register(backend, on_request=True)
    graph = og.Graph()
    x = graph.input("x", "f32", X.shape)
    graph.output(graph.op("ReLU", x), name="y")
    model = graph.compile(backend="faulty", **options)
    np.testing.assert_array_equal(model({"x": X})["y"], np.maximum(X, 0))
    return next(iter(model.explain().values()))


def test_what_is_right_there_runs_here(judge, use):
    told = use(faulty_backends.Faulty())
    assert (told.strategy, told.verified) == ("first", True)
    first = judge.pid
    assert first not in (None, os.getpid())
    use(BACKENDS.get("faulty"))
    assert judge.pid == first


@each(
    "fault, reason",
    [
        (faulty_backends.Crashing, "crashed: SIGSEGV, while running it"),
        (faulty_backends.Aborting, "crashed: SIGABRT: free(): invalid pointer, while running it"),
        (faulty_backends.Exiting, "crashed: exit code 3, while running it"),
        (faulty_backends.Silent, "6 of 6 elements of tensor 'relu_1'"),
        (faulty_backends.Wrong, "1 of 6 elements of tensor 'relu_1'"),
        (faulty_backends.Behind, "something is written beside the elements of tensor 'relu_1'"),
        (faulty_backends.Before, "something is written beside the elements"),
        (faulty_backends.Forgetting, "6 of 6 elements of tensor 'relu_1'"),
        (faulty_backends.InPlace, "its input tensor 'x'"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_what_is_wrong_there_does_not_run_here(judge, fault, reason):
    try:
        told = compiled(fault())
    finally:
        BACKENDS.unregister("faulty")
    assert told.strategy == "second"
    assert reason in told.rejected[0]


def test_what_has_no_end_there_does_not_run_here(judge, use, monkeypatch):
    monkeypatch.setattr(judging, "RUN_SECONDS", 0.2)
    told = use(faulty_backends.Endless(), threads=1)
    assert told.strategy == "second"
    assert "endless: it had not ended when its time was up, while running it" in told.rejected[0]


def test_what_waits_for_ever_there_does_not_run_here(judge, use, monkeypatch):
    monkeypatch.setattr(judge_module, "STILL_SECONDS", 0.5)
    told = use(faulty_backends.Waiting())
    assert told.strategy == "second"
    assert "endless: it does nothing any more" in told.rejected[0]


def test_another_process_follows_one_that_crashed(judge, use):
    backend = faulty_backends.Crashing()
    pids = set()
    for _ in range(2):
        use(backend)
        pids.add(judge.pid)
    assert len(pids) == 2


def test_one_that_others_have_ended_is_asked_again(judge, use):
    backend = faulty_backends.Slow()
    use(faulty_backends.Faulty())
    BACKENDS.unregister("faulty")
    pid = judge.pid
    killer = threading.Timer(0.5, os.kill, (pid, signal.SIGKILL))
    killer.start()
    told = use(backend)
    assert (told.strategy, told.verified) == ("first", True)
    assert judge.pid != pid


@each(
    "fault, reason",
    [
        (faulty_backends.Hungry, "it can't be tried, for there is no memory"),
        (faulty_backends.Elsewhere, "makes another plan of it"),
        (faulty_backends.Conditioned, "instead of {'FAULTY_BACKEND': 'here'"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_what_it_can_not_say_is_verified_here(judge, fault, reason, caplog):
    caplog.clear()
    backend = fault()
    backend.run = lambda compute, inputs, outputs: compute(inputs, outputs)
    try:
        with caplog.at_level(logging.DEBUG, "onednn_graph"):
            told = compiled(backend)
    finally:
        BACKENDS.unregister("faulty")
    assert (told.strategy.split()[0], told.verified) == ("first", True)
    assert reason in caplog.text


def test_backends_that_no_module_has_are_verified_here(judge, use, caplog):
    class Local(faulty_backends.Faulty):
        pass

    with caplog.at_level(logging.DEBUG, "onednn_graph"):
        told = use(Local())
    assert told.verified
    assert judge.pid is None
    assert "no other process has the class of the backend 'faulty'" in caplog.text


def test_ops_of_the_user_are_verified_here(judge, use, caplog):
    schema = bad_inputs.schema(kind="Halve", pure=True)

    def halve(op, inputs, outputs):
        np.multiply(inputs[0], 0.5, outputs[0])

    BACKENDS.register(faulty_backends.Faulty(), on_request=True)
    og.extend.register_op(schema, halve)
    try:
        graph = og.Graph()
        graph.output(graph.op("Halve", graph.input("x", "f32", X.shape)), name="y")
        with caplog.at_level(logging.DEBUG, "onednn_graph"):
            model = graph.compile(backend="faulty")
    finally:
        og.extend.unregister_op("Halve")
    np.testing.assert_array_equal(model({"x": X})["y"], X / 2)
    assert next(iter(model.explain().values())).verified
    assert "unknown op kind 'Halve'" in caplog.text


@pytest.mark.parametrize("program", ["", "/bin/uwsgi", "/nowhere/python3"])
def test_where_no_process_can_be_started_it_is_said_once(program, use, monkeypatch, caplog):
    monkeypatch.setattr(judging, "JUDGE", judge_module.Judge(judging.__name__))
    monkeypatch.setattr(trying, "JUDGE", judging.JUDGE)
    monkeypatch.setattr(sys, "executable", program)
    backend = faulty_backends.Wrong()
    for _ in range(2):
        told = use(backend)
        assert (told.strategy, told.verified) == ("second", True)
    (said,) = caplog.messages
    assert "verified in this process, for no process can be started for it (" in said


def test_two_threads_ask_at_once(judge, use):
    backend = faulty_backends.Wrong()
    told = []
    BACKENDS.register(backend, on_request=True)
    threads = [threading.Thread(target=lambda: told.append(compiled(backend))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [one.strategy for one in told] == ["second"] * 4


def test_a_fork_asks_a_process_of_its_own(judge, use):
    backend = faulty_backends.Faulty()
    use(backend)
    pid = judge.pid
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with open(writable, "w") as told:
                print(judge.pid, use(backend).strategy, judge.pid not in (None, pid), file=told)
            judge.close()
        finally:
            os._exit(0)
    os.close(writable)
    with open(readable) as told:
        assert told.read().split() == ["None", "first", "True"]
    os.waitpid(child, 0)
    use(backend)
    assert judge.pid == pid


# --- in a process that ends, or is interrupted --------------------------------------------------------

PROGRAM = """
import os, sys, threading, time
import faulty_backends
from faulty_backends import compiled
from onednn_graph.graph.compile.judging import JUDGE

compiled(faulty_backends.Faulty())
print(JUDGE.pid, flush=True)
"""


def gone(pid, seconds=30):
    """Whether a process ends in time, or is a corpse that nobody has buried."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except FileNotFoundError:
            return True
        time.sleep(0.05)
    return False


@each(
    "after, number, code",
    [
        ("pass", None, 0),
        ("os._exit(5)", None, 5),
        ("time.sleep(100)", signal.SIGKILL, -signal.SIGKILL),
        ("compiled(faulty_backends.Endless())", signal.SIGKILL, -signal.SIGKILL),
        ("compiled(faulty_backends.Waiting())", signal.SIGTERM, -signal.SIGTERM),
        ("os.fork() or time.sleep(3)\ntime.sleep(100)", signal.SIGKILL, -signal.SIGKILL),
    ],
)
def test_it_ends_with_this_process(after, number, code):
    with processes.start(["-c", f"{PROGRAM}{after}"], stdout=subprocess.PIPE) as process:
        pid = int(process.stdout.readline())
        if number is not None:
            time.sleep(0.5)
            process.send_signal(number)
        assert process.wait() == code
        assert gone(pid)


def test_an_interrupt_ends_the_wait_and_nothing_else():
    program = f"""{PROGRAM}
try:
    compiled(faulty_backends.Waiting())
except KeyboardInterrupt:
    print("interrupted", compiled(faulty_backends.Crashing()).strategy, flush=True)
"""
    command = ["-c", program]
    with processes.start(command, stdout=subprocess.PIPE, start_new_session=True) as process:
        pid = int(process.stdout.readline())
        time.sleep(1)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        assert process.stdout.read().split() == [b"interrupted", b"second"]
        assert process.wait() == 0
    assert gone(pid)


def test_an_interrupt_while_nothing_is_asked_leaves_it_alone():
    program = f"""{PROGRAM}
try:
    time.sleep(100)
except KeyboardInterrupt:
    compiled(faulty_backends.Faulty())
    print(JUDGE.pid)
"""
    with processes.start(["-c", program], stdout=subprocess.PIPE, start_new_session=True) as process:
        pid = int(process.stdout.readline())
        time.sleep(0.5)
        os.killpg(process.pid, signal.SIGINT)
        assert int(process.stdout.read()) == pid
        assert process.wait() == 0


def test_who_waits_is_told(judge, use, monkeypatch):
    shown = []
    use(faulty_backends.Faulty())
    monkeypatch.setattr(judge_module, "PATIENCE", 0.3)
    monkeypatch.setattr(judge_module, "show_progress", shown.append)
    BACKENDS.unregister("faulty")
    use(faulty_backends.Slow())
    assert shown[0] == "verifying ReLU 'relu_1' in another process, running it"
    assert shown[-1] is None
    assert progress.PATIENCE == 1


def test_it_loads_no_framework(judge, use):
    use(faulty_backends.Faulty())
    with open(f"/proc/{judge.pid}/maps") as file:
        assert "torch" not in file.read()
