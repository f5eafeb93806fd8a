"""Each entry of the troubleshooting page is provoked here, and what the page quotes is what is said."""

import resource
import sys
import warnings
from pathlib import Path

import numpy as np
import onednn_graph as og
import processes
import pytest
from onednn_graph.backends.onednn import tuning_cache
from onednn_graph.backends.onednn.library import crowding
from onednn_graph.graph.compile import partitioner
from onednn_graph.graph.precision import rates
from onednn_graph.graph.training import watch
from onednn_graph.graph.trust import store
from onednn_graph.graph.trust.verdict import Kind, Verdict
from onednn_graph.ops.data_types import DataType
from troubleshooting import ENTRIES, OF_TORCH, check_quoted

F4 = np.float32
HUGE, LIMIT = (1 << 20, 1 << 20, 16), 1 << 45


def relu(data_type="f32", shape=(4,)):
    graph = og.Graph()
    graph.relu(graph.input("x", data_type, list(shape)), name="y")
    return graph


def trained(scale=1.0):
    graph = og.Graph()
    w = graph.parameter(np.full(2, scale, F4), name="w")
    made = graph.reduce_sum(
        graph.multiply(graph.multiply(w, w), graph.input("x", "f32", [-1, 2])), axes=[0, 1]
    )
    return og.training.Trainer(graph, made, og.training.SGD(0.1), kept_shapes=1)


def batch(length=1):
    return {"x": np.ones((length, 2), F4)}


# --- errors ---------------------------------------------------------------------------------------------


def unknown_attribute():
    graph = og.Graph()
    x, w = graph.input("x", "f32", [1, 5, 5, 1]), graph.input("w", "f32", [3, 3, 1, 1])
    dense = {"pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
    graph.op("Convolution", x, w, stride=[1, 1], **dense)


def strides_of_nothing():
    conv = {"pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
    og.convolution(np.ones((1, 5, 5, 1), F4), np.ones((3, 3, 1, 1), F4), strides=[0, 0], **conv)


def late_op():
    graph = relu()
    graph.finalize()
    graph.relu(graph.outputs[0])


def own_kind():
    og.extend.register_op(og.op_schema("ReLU"), lambda op, inputs, outputs: None)


def no_json():
    Path("graph.json").write_text("{nothing}")
    og.Graph.load("graph.json")


def a_folder():
    Path("models").mkdir()
    og.Graph.load("models")


def closed_engine():
    engine = og.Engine("cpu")
    engine.close()
    relu().compile(engine)


def out_of_memory():
    """64 TiB, under a limit below that: a system may promise more than it has, up to what addresses reach."""
    before, most = resource.getrlimit(resource.RLIMIT_AS)
    if before == resource.RLIM_INFINITY or before > LIMIT:
        resource.setrlimit(resource.RLIMIT_AS, (LIMIT, most))
    try:
        relu(shape=HUGE).compile()(np.broadcast_to(F4(0), HUGE))
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (before, most))


def no_library():
    code = """
import json
import onednn_graph as og
try:
    og.use_library("/nowhere/libdnnl.so.3")
    og.relu([1.0], backend="onednn")
except og.errors.LibraryError as error:
    print(json.dumps(str(error)))
"""
    raise og.errors.LibraryError(processes.printed(code))


ERRORS = {
    "UnknownOpError": lambda: og.Graph().op("Convolutoin"),
    "AttributeValueError": strides_of_nothing,
    "AttributeTypeError": lambda: og.leaky_relu(np.ones(2, F4), alpha="0.1"),
    "UnknownAttributeError": unknown_attribute,
    "PortError": lambda: og.matmul(np.ones((2, 2), F4)),
    "DataTypeError": lambda: og.matmul(np.ones((2, 2), F4), np.ones((2, 2))),
    "ShapeError": lambda: og.matmul(np.ones((2, 3), F4), np.ones((4, 5), F4)),
    "LayoutError": lambda: og.LogicalTensor(0, "f32", [2, 3], strides=[3]),
    "GraphError": late_op,
    "SchemaError": own_kind,
    "GraphFileError": no_json,
    "FileAccessError": a_folder,
    "MissingFileError": lambda: og.Graph.load("nowhere.json"),
    "UnsupportedError": lambda: relu("f64").compile(backend="onednn"),
    "ArgumentError": lambda: relu().compile()(),
    "ArgumentTypeError": lambda: relu().compile(threads="2"),
    "ResourceError": closed_engine,
    "OutOfMemoryError": out_of_memory,
    "LibraryError": no_library,
    "OneDNNGraphError": lambda: relu().compile()(np.ones(5, F4)),
}


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_is_as_the_page_says(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(getattr(og.errors, name)) as caught:
        ERRORS[name]()
    assert type(caught.value).__name__ == name or name == "OneDNNGraphError"
    check_quoted(name, str(caught.value))


# --- warnings -------------------------------------------------------------------------------------------


def without_the_library(patch):
    patch.setattr(type(partitioner.BACKENDS.get("onednn")), "unavailable", lambda self: "it is not installed")
    patch.setattr(partitioner, "_said", set())
    relu().compile()


def busy(patch):
    patch.setattr(crowding, "_found", [])
    patch.setattr(crowding, "get_num_threads", lambda: 4)
    patch.setattr(crowding, "crowd", lambda: "the load of others is 9.0 on 4 CPUs")
    patch.setitem(sys.modules, "torch", sys)
    crowding.warn_of_crowd()


def without_weights(patch):
    graph = relu()
    graph.add(graph.outputs[0], graph.constant(np.ones(4, F4), name="w"), name="z")
    graph.save("graph.json")


def skipped(patch):
    trained(scale=3e38).step(batch())


def nothing_left(patch):
    first = trained()
    first.fit([batch()] * 2, 2, callbacks=[og.training.Checkpoints(first, "runs")])
    again = trained()
    again.load_newest("runs")
    again.fit([batch()] * 2, 2)


def unreachable(patch):
    def refused(others, exchange):
        raise OSError("[Errno 113] No route to host")

    patch.setattr(watch, "connected", refused)
    watch.watched(0, (1, 1), None, lambda fine: fine, silence=60, otherwise=600)


def by_turns(patch):
    trainer = trained()
    for length in (1, 2, 1, 2, 1, 2):
        trainer.step(batch(length))


class Measured:
    """A backend in which products of bf16 are slow."""

    name, plans_with, patterns = "measured", (), ()

    def unavailable(self):
        return None

    def why_not(self, ops):
        return "it runs nothing"

    def compile(self, request):
        return iter(())

    def rates(self):
        return {DataType.f32: 156e9, DataType.bf16: 84e9}


def slow_type(patch):
    patch.setattr(rates, "_told", set())
    patch.setattr(type(partitioner.BACKENDS), "candidates", lambda self: (Measured(), self.get("numpy")))
    graph = og.Graph()
    graph.matmul(graph.input("x", "f32", [2, 2]), graph.input("w", "f32", [2, 2]), name="y")
    graph.to("bf16")


def no_sqlite(patch):
    patch.setattr(store, "sqlite3", None)
    store.VerdictStore(lambda: Path("cache") / "verdicts").put({"a": Verdict(Kind.right)})


def damaged_times(patch):
    patch.setenv("ONEDNN_GRAPH_CACHE", "cache")
    tuning_cache.remember({"a": 1}, {"x": 1.0})
    for file in Path("cache").iterdir():
        file.write_text("no times")
    tuning_cache.remembered({"a": 1})


WARNINGS = {
    "BackendUnavailableWarning": without_the_library,
    "BusyMachineWarning": busy,
    "WeightsLeftOutWarning": without_weights,
    "SkippedStepWarning": skipped,
    "CheckpointWarning": nothing_left,
    "LostRankWarning": unreachable,
    "CompiledAgainWarning": by_turns,
    "SlowTypeWarning": slow_type,
    "VerdictStoreWarning": no_sqlite,
    "TuningCacheWarning": damaged_times,
}


@pytest.mark.parametrize("name", WARNINGS)
def test_a_warning_is_as_the_page_says(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        WARNINGS[name](monkeypatch)
    said = [str(one.message) for one in seen if type(one.message).__name__ == name]
    assert len(said) == 1, [str(one.message) for one in seen]
    check_quoted(name, said[0])


def test_the_page_has_an_entry_for_each_and_each_entry_a_case():
    ours = {name for name, one in vars(og.errors).items() if isinstance(one, type)}
    assert set(ENTRIES) == {*ERRORS, *WARNINGS, *OF_TORCH}
    assert ours == {*ERRORS, *WARNINGS}
