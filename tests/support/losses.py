"""Losses as one graph each, with their gradients: what their tests run."""

import numpy as np
import onednn_graph as og

NAMES = {"float32": "f32", "float64": "f64", "int32": "s32", "int64": "s64"}


def run(build, arrays, *, by, opened=(), second=False, backend=None):
    """What a loss gives for arrays.

    Args:
        build: from the graph and its inputs to the loss; those behind the second one are given by name.
        arrays: of the inputs, by name.
        by: names of the inputs whose gradients are wanted, of the sum of the loss.
        opened: axes whose sizes the graph does not know.
        second: whether the gradient of the sum of the gradients is wanted, too.
        backend: as for `compile`.

    Returns:
        The loss, its gradients, and the second ones.
    """
    graph = og.Graph()
    inputs = {
        name: graph.input(
            name,
            NAMES[a.dtype.name],
            [-1 if n in opened or n - a.ndim in opened else d for n, d in enumerate(a.shape)],
        )
        for name, a in arrays.items()
    }
    x, y, *_ = inputs.values()
    loss = graph.output(build(graph, x, y, **dict(list(inputs.items())[2:])), name="loss")
    wanted = [inputs[name] for name in by]
    gradients = graph.gradients(total(graph, loss), wanted)
    for name, gradient in zip(by, gradients, strict=True):
        graph.output(gradient, name=f"by {name}")
    if second:
        sums = [total(graph, graph.op("Square", g)) for g in gradients]
        both = sums[0] if len(sums) == 1 else graph.op("Add", *sums)
        for name, gradient in zip(by, graph.gradients(both, wanted), strict=True):
            graph.output(gradient, name=f"twice by {name}")
    options = {} if backend is None else {"backend": backend}
    found = graph.compile(**options)({name: np.array(a, order="C") for name, a in arrays.items()})
    firsts = [found[f"by {name}"] for name in by]
    seconds = [found[f"twice by {name}"] for name in by] if second else []
    return found["loss"], firsts, seconds


def total(graph, tensor):
    """The sum of all elements."""
    return graph.op("ReduceSum", tensor, axes=list(range(len(tensor.shape)))) if tensor.shape else tensor
