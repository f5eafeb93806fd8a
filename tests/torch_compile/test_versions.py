"""Versions of torch tell of a graph's weights in different places."""

from types import SimpleNamespace

import pytest

pytest.importorskip("torch", reason="these tests need torch; install the extra 'test-oracles'")

from onednn_graph.graph.torch_compile.versions import steady_arguments


@pytest.mark.parametrize(
    ("metadata", "weights", "expected"),
    [
        ({"static_input_indices": [0, 2]}, [], {0, 2}),
        ({"static_input_indices": []}, [], set()),
        ({}, ["weight", "bias"], {0, 1}),
        ({}, None, set()),
    ],
    ids=["as numbers", "none", "before the inputs, as in 2.4", "none, as in 2.4"],
)
def test_which_arguments_are_weights(metadata, weights, expected):
    context = SimpleNamespace(fw_metadata=SimpleNamespace(**metadata), params_flat=weights)
    assert steady_arguments(context) == expected
