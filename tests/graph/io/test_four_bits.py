"""4-bit integers in files: two to a byte, bytes of older versions, and bytes that nobody of ours has written."""

import json

import attrs
import ml_dtypes
import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.graph.compile import saving
from onednn_graph.graph.io.serialization import dump, load
from onednn_graph.graph.runtime import mapped_files
from rows import each

safetensors = pytest.importorskip("safetensors.numpy", reason="install the extra 'weights'")

TYPES = {"s4": (ml_dtypes.int4, range(-8, 8)), "u4": (ml_dtypes.uint4, range(16))}


def holding(name, *shape):
    """A graph that holds all 16 integers of a type again and again, as `q`."""
    dtype, values = TYPES[name]
    graph = og.Graph()
    q = np.resize(np.array([*values]), shape).astype(dtype)
    scale = graph.constant(np.float32([0.5]), name="scale")
    graph.output(graph.dynamic_dequantize(graph.constant(q, name="q"), scale, axis=0), name="y")
    return graph, q


@each("name", TYPES)
@each("shape", [(1,), (2,), (7, 3), (4, 16), (0, 3)])
def test_two_lie_in_a_byte(tmp_path, name, shape):
    graph, q = holding(name, *shape)
    graph.save(tmp_path / "m.json", weights=True)
    bits = [int(v) & 15 for v in q.reshape(-1).astype(int)]
    bits += [0] * (len(bits) % 2)
    stored = safetensors.load_file(tmp_path / "m.safetensors")["q"]
    np.testing.assert_array_equal(
        stored, [low + 16 * high for low, high in zip(bits[::2], bits[1::2], strict=True)]
    )
    loaded = og.Graph.load(tmp_path / "m.json").constants["q"]
    assert (loaded.dtype, loaded.shape) == (q.dtype, q.shape)
    np.testing.assert_array_equal(loaded.astype(int), q.astype(int))


def test_a_graph_of_quantised_weights_takes_half_of_its_bytes(tmp_path):
    w = np.random.default_rng(0).standard_normal((512, 256)).astype(np.float32)
    sizes = {}
    for data_type in ("s8", "s4", "u4"):
        graph = og.Graph()
        x = graph.input("x", "f32", [2, 512])
        graph.output(graph.matmul(x, graph.constant(w, name="w")), name="y")
        made = graph.quantize_weights(data_type, group=128)
        made.save(tmp_path / "m.json", weights=True)
        stored = safetensors.load_file(tmp_path / "m.safetensors")
        sizes[data_type] = stored[f"w.{data_type}"].nbytes
        feed = np.ones((2, 512), np.float32)
        same = og.Graph.load(tmp_path / "m.json").compile()(feed)["y"]
        np.testing.assert_array_equal(same, made.compile()(feed)["y"])
    assert sizes == {"s8": w.size, "s4": w.size // 2, "u4": w.size // 2}


def rewritten(folder, change):
    """The pair again with other metadata and arrays, without an id and checksums, which would tell of the change."""
    dump(attrs.evolve(load(folder / "m.json"), weights_id=None), folder / "m.json")
    path = folder / "m.safetensors"
    with safetensors.safe_open(path, framework="numpy") as file:
        content = json.loads(file.metadata()["onednn_graph"])
    content.pop("id")
    entries = {entry["key"]: entry for entry in content["constants"]}
    for entry in entries.values():
        entry.pop("crc32")
    arrays = safetensors.load_file(path)
    change(entries["q"], arrays)
    safetensors.save_file(arrays, path, metadata={"onednn_graph": json.dumps(content)})


@each("name", TYPES)
def test_what_older_versions_wrote_is_read(tmp_path, name):
    graph, q = holding(name, 5, 3)

    def older(entry, arrays):
        del entry["per_byte"]
        arrays["q"] = q.view(np.uint8)

    graph.save(tmp_path / "m.json", weights=True)
    rewritten(tmp_path, older)
    loaded = og.Graph.load(tmp_path / "m.json").constants["q"]
    np.testing.assert_array_equal(loaded.astype(int), q.astype(int))


def put(**values):
    def change(entry, arrays):
        arrays |= {"q": values.pop("q")} if "q" in values else {}
        entry |= values

    return change


HOSTILE = {
    "one byte less": (lambda: put(q=np.zeros(7, np.uint8)), "has not the bytes of its 15 elements"),
    "one byte more": (lambda: put(q=np.zeros(9, np.uint8)), "has not the bytes of its 15 elements"),
    "bytes of another rank": (lambda: put(q=np.zeros((8, 1), np.uint8)), "has not the bytes"),
    "no bytes": (lambda: put(q=np.zeros(8, np.int8)), "has not the bytes"),
    "as many elements as no memory has": (lambda: put(shape=[2**29, 2**29]), "has not the bytes"),
    "a shape that is open": (lambda: put(shape=[-1, 3]), "damaged|sizes"),
    "no shape": (lambda: put(shape=None), "damaged|sizes"),
    "something behind the last": (lambda: put(q=np.full(8, 255, np.uint8)), "more than its 15 elements"),
    "three to a byte": (lambda: put(per_byte=3), "not stored 3 to a byte"),
    "no number to a byte": (lambda: put(per_byte=[2]), "to a byte"),
    "bytes two to a byte": (lambda: put(data_type="s8"), "s8 is not stored 2 to a byte"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_nobody_of_ours_has_packed_is_refused(tmp_path, name):
    change, message = HOSTILE[name]
    holding("s4", 5, 3)[0].save(tmp_path / "m.json", weights=True)
    rewritten(tmp_path, change())
    with pytest.raises(og.GraphFileError, match=rf"m\.safetensors.*({message})"):
        og.Graph.load(tmp_path / "m.json")


def test_a_byte_that_has_changed_is_found(tmp_path):
    graph, _ = holding("u4", 4, 16)
    graph.save(tmp_path / "m.json", weights=True)
    content = bytearray((tmp_path / "m.safetensors").read_bytes())
    place = content.index(bytes((16 * (n + 1)) | n for n in range(0, 16, 2)))
    content[place] ^= 16
    (tmp_path / "m.safetensors").write_bytes(content)
    with pytest.raises(og.GraphFileError, match="'?q'? is not what was saved"):
        og.Graph.load(tmp_path / "m.json")


# --- compiled models --------------------------------------------------------------------------------------


def quantised(data_type, columns=256):
    w = np.random.default_rng(0).standard_normal((512, columns)).astype(np.float32)
    graph = og.Graph()
    x = graph.input("x", "f32", [-1, 512])
    graph.output(graph.matmul(x, graph.constant(w, name="w")), name="y")
    return graph.quantize_weights(data_type, group=128)


@each("data_type", ["s4", "u4"])
@each("open_sizes", [False, True])
def test_a_compiled_file_has_two_in_a_byte(tmp_path, data_type, open_sizes):
    """Of all sizes that it was compiled for, once."""
    graph = quantised(data_type)
    model = (graph if open_sizes else graph.with_shapes({"x": [2, 512]})).compile()
    feeds = [np.full((rows, 512), 0.5, np.float32) for rows in ([2, 3] if open_sizes else [2])]
    wanted = [model(feed)["y"].copy() for feed in feeds]
    model.save_compiled(tmp_path / "m.ogc")
    held = sum(array.nbytes for array in graph.constants.values())
    packed = held - 512 * 256 // 2 - (4 * 256 // 2 if data_type == "u4" else 0)
    stored = mapped_files.map_tensors(tmp_path / "m.ogc").arrays
    assert sum(array.nbytes for name, array in stored.items() if name.startswith("constant")) == packed
    again = og.Graph.load_compiled(tmp_path / "m.ogc")
    for feed, want in zip(feeds, wanted, strict=True):
        np.testing.assert_array_equal(again(feed)["y"], want)
    again.save_compiled(tmp_path / "again.ogc")
    np.testing.assert_array_equal(og.Graph.load_compiled(tmp_path / "again.ogc")(feeds[0])["y"], wanted[0])


def changed_program(path, change):
    """The compiled file again with another program."""
    file = mapped_files.map_tensors(path)
    arrays = {name: np.array(array) for name, array in file.arrays.items()}
    metadata = json.loads(file.metadata[saving.KEY])
    program = json.loads(arrays[saving.PROGRAM].tobytes())
    change(program, metadata, arrays)
    arrays[saving.PROGRAM] = np.frombuffer(json.dumps(program).encode(), np.uint8)
    metadata["checksums"][saving.PROGRAM] = saving.checksum(arrays[saving.PROGRAM])
    with path.open("wb") as target:
        mapped_files.write_mapped(target, arrays, {saving.KEY: json.dumps(metadata)})


def weights_of(program):
    return next(one for one in program["graphs"][0]["constants"] if one["data_type"] == "s4")


def test_a_compiled_file_of_an_older_version_is_read(tmp_path):
    graph = quantised("s4").with_shapes({"x": [2, 512]})
    model, feed = graph.compile(), np.full((2, 512), 0.5, np.float32)
    model.save_compiled(tmp_path / "m.ogc")

    def older(program, metadata, arrays):
        entry = weights_of(program)
        del entry["per_byte"]
        arrays[entry["key"]] = graph.constants["w.s4"].view(np.uint8)
        metadata["format"] = "1"

    changed_program(tmp_path / "m.ogc", older)
    np.testing.assert_array_equal(og.Graph.load_compiled(tmp_path / "m.ogc")(feed)["y"], model(feed)["y"])


@pytest.mark.parametrize("more", [{"per_byte": 3}, {"shape": [512, 255]}, {"shape": [2**29, 2**29]}])
def test_a_compiled_file_that_nobody_of_ours_has_packed_is_refused(tmp_path, more):
    quantised("s4").with_shapes({"x": [2, 512]}).compile().save_compiled(tmp_path / "m.ogc")
    changed_program(tmp_path / "m.ogc", lambda program, *_: weights_of(program).update(more))
    with pytest.raises(og.GraphFileError, match=r"m\.ogc: is damaged"):
        og.Graph.load_compiled(tmp_path / "m.ogc")


@pytest.mark.parametrize("first", ["u4", "u8"])
def test_a_compiled_file_has_both_where_one_memory_is_both(tmp_path, first):
    """What has a byte for each was read two to a byte, or the other way round."""
    content, graph = np.arange(16, dtype=np.uint8).reshape(4, 4), og.Graph()
    views = {"u8": content, "u4": content.view(ml_dtypes.uint4)}
    held = {
        name: graph.constant(views[name], name=name) for name in sorted(views, key=lambda one: one != first)
    }
    scales = graph.constant(np.ones((4, 4), np.float32), name="scales")
    few = graph.op("DynamicDequantize", held["u4"], scales, qtype="per_group", group_shape=[1, 1])
    more = graph.op("Dequantize", held["u8"], scales=[2.0], zps=[0])
    x = graph.input("x", "f32", [4, 4])
    graph.output(graph.op("Add", x, graph.op("Add", few, more)), name="y")
    graph.compile().save_compiled(tmp_path / "m")
    made = og.Graph.load_compiled(tmp_path / "m")(np.zeros((4, 4), np.float32))["y"]
    np.testing.assert_array_equal(made, content * np.float32(3))


@pytest.mark.parametrize("first", ["u4", "s4"])
def test_a_compiled_file_has_both_where_one_memory_is_with_a_sign_and_without(tmp_path, first):
    content, graph = np.arange(16, dtype=np.uint8).reshape(4, 4), og.Graph()
    types = {"u4": ml_dtypes.uint4, "s4": ml_dtypes.int4}
    held = {
        name: graph.constant(content.view(types[name])) for name in sorted(types, key=lambda n: n != first)
    }
    ones = graph.constant(np.ones(1, np.float32))
    real = [graph.op("DynamicDequantize", held[name], ones) for name in types]
    graph.output(graph.op("Add", graph.input("x", "f32", [4, 4]), graph.op("Subtract", *real)), name="y")
    graph.compile().save_compiled(tmp_path / "m")
    made = og.Graph.load_compiled(tmp_path / "m")(np.zeros((4, 4), np.float32))["y"]
    np.testing.assert_array_equal(made, np.where(content > 7, np.float32(16), np.float32(0)))
