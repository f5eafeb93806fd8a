"""Graphs in two files: JSON, and constants and names in a safetensors file beside it."""

import json
import os
import signal
import sys
import threading
import tracemalloc

import attrs
import ml_dtypes
import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.graph.io import weights as weight_files
from onednn_graph.graph.io.serialization import dump, load
from rows import each

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
    assert loaded.to_json() == graph.to_json()
    equal(graph.constants, og.Graph.load(tmp_path / "again.json").constants)


TYPES = ["f2", ml_dtypes.bfloat16, "f4", "f8", "i1", "u1", "i4", "i8", "?", ml_dtypes.float8_e5m2]
TYPES += [ml_dtypes.float8_e4m3fn, ml_dtypes.int4, ml_dtypes.uint4]


@each("dtype", TYPES)
@each("shape", [(), (2, 3), (0, 3)])
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
        og.errors.WeightsLeftOutWarning, match=r"m\.json is without the . arrays? of .*weights=True"
    ) as said:
        graph.save(tmp_path / "m.json")
    assert said[0].filename == __file__
    graph.save(tmp_path / "m.json", weights=False)  # silent, and pytest makes an error of each warning
    assert not (tmp_path / "m.safetensors").exists()
    loaded = og.Graph.load(tmp_path / "m.json")
    assert not loaded.constants
    assert loaded.input_names == ("unread", "late", "x", "layer.0.w", "alone")
    assert [t.property_type for t in loaded.inputs].count("constant") == 2
    assert loaded.output_names == graph.output_names
    feeds = {"x": X, "late": whole(3, 5, seed=2)}
    held = dict(graph.constants)
    unread = np.zeros((1, 2), ml_dtypes.bfloat16)
    equal(graph.compile()(unread=unread, **feeds), loaded.compile()({**feeds, **held, "unread": unread}))
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


def other_graph():
    graph = og.Graph()
    graph.exp(graph.input("x", "f32", [3, 4]))
    return graph


def test_weights_of_another_graph(tmp_path):
    dense().save(tmp_path / "m.json", weights=True)
    document = load(tmp_path / "m.json")
    other_graph().save(tmp_path / "m.json")
    assert len(og.Graph.load(tmp_path / "m.json").ops) == 1
    refused = pytest.raises(
        og.GraphFileError, match=r"m\.safetensors: was written with another graph than .*m\.json"
    )
    with refused:
        og.Graph.load(tmp_path / "m.json", weights=True)
    dump(attrs.evolve(load(tmp_path / "m.json"), weights_id=document.weights_id), tmp_path / "m.json")
    for weights in (None, True):  # of its id, and yet of another graph
        with refused:
            og.Graph.load(tmp_path / "m.json", weights=weights)
    assert len(og.Graph.load(tmp_path / "m.json", weights=False).ops) == 1


def test_two_files_that_were_not_saved_together(tmp_path):
    """The same graph with other weights: nothing but the id tells."""
    for name, w in (("a", W), ("b", 2 * W)):
        (tmp_path / name).mkdir()
        dense(w).save(tmp_path / name / "m.json", weights=True)
    (tmp_path / "a" / "m.safetensors").replace(tmp_path / "b" / "m.safetensors")
    for weights in (None, True):
        with pytest.raises(og.GraphFileError, match="or one of the two was saved again without the other"):
            og.Graph.load(tmp_path / "b" / "m.json", weights=weights)
    with pytest.warns(
        og.errors.WeightsLeftOutWarning,
        match=r"m\.json was saved with weights, .*m\.safetensors is not there",
    ) as said:
        assert not og.Graph.load(tmp_path / "a" / "m.json").constants
    assert said[0].filename == __file__
    assert not og.Graph.load(tmp_path / "a" / "m.json", weights=False).constants


def test_each_name_has_weights_of_its_own(tmp_path):
    saved = {
        "net.50": W,
        "net.18": 2 * W,
        "net.json": 3 * W,
        "net.50.json": 4 * W,
        "Net": 5 * W,
        ".json": 6 * W,
    }
    for name, w in saved.items():
        path = tmp_path / name
        if name == "net.50.json":
            with pytest.raises(
                og.GraphFileError, match=r"net\.50\.safetensors: holds the weights of .*net\.50, which"
            ):
                dense(w).save(path, weights=True)
            continue
        for _ in range(2):  # over itself too
            dense(w).save(path, weights=True)
    for name, w in saved.items():
        if name != "net.50.json":
            np.testing.assert_array_equal(og.Graph.load(tmp_path / name).constants["layer.0.w"], w)
    os.rename(tmp_path / "net.50", tmp_path / "net.50.json")  # a name like others, from then on
    dense(7 * W).save(tmp_path / "net.50.json", weights=True)
    assert og.Graph.load(tmp_path / "net.50.json").constants["layer.0.w"][0, 0] == 7 * W[0, 0]


def test_a_name_of_weights_is_no_graph_s(tmp_path):
    dense().save(tmp_path / "m.json", weights=True)
    before = (tmp_path / "m.safetensors").read_bytes()
    for weights in (True, False, None):
        with pytest.raises(og.GraphFileError, match=r"m\.safetensors: a graph's file is JSON.*m\.json"):
            dense().save(tmp_path / "m.safetensors", weights=weights)
    assert (tmp_path / "m.safetensors").read_bytes() == before


def test_saved_without_weights_over_a_pair(tmp_path):
    dense().save(tmp_path / "m.json", weights=True)
    dense(2 * W).save(tmp_path / "m.json", weights=False)
    assert not og.Graph.load(tmp_path / "m.json").constants
    with pytest.raises(og.GraphFileError, match="saved again without the other"):
        og.Graph.load(tmp_path / "m.json", weights=True)


def test_saved_without_weights_over_a_pair_of_an_older_version(tmp_path):
    dense().save(tmp_path / "m.json", weights=True)
    as_older_versions_wrote(tmp_path / "m.json")
    np.testing.assert_array_equal(og.Graph.load(tmp_path / "m.json").constants["layer.0.w"], W)
    dense(2 * W).save(tmp_path / "m.json", weights=False)
    assert not og.Graph.load(tmp_path / "m.json").constants
    with pytest.raises(og.GraphFileError, match="was saved without weights"):
        og.Graph.load(tmp_path / "m.json", weights=True)


def test_names_with_dots_of_older_versions(tmp_path):
    """Both had their weights in net.safetensors: one file alone is read, of two none knows whose it is."""
    dense().save(tmp_path / "net.50", weights=True)
    as_older_versions_wrote(tmp_path / "net.50")
    os.rename(tmp_path / "net.50.safetensors", tmp_path / "net.safetensors")
    np.testing.assert_array_equal(og.Graph.load(tmp_path / "net.50").constants["layer.0.w"], W)
    other_graph().save(tmp_path / "net.101")
    assert len(og.Graph.load(tmp_path / "net.101").ops) == 1
    (tmp_path / "net.18").write_text((tmp_path / "net.50").read_text())
    for name in ("net.18", "net.50"):
        with pytest.raises(
            og.GraphFileError, match=r"net\.safetensors: may belong to .* or to .*move the one away"
        ):
            og.Graph.load(tmp_path / name)
    with pytest.raises(og.GraphFileError, match=r"net\.safetensors: holds the weights of .*net\.18"):
        dense().save(tmp_path / "net.json", weights=True)
    dense(3 * W).save(tmp_path / "net.50", weights=True)
    np.testing.assert_array_equal(og.Graph.load(tmp_path / "net.50").constants["layer.0.w"], 3 * W)


def test_a_file_of_someone_else(tmp_path):
    dense().save(tmp_path / "m.json", weights=False)
    safetensors.save_file({"layer.0.w": W}, tmp_path / "m.safetensors")
    before = (tmp_path / "m.safetensors").read_bytes()
    assert not og.Graph.load(tmp_path / "m.json").constants
    with pytest.raises(og.GraphFileError, match="was not written by Graph.save.*load with weights=False"):
        og.Graph.load(tmp_path / "m.json", weights=True)
    text = (tmp_path / "m.json").read_text()
    with pytest.raises(
        og.GraphFileError, match="was not written by Graph.save and would be lost.*another name"
    ):
        dense().save(tmp_path / "m.json", weights=True)
    assert (tmp_path / "m.safetensors").read_bytes() == before
    assert (tmp_path / "m.json").read_text() == text


def test_a_header_that_is_too_long_is_not_read(tmp_path, monkeypatch):
    """It says how long it is, whatever there is."""
    header = json.dumps(
        {
            "__metadata__": {weight_files.KEY: "{}"},
            "w": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]},
        }
    )
    path = tmp_path / "m.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header.encode())
    assert weight_files.metadata_of(path) == {"document": None}
    monkeypatch.setattr(weight_files, "MAX_HEADER_BYTES", len(header))
    assert weight_files.metadata_of(path) == {"document": None}
    monkeypatch.setattr(weight_files, "MAX_HEADER_BYTES", len(header) - 2)
    assert weight_files.metadata_of(path) == {}


def test_metadata_that_is_too_deep_is_damaged(tmp_path):
    deep = "[" * 100_000
    safetensors.save_file({"w": W}, tmp_path / "m.safetensors", {weight_files.KEY: deep})
    assert weight_files.metadata_of(tmp_path / "m.safetensors") == {"document": None}


def test_a_bit_that_flips_is_seen(tmp_path):
    dense().save(tmp_path / "m.json", weights=True)
    path = tmp_path / "m.safetensors"
    content = bytearray(path.read_bytes())
    content[-6] ^= 1
    path.write_bytes(content)
    with pytest.raises(
        og.GraphFileError, match=r"m\.safetensors: its metadata is damaged|is not what was saved"
    ):
        og.Graph.load(tmp_path / "m.json")


def test_a_full_disk_leaves_the_former_pair(tmp_path):
    resource = pytest.importorskip("resource", reason="of POSIX systems")
    dense().save(tmp_path / "m.json", weights=True)
    large = dense(np.ones((4, 50_000), "f4")[:, :5] * 3)
    large.output(large.constant(np.zeros(100_000, "f4"), name="zeros"))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    former = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    for limit in (10, 5_000, 100_000, 400_000):  # with room for the JSON file, at last
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
        try:
            with pytest.raises(og.errors.FileAccessError, match=r"m\.json: can't be written: File too large"):
                large.save(tmp_path / "m.json", weights=True)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        np.testing.assert_array_equal(og.Graph.load(tmp_path / "m.json").constants["layer.0.w"], W)
    signal.signal(signal.SIGXFSZ, former)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.json", "m.safetensors"]


def test_threads_that_save_the_same_graph(tmp_path):
    """Whoever is last: what is read are always two files of one of them."""
    graphs = [dense(number * W) for number in range(1, 4)]
    graphs[0].save(tmp_path / "m.json", weights=True)

    def save(graph):
        for _ in range(8):
            graph.save(tmp_path / "m.json", weights=True)

    threads = [threading.Thread(target=save, args=(graph,)) for graph in graphs]
    for thread in threads:
        thread.start()
    reads = 0
    while any(thread.is_alive() for thread in threads) or not reads:
        loaded = og.Graph.load(tmp_path / "m.json").constants["layer.0.w"]
        assert any(np.array_equal(loaded, graph.constants["layer.0.w"]) for graph in graphs)
        reads += 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.json", "m.safetensors"]


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


def test_names_that_such_files_reserve_or_lack(tmp_path):
    graph = og.Graph()
    graph.relu(graph.input("x", "f32", [2]), name="y")
    for number, name in enumerate(["__metadata__", "", "tensor_101", ""]):
        tensor = og.LogicalTensor(100 + number, "f32", [1], property_type="constant", name=name)
        graph.output(graph.add_constant(tensor, np.array([number], "f4")))
    graph.save(tmp_path / "m.json", weights=True)
    loaded = og.Graph.load(tmp_path / "m.json")
    equal(graph.constants, loaded.constants)
    assert [t.id for t in loaded.constant_tensors] == [100, 101, 102, 103]


def as_older_versions_wrote(path):
    """The pair again, without ids and checksums."""
    beside = path.with_name(f"{path.name.removesuffix('.json')}.safetensors")
    dump(attrs.evolve(load(path), weights_id=None), path)
    rewritten(beside, lambda *_: None)


def rewritten(path, change):
    """The file again, with other metadata, as versions without ids and checksums wrote it."""
    with safetensors.safe_open(path, framework="numpy") as file:
        content = json.loads(file.metadata()["onednn_graph"])
    content.pop("id", None)
    for entry in (*content["constants"], *content["parameters"]):
        for key in ("key", "crc32"):
            entry.pop(key, None)
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
    "two of one name": (
        lambda c, _: c["names"].update({str(i): "alone" for i in c["names"]}),
        "a name of its own",
    ),
    "a constant of no array": (lambda c, a: a.pop("layer.0.w") is None or None, "damaged"),
    "a constant of another shape": (lambda c, a: a.update({"layer.0.w": W.T.copy()}), "must have shape"),
    "a constant of another type": (
        lambda c, a: a.update({"layer.0.w": W.astype("i4")}),
        "must be an array of f32",
    ),
    "a constant said to be f8": (at("constants", 0, "data_type", value="f8_e5m2"), "must"),
    "a name of a million letters": (at("names", "1", value="n" * 10**6), None),
    "lists in a list": (at("names", value=[[]] * 10), "damaged"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_damaged_metadata(tmp_path, name):
    change, message = HOSTILE[name]
    dense().save(tmp_path / "m.json", weights=True)
    as_older_versions_wrote(tmp_path / "m.json")
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


def test_saving_takes_no_copy_of_the_arrays(tmp_path):
    graph = og.Graph()
    x = graph.input("x", "f32", [1000])
    for name in "abcd":
        x = graph.add(x, graph.constant(np.ones((1000, 1000), "f4"), name=name))
    tracemalloc.start()
    graph.save(tmp_path / "m.json", weights=True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < (tmp_path / "m.safetensors").stat().st_size / 8


def test_no_file_is_written_whose_names_are_more_than_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("onednn_graph.graph.runtime.tensor_files.MAX_HEADER_BYTES", 1000)
    with pytest.raises(
        og.GraphFileError, match="can't be written: names and metadata may have at most 1000 bytes"
    ):
        dense().save(tmp_path / "m.json", weights=True)
    assert not list(tmp_path.iterdir())
