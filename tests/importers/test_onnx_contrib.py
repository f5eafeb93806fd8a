"""`from_onnx`: ops of onnxruntime's own domain, which become ONNX's, by formulas of their own in double precision."""

import math

import numpy as np
import onednn_graph as og
import pytest
from onnx_oracle import helper, integers, model_of, normal

MS = "com.microsoft"


def erf(x):
    return np.vectorize(math.erf)(x)


def gelu(x):
    return x * (1 + erf(x / 2**0.5)) / 2


def normalised(x, scale, bias, epsilon):
    centre = x - x.mean(-1, keepdims=True)
    return centre / np.sqrt((centre**2).mean(-1, keepdims=True) + epsilon) * scale + bias


def run(kind, inputs, outputs=("out",), constants=None, opset=17, domain=MS, **attributes):
    """The outputs of one node; inputs that are None are not there."""
    constants = constants or {}
    names = [name if value is not None else "" for name, value in {**inputs, **constants}.items()]
    order = attributes.pop("order", names)
    given = {name: value for name, value in inputs.items() if value is not None}
    node = helper.make_node(kind, order, list(outputs), domain=domain, **attributes)
    model = model_of([node], given, [o for o in outputs if o], constants, opset=opset)
    model.opset_import.append(helper.make_opsetid(MS, 1))
    before = model.SerializeToString()
    made = og.from_onnx(model, reference=False).compile()(given)
    assert model.SerializeToString() == before
    return [value.astype("f8") for value in made.values()]


X, Y, B = normal(2, 3, 8), normal(2, 3, 8, seed=1), normal(8, seed=2)


@pytest.mark.parametrize(
    ("kind", "inputs", "attributes", "want"),
    [
        ("Gelu", {"x": X}, {}, lambda: gelu(X.astype("f8"))),
        ("BiasGelu", {"x": X, "b": B}, {}, lambda: gelu((X + B).astype("f8"))),
        (
            "FastGelu",
            {"x": X, "b": B},
            {},
            lambda: (X + B) * (1 + np.tanh((2 / np.pi) ** 0.5 * ((X + B) + 0.044715 * (X + B) ** 3))) / 2,
        ),
        ("QuickGelu", {"x": X}, {"alpha": 1.5}, lambda: X / (1 + np.exp(-1.5 * X.astype("f8")))),
        ("FusedMatMul", {"x": X, "y": Y}, {"transB": 1, "alpha": 0.5}, lambda: X @ Y.swapaxes(1, 2) * 0.5),
        ("FusedMatMul", {"x": X, "y": Y}, {"transA": 1}, lambda: X.swapaxes(1, 2) @ Y),
        (
            "SkipLayerNormalization",
            {"x": X, "y": Y, "g": B, "b": B + 1, "c": B - 1},
            {"epsilon": 1e-3},
            lambda: normalised((X + Y + B - 1).astype("f8"), B, B + 1, 1e-3),
        ),
        (
            "SkipSimplifiedLayerNormalization",
            {"x": X, "y": Y, "g": B},
            {"epsilon": 1e-3},
            lambda: (X + Y) / np.sqrt(((X + Y).astype("f8") ** 2).mean(-1, keepdims=True) + 1e-3) * B,
        ),
    ],
)
@pytest.mark.parametrize("opset", [13, 17, 18])
def test_functions_and_normalisations(kind, inputs, attributes, want, opset):
    (y,) = run(kind, inputs, opset=opset, **attributes)
    np.testing.assert_allclose(y, want(), rtol=1e-4, atol=1e-4)


def test_the_sum_before_the_normalisation():
    outputs = run("SkipLayerNormalization", {"x": X, "y": Y, "g": B}, ("n", "", "", "s"))
    np.testing.assert_allclose(outputs[1], X + Y, rtol=1e-6)


@pytest.mark.parametrize(
    ("activation", "numbers", "function"),
    [
        ("Relu", [], lambda v: np.maximum(v, 0)),
        ("LeakyRelu", [0.25], lambda v: np.where(v < 0, 0.25 * v, v)),
        ("Clip", [-1.0, 2.0], lambda v: np.clip(v, -1, 2)),
    ],
)
def test_a_convolution_with_what_follows(activation, numbers, function):
    x, w, b, z = integers(1, 2, 4, 4), integers(3, 2, 1, 1), integers(3), integers(1, 3, 4, 4, seed=3)
    attributes = {"activation": activation, **({"activation_params": numbers} if numbers else {})}
    (y,) = run("FusedConv", {"x": x, "w": w, "b": b, "z": z}, kernel_shape=[1, 1], **attributes)
    np.testing.assert_allclose(
        y, function(np.einsum("nchw,oc->nohw", x, w[:, :, 0, 0]) + b[:, None, None] + z)
    )


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("with_zeros", [False, True])
def test_weights_of_a_few_bits(bits, with_zeros):
    random = np.random.default_rng(0)
    rows, columns, block, blocks = 40, 5, 16, 3
    q = random.integers(0, 1 << bits, (columns, blocks, block))
    zeros = (
        random.integers(0, 1 << bits, (columns, blocks))
        if with_zeros
        else np.full((columns, blocks), 1 << (bits - 1))
    )
    scales = random.random((columns, blocks)).astype(np.float32)

    def packed(numbers):
        each = 8 // bits
        padded = np.zeros((*numbers.shape[:-1], -(-numbers.shape[-1] // each) * each), np.int64)
        padded[..., : numbers.shape[-1]] = numbers
        parts = padded.reshape(*numbers.shape[:-1], -1, each) << (bits * np.arange(each))
        return parts.sum(-1).astype(np.uint8)

    constants = {"q": packed(q), "s": scales.reshape(-1)}
    if with_zeros:
        constants["z"] = packed(zeros).reshape(-1)
    x = normal(4, rows)
    (y,) = run("MatMulNBits", {"x": x}, constants=constants, K=rows, N=columns, bits=bits, block_size=block)
    w = ((q - zeros[..., None]) * scales[..., None]).reshape(columns, -1)[:, :rows]
    np.testing.assert_allclose(y, x.astype("f8") @ w.T, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("lengths", [False, True])
def test_attention(lengths):
    x, w, b = normal(2, 3, 8), normal(8, 24, seed=1), normal(24, seed=2)
    mask = np.asarray([2, 3], np.int32) if lengths else np.asarray([[1, 1, 0], [1, 1, 1]], np.int32)
    (y,) = run(
        "Attention", {"x": x, "m": mask}, constants={"w": w, "b": b}, order=["x", "w", "b", "m"], num_heads=2
    )
    q, k, v = (
        np.moveaxis(part.reshape(2, 3, 2, 4), 2, 1) for part in np.split((x @ w + b).astype("f8"), 3, -1)
    )
    scores = q @ k.swapaxes(2, 3) / 2
    scores[0, :, :, 2] -= 10000
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    want = np.moveaxis(powers / powers.sum(-1, keepdims=True) @ v, 1, 2).reshape(2, 3, 8)
    np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("kind", "attributes"),
    [
        ("FusedConv", {"activation": "Mystery"}),
        ("QuickGelu", {"beta": 1.0}),
        ("FusedMatMul", {"transC": 1}),
    ],
)
def test_what_is_more_than_is_known_stays(kind, attributes):
    with pytest.raises(og.UnsupportedError, match=f"com.microsoft.{kind} ×1"):
        run(
            kind,
            {"x": normal(1, 2, 3, 3), **({"y": normal(1, 2, 3, 3)} if kind[0] == "F" else {})},
            **attributes,
        )


def test_a_layout_that_onnxruntime_has_alone():
    with pytest.raises(og.UnsupportedError, match="save the model without its layout optimisations"):
        run("ReorderOutput", {"x": X}, domain="com.microsoft.nchwc")


def test_weights_of_a_few_bits_have_their_limit():
    node = helper.make_node(
        "MatMulNBits", ["x", "q", "s"], ["y"], domain=MS, K=1 << 30, N=1 << 30, block_size=32
    )
    constants = {"q": np.zeros(1, np.uint8), "s": np.zeros(1, np.float32)}
    model = model_of([node], {"x": X}, ["y"], constants, opset=17)
    model.opset_import.append(helper.make_opsetid(MS, 1))
    with pytest.raises(og.UnsupportedError, match="raise fold_limit"):
        og.from_onnx(model)
