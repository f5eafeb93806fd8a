"""State of graphs in inference: what is put into a parameter is written where that lies, and is read there later."""

import threading
import time
from types import SimpleNamespace

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.graph.open_graph import OpenGraph
from onednn_graph.graph.runtime.parameter import Parameter

ROWS, WIDTH = 6, 4


def cached(*, before=False, returned=False, kind="HostScatterND", reduction="none", backend=None):
    """A graph that puts rows into a cache and sums all of them, compiled.

    Args:
        before: whether what the cache was is read too. returned: whether what it becomes is an output.
    """
    graph = og.Graph()
    cache = graph.parameter(np.zeros((2, ROWS, WIDTH), np.float32), name="cache")
    rows = graph.input("rows", "f32", [2, 1, WIDTH])
    if kind == "HostScatterND":
        new = graph.op(kind, cache, graph.input("at", "s64", [1, 1]), rows, axis=1, reduction=reduction)
    else:
        places = graph.input("at", "s64", [2, 1, WIDTH])
        new = graph.op(kind, cache, places, rows, axis=1, reduction=reduction)
    graph.assign(cache, new)
    total = graph.op("ReduceSum", graph.op("Multiply", new, new), axes=[1], keep_dims=False)
    if before:
        total = graph.op("Add", total, graph.op("ReduceSum", cache, axes=[1], keep_dims=False))
    graph.output(total, name="total")
    if returned:
        graph.output(new, name="new")
    return graph, graph.compile(backend=backend)


def place(kind, row):
    return np.array([[row]]) if kind == "HostScatterND" else np.full((2, 1, WIDTH), row)


def memory_written(model):
    return [array for stage in model._stages for array in stage.partition.in_place.values()]


@pytest.mark.parametrize("backend", [None, "numpy"])
@pytest.mark.parametrize("kind", ["HostScatterND", "HostScatterElements"])
@pytest.mark.parametrize("reduction", ["none", "add", "max"])
@pytest.mark.parametrize("before", [False, True], ids=["", "what was there is read"])
@pytest.mark.parametrize("returned", [False, True], ids=["", "what it becomes is returned"])
def test_each_call_goes_on_from_the_one_before(backend, kind, reduction, before, returned):
    graph, model = cached(before=before, returned=returned, kind=kind, reduction=reduction, backend=backend)
    rng, cache = np.random.default_rng(0), np.zeros((2, ROWS, WIDTH), np.float32)
    kept = []
    for row in (0, 3, -1, 3, 2):
        rows = rng.integers(-4, 5, (2, 1, WIDTH)).astype(np.float32)
        was = cache.copy()
        taken = {
            "none": rows[:, 0],
            "add": was[:, row] + rows[:, 0],
            "max": np.maximum(was[:, row], rows[:, 0]),
        }
        cache[:, row] = taken[reduction]
        made = model({"rows": rows, "at": place(kind, row)})
        np.testing.assert_array_equal(made["total"], (cache**2).sum(1) + (was.sum(1) if before else 0))
        np.testing.assert_array_equal(graph.parameters["cache"], cache)
        if returned:
            kept.append((made["new"], cache.copy()))
    for new, then in kept:  # what was returned stays what it was
        np.testing.assert_array_equal(new, then)


@pytest.mark.parametrize("backend", [None, "numpy"])
def test_the_new_rows_alone_are_written(backend):
    """A page of memory that can't be written to tells: there are rows of the cache in it."""
    graph, model = cached(backend=backend)
    (written,) = memory_written(model)
    assert np.shares_memory(written, graph.parameters["cache"])
    places = np.arange(2 * ROWS * WIDTH).reshape(2, ROWS, WIDTH)
    poison = np.where(places % ROWS == 1, np.nan, places).astype(np.float32)
    graph.set_parameters({"cache": poison})
    before = graph.parameters["cache"].copy().view(np.uint32)
    model(rows=np.ones((2, 1, WIDTH), np.float32), at=[[2]])
    changed = graph.parameters["cache"].view(np.uint32) != before
    assert not np.delete(changed, 2, axis=1).any()
    np.testing.assert_array_equal(graph.parameters["cache"][:, 2], 1)


def test_the_kernel_copies_nothing_where_both_are_one_memory(monkeypatch):
    from onednn_graph.backends.numpy import host_gather

    graph, model = cached()
    copied = []

    def copyto(target, source):
        copied.append(1)
        np.copyto(target, source)

    monkeypatch.setattr(host_gather, "np", SimpleNamespace(**{**vars(np), "copyto": copyto}))
    cache = graph.parameters["cache"].ctypes.data
    model(rows=np.ones((2, 1, WIDTH), np.float32), at=[[2]])
    assert not copied
    assert graph.parameters["cache"].ctypes.data == cache
    _, other = cached(before=True)
    other(rows=np.ones((2, 1, WIDTH), np.float32), at=[[2]])
    assert copied


@pytest.mark.parametrize(
    "options", [{"before": True}, {"returned": True}], ids=["old value is read", "new value is returned"]
)
def test_what_somebody_would_miss_is_not_written_over(options):
    _, model = cached(**options)
    assert not memory_written(model)


def test_two_models_of_one_graph_go_on_from_each_other():
    graph, first = cached()
    second = graph.compile()
    first(rows=np.ones((2, 1, WIDTH), np.float32), at=[[0]])
    total = second(rows=np.full((2, 1, WIDTH), 2, np.float32), at=[[1]])["total"]
    np.testing.assert_array_equal(total, 5)
    np.testing.assert_array_equal(first(rows=np.ones((2, 1, WIDTH), np.float32), at=[[2]])["total"], 6)


def test_state_is_set_back_and_taken_up_again():
    graph, model = cached()
    rows = np.ones((2, 1, WIDTH), np.float32)
    model(rows=rows, at=[[0]])
    snapshot = {name: array.copy() for name, array in graph.parameters.items()}
    first = model(rows=rows, at=[[1]])["total"]
    graph.set_parameters(snapshot)
    np.testing.assert_array_equal(model(rows=rows, at=[[1]])["total"], first)
    graph.set_parameters({"cache": np.zeros((2, ROWS, WIDTH), np.float32)})
    np.testing.assert_array_equal(model(rows=rows, at=[[4]])["total"], 1)


def test_bound_calls_write_in_place_too():
    graph, model = cached()
    rows, at = np.ones((2, 1, WIDTH), np.float32), np.array([[0]])
    run = model.bind({"rows": rows, "at": at})
    for row in range(3):
        at[...] = row
        np.testing.assert_array_equal(run()["total"], row + 1)
    np.testing.assert_array_equal(graph.parameters["cache"].sum((0, 2)), [8, 8, 8, 0, 0, 0])


def test_files_have_the_state(tmp_path):
    graph, model = cached()
    rows = np.ones((2, 1, WIDTH), np.float32)
    model(rows=rows, at=[[0]])
    model.save_compiled(tmp_path / "model.og")
    graph.save(tmp_path / "graph.json", weights=True)
    loaded = og.Graph.load(tmp_path / "graph.json")
    again = loaded.compile()
    model(rows=rows, at=[[5]])  # is not seen by the others
    for other in (again, og.Graph.load_compiled(tmp_path / "model.og")):
        assert memory_written(other)
        np.testing.assert_array_equal(other(rows=rows, at=[[1]])["total"], 2)
        np.testing.assert_array_equal(other(rows=rows, at=[[2]])["total"], 3)
    np.testing.assert_array_equal(loaded.parameters["cache"].sum((0, 2)), [8, 8, 8, 0, 0, 0])


def test_state_and_training_are_told_apart():
    graph, _ = cached()
    assert "with state" in repr(graph)
    assert [t.name for t in graph.state_parameters] == ["cache"]
    trained = og.Graph()
    x, w = trained.input("x", "f32", [3, 2]), trained.parameter(np.zeros((2, 1), np.float32), name="w")
    gradient = trained.op("MatMul", x, trained.op("MatMul", x, w), transpose_a=True)
    numbers = [trained.constant(np.float64(one)) for one in (0.1, 1)]
    stepped = trained.op("HostSGD", w, gradient, *numbers)
    trained.assign(w, stepped)
    assert "in training" in repr(trained)
    assert trained.state_parameters == ()


def test_weights_are_quantized_beside_state():
    graph = og.Graph()
    cache = graph.parameter(np.zeros((1, ROWS, 32), np.float32), name="cache")
    x = graph.input("x", "f32", [1, 1, 32])
    weights = graph.constant(np.eye(32, dtype=np.float32), name="w")
    row = graph.op("MatMul", x, weights)
    new = graph.op("HostScatterND", cache, graph.input("at", "s64", [1, 1]), row, axis=1)
    graph.assign(cache, new)
    graph.output(graph.op("ReduceSum", new, axes=[1], keep_dims=False), name="total")
    small = graph.quantize_weights("s8")
    model = small.compile()
    assert memory_written(model)
    for at in range(3):
        total = model(x=np.ones((1, 1, 32), np.float32), at=[[at]])["total"]
        np.testing.assert_allclose(total, at + 1, rtol=1e-2)


def counting(size):
    """A graph that adds to a parameter what it is given, and returns what that was."""
    graph = og.Graph()
    x, count = graph.input("x", "f32", [size]), graph.parameter(np.zeros(size, np.float32), name="count")
    graph.assign(count, graph.op("Add", count, x))
    graph.output(count, name="before")
    return graph


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (np.zeros(3, np.float32), "must have shape"),
        (np.zeros(4, np.float64), "must be an array of f32"),
        (np.broadcast_to(np.float32(0), 4), "must be writeable"),
        (np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (4,), (0,)), "a place of its own"),
    ],
)
def test_a_refused_output_leaves_parameters_as_they_were(target, words):
    """Outputs that are copied once all is computed were looked at only then."""
    graph = counting(4)
    model = graph.compile()
    with pytest.raises(og.errors.OneDNNGraphError, match=words):
        model(np.ones(4, np.float32), outputs={"before": target})
    np.testing.assert_array_equal(graph.parameters["count"], 0)


def test_an_output_that_is_an_input_is_not_written_where_elements_share_memory():
    graph = og.Graph()
    x = graph.input("x", "f32", [4])
    graph.output(graph.op("Abs", x), name="y")
    graph.output(x, name="same")
    one = np.zeros(1, np.float32)
    with pytest.raises(og.errors.ArgumentError, match="a place of its own"):
        graph.compile()(
            np.arange(4, dtype=np.float32), outputs={"same": np.lib.stride_tricks.as_strided(one, (4,), (0,))}
        )
    assert one == 0


class Waiting:
    """Stands for `np.copyto`, and says whether two threads were in it at once."""

    def __init__(self):
        self.inside, self.most, self.copy = 0, 0, np.copyto

    def __call__(self, target, source, **more):
        self.inside += 1
        self.most = max(self.most, self.inside)
        time.sleep(0.01)
        self.copy(target, source, **more)
        self.inside -= 1


def test_calls_for_several_sizes_of_one_model_come_one_after_another(monkeypatch):
    """The graphs for them assign one parameter; each had a lock of its own."""
    shared = Parameter(np.zeros(3, np.float32), np.dtype(np.float32))

    def make(shapes):
        graph = og.Graph()
        x, count = graph.input("x", "f32", shapes["x"]), graph.parameter(shared, name="count")
        more = graph.op("ReduceSum", x, axes=[0], keep_dims=True)
        graph.assign(count, graph.op("Add", count, more))
        graph.output(more, name="more")
        return graph

    x, more = og.LogicalTensor(0, "f32", [-1], name="x"), og.LogicalTensor(1, "f32", [1], name="more")
    model = OpenGraph([x], [("more", more)], make).compile()
    sizes = (1, 2, 4)
    for size in sizes:
        model(np.ones(size, np.float32))
    waiting = Waiting()
    monkeypatch.setattr("onednn_graph.graph.compile.compiled_graph.np.copyto", waiting)
    calls = [threading.Thread(target=model, args=(np.ones(size, np.float32),)) for size in sizes * 2]
    for call in calls:
        call.start()
    for call in calls:
        call.join()
    monkeypatch.undo()
    assert waiting.most <= 1
    np.testing.assert_array_equal(shared.array, 3 * sum(sizes))


@pytest.mark.parametrize("bound", [False, True])
def test_an_input_that_is_assigned_is_not_written_over_before(bound):
    """It is copied once all is computed."""
    graph = og.Graph()
    x, kept = graph.input("x", "f32", [4]), graph.parameter(np.zeros(4, np.float32), name="kept")
    graph.output(graph.op("Abs", graph.input("y", "f32", [4])), name="z")
    graph.assign(kept, x)
    model, given = graph.compile(), np.arange(4, dtype=np.float32)
    call = model.bind if bound else model
    with pytest.raises(og.errors.ArgumentError, match="must not share memory with 'x'"):
        call({"x": given, "y": np.full(4, -9, np.float32)}, {"z": given})
    np.testing.assert_array_equal(given, np.arange(4))
    model({"x": given, "y": given})
    np.testing.assert_array_equal(graph.parameters["kept"], given)


@pytest.mark.parametrize("bound", [False, True])
def test_an_input_that_is_only_assigned_may_not_be_left_out(bound):
    graph = og.Graph()
    x, kept = graph.input("x", "f32", [4]), graph.parameter(np.zeros(4, np.float32), name="kept")
    count = graph.parameter(np.zeros(4, np.float32), name="count")
    y = graph.input("y", "f32", [4])
    graph.assign(kept, x)
    graph.assign(count, graph.op("Add", count, y))
    model = graph.compile()
    with pytest.raises(og.errors.ArgumentError, match="input 'x' is missing"):
        (model.bind if bound else model)({"y": np.ones(4, np.float32)})
    np.testing.assert_array_equal(graph.parameters["count"], 0)


@pytest.mark.parametrize("backend", [None, "numpy"])
@pytest.mark.parametrize("read", [False, True])
def test_a_value_that_lies_otherwise_is_not_written_in_place(backend, read):
    graph = og.Graph()
    cache, rows = (
        graph.parameter(np.zeros((4, 3), np.float32), name="cache"),
        graph.input("rows", "f32", [1, 3]),
    )
    number = graph.fresh_id()
    new = og.LogicalTensor(number, "f32", [4, 3], strides=[1, 4], name="new")
    at = graph.input("at", "s64", [1, 1])
    graph.add_op(og.Op(graph.fresh_id(), "HostScatterND", [cache, at, rows], [new], reduction="none"))
    graph.assign(cache, graph.tensor(number))
    read_too = graph.tensor(number) if read else rows
    graph.output(graph.op("ReduceSum", read_too, axes=[0], keep_dims=False), name="sum")
    model = graph.compile(backend=backend)
    row = np.array([[1, 2, 3]], np.float32)
    np.testing.assert_array_equal(model(rows=row, at=[[2]])["sum"], row[0])
    np.testing.assert_array_equal(graph.parameters["cache"], [[0] * 3, [0] * 3, [1, 2, 3], [0] * 3])
    np.testing.assert_array_equal(model(rows=row, at=[[0]])["sum"], (1 + read) * row[0])
