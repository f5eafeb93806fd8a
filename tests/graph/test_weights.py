"""Graphs in two files: JSON, and constants and names in a safetensors file beside it."""

import json
import sys

import ml_dtypes
import numpy as np
import onednn_graph as og
import pytest

safetensors = pytest.importorskip("safetensors.numpy", reason="install the extra 'weights'")


def whole(*shape, seed=0):
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


X, W = whole(3, 4), whole(4, 5, seed=1)


def dense(w=W):
    """With inputs that nobody reads, strides that are and are not row-major, and outputs of all sorts."""
    graph = og.Graph(fpmath_mode="bf16")
    graph.input("unread", "bf16", [-1, 2], strides=[2, 1])
    late, x = (
        graph.input("late", "f32", [3, 5], strides=[1, 3]),
        graph.input("x", "f32", [3, 4], strides=[4, 1]),
    )
    held = graph.constant(w, name="layer.0.w")
    h = graph.matmul(x, held, name="h")
    y = graph.relu(graph.subtract(h, late), name="y")
    for tensor, name in ((h, "first"), (y, None), (h, "second"), (x, "same"), (held, "w")):
        graph.output(tensor, name=name)
    graph.output(graph.constant([1.5, 2.5], name="alone"))
    return graph


def described(graph):
    return {
        "inputs": [(t.name, t.data_type, t.shape, t.strides) for t in graph.inputs],
        "outputs": list(graph.output_names),
        "tensors": sorted((t.id, t.name, t.shape) for t in graph.tensors),
        "ops": [(op.id, op.kind, op.name) for op in graph.ops],
        "mode": graph.fpmath_mode,
    }


def equal(a, b):
    assert list(a) == list(b)
    for name, array in a.items():
        assert (b[name].dtype, b[name].shape) == (array.dtype, array.shape)
        assert b[name].tobytes() == array.tobytes()


@pytest.mark.parametrize("finalized", [False, True])
def test_the_same_graph_comes_back(tmp_path, finalized):
    graph = dense()
    if finalized:
        graph.finalize()
    graph.save(tmp_path / "m.json", weights=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.json", "m.safetensors"]
    loaded = og.Graph.load(tmp_path / "m.json")
    assert not loaded.finalized
    row_major = described(graph)
    row_major["inputs"][2] = (*row_major["inputs"][2][:3], None)  # the JSON format does not tell these apart
    assert described(loaded) == row_major
    equal(graph.constants, loaded.constants)
    feeds = {"x": X, "late": whole(3, 5, seed=2)}
    equal(graph.compile()(feeds), loaded.compile()(feeds))
    loaded.save(tmp_path / "again.json", weights=True)
    assert (tmp_path / "again.json").read_text() == (tmp_path / "m.json").read_text()
    equal(graph.constants, og.Graph.load(tmp_path / "again.json").constants)


TYPES = ["f2", ml_dtypes.bfloat16, "f4", "f8", "i1", "u1", "i4", "i8", "?", ml_dtypes.float8_e5m2]
TYPES += [ml_dtypes.float8_e4m3fn, ml_dtypes.int4, ml_dtypes.uint4]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(), (2, 3), (0, 3)])
def test_types(tmp_path, dtype, shape):
    graph = og.Graph()
    graph.relu(graph.input("x", "f32", [2]), name="y")
    values = np.random.default_rng(0).integers(-8, 8, shape)
    if np.dtype(dtype) in (np.dtype(ml_dtypes.uint4), np.dtype("u1")):
        values = abs(values)
    array = values.astype(dtype)
    graph.output(graph.constant(array, name="c"))
    graph.save(tmp_path / "m.json", weights=True)
    [loaded] = og.Graph.load(tmp_path / "m.json").constants.values()
    assert loaded.dtype == array.dtype
    np.testing.assert_array_equal(loaded.astype("f8"), array.astype("f8"))
    assert loaded.shape == shape


def test_anyone_can_read_the_tensors(tmp_path):
    dense().save(tmp_path / "m.json", weights=True)
    tensors = safetensors.load_file(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(tensors["layer.0.w"], W)


def test_without_weights(tmp_path):
    graph = dense()
    with pytest.warns(
        og.WeightsLeftOutWarning, match=r"m\.json is without the . arrays? of .*weights=True"
    ) as said:
        graph.save(tmp_path / "m.json")
    assert said[0].filename == __file__
    graph.save(tmp_path / "m.json", weights=False)  # silent, and pytest makes an error of each warning
    assert not (tmp_path / "m.safetensors").exists()
    loaded = og.Graph.load(tmp_path / "m.json")
    assert not loaded.constants
    assert [t.property_type for t in loaded.inputs].count("constant") == 1
    graph.save(tmp_path / "m.json", weights=True)
    assert not og.Graph.load(tmp_path / "m.json", weights=False).constants
    assert og.Graph.load(tmp_path / "m.json", weights=True).constants


def test_a_file_that_is_written_over_while_its_arrays_are_used(tmp_path):
    dense().save(tmp_path / "m.json", weights=True)
    loaded = og.Graph.load(tmp_path / "m.json")
    dense(2 * W).save(tmp_path / "m.json", weights=True)
    np.testing.assert_array_equal(loaded.constants["layer.0.w"], W)
    np.testing.assert_array_equal(og.Graph.load(tmp_path / "m.json").constants["layer.0.w"], 2 * W)


def test_another_indentation_is_the_same_document(tmp_path):
    path = tmp_path / "m.json"
    dense().save(path, weights=True)
    path.write_text(json.dumps(json.loads(path.read_text()), indent=7))
    assert og.Graph.load(path).constants


def test_weights_of_another_graph(tmp_path):
    dense().save(tmp_path / "m.json", weights=True)
    other = og.Graph()
    other.exp(other.input("x", "f32", [3, 4]))
    other.save(tmp_path / "m.json")
    for weights in (None, True):
        with pytest.raises(
            og.GraphFileError, match=r"m\.safetensors: was written with another graph than .*m\.json"
        ):
            og.Graph.load(tmp_path / "m.json", weights=weights)
    assert len(og.Graph.load(tmp_path / "m.json", weights=False).ops) == 1


def test_a_file_of_someone_else(tmp_path):
    dense().save(tmp_path / "m.json", weights=False)
    safetensors.save_file({"layer.0.w": W}, tmp_path / "m.safetensors")
    with pytest.raises(og.GraphFileError, match="was not written by Graph.save.*load with weights=False"):
        og.Graph.load(tmp_path / "m.json")


def test_no_file(tmp_path):
    dense().save(tmp_path / "m.json", weights=False)
    with pytest.raises(og.GraphFileError, match=r"m\.safetensors: can't be read: No such file"):
        og.Graph.load(tmp_path / "m.json", weights=True)
    with pytest.raises(og.GraphFileError, match="can't be written"):
        dense().save(tmp_path / "nowhere" / "m.json", weights=True)
    assert [path.name for path in tmp_path.iterdir()] == ["m.json"]
    for path in (5, None):
        with pytest.raises(og.ArgumentTypeError, match="path must be a string or a path"):
            dense().save(path, weights=True)


def test_a_name_that_such_files_reserve(tmp_path):
    graph = og.Graph()
    graph.relu(graph.input("x", "f32", [2]), name="y")
    graph.output(graph.constant([1.0], name="__metadata__"))
    with pytest.raises(og.GraphFileError, match="can't be called '__metadata__'"):
        graph.save(tmp_path / "m.json", weights=True)
    assert not list(tmp_path.iterdir())


def rewritten(path, change):
    """The file again, with other metadata."""
    with safetensors.safe_open(path, framework="numpy") as file:
        content = json.loads(file.metadata()["onednn_graph"])
    arrays = safetensors.load_file(path)
    changed = change(content, arrays)
    text = json.dumps(content if changed is None else changed)
    safetensors.save_file(arrays, path, metadata={"onednn_graph": text})


def at(*keys, value):
    def change(content, _):
        for key in keys[:-1]:
            content = content[key]
        content[keys[-1]] = value

    return change


HOSTILE = {
    "no object": (lambda *_: [], "its metadata is damaged"),
    "a number": (lambda *_: 5, "its metadata is damaged"),
    "no names": (lambda c, _: c.pop("names") and None, "its metadata is damaged"),
    "names in a list": (at("names", value=[]), "its metadata is damaged"),
    "an id that is none": (at("names", value={"a": "b"}), "its metadata is damaged"),
    "no outputs": (at("outputs", value=None), "its metadata is damaged"),
    "outputs of one": (at("outputs", value=[["y"]]), "its metadata is damaged"),
    "an output of no tensor": (at("outputs", value=[["y", 99]]), "the graph has no tensor with the id 99"),
    "an output of text": (at("outputs", value=[["y", "1"]]), "its metadata is damaged"),
    "an input of no type": (at("inputs", 0, "data_type", value="f31"), "data_type"),
    "an input of a bad shape": (at("inputs", 0, "shape", value=[-7]), "shape must have sizes"),
    "an input that is a number": (at("inputs", 0, value=3), "its metadata is damaged"),
    "a constant twice": (lambda c, _: c["constants"].append(c["constants"][0]), "has a value already"),
    "a constant that an op makes": (at("constants", 0, "id", value=5), "damaged"),
    "a constant of no array": (lambda c, a: a.pop("layer.0.w") is None or None, "damaged"),
    "a constant of another shape": (lambda c, a: a.update({"layer.0.w": W.T.copy()}), "must have shape"),
    "a constant of another type": (
        lambda c, a: a.update({"layer.0.w": W.astype("i4")}),
        "must be an array of f32",
    ),
    "a constant said to be f8": (at("constants", 0, "data_type", value="f8_e5m2"), "must"),
    "a name of a million letters": (at("names", "1", value="n" * 10**6), None),
    "deep": (at("names", value=[[]] * 10), "damaged"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_damaged_metadata(tmp_path, name):
    change, message = HOSTILE[name]
    dense().save(tmp_path / "m.json", weights=True)
    rewritten(tmp_path / "m.safetensors", change)
    if message is None:
        assert og.Graph.load(tmp_path / "m.json").constants
        return
    with pytest.raises(og.OneDNNGraphError, match=f"m.safetensors.*{message}") as caught:
        og.Graph.load(tmp_path / "m.json")
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("cut", [0, 1, 8, 100, -1, -20])
def test_a_file_that_is_cut_off(tmp_path, cut):
    dense().save(tmp_path / "m.json", weights=True)
    path = tmp_path / "m.safetensors"
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(og.GraphFileError, match="m.safetensors: can't be read"):
        og.Graph.load(tmp_path / "m.json")


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    dense().save(tmp_path / "m.json", weights=True)
    for name in ("safetensors", "safetensors.numpy"):
        monkeypatch.setitem(sys.modules, name, None)
    for call in (
        lambda: og.Graph.load(tmp_path / "m.json"),
        lambda: dense().save(tmp_path / "n.json", weights=True),
    ):
        with pytest.raises(
            og.UnsupportedError, match=r"needs the package safetensors.*pip install '\.\[weights\]'"
        ):
            call()
    assert not (tmp_path / "n.json").exists()
    og.Graph.load(tmp_path / "m.json", weights=False)


def test_an_imported_network(tmp_path):
    onnx = pytest.importorskip("onnx", reason="install the extra 'onnx'")
    make = onnx.helper.make_node
    w, b, f = whole(8, 3, 3, 3), whole(8, seed=1), whole(8, 10, seed=2)
    nodes = [
        make("Conv", ["image", "w", "b"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
        make("Relu", ["c"], ["r"]),
        make("MaxPool", ["r"], ["p"], kernel_shape=[4, 4]),
        make("Flatten", ["p"], ["v"]),
        make("MatMul", ["v", "f"], ["logits"]),
    ]
    info = onnx.helper.make_tensor_value_info
    model = onnx.helper.make_model(
        onnx.helper.make_graph(
            nodes,
            "small",
            [info("image", 1, [2, 3, 8, 8])],
            [info("logits", 1, [2, 10]), info("r", 1, [2, 8, 4, 4])],
            [onnx.numpy_helper.from_array(a, n) for n, a in (("w", w), ("b", b), ("f", f))],
        ),
        opset_imports=[onnx.helper.make_opsetid("", 17)],
        ir_version=10,
    )
    graph = og.from_onnx(model)
    graph.save(tmp_path / "small.json", weights=True)
    loaded = og.Graph.load(tmp_path / "small.json")
    assert (loaded.input_names, loaded.output_names) == (("image",), ("logits", "r"))
    image = whole(2, 3, 8, 8, seed=3)
    reference = pytest.importorskip("onnx.reference", reason="onnx has no reference evaluator here")
    wanted = reference.ReferenceEvaluator(model).run(None, {"image": image})
    for one in (graph, loaded):
        results = one.compile()(image)
        for got, want in zip(results.values(), wanted, strict=True):
            np.testing.assert_array_equal(got, want)
