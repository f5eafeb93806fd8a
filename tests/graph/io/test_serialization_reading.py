"""Reading graph files: a small one, and the oddities of real ones."""

import json
import math
import os

import numpy as np
import onednn_graph as og
import pytest
from attrs import evolve
from graph_documents import (
    A0,
    DST,
    FILTERS,
    KIND,
    LEGACY,
    S64_MAX,
    S64_MIN,
    SRC,
    T0,
    both,
    chain,
    described,
    gradient_op,
    graph_of,
    literally,
    operation,
    put,
    tensor,
    text,
    valid,
    without,
)
from onednn_graph.graph.files import read_graph, to_graph
from onednn_graph.graph.io.serialization import (
    AttributeRecord,
    GraphFileError,
    TensorRecord,
    dumps,
    from_graph,
    loads,
    write_graph,
)
from rows import each

# --- a small file -------------------------------------------------------------------------------------


def test_the_small_file_is_read():
    document = loads(json.dumps(valid()))
    assert (document.version, document.engine_kind, document.fpmath_mode) == ("3.7.0", "gpu", "bf16")
    assert document.apply_to_int is True
    assert document.input_ports == (0, 1)
    assert document.output_ports == (3, 2)
    first = document.ops[0]
    assert (first.id, first.name, first.kind) == (7, "op7", KIND)
    assert first.values["strides"] == (1, 1)
    assert first.attributes["auto_pad"] == AttributeRecord("string", "None")
    assert first.outputs[0] == TensorRecord(
        id=2, data_type="f32", shape=FILTERS, strides=(72, 24, 8, 1), layout_type="strided"
    )
    assert json.loads(dumps(document)) == valid()
    graph = to_graph(document)
    assert graph.fpmath_mode == "bf16"
    assert graph.engine_kind == "cpu"
    assert not graph.finalized
    assert [t.id for t in graph.inputs] == [0, 1]
    assert [t.id for t in graph.outputs] == [3, 2]


def test_a_graph_that_was_read_runs():
    model = graph_of(valid()).compile(backend="numpy")
    rng = np.random.default_rng(0)
    src, dst = (rng.integers(-3, 4, shape).astype(np.float32) for shape in (SRC, DST))
    result = model({"0": src, "1": dst})
    windows = np.lib.stride_tricks.sliding_window_view(src, (4, 5), (1, 2))
    np.testing.assert_array_equal(result["2"], np.einsum("nabcyx,nyxo->abco", windows, dst))


# --- the oddities of real files -----------------------------------------------------------------------


def with_tensor(**changes):
    """The tensor 0 of the small file, described with these changes in both ops."""
    document = valid()
    for op in document["graph"]:
        op["inputs"][0].update(changes)
    return document


@each(
    ("shape", "stride", "dims", "strides"),
    [
        ([S64_MIN], [S64_MIN], None, None),
        ([-1], [-1], None, None),
        ([S64_MIN], [1], (-1,), None),
        ([-1], [S64_MIN], (-1,), None),
        ([S64_MIN], [2], (-1,), (2,)),
        ([-1, 3], [3, 1], (-1, 3), None),
        ([S64_MIN, 3], [S64_MIN], (-1, 3), None),
        ([2, S64_MIN, 3], [S64_MIN, 3, 1], (2, -1, 3), None),
        ([2, 3], [S64_MIN], (2, 3), None),
        ([2, 3], [-1, 1], (2, 3), None),
        ([2, 3], [1, 2], (2, 3), (1, 2)),
        ([2, 1], [7, 1], (2, 1), (7, 1)),
        ([], [], (), None),
        ([0, 3], [3, 1], (0, 3), None),
    ],
)
@each("layout", ["strided", "undef", "any"])
def test_shapes_and_strides(shape, stride, dims, strides, layout):
    record = loads(text(with_tensor(shape=shape, stride=stride, layout_type=layout)))
    assert json.loads(dumps(record)) == with_tensor(shape=shape, stride=stride, layout_type=layout)
    written = record.ops[0].inputs[0]
    assert written.dims == dims
    known = None if layout == "any" or min(stride, default=0) < 0 else tuple(stride)
    assert written.element_strides == known
    found = to_graph(record).tensor(0)
    assert found.shape == dims
    assert found.strides == (None if layout == "any" else strides)
    assert found.layout_type == ("any" if layout == "any" else "strided")
    graph = to_graph(record)
    assert read_graph(text=write_graph(graph)).tensor(0) == graph.tensor(0)


def test_missing_attrs_and_defaults():
    document = loads(text(without("graph.1.attrs")))
    assert json.loads(dumps(document)) == without("graph.1.attrs")
    assert dict(document.ops[1].attributes) == {}
    assert not document.ops[1].attributes_written
    assert json.loads(dumps(loads(text(put("graph.1.attrs", {}))))) == put("graph.1.attrs", {})
    added = document.map_ops(lambda op: op.with_attributes({"groups": 1}))
    assert "attrs" in json.loads(dumps(added))["graph"][1]
    assert graph_of(without(f"{A0}.groups")).ops[0].attributes["groups"] == 1


def test_missing_optional_keys():
    document = valid()
    for key in ("fpmath_mode_apply_to_int", "input_ports", "output_ports"):
        del document[key]
    record = loads(text(document))
    assert (record.apply_to_int, record.input_ports, record.output_ports) == (None, None, None)
    assert json.loads(dumps(record)) == document
    assert [t.id for t in to_graph(record).outputs] == [2, 3]


def test_stale_ports_mean_nothing():
    graph = graph_of({**valid(), "input_ports": [99, 99], "output_ports": [98, 3, 0, 3]})
    assert [t.id for t in graph.inputs] == [0, 1]
    assert [t.id for t in graph.outputs] == [3, 2]


def test_marks_of_a_partitioned_graph_are_dropped():
    marked = put(f"{A0}.partition_id", {"type": "string", "value": "0"})
    marked["graph"][0]["attrs"]["backend"] = {"type": "string", "value": "dnnl_backend"}
    assert "backend" in loads(text(marked)).ops[0].attributes
    assert "backend" not in graph_of(marked).ops[0].attributes


def test_descriptions_complete_each_other():
    document = valid()
    document["graph"][0]["inputs"][0].update(
        shape=[S64_MIN, 6, -1, 3], stride=[S64_MIN], layout_type="undef", property_type="constant"
    )
    document["graph"][1]["inputs"][0].update(shape=[2, -1, 7, 3], stride=[126, 1, 6, 42])
    found = graph_of(document).tensor(0)
    assert found == og.LogicalTensor(
        0, "f32", (2, 6, 7, 3), strides=(126, 1, 6, 42), property_type="constant"
    )


def test_three_descriptions_name_the_two_that_differ():
    document = valid()
    document["graph"][0]["inputs"][0]["shape"] = [-1, 6, 7, 3]
    document["graph"].append(operation(10, [tensor(0, (4, 6, 7, 3)), tensor(1, DST)], [tensor(5, FILTERS)]))
    with pytest.raises(
        GraphFileError,
        match=r"graph\[2\]\.inputs\[0\]\.shape says \[4, 6, 7, 3\] .* graph\[1\]\.inputs\[0\] says \[2, 6, 7, 3\]",
    ):
        graph_of(document)


def test_strides_are_the_producers():
    document = chain()
    document["graph"][0]["inputs"][0]["stride"] = [1, 3, 9, 27]
    assert graph_of(document).tensor(2).element_strides == (72, 24, 8, 1)
    document["graph"][1]["outputs"][0].update(stride=[S64_MIN], layout_type="undef")
    assert graph_of(document).tensor(2).strides == (1, 3, 9, 27)
    assert json.loads(dumps(loads(text(document)))) == document


def test_marked_outputs():
    document = chain()
    assert [t.id for t in graph_of(document).outputs] == [4]
    document["output_ports"] = [2, 4]
    graph = graph_of(document)
    assert [t.id for t in graph.outputs] == [2, 4]
    assert [t.id for t in read_graph(text=write_graph(graph)).outputs] == [2, 4]
    graph.finalize()
    assert [op.id for op in read_graph(text=write_graph(graph)).ops] == [0, 1]


def test_a_cycle_is_seen_at_finalize():
    document = chain()
    document["graph"][1]["inputs"][1] = tensor(4, (2, 2, 8, 4))
    graph = graph_of(document)
    with pytest.raises(og.GraphError, match="cycle"):
        graph.finalize()


def test_host_scalars():
    graph = og.Graph()
    src, dst = og.LogicalTensor(0, "f32", SRC), og.LogicalTensor(1, "f32", DST, property_type="constant")
    graph.add_op(gradient_op(0, [src, dst], 2))
    document = from_graph(graph).map_tensors(
        lambda t: evolve(t, property_type="host_scalar", shape=(), strides=()) if t.id == 0 else t
    )
    scalar = json.loads(dumps(document))["graph"][0]["inputs"][0]
    assert scalar == tensor(0, (), property_type="host_scalar")
    found = to_graph(document).tensor(0)
    assert (found.property_type, found.shape, found.nbytes) == ("host_scalar", (), 4)
    assert to_graph(document).tensor(1).property_type == "constant"


def test_ids_up_to_64_bits():
    last = 2**64 - 1
    document = both((f"{T0}.id", last), ("graph.1.inputs.0.id", last), ("graph.0.id", last))
    graph = graph_of(document)
    assert graph.ops[0].id == last
    assert [t.id for t in graph.inputs] == [last, 1]


def test_legacy_names():
    document = valid()
    for op in document["graph"]:
        op["kind"] = LEGACY
        names = og.op_schema(LEGACY).names(LEGACY)
        op["attrs"] = {names.spell(name): value for name, value in op["attrs"].items()}
    graph = graph_of(document)
    assert graph.ops[0].kind == KIND
    written = json.loads(write_graph(graph))["graph"][0]
    assert written["kind"] == LEGACY
    assert "filter_shape" in written["attrs"]
    assert described(read_graph(text=write_graph(graph))) == described(graph)


@pytest.mark.parametrize(
    ("type_", "written", "value"),
    [
        ("bool", 1, True),
        ("bool", 0, False),
        ("bool", True, True),
        ("s64", S64_MIN, S64_MIN),
        ("s64", S64_MAX, S64_MAX),
        ("s64[]", [], ()),
        ("f32[]", [], ()),
        ("f32[]", [1, 0.5, 1e-05], (1.0, 0.5, 1e-05)),
        ("f32", 0, 0.0),
        ("f32", 1e30, 1e30),
        ("f32", 10**30, 1e30),
        ("f32", 0.1, 0.1),
        ("f32", float(np.float32(0.1)), float(np.float32(0.1))),
        ("string", "", ""),
        ("string", 'ä "\\ 漢', 'ä "\\ 漢'),
    ],
)
def test_values_of_attributes(type_, written, value):
    document = loads(text(put(f"{A0}.x", {"type": type_, "value": written})))
    record = document.ops[0].attributes["x"]
    assert (record.type, record.value, type(record.value)) == (type_, value, type(value))
    if isinstance(value, tuple):
        assert all(type(item) is (int if type_ == "s64[]" else float) for item in record.value)
    assert loads(dumps(document)) == document
    again = json.loads(dumps(document))["graph"][0]["attrs"]["x"]
    assert again["type"] == type_
    assert again["value"] == (float(written) if type_ == "f32" else written)
    assert type(again["value"]) is not bool


@pytest.mark.parametrize("word", ["Infinity", "1e999", "9" * 400])
@pytest.mark.parametrize("sign", ["", "-"])
def test_infinite_attributes(word, sign):
    """A clamp without an end; JSON has no word for it, and what we write every reader makes infinite."""
    document = loads(literally(f"{A0}.x", f'{{"type": "f32", "value": {sign}{word}}}'))
    assert document.ops[0].values["x"] == float(f"{sign}inf")
    assert f'"value": {sign}1e999}}' in dumps(document)
    assert loads(dumps(document)) == document


def test_negative_zero_keeps_its_sign():
    document = loads(literally(f"{A0}.x", '{"type": "f32", "value": -0}'))
    assert math.copysign(1, document.ops[0].values["x"]) == -1
    assert math.copysign(1, loads(dumps(document)).ops[0].values["x"]) == -1


@pytest.mark.skipif(os.name != "posix", reason="elsewhere a folder that somebody is in can't be removed")
def test_in_a_folder_that_is_gone_there_is_no_file(tmp_path, monkeypatch):
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    with pytest.raises(og.GraphFileError, match=r"^m\.json: can't be read: No such file"):
        og.Graph.load("m.json")
