"""The warning of threads that wait in long loops on a busy machine, on fakes of the machine."""

import os
import sys

import onednn_graph as og
import processes
import pytest
from onednn_graph.backends.onednn.library import crowding, waiting

VARIABLES = (*waiting.POLICY_VARIABLES, "OMP_NUM_THREADS")
PRESSED = "some avg10=1.00 avg60=45.20 avg300=9.00 total=5\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"


@pytest.fixture(autouse=True)
def anew(monkeypatch):
    monkeypatch.setattr(crowding, "_found", [])
    monkeypatch.setattr(crowding, "get_num_threads", lambda: 4)


@pytest.mark.parametrize(
    ("pressure", "load", "said"),
    [
        (PRESSED, 3.0, "threads waited for a CPU in 45 % of the last minute"),
        (PRESSED, 2.9, None),  # two of them are ours
        (PRESSED.replace("45.20", "19.99"), 99.0, None),
        (None, 7.1, "the load of others is 5.1 on 4 CPUs"),
        (None, 7.0, None),
        ("nonsense", 7.1, "the load of others is 5.1 on 4 CPUs"),
        ("", None, None),
    ],
)
def test_what_a_busy_machine_is(pressure, load, said, tmp_path, monkeypatch):
    def averages():
        if load is None:
            raise OSError
        return load, 0.0, 0.0

    monkeypatch.setattr(crowding.os, "getloadavg", averages)
    monkeypatch.setattr(crowding.os, "cpu_count", lambda: 4)
    monkeypatch.setattr(crowding, "own_load", lambda: 2.0)
    if pressure is not None:
        (tmp_path / "cpu").write_text(pressure)
    assert crowding.crowd(tmp_path / "cpu") == said


@pytest.mark.parametrize(
    ("age", "seconds", "threads"),
    [(30, [(20, 10), (30, 0)], 1.0), (120, [(120, 0), (60, 60)], 2.0), (600, [], 0.0)],
    ids=["young", "old", "idle"],
)
def test_what_a_process_adds_to_the_load_itself(age, seconds, threads, tmp_path, monkeypatch):
    """Of threads that have run and waited for so many seconds."""
    monkeypatch.setattr(crowding.time, "clock_gettime", lambda clock: 1000.0)
    started = int((1000 - age) * os.sysconf("SC_CLK_TCK"))
    (tmp_path / "stat").write_text(f"7 (a (b) 1) S {'0 ' * 18}{started} 0 0\n")
    (tmp_path / "task" / "ended").mkdir(parents=True)
    for number, (ran, waited) in enumerate(seconds):
        (tmp_path / "task" / str(number)).mkdir()
        (tmp_path / "task" / str(number) / "schedstat").write_text(f"{ran * 10**9} {waited * 10**9} 5\n")
    assert crowding.own_load(tmp_path) == pytest.approx(threads, rel=1e-3)
    assert crowding.own_load(tmp_path / "nowhere") == 0


def test_it_is_said_once_with_a_way_out(monkeypatch):
    monkeypatch.setattr(crowding, "crowd", lambda: "the load of others is 9.0 on 4 CPUs")
    monkeypatch.setitem(sys.modules, "torch", sys)
    with pytest.warns(og.errors.BusyMachineWarning) as seen:
        crowding.warn_of_crowd()
    assert str(seen[0].message) == (
        "GNU OpenMP was loaded by torch before oneDNN, so that its threads wait in loops of milliseconds, and the "
        "machine is busy: the load of others is 9.0 on 4 CPUs; models may take several times as long. Set "
        "GOMP_SPINCOUNT=3000 before Python starts, or take fewer threads by onednn_graph.set_num_threads"
    )
    assert seen[0].filename == __file__
    crowding.warn_of_crowd()  # would be an error here


def test_one_thread_waits_for_nobody(monkeypatch):
    monkeypatch.setattr(crowding, "crowd", lambda: "the load of others is 9.0 on 4 CPUs")
    monkeypatch.setattr(crowding, "get_num_threads", lambda: 1)
    crowding.warn_of_crowd()


@pytest.mark.parametrize(
    ("before", "environment", "warned"),
    [
        ("import ctypes; ctypes.CDLL('libgomp.so.1')", {}, 1),
        ("import ctypes; ctypes.CDLL('libgomp.so.1')", {"GOMP_SPINCOUNT": "3000"}, 0),
        ("", {}, 0),
    ],
)
def test_it_is_looked_at_where_the_library_is_loaded(before, environment, warned):
    code = f"""
import json, warnings
{before}
import onednn_graph as og
from onednn_graph.backends.onednn.library import crowding
crowding.crowd = lambda: "so it is"
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    for _ in range(2):
        graph = og.Graph()
        graph.relu(graph.input("x", "f32", [4]), name="y")
        graph.compile(threads=1)
print(json.dumps([w.category.__name__ for w in seen]))
"""
    clean = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    found = processes.printed(code, env=clean | {"OMP_NUM_THREADS": "2"} | environment)
    assert found == ["BusyMachineWarning"] * warned


def test_where_warnings_are_errors_one_compilation_fails():
    """No question about backends does, and what comes after it has the library."""
    code = """
import ctypes, json, warnings
ctypes.CDLL("libgomp.so.1")
import onednn_graph as og
from onednn_graph.backends.onednn.library import crowding
crowding.crowd = lambda: "so it is"
warnings.simplefilter("error")
told = og.list_backends()
graph = og.Graph()
graph.relu(graph.input("x", "f32", [4]), name="y")
try:
    graph.compile()
except og.errors.BusyMachineWarning:
    told["warned"] = True
graph.compile()
print(json.dumps(told))
"""
    clean = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    assert processes.printed(code, env=clean | {"OMP_NUM_THREADS": "2"}) == {
        **og.list_backends(),
        "warned": True,
    }
