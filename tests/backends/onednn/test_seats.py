"""Threads of a team that has all CPUs keep off the CPU of the thread that calls."""

import os
import threading

import processes
import pytest
from onednn_graph.backends.onednn.library import seats

CPUS = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
pytestmark = pytest.mark.skipif(len(CPUS) < 2, reason="one CPU has no other beside it")
PLACES = """
import json, os, threading
os.sched_setaffinity(0, {cpus})
import numpy as np
import onednn_graph as og
from onednn_graph.backends.onednn.library import seats
graph = og.Graph()
a, b = graph.input("a", "f32", [256, 256]), graph.input("b", "f32", [256, 256])
graph.op("MatMul", graph.op("MatMul", a, b), b, name="y")
ones = np.ones((256, 256), np.float32)
model = graph.compile(threads={threads})
same = all((model(a=ones, b=ones)["y"] == 65536).all() for _ in range(20))
teams = seats._seated.teams
team = teams.get({threads})
print(json.dumps({{
    "same": same,
    "caller": sorted(os.sched_getaffinity(0)),
    "workers": [] if team is None else [sorted(os.sched_getaffinity(one)) for one in team.of],
    "known": None if team is None else [team.caller, *team.of.values()],
}}))
"""


def placed(threads, cpus, **more):
    """Where a child's threads may run that has multiplied matrices on so many."""
    clean = {
        name: value for name, value in os.environ.items() if name not in (*seats.PLACING, "OMP_NUM_THREADS")
    }
    return processes.printed(PLACES.format(cpus=set(cpus), threads=threads), env=clean | more)


@pytest.mark.usefixtures("onednn")
def test_each_thread_has_a_cpu_and_the_calling_one_goes_where_it_may():
    told = placed(2, CPUS[:2])
    assert told["same"]
    assert told["caller"] == CPUS[:2]
    assert len(told["workers"]) == 1
    assert sorted(told["known"]) == CPUS[:2]
    assert told["workers"] == [[told["known"][1]]]


@pytest.mark.usefixtures("onednn")
@pytest.mark.parametrize(
    ("threads", "more"), [(1, {}), (3, {}), (2, {"OMP_PROC_BIND": "false"}), (2, {"OMP_THREAD_LIMIT": "1"})]
)
def test_teams_that_are_left_to_the_system(threads, more):
    told = placed(threads, CPUS[:2], **more)
    assert told["same"]
    assert told["workers"] == []
    assert told["caller"] == CPUS[:2]


@pytest.fixture
def moves(monkeypatch):
    """Who was sent where, of threads that are not there."""
    sent = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda thread: {4, 5, 6})
    monkeypatch.setattr(os, "sched_setaffinity", lambda thread, cpus: sent.append((thread, *cpus)))
    return sent


def test_who_had_the_callers_cpu_gets_another(moves):
    team = seats.Seats([101, 102], [4, 5, 6])
    assert team.sit(5)
    assert sorted(moves) == [(101, 4), (102, 6)]
    moves.clear()
    assert team.sit(4)
    assert moves == [(101, 5)]
    assert team.of == {101: 5, 102: 6}
    moves.clear()
    assert team.sit(4)
    assert moves == []


def test_a_caller_that_was_sent_elsewhere_sends_nobody(moves, monkeypatch):
    team = seats.Seats([101, 102], [4, 5, 6])
    assert team.sit(7)
    monkeypatch.setattr(os, "sched_getaffinity", lambda thread: {4})
    assert team.sit(4)
    assert moves == []


def test_a_team_that_has_ended_is_left_alone(monkeypatch):
    class Three:
        calls = 0

        def everywhere(self, threads, function):
            self.calls += 1
            callers = [threading.Thread(target=function, args=(None,)) for _ in range(threads - 1)]
            for one in callers:
                one.start()
                one.join()
            function(None)

    team, cpu = Three(), CPUS[0]
    monkeypatch.setattr(seats, "_current", lambda: lambda: cpu)
    monkeypatch.setattr(seats, "_seated", seats._Seated())
    numbers = iter([101, 102, 100, *[100] * 9])
    monkeypatch.setattr(threading, "get_native_id", lambda: next(numbers))
    monkeypatch.setattr(os, "sched_getaffinity", lambda thread: {cpu, cpu + 1, cpu + 2})

    def ended(thread, cpus):
        raise ProcessLookupError

    monkeypatch.setattr(os, "sched_setaffinity", ended)
    for _ in range(3):
        seats.keep_apart(team, 3)
    assert team.calls == 1
    assert seats._seated.teams == {3: None}
