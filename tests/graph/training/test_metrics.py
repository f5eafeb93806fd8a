"""Accuracy where scores or labels are none."""

import numpy as np
import onednn_graph as og
import pytest

NAN = np.nan
LABELS = "labels"


def found(scores, labels, **options):
    metric = og.training.Accuracy("y", LABELS, **options)
    return metric({"y": np.asarray(scores, np.float32)}, {LABELS: np.asarray(labels)}).tolist()


@pytest.mark.parametrize("top", [1, 2, 3, 5])
def test_no_label_is_found_among_nan(top):
    assert found([[NAN] * 5, [1, 2, NAN, 4, 5]], [0, 2], top=top) == [False, False]


@pytest.mark.parametrize("top", [1, 2])
@pytest.mark.parametrize("label", [-1, -100, 3, 1000])
def test_a_label_of_no_class_is_not_found(top, label):
    assert found([[1, 2, 9]], [label], top=top) == [False]
    assert found([[1, 2, 9], [9, 1, 2]], [label, 0], top=top) == [False, True]


def test_a_nan_is_above_a_number():
    assert found([[NAN, 2, 1], [3, 2, 1]], [1, 1], top=2) == [True, True]
    assert found([[NAN, 2, 1]], [1], top=1) == [False]
