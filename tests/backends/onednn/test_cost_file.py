"""The file of cost data: what is written is read again, and the package's is as it would be written."""

import zlib

import numpy as np
import pytest
from onednn_graph.backends.onednn.weight_gradients import cost, cost_file
from onednn_graph.backends.onednn.weight_gradients.cost import content


def a_tree(rng, depth):
    if depth == 0 or rng.random() < 0.1:
        return float(rng.choice([rng.normal() / 20, rng.normal() * 2]))
    threshold = float(f"{rng.random() * 10 ** rng.integers(0, 12):.4g}")
    return [int(rng.integers(5)), threshold, a_tree(rng, depth - 1), a_tree(rng, depth - 1)]


def answer(tree, traits):
    while not isinstance(tree, float | int):
        trait, threshold, below, others = tree
        tree = below if traits[trait] < threshold else others
    return tree


@pytest.mark.parametrize("seed", range(5))
def test_trees_are_read_as_they_were_written(seed):
    """To half a thousandth for each tree; the second of two sections, with kinds of no tree and of constants."""
    rng = np.random.default_rng(seed)
    kinds = {f"kind {n}": [a_tree(rng, 4) for _ in range(n % 4)] for n in range(9)}
    facts = {"isa": "avx2", "threads": 3}
    coefficients = {"reorder": {"*": [1e-9, 0.0]}}
    data = cost_file.written(
        [
            ({"isa": "sse41"}, {}, {"reorder": {"one": [0.5]}}),
            (facts, coefficients, {"reorder": kinds, "sum": {}}),
        ]
    )
    (_, first), (said, second) = cost_file.sections(data)
    assert said == facts
    assert cost_file.unpacked(first)[1]["reorder"]["one"] == [0.5]
    told, corrections = cost_file.unpacked(second)
    assert told == coefficients
    assert not corrections["sum"]
    assert set(corrections["reorder"]) == set(kinds)
    for name, trees in kinds.items():
        for traits in 10 ** rng.uniform(-1, 12, (50, 5)):
            exact = sum(answer(tree, traits) for tree in trees)
            got = sum(answer(tree, traits) for tree in corrections["reorder"][name])
            assert abs(got - exact) <= len(trees) / 2 / cost_file.LEAVES_PER_UNIT + 1e-12


def plain(data):
    """What is in a file, whichever zlib has packed it."""
    return [(told, zlib.decompress(section)) for told, section in cost_file.sections(data)]


@pytest.mark.parametrize("other", [False, True], ids=["this zlib", "another one"])
def test_the_package_has_what_would_be_written(other, monkeypatch):
    if other:
        monkeypatch.setattr(cost_file, "_compressed", lambda text: zlib.compress(text, 1))
    data = content()
    entries = [(told, *cost_file.unpacked(section)) for told, section in cost_file.sections(data)]
    assert plain(cost_file.written(entries)) == plain(data)


def test_the_file_is_read_once(monkeypatch):
    """For however many models."""
    read = []

    def counted():
        read.append(1)
        return content()

    monkeypatch.setattr(cost, "content", counted)
    cost._sections.cache_clear()
    cost._read.cache_clear()
    assert len(cost.measured()) > 1
    assert read == [1]
