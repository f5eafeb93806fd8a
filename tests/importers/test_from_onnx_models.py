"""`from_onnx`: models as they come, what is refused, and how they run."""

import sys

import numpy as np
import onednn_graph as og
import pytest
from onnx_oracle import (
    IMAGE,
    IR,
    NEWEST,
    X,
    close,
    helper,
    ints,
    model_of,
    normal,
    numpy_helper,
    onnx,
    positive,
    scalar,
)
from rows import each

# --- models as they come ------------------------------------------------------------------------------


def small(**more):
    node = helper.make_node("Relu", ["x"], ["y"], name="relu")
    return model_of([node], {"x": X}, ["y"], **more)


def test_a_path_bytes_and_a_proto(tmp_path):
    model = small()
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    for given in (model, path, str(path), path.read_bytes()):
        np.testing.assert_array_equal(og.from_onnx(given).compile()(X)["y"], np.maximum(X, 0))


def test_weights_outside_the_file(tmp_path):
    w = normal(4, 600)
    model = model_of([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": X}, ["y"], {"w": w})
    onnx.save_model(model, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin")
    assert (tmp_path / "w.bin").exists()
    close(og.from_onnx(tmp_path / "m.onnx").compile()(X)["y"], X @ w)


def test_open_sizes_are_known_at_execution():
    w = normal(3, 5)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    model = model_of(nodes, {"x": normal(1, 3)}, ["y"], {"w": w}, shapes={"x": ["batch", 3]})
    compiled = og.from_onnx(model).compile()
    for batch in (1, 4):
        x = normal(batch, 3, seed=batch)
        close(compiled(x)["y"], np.maximum(x @ w, 0))
    assert og.from_onnx(model, shapes={"x": [4, 3]}).inputs[0].shape == (4, 3)
    with pytest.raises(og.ArgumentError, match="only sizes that are open can be chosen"):
        og.from_onnx(model, shapes={"x": [4, 2]})
    with pytest.raises(og.ArgumentError, match="shapes names 'z', which is no input"):
        og.from_onnx(model, shapes={"z": [4, 2]})


def test_all_that_can_not_be_mapped_is_named_at_once():
    nodes = [
        helper.make_node("Det", ["x"], ["a"], name="first"),
        helper.make_node("Det", ["a"], ["b"], name="second"),
        helper.make_node("Relu", ["b"], ["c"], name="fine"),
        helper.make_node("Unique", ["c"], ["d"], name="top"),
        helper.make_node("NonZero", ["x"], ["g"], name="places"),
        helper.make_node("Transpose", ["g"], ["w"], name="turned"),
        helper.make_node("Einsum", ["x"], ["q"], name="diagonal", equation="iij->ij"),
        helper.make_node("Cos", ["x"], ["dead"], name="dead"),
    ]
    with pytest.raises(og.UnsupportedError) as caught:
        og.from_onnx(model_of(nodes, {"x": X}, ["d", "w", "q"]), reference=False)
    text = str(caught.value)
    assert text.startswith("5 nodes of the ONNX model can't become ops of oneDNN Graph: ")
    assert "Einsum ×1 ('diagonal'): " in text
    assert "Det ×2 ('first', 'second'): there is no translation for it" in text
    assert "Unique ×1 ('top')" in text
    assert "NonZero ×1 ('places'): there is no translation for it" in text
    assert "Relu" not in text
    assert "Cos" not in text
    assert "cut the model there" in text


REFUSED = {
    "powers of integers": ("Pow", [ints(2, 3), ints(1, 2)], [], {}, "powers of int64"),
    "beyond": ("Gather", [X], [ints(9)], {"axis": 1}, "index 9 is beyond the 3 elements"),
    "condition": ("Where", [normal(3), normal(3), normal(3)], [], {}, "Select takes booleans"),
    "no such axis": ("Softmax", [X], [], {"axis": 5}, "axis 5 is none of the 3 axes"),
    "reshape": ("Reshape", [X], [ints(5, 5)], {}, "another number of elements"),
    "beyond in two axes": ("GatherND", [X], [np.array([[0, 3]])], {}, "indices beyond the elements"),
    "dilated average": (
        "AveragePool",
        [IMAGE],
        [],
        {"kernel_shape": [2, 2], "dilations": [2, 2]},
        "dilations",
    ),
    "counted ceil": (
        "AveragePool",
        [IMAGE],
        [],
        {
            "kernel_shape": [2, 2],
            "strides": [2, 2],
            "pads": [1, 1, 1, 1],
            "count_include_pad": 1,
            "ceil_mode": 1,
        },
        "ceil rounding",
    ),
    "cubic": ("Resize", [IMAGE], [np.float32([]), np.float32([1, 1, 2, 2])], {"mode": "cubic"}, "'cubic'"),
    "nearest by half": (
        "Resize",
        [IMAGE],
        [np.float32([]), np.float32([1, 1, 0.5, 0.5])],
        {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
        "nearest elements",
    ),
    "linear asymmetric": (
        "Resize",
        [IMAGE],
        [np.float32([]), np.float32([1, 1, 2, 2])],
        {"mode": "linear", "coordinate_transformation_mode": "asymmetric"},
        "linear interpolation",
    ),
    "channels": ("Resize", [IMAGE], [np.float32([]), np.float32([1, 2, 1, 1])], {}, "the channels"),
    "s16": ("QuantizeLinear", [X], [scalar(0.1), scalar(0, np.int16)], {}, "to int16"),
    **{
        f"{mode} {kind} {name}": (
            "Resize",
            [normal(1, 2, 5, 5)],
            [np.float32([]), np.float32([1, 1, *scales])],
            {"mode": mode, "coordinate_transformation_mode": kind},
            "scale|coordinates|nearest",
        )
        for mode in ("nearest", "linear")
        for kind in (
            "half_pixel",
            "asymmetric",
            "align_corners",
            "pytorch_half_pixel",
            "half_pixel_symmetric",
        )
        for name, scales in (
            ("the same size", (1.15, 1.15)),
            ("one axis", (3, 1.15)),
            ("a part left", (2.3, 2.3)),
        )
        if (mode, kind) != ("nearest", "half_pixel_symmetric")
    },
    "a part of a channel": (
        "Resize",
        [IMAGE],
        [np.float32([]), np.float32([1, 1.1, 1, 1])],
        {},
        "the channels",
    ),
    "a crop": (
        "Resize",
        [normal(1, 2, 5, 5)],
        [np.float32([0, 0, 0.2, 0.2, 1, 1, 0.8, 0.8]), np.float32([]), ints(1, 2, 5, 5)],
        {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize"},
        "crop",
    ),
    "few scales": (
        "Resize",
        [IMAGE],
        [np.float32([]), np.float32([1, 1])],
        {},
        r"scales \[1.0, 1.0\] for 4 axes",
    ),
    "NaN scales": (
        "Resize",
        [IMAGE],
        [np.float32([]), np.float32([1, 1, np.nan, 1])],
        {},
        "nan.* for 4 axes",
    ),
    "a scale of 0": ("Resize", [IMAGE], [np.float32([]), np.float32([1, 1, 0, 1])], {}, "above 0"),
    "few sizes": ("Resize", [IMAGE], [np.float32([]), np.float32([]), ints(2, 4)], {}, "sizes .* for 4 axes"),
    "no repetition": ("Tile", [X], [ints(1, 0, 2)], {}, "which leave no elements"),
    "few repetitions": ("Tile", [X], [ints(1, 2)], {}, "each axis takes one number"),
    "few pads": ("Pad", [X], [ints(1)], {}, "pads .1. for 3 axes"),
    "few pads of a convolution": (
        "Conv",
        [IMAGE],
        [normal(4, 4, 3, 3)],
        {"pads": [1]},
        "pads .1. for 2 spatial axes",
    ),
    "an empty bound": ("Clip", [X], [np.float32([])], {}, "its min must be one number, got 0"),
    "no broadcast": ("Expand", [X], [ints(5, 5)], {}, "which don't broadcast"),
    "uneven lists": ("Slice", [X], [ints(0, 0), ints(1)], {}, "not equally many"),
    "a step of 0": ("Slice", [X], [ints(0), ints(1), ints(1), ints(0)], {}, "a step of 0"),
    "blocks of 0": (
        "DepthToSpace",
        [IMAGE],
        [],
        {"blocksize": 0},
        "blocksize must be an integer above 0, got 0",
    ),
    "0 groups": (
        "GroupNormalization",
        [IMAGE],
        [normal(4), normal(4)],
        {"num_groups": 0},
        "num_groups must be",
    ),
    "0 parts": ("Split", [X], [], {"num_outputs": 0}, "num_outputs must be an integer above 0"),
    "another number of parts": (
        "Split",
        [X],
        [ints(1, 1)],
        {},
        "a split of 2 elements into .1, 1. for 1 outputs",
    ),
    "an order of few axes": ("Transpose", [IMAGE], [], {"perm": [0, 1]}, "each of its 4 axes once"),
    "axes that are not there": ("Unsqueeze", [X], [ints(9)], {}, "new axes .9."),
    "an axis that is not there": ("Flatten", [X], [], {"axis": 9}, "axis 9 of a tensor of 3 axes"),
    "a negative shape": ("Reshape", [X], [ints(-6, -4)], {}, "only -1 has a meaning"),
    "three axes": ("DepthToSpace", [X], [], {"blocksize": 2}, "don't fit together .ValueError"),
    "a third norm": ("LpNormalization", [X], [], {"p": 3}, "a norm of order 3"),
    **(
        {
            "no heads": (
                "Attention",
                [normal(2, 3, 16), normal(2, 5, 16), normal(2, 5, 16)],
                [],
                {},
                "q_num_heads must",
            ),
            "0 heads": (
                "Attention",
                [normal(2, 3, 16), normal(2, 5, 16), normal(2, 5, 16)],
                [],
                {"q_num_heads": 0, "kv_num_heads": 2},
                "q_num_heads must be an integer above 0, got 0",
            ),
        }
        if NEWEST >= 23
        else {}
    ),
    "training": (
        "BatchNormalization",
        [IMAGE],
        [normal(4), normal(4), normal(4), positive(4)],
        {"training_mode": 1},
        "training mode",
    ),
}


@each("name", REFUSED)
def test_refused(name):
    kind, arrays, constants, attributes, message = REFUSED[name]
    inputs = {f"x{i}": a for i, a in enumerate(arrays)}
    values = {f"c{i}": a for i, a in enumerate(constants)}
    node = helper.make_node(kind, [*inputs, *values], ["y"], name="here", **attributes)
    with pytest.raises(og.UnsupportedError, match=message) as caught:
        og.from_onnx(model_of([node], inputs, ["y"], values), reference=False)
    assert f"{kind} ×1 ('here')" in str(caught.value)


def test_what_is_no_model(tmp_path):
    with pytest.raises(og.ArgumentTypeError, match="a path, bytes or an onnx.ModelProto, got 3"):
        og.from_onnx(3)
    with pytest.raises(og.ArgumentError, match="can't read"):
        og.from_onnx(tmp_path / "missing.onnx")
    with pytest.raises(og.ArgumentError, match="no ONNX model"):
        og.from_onnx(b"\xff\xff\xff")
    without = small()
    del without.opset_import[:]
    with pytest.raises(og.ArgumentError, match="does not say of which version"):
        og.from_onnx(without)


def test_a_file_that_is_no_model(tmp_path):
    path = tmp_path / "trace.json"
    for text in ('{"version": "3.2.0", "graph": []}', "[", "{}"):
        path.write_text(text)
        with pytest.raises(
            og.ArgumentError, match="is no ONNX model.*a oneDNN Graph file is read by Graph.load"
        ):
            og.from_onnx(str(path))
    with pytest.raises(og.ArgumentError, match="what the bytes hold is no ONNX model: it is empty"):
        og.from_onnx(b"")


def test_weights_that_are_not_there(tmp_path):
    model = model_of([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": X}, ["y"], {"w": normal(4, 600)})
    short = onnx.ModelProto()
    short.CopyFrom(model)
    short.graph.initializer[0].raw_data = b"123"
    with pytest.raises(og.ArgumentError, match="can't read initializer 'w'"):
        og.from_onnx(short)
    onnx.save_model(model, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin")
    (tmp_path / "w.bin").unlink()
    with pytest.raises(og.ArgumentError, match="from_onnx can't read"):
        og.from_onnx(tmp_path / "m.onnx")


def node_of(kind, inputs, outputs, **attributes):
    return helper.make_node(kind, inputs, outputs, name=f"the {kind}", **attributes)


INVALID = {
    "reads nothing": ([node_of("Relu", ["z"], ["y"])], "node 'the Relu' .Relu. reads 'z', which no input"),
    "no output": ([node_of("Relu", ["x"], ["h"])], "its output 'y' is made by no node"),
    "a cycle": (
        [node_of("Add", ["x", "y"], ["h"]), node_of("Relu", ["h"], ["y"])],
        "'the Relu' makes only afterwards; no order has",
    ),
    "twice": (
        [node_of("Exp", ["x"], ["y"]), node_of("Relu", ["x"], ["y"])],
        "makes 'y', which is there already",
    ),
    "over an input": (
        [node_of("Exp", ["x"], ["x"]), node_of("Relu", ["x"], ["y"])],
        "makes 'x', which is there",
    ),
    "no window": ([node_of("MaxPool", ["x"], ["y"])], "the MaxPool' .MaxPool.: .*kernel_shape"),
    "no axis": ([node_of("Concat", ["x", "x"], ["y"])], "the Concat' .Concat.: .*axis"),
    "text for a number": ([node_of("Softmax", ["x"], ["y"], axis="foo")], "the Softmax' .Softmax.: .*axis"),
    "an unknown attribute": ([node_of("Elu", ["x"], ["y"], alhpa=0.5)], "the Elu' .Elu.: .*alhpa"),
    "no inputs": ([node_of("Relu", [], ["y"])], "the Relu' .Relu.: "),
    "three inputs": ([node_of("Mul", ["x", "x", "x"], ["y"])], "the Mul' .Mul.: "),
}


@pytest.mark.parametrize("name", INVALID)
def test_what_breaks_the_rules_of_onnx(name):
    nodes, message = INVALID[name]
    with pytest.raises(og.ArgumentError, match=f"the model is invalid: .*{message}"):
        og.from_onnx(model_of(nodes, {"x": X}, ["y"]))


def test_two_inputs_of_one_name():
    model = small()
    model.graph.input.append(model.graph.input[0])
    with pytest.raises(og.ArgumentError, match="two inputs have the name 'x'"):
        og.from_onnx(model)


def test_a_constant_without_a_counterpart():
    """It is named where it is needed, and not before."""
    text = helper.make_node(
        "Constant", [], ["c"], value=helper.make_tensor("v", onnx.TensorProto.COMPLEX64, [1], [1j])
    )
    relu = helper.make_node("Relu", ["x"], ["y"])
    np.testing.assert_array_equal(
        og.from_onnx(model_of([text, relu], {"x": X}, ["y"])).compile()(X)["y"], X.clip(0)
    )
    with pytest.raises(og.UnsupportedError, match="Add ×1 .*attributes and inputs don't fit together"):
        og.from_onnx(model_of([text, node_of("Add", ["x", "c"], ["y"])], {"x": X}, ["y"]))


def test_nothing_to_compute():
    same = helper.make_node("Identity", ["x"], ["y"])
    np.testing.assert_array_equal(og.from_onnx(model_of([same], {"x": X}, ["y"])).compile()(X)["y"], X)


def test_an_old_op_that_the_checker_refuses():
    node = helper.make_node("Upsample", ["x", "s"], ["y"], mode="nearest")
    model = model_of([node], {"x": IMAGE}, ["y"], {"s": np.float32([1, 1, 2, 3])}, opset=11)
    y = og.from_onnx(model).compile()(IMAGE)["y"]
    np.testing.assert_array_equal(y, IMAGE.repeat(2, 2).repeat(3, 3))


@pytest.mark.parametrize("name", ["onnx", "torch"])
def test_a_missing_package_is_named(monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(
        og.UnsupportedError,
        match=rf"needs the package {name}, .*extra '{name}', .*pip install '\.\[{name}\]'",
    ) as caught:
        getattr(og, f"from_{name}")("model")
    assert caught.value.__suppress_context__
    assert caught.value.__cause__ is None


def test_inputs_of_other_kinds():
    w = normal(4)
    info = helper.make_tensor_value_info("x", 1, [2, 4])
    default = helper.make_tensor_value_info("w", 1, [4])  # an initializer that is listed as an input too
    out = [onnx.ValueInfoProto(name="y")]
    node = helper.make_node("Mul", ["x", "w"], ["y"])
    opsets = [helper.make_opsetid("", NEWEST)]
    graph = helper.make_graph([node], "g", [info, default], out, [numpy_helper.from_array(w, "w")])
    imported = og.from_onnx(helper.make_model(graph, opset_imports=opsets, ir_version=IR))
    assert imported.input_names == ("x",)
    for kind in (onnx.TensorProto.STRING, onnx.TensorProto.COMPLEX64):
        graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", kind, [2]), default], out)
        with pytest.raises(og.UnsupportedError, match="input 'x':? "):
            og.from_onnx(helper.make_model(graph, opset_imports=opsets, ir_version=IR), reference=False)
    sequence = helper.make_tensor_sequence_value_info("x", 1, [2])
    with pytest.raises(og.UnsupportedError, match="input 'x' is no tensor"):
        og.from_onnx(
            helper.make_model(helper.make_graph([node], "g", [sequence, default], out), opset_imports=opsets),
            reference=False,
        )


def test_a_constant_that_can_not_be_computed():
    node = helper.make_node("Reshape", ["a", "b"], ["y"], name="bad")
    model = model_of([node], {}, ["y"], {"a": normal(3), "b": ints(2)})
    with pytest.raises(og.UnsupportedError, match="Reshape ×1 .*cannot reshape"):
        og.from_onnx(model)


def test_types_that_are_mixed():
    """ONNX has one type per op; graphs that break it are refused, not computed somehow."""
    x = normal(3)
    node = helper.make_node("Add", ["x", "i"], ["y"])
    model = model_of([node], {"x": x, "i": np.arange(3)}, ["y"])
    with pytest.raises(og.UnsupportedError, match="Add ×1 .*don't fit together"):
        og.from_onnx(model)


# --- running ------------------------------------------------------------------------------------------


def two_inputs():
    nodes = [helper.make_node("Sub", ["a.1", "b"], ["c"]), helper.make_node("Relu", ["c"], ["d"])]
    return model_of(nodes, {"a.1": X, "b": X}, ["d", "c", "b"])


def test_arguments_by_position_and_by_name():
    model = og.from_onnx(two_inputs()).compile()
    assert (model.input_names, model.output_names) == (("a.1", "b"), ("d", "c", "b"))
    y = 2 * X
    for results in (model(X, y), model({"a.1": X, "b": y}), model(X, b=y), model(**{"a.1": X}, b=y)):
        np.testing.assert_array_equal(results["c"], X - y)
        np.testing.assert_array_equal(results["d"], np.maximum(X - y, 0))
        np.testing.assert_array_equal(results["b"], y)
        assert not np.shares_memory(results["b"], y)


@pytest.mark.parametrize(
    ("arrays", "named", "message"),
    [
        ((X,), {}, "input 'b' is missing; the graph takes 'a.1', 'b'"),
        ((X, X, X), {}, "takes 2 inputs"),
        ((X, X), {"b": X}, "input 'b' is given twice"),
        ((X,), {"B": X}, "no input 'B' .did you mean 'b'"),
    ],
)
def test_arguments_that_do_not_fit(arrays, named, message):
    with pytest.raises(og.ArgumentError, match=message):
        og.from_onnx(two_inputs()).compile()(*arrays, **named)


def test_an_input_of_another_shape_is_named():
    with pytest.raises(og.ShapeError, match="input 'b' must have shape"):
        og.from_onnx(two_inputs()).compile()(X, X[:1])


def test_a_report_counts_all_ops():
    model = og.from_onnx(two_inputs()).compile()
    report = model.report(X, X, repeat=2)
    assert sum(report.ops.values()) == 2
    assert report.partitions == len(model.partitions)
    assert 0 <= report.onednn_share <= 1
    assert set(report.seconds) == set(report.ops)
    assert "of 2 ops" in str(report)
    assert "2 partitions" in repr(model) or "1 partition)" in repr(model)
    assert repr(og.from_onnx(two_inputs())) == "Graph(2 ops)"
    numpy_only = og.from_onnx(two_inputs()).compile(backend="numpy").report(X, X)
    assert numpy_only.ops == {"numpy": 2}
    assert numpy_only.onednn_share == 0
    with pytest.raises(og.ArgumentError, match="repeat must be an integer of at least 1"):
        model.report(X, X, repeat=0)


def test_the_graph_can_be_built_upon():
    """Not finalized yet: a loss, say, can stand behind it."""
    imported = og.from_onnx(small())
    assert not imported.finalized
    loss = imported.op("ReduceSum", imported.outputs[0], axes=[0, 1, 2], name="loss")
    model = imported.compile()
    close(model({"x": X})[loss], np.maximum(X, 0).sum())
