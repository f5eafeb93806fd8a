"""Names that people bring from other libraries: what is accepted, and what the messages advise."""

import errno
import re
import types

import ml_dtypes
import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.ops import errors
from onednn_graph.ops.errors import nearest
from onednn_graph.ops.hints import ARGUMENTS, KINDS

X, W = np.ones((1, 3, 8, 8), np.float32), np.ones((4, 3, 3, 3), np.float32)


def message(error, call):
    with pytest.raises(error) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("Conv", "Convolution"),
        ("conv", "Convolution"),
        ("Conv2d", "Convolution"),
        ("Conv2DTranspose", "ConvTranspose"),
        ("conv_transpose2d", "ConvTranspose"),
        ("convolution", "Convolution"),
        ("Gemm", "MatMul"),
        ("Linear", "MatMul"),
        ("Dense", "MatMul"),
        ("matmul", "MatMul"),
        ("BatchNorm", "BatchNormInference"),
        ("BatchNorm2d", "BatchNormForwardTraining"),
        ("BatchNormalization", "BatchNormInference"),
        ("Softmax", "SoftMax"),
        ("Transpose", "StaticTranspose"),
        ("permute", "StaticTranspose"),
        ("Reshape", "StaticReshape"),
        ("Flatten", "StaticReshape"),
        ("Cast", "TypeCast"),
        ("Relu6", "Clamp"),
        ("Mul", "Multiply"),
        ("MaxPool2d", "MaxPool"),
        ("Convolutoin", "Convolution"),
        ("Gathre", "HostGather"),
    ],
)
def test_kinds_of_other_libraries_lead_to_ours(written, meant):
    graph = og.Graph()
    x = graph.input("x", "f32", [1])
    text = message(og.errors.UnknownOpError, lambda: graph.op(written, x))
    assert "did you mean" in text
    assert f"'{meant}'" in text


def test_every_word_leads_to_a_kind_and_stands_for_no_kind_itself():
    kinds = {schema.kind for schema in og.list_ops()}
    for word, advice in KINDS.items():
        assert {*re.findall(r"\{(\w+)\}", advice)} <= kinds, word
        assert word not in {kind.casefold() for kind in kinds}
    ours = {
        name
        for schema in og.list_ops()
        for p in (schema.inputs, schema.attributes)
        for name in [q.name for q in p]
    }
    assert {name for names in ARGUMENTS.values() for name in names} <= ours


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda: og.convolution(X, W, stride=1), "did you mean 'strides'?"),
        (lambda: og.convolution(X, W, padding=1), "did you mean 'pads_begin' and 'pads_end'?"),
        (lambda: og.convolution(X, W, dilation=1), "did you mean 'dilations'?"),
        (lambda: og.convolution(src=X, weight=W), "did you mean 'weights'?"),
        (lambda: og.max_pool(X, kernel_size=2), "did you mean 'kernel'?"),
        (
            lambda: og.avg_pool(X, count_include_pad=True),
            "did you mean 'exclude_pad', which says the opposite?",
        ),
        (lambda: og.softmax(X, dim=1), "did you mean 'axis'?"),
        (lambda: og.reduce_sum(X, axis=1), "did you mean 'axes'?"),
        (lambda: og.reduce_sum(X, axes=[1], keepdim=True), "did you mean 'keep_dims'?"),
        (lambda: og.layer_norm(X, eps=1e-5), "did you mean 'epsilon'?"),
        (lambda: og.static_transpose(X, perm=[0]), "did you mean 'order'?"),
        (lambda: og.relu(x=X), "did you mean 'src'?"),
    ],
)
def test_arguments_of_other_libraries_are_our_error_and_lead_to_ours(call, hint):
    text = message(TypeError, call)
    assert hint in text
    with pytest.raises(og.OneDNNGraphError):
        call()


@pytest.mark.parametrize("make", ["op", "method", "Op"])
def test_the_builder_refuses_them_alike(make):
    graph = og.Graph()
    x = graph.input("x", "f32", [1, 3, 8, 8])
    y = og.LogicalTensor(9, "f32")

    def call():
        if make == "op":
            graph.op("MaxPool", x, kernel_size=2)
        elif make == "method":
            graph.max_pool(x, kernel_size=2)
        else:
            og.Op(0, "MaxPool", [x], [y], kernel_size=2)

    for error in (og.errors.UnknownAttributeError, TypeError, ValueError, og.errors.AttributeValueError):
        assert "did you mean 'kernel'?" in message(error, call)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("conv2d", "'convolution'"),
        ("Conv2d", "'convolution'"),
        ("relu6", "'clamp' with min=0.0 and max=6.0"),
        ("dense", "'matmul'"),
        ("batch_norm", "'batch_norm_inference'"),
        ("scaled_dot_product_attention", "'softmax'"),
        ("ReLU", "'relu'"),
        ("relv", "'relu'"),
    ],
)
def test_missing_attributes_of_the_module_and_of_graphs(name, hint):
    assert hint in message(AttributeError, lambda: getattr(og, name))
    assert hint in message(AttributeError, lambda: getattr(og.Graph(), name))


def test_what_other_libraries_have_in_their_module():
    assert "(data types are written 'f32' or DataType.f32)" in message(AttributeError, lambda: og.float32)
    assert "'Graph.load' or 'from_onnx'" in message(AttributeError, lambda: og.load)
    assert "'from_onnx(path).compile()'" in message(AttributeError, lambda: og.InferenceSession)
    assert "Graph.compile" in message(AttributeError, lambda: og.compile)
    assert message(AttributeError, lambda: og._conv2d).endswith("'_conv2d'")
    assert message(AttributeError, lambda: og.Graph()._conv2d).endswith("'_conv2d'")
    assert "did you mean 'compile'?" in message(AttributeError, lambda: og.Graph().Compile)


TORCH = type("dtype", (), {"__str__": lambda self: f"torch.{self.word}"})
TENSORFLOW = type("DType", (), {"__str__": lambda self: f"<dtype: '{self.name}'>"})


def framework_dtype(kind, **fields):
    made = kind()
    vars(made).update(fields)
    return made


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("float32", "f32"),
        ("bfloat16", "bf16"),
        ("int64", "s64"),
        ("uint8", "u8"),
        ("bool", "boolean"),
        (np.float16, "f16"),
        (np.dtype("int32"), "s32"),
        (np.dtype(">f4"), "f32"),
        (ml_dtypes.bfloat16, "bf16"),
        (ml_dtypes.float8_e4m3fn, "f8_e4m3"),
        (framework_dtype(TORCH, word="float32"), "f32"),
        (framework_dtype(TORCH, word="float8_e5m2"), "f8_e5m2"),
        (framework_dtype(TENSORFLOW, name="int8"), "s8"),
        (og.DataType.s4, "s4"),
    ],
)
def test_data_types_of_other_libraries(given, meant):
    assert og.LogicalTensor(0, given).data_type is og.DataType(meant)


def test_data_types_where_an_op_or_a_graph_takes_one():
    graph = og.Graph()
    x = graph.input("x", np.float32, [2])
    assert graph.type_cast(x, output_type="bfloat16").data_type is og.DataType.bf16
    assert graph.type_cast(x, output_type=np.float16).data_type is og.DataType.f16
    assert graph.to("bfloat16").outputs[0].data_type is graph.to("bf16").outputs[0].data_type
    torch = pytest.importorskip("torch")
    assert graph.input("t", torch.bfloat16).data_type is og.DataType.bf16


@pytest.mark.parametrize(
    ("word", "meant"), [("float", "f32"), ("half", "f16"), ("FP32", "f32"), ("long", "s64")]
)
def test_words_that_may_mean_two_types_are_asked_back(word, meant):
    assert f"(did you mean '{meant}'?)" in message(og.ArgumentError, lambda: og.LogicalTensor(0, word))


@pytest.mark.parametrize(
    "thing",
    [framework_dtype(TORCH, word="qint8"), types.SimpleNamespace(name="float32"), object(), "string", 1],
)
def test_what_is_no_data_type(thing):
    assert "data_type must be one of" in message(og.OneDNNGraphError, lambda: og.LogicalTensor(0, thing))


@pytest.mark.parametrize("size", [None, "N"])
def test_an_unknown_size_is_minus_one(size):
    text = message(og.ArgumentTypeError, lambda: og.Graph().input("x", "f32", [size, 3]))
    assert "write -1 for a size that is known only at execution" in text
    assert "write -1" not in message(og.ArgumentTypeError, lambda: og.Graph().input("x", "f32", [2.5, 3]))


def test_a_missing_file_is_also_the_systems_error(tmp_path):
    missing = tmp_path / "none.json"
    for call in (
        lambda: og.Graph.load(missing),
        lambda: relu().save(missing / "in" / "it.json"),
        lambda: relu().to_dot(missing / "in" / "it.dot"),
    ):
        for error in (og.errors.MissingFileError, FileNotFoundError, og.GraphFileError, ValueError):
            with pytest.raises(error) as caught:
                call()
        assert caught.value.errno == errno.ENOENT
        assert str(missing) in str(caught.value)
    with pytest.raises(og.errors.FileAccessError) as caught:
        og.Graph.load(tmp_path)
    assert isinstance(caught.value, OSError)
    assert not isinstance(caught.value, FileNotFoundError)
    missing.write_text("{")
    with pytest.raises(og.GraphFileError) as caught:
        og.Graph.load(missing)
    assert not isinstance(caught.value, OSError)


def test_a_missing_model_is_also_the_systems_error(tmp_path):
    pytest.importorskip("onnx")
    with pytest.raises(FileNotFoundError, match="none.onnx"):
        og.from_onnx(tmp_path / "none.onnx")


def relu():
    graph = og.Graph()
    graph.relu(graph.input("x", "f32", [2]))
    return graph


@pytest.mark.parametrize(
    ("pattern", "said"),
    [("uup.weihgt", "up.weight"), ("Dwon", "*down*"), ("nothing like it", None)],
)
def test_a_pattern_is_compared_with_all_names_once(pattern, said, monkeypatch):
    """There may be thousands of them."""
    compared = []

    def counted(name, known):
        compared.append(name)
        return nearest(name, known)

    monkeypatch.setattr(errors, "nearest", counted)
    told = errors.near_pattern(pattern, ["up.weight", "down.weight"])
    assert told == (f" (did you mean '{said}'?)" if said else "")
    assert compared == [pattern]
