"""For how many shapes what was compiled is kept, what is said where they are too few, and what memory they take."""

import warnings

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.backends.onednn.plan.frame import Frame
from onednn_graph.graph.runtime.caching import BoundedCache

AGAIN = r"for 2 sets of them are kept; pad or group .* or compile with kept_shapes=4"


def rows(kept_shapes=None):
    """Any number of rows, by weights that are packed."""
    graph = og.Graph()
    x = graph.input("x", "f32", [-1, 64])
    w = graph.constant(np.ones((64, 640), np.float32), name="w")
    graph.output(graph.relu(graph.matmul(x, w)), name="y")
    return graph.compile(**({} if kept_shapes is None else {"kept_shapes": kept_shapes}))


def opened(kept_shapes=None):
    """A graph for each number of rows."""
    w = np.ones((64, 640), np.float32)

    def make(shapes):
        graph = og.Graph()
        x = graph.input("x", "f32", list(shapes["x"]))
        graph.output(graph.relu(graph.matmul(x, graph.constant(w, name="w"))), name="y")
        return graph

    x = og.LogicalTensor(0, "f32", [-1, 64], name="x")
    y = og.LogicalTensor(1, "f32", [-1, 640], name="y")
    graph = og.OpenGraph([x], [("y", y)], make)
    return graph.compile(**({} if kept_shapes is None else {"kept_shapes": kept_shapes}))


def call(model, count):
    return model(np.ones((count, 64), np.float32))


@pytest.mark.parametrize("make", [rows, opened])
def test_it_is_said_once_where_shapes_come_by_turns(make):
    model = make(kept_shapes=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for count in (1, 2, 3, 3, 2):  # none of them comes back once it has left
            call(model, count)
    with pytest.warns(og.errors.CompiledAgainWarning, match=AGAIN) as said:
        _ = [call(model, count) for _ in range(3) for count in (1, 2, 3)]
    assert [one.filename for one in said] == [__file__]


@pytest.mark.parametrize("make", [rows, opened])
def test_who_takes_warnings_for_errors_can_go_on(make):
    model = make(kept_shapes=1)
    call(model, 1)
    call(model, 2)
    with pytest.raises(og.errors.CompiledAgainWarning):
        call(model, 1)
    assert call(model, 1)["y"].shape == (1, 640)


@pytest.mark.parametrize("make", [rows, opened])
def test_those_that_were_used_last_are_kept(make, monkeypatch):
    made = []

    def noted(self, key, build, make, real=BoundedCache._made):
        made.append(key)
        return real(self, key, build, make)

    monkeypatch.setattr(BoundedCache, "_made", noted)
    model = make(kept_shapes=2)
    for count in (1, 2, 1, 3, 1):
        call(model, count)
    assert len(made) == 3


@pytest.mark.parametrize(
    ("value", "message"),
    [(0, "kept_shapes must be 1 or more, got 0"), (1.5, "kept_shapes must be a number"), (True, "a number")],
)
def test_values_that_are_none(value, message):
    with pytest.raises(og.OneDNNGraphError, match=message):
        rows(kept_shapes=value)


@pytest.mark.parametrize("make", [rows, opened])
def test_what_shapes_share_counts_once(make, onednn):
    """Packed weights are in memory once, whatever the number of rows."""
    model = make()
    weights = 64 * 640 * 4
    call(model, 1)
    told = [told for told in model.explain().values() if told is not None]
    if not any(one.prepared for one in told):
        pytest.skip("this CPU's kernels take weights as they lie")
    packed = sum(one.prepared_bytes for one in told)
    assert packed >= weights
    for count in range(1, 7):
        call(model, count)
    scratch = model.memory_bytes - packed
    layouts = {told.layout for told in model.explain().values()}
    assert len(layouts) == 1
    assert scratch < 3 * weights  # several ways of packing may be of use, but not six
    assert model.memory_bytes < 6 * packed


def test_a_bound_callable_takes_the_memory_that_a_call_has_left(onednn, monkeypatch):
    frames = []

    def noted(self, *args, real=Frame.__init__):
        frames.append(self)
        real(self, *args)

    graph = og.Graph()
    x = graph.input("x", "f32", [4, 64])
    graph.output(graph.softmax(graph.softmax(x, axis=1), axis=0), name="y")
    monkeypatch.setenv("ONEDNN_GRAPH_VERIFY", "off")  # it would leave memory behind
    model = graph.compile()
    monkeypatch.setattr(Frame, "__init__", noted)
    feeds = {"x": np.random.default_rng(0).random((4, 64), np.float32)}
    wanted = model(feeds)["y"].copy()
    assert len(frames) == 1
    bound = model.bind(feeds)
    assert len(frames) == 1
    for _ in range(2):
        np.testing.assert_array_equal(bound()["y"], wanted)
    np.testing.assert_array_equal(model(feeds)["y"], wanted)  # has one of its own again
    np.testing.assert_array_equal(bound()["y"], wanted)
    assert len(frames) == 2
