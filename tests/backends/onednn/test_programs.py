"""Whole graphs as one plan: layouts, views, integers and NumPy steps across partitions, against NumPy, exactly."""

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.backends.numpy import kernels
from onednn_graph.backends.onednn import proven
from onednn_graph.backends.onednn.library.loading import load
from onednn_graph.graph.compile import trying

SAME = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
WHOLE = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
CHANNELS_FIRST = {"data_format": "NCX", "weights_format": "OIX"}


def integers(*shape, seed=0, low=-2, high=3):
    return np.random.default_rng(seed).integers(low, high, shape).astype(np.float32)


def feeds(graph):
    arrays = {}
    for number, tensor in enumerate(graph.inputs):
        if tensor.data_type in ("u8", "s8"):
            low, high = (0, 9) if tensor.data_type == "u8" else (-4, 5)
            values = np.random.default_rng(number).integers(low, high, tensor.shape)
            arrays[tensor.name] = values.astype(np.uint8 if tensor.data_type == "u8" else np.int8)
        else:
            arrays[tensor.name] = integers(*tensor.shape, seed=number)
    return arrays


def compared(graph, exact=True, **options):
    """The compiled graph, after its results were held against NumPy's."""
    model, arrays = graph.compile(**options), feeds(graph)
    want = graph.compile(backend="numpy")(arrays)
    for _ in range(2):
        got = model(arrays)
        for name in want:
            if exact:
                np.testing.assert_array_equal(got[name], want[name], err_msg=name)
            else:
                np.testing.assert_allclose(got[name], want[name], rtol=1e-5, atol=1e-5, err_msg=name)
    return model


def kernels_of(model):
    return [name for told in model.explain().values() for name in told.implementations]


def copies(model):
    return [
        name
        for name in kernels_of(model)
        if name.startswith(("reorder", "convert", "dequantize", "quantize"))
    ]


def block(graph, x, channels, seed):
    """A residual block of channels-first images."""
    inner = x.shape[1]
    w = graph.input(f"w{seed}", "f32", (channels, inner, 3, 3), property_type="constant")
    back = graph.input(f"b{seed}", "f32", (inner, channels, 1, 1), property_type="constant")
    y = graph.op("ReLU", graph.op("Convolution", x, w, **SAME, **CHANNELS_FIRST))
    y = graph.op("Convolution", y, back, **WHOLE, **CHANNELS_FIRST)
    return graph.op("ReLU", graph.op("Add", y, x))


def test_images_stay_channels_last_between_convolutions(onednn):
    """Copies in front, for a convolution and a sum, one behind, and none in between; nothing is left to NumPy."""
    graph = og.Graph()
    x = graph.input("x", "f32", (1, 16, 12, 12))
    y = block(graph, block(graph, x, 32, 0), 32, 1)
    graph.op(
        "MaxPool", y, kernel=[2, 2], strides=[2, 2], pads_begin=[0, 0], pads_end=[0, 0], data_format="NCX"
    )
    model = compared(graph)
    assert len(copies(model)) == 3
    assert not any("binary" in name or "numpy" in name for name in kernels_of(model))


def test_what_numpy_runs_is_a_step_among_primitives(onednn):
    graph = og.Graph()
    x = graph.input("x", "f32", (4, 8))
    y = graph.op("ReLU", graph.op("MatMul", x, graph.input("w", "f32", (8, 8))))
    positive = graph.op("GreaterEqual", y, graph.input("limit", "f32", (4, 8)))
    chosen = graph.op("Select", positive, y, x)
    graph.op("Square", graph.op("MatMul", chosen, graph.input("v", "f32", (8, 3))), name="z")
    model = compared(graph)
    assert [part.backend for part in model.partitions].count("numpy") >= 1
    told = model.explain()
    assert {told[part.id].backend for part in model.partitions} == {"numpy", "onednn"}
    with og.profile() as prof:
        model(feeds(graph))
    assert [line.partition for line in prof.partitions] == [part.id for part in model.partitions]


@pytest.mark.parametrize("index", [[2, -1], [-3, 0], [3, 0], [0, -5]])
def test_a_step_on_the_host_sees_arrays_that_move(onednn, index):
    """One part of a table, in arrays that are other ones at some calls: what lay elsewhere before is not written."""
    graph = og.Graph()
    table, at = graph.input("table", "f32", [2, 3, 4, 5]), graph.input("at", "s64", [1, 1, 2])
    part = graph.input("part", "f32", [2, 1, 1, 5])
    made = graph.op("HostScatterND", graph.relu(table), at, graph.relu(part), axis=1)
    graph.output(graph.op("Abs", made), name="y")
    graph.output(made, name="made")
    model = graph.compile()
    rng = np.random.default_rng(0)
    given, wanted, results = [], [], []
    for _ in range(2):
        values = [
            rng.integers(-4, 5, (2, 3, 4, 5)).astype("f4"),
            rng.integers(-4, 5, (2, 1, 1, 5)).astype("f4"),
        ]
        given.append({"table": values[0], "part": values[1], "at": np.array([[index]])})
        results.append({name: np.zeros((2, 3, 4, 5), np.float32) for name in ("y", "made")})
        wanted.append(np.maximum(values[0], 0))
        if index not in ([3, 0], [0, -5]):
            wanted[-1][:, index[0], index[1]] = np.maximum(values[1][:, 0, 0], 0)
    for turn in (0, 0, 1, 0, 1, 1):
        for array in results[turn].values():
            array[...] = -1
        if index in ([3, 0], [0, -5]):
            with pytest.raises(
                og.errors.ArgumentError, match=r"'indices' must be between -[34] and [23] for [34] elements"
            ):
                model(given[turn], outputs=results[turn])
            continue
        model(given[turn], outputs=results[turn])
        for array in results[turn].values():
            np.testing.assert_array_equal(array, wanted[turn])


def test_rows_of_all_batches_are_one_matrix(onednn):
    graph = og.Graph()
    x = graph.input("x", "f32", (5, 7, 16))
    w = graph.input("w", "f32", (16, 24), property_type="constant")
    y = graph.op("Add", graph.op("MatMul", x, w), graph.input("bias", "f32", (24,)))
    graph.op("Add", y, graph.input("residual", "f32", (5, 7, 24)), name="y")
    model = compared(graph)
    with og.profile() as prof:
        model(feeds(graph))
    (product,) = [line for line in prof.steps if line.name == "matmul"]
    assert "35x16" in product.tensors[0]


@pytest.mark.parametrize("shape", [(24,), (1, 24), (7, 24), (5, 1, 24), (5, 7, 24), (5, 7, 1), ()])
def test_operands_beside_rows_of_all_batches(onednn, shape):
    graph = og.Graph()
    x, w = graph.input("x", "f32", (5, 7, 16)), graph.input("w", "f32", (16, 24))
    graph.op("Multiply", graph.op("MatMul", x, w), graph.input("other", "f32", shape), name="y")
    compared(graph)


def attention(graph, x, heads):
    """Attention on (tokens, batch, features), as a framework writes it out."""
    tokens, batch, features = x.shape
    size = features // heads
    made = []
    for name in "qkv":
        w = graph.input(f"w{name}", "f32", (features, features), property_type="constant")
        y = graph.op("MatMul", x, w)
        y = graph.op("StaticReshape", y, shape=[tokens, batch * heads, size], special_zero=False)
        made.append(graph.op("StaticTranspose", y, order=[1, 0, 2]))
    q, k, v = made
    scores = graph.op("MatMul", q, k, transpose_b=True)
    y = graph.op("MatMul", scores, v)
    y = graph.op("StaticTranspose", y, order=[1, 0, 2])
    y = graph.op("StaticReshape", y, shape=[tokens, batch, features], special_zero=False)
    w = graph.input("wo", "f32", (features, features), property_type="constant")
    return graph.op("MatMul", y, w)


@pytest.mark.parametrize("batch", [1, 3])
def test_heads_are_split_and_joined_without_copies(onednn, batch):
    graph = og.Graph()
    attention(graph, graph.input("x", "f32", (9, batch, 32)), 4)
    model = compared(graph)
    assert not copies(model)


PARTS = {
    "rows": ((1, 8, 10, 12), {"begin": [-2, 0], "end": [-3, 0], "strides": [1, 1], "data_format": "NCX"}),
    "every second": (
        (2, 8, 10, 12),
        {"begin": [-1, 0], "end": [0, -1], "strides": [2, 3], "data_format": "NCX"},
    ),
    "channels": ((2, 8, 10, 12), {"begin": [-4, 0], "end": [0, 0], "strides": [1, 1], "data_format": "NXC"}),
}


@pytest.mark.parametrize("part", PARTS)
def test_a_part_is_a_view(onednn, part):
    shape, how = PARTS[part]
    graph = og.Graph()
    x = graph.op("ReLU", graph.input("x", "f32", shape))
    y = graph.op(
        "MaxPool",
        x,
        kernel=[1, 1],
        strides=how["strides"],
        pads_begin=how["begin"],
        pads_end=how["end"],
        data_format=how["data_format"],
    )
    graph.op("Square", y, name="y")
    model = compared(graph)
    assert not any("pooling" in name or "numpy" in name for name in kernels_of(model))


def test_a_part_that_is_an_output_leaves_gaps_alone(onednn):
    graph = og.Graph()
    x = graph.op("Add", graph.input("a", "f32", (2, 3, 6)), graph.input("b", "f32", (2, 3, 6)))
    graph.op(
        "MaxPool", x, kernel=[1], strides=[2], pads_begin=[0], pads_end=[-1], data_format="NCX", name="y"
    )
    compared(graph)


@pytest.mark.parametrize("layout", ["NCX", "NXC"])
def test_a_mean_over_positions_is_a_pooling(onednn, layout):
    graph = og.Graph()
    shape, axes = ((2, 16, 8, 8), [2, 3]) if layout == "NCX" else ((2, 8, 8, 16), [1, 2])
    w = graph.input("w", "f32", (16, 16, 1, 1), property_type="constant")
    y = graph.op(
        "Convolution", graph.input("x", "f32", shape), w, **WHOLE, data_format=layout, weights_format="OIX"
    )
    graph.op("ReduceMean", y, axes=axes, keep_dims=False, name="y")
    model = compared(graph)
    assert not any("numpy" in name for name in kernels_of(model))


def quantised(graph, name, shape, scale, zero_point, data_type="u8"):
    x = graph.input(name, data_type, shape)
    return graph.op("Dequantize", x, scales=[scale], zps=[zero_point])


def again(graph, x, scale, zero_point, data_type="u8"):
    return graph.op("Quantize", x, scales=[scale], zps=[zero_point], output_type=data_type)


POINTS = [(0, 0, 0), (3, 0, 2), (0, 4, 1), (3, 4, 5)]


@pytest.mark.parametrize("kind", ["Add", "Subtract", "Multiply", "Maximum"])
@pytest.mark.parametrize("points", POINTS)
@pytest.mark.parametrize("data_type", ["u8", "s8"])
def test_two_dequantised_tensors(onednn, kind, points, data_type):
    """Scales are powers of two, so that both sides round the same numbers."""
    graph = og.Graph()
    a = quantised(graph, "a", (2, 5, 6, 7), 0.5, points[0], data_type)
    b = quantised(graph, "b", (2, 5, 6, 7), 0.25, points[1], data_type)
    y = graph.op("ReLU", graph.op(kind, a, b))
    again(graph, y, 0.125, points[2], data_type)
    model = compared(graph)
    if kind in ("Add", "Subtract") or (kind == "Multiply" and not all(points[:2])):
        assert not copies(model)


@pytest.mark.parametrize("kind", ["ReLU", "Abs", "Square", "Clamp"])
@pytest.mark.parametrize("points", [(0, 0), (3, 2)])
def test_a_function_of_a_dequantised_tensor(onednn, kind, points):
    graph = og.Graph()
    x = quantised(graph, "x", (3, 4, 5, 6), 0.5, points[0])
    y = graph.op(kind, x, **({"min": -1.0, "max": 1.5} if kind == "Clamp" else {}))
    again(graph, y, 0.25, points[1])
    assert not copies(compared(graph))


@pytest.mark.parametrize("same", [True, False])
def test_parts_of_integers_are_joined(onednn, same):
    graph = og.Graph()
    scales = (0.5, 0.5) if same else (0.5, 0.25)
    parts = [quantised(graph, f"x{n}", (2, 4 + n, 6, 6), s, 3) for n, s in enumerate(scales)]
    again(graph, graph.op("Concat", *parts, axis=1), 0.5, 3)
    model = compared(graph)
    assert len([name for name in kernels_of(model) if "concat" in name]) == 1
    assert len(copies(model)) == (0 if same else 1)


def test_integers_go_through_what_moves_them(onednn):
    graph = og.Graph()
    x = quantised(graph, "x", (2, 6, 8), 0.5, 3)
    y = graph.op("StaticReshape", x, shape=[2, 6, 2, 4], special_zero=False)
    y = graph.op("Dequantize", again(graph, y, 0.5, 3), scales=[0.5], zps=[3])
    y = graph.op("StaticTranspose", y, order=[0, 2, 1, 3])
    again(graph, y, 0.5, 3)
    model = compared(graph)
    assert len(copies(model)) == 1  # to the user's rows


def test_a_largest_integer_is_the_largest_number(onednn):
    graph = og.Graph()
    x = quantised(graph, "x", (2, 16, 8, 8), 0.5, 3)
    window = {
        "kernel": [3, 3],
        "strides": [2, 2],
        "pads_begin": [1, 1],
        "pads_end": [1, 1],
        "data_format": "NCX",
    }
    again(graph, graph.op("MaxPool", x, **window), 0.5, 3)
    model = compared(graph)
    assert not any(name.startswith(("quantize", "dequantize")) for name in kernels_of(model))


# --- proof ----------------------------------------------------------------------------------------------


def deep(graph, layers=3):
    x = graph.input("x", "f32", (4, 16))
    for layer in range(layers):
        w = graph.input(f"w{layer}", "f32", (16, 16), property_type="constant")
        x = graph.op("Tanh", graph.op("MatMul", x, w))
    return graph.op("SoftMax", x, axis=-1, name="y")


def test_a_program_is_verified_partition_by_partition(onednn, monkeypatch):
    monkeypatch.setattr(proven, "PROVEN", {})
    graph = og.Graph()
    deep(graph)
    model = compared(graph, exact=False)
    assert all(told.verified for told in model.explain().values())
    assert {told.backend for told in model.explain().values()} == {"onednn"}


def test_a_partition_that_fails_keeps_the_program_from_running(onednn, monkeypatch):
    """Where nothing is proven and one op is wrong, that is found, however deep it is."""
    graph = og.Graph()
    deep(graph)
    right = kernels.KERNELS["SoftMax"]

    def wrong(op, inputs, outputs):
        right(op, inputs, outputs)
        outputs[0][0, 0] += 0.5

    monkeypatch.setitem(kernels.KERNELS, "SoftMax", wrong)
    with pytest.raises(og.UnsupportedError, match="failed verification"):
        graph.compile(backend="onednn", verify=True)


def test_a_weight_gradient_is_a_step_of_a_program(onednn):
    """Forward and backward of a layer as one plan; the gradients choose among strategies as they do alone."""
    graph = og.Graph()
    x = graph.input("x", "f32", (2, 10, 10, 16))
    w = graph.input("w", "f32", (3, 3, 16, 16))
    y = graph.op("Convolution", x, w, **SAME)
    mask = graph.input("dy", "f32", (2, 10, 10, 16))
    inner = graph.op("ReLUBackward", y, mask)
    graph.op("ConvolutionBackwardWeights", x, inner, weights_shape=[3, 3, 16, 16], **SAME, name="dw")
    graph.op("BiasAddBackward", inner, name="db")
    graph.op("ConvolutionBackwardData", inner, w, dst_shape=[2, 10, 10, 16], **SAME, name="dx")
    model = compared(graph)
    assert len(model._stages) == 1
    assert any(told.considered for told in model.explain().values())


def test_a_part_without_pads_is_the_whole(onednn):
    graph = og.Graph()
    x = graph.op("ReLU", graph.input("x", "f32", (1, 3, 6, 6)))
    y = graph.op("MaxPool", x, kernel=[1, 1], strides=[2, 2], pads_begin=[], pads_end=[], data_format="NCX")
    graph.op("Square", y, name="y")
    compared(graph)


def test_doubts_of_one_gradient_leave_the_others_their_best_kernels(onednn, monkeypatch):
    """What fails verification takes its next candidate; a gradient beside it, which nobody doubts, its first one."""

    def taken(fails):
        graph = og.Graph()
        x, dy = (graph.input(name, "f32", (2, 20, 20, 32)) for name in ("x", "dy"))
        inner = graph.op("ReLU", x)
        graph.op("ConvolutionBackwardWeights", inner, dy, weights_shape=[3, 3, 32, 32], **SAME, name="dense")
        graph.op(
            "ConvolutionBackwardWeights",
            inner,
            dy,
            weights_shape=[3, 3, 1, 32],
            groups=32,
            **SAME,
            name="deep",
        )
        with monkeypatch.context() as patch:
            if fails:
                swept = proven.PROVEN[load().version[:2]]
                names = swept["convolution_backward_weights"]
                rest = frozenset(name for name in names if not name.startswith("jit_dw"))
                patch.setitem(swept, "convolution_backward_weights", rest)
                patch.setattr(trying, "wrong_on_integers", lambda request, executable, every: "it is wrong")
            told = graph.compile().explain()
        found = {}
        for op in graph.ops:
            part = next(one for one in told.values() if any(step.op == op.id for step in one.steps))
            found[op.name] = [step.implementation for step in part.steps if step.op == op.id]
        return found

    before, after = taken(fails=False), taken(fails=True)
    assert any(name.startswith("jit_dw") for name in before["deep"])
    assert not any(name.startswith("jit_dw") for name in after["deep"])
    assert after["dense"] == before["dense"]


def halved(graph, x, seed, *, relu):
    """A convolution of eight channels that halves images, and what follows it."""
    weights = graph.constant(integers(8, 8, 3, 3, seed=seed, low=-1, high=2))
    window = {"strides": [2, 2], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
    y = graph.op("Convolution", x, weights, **window, data_format="NCX", weights_format="OIX")
    vectors = [graph.constant(integers(8, seed=seed + i, low=1, high=3)) for i in range(3)]
    variance = graph.constant(4.0 ** integers(8, seed=seed, low=-1, high=2))
    y = graph.op("BatchNormInference", y, *vectors, variance, epsilon=0.0, data_format="NCX")
    return graph.op("ReLU", y) if relu else y


def test_what_a_sum_waits_for_is_made_from_its_beginning(onednn):
    """The first branch takes the sum along, and with it asks for the others: they must not be made end first."""
    graph = og.Graph()
    images = [graph.input("x", "f32", (1, 8, 16, 16))]
    for _ in range(2):
        window = {"strides": [2, 2], "kernel": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0]}
        images.append(graph.op("MaxPool", images[-1], **window, data_format="NCX"))
    branches = []
    for number, x in enumerate(images):
        for more in range(3 - number):
            x = halved(graph, x, 10 * number + more, relu=number + more < 2)
        branches.append(x)
    total = graph.op("Add", graph.op("Add", branches[0], branches[1]), branches[2])
    graph.output(graph.op("ReLU", total))
    model = compared(graph)
    assert "batch normalization" not in kernels_of(model), kernels_of(model)
