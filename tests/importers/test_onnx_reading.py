"""`from_onnx`: where it reads a model's weights, and files that are none or break ONNX's rules."""

import contextlib
import itertools
import os

import numpy as np
import onednn_graph as og
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onednn_graph.graph.onnx.functions import MOST_NESTED
from onnx_oracle import helper, integers, model_of, numpy_helper, onnx

X, W = integers(2, 3), integers(3, seed=1)


def external(location, **more):
    """A model whose weights lie in a file."""
    model = model_of([helper.make_node("Add", ["x", "w"], ["y"])], {"x": X}, ["y"], {"w": W})
    _move(model.graph.initializer[0], location, **more)
    return model


def constant_node(location):
    tensor = numpy_helper.from_array(W, "w")
    _move(tensor, location)
    nodes = [helper.make_node("Constant", [], ["w"]), helper.make_node("Add", ["x", "w"], ["y"])]
    nodes[0].attribute.add(name="value", type=onnx.AttributeProto.TENSOR).t.CopyFrom(tensor)
    return model_of(nodes, {"x": X}, ["y"])


def _move(tensor, location, **more):
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in {"location": location, "offset": 0, "length": W.nbytes, **more}.items():
        tensor.external_data.add(key=key, value=str(value))


def written(folder, model):
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize("make", [external, constant_node])
def test_weights_in_a_file_beside_the_model(make, tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "w.bin").write_bytes(W.tobytes())
    y = og.from_onnx(written(tmp_path, make("sub/w.bin"))).compile()(X)["y"]
    np.testing.assert_array_equal(y, X + W)


@pytest.mark.parametrize("make", [external, constant_node])
@pytest.mark.parametrize("as_bytes", [True, False])
def test_no_file_is_read_where_no_folder_is_named(make, as_bytes, tmp_path, monkeypatch):
    (tmp_path / "w.bin").write_bytes(W.tobytes())
    monkeypatch.chdir(tmp_path)
    model = make("w.bin")
    with pytest.raises(og.ArgumentError, match=r"tensor 'w' lies in the file 'w\.bin', and without a path"):
        og.from_onnx(model.SerializeToString() if as_bytes else model)


@pytest.mark.parametrize(
    "location",
    [
        "../w.bin",
        "sub/../../w.bin",
        "{outside}/w.bin",
        "",
        "C:\\w.bin",
        "..\\w.bin",
        "a\0b",
        ".",
        "link.bin",
        "linked/w.bin",
    ],
)
@pytest.mark.parametrize("make", [external, constant_node])
def test_files_outside_of_the_models_folder(make, location, tmp_path):
    inside = tmp_path / "inside"
    (inside / "sub").mkdir(parents=True)
    (tmp_path / "w.bin").write_bytes(W.tobytes())
    (inside / "link.bin").symlink_to(tmp_path / "w.bin")
    (inside / "linked").symlink_to(tmp_path)
    path = written(inside, make(location.replace("{outside}", str(tmp_path))))
    with pytest.raises(og.ArgumentError, match="tensor 'w' names the file"):
        og.from_onnx(path)


@pytest.mark.parametrize(
    "more",
    [{"offset": -1}, {"offset": 100}, {"length": 4}, {"length": 10**15}, {"offset": "x"}, {"length": -4}],
    ids=str,
)
def test_parts_of_a_file_that_are_not_there(more, tmp_path):
    (tmp_path / "w.bin").write_bytes(W.tobytes())
    with pytest.raises(og.ArgumentError, match="can't read"):
        og.from_onnx(written(tmp_path, external("w.bin", **more)))


def test_a_file_that_is_not_there_and_one_that_is_no_file(tmp_path):
    with pytest.raises(og.OneDNNGraphError, match="which can't be read: No such file"):
        og.from_onnx(written(tmp_path, external("w.bin")))
    os.mkfifo(tmp_path / "w.bin")
    with pytest.raises(og.ArgumentError, match="which is no ordinary file"):
        og.from_onnx(written(tmp_path, external("w.bin")))


# --- functions -------------------------------------------------------------------------------------------


def nested(depth, calls):
    """Functions that each call the next one some times."""
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    functions = []
    for level in range(depth):
        inner = ("f", f"F{level + 1}") if level + 1 < depth else ("", "Exp")
        names = ["a", *[f"t{i}" for i in range(calls - 1)], "b"]
        nodes = [helper.make_node(inner[1], [a], [b], domain=inner[0]) for a, b in itertools.pairwise(names)]
        functions.append(helper.make_function("f", f"F{level}", ["a"], ["b"], nodes, opsets))
    model = model_of([helper.make_node("F0", ["x"], ["y"], domain="f")], {"x": X}, ["y"], opset=17)
    model.functions.extend(functions)
    model.opset_import.append(opsets[1])
    return model


def test_functions_that_double_thirty_times():
    with pytest.raises(og.UnsupportedError, match="at most 1,000,000 nodes, got 1,073,741,824"):
        og.from_onnx(nested(30, 2))


def test_functions_that_call_each_other():
    assert len(og.from_onnx(nested(3, 2)).ops) == 8
    assert len(og.from_onnx(nested(MOST_NESTED, 1)).ops) == 1
    for depth in (MOST_NESTED + 2, 3000):
        with pytest.raises(og.UnsupportedError, match="call each other in a row"):
            og.from_onnx(nested(depth, 1))
    model = nested(3, 1)
    model.functions[2].node[0].domain, model.functions[2].node[0].op_type = "f", "F0"
    with pytest.raises(og.ArgumentError, match="its function 'F0' calls itself"):
        og.from_onnx(model)


# --- rules -----------------------------------------------------------------------------------------------


def _cycle(model):
    model.graph.node[0].input[1] = "y"


def _missing(model):
    model.graph.node[0].input[1] = "nobody"


def _twice(model):
    model.graph.node.append(model.graph.node[0])


def _same_inputs(model):
    model.graph.input.append(model.graph.input[0])


def _no_output(model):
    model.graph.output[0].name = "z"


def _same_initializers(model):
    model.graph.initializer.append(model.graph.initializer[0])


def _same_outputs(model):
    model.graph.output.append(model.graph.output[0])


def _few_bytes(model):
    model.graph.initializer[0].raw_data = b"\0" * 5


def _more_bytes(model):
    model.graph.initializer[0].raw_data = b"\0" * 16


def _negative_size(model):
    model.graph.initializer[0].dims[0] = -3


BROKEN = [
    _cycle,
    _missing,
    _twice,
    _same_inputs,
    _no_output,
    _same_initializers,
    _same_outputs,
    _few_bytes,
    _more_bytes,
    _negative_size,
]


@pytest.mark.parametrize("break_it", BROKEN, ids=lambda f: f.__name__.strip("_"))
def test_models_that_break_the_rules(break_it):
    model = model_of([helper.make_node("Add", ["x", "w"], ["y"])], {"x": X}, ["y"], {"w": W})
    break_it(model)
    with pytest.raises(og.ArgumentError, match="from_onnx"):
        og.from_onnx(model.SerializeToString())


@pytest.mark.parametrize("content", [b"", b"\0", b"hello", b"\xff" * 100, b"\x08\x07" * 1000, b"PK\x03\x04"])
def test_bytes_that_are_no_model(content, tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    for given_as in (content, path):
        with pytest.raises(og.ArgumentError, match="is no ONNX model"):
            og.from_onnx(given_as)


SOUND = model_of(
    [
        helper.make_node("Conv", ["x", "w", "b"], ["h"], pads=[1, 1]),
        helper.make_node("Softmax", ["h"], ["y"], axis=1),
    ],
    {"x": integers(1, 2, 5)},
    ["y"],
    {"w": integers(3, 2, 3), "b": integers(3)},
    opset=13,
).SerializeToString()


@settings(max_examples=150)
@given(
    st.lists(st.tuples(st.integers(0, len(SOUND) - 1), st.integers(0, 255)), min_size=1, max_size=4),
    st.booleans(),
)
def test_models_with_wrong_bytes_end_in_our_errors(changes, cut_off):
    content = bytearray(SOUND)
    for place, value in changes:
        content[place] = value
    with contextlib.suppress(og.OneDNNGraphError):
        og.from_onnx(bytes(content[: changes[0][0]] if cut_off else content))


# --- nodes that onnx's own C++ code ends the process for, or that end a run in an error of Python's ------


def _branch(output, *nodes):
    return helper.make_graph(list(nodes), "branch", [], [onnx.ValueInfoProto(name=output)])


def _body(inputs, outputs):
    names = [onnx.ValueInfoProto(name=name) for name in (*inputs, *outputs)]
    nodes = [helper.make_node("Identity", ["x"], [name]) for name in outputs]
    return helper.make_graph(nodes, "body", names[: len(inputs)], names[len(inputs) :])


def _held(kind, inputs, outputs=("y",), **attributes):
    return helper.make_node(kind, list(inputs), list(outputs), **attributes)


THEN = _branch("t", helper.make_node("Identity", ["x"], ["t"]))


@pytest.mark.parametrize(
    ("node", "match"),
    [
        (_held("If", ["c"], then_branch=THEN), "attribute 'else_branch' is missing"),
        (_held("If", ["c"], ["y", "z"], then_branch=THEN, else_branch=THEN), "must have 0 and 2"),
        (
            _held(
                "If", ["c"], then_branch=THEN, else_branch=_branch("e", helper.make_node("Neg", ["q"], ["e"]))
            ),
            r"node 'e' \(Neg\) reads 'q', which no input",
        ),
        (_held("If", ["c"], then_branch=THEN, else_branch=_branch("e")), "output 'e' is made by no node"),
        (_held("Loop", ["", "c", "x"], body=_body(["n", "k"], ["k2", "v"])), "must have 3 and 2"),
        (_held("Loop", ["", "c", "x"], body=_body(["n", "k", "v"], ["k2"])), "must have 3 and 2"),
        (_held("Scan", ["x"], num_scan_inputs=1, body=_body([], ["v"])), "must have 1 and 1"),
        (_held("Relu", ["x", "x"]), "has 2 inputs, and its op takes 1"),
        (_held("Concat", ["x"]), "attribute 'axis' is missing"),
        (_held("Concat", ["x"], axis=0.5), "another type than INT"),
    ],
)
def test_nodes_that_are_not_of_their_ops_form(node, match):
    inputs = {"x": integers(2, 3), "c": np.asarray(True)}
    with pytest.raises(og.ArgumentError, match=match):
        og.from_onnx(model_of([node], inputs, ["y"], opset=17).SerializeToString())


def test_inputs_and_outputs_that_are_none():
    model = model_of([helper.make_node("StringNormalizer", ["x"], ["y"])], {"x": X}, ["y"], opset=17)
    model.graph.input[0].type.tensor_type.elem_type = 99
    with pytest.raises(og.UnsupportedError, match="input 'x': element type 99 of ONNX has no counterpart"):
        og.from_onnx(model)
    del model.graph.output[:]
    with pytest.raises(og.ArgumentError, match="it has no outputs"):
        og.from_onnx(model)


def test_versions_that_are_none():
    model = model_of([helper.make_node("Relu", ["x"], ["y"])], {"x": X}, ["y"], opset=17)
    for domain, version in (("", -3), ("", 1 << 40), ("ai.onnx.ml", 1 << 31)):
        changed = onnx.ModelProto()
        changed.CopyFrom(model)
        changed.opset_import.append(helper.make_opsetid(domain, version))
        with pytest.raises(og.ArgumentError, match=f"version {version} of the op set '{domain}'"):
            og.from_onnx(changed)


def test_a_loop_that_is_told_no_number_of_rounds():
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["c2"]), helper.make_node("Abs", ["v"], ["v2"])],
        "body",
        [onnx.ValueInfoProto(name=name) for name in ("n", "c", "v")],
        [onnx.ValueInfoProto(name=name) for name in ("c2", "v2")],
    )
    node = helper.make_node("Loop", ["t", "go", "x"], ["y"], body=body)
    given = {"t": np.asarray([3, 4]), "go": np.asarray(True), "x": X}
    model = model_of([node], given, ["y"], opset=17, shapes={"t": ("n",)})
    with pytest.raises(og.OneDNNGraphError, match="Loop"):
        og.from_onnx(model).compile()(given)


def _function(name, inputs, outputs, nodes, opset=17, **more):
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("f", 1)]
    return helper.make_function("f", name, inputs, outputs, nodes, opsets, **more)


def _calling(functions, nodes, inputs, constants=None):
    model = model_of(nodes, inputs, ["y"], constants, opset=17, functions=functions)
    model.opset_import.append(helper.make_opsetid("f", 1))
    return og.from_onnx(model).compile()(inputs)["y"]


@pytest.mark.parametrize("alpha", [None, 0.25])
@pytest.mark.parametrize("nested", [True, False])
def test_functions_have_values_for_attributes_that_calls_leave_out(alpha, nested):
    leaky = helper.make_node("LeakyRelu", ["a"], ["b"])
    leaky.attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=1))
    more = {"attribute_protos": [helper.make_attribute("slope", 0.5)]}
    functions = [_function("Leaky", ["a"], ["b"], [leaky], **more)]
    given = {} if alpha is None else {"slope": alpha}
    call = helper.make_node("Leaky", ["x"], ["y"], domain="f", **given)
    if nested:
        functions.append(_function("Outer", ["x"], ["y"], [call]))
        call = helper.make_node("Outer", ["x"], ["y"], domain="f")
    x = integers(2, 3)
    y = _calling(functions, [call], {"x": x})
    np.testing.assert_array_equal(y, np.where(x < 0, x * (alpha or 0.5), x))


def test_functions_of_another_op_set_take_initializers():
    inside = helper.make_node("BatchNormalization", ["a", "s", "z", "z", "s"], ["b"], epsilon=0.0)
    functions = [_function("Norm", ["a", "s", "z"], ["b"], [inside], opset=13)]
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Norm", ["r", "four", "none"], ["y"], domain="f"),
    ]
    x = integers(2, 3, 4)
    constants = {"four": np.full(3, 4, np.float32), "none": np.zeros(3, np.float32)}
    np.testing.assert_array_equal(_calling(functions, nodes, {"x": x}, constants), np.maximum(x, 0) * 2)
