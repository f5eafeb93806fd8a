"""oneDNN Graph's JSON files: real ones, hostile ones, and graphs there and back."""

import copy
import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onednn_graph as og
import pytest
from attrs import evolve
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st
from onednn_graph.graph.io.document import (
    FORMAT_VERSION,
    MAX_ATTRIBUTES,
    MAX_FILE_BYTES,
    MAX_OPS,
    MAX_PORTS,
    MAX_STRING,
)
from onednn_graph.graph.io.serialization import (
    AttributeRecord,
    Document,
    GraphFileError,
    OpRecord,
    TensorRecord,
    dump,
    dumps,
    from_graph,
    load,
    loads,
    read_graph,
    save_graph,
    to_graph,
    write_graph,
)
from strategies import SETTINGS

S64_MIN, S64_MAX = -(2**63), 2**63 - 1
KIND = "ConvolutionBackwardWeights"
LEGACY = "ConvolutionBackpropFilters"

# --- real files -----------------------------------------------------------------------------------------

FOLDER = Path(os.environ.get("ONEDNN_GRAPH_CORPUS", ROOT.parent / "shared")) / "benchdnn_graph"
FILES = sorted(str(file.relative_to(FOLDER)) for file in FOLDER.rglob("*.json")) if FOLDER.is_dir() else []


@pytest.fixture(params=FILES or ["no files"])
def file(request, corpus):
    """Each graph of the corpus; skipped, with the reason, where the corpus is not."""
    if not FILES:
        pytest.skip(f"the corpus has no folder {FOLDER.name}")
    return corpus / "benchdnn_graph" / request.param


def test_the_corpus_is_complete(corpus):
    if not FILES:
        pytest.skip(f"the corpus has no folder {FOLDER.name}")
    assert len(FILES) >= 146


def test_a_real_file_survives_as_a_document(file):
    document = load(file)
    assert document.source == str(file)
    text = dumps(document)
    assert loads(text) == document
    assert dumps(loads(text)) == text
    assert json.loads(text) == json.loads(file.read_text(encoding="utf-8"))


def test_a_real_file_survives_as_a_graph(file):
    document = load(file)
    graph = to_graph(document)
    assert [(op.id, op.name, op.names.kind) for op in graph.ops] == [
        (op.id, op.name, op.kind) for op in document.ops
    ]
    for op, record in zip(graph.ops, document.ops, strict=True):
        for tensor, written in zip((*op.inputs, *op.outputs), (*record.inputs, *record.outputs), strict=True):
            assert tensor.id == written.id
            assert tensor.data_type is written.data_type
            assert tensor.shape == written.dims
            assert tensor.property_type is written.property_type
            if written.element_strides is not None:
                assert tensor.element_strides == written.element_strides
            if written.layout_type != "undef":
                assert tensor.layout_type is written.layout_type
    produced = {t.id for op in document.ops for t in op.outputs}
    assert {i for i in document.output_ports or () if i in produced} <= {t.id for t in graph.outputs}
    assert described(read_graph(text=write_graph(graph))) == described(graph)
    graph.finalize()
    assert described(read_graph(text=write_graph(graph))) == described(graph)


def described(graph):
    """What the format keeps of a graph."""
    return {
        "fpmath_mode": graph.fpmath_mode,
        "ops": [
            {
                "op": (op.id, op.name, op.names.kind, op.kind),
                "attributes": {name: (type(value), value) for name, value in op.attributes.items()},
                "inputs": [description(graph.tensor(t.id)) for t in op.inputs],
                "outputs": [description(graph.tensor(t.id)) for t in op.outputs],
            }
            for op in graph.ops
        ],
        "inputs": [t.id for t in graph.inputs],
        "outputs": [t.id for t in graph.outputs],
    }


def dense(shape):
    """Row-major strides; S64_MIN where they follow from no known size."""
    rest = [shape[i + 1 :] for i in range(len(shape or ()))]
    steps = [S64_MIN if -1 in sizes else math.prod(max(d, 1) for d in sizes) for sizes in rest]
    return tuple(steps)


def description(tensor):
    # Row-major strides and none at all mean the same.
    strides = None if tensor.strides == dense(tensor.shape) else tensor.strides
    return (tensor.id, tensor.data_type, tensor.shape, tensor.layout_type, strides, tensor.property_type)


# --- a small file ---------------------------------------------------------------------------------------


def tensor(number, shape, **changes):
    steps = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    return {
        "id": number,
        "dtype": "f32",
        "shape": list(shape),
        "stride": steps,
        "layout_type": "strided",
        "property_type": "undef",
        **changes,
    }


SRC, DST, FILTERS = (2, 6, 7, 3), (2, 4, 5, 8), (3, 3, 3, 8)


def operation(number, inputs, outputs, **changes):
    return {
        "id": number,
        "name": f"op{number}",
        "kind": KIND,
        "attrs": {
            "strides": {"type": "s64[]", "value": [1, 1]},
            "pads_begin": {"type": "s64[]", "value": [0, 0]},
            "pads_end": {"type": "s64[]", "value": [0, 0]},
            "dilations": {"type": "s64[]", "value": [1, 1]},
            "groups": {"type": "s64", "value": 1},
            "auto_pad": {"type": "string", "value": "None"},
            "data_format": {"type": "string", "value": "NXC"},
            "weights_format": {"type": "string", "value": "XIO"},
            "weights_shape": {"type": "s64[]", "value": list(FILTERS)},
        },
        "inputs": inputs,
        "outputs": outputs,
        **changes,
    }


def valid():
    """Two weight gradients of one convolution's tensors, as parsed JSON."""
    return {
        "version": "3.7.0",
        "engine_kind": "gpu",
        "fpmath_mode": "bf16",
        "fpmath_mode_apply_to_int": "true",
        "input_ports": [0, 1],
        "output_ports": [3, 2],
        "graph": [
            operation(7, [tensor(0, SRC), tensor(1, DST)], [tensor(2, FILTERS)]),
            operation(9, [tensor(0, SRC), tensor(1, DST)], [tensor(3, FILTERS)]),
        ],
    }


def put(path, value):
    """The small file with another value at `path`, such as `graph.0.inputs.1.shape`."""
    document = valid()
    place = document
    *way, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    for step in way:
        place = place[step]
    place[last] = value
    return document


def without(path):
    document = valid()
    place = document
    *way, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    for step in way:
        place = place[step]
    del place[last]
    return document


def both(*changes):
    """The small file with several values changed."""
    document = valid()
    for path, value in changes:
        place = document
        *way, last = [int(step) if step.isdigit() else step for step in path.split(".")]
        for step in way:
            place = place[step]
        place[last] = value
    return document


def graph_of(document):
    return read_graph(text=json.dumps(document))


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


# --- hostile files --------------------------------------------------------------------------------------


def text(of):
    return of if isinstance(of, str) else json.dumps(of)


def repeated(path, key, value):
    """The small file, as text, in which the object at `path` has a key twice."""
    return text(put(f"{path}.{key}", "MARK") if path else put(key, "MARK")).replace(
        '"MARK"', f'{json.dumps(value)}, "{key}": {json.dumps(value)}'
    )


def literally(path, word):
    """The small file as text with a word at `path` that `json.dumps` would not write."""
    return text(put(path, "MARK")).replace('"MARK"', word)


T0 = "graph.0.inputs.0"
A0 = "graph.0.attrs"
FILE = GraphFileError

HOSTILE = [
    # what, the file, the error, what its message has
    ("empty", "", FILE, "line 1, column 1: must be JSON"),
    ("no JSON", "graph", FILE, "line 1, column 1: must be JSON"),
    ("cut off", text(valid())[:300], FILE, "line 1, column"),
    ("text after it", text(valid()) + "x", FILE, "Extra data"),
    ("byte order mark", "\ufeff" + text(valid()), FILE, "line 1, column 1"),
    ("null", "null", FILE, "<text>: the document must be an object, got null"),
    ("a list", "[]", FILE, "the document must be an object, got []"),
    ("a number", "3", FILE, "the document must be an object, got 3"),
    ("an empty object", "{}", FILE, "the document must have the key 'version', got an object of 0 keys"),
    ("no graph", without("graph"), FILE, "must have the key 'graph'"),
    ("no engine kind", without("engine_kind"), FILE, "must have the key 'engine_kind'"),
    ("unknown key", {**valid(), "grph": []}, FILE, "(did you mean 'graph'?), got 'grph'"),
    ("graph twice", repeated("", "graph", []), FILE, "the document must have each key once"),
    ("version 3", put("version", 3), FILE, "<text>: version must be a string, got 3"),
    ("version with newline", put("version", "3\n"), FILE, "version must be text without control"),
    ("engine tpu", put("engine_kind", "tpu"), FILE, "engine_kind must be one of any, cpu, gpu, got 'tpu'"),
    ("engine null", put("engine_kind", None), FILE, "engine_kind must be a string, got null"),
    ("fpmath f61", put("fpmath_mode", "f61"), FILE, "fpmath_mode must be one of strict, bf16"),
    ("fpmath 0", put("fpmath_mode", 0), FILE, "fpmath_mode must be a string, got 0"),
    ("apply true", put("fpmath_mode_apply_to_int", True), FILE, "fpmath_mode_apply_to_int must be the string"),
    ("apply list", put("fpmath_mode_apply_to_int", []), FILE, "fpmath_mode_apply_to_int must be the string"),
    ("ports object", put("input_ports", {}), FILE, "input_ports must be a list, got an object of 0 keys"),
    ("ports null", put("output_ports", None), FILE, "output_ports must be a list, got null"),
    ("port -1", put("output_ports.1", -1), FILE, "output_ports[1] must be between 0 and"),
    ("port 1.0", put("input_ports.0", 1.0), FILE, "input_ports[0] must be an integer, got 1.0"),
    ("graph object", put("graph", {}), FILE, "graph must be a list"),
    ("graph string", put("graph", "[]"), FILE, "graph must be a list, got '[]'"),
    ("op null", put("graph.1", None), FILE, "graph[1] must be an object, got null"),
    ("op list", put("graph.1", []), FILE, "graph[1] must be an object"),
    ("no kind", without("graph.1.kind"), FILE, "graph[1] must have the key 'kind'"),
    ("no inputs", without("graph.1.inputs"), FILE, "graph[1] must have the key 'inputs'"),
    ("op with shape", put("graph.1.shape", [1]), FILE, "graph[1] must have the keys id"),
    ("op id twice", put("graph.1.id", 7), FILE, "graph[1].id must be unlike the id of every other op"),
    ("op id negative", put("graph.0.id", -1), FILE, "graph[0].id must be between 0 and"),
    ("op id 2**64", put("graph.0.id", 2**64), FILE, "graph[0].id must be between 0 and"),
    ("op id true", put("graph.0.id", True), FILE, "graph[0].id must be an integer, got true"),
    ("op id string", put("graph.0.id", "7"), FILE, "graph[0].id must be an integer, got '7'"),
    ("op id of 5000 digits", literally("graph.0.id", "9" * 5000), FILE, "got an integer of 5000 digits"),
    ("op key twice", repeated("graph.0", "name", "x"), FILE, "graph[0] must have each key once"),
    ("name 3", put("graph.0.name", 3), FILE, "graph[0].name must be a string, got 3"),
    ("name with NUL", put("graph.0.name", "a\0b"), FILE, "graph[0].name must be text without control"),
    ("name with escape", put("graph.0.name", "\x1b[2J"), FILE, "graph[0].name must be text without control"),
    ("name half", literally("graph.0.name", '"\\ud800"'), FILE, "graph[0].name must be text without"),
    ("name long", put("graph.0.name", "x" * 10**6), FILE, f"graph[0].name must have at most {MAX_STRING}"),
    ("kind null", put("graph.0.kind", None), FILE, "graph[0].kind must be a string, got null"),
    ("kind unknown", put("graph.0.kind", "Convolutoin"), og.UnknownOpError, "graph[0].kind: unknown op kind"),
    ("kind empty", put("graph.0.kind", ""), og.UnknownOpError, "graph[0].kind: unknown op kind ''"),
    ("kind __class__", put("graph.0.kind", "__class__"), og.UnknownOpError, "graph[0].kind: unknown"),
    ("attrs null", put(A0, None), FILE, "graph[0].attrs must be an object, got null"),
    ("attrs list", put(A0, []), FILE, "graph[0].attrs must be an object, got []"),
    ("attribute bare", put(f"{A0}.groups", 1), FILE, "graph[0].attrs.groups must be an object, got 1"),
    ("attribute twice", repeated(A0, "groups", {}), FILE, "graph[0].attrs must have each key once"),
    ("attribute {}", put(f"{A0}.groups", {}), FILE, "graph[0].attrs.groups must have the key 'type'"),
    ("no value", without(f"{A0}.groups.value"), FILE, "graph[0].attrs.groups must have the key 'value'"),
    ("type int", put(f"{A0}.groups.type", "int"), FILE, "graph[0].attrs.groups.type must be one of s64"),
    ("type 3", put(f"{A0}.groups.type", 3), FILE, "graph[0].attrs.groups.type must be a string"),
    ("s64 '1'", put(f"{A0}.groups.value", "1"), FILE, "graph[0].attrs.groups.value must be an integer"),
    ("s64 1.5", put(f"{A0}.groups.value", 1.5), FILE, "graph[0].attrs.groups.value must be an integer"),
    ("s64 true", put(f"{A0}.groups.value", True), FILE, "graph[0].attrs.groups.value must be an integer"),
    ("s64 2**63", put(f"{A0}.groups.value", 2**63), FILE, "groups.value must be between"),
    ("s64 NaN", literally(f"{A0}.groups.value", "NaN"), FILE, "groups.value must be an integer, got nan"),
    ("s64 Infinity", literally(f"{A0}.groups.value", "Infinity"), FILE, "groups.value must be an integer"),
    ("s64 1e999", literally(f"{A0}.groups.value", "1e999"), FILE, "groups.value must be an integer"),
    ("s64 list", put(f"{A0}.groups.value", [1]), FILE, "groups.value must be an integer, got [1]"),
    ("s64[] 1", put(f"{A0}.strides.value", 1), FILE, "graph[0].attrs.strides.value must be a list"),
    ("s64[] {}", put(f"{A0}.strides.value", {}), FILE, "strides.value must be a list, got an object"),
    ("s64[] null", put(f"{A0}.strides.value.1", None), FILE, "graph[0].attrs.strides.value[1] must be an"),
    ("s64[] 0.5", put(f"{A0}.strides.value.0", 0.5), FILE, "graph[0].attrs.strides.value[0] must be an"),
    ("s64[] big", put(f"{A0}.strides.value.0", -(2**63) - 1), FILE, "strides.value[0] must be between"),
    ("f32 '1'", put(f"{A0}.groups", {"type": "f32", "value": "1"}), FILE, "groups.value must be a number"),
    ("f32 NaN", literally(f"{A0}.groups", '{"type": "f32", "value": NaN}'), FILE, "must be a number, got nan"),
    ("f32 true", put(f"{A0}.groups", {"type": "f32", "value": True}), FILE, "must be a number, got true"),
    ("f32[] null", put(f"{A0}.groups", {"type": "f32[]", "value": [1, None]}), FILE, "groups.value[1] must be"),
    ("bool 2", put(f"{A0}.groups", {"type": "bool", "value": 2}), FILE, "groups.value must be 0 or 1, got 2"),
    ("bool 'true'", put(f"{A0}.groups", {"type": "bool", "value": "true"}), FILE, "must be 0 or 1"),
    ("bool 1.0", put(f"{A0}.groups", {"type": "bool", "value": 1.0}), FILE, "must be 0 or 1, got 1.0"),
    ("string 3", put(f"{A0}.auto_pad.value", 3), FILE, "graph[0].attrs.auto_pad.value must be a string"),
    ("string tab", put(f"{A0}.auto_pad.value", "\t"), FILE, "auto_pad.value must be text without control"),
    ("attribute \\n", put(f"{A0}.a\nb", {}), FILE, "graph[0].attrs['a\\nb'] must be text without control"),
    ("attribute self", put(f"{A0}.self", {"type": "s64", "value": 1}), og.AttributeValueError,
     "graph[0].attrs.self: ConvolutionBackwardWeights has no attribute 'self'"),
    ("attribute id", put(f"{A0}.id", {"type": "s64", "value": 1}), og.AttributeValueError,
     "graph[0].attrs.id: ConvolutionBackwardWeights has no attribute 'id'"),
    ("attribute unknown", put(f"{A0}.group", {"type": "s64", "value": 1}), og.AttributeValueError,
     "<text>: graph[0]: ConvolutionBackwardWeights 'op7': unknown attribute 'group' (did you mean 'groups'?)"),
    ("attribute missing", without(f"{A0}.strides"), og.AttributeValueError, "graph[0]: Convol"),
    ("attribute of another type", put(f"{A0}.groups", {"type": "f32", "value": 1}), og.AttributeTypeError,
     "graph[0]: ConvolutionBackwardWeights 'op7': attribute 'groups' must be"),
    ("groups 0", put(f"{A0}.groups.value", 0), og.AttributeValueError, "graph[0]: "),
    ("inputs null", put("graph.0.inputs", None), FILE, "graph[0].inputs must be a list, got null"),
    ("inputs object", put("graph.0.inputs", {"0": {}}), FILE, "graph[0].inputs must be a list"),
    ("no input", put("graph.0.inputs", []), og.PortError, "<text>: graph[0]: "),
    ("an input too many", put("graph.0.inputs", [tensor(20 + i, (1,)) for i in range(9)]), og.PortError,
     "graph[0]: ConvolutionBackwardWeights 'op7': too many inputs"),
    ("tensor null", put(T0, None), FILE, "graph[0].inputs[0] must be an object, got null"),
    ("tensor {}", put(T0, {}), FILE, "graph[0].inputs[0] must have the key 'id'"),
    ("tensor id null", put(f"{T0}.id", None), FILE, "graph[0].inputs[0].id must be an integer, got null"),
    ("tensor id -1", put(f"{T0}.id", -1), FILE, "graph[0].inputs[0].id must be between"),
    ("tensor key twice", repeated(T0, "id", 0), FILE, "graph[0].inputs[0] must have each key once"),
    ("tensor key shpe", put(f"{T0}.shpe", []), FILE, "(did you mean 'shape'?), got 'shpe'"),
    ("no dtype", without(f"{T0}.dtype"), FILE, "graph[0].inputs[0] must have the key 'dtype'"),
    ("dtype fp32", put(f"{T0}.dtype", "fp32"), FILE, "graph[0].inputs[0].dtype must be one of"),
    ("dtype []", put(f"{T0}.dtype", []), FILE, "graph[0].inputs[0].dtype must be a string"),
    ("dtype undef", both((f"{T0}.dtype", "undef"), ("graph.1.inputs.0.dtype", "undef")), og.ArgumentError,
     "graph[0].inputs[0]: tensor 0: data_type must be a concrete type"),
    ("dtype s32", both((f"{T0}.dtype", "s32"), ("graph.1.inputs.0.dtype", "s32")), og.DataTypeError,
     "graph[0]: ConvolutionBackwardWeights 'op7'"),
    ("shape null", put(f"{T0}.shape", None), FILE, "graph[0].inputs[0].shape must be a list, got null"),
    ("shape 3", put(f"{T0}.shape", 3), FILE, "graph[0].inputs[0].shape must be a list, got 3"),
    ("shape ['1']", put(f"{T0}.shape", ["1"]), FILE, "graph[0].inputs[0].shape[0] must be an integer"),
    ("shape [[1]]", put(f"{T0}.shape.1", [1]), FILE, "graph[0].inputs[0].shape[1] must be an integer"),
    ("size -2", put(f"{T0}.shape.1", -2), FILE, "graph[0].inputs[0].shape[1] must be a size of 0 or more"),
    ("size 2**63", put(f"{T0}.shape.1", 2**63), FILE, "graph[0].inputs[0].shape[1] must be between"),
    ("size of 30 digits", put(f"{T0}.shape.1", 10**30), FILE, "graph[0].inputs[0].shape[1] must be between"),
    ("100 axes", put(f"{T0}.shape", [1] * 100), FILE, "graph[0].inputs[0].shape must have at most 64"),
    ("2**72 elements", both((f"{T0}.shape", [2**36, 2**36, 1, 1]), ("graph.1.inputs.0.shape", [2**36, 2**36, 1, 1])),
     og.ShapeError, "graph[0].inputs[0]: tensor 0: shape must have fewer than 2**60 elements"),
    ("stride null", put(f"{T0}.stride", None), FILE, "graph[0].inputs[0].stride must be a list, got null"),
    ("stride too long", put(f"{T0}.stride", [1] * 5), FILE, "graph[0].inputs[0].stride must have one value for"),
    ("stride too short", put(f"{T0}.stride", [1]), FILE, "graph[0].inputs[0].stride must have one value for"),
    ("stride []", put(f"{T0}.stride", []), FILE, "graph[0].inputs[0].stride must have one value for"),
    ("stride -3", put(f"{T0}.stride.0", -3), FILE, "graph[0].inputs[0].stride[0] must be a stride of 0 or"),
    ("stride 1.0", put(f"{T0}.stride.3", 1.0), FILE, "graph[0].inputs[0].stride[3] must be an integer"),
    ("stride 2**62", both((f"{T0}.stride.0", 2**62), ("graph.1.inputs.0.stride.0", 2**62)), og.LayoutError,
     "graph[0].inputs[0]: tensor 0: strides reach beyond"),
    ("layout dense", put(f"{T0}.layout_type", "dense"), FILE, "graph[0].inputs[0].layout_type must be one of"),
    ("layout 1", put(f"{T0}.layout_type", 1), FILE, "graph[0].inputs[0].layout_type must be a string"),
    ("property const", put(f"{T0}.property_type", "const"), FILE, "(did you mean 'constant'?), got 'const'"),
    ("property null", put(f"{T0}.property_type", None), FILE, "graph[0].inputs[0].property_type must be a"),
    ("two producers", put("graph.1.outputs.0.id", 2), og.GraphError, "<text>: graph[1]: tensor 2"),
    ("cycle of one", put("graph.1.outputs.0", tensor(0, SRC)), og.GraphError, "graph[1]: tensor 0"),
    ("other dtype", put("graph.1.inputs.0.dtype", "bf16"), FILE,
     "graph[1].inputs[0].dtype says bf16 of tensor 0, but graph[0].inputs[0] says f32"),
    ("other shape", put("graph.1.inputs.0.shape.2", 8), FILE,
     "graph[1].inputs[0].shape says [2, 6, 8, 3] of tensor 0, but graph[0].inputs[0] says [2, 6, 7, 3]"),
    ("other rank", both(("graph.1.inputs.0", tensor(0, (252,)))), FILE, "graph[1].inputs[0].shape says [252]"),
    ("other rank, same sizes", both(("graph.1.inputs.0", tensor(0, SRC[:3]))), FILE,
     "graph[1].inputs[0].shape says [2, 6, 7] of tensor 0"),
    ("other strides", put("graph.1.inputs.0.stride", [126, 1, 6, 42]), FILE,
     "graph[1].inputs[0].stride says [126, 1, 6, 42] of tensor 0"),
    ("other layout", both((f"{T0}.layout_type", "any")), FILE, "graph[1].inputs[0].layout_type says strided"),
    ("other property", both((f"{T0}.property_type", "constant"), ("graph.1.inputs.0.property_type", "variable")),
     FILE, "graph[1].inputs[0].property_type says variable of tensor 0, but graph[0].inputs[0] says constant"),
    ("too many ops", '{"version": "", "engine_kind": "cpu", "fpmath_mode": "any", "graph": ['
     + "0," * MAX_OPS + "0]}", FILE, f"graph must have at most {MAX_OPS} elements"),
    ("too many ports", put("graph.0.inputs", [0] * (MAX_PORTS + 1)), FILE, "graph[0].inputs must have at most"),
    ("too many attributes", put(A0, {f"a{i}": 0 for i in range(MAX_ATTRIBUTES + 1)}), FILE,
     f"graph[0].attrs must have at most {MAX_ATTRIBUTES} attributes"),
    ("deep lists", "[" * 10**5, FILE, "nested too deeply"),
    ("deep objects", '{"a":' * 10**5, FILE, "nested too deeply"),
    ("deep and closed", "[" * 900 + "]" * 900, FILE, "<text>: "),
]  # fmt: skip


@pytest.mark.parametrize(("what", "of", "error", "says"), HOSTILE, ids=[row[0] for row in HOSTILE])
def test_a_hostile_file_is_refused(what, of, error, says):
    began = time.perf_counter()
    with pytest.raises(error) as caught:
        read_graph(text=text(of))
    assert type(caught.value) is error
    message = str(caught.value)
    assert message.startswith("<text>: ")
    assert says in message
    assert "\n" not in message
    assert len(message) < 1000
    assert time.perf_counter() - began < 5


def test_the_table_is_as_large_as_promised():
    assert len(HOSTILE) >= 100
    assert len({row[0] for row in HOSTILE}) == len(HOSTILE)


def test_a_file_is_named_in_messages(tmp_path):
    path = tmp_path / "bad.json"
    path.write_text(text(put("graph.0.inputs.1.shape.1", "x")), encoding="utf-8")
    with pytest.raises(GraphFileError) as caught:
        read_graph(path)
    assert str(caught.value) == f"{path}: graph[0].inputs[1].shape[1] must be an integer, got 'x'"
    path.write_text(text(put("graph.0.kind", "x")), encoding="utf-8")
    with pytest.raises(og.UnknownOpError) as caught:
        read_graph(path)
    assert str(caught.value).startswith(f"{path}: graph[0].kind: unknown op kind 'x'")
    assert isinstance(caught.value.__cause__, og.UnknownOpError)


def test_unreadable_files(tmp_path):
    missing = tmp_path / "missing.json"
    with pytest.raises(GraphFileError, match=r"missing\.json: can't be read: No such file"):
        load(missing)
    with pytest.raises(GraphFileError, match="can't be read"):
        load(tmp_path)
    with pytest.raises(GraphFileError, match="can't be read"):
        load("a\0b\n")
    latin = tmp_path / "latin.json"
    latin.write_bytes(b'{"version": "\xe4"}')
    with pytest.raises(GraphFileError, match=r"latin\.json: must be UTF-8, got byte 0xe4 at 13"):
        load(latin)
    for value in (None, 3, b"x.json", []):
        with pytest.raises(og.ArgumentTypeError, match="path must be"):
            load(value)
    with pytest.raises(GraphFileError, match="can't be written"):
        dump(Document(), tmp_path / "no" / "folder.json")
    with pytest.raises(GraphFileError, match="can't be written"):
        save_graph(og.Graph(), tmp_path)


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path):
    path = tmp_path / "mark.json"
    path.write_text("\ufeff" + text(valid()), encoding="utf-8")
    assert load(path) == loads(text(valid()))


def test_a_file_that_is_too_large(tmp_path):
    path = tmp_path / "large.json"
    with path.open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    with pytest.raises(GraphFileError, match=rf"large\.json: must have at most {MAX_FILE_BYTES} bytes"):
        load(path)
    with pytest.raises(GraphFileError, match=f"<text>: must have at most {MAX_FILE_BYTES} characters"):
        loads(" " * (MAX_FILE_BYTES + 1))


def test_too_many_tensors(monkeypatch):
    monkeypatch.setattr("onednn_graph.graph.io.document_reader.MAX_TENSORS", 5)
    with pytest.raises(GraphFileError, match=r"<text>: graph\[1\] must not be .* more than 5 inputs"):
        loads(text(valid()))


def test_a_large_file_is_read_in_good_time():
    """Nothing is quadratic in what the limits allow; messages about long things are short."""
    number = 2**17
    scales = {"type": "f32[]", "value": [0.5] * number}
    began = time.perf_counter()
    document = loads(text(put(f"{A0}.scales", scales)))
    assert len(document.ops[0].values["scales"]) == number
    assert loads(dumps(document)) == document
    with pytest.raises(og.AttributeValueError):
        to_graph(document)
    many = {
        **valid(),
        "graph": [
            operation(i, [tensor(0, SRC), tensor(1, DST)], [tensor(i + 2, FILTERS)]) for i in range(2000)
        ],
    }
    assert len(graph_of({**many, "output_ports": []}).ops) == 2000
    for value in (["x"] * number, {str(i): 0 for i in range(number)}, "x" * number, [[]] * number):
        with pytest.raises(GraphFileError) as caught:
            loads(text(put("graph.0.id", value)))
        assert len(str(caught.value)) < 300
    assert time.perf_counter() - began < 30


def test_reading_takes_one_source():
    with pytest.raises(og.ArgumentTypeError, match="got both"):
        read_graph("x.json", text="{}")
    with pytest.raises(og.ArgumentTypeError, match="got neither"):
        read_graph()
    for value in (b"{}", 3, []):
        with pytest.raises(og.ArgumentTypeError, match="must be a string"):
            loads(value)


def test_a_deep_caller_gets_our_error():
    """However little of the interpreter's stack is left."""
    script = """
import sys
from onednn_graph.graph.io.serialization import GraphFileError, loads
def deep(n):
    if n:
        return deep(n - 1)
    try:
        loads("[" * 500 + "]" * 500)
    except GraphFileError:
        return "refused"
print(deep(sys.getrecursionlimit() - 100))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "refused", done.stderr


# --- the oddities of real files -------------------------------------------------------------------------


def with_tensor(**changes):
    """The tensor 0 of the small file, described with these changes in both ops."""
    document = valid()
    for op in document["graph"]:
        op["inputs"][0].update(changes)
    return document


@pytest.mark.parametrize(
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
@pytest.mark.parametrize("layout", ["strided", "undef", "any"])
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


def chain():
    """An op that reads what a later line of the file produces."""
    document = valid()
    document["graph"] = [
        operation(1, [tensor(2, FILTERS), tensor(3, (3, 2, 2, 4))], [tensor(4, (2, 2, 8, 4))]),
        operation(0, [tensor(0, SRC), tensor(1, DST)], [tensor(2, FILTERS)]),
    ]
    document["graph"][0]["attrs"]["weights_shape"]["value"] = [2, 2, 8, 4]
    document["output_ports"] = [4]
    return document


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
    graph.add_op(_gradient(0, [src, dst], 2))
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


# --- what is written ------------------------------------------------------------------------------------


def _gradient(number, inputs, output, kind=KIND, name="", **changes):
    spell = og.op_schema(kind).names(kind).spell
    attributes = {
        "strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1], **changes,
    }  # fmt: skip
    produced = output if isinstance(output, og.LogicalTensor) else og.LogicalTensor(output, "f32")
    return og.Op(
        number, kind, inputs, [produced], name=name,
        **{spell(key): value for key, value in attributes.items()},
    )  # fmt: skip


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
  ]
}
"""


def test_what_is_written():
    graph = og.Graph(fpmath_mode="tf32")
    src = og.LogicalTensor(10, "bf16", SRC, name="src")
    dst = og.LogicalTensor(11, "bf16", DST, strides=(160, 1, 4, 20), property_type="variable")
    result = og.LogicalTensor(12, "bf16", layout_type="any")
    graph.add_op(_gradient(3, [src, dst], result, name="dw", weights_shape=FILTERS))
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
        graph.add_op(_gradient(0, [og.LogicalTensor(0, "f32", shape), og.LogicalTensor(1, "f32")], 2))
        written = from_graph(graph).ops[0].inputs[0]
        assert list(written.strides) == strides
        assert written.dims == shape
    given_ones = og.LogicalTensor(0, "f32", (2, -1, 3), strides=(3, 3, 1))
    graph = og.Graph()
    graph.add_op(_gradient(0, [given_ones, og.LogicalTensor(1, "f32")], 2))
    assert read_graph(text=write_graph(graph)).tensor(0) == given_ones


def test_all_that_the_graph_knows_is_written():
    """Also of a graph that is not finalized, whose ops know less than it does."""
    graph = og.Graph()
    src, dst = og.LogicalTensor(0, "f32", SRC), og.LogicalTensor(1, "f32", DST)
    graph.add_op(_gradient(0, [src, dst], 2))
    graph.add_op(_gradient(1, [og.LogicalTensor(2, "f32", FILTERS), og.LogicalTensor(0, "f32")], 3))
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
        _gradient(0, [og.LogicalTensor(0, "f32"), og.LogicalTensor(1, "f32")], 2, name="Schicht ä \u3000漢")
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
    graph.add_op(_gradient(0, [og.LogicalTensor(0, "f32"), og.LogicalTensor(1, "f32")], 2, name="a\nb"))
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
    graph.add_op(_gradient(0, [src, dst], 2))
    assert loads(write_graph(graph)).ops[0].inputs[0].layout_type == "undef"
    assert read_graph(text=write_graph(graph)).tensor(0).layout_type == "strided"


# --- documents that tools rewrite -----------------------------------------------------------------------


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
        "s64", "f32", "bool", "string", "s64[]", "f32[]", "s64[]",
    ]  # fmt: skip
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


# --- at random ------------------------------------------------------------------------------------------


def places(value, path=()):
    """All paths into parsed JSON."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([0, 1, -1, S64_MIN, S64_MAX, 2**63, 2**64, 10**30]),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["f32", "s32", "any", "opaque", "undef", "constant", "s64", "f32[]", KIND, LEGACY, "id"]),
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=8,
)


@st.composite
def mutated(draw):
    """A valid file in which values are deleted, replaced, repeated or exchanged."""
    document = draw(st.sampled_from([valid, chain]))()
    for _ in range(draw(st.integers(1, 4))):
        paths = [path for path in places(document) if path]
        if not paths:
            break
        *way, last = draw(st.sampled_from(paths))
        place = document
        for step in way:
            place = place[step]
        match draw(st.sampled_from(["delete", "replace", "repeat", "exchange"])):
            case "delete":
                del place[last]
            case "replace":
                place[last] = draw(JSON)
            case "repeat":
                if isinstance(place, list):
                    place.insert(last, copy.deepcopy(place[last]))
                else:
                    place[draw(st.sampled_from([*place, "other"]))] = copy.deepcopy(place[last])
            case "exchange":
                from_path = draw(st.sampled_from(paths))
                value = document
                for step in from_path:
                    if not isinstance(value, dict | list) or (
                        step not in value if isinstance(value, dict) else not -1 < step < len(value)
                    ):
                        break
                    value = value[step]
                place[last] = copy.deepcopy(value)
    return document


def survives(source):
    began = time.perf_counter()
    message = "<text>: "
    try:
        document = loads(source)
        assert loads(dumps(document)) == document
        graph = to_graph(document)
        again = read_graph(text=write_graph(graph))
        assert described(again) == described(graph)
    except og.OneDNNGraphError as error:
        message = str(error)
    assert message.startswith("<text>: ")
    assert "\n" not in message
    assert time.perf_counter() - began < 5


@given(mutated())
@SETTINGS
def test_mutated_files_raise_our_errors_only(document):
    survives(json.dumps(document))


@given(st.data())
@SETTINGS
def test_mutated_text_raises_our_errors_only(data):
    source = text(valid())
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(source)))
        end = data.draw(st.integers(start, min(start + 8, len(source))))
        piece = data.draw(
            st.text(max_size=4) | st.sampled_from(['"', "[", "{", "}", "]", ",", ":", "1e999", "NaN", "\\"])
        )
        source = source[:start] + piece + source[end:]
    survives(source)


@given(JSON)
@SETTINGS
def test_any_json_raises_our_errors_only(value):
    with pytest.raises(GraphFileError):
        loads(json.dumps(value))


NAMES = st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=12)


@st.composite
def descriptions(draw, number):
    shape = draw(st.none() | st.lists(st.integers(-1, 9), min_size=3, max_size=5))
    layout = draw(st.sampled_from(["strided", "strided", "any", "opaque"]))
    strides = None
    if shape is not None and layout == "strided" and draw(st.booleans()):
        strides = draw(
            st.lists(st.integers(0, 99), min_size=len(shape), max_size=len(shape))
            | st.just([math.prod(max(d, 1) for d in shape[i + 1 :]) for i in range(len(shape))])
        )
    return og.LogicalTensor(
        number, "f32", shape, layout_type=layout, strides=strides,
        property_type=draw(st.sampled_from(list(og.PropertyType))),
    )  # fmt: skip


@st.composite
def graphs(draw):
    """Weight gradients of random tensors and of each other's results; not all could be finalized."""
    graph = og.Graph(fpmath_mode=draw(st.sampled_from(list(og.FpmathMode))))
    number = draw(st.integers(1, 4))
    tensors = [draw(descriptions(i)) for i in range(3)]
    ids = draw(st.lists(st.integers(0, 2**64 - 1), min_size=number, max_size=number, unique=True))
    kinds = [
        name
        for schema in og.ops()
        if schema.kind.endswith("BackwardWeights")
        for name in (schema.kind, *(alias.kind for alias in schema.aliases))
    ]
    lists = st.lists(st.integers(1, 9), min_size=2, max_size=2)
    for i, op_id in enumerate(ids):
        output = draw(descriptions(100 + i))
        changes = {
            "strides": draw(lists), "dilations": draw(lists), "pads_begin": draw(lists),
            "groups": draw(st.integers(1, S64_MAX)), "data_format": draw(st.sampled_from(["NCX", "NXC"])),
            "auto_pad": draw(st.sampled_from(["None", "VALID", "SAME_UPPER"])),
        }  # fmt: skip
        inputs = [draw(st.sampled_from(tensors)) for _ in range(2)]
        kind = draw(st.sampled_from(kinds))
        graph.add_op(_gradient(op_id, inputs, output, kind, draw(NAMES), **changes))
        tensors.append(output)
        if draw(st.booleans()):
            graph.output(output)
    return graph


@given(graphs())
@SETTINGS
def test_graphs_survive(graph):
    written = write_graph(graph)
    again = read_graph(text=written)
    assert described(again) == described(graph)
    assert write_graph(again) == written


def test_records_compare_by_content():
    assert loads(text(valid()), source="a") == loads(text(valid()), source="b")
    assert loads(text(valid())) != loads(text(put("graph.1.name", "x")))
    assert OpRecord(id=0, kind="x", inputs=[], outputs=[]).inputs == ()
