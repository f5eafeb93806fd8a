"""Accuracy where scores or labels are none."""

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.graph.training.metrics import Means

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


# --- what does not count, and yes or no ---


def test_padding_does_not_count():
    assert found([[1, 9], [9, 1], [1, 9]], [1, -100, 0], ignore_index=-100) == [True, False]
    assert found([0.2, 0.7, 0.9], [1, 1, -100], threshold=0.5, ignore_index=-100) == [False, True]


def test_yes_or_no_has_a_threshold():
    assert found([0.2, 0.7, 0.5, NAN], [0, 1, 1, 0], threshold=0.5) == [True, True, False, False]
    with pytest.raises(og.ArgumentError, match=r"2 classes or more.*got shape \[3, 1\]; give threshold"):
        found([[0.2], [0.7], [0.5]], [0, 1, 1])
    with pytest.raises(og.ShapeError, match=r"must have the shape of output 'y', \[3, 1\], got \[3\]"):
        found([[0.2], [0.7], [0.5]], [0, 1, 1], threshold=0.5)
    with pytest.raises(og.ArgumentError, match="the 3 of top="):
        found([[1, 2]], [0], top=3)


# --- scores ---

T = og.training
SCORES = {"precision": T.PrecisionScore, "recall": T.RecallScore, "f1": T.F1Score, "iou": T.MeanIoU}


class Sum:
    """Processes of which each has told what it has: the mean over them, number by number."""

    def __init__(self, ranks):
        self.ranks = ranks

    def over_ranks(self, metrics):
        told = [[] for _ in self.ranks]
        for mine, rank in zip(told, self.ranks, strict=True):
            rank.found(metrics, lambda value, mine=mine: mine.append(value) or 1.0)
        means = np.mean(told, axis=0).tolist()
        found = []
        for rank in self.ranks:
            left = iter(means)
            found.append(rank.found(metrics, lambda _, left=left: next(left)))
        return found


def told(metrics, batches, ranks=1):
    """What is told of batches of outputs and labels; of several processes each has every so many."""
    sums = [Means() for _ in range(ranks)]
    for n, (scores, labels) in enumerate(batches):
        for name, metric in metrics.items():
            sums[n % ranks].add(name, metric({"y": np.asarray(scores)}, {LABELS: np.asarray(labels)}))
    if ranks == 1:
        return sums[0].found(metrics, None)
    first, *others = Sum(sums).over_ranks(metrics)
    assert all(other == first for other in others)
    return first


def by_hand(said, there, classes):
    """The scores of each class that is there or said, by sets."""
    rows = []
    for c in classes:
        mine, true = said == c, there == c
        both, n, m, either = (mine & true).sum(), mine.sum(), true.sum(), (mine | true).sum()
        if either:
            rows.append([both / n if n else 0, both / m if m else 0, 2 * both / (n + m), both / either])
    return dict(zip(SCORES, np.mean(rows, axis=0), strict=True)) if rows else dict.fromkeys(SCORES, 0)


@pytest.mark.parametrize("ranks", [1, 3, 9])
@pytest.mark.parametrize("seed", range(5))
def test_scores_of_classes_are_over_all_data(ranks, seed):
    rng = np.random.default_rng(seed)
    classes = 6
    metrics = {
        name: one("y", LABELS, classes=classes, axis=1, ignore_index=255) for name, one in SCORES.items()
    }
    batches, said, there = [], [], []
    for size in (3, 1, 5, 2):
        scores = rng.normal(size=(size, classes, 2, 2)).astype(np.float32)
        scores[:, 4:] -= 9  # never said
        labels = rng.integers(0, 5, (size, 2, 2)).astype(np.uint8)  # 5 is never there
        labels[rng.random(labels.shape) < 0.3] = 255
        batches.append((scores, labels))
        said.append(scores.argmax(1)[labels != 255])
        there.append(labels[labels != 255])
    want = by_hand(np.concatenate(said), np.concatenate(there), range(classes))
    assert told(metrics, batches, ranks) == pytest.approx(want)


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("kind", [bool, np.int64, np.float32])
def test_scores_of_yes_or_no(ranks, kind):
    metrics = {name: one("y", LABELS, threshold=0) for name, one in SCORES.items()}
    logits, labels = np.array([3.0, -1, 2, -4, 0, 1, NAN]), np.array([1, 1, 0, 0, 1, 1, 0]).astype(kind)
    cut = 3
    batches = [(logits[:cut], labels[:cut]), (logits[cut:], labels[cut:])]
    want = by_hand(logits > 0, labels.astype(bool), [True])
    assert told(metrics, batches, ranks) == pytest.approx(want)


def test_scores_of_nothing_are_zero():
    metrics = {name: one("y", LABELS) for name, one in SCORES.items()}
    assert told(metrics, [([0.1, 0.2], [0, 0])]) == dict.fromkeys(SCORES, 0)
    assert told(metrics, [([0.1, 0.2], [0, 0])], 3) == dict.fromkeys(SCORES, 0)


@pytest.mark.parametrize(
    ("options", "scores", "labels", "message"),
    [
        ({}, [0.1], [2], "F1Score: labels 'labels' must be integers from 0 to 1, got 2"),
        ({}, [0.1], [-1], "must be integers from 0 to 1, got -1"),
        ({}, [0.1], [0.5], "must be integers from 0 to 1, got 0.5"),
        ({}, [[0.1]], [1], r"labels 'labels' must have shape \[1, 1\], got \[1\]"),
        ({"classes": 3}, [[1, 2, 3]], [3], "must be integers from 0 to 2, got 3"),
        ({"classes": 3}, [[1, 2]], [1], "output 'y' must have 3 classes along axis -1"),
        ({"classes": 1}, [[1]], [0], "classes must be a number of 2 or more, got 1"),
    ],
)
def test_what_has_no_score(options, scores, labels, message):
    with pytest.raises(og.OneDNNGraphError, match=message):
        told({"f1": T.F1Score("y", LABELS, **options)}, [(scores, labels)])


def test_ratios_say_how_many_they_are():
    with pytest.raises(og.ArgumentError, match="metric 'own' returns Ratios and must say how many they are"):
        told({"own": lambda outputs, feeds: T.Ratios([1], [2])}, [([1.0], [1])])


def test_distances():
    metric = T.MeanAbsoluteError("y", LABELS)
    assert told({"mae": metric}, [([1.0, 2], [3, 2]), ([5], [1])]) == {"mae": 2}
    with pytest.raises(og.ShapeError, match=r"must have the shape of output 'y', \[2, 1\], got \[2\]"):
        told({"mae": metric}, [([[1.0], [2]], [3, 2])])


def test_scores_of_a_trainer():
    graph = og.Graph()
    x, y = graph.input("x", "f32", [-1]), graph.input(LABELS, "f32", [-1])
    logits = graph.output(graph.multiply(x, graph.parameter(np.ones(1, np.float32), name="w")), name="y")
    loss = T.binary_cross_entropy_with_logits(graph, logits, y)
    trainer = T.Trainer(graph, loss, T.SGD(0.0))
    batches = [
        {"x": np.array([1, -1], np.float32), LABELS: np.array([1, 1], np.float32)},
        {"x": np.array([1, 1, -1], np.float32), LABELS: np.array([0, 1, 0], np.float32)},
    ]
    metrics = {name: one("y", LABELS, threshold=0) for name, one in SCORES.items()}
    want = {"precision": 2 / 3, "recall": 2 / 3, "f1": 2 / 3, "iou": 1 / 2}
    found = trainer.validate(batches, metrics)
    assert {name: found[name] for name in SCORES} == pytest.approx(want)
    (epoch,) = trainer.fit(batches, 1, training_metrics=metrics)
    assert epoch.training == pytest.approx(want)
