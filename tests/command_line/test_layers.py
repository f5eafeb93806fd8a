"""Random layers: the same for the same seed, and problems that a graph takes."""

import random
from collections import Counter

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.tools.layers import KINDS, attributes, complete, draw, flops, op_of, shapes

SEVERAL = [draw(random.Random(seed)) for seed in range(250)]


def test_a_seed_stands_for_the_same_layers_in_every_version():
    """Tables of different days can be compared only so."""
    rng = random.Random(2026)
    assert [draw(rng)["name"] for _ in range(5)] == SEED_2026


SEED_2026 = [
    "dense 2-D 16x1024x7x7 to 192 g1 k3 s2 d1 p1",
    "depthwise 2-D 8x1024x7x7 to 1024 g1024 k5 s2 d1 p0",
    "pointwise 2-D 32x768x5x5 to 1024 g1 k1 s1 d1 p0",
    "patch 3-D 32x64x16x16x16 to 160 g1 k2 s2 d1 p0",
    "large pointwise 2-D 32x192x28x28 to 128 g1 k1 s1 d1 p0",
]


def test_every_kind_comes():
    seen = Counter(
        next(k for k in sorted(KINDS, key=len, reverse=True) if one["name"].startswith(k)) for one in SEVERAL
    )
    assert set(seen) == set(KINDS)
    assert {len(one["kernel"]) for one in SEVERAL} == {1, 2, 3}


@pytest.mark.parametrize("data_format", ["NXC", "NCX"])
def test_they_are_ops_whose_shapes_agree_with_their_attributes(data_format):
    for layer in SEVERAL:
        graph = og.Graph()
        graph.add_op(op_of(layer, data_format, "bf16"))
        graph.finalize()


def test_they_keep_to_the_limits():
    rng = random.Random(1)
    for _ in range(40):
        layer = draw(rng, 1e8, 2e5)
        src, dst, _ = shapes(layer, "NCX")
        assert flops(layer) <= 1e8
        assert np.prod(src) + np.prod(dst) <= 2e5


@pytest.mark.parametrize("data_format", ["NXC", "NCX"])
@pytest.mark.parametrize(
    "layer",
    [
        {"kernel": [3], "src_spatial": [9], "strides": [2], "pads_end": [1]},
        {"kernel": [3, 2], "src_spatial": [9, 8], "dilations": [2, 1], "groups": 2},
        {
            "op": "ConvTransposeBackwardWeights",
            "kernel": [4],
            "src_spatial": [5],
            "strides": [3],
            "pads_begin": [1],
        },
    ],
)
def test_what_is_left_out_of_a_layer_is_filled_in_as_the_op_has_it(layer, data_format):
    """By the forward op's own shape rule."""
    full = complete({"name": "", "batch": 2, "in_channels": 4, "out_channels": 6, **layer})
    src, dst, weights = shapes(full, data_format)
    forward = "ConvTranspose" if "Transpose" in full["op"] else "Convolution"
    graph = og.Graph()
    x, w = graph.input("x", "f32", src), graph.input("w", "f32", weights)
    given = {name: value for name, value in attributes(full, data_format).items() if name != "weights_shape"}
    assert graph.op(forward, x, w, **given).shape == dst
