"""Attributes that hold sizes, and what says the same without them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...ops.records import frozen
from ...ops.schema import UNKNOWN_DIM
from ..model.op import Op

Dims = tuple[int, ...]
FAR = 2**63 - 1
"""An end that is behind everything."""


@frozen(eq=False)
class Use:
    """An op in the graphs for several sets of sizes.

    Attributes:
        ops: the op in each.
    """

    ops: tuple[Op, ...]

    def inputs(self, position: int) -> list[Dims]:
        """The shape of an input in each graph."""
        return [op.inputs[position].dims for op in self.ops]

    @property
    def outputs(self) -> list[Dims]:
        """The shape of the first output in each graph."""
        return [op.outputs[0].dims for op in self.ops]

    def integers(self, name: str) -> list[Dims]:
        """An attribute of each."""
        return [tuple(op.attributes.integers(name)) for op in self.ops]

    def differing(self) -> list[str]:
        """The attributes that are not equal in all."""
        first = self.ops[0].attributes
        return [name for name in first if any(op.attributes[name] != first[name] for op in self.ops[1:])]


Said = tuple[str, dict[str, Any]]
"""A kind and its attributes."""
Rule = Callable[[Use], Said | None]
"""What says the same as an op whose attributes hold sizes; None where nothing does."""


def without_sizes(use: Use) -> Said | None:
    """A kind and attributes that are right for all sizes; None where there are none."""
    op, differing = use.ops[0], use.differing()
    if not differing:
        return op.kind, dict(op.attributes)
    rule, may = RULES.get(op.kind, (None, ()))
    if rule is None or not set(differing) <= set(may):
        return None
    return rule(use)


def _reshape(use: Use) -> Said | None:
    """Sizes that differ are those of the same axes before, 0, and one of them what remains, -1."""
    op = use.ops[0]
    sources, targets = use.inputs(0), use.outputs
    if len({len(target) for target in targets}) > 1:
        return None
    shape = list(targets[0])
    differing = [axis for axis in range(len(shape)) if len({target[axis] for target in targets}) > 1]
    kept = [
        axis
        for axis in differing
        if all(axis < len(s) and s[axis] == t[axis] for s, t in zip(sources, targets, strict=True))
    ]
    if len(differing) == 1:
        kept = []
    rest = [axis for axis in differing if axis not in kept]
    if len(rest) > 1 or (kept and 0 in shape):  # a 0 can't be both a size and a copy
        return None
    for axis in kept:
        shape[axis] = 0
    for axis in rest:
        shape[axis] = UNKNOWN_DIM
    return op.kind, {**op.attributes, "shape": shape, "special_zero": bool(kept)}


def _expand(use: Use) -> Said | None:
    """Sizes that differ are those that there are before."""
    targets = use.integers("shape")
    shape = list(targets[0])
    if len({len(target) for target in targets}) > 1:
        return None
    for axis in range(len(shape)):
        behind = len(shape) - axis
        if len({target[axis] for target in targets}) == 1:
            continue
        if any(behind > len(s) or s[-behind] != t[axis] for s, t in zip(use.inputs(0), targets, strict=True)):
            return None
        shape[axis] = UNKNOWN_DIM
    return "HostExpand", {"shape": shape}


def _bounds(sizes: Sequence[int], parts: Sequence[slice]) -> slice | None:
    """A slice that takes of axes of several sizes what a slice of its own takes of each.

    Bounds count from the end where they do so for all sizes, and a stop may be behind everything.
    """
    step = parts[0].step
    if any(part.step != step for part in parts) or step < 1:
        return None
    wanted = [range(size)[part] for size, part in zip(sizes, parts, strict=True)]
    if not all(wanted):
        return None
    starts = {w[0] for w in wanted}, {w[0] - size for w, size in zip(wanted, sizes, strict=True)}
    stops = [max(w[-1] + 1 for w in wanted), FAR]
    behind = {w[-1] + 1 - size for w, size in zip(wanted, sizes, strict=True)}
    if len(behind) == 1:
        stops.insert(0, behind.pop() or FAR)
    for start in (*starts[0],) if len(starts[0]) == 1 else (*starts[1],) if len(starts[1]) == 1 else ():
        for stop in stops:
            if [range(size)[start:stop:step] for size in sizes] == wanted:
                return slice(start, stop, step)
    return None


def _slice(use: Use) -> Said | None:
    """Bounds that are the same for all sizes, or from the end."""
    first = use.ops[0].attributes
    names = ("starts", "stops", "steps")
    given = [use.integers(name) for name in names]
    found: list[slice] = []
    for place, axis in enumerate(first.integers("axes")):
        parts = [slice(*(values[number][place] for values in given)) for number in range(len(use.ops))]
        if len({(part.start, part.stop, part.step) for part in parts}) == 1:
            found.append(parts[0])
            continue
        bounds = _bounds([shape[axis] for shape in use.inputs(0)], parts)
        if bounds is None:
            return None
        found.append(bounds)
    return "HostSlice", {
        "axes": list(first.integers("axes")),
        "starts": [part.start for part in found],
        "stops": [part.stop for part in found],
        "steps": [part.step for part in found],
    }


def _part(use: Use) -> Said | None:
    """A MaxPool of one element that takes a part of an axis, as a slice: its padding counts what is left out."""
    first = use.ops[0].attributes
    kernel, strides = first.integers("kernel"), first.integers("strides")
    begins, ends = use.integers("pads_begin"), use.integers("pads_end")
    flat = set(kernel) == {1} and max(map(max, (*begins, *ends))) <= 0
    if not flat or first.string("auto_pad").lower() != "none":
        return None
    lead = 1 if first.string("data_format") == "NXC" else 2
    taken: dict[int, slice] = {}
    for place, step in enumerate(strides):
        if step == 1 and not any(pads[place] for pads in (*begins, *ends)):
            continue
        sizes = [shape[lead + place] for shape in use.inputs(0)]
        parts = [
            slice(-begin[place], size + end[place], step)
            for begin, end, size in zip(begins, ends, sizes, strict=True)
        ]
        bounds = _bounds(sizes, parts)
        if bounds is None:
            return None
        taken[lead + place] = bounds
    return "HostSlice", {
        "axes": list(taken),
        "starts": [part.start for part in taken.values()],
        "stops": [part.stop for part in taken.values()],
        "steps": [part.step for part in taken.values()],
    }


RULES: Mapping[str, tuple[Rule, tuple[str, ...]]] = {
    "StaticReshape": (_reshape, ("shape", "special_zero")),
    "HostReshape": (_reshape, ("shape", "special_zero")),
    "HostExpand": (_expand, ("shape",)),
    "HostSlice": (_slice, ("starts", "stops")),
    "MaxPool": (_part, ("pads_begin", "pads_end")),
}
"""Kind → its rule, and the attributes that may hold sizes."""
