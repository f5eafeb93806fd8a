"""Ensembles of decision trees, of ONNX's domain `ai.onnx.ml`, for all rows and trees at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...ops.records import frozen
from ...ops.values import format_value
from ..importing.translation import Unmapped, check_room
from ..runtime.arrays import Array
from ..runtime.cached import cached

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
MEMBER = MODES.index("BRANCH_MEMBER")
COMPARED = (np.less_equal, np.less, np.greater_equal, np.greater, np.equal, np.not_equal)
PLACES = 1 << 20
"""Rows times trees times targets that are followed at once."""


@frozen(eq=False, slots=False)
class Forest:
    """Trees, their nodes in a row.

    Attributes:
        feature, split, mode, missing: of each node; a leaf has any.
        modes: those that there are.
        children: where a node leads to, if its comparison fails at twice its number, else behind that; leaves lead to
            themselves.
        members: the values that a node of set membership takes.
        roots: the first node of each tree.
        depth: comparisons until a leaf.
        weights: of shape (nodes, targets), what a leaf adds to each target.
        given: whether a leaf says anything about a target.
    """

    feature: Array
    split: Array
    mode: Array
    modes: tuple[int, ...]
    missing: Array
    children: Array
    members: Mapping[int, Array]
    roots: Array
    depth: int
    weights: Array
    given: Array

    @cached
    def most(self) -> int:
        """The last feature that a comparison asks for; -1 for none."""
        inner = self.children[::2] != np.arange(len(self.feature))
        return int(self.feature[inner].max(initial=-1))

    @cached
    def tracks_missing(self) -> bool:
        """Whether a comparison holds for NaN."""
        return bool(self.missing.any())

    @cached
    def one_sided(self) -> bool:
        """Whether leaves say something about one target alone."""
        return int(self.given.any(axis=0).sum()) == 1

    @cached
    def positive(self) -> bool:
        """Whether no leaf takes anything away."""
        return bool((self.weights >= 0).all())

    def leaves(self, rows: Array) -> Array:
        """The leaf that each row reaches in each tree, of shape (rows, trees).

        Raises:
            Unmapped: there are fewer features than the trees ask for.
        """
        if self.most >= rows.shape[1]:
            raise Unmapped(f"its trees ask for feature {self.most}, and its input has {rows.shape[1]}")
        numbers = np.arange(len(rows))[:, None]
        at = np.broadcast_to(self.roots, (len(rows), len(self.roots)))
        for _ in range(self.depth):
            values = rows[numbers, self.feature[at]]
            taken = self._compared(values, at)
            if self.tracks_missing:
                taken = taken | (self.missing[at] & np.isnan(values))
            at = self.children[2 * at + taken]
        return at

    def _compared(self, values: Array, at: Array) -> Array:
        if self.modes != (MEMBER,) and len(self.modes) == 1:
            return COMPARED[self.modes[0]](values, self.split[at])
        found = np.zeros(at.shape, np.bool_)
        for mode in self.modes:
            here = self.mode[at] == mode
            if mode != MEMBER:
                found |= here & COMPARED[mode](values, self.split[at])
                continue
            for node in np.unique(at[here]):
                found |= (at == node) & np.isin(values, self.members[int(node)])
        return found

    def totals(self, rows: Array, by: str, limit: int) -> tuple[Array, Array]:
        """What the trees give for each row and target, and whether any does, both of shape (rows, targets).

        Args:
            by: `SUM`, `AVERAGE`, `MIN` or `MAX`.
            limit: bytes that a result may take.

        Raises:
            Unmapped: an unknown `by`, or too few features.
        """
        if by not in ("SUM", "AVERAGE", "MIN", "MAX"):
            raise Unmapped(f"its aggregate_function must be SUM, AVERAGE, MIN or MAX, got {format_value(by)}")
        targets = self.weights.shape[1]
        check_room((len(rows), targets), np.dtype(np.float64), limit)
        total = np.zeros((len(rows), targets))
        there = np.zeros(total.shape, np.bool_)
        step = max(1, PLACES // max(1, len(self.roots) * targets))
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            total[part], there[part] = self._total(self.leaves(rows[part]), by)
        return (total / max(1, len(self.roots)) if by == "AVERAGE" else total), there

    def _total(self, leaves: Array, by: str) -> tuple[Array, Array]:
        if not leaves.shape[1]:
            shape = len(leaves), self.weights.shape[1]
            return np.zeros(shape), np.zeros(shape, np.bool_)
        weights, given = self.weights[leaves], self.given[leaves]  # (rows, trees, targets)
        there = np.asarray(given.any(axis=1))
        if by in ("SUM", "AVERAGE"):
            return weights.cumsum(axis=1)[:, -1], there  # one tree after the other, as sums round
        worst = np.inf if by == "MIN" else -np.inf
        best = np.where(given, weights, worst)
        return np.where(there, best.min(axis=1) if by == "MIN" else best.max(axis=1), 0), there


def _numbers(attributes: Mapping[str, Any], name: str, dtype: type[Any]) -> Array:
    """A list of numbers, which may be a tensor; empty where it is not there."""
    value = attributes.get(f"{name}_as_tensor")
    value = attributes.get(name) if value is None else value
    array = np.zeros(0, dtype) if value is None else np.asarray(value).reshape(-1)
    return array if array.dtype == np.float64 and dtype is np.float32 else array.astype(dtype)


def _depth(children: Array, roots: Array, *, all_led_to: bool = False) -> int:
    """Comparisons on the longest way to a leaf.

    Args:
        all_led_to: whether a way must lead to every node.

    Raises:
        Unmapped: there is a way without an end.
    """
    numbers = np.arange(len(children) // 2)
    seen = np.zeros(len(numbers), np.bool_)
    inner = children[::2] != numbers
    at = np.unique(roots)
    for depth in range(len(numbers) + 1):
        seen[at] = True
        at = at[inner[at]]
        if not at.size:
            if all_led_to and not seen.all():
                break
            return depth
        at = np.unique(np.concatenate([children[2 * at], children[2 * at + 1]]))
    raise Unmapped("its trees have a cycle")


def _equally_long(count: int, **lists: Array) -> None:
    for name, values in lists.items():
        if len(values) != count:
            raise Unmapped(f"its {name} has {len(values)} entries for {count} nodes")


def _places(tree: Array, node: Array, trees: Array, nodes: Array, what: str) -> Array:
    """Where nodes stand that are named by tree and number."""
    order = np.lexsort((node, tree))
    keys = np.stack([tree[order], node[order]], 1)
    wanted, inverse = np.unique(
        np.concatenate([keys, np.stack([trees, nodes], 1)]), axis=0, return_inverse=True
    )
    place = np.full(len(wanted), -1)
    place[inverse.reshape(-1)[: len(order)]] = order
    found = place[inverse.reshape(-1)[len(order) :]]
    if len(found) and found.min() < 0:
        first = int(np.argmin(found))
        raise Unmapped(f"its {what} {int(nodes[first])} of tree {int(trees[first])} is not there")
    return found


def classic(attributes: Mapping[str, Any], of: str, targets: int, limit: int) -> Forest:
    """The trees of a TreeEnsembleClassifier or TreeEnsembleRegressor.

    Args:
        of: `class` or `target`, which names of attributes begin with.
        targets: how many there are.
        limit: bytes that the weights may take.

    Raises:
        Unmapped: attributes that say none.
    """

    def numbers(name: str, dtype: type[Any] = np.int64) -> Array:
        return _numbers(attributes, name, dtype)

    tree, node = numbers("nodes_treeids"), numbers("nodes_nodeids")
    count = len(tree)
    modes = [str(mode) for mode in attributes.get("nodes_modes", ())]
    unknown = [mode for mode in modes if mode != "LEAF" and mode not in MODES[:MEMBER]]
    if unknown:
        raise Unmapped(f"its nodes_modes has {format_value(unknown[0])}, which is none")
    leaf = np.asarray([mode == "LEAF" for mode in modes], np.bool_)
    feature, split = numbers("nodes_featureids"), numbers("nodes_values", np.float32)
    yes, no = numbers("nodes_truenodeids"), numbers("nodes_falsenodeids")
    missing = numbers("nodes_missing_value_tracks_true", np.bool_)
    missing = missing if missing.size else np.zeros(count, np.bool_)
    _equally_long(
        count,
        nodes_nodeids=node,
        nodes_modes=leaf,
        nodes_featureids=feature,
        nodes_values=split,
        nodes_truenodeids=yes,
        nodes_falsenodeids=no,
        nodes_missing_value_tracks_true=missing,
    )
    if len(np.unique(np.stack([tree, node], 1), axis=0)) < count:
        raise Unmapped("two of its nodes have the same number in the same tree")
    if count and feature[~leaf].min(initial=0) < 0:
        raise Unmapped("its nodes_featureids must not be negative")
    own = np.arange(count)
    children = np.stack([own, own], 1)
    inner = ~leaf
    children[inner, 0] = _places(tree, node, tree[inner], no[inner], "node")
    children[inner, 1] = _places(tree, node, tree[inner], yes[inner], "node")
    is_child = np.zeros(count, np.bool_)
    is_child[children[inner].reshape(-1)] = True
    roots = own[~is_child]
    if len(np.unique(tree[roots])) != len(roots) or len(roots) != len(np.unique(tree)):
        raise Unmapped("each of its trees must have one node that no other leads to")
    ids, values = numbers(f"{of}_ids"), numbers(f"{of}_weights", np.float32)
    trees, nodes = numbers(f"{of}_treeids"), numbers(f"{of}_nodeids")
    if not len(ids) == len(values) == len(trees) == len(nodes):
        raise Unmapped(
            f"its {of}_ids, {of}_weights, {of}_treeids and {of}_nodeids must have equally many entries"
        )
    if ids.size and not 0 <= ids.min() <= ids.max() < targets:
        raise Unmapped(f"its {of}_ids must be from 0 to {targets - 1}")
    check_room((count, targets), np.dtype(np.float64), limit)
    weights, given = np.zeros((count, targets)), np.zeros((count, targets), np.bool_)
    at = _places(tree, node, trees, nodes, "leaf")
    np.add.at(weights, (at, ids), values)
    given[at, ids] = True
    mode = np.asarray([0 if name == "LEAF" else MODES.index(name) for name in modes], np.int64)
    mode[leaf] = mode[inner][0] if inner.any() else 0  # so that one comparison may do for all
    flat = children.reshape(-1)
    feature = np.where(leaf, 0, feature)
    modes, depth = tuple(np.unique(mode).tolist()), _depth(flat, roots, all_led_to=True)
    return Forest(feature, split, mode, modes, missing, flat, {}, roots, depth, weights, given)


def modern(attributes: Mapping[str, Any], limit: int) -> Forest:
    """The trees of a TreeEnsemble, of which leaves are numbered by themselves.

    Raises:
        Unmapped: attributes that say none.
    """

    def numbers(name: str, dtype: type[Any] = np.int64) -> Array:
        return _numbers(attributes, name, dtype)

    feature, split, mode = (
        numbers("nodes_featureids"),
        numbers("nodes_splits", np.float64),
        numbers("nodes_modes"),
    )
    yes, no = numbers("nodes_truenodeids"), numbers("nodes_falsenodeids")
    yes_leaf, no_leaf = numbers("nodes_trueleafs", np.bool_), numbers("nodes_falseleafs", np.bool_)
    missing = numbers("nodes_missing_value_tracks_true", np.bool_)
    count = len(feature)
    missing = missing if missing.size else np.zeros(count, np.bool_)
    _equally_long(
        count,
        nodes_splits=split,
        nodes_modes=mode,
        nodes_truenodeids=yes,
        nodes_falsenodeids=no,
        nodes_trueleafs=yes_leaf,
        nodes_falseleafs=no_leaf,
        nodes_missing_value_tracks_true=missing,
    )
    ids, values, roots = numbers("leaf_targetids"), numbers("leaf_weights", np.float64), numbers("tree_roots")
    targets = int(attributes.get("n_targets", 1))
    leaves = len(ids)
    bounds = np.where(yes_leaf, leaves, count), np.where(no_leaf, leaves, count)
    fits = all(((a >= 0) & (a < b)).all() for a, b in zip((yes, no), bounds, strict=True))
    if not (fits and len(values) == leaves and ((roots >= 0) & (roots < count)).all()):
        raise Unmapped("its nodes lead to nodes or leaves that are not there")
    if targets < 1 or (leaves and not 0 <= ids.min() <= ids.max() < targets):
        raise Unmapped(f"its leaf_targetids must be from 0 to {targets - 1}")
    if count and (feature.min() < 0 or not 0 <= mode.min() <= mode.max() <= MEMBER):
        raise Unmapped("its nodes_featureids must not be negative, and its nodes_modes from 0 to 6")
    check_room((count + leaves, targets), np.dtype(np.float64), limit)
    own = np.arange(count, count + leaves)
    children = np.concatenate(
        [np.stack([no + count * no_leaf, yes + count * yes_leaf], 1), np.stack([own, own], 1)]
    ).reshape(-1)
    nothing = np.zeros(leaves, np.int64)
    usual = mode[mode != MEMBER][:1]  # so that one comparison may do for all
    every = np.concatenate([mode, nothing + (usual[0] if usual.size else 0)])
    weights, given = np.zeros((count + leaves, targets)), np.zeros((count + leaves, targets), np.bool_)
    weights[own, ids] = values
    given[own, ids] = True
    # A root both of whose ways lead to the same leaf is a tree of that leaf alone; comparisons don't matter there.
    return Forest(
        feature=np.concatenate([feature, nothing]),
        split=np.concatenate([split, np.zeros(leaves)]),
        mode=every,
        modes=tuple(np.unique(every).tolist()),
        missing=np.concatenate([missing, nothing > 0]),
        children=children,
        members=_members(numbers("membership_values", np.float64), np.flatnonzero(mode == MEMBER)),
        roots=roots,
        depth=_depth(children, roots),
        weights=weights,
        given=given,
    )


def _members(values: Array, nodes: Sequence[int] | Array) -> dict[int, Array]:
    """The values of each node of set membership; a NaN stands behind those of each."""
    ends = np.flatnonzero(np.isnan(values))
    if len(ends) != len(nodes):
        raise Unmapped(f"its membership_values has {len(ends)} sets for {len(nodes)} nodes of set membership")
    starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
    return {int(node): values[a:b] for node, a, b in zip(nodes, starts, ends, strict=True)}
