"""Small ONNX models, one of each kind of what files have, and inputs for whatever has become of them."""

from functools import cache

import numpy as np
from contrib_rows import TABLES
from onednn_graph.graph.model.numpy_types import NUMPY_TYPES
from onnx_oracle import helper, integers, model_of, normal, numpy_helper, onnx, positive

N = helper.make_node


def _text(*values):
    return np.asarray(values, object)


def _image():
    nodes = [
        N("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
        N("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"]),
        N("Clip", ["n", "low", "high"], ["r"]),
        N("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
        N("Resize", ["p", "", "scales"], ["u"], mode="linear", coordinate_transformation_mode="half_pixel"),
        N("ConvTranspose", ["u", "t"], ["d"], strides=[2, 2], output_padding=[1, 1]),
        N("AveragePool", ["d"], ["a"], kernel_shape=[3, 3], auto_pad="SAME_UPPER"),
        N("Pad", ["a", "pads"], ["q"], mode="reflect"),
        N("GlobalAveragePool", ["q"], ["g"]),
        N("Flatten", ["g"], ["f"]),
        N("Gemm", ["f", "k"], ["h"], transB=1),
        N("Softmax", ["h"], ["y"]),
    ]
    constants = {
        "w": normal(4, 3, 3, 3),
        "b": normal(4),
        "s": normal(4),
        "m": normal(4),
        "v": positive(4),
        "low": np.float32(0),
        "high": np.float32(6),
        "scales": np.asarray([1, 1, 2, 2], np.float32),
        "t": normal(4, 2, 3, 3),
        "pads": np.asarray([0, 0, 1, 1, 0, 0, 1, 1]),
        "k": normal(5, 2),
    }
    return model_of(nodes, {"x": normal(1, 3, 12, 12)}, ["y"], constants, opset=17)


def _attention():
    nodes = [
        N("Shape", ["x"], ["shape"]),
        N("Gather", ["shape", "zero"], ["batch"], axis=0),
        N("Unsqueeze", ["batch", "first"], ["batch1"]),
        N("Concat", ["batch1", "rest"], ["to"], axis=0),
        N("MatMul", ["x", "w"], ["q"]),
        N("Reshape", ["q", "to"], ["h"]),
        N("Transpose", ["h"], ["hq"], perm=[0, 2, 1, 3]),
        N("Transpose", ["h"], ["hk"], perm=[0, 2, 3, 1]),
        N("MatMul", ["hq", "hk"], ["s"]),
        N("Trilu", ["ones"], ["mask"], upper=0),
        N("Where", ["mask", "s", "low"], ["masked"]),
        N("Softmax", ["masked"], ["p"], axis=-1),
        N("MatMul", ["p", "hq"], ["o"]),
        N("ReduceMean", ["o"], ["r"], axes=[2], keepdims=0),
        N("LayerNormalization", ["r", "g"], ["l"], axis=-1),
        N("Split", ["l", "parts"], ["a", "c"], axis=2),
        N("Mul", ["a", "c"], ["y"]),
    ]
    constants = {
        "zero": np.asarray(0),
        "first": np.asarray([0]),
        "rest": np.asarray([4, 2, 4]),
        "w": normal(8, 8),
        "ones": np.ones((4, 4), np.bool_),
        "low": np.float32(-1e9),
        "g": normal(4),
        "parts": np.asarray([2, 2]),
    }
    return model_of(nodes, {"x": normal(2, 4, 8)}, ["y"], constants, opset=17, shapes={"x": ("n", 4, 8)})


def _recurrent():
    nodes = [
        N("LSTM", ["x", "w", "r", "b"], ["h", "last"], hidden_size=3, direction="bidirectional"),
        N("Squeeze", ["last", "axes"], ["l"]),
        N("GRU", ["x", "w2", "r2"], ["", "g"], hidden_size=3, linear_before_reset=1),
        N("TopK", ["l", "k"], ["v", "i"], axis=1),
        N("CumSum", ["v", "axis"], ["c"]),
        N("ScatterElements", ["l", "i", "c"], ["y"], axis=1),
        N("OneHot", ["i", "depth", "values"], ["z"]),
    ]
    constants = {
        "w": normal(2, 12, 2),
        "r": normal(2, 12, 3),
        "b": normal(2, 24),
        "w2": normal(1, 9, 2),
        "r2": normal(1, 9, 3),
        "axes": np.asarray([1]),
        "k": np.asarray([2]),
        "axis": np.asarray(1),
        "depth": np.asarray(3),
        "values": np.asarray([0, 1], np.float32),
    }
    return model_of(nodes, {"x": normal(4, 1, 2)}, ["y", "z", "g"], constants, opset=17)


def _control():
    value, info = helper.make_tensor_value_info, onnx.TensorProto
    body = helper.make_graph(
        [
            N("Add", ["v", "w"], ["v2"]),
            N("ReduceSum", ["v2"], ["sum"], keepdims=0),
            N("Less", ["sum", "most"], ["c2"]),
            N("Identity", ["v2"], ["row"]),
        ],
        "body",
        [value("n", info.INT64, []), value("c", info.BOOL, []), value("v", info.FLOAT, [2])],
        [value("c2", info.BOOL, []), value("v2", info.FLOAT, [2]), value("row", info.FLOAT, [2])],
    )
    then = helper.make_graph([N("Identity", ["last"], ["t"])], "then", [], [value("t", info.FLOAT, [2])])
    least = helper.make_graph([N("Neg", ["last"], ["e"])], "else", [], [value("e", info.FLOAT, [2])])
    nodes = [
        N("Loop", ["trips", "going", "x"], ["last", "rows"], body=body),
        N("ReduceSum", ["rows"], ["total"], keepdims=0),
        N("Greater", ["total", "most"], ["much"]),
        N("If", ["much"], ["y"], then_branch=then, else_branch=least),
        N("NonZero", ["rows"], ["places"]),
        N("SequenceConstruct", ["y", "x"], ["sequence"]),
        N("ConcatFromSequence", ["sequence"], ["z"], axis=0),
    ]
    constants = {
        "w": np.asarray([1, 2], np.float32),
        "most": np.float32(20),
        "trips": np.asarray(9),
        "going": np.asarray(True),
    }
    return model_of(nodes, {"x": np.ones(2, np.float32)}, ["y", "z", "places"], constants, opset=17)


def _quantised():
    nodes = [
        N("QuantizeLinear", ["x", "s", "z"], ["q"]),
        N("DequantizeLinear", ["q", "s", "z"], ["d"]),
        N("DequantizeLinear", ["w", "ws", "wz"], ["dw"], axis=0),
        N("Conv", ["d", "dw"], ["c"]),
        N("QuantizeLinear", ["c", "s", "z"], ["qc"]),
        N("DequantizeLinear", ["qc", "s", "z"], ["y"]),
        N("DynamicQuantizeLinear", ["y"], ["u", "us", "uz"]),
        N("Cast", ["u"], ["i"], to=onnx.TensorProto.FLOAT),
    ]
    constants = {
        "s": np.float32(0.05),
        "z": np.asarray(3, np.uint8),
        "w": integers(2, 2, 1, 1).astype(np.int8),
        "ws": np.asarray([0.1, 0.2], np.float32),
        "wz": np.zeros(2, np.int8),
    }
    return model_of(nodes, {"x": normal(1, 2, 3, 3)}, ["y", "i"], constants, opset=13)


def _trees():
    node = N(
        "TreeEnsembleClassifier",
        ["f"],
        ["label", "scores"],
        domain="ai.onnx.ml",
        nodes_treeids=[0, 0, 0],
        nodes_nodeids=[0, 1, 2],
        nodes_featureids=[1, 0, 0],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
        nodes_values=[0.5, 0.0, 0.0],
        nodes_truenodeids=[1, 0, 0],
        nodes_falsenodeids=[2, 0, 0],
        class_treeids=[0, 0],
        class_nodeids=[1, 2],
        class_ids=[0, 1],
        class_weights=[1.0, 1.0],
        classlabels_strings=["no", "yes"],
    )
    nodes = [
        N("Scaler", ["x"], ["s"], domain="ai.onnx.ml", offset=[1.0], scale=[0.5]),
        N("OneHotEncoder", ["t"], ["o"], domain="ai.onnx.ml", cats_strings=["a", "b"]),
        N("Reshape", ["o", "flat"], ["r"]),
        N("Concat", ["s", "r"], ["f"], axis=1),
        node,
        N("SVMRegressor", ["s"], ["v"], domain="ai.onnx.ml", n_supports=1, coefficients=[1.0], rho=[0.5],
          support_vectors=[1.0, 2.0], kernel_type="RBF", kernel_params=[0.5, 0.0, 3.0]),
        N("LabelEncoder", ["label"], ["code"], domain="ai.onnx.ml", keys_strings=["no", "yes"], values_int64s=[4, 5]),
        N("ZipMap", ["scores"], ["maps"], domain="ai.onnx.ml", classlabels_strings=["no", "yes"]),
    ]  # fmt: skip
    model = model_of(
        nodes, {"x": normal(3, 2)}, ["label", "maps", "code", "v"], {"flat": np.asarray([-1, 2])}, opset=17
    )
    model.graph.input.append(helper.make_tensor_value_info("t", onnx.TensorProto.STRING, [3, 1]))
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    return model


def _functions():
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    inner = helper.make_function(
        "own", "scaled", ["a"], ["b"], [N("Mul", ["a", "a"], ["m"]), N("Elu", ["m"], ["b"])], imports
    )
    inner.attribute.append("alpha")
    inner.node[1].attribute.add(name="alpha", ref_attr_name="alpha", type=onnx.AttributeProto.FLOAT)
    outer = helper.make_function(
        "own", "twice", ["a"], ["c"],
        [N("scaled", ["a"], ["b"], domain="own", alpha=0.5), N("scaled", ["b"], ["c"], domain="own", alpha=2.0)],
        imports,
    )  # fmt: skip
    constant = N("Constant", [], ["k"], value=numpy_helper.from_array(integers(2, 3)))
    nodes = [
        constant,
        N("twice", ["x"], ["h"], domain="own"),
        N("Einsum", ["h", "k"], ["y"], equation="ij,kj->ik"),
    ]
    model = model_of(nodes, {"x": normal(2, 3)}, ["y"], opset=17, functions=[inner, outer])
    model.opset_import.append(helper.make_opsetid("own", 1))
    return model


def _texts():
    nodes = [
        N("StringNormalizer", ["t"], ["n"], case_change_action="LOWER", stopwords=["b"]),
        N("Unique", ["i"], ["u", "", "", "counts"]),
        N("Cast", ["u"], ["f"], to=onnx.TensorProto.FLOAT),
        N("Range", ["start", "end", "step"], ["r"]),
        N("Expand", ["r", "shape"], ["e"]),
        N("Tile", ["e", "repeats"], ["y"]),
        N("ConstantOfShape", ["shape"], ["c"], value=numpy_helper.from_array(np.asarray([2.5], np.float32))),
        N("GatherND", ["c", "places"], ["g"]),
    ]
    constants = {
        "start": np.asarray(0),
        "end": np.asarray(6),
        "step": np.asarray(2),
        "shape": np.asarray([2, 3]),
        "repeats": np.asarray([2, 1]),
        "places": np.asarray([[0, 1], [1, 2]]),
    }
    model = model_of(nodes, {"i": np.asarray([3, 1, 3])}, ["n", "f", "y", "g", "counts"], constants, opset=17)
    model.graph.input.append(helper.make_tensor_value_info("t", onnx.TensorProto.STRING, [3]))
    return model


def _outside():
    model = model_of([N("Add", ["x", "w"], ["y"])], {"x": integers(3)}, ["y"], {"w": integers(3)}, opset=17)
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in {"location": "w.bin", "offset": "0", "length": "12"}.items():
        tensor.external_data.add(key=key, value=value)
    return model


@cache
def seeds():
    """Models by name, as bytes."""
    makers = {
        "image": _image,
        "attention": _attention,
        "recurrent": _recurrent,
        "control": _control,
        "quantised": _quantised,
        "trees": _trees,
        "functions": _functions,
        "texts": _texts,
        "outside": _outside,
    }
    rows = {row.kind: row for table in reversed(TABLES) for row in reversed(list(table()))}
    del rows["Inverse"]  # which a matrix of ones has none of
    # How many keys there are must be a number that fits the other inputs.
    caches = rows["GroupQueryAttention"]
    caches.constants = (*caches.constants, "e", "t")
    makers |= {f"onnxruntime's {kind}": lambda row=row: row.model()[0] for kind, row in rows.items()}
    return {name: make().SerializeToString() for name, make in makers.items()}


def feeds_of(inputs):
    """Something for each input of a graph: ones, and text where a type is none of a graph's."""
    found = {}
    for tensor in inputs:
        shape = [size if 0 <= size < 64 else 2 for size in tensor.shape or ()]
        if tensor.data_type.value == "undef":
            found[tensor.name] = np.full(shape or [3, 1], "a", object)
        else:
            found[tensor.name] = np.ones(shape, NUMPY_TYPES[tensor.data_type])
    return found
