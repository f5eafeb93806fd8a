"""Each kind of op as a model of ONNX: our own importer and, where it is installed, onnxruntime run it as NumPy does."""

import importlib.util

import ml_dtypes
import numpy as np
import onednn_graph as og
import onnx
import pytest
from attrs import evolve
from onednn_graph.graph.onnx_export.exporter import model_of
from onednn_graph.graph.onnx_export.table import TABLE
from onednn_graph.ops.registry import REGISTRY
from op_calls import EXAMPLES
from rows import each

RUNTIME = importlib.util.find_spec("onnxruntime") is not None
NOT_IN_RUNTIME = ("float64", "bfloat16", "uint4", "int4")
"""Types of which onnxruntime lacks many kernels on CPUs."""


def ours(model, feeds):
    return list(og.from_onnx(model).compile(backend="numpy")(feeds).values())


def theirs(model, feeds):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, feeds)


def check(graph, arrays, *, tolerance=1e-5):
    """Holds the exported graph against NumPy's kernels."""
    model = model_of(graph)
    onnx.checker.check_model(model, full_check=True)
    want = graph.compile(backend="numpy")(dict(zip(graph.input_names, arrays, strict=True)))
    assert [info.name for info in model.graph.input] == list(graph.input_names)
    assert [info.name for info in model.graph.output] == list(graph.output_names)
    feeds = {info.name: array for info, array in zip(model.graph.input, arrays, strict=True)}
    types = {str(a.dtype) for a in (*arrays, *want.values())}
    runs = [ours]
    if RUNTIME and not types.intersection(NOT_IN_RUNTIME):
        runs.append(theirs)
    for run in runs:
        for got, expected in zip(run(model, feeds), want.values(), strict=True):
            got, expected = np.asarray(got), np.asarray(expected)
            assert got.dtype == expected.dtype
            assert got.shape == expected.shape
            room = max(tolerance, {2: 1e-2}.get(expected.dtype.itemsize, 0)) if got.dtype.kind in "fV" else 0
            np.testing.assert_allclose(
                got.astype(np.float64),
                expected.astype(np.float64),
                rtol=room,
                atol=room,
                err_msg=run.__name__,
            )


def test_what_has_no_writer_belongs_to_training_or_files():
    kinds = {s.kind for s in REGISTRY.host} | {s.kind for s in REGISTRY if s.family != "custom"}
    lacking = kinds - TABLE.keys()
    other = {"End", "Wildcard", "Dropout", "BatchNormForwardTraining", "BatchNormTrainingBackward"}
    other |= {"HostMeanStart", "HostMeanEnd", "HostRankSum", "HostRankWeight", "HostSGD", "HostAdam"}
    other |= {"HostMaxPoolGather", "HostUpdate", "HostCTC", "HostCTCCurvature", "HostGradientScale"}
    other |= {"HostGroupedMatMul", "HostGroupedMatMulWeights", "HostErfInv", "HostGcd"}
    other |= {"HostLogGamma", "HostPolygamma"}
    assert {kind for kind in lacking if "Backward" not in kind} <= other


@pytest.mark.parametrize(
    ("kind", "number"),
    [(kind, n) for kind, examples in EXAMPLES.items() if kind in TABLE for n in range(len(examples))],
)
def test_examples_of_the_op_set(kind, number):
    example = EXAMPLES[kind][number]
    op, graph = example.op(outputs=example.outputs), og.Graph()
    inputs = list(op.inputs)
    for at, values in example.values.items():  # shape operands are constants of a model
        inputs[at] = evolve(inputs[at], property_type=og.PropertyType.constant)
        graph.add_constant(inputs[at], np.asarray(values, np.int32))
    graph.add_op(op.with_tensors(inputs, op.outputs))
    if len([size for size in example.attributes.get("group_shape", ()) if size > 1]) > 1:
        with pytest.raises(og.UnsupportedError, match="groups along several axes"):
            model_of(graph)
        return
    check(graph, [a for at, a in enumerate(example.arrays()) if at not in example.values])


def grown(build, *inputs):
    graph = og.Graph()
    tensors = [graph.input(f"x{n}", a.dtype, a.shape) for n, a in enumerate(inputs)]
    made = build(graph, *tensors)
    for n, one in enumerate(made if isinstance(made, tuple | list) else [made]):
        graph.output(one, name=f"y{n}")
    return graph


def reals(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng([seed, *shape]).uniform(-2, 2, shape).astype(dtype)


def whole(*shape, low=-9, high=9, dtype=np.int32):
    return np.random.default_rng(list(shape)).integers(low, high, shape).astype(dtype)


X = reals(2, 3, 5, 4)
ABOVE = ("HostAcosh", "HostLog10", "HostLog2")  # of numbers above 1, or 0
NAN = np.array([np.nan, np.inf, -np.inf, 0, -0.0, 1.5, -1.5, 2.5], np.float32)
TINY = np.array([1e-7, -1e-7, 1e-3, -0.4, 0.6, 3, -0.999, 20, 80], np.float32)
B16 = ml_dtypes.bfloat16
I8 = whole(3, 4, low=-128, high=127, dtype=np.int8)


@each(
    ("build", "inputs"),
    [
        *[
            (lambda g, x, kind=kind: g.op(kind, x), [reals(4, 3) * 0.4 + (1.9 if kind in ABOVE else 0)])
            for kind in sorted(TABLE)
            if kind in {s.kind for s in REGISTRY.host}
            and [p.name for p in REGISTRY.resolve(kind)[0].inputs] == ["src"]
            and not REGISTRY.resolve(kind)[0].attributes
            and kind not in ("HostCast", "HostNot", "HostAbs", "HostSign")
        ],
        (lambda g, x: [g.op(k, x) for k in ("HostExpm1", "HostLog1p")], [TINY]),
        (lambda g, x: [g.op(k, x) for k in ("HostIsNaN", "HostIsInf", "HostTrunc", "Round")], [NAN]),
        (lambda g, x: [g.op(k, x) for k in ("HostNot", "HostAbs", "HostSign")], [whole(7)]),
        (lambda g, x: g.op("HostNot", x), [NAN > 0]),
        (lambda g, x: g.op("HostCast", x, output_type="s32"), [np.array([1.9, -1.9, 0.5, -7], np.float32)]),
        (lambda g, x: g.op("HostCast", x, output_type="f32"), [I8]),
        (lambda g, x: g.op("HostCast", x, output_type="boolean"), [I8]),
        *[
            (lambda g, x, y, kind=kind: g.op(kind, x, y), [whole(6), whole(6, low=1)])
            for kind in ("HostAdd", "HostSubtract", "HostMultiply", "HostMaximum", "HostMinimum", "HostEqual")
        ],
        *[
            (lambda g, x, y, kind=kind: g.op(kind, x, y), [NAN, NAN[::-1].copy()])
            for kind in ("HostEqual", "HostNotEqual", "HostGreater", "HostGreaterEqual")
        ],
        *[
            (lambda g, x, y, kind=kind: g.op(kind, x, y), operands)
            for kind in ("HostAnd", "HostOr", "HostXor")
            for operands in ([whole(6), whole(6)[::-1].copy()], [NAN > 0, NAN[::-1] > 0])
        ],
        *[
            (lambda g, x, y, r=r: g.op("HostDivide", x, y, rounding=r), operands)
            for r in ("zero", "down")
            for operands in (
                [np.array([7, -7, 7, -7, 6, -6, 0]), np.array([2, 2, -2, -2, 3, 3, -3])],
                [np.array([7, -7, 7.5, -7.5], np.float32), np.array([2, 2, -2, -2], np.float32)],
            )
        ],
        *[
            (lambda g, x, y, d=d: g.op("HostModulo", x, y, of_dividend=d), operands)
            for d in (True, False)
            for operands in (
                [np.array([7, -7, 7, -7, 6, -6, 0]), np.array([2, 2, -2, -2, 3, 3, -3])],
                [np.array([7, -7, 7.5, -7.5, 4, -4], np.float32), np.array([2, 2, -2, -2, 2, 2], np.float32)],
            )
        ],
        (
            lambda g, x, y: g.op("HostAtan2", x, y),
            [
                np.array([1, 1, -1, -1, 0, 0, 2, -2, 0], np.float32),
                np.array([1, -1, 1, -1, 1, -1, 0, 0, 0], np.float32),
            ],
        ),
        (lambda g, x, y: g.op("HostPower", x, y), [np.abs(X), reals(4)]),
        (lambda g, c, x, y: g.op("HostSelect", c, x, y), [whole(3, 1) > 0, whole(3, 4), whole(4)]),
        (lambda g, x: g.op("HostSlice", x, axes=[1, -1], starts=[2, 3], stops=[0, -9], steps=[-1, -2]), [X]),
        (lambda g, x: g.op("HostSlice", x, axes=[0], starts=[-1], stops=[9], steps=[1]), [I8]),
        *[
            (
                lambda g, x, m=m: g.op(
                    "HostPad", x, pads_begin=[0, 1, 2, 0], pads_end=[0, 1, 0, 3], mode=m, value=7
                ),
                [X],
            )
            for m in ("constant", "edge", "reflect", "wrap")
        ],
        (lambda g, x: g.op("HostExpand", x, shape=[2, -1, 4]), [reals(3, 1)]),
        (lambda g, x, y: g.op("HostExpandTo", x, y), [reals(3, 1), reals(2, 3, 4)]),
        (lambda g, x, y: g.op("HostSumTo", x, y), [reals(2, 3, 4), reals(3, 1)]),
        (lambda g, x: g.op("HostReshape", x, shape=[0, -1], special_zero=True), [whole(2, 3, 4)]),
        (lambda g, x: g.op("HostTranspose", x, order=[2, 0, 1]), [whole(2, 3, 4)]),
        (lambda g, x: g.op("StaticTranspose", x, order=[]), [reals()]),
        (lambda g, x, y: g.op("HostConcat", x, y, axis=-1), [whole(2, 3), whole(2, 4)]),
        (lambda g, x, i: g.op("HostGather", x, i, axis=1), [X, np.array([[2, -1], [0, 1]])]),
        (
            lambda g, x, i: g.op("HostGatherElements", x, i, axis=-1),
            [reals(2, 4), np.array([[3, -1], [0, 0]])],
        ),
        (
            lambda g, x, i: g.op("HostGatherND", x, i, batch_dims=1),
            [reals(2, 4, 3), np.array([[[3, 1]], [[0, -1]]], np.int32)],
        ),
        *[
            (
                lambda g, x, i, u, r=r, a=a: g.op("HostScatterND", x, i, u, axis=a, reduction=r),
                [reals(3, 3), np.array([[1], [1], [2]]), reals(3, 3)],
            )
            for r, a in (("none", 0), ("none", 1), ("add", 1), ("mul", 0), ("max", 1), ("min", 0))
        ],
        *[
            (
                lambda g, x, i, u, r=r: g.op("HostScatterElements", x, i, u, axis=0, reduction=r),
                [reals(4, 3), np.array([[1, -1, 1]]), reals(1, 3)],
            )
            for r in ("none", "add", "mul", "max", "min")
        ],
        *[
            (
                lambda g, x, c, m=m, p=p, a=a: g.op(
                    "HostGridSample", x, c, mode=m, padding_mode=p, align_corners=a
                ),
                [X, reals(2, 3, 3, 2) * 0.6],
            )
            for m in ("linear", "nearest", "cubic")
            for p in ("zeros", "border", "reflection")
            for a in (True, False)
        ],
        (lambda g, x: g.op("HostTopK", x, axis=1, k=2, largest=False), [X]),
        (lambda g, x: g.op("HostTopK", x, axis=-1, k=3), [whole(3, 7, dtype=np.int64)]),
        *[
            (
                lambda g, x, kind=kind: g.op(kind, x, axes=[0, -1], keep_dims=False),
                [whole(2, 3, 4, low=1, high=4)],
            )
            for kind in ("HostReduceMax", "HostReduceMin", "HostReduceProd", "HostReduceSum")
        ],
        (lambda g, x: [g.op(k, x, axes=[]) for k in ("ReduceL1", "ReduceL2", "ReduceSum")], [X]),
        *[
            (lambda g, x, e=e, r=r: g.op("HostCumSum", x, axis=1, exclusive=e, reverse=r), [values])
            for e, r in ((True, False), (False, True), (False, False))
            for values in (X, I8 // 8)
        ],
        *[
            (
                lambda g, x, last=last: [
                    g.op(k, x, axis=1, keep_dims=False, last=last) for k in ("HostArgMax", "HostArgMin")
                ],
                [whole(3, 9, low=0, high=3, dtype=np.float32)],
            )
            for last in (True, False)
        ],
    ],
)
def test_ops_of_our_own(build, inputs):
    check(grown(build, *inputs), inputs, tolerance=2e-5)


CONV = {"strides": [2, 1], "pads_begin": [1, 0], "pads_end": [0, 2], "dilations": [1, 2]}


@each(
    ("kind", "data", "weights", "attributes"),
    [
        (
            "Convolution",
            (2, 4, 9, 8),
            (6, 2, 3, 2),
            {"data_format": "NCX", "weights_format": "OIX", "groups": 2},
        ),
        (
            "Convolution",
            (2, 9, 8, 4),
            (3, 2, 2, 6),
            {"data_format": "NXC", "weights_format": "XIO", "groups": 2},
        ),
        (
            "ConvTranspose",
            (2, 4, 5, 6),
            (4, 3, 3, 2),
            {"data_format": "NCX", "weights_format": "IOX", "groups": 2},
        ),
        (
            "ConvTranspose",
            (2, 4, 5, 6),
            (2, 6, 3, 2),
            {"data_format": "NCX", "weights_format": "IOX", "groups": 2},
        ),
        (
            "ConvTranspose",
            (2, 5, 6, 4),
            (3, 2, 3, 4),
            {"data_format": "NXC", "weights_format": "XOI", "output_padding": [1, 0]},
        ),
    ],
)
@each(
    ("held", "auto_pad"),
    [(True, "None"), (False, "None"), (True, "SAME_UPPER"), (True, "SAME_LOWER"), (False, "VALID")],
)
def test_convolutions_of_every_format(kind, data, weights, attributes, held, auto_pad):
    if kind == "ConvTranspose" and auto_pad != "None" and "output_padding" in attributes:
        attributes = {name: value for name, value in attributes.items() if name != "output_padding"}
    w = whole(*weights, low=-3, high=4, dtype=np.float32)
    x = whole(*data, low=-3, high=4, dtype=np.float32)
    graph = og.Graph()
    src = graph.input("x", "f32", data)
    by = graph.constant(w, name="w") if held else graph.input("w", "f32", weights)
    graph.output(graph.op(kind, src, by, **CONV, **attributes, auto_pad=auto_pad), name="y")
    check(graph, [x] if held else [x, w])


@each(("kind", "exclude"), [("MaxPool", None), ("AvgPool", True), ("AvgPool", False)])
@each(
    ("rounding", "begin", "end"),
    [
        ("floor", [1, 0], [0, 1]),
        ("ceil", [1, 1], [1, 0]),
        ("ceil", [0, 0], [0, 0]),
        ("floor", [-1, 0], [0, -2]),
    ],
)
@pytest.mark.parametrize("data_format", ["NCX", "NXC"])
def test_poolings(kind, exclude, rounding, begin, end, data_format):
    if exclude is False and min(*begin, *end) < 0:
        exclude = True
    attributes = {"strides": [2, 3], "kernel": [3, 2], "pads_begin": begin, "pads_end": end}
    attributes |= {} if exclude is None else {"exclude_pad": exclude}
    x = whole(2, *((8, 9, 3) if data_format == "NXC" else (3, 8, 9)), dtype=np.float32)
    check(
        grown(lambda g, t: g.op(kind, t, **attributes, rounding_type=rounding, data_format=data_format), x),
        [x],
    )


def test_a_part_that_is_written_as_a_pooling_becomes_a_slice():
    x = reals(2, 3, 8, 9)
    attributes = {
        "strides": [2, 1],
        "kernel": [1, 1],
        "pads_begin": [-1, 0],
        "pads_end": [0, -2],
        "data_format": "NCX",
    }
    graph = grown(lambda g, t: g.op("MaxPool", t, **attributes), x)
    assert [node.op_type for node in model_of(graph).graph.node] == ["Slice"]
    check(graph, [x])


@each(
    ("mode", "sizes", "shape"),
    [
        ("nearest", [10, 7], (2, 3, 5, 4)),
        ("bilinear", [3, 9], (2, 3, 5, 4)),
        ("linear", [7], (2, 3, 5)),
        ("nearest", [3, 4, 5], (1, 2, 2, 3, 4)),
        ("trilinear", [3, 4, 5], (1, 2, 2, 3, 4)),
    ],
)
@each(
    ("how", "data_format"),
    [("half_pixel", "NCX"), ("align_corners", "NXC"), ("half_pixel", "NXC"), ("align_corners", "NCX")],
)
def test_resizing(mode, sizes, shape, how, data_format):
    x = reals(*shape)
    attributes = {
        "mode": mode,
        "sizes": sizes,
        "coordinate_transformation_mode": how,
        "data_format": data_format,
    }
    if data_format == "NXC":
        x = np.moveaxis(x, 1, -1).copy()
    check(grown(lambda g, t: g.op("Interpolate", t, **attributes), x), [x], tolerance=1e-4)


@each(
    ("a", "b", "flags"),
    [
        ((2, 3, 4), (2, 4, 5), (False, False)),
        ((2, 4, 3), (5, 4), (True, True)),
        ((4,), (4, 5), (True, False)),
        ((3, 4), (4,), (False, True)),
        ((4,), (4,), (False, False)),
    ],
)
@each(
    ("held", "kind", "result"),
    [
        (True, "f32", "f32"),
        (False, "f32", "f32"),
        (True, "bf16", "f32"),
        (False, "bf16", "bf16"),
        (True, "f16", "f16"),
    ],
)
def test_products_of_matrices(a, b, flags, held, kind, result):
    x = whole(*a, low=-3, high=4).astype(
        kind.replace("bf16", "bfloat16").replace("f32", "float32").replace("f16", "float16")
        if kind != "bf16"
        else B16
    )
    w = whole(*b, low=-3, high=4).astype(x.dtype)
    graph = og.Graph()
    src = graph.input("x", kind, a)
    by = graph.constant(w, name="w") if held else graph.input("w", kind, b)
    made = graph.op("MatMul", src, by, transpose_a=flags[0], transpose_b=flags[1], output_type=result)
    graph.output(made, name="y")
    check(graph, [x] if held else [x, w])


@pytest.mark.parametrize("kind", ["Convolution", "MaxPool", "Mish", "Round", "SoftPlus", "LayerNorm", "Add"])
def test_bf16_stays_at_the_borders_where_onnx_has_no_such_op(kind):
    x = whole(1, 2, 6, 6).astype(B16)
    attributes = {
        "Convolution": {
            "strides": [1, 1],
            "pads_begin": [0, 0],
            "pads_end": [0, 0],
            "dilations": [1, 1],
            "data_format": "NCX",
            "weights_format": "OIX",
        },
        "MaxPool": {
            "strides": [2, 2],
            "kernel": [2, 2],
            "pads_begin": [0, 0],
            "pads_end": [0, 0],
            "data_format": "NCX",
        },
        "LayerNorm": {"keep_stats": False, "use_affine": False},
    }.get(kind, {})
    graph = og.Graph()
    operands = [graph.input("x", "bf16", x.shape)]
    if kind == "Convolution":
        operands.append(graph.constant(whole(3, 2, 3, 3).astype(B16), name="w"))
    if kind == "Add":
        operands.append(graph.constant(whole(6).astype(B16), name="w"))
    graph.output(graph.op(kind, *operands, **attributes), name="y")
    check(graph, [x])


# --- quantisation ----------------------------------------------------------------------------------------


@each(
    ("scales", "zps", "qtype"),
    [
        ([0.25], [4], "per_tensor"),
        ([0.25], [], "per_tensor"),
        ([0.25, 0.5, 2.0], [0, 2, -4], "per_channel"),
        ([0.5], [300], "per_tensor"),
        ([0.5, 0.25, 1.0], [300, 2, 0], "per_channel"),
    ],
)
@pytest.mark.parametrize("kind", ["s8", "u8"])
def test_quantisation(scales, zps, qtype, kind):
    x = whole(2, 3, 4, low=-200, high=200, dtype=np.float32) / 8  # even zero points: halves go the same way
    attributes = {"scales": scales, "zps": zps, "qtype": qtype, "axis": 1}

    def build(g, t):
        if kind == "u8" and min(zps, default=0) < 0:
            attributes["zps"] = [abs(z) for z in zps]
        q = g.op("Quantize", t, output_type=kind, **attributes)
        return q, g.op("Dequantize", q, **attributes)

    check(grown(build, x), [x])


@each(
    ("values", "scales", "zps", "attributes"),
    [
        (I8, np.array([0.5], np.float32), np.array([3], np.int8), {"qtype": "per_tensor"}),
        (I8, np.array([0.5], np.float32), np.array([300], np.int32), {"qtype": "per_tensor"}),
        (I8, np.array([0.5, 1, 2, 4], np.float32), None, {"qtype": "per_channel", "axis": 1}),
        (
            I8,
            np.array([0.5, 1, 2, 4], np.float32),
            np.array([5], np.int8),
            {"qtype": "per_channel", "axis": 1},
        ),
        (
            I8,
            np.array([0.5, 1, 2], np.float32),
            np.array([5, 7, 900], np.int32),
            {"qtype": "per_channel", "axis": 0},
        ),
        (
            I8,
            np.arange(1, 7, dtype=np.float32).reshape(3, 2),
            np.ones((3, 2), np.int8),
            {"qtype": "per_group", "group_shape": [1, 2]},
        ),
    ],
)
@pytest.mark.parametrize("held", [True, False])
def test_scales_that_are_inputs(values, scales, zps, attributes, held):
    graph = og.Graph()
    given = [a for a in (scales, zps) if a is not None]
    src = graph.input("x", values.dtype, values.shape)
    others = [
        graph.constant(a, name=f"c{n}") if held else graph.input(f"c{n}", a.dtype, a.shape)
        for n, a in enumerate(given)
    ]
    graph.output(graph.op("DynamicDequantize", src, *others, **attributes), name="y")
    check(graph, [values] if held else [values, *given])
