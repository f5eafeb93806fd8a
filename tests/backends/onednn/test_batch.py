"""Many primitives in one call: the same results as one by one, and the same errors."""

import ctypes
import mmap
from types import SimpleNamespace

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.backends.onednn.library import batch, machine_code
from onednn_graph.backends.onednn.library.loading import load
from onednn_graph.backends.onednn.library.prototypes import ExecArg
from onednn_graph.backends.onednn.plan.frame import Frame

CONV = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}

if og.list_backends()["onednn"] is not None:
    pytest.skip("the oneDNN library is not here", allow_module_level=True)


@pytest.fixture(params=["in one call", "one by one"])
def way(request, monkeypatch):
    """Both ways; the second as on a machine that gives no executable memory."""
    if request.param == "one by one":
        monkeypatch.setattr(batch, "_loop", lambda: None)
    elif batch._loop() is None:
        pytest.skip("this system gives no executable memory")


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


def test_a_plan_of_several_primitives_is_exact(way):
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


def test_the_first_failure_ends_a_batch():
    if batch._loop() is None:
        pytest.skip("this system gives no executable memory")
    seen = []

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
    def execute(primitive, stream, count, arguments):
        seen.append((primitive, stream, count, arguments))
        return 0 if primitive < 3 else 5

    lists = [(ctypes.c_int * 1)() for _ in range(4)]
    function = ctypes.cast(execute, ctypes.c_void_p)
    calls = [
        batch._Call(function, n + 1, n + 10, ctypes.addressof(a), batch.ANY_BIT) for n, a in enumerate(lists)
    ]
    table = batch._table_of(4)(99, 4, (batch._Call * 4)(*calls))
    assert batch._loop()(ctypes.byref(table)) == 5
    assert seen == [(n + 1, 99, n + 10, ctypes.addressof(lists[n])) for n in range(3)]
    table.count = 2
    seen.clear()
    assert batch._loop()(ctypes.byref(table)) == 0
    assert len(seen) == 2


@pytest.mark.usefixtures("way")
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

    watching = SimpleNamespace(dnnl_primitive_execute=execute)
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
