"""How many threads kernels run on, and how those wait."""

import ctypes
import os
import threading
from types import SimpleNamespace

import numpy as np
import onednn_graph as og
import processes
import pytest
from onednn_graph.backends.onednn.library import batch, waiting
from onednn_graph.backends.onednn.library.loading import load
from onednn_graph.backends.onednn.library.prototypes import ExecArg
from onednn_graph.backends.onednn.plan.frame import Frame
from onednn_graph.backends.onednn.threads import one_core_seconds
from onednn_graph.graph.runtime import threads as counts
from onednn_graph.tools.information import information

pytestmark = pytest.mark.usefixtures("onednn")

VARIABLES = ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT")


@pytest.fixture(autouse=True)
def default_again():
    yield
    og.set_num_threads(None)


def in_child(code, **environment):
    """What a program prints as JSON, in a process whose environment says of threads only what is given."""
    clean = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    return processes.printed(code, env=clean | environment)


def large():
    """A graph that is worth several threads."""
    graph = og.Graph()
    a, b = graph.input("a", "f32", [256, 256]), graph.input("b", "f32", [256, 256])
    graph.op("MatMul", a, b, name="y")
    return graph


def small():
    graph = og.Graph()
    graph.relu(graph.input("a", "f32", [4, 4]), name="y")
    return graph


def threads_seen(monkeypatch, model, feeds):
    """The numbers of threads that were set while kernels ran."""
    seen, lib, plain = set(), load(), Frame._in_batches

    @ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 2, ctypes.c_int, ctypes.c_void_p)
    def execute(primitive, stream, count, arguments):
        seen.add(lib.threads)
        listed = ctypes.cast(arguments, ctypes.POINTER(ExecArg))
        return lib.c.dnnl_primitive_execute(primitive, stream, count, listed)

    def watched(frame):
        frame._execute = execute
        frame.kept = execute  # as long as tables have its address
        return plain(frame)

    watching = SimpleNamespace(
        dnnl_primitive_execute=execute, dnnl_memory_set_data_handle=lib.c.dnnl_memory_set_data_handle
    )
    with monkeypatch.context() as patch:
        patch.setattr(batch, "load", lambda: SimpleNamespace(c=watching, runtime=lib.runtime))
        patch.setattr(Frame, "_in_batches", watched)
        model(feeds)
    return sorted(seen)


def ones(graph):
    return {t.name: np.ones(t.dims, np.float32) for t in graph.inputs}


# --- numbers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [1, 2, 3])
def test_compile_says_how_many(monkeypatch, number):
    graph, before = large(), load().threads
    model = graph.compile(threads=number)
    assert threads_seen(monkeypatch, model, ones(graph)) == [number]
    assert load().threads == before
    assert model.explain()[0].threads == number
    assert f"threads: {number}" in str(model.explain())
    assert (model(ones(graph))["y"] == 256).all()


def test_the_engine_says_how_many(monkeypatch):
    graph = large()
    engine = og.Engine("cpu", threads=3)
    assert engine.threads == 3
    assert threads_seen(monkeypatch, graph.compile(engine), ones(graph)) == [3]
    assert graph.compile(engine, threads=2).explain()[0].threads == 2


def test_the_process_says_how_many(monkeypatch):
    og.set_num_threads(3)
    assert og.get_num_threads() == 3
    graph = large()
    assert threads_seen(monkeypatch, graph.compile(), ones(graph)) == [3]
    assert graph.compile(og.Engine(threads=1)).explain()[0].threads == 1


def test_a_partition_says_how_many():
    graph = large()
    graph.finalize()
    (partition,) = graph.get_partitions()
    assert partition.compile(threads=3).explain().only.threads == 3


def test_small_work_runs_on_one_thread_unless_asked():
    assert small().compile().explain()[0].threads == 1
    assert small().compile(threads=2).explain()[0].threads == 2


def test_what_only_looks_at_weights_in_another_way_is_no_work():
    """Linear layers of torch have their weights turned."""
    graph = og.Graph()
    x = graph.input("x", "f32", [1, 256])
    for _ in range(3):
        turned = graph.op("StaticTranspose", graph.constant(np.ones((256, 256), np.float32)), order=[1, 0])
        x = graph.op("MatMul", x, turned)
    assert graph.compile().explain()[0].threads == 1


@pytest.mark.parametrize("first", ["json", "torch"])
@pytest.mark.parametrize("binding", [{"OMP_PROC_BIND": "true"}, {"OMP_PLACES": "cores"}, {}])
def test_a_thread_that_openmp_ties_to_a_cpu_still_has_a_team(first, binding):
    """OpenMP ties the calling thread to a CPU once it is loaded, by us or by torch before us."""
    pytest.importorskip(first)
    code = f"""
import json, os
cpus = len(os.sched_getaffinity(0))
import {first}
import onednn_graph as og
graph = og.Graph()
graph.op("MatMul", *[graph.input(name, "f32", [256, 256]) for name in "ab"], name="y")
compiled = [graph.compile().explain()[0].threads for _ in range(2)]
print(json.dumps([cpus, og.get_num_threads(), *compiled]))
"""
    cpus, *found = in_child(code, **binding)
    assert found == [min(cpus, counts.usable_cpus())] * 3


def test_large_work_runs_on_all_of_them():
    assert large().compile().explain()[0].threads == og.get_num_threads()


def test_what_was_compiled_runs_on_its_number_wherever_it_is_called(monkeypatch):
    """Scratchpads have a part for each thread: more of them would write beside."""
    graph = large()
    model = graph.compile(threads=2)
    library, results = load(), []

    def elsewhere():
        library.c.omp_set_num_threads(5)
        results.append(threads_seen(monkeypatch, model, ones(graph)))
        results.append(library.threads)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert results == [[2], 5]


def test_binding_runs_on_the_number_too():
    graph = large()
    graph.finalize()
    (partition,) = graph.get_partitions()
    compiled = partition.compile(threads=3)
    out = np.zeros((256, 256), np.float32)
    before = load().threads
    compiled.bind([*ones(graph).values()], [out])()
    assert load().threads == before
    assert (out == 256).all()


@pytest.mark.parametrize("value", [0, -1, 5000, 10**30])
def test_numbers_that_are_none(value):
    for call in (
        lambda: og.set_num_threads(value),
        lambda: og.Engine(threads=value),
        lambda: large().compile(threads=value),
    ):
        with pytest.raises(og.ArgumentError, match=r"must be from 1 to 4096, got"):
            call()


@pytest.mark.parametrize("value", ["2", 1.5, True, [2]])
def test_what_is_no_number(value):
    for call in (
        lambda: og.set_num_threads(value),
        lambda: og.Engine(threads=value),
        lambda: large().compile(threads=value),
    ):
        with pytest.raises(og.ArgumentTypeError, match="must be a number of threads or None"):
            call()


def test_the_environment_says_how_many():
    code = "import json, onednn_graph as og; print(json.dumps(og.get_num_threads()))"
    assert in_child(code, OMP_NUM_THREADS="3") == 3
    assert in_child(code, OMP_NUM_THREADS="5,2") == 5
    assert in_child(code) == counts.usable_cpus()


def test_what_is_compiled_heeds_the_environment():
    code = """
import json, onednn_graph as og
graph = og.Graph()
graph.op("MatMul", graph.input("a", "f32", [256, 256]), graph.input("b", "f32", [256, 256]))
print(json.dumps(graph.compile().explain()[0].threads))
"""
    assert in_child(code, OMP_NUM_THREADS="3") == 3


@pytest.mark.parametrize(
    ("files", "own", "quota"),
    [
        ({"cpu.max": "max 100000"}, "0::/", None),
        ({"cpu.max": "150000 100000"}, "0::/", 1.5),
        ({"a/cpu.max": "max 100000", "cpu.max": "300000 100000"}, "0::/a", 3.0),
        ({"a/b/cpu.max": "400000 100000", "a/cpu.max": "50000 100000"}, "0::/a/b", 0.5),
        ({"cpu/a/cpu.cfs_quota_us": "200000", "cpu/a/cpu.cfs_period_us": "100000"}, "4:cpu,cpuacct:/a", 2.0),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, "4:cpu:/", None),
        ({"cpu.max": ""}, "0::/", None),
        ({}, "0::/../x", None),
    ],
)
def test_control_groups(tmp_path, files, own, quota):
    groups = tmp_path / "groups"
    for name, text in files.items():
        file = groups / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")
    (tmp_path / "own").write_text(own + "\n")
    assert counts.cpu_quota(groups, tmp_path / "own") == quota


def test_a_quota_bounds_the_threads(monkeypatch):
    monkeypatch.setattr(counts, "cpu_quota", lambda: 0.5)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert counts.usable_cpus() == og.get_num_threads() == 1
    assert large().compile().explain()[0].threads == 1


@pytest.mark.parametrize(
    ("kind", "shapes", "attributes", "flops"),
    [
        ("MatMul", ([64, 32], [32, 16]), {}, 2 * 64 * 32 * 16),
        ("Convolution", ([2, 8, 8, 4], [3, 3, 4, 6]), {"pads": 1}, 2 * 3 * 3 * 4 * 6 * 2 * 64),
    ],
)
def test_the_estimate_counts_operations(monkeypatch, kind, shapes, attributes, flops):
    from onednn_graph.backends.onednn import threads

    monkeypatch.setattr(threads, "FLOPS_PER_SECOND", 1.0)
    monkeypatch.setattr(threads, "BYTES_PER_SECOND", float("inf"))
    graph = og.Graph()
    window = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
    ins = [graph.input(f"x{n}", "f32", shape) for n, shape in enumerate(shapes)]
    graph.op(kind, *ins, **(window if attributes else {}))
    graph.finalize()
    assert one_core_seconds(graph.ops) == pytest.approx(flops)


# --- waiting --------------------------------------------------------------------------------------------

READ_BY_OPENMP = """
import ctypes, json, os
seen = []
plain = ctypes.CDLL
def watched(name, *args, **kwargs):
    if "libdnnl" in str(name):
        getenv = plain(None).getenv
        getenv.restype = ctypes.c_char_p
        seen.extend((getenv(name) or b"").decode() for name in (b"GOMP_SPINCOUNT", b"OMP_WAIT_POLICY"))
    return plain(name, *args, **kwargs)
ctypes.CDLL = watched
import onednn_graph as og
from onednn_graph.backends.onednn.library.loading import load
how = load().waiting
print(json.dumps([seen, how, os.environ.get("GOMP_SPINCOUNT"), os.environ.get("OMP_WAIT_POLICY")]))
"""


def test_threads_wait_a_short_while_where_nobody_has_said_how():
    seen, how, spin, policy = in_child(READ_BY_OPENMP)
    # Active, or they would hardly wait at all once a second thread of Python has a team.
    assert seen == [str(waiting.SPIN_COUNT), "active"]
    assert how == f"they look for work {waiting.SPIN_COUNT} times, then sleep"
    assert (spin, policy) == (None, None)  # child processes are as their user wants them


def test_another_openmp_than_gnus_is_told_no_policy(monkeypatch):
    """To LLVM's an active policy means that its threads never sleep."""
    monkeypatch.setattr(waiting, "openmp_is_loaded", lambda: False)
    for name in waiting.POLICY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    with waiting.short_waits(gnu=False):
        assert "OMP_WAIT_POLICY" not in os.environ
        assert os.environ["GOMP_SPINCOUNT"] == str(waiting.SPIN_COUNT)
    assert not any(name in os.environ for name in waiting.POLICY_VARIABLES)


@pytest.mark.parametrize(("name", "value"), [("OMP_WAIT_POLICY", "passive"), ("GOMP_SPINCOUNT", "7")])
def test_the_environment_says_how_threads_wait(name, value):
    seen, how, *after = in_child(READ_BY_OPENMP, **{name: value})
    assert seen == [value if name == one else "" for one in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")]
    assert how == f"as {name}={value} said when OpenMP was loaded"
    assert value in after


def test_openmp_that_is_there_already_has_read_its_environment():
    code = "import ctypes; ctypes.CDLL('libgomp.so.1')\n" + READ_BY_OPENMP
    seen, how, spin, _ = in_child(code)
    assert seen == ["", ""]
    assert how.startswith(f"OpenMP was loaded by others: they look for work {waiting.OPENMPS_OWN} times")
    assert spin is None


@pytest.mark.parametrize(
    ("line", "loaded"),
    [
        ("7f00-7f01 r-xp 0000 08:01 42  /usr/lib/x86_64-linux-gnu/libgomp.so.1.0.0", True),
        ("7f00-7f01 r-xp 0000 08:01 42  /x/torch.libs/libgomp-a34b3233.so.1.0.0", False),
        ("7f00-7f01 r-xp 0000 08:01 42  /usr/lib/libm.so.6", False),
    ],
)
def test_which_openmp_counts(tmp_path, line, loaded):
    (tmp_path / "maps").write_text(line + "\n")
    assert waiting.openmp_is_loaded(tmp_path / "maps") is loaded
    assert not waiting.openmp_is_loaded(tmp_path / "nowhere")


def test_information_tells_it():
    data = information()
    assert data["threads"] == og.get_num_threads()
    assert data["waiting threads"] == load().waiting


def test_the_library_reads_what_is_set():
    """The C library's own `getenv` sees what Python sets, and that it is gone."""
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_char_p
    os.environ["ONEDNN_GRAPH_SEEN"] = "1"
    assert getenv(b"ONEDNN_GRAPH_SEEN") == b"1"
    del os.environ["ONEDNN_GRAPH_SEEN"]
    assert getenv(b"ONEDNN_GRAPH_SEEN") is None


def test_what_another_user_of_openmp_sets_changes_nothing():
    library = load()
    with library.using(1):
        assert large().compile().explain()[0].threads == og.get_num_threads()
        assert library.threads == 1
