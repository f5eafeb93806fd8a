"""The cases of ONNX's own test runner, `onnx.backend.test.BackendTest`, on `onednn_graph.onnx_backend`."""

import warnings

import pytest

pytest.importorskip("onnx", reason="these tests need the package onnx; install the extra 'onnx'")
from onednn_graph.onnx_backend import Backend

NOT_RIGHT = {
    "test_bernoulli": "draws other numbers than the case has",
    "test_convtranspose_output_shape": "padding of the output that is below 0",
    "test_gradient_of": "Gradient, an op of training that nothing computes",
    "test_loop16_seq_none": "the runner can't compare scalars in a list",
    "test_lstm_with_peepholes": "peepholes together with lengths of sequences, which the reference does not take",
    "test_scan_sum": "Scan of opset 8, which has no conversion",
}
"""Beginnings of names of cases that are not right, and why."""

TWO_STEPS_OF_F16 = {
    f"test_attention_4d_{name}": {"rtol": 2 * 2**-10}
    for name in ("fp16", "fp16_expanded", "causal_fp16", "causal_fp16_expanded")
}
"""Attention rounds to f16 between its products, and what the cases expect is up to 1.4 steps from double precision
(ours: 1.03 with the products of AVX-512 FP16, 0.56 without). The runner grants bf16 two steps, and f16 one."""


def items():
    """Category → name → what runs the case; it raises what is wrong."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test import BackendTest

        found = BackendTest(Backend, __name__, TWO_STEPS_OF_F16)._filtered_test_items
    return {
        category: {
            name.removesuffix("_cpu"): (lambda func=item.func: func(None))
            for name, item in cases.items()
            if name.endswith("_cpu")
        }
        for category, cases in found.items()
    }
