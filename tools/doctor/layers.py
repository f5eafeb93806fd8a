"""Which layers of the peer and which kernels of ours belong together: what either runs at once is one row."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from .records import Call, Layer, OurStep

AGAIN = re.compile(r"\.[0-9]+$")
"""What the importer puts behind the name of an op whose module is called again."""
OWN = 8
"""Ops that a module does itself, up to which one of ours that is called otherwise is about all of them."""
LONGEST = 60
"""Letters of a row's name."""


def layers(
    calls: Sequence[Call],
    steps: Sequence[OurStep],
    groups: Iterable[Sequence[str]] = (),
    ops: Sequence[str] = (),
    order: Sequence[str] = (),
) -> tuple[Layer, ...]:
    """Rows in the order of the peer.

    Args:
        calls: of the peer.
        steps: of ours.
        groups: items that the peer runs at once.
        ops: names of all of ours, in order.
        order: of items, where the peer runs them in another one than the model has.
    """
    listed = list(dict.fromkeys(call.item for call in calls))
    place = {item: float(number) for number, item in enumerate(order)}
    before = -0.5
    for item in listed:
        before = place.setdefault(item, before + 0.5)
    above = {item: item for item in listed}

    def root(item: str) -> str:
        while above[item] != item:
            above[item] = above[above[item]]
            item = above[item]
        return item

    def join(items: Sequence[str]) -> None:
        roots = sorted({root(item) for item in items}, key=place.__getitem__)
        for other in roots[1:]:
            above[other] = roots[0]

    for group in groups:
        if known := [item for item in group if item in above]:
            for item in group:
                place.setdefault(item, place[known[0]])
                above.setdefault(item, item)
            join(group)
    numbered = _numbered(ops)
    homes: dict[int, str | None] = {}
    for step in steps:
        if step.partition in homes:
            continue
        items = list(
            dict.fromkeys(
                one
                for name in step.items
                for one in _items_of(name if name in above else numbered.get(name, name), above)
            )
        )
        if len(listed) == 1:  # the whole model
            items = listed
        if items:
            join(items)
        homes[step.partition] = items[0] if items else None
    rows: dict[str, tuple[list[Call], list[OurStep]]] = {}
    for call in calls:
        rows.setdefault(root(call.item), ([], []))[0].append(call)
    stray: list[OurStep] = []
    for step in steps:
        home = homes[step.partition]
        if home is None:
            stray.append(step)
        else:
            rows.setdefault(root(home), ([], []))[1].append(step)
    members: dict[str, list[str]] = {}
    for item in above:
        members.setdefault(root(item), []).append(item)
    made = [
        Layer(
            items=tuple(members[key]),
            name=name_of(sorted(members[key], key=place.__getitem__)),
            calls=tuple(mine),
            steps=tuple(ours),
        )
        for key, (mine, ours) in rows.items()
    ]
    if stray:
        names = list(dict.fromkeys(one for step in stray for one in step.items)) or ["(others)"]
        made.append(Layer(items=(), name=name_of(names), calls=(), steps=tuple(stray)))
    return tuple(made)


def _numbered(ops: Sequence[str]) -> dict[str, str]:
    """Ops of no module, `cat` and `cat_3`, as torch's own are called here: `cat` and `cat.2`."""
    counts: Counter[str] = Counter()
    found: dict[str, str] = {}
    for name in ops:
        if "." not in name:
            kind = re.sub(r"_[0-9]+$", "", name).strip("_")
            counts[kind] += 1
            found[name] = kind if counts[kind] == 1 else f"{kind}.{counts[kind]}"
    return found


def _items_of(name: str, known: dict[str, str]) -> list[str]:
    """Items that an op of ours is about: of its own name, of the module around it, or of all that this one does."""
    plain = AGAIN.sub("", name)
    again = name.removeprefix(plain)
    path, _, op = plain.rpartition(".")
    for candidate in (name, plain, f"{path}{again}", path):
        if candidate and candidate in known:
            return [candidate]
    own = [item for item in known if item.rpartition(".")[0] in (path, f"{path}{again}")]
    same = [item for item in own if item.rpartition(".")[2].strip("_") == op.strip("_")]
    if same or (path and 0 < len(own) <= OWN):
        return same or own
    while "." in path:
        path = path.rpartition(".")[0]
        if path in known:
            return [path]
    return []


def name_of(items: Sequence[str]) -> str:
    """`layer1.0.conv1 + bn1 + relu` of several."""
    plain = [item for item in items if not item.endswith(("QuantizeLinear", "DequantizeLinear"))]
    items = plain or items
    first = items[0]
    scope = first.rpartition(".")[0]
    others = [item.removeprefix(f"{scope}.") if scope else item for item in items[1:]]
    text = " + ".join([first, *others])
    if len(text) > LONGEST and len(items) > 2:
        return f"{first} + … + {others[-1]} ({len(items)} layers)"
    return text
