"""The end of a translation: outputs of the model as outputs of its graph, and nothing that none of them needs."""

from __future__ import annotations

from collections.abc import Mapping

from ...ops.errors import DataTypeError, UnsupportedError
from ..graph import Graph
from ..model.logical_tensor import LogicalTensor
from .recognition.recognise import recognise
from .translation import Translation, Unmapped, Value


def finished(
    t: Translation, results: Mapping[str, Value], importer: str, *, for_sizes: bool = False
) -> Graph:
    """What the user gets.

    Args:
        results: output name → value. One that is an input or constant stays that.
        importer: the user's function.
        for_sizes: whether it is what a model with open sizes is for some of them. Such a graph may have nothing to
            compute, and runs all the same.

    Raises:
        UnsupportedError: an output that can't be made, or nothing to compute at all.
    """
    tensors: dict[str, LogicalTensor] = {}
    for name, value in results.items():
        t.label = name
        try:
            tensors[name] = t.tensor(value)
        except (Unmapped, DataTypeError) as error:
            raise UnsupportedError(f"{importer}: output {name!r}: {error}") from error
    if for_sizes and not t.graph.ops:
        name, tensor = next(iter(tensors.items()))
        tensors[name] = t.titled(name, "StaticReshape", tensor, shape=list(tensor.dims), special_zero=False)
    for name, tensor in tensors.items():
        t.graph.output(tensor, name=name)
    t.graph.prune()
    recognise(t)
    drop_unread(t.graph)
    if not t.graph.ops:
        raise UnsupportedError(
            f"{importer}: the model computes nothing; its outputs {', '.join(map(repr, results))} are inputs of it or "
            "constants, so that there is no op to run"
        )
    return t.graph


def drop_unread(graph: Graph) -> None:
    """Leaves out what ops make beside what is read or marked as an output."""
    needed = {number for _, number in graph.marked_outputs}
    needed.update(tensor.id for op in graph.ops for tensor in op.inputs)
    for tensor in [tensor for op in graph.ops for tensor in op.outputs]:
        if tensor.id not in needed:
            graph.drop_output(tensor)
