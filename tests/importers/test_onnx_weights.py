"""Large weights of an ONNX file, which are read apart, are what ONNX's package reads."""

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.graph.onnx import weights
from onednn_graph.graph.onnx.reading import read_model
from onnx_oracle import helper, model_of, numpy_helper, onnx

COUNT = 20_000
"""Elements of a large tensor: of one byte each, it is read apart in tests."""
LIMIT = 1 << 30


@pytest.fixture(autouse=True)
def small_is_large(monkeypatch):
    monkeypatch.setattr(weights, "LARGE", 1024)


def drawn(dtype, seed=0):
    return np.random.default_rng(seed).integers(0, 2, (100, COUNT // 100)).astype(dtype)


def model(arrays, opset=18, **more):
    """Sums of all constants, each cast to f32, and of a small one."""
    nodes = [helper.make_node("Cast", [name], [f"{name}.f"], to=1) for name in arrays]
    nodes.append(helper.make_node("Sum", ["x", "small", *(f"{name}.f" for name in arrays)], ["y"]))
    constants = {**arrays, "small": np.ones(1, np.float32)}
    return model_of(nodes, {"x": np.zeros(1, np.float32)}, ["y"], constants, opset=opset, **more)


def written(tmp_path, proto):
    path = tmp_path / "m.onnx"
    content = proto if isinstance(proto, bytes) else proto.SerializeToString()
    path.write_bytes(content)
    return str(path), content


def check_same(path, content):
    """A file, and its bytes, which are read by the package alone."""
    found, wanted = read_model(path, LIMIT), read_model(content, LIMIT)
    assert found.proto.SerializeToString() == wanted.proto.SerializeToString()
    assert found.constants.keys() == wanted.constants.keys()
    for name, array in wanted.constants.items():
        assert found.constants[name].dtype == array.dtype
        np.testing.assert_array_equal(found.constants[name], array)


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"])
def test_weights_are_those_that_the_package_reads(tmp_path, dtype):
    path, content = written(tmp_path, model({"a": drawn(dtype), "b": drawn(dtype, 1)}))
    light, large = weights.light_and_large(path, onnx)
    assert large.keys() == {"a", "b"}
    assert len(light.SerializeToString()) < 1024
    check_same(path, content)
    compiled = og.from_onnx(path).compile()
    wanted = og.from_onnx(content).compile()
    x = np.float32([3])
    np.testing.assert_array_equal(compiled(x)["y"], wanted(x)["y"])


def test_what_is_unusual_is_read_by_the_package(tmp_path):
    usual = model({"a": drawn("f4")}).SerializeToString()
    twice = model({"a": drawn("f4")})
    twice.graph.initializer.add().CopyFrom(twice.graph.initializer[0])
    floats = model({"a": drawn("f4")})
    tensor = floats.graph.initializer[0]
    tensor.float_data.extend(drawn("f4").reshape(-1))
    tensor.ClearField("raw_data")
    short = model({"a": drawn("f4")})
    short.graph.initializer[0].dims[0] += 1
    text = model({"a": drawn("f4")})
    text.graph.initializer[0].data_type = onnx.TensorProto.STRING
    bits = model({"a": drawn("u1")})
    bits.graph.initializer[0].data_type = onnx.TensorProto.INT4
    bits.graph.initializer[0].dims[0] *= 2
    empty = onnx.ModelProto(ir_version=8).SerializeToString()
    padding = onnx.ModelProto(doc_string="x" * 5000).SerializeToString()
    for proto in (
        usual + usual,
        twice,
        floats,
        short,
        text,
        bits,
        empty,
        padding,
        usual[:-7],
        b"\x0b" * 5000,
    ):
        path, _ = written(tmp_path, proto)
        assert weights.light_and_large(path, onnx) is None


@pytest.mark.parametrize("cut", [1, 3000, 79_000])
def test_a_file_that_is_cut_off_is_told_as_ever(tmp_path, cut):
    path, content = written(tmp_path, model({"a": drawn("f4")}).SerializeToString()[:-cut])
    for given in (path, content):
        with pytest.raises(og.ArgumentError, match="is no ONNX model"):
            og.from_onnx(given)


def test_old_models_are_converted_with_their_weights(tmp_path):
    """By ONNX's converter, which looks at them."""
    node = helper.make_node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"], is_test=1, spatial=1)
    constants = {name: drawn("f4").reshape(-1)[:500] + 1 for name in "sbmv"}
    x = np.ones((1, 500, 2), np.float32)
    proto = model_of([node], {"x": x}, ["y"], constants, opset=6)
    path, content = written(tmp_path, proto)
    assert weights.light_and_large(path, onnx) is not None
    np.testing.assert_array_equal(
        og.from_onnx(path).compile()(x)["y"], og.from_onnx(content).compile()(x)["y"]
    )


def test_weights_of_other_files_are_read_too(tmp_path):
    proto = model({"a": drawn("f4"), "b": drawn("f4", 1)})
    for tensor in proto.graph.initializer:
        if tensor.name == "b":
            onnx.external_data_helper.set_external_data(tensor, "b.bin")
            (tmp_path / "b.bin").write_bytes(tensor.raw_data)
            tensor.ClearField("raw_data")
    path, _ = written(tmp_path, proto)
    constants = read_model(path, LIMIT).constants
    np.testing.assert_array_equal(constants["a"], drawn("f4"))
    np.testing.assert_array_equal(constants["b"], drawn("f4", 1))


def test_numbers_on_the_wire(tmp_path):
    """Lengths of one to four bytes, and fields that nobody knows."""
    for size in (1100, 20_000, 3_000_000):
        proto = model({"a": np.zeros(size, np.uint8)})
        unknown = bytes([15 << 3 | 0, 5, 15 << 3 | 1, *bytes(8), 15 << 3 | 5, *bytes(4)])
        path, content = written(tmp_path, proto.SerializeToString() + unknown)
        assert weights.light_and_large(path, onnx) is not None
        check_same(path, content)
    assert numpy_helper.to_array(proto.graph.initializer[0]).size == size
