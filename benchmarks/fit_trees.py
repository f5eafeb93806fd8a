"""Regression trees on what a linear cost model leaves over, small enough to be data."""

from __future__ import annotations

from typing import Any

import numpy as np

Tree = float | list[Any]
"""A logarithm, or (number of a trait, threshold, tree for traits below it, tree for the others)."""
BINS = 48
"""Ranges of a trait between which a tree may cut, with as many rows in each as in any other."""
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
    cuts = [_cuts(column) for column in traits.T]
    bins = np.stack(
        [np.searchsorted(c, column, side="right") for c, column in zip(cuts, traits.T, strict=True)], axis=1
    )
    left, trees = errors.copy(), list[Tree]()
    for _ in range(rounds):
        tree = _grown(cuts, bins, np.clip(left, -1.0, 1.0) * rate, weights, depth, least)
        if not isinstance(tree, list):
            break
        trees.append(tree)
        left -= values(tree, traits)
    return trees


def values(tree: Tree, traits: np.ndarray) -> np.ndarray:
    """What a tree says of rows."""
    if not isinstance(tree, list):
        return np.full(len(traits), tree)
    below = traits[:, tree[0]] < tree[1]
    found = np.empty(len(traits))
    found[below], found[~below] = values(tree[2], traits[below]), values(tree[3], traits[~below])
    return found


def _cuts(column: np.ndarray) -> np.ndarray:
    """Thresholds between the values of a trait, with so many digits as the data file has."""
    known = np.unique(column)
    middles = (known[1:] + known[:-1]) / 2
    if len(middles) >= BINS:
        ranks = np.quantile(column, np.linspace(0, 1, BINS + 1)[1:-1])
        middles = np.unique(middles[np.minimum(np.searchsorted(middles, ranks), len(middles) - 1)])
    return np.unique([float(f"{cut:.4g}") for cut in middles])


def _grown(
    cuts: list[np.ndarray],
    bins: np.ndarray,
    errors: np.ndarray,
    weights: np.ndarray,
    depth: int,
    least: int,
) -> Tree:
    total = float(weights.sum())
    summed = float((weights * errors).sum())
    leaf = float(f"{summed / (total + SHRINKING * weights.mean()):.3g}")
    if depth == 0 or len(errors) < 2 * least:
        return leaf
    count, width = bins.shape[1], max(len(c) for c in cuts) + 1
    places = (bins + np.arange(count) * width).ravel()

    def below(amounts: np.ndarray) -> np.ndarray:
        """Sums over the rows below each cut: (traits, cuts)."""
        sums = np.bincount(places, np.repeat(amounts, count), count * width)
        return sums.reshape(count, width).cumsum(1)[:, :-1]

    rows, mass, error = below(np.ones(len(errors))), below(weights), below(weights * errors)
    allowed = (rows >= least) & (rows <= len(errors) - least)
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = error**2 / mass + (summed - error) ** 2 / (total - mass) - summed**2 / total
    gain = np.where(allowed, gain, 0.0)
    if not gain.size or gain.max() <= 1e-9:
        return leaf
    trait, number = divmod(int(gain.argmax()), width - 1)
    side = bins[:, trait] <= number
    first, second = (_grown(cuts, bins[s], errors[s], weights[s], depth - 1, least) for s in (side, ~side))
    return [trait, float(cuts[trait][number]), first, second]
