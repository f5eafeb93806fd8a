"""The graph with unknown sizes of a template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import evolve

from ...ops.errors import OneDNNGraphError, UnsupportedError
from ..graph import Graph
from ..model.logical_tensor import LogicalTensor, label
from .detours import without_detours
from .sampling import Make, Pattern, Sample, Sizes, check_bounds, far, open_names, patterns, samples, small
from .unifying import check_small, size_names, stuck, unified

ROUNDS = 4
"""How often it is tried: each time after reshapes were replaced, which may leave others that hold two sizes."""


def graph_of(
    make: Make,
    inputs: Sequence[LogicalTensor],
    sizes: Sizes,
    example: Mapping[str, Sequence[int]] | None,
    *,
    unbounded: bool,
) -> tuple[Graph, Mapping[str, Sequence[str | None]]]:
    """See `OpenGraph.with_unknown_sizes`.

    Args:
        make: the graph for some shapes.
        inputs: with -1 for open sizes.
        sizes: what is known of these.
        example: shapes for which there is a graph, if any are known.
        unbounded: see there.

    Returns:
        The graph, and the names of the sizes of its inputs and outputs, None where a size has none.
    """
    if not unbounded:
        check_bounds({key: one for key, one in sizes.items() if _is_open(inputs, key)})
    apart, *along = patterns(inputs, sizes)
    pattern = apart
    try:
        made = samples(make, apart, example)
    except UnsupportedError:
        if not along:
            raise
        # It makes no graphs for sizes that differ among inputs: none of them is then taken for another's.
        (pattern,) = along
        made = samples(make, pattern, example)
    graph, seen = _unified(made, pattern)
    further = far(make, pattern, made, sizes)
    if further:
        graph, seen = _unified([*made, *further], pattern)
    for shapes in small(pattern, made[0]) if open_names(pattern) else ():
        try:
            wanted = make(shapes)
        except OneDNNGraphError:  # it is for larger ones only
            continue
        check_small(graph, shapes, wanted)
    return graph, size_names(graph, seen, pattern)


def _is_open(inputs: Sequence[LogicalTensor], key: tuple[str, int]) -> bool:
    return any(label(t) == key[0] and t.shape is not None and t.shape[key[1]] < 0 for t in inputs)


def _unified(made: Sequence[Sample], pattern: Pattern) -> tuple[Graph, Sequence[Sample]]:
    """See `unified`, of the graphs, or else of what says the same with axes that stand apart."""
    errors: list[UnsupportedError] = []
    for _ in range(ROUNDS):
        try:
            return unified(made, pattern), made
        except UnsupportedError as error:
            errors.append(error)
            places = stuck([sample.graph for sample in made])
            if not places:  # something else is in the way, and would be without the reshapes
                raise
            made = [evolve(one, graph=without_detours(one.graph, places)) for one in made]
    raise errors[0]  # which names an op of the model
