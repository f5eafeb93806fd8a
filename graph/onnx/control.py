"""ONNX's nodes that hold graphs: which of them run, and how often."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from ...ops.errors import ArgumentError
from .types import numpy_type_of


class Body(Protocol):
    """A node with graphs inside."""

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute of the node."""
        ...

    def run(self, graph: Any, inputs: Sequence[Any]) -> list[Any]:
        """The outputs of a graph inside the node."""
        ...


def _if(body: Body, inputs: Sequence[Any]) -> list[Any]:
    chosen = "then_branch" if _truth(inputs[0]) else "else_branch"
    return body.run(body.attribute(chosen), [])


def _loop(body: Body, inputs: Sequence[Any]) -> list[Any]:
    most = None if inputs[0] is None else int(np.asarray(inputs[0]).reshape(()))
    going = len(inputs) < 2 or inputs[1] is None or _truth(inputs[1])
    graph = body.attribute("body")
    carried = list(inputs[2:])
    scanned: list[list[Any]] = [[] for _ in graph.output[1 + len(carried) :]]
    number = 0
    while going and (most is None or number < most):
        given = (_as_declared(number, np.int64, graph, 0), _as_declared(going, np.bool_, graph, 1), *carried)
        condition, *made = body.run(graph, given)
        going = _truth(condition)
        carried = made[: len(carried)]
        for row, value in zip(scanned, made[len(carried) :], strict=True):
            row.append(value)
        number += 1
    infos = graph.output[1 + len(carried) :]
    return [*carried, *(_stacked(row, info) for row, info in zip(scanned, infos, strict=True))]


def _scan(body: Body, inputs: Sequence[Any]) -> list[Any]:
    graph = body.attribute("body")
    count = int(body.attribute("num_scan_inputs"))
    state, rows = list(inputs[: len(inputs) - count]), [np.asarray(v) for v in inputs[len(inputs) - count :]]
    results = len(graph.output) - len(state)
    axes = _listed(body, "scan_input_axes", count)
    backwards = _listed(body, "scan_input_directions", count)
    moved = [np.moveaxis(row, axis, 0) for row, axis in zip(rows, axes, strict=True)]
    moved = [row[::-1] if back else row for row, back in zip(moved, backwards, strict=True)]
    lengths = {len(row) for row in moved}
    if len(lengths) != 1:
        raise ArgumentError(f"a Scan of the ONNX model must have inputs of one length, got {sorted(lengths)}")
    scanned: list[list[Any]] = [[] for _ in range(results)]
    for number in range(lengths.pop()):
        made = body.run(graph, [*state, *(np.array(row[number]) for row in moved)])
        state = made[: len(state)]
        for row, value in zip(scanned, made[len(state) :], strict=True):
            row.append(value)
    infos = graph.output[len(state) :]
    stacked = [_stacked(row, info) for row, info in zip(scanned, infos, strict=True)]
    stacked = [
        row[::-1] if back else row
        for row, back in zip(stacked, _listed(body, "scan_output_directions", results), strict=True)
    ]
    ends = _listed(body, "scan_output_axes", results)
    return [*state, *(np.moveaxis(row, 0, axis) for row, axis in zip(stacked, ends, strict=True))]


def _map(body: Body, inputs: Sequence[Any]) -> list[Any]:
    """SequenceMap: the graph for each element of a sequence, with those of other sequences, and tensors as they are."""
    graph = body.attribute("body")
    made = [
        body.run(graph, [one[number] if isinstance(one, list) else one for one in inputs])
        for number in range(len(inputs[0]))
    ]
    return [[row[place] for row in made] for place in range(len(graph.output))]


CONTROL: dict[str, Callable[[Body, Sequence[Any]], list[Any]]] = {
    "If": _if,
    "Loop": _loop,
    "Scan": _scan,
    "SequenceMap": _map,
}
"""ONNX op → how it runs."""


def _as_declared(value: int | bool, dtype: Any, graph: Any, place: int) -> Any:
    """A scalar as the body of a Loop takes it: with one axis of size 1 where the body says so, as exporters have."""
    rank = len(graph.input[place].type.tensor_type.shape.dim)
    return np.asarray(value, dtype).reshape([1] * min(rank, 1))


def _truth(value: Any) -> bool:
    return bool(np.asarray(value).reshape(()))


def _listed(body: Body, name: str, count: int) -> list[int]:
    return list(body.attribute(name) or [0] * count)


def _stacked(row: Sequence[Any], info: Any) -> Any:
    """What runs of a graph have made, one behind the other; nothing has the type and sizes that the graph says."""
    if row:
        return np.stack([np.asarray(value) for value in row])
    tensor = info.type.tensor_type
    sizes = [size.dim_value for size in tensor.shape.dim]
    return np.empty((0, *sizes), numpy_type_of(tensor.elem_type))
