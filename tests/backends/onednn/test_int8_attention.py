"""The scores of int8 attention in bf16, as GPT models of oneDNN's corpus have them, exact on integers.

K lies transposed there, as (…, positions, channels), and is dequantized on the way. A kernel that forgets the zero
point of such a K moves all scores of a row by the same amount: a softmax hides most of that, and what is left looks
like rounding, a few steps in some elements of the result. So the scores themselves are compared, and K.
"""

import numpy as np
import onednn_graph as og
import pytest

POINT = 132


def transposed(rng, heads, channels, positions):
    """Small integers around the zero point, of shape (1, heads, channels, positions), channels lying closest."""
    values = rng.integers(POINT - 2, POINT + 3, (1, heads, positions, channels)).astype(np.uint8)
    return values.swapaxes(2, 3)


@pytest.mark.parametrize("backend", [None, "onednn", "numpy"])
@pytest.mark.parametrize(
    ("channels", "positions"), [(256, 33), (64, 7), (64, 49), (16, 5), (33, 256), (20, 9)]
)
def test_keys_that_lie_transposed_keep_their_zero_point(channels, positions, backend, onednn):
    del onednn
    keys = transposed(np.random.default_rng(0), 3, channels, positions)
    got = og.dequantize(keys, scales=[0.25], zps=[POINT], backend=backend)
    np.testing.assert_array_equal(got, (keys.astype(np.float32) - POINT) * 0.25)


@pytest.mark.parametrize(("channels", "positions"), [(256, 33), (64, 7), (64, 49)])
def test_scores_of_transposed_keys_are_exact(channels, positions, onednn):
    del onednn
    rng = np.random.default_rng(1)
    keys = transposed(rng, 4, channels, positions)
    queries = rng.integers(126, 129, (1, 4, 8, channels)).astype(np.uint8)
    graph = og.Graph()
    q = graph.input("q", "u8", queries.shape)
    k = graph.input("k", "u8", keys.shape, strides=[s // keys.itemsize for s in keys.strides])
    both = [
        graph.op("TypeCast", graph.op("Dequantize", x, scales=[scale], zps=[zp]), output_type="bf16")
        for x, scale, zp in ((q, 0.5, 127), (k, 0.25, POINT))
    ]
    graph.op("TypeCast", graph.op("MatMul", *both), output_type="f32")
    graph.finalize()
    (got,) = graph.compile()({"q": queries, "k": keys}).values()
    expected = (queries - 127.0) * 0.5 @ ((keys - float(POINT)) * 0.25)
    assert np.abs(expected).max() < 32  # eighths below it have a place in bf16
    np.testing.assert_array_equal(got, expected)
