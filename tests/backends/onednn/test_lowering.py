"""Lowerings onto oneDNN's primitives against the NumPy kernels: every op, and chains that are fused."""

import random

import numpy as np
import onednn_graph as og
import pytest
from error_bounds import UNIT, beyond, bounded, check, check_graph, rounded
from hypothesis import given
from hypothesis import strategies as st
from onednn_graph.backends.numpy.kernels import KERNELS
from onednn_graph.backends.onednn.library.loading import load
from onednn_graph.backends.onednn.lowering.table import LOWERED
from onednn_graph.backends.onednn.rules.features import WITHOUT_VNNI
from op_calls import EXAMPLES
from random_graphs import ANCHORS, arrays_for, random_graph
from rows import each
from strategies import SETTINGS, has_isa

NOT_HERE = {
    "GenIndex",
    "GreaterEqual",
    "Log",
    "Select",
    "Dropout",
    "End",
    "Wildcard",
}
"""Ops that library 3.2 has no primitive for, or one that loses digits."""
VIEWS = {"HostSlice", "HostStopGradient"}
"""Ops of the host family that need none, for they see memory in another way."""
IMPRECISE = {"SoftMax": {"roundings": 2}}
"""The library's softmax keeps exponentials in the result's type."""


def test_the_table_covers_the_op_set():
    assert set(LOWERED) - VIEWS | NOT_HERE == {schema.kind for schema in og.list_ops()}
    assert not set(LOWERED) & NOT_HERE


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("stats", [True, False])
@pytest.mark.parametrize(
    ("data_format", "shape"),
    [("NCX", (2, 12, 5, 7)), ("NXC", (2, 5, 7, 12)), ("NCX", (3, 8, 6)), ("NXC", (2, 40, 50, 8))],
)
def test_group_normalization(onednn, data_format, shape, affine, stats):
    """The same numbers as NumPy's, by the library's kernel for images channels-last where it has that, else by rows."""
    channels = shape[1] if data_format == "NCX" else shape[-1]
    rng = np.random.default_rng(0)
    given = [rng.integers(-3, 4, shape).astype("f4")]
    given += [rng.integers(1, 4, channels).astype("f4") for _ in range(2 * affine)]
    more = {"groups": 4, "keep_stats": stats, "use_affine": affine, "data_format": data_format}
    want = og.run_op("GroupNorm", given, more, backend="numpy")
    got = og.run_op("GroupNorm", given, more, backend="onednn")
    for one, other in zip(*(x if isinstance(x, list | tuple) else [x] for x in (got, want)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


@each(
    "data_format, shape, times",
    [
        ("NCX", (2, 16, 5, 7), (2, 2)),
        ("NXC", (2, 5, 7, 16), (2, 3)),
        ("NXC", (1, 3, 4, 5, 16), (2, 2, 2)),
    ],
)
def test_the_gradient_of_repeated_elements_is_no_loop(onednn, data_format, shape, times):
    """Sums of what became of each element: on the library's fast kernels, not on one that goes through elements."""
    first = 2 if data_format == "NCX" else 1
    axes = range(first, first + len(times))
    large = [size * (times[axis - first] if axis in axes else 1) for axis, size in enumerate(shape)]
    values = np.random.default_rng(0).integers(-2, 3, large).astype(np.float32)
    graph = og.Graph()
    x, given = graph.input("x", "f32", shape), graph.input("given", "f32", large)
    more = {"mode": "nearest", "data_format": data_format, "sizes": [large[axis] for axis in axes]}
    graph.output(graph.op("InterpolateBackward", x, given, **more), name="y")
    model = graph.compile()
    found = model({"x": np.zeros(shape, np.float32), "given": values})["y"]
    (explanation,) = model.explain().values()
    if has_isa("avx512_core"):  # others have no pooling of channels that come first
        assert "simple" not in str(explanation.implementations)
    exact = values
    for axis, count in zip(axes, times, strict=True):
        exact = sum(np.take(exact, range(start, exact.shape[axis], count), axis) for start in range(count))
    np.testing.assert_array_equal(found, exact)


def compiled(example, dtype, backend):
    """The example's op, with floating-point tensors of `dtype`, on a backend."""
    graph = og.Graph()
    ports = og.op_schema(example.kind).input_ports(len(example.inputs))
    allowed = [og.op_schema(example.kind).types[port.type] for port in ports]
    wanted = {"f32": og.DataType(dtype), "u4": og.DataType.u8}
    types = [
        wanted[t] if wanted.get(t) in choice else t for t, choice in zip(example.types, allowed, strict=True)
    ]
    graph.add_op(example.op(types=types))
    graph.finalize()
    (partition,) = graph.get_partitions(backend=backend)
    return partition.compile()


LOWERABLE = [
    pytest.param(example, id=f"{kind} {i}")
    for kind, examples in EXAMPLES.items()
    if kind in LOWERED
    for i, example in enumerate(examples)
]


@each("dtype", ["f32", "bf16", "f16"])
@each("example", LOWERABLE)
def test_each_op_gives_what_numpy_gives(onednn, example, dtype):
    reference = compiled(example, dtype, "numpy")
    arrays = [
        a.astype(np.dtype(v.dtype)) if v.dtype != a.dtype else a
        for a, v in zip(example.arrays(), (og.Tensor(t).data for t in reference.inputs), strict=True)
    ]
    try:
        chosen = compiled(example, dtype, None)
    except og.UnsupportedError as error:  # pragma: no cover -- nothing is unsupported
        pytest.fail(str(error))
    reference.execute(None, arrays)  # shapes that depend on a value are known after it
    real = [t.data_type.value in UNIT for t in (*reference.inputs, *reference.outputs)]
    op = reference.partition.ops[0].with_tensors(reference.inputs, reference.outputs)
    want = [
        np.empty(t.dims, np.float64 if in_double else og.Tensor(t).data.dtype)
        for t, in_double in zip(reference.outputs, real[len(arrays) :], strict=True)
    ]
    KERNELS[op.kind](op, [a.astype(np.float64) if d else a for a, d in zip(arrays, real, strict=False)], want)
    for tensor, have, exact in zip(reference.outputs, chosen.execute(None, arrays), want, strict=True):
        if exact.dtype == np.float64:
            check(have, exact, rounded(exact, tensor.data_type.value, **IMPRECISE.get(op.kind, {})))
        else:
            np.testing.assert_array_equal(have, exact)


@each("kind", sorted(set(LOWERED) - VIEWS))
def test_each_op_can_be_forced_onto_the_library(onednn, kind):
    """On some example of each op the library itself computes."""
    reasons = []
    for example in EXAMPLES[kind]:
        if example.values or not example.outputs:
            continue
        try:
            assert compiled(example, "f32", "onednn").backend == "onednn"
        except og.UnsupportedError as error:
            reasons.append(str(error))
        else:
            return
    pytest.fail("; ".join(reasons))


@SETTINGS
@given(
    seed=st.integers(0, 2**32), kind=st.sampled_from(ANCHORS), dtype=st.sampled_from(["f32", "bf16", "f16"])
)
def test_chains_give_what_the_ops_give_one_by_one(onednn, seed, kind, dtype):
    graph, _ = random_graph(random.Random(seed), kind, dtype)
    arrays = arrays_for(graph, seed)
    check_graph(graph, arrays, graph.compile()(arrays))


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_the_bounds_of_random_graphs_see_wrong_elements(dtype):
    """Nearly all elements are judged, by bounds of a few roundings; an element that is off by more stands out."""
    judged = elements = seen = 0
    roundings = []
    for seed in range(60):
        rng = random.Random(f"bounds {seed}")
        graph, y = random_graph(rng, ANCHORS[seed % len(ANCHORS)], dtype)
        value, bound = bounded(graph, arrays_for(graph, seed))[y.id]
        told = np.isfinite(bound) & (np.abs(value) > 0.01)
        judged, elements = judged + np.count_nonzero(np.isfinite(bound)), elements + value.size
        if not told.any():
            continue
        roundings.append(np.median(bound[told] / (UNIT[dtype] * np.abs(value[told]))))
        off = value.copy()
        place = tuple(np.argwhere(told)[rng.randrange(np.count_nonzero(told))])
        off[place] *= 1.05
        seen += beyond(off, value, bound).any()
    assert judged > 0.9 * elements
    assert np.median(roundings) < (64 if dtype == "f32" else 8)
    assert seen > 0.85 * len(roundings)


def convolution(graph, *, quantized=False, **more):
    x = graph.input("x", "u8" if quantized else "f32", (2, 12, 12, 16))
    w = graph.input("w", "s8" if quantized else "f32", (3, 3, 16, 32), property_type="constant")
    if quantized:
        x = graph.op("Dequantize", x, scales=[0.5], zps=[3])
        w = graph.op("Dequantize", w, scales=[0.25] * 32, qtype="per_channel", axis=3)
    same = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
    return graph.op("Convolution", x, w, **same, **more)


def fill(graph, seed=0):
    rng = np.random.default_rng(seed)
    kinds = {"u8": (0, 9, np.uint8), "s8": (-4, 5, np.int8), "f32": (-3, 4, np.float32)}
    result = {}
    for t in graph.inputs:
        low, high, dtype = kinds[t.data_type.value]
        result[t.name] = rng.integers(low, high, t.shape).astype(dtype)
    return result


def chain_of_six(graph, y):
    for i, kind in enumerate(("Add", "ReLU", "Multiply", "Tanh", "Subtract", "Abs")):
        other = graph.input(f"o{i}", "f32", y.shape if i % 4 else (32,))
        y = graph.op(kind, y, other) if kind in ("Add", "Multiply", "Subtract") else graph.op(kind, y)
    return y


def bias_and_swish(graph, y):
    y = graph.op("BiasAdd", y, graph.input("b", "f32", (32,)))
    return graph.op("Multiply", y, graph.op("Sigmoid", y))


def residual(graph, y):
    return graph.op("ReLU", graph.op("Add", graph.input("r", "f32", y.shape), y))


def turned(graph, y):
    y = graph.op("Subtract", graph.input("a", "f32", (32,)), y)
    return graph.op(
        "Divide",
        graph.input("b", "f32", (1, 1, 1, 32)),
        graph.op("Exp", graph.op("Clamp", y, min=-1.0, max=1.0)),
    )


CHAINS = [chain_of_six, bias_and_swish, residual, turned]


@pytest.mark.parametrize("chain", CHAINS, ids=lambda chain: chain.__name__)
def test_what_follows_a_convolution_is_one_primitive(onednn, chain):
    graph = og.Graph()
    y = chain(graph, convolution(graph))
    model = graph.compile()
    arrays = fill(graph)
    got = model(arrays)[y]
    (explanation,) = model.explain().values()
    assert [name.split()[0] for name in explanation.implementations] == ["convolution"], str(explanation)
    assert any("weights" in name for name in explanation.prepared)
    check(got, *bounded(graph, arrays)[y.id])


def numpy_alone(graph, arrays):
    """The same graph on NumPy alone."""
    return graph.compile(backend="numpy")(arrays)


def anchor(role):
    """The one step of a quantised op; on CPUs whose 8-bit sums saturate, the step in f32 among those that convert."""
    if load().effective_isa not in WITHOUT_VNNI:
        return lambda names: [name.split()[0] for name in names] == [role]
    return lambda names: (
        sum(name.split()[0] == role for name in names) == 1 and not any("int8" in n for n in names)
    )


@pytest.mark.parametrize("ends", ["f32", "u8", "relu u8"])
def test_quantized_convolutions_stay_integers(onednn, ends):
    graph = og.Graph()
    y = convolution(graph, quantized=True)
    if "relu" in ends:
        y = graph.op("ReLU", y)
    if "u8" in ends:
        y = graph.op("Quantize", y, scales=[4.0], zps=[7], output_type="u8")
    model = graph.compile()
    arrays = fill(graph)
    got = model(arrays)[y]
    assert len(model.partitions) == 1
    (explanation,) = model.explain().values()
    assert anchor("convolution")(explanation.implementations), str(explanation)
    want = numpy_alone(graph, arrays)[y]
    np.testing.assert_array_equal(got, want)  # scales are powers of two: nothing is rounded before the end


def test_quantized_matmul(onednn):
    graph = og.Graph()
    x = graph.op("Dequantize", graph.input("x", "u8", (6, 20)), scales=[0.5], zps=[2])
    w = graph.op(
        "Dequantize", graph.input("w", "s8", (20, 8)), scales=[0.25, 0.5] * 4, qtype="per_channel", axis=1
    )
    y = graph.op("MatMul", x, w, graph.input("b", "f32", (8,)))
    y = graph.op("Quantize", graph.op("GELU", y), scales=[2.0], output_type="s8")
    model = graph.compile()
    arrays = fill(graph)
    (explanation,) = model.explain().values() if model(arrays) else ()
    assert anchor("matmul")(explanation.implementations), str(explanation)
    difference = model(arrays)[y].astype(int) - numpy_alone(graph, arrays)[y].astype(int)
    assert np.abs(difference).max() <= 1


def test_batch_normalization_takes_its_relu_along(onednn):
    graph = og.Graph()
    x = graph.input("x", "f32", (2, 5, 5, 16))
    vectors = [graph.input(n, "f32", (16,)) for n in ("gamma", "beta", "mean", "variance")]
    graph.op("ReLU", graph.op("BatchNormInference", x, *vectors, epsilon=0.5))
    model = graph.compile()
    arrays = {
        t.name: np.abs(a) if t.name == "variance" else a
        for t, a in zip(graph.inputs, fill(graph).values(), strict=True)
    }
    check_graph(graph, arrays, model(arrays))
    (explanation,) = model.explain().values()
    assert len(explanation.implementations) == 1


def attention(graph, dtype="f32", mask=True, mode="inf_as_zero", batch=2):
    q = graph.input("q", dtype, (batch, 4, 24, 16))
    k = graph.input("k", dtype, (batch, 4, 32, 16))
    v = graph.input("v", dtype, (batch, 4, 32, 16))
    scores = graph.op("MatMul", q, k, transpose_b=True)
    scores = graph.op("Divide", scores, graph.input("scale", dtype, (1,)))
    if mask:
        scores = graph.op("Add", scores, graph.input("mask", dtype, (batch, 1, 1, 32)))
    weights = graph.op("SoftMax", scores, axis=-1, mode=mode)
    return graph.op("MatMul", weights, v)


@pytest.mark.parametrize("mode", ["none", "inf_as_zero"])
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_attention_is_one_partition(onednn, dtype, mode):
    graph = og.Graph()
    y = attention(graph, dtype, mode=mode)
    model = graph.compile()
    assert len(model.partitions) == 1
    arrays = arrays_for(graph)
    arrays["mask"][0, :, :, 5:] = -np.inf
    if mode == "inf_as_zero":
        arrays["mask"][1] = -np.inf
    got = model(arrays)[y]
    check(got, *bounded(graph, arrays)[y.id])
    if mode == "inf_as_zero":
        assert not got[1].any()


def test_policy_debug_gives_one_op_a_partition(onednn):
    graph = og.Graph()
    y = chain_of_six(graph, convolution(graph))
    arrays = fill(graph)
    model = graph.compile(policy="debug")
    assert len(model.partitions) == len(graph.ops)
    check(model(arrays)[y], *bounded(graph, arrays)[y.id])


def test_tensors_in_the_middle_that_others_read_are_outputs(onednn):
    graph = og.Graph()
    y = convolution(graph)
    z = graph.op("ReLU", y)
    w = graph.op("Tanh", z)
    graph.output(y)
    graph.output(z)
    model = graph.compile()
    arrays = fill(graph)
    assert {t.id for t in graph.outputs} == {y.id, z.id, w.id}
    assert {e.backend for e in model.explain().values()} == {"onednn"}
    check_graph(graph, arrays, model(arrays))


def test_constants_are_prepared_once_for_each_array(onednn):
    graph = og.Graph()
    y = convolution(graph)
    model = graph.compile()
    arrays = fill(graph)
    first = model(arrays)[y].copy()
    twice = model(arrays | {"w": arrays["w"] * 2})[y].copy()
    again = model(arrays)[y]
    np.testing.assert_array_equal(twice, 2 * first)
    np.testing.assert_array_equal(again, first)


def test_bound_calls_and_free_layouts(onednn):
    graph = og.Graph()
    y = graph.op("ReLU", convolution(graph, data_format="NXC"))
    graph.finalize()
    (partition,) = graph.get_partitions()
    arrays = fill(graph)
    plain = partition.compile()
    want = plain.execute(None, [arrays["x"], arrays["w"]])[0]
    out = np.empty_like(want)
    call = plain.bind([arrays["x"], arrays["w"]], [out])
    call()
    np.testing.assert_array_equal(out, want)
    free = partition.compile(None, [og.LogicalTensor(y.id, "f32", y.shape, layout_type="any")])
    (made,) = free.execute(None, [arrays["x"], arrays["w"]])
    lies = free.query_logical_tensor(y.id)
    if lies.layout_type == "opaque":
        made = og.Tensor.from_opaque(lies, made, free.engine).numpy()
    np.testing.assert_array_equal(made, want)


@pytest.mark.parametrize("strides", [(4000, 1, 200, 10), (2400, 144, 12, 1)])
def test_user_strides(onednn, strides):
    """Data and results lie as the user says."""
    graph = og.Graph()
    x = graph.input("x", "f32", (2, 8, 12, 12), strides=[3000, 1, 150, 10])
    y = og.LogicalTensor(90, "f32", (2, 8, 12, 12), strides=strides)
    graph.add_op(og.Op(80, "GELU", [x], [y]))
    graph.finalize()
    (partition,) = graph.get_partitions()
    values = np.random.default_rng(0).standard_normal((2, 8, 12, 12)).astype(np.float32)
    (got,) = partition.compile().execute(None, [values])
    exact = og.gelu(values.astype(np.float64), backend="numpy")
    check(got, exact, rounded(exact, "f32", arithmetic=64))


def test_truths_that_lie_as_the_user_says_are_read_so(onednn):
    """By the next step on the host, beside primitives."""
    graph = og.Graph()
    x, y = (graph.input(name, "f32", (4, 5)) for name in "xy")
    truths = og.LogicalTensor(90, "boolean", (4, 5), strides=(1, 4))
    graph.add_op(og.Op(80, "GreaterEqual", [x, y], [truths]))
    total = graph.op("ReduceSum", graph.op("Select", truths, x, y), axes=[0, 1], keep_dims=True)
    graph.output(truths, name="truths")
    graph.output(total, name="total")
    graph.finalize()
    first, second = (np.random.default_rng(n).integers(-9, 9, (4, 5)).astype(np.float32) for n in (0, 1))
    made = graph.compile()({"x": first, "y": second})
    np.testing.assert_array_equal(made["truths"], first >= second)
    np.testing.assert_array_equal(made["total"], [[np.maximum(first, second).sum()]])


def test_verification_of_a_plan(onednn):
    graph = og.Graph()
    y = graph.op("ReLU", convolution(graph))
    model = graph.compile(verify=True)
    arrays = fill(graph)
    np.testing.assert_array_equal(model(arrays)[y], numpy_alone(graph, arrays)[y])
    (explanation,) = model.explain().values()
    assert explanation.verified


def test_threads_share_a_plan(onednn):
    from concurrent.futures import ThreadPoolExecutor

    graph = og.Graph()
    y = chain_of_six(graph, convolution(graph))
    model = graph.compile()
    inputs = [fill(graph, seed) for seed in range(8)]
    want = [model(one)[y] for one in inputs]
    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(lambda one: model(one)[y], inputs * 4))
    for have, expected in zip(got, want * 4, strict=True):
        np.testing.assert_array_equal(have, expected)


@pytest.mark.parametrize(
    ("groups", "kernels"),
    [
        pytest.param(1, {"convolution", "reorder", "convert"}, id="one primitive makes both gradients"),
        pytest.param(16, None, id="grouped"),
        pytest.param(32, None, id="depthwise"),
    ],
)
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("data_format", ["NXC", "NCX"])
def test_weight_gradients_take_the_bias_gradient_along(onednn, data_format, dtype, groups, kernels):
    graph = og.Graph()
    shape = (2, 12, 12, 32) if data_format == "NXC" else (2, 32, 12, 12)
    x, dy = graph.input("x", dtype, shape), graph.input("dy", dtype, shape)
    same = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
    dw = graph.op(
        "ConvolutionBackwardWeights",
        x,
        dy,
        weights_shape=[3, 3, 32 // groups, 32],
        groups=groups,
        data_format=data_format,
        **same,
    )
    db = graph.op("BiasAddBackward", dy, data_format=data_format)
    model = graph.compile()
    assert len(model.partitions) == 1
    rng = np.random.default_rng(0)
    arrays = {n: rng.integers(-2, 3, shape).astype(og.Tensor(x).data.dtype) for n in ("x", "dy")}
    got, want = model(arrays), numpy_alone(graph, arrays)
    np.testing.assert_array_equal(got[dw], want[dw])
    np.testing.assert_array_equal(got[db], want[db])
    (explanation,) = model.explain().values()
    assert explanation.backend == "onednn"
    # Below AVX2 no kernel of f32 makes it from data in channels last; f16 goes through f32 in one of many ways.
    if kernels is not None and dtype != "f16" and (dtype == "bf16" or has_isa("avx2")):
        assert {name.split()[0] for name in explanation.implementations} <= kernels


def test_verification_allows_for_roundings_but_sees_a_wrong_kernel(onednn, monkeypatch):
    graph = og.Graph()
    y = attention(graph)
    model = graph.compile(verify=True)
    (explanation,) = model.explain().values()
    assert explanation.backend == "onednn"
    assert explanation.verified
    from onednn_graph.backends.numpy import kernels

    right = kernels.KERNELS["SoftMax"]

    def wrong(op, inputs, outputs):
        right(op, inputs, outputs)
        outputs[0][0, 0, 0, 0] += 0.125

    monkeypatch.setitem(kernels.KERNELS, "SoftMax", wrong)
    with pytest.raises(og.UnsupportedError, match="failed verification, 1 of|wrong on integer data"):
        graph.compile(verify=True, backend="onednn")
    assert y.shape == (2, 4, 24, 16)


def test_opaque_tensors_pass_from_partition_to_partition(onednn, swept):
    """A convolution's own layout goes into the next convolution as it lies."""
    same = {
        "strides": [1, 1],
        "pads_begin": [1, 1],
        "pads_end": [1, 1],
        "dilations": [1, 1],
        "data_format": "NCX",
        "weights_format": "OIX",
    }
    graph = og.Graph()
    x = graph.input("x", "f32", (2, 32, 14, 14))
    weights = [graph.input(name, "f32", (32, 32, 3, 3)) for name in ("v", "w")]
    middle = graph.output(graph.op("Convolution", x, weights[0], **same))
    y = graph.op("Convolution", middle, weights[1], **same)
    graph.finalize()
    first, second = graph.get_partitions("debug")
    rng = np.random.default_rng(0)
    arrays = {t.name: rng.integers(-2, 3, t.shape).astype(np.float32) for t in (x, *weights)}
    one = first.compile(None, [og.LogicalTensor(middle.id, "f32", middle.shape, layout_type="any")])
    lies = one.query_logical_tensor(middle.id)
    assert lies.layout_type == "opaque"
    two = second.compile([lies, *[t for t in second.input_ports if t.id != lies.id]])
    assert "reorder data" not in str(two.explain())
    (buffer,) = one.execute(None, [arrays["x"], arrays["v"]])
    tensor = og.Tensor.from_opaque(lies, buffer, one.engine)
    given = {lies.id: tensor, weights[1].id: arrays["w"]}
    (got,) = two.execute(None, [given[t.id] for t in two.inputs])
    np.testing.assert_array_equal(got, numpy_alone(graph, arrays)[y])
    with pytest.raises(og.ArgumentError, match="opaque and takes the Tensor in layout"):
        two.execute(None, [given[t.id] if t.id != lies.id else tensor.numpy() for t in two.inputs])


@pytest.mark.parametrize("data_format", ["NXC", "NCX"])
def test_batch_normalization_is_folded_into_a_convolution(onednn, data_format):
    graph = og.Graph()
    shape = (2, 12, 12, 16) if data_format == "NXC" else (2, 16, 12, 12)
    x = graph.input("x", "f32", shape)
    w = graph.input("w", "f32", (3, 3, 16, 32), property_type="constant")
    same = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
    y = graph.op("Convolution", x, w, data_format=data_format, **same)
    names = ("gamma", "beta", "mean", "variance")
    vectors = [graph.input(n, "f32", (32,), property_type="constant") for n in names]
    y = graph.op("BatchNormInference", y, *vectors, epsilon=0.5, data_format=data_format)
    y = graph.op("ReLU", y)
    model = graph.compile()
    assert len(model.partitions) == 1
    arrays = fill(graph)
    arrays["variance"] = np.abs(arrays["variance"])
    check(model(arrays)[y], *bounded(graph, arrays)[y.id])
    (explanation,) = model.explain().values()
    assert "batch normalization" not in "".join(explanation.implementations), str(explanation)
    assert any("batch normalization, folded" in name for name in explanation.prepared)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_attention_runs_in_blocks_of_heads_where_memory_is_short(onednn, dtype, transposed):
    graph = og.Graph()
    y = attention(graph, dtype)
    if transposed:
        y = graph.op("Reorder", graph.op("StaticTranspose", y, order=[0, 2, 1, 3]))
    arrays = arrays_for(graph)
    whole, blocks = graph.compile(), graph.compile(scratch_limit=4096)
    (wide,), (narrow,) = whole.explain().values(), blocks.explain().values()
    assert "blocks of heads" in narrow.strategy
    assert "blocks" not in wide.strategy
    assert narrow.scratch_bytes < wide.scratch_bytes
    exact = bounded(graph, arrays)[y.id]
    check(blocks(arrays)[y], *exact)
    check(whole(arrays)[y], *exact)
    (partition,) = blocks.partitions
    compiled = partition.compile(scratch_limit=4096)
    out = np.empty(compiled.outputs[0].dims, arrays["q"].dtype)
    compiled.bind([arrays[t.name] for t in compiled.inputs], [out])()
    np.testing.assert_array_equal(out, blocks(arrays)[y])


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("classes", [2, 10, 1000, 4096])
def test_logarithms_of_shares_have_the_digits_of_f32(onednn, classes, axis):
    """The library's logarithm of a sum is 3.5e-6 off between 1 and 2."""
    x = (2 * np.random.default_rng(0).standard_normal((100, classes))).astype(np.float32)
    x[0] = -100  # all alike
    x[1, 0], x[2, 1] = 50, -200  # one alone, and one that is left out
    x[3] = -np.inf
    x[4, 1] = np.nan
    exact = x.astype(np.float64)
    with np.errstate(all="ignore"):
        exact -= exact.max(1, keepdims=True)
        exact -= np.log(np.exp(exact).sum(1, keepdims=True))
    found = og.log_softmax(np.ascontiguousarray(x.T) if axis == 0 else x, axis=axis, backend="onednn")
    found = found.T if axis == 0 else found
    np.testing.assert_allclose(found, exact, rtol=4e-7, atol=4e-7 * max(1, np.log(classes)))
