"""Profiles: what they hold, whose it is, and that they cost nothing when closed."""

import json
import os
import threading
import warnings

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.graph.pictures.description import describe
from onednn_graph.graph.runtime import profiling

CONV = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}


def two_partitions():
    graph = og.Graph()
    x = graph.input("x", "f32", [2, 8, 8, 16])
    y = graph.op("Convolution", x, graph.input("w", "f32", [3, 3, 16, 8], property_type="constant"), **CONV)
    y = graph.op("ReLU", y)
    graph.op("GreaterEqual", y, y, name="mask")
    return graph


def arrays():
    random = np.random.default_rng(0)
    return {
        "x": random.integers(-2, 3, (2, 8, 8, 16)).astype(np.float32),
        "w": random.integers(-2, 3, (3, 3, 16, 8)).astype(np.float32),
    }


def needs_onednn():
    if og.list_backends()["onednn"] is not None:
        pytest.skip("the oneDNN library is not here")


def test_partitions_and_their_steps_are_measured():
    needs_onednn()
    model, data = two_partitions().compile(), arrays()
    model(data)
    with og.profile() as prof:
        for _ in range(3):
            model(data)
    lines = prof.partitions
    assert [(line.partition, line.name, line.implementation, line.calls) for line in lines] == [
        (0, "Convolution+ReLU", "onednn", 3),
        (1, "GreaterEqual", "numpy", 3),
    ]
    steps = {line.name: line for line in prof.steps}
    assert set(steps) == {"convolution", "GreaterEqual"} | {n for n in steps if n.startswith("reorder")}
    assert steps["convolution"].kind is og.profiling.EventKind.primitive
    assert steps["convolution"].partition == 0
    assert any("src f32 2x16x8x8" in tensor for tensor in steps["convolution"].tensors)
    assert steps["GreaterEqual"].kind is og.profiling.EventKind.host
    assert steps["GreaterEqual"].tensors == ("f32 2x8x8x8", "f32 2x8x8x8", "boolean 2x8x8x8")
    for line in lines:
        inner = sum(step.seconds for step in prof.steps if step.partition == line.partition)
        assert 0 < inner <= line.seconds
    assert prof.seconds == pytest.approx(sum(line.seconds for line in lines))
    assert prof.partition_seconds() == {line.partition: line.seconds / 3 for line in lines}


def test_copies_are_told_apart():
    needs_onednn()
    src = og.LogicalTensor(0, "f32", [4, 16, 14, 14])
    dy = og.LogicalTensor(1, "f32", [4, 32, 14, 14])
    graph = og.Graph()
    dw = graph.add_op(
        og.Op(
            0,
            "ConvolutionBackwardWeights",
            [src, dy],
            [og.LogicalTensor(2, "f32")],
            data_format="NCX",
            weights_shape=[3, 3, 16, 32],
            **CONV,
        )
    )
    del dw
    graph.finalize()
    compiled = graph.get_partitions(backend="onednn")[0].compile(strategy="gemm on channels last")
    random = np.random.default_rng(0)
    ins = [random.integers(-2, 3, t.shape).astype(np.float32) for t in compiled.inputs]
    with og.profile() as prof:
        compiled.execute(None, ins)
    kinds = {step.name: step.kind for step in prof.steps}
    assert kinds["convolution"] is og.profiling.EventKind.primitive
    assert {kind for name, kind in kinds.items() if name.startswith("reorder")} == {
        og.profiling.EventKind.copy
    }
    assert 0 < prof.copy_seconds < prof.seconds


def test_bound_calls_are_measured_while_a_profile_is_open():
    model, data = two_partitions(), arrays()
    model.finalize()
    compiled = model.get_partitions()[0].compile()
    out = np.empty(compiled.outputs[0].dims, np.float32)
    call = compiled.bind([data["x"], data["w"]], [out])
    with og.profile() as prof:
        call()
        call()
    call()
    assert [line.calls for line in prof.partitions] == [2]


def test_results_are_the_same_while_profiled():
    model, data = two_partitions().compile(), arrays()
    expected = model(data)
    with og.profile():
        got = model(data)
    assert np.array_equal(got["mask"], expected["mask"])


def test_profiles_nest_and_close():
    model, data = two_partitions().compile(), arrays()
    with og.profile() as outer:
        model(data)
        with og.profile() as inner:
            model(data)
    model(data)
    assert [line.calls for line in inner.partitions] == [1, 1]
    assert [line.calls for line in outer.partitions] == [2, 2]
    assert profiling.recordings == ()


def test_an_exception_closes_the_profile():
    with pytest.raises(KeyError), og.profile():
        raise KeyError("x")
    assert profiling.recordings == ()


def test_other_threads_are_measured_too():
    model, data = two_partitions().compile(), arrays()
    with og.profile() as prof:
        threads = [threading.Thread(target=model, args=(data,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [line.calls for line in prof.partitions] == [4, 4]
    # Each step knows its partition although four executions ran side by side.
    assert {step.partition for step in prof.steps if step.name == "GreaterEqual"} == {1}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_knows_whose_steps_are_whose():
    needs_onednn()
    model, data = two_partitions().compile(), arrays()
    model(data)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # of forking beside threads, which is what is tested
        child = os.fork()
    if not child:
        code = 1
        try:
            with og.profile() as prof:
                model(data)
            code = int({step.partition for step in prof.steps} != {0, 1})
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_chrome_trace_holds_every_event(tmp_path):
    model, data = two_partitions().compile(), arrays()
    with og.profile() as prof:
        model(data)
    path = tmp_path / "trace.json"
    prof.save_trace(path)
    trace = json.loads(path.read_text())["traceEvents"]
    assert len(trace) == len(prof.events)
    by_name = {event["name"]: event for event in trace}
    whole, part = by_name["GreaterEqual"], [e for e in trace if e["cat"] == "host"][-1]
    assert {event["ph"] for event in trace} == {"X"}
    assert whole["ts"] <= part["ts"] + 1e-3
    assert (
        part["ts"] + part["dur"] <= max(e["ts"] + e["dur"] for e in trace if e["cat"] == "partition") + 1e-3
    )
    with pytest.raises(og.ArgumentError, match="can't be written"):
        prof.save_trace(tmp_path / "no such folder" / "trace.json")
    with pytest.raises(og.ArgumentError, match="can't be written"):
        prof.save_trace("trace\0.json")


def test_the_table_says_what_took_the_time():
    model, data = two_partitions().compile(), arrays()
    with og.profile() as prof:
        model(data)
    text = str(prof)
    assert "partition 0: Convolution+ReLU" in text
    assert "partition 1: GreaterEqual" in text
    assert text.splitlines()[-1].startswith("reorders and conversions: ")
    with og.profile() as empty:
        pass
    assert str(empty) == "nothing was executed while the profile was open"


def test_a_description_takes_times_from_a_profile():
    graph, data = two_partitions(), arrays()
    model = graph.compile()
    with og.profile() as prof:
        model(data)
    described = describe(graph, profile=prof)
    assert [p.seconds for p in described.partitions] == [
        prof.partition_seconds()[p.id] for p in described.partitions
    ]
    assert all(
        step.seconds is not None for p in described.partitions for step in p.steps if step.kind != "prepared"
    )
    assert all(p.seconds is None for p in describe(graph).partitions)


def test_a_description_is_the_graph_as_data():
    graph = two_partitions()
    described = describe(graph)
    data = json.loads(json.dumps(described.as_data()))
    assert [op["kind"] for op in data["ops"]] == ["Convolution", "ReLU", "GreaterEqual"]
    assert data["ops"][0]["attributes"]["pads_begin"] == [1, 1]
    assert data["ops"][0]["inputs"] == [["src", 0], ["weights", 1]]
    tensors = {tensor["name"]: tensor for tensor in data["tensors"]}
    assert tensors["w"]["property_type"] == "constant"
    assert tensors["w"]["consumers"] == [data["ops"][0]["id"]]
    assert tensors["mask"]["role"] == "output"
    assert tensors["x"]["text"] == "f32 2x8x8x16"
    assert [partition["label"] for partition in data["partitions"]] == ["Convolution+ReLU", "GreaterEqual"]
    assert {op["partition"] for op in data["ops"]} == {0, 1}


def test_a_description_says_why_a_partition_is_not_compiled():
    graph = og.Graph()
    graph.op("ReLU", graph.input("x", "f32", [-1, 4]))
    (partition,) = describe(graph).partitions
    assert "must have all its sizes" in partition.problem
    assert partition.steps == ()
