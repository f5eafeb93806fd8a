"""A graph by us and by native oneDNN Graph, side by side: what `onednn-graph compare` does.

Native runs in a child process, where ours is timed beside it in turns; results of both are judged against the NumPy
reference by the criteria of `onednn-graph check`.
"""

from __future__ import annotations

import math
from typing import Any

from ..graph.graph import Graph
from ..graph.model.logical_tensor import LogicalTensor, label
from ..graph.runtime.arrays import Array
from ..ops.errors import ArgumentError, UnsupportedError
from ..ops.records import frozen
from .bench import Timing, timed
from .benchdnn.reference import Expected, reference
from .benchdnn.tolerances import Comparison, rule_for
from .benchdnn.tolerances import compare as judged
from .comparisons import difference, on_shifting_stack, ours, placed_inputs
from .native_child import TIME_LIMIT, NativeRun, run_in_child

REFERENCE_ELEMENTS = 5e7
"""Graphs of more elements are not computed in f64."""


@frozen(kw_only=True)
class ComparedOutput:
    """One output of the graph.

    Attributes:
        tensor: which.
        apart: the largest difference of ours and native's; None where native has no result.
        ours, native: against the reference; None where there is no result, or no reference.
    """

    tensor: LogicalTensor
    apart: float | None
    ours: Comparison | None
    native: Comparison | None

    def as_data(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "id": self.tensor.id,
            "name": label(self.tensor),
            "data_type": self.tensor.data_type.value,
            "shape": list(self.tensor.dims),
            "ours_against_native": _number(self.apart),
            "ours_against_reference": _judgement(self.ours),
            "native_against_reference": _judgement(self.native),
        }


@frozen(kw_only=True)
class Compared:
    """What came out.

    Attributes:
        kinds: kind of each op, by id.
        partitions: ids of the ops of each of our partitions, in order.
        told: who runs each of them, and with which kernels.
        outputs: of the graph.
        unjudged: why there is no reference, or empty.
        ours: our times; beside native's, in turns, where it has any.
        native: how native fared.
    """

    kinds: dict[int, str]
    partitions: tuple[tuple[int, ...], ...]
    told: tuple[str, ...]
    outputs: tuple[ComparedOutput, ...]
    unjudged: str
    ours: Timing
    native: NativeRun

    @property
    def ok(self) -> bool:
        """Whether our results are what the reference says, where there is one."""
        return all(output.ours is None or output.ours.ok for output in self.outputs)

    @property
    def native_is_wrong(self) -> bool:
        """Whether a result of native is not what the reference says."""
        return any(output.native is not None and not output.native.ok for output in self.outputs)

    @property
    def ratios(self) -> tuple[float, float] | None:
        """Native's time over ours, by the least times and by the medians; above 1 ours is faster."""
        theirs = self.native.native
        return None if theirs is None else (theirs.least / self.ours.least, theirs.median / self.ours.median)

    def as_data(self) -> dict[str, Any]:
        """Dictionaries, lists, strings and numbers, for JSON."""
        ratios = self.ratios
        return {
            "ok": self.ok,
            "ours": {
                "partitions": [
                    {"ops": list(ids), "kinds": [self.kinds[i] for i in ids], "told": told}
                    for ids, told in zip(self.partitions, self.told, strict=True)
                ],
                "seconds": _seconds(self.ours),
            },
            "native": {
                "problem": self.native.problem or None,
                "signal": self.native.signal or None,
                "wrong": self.native_is_wrong,
                "partitions": [
                    {"ops": list(ids), "kinds": [self.kinds[i] for i in ids]}
                    for ids in self.native.partitions
                ],
                "kernels": list(self.native.kernels),
                "free_layouts": self.native.free_layouts,
                "seconds": _seconds(self.native.native),
            },
            "native_over_ours": None if ratios is None else {"min": ratios[0], "median": ratios[1]},
            "outputs": [output.as_data() for output in self.outputs],
            "no_reference": self.unjudged or None,
        }


def _number(value: float | None) -> float | str | None:
    """JSON has no infinity."""
    return value if value is None or math.isfinite(value) else str(value)


def _judgement(found: Comparison | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "ok": found.ok,
        "largest": _number(found.difference),
        "relative": _number(found.relative),
        "wrong": found.wrong,
        "message": found.message,
    }


def _seconds(timing: Timing | None) -> dict[str, float] | None:
    if timing is None:
        return None
    return {"min": timing.least, "median": timing.median, "max": timing.most, "runs": timing.runs}


def compare_graph(
    graph: Graph,
    *,
    seed: int = 0,
    seconds: float = 1.0,
    backend: str | None = None,
    limit: float = TIME_LIMIT,
) -> Compared:
    """Runs a graph by us and natively.

    Args:
        graph: finalized, with all shapes known.
        seed: of the data.
        seconds: how long to take times.
        backend: the only one that ours may use; None for all.
        limit: seconds that native may take, beside those for times.

    Raises:
        ArgumentError: a size that is known only at execution, or no time.
        OneDNNGraphError: what ours raises.
    """
    unknown = [t for op in graph.ops for t in (*op.inputs, *op.outputs) if not t.is_concrete]
    if unknown:
        raise ArgumentError(
            f"{unknown[0]} has sizes that are known only at execution; write them into the graph"
        )
    if not (seconds > 0 and math.isfinite(seconds)):
        raise ArgumentError(f"seconds must be above 0, got {seconds}")
    inputs = placed_inputs(graph, seed)
    mine = ours(graph, inputs, backend=backend)
    mine.call()
    results = {number: array.copy() for number, array in mine.outputs.items()}
    native = run_in_child(graph, seed=seed, seconds=seconds, backend=backend, limit=limit)
    timing = native.ours or timed(on_shifting_stack(mine.call), seconds)
    expected, unjudged = _expected(graph, inputs)
    return Compared(
        kinds={op.id: op.kind for op in graph.ops},
        partitions=mine.partitions,
        told=mine.told,
        outputs=tuple(
            _compared(
                graph, tensor, results[tensor.id], native.outputs.get(tensor.id), expected.get(tensor.id)
            )
            for tensor in graph.outputs
        ),
        unjudged=unjudged,
        ours=timing,
        native=native,
    )


def _expected(graph: Graph, inputs: dict[int, Array]) -> tuple[dict[int, Expected], str]:
    """What the reference says of the outputs, or why it says nothing."""
    tensors = {t.id: t for op in graph.ops for t in (*op.inputs, *op.outputs)}
    elements = sum(math.prod(t.dims) for t in tensors.values())
    if elements > REFERENCE_ELEMENTS:
        return {}, f"its {elements:.1e} elements are too many for a reference in f64"
    try:
        return reference(graph, inputs, [t.id for t in graph.outputs]), ""
    except UnsupportedError as error:
        return {}, str(error)


def _compared(
    graph: Graph, tensor: LogicalTensor, mine: Array, theirs: Array | None, expected: Expected | None
) -> ComparedOutput:
    def judge(array: Array | None) -> Comparison | None:
        if array is None or expected is None:
            return None
        return judged(tensor.id, tensor.data_type, expected, array, rule_for(graph, tensor.id, expected))

    return ComparedOutput(
        tensor=tensor,
        apart=None if theirs is None else difference(mine, theirs),
        ours=judge(mine),
        native=judge(theirs),
    )
