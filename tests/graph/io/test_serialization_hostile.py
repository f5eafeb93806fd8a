"""Graph files that are broken or hostile: each is refused with one of our errors, in good time."""

import json
import re
import subprocess
import sys
import time
import tracemalloc

import onednn_graph as og
import pytest
from graph_documents import (
    A0,
    DST,
    FILTERS,
    SRC,
    T0,
    both,
    graph_of,
    interface,
    literally,
    operation,
    put,
    tensor,
    text,
    valid,
    without,
)
from onednn_graph.graph.files import read_graph, to_graph
from onednn_graph.graph.io.document import (
    MAX_ATTRIBUTES,
    MAX_FILE_BYTES,
    MAX_MARKS,
    MAX_OPS,
    MAX_PORTS,
    MAX_STRING,
)
from onednn_graph.graph.io.serialization import (
    Document,
    GraphFileError,
    dump,
    dumps,
    load,
    loads,
    save_graph,
)
from rows import each


def repeated(path, key, value):
    """The small file, as text, in which the object at `path` has a key twice."""
    return text(put(f"{path}.{key}", "MARK") if path else put(key, "MARK")).replace(
        '"MARK"', f'{json.dumps(value)}, "{key}": {json.dumps(value)}'
    )


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
    (
        "apply true",
        put("fpmath_mode_apply_to_int", True),
        FILE,
        "fpmath_mode_apply_to_int must be the string",
    ),
    ("apply list", put("fpmath_mode_apply_to_int", []), FILE, "fpmath_mode_apply_to_int must be the string"),
    ("ports object", put("input_ports", {}), FILE, "input_ports must be a list, got an object of 0 keys"),
    ("ports null", put("output_ports", None), FILE, "output_ports must be a list, got null"),
    ("port -1", put("output_ports.1", -1), FILE, "output_ports[1] must be between 0 and"),
    ("interface list", put("interface", []), FILE, "interface must be an object, got []"),
    ("interface null", put("interface", None), FILE, "interface must be an object, got null"),
    ("interface key", put("interface", {"names": []}), FILE, "interface must have the key 'inputs'"),
    ("names object", interface(names={}), FILE, "interface.names must be a list, got an object of 0 keys"),
    ("names number", interface(names=[5]), FILE, "interface.names[0] must be an object, got 5"),
    (
        "name 5",
        interface(names=[{"id": 0, "name": 5}]),
        FILE,
        "interface.names[0].name must be a string, got 5",
    ),
    (
        "name id",
        interface(names=[{"id": -1, "name": ""}]),
        FILE,
        "interface.names[0].id must be between 0 and",
    ),
    (
        "two names",
        interface(names=[{"id": 0, "name": "x"}] * 2),
        FILE,
        "interface.names[1].id must be unlike all others in this list, got 0",
    ),
    (
        "one name",
        interface(
            names=[{"id": 0, "name": "x"}, {"id": 1, "name": "x"}], inputs=[tensor(0, SRC), tensor(1, DST)]
        ),
        og.GraphError,
        "interface.inputs[1]: ",
    ),
    (
        "two inputs",
        interface(inputs=[tensor(0, SRC)] * 2),
        FILE,
        "interface.inputs[1].id must be unlike all others in this list, got 0",
    ),
    (
        "output null",
        interface(outputs=[{"id": 2, "name": None}]),
        FILE,
        "outputs[0].name must be a string, got null",
    ),
    (
        "output empty",
        interface(outputs=[{"id": 2, "name": ""}]),
        og.ArgumentTypeError,
        "interface.outputs[0]: ",
    ),
    (
        "outputs alike",
        interface(outputs=[{"id": 2, "name": "y"}, {"id": 3, "name": "y"}]),
        og.GraphError,
        "interface.outputs[1]: two outputs of the graph would be called 'y'",
    ),
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
    (
        "kind unknown",
        put("graph.0.kind", "Convolutoin"),
        og.errors.UnknownOpError,
        "graph[0].kind: unknown op kind",
    ),
    ("kind empty", put("graph.0.kind", ""), og.errors.UnknownOpError, "graph[0].kind: unknown op kind ''"),
    ("kind __class__", put("graph.0.kind", "__class__"), og.errors.UnknownOpError, "graph[0].kind: unknown"),
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
    (
        "f32 NaN",
        literally(f"{A0}.groups", '{"type": "f32", "value": NaN}'),
        FILE,
        "must be a number, got nan",
    ),
    ("f32 true", put(f"{A0}.groups", {"type": "f32", "value": True}), FILE, "must be a number, got true"),
    (
        "f32[] null",
        put(f"{A0}.groups", {"type": "f32[]", "value": [1, None]}),
        FILE,
        "groups.value[1] must be",
    ),
    ("bool 2", put(f"{A0}.groups", {"type": "bool", "value": 2}), FILE, "groups.value must be 0 or 1, got 2"),
    ("bool 'true'", put(f"{A0}.groups", {"type": "bool", "value": "true"}), FILE, "must be 0 or 1"),
    ("bool 1.0", put(f"{A0}.groups", {"type": "bool", "value": 1.0}), FILE, "must be 0 or 1, got 1.0"),
    ("string 3", put(f"{A0}.auto_pad.value", 3), FILE, "graph[0].attrs.auto_pad.value must be a string"),
    ("string tab", put(f"{A0}.auto_pad.value", "\t"), FILE, "auto_pad.value must be text without control"),
    ("attribute \\n", put(f"{A0}.a\nb", {}), FILE, "graph[0].attrs['a\\nb'] must be text without control"),
    (
        "attribute self",
        put(f"{A0}.self", {"type": "s64", "value": 1}),
        og.errors.AttributeValueError,
        "graph[0].attrs.self: ConvolutionBackwardWeights has no attribute 'self'",
    ),
    (
        "attribute id",
        put(f"{A0}.id", {"type": "s64", "value": 1}),
        og.errors.AttributeValueError,
        "graph[0].attrs.id: ConvolutionBackwardWeights has no attribute 'id'",
    ),
    (
        "attribute unknown",
        put(f"{A0}.group", {"type": "s64", "value": 1}),
        og.errors.UnknownAttributeError,
        "<text>: graph[0]: ConvolutionBackwardWeights 'op7': unknown attribute 'group' (did you mean 'groups'?)",
    ),
    ("attribute missing", without(f"{A0}.strides"), og.errors.AttributeValueError, "graph[0]: Convol"),
    (
        "attribute of another type",
        put(f"{A0}.groups", {"type": "f32", "value": 1}),
        og.errors.AttributeTypeError,
        "graph[0]: ConvolutionBackwardWeights 'op7': attribute 'groups' must be",
    ),
    ("groups 0", put(f"{A0}.groups.value", 0), og.errors.AttributeValueError, "graph[0]: "),
    ("inputs null", put("graph.0.inputs", None), FILE, "graph[0].inputs must be a list, got null"),
    ("inputs object", put("graph.0.inputs", {"0": {}}), FILE, "graph[0].inputs must be a list"),
    ("no input", put("graph.0.inputs", []), og.errors.PortError, "<text>: graph[0]: "),
    (
        "an input too many",
        put("graph.0.inputs", [tensor(20 + i, (1,)) for i in range(9)]),
        og.errors.PortError,
        "graph[0]: ConvolutionBackwardWeights 'op7': too many inputs",
    ),
    ("tensor null", put(T0, None), FILE, "graph[0].inputs[0] must be an object, got null"),
    ("tensor {}", put(T0, {}), FILE, "graph[0].inputs[0] must have the key 'id'"),
    ("tensor id null", put(f"{T0}.id", None), FILE, "graph[0].inputs[0].id must be an integer, got null"),
    ("tensor id -1", put(f"{T0}.id", -1), FILE, "graph[0].inputs[0].id must be between"),
    ("tensor key twice", repeated(T0, "id", 0), FILE, "graph[0].inputs[0] must have each key once"),
    ("tensor key shpe", put(f"{T0}.shpe", []), FILE, "(did you mean 'shape'?), got 'shpe'"),
    ("no dtype", without(f"{T0}.dtype"), FILE, "graph[0].inputs[0] must have the key 'dtype'"),
    ("dtype fp32", put(f"{T0}.dtype", "fp32"), FILE, "graph[0].inputs[0].dtype must be one of"),
    ("dtype []", put(f"{T0}.dtype", []), FILE, "graph[0].inputs[0].dtype must be a string"),
    (
        "dtype undef",
        both((f"{T0}.dtype", "undef"), ("graph.1.inputs.0.dtype", "undef")),
        og.ArgumentError,
        "graph[0].inputs[0]: tensor 0: data_type must be a concrete type",
    ),
    (
        "dtype s32",
        both((f"{T0}.dtype", "s32"), ("graph.1.inputs.0.dtype", "s32")),
        og.DataTypeError,
        "graph[0]: ConvolutionBackwardWeights 'op7'",
    ),
    ("shape null", put(f"{T0}.shape", None), FILE, "graph[0].inputs[0].shape must be a list, got null"),
    ("shape 3", put(f"{T0}.shape", 3), FILE, "graph[0].inputs[0].shape must be a list, got 3"),
    ("shape ['1']", put(f"{T0}.shape", ["1"]), FILE, "graph[0].inputs[0].shape[0] must be an integer"),
    ("shape [[1]]", put(f"{T0}.shape.1", [1]), FILE, "graph[0].inputs[0].shape[1] must be an integer"),
    ("size -2", put(f"{T0}.shape.1", -2), FILE, "graph[0].inputs[0].shape[1] must be a size of 0 or more"),
    ("size 2**63", put(f"{T0}.shape.1", 2**63), FILE, "graph[0].inputs[0].shape[1] must be between"),
    ("size of 30 digits", put(f"{T0}.shape.1", 10**30), FILE, "graph[0].inputs[0].shape[1] must be between"),
    ("100 axes", put(f"{T0}.shape", [1] * 100), FILE, "graph[0].inputs[0].shape must have at most 64"),
    (
        "2**72 elements",
        both((f"{T0}.shape", [2**36, 2**36, 1, 1]), ("graph.1.inputs.0.shape", [2**36, 2**36, 1, 1])),
        og.ShapeError,
        "graph[0].inputs[0]: tensor 0: shape must have fewer than 2**60 elements",
    ),
    ("stride null", put(f"{T0}.stride", None), FILE, "graph[0].inputs[0].stride must be a list, got null"),
    (
        "stride too long",
        put(f"{T0}.stride", [1] * 5),
        FILE,
        "graph[0].inputs[0].stride must have one value for",
    ),
    ("stride too short", put(f"{T0}.stride", [1]), FILE, "graph[0].inputs[0].stride must have one value for"),
    ("stride []", put(f"{T0}.stride", []), FILE, "graph[0].inputs[0].stride must have one value for"),
    ("stride -3", put(f"{T0}.stride.0", -3), FILE, "graph[0].inputs[0].stride[0] must be a stride of 0 or"),
    ("stride 1.0", put(f"{T0}.stride.3", 1.0), FILE, "graph[0].inputs[0].stride[3] must be an integer"),
    (
        "stride 2**62",
        both((f"{T0}.stride.0", 2**62), ("graph.1.inputs.0.stride.0", 2**62)),
        og.errors.LayoutError,
        "graph[0].inputs[0]: tensor 0: strides reach beyond",
    ),
    (
        "layout dense",
        put(f"{T0}.layout_type", "dense"),
        FILE,
        "graph[0].inputs[0].layout_type must be one of",
    ),
    ("layout 1", put(f"{T0}.layout_type", 1), FILE, "graph[0].inputs[0].layout_type must be a string"),
    ("property const", put(f"{T0}.property_type", "const"), FILE, "(did you mean 'constant'?), got 'const'"),
    ("property null", put(f"{T0}.property_type", None), FILE, "graph[0].inputs[0].property_type must be a"),
    ("two producers", put("graph.1.outputs.0.id", 2), og.GraphError, "<text>: graph[1]: tensor 2"),
    ("cycle of one", put("graph.1.outputs.0", tensor(0, SRC)), og.GraphError, "graph[1]: tensor 0"),
    (
        "other dtype",
        put("graph.1.inputs.0.dtype", "bf16"),
        FILE,
        "graph[1].inputs[0].dtype says bf16 of tensor 0, but graph[0].inputs[0] says f32",
    ),
    (
        "other shape",
        put("graph.1.inputs.0.shape.2", 8),
        FILE,
        "graph[1].inputs[0].shape says [2, 6, 8, 3] of tensor 0, but graph[0].inputs[0] says [2, 6, 7, 3]",
    ),
    (
        "other rank",
        both(("graph.1.inputs.0", tensor(0, (252,)))),
        FILE,
        "graph[1].inputs[0].shape says [252]",
    ),
    (
        "other rank, same sizes",
        both(("graph.1.inputs.0", tensor(0, SRC[:3]))),
        FILE,
        "graph[1].inputs[0].shape says [2, 6, 7] of tensor 0",
    ),
    (
        "other strides",
        put("graph.1.inputs.0.stride", [126, 1, 6, 42]),
        FILE,
        "graph[1].inputs[0].stride says [126, 1, 6, 42] of tensor 0",
    ),
    ("other layout", both((f"{T0}.layout_type", "any")), FILE, "graph[1].inputs[0].layout_type says strided"),
    (
        "other property",
        both((f"{T0}.property_type", "constant"), ("graph.1.inputs.0.property_type", "variable")),
        FILE,
        "graph[1].inputs[0].property_type says variable of tensor 0, but graph[0].inputs[0] says constant",
    ),
    (
        "too many ops",
        '{"version": "", "engine_kind": "cpu", "fpmath_mode": "any", "graph": [' + "0," * MAX_OPS + "0]}",
        FILE,
        f"graph must have at most {MAX_OPS} elements",
    ),
    (
        "too many ports",
        put("graph.0.inputs", [0] * (MAX_PORTS + 1)),
        FILE,
        "graph[0].inputs must have at most",
    ),
    (
        "too many attributes",
        put(A0, {f"a{i}": 0 for i in range(MAX_ATTRIBUTES + 1)}),
        FILE,
        f"graph[0].attrs must have at most {MAX_ATTRIBUTES} attributes",
    ),
    ("deep lists", "[" * 10**5, FILE, "nested too deeply"),
    ("deep objects", '{"a":' * 10**5, FILE, "nested too deeply"),
    ("deep and closed", "[" * 900 + "]" * 900, FILE, "<text>: "),
]


@each(("what", "of", "error", "says"), HOSTILE, ids=[row[0] for row in HOSTILE])
def test_a_hostile_file_is_refused(what, of, error, says):
    began = time.process_time()
    with pytest.raises(error) as caught:
        read_graph(text=text(of))
    assert type(caught.value) is error
    message = str(caught.value)
    assert message.startswith("<text>: ")
    assert says in message
    assert "\n" not in message
    assert len(message) < 1000
    assert time.process_time() - began < 5


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
    with pytest.raises(og.errors.UnknownOpError) as caught:
        read_graph(path)
    assert str(caught.value).startswith(f"{path}: graph[0].kind: unknown op kind 'x'")
    assert isinstance(caught.value.__cause__, og.errors.UnknownOpError)


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
    with pytest.raises(GraphFileError, match=f"<text>: must have at most {MAX_FILE_BYTES} bytes"):
        loads(" " * (MAX_FILE_BYTES + 1))


def test_too_many_tensors(monkeypatch):
    monkeypatch.setattr("onednn_graph.graph.io.document_reader.MAX_TENSORS", 5)
    with pytest.raises(GraphFileError, match=r"<text>: graph\[1\] must not be .* more than 5 inputs"):
        loads(text(valid()))


@pytest.mark.no_cover
def test_a_large_file_is_read_in_good_time():
    """Nothing is quadratic in what the limits allow; messages about long things are short."""
    number = 2**17
    scales = {"type": "f32[]", "value": [0.5] * number}
    began = time.process_time()
    document = loads(text(put(f"{A0}.scales", scales)))
    assert len(document.ops[0].values["scales"]) == number
    assert loads(dumps(document)) == document
    with pytest.raises(og.errors.AttributeValueError):
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
    assert time.process_time() - began < 30


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


NESTED = {
    "numbers": "0,",
    "floats": "1.5,",
    "lists": "[],",
    "objects": "{},",
    "full objects": '{"a":0},',
    "tensors": json.dumps(tensor(0, SRC)) + ",",
    "ops": json.dumps(operation(0, [], [])) + ",",
    "strings": '"' + "x" * 2**12 + '",',
    "depth": "[",
}


@pytest.mark.parametrize("item", NESTED)
def test_memory_for_reading_is_bounded_before_anything_is_read(item, monkeypatch):
    """Limits are taken a hundredth of what they are, and memory with them."""
    most_bytes, most_marks = MAX_FILE_BYTES // 100, MAX_MARKS // 100
    monkeypatch.setattr("onednn_graph.graph.io.document_reader.MAX_FILE_BYTES", most_bytes)
    monkeypatch.setattr("onednn_graph.graph.io.document_reader.MAX_MARKS", most_marks)
    head = '{"version": "", "engine_kind": "cpu", "fpmath_mode": "any", "graph": ['
    entry = NESTED[item]
    room = min((most_bytes - 200) // len(entry), (most_marks - 9) // sum(map(entry.count, ",[{")))
    peaks: list[int] = []
    for number in (room, 100 * room):
        hostile = head + entry * number + "0]}"
        tracemalloc.start()
        with pytest.raises(GraphFileError) as raised:
            loads(hostile)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        del hostile
    assert re.search(r"must have at most \d+ (bytes|commas and brackets), got \d+; split", str(raised.value))
    assert peaks[0] < 2**30 // 100
    assert peaks[1] < 2**20


def test_what_could_not_be_read_is_not_written(monkeypatch):
    document = loads(text(valid()))
    for limit, what in (("MAX_FILE_BYTES", "bytes"), ("MAX_MARKS", "commas and brackets")):
        with monkeypatch.context() as patched:
            patched.setattr(f"onednn_graph.graph.io.document_reader.{limit}", 50)
            with pytest.raises(GraphFileError, match=f"must have at most 50 {what}, got .*split the graph"):
                dumps(document)
