"""Writing graph files, and documents that tools rewrite."""

import json
import math
from pathlib import Path

import numpy as np
import onednn_graph as og
import pytest
from attrs import evolve
from graph_documents import DST, FILTERS, S64_MIN, SRC, described, gradient_op, text, valid
from onednn_graph.graph.files import read_graph, to_graph
from onednn_graph.graph.io.document import (
    FORMAT_VERSION,
)
from onednn_graph.graph.io.serialization import (
    AttributeRecord,
    Document,
    GraphFileError,
    dump,
    dumps,
    from_graph,
    load,
    loads,
    save_graph,
    write_graph,
)

# --- what is written ----------------------------------------------------------------------------------

WRITTEN = """{
  "version": "FORMAT_VERSION",
  "engine_kind": "cpu",
  "fpmath_mode": "tf32",
  "fpmath_mode_apply_to_int": "false",
  "input_ports": [10, 11],
  "output_ports": [12],
  "graph": [
    {
      "id": 3,
      "name": "dw",
      "kind": "ConvolutionBackwardWeights",
      "attrs": {
        "strides": {"type": "s64[]", "value": [1, 1]},
        "pads_begin": {"type": "s64[]", "value": [0, 0]},
        "pads_end": {"type": "s64[]", "value": [0, 0]},
        "dilations": {"type": "s64[]", "value": [1, 1]},
        "auto_pad": {"type": "string", "value": "None"},
        "groups": {"type": "s64", "value": 1},
        "data_format": {"type": "string", "value": "NXC"},
        "weights_format": {"type": "string", "value": "XIO"},
        "weights_shape": {"type": "s64[]", "value": [3, 3, 3, 8]}
      },
      "inputs": [
        {"id": 10, "dtype": "bf16", "shape": [2, 6, 7, 3], "stride": [126, 21, 3, 1], PLAIN},
        {"id": 11, "dtype": "bf16", "shape": [2, 4, 5, 8], "stride": [160, 1, 4, 20], VARIABLE}
      ],
      "outputs": [
        {"id": 12, "dtype": "bf16", "shape": [3, 3, 3, 8], "stride": [UNKNOWN], ANY}
      ]
    }
  ],
  "interface": {
    "names": [
      {"id": 10, "name": "src"}
    ],
    "inputs": [
      {"id": 10, "dtype": "bf16", "shape": [2, 6, 7, 3], "stride": [126, 21, 3, 1], PLAIN},
      {"id": 11, "dtype": "bf16", "shape": [2, 4, 5, 8], "stride": [160, 1, 4, 20], VARIABLE}
    ],
    "outputs": []
  }
}
"""


def test_what_is_written():
    graph = og.Graph(fpmath_mode="tf32")
    src = og.LogicalTensor(10, "bf16", SRC, name="src")
    dst = og.LogicalTensor(11, "bf16", DST, strides=(160, 1, 4, 20), property_type="variable")
    result = og.LogicalTensor(12, "bf16", layout_type="any")
    graph.add_op(gradient_op(3, [src, dst], result, name="dw", weights_shape=FILTERS))
    graph.finalize()
    words = {
        "FORMAT_VERSION": FORMAT_VERSION,
        "VARIABLE": 'STRIDED, "property_type": "variable"',
        "PLAIN": 'STRIDED, "property_type": "undef"',
        "STRIDED": '"layout_type": "strided"',
        "UNKNOWN": str(S64_MIN),
        "ANY": '"layout_type": "any", "property_type": "undef"',
    }
    expected = WRITTEN
    for word, meaning in words.items():
        expected = expected.replace(word, meaning)
    assert write_graph(graph) == expected


def called(graph):
    """All that callers of a graph see."""
    return graph.inputs, graph.outputs, graph.output_names, graph.marked_outputs, {*graph.tensors}


def in_another_order():
    """Inputs in another order than that of their first use, of which one is not read; inputs that are outputs."""
    graph = og.Graph()
    a, _, b, c = (graph.input(name, "f32", [2]) for name in ("a", "unread", 'ü\n"', "0"))
    d = graph.add_input(og.LogicalTensor(99, "f32", [-1, 2]))
    difference = graph.subtract(b, a, name="1")
    graph.output(graph.relu(difference), name="y")
    graph.output(c, name="same")
    graph.output(difference)
    graph.exp(graph.add(d, c), name="z")
    return graph


def test_names_and_the_order_of_inputs_and_outputs_come_back(tmp_path):
    graph = in_another_order()
    again = og.Graph.from_json(graph.to_json())
    assert called(again) == called(graph)
    assert again.to_json() == graph.to_json()
    graph.save(tmp_path / "m.json", weights=False)
    assert called(og.Graph.load(tmp_path / "m.json")) == called(graph)
    arrays = [np.arange(2, dtype="f4") ** (i + 1) for i in range(4)]
    results = [one.compile(backend="numpy")(*arrays, np.ones((3, 2), "f4")) for one in (graph, again)]
    for name, array in results[0].items():
        np.testing.assert_array_equal(results[1][name], array)
    assert list(results[0]) == list(results[1])


def test_what_the_library_reads_comes_first():
    """Its reader stops at the first key that it does not know."""
    keys = list(json.loads(in_another_order().to_json()))
    assert keys[keys.index("graph") + 1 :] == ["interface"]


def test_an_interface_is_written_only_where_it_says_something():
    graph = og.Graph()
    graph.add_op(gradient_op(0, [og.LogicalTensor(0, "f32", SRC), og.LogicalTensor(1, "f32", DST)], 2))
    graph.output(graph.tensor(2))
    assert from_graph(graph).interface is None
    graph.output(graph.tensor(1))
    assert from_graph(graph).interface is not None


def test_an_interface_goes_with_changes_of_its_document():
    document = from_graph(in_another_order())
    double = to_graph(
        document.map_tensors(lambda t: evolve(t, data_type="f64" if t.data_type == "f32" else "f32"))
    )
    assert {t.data_type for t in double.inputs} == {og.DataType.f64}
    shorter = to_graph(evolve(document, ops=document.ops[:1]))
    assert shorter.input_names == in_another_order().input_names
    assert shorter.output_names == ("same", "1")


def test_names_that_files_cannot_hold():
    for name, rule in (("\ud800", "text without lone surrogates"), ("x" * 5000, "at most 4096 characters")):
        graph = og.Graph()
        graph.relu(graph.input(name, "f32", [2]), name="y")
        with pytest.raises(GraphFileError, match=rf"interface.names\[0\].name must .*{rule}"):
            graph.to_json()


def test_strides_beside_unknown_sizes():
    """Only what follows from known sizes is written."""
    shapes = {
        None: [S64_MIN],
        (-1,): [1],
        (2, -1, 3): [S64_MIN, 3, 1],
        (-1, 3): [3, 1],
        (4, -1): [S64_MIN, 1],
    }
    for shape, strides in shapes.items():
        graph = og.Graph()
        graph.add_op(gradient_op(0, [og.LogicalTensor(0, "f32", shape), og.LogicalTensor(1, "f32")], 2))
        written = from_graph(graph).ops[0].inputs[0]
        assert list(written.strides) == strides
        assert written.dims == shape
    given_ones = og.LogicalTensor(0, "f32", (2, -1, 3), strides=(3, 3, 1))
    graph = og.Graph()
    graph.add_op(gradient_op(0, [given_ones, og.LogicalTensor(1, "f32")], 2))
    assert read_graph(text=write_graph(graph)).tensor(0) == given_ones


def test_all_that_the_graph_knows_is_written():
    """Also of a graph that is not finalized, whose ops know less than it does."""
    graph = og.Graph()
    src, dst = og.LogicalTensor(0, "f32", SRC), og.LogicalTensor(1, "f32", DST)
    graph.add_op(gradient_op(0, [src, dst], 2))
    graph.add_op(gradient_op(1, [og.LogicalTensor(2, "f32", FILTERS), og.LogicalTensor(0, "f32")], 3))
    first, second = from_graph(graph).ops
    assert first.outputs[0].dims == FILTERS
    assert second.inputs[1].dims == SRC


def test_an_empty_graph(tmp_path):
    path = tmp_path / "empty.json"
    save_graph(og.Graph(), path)
    assert '"graph": []' in path.read_text(encoding="utf-8")
    assert described(read_graph(path)) == described(og.Graph())
    assert loads(dumps(Document())) == Document()


def test_files_are_utf8(tmp_path):
    graph = og.Graph()
    graph.add_op(
        gradient_op(0, [og.LogicalTensor(0, "f32"), og.LogicalTensor(1, "f32")], 2, name="Schicht ä \u3000漢")
    )
    path = tmp_path / "names.json"
    save_graph(graph, path)
    assert "ä \u3000漢" in path.read_bytes().decode("utf-8")
    assert b"\r" not in path.read_bytes()
    assert read_graph(path).ops[0].name == "Schicht ä \u3000漢"
    dump(load(path), path)
    assert read_graph(path).ops[0].name == "Schicht ä \u3000漢"


def test_what_can_not_be_written():
    graph = og.Graph()
    graph.add_op(gradient_op(0, [og.LogicalTensor(0, "f32"), og.LogicalTensor(1, "f32")], 2, name="a\nb"))
    with pytest.raises(GraphFileError, match=r"<graph>: graph\[0\]\.name must be text without control"):
        write_graph(graph)
    for value in (None, 3, "graph"):
        with pytest.raises(og.ArgumentTypeError, match="a Graph is needed"):
            write_graph(value)
        for function in (dumps, to_graph):
            with pytest.raises(og.ArgumentTypeError, match="a Document is needed"):
                function(value)


def test_an_undefined_layout_is_kept_by_documents_only():
    graph = og.Graph()
    src, dst = og.LogicalTensor(0, "f32", SRC, layout_type="undef"), og.LogicalTensor(1, "f32", DST)
    graph.add_op(gradient_op(0, [src, dst], 2))
    assert loads(write_graph(graph)).ops[0].inputs[0].layout_type == "undef"
    assert read_graph(text=write_graph(graph)).tensor(0).layout_type == "strided"


# --- documents that tools rewrite ---------------------------------------------------------------------


def test_documents_are_rewritten():
    document = loads(text(valid()))
    changed = document.map_tensors(
        lambda t: evolve(t.with_shape((1, *t.dims[1:])), data_type="bf16") if t.id < 2 else t
    )
    changed = changed.map_tensors(lambda t: t if t.id < 2 else evolve(t, data_type="bf16"))
    graph = to_graph(changed)
    assert graph.tensor(0).shape == (1, 6, 7, 3)
    assert graph.tensor(0).element_strides == (126, 21, 3, 1)
    assert {t.data_type for op in graph.ops for t in (*op.inputs, *op.outputs)} == {og.DataType.bf16}
    graph.finalize()
    assert document == loads(text(valid()))
    unknown = document.map_tensors(lambda t: t.with_shape(None))
    assert {t.dims for op in unknown.ops for t in op.inputs} == {None}
    assert to_graph(evolve(document, fpmath_mode="any")).fpmath_mode == "any"
    assert evolve(document.ops[0].inputs[0], shape=[np.int64(1), 2], strides=[2, 1]).shape == (1, 2)


def test_attributes_are_rewritten():
    document = loads(text(valid()))
    op = document.ops[0]
    changed = op.with_attributes({"groups": 3, "pads_end": [2, 2], "auto_pad": None})
    assert changed.attributes["groups"] == AttributeRecord("s64", 3)
    assert changed.attributes["pads_end"] == AttributeRecord("s64[]", (2, 2))
    assert "auto_pad" not in changed.attributes
    assert op.values["auto_pad"] == "None"
    assert op.with_attributes({"auto_pad": None}).with_attributes({"auto_pad": "VALID"}).attributes[
        "auto_pad"
    ] == AttributeRecord("string", "VALID")
    unknown = evolve(op, kind="Unknown", attributes={}).with_attributes(
        {"a": 1, "b": 1.5, "c": True, "d": "x", "e": [1, 2], "f": (1.5, 2.0), "g": []}
    )
    assert [record.type.value for record in unknown.attributes.values()] == [
        "s64",
        "f32",
        "bool",
        "string",
        "s64[]",
        "f32[]",
        "s64[]",
    ]
    assert loads(dumps(evolve(document, ops=[unknown]))).ops == (unknown,)


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        (lambda d: evolve(d, ops=[3]), og.ArgumentTypeError, "sequence of OpRecord"),
        (lambda d: evolve(d.ops[0], inputs=[3]), og.ArgumentTypeError, "sequence of TensorRecord"),
        (lambda d: evolve(d.ops[0], attributes=3), og.ArgumentTypeError, "mapping"),
        (
            lambda d: evolve(d.ops[0], attributes={3: AttributeRecord("s64", 1)}),
            og.ArgumentTypeError,
            "of str",
        ),
        (lambda d: evolve(d.ops[0], attributes={"x": 3}), og.ArgumentTypeError, "AttributeRecord"),
        (lambda d: evolve(d.ops[0].inputs[0], shape=3), og.ArgumentTypeError, "sequences of integers"),
        (lambda d: evolve(d.ops[0].inputs[0], shape=["x"]), og.ArgumentTypeError, "sequences of integers"),
        (lambda d: evolve(d.ops[0].inputs[0], data_type="x"), og.ArgumentError, "data_type must be one of"),
        (lambda d: evolve(d.ops[0].inputs[0], layout_type=3), og.ArgumentTypeError, "layout_type must be"),
        (lambda d: evolve(d, fpmath_mode="x"), og.ArgumentError, "fpmath_mode must be one of"),
        (lambda d: evolve(d, output_ports=3), og.ArgumentTypeError, "sequences of integers"),
        (lambda d: AttributeRecord("x", 3), og.ArgumentError, "type must be one of"),
    ],
)
def test_records_refuse_what_they_can_not_hold(change, error, says):
    with pytest.raises(error, match=says):
        change(loads(text(valid())))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda op: evolve(op, id="x"), r"graph\[0\]\.id must be an integer"),
        (lambda op: evolve(op, id=[]), r"graph\[0\]\.id must be an integer"),
        (lambda op: evolve(op, id=0), r"graph\[1\]\.id must be unlike"),
        (lambda op: evolve(op, name=None), r"graph\[0\]\.name must be a string"),
        (lambda op: evolve(op, kind=3), r"graph\[0\]\.kind must be a string"),
        (lambda op: evolve(op, inputs=[evolve(op.inputs[0], id=[])]), r"inputs\[0\]\.id must be an integer"),
        (lambda op: evolve(op, inputs=[evolve(op.inputs[0], shape=(1,))]), r"\.stride must have one value"),
        (lambda op: op.with_attributes({"groups": "x"}), r"attrs\.groups\.value must be an integer"),
        (lambda op: op.with_attributes({"groups": {}}), r"attrs\.groups\.value must be an integer"),
        (lambda op: op.with_attributes({"groups": math.nan}), r"attrs\.groups\.value must be an integer"),
    ],
)
def test_rewritten_documents_are_checked(change, says):
    document = loads(text(valid())).map_ops(change)
    for function in (dumps, to_graph):
        with pytest.raises(GraphFileError, match=says):
            function(document)


@pytest.mark.parametrize("weights", [False, True])
def test_outputs_that_were_dropped_stay_so(weights: bool, tmp_path: Path) -> None:
    graph = og.Graph()
    x = graph.input("x", "f32", [2])
    kept, dropped = graph.exp(x), graph.square(x)
    graph.drop_output(dropped)
    graph.save(tmp_path / "graph.json", weights=weights)
    again = og.Graph.load(tmp_path / "graph.json")
    assert [t.id for t in again.outputs] == [kept.id]
    assert len(again.ops) == 2
    again.output(again.tensor(dropped.id))
    assert {t.id for t in again.outputs} == {kept.id, dropped.id}
