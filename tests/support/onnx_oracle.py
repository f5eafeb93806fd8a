"""Small ONNX models for tests, and what ONNX's own reference makes of them."""

import numpy as np
import onednn_graph as og
import pytest

onnx = pytest.importorskip("onnx", reason="these tests need the package onnx; install the extra 'onnx'")
helper, numpy_helper = onnx.helper, onnx.numpy_helper
reference = pytest.importorskip("onnx.reference", reason="onnx has no reference evaluator here")


NEWEST = min(onnx.defs.onnx_opset_version(), 24)

IR = 10


def rng(seed=0):
    return np.random.default_rng(seed)


def model_of(nodes, inputs, outputs, constants=None, opset=NEWEST, shapes=None, **more):
    """A model; inputs are arrays, whose types and shapes it has (or `shapes`, by name), constants initializers."""
    infos = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(a.dtype), (shapes or {}).get(name, a.shape)
        )
        for name, a in inputs.items()
    ]
    graph = helper.make_graph(
        nodes,
        "test",
        infos,
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(a, name) for name, a in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=IR, **more)


def expected_of(model, inputs):
    names = [o.name for o in model.graph.output]
    with np.errstate(all="ignore"):  # infinities and NaN are results here
        return dict(zip(names, reference.ReferenceEvaluator(model).run(None, dict(inputs)), strict=True))


def close(result, expected, rtol=1e-5):
    """Equal up to `rtol` of the largest element: f32 has 2⁻²⁴, and sums here have some hundred terms at most."""
    expected = np.asarray(expected)
    rtol = 2e-3 if expected.dtype == np.float16 else rtol  # of 2⁻¹¹, and the reference rounds in between
    assert result.shape == expected.shape
    assert result.dtype == expected.dtype
    scale = np.abs(expected[np.isfinite(expected)]).max(initial=0) if expected.dtype.kind == "f" else 0
    np.testing.assert_allclose(
        result.astype("f8"), expected.astype("f8"), rtol=0, atol=rtol * max(float(scale), 1e-3)
    )


def check(model, inputs, *, rtol=1e-5, exact=False, kinds=None):
    """Runs it and compares with the reference; returns what was imported."""
    imported = og.from_onnx(model)
    if kinds is not None:
        assert [op.kind for op in imported.ops] == kinds
    compiled = imported.compile()
    assert set(compiled.input_names) == set(inputs)
    results = compiled(**inputs)
    expected = expected_of(model, inputs)
    assert list(results) == list(expected)
    for name, want in expected.items():
        if exact:
            assert results[name].dtype == want.dtype
            np.testing.assert_array_equal(results[name], want)
        else:
            close(results[name], want, rtol)
    return imported


def normal(*shape, seed=0, dtype=np.float32):
    return rng(seed).standard_normal(shape).astype(dtype)


def positive(*shape, seed=0):
    return (0.5 + rng(seed).random(shape)).astype(np.float32)


def integers(*shape, seed=0, low=-4, high=5):
    return rng(seed).integers(low, high, shape).astype(np.float32)


X = normal(2, 3, 4)

IMAGE = normal(2, 4, 7, 6)

QKV = [normal(2, 3, 5, 8), normal(2, 3, 7, 8, seed=1), normal(2, 3, 7, 6, seed=2)]

I64 = np.int64


def ints(*values):
    return np.array(values, np.int64)


def scalar(value, dtype=np.float32):
    return np.array(value, dtype)
