"""The end of a translation: outputs of the model as outputs of its graph, and nothing that none of them needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...ops.errors import UnsupportedError
from ..graph import Graph
from ..model.logical_tensor import LogicalTensor
from ..model.op import Op
from ..runtime.arrays import Array
from .imported import Imported
from .translation import Translation, Unmapped, Value


def finished(t: Translation, inputs: Sequence[str], results: Mapping[str, Value], importer: str) -> Imported:
    """What the user gets.

    Args:
        inputs: names of the model's inputs.
        results: output name → value. One that is an input or constant stays that.
        importer: the user's function.

    Raises:
        UnsupportedError: an output that can't be made, or nothing to compute at all.
    """
    found: dict[str, LogicalTensor | Array] = {}
    for name, value in results.items():
        t.label = name
        try:
            found[name] = value if isinstance(value, np.ndarray) else t.tensor(value)
        except Unmapped as error:
            raise UnsupportedError(f"{importer}: output {name!r}: {error}") from error
    wanted = [tensor for tensor in found.values() if isinstance(tensor, LogicalTensor)]
    ops = _needed(t.graph.ops, wanted)
    if not ops:
        raise UnsupportedError(
            f"{importer}: the model computes nothing; its outputs {', '.join(map(repr, found))} are inputs of it or "
            "constants, so that there is no op to run"
        )
    graph = t.graph
    if len(ops) < len(graph.ops):
        graph = Graph()
        for op in ops:
            graph.add_op(op)
    made = {tensor.id for op in ops for tensor in op.outputs}
    for tensor in wanted:
        if tensor.id in made:
            graph.output(tensor)
    read = {tensor.name for op in ops for tensor in op.inputs}
    constants = {name: array for name, array in t.constants.items() if name in read}
    return Imported(graph=graph, constants=constants, inputs=tuple(inputs), results=found)


def _needed(ops: Sequence[Op], wanted: Sequence[LogicalTensor]) -> list[Op]:
    """The ops that some of these tensors depend on; a part of a split that nobody reads, say, is none."""
    ids = {tensor.id for tensor in wanted}
    needed: list[Op] = []
    for op in reversed(ops):  # each op stands behind those that it reads from
        if any(tensor.id in ids for tensor in op.outputs):
            needed.append(op)
            ids.update(tensor.id for tensor in op.inputs)
    return needed[::-1]
