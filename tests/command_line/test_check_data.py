"""`onednn-graph check`: what tensors are filled with."""

import numpy as np
import pytest
from check_documents import CHAIN, attention, filled, one, run, text_of
from onednn_graph.tools.benchdnn.check import State
from onednn_graph.tools.benchdnn.reference import reference


def test_data_is_the_same_for_the_same_seed(tmp_path):
    _, first = filled(CHAIN, tmp_path)
    _, again = filled(CHAIN, tmp_path)
    _, other = filled(CHAIN, tmp_path, seed=1)
    assert all(np.array_equal(first[i], again[i]) for i in first)
    assert not np.array_equal(first[1], other[1])


@pytest.mark.parametrize("data_type", ["f32", "bf16", "f16"])
def test_products_are_exact(tmp_path, data_type):
    graph, arrays = filled(one("MatMul", [[8, 9000], [9000, 8]], [[8, 8]], data_type), tmp_path)
    expected = reference(graph, arrays, [2])[2]
    assert expected.exact
    assert 0.2 < np.sqrt(np.mean(expected.value**2)) < 8


@pytest.mark.parametrize(
    ("text", "checks"),
    [
        (one("Log", [[2000]], [[2000]]), {0: lambda a: a.min() > 0}),
        (one("Sqrt", [[2000]], [[2000]]), {0: lambda a: a.min() > 0}),
        (one("Divide", [[2000], [2000]], [[2000]]), {1: lambda a: set(a) == {2, 4, 8}}),
        (one("Exp", [[2000]], [[2000]]), {0: lambda a: a.max() < 20 and a.min() < -50}),
        (
            one("SigmoidBackward", [[99], [99]], [[99]], use_dst=True),
            {0: lambda a: a.min() > 0 and a.max() < 1},
        ),
        (one("Select", [("boolean", [99]), [99], [99]], [[99]]), {0: lambda a: set(a) == {True, False}}),
        (
            one(
                "BatchNormInference", [[1, 99, 2], *4 * [[99]]], [[1, 99, 2]], epsilon=0.5, data_format="NCX"
            ),
            {4: lambda a: set(a) == {-0.25, 0.5, 3.5}},
        ),
        (
            one("Dropout", [[99], ("s64", [1]), ("s64", [1]), ("f32", [1])], [[99]]),
            {1: lambda a: a >= 0, 3: lambda a: 0 < a[0] < 1},
        ),
        (
            one("Quantize", [[2000]], [("s8", [2000])], qtype="per_tensor", scales=[0.5], zps=[0]),
            {0: lambda a: a.max() > 64 and a.min() < -64 and np.any(a % 0.5)},
        ),
        (
            one(
                "DynamicDequantize",
                [("u4", [99]), ("f32", [1]), ("u4", [1])],
                [[99]],
                qtype="per_tensor",
                axis=0,
            ),
            {0: lambda a: a.astype(int).max() > 8, 1: lambda a: a[0] > 0},
        ),
    ],
)
def test_data_is_in_the_domain(tmp_path, text, checks):
    graph, arrays = filled(text, tmp_path)
    for number, is_fine in checks.items():
        assert is_fine(arrays[number]), arrays[number]
    for expected in reference(graph, arrays, [t.id for t in graph.outputs]).values():
        assert np.isfinite(expected.value.astype(float)).all()


BATCH_NORM = {"epsilon": 0.5, "data_format": "NXC", "momentum": 0.1}


@pytest.mark.parametrize(
    ("text", "axes"),
    [
        (
            one("BatchNormForwardTraining", [[3, 5, 4], [4], [4]], [[3, 5, 4], *4 * [[4]]], **BATCH_NORM),
            (0, 1),
        ),
        (one("LayerNorm", [[3, 5, 7], [7], [7]], [[3, 5, 7], [3, 5], [3, 5]]), (2,)),
        (one("LayerNorm", [[3, 5, 6]], [[3, 5, 6], [3], [3]], begin_norm_axis=1, use_affine=False), (1, 2)),
        (
            one(
                "GroupNorm",
                [[3, 6, 5]],
                [[3, 6, 5], [3, 6], [3, 6]],
                groups=6,
                use_affine=False,
                data_format="NCX",
            ),
            2,
        ),
    ],
)
def test_means_are_exact(tmp_path, text, axes):
    _, arrays = filled(text, tmp_path)
    means = arrays[0].astype(float).mean(axis=axes)
    assert np.array_equal(means * 2, np.rint(means * 2))
    assert len(np.unique(means)) > 1
    assert len(np.unique(arrays[0])) > 9
    assert run(text, tmp_path)[0].state is State.passed


def test_a_mask_of_attention_is_causal(tmp_path):
    for mode, last in (("none", 0.0), ("inf_as_zero", -np.inf)):
        _, arrays = filled(attention(mode, [1, 1, 5, 5]), tmp_path)
        mask = arrays[3][0, 0]
        assert np.all(mask[:4][np.tril_indices(4, 0, 5)] == 0)
        assert np.all(np.isneginf(mask[:4][np.triu_indices(4, 1, 5)]))
        assert np.all(mask[4] == last)
        assert run(attention(mode, [1, 1, 5, 5]), tmp_path)[0].state is State.passed
    _, arrays = filled(attention("none", [1, 1, 1, 5]), tmp_path)
    assert not arrays[3].any()


def test_statistics_of_softmax_belong_to_its_scores(tmp_path):
    text = text_of(
        {
            0: ("f32", [3, 8]),
            1: ("f32", [8, 5]),
            2: ("f32", [3, 5]),
            3: ("f32", [3, 1]),
            4: ("f32", [3, 5]),
            5: ("f32", [3, 5]),
        },
        ("MatMul", [0, 1], [2], {}),
        ("Subtract", [2, 3], [4], {}),
        ("Exp", [4], [5], {}),
    )
    graph, arrays = filled(text, tmp_path)
    assert reference(graph, arrays, [5])[5].value.sum(axis=1) == pytest.approx(1, abs=1e-5)
