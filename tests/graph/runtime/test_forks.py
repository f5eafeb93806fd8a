"""Forks while other threads compile: what a child must not wait for."""

import os
import subprocess
import sys
import threading

import pytest
from onednn_graph.graph.runtime.cached import cached
from onednn_graph.graph.runtime.locking import ForeignLocks

PATIENCE = 60
"""Seconds after which a thread or process counts as stuck."""
fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


def wait(event):
    assert event.wait(PATIENCE), "nobody came"


FORKS_WHILE_OTHERS_COMPILE = """
import itertools, os, signal, sys, threading, time, warnings
import numpy as np
import onednn_graph as og
warnings.simplefilter("ignore")

def work(rows):
    x = np.ones((rows, 16), np.float32)
    graph = og.Graph()
    y = graph.matmul(graph.input("x", "f32", x.shape), graph.constant(np.ones((16, 16), np.float32)))
    graph.output(graph.relu(y), name="y")
    assert (graph.compile()({"x": x})["y"] == 16).all()

def without_end():
    for rows in itertools.count(2):
        work(2 + rows % 50)

work(1)
for _ in range(2):
    threading.Thread(target=without_end, daemon=True).start()
for number in range(int(sys.argv[1])):
    time.sleep(number % 7 / 1000)
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        work(60 + number)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        os._exit(3)
os._exit(0)
"""


@fork
@pytest.mark.parametrize("forks", [6, pytest.param(40, marks=pytest.mark.long)])
def test_a_child_that_is_forked_while_other_threads_compile_compiles_too(forks):
    """No lock, of ours, of Python's or of the library's, stays with a thread that the child does not have."""
    command = [sys.executable, "-c", FORKS_WHILE_OTHERS_COMPILE, str(forks)]
    outcome = subprocess.run(command, timeout=2 * PATIENCE)
    assert outcome.returncode == 0


def test_cached_attributes_take_no_lock():
    """A thread that computes one keeps no other from it, so that nothing is held across a fork."""
    entered, leave = threading.Event(), threading.Event()

    class Slow:
        @cached
        def value(self):
            if threading.current_thread() is not main:
                entered.set()
                wait(leave)
            return object()

    main, slow = threading.current_thread(), Slow()
    other = threading.Thread(target=lambda: slow.value, daemon=True)
    other.start()
    wait(entered)
    assert slow.value is slow.value
    leave.set()
    other.join(PATIENCE)


def test_a_fork_waits_for_calls_into_foreign_code_and_they_for_it():
    locks = ForeignLocks()
    within, go_on, forked = threading.Event(), threading.Event(), threading.Event()

    def call():
        with locks, locks:
            within.set()
            wait(go_on)

    def forks():
        locks.before()
        forked.set()
        locks.in_parent()

    caller, forker = threading.Thread(target=call), threading.Thread(target=forks)
    caller.start()
    wait(within)
    forker.start()
    assert not forked.wait(0.05)
    go_on.set()
    wait(forked)
    for thread in (caller, forker):
        thread.join(PATIENCE)
    with locks:  # a signal handler that forks between two lines of the caller's
        locks.before()
        locks.in_child()
    locks.before()
    locks.in_parent()
