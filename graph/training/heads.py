"""Another last layer for a graph that comes from a file."""

from __future__ import annotations

import numpy as np

from ...ops.data_types import DataType
from ...ops.errors import ArgumentError, ArgumentTypeError, GraphError, UnsupportedError, nearest
from ...ops.values import format_value, integer
from ..graph import Graph
from ..model.logical_tensor import LogicalTensor, label
from ..open_graph import OpenGraph

PASSED = ("Add", "BiasAdd", "LogSoftmax", "Sigmoid", "SoftMax")
"""Kinds that a head has behind its product."""
BY_HAND = "build the layer by graph.matmul, and graph.prune([new, loss]) takes out the old one"


def replace_head(
    graph: Graph | OpenGraph, classes: int, *, output: str | None = None, name: str = "head", seed: int = 0
) -> LogicalTensor:
    """Puts a new dense layer in the place of the one that an output comes from, as for other classes.

    What the last product by weights reads, the features, goes into a new one, drawn as torch draws its `Linear`, with
    a bias of zeros. The output that was there goes, with all that only it needed, and the new one takes its name.

    Args:
        graph: open, as `from_onnx(…, training=True)` gives it.
        classes: how many numbers the new layer makes of the features.
        output: the output's name; the only one's where there is one.
        name: of the new parameters, `{name}.weight` (features, classes) and `{name}.bias` (classes).
        seed: of the numbers that are drawn.

    Returns:
        The new output, (…, classes), f32.

    Raises:
        GraphError: it is an `OpenGraph`, as a model without parameters is.
        ArgumentError, ArgumentTypeError: there is no such output, or several where none is named; classes is no count.
        UnsupportedError: the output does not come from a product by weights, whose features are f32 and of known size.
    """
    if isinstance(graph, OpenGraph):
        raise GraphError(
            f"replace_head takes a Graph with parameters, got {graph!r}; give Trainer a "
            "function of the loss, and replace the head in it, where the graph is made for some sizes"
        )
    count = None if isinstance(classes, bool) else integer(classes)
    if count is None:
        raise ArgumentTypeError(f"replace_head: classes must be an integer, got {format_value(classes)}")
    if count < 1:
        raise ArgumentError(f"replace_head: classes must be 1 or more, got {count}")
    names = graph.output_names
    if output is None and len(names) != 1:
        raise ArgumentError(
            f"replace_head: name the output whose layer is to go, output=…; the graph has {', '.join(map(repr, names))}"
        )
    wanted = names[0] if output is None else output
    if wanted not in names:
        raise ArgumentError(
            f"replace_head: the graph has no output {format_value(wanted)}{nearest(wanted, names)}"
        )
    outputs = dict(zip(names, graph.outputs, strict=True))
    features = _features(graph, outputs[wanted])
    width = features.shape[-1] if features.shape else 0
    if width < 1 or features.data_type is not DataType.f32:
        raise UnsupportedError(
            f"replace_head: the features {features} must be f32, with a last axis of known size; {BY_HAND}"
        )
    bound = width**-0.5
    drawn = np.random.default_rng(seed).uniform(-bound, bound, (width, count)).astype(np.float32)
    weight = graph.parameter(drawn, name=f"{name}.weight")
    bias = graph.parameter(np.zeros(count, np.float32), name=f"{name}.bias")
    made = graph.matmul(features, weight, bias)
    graph.prune({n: made if n == wanted else tensor for n, tensor in outputs.items()})
    return made


def _features(graph: Graph, output: LogicalTensor) -> LogicalTensor:
    """What the last product by weights reads that the output comes from.

    Raises:
        UnsupportedError: there is none, or something else is between.
    """
    producers = {tensor.id: op for op in graph.ops for tensor in op.outputs}
    inputs = {tensor.id for tensor in graph.inputs}

    def held(tensor: LogicalTensor) -> bool:
        op = producers.get(tensor.id)
        return tensor.id not in inputs if op is None else all(map(held, op.inputs))

    tensor = output
    while (op := producers.get(tensor.id)) is not None:
        computed = [t for t in op.inputs if not held(t)]
        if op.kind == "MatMul" and computed[:1] == [op.inputs[0]] and len(computed) == 1:
            if op.attributes.flag("transpose_a"):
                break
            return graph.tensor(computed[0].id)
        if op.kind not in PASSED or len(computed) != 1:
            break
        (tensor,) = computed
    what = "nothing" if op is None else str(op)
    raise UnsupportedError(
        f"replace_head: output {label(output)!r} must come from a MatMul by weights, with a bias at most behind it, "
        f"got {what}; {BY_HAND}"
    )
