"""Many primitives in one call: the same results as one by one, and the same errors."""

import ctypes
import mmap
from types import SimpleNamespace

import numpy as np
import onednn_graph as og
import pytest
from batches import way  # noqa: F401 -- a fixture
from onednn_graph.backends.onednn.library import batch
from onednn_graph.backends.onednn.library.loading import load
from onednn_graph.backends.onednn.library.prototypes import ExecArg
from onednn_graph.backends.onednn.plan.frame import Frame
from onednn_graph.graph.runtime import machine_code

CONV = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}

if og.list_backends()["onednn"] is not None:
    pytest.skip("the oneDNN library is not here", allow_module_level=True)


def gradient():
    tensors = [og.LogicalTensor(i, "f32", [2, 16, 9, 9]) for i in range(2)]
    graph = og.Graph()
    graph.add_op(
        og.Op(
            0,
            "ConvolutionBackwardWeights",
            tensors,
            [og.LogicalTensor(2, "f32")],
            data_format="NCX",
            weights_format="OIX",
            weights_shape=[16, 16, 3, 3],
            **CONV,
        )
    )
    graph.finalize()
    (partition,) = graph.get_partitions(backend="onednn")
    made = [partition.compile(strategy=one.strategy) for one in partition.compile().explanation.considered]
    return max(made, key=lambda one: len(one.explain().only.implementations))


@pytest.mark.usefixtures("way")
def test_a_plan_of_several_primitives_is_exact():
    compiled = gradient()
    assert len(compiled.explain().only.implementations) > 2
    random = np.random.default_rng(0)
    x, dy = (random.integers(-3, 4, (2, 16, 9, 9)).astype(np.float32) for _ in range(2))
    expected = og.convolution_backward_weights(
        x, dy, data_format="NCX", weights_format="OIX", weights_shape=[16, 16, 3, 3], backend="numpy", **CONV
    )
    (got,) = compiled.execute(None, [x, dy])
    assert np.array_equal(got, expected)
    out = np.empty_like(expected)
    call = compiled.bind([x, dy], [out])
    call()
    assert np.array_equal(out, expected)
    x += 1
    call()
    assert not np.array_equal(out, expected)


def table_of(calls, **more):
    count = len(calls)
    listed = (batch._Call * count)(*calls)
    return listed, batch._Table(count=count, calls=ctypes.addressof(listed), **more)


@pytest.mark.parametrize("holding", [False, True])
def test_the_first_failure_ends_a_batch(holding):
    if batch._start() is None:
        pytest.skip("this system gives no executable memory")
    seen = []

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
    def execute(primitive, stream, count, arguments):
        seen.append((primitive, stream, count, arguments))
        return 0 if primitive < 3 else 5

    lists = [(ctypes.c_int * 1)() for _ in range(4)]
    function = ctypes.cast(execute, ctypes.c_void_p)
    words = (ctypes.c_uint64 * 2)(99, 1000)
    seconds = [ctypes.addressof(words) + 8 * (n % 2) for n in range(4)]
    calls = [
        batch._Call(function, n + 1, seconds[n], n, n + 10, ctypes.addressof(a), batch.ANY_BIT)
        for n, a in enumerate(lists)
    ]
    kept, table = table_of(calls)
    assert batch._loop(holding=holding)(ctypes.addressof(table)) == 5
    expected = [99, 1001, 101]
    assert seen == [(n + 1, expected[n], n + 10, ctypes.addressof(lists[n])) for n in range(3)]
    table.count = 2
    seen.clear()
    assert batch._loop(holding=holding)(ctypes.addressof(table)) == 0
    assert len(seen) == 2
    del kept


@pytest.mark.parametrize("status", [0, 5])
def test_a_batch_puts_back_the_threads_that_were_set(status):
    """Whether it fails or not; and it has its own within."""
    if batch._start() is None:
        pytest.skip("this system gives no executable memory")
    now, said = [7], []

    @ctypes.CFUNCTYPE(ctypes.c_int)
    def getter():
        return now[0]

    @ctypes.CFUNCTYPE(None, ctypes.c_int)
    def setter(threads):
        now[0] = threads

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
    def execute(primitive):
        said.append(now[0])
        return status

    at = [ctypes.cast(one, ctypes.c_void_p).value for one in (getter, setter, execute)]
    word = ctypes.c_uint64(0)
    call = batch._Call(at[2], 1, ctypes.addressof(word), 0, 0, None, batch.ANY_BIT)
    kept, table = table_of([call], getter=at[0], setter=at[1], threads=1)
    assert batch._loop()(ctypes.addressof(table)) == status
    assert (said, now) == ([1], [7])
    del kept


def test_a_model_of_one_thread_is_one_call_into_the_library(monkeypatch):
    """Arguments are pointed at, threads are set and put back, and primitives run, in one call from Python."""
    if batch._start() is None:
        pytest.skip("this system gives no executable memory")
    graph = og.Graph()
    x = graph.input("x", "f32", [1, 64])
    for _ in range(3):
        x = graph.op("MatMul", x, graph.constant(np.eye(64, dtype=np.float32)))
        x = graph.op("ReLU", x)
    model = graph.compile(threads=1)
    given = np.arange(-32, 32, dtype=np.float32)[None]
    want = np.maximum(given, 0)
    assert np.array_equal(model(given).only, want)
    calls = []

    real = batch.Batch.__call__

    def counted(self):
        calls.append("batch")
        return real(self)

    runtime = type(load().runtime)
    monkeypatch.setattr(batch.Batch, "__call__", counted)
    monkeypatch.setattr(Frame, "_point_one_by_one", lambda *given: calls.append("points") or None)
    monkeypatch.setattr(runtime, "hold", lambda *given: calls.append("holds"))
    for number in range(3):
        assert np.array_equal(model(given + number).only, np.maximum(given + number, 0))
    assert calls == ["batch"] * 3


@pytest.mark.usefixtures("way", "swept")
def test_each_primitive_runs_on_its_own_threads(monkeypatch):
    """A kernel on more threads than it was described for writes beside its scratchpad."""
    lib, graph = load(), og.Graph()
    a, b = graph.input("a", "f32", [256, 256]), graph.input("b", "f32", [256, 256])
    few = graph.input("few", "f32", [4, 8])
    graph.op("Tanh", few, name="before")
    graph.op("MatMul", a, b, name="y")
    graph.op("ReduceSum", few, axes=[0], name="after")
    model = graph.compile(threads=2)
    seen = []
    plain = Frame._in_batches
    kept = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 2, ctypes.c_int, ctypes.c_void_p)

    @kept
    def execute(primitive, stream, count, arguments):
        seen.append(lib.threads)
        listed = ctypes.cast(arguments, ctypes.POINTER(ExecArg))
        return lib.c.dnnl_primitive_execute(primitive, stream, count, listed)

    def watched(frame):
        frame._execute = execute
        described = [call.threads for call in frame._calls]
        assert sorted(described) == [1, 1, 2]
        monkeypatch.setattr(batch, "load", lambda: SimpleNamespace(c=watching, runtime=lib.runtime))
        runs = plain(frame)
        return [*runs, lambda: seen.append(("expected", described, lib.threads))]

    watching = SimpleNamespace(
        dnnl_primitive_execute=execute, dnnl_memory_set_data_handle=lib.c.dnnl_memory_set_data_handle
    )
    monkeypatch.setattr(Frame, "_in_batches", watched)
    before = lib.threads
    feeds = {"a": np.ones((256, 256), np.float32), "b": np.ones((256, 256), np.float32)}
    results = model({**feeds, "few": np.ones((4, 8), np.float32)})
    assert (results["y"] == 256).all()
    assert (results["after"] == 4).all()
    assert lib.threads == before
    *seen, (_, described, behind) = seen
    assert seen == described
    assert behind == 2


def test_code_is_not_writeable_and_runs():
    start = machine_code.place(bytes.fromhex("b82a000000c3"))  # mov eax, 42; ret
    if start is None:
        pytest.skip("this system gives no executable memory")
    assert ctypes.CFUNCTYPE(ctypes.c_int)(start)() == 42
    with open("/proc/self/maps", encoding="ascii") as maps:
        spans = [line.split()[:2] for line in maps]
    (rights,) = [r for span, r in spans if int(span.split("-")[0], 16) <= start < int(span.split("-")[1], 16)]
    assert rights.startswith("r-x")


def test_without_executable_memory_there_is_no_code(monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError("no executable memory here")

    monkeypatch.setattr(mmap, "mmap", refuse)
    assert machine_code.place(b"\xc3") is None


def test_elsewhere_than_on_linux_there_is_no_code(monkeypatch):
    monkeypatch.setattr(machine_code.sys, "platform", "darwin")
    assert machine_code.place(b"\xc3") is None
