"""Graphs for some sizes in which axes stand apart that reshapes merge and take apart again later, in the same numbers.

A part along the first axis is taken of a tensor with all axes behind it as one, and a product of matrices is made of
rows of all leading axes as one. With one open size that is no matter; of two, a reshape back would have to know one.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any, cast

import numpy as np

from ..core.building import content_of
from ..graph import Graph
from ..model.logical_tensor import LogicalTensor
from ..model.op import Op
from ..model.topology import Topology

ROWS = 2
"""Axes of what a product of matrices makes of rows."""


def without_detours(graph: Graph, places: Collection[int]) -> Graph:
    """A graph of its own with other ops in the place of some reshapes, where others do the same.

    Args:
        places: of the reshapes, among its ops.
    """
    made = graph.with_shapes({})
    ops = made.ops
    topology = Topology(ops, {t.id for t in made.outputs})
    changed: list[Op] = []
    for place in places:
        if ops[place].kind != "StaticReshape":
            continue
        ways = (way(made, topology, ops[place]) for way in (_selected, _row_wise, _turned))
        changed += [next((found for found in ways if found is not None), ops[place])]
    made.replace_ops(changed)
    ends = content_of(graph).named_outputs()  # what nobody reads any more is none
    made.prune({name: made.tensor(number) for name, number in ends})
    return made


def _free(graph: Graph, wanted: str) -> str:
    names, number, name = content_of(graph).names, 1, wanted
    while name in names:
        number += 1
        name = f"{wanted}.{number}"
    return name


def _reshaped(graph: Graph, tensor: LogicalTensor, op: Op) -> Op:
    """A reshape in the place of another one, of another tensor."""
    shape = list(op.outputs[0].dims)
    return Op(op.id, op.kind, [tensor], op.outputs, name=op.name, shape=shape, special_zero=False)


def _source(topology: Topology, tensor: LogicalTensor, kind: str) -> Op | None:
    """The op that makes a tensor, if it is of a kind."""
    op = topology.producer(tensor)
    return op if op is not None and op.kind == kind else None


def _selected(graph: Graph, topology: Topology, op: Op) -> Op | None:
    """A reshape of what a MaxPool takes of one axis among (1, before, axis, behind), as one of what Gather takes."""
    pool = _source(topology, op.inputs[0], "MaxPool")
    flat = None if pool is None else _source(topology, pool.inputs[0], "StaticReshape")
    if pool is None or flat is None:
        return None
    source, (one, before, size, behind) = flat.inputs[0], _four(flat.outputs[0].dims)
    begin, end = (pool.attributes.integers(name) for name in ("pads_begin", "pads_end"))
    whole = pool.attributes.integers("kernel") == (1, 1) and one == 1 and begin[1:] == end[1:] == (0,)
    if not whole or not size or begin[0] > 0 or end[0] > 0 or pool.attributes.string("data_format") != "NCX":
        return None
    dims = source.dims
    axis = next(
        (
            a
            for a, d in enumerate(dims)
            if (math.prod(dims[:a]), d, math.prod(dims[a + 1 :])) == (before, size, behind)
        ),
        None,
    )
    if axis is None or size + begin[0] + end[0] != 1:
        return None
    place = graph.constant(np.asarray(-begin[0], np.int64), name=_free(graph, f"{pool.name}.index"))
    part = _one(graph, "HostGather", [source, place], f"{pool.name}.part", {"axis": axis})
    return _reshaped(graph, part, op)


def _four(dims: Sequence[int]) -> tuple[int, int, int, int]:
    """Four axes; such as no part is taken of where there are others."""
    if len(dims) != 4:
        return (0, 0, 0, 0)
    return dims[0], dims[1], dims[2], dims[3]


def _row_wise(graph: Graph, topology: Topology, op: Op) -> Op | None:
    """A reshape of (rows, columns) to leading axes and columns, of what is made of these axes themselves."""
    target = op.outputs[0].dims
    if len(target) <= ROWS or len(op.inputs[0].dims) != ROWS:
        return None
    lead = target[:-1]
    if op.inputs[0].dims != (math.prod(lead), target[-1]):
        return None
    between: list[Op] = []
    tensor = op.inputs[0]
    while True:
        found = topology.producer(tensor)
        if found is None or tensor.id in topology.outputs or len(topology.readers(tensor)) > 1:
            return None
        if found.kind == "StaticReshape":
            break
        if not _takes_rows(topology, found):
            return None
        between.insert(0, found)
        tensor = found.inputs[0]
    source = found.inputs[0]
    width = math.prod(source.dims[len(lead) :])
    if not between or source.dims[: len(lead)] != lead or found.outputs[0].dims != (math.prod(lead), width):
        return None
    made = source
    if source.dims != (*lead, width):
        given: dict[str, Any] = {"shape": [*lead, width], "special_zero": False}
        made = _one(graph, "StaticReshape", [source], f"{found.name}.apart", given)
    for each in between:
        made = _one(graph, each.kind, [made, *each.inputs[1:]], f"{each.name}.apart", {**each.attributes})
    return _reshaped(graph, made, op)


def _one(
    graph: Graph, kind: str, inputs: Sequence[LogicalTensor], name: str, attributes: dict[str, Any]
) -> LogicalTensor:
    given = [graph.tensor(t.id) for t in inputs]
    made: Any = graph.op(cast("Any", kind), *given, name=_free(graph, name), **attributes)
    return cast("LogicalTensor", made[0] if isinstance(made, tuple) else made)


def _takes_rows(topology: Topology, op: Op) -> bool:
    """Whether an op makes of each row of its first input a row, whatever the others are."""
    if len(op.outputs) > 1:
        return False
    others = op.inputs[1:]
    if op.kind == "MatMul":
        plain = not op.attributes.flag("transpose_a") and len(others[0].dims) == ROWS
        return plain and all(topology.producer(t) is None and len(t.dims) <= 1 for t in others[1:])
    if op.schema.family == "eltwise" and not op.kind.endswith("Backward"):
        return not others
    return op.schema.family == "binary" and len(others) == 1 and len(others[0].dims) <= 1


def _turned(graph: Graph, topology: Topology, op: Op) -> Op | None:
    """A reshape with the axes that it leaves alone before all others, and those of one element behind them.

    So they have the same places before and after it.
    """
    source, target = op.inputs[0], op.outputs[0].dims
    groups = _groups(source.dims, target)
    kept = [group for group in groups if len(group[0]) == len(group[1]) == 1]
    rest = [group for group in groups if group not in kept]
    orders: list[list[int]] = []
    for side, dims in enumerate((source.dims, target)):
        order = [axis for group in (*kept, *rest) for axis in group[side]]
        orders.append([*order, *(axis for axis, d in enumerate(dims) if d == 1)])
    before, after = orders
    if before == sorted(before) and after == sorted(after):
        return None
    if before != sorted(before):
        source = _one(graph, "StaticTranspose", [source], f"{op.name}.turned", {"order": before})
    if after == sorted(after):
        return _reshaped(graph, source, op)
    given: dict[str, Any] = {"shape": [target[axis] for axis in after], "special_zero": False}
    flat = _one(graph, "StaticReshape", [source], f"{op.name}.apart", given)
    back = [after.index(axis) for axis in range(len(target))]
    return Op(op.id, "StaticTranspose", [flat], op.outputs, name=op.name, order=back)


def _groups(source: Sequence[int], target: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """The axes, but for those of one element, in the smallest groups of which one becomes the other by itself."""
    left = [axis for axis, d in enumerate(source) if d != 1]
    right = [axis for axis, d in enumerate(target) if d != 1]
    groups: list[tuple[list[int], list[int]]] = []
    while left and right:
        taken = [left.pop(0)], [right.pop(0)]
        counts = [source[taken[0][0]], target[taken[1][0]]]
        while counts[0] != counts[1]:
            side = int(counts[0] > counts[1])
            axes, dims = ((left, source), (right, target))[side]
            taken[side].append(axes.pop(0))
            counts[side] *= dims[taken[side][-1]]
        groups.append(taken)
    return groups
