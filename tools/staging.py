"""Models that run in stages, for commands: what they take, and what their runs say."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

import numpy as np

from ..graph.compile.compiled_graph import CompiledGraph
from ..graph.graph import Graph
from ..graph.model.logical_tensor import label
from ..graph.onnx.staged_graph import CompiledStages, StagedGraph
from ..graph.open_graph import OpenGraph
from ..graph.runtime.arrays import Array, numpy_type
from ..ops.data_types import DataType
from ..ops.errors import ArgumentError
from .graph_files import with_shapes


def runnable(graph: Graph | OpenGraph, shapes: dict[str, tuple[int, ...]], name: str) -> Graph | StagedGraph:
    """What can be run for these shapes: a finalized graph, or a model in stages as it is.

    Raises:
        OneDNNGraphError: see `with_shapes`.
    """
    if isinstance(graph, StagedGraph):
        return graph.with_shapes(shapes) if shapes else graph
    return with_shapes(graph, shapes, name)


def made_up(graph: StagedGraph, missing: list[str], seed: int) -> dict[str, Array]:
    """Arrays for inputs that nobody gave, by name: normal numbers, and integers of 0 and 1, which are indices mostly.

    Raises:
        ArgumentError: nothing can be made up for one: a size of it is open, or it is no tensor of numbers.
    """
    foreign = graph.foreign
    made: dict[str, Array] = {}
    for number, tensor in enumerate(graph.inputs):
        name = label(tensor)
        if name not in missing:
            continue
        shape: tuple[int, ...] | None = tensor.dims if tensor.is_concrete else None
        dtype = None if tensor.data_type is DataType.undef else numpy_type(tensor.data_type)
        if dtype is None and foreign[name].form == "tensor":
            shape, dtype = foreign[name].shape, foreign[name].dtype
        if dtype is None:
            raise ArgumentError(
                f"nothing can be made up for input '{name}', which is no tensor of numbers; give it by --inputs"
            )
        if shape is None or -1 in shape:
            raise ArgumentError(
                f"sizes of input '{name}' are open; give them by --shape NAME=SIZES, a size for each axis"
            )
        random = np.random.default_rng([seed, number])
        values = random.integers(0, 2, shape) if dtype.kind in "iub" else random.standard_normal(shape)
        made[name] = values.astype(dtype)
    return made


def summary(value: Any) -> dict[str, Any]:
    """Type, shape and range of a result, which of a model in stages may be a sequence, text or nothing."""
    if isinstance(value, list):
        return _told(f"sequence of {len(cast('list[object]', value))}", None)
    if not isinstance(value, np.ndarray):
        return _told(type(value).__name__, None)
    array = cast("Array", value)
    told = _told("text" if array.dtype.kind in "OUS" else str(array.dtype), array.shape)
    if array.size and array.dtype.kind not in "OUSc":
        numbers = array.astype("f8")
        # Those of 64 bits have more digits than f64.
        exact: Array = array if array.dtype.kind in "iu" else numbers
        with np.errstate(all="ignore"):  # infinities of both signs have no mean
            told |= {"min": exact.min().item(), "max": exact.max().item(), "mean": numbers.mean().item()}
    return told


def _told(data_type: str, shape: tuple[int, ...] | None) -> dict[str, Any]:
    ranges: dict[str, Any] = dict.fromkeys(("min", "max", "mean"))
    return {"data_type": data_type, "shape": None if shape is None else list(shape), **ranges}


def nodes_of(model: CompiledGraph) -> dict[str, int]:
    """How often nodes of each kind ran by themselves at the latest call, and on what; none of a graph."""
    if not isinstance(model, CompiledStages):
        return {}
    return dict(Counter(f"{node.kind} on {node.by}" for node in model.nodes).most_common())
