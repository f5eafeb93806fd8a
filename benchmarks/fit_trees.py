"""Regression trees on what a linear cost model leaves over, small enough to be data."""

from __future__ import annotations

from typing import Any

import numpy as np

Tree = float | list[Any]
"""A logarithm, or (number of a trait, threshold, tree for traits below it, tree for the others)."""
CUTS = 8
"""Thresholds tried per trait."""
SHRINKING = 2.0
"""So many rows without an error are added to each leaf."""


def boosted(
    traits: np.ndarray,
    errors: np.ndarray,
    weights: np.ndarray,
    rounds: int,
    rate: float,
    depth: int,
    least: int,
) -> list[Tree]:
    """Trees whose sum foresees `errors`.

    Args:
        traits: (rows, traits). errors, weights: (rows,).
        rounds: how many trees at most. rate: how much of what it finds each takes.
        depth: of each. least: rows of a leaf.
    """
    left, trees = errors.copy(), list[Tree]()
    for _ in range(rounds):
        tree = _grown(traits, np.clip(left, -1.0, 1.0) * rate, weights, depth, least)
        if not isinstance(tree, list):
            break
        trees.append(tree)
        left -= np.array([value(tree, row) for row in traits])
    return trees


def value(tree: Tree, traits: np.ndarray) -> float:
    """What a tree says of a row."""
    while isinstance(tree, list):
        tree = tree[2] if traits[tree[0]] < tree[1] else tree[3]
    return tree


def _grown(traits: np.ndarray, errors: np.ndarray, weights: np.ndarray, depth: int, least: int) -> Tree:
    total = float(weights.sum())
    leaf = float(f"{(weights * errors).sum() / (total + SHRINKING * weights.mean()):.3g}")
    if depth == 0 or len(errors) < 2 * least:
        return leaf
    best, found = 1e-9, None
    for trait in range(traits.shape[1]):
        column = traits[:, trait]
        known = np.unique(column)
        if len(known) < 2:
            continue
        middles = (known[1:] + known[:-1]) / 2
        for cut in np.unique(middles[np.linspace(0, len(middles) - 1, min(CUTS, len(middles))).astype(int)]):
            below = column < cut
            if min(below.sum(), len(below) - below.sum()) < least:
                continue
            gain = (
                sum(
                    (weights[side] * errors[side]).sum() ** 2 / weights[side].sum()
                    for side in (below, ~below)
                )
                - (weights * errors).sum() ** 2 / total
            )
            if gain > best:
                best, found = gain, (trait, float(f"{cut:.4g}"))
    if found is None:
        return leaf
    below = traits[:, found[0]] < found[1]
    if not 0 < below.sum() < len(below):
        return leaf
    sides = [_grown(traits[s], errors[s], weights[s], depth - 1, least) for s in (below, ~below)]
    return [*found, *sides]
