"""`from_onnx`: recurrent layers that become no ops, with lengths for each row, and short-time spectra."""

import numpy as np
import onednn_graph as og
import pytest
from onnx_oracle import expected_of, helper, model_of, normal, numpy_helper

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
LENGTHS = np.asarray([5, 2, 0], np.int32)


def layer(kind, ways, lengths, **attributes):
    """A layer of three outputs for five steps of three rows, and its inputs."""
    gates = GATES[kind] * 4
    inputs = {
        "x": normal(5, 3, 2),
        "w": normal(ways, gates, 2, seed=1),
        "r": normal(ways, gates, 4, seed=2),
        "b": normal(ways, 2 * gates, seed=3),
        "l": lengths,
        "h": normal(ways, 3, 4, seed=4),
        **({"c": normal(ways, 3, 4, seed=5)} if kind == "LSTM" else {}),
    }
    outputs = ["y", "last", *(["cell"] if kind == "LSTM" else [])]
    names = [name if inputs[name] is not None else "" for name in inputs]
    node = helper.make_node(kind, names, outputs, hidden_size=4, **attributes)
    given = {name: value for name, value in inputs.items() if value is not None}
    constants = {name: given.pop(name) for name in "wrb"}
    return model_of([node], given, outputs, constants, opset=17), given


def rows_one_by_one(kind, ways, given, **attributes):
    """What layers without lengths give for the rows by themselves, cut to their lengths; of no steps all is 0, as in
    onnxruntime."""
    y = np.zeros((5, ways, 3, 4), np.float32)
    ends = [np.zeros_like(given[name]) for name in ("hc" if kind == "LSTM" else "h")]
    for row, length in enumerate(LENGTHS):
        if length == 0:
            continue
        model, alone = layer(kind, ways, None, **attributes)
        alone = {name: value[:, row : row + 1] for name, value in alone.items()}
        alone["x"] = given["x"][:length, row : row + 1]
        for info in model.graph.input:
            info.type.tensor_type.shape.dim[0].dim_value = alone[info.name].shape[0]
            info.type.tensor_type.shape.dim[1].dim_value = 1
        made = list(og.from_onnx(model).compile()(alone).values())
        y[:length, :, row : row + 1] = made[0]
        for end, own in zip(ends, made[1:], strict=True):
            end[:, row : row + 1] = own
    return [y, *ends]


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_rows_of_their_own_length(kind, direction):
    more = {"linear_before_reset": 1} if (kind, direction) == ("GRU", "reverse") else {}
    ways = 2 if direction == "bidirectional" else 1
    model, given = layer(kind, ways, LENGTHS, direction=direction, **more)
    made = og.from_onnx(model).compile()(given)
    want = rows_one_by_one(kind, ways, given, direction=direction, **more)
    for value, expected in zip(made.values(), want, strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6)


def test_each_row_has_a_length():
    model, given = layer("GRU", 1, LENGTHS)
    model.graph.input[1].type.tensor_type.shape.dim[0].dim_value = 2
    with pytest.raises(og.OneDNNGraphError):
        og.from_onnx(model).compile()({**given, "l": np.int32([5, 2])})


def test_lengths_end_where_the_steps_do():
    model, given = layer("GRU", 1, LENGTHS)
    compiled = og.from_onnx(model).compile()
    made = compiled({**given, "l": np.int32([9, 2, -1])})
    for name, expected in compiled({**given, "l": np.int32([5, 2, 0])}).items():
        np.testing.assert_array_equal(made[name], expected)


@pytest.mark.parametrize("kind", GATES)
def test_what_lies_behind_the_end_of_a_sequence_is_not_read(kind):
    model, given = layer(kind, 2, LENGTHS, direction="bidirectional")
    compiled = og.from_onnx(model).compile()
    want = compiled(given)
    for row, length in enumerate(LENGTHS):
        given["x"][length:, row] = np.nan
    for name, made in compiled(given).items():
        np.testing.assert_array_equal(made, want[name])


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("onesided", [0, 1])
def test_spectra(rank, onesided):
    x = normal(2, 40) if rank == 2 else normal(2, 40, 1)
    constants = {"step": np.asarray(6), "window": np.hanning(12).astype(np.float32), "length": np.asarray(12)}
    node = helper.make_node("STFT", ["x", *constants], ["y"], onesided=onesided)
    model = model_of([node], {"x": x}, ["y"], constants, opset=17)
    y = og.from_onnx(model).compile()(x)["y"]
    frames = np.stack([x.reshape(2, 40)[:, i * 6 : i * 6 + 12] for i in range(5)], 1) * constants["window"]
    want = np.fft.fft(frames.astype("f8"))[..., : 7 if onesided else 12]
    np.testing.assert_allclose(y, np.stack([want.real, want.imag], -1), rtol=1e-4, atol=1e-4)
    if rank == 3 and not onesided:
        np.testing.assert_allclose(y, expected_of(model, {"x": x})["y"], rtol=1e-4, atol=1e-4)


def test_a_layer_without_units_is_refused_when_it_is_called():
    weights = {"w": np.zeros((1, 0, 3), np.float32), "r": np.zeros((1, 0, 0), np.float32)}
    node = helper.make_node("RNN", ["x", *weights], ["y"], hidden_size=0)
    x = normal(2, 1, 3)
    with pytest.raises(og.UnsupportedError, match="RNN"):
        og.from_onnx(model_of([node], {"x": x}, ["y"], weights, opset=16)).compile()(x)


@pytest.mark.parametrize("sizes", [(140, 2, 3), ("steps", "rows", 3)])
def test_long_sequences_are_not_spelled_out(sizes):
    """Each step would be ten ops; nobody waits for the compilation of thousands."""
    given = {"x": normal(140, 2, 3)}
    constants = {"w": normal(1, 16, 3, seed=1), "r": normal(1, 16, 4, seed=2), "b": normal(1, 32, seed=3)}
    node = helper.make_node("LSTM", ["x", *constants], ["y", "h", "c"], hidden_size=4)
    model = model_of([node], given, ["y", "h", "c"], constants, opset=17, shapes={"x": sizes})
    for info in model.graph.output:
        info.type.tensor_type.elem_type = 1
    expected = expected_of(model, given)
    compiled = og.from_onnx(model).compile()
    for _ in range(2):  # what a call keeps is not written to by the next
        made = compiled(given)
        for name, want in expected.items():
            np.testing.assert_allclose(made[name], want, atol=2e-6)
    assert len(compiled.partitions) == 0
    spelled_out = og.from_onnx(
        model, reference=False, shapes=None if "rows" not in sizes else {"x": (140, 2, 3)}
    )
    assert len(spelled_out.ops) > 1000


def test_long_sequences_of_other_layers():
    given = {"x": normal(140, 2, 3)}
    for kind, gates in GATES.items():
        constants = {"w": normal(1, gates * 4, 3, seed=1), "r": normal(1, gates * 4, 4, seed=2)}
        node = helper.make_node(kind, ["x", *constants], ["y"], hidden_size=4, direction="reverse")
        model = model_of([node], given, ["y"], constants, opset=17)
        apart = og.from_onnx(model, reference=False).compile(backend="numpy")(given)["y"]
        np.testing.assert_allclose(og.from_onnx(model).compile()(given)["y"], apart, atol=2e-6)


NUMBERED = {
    "Affine": lambda x, a, b: a * x + b,
    "Elu": lambda x, a, b: np.where(x < 0, a * np.expm1(x), x),
    "HardSigmoid": lambda x, a, b: np.clip(a * x + b, 0, 1),
    "LeakyRelu": lambda x, a, b: np.where(x < 0, a * x, x),
    "ScaledTanh": lambda x, a, b: a * np.tanh(b * x),
    "ThresholdedRelu": lambda x, a, b: np.where(x > a, x, 0),
}
WITHOUT_BETA = ("Elu", "LeakyRelu", "ThresholdedRelu")


def ends_of_rnn(given, functions):
    """What two directions of an RNN end with."""
    constants, x, h = given["constants"], given["x"], np.array(given["h"])
    for way, function in enumerate(functions):
        w, r, b = (constants[name][way] for name in "wrb")
        for step in x[:: -1 if way else 1]:
            h[way] = function(step @ w.T + h[way] @ r.T + b[:4] + b[4:])
    return h


@pytest.mark.parametrize("name", NUMBERED)
def test_functions_of_gates_take_their_numbers_in_turn(name):
    """Of two directions the first has a function without numbers, which takes none."""
    alphas, betas = [0.3], [] if name in WITHOUT_BETA else [0.4]
    more = {"activation_alpha": alphas} | ({"activation_beta": betas} if betas else {})
    model, given = layer("RNN", 2, None, direction="bidirectional", activations=["Tanh", name], **more)
    constants = {one.name: numpy_helper.to_array(one) for one in model.graph.initializer}
    made = og.from_onnx(model).compile()(given)["last"]
    functions = [np.tanh, lambda x: NUMBERED[name](x, *alphas, *(betas or [0]))]
    np.testing.assert_allclose(
        made, ends_of_rnn({**given, "constants": constants}, functions), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("name", ["Elu", "HardSigmoid", "LeakyRelu", "ThresholdedRelu"])
def test_functions_of_gates_have_the_numbers_of_onnx_ops(name):
    usual = {"Elu": (1, 0), "HardSigmoid": (0.2, 0.5), "LeakyRelu": (0.01, 0), "ThresholdedRelu": (1, 0)}
    model, given = layer("RNN", 2, None, direction="bidirectional", activations=["Relu", name])
    constants = {one.name: numpy_helper.to_array(one) for one in model.graph.initializer}
    functions = [lambda x: np.maximum(x, 0), lambda x: NUMBERED[name](x, *usual[name])]
    np.testing.assert_allclose(
        og.from_onnx(model).compile()(given)["last"],
        ends_of_rnn({**given, "constants": constants}, functions),
        rtol=1e-4,
        atol=1e-5,
    )


def test_functions_of_gates_whose_numbers_nothing_says_are_refused():
    model, given = layer("RNN", 1, None, activations=["Affine"])
    with pytest.raises(og.UnsupportedError, match="'affine' of gates without its numbers"):
        og.from_onnx(model).compile()(given)
