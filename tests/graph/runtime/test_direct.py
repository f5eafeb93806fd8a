"""Calls with plain arrays go straight to the executable, and all others the way that checks and copies."""

import threading

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.graph.compile.compiled_graph import CompiledGraph
from onednn_graph.graph.runtime.arguments import Arguments
from onednn_graph.graph.runtime.direct import DirectCall

BACKENDS = [None, "numpy"]


def model(backend=None, **options):
    """x·w + y and what its ReLU makes."""
    graph = og.Graph()
    x, y = graph.input("x", "f32", [3, 4]), graph.input("y", "f32", [3, 5])
    w = graph.constant(np.arange(20, dtype=np.float32).reshape(4, 5) - 10, name="w")
    total = graph.op("Add", graph.op("MatMul", x, w), y, name="total")
    graph.output(total)
    graph.output(graph.op("ReLU", total, name="positive"))
    return graph.compile(backend=backend, **options)


def feeds(seed=0):
    rng = np.random.default_rng(seed)
    return {name: rng.integers(-4, 5, (3, n)).astype(np.float32) for name, n in (("x", 4), ("y", 5))}


def expected(given):
    total = np.asarray(given["x"], np.float32) @ (np.arange(20, dtype=np.float32).reshape(4, 5) - 10)
    total = total + np.asarray(given["y"], np.float32)
    return {"total": total, "positive": np.maximum(total, 0)}


def assert_right(results, given):
    assert results.keys() == {"total", "positive"}
    for name, want in expected(given).items():
        assert np.array_equal(results[name], want)


@pytest.mark.parametrize("backend", BACKENDS)
def test_plain_arrays_are_neither_looked_up_nor_copied(backend, monkeypatch):
    compiled, given = model(backend), feeds()

    def refuse(*args):
        raise AssertionError("this call should not come here")

    if compiled._direct is None:
        pytest.skip("the graph is no one part there")
    monkeypatch.setattr(CompiledGraph, "_taken", refuse)
    monkeypatch.setattr(Arguments, "execute", refuse)
    for results in (compiled(given), compiled(*given.values()), compiled(dict(reversed(given.items())))):
        assert_right(results, given)


def unaligned(array):
    memory = np.zeros(array.nbytes + 1, np.uint8)
    made = memory[1:].view(array.dtype).reshape(array.shape)
    made[...] = array
    return made


UNUSUAL = {
    "in columns": np.asfortranarray,
    "every other": lambda array: np.repeat(array, 2, axis=0)[::2],
    "turned round": lambda array: array[::-1].copy()[::-1],
    "the other byte order": lambda array: array.astype(">f4"),
    "not aligned": unaligned,
    "a subclass": lambda array: array.view(np.matrix),
    "a tensor": lambda array: og.Tensor(og.LogicalTensor(0, "f32", array.shape), array),
}


@pytest.mark.parametrize("way", UNUSUAL)
@pytest.mark.parametrize("which", ["x", "y"])
@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_what_lies_otherwise_is_right_too(way, which):
    compiled, given = model(), feeds()
    assert compiled._direct is None or compiled._direct([UNUSUAL[way](given[which])] * 2) is None
    assert_right(compiled({**given, which: UNUSUAL[way](given[which])}), given)


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"x": np.zeros((3, 5), np.float32)}, og.errors.ShapeError, "input 'x'"),
        ({"x": np.zeros((3, 4))}, og.errors.DataTypeError, "float64"),
        ({"x": None}, og.errors.ArgumentTypeError, "input 'x'"),
        ({"z": np.zeros(1, np.float32)}, og.ArgumentError, "no input 'z'"),
    ],
)
def test_what_is_wrong_is_said_as_ever(change, error, says):
    with pytest.raises(error, match=says):
        model()({**feeds(), **change})


def test_what_is_missing_is_said_as_ever():
    compiled, given = model(), feeds()
    with pytest.raises(og.ArgumentError, match="input 'y' is missing"):
        compiled({"x": given["x"]})
    with pytest.raises(og.ArgumentError, match="input 'y' is missing"):
        compiled(given["x"])
    with pytest.raises(og.ArgumentError, match="takes 2 inputs"):
        compiled(given["x"], given["y"], given["y"])


def test_results_have_memory_of_their_own_at_each_call():
    compiled, given = model(), feeds()
    first = compiled(given)
    kept = {name: array.copy() for name, array in first.items()}
    second = compiled(feeds(1))
    assert not any(np.may_share_memory(a, b) for a in first.values() for b in second.values())
    assert all(np.array_equal(first[name], array) for name, array in kept.items())


def test_a_closed_engine_is_closed():
    engine = og.Engine()
    compiled = model(engine=engine)
    assert_right(compiled(feeds()), feeds())
    engine.close()
    with pytest.raises(og.errors.ResourceError, match="closed"):
        compiled(feeds())


def test_a_profile_sees_every_call():
    compiled = model()
    compiled(feeds())
    with og.profiling.profile() as prof:
        for _ in range(3):
            compiled(feeds())
    assert {line.calls for line in prof.partitions} == {3}


def test_parameters_that_change_are_read_anew():
    graph = og.Graph()
    x = graph.input("x", "f32", [2, 8])
    weights = graph.parameter(np.eye(8, dtype=np.float32), name="w")
    graph.op("MatMul", x, weights, name="y")
    compiled = graph.compile()
    given = np.arange(16, dtype=np.float32).reshape(2, 8)
    assert np.array_equal(compiled(given).only, given)
    graph.set_parameters({"w": 2 * np.eye(8, dtype=np.float32)})
    assert np.array_equal(compiled(given).only, 2 * given)


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_of_python_get_their_own_results(threads):
    """Eight of them call one model at once, each with inputs of its own."""
    compiled = model(threads=threads)
    wrong = []

    def caller(seed):
        given = feeds(seed)
        want = expected(given)
        for _ in range(300):
            results = compiled(given)
            if any(not np.array_equal(results[name], array) for name, array in want.items()):
                wrong.append(seed)

    callers = [threading.Thread(target=caller, args=(seed,)) for seed in range(8)]
    for one in callers:
        one.start()
    for one in callers:
        one.join()
    assert not wrong


def test_memory_that_is_not_there_is_said_by_others(monkeypatch):
    compiled, given = model(), feeds()
    direct = compiled._direct
    if direct is None:
        pytest.skip("the graph is no one part there")

    def none_left(*args):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr("onednn_graph.graph.runtime.direct.np.empty", none_left)
        assert isinstance(direct, DirectCall)
        assert direct([given["x"], given["y"]]) is None
