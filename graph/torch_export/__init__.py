"""Modules of torch as graphs of oneDNN Graph ops, by torch.export.

    model = og.from_torch(module, (x,)).compile()
    y = model(x)["output"]

torch is imported when it is needed; it is an extra.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..graph import Graph
from ..open_graph import OpenGraph

__all__ = ["from_torch"]


def from_torch(
    module: Any,
    example_inputs: Sequence[Any] | None = None,
    example_named: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    training: bool = False,
) -> Graph | OpenGraph:
    """A graph from a torch module in inference mode or in training, or from an `ExportedProgram`.

    The module goes through `torch.export.export(module.eval(), …)`, and all sizes are those of the example but for
    those that `dynamic_shapes` leaves open. With any of these it is an `OpenGraph`: ops and shapes are made for the
    sizes of each call; its `with_unknown_sizes` is one graph where these ops are the same for all sizes.
    Parameters and buffers are held where they lie, without a copy, as constants of the graph. What a compiled
    model has prepared of them does not follow when the module is trained on: import it anew then. The graph is not
    finalized, so that more can be built onto it.

    Buffers and parameters that the module changes in its forward, as caches of keys and values and counters are, are
    copied, and are parameters of the graph under their names, which each call assigns: `graph.state_parameters`. What
    is put into one by indices or as a slice is written where it lies, if nobody reads what was there before. Graphs
    for other sizes of an `OpenGraph` share them.

    Args:
        module: a `torch.nn.Module`, or what `torch.export.export` returned.
        example_inputs: a tuple of tensors, as the module is called with; nothing for an ExportedProgram.
        example_named: keyword arguments likewise.
        dynamic_shapes: which sizes stay open, as `torch.export.export` takes it: for each argument, by name or in
            order, a mapping from axes to `torch.export.Dim`, `Dim.AUTO` or `Dim.DYNAMIC`.
        training: whether it is a graph to be trained. Parameters that need gradients are copied, and are parameters of
            the graph under their names in `state_dict`, one for all that share their memory; other tensors stay
            constants. BatchNorm normalises by the statistics of the batch, and each step moves its running ones.
            Dropout draws by `seed`, one more input of s64 without axes. The module counts as in training; parts of it
            in inference mode stay so, unless the module itself is.

    Raises:
        UnsupportedError: nodes that can't be translated, all of them in one message; a module that
            torch can't export, or that computes nothing; or torch is not installed.
        ArgumentError, ArgumentTypeError: no module, or example inputs are missing.
    """
    from .importer import import_torch

    return import_torch(module, example_inputs, example_named, dynamic_shapes, training=training)
