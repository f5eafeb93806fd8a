"""`from_onnx`: ops that sort, scatter, sample, choose and normalise, and recurrent layers.

Each is held against ONNX's own reference or, where that has it wrong or not at all, against what NumPy says of it here.
"""

import numpy as np
import onednn_graph as og
import pytest
from onnx_oracle import X, check, close, helper, integers, ints, model_of, normal, rng, scalar

WHOLE = rng(1).integers(-3, 4, (3, 5))
ODD = np.float32([[-2, -0.75, -0.5, -0.25, 0, 0.25, 0.5, 0.75, 2, np.nan, np.inf, -np.inf]])
IMAGE = integers(2, 7, 4, 3)

# op, inputs, constants, attributes, kinds of the graph; None where it does not matter
EXACT = {
    "top-k": ("TopK", [X], [ints(2)], {"axis": 1}, ["HostTopK"]),
    "top-k-s32": ("TopK", [WHOLE.astype(np.int32)], [ints(2)], {}, ["HostTopK", "HostCast"]),
    "top-k-smallest": ("TopK", [X], [ints(3)], {"largest": 0}, ["HostTopK"]),
    "top-k-equal": ("TopK", [WHOLE], [ints(5)], {}, ["HostTopK"]),
    "top-k-equal-smallest": ("TopK", [WHOLE], [ints(4)], {"largest": 0}, ["HostTopK"]),
    "scatter-elements": (
        "ScatterElements",
        [X, np.array([[[1, -1, 0, 2]], [[2, 0, 1, 1]]])],
        [normal(2, 1, 4, seed=3)],
        {"axis": 1},
        ["HostScatterElements"],
    ),
    **{
        f"scatter-elements-{how}": (
            "ScatterElements",
            [integers(3, 4), np.array([[0, 2, -1, 0], [0, 0, 1, 0]])],
            [integers(2, 4, seed=3)],
            {"reduction": how},
            ["HostScatterElements"],
        )
        for how in ("add", "mul", "max", "min")
    },
    **{
        f"scatter-nd-{how}": (
            "ScatterND",
            [integers(3, 4), np.array([[0], [2], [0]])],
            [integers(3, 4, seed=3)],
            {"reduction": how},
            ["HostScatterND"],
        )
        for how in ("add", "mul", "max", "min")
    },
    **{
        f"trilu-{k}-{upper}": (
            "Trilu",
            [normal(2, 4, 5)],
            [scalar(k, np.int64)],
            {"upper": upper},
            ["Select"],
        )
        for k in (-1, 0, 2)
        for upper in (0, 1)
    },
    "trilu-integers": ("Trilu", [WHOLE], [], {}, ["HostSelect"]),
    "trilu-infinite": ("Trilu", [np.full((3, 3), np.inf, np.float32)], [], {}, ["Select"]),
    "hardmax": ("Hardmax", [integers(3, 4, 5)], [], {"axis": 1}, None),
    "thresholded-relu": ("ThresholdedRelu", [ODD], [], {"alpha": 0.5}, ["GreaterEqual", "Select"]),
    "shrink": ("Shrink", [ODD], [], {"lambd": 0.5, "bias": 0.25}, None),
    "center-crop-pad": ("CenterCropPad", [normal(3, 9, 4)], [ints(5, 6, 7)], {}, None),
    "center-crop-pad-axes": ("CenterCropPad", [normal(3, 8, 4)], [ints(5)], {"axes": [-2]}, None),
    "reverse-sequence": ("ReverseSequence", [normal(4, 3, 2)], [ints(2, 4, 1)], {}, None),
    "reverse-sequence-rows": (
        "ReverseSequence",
        [normal(3, 4, 2)],
        [ints(2, 4, 1)],
        {"time_axis": 1, "batch_axis": 0},
        None,
    ),
    "eye-like": ("EyeLike", [normal(3, 4)], [], {"k": 1}, None),
}
ROUNDED = {
    "log-sum-exp": ("ReduceLogSumExp", [normal(2, 3, 4)], [ints(1)], {}),
    "log-sum-exp-large": ("ReduceLogSumExp", [200 * normal(2, 3, 4)], [ints(0, 2)], {"keepdims": 0}),
    "lp-pool": ("LpPool", [normal(2, 3, 8, 9)], [], {"kernel_shape": [2, 3], "strides": [2, 1]}),
    "lp-pool-pads": (
        "LpPool",
        [normal(2, 3, 8, 9)],
        [],
        {"kernel_shape": [2, 3], "pads": [0, 1, 1, 1], "p": 3},
    ),
    "power": ("Pow", [np.abs(X), normal(3, 4)], [], {}),
    "power-of-a-number": ("Pow", [], [scalar(2.0), X], {}),
    **{kind: (kind, [0.9 * np.tanh(X)], [], {}) for kind in ("Acos", "Asin", "Atan", "Atanh", "Tan")},
    **{kind: (kind, [X], [], {}) for kind in ("Asinh", "Cosh", "Sinh")},
    "Acosh": ("Acosh", [1 + np.abs(X)], [], {}),
}


def model_and_inputs(kind, arrays, constants, attributes, outputs=1):
    inputs = {f"x{i}": np.ascontiguousarray(a) for i, a in enumerate(arrays)}
    values = {f"c{i}": a for i, a in enumerate(constants)}
    if kind == "Pow" and not arrays:  # the base is constant, the exponent not
        inputs, values = {"x": values["c1"]}, {"c0": values["c0"]}
    names = [*values, *inputs] if kind == "Pow" and values else [*inputs, *values]
    made = [f"y{i}" for i in range(outputs)]
    return model_of([helper.make_node(kind, names, made, **attributes)], inputs, made, values), inputs


@pytest.mark.parametrize("name", EXACT)
def test_an_op(name):
    kind, arrays, constants, attributes, kinds = EXACT[name]
    if kind == "EyeLike":  # of itself it is a constant
        inputs = {"x": arrays[0]}
        nodes = [
            helper.make_node(kind, ["x"], ["e"], **attributes),
            helper.make_node("Add", ["x", "e"], ["y"]),
        ]
        check(model_of(nodes, inputs, ["y"]), inputs, exact=True)
        return
    model, inputs = model_and_inputs(kind, arrays, constants, attributes, 2 if kind == "TopK" else 1)
    check(model, inputs, exact=True, kinds=kinds)


@pytest.mark.parametrize("name", ROUNDED)
def test_an_op_that_rounds(name):
    model, inputs = model_and_inputs(*ROUNDED[name])
    check(model, inputs)


def result(kind, arrays, constants, attributes, outputs=1):
    model, inputs = model_and_inputs(kind, arrays, constants, attributes, outputs)
    return list(og.from_onnx(model).compile()(inputs).values())


def test_the_largest_elements_are_those_of_a_stable_sort():
    x = rng(5).integers(-2, 3, (4, 9))
    values, places = result("TopK", [x], [ints(6)], {}, 2)
    wanted = np.argsort(-x, -1, kind="stable")[:, :6]
    np.testing.assert_array_equal(places, wanted)
    np.testing.assert_array_equal(values, np.take_along_axis(x, wanted, -1))


def test_logarithms_of_sums_of_infinities():
    x = np.float32([[-np.inf, -np.inf], [np.inf, 0], [1e4, 1e4], [-np.inf, 3]])
    (y,) = result("ReduceLogSumExp", [x], [ints(1)], {"keepdims": 0})
    np.testing.assert_allclose(y, [-np.inf, np.inf, 1e4 + np.log(2), 3], rtol=1e-6)


@pytest.mark.parametrize("size", [1, 3, 4, 5])
def test_neighbours_along_channels(size):
    """Of an even number one less before than behind, as ONNX's text says; its reference has one behind too few."""
    (y,) = result("LRN", [IMAGE], [], {"size": size, "alpha": 0.5, "beta": 0.5, "bias": 2.0})
    before = (size - 1) // 2
    squares = np.pad(IMAGE.astype("f8") ** 2, ((0, 0), (before, size - 1 - before), (0, 0), (0, 0)))
    sums = sum(squares[:, i : i + 7] for i in range(size))
    close(y, (IMAGE / np.sqrt(2 + 0.5 / size * sums)).astype(np.float32))


@pytest.mark.parametrize("order", [1, 2, 3])
def test_norms_of_whole_images(order):
    (y,) = result("GlobalLpPool", [IMAGE], [], {"p": order})
    wanted = (np.abs(IMAGE.astype("f8")) ** order).sum((2, 3), keepdims=True) ** (1 / order)
    close(y, wanted.astype(np.float32))


@pytest.mark.parametrize("values", [np.float32([-1, 2]), ints(5, 7)], ids=["f32", "s64"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_one_hot(values, axis):
    """Indices count from the end where negative; beyond both ends there is nothing."""
    given = np.array([[0, 3, -1], [9, 1, -5]])
    (y,) = result("OneHot", [given], [ints(4), values], {"axis": axis})
    counted = np.where((given < 0) & (given >= -4), given + 4, given)
    hot = np.moveaxis(counted[..., None] == np.arange(4), -1, axis)
    np.testing.assert_array_equal(y, np.where(hot, values[1], values[0]))


def test_mean_and_variance():
    x = normal(2, 3, 4, 5)
    (y,) = result("MeanVarianceNormalization", [x], [], {})
    wide = x.astype("f8")
    centred = wide - wide.mean((0, 2, 3), keepdims=True)
    close(y, (centred / np.sqrt((centred**2).mean((0, 2, 3), keepdims=True))).astype(np.float32))


# --- sampling --------------------------------------------------------------------------------------------


def sampled(x, grid, mode, padding, corners):
    """Place by place, in f64; by hand, as ONNX's reference has reflections of its own."""
    n, c, h, w = x.shape
    out = np.zeros((n, c, *grid.shape[1:3]))

    def element(b, i, j):
        place = []
        for at, size in ((i, h), (j, w)):
            if padding == "zeros" and not 0 <= at < size:
                return np.zeros(c)
            place.append(int(np.clip(at, 0, size - 1)))
        return x[b, :, place[0], place[1]].astype("f8")

    def placed(g, size):
        at = (g + 1) / 2 * (size - 1) if corners else ((g + 1) * size - 1) / 2
        low, high = (0, size - 1) if corners else (-0.5, size - 0.5)
        if padding == "border":
            return min(max(at, 0), size - 1)
        while padding == "reflection" and not low <= at <= high:
            at = 2 * low - at if at < low else 2 * high - at
        return min(max(at, 0), size - 1) if padding == "reflection" else at

    for b, y, z in np.ndindex(n, *grid.shape[1:3]):
        i, j = placed(float(grid[b, y, z, 1]), h), placed(float(grid[b, y, z, 0]), w)
        if mode == "nearest":
            out[b, :, y, z] = element(b, round(i), round(j))
            continue
        top, left = int(np.floor(i)), int(np.floor(j))
        for di in (0, 1):
            for dj in (0, 1):
                weight = (i - top if di else 1 - i + top) * (j - left if dj else 1 - j + left)
                out[b, :, y, z] += weight * element(b, top + di, left + dj)
    return out


@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_a_grid(mode, padding, corners):
    x, grid = integers(2, 3, 5, 6), 1.4 * normal(2, 4, 3, 2, seed=2)
    attributes = {"mode": mode, "padding_mode": padding, "align_corners": corners}
    (y,) = result("GridSample", [x, grid.astype(np.float32)], [], attributes)
    close(y, sampled(x, grid.astype(np.float32), mode, padding, corners).astype(np.float32))


def test_a_grid_over_a_volume():
    """The middles of the elements themselves, the last axis first."""
    x = integers(1, 2, 2, 3, 4)
    axes = [(2 * np.arange(d) + 1) / d - 1 for d in (2, 3, 4)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij")[::-1], -1)[None].astype(np.float32)
    (y,) = result("GridSample", [x, grid], [], {"mode": "nearest"})
    np.testing.assert_array_equal(y, x)


# --- recurrent layers ------------------------------------------------------------------------------------


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def stepped(kind, x, w, r, b, h, c, before):
    """One direction, forward, in f64; ONNX's order of gates."""
    gates, width, outputs = len(w) // r.shape[1], r.shape[1], []
    wb, rb = np.split(b, 2)
    for row in x:
        own, old = row @ w.T + wb, h @ r.T + rb
        if kind == "RNN":
            h = np.tanh(own + old)
        elif kind == "LSTM":
            i, o, f, g = np.split(own + old, gates, -1)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
        else:
            z, q = np.split(sigmoid((own + old)[:, : 2 * width]), 2, -1)
            if before:
                fresh = np.tanh(own[:, 2 * width :] + q * old[:, 2 * width :])
            else:
                fresh = np.tanh(own[:, 2 * width :] + (q * h) @ r[2 * width :].T + rb[2 * width :])
            h = (1 - z) * fresh + z * h
        outputs.append(h)
    return np.stack(outputs), h, c


@pytest.mark.parametrize("states", [True, False])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "GRU-before", "RNN"])
def test_a_recurrent_layer(kind, direction, states):
    kind, _, before = kind.partition("-")
    gates, ways = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind], 2 if direction == "bidirectional" else 1
    x = normal(5, 2, 3)
    w, r, b = (
        normal(ways, 4 * gates, 3, seed=1),
        normal(ways, 4 * gates, 4, seed=2),
        normal(ways, 8 * gates, seed=3),
    )
    first = (
        [normal(ways, 2, 4, seed=4), normal(ways, 2, 4, seed=5)] if states else [np.zeros((ways, 2, 4))] * 2
    )
    inputs, constants = {"x": x}, {"w": w, "r": r, "b": b}
    names = ["x", "w", "r", "b"]
    if states:
        constants |= {"h": first[0]} | ({"c": first[1]} if kind == "LSTM" else {})
        names += ["", *(name for name in constants if name in "hc")]
    made = ["y", "yh", "yc"][: 3 if kind == "LSTM" else 2]
    more = {"linear_before_reset": 1} if before else {}
    node = helper.make_node(kind, names, made, hidden_size=4, direction=direction, **more)
    imported = og.from_onnx(model_of([node], inputs, made, constants))
    assert not [op.kind for op in imported.ops if op.kind.startswith("Host")]
    results = list(imported.compile()(inputs).values())
    wanted = []
    for way in range(ways):
        backwards = direction == "reverse" or way == 1
        outputs, h, c = stepped(
            kind,
            x[::-1] if backwards else x,
            w[way],
            r[way],
            b[way],
            first[0][way],
            first[1][way],
            bool(before),
        )
        wanted.append((outputs[::-1] if backwards else outputs, h, c))
    close(results[0], np.stack([one[0] for one in wanted], 1).astype(np.float32))
    for place in range(1, len(made)):
        close(results[place], np.stack([one[place] for one in wanted]).astype(np.float32))


def test_a_recurrent_layer_with_batches_first():
    x, w, r = normal(2, 5, 3), normal(1, 4, 3, seed=1), normal(1, 4, 4, seed=2)
    node = helper.make_node(
        "RNN", ["x", "w", "r"], ["y", "yh"], hidden_size=4, layout=1, activations=["Relu"]
    )
    y, last = og.from_onnx(model_of([node], {"x": x}, ["y", "yh"], {"w": w, "r": r})).compile()(x).values()
    h, outputs = np.zeros((2, 4)), []
    for time in range(5):
        h = np.maximum(x[:, time] @ w[0].T + h @ r[0].T, 0)
        outputs.append(h)
    close(y, np.stack(outputs, 1)[:, :, None].astype(np.float32))
    close(last, h[:, None].astype(np.float32))


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_sequences_of_different_lengths(kind, direction):
    """Each as it is alone, with zeros behind it."""
    gates, ways = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind], 2 if direction == "bidirectional" else 1
    x, lengths = normal(5, 3, 4), np.int32([5, 2, 3])
    constants = {"w": normal(ways, gates * 6, 4), "r": normal(ways, gates * 6, 6, seed=1)}
    first = {"h": normal(ways, 3, 6, seed=2)} | ({"c": normal(ways, 3, 6, seed=3)} if kind == "LSTM" else {})
    made = ["y", "yh", "yc"][: 3 if kind == "LSTM" else 2]
    attributes = {"hidden_size": 6, "direction": direction}
    node = helper.make_node(kind, ["x", "w", "r", "", "n", *first], made, **attributes)
    inputs = {"x": x, "n": lengths, **first}
    every = og.from_onnx(model_of([node], inputs, made, constants)).compile()(inputs)
    alone = helper.make_node(kind, ["x", "w", "r", "", "", *first], made, **attributes)
    for number, length in enumerate(lengths):
        own = {
            "x": x[:length, number : number + 1],
            **{k: v[:, number : number + 1] for k, v in first.items()},
        }
        wanted = og.from_onnx(model_of([alone], own, made, constants)).compile()(own)
        np.testing.assert_allclose(every["y"][:length, :, number], wanted["y"][:, :, 0], atol=1e-6)
        assert not every["y"][length:, :, number].any()
        for name in made[1:]:
            np.testing.assert_allclose(every[name][:, number], wanted[name][:, 0], atol=1e-6)


REFUSED = {
    "a clip": (
        "RNN",
        [normal(2, 1, 3)],
        {"hidden_size": 4, "clip": 1.0},
        ["w", "r"],
        "attribute clip is 1.0",
    ),
    "a function": (
        "RNN",
        [normal(2, 1, 3)],
        {"hidden_size": 4, "activations": ["Softsign"]},
        ["w", "r"],
        "the functions",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_recurrent_layers_that_no_ops_are(name):
    """They run by themselves, and where nothing may, they are refused."""
    kind, (x,), attributes, more, message = REFUSED[name]
    constants = {"w": normal(1, 4, 3), "r": normal(1, 4, 4)}
    node = helper.make_node(kind, ["x", *more], ["y"], **attributes)
    model = model_of([node], {"x": x}, ["y"], {key: constants[key] for key in more})
    with pytest.raises(og.UnsupportedError, match=message):
        og.from_onnx(model, reference=False)
    state, rows = np.zeros((1, 4)), []
    for step in x.astype("f8"):
        gate = step @ constants["w"][0].T + state @ constants["r"][0].T
        state = np.tanh(gate.clip(-1, 1)) if "clip" in attributes else gate / (1 + np.abs(gate))
        rows.append(state[None])
    np.testing.assert_allclose(og.from_onnx(model).compile()(x)["y"], np.stack(rows), atol=1e-6)
