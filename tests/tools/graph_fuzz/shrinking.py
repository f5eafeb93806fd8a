"""Makes a case that shows something smaller, as long as it shows the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import onednn_graph as og
from smallest import smallest

from .case import FLOATS, Case, Layout, Run, infer_again

SIZED = ("weights_shape", "src_shape", "dst_shape", "sizes", "shape")
"""Attributes that hold sizes of tensors."""


def shrink(case: Case, shows: Callable[[Case], bool], seconds: float) -> Case:
    """The smallest case that was found to show the same.

    Args:
        shows: whether a case does; it runs it.
        seconds: after which the best so far is taken.
    """

    def still_shows(one: Case) -> bool:
        if not (_is_possible(one) and shows(one)):
            return False
        _tidy(one)
        return True

    return smallest(case, _smaller, still_shows, seconds)


def _is_possible(case: Case) -> bool:
    if not case.nodes:
        return False
    try:
        infer_again(case)
    except og.OneDNNGraphError:
        return False
    except (IndexError, ValueError, KeyError):
        return False
    return True


def _tidy(case: Case) -> Case:
    """Without wires that nothing touches."""
    used = {w for node in case.nodes for w in (*node.inputs, *node.outputs)}
    case.wires = {i: w for i, w in case.wires.items() if i in used}
    made = {w for node in case.nodes for w in node.outputs}
    case.marked = [w for w in case.marked if w in made]
    case.assigned = [pair for pair in case.assigned if pair[0] in used - made and pair[1] in made]
    return case


def _smaller(case: Case) -> Iterator[Case]:
    yield from _shorter(case)
    yield from _plainer_runs(case)
    yield from _plainer_tensors(case)
    yield from _smaller_sizes(case)
    yield from _plainer_attributes(case)


def _shorter(case: Case) -> Iterator[Case]:
    """Without some ops: the last ones, what made an input, or one in the middle."""
    read = {w for node in case.nodes for w in node.inputs}
    for i in reversed(range(len(case.nodes))):
        node = case.nodes[i]
        if not any(w in read for w in node.outputs):
            other = case.copy()
            del other.nodes[i]
            yield _tidy(other)
    for i, node in enumerate(case.nodes):
        other = case.copy()
        del other.nodes[i]
        for wire in node.outputs:
            other.wires[wire].data = "positive" if node.kind in ("Exp", "Sigmoid", "SoftPlus") else "any"
        if any(w in read for w in node.outputs):
            yield _tidy(other)
        if len(node.inputs) and len(node.outputs) == 1:
            for source in node.inputs:
                same = case.wires[source], case.wires[node.outputs[0]]
                if same[0].shape == same[1].shape and same[0].type == same[1].type:
                    bypass = case.copy()
                    del bypass.nodes[i]
                    for later in bypass.nodes:
                        later.inputs = [source if w == node.outputs[0] else w for w in later.inputs]
                    yield _tidy(bypass)
        optional = len(node.inputs) > 2 and node.kind in ("Convolution", "ConvTranspose", "MatMul", "Concat")
        if optional:
            fewer = case.copy()
            fewer.nodes[i].inputs.pop()
            yield _tidy(fewer)


def _plainer_runs(case: Case) -> Iterator[Case]:
    usual = Run()
    for name in (
        "variants",
        "opaque",
        "bound",
        "shift",
        "fpmath",
        "policy",
        "fill",
        "whole",
        "given",
        "held",
        "blocks",
        "filed",
    ):
        if getattr(case.run, name) != getattr(usual, name):
            other = case.copy()
            setattr(other.run, name, getattr(usual, name))
            yield other
    for i in range(len(case.run.variants)):
        other = case.copy()
        del other.run.variants[i]
        yield other
    for i, variant in enumerate(case.run.variants):
        for number in variant.layouts or {}:
            other = case.copy()
            del (other.run.variants[i].layouts or {})[number]
            yield other
    if case.real:
        other = case.copy()
        other.real = False
        yield other
    if case.marked:
        other = case.copy()
        other.marked = []
        yield other
    for i in range(len(case.assigned)):
        other = case.copy()
        del other.assigned[i]
        yield other


def _plainer_tensors(case: Case) -> Iterator[Case]:
    if any(w.type in FLOATS and w.type != "f32" for w in case.wires.values()):
        other = case.copy()
        for wire in other.wires.values():
            wire.type = "f32" if wire.type in FLOATS else wire.type
        yield other
    for number, wire in case.wires.items():
        if wire.layout is not None:
            other = case.copy()
            other.wires[number].layout = None
            yield other
            for change in _plainer_layouts(wire.layout, len(wire.shape)):
                other = case.copy()
                other.wires[number].layout = change
                yield other
        if wire.constant or wire.unknown:
            other = case.copy()
            other.wires[number].constant, other.wires[number].unknown = False, []
            yield other


def _plainer_layouts(layout: Layout, rank: int) -> Iterator[Layout]:
    plain = list(range(rank))
    if layout.order != plain:
        yield Layout(plain, layout.step, layout.gaps, layout.units, layout.still)
    if layout.gaps:
        yield Layout(layout.order, layout.step, [], layout.units, layout.still)
        if sum(1 for g in layout.gaps if g) > 1:
            for axis in range(rank):
                if layout.gaps[axis]:
                    gaps = [0 if a == axis else g for a, g in enumerate(layout.gaps)]
                    yield Layout(layout.order, layout.step, gaps, layout.units, layout.still)
    if layout.step != 1:
        yield Layout(layout.order, 1, layout.gaps, layout.units, layout.still)
    for axis in layout.units:
        units = {a: s for a, s in layout.units.items() if a != axis}
        yield Layout(layout.order, layout.step, layout.gaps, units, layout.still)
    if layout.still:
        yield Layout(layout.order, layout.step, layout.gaps, layout.units, [])


def _smaller_sizes(case: Case) -> Iterator[Case]:
    inputs = case.inputs
    sizes = sorted({d for i in inputs for d in case.wires[i].shape if d > 1}, reverse=True)
    for size in sizes:
        for smaller in dict.fromkeys((1, 2, 3, size // 2, size - 1)):
            if smaller >= size or smaller < 1:
                continue
            other = case.copy()
            for number in inputs:
                wire = other.wires[number]
                wire.shape = [smaller if d == size else d for d in wire.shape]
                if wire.values is not None:
                    wire.values = [smaller if v == size else v for v in wire.values]
            for node in other.nodes:
                for name in SIZED:
                    if isinstance(node.attributes.get(name), list):
                        node.attributes[name] = [smaller if v == size else v for v in node.attributes[name]]
                for name in ("scales", "zps"):
                    if (
                        node.attributes.get("qtype") == "per_channel"
                        and len(node.attributes.get(name, ())) == size
                    ):
                        node.attributes[name] = node.attributes[name][:smaller]
            yield other
    # One axis of one input alone, for what other inputs do not depend on.
    for number in inputs:
        for axis, dim in enumerate(case.wires[number].shape):
            if dim > 1 and case.wires[number].values is None:
                other = case.copy()
                other.wires[number].shape[axis] = 1
                yield other
    for number in inputs:
        wire = case.wires[number]
        if (
            wire.shape
            and wire.shape[0] == 1
            and wire.layout is None
            and all(len(case.wires[i].shape) == len(wire.shape) or not case.wires[i].shape for i in inputs)
        ):
            other = case.copy()
            for i in inputs:
                if other.wires[i].shape[:1] == [1] and other.wires[i].layout is None:
                    del other.wires[i].shape[0]
            yield other
            break


def _plainer_attributes(case: Case) -> Iterator[Case]:
    plain = {"strides": 1, "dilations": 1, "pads_begin": 0, "pads_end": 0, "output_padding": 0}
    for i, node in enumerate(case.nodes):
        for name, value in plain.items():
            given = node.attributes.get(name)
            if isinstance(given, list) and any(v != value for v in given):
                other = case.copy()
                other.nodes[i].attributes[name] = [value] * len(given)
                yield other
        if node.attributes.get("groups", 1) not in (1, 0) and node.kind != "GroupNorm":
            other = case.copy()
            other.nodes[i].attributes["groups"] = 1
            yield other
        for name in ("zps", "auto_pad", "output_padding"):
            if name in node.attributes:
                other = case.copy()
                del other.nodes[i].attributes[name]
                yield other
        scales = node.attributes.get("scales")
        if node.kind in ("Quantize", "Dequantize") and scales and any(s != 0.5 for s in scales):
            other = case.copy()
            other.nodes[i].attributes["scales"] = [0.5] * len(scales)
            yield other
