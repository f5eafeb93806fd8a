"""The file of cost data: a line of JSON that says what is in it, then a section for each machine, compressed by itself.

A section is a line of JSON, then the trees of each family as bytes. Nodes and leaves lie in postorder, both trees of a
node before it, so that a stack makes trees of them: a byte says leaf (0) or node (1 + number of the trait). Leaves are
thousandths in a byte each, or `WIDE` where they need two, which lie behind all others. Thresholds are places in a table
of the family's thresholds of one trait; they lie trait by trait, low bytes first, then high bytes, for bytes that are
alike become small when they are compressed.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ....graph.runtime.arrays import Array

Tree = float | Sequence[Any]
"""A logarithm, or (number of a trait, threshold, tree for traits below it, tree for the others)."""
LEAVES_PER_UNIT = 1000
"""Leaves are so many parts of one: what a sum of forty such trees loses is a tenth of a percent."""
WIDE = -128
"""In the place of a leaf that no byte holds."""


class Trees(Mapping[str, Sequence[Tree]]):
    """The trees of a family: kind → trees, made of their bytes when a kind is first asked for."""

    def __init__(self, lengths: Mapping[str, int], what: Array, values: Array) -> None:
        """Of the nodes and leaves of all kinds, one kind behind the other.

        Args:
            lengths: kind → how many it has. what: 0 or 1 + trait. values: of leaves, and thresholds.
        """
        ends = np.cumsum([0, *lengths.values()]).tolist()
        self._spans = dict(zip(lengths, pairwise(ends), strict=True))
        self._what, self._values = what, values
        self._made: dict[str, Sequence[Tree]] = {}

    def __getitem__(self, kind: str) -> Sequence[Tree]:
        if kind not in self._made:
            span = slice(*self._spans[kind])
            self._made[kind] = _trees(self._what[span].tolist(), self._values[span].tolist())
        return self._made[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(self._spans)

    def __len__(self) -> int:
        return len(self._spans)


def _trees(what: Sequence[int], values: Sequence[float]) -> Sequence[Tree]:
    """What a stack makes of nodes and leaves in postorder."""
    stack: list[Tree] = []
    for one, value in zip(what, values, strict=True):
        if one:
            others, below = stack.pop(), stack.pop()
            stack.append((one - 1, value, below, others))
        else:
            stack.append(value)
    return stack


def sections(content: bytes) -> list[tuple[dict[str, Any], bytes]]:
    """What is said of each section, machine and date, and the section as it lies there."""
    line, _, rest = content.partition(b"\n")
    found: list[tuple[dict[str, Any], bytes]] = []
    for told in json.loads(line):
        length = told.pop("bytes")
        found.append((told, rest[:length]))
        rest = rest[length:]
    return found


def unpacked(section: bytes) -> tuple[Mapping[str, Any], Mapping[str, Trees]]:
    """Coefficients and corrections of a section: family → kind → seconds per unit, or trees."""
    text = zlib.decompress(section)
    end = text.index(b"\n")
    told: dict[str, Any] = json.loads(text[:end])
    rest = np.frombuffer(text, np.uint8, offset=end + 1)
    corrections: dict[str, Trees] = {}
    for family, trees in told["trees"].items():
        corrections[family], taken = _read(trees, rest)
        rest = rest[taken:]
    return told["coefficients"], corrections


def _read(told: Mapping[str, Any], data: Array) -> tuple[Trees, int]:
    """The trees of a family, and how many bytes they are."""
    lengths: dict[str, int] = told["kinds"]
    count = sum(lengths.values())
    what = data[:count]
    leaf = what == 0
    leaves, nodes = int(leaf.sum()), count - int(leaf.sum())
    narrow = data[count:][:leaves].view(np.int8)
    is_wide = narrow == WIDE
    at = count + leaves
    wide = data[at:][: 2 * int(is_wide.sum())].copy().view("<i2")
    at += 2 * len(wide)
    units = narrow.astype(np.float64)
    units[is_wide] = wide
    values = np.empty(count)
    values[leaf] = units / LEAVES_PER_UNIT
    places = data[at:][:nodes] + 256 * data[at + nodes :][:nodes].astype(np.intp)
    used = 0
    for trait, table in told["thresholds"].items():
        mine = np.flatnonzero(what == int(trait) + 1)
        values[mine] = np.array(table)[places[used : used + len(mine)]]
        used += len(mine)
    return Trees(lengths, what, values), at + 2 * nodes


def written(entries: Iterable[tuple[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]]]) -> bytes:
    """The bytes of a file; of the same entries they are the same with the same zlib, and with any once unpacked.

    Args:
        entries: what is said of a machine, coefficients and corrections. Leaves are rounded to thousandths.
    """
    told, sections = list[dict[str, Any]](), list[bytes]()
    for facts, coefficients, corrections in entries:
        families = {family: _packed(kinds) for family, kinds in corrections.items()}
        text = _json({"coefficients": coefficients, "trees": {f: one for f, (one, _) in families.items()}})
        made = _compressed(b"\n".join([text, b"".join(data for _, data in families.values())]))
        sections.append(made)
        told.append({**facts, "bytes": len(made)})
    return b"\n".join([_json(told), b"".join(sections)])


def _compressed(text: bytes) -> bytes:
    """By more tables of codes than zlib makes by itself: what lies in each part differs much from the next."""
    packer = zlib.compressobj(9, memLevel=5)
    return packer.compress(text) + packer.flush()


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _packed(kinds: Mapping[str, Sequence[Tree]]) -> tuple[dict[str, Any], bytes]:
    """What is said of a family's trees, and their bytes."""
    rounded = {kind: _rounded(trees) for kind, trees in kinds.items()}
    flat = {kind: [one for tree in trees for one in _postorder(tree)] for kind, trees in rounded.items()}
    every = [one for nodes in flat.values() for one in nodes]
    what = bytes(one for one, _ in every)
    units = np.array([value for one, value in every if not one], np.int16)
    narrow = np.where(np.abs(units) < -WIDE, units, WIDE).astype(np.int8)
    thresholds = {one - 1: sorted({v for o, v in every if o == one}) for one in sorted({*what} - {0})}
    places = np.array(
        [table.index(v) for trait, table in thresholds.items() for one, v in every if one == trait + 1],
        np.int16,
    )
    told = {"kinds": {kind: len(nodes) for kind, nodes in flat.items()}, "thresholds": thresholds}
    data = [what, narrow.tobytes(), units[narrow == WIDE].astype("<i2").tobytes()]
    data += [part.astype(np.uint8).tobytes() for part in (places & 255, places >> 8)]
    return told, b"".join(data)


def _rounded(trees: Sequence[Tree]) -> list[Any]:
    """Trees with leaves in units, without nodes whose leaves are the same; constants are one leaf."""
    found = [_merged(tree) for tree in trees]
    constant = sum(tree for tree in found if isinstance(tree, int))
    return [constant, *(tree for tree in found if not isinstance(tree, int))]


def _merged(tree: Tree) -> Any:
    if isinstance(tree, int | float):
        return round(tree * LEAVES_PER_UNIT)
    trait, threshold, *both = tree
    below, others = map(_merged, both)
    return below if isinstance(below, int) and below == others else (trait, threshold, below, others)


def _postorder(tree: Any) -> Iterator[tuple[int, float]]:
    if isinstance(tree, int):
        yield 0, tree
    else:
        trait, threshold, below, others = tree
        yield from _postorder(below)
        yield from _postorder(others)
        yield trait + 1, threshold
