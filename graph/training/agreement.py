"""What processes that train one model together must have in common, and how they find out that they have not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ..graph import Graph
from ..model.logical_tensor import LogicalTensor, label
from .optimizers import Optimizer
from .step import Communicator

ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
"""Where an object lies in the memory of one process, in its text."""
LINES = 32
"""As many are compared at once, so that what is told of a difference is short, however large the graph."""


def agree(
    comm: Communicator, graph: Graph, loss: LogicalTensor, optimizers: Mapping[str, Optimizer], about: object
) -> None:
    """Meets all processes, and compares what they train.

    Sizes may differ, as their parts of a batch do, and so attributes that are integers are left out.

    Args:
        comm: of this process.
        graph: the model's.
        loss: of the graph.
        optimizers: by the parameter's name.
        about: what else must be the same.

    Raises:
        ResourceError: the processes have different graphs, parameters or optimizers.
    """
    comm.meet("the settings of Trainer", about)
    for what, lines in (
        ("the parameters of the graph", _parameters(graph, optimizers)),
        ("the ops of the graph", _ops(graph, loss)),
    ):
        found = list(lines)
        comm.meet(f"the number of {what}", len(found))
        for begin in range(0, len(found), LINES):
            comm.meet(what, found[begin : begin + LINES])


def _parameters(graph: Graph, optimizers: Mapping[str, Optimizer]) -> Iterable[str]:
    for tensor in graph.parameter_tensors:
        name = label(tensor)
        moved = f" by {ADDRESS.sub('', repr(optimizers[name]))}" if name in optimizers else ""
        yield f"{name} {tensor.data_type.value} {list(tensor.dims)}{moved}"


def _ops(graph: Graph, loss: LogicalTensor) -> Iterable[str]:
    """What each op is and what it reads, by the number of the op that makes it, or by name."""
    made = {t.id: f"#{n}.{port}" for n, op in enumerate(graph.ops) for port, t in enumerate(op.outputs)}
    for number, op in enumerate(graph.ops):
        read = ", ".join(made.get(t.id) or t.name or t.property_type.value for t in op.inputs)
        said = {name: value for name, value in op.attributes.items() if isinstance(value, bool | str | float)}
        also = "".join(f", {name}={value!r}" for name, value in sorted(said.items()))
        yield f"#{number} {op.kind}({read}{also})"
    yield f"loss {made.get(loss.id, loss.name)}"
