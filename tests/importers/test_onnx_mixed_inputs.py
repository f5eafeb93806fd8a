"""`from_onnx`: inputs of several types or shapes, and what else a node's form leaves open."""

import numpy as np
import onednn_graph as og
import pytest
from onnx_oracle import check, helper, model_of, normal, positive


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("exponent", [np.float16, np.float32, np.float64, np.int32, np.int64])
@pytest.mark.parametrize("base", [np.float16, np.float32, np.float64])
def test_powers_have_the_type_of_the_base(base, exponent, held):
    given, powers = {"x": positive(2, 3).astype(base)}, {"p": np.asarray([0, 2, 3], exponent)}
    node = helper.make_node("Pow", ["x", "p"], ["y"])
    inputs, constants = (given, powers) if held else (given | powers, {})
    y = og.from_onnx(model_of([node], inputs, ["y"], constants)).compile()(inputs)["y"]
    assert y.dtype == base
    wanted = given["x"].astype("f8") ** powers["p"].astype("f8")
    np.testing.assert_allclose(y.astype("f8"), wanted, rtol=4 * float(np.finfo(base).eps) + 1e-7)


@pytest.mark.parametrize("axis", [-1, 1, 0])
@pytest.mark.parametrize("shape", [(4,), (1,), (3, 1), (2, 1, 4), (2, 3, 4)])
@pytest.mark.parametrize("with_bias", [True, False])
def test_layer_normalisation_broadcasts_scale_and_bias(axis, shape, with_bias):
    constants = {"s": normal(*shape, seed=1), **({"b": normal(4, seed=2)} if with_bias else {})}
    node = helper.make_node("LayerNormalization", ["x", *constants], ["y"], axis=axis, epsilon=0.1)
    check(model_of([node], {"x": normal(2, 3, 4)}, ["y"], constants), {"x": normal(2, 3, 4)})


def test_layer_normalisation_refuses_a_scale_that_makes_more_of_its_input():
    node = helper.make_node("LayerNormalization", ["x", "s"], ["y"], axis=0)
    model = model_of([node], {"x": normal(1, 4)}, ["y"], {"s": normal(3, 4)})
    with pytest.raises(og.UnsupportedError, match=r"shapes \[\[3, 4\]\] for \[1, 4\]"):
        og.from_onnx(model)


@pytest.mark.parametrize("opset", [14, 15])
def test_batch_normalisation_by_the_batch(opset):
    constants = {"s": normal(3), "b": normal(3, seed=1), "m": normal(3, seed=2), "v": positive(3, seed=3)}
    outputs = ["y", "mean", "variance"]
    node = helper.make_node("BatchNormalization", ["x", *constants], outputs, training_mode=1, momentum=0.7)
    x = normal(2, 3, 4)
    made = og.from_onnx(model_of([node], {"x": x}, outputs, constants, opset)).compile()(x)
    mean, variance = x.mean((0, 2)), x.var((0, 2))
    sides = [value[:, None] for value in (mean, variance, constants["s"], constants["b"])]
    wanted = (x - sides[0]) / np.sqrt(sides[1] + 1e-5) * sides[2] + sides[3]
    np.testing.assert_allclose(made["y"], wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(made["mean"], constants["m"] * 0.7 + mean * 0.3, rtol=1e-5)
    np.testing.assert_allclose(made["variance"], constants["v"] * 0.7 + variance * 0.3, rtol=1e-5)
