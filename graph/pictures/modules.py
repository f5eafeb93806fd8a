"""Groups of ops, after the names that importers keep: `layer1.0.conv1`, `/encoder/layer.0/attention/MatMul`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping

from ...ops.records import frozen

DOTTED = re.compile(r"[\w@:-]+(\.[\w@:-]+)+")
SLASHED = re.compile(r"/?[\w.@:-]+(/[\w.@:-]+)+|/[\w.@:-]+")
NUMBERED = re.compile(r"(.+)\.\d+")
"""What importers call the second op of one name."""

MOST_TOGETHER = 400
"""Ops that a group may hold itself before they are parted into sections."""
SECTION = 50
"""Ops in such a section."""


@frozen
class Place:
    """Where an op stands.

    Attributes:
        path: names of the groups around it, from the outermost.
        title: what it is called in there.
    """

    path: tuple[str, ...]
    title: str


def places(names: Mapping[int, str], read: Mapping[int, Collection[int]] | None = None) -> dict[int, Place]:
    """The place of each op.

    A group of one op is none, and groups of the same ops are one, `encoder.layer`. A module that is called again with
    what others have made of its result is a group for each time, `block` and `block (2)`, so that no group reads what
    it has made. Where several hundred ops stand side by side, they are parted into sections, `ops 51–100`, which a
    picture may leave closed.

    Args:
        names: of the ops by id, in topological order; a name without dots and slashes stands in no group.
        read: ids of the ops whose results each reads.
    """
    known = set(names.values())
    parts = _by_calls({number: _parts(name, known) for number, name in names.items()}, read or {})
    sizes = Counter(p[:depth] for p in parts.values() for depth in range(1, len(p)))
    found = {number: _place(p, sizes) for number, p in parts.items()}
    return _in_sections(found)


def _parts(name: str, known: set[str]) -> tuple[str, ...]:
    """`("layer1", ".0", ".conv1")`: a part has the separator before it."""
    numbered = NUMBERED.fullmatch(name)
    if numbered and numbered[1] in known:
        *outer, last = _parts(numbered[1], known)
        return (*outer, last + name[len(numbered[1]) :])
    if "/" in name and SLASHED.fullmatch(name):
        return tuple(re.findall(r"/?[^/]+", name))
    if DOTTED.fullmatch(name):
        return tuple(re.findall(r"\.?[^.]+", name))
    return (name,)


def _by_calls(
    parts: dict[int, tuple[str, ...]], read: Mapping[int, Collection[int]]
) -> dict[int, tuple[str, ...]]:
    """The same with the number of the call behind the name of a module from its second one on."""
    order = list(parts)
    index = {number: place for place, number in enumerate(order)}
    result = dict(parts)
    deepest = max(map(len, parts.values()), default=0)
    for depth in range(1, deepest):
        groups: dict[tuple[str, ...], list[int]] = {}
        for number, p in result.items():
            if len(p) > depth:
                groups.setdefault(p[:depth], []).append(number)
        for members in groups.values():
            between = order[index[members[0]] : index[members[-1]] + 1]
            if len(between) == len(members):  # nothing comes between them
                continue
            for number, call in _calls(set(members), between, read).items():
                if call > 1:
                    *outer, own = result[number][:depth]
                    result[number] = (*outer, f"{own} ({call})", *result[number][depth:])
    return result


def _calls(
    members: Collection[int], order: Collection[int], read: Mapping[int, Collection[int]]
) -> dict[int, int]:
    """How often the way to each member has come into the group: once more for each time that it has left it."""
    calls: dict[int, int] = {}
    found: dict[int, int] = {}
    for number in order:
        before = [
            found[other] + (other in members and number not in members)
            for other in read.get(number, ())
            if other in found
        ]
        found[number] = max(before, default=1)
        if number in members:
            calls[number] = found[number]
    return calls


def _place(parts: tuple[str, ...], sizes: Counter[tuple[str, ...]]) -> Place:
    path: list[str] = []
    waiting = ""
    for depth in range(1, len(parts)):
        here = parts[:depth]
        if sizes[here] < 2:
            break
        waiting += parts[depth - 1]
        inner = parts[: depth + 1]
        if depth + 1 < len(parts) and sizes[inner] == sizes[here]:
            continue
        path.append(_bare(waiting))
        waiting = ""
    taken = sum(1 for depth in range(1, len(parts)) if sizes[parts[:depth]] >= 2)
    return Place(tuple(path), _bare("".join(parts[taken:])))


def _bare(text: str) -> str:
    return text[1:] if text[:1] in {".", "/"} and len(text) > 1 else text


def _in_sections(found: dict[int, Place]) -> dict[int, Place]:
    together: dict[tuple[str, ...], list[int]] = {}
    for number, place in found.items():
        together.setdefault(place.path, []).append(number)
    result = dict(found)
    for path, numbers in together.items():
        if len(numbers) <= MOST_TOGETHER:
            continue
        for start in range(0, len(numbers), SECTION):
            part = numbers[start : start + SECTION]
            name = f"ops {start + 1}–{start + len(part)}"
            result.update((number, Place((*path, name), found[number].title)) for number in part)
    return result
